//! Groups that meet nobody: a part of one group and its resources needs no filling.

use super::groups::{GroupId, GroupUse};
use super::{ResourceId, Sharing};

/// Groups with more resources are left to filling.
const MOST_USES: usize = 32;

impl Sharing {
    /// The rate of a group that has all of its resources to itself: what a part of this group,
    /// and those of its resources that are full, or will be if it `grows`, comes to. False, and
    /// nothing done, if others use one.
    pub(super) fn settle_apart(&mut self, id: GroupId, grows: bool) -> bool {
        let uses = self.groups.uses(id);
        let shared = |u: &GroupUse| self.pools[u.resource as usize].active.len() != 1;
        if uses.len() > MOST_USES || uses.iter().any(shared) {
            return false;
        }
        let group = &self.groups.all[id as usize];
        let (own, own_limit) = (group.own, group.own_limit);
        let (mut load_before, mut counted) = (group.load, group.counted);
        let members = group.members.len() as u32;
        // Which of its resources are of the part, as bits.
        let mut part = 0u32;
        for (k, u) in uses.iter().enumerate() {
            let inside =
                self.levels[u.resource as usize].binding || grows && self.would_be_full(id, u);
            part |= u32::from(inside) << k;
        }
        let inside = |part: u32, k: usize| part >> k & 1 == 1;
        let (rate, limit, load) = loop {
            let (rate, limit) = self.lowest(uses, |k| inside(part, k), (own, own_limit));
            let load = u128::from(rate) * u128::from(members);
            let same = load == load_before && counted == members;
            (load_before, counted) = (load, members);
            let before = part;
            for (k, u) in uses.iter().enumerate() {
                let full = || {
                    let used = load * u128::from(u.weight);
                    self.pools[u.resource as usize].is_full_with(used)
                };
                if !same && !inside(part, k) && full() {
                    part |= 1 << k;
                }
            }
            if part == before {
                break (rate, limit, load);
            }
        };
        for (k, u) in uses.iter().enumerate() {
            let pool = &mut self.pools[u.resource as usize];
            pool.used = load * u128::from(u.weight);
            if inside(part, k) {
                pool.dirty = false;
                self.levels[u.resource as usize].binding = pool.is_full();
            }
        }
        self.note_before(id);
        let group = &mut self.groups.all[id as usize];
        (group.rate, group.limit) = (rate, limit);
        (group.load, group.counted) = (load, members);
        true
    }

    /// The rate that a group has with some of its resources, and what limits it.
    fn lowest(
        &self,
        uses: &[GroupUse],
        inside: impl Fn(usize) -> bool,
        own: (u64, ResourceId),
    ) -> (u64, ResourceId) {
        let (mut lowest, mut full) = own;
        let mut limited = false;
        for (k, u) in uses.iter().enumerate() {
            if !inside(k) {
                continue;
            }
            let pool = &self.pools[u.resource as usize];
            let level = pool.capacity / pool.weight;
            if level < lowest || limited && level == lowest && u.resource < full {
                (lowest, full, limited) = (level, u.resource, true);
            }
        }
        (lowest, full)
    }
}
