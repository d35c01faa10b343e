//! Who is of which herd: regions leave, and come back.

use super::Herds;
use crate::probe::Probe;
use crate::run::Run;
use fabricsim_units::Time;
use rustc_hash::FxHashMap;
use std::ops::Range;

impl<P: Probe> Run<'_, '_, P> {
    /// Those that come to a step of their own leave their herds.
    pub(super) fn go_alone(&mut self, herds: &mut Herds) {
        for leader in 0..herds.leader.len() as u32 {
            if herds.leader[leader as usize] != leader {
                continue;
            }
            let members = herds.members[leader as usize].clone();
            for &region in [leader].iter().chain(&members) {
                if herds.slack[region as usize] == 0 {
                    let left = self.steps_before(herds, region, leader);
                    herds.slack[region as usize] = left;
                    herds.near[region as usize] = left == 0;
                }
            }
            for region in members {
                if herds.near[region as usize] {
                    self.leave(herds, region);
                }
            }
            if herds.near[leader as usize] {
                self.hand_over(herds, leader);
            }
        }
    }

    /// How many steps a region's workers may take, where those of its leader are now, before
    /// one comes near a step of its own.
    fn steps_before(&self, herds: &Herds, region: u32, leader: u32) -> u64 {
        let actors = &herds.layout(leader).actors;
        let left = |(at, own): &(u32, Range<u64>)| {
            let actor = &self.actors[actors[*at as usize] as usize];
            let next = u64::from(actor.next_step);
            // After the last step comes the first.
            let again = if next <= own.end {
                0
            } else {
                u64::from(actor.steps)
            };
            // The step at hand is the one before the next.
            (own.start + again).saturating_sub(next + herds.margin)
        };
        let all = herds.uneven[region as usize].iter().map(left);
        all.min().unwrap_or(u64::MAX)
    }

    /// Herds that do the same become one.
    pub(super) fn unite(&mut self, herds: &mut Herds, now: Time) {
        let mut known: FxHashMap<(u32, u64), Vec<u32>> = FxHashMap::default();
        for region in herds.leaders().collect::<Vec<_>>() {
            if herds.near[region as usize] {
                continue;
            }
            let layout = herds.layout(region);
            let alike = known.entry((layout.kind, self.glance(layout))).or_default();
            let same = |&&other: &&u32| self.do_the_same(herds, (region, other), now);
            match alike.iter().find(same) {
                Some(&leader) => self.join_herd(herds, region, leader),
                None => alike.push(region),
            }
        }
    }

    /// A leader and all its members become members of another herd.
    fn join_herd(&mut self, herds: &mut Herds, region: u32, leader: u32) {
        let counts = self
            .counts(herds, region)
            .plus(&self.counts(herds, leader), -1);
        let mut members = std::mem::take(&mut herds.members[region as usize]);
        for &member in &members {
            let more = herds.more_of(member).plus(&counts, 1);
            herds.set_more(member, more);
        }
        herds.set_more(region, counts);
        members.push(region);
        for &member in &members {
            herds.leader[member as usize] = leader;
        }
        herds.members[leader as usize].append(&mut members);
        self.stand_still(&herds.layouts.all[region as usize], region);
    }

    /// A member goes on from where its leader is.
    pub(super) fn leave(&mut self, herds: &mut Herds, member: u32) {
        let leader = herds.leader[member as usize];
        self.take_over(herds, leader, member);
        let counts = self.counts(herds, leader).plus(&herds.more_of(member), 1);
        let layout = &herds.layouts.all[member as usize];
        self.set_counts(layout, &counts);
        for &id in layout.actors.iter().take_while(|&&id| id < self.workers) {
            herds.steps[id as usize] = self.steps_loaded(herds, id);
        }
        herds.members[leader as usize].retain(|&m| m != member);
        herds.leader[member as usize] = member;
        herds.finished[member as usize] = herds.finished[leader as usize];
        // What the leader told, it has told.
        herds.told[member as usize] = herds.told[leader as usize].clone();
    }

    /// A leader goes alone: one of its members leads the others.
    fn hand_over(&mut self, herds: &mut Herds, leader: u32) {
        let Some(&next) = herds.members[leader as usize].first() else {
            return;
        };
        let own = herds.more_of(next);
        herds.set_more(next, own.clone());
        self.leave(herds, next);
        let others = std::mem::take(&mut herds.members[leader as usize]);
        for &other in &others {
            herds.leader[other as usize] = next;
            let more = herds.more_of(other).plus(&own, -1);
            herds.set_more(other, more);
        }
        herds.members[next as usize] = others;
    }
}
