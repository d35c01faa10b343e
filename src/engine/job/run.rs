//! The event loop of a job.

use super::contention::{Contention, WHOLE};
use super::rehearse::Rehearsed;
use super::state::{ActorState, Going, GroupState, Kind, Outline, Running};
use super::{Done, JobError, JobOutcome, JobProbe, Traffic, Waiting};
use crate::plan::job::{ActorId, Disturbances, ExchangeId, GroupId, Job, StreamId, TaskId, Work};
use crate::topology::LinkId;
use crate::units::{Bandwidth, Bytes, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How to run a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobOptions {
    /// A rank that waits for others in a communication longer than that ends the job, as
    /// NCCL's watchdog or a monitored barrier would.
    pub timeout: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Kernels or a wait on a stream are done, if nothing changed since that version.
    Task(ActorId, StreamId, u32),
    /// An operation of a group is done, likewise.
    Group(GroupId, u32),
    /// The process has started what comes next, or the GPU changes its speed.
    Look(ActorId),
    /// The first to come to an operation has waited for long.
    Patience(GroupId, u32),
    /// Links have other rates.
    Links,
}

/// Kernels that have just begun.
const NOT_PACED: Time = Time::from_picos(u64::MAX - 1);

struct Run<'j> {
    job: &'j Job,
    rehearsed: &'j [Rehearsed],
    disturbances: &'j dyn Disturbances,
    options: JobOptions,
    outlines: Vec<Outline>,
    actors: Vec<ActorState>,
    groups: Vec<GroupState>,
    /// Operations that each group has begun to gather for.
    rounds: Vec<u32>,
    contention: Contention,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    touched: Vec<ActorId>,
    ready: Vec<GroupId>,
    speeds: Vec<(GroupId, u64)>,
    steps: Vec<Time>,
    traffic: Vec<Vec<Traffic>>,
    handled: u64,
    now: Time,
}

/// Runs a job whose communications have been rehearsed.
///
/// # Errors
/// A job that hangs, ranks that wait for too long.
///
/// # Panics
/// If the job has no stream, or more than 64.
pub fn run_job(
    job: &Job,
    rehearsed: &[Rehearsed],
    rate: impl Fn(LinkId) -> Bandwidth,
    disturbances: &dyn Disturbances,
    options: JobOptions,
    probe: &mut dyn JobProbe,
) -> Result<JobOutcome, JobError> {
    let streams = job.streams.len();
    assert!((1..=64).contains(&streams), "a job has 1 to 64 streams");
    let outlines: Vec<Outline> = job
        .scripts
        .iter()
        .map(|s| Outline::new(s, streams))
        .collect();
    let actor =
        |a: &crate::plan::job::Actor| ActorState::new(a, &outlines[a.script as usize], streams);
    let mut run = Run {
        job,
        rehearsed,
        disturbances,
        options,
        actors: job.actors.iter().map(actor).collect(),
        outlines,
        groups: vec![GroupState::default(); job.groups.len()],
        rounds: vec![0; job.groups.len()],
        contention: Contention::new(job, rehearsed, &rate, disturbances),
        events: BinaryHeap::new(),
        touched: Vec::new(),
        ready: Vec::new(),
        speeds: Vec::new(),
        steps: Vec::new(),
        traffic: job
            .groups
            .iter()
            .map(|g| vec![Traffic::default(); g.exchanges.len()])
            .collect(),
        handled: 0,
        now: Time::ZERO,
    };
    if let Some(at) = disturbances.next_link_change(Time::ZERO) {
        run.events.push(Reverse((at, Event::Links)));
    }
    for index in 0..run.actors.len() {
        run.touch(ActorId(index as u32));
    }
    run.instant(probe)?;
    while let Some(&Reverse((at, _))) = run.events.peek() {
        run.now = at;
        while let Some(&Reverse((time, event))) = run.events.peek() {
            if time > at {
                break;
            }
            run.events.pop();
            run.handled += 1;
            run.handle(event, probe)?;
        }
        run.instant(probe)?;
    }
    run.finish()
}

impl Run<'_> {
    fn touch(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        if !state.touched {
            state.touched = true;
            self.touched.push(actor);
        }
    }

    fn handle(&mut self, event: Event, probe: &mut dyn JobProbe) -> Result<(), JobError> {
        match event {
            Event::Task(actor, stream, version) => {
                let running = self.actors[actor.0 as usize].streams[usize::from(stream.0)].running;
                let valid = running.is_some_and(|r| match r.kind {
                    Kind::Kernels { version: v, .. } => v == version,
                    Kind::Wait => true,
                    Kind::Communication(_) => false,
                });
                if valid {
                    self.end_task(actor, stream, probe);
                }
            }
            Event::Group(group, version) => {
                let going = self.groups[group.0 as usize].going;
                if going.is_some_and(|g| g.version == version) {
                    self.end_group(group, probe);
                }
            }
            Event::Look(actor) => {
                if self.left(actor) > 0 {
                    self.actors[actor.0 as usize].look = u64::MAX;
                    self.pace(actor);
                    self.touch(actor);
                }
            }
            Event::Patience(group, round) => {
                let state = &self.groups[group.0 as usize];
                let waits = !state.come.is_empty() && state.going.is_none();
                if waits && self.rounds[group.0 as usize] == round {
                    return Err(JobError::TimedOut {
                        at: self.now,
                        after: self.options.timeout.unwrap_or(Time::ZERO),
                        waiting: self.waiting(group),
                    });
                }
            }
            Event::Links => {
                self.contention.links_changed(self.disturbances, self.now);
                if let Some(at) = self.disturbances.next_link_change(self.now) {
                    // Only while something goes on: else a flapping link would keep a job that
                    // hangs alive for ever.
                    if self.anything_left() {
                        self.events.push(Reverse((at, Event::Links)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Tasks of an actor that are not done.
    fn left(&self, actor: ActorId) -> u32 {
        let state = &self.actors[actor.0 as usize];
        self.job.scripts[state.script].tasks.len() as u32 - state.done
    }

    fn anything_left(&self) -> bool {
        (0..self.actors.len() as u32).any(|a| self.left(ActorId(a)) > 0)
    }

    /// All that begins at this instant.
    fn instant(&mut self, probe: &mut dyn JobProbe) -> Result<(), JobError> {
        loop {
            let mut touched = std::mem::take(&mut self.touched);
            touched.sort_unstable();
            for &actor in &touched {
                self.actors[actor.0 as usize].touched = false;
                self.begin_tasks(actor)?;
            }
            for &actor in &touched {
                self.book(actor);
            }
            touched.clear();
            if self.touched.is_empty() {
                self.touched = touched;
            }
            let mut ready = std::mem::take(&mut self.ready);
            ready.sort_unstable();
            for &group in &ready {
                self.begin_group(group, probe);
            }
            ready.clear();
            if self.ready.is_empty() {
                self.ready = ready;
            }
            if self.touched.is_empty() && self.ready.is_empty() {
                break;
            }
        }
        let mut speeds = std::mem::take(&mut self.speeds);
        self.contention.speeds(&mut speeds);
        for &(group, speed) in &speeds {
            self.go_on(group, speed as f64 / WHOLE as f64);
        }
        self.speeds = speeds;
        Ok(())
    }

    /// Begins the tasks of an actor whose turn has come.
    fn begin_tasks(&mut self, actor: ActorId) -> Result<(), JobError> {
        let me = &self.job.actors[actor.0 as usize];
        let script = &self.job.scripts[me.script as usize];
        loop {
            self.pass_syncs(actor);
            if self.actors[actor.0 as usize].look << (64 - self.job.streams.len()) == 0 {
                return Ok(());
            }
            let mut begun = false;
            for stream in 0..self.job.streams.len() {
                let state = &mut self.actors[actor.0 as usize];
                if state.look & (1 << stream) == 0 {
                    continue;
                }
                state.look &= !(1 << stream);
                let outline = &self.outlines[state.script];
                let own = &state.streams[stream];
                let Some(&task) = outline.of_stream[stream].get(own.next) else {
                    continue;
                };
                let index = task.0 as usize;
                if own.running.is_some() || state.waits[index] > 0 {
                    continue;
                }
                let sync = outline
                    .syncs
                    .get(state.sync)
                    .map_or(u32::MAX, |sync| sync.0);
                if task.0 > sync {
                    continue;
                }
                let launches = u64::from(outline.launches_before[index] - state.host_launches);
                let starts = u64::from(!matches!(script.tasks[index].work, Work::Wait(_)));
                let issued = state.host_base
                    + Time::from_picos(me.launch.picos().saturating_mul(launches + starts));
                if issued > self.now {
                    self.events.push(Reverse((issued, Event::Look(actor))));
                    continue;
                }
                self.begin_task(actor, StreamId(stream as u8), task)?;
                begun = true;
            }
            if !begun {
                return Ok(());
            }
        }
    }

    /// The process goes on behind synchronisations that have nothing to wait for any more.
    fn pass_syncs(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        let outline = &self.outlines[state.script];
        while let Some(&sync) = outline.syncs.get(state.sync) {
            // All before it are done, other synchronisations included.
            if state.done < sync.0 {
                return;
            }
            state.done += 1;
            state.sync += 1;
            state.look = u64::MAX;
            state.host_base = self.now;
            state.host_launches = outline.launches_before[sync.0 as usize];
            for &dependent in &outline.dependents[sync.0 as usize] {
                state.waits[dependent.0 as usize] -= 1;
            }
            let step = self.job.scripts[state.script].tasks[sync.0 as usize]
                .tag
                .step;
            note(&mut self.steps, step, self.now);
        }
    }

    fn begin_task(
        &mut self,
        actor: ActorId,
        stream: StreamId,
        task: TaskId,
    ) -> Result<(), JobError> {
        let me = &self.job.actors[actor.0 as usize];
        let what = &self.job.scripts[me.script as usize].tasks[task.0 as usize];
        let now = self.now;
        let kind = match what.work {
            Work::Kernels(kernels) => {
                let kernels = self.disturbances.kernels(me.rank, task, what.tag, kernels);
                Kind::Kernels {
                    kernels,
                    left: 1.0,
                    since: now,
                    whole: NOT_PACED,
                    version: 0,
                }
            }
            Work::Wait(time) => {
                self.events
                    .push(Reverse((now + time, Event::Task(actor, stream, 0))));
                Kind::Wait
            }
            Work::Communicate { group, exchange } => {
                let Some(group) = me.groups[usize::from(group)] else {
                    // A communicator of one rank: nothing to do.
                    let state = &mut self.actors[actor.0 as usize];
                    state.streams[usize::from(stream.0)].next += 1;
                    self.task_done(actor, task);
                    return Ok(());
                };
                self.come(actor, stream, group, exchange)?;
                Kind::Communication(group)
            }
            Work::Synchronise => Kind::Wait,
        };
        let state = &mut self.actors[actor.0 as usize];
        let ready = state.freed[task.0 as usize];
        let own = &mut state.streams[usize::from(stream.0)];
        own.next += 1;
        own.running = Some(Running {
            task,
            ready,
            begun: now,
            kind,
        });
        if matches!(kind, Kind::Kernels { .. }) {
            self.pace(actor);
        }
        self.touch(actor);
        Ok(())
    }

    /// How long an actor's kernels still take, with the SMs and the speed that it has now.
    fn pace(&mut self, actor: ActorId) {
        let me = &self.job.actors[actor.0 as usize];
        let state = &mut self.actors[actor.0 as usize];
        let now = self.now;
        let mut looks_again = None;
        for (stream, own) in state.streams.iter_mut().enumerate() {
            let Some(Running {
                kind:
                    Kind::Kernels {
                        kernels,
                        left,
                        since,
                        whole,
                        version,
                    },
                ..
            }) = &mut own.running
            else {
                continue;
            };
            let (speed, until) = self.disturbances.speed(me.rank, now);
            let free = me.sms.saturating_sub(state.held).max(1);
            let share = f64::from(free) / f64::from(me.sms.max(1));
            let compute = kernels.compute.picos() as f64 / share;
            let gpu = (compute + kernels.memory.picos() as f64) / speed;
            // Kernels do not end before the process has started the last of them.
            let host = me.launch.picos() as f64 * f64::from(kernels.launches.saturating_sub(1));
            let new = if speed > 0.0 {
                Time::from_picos(gpu.max(host).round() as u64)
            } else {
                Time::MAX
            };
            if new == *whole {
                continue;
            }
            let paced = *whole != NOT_PACED && *whole != Time::MAX;
            if paced && *whole > Time::ZERO {
                let gone = (now.saturating_sub(*since)).picos() as f64 / whole.picos() as f64;
                *left = (*left - gone).max(0.0);
            }
            *since = now;
            *whole = new;
            state.versions += 1;
            *version = state.versions;
            if new == Time::MAX {
                // It stands still.
                looks_again = until;
                continue;
            }
            let rest = Time::from_picos((new.picos() as f64 * *left).round() as u64);
            let event = Event::Task(actor, StreamId(stream as u8), *version);
            self.events.push(Reverse((now + rest, event)));
            looks_again = until.filter(|&u| u < now + rest);
        }
        if let Some(at) = looks_again {
            self.events.push(Reverse((at, Event::Look(actor))));
        }
    }

    /// An actor comes to an operation of a group, and holds its SMs from now on.
    fn come(
        &mut self,
        actor: ActorId,
        stream: StreamId,
        group: GroupId,
        slot: u16,
    ) -> Result<(), JobError> {
        let known = &self.job.groups[group.0 as usize];
        let exchange = known.exchanges[usize::from(slot)];
        let state = &mut self.groups[group.0 as usize];
        match state.exchange {
            Some(first) if state.slot != slot => {
                let name = |e: ExchangeId| self.job.exchanges[e.0 as usize].name.clone();
                return Err(JobError::Mismatch {
                    group: known.name.clone(),
                    first: name(first),
                    other: name(exchange),
                });
            }
            _ => {
                state.slot = slot;
                state.exchange = Some(exchange);
            }
        }
        if state.come.is_empty() {
            self.rounds[group.0 as usize] += 1;
            if let Some(timeout) = self.options.timeout {
                let event = Event::Patience(group, self.rounds[group.0 as usize]);
                self.events.push(Reverse((self.now + timeout, event)));
            }
        }
        state.come.push((actor, stream, self.now));
        if state.come.len() as u32 == known.actors {
            self.ready.push(group);
        }
        let sms = self.job.exchanges[exchange.0 as usize].sms;
        self.actors[actor.0 as usize].held += sms;
        self.pace(actor);
        Ok(())
    }

    /// All have come.
    fn begin_group(&mut self, group: GroupId, probe: &mut dyn JobProbe) {
        let now = self.now;
        let state = &mut self.groups[group.0 as usize];
        // Who came last; if several did, the first of them by number.
        let last = state.come.iter().max_by_key(|c| (c.2, Reverse(c.0)));
        let last = last.map(|c| c.0);
        let Some(exchange) = state.exchange else {
            return;
        };
        state.going = Some(Going {
            begun: now,
            left: 1.0,
            since: now,
            speed: 0.0,
            version: 0,
        });
        let come = state.come.clone();
        for (actor, stream, _) in come {
            let me = &mut self.actors[actor.0 as usize];
            me.settle(now);
            let idled = std::mem::take(&mut me.idled[usize::from(stream.0)]);
            if let Some(last) = last.filter(|&l| l != actor && idled > Time::ZERO) {
                *me.ledger.waited_for.entry(last).or_default() += idled;
            }
            if let Some(running) = &mut me.streams[usize::from(stream.0)].running {
                running.begun = now;
            }
            self.touch(actor);
        }
        if self.rehearsed[exchange.0 as usize].time == Time::ZERO {
            self.end_group(group, probe);
        } else if !self.contention.start(group, exchange) {
            self.go_on(group, 1.0);
        }
    }

    /// A group's operation goes on at this part of its full speed.
    fn go_on(&mut self, group: GroupId, speed: f64) {
        let now = self.now;
        let state = &mut self.groups[group.0 as usize];
        let (Some(going), Some(exchange)) = (&mut state.going, state.exchange) else {
            return;
        };
        let whole = self.rehearsed[exchange.0 as usize].time.picos() as f64;
        let gone = now.saturating_sub(going.since).picos() as f64 * going.speed / whole;
        going.left = (going.left - gone).max(0.0);
        going.since = now;
        going.speed = speed;
        going.version += 1;
        if speed > 0.0 {
            let rest = Time::from_picos((whole * going.left / speed).round() as u64);
            let event = Event::Group(group, going.version);
            self.events.push(Reverse((now + rest, event)));
        }
    }

    fn end_group(&mut self, group: GroupId, probe: &mut dyn JobProbe) {
        self.contention.stop(group);
        let state = std::mem::take(&mut self.groups[group.0 as usize]);
        let (Some(going), Some(exchange)) = (state.going, state.exchange) else {
            return;
        };
        let known = &self.job.exchanges[exchange.0 as usize];
        let traffic = &mut self.traffic[group.0 as usize][usize::from(state.slot)];
        traffic.count += 1;
        traffic.time += self.now.saturating_sub(going.begun);
        traffic.alone += self.rehearsed[exchange.0 as usize].time;
        traffic.bytes = Bytes::new(traffic.bytes.get() + known.bytes.get());
        for (actor, stream, _) in state.come {
            let me = &mut self.actors[actor.0 as usize];
            me.held -= known.sms;
            me.ledger.communication[usize::from(stream.0)] += self.now.saturating_sub(going.begun);
            self.end_task(actor, stream, probe);
            self.pace(actor);
        }
    }

    fn end_task(&mut self, actor: ActorId, stream: StreamId, probe: &mut dyn JobProbe) {
        let state = &mut self.actors[actor.0 as usize];
        let Some(running) = state.streams[usize::from(stream.0)].running.take() else {
            return;
        };
        probe.task(Done {
            actor,
            task: running.task,
            ready: running.ready,
            begun: running.begun,
            ended: self.now,
        });
        self.task_done(actor, running.task);
    }

    fn task_done(&mut self, actor: ActorId, task: TaskId) {
        let state = &mut self.actors[actor.0 as usize];
        state.done += 1;
        let outline = &self.outlines[state.script];
        let tasks = &self.job.scripts[state.script].tasks;
        let done = &tasks[task.0 as usize];
        state.look |= 1 << done.stream.0;
        for &dependent in &outline.dependents[task.0 as usize] {
            let waits = &mut state.waits[dependent.0 as usize];
            *waits -= 1;
            if *waits == 0 {
                state.look |= 1 << tasks[dependent.0 as usize].stream.0;
            }
            state.freed[dependent.0 as usize] = self.now;
        }
        note(&mut self.steps, done.tag.step, self.now);
        self.touch(actor);
    }

    /// Books the past, and what the actor does from now on.
    fn book(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        state.settle(self.now);
        let tasks = self.job.scripts[state.script].tasks.len() as u32;
        let groups = &self.groups;
        state.doing = state.now_doing(|g| groups[g.0 as usize].going.is_some(), tasks);
    }

    fn waiting(&self, group: GroupId) -> Waiting {
        let known = &self.job.groups[group.0 as usize];
        let state = &self.groups[group.0 as usize];
        // All ranks of the group, also those for which another stands.
        let here = |actor: &ActorId| state.come.iter().any(|c| c.0 == *actor);
        let members = || known.ranks.iter().zip(&known.members);
        let pick = |wanted: bool| {
            let found = members().filter(|(_, a)| here(a) == wanted);
            let mut ranks: Vec<u32> = found.map(|(&rank, _)| rank).collect();
            ranks.sort_unstable();
            ranks
        };
        let exchange = state.exchange;
        Waiting {
            group,
            name: known.name.clone(),
            exchange: exchange.map_or_else(String::new, |e| {
                self.job.exchanges[e.0 as usize].name.clone()
            }),
            come: pick(true),
            missing: pick(false),
        }
    }

    fn finish(mut self) -> Result<JobOutcome, JobError> {
        for (index, state) in self.groups.iter().enumerate() {
            if let (Some(_), Some(exchange)) = (state.going, state.exchange) {
                return Err(JobError::NoPath {
                    at: self.now,
                    exchange: self.job.exchanges[exchange.0 as usize].name.clone(),
                    group: self.job.groups[index].name.clone(),
                });
            }
        }
        if self.anything_left() {
            let groups = (0..self.groups.len() as u32).map(GroupId);
            let gathering = groups.filter(|g| !self.groups[g.0 as usize].come.is_empty());
            return Err(JobError::Hangs {
                at: self.now,
                waiting: gathering.map(|g| self.waiting(g)).collect(),
            });
        }
        let end = self.steps.iter().copied().max().unwrap_or(Time::ZERO);
        for state in &mut self.actors {
            state.settle(end);
        }
        Ok(JobOutcome {
            end,
            steps: self.steps,
            ledgers: self.actors.into_iter().map(|a| a.ledger).collect(),
            traffic: self.traffic,
            events: self.handled,
        })
    }
}

/// A step goes on until now.
fn note(steps: &mut Vec<Time>, step: u16, now: Time) {
    let index = usize::from(step);
    if steps.len() <= index {
        steps.resize(index + 1, Time::ZERO);
    }
    steps[index] = steps[index].max(now);
}
