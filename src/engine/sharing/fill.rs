//! Progressive filling of a part of the sharing graph.

use super::Sharing;
use super::groups::GroupId;
use crate::engine::resources::ResourceId;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Up to this many resources, looking at all of them beats a heap.
const SCAN: usize = 48;

/// With more, looking at all of them in so many rounds does.
const FEW_ROUNDS: u32 = 3;

impl Sharing {
    /// Progressive filling of the collected part.
    pub(super) fn fill(&mut self, groups: &[GroupId]) {
        let mut sorted: SmallVec<[GroupId; 32]> = SmallVec::new();
        let own = |g: GroupId| self.groups.all[g as usize].own;
        let by_own = if groups.iter().all(|&g| own(g) == own(groups[0])) {
            groups
        } else {
            sorted.extend_from_slice(groups);
            sorted.sort_unstable_by_key(|&g| own(g));
            sorted.as_slice()
        };
        let few = self.part_pools.len() <= SCAN;
        let (mut rising, mut next_own, mut round) = (groups.len(), 0, 0);
        while rising > 0 {
            // Mostly all is settled in a few rounds.
            let scan = few || round < FEW_ROUNDS;
            if !few && round == FEW_ROUNDS {
                self.heap.clear();
                let levels = self
                    .part_pools
                    .iter()
                    .map(|&r| Reverse((self.pools[r as usize].level(), r)));
                self.heap.extend(levels);
            }
            round += 1;
            let level = if scan {
                self.lowest_by_scan()
            } else {
                self.lowest_by_heap()
            };
            while self.groups.all[by_own[next_own] as usize].settled {
                next_own += 1;
            }
            let own = self.groups.all[by_own[next_own] as usize].own;
            if own <= level {
                // The heap's entries stay valid: levels only rise.
                if !scan {
                    self.heap
                        .extend(self.full.iter().map(|&r| Reverse((level, r))));
                }
                for &id in &by_own[next_own..] {
                    let group = &self.groups.all[id as usize];
                    if group.own != own {
                        break;
                    }
                    if !group.settled {
                        self.settle(id, own, group.own_limit);
                        rising -= 1;
                    }
                }
                continue;
            }
            let full = std::mem::take(&mut self.full);
            for &resource in &full {
                for i in 0..self.pools[resource as usize].active.len() {
                    let at = self.pools[resource as usize].active[i];
                    let id = self.groups.uses[at as usize].group;
                    if self.groups.all[id as usize].settled {
                        continue;
                    }
                    self.settle(id, level, resource);
                    rising -= 1;
                }
            }
            self.full = full;
        }
    }

    fn settle(&mut self, id: GroupId, rate: u64, limit: ResourceId) {
        let group = &mut self.groups.all[id as usize];
        group.settled = true;
        group.rate = rate;
        group.limit = limit;
        let members = group.members.len() as u64;
        for u in self.groups.uses(id) {
            let pool = &mut self.pools[u.resource as usize];
            if pool.seen == self.part {
                let weight = members * u64::from(u.weight);
                pool.rest -= rate * weight;
                pool.rising -= weight;
            }
        }
    }

    /// The lowest level; `full` becomes the resources that have it.
    fn lowest_by_scan(&mut self) -> u64 {
        let mut lowest = u64::MAX;
        self.full.clear();
        for &resource in &self.part_pools {
            let pool = &self.pools[resource as usize];
            if pool.rising == 0 {
                continue;
            }
            let level = pool.level();
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
            let pool = &self.pools[resource as usize];
            if pool.rising == 0 {
                continue;
            }
            let now = pool.level();
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
