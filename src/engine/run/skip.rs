//! Skipping: where the whole state comes back, shifted in time, the repetition is jumped over.
//!
//! The state is all that what happens next depends on: what each actor does and since when,
//! what is in the queues and when, each relative to the clock. If it is the same at two
//! instants, and all workers go on with steps that look like those in between, then the same
//! happens again and again until a worker comes to a step that looks different. All of that is
//! added at once: times, bytes and events of one repetition, times their number. Integer times
//! make this exact, not an estimate.
//!
//! States are remembered after 1, 2, 3, … 10, 12, 14, … steps of one worker, ever farther apart, and
//! each later one is compared with all of them: a repetition is found soon after the first one
//! that begins after the first steps' unrest is complete, whatever its length. Most comparisons
//! end at the first thing that they look at.

use super::Run;
use crate::collective::WorkerId;
use crate::engine::actor::{Actor, Cold, Phase, add_limited};
use crate::engine::fifo::Fifos;
use crate::engine::probe::Probe;
use crate::units::{Bytes, Time};

/// Looks for states that come back.
pub(super) struct Skipper {
    /// States are compared whenever this worker has begun another step.
    reference: usize,
    last_step: u32,
    remembered: Vec<State>,
    /// Comparisons since the last jump, and at how many the next state is remembered.
    compared: u64,
    next: u64,
    /// Events that were not simulated.
    pub(super) skipped: u64,
}

/// So many actors are remembered, in all states together.
const MOST_ACTORS: usize = 1 << 16;

/// What is known of an instant.
struct State {
    /// The actor that last told it from another state: the next is likely told by it, too.
    telling: usize,
    now: Time,
    actors: Vec<Actor>,
    cold: Vec<Cold>,
    fifos: Fifos,
    ranks: Vec<(u32, u32)>,
    events: u64,
    transfers: u64,
    steps_begun: u64,
}

/// A time, as far as it matters to what happens next: the past is all one.
fn ahead(time: Time, now: Time) -> u64 {
    (time.picos() + 1).saturating_sub(now.picos())
}

impl Skipper {
    /// For a run whose workers have so many steps; none of them waits for another one of its
    /// rank.
    pub(super) fn new(steps: impl Iterator<Item = u32>) -> Self {
        let most = steps.enumerate().max_by_key(|&(_, steps)| steps);
        Skipper {
            reference: most.map_or(0, |(index, _)| index),
            last_step: 0,
            remembered: Vec::new(),
            compared: 0,
            next: 1,
            skipped: 0,
        }
    }
}

impl<P: Probe> Run<'_, '_, P> {
    /// After an instant: jumps ahead if what comes is known.
    #[inline]
    pub(super) fn skip(&mut self) {
        let Some(skipper) = &self.skipper else { return };
        let step = self.actors[skipper.reference].next_step;
        if step != skipper.last_step {
            self.look_back(step);
        }
    }

    fn look_back(&mut self, step: u32) {
        let Some(mut skipper) = self.skipper.take() else {
            return;
        };
        skipper.last_step = step;
        skipper.compared += 1;
        for at in 0..skipper.remembered.len() {
            let state = &mut skipper.remembered[at];
            if let Some(actor) = self.tells_apart(state, state.telling) {
                state.telling = actor;
                continue;
            }
            let times = self.repetitions(state);
            if times > 0 {
                skipper.skipped += (self.events - state.events) * times;
                self.jump(state, times);
                skipper.last_step = self.actors[skipper.reference].next_step;
                skipper.remembered.clear();
                (skipper.compared, skipper.next) = (0, 1);
                break;
            }
        }
        if skipper.compared >= skipper.next {
            if skipper.remembered.len() >= self.most_states() {
                skipper.remembered.remove(0);
            }
            skipper.remembered.push(self.state());
            skipper.next = skipper.compared + skipper.compared / 8 + 1;
        }
        self.skipper = Some(skipper);
    }

    /// How many states may be remembered: as many as take little memory, and two in any case.
    fn most_states(&self) -> usize {
        (MOST_ACTORS / self.actors.len().max(1)).max(2)
    }

    fn state(&self) -> State {
        let ranks = self.ranks.iter().map(|r| (r.running, r.operation));
        State {
            telling: 0,
            now: self.now,
            actors: self.actors.clone(),
            cold: self.cold.clone(),
            fifos: self.machinery.fifos.clone(),
            ranks: ranks.collect(),
            events: self.events,
            transfers: self.transfers,
            steps_begun: self.steps_begun,
        }
    }

    /// An actor that is not as it was; `None` if all is, queues included.
    fn tells_apart(&self, then: &State, first: usize) -> Option<usize> {
        let actors = self.actors.len();
        let order = (first..actors).chain(0..first);
        if let Some(other) = order.into_iter().find(|&id| !self.is_as_then(then, id)) {
            return Some(other);
        }
        let ranks = self.ranks.iter().zip(&then.ranks);
        let same = ranks
            .into_iter()
            .all(|(r, &(running, operation))| r.running == running && r.operation == operation)
            && self.machinery.fifos.same(&then.fifos, |fifos, time| {
                ahead(time, if fifos { self.now } else { then.now })
            });
        (!same).then_some(first)
    }

    /// Whether an actor does what it did then.
    fn is_as_then(&self, then: &State, id: usize) -> bool {
        let (a, b) = (&self.actors[id], &then.actors[id]);
        if a.phase != b.phase {
            return false;
        }
        if a.phase == Phase::Done {
            // Its last time is a point in time, and stays.
            return a.free == b.free;
        }
        let since = |time: Time, now: Time| time.picos().wrapping_sub(now.picos());
        let exactly = |x: Time, y: Time| since(x, self.now) == since(y, then.now);
        let roughly = |x: Time, y: Time| ahead(x, self.now) == ahead(y, then.now);
        // How long a worker waits is told; of a proxy nobody asks.
        let worker = id < self.workers as usize;
        if !(exactly(a.free, b.free) || !worker && roughly(a.free, b.free))
            || (a.slice, a.slice_len, a.left, a.cap) != (b.slice, b.slice_len, b.left, b.cap)
            || (a.path, a.recv, a.send, a.many) != (b.path, b.recv, b.send, b.many)
            || a.limited_by != b.limited_by
        {
            return false;
        }
        let streams = a.phase == Phase::Streams;
        if streams && !(a.remaining == b.remaining && exactly(a.mark, b.mark)) {
            return false;
        }
        let (c, d) = (&self.cold[id], &then.cold[id]);
        let passes = self.classes[usize::from(a.class)].slice.pass > Bytes::ZERO;
        let begun = matches!(a.phase, Phase::Streams | Phase::Scheduled);
        if passes && begun && !exactly(c.start, d.start) {
            return false;
        }
        roughly(c.handed, d.handed)
            && (!a.many || (&c.recv, &c.send, c.last_part) == (&d.recv, &d.send, d.last_part))
            && c.after.is_none() == d.after.is_none()
    }

    /// How often what happened since then happens again from here, without a worker coming to
    /// a step that looks different.
    fn repetitions(&self, then: &State) -> u64 {
        if self.now == then.now {
            return 0;
        }
        let program = self.plan.program.as_ref();
        let mut times = u64::MAX;
        for id in 0..self.workers {
            let (a, b) = (&self.actors[id as usize], &then.actors[id as usize]);
            if a.next_step == b.next_step {
                continue;
            }
            let Some(shift) = a.next_step.checked_sub(b.next_step) else {
                return 0;
            };
            let worker: WorkerId = self.cast.worker(id);
            // The step at hand then, and all that follow it.
            let from = u64::from(b.next_step.saturating_sub(1));
            let same = program.same_after(worker, from, u64::from(shift));
            times = times.min(same.saturating_sub(1) / u64::from(shift));
        }
        if times == u64::MAX { 0 } else { times }
    }

    /// Adds so many repetitions of what happened since then.
    fn jump(&mut self, then: &State, times: u64) {
        let shift = Time::from_picos((self.now - then.now).picos() * times);
        self.now += shift;
        self.queue.shift(shift.picos());
        self.machinery.fifos.repeat(&then.fifos, times, shift);
        self.transfers += (self.transfers - then.transfers) * times;
        self.steps_begun += (self.steps_begun - then.steps_begun) * times;
        for id in 0..self.actors.len() {
            let (a, b) = (&mut self.actors[id], &then.actors[id]);
            if a.phase == Phase::Done {
                continue;
            }
            let (c, d) = (&mut self.cold[id], &then.cold[id]);
            a.next_step += (u64::from(a.next_step - b.next_step) * times) as u32;
            for time in [&mut a.free, &mut a.mark, &mut c.start, &mut c.handed] {
                *time += shift;
            }
            let add = |now: &mut Time, then: Time| {
                *now += Time::from_picos((*now - then).picos() * times);
            };
            add(&mut a.sync, b.sync);
            add(&mut a.latency, b.latency);
            add(&mut a.wait_data, b.wait_data);
            add(&mut a.wait_credit, b.wait_credit);
            add(&mut a.at_cap, b.at_cap);
            // By resource, whether it is the last one or not.
            let total = |actor: &Actor, cold: &Cold, resource| {
                let listed = cold.limited.iter().find(|(r, _)| *r == resource);
                let last = actor.limited_by == resource;
                listed.map_or(Time::ZERO, |&(_, t)| t)
                    + if last { actor.limited } else { Time::ZERO }
            };
            let listed = c.limited.iter().map(|&(r, _)| r);
            let mut resources: Vec<_> = listed.chain([a.limited_by]).collect();
            resources.sort_unstable();
            resources.dedup();
            for resource in resources {
                let more = (total(a, c, resource) - total(b, d, resource)).picos() * times;
                if more > 0 {
                    add_limited(&mut c.limited, resource, Time::from_picos(more));
                }
            }
        }
    }
}
