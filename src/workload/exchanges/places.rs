//! Where the groups of a job are on the machine, and which are placed alike.

use crate::classes::Kind;
use fabricsim_plan::job::TwinLinks;
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, LinkId, NodeId, Topology};
use petgraph::Direction;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};

/// Where a GPU is, as far as others' distance to it depends on that.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spot {
    node: NodeId,
    /// Its number in the node.
    local: u32,
    /// Its NVLink domain: the first NVSwitch that it is linked to.
    domain: Option<DeviceId>,
}

/// Ranks' places on a machine.
pub(super) struct Places<'t> {
    topology: &'t Topology,
    pub(super) gpus: &'t [DeviceId],
    spots: Vec<Spot>,
    /// Of each node: the leaf switch of each interface, and the switch above it.
    leaves: FxHashMap<NodeId, Vec<(DeviceId, Option<DeviceId>)>>,
    /// Devices of each node, in order.
    devices: Vec<Vec<DeviceId>>,
    /// Places of sets of groups seen so far.
    known: FxHashMap<Vec<u32>, u32>,
    /// Places of a group in such a set.
    inside: FxHashMap<(u32, usize), u32>,
    /// No two sets are placed alike.
    pub(super) all_apart: bool,
}

impl<'t> Places<'t> {
    /// Of ranks on these GPUs; `all_apart` if no two sets of groups count as placed alike.
    pub(super) fn new(topology: &'t Topology, gpus: &'t [DeviceId], all_apart: bool) -> Self {
        let switch = |id: DeviceId| topology.device(id).kind;
        let mut leaves: FxHashMap<NodeId, Vec<(DeviceId, Option<DeviceId>)>> = FxHashMap::default();
        let spots = gpus
            .iter()
            .map(|&gpu| {
                let node = topology.node_of(gpu).unwrap_or(NodeId(u32::MAX));
                let known = topology.nodes.get(node.index());
                if let Some(known) = known {
                    leaves.entry(node).or_insert_with(|| {
                        let up = |from: DeviceId| {
                            let links = topology.links_from(from).into_iter();
                            links
                                .filter(|(l, d)| {
                                    topology.family(*l) == LinkFamily::Network
                                        && switch(*d) == DeviceKind::Switch
                                })
                                .map(|(_, d)| d)
                                .min()
                        };
                        let of_nic = |&nic: &DeviceId| up(nic).map(|leaf| (leaf, up(leaf)));
                        known.nics.iter().filter_map(of_nic).collect()
                    });
                }
                let local = known.and_then(|n| n.gpus.iter().position(|&g| g == gpu));
                let links = topology.links_from(gpu).into_iter();
                Spot {
                    node,
                    local: local.unwrap_or(0) as u32,
                    domain: links
                        .map(|(_, d)| d)
                        .filter(|&d| switch(d) == DeviceKind::NvSwitch)
                        .min(),
                }
            })
            .collect();
        Places {
            topology,
            gpus,
            spots,
            leaves,
            devices: devices_of_nodes(topology),
            known: FxHashMap::default(),
            inside: FxHashMap::default(),
            all_apart,
        }
    }

    /// The groups of a kind with their places.
    pub(super) fn kind(&mut self, name: &str, groups: Vec<Vec<u32>>) -> Kind {
        let beside = self.beside(&groups);
        let mut known: FxHashMap<&[u32], u32> = FxHashMap::default();
        let mut sets = Vec::with_capacity(groups.len());
        for set in &beside {
            sets.push(match known.get(set.as_slice()) {
                Some(&place) => place,
                None => {
                    let place = self.place(&groups, set);
                    known.insert(set, place);
                    place
                }
            });
        }
        let places = (0u32..)
            .zip(&beside)
            .zip(&sets)
            .map(|((group, beside), &set)| {
                let next = self.inside.len() as u32;
                let at = beside.partition_point(|&g| g < group);
                *self.inside.entry((set, at)).or_insert(next)
            });
        Kind {
            name: name.to_owned(),
            places: places.collect(),
            sets,
            groups,
            beside,
        }
    }

    /// For each group those of its kind that share a node with it, itself too, in order.
    fn beside(&self, groups: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let mut on_node: FxHashMap<NodeId, Vec<u32>> = FxHashMap::default();
        for (index, group) in groups.iter().enumerate() {
            for &rank in group {
                let on = on_node.entry(self.spots[rank as usize].node).or_default();
                if on.last() != Some(&(index as u32)) {
                    on.push(index as u32);
                }
            }
        }
        let of = |group: &Vec<u32>| {
            let nodes = group.iter().map(|&r| self.spots[r as usize].node);
            let mut all: Vec<u32> = nodes.flat_map(|n| on_node[&n].iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        groups.iter().map(of).collect()
    }

    fn place(&mut self, groups: &[Vec<u32>], set: &[u32]) -> u32 {
        // Nodes, domains, leaves and what is above them, numbered as they first appear.
        let mut known: [FxHashMap<u32, u32>; 4] = Default::default();
        let mut number = |what: usize, id: u32| {
            let next = known[what].len() as u32;
            *known[what].entry(id).or_insert(next)
        };
        let mut words = Vec::new();
        for &group in set {
            words.push(u32::MAX);
            for &rank in &groups[group as usize] {
                let spot = &self.spots[rank as usize];
                let model = self.topology.device(self.gpus[rank as usize]).model;
                words.extend([number(0, spot.node.0), spot.local, u32::from(model)]);
                words.push(spot.domain.map_or(u32::MAX, |d| number(1, d.0)));
                for &(leaf, above) in self.leaves.get(&spot.node).into_iter().flatten() {
                    words.push(number(2, leaf.0));
                    words.push(above.map_or(u32::MAX, |a| number(3, a.0)));
                }
            }
        }
        let next = self.known.len() as u32;
        if self.all_apart {
            words.push(next);
        }
        *self.known.entry(words).or_insert(next)
    }

    /// The nodes of groups, in the order in which their ranks come to them.
    pub(super) fn in_order(&self, kind: &Kind, groups: &[u32]) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut seen: FxHashSet<NodeId> = FxHashSet::default();
        for &group in groups {
            for &rank in &kind.groups[group as usize] {
                let node = self.spots[rank as usize].node;
                if seen.insert(node) {
                    nodes.push(node);
                }
            }
        }
        nodes
    }

    /// Links of nodes, and those that other nodes of the same kinds have in their stead. Links
    /// that touch no node, between switches of a network, have none.
    pub(super) fn twins(&self, from: &[NodeId], to: &[NodeId]) -> Option<TwinLinks> {
        let mut devices: FxHashMap<DeviceId, DeviceId> = FxHashMap::default();
        for (a, b) in from.iter().zip(to) {
            let (a, b) = (self.devices.get(a.index())?, self.devices.get(b.index())?);
            if a.len() != b.len() {
                return None;
            }
            devices.extend(a.iter().copied().zip(b.iter().copied()));
        }
        let mut links = TwinLinks::default();
        for (&a, &b) in &devices {
            if self.topology.device(a).model != self.topology.device(b).model {
                return None;
            }
            for direction in [Direction::Outgoing, Direction::Incoming] {
                // In order of the far ends: inside the node these correspond, outside they are
                // a switch's ports, of which one is as good as another.
                let of = |device: DeviceId| {
                    let edges = self
                        .topology
                        .graph
                        .edges_directed(NodeIndex::new(device.index()), direction);
                    let mut all: Vec<(u32, LinkId)> = edges
                        .map(|edge| {
                            let far = match direction {
                                Direction::Outgoing => edge.target(),
                                Direction::Incoming => edge.source(),
                            };
                            (far.index() as u32, LinkId(edge.id().index() as u32))
                        })
                        .collect();
                    all.sort_unstable();
                    all
                };
                let (own, other) = (of(a), of(b));
                if own.len() != other.len() {
                    return None;
                }
                for (x, y) in own.into_iter().zip(other) {
                    links.insert(x.1, y.1);
                }
            }
        }
        Some(links)
    }
}

/// The devices of each node, in order of their ids, in which nodes of one kind agree.
fn devices_of_nodes(topology: &Topology) -> Vec<Vec<DeviceId>> {
    let mut devices = vec![Vec::new(); topology.nodes.len()];
    for (id, _) in topology.devices() {
        if let Some(node) = topology.node_of(id) {
            devices[node.index()].push(id);
        }
    }
    devices
}
