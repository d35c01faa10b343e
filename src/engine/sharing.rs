//! Max–min fair sharing of resources among transfers, with a cap for each transfer.
//!
//! Progressive filling: all rates rise together; whoever meets its cap or a full
//! resource stops there. Rates are whole bytes per second and every step is integer
//! arithmetic, so the result does not depend on the order in which transfers came:
//! resources that fill at the same level are settled together.
//!
//! After a change only the part of the sharing graph that is connected to it is computed
//! anew. A resource that could give each of its transfers all that this could use alone
//! connects nothing: under-used links keep their transfers independent.

use super::resources::{PathId, ResourceId, Resources};
use smallvec::SmallVec;
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
    path: PathId,
    /// The fastest that it could go alone, and what limits it then.
    own: u64,
    own_limit: ResourceId,
    rate: u64,
    /// The full resource that limits it, or `BY_CAP`.
    limit: ResourceId,
    /// The solve that last saw it.
    seen: u32,
    active: bool,
    settled: bool,
}

/// In place of a resource: the transfer's own cap.
const BY_CAP: ResourceId = ResourceId::MAX;

const IDLE: Flow = Flow {
    path: 0,
    own: 0,
    own_limit: BY_CAP,
    rate: 0,
    limit: BY_CAP,
    seen: 0,
    active: false,
    settled: false,
};

#[derive(Debug, Clone, Default)]
struct Pool {
    capacity: u64,
    /// Room for what a port carries with a channel per pair of thread blocks.
    active: SmallVec<[FlowId; 16]>,
    /// What its transfers would take if each went as fast as it could alone.
    demand: u128,
    /// Whether that was more than there is when rates were last computed.
    was_tight: bool,
    dirty: bool,
    /// The solve that last saw it.
    seen: u32,
    /// What is left, and the weight of those who still rise; valid during a solve.
    rest: u64,
    rising: u64,
}

impl Pool {
    /// Whether it can limit anyone. One that cannot passes no influence on from one
    /// transfer to another, so that computing anew ends there.
    #[inline]
    fn tight(&self) -> bool {
        self.demand > u128::from(self.capacity)
    }

    /// The rate at which it would be full, if all who rise went on together.
    fn level(&self) -> u64 {
        self.rest.checked_div(self.rising).unwrap_or(u64::MAX)
    }
}

/// The state of sharing.
#[derive(Debug)]
pub struct Sharing {
    pools: Vec<Pool>,
    flows: Vec<Flow>,
    dirty: Vec<ResourceId>,
    /// Transfers without a rate.
    fresh: Vec<FlowId>,
    solve: u32,
    // Scratch of one solve, kept to avoid allocation.
    part_pools: Vec<ResourceId>,
    part_flows: Vec<FlowId>,
    full: Vec<ResourceId>,
    heap: BinaryHeap<Reverse<(u64, ResourceId)>>,
}

/// Up to this many resources, looking at all of them beats a heap.
const SCAN: usize = 48;

impl Sharing {
    /// Nothing flows.
    #[must_use]
    pub fn new(resources: &Resources, flows: usize) -> Self {
        let pools = resources
            .all
            .iter()
            .map(|r| Pool {
                capacity: r.capacity,
                ..Pool::default()
            })
            .collect();
        Sharing {
            pools,
            flows: vec![IDLE; flows],
            dirty: Vec::new(),
            fresh: Vec::new(),
            solve: 0,
            part_pools: Vec::new(),
            part_flows: Vec::new(),
            full: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// A transfer begins; it has no rate before the next [`Sharing::solve`]. The path
    /// must use at least one resource.
    #[inline]
    pub fn start(&mut self, resources: &Resources, flow: FlowId, path: PathId, cap: u64) {
        debug_assert!(!self.flows[flow as usize].active);
        let (mut own, mut own_limit) = (cap, BY_CAP);
        for u in resources.path(path) {
            let alone = self.pools[u.resource as usize].capacity / u64::from(u.weight);
            if alone < own {
                (own, own_limit) = (alone, u.resource);
            }
        }
        self.flows[flow as usize] = Flow {
            path,
            own,
            own_limit,
            active: true,
            ..IDLE
        };
        self.fresh.push(flow);
        for u in resources.path(path) {
            let pool = &mut self.pools[u.resource as usize];
            pool.active.push(flow);
            pool.demand += u128::from(own) * u128::from(u.weight);
            if pool.tight() {
                self.mark(u.resource);
            }
        }
    }

    /// A transfer ends.
    #[inline]
    pub fn stop(&mut self, resources: &Resources, flow: FlowId) {
        let Flow { path, own, .. } = self.flows[flow as usize];
        self.flows[flow as usize].active = false;
        for u in resources.path(path) {
            let pool = &mut self.pools[u.resource as usize];
            if let Some(at) = pool.active.iter().position(|&f| f == flow) {
                pool.active.swap_remove(at);
            }
            pool.demand -= u128::from(own) * u128::from(u.weight);
            if pool.was_tight {
                self.mark(u.resource);
            }
        }
    }

    #[inline]
    fn mark(&mut self, resource: ResourceId) {
        let pool = &mut self.pools[resource as usize];
        if !pool.dirty {
            pool.dirty = true;
            self.dirty.push(resource);
        }
    }

    /// A transfer's rate in bytes per second, and what limits it.
    #[must_use]
    #[inline]
    pub fn rate(&self, flow: FlowId) -> (u64, Limit) {
        let f = &self.flows[flow as usize];
        let limit = if f.limit == BY_CAP {
            Limit::Cap
        } else {
            Limit::Resource(f.limit)
        };
        (f.rate, limit)
    }

    /// Reads a transfer's state, so that it is in the cache.
    #[inline]
    pub(super) fn touch(&self, flow: FlowId) -> u64 {
        self.flows[flow as usize].rate
    }

    /// True if something changed since the last solve.
    #[must_use]
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.fresh.is_empty()
    }

    /// Computes the rates of all transfers that the changes can reach, and lists in
    /// `changed` (cleared first) each whose rate is new, with what it had.
    pub fn solve(&mut self, resources: &Resources, changed: &mut Vec<Change>) {
        changed.clear();
        self.solve += 1;
        let mut dirty = std::mem::take(&mut self.dirty);
        // Part by part: a part of a few resources is quickly looked through, and stays in
        // the cache from finding it to having settled it.
        for resource in dirty.drain(..) {
            let pool = &self.pools[resource as usize];
            if pool.dirty && (pool.tight() || pool.was_tight) {
                self.begin_part();
                self.reach(resource);
                self.solve_part(resources, changed);
            }
            self.pools[resource as usize].dirty = false;
        }
        self.dirty = dirty;
        let mut fresh = std::mem::take(&mut self.fresh);
        for id in fresh.drain(..) {
            let flow = &mut self.flows[id as usize];
            if flow.active && flow.seen != self.solve {
                // No resource of its own was marked: nobody else can be concerned.
                flow.seen = self.solve;
                (flow.rate, flow.limit) = (flow.own, flow.own_limit);
                if flow.own > 0 {
                    changed.push(Change {
                        flow: id,
                        rate: 0,
                        limit: Limit::Cap,
                    });
                }
            }
        }
        self.fresh = fresh;
    }

    fn begin_part(&mut self) {
        self.part_flows.clear();
        self.part_pools.clear();
    }

    /// Makes a resource belong to the part that is collected.
    fn reach(&mut self, resource: ResourceId) {
        let pool = &mut self.pools[resource as usize];
        if pool.seen != self.solve {
            pool.seen = self.solve;
            self.part_pools.push(resource);
        }
    }

    /// Computes the rates of the part of the sharing graph that the resources reached so far
    /// belong to.
    fn solve_part(&mut self, resources: &Resources, changed: &mut Vec<Change>) {
        self.collect(resources);
        let flows = std::mem::take(&mut self.part_flows);
        let first = changed.len();
        changed.extend(flows.iter().map(|&flow| {
            let (rate, limit) = self.rate(flow);
            Change { flow, rate, limit }
        }));
        self.fill(resources, &flows);
        let mut kept = first;
        for i in first..changed.len() {
            if self.rate(changed[i].flow).0 != changed[i].rate {
                changed[kept] = changed[i];
                kept += 1;
            }
        }
        changed.truncate(kept);
        self.part_flows = flows;
    }

    /// Finds the resources and transfers connected to those reached so far.
    fn collect(&mut self, resources: &Resources) {
        let mut next = 0;
        while let Some(&resource) = self.part_pools.get(next) {
            next += 1;
            self.pools[resource as usize].dirty = false;
            for i in 0..self.pools[resource as usize].active.len() {
                let id = self.pools[resource as usize].active[i];
                let flow = &mut self.flows[id as usize];
                if flow.seen == self.solve {
                    continue;
                }
                flow.seen = self.solve;
                flow.settled = false;
                self.part_flows.push(id);
                for u in resources.path(flow.path) {
                    let pool = &mut self.pools[u.resource as usize];
                    if pool.seen != self.solve && (pool.tight() || pool.was_tight) {
                        pool.seen = self.solve;
                        self.part_pools.push(u.resource);
                    }
                }
            }
        }
        // Those that are tight no longer only had to pass on that they are not.
        let pools = &mut self.pools;
        self.part_pools.retain(|&resource| {
            let pool = &mut pools[resource as usize];
            pool.was_tight = pool.tight();
            pool.rest = pool.capacity;
            pool.rising = 0;
            pool.was_tight
        });
        for &flow in &self.part_flows {
            for u in resources.path(self.flows[flow as usize].path) {
                let pool = &mut self.pools[u.resource as usize];
                if pool.was_tight {
                    pool.rising += u64::from(u.weight);
                }
            }
        }
    }

    /// Progressive filling of the collected part.
    fn fill(&mut self, resources: &Resources, flows: &[FlowId]) {
        let mut sorted: SmallVec<[FlowId; 32]> = SmallVec::new();
        let own = |f: FlowId| self.flows[f as usize].own;
        let by_own = if flows.iter().all(|&f| own(f) == own(flows[0])) {
            flows
        } else {
            sorted.extend_from_slice(flows);
            sorted.sort_unstable_by_key(|&f| own(f));
            sorted.as_slice()
        };
        let scan = self.part_pools.len() <= SCAN;
        if !scan {
            self.heap.clear();
            let levels = self
                .part_pools
                .iter()
                .map(|&r| Reverse((self.pools[r as usize].level(), r)));
            self.heap.extend(levels);
        }
        let (mut rising, mut next_own) = (flows.len(), 0);
        while rising > 0 {
            let level = if scan {
                self.lowest_by_scan()
            } else {
                self.lowest_by_heap()
            };
            while self.flows[by_own[next_own] as usize].settled {
                next_own += 1;
            }
            let own = self.flows[by_own[next_own] as usize].own;
            if own <= level {
                // The heap's entries stay valid: levels only rise.
                if !scan {
                    self.heap
                        .extend(self.full.iter().map(|&r| Reverse((level, r))));
                }
                for &id in &by_own[next_own..] {
                    let flow = self.flows[id as usize];
                    if flow.own != own {
                        break;
                    }
                    if !flow.settled {
                        self.settle(resources, id, own, flow.own_limit);
                        rising -= 1;
                    }
                }
                continue;
            }
            let full = std::mem::take(&mut self.full);
            for &resource in &full {
                for i in 0..self.pools[resource as usize].active.len() {
                    let id = self.pools[resource as usize].active[i];
                    if self.flows[id as usize].settled {
                        continue;
                    }
                    self.settle(resources, id, level, resource);
                    rising -= 1;
                }
            }
            self.full = full;
        }
    }

    fn settle(&mut self, resources: &Resources, id: FlowId, rate: u64, limit: ResourceId) {
        let flow = &mut self.flows[id as usize];
        flow.settled = true;
        flow.rate = rate;
        flow.limit = limit;
        for u in resources.path(flow.path) {
            let pool = &mut self.pools[u.resource as usize];
            if pool.was_tight {
                pool.rest -= rate * u64::from(u.weight);
                pool.rising -= u64::from(u.weight);
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

#[cfg(test)]
mod tests;
