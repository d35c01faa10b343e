//! How GPUs meet interfaces: found once for each pair, whatever the number of connections, and
//! once for all nodes that are copies of each other.

use super::error::NcclError;
use super::transport::Ways;
use fabricsim_plan::{ProtocolKind, RouteId};
use fabricsim_topology::hardware::RendezvousModel;
use fabricsim_topology::{DeviceId, Hop, Route, Share, Shift};
use fabricsim_units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// A GPU at one end of a network connection, and its interface there, in the first node of its
/// kind.
#[derive(Debug)]
pub(super) struct Port {
    /// The interface reaches the GPU's memory itself.
    pub(super) direct: bool,
    /// Whose memory it is that the interface reads or writes.
    memory: DeviceId,
    /// The CPU on which the proxy runs.
    cpu: DeviceId,
    /// Between memory and interface, in the direction of the data.
    pub(super) data: Route,
    /// Between GPU and CPU, in the direction of the data.
    pub(super) notice: Route,
    /// Of a GPU that reads what has come out of host memory: from asking for it to its leaving there.
    pub(super) request: Time,
    /// Through the interface.
    pub(super) transit: Time,
    /// What the interface asks of who sends.
    pub(super) message_overhead: Time,
    pub(super) inline: (u64, Time),
    pub(super) fetch: (u64, Time),
    pub(super) handshake: Handshake,
    /// The fastest that a connection goes that begins here.
    pub(super) rate: Bandwidth,
    /// From the interface having all to the receiver knowing.
    pub(super) delivery: Time,
}

/// What large messages of a port cost more than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Handshake {
    /// Those with more bytes on the wire.
    above: u64,
    /// The same of LL's.
    above_ll: u64,
    /// They arrive so much later.
    pub(super) time: Time,
    /// The threads of both ends are busy for so long.
    pub(super) work: Time,
}

impl Handshake {
    const NONE: Handshake = Handshake {
        above: 0,
        above_ll: 0,
        time: Time::ZERO,
        work: Time::ZERO,
    };

    fn new(model: &RendezvousModel) -> Self {
        let of_ll = model.above_ll.as_ref().unwrap_or(&model.above);
        Handshake {
            above: model.above.value.get(),
            above_ll: of_ll.value.get(),
            time: model.time.value,
            work: model.work.as_ref().map_or(Time::ZERO, |work| work.value),
        }
    }

    /// More bytes than these make a message of the protocol large.
    pub(super) fn above(&self, kind: ProtocolKind) -> u64 {
        match kind {
            ProtocolKind::Ll => self.above_ll,
            ProtocolKind::Ll128 | ProtocolKind::Simple => self.above,
        }
    }
}

/// A port, and how far away it is from the one that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortId {
    index: u32,
    shift: Shift,
}

/// A time of a thread that has so many thousandths of its core.
fn slowed(time: Time, part: u64) -> Time {
    Time::from_picos(time.times(1000).picos() / part.max(1))
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Sends,
    Receives,
}

/// A network route from memory to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    pub(super) route: RouteId,
    /// Of its network part.
    pub(super) latency: Time,
    /// As much as its narrowest link can take.
    pub(super) wire: Bandwidth,
}

/// Where such a route begins, its interfaces, where it ends, and what else may tell it apart.
type Ends = (DeviceId, DeviceId, DeviceId, DeviceId, u64);

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Ports {
    all: Vec<Port>,
    known: FxHashMap<(DeviceId, DeviceId, End), u32>,
    crossings: FxHashMap<Ends, Crossing>,
    inside: FxHashMap<(DeviceId, DeviceId), (RouteId, Time)>,
}

impl Ports {
    /// A port that is known.
    pub(super) fn of(&self, id: PortId) -> &Port {
        &self.all[id.index as usize]
    }
}

impl Ways<'_> {
    /// A GPU and its interface, at one end of a connection.
    pub(super) fn port(
        &mut self,
        gpu: DeviceId,
        nic: DeviceId,
        end: End,
    ) -> Result<PortId, NcclError> {
        // Nodes that are copies of each other may still be driven otherwise.
        let alike = |&(first, ..): &(DeviceId, DeviceId, Shift)| {
            self.is_staged(first) == self.is_staged(gpu)
        };
        let copied = self.router().copied(gpu, nic).filter(alike);
        let (first_gpu, first_nic, shift) = copied.unwrap_or((gpu, nic, Shift::default()));
        let key = (first_gpu, first_nic, end);
        if let Some(&index) = self.ports.known.get(&key) {
            return Ok(PortId { index, shift });
        }
        // Errors name the devices that were asked for.
        let port = self
            .find_port(first_gpu, first_nic, end)
            .or_else(|_| self.find_port(gpu, nic, end))?;
        let index = self.ports.all.len() as u32;
        self.ports.all.push(port);
        self.ports.known.insert(key, index);
        Ok(PortId { index, shift })
    }

    fn find_port(&self, gpu: DeviceId, nic: DeviceId, end: End) -> Result<Port, NcclError> {
        let cpu = self.cpu_of(gpu)?;
        let allowed = end == End::Receives || self.reads_directly();
        let (direct, memory) = self.to_memory(gpu, nic, allowed)?;
        let router = self.router();
        let (data, notice) = match end {
            End::Sends => (router.local(memory, nic)?, router.local(gpu, cpu)?),
            End::Receives => (router.local(nic, memory)?, router.local(cpu, gpu)?),
        };
        let request = match end {
            End::Receives if !direct && self.is_held_back(gpu, nic) => {
                router.local(gpu, cpu)?.latency
            }
            _ => Time::ZERO,
        };
        let topology = self.topology();
        let model = topology.nic_model(nic);
        // What their own software costs, sockets go without.
        let own = model.filter(|_| self.sockets().is_none());
        let small = own.and_then(|m| m.inline.as_ref());
        let inline = small.filter(|_| direct);
        let fetch = small.and_then(|m| Some((m.up_to.value.get(), m.fetch.as_ref()?.value)));
        let handshake = own.and_then(|m| m.rendezvous.as_deref());
        let architecture = topology.architecture(gpu).filter(|_| direct);
        let pair = architecture.and_then(|m| Some(m.queue_pair_rate.as_ref()?.value));
        let rails = topology.rails(nic).len().max(1) as u64;
        let rate = match (pair, self.queue_pairs()) {
            (Some(pair), Some(count)) => pair
                .bytes_per_sec()
                .saturating_mul(u64::from(count) * rails),
            _ => u64::MAX,
        };
        let delivery = own.and_then(|m| Some(m.delivery.as_ref()?.value));
        Ok(Port {
            direct,
            memory,
            cpu,
            data,
            notice,
            request,
            transit: topology.transit_latency(nic),
            // A thread that shares its core takes longer.
            message_overhead: slowed(topology.message_overhead(cpu, nic), self.core_part()),
            inline: inline.map_or((0, Time::ZERO), |i| (i.up_to.value.get(), i.time.value)),
            fetch: fetch.unwrap_or((0, Time::ZERO)),
            handshake: handshake.map_or(Handshake::NONE, Handshake::new),
            rate: Bandwidth::from_bytes_per_sec(rate),
            delivery: delivery.unwrap_or(Time::ZERO),
        })
    }

    /// The route from a GPU to one that its interface is nearer to, and its latency; one for all
    /// connections that take it.
    pub(super) fn way_to_peer(
        &mut self,
        gpu: DeviceId,
        relay: DeviceId,
    ) -> Result<(RouteId, Time), NcclError> {
        if let Some(&known) = self.ports.inside.get(&(gpu, relay)) {
            return Ok(known);
        }
        let route = self.router().peer(gpu, relay)?;
        let known = (self.remember(route.hops, route.load), route.latency);
        self.ports.inside.insert((gpu, relay), known);
        Ok(known)
    }

    /// The route between a port's GPU and its CPU; one for all connections that take it.
    pub(super) fn way_to_cpu(&mut self, gpu: DeviceId, id: PortId, end: End) -> RouteId {
        let port = &self.ports.all[id.index as usize];
        let cpu = id.shift.device(port.cpu);
        let ends = match end {
            End::Sends => (gpu, cpu),
            End::Receives => (cpu, gpu),
        };
        if let Some(&(known, _)) = self.ports.inside.get(&ends) {
            return known;
        }
        let routes = Arc::make_mut(&mut self.routes);
        let route = routes.push(id.shift.hops(&port.notice.hops), port.notice.load);
        self.ports.inside.insert(ends, (route, port.notice.latency));
        route
    }

    /// Pairs of interfaces over which a transport splits each message, if it does.
    fn rails(&self, out: DeviceId, into: DeviceId) -> SmallVec<[(DeviceId, DeviceId); 4]> {
        let [from, to] = [out, into].map(|nic| self.topology().rails(nic));
        if from.len() == to.len() && from.len() > 1 {
            from.iter().copied().zip(to.iter().copied()).collect()
        } else {
            SmallVec::new()
        }
    }

    /// A route that splits evenly over pairs of interfaces, and the latency of the longest.
    fn over_rails(
        &mut self,
        (source, target): (DeviceId, DeviceId),
        rails: &[(DeviceId, DeviceId)],
        flow: u64,
    ) -> Result<(RouteId, Time), NcclError> {
        let mut latency = Time::ZERO;
        let mut parts: Vec<Vec<Hop>> = Vec::with_capacity(3 * rails.len());
        for &(out, into) in rails {
            let sender = self.port(source, out, End::Sends)?;
            let receiver = self.port(target, into, End::Receives)?;
            let middle = self.router_mut().network(out, into, flow)?;
            latency = latency.max(middle.latency);
            let (from, to) = (self.ports.of(sender), self.ports.of(receiver));
            parts.push(sender.shift.hops(&from.data.hops).collect());
            parts.push(middle.hops);
            parts.push(receiver.shift.hops(&to.data.hops).collect());
        }
        for hop in parts.iter_mut().flatten() {
            hop.share = hop.share.part(rails.len() as u64);
        }
        let routes = Arc::make_mut(&mut self.routes);
        Ok((routes.push_joined(parts, Share::WHOLE), latency))
    }

    /// A route from memory to memory over a network; one for all connections that take it.
    pub(super) fn crossing(
        &mut self,
        (source, sender, out): (DeviceId, PortId, DeviceId),
        (target, receiver, into): (DeviceId, PortId, DeviceId),
        flow: u64,
    ) -> Result<Crossing, NcclError> {
        let [from, to] = [sender, receiver].map(|id| id.shift.device(self.ports.of(id).memory));
        let key = (from, out, into, to, flow);
        if let Some(&known) = self.ports.crossings.get(&key) {
            return Ok(known);
        }
        let rails = self.rails(out, into);
        let (route, latency) = if rails.is_empty() {
            let middle = self.router_mut().network(out, into, flow)?;
            let (from, to) = (self.ports.of(sender), self.ports.of(receiver));
            let parts = [
                sender.shift.hops(&from.data.hops),
                Shift::default().hops(&middle.hops),
                receiver.shift.hops(&to.data.hops),
            ];
            let routes = Arc::make_mut(&mut self.routes);
            (routes.push_joined(parts, Share::WHOLE), middle.latency)
        } else {
            self.over_rails((source, target), &rails, flow)?
        };
        let rates = self.topology().rates();
        let hops = self.routes.get(route).hops.iter();
        let wire = hops.map(|hop| hop.share.carried_by(rates(hop.link))).min();
        let known = Crossing {
            route,
            latency,
            wire: wire.unwrap_or(Bandwidth::from_bytes_per_sec(u64::MAX)),
        };
        self.ports.crossings.insert(key, known);
        Ok(known)
    }
}
