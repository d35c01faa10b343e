//! Skipping: where the whole state comes back, shifted in time, what follows is jumped over.
//!
//! The state is all that what happens next depends on: what each actor does and since when,
//! what is in the queues and when, each relative to the clock. If it is the same at two
//! instants, and all workers go on with steps that look like those that followed the first one,
//! then the same follows again. So from a state that is as a remembered one was
//!
//! - whole repetitions are jumped over, if the state came back within one operation: then the
//!   same happens again and again until a worker comes to a step that looks different;
//! - what followed the remembered state is followed as far as other states are remembered: in
//!   the middle of a repetition, or through all of an operation that goes as one before it.
//!
//! All of that is added at once: times, bytes and events. Integer times make it exact, not an
//! estimate.
//!
//! States are remembered after 1, 2, 3, … 10, 12, 14, … steps of one worker since the operation's
//! begin or the last jump, ever farther apart, and each later one is compared with all of them:
//! a repetition is found soon after the first one that begins after the first steps' unrest is
//! complete, whatever its length. Most comparisons end at the first thing that they look at.
//!
//! Where no state comes back for long, comparing is given up, and the simulation begins anew without
//! it: comparing needs one clock for the whole machine, and what can do without one is faster.

mod along;
mod jump;
mod state;

use super::Run;
use crate::actor::Actor;
use crate::probe::Probe;
use state::State;

/// Looks for states that come back.
pub(super) struct Skipper {
    /// States are compared whenever this worker has begun another step.
    reference: usize,
    last_step: u32,
    /// In order of time, and of their numbers.
    remembered: Vec<State>,
    /// So many were remembered so far.
    numbered: u32,
    /// Numbers of states of which the second is the first come back.
    cycles: Vec<(u32, u32)>,
    /// Comparisons since the last jump, and at how many the next state is remembered.
    compared: u64,
    next: u64,
    /// Events that were not simulated.
    pub(super) skipped: u64,
    /// No state came back for so long that it is not worth it to go on comparing.
    in_vain: bool,
}

/// So many actors are remembered, in all states together.
const MOST_ACTORS: usize = 3 << 16;

/// So many states are remembered at most: each later one is compared with all of them.
const MOST_STATES: usize = 256;

/// Comparing is given up where no state has come back in this part of all steps, …
const PATIENCE: u64 = 8;

/// … or in this one where fewer than half of the ranks are as others: many stay after that, who
/// are simulated several times as fast in turns as in order.
const PATIENCE_WITH_MANY: u64 = 32;

/// … and in so many events, for without comparing they have to be simulated anew; and no more in the
/// second half of all steps.
const FEWEST_EVENTS: u64 = if cfg!(test) { 32 } else { 1 << 14 };

/// With so many remembered states that are as this one, and from which no way leads on, others
/// are not looked at.
const MOST_IN_VAIN: u32 = 8;

impl Skipper {
    /// For a run whose workers have so many steps; none of them waits for another one of its
    /// rank.
    pub(super) fn new(steps: impl Iterator<Item = u32>) -> Self {
        let most = steps.enumerate().max_by_key(|&(_, steps)| steps);
        Skipper {
            reference: most.map_or(0, |(index, _)| index),
            last_step: 0,
            remembered: Vec::new(),
            numbered: 0,
            cycles: Vec::new(),
            compared: 0,
            next: 1,
            skipped: 0,
            in_vain: false,
        }
    }

    fn begin_anew(&mut self, step: u32) {
        self.last_step = step;
        (self.compared, self.next) = (0, 1);
    }

    /// Remembers a state in place of the oldest one, if these are too many; a repetition, which
    /// later operations may come to as well, is forgotten last.
    fn remember(&mut self, mut state: State, most: usize) {
        while self.remembered.len() >= most {
            let old = self.remembered.iter().position(|s| !self.repeats(s.number));
            let gone = self.remembered.remove(old.unwrap_or(0)).number;
            self.cycles
                .retain(|&(first, last)| first != gone && last != gone);
        }
        state.number = self.numbered;
        self.numbered += 1;
        self.remembered.push(state);
    }

    /// Whether a state is one of a repetition.
    fn repeats(&self, number: u32) -> bool {
        let mut cycles = self.cycles.iter();
        cycles.any(|&(first, last)| (first..=last).contains(&number))
    }

    /// Where the state with a number is remembered.
    fn place(&self, number: u32) -> Option<usize> {
        let states = &self.remembered;
        states.binary_search_by_key(&number, |s| s.number).ok()
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
        // Operations are looked at after the same numbers of steps: one may go as another did.
        if step < skipper.last_step {
            skipper.begin_anew(step);
        }
        skipper.last_step = step;
        skipper.compared += 1;
        let mut in_vain = 0;
        for at in (0..skipper.remembered.len()).rev() {
            let state = &mut skipper.remembered[at];
            if let Some(actor) = self.tells_apart(state, state.telling) {
                state.telling = actor;
                continue;
            }
            if self.go_along(&mut skipper, at) {
                let step = self.actors[skipper.reference].next_step;
                skipper.begin_anew(step);
                break;
            }
            in_vain += 1;
            if in_vain == MOST_IN_VAIN {
                break;
            }
        }
        if skipper.compared >= skipper.next {
            let state = self.state(skipper.skipped);
            skipper.remember(state, self.most_states());
            skipper.next = skipper.compared + skipper.compared / 8 + 1;
        }
        let folded = self.ranks.len() as u32 <= self.plan.program.ranks() / 2;
        let patience = if folded { PATIENCE } else { PATIENCE_WITH_MANY };
        skipper.in_vain = skipper.skipped == 0
            && self.events >= FEWEST_EVENTS
            && (self.steps_total / patience..self.steps_total / 2).contains(&self.steps_begun);
        self.skipper = Some(skipper);
    }

    /// Whether comparing states has been given up: simulating without it, which needs no order in
    /// time, is faster from the beginning on than going on with it.
    #[inline]
    pub(super) fn compares_in_vain(&self) -> bool {
        self.skipper.as_ref().is_some_and(|skipper| skipper.in_vain)
    }

    /// How many states may be remembered: as many as take little memory, and two in any case.
    fn most_states(&self) -> usize {
        (MOST_ACTORS / self.actors.len().max(1)).clamp(2, MOST_STATES)
    }
}

/// What [`Actor::next_step`] was, and is.
fn steps_between(then: &Actor, now: &Actor) -> Option<u64> {
    now.next_step.checked_sub(then.next_step).map(u64::from)
}
