//! Jumps: what happens in between is added, and what is in the future comes later.

use super::{Skipper, State};
use crate::actor::{Actor, Cold, Phase, add_limited};
use crate::probe::Probe;
use crate::resources::ResourceId;
use crate::run::Run;
use fabricsim_units::Time;

impl<P: Probe> Run<'_, '_, P> {
    /// What leads from one state to another, in which all is the same, happens so many times.
    /// Returns how many events that is.
    pub(super) fn repeat(
        &mut self,
        skipper: &Skipper,
        (from, to): (usize, usize),
        times: u64,
    ) -> u64 {
        let [from, to] = [from, to].map(|at| &skipper.remembered[at]);
        let shift = (to.now - from.now).times(times);
        self.now += shift;
        self.queue.shift(shift.picos());
        self.machinery.fifos.shift(shift);
        for (a, c) in self.actors.iter_mut().zip(&mut self.cold) {
            if a.phase != Phase::Done {
                shift_times(a, c, shift);
            }
        }
        self.add(from, to, times);
        self.probe.repeated(to.now - from.now, times);
        (to.events - from.events) * times
    }

    /// What leads from a state like this one to another happens again. Returns how many events
    /// that is.
    pub(super) fn follow(&mut self, from: &State, to: &State) -> u64 {
        let shift = self.now - from.now;
        for (rank, (before, after)) in from.ranks.iter().zip(&to.ranks).enumerate() {
            let later = (self.ranks[rank].operation - before.operation) as usize;
            for operation in before.operation as usize..after.operation as usize {
                let end = self.finish[operation][rank];
                self.finish[operation + later][rank] = end + shift;
            }
            let rank = &mut self.ranks[rank];
            rank.running = after.running;
            rank.operation = after.operation + later as u32;
            rank.latest = after.latest + shift;
            rank.latest_by = after.latest_by;
        }
        self.add(from, to, 1);
        self.probe.go_back(to.epoch);
        let machinery = &mut self.machinery;
        machinery.fifos.become_later(&to.fifos, shift);
        let shares = |a: &Actor| a.phase == Phase::Streams && !machinery.is_free(a.path);
        for id in 0..self.actors.len() {
            let (before, after) = (&from.actors[id], &to.actors[id]);
            if shares(&self.actors[id]) {
                self.sharing.stop(id as u32);
            }
            let (a, c) = (&mut self.actors[id], &mut self.cold[id]);
            // Done in this operation, before and after: its last time stays.
            if a.phase == Phase::Done && after.phase == Phase::Done && a.free == before.free {
                continue;
            }
            // What was added up stays.
            let mut actor = Actor {
                next_step: a.next_step,
                sync: a.sync,
                latency: a.latency,
                wait_data: a.wait_data,
                wait_credit: a.wait_credit,
                at_cap: a.at_cap,
                limited: a.limited,
                limited_by: a.limited_by,
                ..after.clone()
            };
            let mut cold = Cold {
                limited: std::mem::take(&mut c.limited),
                idle: c.idle,
                ..to.cold[id].clone()
            };
            shift_times(&mut actor, &mut cold, shift);
            (*a, *c) = (actor, cold);
        }
        // Rates are what those who share get, whenever they began.
        for (id, a) in (0..).zip(&self.actors) {
            if shares(a) {
                self.sharing.start(&machinery.resources, id, a.path, a.cap);
            }
        }
        if self.sharing.is_dirty() {
            self.sharing.solve(&mut self.changes);
        }
        self.now = to.now + shift;
        let due = to.queue.iter();
        let due = due.map(|&(time, item)| (time.saturating_add(shift.picos()), item));
        self.queue.become_new(self.now.picos(), due);
        to.events - from.events
    }

    /// Adds what was done between two states so many times; not what is in the future.
    fn add(&mut self, from: &State, to: &State, times: u64) {
        self.machinery
            .fifos
            .add_between(&from.fifos, &to.fifos, times);
        self.transfers += (to.transfers - from.transfers) * times;
        self.steps_begun += (to.steps_begun - from.steps_begun) * times;
        self.alike.iter_mut().for_each(|alike| alike.until = 0);
        for id in 0..self.actors.len() {
            let (a, c) = (&mut self.actors[id], &mut self.cold[id]);
            let (before, after) = (&from.actors[id], &to.actors[id]);
            let (cold_before, cold_after) = (&from.cold[id], &to.cold[id]);
            // A new operation begins with the first step.
            let steps = (i64::from(after.next_step) - i64::from(before.next_step)) * times as i64;
            a.next_step = (i64::from(a.next_step) + steps) as u32;
            let add = |now: &mut Time, before: Time, after: Time| {
                *now += (after - before).times(times);
            };
            add(&mut a.sync, before.sync, after.sync);
            add(&mut a.latency, before.latency, after.latency);
            add(&mut a.wait_data, before.wait_data, after.wait_data);
            add(&mut a.wait_credit, before.wait_credit, after.wait_credit);
            add(&mut a.at_cap, before.at_cap, after.at_cap);
            add(&mut c.idle, cold_before.idle, cold_after.idle);
            let listed = cold_after.limited.iter().map(|&(r, _)| r);
            let mut resources: Vec<_> = listed.chain([after.limited_by]).collect();
            resources.sort_unstable();
            resources.dedup();
            for resource in resources {
                let total = limited(after, cold_after, resource);
                let more = (total - limited(before, cold_before, resource)).times(times);
                if more > Time::ZERO {
                    add_limited(&mut c.limited, resource, more);
                }
            }
        }
    }
}

/// How long a resource limited an actor, whether it is the last one that did or not.
fn limited(actor: &Actor, cold: &Cold, resource: ResourceId) -> Time {
    let listed = cold.limited.iter().find(|(r, _)| *r == resource);
    let last = actor.limited_by == resource;
    listed.map_or(Time::ZERO, |&(_, t)| t) + if last { actor.limited } else { Time::ZERO }
}

fn shift_times(actor: &mut Actor, cold: &mut Cold, shift: Time) {
    for time in [&mut actor.free, &mut actor.mark, &mut cold.busy_until] {
        *time += shift;
    }
}
