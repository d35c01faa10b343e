//! All that can make a difference: what there is, of which kind, and what joins it.

use super::refine::{mix, mix_in};
use super::traces::Traces;
use crate::resources::{Resources, Use};
use fabricsim_collective::{Rank, WorkerId};
use fabricsim_plan::Plan;
use rustc_hash::FxHashMap;

/// What connects two nodes of the graph. Each has a partner for the other direction.
mod label {
    pub(super) const SENDER: u32 = 0;
    pub(super) const RECEIVER: u32 = 2;
    pub(super) const NETWORK: u32 = 4;
    pub(super) const RANK: u32 = 6;
    /// From here on, numbered as they occur.
    pub(super) const FREE: u32 = 8;
}

/// What labels that are numbered as they occur are of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Label {
    /// What a worker waits for at which steps.
    After(u64),
    /// What a worker stores into, or loads from, when it uses connections with this trace.
    Store(u64),
    Load(u64),
    /// What a route takes of a resource.
    Weight(u32),
}

/// Labels for values, as they occur.
#[derive(Default)]
struct Labels(FxHashMap<Label, u32>);

impl Labels {
    fn new(plan: &Plan, resources: &Resources, traces: &Traces) -> Self {
        let mut labels = Labels::default();
        let waits = traces.after.iter().map(|a| Label::After(a.2));
        let stores = traces.sent.iter().map(|&t| Label::Store(t));
        let loads = traces.taken.iter().map(|&t| Label::Load(t));
        waits.chain(stores).chain(loads).for_each(|l| labels.add(l));
        for u in (0..plan.routes.len() as u32).flat_map(|route| resources.path(route)) {
            labels.add(Label::Weight(u.weight));
        }
        labels
    }

    fn add(&mut self, label: Label) {
        let next = label::FREE + 2 * self.0.len() as u32;
        self.0.entry(label).or_insert(next);
    }

    fn of(&self, label: Label) -> u32 {
        self.0[&label]
    }
}

/// Where the nodes of each kind begin, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Nodes {
    pub(super) workers: u32,
    pub(super) conns: u32,
    pub(super) routes: u32,
    pub(super) resources: u32,
    pub(super) all: u32,
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

/// Nodes, kinds and edges.
pub(super) struct Scene<'s> {
    pub(super) plan: &'s Plan,
    pub(super) resources: &'s Resources,
    pub(super) roomy: &'s [bool],
    pub(super) traces: &'s Traces,
    pub(super) nodes: Nodes,
    labels: Labels,
}

impl<'s> Scene<'s> {
    pub(super) fn new(
        plan: &'s Plan,
        resources: &'s Resources,
        roomy: &'s [bool],
        traces: &'s Traces,
    ) -> Self {
        Scene {
            plan,
            resources,
            roomy,
            traces,
            nodes: Nodes::new(plan, resources),
            labels: Labels::new(plan, resources, traces),
        }
    }

    /// Nodes that differ here are never alike.
    pub(super) fn kinds(&self) -> Vec<u64> {
        let &Scene {
            plan,
            resources,
            roomy,
            traces,
            ..
        } = self;
        let program = plan.program.as_ref();
        let mut kinds = Vec::with_capacity(self.nodes.all as usize);
        // Kinds of different things differ by their first number.
        kinds.extend((0..program.ranks()).map(|r| {
            let kind = mix_in(mix(0), u64::from(plan.rank_costs[Rank(r).index()]));
            mix_in(kind, plan.issue.at(r, 0).picos())
        }));
        kinds.extend((0..program.workers()).map(|w| {
            let place = program.worker(WorkerId(w));
            let of_rank = plan.rank_costs[place.rank.index()];
            let costs = &plan.costs[usize::from(of_rank)];
            let kind = mix_in(
                mix_in(mix(1), u64::from(of_rank)),
                costs.part_of(place) as u64,
            );
            let kind = mix_in(kind, costs.behind(place.channel).picos());
            mix_in(kind, traces.worker[w as usize])
        }));
        let of_kind = plan.transports.kinds().iter().map(|t| {
            let times = mix_in(mix_in(mix(2), t.latency.picos()), t.credit_latency.picos());
            let leg = t.network.map_or(0, |leg| {
                let message = &leg.message;
                let times = mix_in(leg.post_latency.picos(), message.each.picos());
                let others = mix_in(message.others.picos(), message.wire.bytes_per_sec());
                let times = mix_in(times, mix_in(others, message.together.picos()));
                let later = leg
                    .later
                    .0
                    .map(|(above, by)| mix_in(above.get(), by.picos()));
                let large = mix_in(later[0], later[1]);
                let [waits, works] = message.inline.1.map(|time| time.picos());
                let small = mix_in(message.inline.0.get(), mix_in(waits, works));
                let work = mix_in(message.large.0.get(), message.large.1.picos());
                let sizes = mix_in(mix_in(small, large), work);
                let ways = mix_in(leg.rate.bytes_per_sec(), u64::from(leg.ahead));
                mix_in(mix_in(times, sizes), ways)
            });
            mix_in(times, leg)
        });
        let of_kind: Vec<u64> = of_kind.collect();
        kinds.extend((0..plan.transports.len()).map(|c| {
            let kind = of_kind[plan.transports.kind_of(c)];
            mix_in(mix_in(kind, traces.sent[c]), traces.taken[c])
        }));
        kinds.extend((0..plan.routes.len() as u32).map(|route| {
            let alone = |u: &Use| {
                let capacity = resources.all[u.resource as usize].capacity;
                roomy[u.resource as usize].then(|| capacity / u64::from(u.weight))
            };
            let alone = resources.path(route).iter().filter_map(alone).min();
            mix_in(mix(3), alone.unwrap_or(u64::MAX))
        }));
        let capacity = |r: u64, roomy: bool| mix_in(mix(4), if roomy { u64::MAX } else { r });
        let all = resources.all.iter().zip(roomy);
        kinds.extend(all.map(|(r, &roomy)| capacity(r.capacity, roomy)));
        kinds
    }

    /// Calls back with two nodes and what the first sees the second as.
    pub(super) fn each_edge(&self, edge: &mut dyn FnMut(u32, u32, u32)) {
        let (nodes, traces, labels) = (&self.nodes, self.traces, &self.labels);
        for (worker, &rank) in (nodes.workers..).zip(&traces.ranks) {
            edge(worker, rank, label::RANK);
        }
        for &(worker, other, moments) in &traces.after {
            let label = labels.of(Label::After(moments));
            edge(nodes.workers + worker.0, nodes.workers + other.0, label);
        }
        for c in 0..self.plan.transports.len() {
            let [store, load, network] = self.plan.transports.routes_of(c);
            let ends = traces.ends[c];
            let node = nodes.conns + c as u32;
            let (from, to) = (nodes.workers + ends.from.0, nodes.workers + ends.to.0);
            edge(node, from, label::SENDER);
            edge(node, to, label::RECEIVER);
            if let Some(route) = network {
                edge(node, nodes.routes + route.0, label::NETWORK);
            }
            // Which of several connections of a step has the route makes no difference.
            if let Some(route) = store {
                let label = labels.of(Label::Store(traces.sent[c]));
                edge(from, nodes.routes + route.0, label);
            }
            if let Some(route) = load {
                let label = labels.of(Label::Load(traces.taken[c]));
                edge(to, nodes.routes + route.0, label);
            }
        }
        for route in 0..self.plan.routes.len() as u32 {
            for u in self.resources.path(route) {
                if !self.roomy[u.resource as usize] {
                    let label = labels.of(Label::Weight(u.weight));
                    edge(nodes.routes + route, nodes.resources + u.resource, label);
                }
            }
        }
    }
}
