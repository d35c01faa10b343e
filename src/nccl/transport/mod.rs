//! By which way a connection moves its data.
//!
//! In NCCL's order: peer to peer (NVLink, or PCIe below a common switch), host memory
//! (inside a node, where peers cannot reach each other), network. Over the network the
//! interface reads and writes GPU memory itself where it is near enough (GPUDirect RDMA),
//! else the data is staged in host memory.

mod groups;
mod inside;

use super::env::{Binding, Env};
use super::error::NcclError;
use super::hosts::nic_path;
use super::ports::{End, Handshake, Ports};
use super::sockets::{Sockets, farthest_cpu};
use super::turns::Turn;
use fabricsim_plan::{
    Later, MessageCost, NetworkLeg, Protocol, ProtocolKind, RouteId, Routes, Transport,
};
use fabricsim_topology::architecture::HopModel;
use fabricsim_topology::spec::RoutingPolicy;
use fabricsim_topology::{DeviceId, Hop, NodeId, PathType, Router, Share, Topology, sockets};
use fabricsim_units::{Bandwidth, Bytes, Time};
use groups::Groups;
use inside::Inside;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A transport without what depends on the protocol: its routes, and of which kind it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    store: Option<RouteId>,
    load: Option<RouteId>,
    /// Over a network: its route, the GPU whose process's proxy thread sends, and the interface that
    /// it leaves by.
    network: Option<(RouteId, DeviceId, DeviceId)>,
    /// An index into [`Ways::kinds`].
    kind: u32,
}

/// What many ways have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    network: Option<Net>,
    /// Of the wires, from the sender's post to the receiver.
    latency: Time,
    credit_latency: Time,
    /// By PCIe or host memory, inside a host.
    pcie: bool,
}

/// So many slices a transport keeps that delivers late: TCP's windows grow to what a connection has
/// under way, and this is more than it ever has (10.6 MB where 200 Gb/s are delivered 424 us late, a
/// slice of LL has 64 kB on the wire and two connections share an interface).
const KEPT: u32 = 96;

/// Of a way over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Net {
    /// Between a GPU and the proxy that watches its memory.
    post_latency: Time,
    /// What a proxy thread spends on each message.
    message_overhead: Time,
    /// … with no more bytes on the wire so much more, if it lies in GPU memory.
    inline: (u64, Time),
    /// … with more are fetched for so long, wherever they lie.
    fetch: (u64, Time),
    handshake: Handshake,
    /// The fastest that one connection goes.
    rate: Bandwidth,
    /// Of the narrowest link.
    wire: Bandwidth,
    /// Software delivers what has arrived later, and keeps it until then.
    keeps: bool,
}

impl Kind {
    /// Within a GPU's own memory.
    const LOCAL: Kind = Kind {
        network: None,
        latency: Time::ZERO,
        credit_latency: Time::ZERO,
        pcie: false,
    };

    fn inside(latency: Time, pcie: bool) -> Self {
        Kind {
            latency,
            credit_latency: latency,
            pcie,
            ..Kind::LOCAL
        }
    }
}

/// A connection's ends, and the interfaces that it uses if it has to leave the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Leg {
    pub(super) from: DeviceId,
    pub(super) to: DeviceId,
    pub(super) nics: Option<(DeviceId, DeviceId)>,
    /// The GPU into whose memory the sender writes, for the interface to read it there (PXN).
    pub(super) relay: Option<DeviceId>,
    /// Tells connections apart where paths are chosen by hash.
    pub(super) flow: u64,
}

/// Finds ways and remembers their routes.
pub(super) struct Ways<'t> {
    topology: &'t Topology,
    router: Router<'t>,
    /// Plans have them, too.
    pub(super) routes: Arc<Routes>,
    /// Kinds of ways so far.
    kinds: Vec<Kind>,
    number_of: FxHashMap<Kind, u32>,
    inside: Inside,
    pub(super) ports: Ports,
    /// Some network tells connections between the same interfaces apart.
    hashes_flows: bool,
    /// Of switches that sum or copy: up and down.
    groups: Groups,
    rules: Rules,
    /// All that leaves a host goes over these.
    sockets: Option<Sockets>,
    /// Nodes whose interfaces do not reach GPU memory, in order.
    staged: Vec<NodeId>,
}

/// What the environment says of transports.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Farthest path on which peers reach each other's memory; what the hardware allows, if
    /// absent.
    p2p_level: Option<PathType>,
    shared_memory: bool,
    /// NVLink through another GPU of the host.
    through_gpus: bool,
    /// Farthest path on which an interface reads and writes GPU memory.
    gdr_level: PathType,
    /// Where proxy threads run, and with them the memory that they stage in.
    binding: Binding,
    /// … where nothing was said of it.
    usual_gdr_level: PathType,
    /// … reads.
    gdr_read: bool,
    /// Queue pairs of a connection; none counts where another plugin brings its own transport.
    queue_pairs: Option<u32>,
}

impl<'t> Ways<'t> {
    pub(super) fn new(
        topology: &'t Topology,
        router: Router<'t>,
        env: &Env,
        sockets: Option<Sockets>,
    ) -> Self {
        let default = if env.gdr_c2c && !env.version.before(27) {
            PathType::P2c
        } else {
            PathType::Pxb
        };
        Ways {
            topology,
            router,
            routes: Arc::default(),
            kinds: vec![Kind::LOCAL],
            number_of: FxHashMap::from_iter([(Kind::LOCAL, 0)]),
            inside: Inside::default(),
            ports: Ports::default(),
            hashes_flows: topology
                .fabrics
                .iter()
                .any(|f| f.routing == RoutingPolicy::Ecmp),
            groups: Groups::default(),
            rules: Rules {
                p2p_level: env.p2p_level,
                shared_memory: !env.shm_disable,
                through_gpus: !env.nvb_disable,
                gdr_level: env.gdr_level.unwrap_or(default),
                binding: env.threads_at(),
                usual_gdr_level: default,
                gdr_read: env.gdr_read.unwrap_or(true),
                // SHARP's plugin moves sends and receives too, and its rings reach the wire.
                queue_pairs: (!env.collnet).then_some(env.queue_pairs),
            },
            sockets,
            staged: env.staged.clone(),
        }
    }

    /// Whether a device's node has interfaces that do not reach GPU memory, though they could.
    pub(super) fn is_staged(&self, device: DeviceId) -> bool {
        let node = self.topology.node_of(device);
        !self.staged.is_empty() && node.is_some_and(|node| self.staged.binary_search(&node).is_ok())
    }

    pub(super) fn into_router(self) -> Router<'t> {
        self.router
    }

    pub(super) fn topology(&self) -> &'t Topology {
        self.topology
    }

    /// What leaves a host goes over these, if so.
    pub(super) fn sockets(&self) -> Option<Sockets> {
        self.sockets
    }

    /// Queue pairs of a connection, if they count.
    pub(super) fn queue_pairs(&self) -> Option<u32> {
        self.rules.queue_pairs
    }

    /// The router that finds them.
    pub(super) fn router(&self) -> &Router<'t> {
        &self.router
    }

    /// The same, where it is to learn of networks.
    pub(super) fn router_mut(&mut self) -> &mut Router<'t> {
        &mut self.router
    }

    /// Adds a route.
    pub(super) fn remember(&mut self, hops: impl IntoIterator<Item = Hop>, load: Share) -> RouteId {
        Arc::make_mut(&mut self.routes).push(hops, load)
    }

    /// The number of a kind of ways.
    fn kind(&mut self, kind: Kind) -> u32 {
        let kinds = &mut self.kinds;
        *self.number_of.entry(kind).or_insert_with(|| {
            kinds.push(kind);
            kinds.len() as u32 - 1
        })
    }

    /// Which way a transfer takes over the network may depend on its flow.
    pub(super) fn hashes_flows(&self) -> bool {
        self.hashes_flows
    }

    /// The way of a connection.
    pub(super) fn find(&mut self, mut leg: Leg) -> Result<Way, NcclError> {
        if leg.nics.is_none() || !self.hashes_flows {
            leg.flow = 0;
        }
        match leg.nics {
            Some((out, into)) => self.over_network(leg, out, into),
            None => self.inside_host(leg),
        }
    }

    fn over_network(&mut self, leg: Leg, out: DeviceId, into: DeviceId) -> Result<Way, NcclError> {
        // With a relay, the data is in its memory.
        let source = leg.relay.unwrap_or(leg.from);
        let from = self.port(source, out, End::Sends)?;
        let to = self.port(leg.to, into, End::Receives)?;
        let crossing = self.crossing((source, from, out), (leg.to, to, into), leg.flow)?;
        let (sender, receiver) = (self.ports.of(from), self.ports.of(to));
        let interfaces = sender.transit + receiver.transit;
        let kernels = self.sockets.map_or(Time::ZERO, |sockets| sockets.latency);
        let latency = sender.data.latency
            + interfaces
            + crossing.latency
            + receiver.data.latency
            + kernels
            + receiver.request;
        let notice = receiver.notice.latency;
        let (sends_directly, receives_directly) = (sender.direct, receiver.direct);
        let mut net = Net {
            post_latency: sender.notice.latency,
            message_overhead: sender.message_overhead,
            inline: sender.inline,
            fetch: sender.fetch,
            handshake: sender.handshake,
            rate: sender.rate,
            wire: crossing.wire,
            keeps: receiver.delivery > Time::ZERO,
        };
        let delivery = receiver.delivery;
        let store = match leg.relay.filter(|&relay| relay != leg.from) {
            Some(relay) => {
                let (route, latency) = self.way_to_peer(leg.from, relay)?;
                net.post_latency += latency;
                Some(route)
            }
            None if sends_directly => None,
            None => Some(self.way_to_cpu(source, from, End::Sends)),
        };
        let load = (!receives_directly).then(|| self.way_to_cpu(leg.to, to, End::Receives));
        let kind = self.kind(Kind {
            network: Some(net),
            latency: latency + notice + delivery,
            credit_latency: latency + notice,
            pcie: false,
        });
        Ok(Way {
            store,
            load,
            network: Some((crossing.route, source, out)),
            kind,
        })
    }

    /// Interfaces may read GPU memory.
    pub(super) fn reads_directly(&self) -> bool {
        self.rules.gdr_read
    }

    /// Where an interface finds a GPU's data: in the GPU, if it may and is near enough; else
    /// in host memory.
    pub(super) fn to_memory(
        &self,
        gpu: DeviceId,
        nic: DeviceId,
        allowed: bool,
    ) -> Result<(bool, DeviceId), NcclError> {
        let direct = allowed
            && !self.is_staged(gpu)
            && self.topology.gpu_direct(gpu, nic)
            && nic_path(self.topology, &self.router, gpu, nic) <= self.rules.gdr_level;
        Ok(if direct {
            (true, gpu)
        } else {
            (false, self.cpu_of(gpu)?)
        })
    }

    /// Parts in a thousand of a core that a proxy thread has.
    pub(super) fn core_part(&self) -> u64 {
        match self.rules.binding {
            Binding::OneCore => (sockets().shared_core.value * 1000.0).round() as u64,
            Binding::Near | Binding::Far => 1000,
        }
    }

    /// An interface would reach a GPU's memory, and may not: by a variable, or for want of a driver.
    /// Machines that never do so have what it costs in their interfaces' figures.
    pub(super) fn is_held_back(&self, gpu: DeviceId, nic: DeviceId) -> bool {
        let near = || nic_path(self.topology, &self.router, gpu, nic) <= self.rules.usual_gdr_level;
        self.sockets.is_none() && self.topology.gpu_direct(gpu, nic) && near()
    }

    pub(super) fn cpu_of(&self, gpu: DeviceId) -> Result<DeviceId, NcclError> {
        // A machine without CPUs has its proxies beside the GPU.
        let near = self.router.cpu_of(gpu).unwrap_or(gpu);
        Ok(match self.rules.binding {
            Binding::Far => farthest_cpu(self.topology, near).unwrap_or(near),
            Binding::Near | Binding::OneCore => near,
        })
    }
}

impl Way {
    /// Within a GPU's own memory.
    pub(super) const LOCAL: Way = Way {
        store: None,
        load: None,
        network: None,
        kind: 0,
    };

    /// The same without any bytes: another connection of its group carries them.
    pub(super) fn carried(self) -> Self {
        Way {
            store: None,
            load: None,
            ..self
        }
    }

    /// The same bytes, which the receiver loads in place of the sender storing them.
    pub(super) fn loaded(self) -> Self {
        Way {
            store: None,
            load: self.store.or(self.load),
            ..self
        }
    }

    /// Between hosts.
    pub(super) fn is_network(&self) -> bool {
        self.network.is_some()
    }

    /// The sender stores into the receiver's memory.
    pub(super) fn is_direct(&self) -> bool {
        self.network.is_none() && self.load.is_none() && self.store.is_some()
    }

    /// Interfaces read the sender's memory and write the receiver's, without a relay.
    pub(super) fn is_rdma(&self) -> bool {
        self.network.is_some() && self.load.is_none() && self.store.is_none()
    }

    /// Ways of one kind differ in their routes only.
    pub(super) fn kind(&self) -> u32 {
        self.kind
    }

    /// Its routes: stored over, loaded over, of the network.
    pub(super) fn routes(&self) -> [Option<RouteId>; 3] {
        [self.store, self.load, self.network.map(|(route, ..)| route)]
    }

    /// The GPU whose process's proxy thread sends over a network.
    pub(super) fn thread(&self) -> Option<DeviceId> {
        self.network.map(|(_, thread, _)| thread)
    }

    /// The interface by which it leaves a host.
    pub(super) fn leaves_by(&self) -> Option<DeviceId> {
        self.network.map(|(.., nic)| nic)
    }
}

impl Ways<'_> {
    /// The threads of both ends are busy with what moves: with the handshakes of large messages, or
    /// with copies.
    pub(super) fn keeps_busy(&self, way: &Way) -> bool {
        let network = self.kinds[way.kind as usize].network;
        network.is_some_and(|n| n.handshake.work > Time::ZERO || self.sockets.is_some())
    }

    /// A way with a protocol's `hop`: what noticing a slice costs beyond the wires. So many `slices`
    /// are one message, and lie in one slot of a buffer; a full one has `message` bytes of payload. The
    /// proxy thread that sends moves a number of connections on at once.
    pub(super) fn transport(
        &self,
        way: &Way,
        hop: &HopModel,
        (protocol, slices): (&Protocol, u32),
        message: u64,
        turn: Turn,
    ) -> Transport {
        let wire = protocol.wire;
        let kind = &self.kinds[way.kind as usize];
        let hop = if kind.pcie { &hop.pcie } else { &hop.nvlink }.value;
        let payload = |bytes: u64| Bytes::new(bytes * u64::from(wire.1) / u64::from(wire.0));
        // How fast messages of a thread's other connections leave together.
        let together = |wire: Bandwidth| {
            let all = wire.bytes_per_sec() * u64::from(turn.nics);
            let others = u64::from(turn.together - 1).max(1);
            Bandwidth::from_bytes_per_sec(payload(all / others).get())
        };
        let network = |((route, ..), n): ((RouteId, DeviceId, DeviceId), Net)| {
            let (handshake, above) = (n.handshake, payload(n.handshake.above(protocol.kind)));
            let of_slice = |time: Time| Time::from_picos(time.picos() / u64::from(slices));
            let each = of_slice(n.message_overhead);
            NetworkLeg {
                message: MessageCost {
                    each,
                    together: of_slice(n.message_overhead * (turn.together - 1)),
                    others: of_slice(n.message_overhead * (turn.works - 1)),
                    wire: together(n.wire),
                    // What LL sends lies in host memory.
                    inline: if protocol.kind != ProtocolKind::Ll {
                        let messages = [turn.waits + turn.together, turn.works];
                        (payload(n.inline.0), messages.map(|m| n.inline.1 * m))
                    } else {
                        (Bytes::ZERO, [Time::ZERO; 2])
                    },
                    large: (above, handshake.work * turn.handles),
                },
                route,
                // A message's first slice leaves no sooner for that.
                post_latency: n.post_latency
                    + hop
                    + n.message_overhead * (turn.waits + turn.readies)
                    + (n.message_overhead - each),
                later: Later([(payload(n.fetch.0), n.fetch.1), (above, handshake.time)]),
                rate: n.rate,
                ahead: if n.keeps {
                    KEPT
                } else {
                    protocol.fifo_slices * (slices - 1)
                },
            }
        };
        let network = |given: ((RouteId, DeviceId, DeviceId), Net)| {
            let leg = network(given);
            let Some(sockets) = self.sockets else {
                return leg;
            };
            let on_wire = message * u64::from(wire.0) / u64::from(wire.1);
            NetworkLeg {
                later: Later([
                    (payload(sockets.inline.get()), sockets.handed_over()),
                    (Bytes::ZERO, Time::ZERO),
                ]),
                rate: sockets.rate(
                    turn.served,
                    (protocol.slices_per_chunk, on_wire),
                    kind.latency + kind.credit_latency,
                ),
                ahead: sockets.ahead(on_wire).min(KEPT),
                ..leg
            }
        };
        Transport {
            store: way.store,
            load: way.load,
            network: way.network.zip(kind.network).map(network),
            latency: kind.latency + hop,
            credit_latency: kind.credit_latency,
        }
    }
}
