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

mod near;
mod period;
mod refine;
mod scene;
mod traces;

use super::machinery::{Paths, Wire};
use super::resources::{PathId, ResourceId, Resources, Use};
use fabricsim_collective::{ConnId, WorkerId};
use fabricsim_plan::{Plan, RouteId};
use period::Guess;
use refine::Graph;
use rustc_hash::FxHashMap;
use scene::{Label, Scene};
use std::collections::{BTreeMap, BTreeSet};
pub(super) use traces::Traces;

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
    traces: Traces,
    /// Of each connection's class that has a proxy, and of each resource that is left, how many it
    /// stands for; known once there are wires.
    pub(super) proxies: Vec<u32>,
    pub(super) shared: Vec<u32>,
}

impl Folding {
    /// Finds who is like whom; `None` if that is not worth it.
    pub(super) fn new(
        plan: &Plan,
        traces: Traces,
        resources: &Resources,
        roomy: Vec<bool>,
    ) -> Option<Self> {
        let scene = Scene::new(plan, resources, &roomy, &traces);
        let kinds = scene.kinds();
        let colours = match guess(&scene, &kinds).and_then(|guess| guess.colours()) {
            Some(colours) => {
                debug_assert!(is_that_of_all(&colours, &scene, &kinds));
                colours
            }
            None => Graph::new(kinds, |edge| scene.each_edge(edge)).refine()?,
        };
        let nodes = scene.nodes;
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
            traces,
            proxies: Vec::new(),
            shared: Vec::new(),
        };
        (folding.workers.len() < plan.program.workers()).then_some(folding)
    }

    /// The resources of one member of each class, and the queues: one for each class of
    /// connections. What workers of a class store and load together, in the steps in which
    /// they use these connections, goes with one queue of those used in them. `None` if
    /// numbers get too large.
    pub(super) fn wires<'p>(
        &mut self,
        plan: &'p Plan,
        resources: &Resources,
    ) -> Option<(Resources, Vec<Wire<'p>>)> {
        let mut loads = self.moves(plan);
        let mut shared = Shared {
            folding: self,
            full: resources,
            paths: Vec::new(),
        };
        let mut wires = Vec::with_capacity(self.conns.len() as usize);
        for (&conn, &size) in self.conns.first.iter().zip(&self.conns.size) {
            let transport = plan.transports.get(conn as usize);
            let ends = plan.program.connection(ConnId(conn));
            let workers = [ends.from, ends.to].map(|w| plan.program.worker(w));
            let actor = |worker: WorkerId| self.workers.class_of[worker.index()];
            let ends_of_class = (actor(ends.from), actor(ends.to));
            let traces = (
                self.traces.sent[conn as usize],
                self.traces.taken[conn as usize],
            );
            let mut take = |key: (u32, Label)| {
                let Some(routes) = loads.remove(&key) else {
                    return Some(None);
                };
                let workers = self.workers.size[key.0 as usize];
                shared.path(&routes, workers).map(Some)
            };
            let store = take((ends_of_class.0, Label::Store(traces.0)))?;
            let load = take((ends_of_class.1, Label::Load(traces.1)))?;
            let network = match transport.network {
                Some(leg) => Some(shared.path(&[leg.route], size)?),
                None => None,
            };
            wires.push(Wire {
                ends: ends_of_class,
                costs: workers.map(|w| plan.costs_of(w)),
                stretch: workers.map(|w| plan.stretch_of(w.rank)),
                transport,
                paths: Paths {
                    store,
                    load,
                    network,
                },
            });
        }
        let (resources, sizes) = shared.resources()?;
        let conns = self.conns.first.iter().zip(&self.conns.size);
        let driven = conns.filter(|(c, _)| plan.transports.get(**c as usize).network.is_some());
        self.proxies = driven.map(|(_, &size)| size).collect();
        self.shared = sizes;
        Some((resources, wires))
    }

    /// The routes that the first worker of each class loads itself, by the steps in which it
    /// does.
    fn moves(&self, plan: &Plan) -> FxHashMap<(u32, Label), Vec<RouteId>> {
        let mut moves: FxHashMap<(u32, Label), Vec<RouteId>> = FxHashMap::default();
        let first = |worker: WorkerId| {
            let class = self.workers.class_of[worker.index()];
            (self.workers.first[class as usize] == worker.0).then_some(class)
        };
        for c in 0..plan.transports.len() {
            let [store, load, _] = plan.transports.routes_of(c);
            let ends = plan.program.connection(ConnId(c as u32));
            let store = (ends.from, store, Label::Store(self.traces.sent[c]));
            let load = (ends.to, load, Label::Load(self.traces.taken[c]));
            for (worker, route, label) in [store, load] {
                if let (Some(route), Some(class)) = (route, first(worker)) {
                    moves.entry((class, label)).or_default().push(route);
                }
            }
        }
        moves
    }
}

/// A guess with so many times fewer nodes is good enough not to look for a better one.
const GOOD: usize = 8;

/// Who is alike, as far as it can be told without refining all.
fn guess(scene: &Scene<'_>, kinds: &[u64]) -> Option<Guess> {
    let period = period::guess(scene, kinds);
    if period.as_ref().is_some_and(|guess| guess.saves(GOOD)) {
        return period;
    }
    let near = near::guess(scene, kinds);
    let nodes = |guess: &Guess| guess.graph.nodes();
    period.into_iter().chain(near).min_by_key(nodes)
}

/// More nodes than that are not refined twice.
const MOST_CHECKED: usize = 1 << 16;

/// Whether colours found from a part are those found from all, but for their numbers.
fn is_that_of_all(colours: &[u32], scene: &Scene<'_>, kinds: &[u64]) -> bool {
    if colours.len() > MOST_CHECKED {
        return true;
    }
    let graph = Graph::new(kinds.to_vec(), |edge| scene.each_edge(edge));
    let Some(all) = graph.refine() else {
        return true;
    };
    let count = |of: &mut dyn Iterator<Item = (u32, u32)>| of.collect::<BTreeSet<_>>().len();
    let both = count(&mut colours.iter().copied().zip(all.iter().copied()));
    let one = |colours: &[u32]| count(&mut colours.iter().map(|&c| (c, 0)));
    both == one(colours) && both == one(&all)
}

/// Paths of a folded plan; resources keep their numbers until all are known, so that their
/// order stays.
struct Shared<'f> {
    folding: &'f Folding,
    full: &'f Resources,
    paths: Vec<BTreeMap<ResourceId, u64>>,
}

impl Shared<'_> {
    /// What `members`, each with routes like these, take of each resource of a class; and what
    /// one of them takes of resources that nothing can fill.
    fn path(&mut self, routes: &[RouteId], members: u32) -> Option<PathId> {
        let (folding, mut uses) = (self.folding, BTreeMap::new());
        for u in routes.iter().flat_map(|route| self.full.path(route.0)) {
            let class = folding.resources.class_of[u.resource as usize] as usize;
            let shared = !folding.roomy[u.resource as usize];
            let first = folding.resources.first[class];
            let resource = if shared { first } else { u.resource };
            *uses.entry(resource).or_default() += u64::from(u.weight);
        }
        for (&resource, weight) in &mut uses {
            if folding.roomy[resource as usize] {
                continue;
            }
            let class = folding.resources.class_of[resource as usize] as usize;
            let alike = u64::from(folding.resources.size[class]);
            *weight = u64::checked_mul(*weight, u64::from(members))?;
            debug_assert!(weight.is_multiple_of(alike), "as many users each");
            if !weight.is_multiple_of(alike) {
                return None;
            }
            *weight /= alike;
        }
        self.paths.push(uses);
        Some(self.paths.len() as PathId - 1)
    }

    /// The resources that are used, and how many each stands for.
    fn resources(self) -> Option<(Resources, Vec<u32>)> {
        let used: BTreeSet<ResourceId> =
            self.paths.iter().flat_map(|p| p.keys().copied()).collect();
        let number: FxHashMap<ResourceId, ResourceId> = used.iter().copied().zip(0..).collect();
        let mut resources = Resources::default();
        let all = used.iter().map(|&r| self.full.all[r as usize].clone());
        resources.all = all.collect();
        let classes = &self.folding.resources;
        let class = |r: &ResourceId| classes.class_of[*r as usize] as usize;
        let sizes = used.iter().map(|r| classes.size[class(r)]).collect();
        for path in &self.paths {
            let uses = path.iter().map(|(resource, &weight)| {
                Some(Use {
                    resource: number[resource],
                    weight: u32::try_from(weight).ok()?,
                })
            });
            let uses = uses.collect::<Option<Vec<_>>>()?;
            resources.add_path(uses.into_iter());
        }
        Some((resources, sizes))
    }
}
