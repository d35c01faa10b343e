//! By which way a connection moves its data.
//!
//! In NCCL's order: peer to peer (NVLink, or PCIe below a common switch), host memory
//! (inside a node, where peers cannot reach each other), network. Over the network the
//! interface reads and writes GPU memory itself where it is near enough (GPUDirect RDMA),
//! else the data is staged in host memory.

mod groups;

use super::env::Env;
use super::error::NcclError;
use super::hosts::{by_nvlink, nic_path};
use super::ports::{End, Ports};
use super::turns::Turn;
use crate::plan::{MessageCost, NetworkLeg, Protocol, ProtocolKind, RouteId, Transport};
use crate::topology::architecture::HopModel;
use crate::topology::spec::RoutingPolicy;
use crate::topology::{
    DeviceId, DeviceKind, Hop, LinkFamily, PathType, Route, RouteError, Router, Share, Topology,
};
use crate::units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transport without what depends on the protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    store: Option<RouteId>,
    load: Option<RouteId>,
    network: Option<Net>,
    /// Of the wires, from the sender's post to the receiver.
    latency: Time,
    credit_latency: Time,
    /// By PCIe or host memory, inside a host.
    pcie: bool,
}

#[derive(Debug, Clone, Copy)]
struct Net {
    route: RouteId,
    /// The GPU whose process's proxy thread sends.
    thread: DeviceId,
    /// Between a GPU and the proxy that watches its memory.
    post_latency: Time,
    /// What a proxy thread spends on each message.
    message_overhead: Time,
    /// … with no more bytes on the wire so much more, if it lies in GPU memory.
    inline: (u64, Time),
    /// Messages with more bytes on the wire take so much more.
    rendezvous: (u64, Time),
    /// … of those that are read from GPU memory.
    large_in_gpu: u64,
    /// … of which the threads of both ends are busy for so long.
    handshake: Time,
    /// The fastest that one connection goes.
    rate: Bandwidth,
    /// Of the narrowest link.
    wire: Bandwidth,
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
    pub(super) routes: Arc<Vec<Route>>,
    /// Ways so far, and which of them each connection has: apart, for a table of many has room
    /// to spare.
    ways: Vec<Way>,
    known: FxHashMap<Leg, u32>,
    pub(super) ports: Ports,
    /// Some network tells connections between the same interfaces apart.
    hashes_flows: bool,
    /// Of switches that sum or copy: up and down.
    groups: BTreeMap<groups::Served, [Way; 2]>,
    rules: Rules,
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
    /// … reads.
    gdr_read: bool,
    /// Queue pairs of a connection; none counts where another plugin brings its own transport.
    queue_pairs: Option<u32>,
}

impl<'t> Ways<'t> {
    pub(super) fn new(topology: &'t Topology, router: Router<'t>, env: &Env) -> Self {
        let default = if env.gdr_c2c && !env.version.before(27) {
            PathType::P2c
        } else {
            PathType::Pxb
        };
        Ways {
            topology,
            router,
            routes: Arc::default(),
            ways: Vec::new(),
            known: FxHashMap::default(),
            ports: Ports::default(),
            hashes_flows: topology
                .fabrics
                .iter()
                .any(|f| f.routing == RoutingPolicy::Ecmp),
            groups: BTreeMap::new(),
            rules: Rules {
                p2p_level: env.p2p_level,
                shared_memory: !env.shm_disable,
                through_gpus: !env.nvb_disable,
                gdr_level: env.gdr_level.unwrap_or(default),
                gdr_read: env.gdr_read.unwrap_or(true),
                // SHARP's plugin moves sends and receives too, and its rings reach the wire.
                queue_pairs: (!env.collnet).then_some(env.queue_pairs),
            },
        }
    }

    pub(super) fn into_router(self) -> Router<'t> {
        self.router
    }

    /// The router that finds them.
    pub(super) fn router(&self) -> &Router<'t> {
        &self.router
    }

    /// The same, where it is to learn of networks.
    pub(super) fn router_mut(&mut self) -> &mut Router<'t> {
        &mut self.router
    }

    pub(super) fn remember(&mut self, route: Route) -> RouteId {
        Arc::make_mut(&mut self.routes).push(route);
        RouteId(self.routes.len() as u32 - 1)
    }

    /// Makes room for so many more ways.
    pub(super) fn expect(&mut self, more: usize) {
        self.known.reserve(more);
        self.ways.reserve(more);
    }

    /// The way of a connection.
    pub(super) fn find(&mut self, mut leg: Leg) -> Result<Way, NcclError> {
        if leg.nics.is_none() || !self.hashes_flows {
            leg.flow = 0;
        }
        if let Some(&way) = self.known.get(&leg) {
            return Ok(self.ways[way as usize]);
        }
        let way = match leg.nics {
            Some((out, into)) => self.over_network(leg, out, into)?,
            None => self.inside_host(leg)?,
        };
        self.known.insert(leg, self.ways.len() as u32);
        self.ways.push(way);
        Ok(way)
    }

    fn inside_host(&mut self, leg: Leg) -> Result<Way, NcclError> {
        if leg.from == leg.to {
            return Ok(Way::LOCAL);
        }
        let mut peer = self.router.peer(leg.from, leg.to);
        // NVLink by way of another GPU is better than PCIe, and than nothing (NCCL: NVB).
        let nvlink = peer.as_ref().is_ok_and(|r| self.kind(r) == PathType::Nvl);
        let nvb = self.rules.through_gpus
            && self
                .rules
                .p2p_level
                .is_none_or(|most| PathType::Nvb <= most);
        if !nvlink
            && nvb
            && let Some(route) = self.through_a_gpu(leg.from, leg.to)
        {
            peer = Ok(route);
        }
        let direct = match (peer, self.rules.p2p_level) {
            (Ok(route), None) => Some(route),
            (Ok(route), Some(most)) => (self.kind(&route) <= most).then_some(route),
            // The level may allow what is not by default: through CPUs.
            (Err(RouteError::NoPeerAccess { .. }), Some(most)) => {
                let route = self.router.local(leg.from, leg.to)?;
                (self.kind(&route) <= most).then_some(route)
            }
            (Err(RouteError::NoPeerAccess { .. }), None) => None,
            (Err(error), _) => return Err(error.into()),
        };
        if let Some(route) = direct {
            let latency = route.latency;
            let nvlink = |h: &Hop| self.topology.family(h.link) == LinkFamily::Nvlink;
            let pcie = !route.hops.iter().any(nvlink);
            return Ok(Way {
                store: Some(self.remember(route)),
                load: None,
                network: None,
                latency,
                credit_latency: latency,
                pcie,
            });
        }
        if self.rules.shared_memory {
            return self.through_host_memory(leg);
        }
        let nic = |gpu| self.router.nic_candidates(gpu).first().copied();
        match (nic(leg.from), nic(leg.to)) {
            (Some(out), Some(into)) => self.over_network(leg, out, into),
            _ => Err(NcclError::NothingLeft {
                collective: "a connection",
                reason: format!(
                    "{} and {} have neither peer access nor shared memory nor network interfaces",
                    self.topology.device_name(leg.from),
                    self.topology.device_name(leg.to)
                ),
            }),
        }
    }

    /// The widest way over two NVLinks and the GPU between them.
    fn through_a_gpu(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let node = self.topology.node_of(from)?;
        let links = |a: DeviceId, b: DeviceId| {
            let route = self.router.peer(a, b).ok()?;
            (self.kind(&route) == PathType::Nvl).then_some(route)
        };
        let width = |route: &Route| {
            let rates = route.hops.iter().map(|h| {
                let rate = u128::from(self.topology.rate(h.link).bytes_per_sec());
                rate * u128::from(h.share.den) / u128::from(h.share.num.max(1))
            });
            rates.min().unwrap_or(0)
        };
        let mut best: Option<(u128, Route)> = None;
        for &middle in &self.topology.nodes[node.index()].gpus {
            if middle == from || middle == to {
                continue;
            }
            let (Some(a), Some(b)) = (links(from, middle), links(middle, to)) else {
                continue;
            };
            let narrow = width(&a).min(width(&b));
            if best.as_ref().is_none_or(|(known, _)| narrow > *known) {
                best = Some((narrow, join([&a, &Route::default(), &b])));
            }
        }
        best.map(|(_, route)| route)
    }

    /// What type of path a route is, as NCCL counts them.
    fn kind(&self, route: &Route) -> PathType {
        let links = || route.hops.iter().map(|h| h.link);
        let to = |kind| {
            links()
                .filter(|&l| self.topology.device(self.topology.ends(l).1).kind == kind)
                .count()
        };
        let family = |f| links().any(|l| self.topology.family(l) == f);
        if by_nvlink(self.topology, &route.hops) {
            PathType::Nvl
        } else if family(LinkFamily::Socket) {
            PathType::Sys
        } else if to(DeviceKind::Cpu) > 0 {
            PathType::Phb
        } else if to(DeviceKind::PcieSwitch) > 1 {
            PathType::Pxb
        } else {
            PathType::Pix
        }
    }

    /// Both sides meet in the memory of the receiver's CPU (`NCCL_SHM_LOCALITY` 2).
    fn through_host_memory(&mut self, leg: Leg) -> Result<Way, NcclError> {
        let cpu = self.cpu_of(leg.to)?;
        let store = self.router.local(leg.from, cpu)?;
        let load = self.router.local(cpu, leg.to)?;
        let latency = store.latency + load.latency;
        let store = Some(self.remember(store));
        let load = Some(self.remember(load));
        Ok(Way {
            store,
            load,
            network: None,
            latency,
            credit_latency: latency,
            pcie: true,
        })
    }

    fn over_network(&mut self, leg: Leg, out: DeviceId, into: DeviceId) -> Result<Way, NcclError> {
        // With a relay, the data is in its memory.
        let source = leg.relay.unwrap_or(leg.from);
        let from = self.port(source, out, End::Sends)?;
        let to = self.port(leg.to, into, End::Receives)?;
        let (route, middle) = self.crossing((&from, out), (&to, into), leg.flow)?;
        let sender = self.topology.nic_model(out);
        let message_overhead = sender.map_or(Time::ZERO, |m| m.message_overhead.value);
        let inline = sender.filter(|_| from.direct);
        let inline = inline.and_then(|m| m.inline.as_ref());
        let inline = inline.map_or((0, Time::ZERO), |i| (i.up_to.value.get(), i.time.value));
        let rendezvous = sender.and_then(|m| m.rendezvous.as_ref());
        let in_gpu = rendezvous.filter(|_| from.direct);
        let in_gpu = in_gpu.and_then(|r| Some(r.above_in_gpu.as_ref()?.value.get()));
        let handshake = rendezvous.and_then(|r| Some(r.work.as_ref()?.value));
        let rendezvous =
            rendezvous.map_or((0, Time::ZERO), |r| (r.above.value.get(), r.time.value));
        let model = self.topology.architecture(source).filter(|_| from.direct);
        let pair = model.and_then(|m| Some(m.queue_pair_rate.as_ref()?.value));
        let rate = match (pair, self.rules.queue_pairs) {
            (Some(pair), Some(count)) => pair.bytes_per_sec().saturating_mul(u64::from(count)),
            _ => u64::MAX,
        };
        let hops = self.routes[route.0 as usize].hops.iter();
        let narrowest = hops.map(|hop| self.topology.rate(hop.link)).min();
        let wire = narrowest.unwrap_or(Bandwidth::from_bytes_per_sec(u64::MAX));
        let delivery = self
            .topology
            .nic_model(into)
            .and_then(|m| Some(m.delivery.as_ref()?.value))
            .unwrap_or(Time::ZERO);
        let interfaces = self.topology.transit_latency(out) + self.topology.transit_latency(into);
        let latency = from.data.latency + interfaces + middle + to.data.latency;
        let mut post_latency = from.notice.latency;
        let notice = to.notice.latency;
        let store = match leg.relay.filter(|&relay| relay != leg.from) {
            Some(relay) => {
                let (route, latency) =
                    self.inside((leg.from, relay), |router| router.peer(leg.from, relay))?;
                post_latency += latency;
                Some(route)
            }
            None if from.direct => None,
            None => {
                let ends = (source, from.cpu);
                Some(self.inside(ends, |_| Ok(from.notice.clone()))?.0)
            }
        };
        let load = if to.direct {
            None
        } else {
            let ends = (to.cpu, leg.to);
            Some(self.inside(ends, |_| Ok(to.notice.clone()))?.0)
        };
        Ok(Way {
            store,
            load,
            network: Some(Net {
                route,
                thread: source,
                post_latency,
                message_overhead,
                inline,
                rendezvous,
                large_in_gpu: in_gpu.unwrap_or(rendezvous.0),
                handshake: handshake.unwrap_or(Time::ZERO),
                rate: Bandwidth::from_bytes_per_sec(rate),
                wire,
            }),
            latency: latency + notice + delivery,
            credit_latency: latency + notice,
            pcie: false,
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
            && self.topology.gpu_direct(gpu, nic)
            && nic_path(self.topology, &self.router, gpu, nic) <= self.rules.gdr_level;
        Ok(if direct {
            (true, gpu)
        } else {
            (false, self.cpu_of(gpu)?)
        })
    }

    pub(super) fn cpu_of(&self, gpu: DeviceId) -> Result<DeviceId, NcclError> {
        // A machine without CPUs has its proxies beside the GPU.
        Ok(self.router.cpu_of(gpu).unwrap_or(gpu))
    }
}

impl Way {
    /// Within a GPU's own memory.
    pub(super) const LOCAL: Way = Way {
        store: None,
        load: None,
        network: None,
        latency: Time::ZERO,
        credit_latency: Time::ZERO,
        pcie: false,
    };

    /// The same without any bytes: another connection of its group carries them.
    pub(super) fn carried(self) -> Self {
        Way {
            store: None,
            load: None,
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

    /// The GPU whose process's proxy thread sends over a network.
    pub(super) fn thread(&self) -> Option<DeviceId> {
        self.network.map(|n| n.thread)
    }

    /// Its thread is busy with the handshakes of large messages.
    pub(super) fn shakes_hands(&self) -> bool {
        self.network.is_some_and(|n| n.handshake > Time::ZERO)
    }

    /// With a protocol's `hop`: what noticing a slice costs beyond the wires. The proxy thread that
    /// sends moves a number of connections on at once.
    pub(super) fn transport(&self, hop: &HopModel, protocol: &Protocol, turn: Turn) -> Transport {
        let wire = protocol.wire;
        let hop = if self.pcie { &hop.pcie } else { &hop.nvlink }.value;
        let payload = |bytes: u64| Bytes::new(bytes * u64::from(wire.1) / u64::from(wire.0));
        let payload_rate = |rate: Bandwidth, messages: u64| {
            let rate = payload(rate.bytes_per_sec() / messages.max(1));
            Bandwidth::from_bytes_per_sec(rate.get())
        };
        // What LL sends lies in host memory.
        let in_gpu = protocol.kind != ProtocolKind::Ll;
        let large = |n: &Net| {
            payload(if in_gpu {
                n.large_in_gpu
            } else {
                n.rendezvous.0
            })
        };
        Transport {
            store: self.store,
            load: self.load,
            network: self.network.map(|n| NetworkLeg {
                message: MessageCost {
                    each: n.message_overhead,
                    others: n.message_overhead * (turn.works - 1),
                    wire: payload_rate(n.wire, u64::from(turn.works - 1)),
                    inline: if in_gpu {
                        (payload(n.inline.0), n.inline.1 * (turn.waits + turn.works))
                    } else {
                        (Bytes::ZERO, Time::ZERO)
                    },
                    large: (large(&n), n.handshake * turn.handles),
                },
                route: n.route,
                post_latency: n.post_latency + hop + n.message_overhead * turn.waits,
                rendezvous: (large(&n), n.rendezvous.1),
                rate: n.rate,
            }),
            latency: self.latency + hop,
            credit_latency: self.credit_latency,
        }
    }
}

/// One route after the other; a link that several of them cross counts as often.
pub(super) fn join(routes: [&Route; 3]) -> Route {
    let latency = routes.iter().map(|r| r.latency).sum();
    let mut hops: Vec<Hop> = Vec::with_capacity(routes.iter().map(|r| r.hops.len()).sum());
    for route in routes {
        // A route has each link once, so that only those before it can have it, too.
        let before = hops.len();
        for &hop in &route.hops {
            match hops[..before].iter_mut().find(|h| h.link == hop.link) {
                Some(known) => known.share = add(known.share, hop.share),
                None => hops.push(hop),
            }
        }
    }
    Route {
        hops,
        latency,
        ..Route::default()
    }
}

fn add(a: Share, b: Share) -> Share {
    Share {
        num: a.num * b.den + b.num * a.den,
        den: a.den * b.den,
    }
}
