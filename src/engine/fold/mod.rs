//! Folding: one of each kind of worker is simulated, and stands for all that are alike.
//!
//! Colour refinement over ranks, workers, connections, routes and shared resources finds
//! classes whose members have the same steps and costs, and neighbours of the same classes in
//! the same numbers. All members of a class do the same at the same time: what a worker does
//! next depends only on its steps, its queues and its rate, and rates that share fairly are
//! unique, so that they are equal where nothing tells transfers apart. A queue then stands for
//! all connections of its class, and takes of a resource what all of these together take of
//! one of the resources that are alike. Times are equal to those of a full simulation to the
//! picosecond, and so are the bytes that each connection carries.
//!
//! Resources that nothing can fill have no influence on anybody but by their rate for a single
//! transfer, and join nobody.

mod refine;
mod traces;

use super::machinery::{Paths, Wire};
use super::resources::{Resource, Resources, Use};
use crate::collective::{ConnId, Rank, WorkerId};
use crate::plan::{Plan, RouteId};
use refine::{Graph, mix, mix_in};
use rustc_hash::FxHashMap;
use traces::Traces;

/// Classes of one kind of things.
#[derive(Debug, Default)]
pub(super) struct Partition {
    /// The class of each.
    pub(super) class_of: Vec<u32>,
    /// The first of each class; these are in order.
    pub(super) first: Vec<u32>,
    /// How many each class has.
    pub(super) size: Vec<u32>,
}

impl Partition {
    fn new(colours: &[u32], known: &mut [u32]) -> Self {
        let mut partition = Partition::default();
        partition.class_of.reserve_exact(colours.len());
        for (index, &colour) in colours.iter().enumerate() {
            let class = &mut known[colour as usize];
            if *class == u32::MAX {
                *class = partition.first.len() as u32;
                partition.first.push(index as u32);
                partition.size.push(0);
            }
            partition.size[*class as usize] += 1;
            partition.class_of.push(*class);
        }
        partition
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> u32 {
        self.first.len() as u32
    }
}

/// Who is like whom.
#[derive(Debug)]
pub(super) struct Folding {
    pub(super) ranks: Partition,
    pub(super) workers: Partition,
    pub(super) conns: Partition,
    resources: Partition,
    /// By resource: it joins nobody.
    roomy: Vec<bool>,
}

/// What connects two nodes of the graph. Each has a partner for the other direction.
mod label {
    pub(super) const SENDER: u32 = 0;
    pub(super) const RECEIVER: u32 = 2;
    pub(super) const STORE: u32 = 4;
    pub(super) const LOAD: u32 = 6;
    pub(super) const NETWORK: u32 = 8;
    pub(super) const RANK: u32 = 10;
    /// From here on, numbered as they occur.
    pub(super) const FREE: u32 = 12;
}

/// Labels for values, as they occur.
#[derive(Default)]
struct Labels(FxHashMap<u64, u32>);

impl Labels {
    fn of(&mut self, value: u64) -> u32 {
        let next = label::FREE + 2 * self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }
}

/// Where the nodes of each kind begin, and how many there are.
struct Nodes {
    workers: u32,
    conns: u32,
    routes: u32,
    resources: u32,
    all: u32,
}

impl Nodes {
    fn new(plan: &Plan, resources: &Resources) -> Self {
        let workers = plan.program.ranks();
        let conns = workers + plan.program.workers();
        let routes = conns + plan.program.connections();
        let first_resource = routes + plan.routes.len() as u32;
        Nodes {
            workers,
            conns,
            routes,
            resources: first_resource,
            all: first_resource + resources.all.len() as u32,
        }
    }
}

impl Folding {
    /// Finds who is like whom; `None` if that is not worth it.
    pub(super) fn new(plan: &Plan, resources: &Resources, roomy: Vec<bool>) -> Option<Self> {
        let nodes = Nodes::new(plan, resources);
        let colours = graph(plan, resources, &roomy, &nodes).refine()?;
        let most = colours.iter().max().map_or(0, |&c| c as usize + 1);
        let mut known = vec![u32::MAX; most];
        let mut of =
            |from: u32, to: u32| Partition::new(&colours[from as usize..to as usize], &mut known);
        let folding = Folding {
            ranks: of(0, nodes.workers),
            workers: of(nodes.workers, nodes.conns),
            conns: of(nodes.conns, nodes.routes),
            resources: of(nodes.resources, nodes.all),
            roomy,
        };
        (folding.workers.len() < plan.program.workers()).then_some(folding)
    }

    /// The resources of one member of each class, and the queues: one for each class of
    /// connections, with what all of the class take. `None` if their numbers do not fit.
    pub(super) fn wires<'p>(
        &self,
        plan: &'p Plan,
        resources: &Resources,
    ) -> Option<(Resources, Vec<Wire<'p>>)> {
        let mut folded = Shared::default();
        let mut wires = Vec::with_capacity(self.conns.len() as usize);
        for (&conn, &size) in self.conns.first.iter().zip(&self.conns.size) {
            let transport = &plan.transports[conn as usize];
            let ends = plan.program.connection(ConnId(conn));
            let mut path = |route: Option<RouteId>| {
                route.map_or(Some(None), |r| {
                    folded.path(self, resources, r.0, size).map(Some)
                })
            };
            let paths = Paths {
                store: path(transport.store)?,
                load: path(transport.load)?,
                network: path(transport.network.map(|leg| leg.route))?,
            };
            let actor = |worker: WorkerId| self.workers.class_of[worker.index()];
            wires.push(Wire {
                ends: (actor(ends.from), actor(ends.to)),
                costs: [ends.from, ends.to].map(|w| plan.costs_of(plan.program.worker(w))),
                transport,
                paths,
            });
        }
        Some((folded.resources, wires))
    }
}

/// Resources of a folded plan, as they are needed.
#[derive(Default)]
struct Shared {
    resources: Resources,
    /// Their numbers, by class and by roomy resource.
    known: FxHashMap<(bool, u32), u32>,
}

impl Shared {
    /// What `size` connections with routes like this one take of each resource of a class, and
    /// this one of resources that nothing can fill.
    fn path(&mut self, folding: &Folding, full: &Resources, route: u32, size: u32) -> Option<u32> {
        let mut uses: Vec<((bool, u32), u64)> = Vec::new();
        for u in full.path(route) {
            let roomy = folding.roomy[u.resource as usize];
            let class = folding.resources.class_of[u.resource as usize];
            let key = (roomy, if roomy { u.resource } else { class });
            match uses.iter_mut().find(|(known, _)| *known == key) {
                Some((_, weight)) => *weight += u64::from(u.weight),
                None => uses.push((key, u64::from(u.weight))),
            }
        }
        let mut folded = Vec::with_capacity(uses.len());
        for (key, mut weight) in uses {
            let mut member = key.1;
            if !key.0 {
                member = folding.resources.first[key.1 as usize];
                let alike = u64::from(folding.resources.size[key.1 as usize]);
                weight *= u64::from(size);
                debug_assert!(weight.is_multiple_of(alike), "as many users each");
                if !weight.is_multiple_of(alike) {
                    return None;
                }
                weight /= alike;
            }
            let all = &mut self.resources.all;
            let resource = *self.known.entry(key).or_insert_with(|| {
                let Resource { links, capacity } = &full.all[member as usize];
                all.push(Resource {
                    links: links.clone(),
                    capacity: *capacity,
                });
                all.len() as u32 - 1
            });
            folded.push(Use {
                resource,
                weight: u32::try_from(weight).ok()?,
            });
        }
        folded.sort_unstable_by_key(|u| u.resource);
        Some(self.resources.add_path(folded.into_iter()))
    }
}

/// All that can make a difference.
fn graph(plan: &Plan, resources: &Resources, roomy: &[bool], nodes: &Nodes) -> Graph {
    let program = plan.program.as_ref();
    let traces = Traces::new(program);
    let mut kinds = Vec::with_capacity(nodes.all as usize);
    // Kinds of different things differ by their first number.
    kinds.extend((0..program.ranks()).map(|r| {
        let kind = mix_in(mix(0), u64::from(plan.rank_costs[Rank(r).index()]));
        mix_in(kind, plan.issue.at(r, 0).picos())
    }));
    kinds.extend((0..program.workers()).map(|w| {
        let place = program.worker(WorkerId(w));
        let costs = u64::from(plan.rank_costs[place.rank.index()]);
        let kind = mix_in(mix_in(mix(1), costs), place.role.index() as u64);
        mix_in(kind, traces.worker[w as usize])
    }));
    kinds.extend(plan.transports.iter().enumerate().map(|(c, t)| {
        let times = mix_in(mix_in(mix(2), t.latency.picos()), t.credit_latency.picos());
        let leg = t.network.map_or(0, |leg| {
            let times = mix_in(leg.post_latency.picos(), leg.message_overhead.picos());
            let large = mix_in(leg.rendezvous.0.get(), leg.rendezvous.1.picos());
            mix_in(mix_in(times, large), leg.rate.bytes_per_sec())
        });
        mix_in(mix_in(mix_in(times, leg), traces.sent[c]), traces.taken[c])
    }));
    kinds.extend((0..plan.routes.len() as u32).map(|route| {
        let alone = |u: &Use| {
            let capacity = resources.all[u.resource as usize].capacity;
            roomy[u.resource as usize].then(|| capacity / u64::from(u.weight))
        };
        let alone = resources.path(route).iter().filter_map(alone).min();
        mix_in(mix(3), alone.unwrap_or(u64::MAX))
    }));
    kinds.extend(
        resources
            .all
            .iter()
            .zip(roomy)
            .map(|(r, &roomy)| mix_in(mix(4), if roomy { u64::MAX } else { r.capacity })),
    );
    // Labels have to be the same each time that the edges are listed.
    let mut labels = Labels::default();
    let waits: Vec<_> = traces
        .after
        .iter()
        .map(|&(w, other, moments)| (w, other, labels.of(mix_in(1, moments))))
        .collect();
    let mut weights = Labels(labels.0);
    for route in 0..plan.routes.len() as u32 {
        for u in resources.path(route) {
            weights.of(mix_in(0, u64::from(u.weight)));
        }
    }
    let weight = |w: u32| weights.0[&mix_in(0, u64::from(w))];
    Graph::new(kinds, |edge| {
        for w in 0..program.workers() {
            let rank = program.worker(WorkerId(w)).rank.0;
            edge(nodes.workers + w, rank, label::RANK);
        }
        for &(worker, other, label) in &waits {
            edge(nodes.workers + worker.0, nodes.workers + other.0, label);
        }
        for (c, transport) in (0..).zip(&plan.transports) {
            let ends = program.connection(ConnId(c));
            let node = nodes.conns + c;
            edge(node, nodes.workers + ends.from.0, label::SENDER);
            edge(node, nodes.workers + ends.to.0, label::RECEIVER);
            let network = transport.network.map(|leg| leg.route);
            for (route, label) in [
                (transport.store, label::STORE),
                (transport.load, label::LOAD),
                (network, label::NETWORK),
            ] {
                if let Some(route) = route {
                    edge(node, nodes.routes + route.0, label);
                }
            }
        }
        for route in 0..plan.routes.len() as u32 {
            for u in resources.path(route) {
                if !roomy[u.resource as usize] {
                    edge(
                        nodes.routes + route,
                        nodes.resources + u.resource,
                        weight(u.weight),
                    );
                }
            }
        }
    })
}
