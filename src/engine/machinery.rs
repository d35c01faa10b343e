//! What a plan is executed by: queues, proxies, and what transfers share.

use super::fifo::{FifoId, Fifos};
use super::resources::{PathId, ResourceId, Resources};
use super::sharing::Limit;
use crate::collective::{ConnId, WorkerId};
use crate::plan::{Plan, RouteId, SliceCost};
use crate::topology::LinkId;
use crate::units::Bandwidth;

/// The parts that a plan is executed by.
pub(super) struct Machinery {
    pub(super) resources: Resources,
    pub(super) fifos: Fifos,
    /// For each connection, the queue that its receiver reads (a network has two).
    pub(super) incoming: Vec<FifoId>,
    /// For each queue: what its sender's and its receiver's work loads.
    pub(super) store_path: Vec<Option<PathId>>,
    pub(super) load_path: Vec<Option<PathId>>,
    pub(super) proxies: Vec<Proxy>,
    /// The path that loads nothing.
    pub(super) nowhere: PathId,
    /// For each resource: it has room for all who may ever use it at once.
    roomy: Vec<bool>,
    /// For each path that uses nothing but roomy resources: how fast one transfer goes.
    free: Vec<Option<Alone>>,
}

/// What holds back a transfer that has all links to itself.
#[derive(Debug, Clone, Copy)]
struct Alone {
    rate: u64,
    by: ResourceId,
}

/// A network connection's proxy: takes from one queue, puts into another.
pub(super) struct Proxy {
    pub(super) takes: FifoId,
    pub(super) puts: FifoId,
    pub(super) path: PathId,
    pub(super) rate: Bandwidth,
    pub(super) message: SliceCost,
}

impl Machinery {
    pub(super) fn new(plan: &Plan, rate: impl Fn(LinkId) -> Bandwidth) -> Self {
        let mut resources = Resources::new(&plan.routes, plan.protocol.wire, rate);
        let nowhere = resources.add_path(std::iter::empty());
        let path = |route: Option<RouteId>| route.map(|r| r.0);
        let connections = plan.transports.len();
        let workers = plan.program.workers();
        let mut m = Machinery {
            resources,
            fifos: Fifos::new(plan.protocol.fifo_slices),
            incoming: (0..connections as u32).collect(),
            store_path: plan.transports.iter().map(|t| path(t.store)).collect(),
            load_path: plan.transports.iter().map(|t| path(t.load)).collect(),
            proxies: Vec::new(),
            nowhere,
            roomy: Vec::new(),
            free: Vec::new(),
        };
        // The queues that workers put into have the connections' numbers; those that proxies
        // put into come after them.
        let mut second = Vec::new();
        for (id, transport) in plan.transports.iter().enumerate() {
            let ends = plan.program.connection(ConnId(id as u32));
            let (from, to) = (ends.from.0, ends.to.0);
            let arrival = (transport.latency, transport.credit_latency);
            let Some(leg) = transport.network else {
                m.fifos.add((from, to), arrival, false);
                continue;
            };
            let proxy = workers + m.proxies.len() as u32;
            let puts = (connections + second.len()) as u32;
            m.fifos
                .add((from, proxy), (leg.post_latency, leg.post_latency), true);
            second.push(((proxy, to), arrival));
            m.incoming[id] = puts;
            let load = m.load_path[id].take();
            m.load_path.push(load);
            m.store_path.push(None);
            m.proxies.push(Proxy {
                takes: id as u32,
                puts,
                path: leg.route.0,
                rate: leg.rate,
                message: leg.message,
            });
        }
        for (ends, arrival) in second {
            m.fifos.add(ends, arrival, false);
        }
        m.find_room(plan);
        m
    }

    /// Finds the resources that no combination of transfers can fill: those that could give
    /// every actor that ever uses them its own fastest rate. Transfers over such resources
    /// alone need no sharing.
    fn find_room(&mut self, plan: &Plan) {
        let costs_of = |worker: WorkerId| plan.costs_of(plan.program.worker(worker));
        let resources = &self.resources;
        let mut most = vec![0u128; resources.all.len()];
        let mut add = |path: PathId, rate: u64| {
            for u in resources.path(path) {
                let capacity = resources.all[u.resource as usize].capacity;
                let own = rate.min(capacity / u64::from(u.weight));
                most[u.resource as usize] += u128::from(own) * u128::from(u.weight);
            }
        };
        for id in 0..plan.transports.len() {
            let ends = plan.program.connection(ConnId(id as u32));
            if let Some(path) = self.store_path[id] {
                add(path, costs_of(ends.from).send_rate.bytes_per_sec());
            }
            if let Some(path) = self.load_path[self.incoming[id] as usize] {
                let costs = costs_of(ends.to);
                add(path, costs.send_rate.max(costs.local_rate).bytes_per_sec());
            }
        }
        for proxy in &self.proxies {
            add(proxy.path, proxy.rate.bytes_per_sec().max(1));
        }
        self.roomy = resources
            .all
            .iter()
            .zip(&most)
            .map(|(r, &most)| most <= u128::from(r.capacity))
            .collect();
        self.free = (0..resources.paths() as u32)
            .map(|p| self.alone(p))
            .collect();
    }

    fn alone(&self, path: PathId) -> Option<Alone> {
        let mut alone = Alone {
            rate: u64::MAX,
            by: 0,
        };
        for u in self.resources.path(path) {
            if !self.roomy[u.resource as usize] {
                return None;
            }
            let rate = self.resources.all[u.resource as usize].capacity / u64::from(u.weight);
            if rate < alone.rate {
                alone = Alone {
                    rate,
                    by: u.resource,
                };
            }
        }
        Some(alone)
    }

    /// Whether transfers over `path` never have to share.
    #[inline]
    pub(super) fn is_free(&self, path: PathId) -> bool {
        self.free[path as usize].is_some()
    }

    /// Adds the sum of several paths.
    pub(super) fn add_sum(&mut self, paths: &[PathId]) -> PathId {
        let sum = self.resources.add_sum(paths);
        self.free.push(self.alone(sum));
        sum
    }

    /// If transfers over `path` never have to share: the rate of one with this cap, and what
    /// limits it.
    #[inline]
    pub(super) fn unshared(&self, path: PathId, cap: u64) -> Option<(u64, Limit)> {
        let alone = self.free[path as usize]?;
        Some(if alone.rate < cap {
            (alone.rate, Limit::Resource(alone.by))
        } else {
            (cap, Limit::Cap)
        })
    }
}
