//! From a state that came back: how far what followed it then is what follows now.

use super::{Skipper, State, steps_between};
use crate::actor::Phase;
use crate::probe::Probe;
use crate::run::Run;
use fabricsim_units::Time;

impl<P: Probe> Run<'_, '_, P> {
    /// The state is as the `at`-th remembered one was: goes as far as is known from there.
    /// False if that is nowhere.
    pub(super) fn go_along(&mut self, skipper: &mut Skipper, mut at: usize) -> bool {
        let mut moved = false;
        if let Some(times) = self.returns(&skipper.remembered[at]) {
            let state = self.state(skipper.skipped);
            let from = skipper.remembered[at].number;
            skipper.remember(state, usize::MAX);
            let last = skipper.remembered.len() - 1;
            skipper.cycles.push((from, skipper.remembered[last].number));
            skipper.skipped += self.repeat(skipper, (at, last), times);
            moved = true;
        }
        loop {
            let mut on = false;
            let number = skipper.remembered[at].number;
            for cycle in 0..skipper.cycles.len() {
                let (first, last) = skipper.cycles[cycle];
                let ends = skipper.place(first).zip(skipper.place(last));
                let Some(ends) = ends.filter(|_| (first..=last).contains(&number)) else {
                    continue;
                };
                let times = self.turns(skipper, at, ends);
                if times > 0 {
                    skipper.skipped += self.repeat(skipper, ends, times);
                    on = true;
                }
            }
            if let Some(to) = self.farthest(skipper, at) {
                skipper.skipped += self.follow(&skipper.remembered[at], &skipper.remembered[to]);
                on = true;
                // The end of a repetition is its beginning.
                let number = skipper.remembered[to].number;
                let cycle = skipper.cycles.iter().find(|cycle| cycle.1 == number);
                at = cycle.and_then(|c| skipper.place(c.0)).unwrap_or(to);
            }
            if !on {
                return moved;
            }
            moved = true;
        }
    }

    /// How often what happened since then, in this operation, happens again from here: at least
    /// once.
    fn returns(&self, then: &State) -> Option<u64> {
        if self.now == then.now || self.operations_since(then) != Some(0) {
            return None;
        }
        let mut times = u64::MAX;
        for id in 0..self.workers {
            let then = &then.actors[id as usize];
            let shift = steps_between(then, &self.actors[id as usize])?;
            if shift > 0 {
                let same = self.same_steps(id, then.next_step, shift);
                times = times.min(same.saturating_sub(1) / shift);
            }
        }
        (1..u64::MAX).contains(&times).then_some(times)
    }

    /// How often what happened between two states, of which the second is the first come back,
    /// happens again here, where the state is as the `at`-th was, in between.
    fn turns(&self, skipper: &Skipper, at: usize, (from, to): (usize, usize)) -> u64 {
        let [then, from, to] = [at, from, to].map(|at| &skipper.remembered[at]);
        let mut times = u64::MAX;
        for id in 0..self.workers {
            let (first, last) = (&from.actors[id as usize], &to.actors[id as usize]);
            let Some(shift) = steps_between(first, last) else {
                return 0;
            };
            if shift == 0 {
                continue;
            }
            if !self.goes_on_as(id, then, shift) {
                return 0;
            }
            let step = self.actors[id as usize].next_step;
            let same = self.same_steps(id, step, shift);
            times = times.min(1 + same.saturating_sub(1) / shift);
            // The last of them leads to a step as well.
            let steps = u64::from(self.actors[id as usize].steps - step);
            times = times.min(steps / shift);
        }
        if times == u64::MAX { 0 } else { times }
    }

    /// Whether the step at hand and the `steps` after it look like those then.
    fn goes_on_as(&self, id: u32, then: &State, steps: u64) -> bool {
        let (now, then) = (
            self.actors[id as usize].next_step,
            then.actors[id as usize].next_step,
        );
        now == then || self.same_steps(id, now.min(then), u64::from(now.abs_diff(then))) > steps
    }

    /// How many steps from that at hand on look like those that come `shift` later.
    fn same_steps(&self, id: u32, next_step: u32, shift: u64) -> u64 {
        let at_hand = u64::from(next_step.saturating_sub(1));
        let program = self.plan.program.as_ref();
        program.same_after(self.cast.worker(id), at_hand, shift)
    }

    /// The last remembered state to which what happened after the `at`-th leads from here as well.
    fn farthest(&self, skipper: &Skipper, at: usize) -> Option<usize> {
        let from = &skipper.remembered[at];
        let later = self.operations_since(from)?;
        let shift = self.now.saturating_sub(from.now);
        let mut farthest = None;
        for to in at + 1..skipper.remembered.len() {
            let state = &skipper.remembered[to];
            if !self.leads_to(from, state, (later, shift)) {
                break;
            }
            farthest = Some(to);
        }
        farthest
    }

    /// Whether what leads from one state to another leads from here to the like: so many
    /// operations, and so much time, later.
    fn leads_to(&self, from: &State, to: &State, (later, shift): (u32, Time)) -> bool {
        let ranks = || from.ranks.iter().zip(&to.ranks).enumerate();
        if ranks().all(|(_, (from, to))| from.operation == to.operation) {
            return (0..self.workers).all(|id| {
                let (a, b) = (&from.actors[id as usize], &to.actors[id as usize]);
                // Whoever comes to its end does so at its last step.
                let ends = a.phase != Phase::Done && b.phase == Phase::Done;
                let same = self.actors[id as usize].next_step == a.next_step;
                let goes_on = |steps| steps == 0 || self.goes_on_as(id, from, steps);
                steps_between(a, b).is_some_and(|steps| same || !ends && goes_on(steps))
            });
        }
        // To another operation, or several: the same steps lead to it, it is not the last one's
        // end, and kernels wait for those before them, not for their processes.
        let waits = |rank: usize, operation: u32, end: Time| {
            let issue = &self.plan.issue;
            issue.at(self.cast.rank(rank).0, operation) <= end + issue.between
        };
        later > 0
            && (0..self.workers as usize)
                .all(|id| self.actors[id].next_step == from.actors[id].next_step)
            && ranks().all(|(rank, (from, to))| {
                (to.operation + later) < self.finish.len() as u32
                    && (from.operation..to.operation).all(|o| {
                        let end = self.finish[o as usize][rank];
                        waits(rank, o + 1, end) && waits(rank, o + 1 + later, end + shift)
                    })
            })
    }
}
