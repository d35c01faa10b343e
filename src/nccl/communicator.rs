//! A communicator: ranks on a machine, and all that NCCL sets up once for them.

use super::MOST_CHANNELS;
use super::algorithm::Algorithm;
use super::env::Env;
use super::error::NcclError;
use super::graphs::Graphs;
use super::hosts::{Host, believed_rate, cables_rate, hosts, originals, reach, worst_nic_path};
use super::mesh;
use super::registration;
use super::rings::{RingGraph, forced_rings, search};
use super::sharp;
use super::sockets::Sockets;
use super::transport::{Way, Ways};
use super::tuner::Setup;
use fabricsim_budget::{Budget, Memory, Part as Counting, Purpose, Stop, Work};
use fabricsim_collective::{Collective, Tree};
use fabricsim_plan::{Plan, ProtocolKind, Routes};
use fabricsim_topology::hardware::CpuVendor;
use fabricsim_topology::{
    Architecture, DeviceId, DeviceKind, DeviceModel, NodeId, PathType, Router, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ranks on a machine, and all that NCCL sets up once for them.
pub struct Communicator<'t> {
    pub(super) topology: &'t Topology,
    env: Env,
    pub(super) gpus: Vec<DeviceId>,
    nodes: u32,
    gpus_per_node: u32,
    pub(super) hosts: Vec<Host>,
    /// Which host each rank is of, and its place there.
    pub(super) place_of: Vec<(u32, u32)>,
    setup: Setup,
    pub(super) graph: RingGraph,
    pub(super) ways: Ways<'t>,
    /// Ways of the rings' connections so far: `[channel][rank]`.
    pub(super) ring_ways: Vec<Arc<[Way]>>,
    /// Trees so far, by channel.
    pub(super) trees: Vec<Arc<Tree>>,
    /// Generations of the GPU models in use, and which of these each rank has.
    pub(super) architectures: Vec<&'t Architecture>,
    pub(super) rank_models: Vec<u16>,
    /// What plans are to fit.
    memory: Memory,
    /// What ends their making.
    stop: Stop,
    /// Where it is said how far that is.
    work: Work,
}

/// What the caller insists on; everything else is NCCL's choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Forced {
    /// The algorithm.
    pub algorithm: Option<Algorithm>,
    /// The protocol.
    pub protocol: Option<ProtocolKind>,
}

/// Bytes that a connection takes while it is planned, at least: its place in the program, its way
/// and its transport.
const CONNECTION: u64 = 128;

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
        let gpus = Self::gpus_of(topology, gpus_per_node)?;
        Self::of(topology, gpus, env, Router::new(topology, seed))
    }

    /// The GPUs of [`Communicator::new`], by rank.
    ///
    /// # Errors
    /// A node with fewer GPUs.
    pub fn gpus_of(
        topology: &Topology,
        gpus_per_node: Option<u32>,
    ) -> Result<Vec<DeviceId>, NcclError> {
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
        Ok(gpus)
    }

    /// Ranks on these GPUs, in this order, with a router that may know the topology already.
    ///
    /// # Errors
    /// Hosts that no network joins, GPUs without a way to each other.
    pub fn of(
        topology: &'t Topology,
        gpus: Vec<DeviceId>,
        env: &Env,
        mut router: Router<'t>,
    ) -> Result<Self, NcclError> {
        let sockets = Sockets::of(topology, env);
        let over_sockets = sockets.map(|_| env.over_sockets());
        let env = over_sockets.as_ref().unwrap_or(env);
        let hosts = hosts(topology, &router, &gpus, env);
        let mut place_of = vec![(0, 0); gpus.len()];
        for (index, host) in hosts.iter().enumerate() {
            for (local, &rank) in host.ranks.iter().enumerate() {
                place_of[rank as usize] = (index as u32, local as u32);
            }
        }
        let nodes: BTreeSet<Option<NodeId>> = gpus.iter().map(|&g| topology.node_of(g)).collect();
        let first = gpus.first().map(|&g| topology.node_of(g));
        let in_first = |g: &&DeviceId| Some(topology.node_of(**g)) == first;
        let gpus_per_node = gpus.iter().filter(in_first).count() as u32;
        let (architectures, rank_models) = models(topology, &gpus);
        let capabilities = gpus.iter().filter_map(|&gpu| topology.gpu_model(gpu));
        let compute_capability = capabilities
            .map(|m| m.compute_capability)
            .min()
            .unwrap_or(0);
        let reach = reach(
            topology,
            &router,
            &gpus,
            &hosts,
            (compute_capability, env.version),
        )?;
        let meshes = originals(&hosts).filter(|_| !reach.nvswitch).map(|host| {
            let gpus = host.ranks.iter().map(|&rank| gpus[rank as usize]);
            mesh::capacities(topology, &gpus.collect::<Vec<_>>(), |link| {
                believed_rate(topology, link, compute_capability)
            })
        });
        // Where hosts differ nothing is looked for.
        let mesh = meshes.reduce(|first, next| if first == next { first } else { Vec::new() });
        let mesh = mesh.unwrap_or_default();
        let graph = match &env.graph {
            Some(file) => forced_rings(topology, &gpus, &hosts, file)?,
            None => None,
        };
        let pxn = !env.pxn_disable && reach.nvlink;
        let graph = match graph {
            Some(graph) => graph,
            None => search(&hosts, reach, env.cross_nic, pxn, &mesh)?,
        };
        let cpus = || {
            topology
                .devices()
                .filter_map(|(id, _)| match topology.device_model(id) {
                    DeviceModel::Cpu(model) => Some(model.vendor),
                    _ => None,
                })
        };
        let nvls = multicast(topology, &hosts, compute_capability, reach.nvswitch, env);
        let x86 = !cpus().any(|v| v == CpuVendor::Arm);
        let graphs = Graphs::new(&hosts, reach, &graph, nvls.is_ok(), x86);
        let nvls = nvls.and_then(|()| {
            let heads = graphs.nvls.map_or(0, |g| g.channels);
            if heads < 2 {
                Err("fewer than two heads in a host".to_owned())
            } else {
                Ok(())
            }
        });
        let near = match sockets {
            // All goes through host memory, which is beyond the root complex.
            Some(_) => PathType::Phb,
            None if !env.staged.is_empty() => PathType::Phb,
            None => worst_nic_path(topology, &router, &gpus, &hosts),
        };
        // Before 2.27 paths over C2C were like any through a CPU.
        let far = if compute_capability >= 90 && env.ll128_c2c && !env.version.before(27) {
            PathType::Pxn
        } else {
            PathType::Pxb
        };
        let nics = originals(&hosts).flat_map(|h| h.doors.iter().map(|d| d.nic));
        let reported = nics
            .filter(|_| sockets.is_none())
            .filter_map(|nic| topology.nic_model(nic)?.reported_latency.as_ref());
        let net_latency = reported
            .map(|latency| latency.value.micros())
            .fold(0.0, f64::max);
        let setup = Setup {
            ranks: gpus.len() as u32,
            hosts: hosts.len() as u32,
            most_local: hosts.iter().map(|h| h.ranks.len()).max().unwrap_or(1) as u32,
            compute_capability,
            graphs,
            amd: cpus().any(|v| v == CpuVendor::Amd),
            net_overhead: env.net_overhead,
            net_latency,
            // Before 2.18 tables of A100 and V100 follow Simple where it would have been chosen.
            ll128: compute_capability >= 70
                && !env.version.before(18)
                && graph.nvlink
                && (hosts.len() == 1 || near <= far),
            collnet: sharp::collnet(topology, &mut router, &hosts, env),
            nvls,
            pat: env.pat,
        };
        Ok(Communicator {
            topology,
            env: env.clone(),
            nodes: nodes.len() as u32,
            gpus_per_node,
            gpus,
            hosts,
            place_of,
            setup,
            graph,
            ways: Ways::new(topology, router, env, sockets),
            ring_ways: Vec::new(),
            trees: Vec::new(),
            architectures,
            rank_models,
            memory: Memory::unlimited(),
            stop: Stop::default(),
            work: Work::default(),
        })
    }

    /// What it plans is to fit this memory; it ends when it is told to, and says how far it is.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.memory = budget.memory.clone();
        self.stop = budget.stop.clone();
        self.work = budget.work.clone();
        self
    }

    /// Goes on, unless nobody waits for a plan any more.
    #[inline]
    pub(super) fn go_on(&self) -> Result<(), NcclError> {
        match self.stop.is_now() {
            true => Err(NcclError::Stopped),
            false => Ok(()),
        }
    }

    /// Begins something that is done for each of so many connections.
    pub(super) fn begins(&self, what: &'static str, connections: usize) -> Counting {
        self.work.part(what, connections as u64)
    }

    /// Whether the tables of so many connections, and some bytes more, fit before they are made.
    pub(super) fn expect(&self, connections: u64, more: u64) -> Result<(), NcclError> {
        let bytes = connections.saturating_mul(CONNECTION).saturating_add(more);
        Ok(self.memory.expect(Purpose::Connections, bytes)?)
    }

    /// The routes of all that was planned: those of an earlier plan keep their numbers.
    #[must_use]
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.ways.routes)
    }

    /// The router, with all that it has found: for another communicator.
    #[must_use]
    pub fn into_router(self) -> Router<'t> {
        self.ways.into_router()
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

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(super) fn setup_mut(&mut self) -> &mut Setup {
        &mut self.setup
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
        let bytes = collective.actual_bytes(bytes, self.ranks());
        if self.env.gloo
            && forced == Forced::default()
            && Algorithm::CpuRing.serves(collective)
            && self.hosts.len() > 1
        {
            return self.host_ring(collective, bytes);
        }
        if collective.is_point_to_point() {
            let ordinary = forced
                .algorithm
                .is_none_or(|a| a == Algorithm::PointToPoint);
            if ordinary {
                return self.sends(collective, bytes, None);
            }
        }
        let (algorithm, protocol) = self.choose(collective, bytes, forced)?;
        self.lay(collective, algorithm, protocol, bytes)
    }

    /// Thread blocks of a full-size operation, within what the environment allows.
    pub(super) fn channels(&self) -> u16 {
        let most = self.env.max_channels.unwrap_or(u16::MAX).max(1);
        let least = self.env.min_channels.unwrap_or(1);
        let mut found = u32::from(self.graph.rings.channels());
        let several = self.setup.hosts > 1;
        if self.setup.collnet.is_ok() && several {
            let chain = &self.setup.graphs.collnet_chain;
            if chain.intra > chain.inter && self.setup.ranks > self.setup.hosts {
                found += found / 2;
            }
        }
        let ring = &self.setup.graphs.ring;
        if self.setup.compute_capability >= 90 && several && ring.intra > 45.0 && found < 16 {
            found *= 2;
        }
        (found.min(u32::from(MOST_CHANNELS)) as u16)
            .min(most)
            .max(least)
    }

    /// Thread blocks of NVLS with so many heads a host.
    pub(super) fn nvls_channels(&self, collective: Collective, heads: u32) -> u16 {
        let (capability, hosts) = (self.setup.compute_capability, self.setup.hosts);
        let default = match (capability, hosts) {
            _ if self.env.zero_copy() => {
                let interface = self.interface_rate();
                registration::nvls_channels(collective, capability, hosts, heads, interface)
            }
            (100.., 1) => 24,
            (100.., _) => 32,
            _ => 16,
        };
        let most = self.env.max_channels.unwrap_or(u16::MAX).max(1);
        let least = self.env.min_channels.unwrap_or(1);
        let given = self.env.nvls_channels;
        given.unwrap_or_else(|| default.min(most).max(least))
    }

    /// GB/s of the first rank's interface to other hosts; 0 if there are none.
    fn interface_rate(&self) -> f64 {
        let nic = (self.setup.hosts > 1)
            .then(|| self.own_nic(0).ok())
            .flatten();
        nic.map_or(0.0, |nic| cables_rate(self.topology, nic))
    }

    pub(super) fn no_nic(&self, rank: u32) -> NcclError {
        let node = self.topology.node_of(self.gpus[rank as usize]);
        let name = node.map(|n| self.topology.nodes[n.index()].name.clone());
        NcclError::NoNic {
            node: name.unwrap_or_default(),
        }
    }
}

/// The generations of the GPU models in use, and the model of each rank.
fn models<'t>(topology: &'t Topology, gpus: &[DeviceId]) -> (Vec<&'t Architecture>, Vec<u16>) {
    let mut known: BTreeMap<u16, u16> = BTreeMap::new();
    let mut models = Vec::new();
    let ranks = gpus
        .iter()
        .filter_map(|&gpu| {
            let model = topology.architecture(gpu)?;
            Some(*known.entry(topology.device(gpu).model).or_insert_with(|| {
                models.push(model);
                models.len() as u16 - 1
            }))
        })
        .collect();
    (models, ranks)
}

/// Whether switches sum inside hosts, or why not.
fn multicast(
    topology: &Topology,
    hosts: &[Host],
    compute_capability: u32,
    nvswitch: bool,
    env: &Env,
) -> Result<(), String> {
    if env.nvls == 0 {
        return Err("NCCL_NVLS_ENABLE=0".into());
    }
    if compute_capability < 90 {
        return Err("GPUs before Hopper have no multicast memory".into());
    }
    if hosts.iter().any(|h| h.ranks.len() < 2) {
        return Err("one rank in a host".into());
    }
    if !nvswitch {
        return Err("GPUs are not joined by NVSwitches".into());
    }
    let reduce = topology
        .devices()
        .filter(|(_, d)| d.kind == DeviceKind::NvSwitch)
        .all(
            |(id, _)| matches!(topology.device_model(id), DeviceModel::Nvswitch(m) if m.multicast),
        );
    if reduce {
        Ok(())
    } else {
        Err("the NVSwitches do not reduce".into())
    }
}
