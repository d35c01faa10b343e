//! Passes begin and end.

use super::{Fleet, Flight, Purpose, Role, Worker};
use crate::serving::record::{Gap, PassRecord};
use crate::serving::scheduler::{Pass, Scheduler};
use fabricsim_plan::job::{Batch, Kernels, StreamId, Tag, Task, Work};
use fabricsim_units::Time;

impl Fleet<'_> {
    /// As many passes as an engine has stages are under way, if there is anything to compute.
    pub(super) fn launch(&mut self, engine: u32, now: Time, out: &mut Batch) {
        loop {
            let worker = &mut self.workers[engine as usize];
            if worker.flights.len() >= worker.engine.stages.len() {
                return;
            }
            let mut flight = self.spare.pop().unwrap_or_default();
            let parts = worker.engine.parts.len();
            flight.passes.resize_with(parts, Pass::default);
            self.shapes.resize_with(parts, Default::default);
            let mut any = false;
            for (part, pass) in flight.passes.iter_mut().enumerate() {
                let scheduler = &mut worker.engine.parts[part];
                let policy = worker.engine.policy;
                policy.decide(scheduler, &self.requests, pass);
                scheduler.begin(pass);
                self.shapes[part].read(pass, scheduler);
                any |= !pass.parts.is_empty();
                self.parts += pass.parts.len() as u64;
            }
            for (scheduler, pass) in worker.engine.parts.iter().zip(&flight.passes) {
                let pool = &scheduler.pool;
                let taken = u64::from(pool.total() - pool.free()) * 1000;
                let share = (taken / u64::from(pool.total().max(1))) as u16;
                self.served.peak_kv_permille = self.served.peak_kv_permille.max(share);
                for part in &pass.parts {
                    let live = scheduler.live(part.live);
                    let record = &mut self.served.records[live.request as usize];
                    if record.scheduled.is_none() {
                        record.scheduled = Some(now);
                        record.cached = live.cached;
                    }
                }
                for &id in &pass.preempted {
                    let request = scheduler.live(id).request;
                    self.served.records[request as usize].preemptions += 1;
                }
            }
            if !any {
                self.spare.push(flight);
                return;
            }
            flight.begun = now;
            flight.time = self.cost.time(engine as usize, &self.shapes);
            if self.keeps_passes {
                let record = self.pass_record(engine, &flight);
                self.served.passes.push(record);
            }
            let time = flight.time;
            let worker = &mut self.workers[engine as usize];
            flight.number = worker.begun;
            worker.begun = worker.begun.wrapping_add(1);
            let number = flight.number;
            worker.flights.push_back(flight);
            self.write_stage((engine, 0, number), time, out);
        }
    }

    /// What is kept of a pass that begins; its end is that of its last stage if nothing comes between.
    fn pass_record(&self, engine: u32, flight: &Flight) -> PassRecord {
        let Worker {
            engine: of,
            arriving,
            ..
        } = &self.workers[engine as usize];
        let total = |part: &Scheduler| u64::from(part.pool.total());
        let taken = |part: &Scheduler| u64::from(part.pool.total() - part.pool.free());
        let all: u64 = of.parts.iter().map(total).sum();
        let held: u64 = of.parts.iter().map(taken).sum();
        let waiting: usize = of.parts.iter().map(|part| part.waiting.len()).sum();
        let arriving: usize = arriving.iter().map(|queue| queue.len()).sum();
        PassRecord {
            engine,
            begun: flight.begun,
            ended: flight.begun + flight.time.times(of.stages.len() as u64),
            prompt_tokens: self.shapes.iter().map(|s| s.prompt_tokens() as u32).sum(),
            decodes: self.shapes.iter().map(|shape| shape.decodes).sum(),
            waiting: (waiting + arriving) as u32,
            kv_permille: (held * 1000 / all.max(1)) as u16,
        }
    }

    /// A stage of a pass as a task.
    fn write_stage(&mut self, (engine, stage, pass): (u32, u16, u32), time: Time, out: &mut Batch) {
        let actor = self.workers[engine as usize].engine.stages[usize::from(stage)];
        let task = Task {
            stream: StreamId(0),
            after: Default::default(),
            work: Work::Kernels(Kernels {
                compute: time,
                ..Kernels::default()
            }),
            tag: Tag::default(),
        };
        self.served.busy += time;
        let purpose = Purpose::Stage {
            engine,
            stage,
            pass,
        };
        self.write(actor, task, Some(purpose), out);
    }

    /// A stage of a pass is over: the next one begins, or the pass is over.
    pub(super) fn stage_over(
        &mut self,
        (engine, stage, pass): (u32, u16, u32),
        now: Time,
        out: &mut Batch,
    ) {
        let worker = &mut self.workers[engine as usize];
        let stages = worker.engine.stages.len();
        if usize::from(stage) + 1 < stages {
            let mut flights = worker.flights.iter();
            if let Some(flight) = flights.find(|flight| flight.number == pass) {
                let time = flight.time;
                self.write_stage((engine, stage + 1, pass), time, out);
            }
            return;
        }
        let Some(mut flight) = worker.flights.pop_front() else {
            return;
        };
        self.served.pass_count += 1;
        let took = now.saturating_sub(flight.begun);
        for part in 0..flight.passes.len() {
            self.give_tokens(engine, part, &flight.passes[part], (now, took), out);
        }
        for pass in &mut flight.passes {
            pass.parts.clear();
        }
        self.spare.push(flight);
        self.touch(engine);
    }

    /// Requests of a pass get their tokens; those that have all are done here.
    fn give_tokens(
        &mut self,
        engine: u32,
        part: usize,
        pass: &Pass,
        (now, took): (Time, Time),
        out: &mut Batch,
    ) {
        let worker = &mut self.workers[engine as usize];
        let is_prefill = worker.engine.role == Role::Prefill;
        let scheduler = &mut worker.engine.parts[part];
        for step in &pass.parts {
            let request = scheduler.live(step.live).request as usize;
            let record = &mut self.served.records[request];
            let place = &mut self.places[request];
            if record.first_token.is_none() {
                record.in_passes += took;
            }
            if step.emits && record.prefilled.is_none() {
                record.prefilled = Some(now);
            }
            if !step.emits || is_prefill {
                continue;
            }
            let tokens = scheduler.brings(step);
            record.generated += tokens;
            if tokens > 1 && request as u32 >= self.counted_from {
                // They come at once.
                let more = Gap {
                    at: now,
                    time: Time::ZERO,
                    count: tokens - 1,
                };
                self.served.gaps.push(more);
            }
            if record.first_token.is_none() {
                record.first_token = Some(now);
            } else if request as u32 >= self.counted_from {
                let time = now.saturating_sub(place.last_token);
                self.served.gaps.count(now, time);
            }
            place.last_token = now;
        }
        let mut done = std::mem::take(&mut self.done);
        scheduler.end(pass, &self.requests, |id| done.push(id));
        if is_prefill && self.handover.is_pipelined() {
            self.send_chunks(engine, part, pass, out);
        }
        for &id in &done {
            let scheduler = &mut self.workers[engine as usize].engine.parts[part];
            let request = scheduler.live(id).request;
            if is_prefill {
                self.prompt_is_done(request, now, out);
            } else {
                scheduler.remove(id);
                self.is_done(request, now, out);
            }
        }
        done.clear();
        self.done = done;
    }
}
