//! What a plan is executed by: queues, proxies, and what transfers share.

use super::fifo::{FifoId, Fifos};
use super::probe::ActorId;
use super::resources::{PathId, Resource, ResourceId, Resources};
use super::sharing::Limit;
use fabricsim_collective::{ConnId, Rank};
use fabricsim_plan::{Later, MessageCost, Plan, RouteId, Stretch, Transport, WorkerCosts};
use fabricsim_units::{Bandwidth, Time};

/// The parts that a plan is executed by.
#[derive(Clone)]
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
    /// For each path that uses nothing but such: how fast one transfer goes.
    free: Vec<Option<Alone>>,
}

/// What holds back a transfer that never has to share.
#[derive(Debug, Clone, Copy)]
struct Alone {
    rate: u64,
    by: ResourceId,
}

/// How a transfer goes that never has to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unshared {
    /// At this rate, with what limits it.
    At(u64, Limit),
    /// As the worker's passes do: it takes no time of its own.
    InPasses,
}

/// A network connection's proxy: takes from one queue, puts into another.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) takes: FifoId,
    pub(super) puts: FifoId,
    pub(super) path: PathId,
    pub(super) rate: Bandwidth,
    pub(super) message: MessageCost,
    pub(super) later: Later,
}

/// A connection, as what it is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'p> {
    /// The actors that put in and take out.
    pub(super) ends: (ActorId, ActorId),
    /// What their steps cost.
    pub(super) costs: [&'p WorkerCosts; 2],
    /// How much longer these take, at least.
    pub(super) stretch: [Stretch; 2],
    pub(super) transport: Transport,
    pub(super) paths: Paths,
}

/// The paths of a transport's routes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paths {
    pub(super) store: Option<PathId>,
    pub(super) load: Option<PathId>,
    pub(super) network: Option<PathId>,
}

/// Every connection of a plan by itself; the paths are those of the routes. What ranks do takes at
/// least so much longer.
pub(super) fn wires(
    plan: &Plan,
    stretch: impl Fn(Rank) -> Stretch + Clone,
) -> impl Iterator<Item = Wire<'_>> + Clone {
    (0..)
        .zip(plan.transports.iter())
        .map(move |(id, transport)| {
            let ends = plan.program.connection(ConnId(id));
            let workers = [ends.from, ends.to].map(|w| plan.program.worker(w));
            let path = |route: Option<RouteId>| route.map(|r| r.0);
            Wire {
                ends: (ends.from.0, ends.to.0),
                costs: workers.map(|w| plan.costs_of(w)),
                stretch: workers.map(|w| stretch(w.rank)),
                transport,
                paths: Paths {
                    store: path(transport.store),
                    load: path(transport.load),
                    network: path(transport.network.map(|leg| leg.route)),
                },
            }
        })
}

/// Finds the resources that no combination of transfers can fill: those that could give
/// every actor that ever uses them its own fastest rate, which is that of its passes if it moves
/// bytes in such. Transfers over such resources alone need no sharing.
pub(super) fn roomy<'p>(resources: &Resources, wires: impl Iterator<Item = Wire<'p>>) -> Vec<bool> {
    let mut most = vec![0u128; resources.all.len()];
    let mut add = |path: PathId, rate: u64| {
        for u in resources.path(path) {
            let capacity = resources.all[u.resource as usize].capacity;
            let own = rate.min(capacity / u64::from(u.weight));
            most[u.resource as usize] += u128::from(own) * u128::from(u.weight);
        }
    };
    let own = |(costs, stretch): (&WorkerCosts, Stretch), rate| {
        stretch.rate(costs.slice.at_most(rate).bytes_per_sec())
    };
    for wire in wires {
        let [from, to] = wire.costs;
        let [sender, receiver] = [0, 1].map(|end| (wire.costs[end], wire.stretch[end]));
        if let Some(path) = wire.paths.store {
            add(path, own(sender, from.send_rate));
        }
        if let Some(path) = wire.paths.load {
            add(path, own(receiver, to.send_rate.max(to.local_rate)));
        }
        if let (Some(path), Some(leg)) = (wire.paths.network, wire.transport.network) {
            add(path, leg.rate.bytes_per_sec().max(1));
        }
    }
    let has_room = |(r, &most): (&Resource, &u128)| !r.changes && most <= u128::from(r.capacity);
    resources.all.iter().zip(&most).map(has_room).collect()
}

impl Machinery {
    /// The queues of `wires` between `workers` workers and the proxies that come after them.
    pub(super) fn new<'p>(
        slots: u32,
        workers: u32,
        mut resources: Resources,
        wires: impl Iterator<Item = Wire<'p>> + Clone,
    ) -> Self {
        let roomy = roomy(&resources, wires.clone());
        let nowhere = resources.add_path(std::iter::empty());
        let mut m = Machinery {
            resources,
            fifos: Fifos::new(slots),
            incoming: wires.clone().zip(0..).map(|(_, id)| id).collect(),
            store_path: wires.clone().map(|w| w.paths.store).collect(),
            load_path: wires.clone().map(|w| w.paths.load).collect(),
            proxies: Vec::new(),
            nowhere,
            roomy,
            free: Vec::new(),
        };
        // The queues that workers put into have the connections' numbers; those that proxies
        // put into come after them.
        let connections = m.incoming.len();
        let mut second = Vec::new();
        for (id, wire) in wires.enumerate() {
            let (from, to) = wire.ends;
            let transport = wire.transport;
            let arrival = (transport.latency, transport.credit_latency);
            let (Some(leg), Some(path)) = (transport.network, wire.paths.network) else {
                m.fifos.add((from, to), arrival, false);
                continue;
            };
            let proxy = workers + m.proxies.len() as u32;
            let puts = (connections + second.len()) as u32;
            m.fifos
                .add((from, proxy), (leg.post_latency, leg.post_latency), true);
            second.push(((proxy, to), arrival, leg.ahead));
            m.incoming[id] = puts;
            let load = m.load_path[id].take();
            m.load_path.push(load);
            m.store_path.push(None);
            m.proxies.push(Proxy {
                takes: id as u32,
                puts,
                path,
                rate: leg.rate,
                message: leg.message,
                later: leg.later,
            });
        }
        for (ends, arrival, ahead) in second {
            let queue = m.fifos.add(ends, arrival, false);
            m.fifos.deepen(queue, ahead);
        }
        let most = m.proxies.iter().map(|proxy| proxy.message.most()).max();
        m.fifos.set_preparing(workers, most.unwrap_or(Time::ZERO));
        m.free = (0..m.resources.paths() as u32)
            .map(|p| m.alone(p))
            .collect();
        m
    }

    fn alone(&self, path: PathId) -> Option<Alone> {
        let (mut rate, mut by) = (u64::MAX, 0);
        for u in self.resources.path(path) {
            if !self.roomy[u.resource as usize] {
                return None;
            }
            let alone = self.resources.all[u.resource as usize].capacity / u64::from(u.weight);
            if alone < rate {
                (rate, by) = (alone, u.resource);
            }
        }
        Some(Alone { rate, by })
    }

    /// For each queue the connection that it is of.
    pub(super) fn connections(&self) -> Vec<u32> {
        let mut of: Vec<u32> = (0..self.fifos.count()).collect();
        for (connection, &queue) in (0..).zip(&self.incoming) {
            of[queue as usize] = connection;
        }
        of
    }

    /// Gives queues whose ends are `apart` one half for each end: the sender's, and the
    /// receiver's. `connections` has that of each queue.
    pub(super) fn halve(
        &mut self,
        connections: &mut Vec<u32>,
        apart: impl Fn(ActorId, ActorId) -> bool,
    ) -> Vec<(FifoId, FifoId)> {
        let mut halves = Vec::new();
        for fifo in 0..self.fifos.count() {
            let (from, to) = self.fifos.ends(fifo);
            if !apart(from, to) {
                continue;
            }
            let other = self.fifos.halve(fifo);
            halves.push((fifo, other));
            let connection = connections[fifo as usize];
            connections.push(connection);
            let load = self.load_path[fifo as usize];
            self.load_path.push(load);
            self.store_path.push(None);
            let incoming = &mut self.incoming[connection as usize];
            if *incoming == fifo {
                *incoming = other;
            }
        }
        for proxy in &mut self.proxies {
            if let Ok(at) = halves.binary_search_by_key(&proxy.takes, |&(sent, _)| sent) {
                proxy.takes = halves[at].1;
            }
        }
        halves
    }

    /// Whether a resource has room for all who may ever use it at once.
    pub(super) fn is_roomy(&self, resource: ResourceId) -> bool {
        self.roomy[resource as usize]
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

    /// If transfers over `path` never have to share: how one with this cap goes, whose bytes are
    /// moved in passes at `passes` at most, or in none.
    #[inline]
    pub(super) fn unshared(
        &self,
        path: PathId,
        cap: u64,
        passes: impl FnOnce() -> Option<u64>,
    ) -> Option<Unshared> {
        let Alone { rate, by } = self.free[path as usize]?;
        Some(if passes().is_some_and(|passes| passes <= rate.min(cap)) {
            // Nothing holds them up: they move as the passes do.
            Unshared::InPasses
        } else if rate < cap {
            Unshared::At(rate, Limit::Resource(by))
        } else {
            Unshared::At(cap, Limit::Cap)
        })
    }
}
