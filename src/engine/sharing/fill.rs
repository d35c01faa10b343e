//! Progressive filling of a part of the sharing graph.

use super::Sharing;
use super::groups::GroupId;
use crate::resources::ResourceId;
use std::cmp::Reverse;

/// Up to this many resources, looking at all of them beats a heap.
const SCAN: usize = 48;

/// With more, looking at all of them in so many rounds does.
const FEW_ROUNDS: u32 = 3;

impl Sharing {
    /// Progressive filling of the collected part.
    pub(super) fn fill(&mut self, groups: &[GroupId]) {
        self.fillings += 1;
        let few = self.part_pools.len() <= SCAN;
        let (mut rising, mut round) = (groups.len(), 0);
        // The slowest of those that are no slower than this one alone have yet to settle.
        let mut own = self.slowest(groups, 0);
        while rising > 0 {
            // Mostly all is settled in a few rounds.
            let scan = few || round < FEW_ROUNDS;
            if !few && round == FEW_ROUNDS {
                self.heap.clear();
                let levels = self
                    .part_pools
                    .iter()
                    .map(|&r| Reverse((self.levels[r as usize].rate(), r)));
                self.heap.extend(levels);
            }
            round += 1;
            let level = if scan {
                self.lowest_by_scan()
            } else {
                self.lowest_by_heap()
            };
            // It may be that of one which a full resource settled: then another one's is higher.
            if own <= level {
                own = self.slowest(groups, own);
            }
            if own <= level {
                // The heap's entries stay valid: levels only rise.
                if !scan {
                    self.heap
                        .extend(self.full.iter().map(|&r| Reverse((level, r))));
                }
                for &id in groups {
                    let group = &self.groups.all[id as usize];
                    if group.own == own && !self.is_settled(id) {
                        self.settle(id, own, group.own_limit);
                        rising -= 1;
                    }
                }
                continue;
            }
            let full = std::mem::take(&mut self.full);
            for &resource in &full {
                for i in 0..self.pools[resource as usize].active.len() {
                    let (_, id) = self.pools[resource as usize].active[i];
                    let rises = self.groups.parts[id as usize] == self.part;
                    if rises && !self.is_settled(id) {
                        self.settle(id, level, resource);
                        rising -= 1;
                    }
                }
            }
            self.full = full;
        }
    }

    fn is_settled(&self, id: GroupId) -> bool {
        self.groups.settled[id as usize] == self.fillings
    }

    /// The least rate that a group that has yet to settle would have alone; all of these are
    /// known to have `least`.
    fn slowest(&self, groups: &[GroupId], least: u64) -> u64 {
        let mut slowest = u64::MAX;
        for &id in groups {
            let own = self.groups.all[id as usize].own;
            if own < slowest && !self.is_settled(id) {
                slowest = own;
                if own == least {
                    break;
                }
            }
        }
        slowest
    }

    fn settle(&mut self, id: GroupId, rate: u64, limit: ResourceId) {
        self.groups.settled[id as usize] = self.fillings;
        let group = &mut self.groups.all[id as usize];
        group.rate = rate;
        group.limit = limit;
        let members = group.members.len() as u64;
        for u in self.groups.uses(id) {
            let level = &mut self.levels[u.resource as usize];
            if level.part == self.part {
                let weight = members * u64::from(u.weight);
                level.rest -= rate * weight;
                level.rising -= weight;
            }
        }
    }

    /// The lowest level; `full` becomes the resources that have it.
    fn lowest_by_scan(&mut self) -> u64 {
        let mut lowest = u64::MAX;
        self.full.clear();
        for &resource in &self.part_pools {
            let level = &self.levels[resource as usize];
            if level.rising == 0 {
                continue;
            }
            let level = level.rate();
            if level < lowest {
                lowest = level;
                self.full.clear();
            }
            if level == lowest {
                self.full.push(resource);
            }
        }
        // Who counts as the limit of a transfer that meets two at once must not depend on
        // the order of events.
        self.full.sort_unstable();
        lowest
    }

    /// As [`Sharing::lowest_by_scan`], from a heap of levels that may be too low (a level
    /// only rises while others settle), each corrected when it comes to the top.
    fn lowest_by_heap(&mut self) -> u64 {
        self.full.clear();
        let mut lowest = u64::MAX;
        while let Some(&Reverse((level, resource))) = self.heap.peek() {
            if level > lowest {
                break;
            }
            self.heap.pop();
            let rising = &self.levels[resource as usize];
            if rising.rising == 0 {
                continue;
            }
            let now = rising.rate();
            if now > level {
                self.heap.push(Reverse((now, resource)));
            } else {
                lowest = level;
                self.full.push(resource);
            }
        }
        self.full.sort_unstable();
        lowest
    }
}
