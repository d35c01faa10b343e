//! A communicator: ranks on a machine, their rings, and plans for operations on them.

use super::env::Env;
use super::error::NcclError;
use super::parts::{channels_for, ring_parts, ring_protocol};
use super::rings::{Gate, Reach, hosts, is, search};
use super::transport::{Leg, Way, Ways};
use super::tuner::{Algorithm, Setup};
use crate::collective::{Collective, Program, Rank, RingProgram, Rings};
use crate::plan::{Plan, ProtocolKind, RoleCosts, Transport, WorkerCosts};
use crate::topology::hardware::{CpuVendor, ProtocolModel};
use crate::topology::{
    DeviceId, DeviceKind, DeviceModel, GpuModel, LinkFamily, RouteError, Router, Topology,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ranks on a machine, and all that NCCL sets up once for them.
pub struct Communicator<'t> {
    topology: &'t Topology,
    env: Env,
    gpus: Vec<DeviceId>,
    nodes: u32,
    gpus_per_node: u32,
    /// Which host each rank is of.
    host_of: Vec<u32>,
    setup: Setup,
    /// Where each ring enters and leaves each host.
    gates: Vec<Vec<Gate>>,
    rings: Arc<Rings>,
    ways: Ways<'t>,
    /// Ways of the connections of channels so far: `[channel][rank]`.
    ring_ways: Vec<Vec<Way>>,
    /// GPU models in use, and which of them each rank has.
    models: Vec<&'t GpuModel>,
    rank_models: Vec<u16>,
}

/// What the caller insists on; everything else is NCCL's choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forced {
    /// The algorithm.
    pub algorithm: Option<Algorithm>,
    /// The protocol.
    pub protocol: Option<ProtocolKind>,
}

/// A plan, and what was decided on the way to it.
#[derive(Clone)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: ProtocolKind,
    /// Thread blocks per rank.
    pub channels: u16,
    /// nccl-tests' size, after rounding.
    pub bytes: u64,
}

impl<'t> Communicator<'t> {
    /// A rank on each of the first `gpus_per_node` GPUs (all, if absent) of every node.
    ///
    /// # Errors
    /// A node with fewer GPUs, hosts that no network joins, GPUs without a way to each other.
    pub fn new(
        topology: &'t Topology,
        gpus_per_node: Option<u32>,
        env: &Env,
        seed: u64,
    ) -> Result<Self, NcclError> {
        let mut gpus = Vec::new();
        for node in &topology.nodes {
            let asked = gpus_per_node.map_or(node.gpus.len(), |g| g as usize);
            if asked == 0 || asked > node.gpus.len() {
                return Err(NcclError::GpusPerNode {
                    asked: asked as u32,
                    node: node.name.clone(),
                    has: node.gpus.len(),
                });
            }
            gpus.extend_from_slice(&node.gpus[..asked]);
        }
        let router = Router::new(topology, seed);
        let hosts = hosts(topology, &router, &gpus);
        let mut host_of = vec![0; gpus.len()];
        for (index, host) in hosts.iter().enumerate() {
            host.ranks
                .iter()
                .for_each(|&r| host_of[r as usize] = index as u32);
        }
        let (models, rank_models) = models(topology, &gpus);
        let compute_capability = models
            .iter()
            .map(|m| m.compute_capability)
            .min()
            .unwrap_or(0);
        let reach = reach(topology, &router, &gpus, &hosts, compute_capability)?;
        let graph = search(&hosts, reach)?;
        let amd = topology.devices().any(|(id, _)| {
            matches!(topology.device_model(id), DeviceModel::Cpu(m) if m.vendor == CpuVendor::Amd)
        });
        let setup = Setup {
            ranks: gpus.len() as u32,
            hosts: hosts.len() as u32,
            compute_capability,
            channels: graph.channels,
            intra: graph.intra,
            inter: graph.inter,
            nvlink: reach.nvlink,
            amd,
            near_nics: near_nics(topology, &router, &gpus, &hosts),
        };
        Ok(Communicator {
            topology,
            env: env.clone(),
            nodes: topology.nodes.len() as u32,
            gpus_per_node: topology
                .nodes
                .first()
                .map_or(0, |n| gpus_per_node.unwrap_or(n.gpus.len() as u32)),
            gpus,
            host_of,
            setup,
            rings: Arc::new(graph.rings),
            gates: graph.gates,
            ways: Ways::new(topology, router),
            ring_ways: Vec::new(),
            models,
            rank_models,
        })
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.gpus.len() as u32
    }

    /// How many nodes they are on.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// How many of them are on each node (on the first, if nodes differ).
    #[must_use]
    pub fn gpus_per_node(&self) -> u32 {
        self.gpus_per_node
    }

    /// The GPU of each rank.
    #[must_use]
    pub fn gpus(&self) -> &[DeviceId] {
        &self.gpus
    }

    /// Plans one operation of `bytes` (nccl-tests' size, rounded as it does).
    ///
    /// # Errors
    /// Restrictions that leave nothing to choose; connections without a way.
    pub fn plan(
        &mut self,
        collective: Collective,
        bytes: u64,
        forced: Forced,
    ) -> Result<Planned, NcclError> {
        let ranks = self.ranks();
        let bytes = collective.actual_bytes(bytes, ranks);
        if collective.is_point_to_point() {
            return Err(NcclError::NothingLeft {
                collective: collective.name(),
                reason: "sends and receives are not planned yet".into(),
            });
        }
        let algorithm = self.algorithm(collective, forced)?;
        let kind = self.protocol(collective, bytes, forced)?;
        let channels = self.channels();
        let limit = channels_for(kind, ranks, channels, bytes);
        let (protocol, chunk) = ring_protocol(collective, kind);
        let parts = ring_parts(collective, kind, ranks, limit, bytes, chunk);
        let channels = parts.len() as u16;
        let rings = self.rings_for(channels);
        let program = RingProgram::new(collective, bytes, rings, parts);
        let transports = self.transports(&program, channels, kind)?;
        let costs = self
            .models
            .iter()
            .map(|m| RoleCosts::same(worker_costs(m, kind)))
            .collect();
        let plan = Plan {
            program: Arc::new(program),
            gpus: self.gpus.clone(),
            protocol,
            routes: self.ways.routes.clone(),
            transports,
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

    /// Thread blocks of a full-size operation, within what the environment allows.
    fn channels(&self) -> u16 {
        let least = self.env.min_channels.unwrap_or(1);
        let most = self.env.max_channels.unwrap_or(u16::MAX).max(1);
        self.rings.channels().min(most).max(least)
    }

    /// `NCCL_MIN_NCHANNELS` beyond the rings found uses them again from the first.
    fn rings_for(&self, channels: u16) -> Arc<Rings> {
        if channels <= self.rings.channels() {
            Arc::clone(&self.rings)
        } else {
            Arc::new(self.rings.repeated(channels))
        }
    }

    fn algorithm(&self, collective: Collective, forced: Forced) -> Result<Algorithm, NcclError> {
        let allowed = |a: &Algorithm| self.env.algorithms.as_ref().is_none_or(|l| l.contains(a));
        match forced.algorithm {
            Some(algorithm) => Ok(algorithm),
            None => Algorithm::ALL
                .into_iter()
                .find(allowed)
                .ok_or(NcclError::NothingLeft {
                    collective: collective.name(),
                    reason: "NCCL_ALGO excludes ring, the only algorithm there is so far".into(),
                }),
        }
    }

    fn protocol(
        &self,
        collective: Collective,
        bytes: u64,
        forced: Forced,
    ) -> Result<ProtocolKind, NcclError> {
        if let Some(protocol) = forced.protocol {
            return Ok(protocol);
        }
        let allowed: Vec<ProtocolKind> = match &self.env.protocols {
            // Naming LL128 forces it on even where it is not chosen by itself.
            Some(list) => list.clone(),
            None => ProtocolKind::ALL
                .into_iter()
                .filter(|&p| self.setup.allows(p))
                .collect(),
        };
        let micros = |p: &ProtocolKind| self.setup.ring_micros(collective, *p, bytes);
        // The first of equals wins, as in NCCL.
        allowed
            .into_iter()
            .min_by(|a, b| micros(a).total_cmp(&micros(b)))
            .ok_or_else(|| NcclError::NothingLeft {
                collective: collective.name(),
                reason: "NCCL_PROTO excludes every protocol".into(),
            })
    }

    fn transports(
        &mut self,
        program: &RingProgram,
        channels: u16,
        kind: ProtocolKind,
    ) -> Result<Vec<Transport>, NcclError> {
        if self.ranks() == 1 {
            return Ok(Vec::new());
        }
        while self.ring_ways.len() < usize::from(channels) {
            let channel = self.ring_ways.len() as u16;
            let ways = self.ways_of_channel(channel)?;
            self.ring_ways.push(ways);
        }
        let hops: Vec<_> = self
            .models
            .iter()
            .map(|m| protocol_model(m, kind).hop.value)
            .collect();
        Ok((0..program.connections())
            .map(|c| {
                let from = program.worker(crate::collective::WorkerId(c));
                let way = &self.ring_ways[usize::from(from.channel)][from.rank.index()];
                way.transport(hops[usize::from(self.rank_models[from.rank.index()])])
            })
            .collect())
    }

    /// The ways of a channel's connections, by sending rank.
    fn ways_of_channel(&mut self, channel: u16) -> Result<Vec<Way>, NcclError> {
        let rings = self.rings_for(channel + 1);
        let order = rings.order(channel).to_vec();
        let gates = &self.gates[usize::from(channel) % self.gates.len()];
        let mut ways: Vec<Option<Way>> = vec![None; order.len()];
        for (position, &rank) in order.iter().enumerate() {
            let next = order[(position + 1) % order.len()];
            let (here, there) = (self.host_of[rank as usize], self.host_of[next as usize]);
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
            let leg = Leg {
                from: self.gpus[rank as usize],
                to: self.gpus[next as usize],
                nics,
                flow: u64::from(channel),
            };
            ways[rank as usize] = Some(self.ways.find(leg)?);
        }
        Ok(ways.into_iter().flatten().collect())
    }

    fn no_nic(&self, rank: u32) -> NcclError {
        let node = self.topology.node_of(self.gpus[Rank(rank).index()]);
        let name = node.map(|n| self.topology.nodes[n.index()].name.clone());
        NcclError::NoNic {
            node: name.unwrap_or_default(),
        }
    }
}

/// The GPU models in use, and the model of each rank.
fn models<'t>(topology: &'t Topology, gpus: &[DeviceId]) -> (Vec<&'t GpuModel>, Vec<u16>) {
    let mut known: BTreeMap<u16, u16> = BTreeMap::new();
    let mut models = Vec::new();
    let ranks = gpus
        .iter()
        .filter_map(|&gpu| {
            let model = topology.gpu_model(gpu)?;
            Some(*known.entry(topology.device(gpu).model).or_insert_with(|| {
                models.push(model);
                models.len() as u16 - 1
            }))
        })
        .collect();
    (models, ranks)
}

fn protocol_model(model: &GpuModel, kind: ProtocolKind) -> &ProtocolModel {
    match kind {
        ProtocolKind::Ll => &model.workers.ll,
        ProtocolKind::Ll128 => &model.workers.ll128,
        ProtocolKind::Simple => &model.workers.simple,
    }
}

fn worker_costs(model: &GpuModel, kind: ProtocolKind) -> WorkerCosts {
    let protocol = protocol_model(model, kind);
    let send_rate = protocol.rate.value;
    WorkerCosts {
        launch: protocol.launch.value,
        slice_sync: protocol.slice_sync.value,
        send_rate,
        // Reading flags slows the last step as it does every other.
        local_rate: match kind {
            ProtocolKind::Simple => model.workers.local_copy_rate.value,
            ProtocolKind::Ll | ProtocolKind::Ll128 => send_rate,
        },
    }
}

/// What the ring search may count on.
fn reach(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    hosts: &[super::rings::Host],
    compute_capability: u32,
) -> Result<Reach, NcclError> {
    let mut intra = f64::INFINITY;
    let mut nvlink = true;
    for host in hosts {
        for (i, &rank) in host.ranks.iter().enumerate() {
            let (from, to) = (
                gpus[rank as usize],
                gpus[host.ranks[(i + 1) % host.ranks.len()] as usize],
            );
            if from == to {
                continue;
            }
            let hops = match router.peer(from, to) {
                Ok(route) => route.hops,
                Err(RouteError::NoPeerAccess { .. }) => {
                    let cpu = router.cpu_of(to).unwrap_or(to);
                    let mut hops = router.local(from, cpu)?.hops;
                    hops.extend(router.local(cpu, to)?.hops);
                    hops
                }
                Err(error) => return Err(error.into()),
            };
            nvlink &= hops
                .iter()
                .all(|h| topology.family(h.link) == LinkFamily::Nvlink);
            // A transfer that spreads over links of different width is as fast as all of them.
            let rate = hops
                .iter()
                .map(|h| {
                    topology.rate(h.link).gb_per_sec() * f64::from(h.share.den)
                        / f64::from(h.share.num)
                })
                .fold(f64::INFINITY, f64::min);
            intra = intra.min(rate);
        }
    }
    let mut inter = f64::INFINITY;
    for host in hosts.iter().filter(|_| hosts.len() > 1) {
        for (&rank, nic) in host.ranks.iter().zip(&host.nics) {
            let Some(nic) = *nic else { continue };
            let local = router.local(gpus[rank as usize], nic)?.hops;
            let ports = topology.links_from(nic).into_iter().map(|(l, _)| l);
            let cables = ports.filter(|&l| topology.family(l) == LinkFamily::Network);
            let rates = local
                .iter()
                .map(|h| h.link)
                .chain(cables)
                .map(|l| topology.rate(l).gb_per_sec());
            inter = rates.fold(inter, f64::min);
        }
    }
    // One GPU per host: nothing happens inside.
    let intra = if intra.is_finite() { intra } else { inter };
    Ok(Reach {
        intra,
        inter,
        nvlink,
        compute_capability,
    })
}

/// No CPU between any rank and its interface, except one joined by C2C.
fn near_nics(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    hosts: &[super::rings::Host],
) -> bool {
    hosts
        .iter()
        .flat_map(|h| h.ranks.iter().zip(&h.nics))
        .all(|(&rank, nic)| {
            let Some(nic) = *nic else { return true };
            router.local(gpus[rank as usize], nic).is_ok_and(|route| {
                let links = || route.hops.iter().map(|h| h.link);
                let coherent = links().any(|l| topology.family(l) == LinkFamily::C2c);
                coherent || !links().any(|l| is(topology, topology.ends(l).1, DeviceKind::Cpu))
            })
        })
}
