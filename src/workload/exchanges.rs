//! Communications of a job, planned as NCCL would, for the groups that stand for all.
//!
//! A group is planned together with those of its kind that are on the same nodes, for in a job
//! that is even all of them communicate at the same time: the eight rings of data-parallel
//! groups that leave a node by one interface each, say.

use super::classes::{Classes, Kind};
use crate::collective::{Collective, Matrix, MatrixError};
use crate::nccl::{Communicator, Env, Forced, NcclError, Planned};
use crate::plan::Plan;
use crate::plan::job::{Exchange, TwinLinks};
use crate::topology::{DeviceId, DeviceKind, LinkFamily, LinkId, NodeId, Router, Topology};
use crate::units::Bytes;
use petgraph::Direction;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use thiserror::Error;

/// What a group is to communicate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    /// What it is, for people: `all-gather of weights`.
    pub name: String,
    /// What moves.
    pub moves: Moves,
    /// nccl-tests' size.
    pub bytes: Bytes,
    /// Algorithm and protocol, where NCCL is not to choose.
    pub forced: Forced,
}

/// What moves in an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Moves {
    /// A collective.
    Collective(Collective),
    /// The first rank sends to the second.
    Send,
    /// Each rank sends to each rank so many bytes: `[from][to]`.
    Matrix(Vec<Vec<u64>>),
}

/// Why a communication cannot be planned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// NCCL refuses.
    #[error("{operation} of {group}: {source}")]
    Nccl {
        /// What.
        operation: String,
        /// Of whom.
        group: String,
        /// Why.
        source: Box<NcclError>,
    },
    /// The bytes of an all-to-all make no sense.
    #[error("{operation} of {group}: {source}")]
    Matrix {
        /// What.
        operation: String,
        /// Of whom.
        group: String,
        /// Why.
        source: MatrixError,
    },
}

/// Where a GPU is, as far as others' distance to it depends on that.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spot {
    node: NodeId,
    /// Its number in the node.
    local: u32,
    /// Its NVLink domain: the first NVSwitch that it is linked to.
    domain: Option<DeviceId>,
}

/// Plans communications of groups of a machine's ranks.
pub struct Exchanges<'t> {
    topology: &'t Topology,
    env: &'t Env,
    seed: u64,
    dead: &'t [LinkId],
    gpus: &'t [DeviceId],
    spots: Vec<Spot>,
    /// Of each node: the leaf switch of each interface, and the switch above it.
    leaves: FxHashMap<NodeId, Vec<(DeviceId, Option<DeviceId>)>>,
    /// Places of groups seen so far.
    places: FxHashMap<Vec<u32>, u32>,
    /// Exchanges that are not alike, so far.
    unlike: u32,
    router: Option<Router<'t>>,
    /// Devices of each node, in order.
    devices: Vec<Vec<DeviceId>>,
    /// What was planned, by place and operation.
    known: FxHashMap<Key, Known>,
}

/// What makes exchanges alike: the place of the group, and the operation without its name.
type Key = (u32, Moves, Bytes, Forced);

/// An exchange that was planned.
struct Known {
    exchange: Exchange,
    /// Nodes of its group and of those beside it, in order of their first appearance.
    nodes: Vec<NodeId>,
    /// Connections up to the end of each group's.
    ends: Vec<u32>,
}

/// An operation of one group, among its neighbours'.
struct Part {
    planned: Option<Planned>,
    /// It is the group that is asked for, or one with it.
    own: bool,
}

impl<'t> Exchanges<'t> {
    /// For ranks on these GPUs, in order.
    ///
    /// Routes go around the links in `dead`.
    #[must_use]
    pub fn new(
        topology: &'t Topology,
        gpus: &'t [DeviceId],
        env: &'t Env,
        (seed, dead): (u64, &'t [LinkId]),
    ) -> Self {
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
        Exchanges {
            topology,
            env,
            seed,
            dead,
            gpus,
            spots,
            leaves,
            places: FxHashMap::default(),
            unlike: 0,
            router: None,
            devices: devices_of_nodes(topology),
            known: FxHashMap::default(),
        }
    }

    /// The groups of a kind, and the place of each with its neighbours: equal for groups whose
    /// ranks are placed towards each other in the same way.
    pub fn kind(&mut self, name: &str, groups: Vec<Vec<u32>>) -> Kind {
        let beside = self.beside(&groups);
        let places = beside.iter().map(|beside| self.place(&groups, beside));
        Kind {
            name: name.to_owned(),
            places: places.collect(),
            groups,
            beside,
        }
    }

    /// For each group those of its kind that share a node with it, itself first.
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
        let of = |(index, group): (usize, &Vec<u32>)| {
            let nodes = group.iter().map(|&r| self.spots[r as usize].node);
            let mut all: Vec<u32> = nodes
                .flat_map(|n| on_node[&n].iter().copied())
                .filter(|&g| g != index as u32)
                .collect();
            all.sort_unstable();
            all.dedup();
            all.insert(0, index as u32);
            all
        };
        groups.iter().enumerate().map(of).collect()
    }

    fn place(&mut self, groups: &[Vec<u32>], beside: &[u32]) -> u32 {
        // Nodes, domains, leaves and what is above them, numbered as they first appear.
        let mut known: [FxHashMap<u32, u32>; 4] = Default::default();
        let mut number = |what: usize, id: u32| {
            let next = known[what].len() as u32;
            *known[what].entry(id).or_insert(next)
        };
        let mut words = Vec::new();
        for &group in beside {
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
        let next = self.places.len() as u32;
        *self.places.entry(words).or_insert(next)
    }

    /// The exchanges of a group for these operations, in their order.
    ///
    /// # Errors
    /// What NCCL refuses.
    pub fn plan(
        &mut self,
        kind: &Kind,
        of_group: &[u32],
        group: u32,
        operations: &[Operation],
    ) -> Result<Vec<Exchange>, ExchangeError> {
        let beside = &kind.beside[group as usize];
        let class = of_group[group as usize];
        let place = kind.places[group as usize];
        let one: Vec<bool> = beside
            .iter()
            .map(|&g| of_group[g as usize] == class)
            .collect();
        let nodes = self.in_order(kind, beside);
        // With dead links places that look alike may have other routes.
        let same = self.dead.is_empty();
        if same && let Some(moved) = self.moved(place, operations, &nodes, &one) {
            return Ok(moved);
        }
        // By operation: what each group's communicator makes of it.
        let mut all: Vec<Vec<Part>> = operations.iter().map(|_| Vec::new()).collect();
        let mut size = 0;
        for &g in beside {
            let ranks = kind.groups[g as usize].iter();
            let gpus = ranks.map(|&r| self.gpus[r as usize]).collect();
            // What the router found for one group it knows for the next.
            let router = self.router.take();
            let router = router.unwrap_or_else(|| self.new_router());
            let made = Communicator::of(self.topology, gpus, self.env, router);
            let mut communicator = made.map_err(|source| ExchangeError::Nccl {
                operation: "a communicator".into(),
                group: kind.name.clone(),
                source: Box::new(source),
            })?;
            if g == group {
                size = communicator.ranks();
            }
            for (parts, operation) in all.iter_mut().zip(operations) {
                parts.push(Part {
                    planned: planned(kind, &mut communicator, operation)?,
                    own: of_group[g as usize] == class,
                });
            }
            self.router = Some(communicator.into_router());
        }
        let parts = operations.iter().zip(all);
        Ok(parts
            .map(|(operation, parts)| {
                let (exchange, ends) = self.exchange(place, size, operation, parts);
                let known = Known {
                    exchange: exchange.clone(),
                    nodes: nodes.clone(),
                    ends,
                };
                self.known.insert(key(place, operation), known);
                exchange
            })
            .collect())
    }

    fn new_router(&self) -> Router<'t> {
        let router = Router::new(self.topology, self.seed);
        if self.dead.is_empty() {
            router
        } else {
            router.avoiding(self.dead.iter().copied())
        }
    }

    /// The nodes of groups, in the order in which their ranks come to them.
    fn in_order(&self, kind: &Kind, groups: &[u32]) -> Vec<NodeId> {
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

    /// The exchanges of a group whose place is like that of one that was planned before: the
    /// same plans, on other links. `None` if one of them is new.
    fn moved(
        &self,
        place: u32,
        operations: &[Operation],
        nodes: &[NodeId],
        one: &[bool],
    ) -> Option<Vec<Exchange>> {
        let known = operations.iter().map(|o| self.known.get(&key(place, o)));
        let known: Vec<&Known> = known.collect::<Option<_>>()?;
        let mut links: Option<(&[NodeId], Arc<TwinLinks>)> = None;
        known
            .into_iter()
            .zip(operations)
            .map(|(known, operation)| {
                let map = match &links {
                    Some((from, map)) if *from == known.nodes.as_slice() => Arc::clone(map),
                    _ => {
                        let map = Arc::new(self.twins(&known.nodes, nodes)?);
                        links = Some((&known.nodes, Arc::clone(&map)));
                        map
                    }
                };
                let starts = std::iter::once(0).chain(known.ends.iter().copied());
                let ranges = starts.zip(&known.ends).map(|(start, &end)| start..end);
                let own = ranges.zip(one).filter(|(_, own)| **own).map(|(r, _)| r);
                Some(Exchange {
                    name: operation.name.clone(),
                    own: own.collect(),
                    moved: Some(map),
                    ..known.exchange.clone()
                })
            })
            .collect()
    }

    /// Links of nodes, and those that other nodes of the same kinds have in their stead. Links
    /// that touch no node, between switches of a network, have none.
    fn twins(&self, from: &[NodeId], to: &[NodeId]) -> Option<TwinLinks> {
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

    fn exchange(
        &mut self,
        place: u32,
        ranks: u32,
        operation: &Operation,
        parts: Vec<Part>,
    ) -> (Exchange, Vec<u32>) {
        let mut plans = Vec::with_capacity(parts.len());
        let mut own = Vec::new();
        let mut ends = Vec::new();
        let mut how = String::new();
        let mut sms = 0;
        let mut connections = 0;
        let mut bytes = operation.bytes;
        for part in parts {
            let Some(planned) = part.planned else {
                ends.push(connections);
                continue;
            };
            if plans.is_empty() {
                how = format!("{} {}", planned.algorithm.name(), planned.protocol.name());
                sms = u32::from(planned.channels);
                bytes = Bytes::new(planned.bytes);
            }
            // Neighbours that are planned in another way cannot be in one plan with the group.
            let first = plans.first().map(|p: &Plan| p.protocol);
            if first.is_some_and(|p| p != planned.plan.protocol) {
                ends.push(connections);
                continue;
            }
            let until = connections + planned.plan.program.connections();
            if part.own {
                own.push(connections..until);
            }
            connections = until;
            ends.push(until);
            plans.push(planned.plan);
        }
        let plan = Plan::side_by_side(plans);
        let known = self.known.get(&key(place, operation));
        let alike = match known.filter(|_| self.dead.is_empty()) {
            Some(known) => known.exchange.alike,
            None => {
                self.unlike += 1;
                self.unlike - 1
            }
        };
        let bus_factor = match &operation.moves {
            Moves::Collective(collective) => collective.bus_factor(ranks),
            Moves::Send => 1.0,
            Moves::Matrix(_) => Collective::AllToAll.bus_factor(ranks),
        };
        let exchange = Exchange {
            name: operation.name.clone(),
            bytes,
            bus_factor,
            how,
            sms,
            plan: plan.map(Arc::new),
            moved: None,
            alike,
            own,
        };
        (exchange, ends)
    }
}

fn key(place: u32, operation: &Operation) -> Key {
    let moves = operation.moves.clone();
    (place, moves, operation.bytes, operation.forced)
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

/// The plan of one group's operation; `None` if nothing is to move.
fn planned(
    kind: &Kind,
    communicator: &mut Communicator<'_>,
    operation: &Operation,
) -> Result<Option<Planned>, ExchangeError> {
    let ranks = communicator.ranks();
    let bytes = operation.bytes.get();
    let matrix = |rows: &[Vec<u64>]| {
        Matrix::new(rows).map_err(|source| ExchangeError::Matrix {
            operation: operation.name.clone(),
            group: kind.name.clone(),
            source,
        })
    };
    let result = match &operation.moves {
        Moves::Collective(collective) => {
            if ranks < 2 || collective.actual_bytes(bytes, ranks) == 0 {
                return Ok(None);
            }
            communicator.plan(*collective, bytes, operation.forced)
        }
        Moves::Send => {
            let rows = [vec![0, bytes / 16 * 16], vec![0, 0]];
            communicator.plan_all_to_all_v(matrix(&rows)?)
        }
        Moves::Matrix(rows) => communicator.plan_all_to_all_v(matrix(rows)?),
    };
    let planned = result.map_err(|source| ExchangeError::Nccl {
        operation: operation.name.clone(),
        group: kind.name.clone(),
        source: Box::new(source),
    })?;
    Ok((planned.bytes > 0).then_some(planned))
}

/// Which group of each class of a kind stands for the class: the first.
#[must_use]
pub fn representatives(classes: &Classes, kind: usize) -> Vec<u32> {
    let mut first = vec![u32::MAX; classes.groups[kind] as usize];
    for (group, &class) in classes.of_group[kind].iter().enumerate() {
        let slot = &mut first[class as usize];
        *slot = (*slot).min(group as u32);
    }
    first
}
