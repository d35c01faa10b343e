//! Transfers come and go.

use super::{Flow, FlowId, NO_GROUP, Sharing};
use crate::resources::{PathId, ResourceId, Resources};

impl Sharing {
    /// A transfer begins; it has no rate before the next [`Sharing::solve`]. The path
    /// must use at least one resource.
    #[inline]
    pub fn start(&mut self, resources: &Resources, flow: FlowId, path: PathId, cap: u64) {
        self.join(resources, flow, path, cap);
        self.wait_for_rate(flow);
    }

    /// As [`Sharing::start`], but if its resources have room for all who use them now, it has the
    /// rate that it could have alone from now on, and this is returned: nobody else has to be
    /// looked at.
    #[inline]
    pub fn start_at_once(
        &mut self,
        resources: &Resources,
        flow: FlowId,
        path: PathId,
        cap: u64,
    ) -> Option<u64> {
        let room = self.join(resources, flow, path, cap);
        let state = &mut self.flows[flow as usize];
        let g = &mut self.groups.all[state.group as usize];
        // Others of the group may wait for a rate.
        if !room || g.counted != state.place || (state.place > 0 && g.rate != g.own) {
            self.wait_for_rate(flow);
            return None;
        }
        let own = g.own;
        (g.rate, g.limit) = (own, g.own_limit);
        g.load += u128::from(own);
        g.counted += 1;
        for u in self.groups.uses(state.group) {
            self.pools[u.resource as usize].used += u128::from(own) * u128::from(u.weight);
        }
        (own > 0).then_some(own)
    }

    #[inline]
    fn wait_for_rate(&mut self, flow: FlowId) {
        self.flows[flow as usize].fresh = true;
        self.fresh.push(flow);
    }

    /// Counts a transfer; true if all who use its resources can have the rates that they could
    /// have alone.
    #[inline]
    fn join(&mut self, resources: &Resources, flow: FlowId, path: PathId, cap: u64) -> bool {
        let state = self.flows[flow as usize];
        debug_assert!(!state.active);
        let group = if state.path == path && state.cap == cap && state.group != NO_GROUP {
            state.group
        } else {
            let roomy = |r: ResourceId| self.pools[r as usize].roomy;
            self.groups.find(resources, roomy, path, cap)
        };
        let g = &mut self.groups.all[group as usize];
        let place = g.members.len() as u32;
        g.members.push(flow);
        let own = g.own;
        self.flows[flow as usize] = Flow {
            path,
            group,
            cap,
            place,
            active: true,
            fresh: false,
        };
        let mut room = true;
        let (first, last) = g.uses;
        for at in first..last {
            let u = &mut self.groups.uses[at as usize];
            let (resource, weight) = (u.resource, u64::from(u.weight));
            let pool = &mut self.pools[resource as usize];
            if place == 0 {
                u.place = pool.active.len() as u32;
                pool.active.push((at, group));
            }
            pool.demand += u128::from(own) * u128::from(weight);
            pool.weight += weight;
            room &= pool.demand <= u128::from(pool.capacity);
            if self.levels[resource as usize].binding {
                room = false;
                self.mark(resource);
            }
        }
        room
    }

    /// A transfer ends.
    #[inline]
    pub fn stop(&mut self, flow: FlowId) {
        let state = &mut self.flows[flow as usize];
        state.active = false;
        let (group, place) = (state.group, state.place);
        let fresh = std::mem::take(&mut state.fresh);
        let g = &mut self.groups.all[group as usize];
        let rate = if fresh { 0 } else { g.rate };
        g.load -= u128::from(rate);
        g.counted -= u32::from(!fresh);
        g.members.swap_remove(place as usize);
        if let Some(&moved) = g.members.get(place as usize) {
            self.flows[moved as usize].place = place;
        }
        let (own, gone) = (g.own, g.members.is_empty());
        let (first, last) = g.uses;
        for at in first..last {
            let u = self.groups.uses[at as usize];
            let pool = &mut self.pools[u.resource as usize];
            if gone {
                pool.active.swap_remove(u.place as usize);
                if let Some(&(moved, _)) = pool.active.get(u.place as usize) {
                    self.groups.uses[moved as usize].place = u.place;
                }
            }
            pool.demand -= u128::from(own) * u128::from(u.weight);
            pool.used -= u128::from(rate) * u128::from(u.weight);
            pool.weight -= u64::from(u.weight);
            if self.levels[u.resource as usize].binding {
                self.mark(u.resource);
            }
        }
    }

    /// From the next [`Sharing::solve`] on, a resource has another capacity: at most the one that it
    /// began with.
    pub(crate) fn resize(&mut self, resource: ResourceId, capacity: u64) {
        let pool = &mut self.pools[resource as usize];
        if pool.capacity != capacity {
            pool.capacity = capacity;
            // It may be full now: that is to be found out.
            self.levels[resource as usize].binding = true;
            self.mark(resource);
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
}
