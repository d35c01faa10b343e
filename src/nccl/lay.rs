//! Laying a chosen algorithm onto the machine: its program, and a transport for each of the
//! program's connections.

use super::algorithm::Algorithm;
use super::chunks::{Sizing, protocol, slot};
use super::communicator::{Communicator, Planned};
use super::costs::{protocol_model, role_costs};
use super::error::NcclError;
use super::rings::start_of;
use super::transport::{Leg, Way};
use crate::collective::{
    Between, ChainProgram, Chains, Collective, ConnId, HeadsProgram, HopKind, MscclAlgorithm, Part,
    Program, RingProgram, Rings, Role, Tree, TreeProgram, binary_parent,
};
use crate::plan::{Plan, ProtocolKind, RoleCosts, Transport};
use crate::topology::{DeviceId, DeviceModel, LinkFamily, PathType};
use crate::units::Bandwidth;
use std::sync::Arc;

impl Communicator<'_> {
    /// The plan of a collective with an algorithm and protocol.
    pub(super) fn lay(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        kind: ProtocolKind,
        bytes: u64,
    ) -> Result<Planned, NcclError> {
        let heads = self.heads(algorithm);
        let sizing = Sizing {
            collective,
            algorithm,
            kind,
            env: self.env(),
            setup: self.setup(),
            channels: self.channels(),
            nvls_channels: self.nvls_channels(),
            heads: heads.first().map_or(1, Vec::len) as u32,
        };
        let parts = sizing.parts(bytes);
        let channels = parts.len() as u16;
        let (program, ways): (Arc<dyn Program>, Vec<Way>) = match algorithm {
            Algorithm::Ring => self.ring(collective, bytes, parts)?,
            Algorithm::Tree => self.tree(bytes, parts)?,
            Algorithm::CollnetChain => self.chain(bytes, parts)?,
            Algorithm::Nvls | Algorithm::NvlsTree | Algorithm::CollnetDirect => {
                self.with_heads(collective, algorithm, bytes, &heads, parts)?
            }
            _ => self.messages(collective, algorithm, bytes, parts)?,
        };
        let costs = self.costs(algorithm, kind);
        let plan = Plan {
            transports: self.transports(program.as_ref(), &ways, kind),
            program,
            gpus: self.gpus.clone(),
            protocol: protocol(algorithm, collective, kind, self.env()),
            routes: self.ways.routes.clone(),
            costs,
            rank_costs: self.rank_models.clone(),
        };
        Ok(Planned {
            plan,
            algorithm,
            protocol: kind,
            channels,
            bytes,
        })
    }

    /// Plans an algorithm that was read from a file of MSCCL.
    ///
    /// # Errors
    /// One for another number of ranks; sizes that it cannot cut; connections without a way.
    pub fn plan_msccl(
        &mut self,
        algorithm: &MscclAlgorithm,
        bytes: u64,
        forced: Option<ProtocolKind>,
    ) -> Result<Planned, NcclError> {
        let collective = algorithm.collective;
        let refused = |reason: String| NcclError::NothingLeft {
            collective: collective.name(),
            reason,
        };
        let named = ProtocolKind::ALL
            .into_iter()
            .find(|p| p.name().eq_ignore_ascii_case(&algorithm.protocol));
        let kind = forced.or(named).unwrap_or(ProtocolKind::Simple);
        // Whole elements in every chunk.
        let unit = 4 * u64::from(algorithm.chunks.max(1));
        let bytes = bytes / unit * unit;
        let program = algorithm
            .program(bytes, slot(kind, self.env()))
            .map_err(|error| refused(error.to_string()))?;
        if program.ranks() != self.ranks() {
            return Err(refused(format!(
                "{} is for {} ranks, but {} take part",
                algorithm.name,
                program.ranks(),
                self.ranks()
            )));
        }
        let ways = self.own_nic_ways(&program)?;
        let channels = algorithm.channels;
        let plan = Plan {
            transports: self.transports(&program, &ways, kind),
            program: Arc::new(program),
            gpus: self.gpus.clone(),
            protocol: protocol(Algorithm::Msccl, collective, kind, self.env()),
            routes: self.ways.routes.clone(),
            costs: self.costs(Algorithm::Msccl, kind),
            rank_costs: self.rank_models.clone(),
        };
        Ok(Planned {
            plan,
            algorithm: Algorithm::Msccl,
            protocol: kind,
            channels,
            bytes,
        })
    }

    /// An algorithm of message passing: each rank by its own interface.
    fn messages(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let (ranks, local) = (self.ranks(), self.gpus_per_node());
        let refused = |reason: String| NcclError::NothingLeft {
            collective: collective.name(),
            reason,
        };
        let message = algorithm
            .message(local)
            .ok_or_else(|| refused(format!("{algorithm} is no algorithm of messages")))?;
        let program = message
            .program(collective, bytes, ranks, parts)
            .map_err(|error| refused(error.to_string()))?;
        let ways = self.own_nic_ways(&program)?;
        Ok((Arc::new(program), ways))
    }

    /// The ways of a program whose connections each go from one rank to another one, by the
    /// interfaces that these prefer.
    fn own_nic_ways(&mut self, program: &dyn Program) -> Result<Vec<Way>, NcclError> {
        (0..program.connections())
            .map(|c| {
                let ends = program.connection(ConnId(c));
                let (from, to) = (program.worker(ends.from), program.worker(ends.to));
                let (a, b) = (from.rank.0, to.rank.0);
                let nics = if self.place_of[a as usize].0 == self.place_of[b as usize].0 {
                    None
                } else {
                    Some((self.own_nic(a)?, self.own_nic(b)?))
                };
                self.way(a, b, nics, u64::from(from.channel))
            })
            .collect()
    }

    /// The interface that a rank prefers.
    pub(super) fn own_nic(&self, rank: u32) -> Result<DeviceId, NcclError> {
        let (host, local) = self.place_of[rank as usize];
        let nic = self.hosts[host as usize].nics[local as usize];
        nic.ok_or_else(|| self.no_nic(rank))
    }

    pub(super) fn costs(&self, algorithm: Algorithm, kind: ProtocolKind) -> Vec<RoleCosts> {
        let switches = self.reduction_rate();
        let models = self.models.iter();
        models
            .map(|m| role_costs(m, algorithm, kind, switches))
            .collect()
    }

    /// What the network's switches keep up with, for each stream of sums.
    fn reduction_rate(&self) -> Bandwidth {
        let topology = self.topology;
        let switches = topology.fabrics.iter().flat_map(|f| &f.switches);
        let rates = switches.filter_map(|&s| match topology.device_model(s) {
            DeviceModel::Switch(model) => Some(model.reduction.as_ref()?.value.bytes_per_sec()),
            _ => None,
        });
        Bandwidth::from_bytes_per_sec(rates.min().unwrap_or(1 << 50).max(1))
    }

    pub(super) fn transports(
        &self,
        program: &dyn Program,
        ways: &[Way],
        kind: ProtocolKind,
    ) -> Vec<Transport> {
        let models = self.models.iter();
        let hops: Vec<_> = models.map(|m| protocol_model(m, kind).hop.value).collect();
        ways.iter()
            .zip(0..)
            .map(|(way, conn)| {
                let from = program.worker(program.connection(ConnId(conn)).from);
                way.transport(hops[usize::from(self.rank_models[from.rank.index()])])
            })
            .collect()
    }

    /// The heads of each host (ranks), of algorithms that have some.
    fn heads(&self, algorithm: Algorithm) -> Vec<Vec<u32>> {
        let graphs = &self.setup().graphs;
        let count = match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => graphs.nvls.map(|g| g.channels),
            Algorithm::CollnetDirect => graphs.collnet_direct.map(|g| g.channels),
            _ => None,
        };
        let count = count.unwrap_or(1) as usize;
        let several = self.hosts.len() > 1;
        self.hosts
            .iter()
            .map(|host| {
                let locals: Vec<usize> = if several {
                    host.owners()
                } else {
                    (0..host.ranks.len()).collect()
                };
                let ranks = locals.into_iter().map(|l| host.ranks[l]);
                ranks.take(count).collect()
            })
            .collect()
    }

    /// The way between two ranks; `nics` where they are on different hosts.
    fn way(
        &mut self,
        from: u32,
        to: u32,
        nics: Option<(DeviceId, DeviceId)>,
        flow: u64,
    ) -> Result<Way, NcclError> {
        let leg = Leg {
            from: self.gpus[from as usize],
            to: self.gpus[to as usize],
            nics,
            relay: nics.and_then(|(out, _)| self.relay(from, out)),
            flow: if nics.is_some() { flow } else { 0 },
        };
        self.ways.find(leg)
    }

    /// PXN: where a rank's interface is nearer to another GPU of its host that it reaches by
    /// NVLink, it lets that one's proxy send.
    fn relay(&self, rank: u32, nic: DeviceId) -> Option<DeviceId> {
        let (host, local) = self.place_of[rank as usize];
        let host = &self.hosts[host as usize];
        if self.env().pxn_disable || host.nics[local as usize] == Some(nic) {
            return None;
        }
        let gpu = self.gpus[rank as usize];
        let router = self.ways.router();
        let kind = |gpu| super::hosts::nic_path(self.topology, router, gpu, nic);
        if kind(gpu) <= PathType::P2c {
            return None;
        }
        let owner = host.nics.iter().position(|&n| n == Some(nic))?;
        let relay = self.gpus[host.ranks[owner] as usize];
        let by_nvlink = router.peer(gpu, relay).is_ok_and(|route| {
            let mut links = route.hops.iter().map(|h| h.link);
            links.all(|l| self.topology.family(l) == LinkFamily::Nvlink)
        });
        (by_nvlink && kind(relay) <= PathType::P2c).then_some(relay)
    }

    /// The interface by which a channel of trees and heads reaches a host: that of the GPU
    /// where the channel begins.
    fn channel_nic(&self, host: u32, channel: u32) -> Option<DeviceId> {
        self.hosts[host as usize].door(channel).map(|door| door.nic)
    }

    /// Both interfaces of a hop between two ranks on one channel, if it leaves the host.
    fn nics_of(
        &self,
        from: u32,
        to: u32,
        channel: u32,
    ) -> Result<Option<(DeviceId, DeviceId)>, NcclError> {
        let (a, b) = (self.place_of[from as usize].0, self.place_of[to as usize].0);
        if a == b {
            return Ok(None);
        }
        let out = self
            .channel_nic(a, channel)
            .ok_or_else(|| self.no_nic(from))?;
        let into = self
            .channel_nic(b, channel)
            .ok_or_else(|| self.no_nic(to))?;
        Ok(Some((out, into)))
    }

    /// `NCCL_MIN_NCHANNELS` beyond the rings found uses them again from the first.
    fn rings_for(&self, channels: u16) -> Arc<Rings> {
        if channels <= self.rings.channels() {
            Arc::clone(&self.rings)
        } else {
            Arc::new(self.rings.repeated(channels))
        }
    }

    fn ring(
        &mut self,
        collective: Collective,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let channels = parts.len() as u16;
        let rings = self.rings_for(channels);
        let program = RingProgram::new(collective, bytes, rings, parts);
        while self.ring_ways.len() < usize::from(channels) {
            let channel = self.ring_ways.len() as u16;
            let ways = self.ways_of_ring(channel)?;
            self.ring_ways.push(ways);
        }
        let ways = (0..program.connections())
            .map(|c| {
                let from = program.worker(program.connection(ConnId(c)).from);
                self.ring_ways[usize::from(from.channel)][from.rank.index()]
            })
            .collect();
        Ok((Arc::new(program), ways))
    }

    /// The ways of a ring's connections, by sending rank.
    fn ways_of_ring(&mut self, channel: u16) -> Result<Vec<Way>, NcclError> {
        let rings = self.rings_for(channel + 1);
        let order = rings.order(channel).to_vec();
        let gates = self.graph.gates[usize::from(channel) % self.graph.gates.len()].clone();
        let mut ways: Vec<Option<Way>> = vec![None; order.len()];
        for (position, &rank) in order.iter().enumerate() {
            let next = order[(position + 1) % order.len()];
            let (here, there) = (
                self.place_of[rank as usize].0,
                self.place_of[next as usize].0,
            );
            let nics = if here == there {
                None
            } else {
                let out = gates[here as usize]
                    .leave
                    .ok_or_else(|| self.no_nic(rank))?;
                let into = gates[there as usize]
                    .enter
                    .ok_or_else(|| self.no_nic(next))?;
                Some((out, into))
            };
            ways[rank as usize] = Some(self.way(rank, next, nics, u64::from(channel))?);
        }
        Ok(ways.into_iter().flatten().collect())
    }

    /// The chain of a channel through a host: from the GPU with the channel's interface.
    fn chain_of(&self, host: usize, channel: u32) -> Vec<u32> {
        // One host: the ways that rings found.
        if self.hosts.len() == 1 {
            let rings = self.graph.rings.channels();
            return self
                .graph
                .rings
                .order((channel % u32::from(rings)) as u16)
                .to_vec();
        }
        let host = &self.hosts[host];
        let (g, start) = (host.ranks.len(), start_of(host, channel));
        let mut locals: Vec<usize> = (0..g).map(|i| (start + i) % g).collect();
        // The second GPU takes part in the network's traffic if it is as near.
        if g > 2 && host.door(channel).and_then(|d| d.mate) == Some((start + g - 1) % g) {
            locals[1..].reverse();
        }
        locals.into_iter().map(|l| host.ranks[l]).collect()
    }

    /// The tree of a channel. Channels beyond the search's are the complementary trees.
    fn tree_of(&self, channel: u32) -> Result<Tree, NcclError> {
        let found = self.setup().graphs.tree.channels.max(1);
        let second = (channel / found) % 2 == 1;
        let within = channel % found;
        let hosts = self.hosts.len() as u32;
        let chains: Vec<Vec<u32>> = (0..self.hosts.len())
            .map(|h| self.chain_of(h, within))
            .collect();
        let plain = self.setup().graphs.tree.plain_tree;
        let mut parents = vec![None; self.gpus.len()];
        let mut first_child = vec![true; self.hosts.len()];
        for (h, chain) in chains.iter().enumerate() {
            for pair in chain.windows(2) {
                parents[pair[1] as usize] = Some(pair[0]);
            }
            parents[chain[0] as usize] = binary_parent(hosts, h as u32, second).map(|above| {
                let above = above as usize;
                // Balanced: the first child host attaches to the second GPU of the chain.
                let at = usize::from(!plain && first_child[above] && chains[above].len() > 1);
                first_child[above] = false;
                chains[above][at]
            });
        }
        Tree::new(&parents).map_err(|error| NcclError::NothingLeft {
            collective: "a tree",
            reason: error.to_string(),
        })
    }

    fn tree(
        &mut self,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        while self.trees.len() < parts.len() {
            let tree = self.tree_of(self.trees.len() as u32)?;
            self.trees.push(Arc::new(tree));
        }
        let trees = self.trees[..parts.len()].to_vec();
        let program = TreeProgram::new(bytes, trees, parts);
        let found = self.setup().graphs.tree.channels.max(1);
        let ways = self.plain_ways(&program, found)?;
        Ok((Arc::new(program), ways))
    }

    /// The ways of a program whose connections all go from one rank to another one.
    fn plain_ways(&mut self, program: &dyn Program, found: u32) -> Result<Vec<Way>, NcclError> {
        (0..program.connections())
            .map(|c| {
                let ends = program.connection(ConnId(c));
                let (from, to) = (program.worker(ends.from), program.worker(ends.to));
                let channel = u32::from(from.channel);
                let nics = self.nics_of(from.rank.0, to.rank.0, channel % found)?;
                self.way(from.rank.0, to.rank.0, nics, u64::from(channel))
            })
            .collect()
    }

    fn chain(
        &mut self,
        bytes: u64,
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let found = self.setup().graphs.collnet_chain.channels.max(1);
        let chains: Vec<Chains> = (0..parts.len() as u32)
            .map(|c| {
                let hosts = 0..self.hosts.len();
                hosts.map(|h| self.chain_of(h, c % found)).collect()
            })
            .collect();
        let program = ChainProgram::new(bytes, &chains, parts);
        let mut ways = Vec::with_capacity(program.connections() as usize);
        for c in 0..program.connections() {
            let ends = program.connection(ConnId(c));
            let (from, to) = (program.worker(ends.from), program.worker(ends.to));
            let channel = u32::from(from.channel);
            let heads: Vec<u32> = chains[channel as usize].iter().map(|h| h[0]).collect();
            ways.push(match (from.role, to.role) {
                (_, Role::Switch) => self.switch_way(&heads, from.rank.0, channel % found, 0)?,
                (Role::Switch, _) => self.switch_way(&heads, to.rank.0, channel % found, 1)?,
                _ => self.way(from.rank.0, to.rank.0, None, 0)?,
            });
        }
        Ok((Arc::new(program), ways))
    }

    /// Between one of `heads`, the ranks with interfaces of a channel, and the network's
    /// switches; up (0) or down (1). The first head's carries the bytes of all.
    fn switch_way(
        &mut self,
        heads: &[u32],
        head: u32,
        channel: u32,
        direction: usize,
    ) -> Result<Way, NcclError> {
        let mut members = Vec::with_capacity(heads.len());
        for &rank in heads {
            let (host, local) = self.place_of[rank as usize];
            let door = self.hosts[host as usize].door(channel);
            let own = door.filter(|d| d.local == local as usize).map(|d| d.nic);
            let nic = own.or(self.hosts[host as usize].nics[local as usize]);
            members.push((
                self.gpus[rank as usize],
                nic.ok_or_else(|| self.no_nic(rank))?,
            ));
        }
        let way = self.ways.reduction_tree(&members, u64::from(channel))?[direction];
        Ok(if heads[0] == head { way } else { way.carried() })
    }

    fn with_heads(
        &mut self,
        collective: Collective,
        algorithm: Algorithm,
        bytes: u64,
        heads: &[Vec<u32>],
        parts: Vec<Part>,
    ) -> Result<(Arc<dyn Program>, Vec<Way>), NcclError> {
        let between = match (self.hosts.len(), algorithm) {
            (1, _) => Between::Nothing,
            (_, Algorithm::NvlsTree) => Between::Trees,
            _ => Between::Switches,
        };
        let multicast = algorithm != Algorithm::CollnetDirect;
        let hosts: Vec<(Vec<u32>, Vec<u32>)> = self
            .hosts
            .iter()
            .zip(heads)
            .map(|(host, heads)| (host.ranks.clone(), heads.clone()))
            .collect();
        let blocks = collective != Collective::AllReduce;
        if blocks && (hosts.len() > 1 || heads[0].len() != self.gpus.len()) {
            return Err(NcclError::NothingLeft {
                collective: collective.name(),
                reason: format!("{algorithm} needs one host in which every rank is a head"),
            });
        }
        let program = HeadsProgram::new(collective, bytes, &hosts, between, parts);
        let mut ways = Vec::with_capacity(program.connections() as usize);
        for c in (0..program.connections()).map(ConnId) {
            let ends = program.connection(c);
            let (from, to) = (program.worker(ends.from), program.worker(ends.to));
            let (a, b) = (from.rank.0, to.rank.0);
            let channel = u32::from(from.channel);
            ways.push(match program.kind(c) {
                HopKind::ToHead { first } if multicast => self.local_group(b, first, 0)?,
                HopKind::FromHead { first } if multicast => self.local_group(a, first, 1)?,
                HopKind::ToHead { .. } | HopKind::FromHead { .. } => self.way(a, b, None, 0)?,
                HopKind::Network => {
                    let nics = Some((self.own_nic(a)?, self.own_nic(b)?));
                    self.way(a, b, nics, u64::from(channel))?
                }
                HopKind::ToSwitch { .. } => {
                    let group = group_of(heads, a);
                    self.switch_way(&group, a, channel, 0)?
                }
                HopKind::FromSwitch { .. } => {
                    let group = group_of(heads, b);
                    self.switch_way(&group, b, channel, 1)?
                }
            });
        }
        Ok((Arc::new(program), ways))
    }

    /// Between the ranks of a host and one of its heads, by multicast memory.
    fn local_group(&mut self, head: u32, first: bool, direction: usize) -> Result<Way, NcclError> {
        let host = self.place_of[head as usize].0;
        let ranks = self.hosts[host as usize].ranks.iter();
        let members: Vec<DeviceId> = ranks.map(|&r| self.gpus[r as usize]).collect();
        let way = self.ways.multicast(self.gpus[head as usize], &members)?[direction];
        Ok(if first { way } else { way.carried() })
    }
}

/// The heads of all hosts with the same index as `head`.
fn group_of(heads: &[Vec<u32>], head: u32) -> Vec<u32> {
    let index = heads
        .iter()
        .find_map(|host| host.iter().position(|&h| h == head))
        .unwrap_or(0);
    heads.iter().map(|host| host[index]).collect()
}
