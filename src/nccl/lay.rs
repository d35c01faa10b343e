//! Laying a chosen algorithm onto the machine: its program, and a transport for each of the
//! program's connections.

use super::algorithm::Algorithm;
use super::chunks::{Sizing, protocol, slot};
use super::communicator::{Communicator, Planned};
use super::costs::{Setting, UNLIMITED, hop, role_costs};
use super::error::NcclError;
use super::hosts::{by_nvlink, nic_path};
use super::transport::{Leg, Way};
use super::turns::{Turn, Turns};
use fabricsim_collective::{Collective, ConnId, MscclAlgorithm, Part, Program, Rank, WorkerId};
use fabricsim_plan::{Plan, Protocol, ProtocolKind, RoleCosts, Transports};
use fabricsim_topology::{DeviceId, DeviceModel, PathType};
use fabricsim_units::Bandwidth;
use rustc_hash::FxHashMap;
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
        self.go_on()?;
        if algorithm == Algorithm::CpuRing {
            return self.host_ring(collective, bytes);
        }
        if algorithm.is_symmetric() {
            return self.symmetric(collective, algorithm, bytes);
        }
        let heads = self.heads(algorithm);
        let heads_of_host = heads.first().map_or(1, Vec::len) as u32;
        let sizing = Sizing {
            collective,
            algorithm,
            kind,
            env: self.env(),
            setup: self.setup(),
            channels: self.channels(),
            nvls_channels: self.nvls_channels(collective, heads_of_host),
            heads: heads_of_host,
        };
        let parts = sizing.parts(bytes);
        let channels = parts.len() as u16;
        let started = sizing.started(bytes, channels);
        let (program, ways): (Arc<dyn Program>, Vec<Way>) = match algorithm {
            Algorithm::Ring => self.ring(collective, bytes, parts)?,
            Algorithm::Tree => self.tree(bytes, parts)?,
            Algorithm::CollnetChain => self.chain(bytes, parts)?,
            Algorithm::Nvls | Algorithm::NvlsTree | Algorithm::CollnetDirect => {
                self.with_heads(collective, algorithm, bytes, &heads, parts)?
            }
            _ => self.messages(collective, algorithm, bytes, parts)?,
        };
        let hops = self.hops(collective, algorithm);
        let costs = self.costs(algorithm, kind, channels, hops);
        let costs = self.without_copies(collective, algorithm, kind, &ways, costs);
        let choice = (algorithm, kind);
        self.planned(program, &ways, choice, costs, (started, channels))
    }

    /// A program with a way for each of its connections, as a plan. Of the channels that are
    /// `started` only those `used` have data.
    pub(super) fn planned(
        &self,
        program: Arc<dyn Program>,
        ways: &[Way],
        (algorithm, kind): (Algorithm, ProtocolKind),
        mut costs: Vec<RoleCosts>,
        (started, used): (u16, u16),
    ) -> Result<Planned, NcclError> {
        let bytes = program.bytes();
        let protocol = protocol(algorithm, program.collective(), kind, self.env());
        let transports = self.transports(program.as_ref(), ways, algorithm, protocol)?;
        if algorithm == Algorithm::Ring {
            let apart = self.apart(program.as_ref(), &transports, protocol, used);
            costs.iter_mut().for_each(|costs| costs.apart = apart);
        }
        let plan = Plan {
            transports,
            gpus: self.gpus.clone(),
            protocol,
            issue: self.issue(started),
            routes: Arc::clone(&self.ways.routes),
            merged: Arc::default(),
            costs,
            rank_costs: self.rank_models.clone(),
            program,
        };
        Ok(Planned {
            plan,
            algorithm,
            protocol: kind,
            channels: started,
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
        let ways = self.ways_of(&program, |comm, a, b, _| comm.own_nics(a, b))?;
        let channels = algorithm.channels;
        let costs = self.costs(Algorithm::Msccl, kind, channels, 0);
        let choice = (Algorithm::Msccl, kind);
        self.planned(
            Arc::new(program),
            &ways,
            choice,
            costs,
            (channels, channels),
        )
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
        if algorithm == Algorithm::Direct {
            let pairs = u64::from(ranks) * u64::from(ranks);
            self.expect(pairs * parts.len() as u64, 0)?;
        }
        let message = algorithm
            .message(local)
            .ok_or_else(|| refused(format!("{algorithm} is no algorithm of messages")))?;
        let program = message
            .program(collective, bytes, ranks, parts)
            .map_err(|error| refused(error.to_string()))?;
        let ways = self.ways_of(&program, |comm, a, b, _| comm.own_nics(a, b))?;
        Ok((Arc::new(program), ways))
    }

    /// The ways of a program whose connections each go from one rank to another one; `nics`
    /// says by which interfaces two ranks of different hosts meet on a channel.
    pub(super) fn ways_of(
        &mut self,
        program: &dyn Program,
        nics: impl Fn(&Self, u32, u32, u32) -> Result<(DeviceId, DeviceId), NcclError>,
    ) -> Result<Vec<Way>, NcclError> {
        let laid = self.begins("connections laid", program.connections() as usize);
        (0..program.connections())
            .map(|c| {
                laid.add(1);
                let ends = program.connection(ConnId(c));
                let (from, to) = (program.worker(ends.from), program.worker(ends.to));
                let (a, b, channel) = (from.rank.0, to.rank.0, u32::from(from.channel));
                let nics = if self.same_host(a, b) {
                    None
                } else {
                    Some(nics(self, a, b, channel)?)
                };
                self.way(a, b, nics, u64::from(channel))
            })
            .collect()
    }

    pub(super) fn same_host(&self, a: u32, b: u32) -> bool {
        self.place_of[a as usize].0 == self.place_of[b as usize].0
    }

    /// The interfaces that two ranks prefer.
    pub(super) fn own_nics(&self, from: u32, to: u32) -> Result<(DeviceId, DeviceId), NcclError> {
        Ok((self.own_nic(from)?, self.own_nic(to)?))
    }

    /// The interface that a rank prefers.
    pub(super) fn own_nic(&self, rank: u32) -> Result<DeviceId, NcclError> {
        self.nic_of(rank, 0)
    }

    /// The interface by which a rank sends and receives on a channel.
    pub(super) fn nic_of(&self, rank: u32, channel: usize) -> Result<DeviceId, NcclError> {
        let (host, local) = self.place_of[rank as usize];
        let nic = self.hosts[host as usize].nic_of(local as usize, channel);
        nic.ok_or_else(|| self.no_nic(rank))
    }

    /// How many ranks one after the other wait for each other on a channel, where that is a chain.
    fn hops(&self, collective: Collective, algorithm: Algorithm) -> u32 {
        let chain = match algorithm {
            Algorithm::Ring => self.ranks() - 1,
            Algorithm::Tree => self.gpus_per_node() - 1 + (self.hosts.len() as u32).ilog2(),
            _ => 0,
        };
        match collective {
            Collective::AllReduce => 2 * chain,
            _ => chain,
        }
    }

    /// The costs on each kind of GPU in use; `hops` ranks of a channel wait for each other.
    pub(super) fn costs(
        &self,
        algorithm: Algorithm,
        kind: ProtocolKind,
        channels: u16,
        hops: u32,
    ) -> Vec<RoleCosts> {
        // Streams of sums at each interface: every channel of a head, or those that enter there.
        let doors = self.hosts.iter().map(|h| h.doors.len()).min();
        let streams = match algorithm {
            Algorithm::CollnetChain => channels.div_ceil(doors.unwrap_or(1).max(1) as u16),
            _ => channels,
        };
        let reduced = self.reduction_rate().bytes_per_sec() / u64::from(streams.max(1));
        let setting = Setting {
            algorithm,
            kind,
            switch_rate: Bandwidth::from_bytes_per_sec(reduced.max(1)),
            members: self.waited_for(algorithm),
            channels,
            hops,
            one_domain: self.one_domain(),
        };
        let models = self.architectures.iter();
        models.map(|model| role_costs(model, setting)).collect()
    }

    /// What the network's switches keep up with, for each interface.
    fn reduction_rate(&self) -> Bandwidth {
        let topology = self.topology;
        let switches = topology.fabrics.iter().flat_map(|f| &f.switches);
        let rates = switches.filter_map(|&s| match topology.device_model(s) {
            DeviceModel::Switch(model) => Some(model.reduction.as_ref()?.value),
            _ => None,
        });
        rates.min().unwrap_or(UNLIMITED)
    }

    fn transports(
        &self,
        program: &dyn Program,
        ways: &[Way],
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Result<Transports, NcclError> {
        let models = self.architectures.iter();
        let hops: Vec<_> = models.map(|m| hop(m, protocol.kind)).collect();
        let receiver = |way: &Way, rank: Rank| {
            let counts = algorithm == Algorithm::PointToPoint || self.ways.keeps_busy(way);
            counts.then(|| self.gpus[rank.index()])
        };
        let host = |rank: Rank| self.place_of[rank.index()].0;
        let turns = Turns::new(program, ways, algorithm, host, receiver);
        let slices = slices_of_message(program, &protocol);
        let message = self
            .ways
            .sockets()
            .map_or(0, |_| largest_message(program, &protocol, slices));
        let mut transports = Transports::with_capacity(ways.len());
        let mut known: FxHashMap<(u32, u16, Turn), u32> = FxHashMap::default();
        let given = self.begins("connections given a transport", ways.len());
        for (way, conn) in ways.iter().zip(0..) {
            self.go_on()?;
            given.add(1);
            let ends = program.connection(ConnId(conn));
            let from = program.worker(ends.from);
            let model = self.rank_models[from.rank.index()];
            let turn = if way.is_network() {
                let to = program.worker(ends.to);
                let receiver = receiver(way, to.rank);
                turns.of((way, ends.from), (&from, &to), host(from.rank), receiver)
            } else {
                Turn::ALONE
            };
            let kind = *known.entry((way.kind(), model, turn)).or_insert_with(|| {
                let hop = hops[usize::from(model)];
                transports.kind(
                    self.ways
                        .transport(way, hop, (&protocol, slices), message, turn),
                )
            });
            transports.push_of(kind, way.routes());
        }
        Ok(transports)
    }

    /// The way between two ranks; `nics` where they are on different hosts.
    pub(super) fn way(
        &mut self,
        from: u32,
        to: u32,
        nics: Option<(DeviceId, DeviceId)>,
        flow: u64,
    ) -> Result<Way, NcclError> {
        self.go_on()?;
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
        let kind = |gpu| nic_path(self.topology, router, gpu, nic);
        if kind(gpu) <= PathType::P2c {
            return None;
        }
        let owner = host.nics.iter().position(|&n| n == Some(nic))?;
        let relay = self.gpus[host.ranks[owner] as usize];
        (self.joined(gpu, relay) && kind(relay) <= PathType::P2c).then_some(relay)
    }

    /// NVLink leads from one GPU to another one.
    pub(super) fn joined(&self, from: DeviceId, to: DeviceId) -> bool {
        let route = self.ways.router().peer(from, to);
        route.is_ok_and(|route| by_nvlink(self.topology, &route.hops))
    }

    /// The interfaces by which two ranks of different hosts meet on a channel: of the GPUs
    /// where the channel begins.
    pub(super) fn channel_nics(
        &self,
        from: u32,
        to: u32,
        channel: u32,
    ) -> Result<(DeviceId, DeviceId), NcclError> {
        let nic = |rank: u32| {
            let host = self.place_of[rank as usize].0;
            let door = self.hosts[host as usize].door(channel);
            door.map(|d| d.nic).ok_or_else(|| self.no_nic(rank))
        };
        Ok((nic(from)?, nic(to)?))
    }
}

/// Bytes of payload in a full message.
fn largest_message(program: &dyn Program, protocol: &Protocol, slices: u32) -> u64 {
    let all = (0..program.workers()).map(WorkerId);
    // What ranks do is mostly alike: the first ones stand for all.
    let first = all
        .filter(|&worker| program.steps(worker) > 0)
        .take(LOOKED_AT);
    let chunk = first
        .map(|worker| program.step(worker, 0).len)
        .max()
        .unwrap_or(0);
    protocol.slice_len(chunk) * u64::from(slices)
}

/// Workers whose first step is looked at.
const LOOKED_AT: usize = 256;

/// Slices that are one message: with LL128 a slot holds a chunk, of which slices are what its warps
/// move while others are on their way.
fn slices_of_message(program: &dyn Program, protocol: &Protocol) -> u32 {
    if protocol.kind != ProtocolKind::Ll128 {
        return 1;
    }
    // Chunks of all ranks are the same.
    let of_rank = 0..program.workers() / program.ranks().max(1);
    let chunk = of_rank
        .map(WorkerId)
        .filter(|&worker| program.steps(worker) > 0)
        .map(|worker| program.step(worker, 0).len)
        .max();
    let slices = chunk.map_or(1, |chunk| chunk.div_ceil(protocol.slice_len(chunk)));
    slices.max(1) as u32
}
