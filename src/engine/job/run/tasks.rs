//! Tasks on streams: when they may begin, how long they take, what ends with them.

use super::{Due, Event, Run};
use crate::job::outline::DONE;
use crate::job::state::{Kind, Lost, Running, each};
use crate::job::{Done, JobError, JobProbe, Meeting};
use fabricsim_plan::job::{Actor, ActorId, Ended, Kernels, StreamId, TaskId, Work};
use fabricsim_units::Time;

/// Kernels that have just begun.
const NOT_PACED: Time = Time::from_picos(u64::MAX - 1);

/// How long kernels take, in picoseconds.
#[derive(Clone, Copy)]
struct Takes {
    /// On the GPU.
    gpu: f64,
    /// Until the process has started the last of them and that has run.
    host: f64,
}

impl Takes {
    /// Kernels of an actor, while communications hold so many of its SMs; how long from their begin the
    /// process still starts them, where it runs ahead.
    fn new(me: &Actor, kernels: Kernels, held: u32, speed: f64, issued: Option<Time>) -> Takes {
        let free = me.sms.saturating_sub(held).max(1);
        let share = f64::from(free) / f64::from(me.sms.max(1));
        let compute = kernels.compute.picos() as f64 / share;
        let gpu = (compute + kernels.memory.picos() as f64) / speed;
        let host = match issued.map(|last| last.picos() as f64) {
            Some(last) if last > 0.0 => last + gpu / f64::from(kernels.launches.max(1)),
            Some(_) => 0.0,
            None => me.launch.picos() as f64 * f64::from(kernels.launches.saturating_sub(1)),
        };
        Takes { gpu, host }
    }

    /// Kernels do not end before the process has started the last of them.
    fn whole(self) -> f64 {
        self.gpu.max(self.host)
    }

    /// What of it is not the kernels' own, which with all SMs take `with_all`.
    fn lost(self, with_all: Takes, run_ahead: bool) -> Lost {
        let starved = run_ahead && self.host > self.gpu;
        let slowed = with_all.whole() < self.whole();
        Lost {
            starved: if starved {
                1.0 - self.gpu / self.host
            } else {
                0.0
            },
            slowed: if slowed {
                1.0 - with_all.whole() / self.whole()
            } else {
                0.0
            },
        }
    }
}

impl Run<'_> {
    /// Begins the tasks of an actor whose turn has come.
    pub(super) fn begin_tasks(&mut self, actor: ActorId) -> Result<(), JobError> {
        let me = &self.job.actors[actor.0 as usize];
        loop {
            self.pass_syncs(actor);
            if self.actors[actor.0 as usize].look << (64 - self.job.streams.len()) == 0 {
                return Ok(());
            }
            let mut begun = false;
            let mut from = 0;
            loop {
                let state = &mut self.actors[actor.0 as usize];
                let left = state.look & u64::MAX.checked_shl(from).unwrap_or(0);
                let stream = left.trailing_zeros() as usize;
                if stream >= self.job.streams.len() {
                    break;
                }
                from = stream as u32 + 1;
                state.look &= !(1 << stream);
                let outline = &self.outlines[state.outline];
                let own = &state.streams[stream];
                let Some(&task) = outline.of_stream[stream].get(own.next) else {
                    continue;
                };
                if own.running.is_some() || state.waits[outline.index(task)] > 0 {
                    continue;
                }
                let sync = outline.syncs.get(state.sync);
                if sync.is_some_and(|sync| task > *sync) {
                    continue;
                }
                let issued = outline.issued(task, state.host(), me.launch);
                if issued > self.now {
                    self.events.push(Due::new(issued, Event::Look(actor)));
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
        let launch = self.job.actors[actor.0 as usize].launch;
        let state = &mut self.actors[actor.0 as usize];
        let outline = &mut self.outlines[state.outline];
        while let Some(&sync) = outline.syncs.get(state.sync) {
            // All before it are done, other synchronisations included.
            let all = state.done >= sync.0;
            // It may still be busy with what it read at the last one.
            let mut goes_on = self.now.max(state.host_base);
            if let Work::HostSync { stream, busy } = outline.task(sync).work {
                let drained = stream.map_or(all, |stream| {
                    let own = &state.streams[usize::from(stream.0)];
                    own.running.is_none() && outline.is_drained((stream, own.next), sync)
                });
                let arrives = outline.arrives(sync, state.host(), launch);
                if drained && arrives > self.now {
                    self.events.push(Due::new(arrives, Event::Look(actor)));
                }
                if !drained || arrives > self.now {
                    return;
                }
                goes_on += busy;
            } else if !all {
                return;
            }
            state.done += 1;
            state.sync += 1;
            state.look = u64::MAX;
            state.host_passed = self.now;
            state.host_base = goes_on;
            state.host_launches = outline.launches_before(sync);
            for &dependent in outline.dependents(sync) {
                state.waits[outline.index(dependent)] -= 1;
            }
            if outline.is_open() {
                state.waits[outline.index(sync)] = DONE;
                outline.start(state.sync, goes_on, launch);
            } else {
                self.ends.note(outline.task(sync).tag.step, self.now);
            }
            self.last_end = self.now;
            if self.asks {
                self.ended.push(Ended { actor, task: sync });
            }
        }
    }

    fn begin_task(
        &mut self,
        actor: ActorId,
        stream: StreamId,
        task: TaskId,
    ) -> Result<(), JobError> {
        let me = &self.job.actors[actor.0 as usize];
        let outline = self.actors[actor.0 as usize].outline;
        let what = self.outlines[outline].task(task);
        let (work, tag) = (what.work, what.tag);
        let now = self.now;
        let kind = match work {
            Work::Kernels(kernels) => {
                let kernels = self
                    .disturbances
                    .kernels((actor, me.rank), task, tag, kernels);
                Kind::Kernels {
                    part: tag.kind,
                    kernels,
                    left: 1.0,
                    since: now,
                    whole: NOT_PACED,
                    lost: Lost::default(),
                    version: 0,
                }
            }
            Work::Wait(time) => {
                self.events
                    .push(Due::new(now + time, Event::Task(actor, stream, 0)));
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
            Work::Transfer {
                route,
                bytes,
                messages,
            } => {
                self.begin_transfer((actor, stream), route, bytes, messages);
                Kind::Transfer
            }
            Work::Synchronise | Work::HostSync { .. } => Kind::Wait,
        };
        let state = &mut self.actors[actor.0 as usize];
        let ready = state.freed[self.outlines[outline].index(task)];
        let own = &mut state.streams[usize::from(stream.0)];
        own.next += 1;
        state.busy |= 1 << stream.0;
        own.running = Some(Running {
            task,
            ready,
            came: now,
            begun: now,
            kind,
        });
        if matches!(kind, Kind::Kernels { .. }) {
            self.enter_gpu(actor);
            self.pace(actor);
        }
        self.touch(actor);
        Ok(())
    }

    /// How long an actor's kernels still take, with the SMs, the speed and the turns that it has now.
    pub(super) fn pace(&mut self, actor: ActorId) {
        let me = &self.job.actors[actor.0 as usize];
        let turns = self.gpus.turns(actor);
        let state = &mut self.actors[actor.0 as usize];
        let (outline, host_at) = (&self.outlines[state.outline], state.host());
        let (now, held) = (self.now, state.held);
        let mut looks_again = None;
        for stream in each(state.busy) {
            let own = &mut state.streams[stream];
            let Some(Running {
                task,
                begun,
                kind:
                    Kind::Kernels {
                        kernels,
                        left,
                        since,
                        whole,
                        lost,
                        version,
                        ..
                    },
                ..
            }) = &mut own.running
            else {
                continue;
            };
            let (speed, until) = self.disturbances.speed(me.rank, now);
            let speed = speed * turns;
            let issued = me.run_ahead.then(|| {
                let last = outline.all_issued(*task, host_at, me.launch);
                last.saturating_sub(*begun)
            });
            let takes = |held: u32| Takes::new(me, *kernels, held, speed, issued);
            let all = takes(held);
            *lost = all.lost(takes(0), me.run_ahead);
            let new = if speed > 0.0 {
                Time::from_picos(all.whole().round() as u64)
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
                // It stands still, or as good as.
                self.endless |= speed > 0.0 && until.is_none();
                looks_again = until;
                continue;
            }
            let rest = Time::from_picos((new.picos() as f64 * *left).round() as u64);
            let event = Event::Task(actor, StreamId(stream as u8), *version);
            self.events.push(Due::new(now + rest, event));
            looks_again = until.filter(|&u| u < now + rest);
        }
        if let Some(at) = looks_again {
            self.events.push(Due::new(at, Event::Look(actor)));
        }
    }

    pub(super) fn end_task(&mut self, actor: ActorId, stream: StreamId, probe: &mut dyn JobProbe) {
        let state = &mut self.actors[actor.0 as usize];
        state.busy &= !(1 << stream.0);
        let Some(running) = state.streams[usize::from(stream.0)].running.take() else {
            return;
        };
        if matches!(running.kind, Kind::Kernels { .. }) {
            self.leave_gpu(actor);
        }
        let meeting = match running.kind {
            Kind::Communication(group) => Some(Meeting {
                group,
                number: self.rounds[group.0 as usize].saturating_sub(1),
            }),
            _ => None,
        };
        // The process has not gone on since: it waits for this task at its next synchronisation.
        let state = &self.actors[actor.0 as usize];
        let launch = self.job.actors[actor.0 as usize].launch;
        let outline = &self.outlines[state.outline];
        let done = Done {
            actor,
            task: running.task,
            issued: outline
                .issued(running.task, state.host(), launch)
                .min(running.begun),
            ready: running.ready,
            came: running.came,
            begun: running.begun,
            ended: self.now,
            meeting,
        };
        probe.task(done, outline.task(running.task));
        self.task_done(actor, running.task);
    }

    pub(super) fn task_done(&mut self, actor: ActorId, task: TaskId) {
        let state = &mut self.actors[actor.0 as usize];
        state.done += 1;
        self.tasks_done += 1;
        let outline = &self.outlines[state.outline];
        let done = outline.task(task);
        state.look |= 1 << done.stream.0;
        for &dependent in outline.dependents(task) {
            let index = outline.index(dependent);
            state.waits[index] -= 1;
            if state.waits[index] == 0 {
                state.look |= 1 << outline.task(dependent).stream.0;
            }
            state.freed[index] = self.now;
        }
        self.last_end = self.now;
        if outline.is_open() {
            state.waits[outline.index(task)] = DONE;
        } else {
            self.ends.note(done.tag.step, self.now);
        }
        if self.asks {
            self.ended.push(Ended { actor, task });
        }
        self.touch(actor);
    }

    /// Books the past, and what the actor does from now on.
    pub(super) fn book(&mut self, actor: ActorId) {
        let state = &mut self.actors[actor.0 as usize];
        state.settle(self.now);
        state.lost = state.now_lost();
        state.doing = state.now_doing(self.outlines[state.outline].written(), &self.groups);
    }
}
