//! Paths through a fabric's switches.
//!
//! Shortest paths are found from both ends: distances from a NIC's edge switches are
//! remembered, and grown only as far as the middle of some path asked for. In a fat tree
//! that is half-way up, so neither a large number of NICs nor of switches makes a route
//! expensive.

use super::groups::{Groups, Middle};
use super::search::{Adjacency, NONE, Search, Searches};
use super::spread::{Edge, Levels};
use super::{Hop, Route, Router, Share};
use crate::graph::{DeviceId, LinkId, Topology};
use crate::hardware::LinkFamily;
use crate::spec::RoutingPolicy;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A fabric's switches and ports, numbered densely, and what has been searched.
#[derive(Debug)]
pub(super) struct FabricIndex {
    policy: RoutingPolicy,
    /// By switch number.
    switches: Vec<DeviceId>,
    /// By switch number: links to other switches.
    onward: Adjacency,
    /// By switch number: links from other switches.
    backward: Adjacency,
    /// By device: its port number.
    port_of: Vec<u32>,
    ports: Vec<Port>,
    /// Cables between groups of switches, in a fabric that has groups.
    groups: Groups,
    /// Distances from sets of edge switches, by group number.
    from_edge: Searches,
    /// Distances towards sets of edge switches, by group number.
    to_edge: Searches,
    /// From switch to switch, where a transfer spreads, as far as it is known; `None` if no links
    /// lead there.
    between: FxHashMap<(u32, u32), Option<Middle>>,
    /// By switch number, all [`NONE`] between uses: a switch's position in its level.
    slots: Vec<u32>,
}

/// Links of a device with switches, by switch number: most interfaces have one.
type Cables = SmallVec<[(u32, LinkId); 1]>;

/// A NIC's place in a fabric.
#[derive(Debug)]
struct Port {
    device: DeviceId,
    /// Links to switches, by switch number.
    up: Cables,
    /// Links from switches, by switch number.
    down: Cables,
    /// Group of the switches that `up` leads to.
    sources: usize,
    /// Group of the switches that `down` comes from.
    targets: usize,
    /// Its position among the ports of its first switch.
    rank: u64,
}

impl FabricIndex {
    pub(super) fn new(router: &Router<'_>, number: usize) -> Self {
        let topology = router.topology;
        let fabric = &topology.fabrics[number];
        let mut switch_of = vec![NONE; topology.device_count()];
        for (position, switch) in fabric.switches.iter().enumerate() {
            switch_of[switch.index()] = position as u32;
        }
        let mut port_of = vec![NONE; topology.device_count()];
        for (position, port) in fabric.ports.iter().enumerate() {
            port_of[port.index()] = position as u32;
        }
        // All links in their order, once: a device's own ones lie far apart in memory.
        let mut cables = vec![(Cables::new(), Cables::new()); fabric.ports.len()];
        let mut switched: Vec<(u32, u32, LinkId)> = Vec::new();
        for (link, from, to) in router.links() {
            if topology.family(link) != LinkFamily::Network {
                continue;
            }
            let (out, into) = (switch_of[from.index()], switch_of[to.index()]);
            match (out, into) {
                (NONE, NONE) => {}
                (NONE, into) if port_of[from.index()] != NONE => {
                    cables[port_of[from.index()] as usize].0.push((into, link));
                }
                (out, NONE) if port_of[to.index()] != NONE => {
                    cables[port_of[to.index()] as usize].1.push((out, link));
                }
                (NONE, _) | (_, NONE) => {}
                (out, into) => switched.push((out, into, link)),
            }
        }
        let (mut from_edge, mut to_edge) = (Searches::default(), Searches::default());
        let mut ranks = vec![0; fabric.switches.len()];
        let ports = fabric.ports.iter().zip(cables).map(|(&device, cables)| {
            let (mut up, mut down) = cables;
            up.sort_unstable();
            down.sort_unstable();
            let rank = down.first().map_or(0, |&(switch, _)| {
                let next = &mut ranks[switch as usize];
                *next += 1;
                *next - 1
            });
            Port {
                device,
                sources: from_edge.group(&up),
                targets: to_edge.group(&down),
                up,
                down,
                rank,
            }
        });
        let ports = ports.collect();
        let back = switched.iter().map(|&(from, to, link)| (to, from, link));
        let backward = Adjacency::new(fabric.switches.len(), back.collect());
        let onward = Adjacency::new(fabric.switches.len(), switched);
        let links = (0..fabric.switches.len() as u32).flat_map(|from| {
            let far = onward.of(from).iter();
            far.map(move |&(to, link)| (from, to, link))
        });
        FabricIndex {
            policy: fabric.routing,
            groups: Groups::new(&fabric.groups, links),
            onward,
            backward,
            between: FxHashMap::default(),
            slots: vec![NONE; fabric.switches.len()],
            switches: fabric.switches.clone(),
            port_of,
            ports,
            from_edge,
            to_edge,
        }
    }

    /// Whether a device is a port of this fabric.
    pub(super) fn has(&self, device: DeviceId) -> bool {
        self.port_of[device.index()] != NONE
    }

    /// Between two ports of this fabric; `None` if its switches do not join them.
    pub(super) fn route(
        &mut self,
        topology: &Topology,
        seed: u64,
        from: DeviceId,
        to: DeviceId,
        flow: u64,
    ) -> Option<Route> {
        let from_port = self.port_of[from.index()] as usize;
        let to_port = self.port_of[to.index()] as usize;
        let ends = || {
            mixed(
                mixed(mixed(mixed(0, seed), flow), u64::from(from.0)),
                u64::from(to.0),
            )
        };
        let rank = self.ports[to_port].rank;
        // Ports with cables to several switches take whatever way is shortest.
        if let (&[up], &[down]) = (&self.ports[from_port].up[..], &self.ports[to_port].down[..]) {
            let pick = |lanes: u64| match self.policy {
                RoutingPolicy::Adaptive | RoutingPolicy::Ecmp => mixed(ends(), lanes) % lanes,
                RoutingPolicy::Deterministic => rank % lanes,
            };
            let pick = (self.policy != RoutingPolicy::Adaptive).then_some(pick);
            let local = |from, to| match (self.policy, self.onward.cables(from, to)) {
                (RoutingPolicy::Ecmp, cables @ [_, _, ..]) => {
                    let key = mixed(mixed(ends(), u64::from(from)), u64::from(to));
                    Some(cables[(key % cables.len() as u64) as usize].1)
                }
                (_, cables) => cables.first().map(|&(_, link)| link),
            };
            let route = self
                .groups
                .route(topology, &self.switches, up, down, local, pick);
            if route.is_some() {
                return route;
            }
            // Which of all paths a transfer takes, its ends have no say in.
            if self.policy == RoutingPolicy::Adaptive || up.0 == down.0 {
                return self.over(topology, (from_port, up), (to_port, down));
            }
        }
        let (before, middle) = self.meeting(from_port, to_port)?;
        let levels = self.levels(from_port, to_port, before, middle);
        Some(match self.policy {
            RoutingPolicy::Adaptive => levels.spread(topology),
            RoutingPolicy::Ecmp => {
                let ends = ends();
                levels.single(topology, |device, lanes| {
                    // Every switch hashes with a key of its own, as real ones do to avoid
                    // that flows which met once meet for ever.
                    mixed(ends, u64::from(device.0)) % lanes
                })
            }
            RoutingPolicy::Deterministic => {
                let mut key = rank;
                levels.single(topology, |_, lanes| {
                    let lane = key % lanes;
                    key /= lanes;
                    lane
                })
            }
        })
    }

    /// Between two ports, each with one cable, over all shortest paths between their switches, or
    /// inside a group over detours, too: found once for all ports of the two.
    fn over(
        &mut self,
        topology: &Topology,
        (from, up): (usize, (u32, LinkId)),
        (to, down): (usize, (u32, LinkId)),
    ) -> Option<Route> {
        let cables = topology.latency(up.1) + topology.latency(down.1);
        let ends = (up.0, down.0);
        if !self.between.contains_key(&ends) {
            let detours = self
                .groups
                .detours(topology, &self.switches, ends, &self.onward);
            // Cables at one switch need nothing but the switch.
            let at_one = (up.0 == down.0).then(|| {
                let switch = self.switches[up.0 as usize];
                (Vec::new(), topology.transit_latency(switch))
            });
            let found = detours.or(at_one).or_else(|| {
                let (before, middle) = self.meeting(from, to)?;
                let route = self.levels(from, to, before, middle).spread(topology);
                let inner = 1..route.hops.len() - 1;
                Some((route.hops[inner].to_vec(), route.latency - cables))
            });
            self.between.insert(ends, found);
        }
        let (inner, latency) = self.between[&ends].as_ref()?;
        let whole = |(_, link)| Hop {
            link,
            share: Share::WHOLE,
        };
        let mut hops = Vec::with_capacity(inner.len() + 2);
        hops.push(whole(up));
        hops.extend_from_slice(inner);
        hops.push(whole(down));
        Some(Route {
            hops,
            latency: *latency + cables,
            ..Route::default()
        })
    }

    /// How many links lie before the middle of the shortest paths between two ports' edge
    /// switches, and the switches there.
    fn meeting(&mut self, from: usize, to: usize) -> Option<(usize, Vec<u32>)> {
        let source = self
            .from_edge
            .get(self.ports[from].sources, self.switches.len());
        let target = self
            .to_edge
            .get(self.ports[to].targets, self.switches.len());
        let (mut before, mut after) = (0, 0);
        loop {
            source.grow(before, &self.onward);
            target.grow(after, &self.backward);
            let middle: Vec<u32> = source
                .level(before)
                .iter()
                .copied()
                .filter(|&switch| target.is_at(switch, after as u32))
                .collect();
            if !middle.is_empty() {
                return Some((before, middle));
            }
            // All lengths are tried in turn, so when one side has no farther switches,
            // longer paths do not exist.
            if source.level(before).is_empty() || target.level(after).is_empty() {
                return None;
            }
            if before <= after {
                before += 1;
            } else {
                after += 1;
            }
        }
    }

    /// All shortest paths between two ports, from the switches in their middle outwards.
    fn levels(&mut self, from: usize, to: usize, before: usize, middle: Vec<u32>) -> Levels {
        let (source, target) = (&self.ports[from], &self.ports[to]);
        let nearer = self.from_edge.search(source.sources);
        let farther = self.to_edge.search(target.targets);
        let mut middle = middle;
        middle.sort_unstable();
        // Towards the source.
        let mut levels = vec![middle.clone()];
        let mut edges: Vec<Vec<Edge>> = Vec::new();
        let mut here = middle.clone();
        for distance in (0..before as u32).rev() {
            let both = (&self.backward, &self.onward);
            let links = between(&here, nearer, distance, both);
            here = numbered(links.iter().map(|link| link.0), &mut self.slots);
            let mut level: Vec<Edge> = links
                .iter()
                .map(|&(far, link, to)| Edge {
                    from: self.slots[far as usize],
                    link,
                    to,
                })
                .collect();
            level.sort_unstable();
            clear(&here, &mut self.slots);
            edges.push(level);
            levels.push(here.clone());
        }
        edges.push(attached(&source.up, &here, |position, link| Edge {
            from: 0,
            link,
            to: position,
        }));
        levels.reverse();
        edges.reverse();
        // Towards the destination.
        here = middle;
        let mut distance = here
            .first()
            .map_or(0, |&switch| farther.distance_of(switch));
        while distance > 0 {
            distance -= 1;
            let both = (&self.onward, &self.backward);
            let links = between(&here, farther, distance, both);
            here = numbered(links.iter().map(|link| link.0), &mut self.slots);
            let mut level: Vec<Edge> = links
                .iter()
                .map(|&(far, link, from)| Edge {
                    from,
                    link,
                    to: self.slots[far as usize],
                })
                .collect();
            level.sort_unstable();
            clear(&here, &mut self.slots);
            edges.push(level);
            levels.push(here.clone());
        }
        edges.push(attached(&target.down, &here, |position, link| Edge {
            from: position,
            link,
            to: 0,
        }));
        let mut devices = vec![vec![source.device]];
        devices.extend(levels.iter().map(|level| {
            level
                .iter()
                .map(|&switch| self.switches[switch as usize])
                .collect()
        }));
        devices.push(vec![target.device]);
        Levels { devices, edges }
    }
}

/// The links between switches (sorted) and those at a distance from an end: the far switch, the
/// link, and the near one's position. `there` are links from the former, `back` are the same by the
/// latter; those of the fewer are gone through.
fn between(
    here: &[u32],
    search: &Search,
    distance: u32,
    (there, back): (&Adjacency, &Adjacency),
) -> Vec<(u32, LinkId, u32)> {
    let level = search.level(distance as usize);
    let all = |switches: &[u32], links: &Adjacency| -> usize {
        switches.iter().map(|&switch| links.of(switch).len()).sum()
    };
    let mut found = Vec::new();
    if all(level, back) < all(here, there) {
        for &far in level {
            for &(switch, link) in back.of(far) {
                if let Ok(position) = here.binary_search(&switch) {
                    found.push((far, link, position as u32));
                }
            }
        }
    } else {
        for (&switch, position) in here.iter().zip(0..) {
            let far = there.of(switch).iter();
            let near = far.filter(|&&(far, _)| search.is_at(far, distance));
            found.extend(near.map(|&(far, link)| (far, link, position)));
        }
    }
    found
}

/// The links of a port that join it to the switches of a level (sorted).
fn attached(
    links: &[(u32, LinkId)],
    level: &[u32],
    edge: impl Fn(u32, LinkId) -> Edge,
) -> Vec<Edge> {
    let mut edges: Vec<Edge> = links
        .iter()
        .filter_map(|&(switch, link)| {
            let position = level.binary_search(&switch).ok()?;
            Some(edge(position as u32, link))
        })
        .collect();
    edges.sort_unstable();
    edges
}

/// The distinct switches in order, each one's position noted in `slots`.
fn numbered(switches: impl Iterator<Item = u32>, slots: &mut [u32]) -> Vec<u32> {
    let mut distinct = Vec::new();
    for switch in switches {
        let slot = &mut slots[switch as usize];
        if *slot == NONE {
            *slot = 0;
            distinct.push(switch);
        }
    }
    distinct.sort_unstable();
    for (position, &switch) in distinct.iter().enumerate() {
        slots[switch as usize] = position as u32;
    }
    distinct
}

fn clear(switches: &[u32], slots: &mut [u32]) {
    for &switch in switches {
        slots[switch as usize] = NONE;
    }
}

/// One round of splitmix64 (Steele, Lea, Flood 2014) over a running value and a new one.
fn mixed(value: u64, new: u64) -> u64 {
    let mut z = (value ^ new).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
