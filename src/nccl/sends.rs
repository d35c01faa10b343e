//! Grouped sends and receives: all-to-all and its kin, as NCCL schedules them.

use super::algorithm::Algorithm;
use super::chunks::slot;
use super::communicator::{Communicator, Planned};
use super::costs::lane_costs;
use super::error::NcclError;
use super::hosts::{believed_path, believed_rate, by_nvlink, cables_rate, nic_path, usable_nics};
use super::p2p::{self, BaseChunks, ChannelInputs, Channels, PartInputs, PeerPath, Schedule};
use super::registration::LONGEST_MESSAGE;
use super::transport::{Leg, Way};
use fabricsim_collective::{
    Collective, ConnId, Cut, Lanes, Matrix, P2pProgram, Program, Rank, Role, Rounds,
};
use fabricsim_plan::{ProtocolKind, RoleCosts};
use fabricsim_topology::hardware::CpuVendor;
use fabricsim_topology::{DeviceId, PathType};
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes that a rank's place in a round takes while sends are planned.
const ROUND: u64 = 16;

impl Communicator<'_> {
    /// Plans an all-to-all of unequal messages.
    ///
    /// # Errors
    /// A matrix of another number of ranks; connections without a way.
    pub fn plan_all_to_all_v(&mut self, matrix: Matrix) -> Result<Planned, NcclError> {
        if matrix.ranks() != self.ranks() {
            return Err(NcclError::NothingLeft {
                collective: Collective::AllToAllV.name(),
                reason: format!(
                    "the matrix is of {} ranks, the communicator of {}",
                    matrix.ranks(),
                    self.ranks()
                ),
            });
        }
        let bytes = matrix.size();
        self.sends(Collective::AllToAllV, bytes, Some(matrix))
    }

    /// Plans sends and receives; an all-to-all-v without a matrix is an even one.
    pub(super) fn sends(
        &mut self,
        collective: Collective,
        bytes: u64,
        matrix: Option<Matrix>,
    ) -> Result<Planned, NcclError> {
        let n = self.ranks();
        let hosts = self.hosts.len() as u32;
        self.expect_sends(collective, matrix.as_ref())?;
        let matrix = (collective == Collective::AllToAllV)
            .then(|| matrix.unwrap_or_else(|| Matrix::even(n, bytes / u64::from(n))));
        let sizes: Vec<u32> = self.hosts.iter().map(|h| h.ranks.len() as u32).collect();
        let schedule = Schedule::new(&sizes, self.env().p2p_group);
        let rounds =
            Rounds::new(n, schedule.receivers()).map_err(|error| NcclError::NothingLeft {
                collective: collective.name(),
                reason: error.to_string(),
            })?;
        let channels = self.p2p_channels();
        let inputs = self.part_inputs(channels);
        // One protocol for the whole plan: that of the largest message to another rank. What
        // a rank keeps for itself is a copy, and has none.
        let largest = match (&matrix, collective) {
            (Some(m), _) => {
                let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (Rank(a), Rank(b))));
                let others = pairs.filter(|(a, b)| a != b || n == 1);
                others.map(|(a, b)| m.bytes(a, b)).max().unwrap_or(0)
            }
            (None, c) if c.is_single_message() => bytes,
            _ => bytes / u64::from(n),
        };
        let (parts, _) = p2p::parts(&inputs, largest.max(1));
        let ll = hosts == 1 || self.env().p2p_net_ll;
        let threshold = self.env().p2p_ll_threshold.get();
        let kind = p2p::protocol(largest, parts, ll, threshold);
        let lanes = Lanes {
            channels: channels.all,
            lanes: p2p::OPERATIONS_PER_BATCH,
            first: (0..schedule.len())
                .map(|round| schedule.first_channel(round, channels.all))
                .collect(),
        };
        let host_of: Vec<u32> = self.place_of.iter().map(|place| place.0).collect();
        let built = |longest: Option<u64>| {
            let cut = |from: Rank, to: Rank, bytes: u64| -> Cut {
                let network = host_of[from.index()] != host_of[to.index()];
                let cut = p2p::cut(&inputs, bytes, kind, network);
                match longest.filter(|_| network) {
                    Some(chunk) => Cut { chunk, ..cut },
                    None => cut,
                }
            };
            match &matrix {
                Some(matrix) => P2pProgram::all_to_all_v(matrix.clone(), &rounds, &lanes, cut),
                None => P2pProgram::new(collective, bytes, &rounds, &lanes, cut),
            }
        };
        let mut program = built(None);
        let ways = self.send_ways(&program)?;
        let costs = self.send_costs(kind, program.lanes(), lanes.channels);
        let (costs, zero_copy) = self.sends_without_copies(kind, &ways, costs);
        if zero_copy {
            // Interfaces read users' buffers in one go; connections stay the same.
            program = built(Some(LONGEST_MESSAGE));
        }
        let choice = (Algorithm::PointToPoint, kind);
        let mut planned = self.planned(
            Arc::new(program),
            &ways,
            choice,
            costs,
            (lanes.channels, lanes.channels),
        )?;
        planned.plan.merged = Arc::new(self.merged(&ways));
        Ok(planned)
    }

    /// Whether so many messages, and the rounds in which all ranks meet, fit into memory.
    fn expect_sends(
        &self,
        collective: Collective,
        matrix: Option<&Matrix>,
    ) -> Result<(), NcclError> {
        let n = u64::from(self.ranks());
        let messages = match (collective, matrix) {
            (_, Some(matrix)) => matrix.messages(),
            (Collective::AllToAll | Collective::AllToAllV, None) => n * n,
            _ => n,
        };
        self.expect(messages, n * n * ROUND)
    }

    /// How much of a message its receiver's buffers take before it receives: all slots of the channels that the
    /// message is cut for.
    #[must_use]
    pub fn ahead(&self, message: Bytes) -> Bytes {
        let inputs = self.part_inputs(self.p2p_channels());
        let (parts, _) = p2p::parts(&inputs, message.get().max(1));
        Bytes::new(u64::from(parts) * self.env().buffer.get())
    }

    /// Thread blocks of sends and receives.
    pub(super) fn p2p_channels(&self) -> Channels {
        let env = self.env();
        let setup = self.setup();
        let mut paths = Vec::new();
        let router = self.ways.router();
        if let Some(host) = self.hosts.iter().find(|h| h.ranks.len() > 1) {
            let (a, b) = (
                self.gpus[host.ranks[0] as usize],
                self.gpus[host.ranks[1] as usize],
            );
            let links = router.peer(a, b).map(|r| r.hops).unwrap_or_default();
            let capability = setup.compute_capability;
            let nvlink = !links.is_empty() && by_nvlink(self.topology, &links);
            paths.push(if nvlink && env.p2p_level != Some(PathType::Loc) {
                let first = links[0].link;
                let lanes = f64::from(self.topology.link(first).lanes.max(1));
                PeerPath::Nvlink {
                    path: believed_path(self.topology, &links, capability),
                    link: believed_rate(self.topology, first, capability) / lanes,
                }
            } else {
                PeerPath::Host
            });
        }
        if self.hosts.len() > 1 {
            let host = &self.hosts[0];
            let gpu = self.gpus[host.ranks[0] as usize];
            let near = usable_nics(self.topology, router, gpu, env);
            let best = near.first().map(|c| c.0);
            let nics = near.iter().filter(|c| Some(c.0) == best).count();
            let sharing = host.ranks.len().max(1);
            let distinct = host.doors.len().max(1);
            let rate = |&(_, nic): &(PathType, DeviceId)| cables_rate(self.topology, nic);
            let rate = near.first().map_or(0.0, rate);
            paths.push(PeerPath::Network {
                interfaces: nics.min(distinct.div_ceil(sharing)).max(1) as u32,
                rate,
            });
        }
        p2p::channels(&ChannelInputs {
            collective_channels: u32::from(self.channels()),
            limits: (
                u32::from(env.min_p2p_channels),
                u32::from(env.max_p2p_channels),
            ),
            ranks: self.ranks(),
            nodes: self.hosts.len() as u32,
            paths: &paths,
            per_network_peer: env.channels_per_net_peer.map(u32::from),
            channel_rate: f64::from(env.p2p_channel_net_rate),
            version: (u32::from(env.version.major), u32::from(env.version.minor)),
        })
    }

    /// GPUs of a host send to each other by NVLink.
    fn sends_by_nvlink(&self) -> bool {
        self.setup().graphs.ring.nvlink && self.env().p2p_level != Some(PathType::Loc)
    }

    fn part_inputs(&self, channels: Channels) -> PartInputs {
        let env = self.env();
        let setup = self.setup();
        let cpu = if setup.graphs.x86 {
            CpuVendor::Intel
        } else {
            CpuVendor::Arm
        };
        let chunks = BaseChunks {
            nvlink: env.p2p_nvl_chunk.get(),
            pcie: env.p2p_pci_chunk.get(),
            network: env.p2p_net_chunk.get(),
        };
        let nodes = self.hosts.len() as u32;
        let nvlink = self.sends_by_nvlink();
        PartInputs {
            channels,
            ranks: self.ranks(),
            nodes,
            base_chunk: chunks
                .of(nvlink, nodes, cpu, setup.compute_capability)
                .min(slot(ProtocolKind::Simple, env)),
            forced_chunk: env.p2p_chunk.map(fabricsim_units::Bytes::get),
            ll_slot: slot(ProtocolKind::Ll, env),
        }
    }

    /// Lanes divide a thread block's warps.
    fn send_costs(&self, kind: ProtocolKind, lanes: u16, channels: u16) -> Vec<RoleCosts> {
        let all = self.costs(Algorithm::PointToPoint, kind, channels, 0);
        all.into_iter()
            .zip(&self.architectures)
            .map(|(costs, model)| {
                let plain = self.hosts.len() == 1 && !self.sends_by_nvlink();
                let lane = lane_costs(model, kind, (lanes, plain));
                let costs = costs.with(Role::Send, lane).with(Role::Receive, lane);
                match (kind, &model.point_to_point) {
                    (ProtocolKind::Simple, Some(sends)) => {
                        let crosses = self.hosts.len() > 1;
                        let network = sends.network_start.as_ref().filter(|_| crosses);
                        let more = network.map_or(Time::ZERO, |start| start.value);
                        costs.launching(sends.launch.value + more)
                    }
                    _ => costs,
                }
            })
            .collect()
    }

    /// Over the network, the sender takes the interface of the receiver's rail, through the
    /// GPU of its own host that is near to it (`NCCL_P2P_PXN_LEVEL` 2).
    fn send_ways(&mut self, program: &P2pProgram) -> Result<Vec<Way>, NcclError> {
        // Many connections ask the same: it depends on the sender, the receiver's place, and which of
        // the interfaces there.
        type Mate = Option<(DeviceId, DeviceId)>;
        let mut mates: FxHashMap<(u32, u32, usize), Mate> = FxHashMap::default();
        let laid = self.begins("connections laid", program.connections() as usize);
        (0..program.connections())
            .map(|c| {
                laid.add(1);
                self.go_on()?;
                let ends = program.connection(ConnId(c));
                let (from, to) = (program.worker(ends.from), program.worker(ends.to));
                let (a, b) = (from.rank.0, to.rank.0);
                if self.same_host(a, b) {
                    return self.way(a, b, None, 0);
                }
                let channel = usize::from(from.channel);
                let there = self.place_of[b as usize].1;
                let host = &self.hosts[self.place_of[a as usize].0 as usize];
                let which = channel % host.own_nics(there as usize).max(1);
                let mate = *mates
                    .entry((a, there, which))
                    .or_insert_with(|| self.rail_mate(a, there, which));
                let (out, relay) = match mate {
                    Some((nic, relay)) => (nic, Some(relay)),
                    None => (self.nic_of(a, channel)?, None),
                };
                self.ways.find(Leg {
                    from: self.gpus[a as usize],
                    to: self.gpus[b as usize],
                    nics: Some((out, self.nic_of(b, channel)?)),
                    relay,
                    flow: u64::from(from.channel),
                })
            })
            .collect()
    }

    /// The GPU of the sender's host at the place `there`, and its interface, if the sender
    /// reaches that GPU by NVLink.
    fn rail_mate(&self, from: u32, there: u32, channel: usize) -> Option<(DeviceId, DeviceId)> {
        let env = self.env();
        if env.pxn_disable || env.p2p_pxn < 2 {
            return None;
        }
        let (host, local) = self.place_of[from as usize];
        let host = &self.hosts[host as usize];
        let mate = *host.ranks.get(there as usize)?;
        let nic = host.nic_of(there as usize, channel)?;
        if there == local || host.nic_of(local as usize, channel) == Some(nic) {
            return None;
        }
        let (gpu, relay) = (self.gpus[from as usize], self.gpus[mate as usize]);
        let near = nic_path(self.topology, self.ways.router(), relay, nic) <= PathType::P2c;
        (self.joined(gpu, relay) && near).then_some((nic, relay))
    }
}
