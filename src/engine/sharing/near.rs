//! Changes that stay near: in a large part most rates stay what they were.
//!
//! Rates are those of progressive filling if, and only if, each resource says so by itself: when
//! its transfers settle in the order of their rates, each finds a level no lower than its own rate,
//! and the first level that is no higher than a rate is that of all who are left; and whoever is not
//! as fast as alone has a resource with such a level. (The slowest who are left then settle where
//! filling does, and with them all who do; and so on.) So it is enough to compute anew the rates
//! next to the change, as if all others stayed, and to ask the resources that they meet: whose
//! transfers are too fast there, or could be faster, is taken in, and the rates computed once more.

use super::Sharing;
use super::groups::GroupId;
use crate::resources::ResourceId;
use smallvec::SmallVec;

/// Parts of so many groups are computed as a whole: that is as fast.
const FEW: usize = if cfg!(test) { 0 } else { 24 };

/// With more groups next to the change, it is not near.
const MOST: usize = if cfg!(test) { 5 } else { 64 };

/// What a resource says of the rates of its transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Some are too fast.
    TooFast,
    /// It is full at this rate, which is that of the fastest.
    FullAt(u64),
    /// It holds nobody back.
    HasRoom,
}

impl Sharing {
    /// Whether changes are to be kept near: parts are large.
    pub(super) fn is_near_worth(&self) -> bool {
        self.last_part > FEW
    }

    /// Computes the rates next to the resources and groups reached so far, and as many farther ones
    /// as change. False if these are too many: the part is then still to be computed as a whole.
    pub(super) fn settle_near(&mut self) -> bool {
        for at in 0..self.part_groups.len() {
            self.reach_all(self.part_groups[at]);
        }
        for at in 0..self.part_pools.len() {
            self.take_in_users(self.part_pools[at]);
        }
        while self.part_groups.len() <= MOST {
            self.leave_to_part();
            let groups = std::mem::take(&mut self.part_groups);
            self.fill(&groups);
            self.use_up(&groups);
            self.part_groups = groups;
            // Others cannot be full.
            for resource in self.touched.drain(..) {
                self.pools[resource as usize].touched = 0;
            }
            let groups = self.part_groups.len();
            let mut right = true;
            for at in 0..self.part_pools.len() {
                let resource = self.part_pools[at];
                if self.verdict(resource) == Verdict::TooFast {
                    self.take_in_users(resource);
                    right = false;
                }
            }
            if right {
                for at in 0..self.part_pools.len() {
                    right &= self.limit_users(self.part_pools[at]);
                }
            }
            if right {
                self.note_full();
                return true;
            }
            if self.part_groups.len() == groups {
                return false;
            }
        }
        false
    }

    /// Makes all transfers over a resource belong to the part, with what they can fill.
    fn take_in_users(&mut self, resource: ResourceId) {
        for i in 0..self.pools[resource as usize].active.len() {
            let (_, group) = self.pools[resource as usize].active[i];
            if self.groups.parts[group as usize] != self.part {
                self.take_in(group);
                self.reach_all(group);
            }
        }
    }

    /// Makes all resources that a group's members and others can fill belong to the part.
    fn reach_all(&mut self, id: GroupId) {
        let (first, last) = self.groups.all[id as usize].uses;
        for at in first..last {
            let resource = self.groups.uses[at as usize].resource;
            let pool = &self.pools[resource as usize];
            if pool.demand > u128::from(pool.capacity) {
                self.reach(resource);
            }
        }
    }

    /// Leaves to the part what those outside of it do not take of its resources.
    fn leave_to_part(&mut self) {
        for &resource in &self.part_pools {
            let pool = &self.pools[resource as usize];
            let (mut others, mut rising) = (0u128, 0);
            for &(at, id) in &pool.active {
                let group = &self.groups.all[id as usize];
                let weight = self.groups.uses[at as usize].weight;
                if self.groups.parts[id as usize] == self.part {
                    rising += group.members.len() as u64 * u64::from(weight);
                } else {
                    others += group.load * u128::from(weight);
                }
            }
            let level = &mut self.levels[resource as usize];
            level.rest = u128::from(pool.capacity).saturating_sub(others) as u64;
            level.rising = rising;
        }
    }

    /// Finds what limits the transfers over a resource: the first that is full at their rate. If
    /// nothing limits some any more, takes them in, and returns false; or whoever else, and faster,
    /// uses what limited them in the part.
    fn limit_users(&mut self, resource: ResourceId) -> bool {
        let mut all = true;
        let verdict = self.verdict(resource);
        for i in 0..self.pools[resource as usize].active.len() {
            let (_, id) = self.pools[resource as usize].active[i];
            let group = &self.groups.all[id as usize];
            let (rate, limit) = (group.rate, group.limit);
            if rate == group.own {
                continue;
            }
            let right = match verdict {
                Verdict::FullAt(full) if full == rate => limit <= resource,
                _ => limit != resource,
            };
            if right {
                continue;
            }
            let (first, last) = group.uses;
            let full = (first..last).filter_map(|at| {
                let resource = self.groups.uses[at as usize].resource;
                (self.verdict(resource) == Verdict::FullAt(rate)).then_some(resource)
            });
            match full.min() {
                Some(first) => {
                    self.note_before(id);
                    self.groups.all[id as usize].limit = first;
                }
                None => {
                    all = false;
                    if self.groups.parts[id as usize] == self.part {
                        self.take_in_users(resource);
                    } else {
                        self.take_in(id);
                        self.reach_all(id);
                    }
                }
            }
        }
        all
    }

    /// What a resource says of the rates of all transfers over it, since the last filling.
    fn verdict(&mut self, resource: ResourceId) -> Verdict {
        let known = self.verdicts[resource as usize];
        if known.0 == self.fillings {
            return known.1;
        }
        let verdict = self.judge(resource);
        self.verdicts[resource as usize] = (self.fillings, verdict);
        verdict
    }

    fn judge(&self, resource: ResourceId) -> Verdict {
        let pool = &self.pools[resource as usize];
        // Who has no rate yet would be faster.
        let rated = |&(_, id): &(u32, GroupId)| {
            let group = &self.groups.all[id as usize];
            group.counted as usize == group.members.len()
        };
        if !pool.active.iter().all(rated) {
            return Verdict::TooFast;
        }
        if !pool.is_full() {
            return Verdict::HasRoom;
        }
        // By rate; those who are as fast as alone first.
        let mut users: SmallVec<[(u64, bool, u64); 32]> = SmallVec::new();
        for &(at, id) in &pool.active {
            let group = &self.groups.all[id as usize];
            let weight = u64::from(self.groups.uses[at as usize].weight);
            let weight = u64::from(group.counted) * weight;
            users.push((group.rate, group.rate != group.own, weight));
        }
        users.sort_unstable_by_key(|&(rate, limited, _)| (rate, limited));
        let fastest = users.last().map_or(0, |user| user.0);
        let (mut rest, mut rising) = (pool.capacity, pool.weight);
        // What those who are left would have at a rate.
        let all_at = |rate: u64, rising: u64| u128::from(rate) * u128::from(rising);
        for level in users.chunk_by(|a, b| a.0 == b.0) {
            let rate = level[0].0;
            if u128::from(rest) < all_at(rate, rising) {
                return Verdict::TooFast;
            }
            for &(_, limited, weight) in level {
                if limited && u128::from(rest) < all_at(rate + 1, rising) {
                    return if rate == fastest {
                        Verdict::FullAt(rate)
                    } else {
                        Verdict::TooFast
                    };
                }
                rest -= rate * weight;
                rising -= weight;
            }
        }
        Verdict::HasRoom
    }
}
