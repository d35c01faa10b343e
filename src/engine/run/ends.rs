//! When transfers that share end: transfers of one group have one rate, so one event is enough for
//! all of them, that of the first end. Most rates change several times before anything ends, and
//! most groups end together.

use super::Run;
use crate::probe::{ActorId, Probe};
use crate::sharing::{Change, GroupId, Limit};
use fabricsim_units::Time;

/// Marks an event as that of a group, in place of an actor.
pub(super) const GROUP: ActorId = 1 << 31;

/// When the first member of a group ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    at: Time,
    /// When its event is, not later than `at`: rates fall and rise again before anything ends,
    /// so that an event that has become too early mostly is right again when its time has come.
    queued: Time,
    /// Events of older generations are stale.
    generation: u32,
}

const NEVER: Due = Due {
    at: Time::MAX,
    queued: Time::MAX,
    generation: 0,
};

impl<P: Probe> Run<'_, '_, P> {
    /// Shares links anew.
    pub(super) fn share_groups(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        self.sharing.solve(&mut changes);
        for &Change { flow, rate, limit } in &changes {
            if rate > 0 || limit != Limit::Cap {
                self.book(flow, self.now, (rate, limit));
            }
            self.actors[flow as usize].advance(rate, self.now);
        }
        let mut last = None;
        for &Change { flow, rate, .. } in &changes {
            let group = self.sharing.group_of(flow);
            if rate == 0 {
                self.expect_end(flow);
            } else if last != Some(group) {
                // All who had a rate before come one after the other.
                last = Some(group);
                self.expect_first(group);
            }
        }
        self.changes = changes;
    }

    /// A transfer has got a rate that nobody else's change brought about.
    pub(super) fn expect_end(&mut self, id: ActorId) {
        let group = self.sharing.group_of(id);
        let end = self.actors[id as usize].end_at(self.sharing.rate(id).0);
        if let Some(end) = end.filter(|&end| end < self.due(group).at) {
            self.expect(group, end);
        }
    }

    /// Nobody waits for the end of a group any more, and its event, if it has one, is not kept.
    pub(super) fn forget(&mut self, group: GroupId) {
        let due = self.due(group);
        *due = Due {
            generation: due.generation.wrapping_add(1),
            ..NEVER
        };
    }

    /// The rate of a group is new, or some of its members have ended: the next of them to end.
    pub(super) fn expect_first(&mut self, group: GroupId) {
        let rate = self.sharing.rate_of(group);
        // Those who go on since the same instant end in the order of what is left.
        let (mut end, mut seen) = (Time::MAX, (Time::MAX, u64::MAX));
        for &id in self.sharing.members(group) {
            let actor = &self.actors[id as usize];
            let (mark, remaining) = (actor.mark, actor.remaining);
            if mark == seen.0 && remaining >= seen.1 {
                continue;
            }
            seen = (mark, remaining);
            let own = actor.end_at(rate);
            end = end.min(own.unwrap_or(Time::MAX));
        }
        self.expect(group, end);
    }

    fn expect(&mut self, group: GroupId, at: Time) {
        let due = self.due(group);
        due.at = at;
        if at < due.queued {
            due.queued = at;
            due.generation = due.generation.wrapping_add(1);
            let generation = due.generation;
            self.queue.push(at.picos(), (GROUP | group, generation));
        }
    }

    fn due(&mut self, group: GroupId) -> &mut Due {
        let group = group as usize;
        if self.due.len() <= group {
            self.due.resize(group + 1, NEVER);
        }
        &mut self.due[group]
    }

    /// A group's event: whoever of it has moved all ends now.
    pub(super) fn end_some(&mut self, group: GroupId, generation: u32) {
        let now = self.now;
        let due = self.due(group);
        if due.generation != generation {
            return;
        }
        due.queued = Time::MAX;
        if due.at > now {
            // It was too early. If nobody is left there is nothing to come.
            let at = due.at;
            self.expect(group, at);
            return;
        }
        due.at = Time::MAX;
        let rate = self.sharing.rate_of(group);
        let mut over = std::mem::take(&mut self.over);
        let members = self.sharing.members(group);
        let all = members.len();
        for &id in members {
            if self.actors[id as usize].is_over(rate, self.now) {
                over.push(id);
            }
        }
        let some = over.len() < all;
        for id in over.drain(..) {
            self.events += 1;
            self.end(id, self.now);
        }
        self.over = over;
        if some {
            self.expect_first(group);
        }
    }
}
