//! Communications of a job, planned as NCCL would, for the groups that stand for all.
//!
//! A group is planned together with those of its kind that are on the same nodes, for in a job
//! that is even all of them communicate at the same time: the eight rings of data-parallel
//! groups that leave a node by one interface each, say.

use super::classes::{Classes, Kind};
use crate::collective::{Collective, Matrix, MatrixError};
use crate::nccl::{Communicator, Env, Forced, NcclError, Planned};
use crate::plan::Plan;
use crate::plan::job::Exchange;
use crate::topology::{DeviceId, DeviceKind, LinkFamily, NodeId, Topology};
use crate::units::Bytes;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thiserror::Error;

/// What a group is to communicate.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
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
    gpus: &'t [DeviceId],
    spots: Vec<Spot>,
    /// Of each node: the leaf switch of each interface, and the switch above it.
    leaves: FxHashMap<NodeId, Vec<(DeviceId, Option<DeviceId>)>>,
    /// Places of groups seen so far.
    places: FxHashMap<Vec<u32>, u32>,
    alike: FxHashMap<(u32, String), u32>,
}

impl<'t> Exchanges<'t> {
    /// For ranks on these GPUs, in order.
    #[must_use]
    pub fn new(topology: &'t Topology, gpus: &'t [DeviceId], env: &'t Env, seed: u64) -> Self {
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
            gpus,
            spots,
            leaves,
            places: FxHashMap::default(),
            alike: FxHashMap::default(),
        }
    }

    /// The groups of a kind, and the place of each with its neighbours: equal for groups whose
    /// ranks are placed towards each other in the same way.
    pub fn kind(&mut self, name: &str, groups: Vec<Vec<u32>>) -> Kind {
        let beside = self.beside(&groups);
        let places = (0..groups.len()).map(|group| self.place(&groups, &beside[group]));
        Kind {
            name: name.to_owned(),
            places: places.collect(),
            groups,
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
        let nodes: Vec<NodeId> = self.nodes(&kind.groups[group as usize]);
        let mut beside = vec![group];
        let shares = |g: &u32| {
            *g != group
                && kind.groups[*g as usize]
                    .iter()
                    .any(|&r| nodes.binary_search(&self.spots[r as usize].node).is_ok())
        };
        beside.extend((0..kind.groups.len() as u32).filter(shares));
        let mut communicators = Vec::with_capacity(beside.len());
        for &g in &beside {
            let ranks = kind.groups[g as usize].iter();
            let gpus = ranks.map(|&r| self.gpus[r as usize]).collect();
            let made = Communicator::of(self.topology, gpus, self.env, self.seed);
            communicators.push(made.map_err(|source| ExchangeError::Nccl {
                operation: "a communicator".into(),
                group: kind.name.clone(),
                source: Box::new(source),
            })?);
        }
        let class = of_group[group as usize];
        let one: Vec<bool> = beside
            .iter()
            .map(|&g| of_group[g as usize] == class)
            .collect();
        let place = kind.places[group as usize];
        operations
            .iter()
            .map(|operation| self.exchange(kind, place, &mut communicators, &one, operation))
            .collect()
    }

    fn nodes(&self, ranks: &[u32]) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = ranks.iter().map(|&r| self.spots[r as usize].node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn exchange(
        &mut self,
        kind: &Kind,
        place: u32,
        communicators: &mut [Communicator<'_>],
        one: &[bool],
        operation: &Operation,
    ) -> Result<Exchange, ExchangeError> {
        let ranks = communicators[0].ranks();
        let mut plans = Vec::with_capacity(communicators.len());
        let mut own = Vec::new();
        let mut how = String::new();
        let mut sms = 0;
        let mut connections = 0;
        let mut bytes = operation.bytes;
        for (index, communicator) in communicators.iter_mut().enumerate() {
            let Some(planned) = planned(kind, communicator, operation)? else {
                continue;
            };
            let until = connections + planned.plan.program.connections();
            if one[index] {
                own.push(connections..until);
            }
            connections = until;
            if index == 0 {
                how = format!("{} {}", planned.algorithm.name(), planned.protocol.name());
                sms = u32::from(planned.channels);
                bytes = Bytes::new(planned.bytes);
            }
            plans.push(planned.plan);
        }
        // Without the neighbours, if they were planned in another way.
        let alone = plans.first().cloned();
        let plan = Plan::side_by_side(plans).or(alone);
        let next = self.alike.len() as u32;
        let key = (place, format!("{:?} {}", operation.moves, operation.bytes));
        let bus_factor = match &operation.moves {
            Moves::Collective(collective) => collective.bus_factor(ranks),
            Moves::Send => 1.0,
            Moves::Matrix(_) => Collective::AllToAll.bus_factor(ranks),
        };
        Ok(Exchange {
            name: operation.name.clone(),
            bytes,
            bus_factor,
            how,
            sms,
            plan: plan.map(Arc::new),
            alike: *self.alike.entry(key).or_insert(next),
            own,
        })
    }
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
