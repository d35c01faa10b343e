//! What a plan is executed by: queues, proxies, and what transfers share.

use super::fifo::{FifoId, Fifos};
use super::resources::{PathId, Resources};
use crate::collective::ConnId;
use crate::plan::{Plan, RouteId};
use crate::topology::LinkId;
use crate::units::{Bandwidth, Time};

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
}

/// A network connection's proxy: takes from one queue, puts into another.
pub(super) struct Proxy {
    pub(super) takes: FifoId,
    pub(super) puts: FifoId,
    pub(super) path: PathId,
    pub(super) rate: Bandwidth,
    pub(super) overhead: Time,
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
                overhead: leg.message_overhead,
            });
        }
        for (ends, arrival) in second {
            m.fifos.add(ends, arrival, false);
        }
        m
    }
}
