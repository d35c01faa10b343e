//! Max–min fair sharing of resources among transfers, with a cap for each transfer.
//!
//! Progressive filling: all rates rise together; whoever meets its cap or a full
//! resource stops there. Rates are whole bytes per second and every step is integer
//! arithmetic, so the result does not depend on the order in which transfers came:
//! resources that fill at the same level are settled together.
//!
//! After a change only the part of the sharing graph that is connected to it is computed
//! anew. Only resources that are full connect: others are left out, and looked at when the new
//! rates are known. If one of them would be full by then, it and all that it connects are taken
//! in, and the part is computed once more. Where such parts are large, most of their rates stay what
//! they were: then only those next to the change are computed anew, and farther ones taken in as
//! far as that is needed (`sharing/near.rs`). Transfers that nothing tells apart are one group each, whatever
//! their number.

mod apart;
mod coming;
mod fill;
mod groups;
mod near;
mod pools;

use super::resources::{PathId, ResourceId, Resources};
pub(super) use groups::GroupId;
use groups::{GroupUse, Groups};
use near::Verdict;
use pools::{Level, Pool};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A transfer's slot, chosen by the caller; ids are dense.
pub type FlowId = u32;

/// What stops a transfer from going faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Its own cap.
    Cap,
    /// A full resource.
    Resource(ResourceId),
}

/// A transfer whose rate is new, with what it had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub flow: FlowId,
    /// Its old rate, zero if it just started.
    pub rate: u64,
    /// Its old limit.
    pub limit: Limit,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// What it last flowed over, and the group for that.
    path: PathId,
    group: GroupId,
    cap: u64,
    /// Where its group lists it.
    place: u32,
    active: bool,
    /// It has no rate yet.
    fresh: bool,
}

/// In place of a resource: the transfer's own cap.
const BY_CAP: ResourceId = ResourceId::MAX;

/// In place of a group: none was ever needed.
const NO_GROUP: GroupId = GroupId::MAX;

const IDLE: Flow = Flow {
    path: 0,
    group: NO_GROUP,
    cap: 0,
    place: 0,
    active: false,
    fresh: false,
};

/// The state of sharing.
#[derive(Debug)]
pub struct Sharing {
    pools: Vec<Pool>,
    levels: Vec<Level>,
    groups: Groups,
    flows: Vec<Flow>,
    dirty: Vec<ResourceId>,
    /// Transfers without a rate.
    fresh: Vec<FlowId>,
    solve: u32,
    part: u64,
    /// How often a part was filled.
    fillings: u64,
    // Scratch of one solve, kept to avoid allocation.
    part_pools: Vec<ResourceId>,
    part_groups: Vec<GroupId>,
    /// How many groups the last part had that was computed as a whole.
    last_part: usize,
    /// By resource: what it said of rates, and after which filling.
    verdicts: Vec<(u64, Verdict)>,
    /// Groups that were computed anew, and what they had before.
    before: Vec<(GroupId, u64, ResourceId)>,
    /// Resources whose use changed, outside the part.
    touched: Vec<ResourceId>,
    full: Vec<ResourceId>,
    heap: BinaryHeap<Reverse<(u64, ResourceId)>>,
}

impl Sharing {
    /// Nothing flows.
    #[must_use]
    pub fn new(resources: &Resources, flows: usize) -> Self {
        Self::with_room(resources, flows, |_| false)
    }

    /// Nothing flows; what will flow can never fill those resources that are `roomy`.
    #[must_use]
    pub fn with_room(
        resources: &Resources,
        flows: usize,
        roomy: impl Fn(ResourceId) -> bool,
    ) -> Self {
        let pools = (0..).zip(&resources.all).map(|(id, r)| Pool {
            capacity: r.capacity,
            roomy: roomy(id),
            ..Pool::default()
        });
        Sharing {
            pools: pools.collect(),
            levels: vec![Level::default(); resources.all.len()],
            groups: Groups::default(),
            flows: vec![IDLE; flows],
            dirty: Vec::new(),
            fresh: Vec::new(),
            solve: 0,
            part: 0,
            fillings: 0,
            part_pools: Vec::new(),
            part_groups: Vec::new(),
            last_part: 0,
            verdicts: vec![(0, Verdict::HasRoom); resources.all.len()],
            before: Vec::new(),
            touched: Vec::new(),
            full: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// Makes room for so many transfers.
    pub fn make_room(&mut self, flows: usize) {
        if self.flows.len() < flows {
            self.flows.resize(flows, IDLE);
        }
    }

    /// A transfer's rate in bytes per second, and what limits it.
    #[must_use]
    #[inline]
    pub fn rate(&self, flow: FlowId) -> (u64, Limit) {
        let state = &self.flows[flow as usize];
        if state.fresh || state.group == NO_GROUP {
            return (0, Limit::Cap);
        }
        let g = &self.groups.all[state.group as usize];
        (g.rate, limit(g.limit))
    }

    /// The group of a transfer that flows.
    #[inline]
    pub(super) fn group_of(&self, flow: FlowId) -> GroupId {
        self.flows[flow as usize].group
    }

    /// The rate of a group's members, but for those that have none yet.
    #[inline]
    pub(super) fn rate_of(&self, group: GroupId) -> u64 {
        self.groups.all[group as usize].rate
    }

    /// The members of a group.
    #[inline]
    pub(super) fn members(&self, group: GroupId) -> &[FlowId] {
        &self.groups.all[group as usize].members
    }

    /// One of those who use a resource, if there is any.
    pub(super) fn user_of(&self, resource: ResourceId) -> Option<FlowId> {
        let &(_, group) = self.pools[resource as usize].active.first()?;
        self.members(group).first().copied()
    }

    /// Reads a transfer's state, so that it is in the cache.
    #[inline]
    pub(super) fn touch(&self, flow: FlowId) -> u64 {
        u64::from(self.flows[flow as usize].group)
    }

    /// True if something changed since the last solve.
    #[must_use]
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.fresh.is_empty()
    }

    /// Computes the rates of all transfers that the changes can reach, and lists in
    /// `changed` (cleared first) each whose rate is new, with what it had.
    pub fn solve(&mut self, changed: &mut Vec<Change>) {
        changed.clear();
        self.solve += 1;
        self.before.clear();
        let mut dirty = std::mem::take(&mut self.dirty);
        // Part by part: a part of a few resources is quickly looked through, and stays in
        // the cache from finding it to having settled it.
        for resource in dirty.drain(..) {
            let pool = &mut self.pools[resource as usize];
            if !pool.dirty {
                continue;
            }
            // All who shared it have ended.
            if pool.active.is_empty() {
                pool.dirty = false;
                self.levels[resource as usize].binding = false;
                continue;
            }
            let only = match pool.active.as_slice() {
                &[(_, group)] => Some(group),
                _ => None,
            };
            if !only.is_some_and(|group| self.settle_apart(group, false)) {
                self.begin_part();
                self.reach(resource);
                self.settle_part();
            }
        }
        self.dirty = dirty;
        for at in 0..self.fresh.len() {
            let flow = &self.flows[self.fresh[at] as usize];
            let group = flow.group;
            if flow.fresh
                && self.groups.all[group as usize].seen != self.solve
                && !self.settle_alone(group)
                && !self.settle_apart(group, true)
            {
                self.begin_part();
                self.take_in(group);
                self.reach_full(group);
                self.settle_part();
            }
        }
        for &(group, rate, by) in &self.before {
            let g = &self.groups.all[group as usize];
            if g.rate == rate {
                continue;
            }
            let members = g.members.iter().copied();
            let known = members.filter(|&flow| !self.flows[flow as usize].fresh);
            changed.extend(known.map(|flow| Change {
                flow,
                rate,
                limit: limit(by),
            }));
        }
        for id in self.fresh.drain(..) {
            let flow = &mut self.flows[id as usize];
            // One that began, ended and began again is listed twice.
            if std::mem::take(&mut flow.fresh) && self.groups.all[flow.group as usize].rate > 0 {
                changed.push(Change {
                    flow: id,
                    rate: 0,
                    limit: Limit::Cap,
                });
            }
        }
    }

    /// The rate of a group none of whose resources is full, or would be: the usual case, and what
    /// a part of this group alone would come to. False, and nothing done, if one is.
    fn settle_alone(&mut self, id: GroupId) -> bool {
        let uses = self.groups.uses(id);
        if uses.iter().any(|u| self.would_be_full(id, u)) {
            return false;
        }
        let group = &self.groups.all[id as usize];
        let members = group.members.len() as u32;
        let load = u128::from(group.own) * u128::from(members);
        let (before, own) = (group.load, group.own);
        for u in uses {
            let pool = &mut self.pools[u.resource as usize];
            let weight = u128::from(u.weight);
            pool.used = pool.used + load * weight - before * weight;
        }
        self.note_before(id);
        let group = &mut self.groups.all[id as usize];
        (group.rate, group.limit) = (own, group.own_limit);
        (group.load, group.counted) = (load, members);
        true
    }

    /// Whether a resource is full, or would be if all members of a group went as fast as they
    /// could alone.
    fn would_be_full(&self, id: GroupId, u: &GroupUse) -> bool {
        let (group, pool) = (
            &self.groups.all[id as usize],
            &self.pools[u.resource as usize],
        );
        let weight = u128::from(u.weight);
        let load = u128::from(group.own) * group.members.len() as u128;
        self.levels[u.resource as usize].binding
            || pool.is_full_with(pool.used + load * weight - group.load * weight)
    }

    /// Makes the resources that a group would fill belong to the part: most likely they will be
    /// full, and the part would have to be computed once more.
    fn reach_full(&mut self, id: GroupId) {
        let (first, last) = self.groups.all[id as usize].uses;
        for at in first..last {
            let u = self.groups.uses[at as usize];
            if self.would_be_full(id, &u) {
                self.reach(u.resource);
            }
        }
    }

    fn begin_part(&mut self) {
        self.part += 1;
        self.part_groups.clear();
        self.part_pools.clear();
    }

    /// Makes a resource belong to the part that is collected.
    #[inline]
    fn reach(&mut self, resource: ResourceId) {
        let level = &mut self.levels[resource as usize];
        if level.part != self.part {
            level.part = self.part;
            self.pools[resource as usize].dirty = false;
            self.part_pools.push(resource);
        }
    }

    /// Remembers what a group had before this solve.
    #[inline]
    fn note_before(&mut self, id: GroupId) {
        let group = &mut self.groups.all[id as usize];
        if group.seen != self.solve {
            group.seen = self.solve;
            self.before.push((id, group.rate, group.limit));
        }
    }

    /// Makes a group belong to the part, and the full resources that it uses.
    fn take_in(&mut self, id: GroupId) {
        let part = &mut self.groups.parts[id as usize];
        if *part == self.part {
            return;
        }
        *part = self.part;
        self.part_groups.push(id);
        self.note_before(id);
        let (first, last) = self.groups.all[id as usize].uses;
        for at in first..last {
            let resource = self.groups.uses[at as usize].resource;
            if self.levels[resource as usize].binding {
                self.reach(resource);
            }
        }
    }

    /// Computes the rates that depend on the resources and groups reached so far.
    fn settle_part(&mut self) {
        if !(self.is_near_worth() && self.settle_near()) {
            self.solve_part();
        }
    }

    /// Computes the rates of the part of the sharing graph that the resources and groups reached
    /// so far belong to.
    fn solve_part(&mut self) {
        let mut next = 0;
        loop {
            self.collect(&mut next);
            let groups = std::mem::take(&mut self.part_groups);
            self.fill(&groups);
            self.use_up(&groups);
            self.part_groups = groups;
            let mut touched = std::mem::take(&mut self.touched);
            for resource in touched.drain(..) {
                let pool = &mut self.pools[resource as usize];
                pool.touched = 0;
                if pool.is_full() {
                    self.levels[resource as usize].binding = true;
                    self.reach(resource);
                }
            }
            self.touched = touched;
            if next == self.part_pools.len() {
                break;
            }
        }
        self.note_full();
        self.last_part = self.part_groups.len();
    }

    /// Notes which resources of the part are full now.
    fn note_full(&mut self) {
        for &resource in &self.part_pools {
            self.levels[resource as usize].binding = self.pools[resource as usize].is_full();
        }
    }

    /// Puts new rates into what resources are used for.
    fn use_up(&mut self, groups: &[GroupId]) {
        for &id in groups {
            let group = &mut self.groups.all[id as usize];
            let load = u128::from(group.rate) * group.members.len() as u128;
            let before = std::mem::replace(&mut group.load, load);
            let members = group.members.len() as u32;
            let counted = std::mem::replace(&mut group.counted, members);
            // More members that take as much have more weight.
            if before == load && counted == members {
                continue;
            }
            for u in self.groups.uses(id) {
                let pool = &mut self.pools[u.resource as usize];
                let weight = u128::from(u.weight);
                pool.used = pool.used + load * weight - before * weight;
                let inside = self.levels[u.resource as usize].part == self.part;
                if !inside && pool.touched != self.part {
                    pool.touched = self.part;
                    self.touched.push(u.resource);
                }
            }
        }
    }

    /// Finds the resources and groups connected to those reached so far; the first `next`
    /// resources have been gone through.
    fn collect(&mut self, next: &mut usize) {
        while let Some(&resource) = self.part_pools.get(*next) {
            *next += 1;
            for i in 0..self.pools[resource as usize].active.len() {
                let (_, group) = self.pools[resource as usize].active[i];
                // Most have been taken in by another resource.
                if self.groups.parts[group as usize] != self.part {
                    self.take_in(group);
                }
            }
        }
        for &resource in &self.part_pools {
            let (pool, level) = (
                &self.pools[resource as usize],
                &mut self.levels[resource as usize],
            );
            level.rest = pool.capacity;
            // All that use it are of the part.
            level.rising = pool.weight;
        }
    }
}

/// A limit as it is told.
fn limit(resource: ResourceId) -> Limit {
    if resource == BY_CAP {
        Limit::Cap
    } else {
        Limit::Resource(resource)
    }
}

#[cfg(test)]
mod tests;
