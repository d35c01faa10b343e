//! By which way a connection moves its data.
//!
//! In NCCL's order: peer to peer (NVLink, or PCIe below a common switch), host memory
//! (inside a node, where peers cannot reach each other), network. Over the network the
//! interface reads and writes GPU memory itself where it is near enough (GPUDirect RDMA),
//! else the data is staged in host memory.

use super::error::NcclError;
use crate::plan::{NetworkLeg, RouteId, Transport};
use crate::topology::{
    DeviceId, DeviceKind, Hop, LinkFamily, Route, RouteError, Router, Share, Topology,
};
use crate::units::{Bandwidth, Time};
use std::collections::BTreeMap;

/// A transport without what depends on the protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    store: Option<RouteId>,
    load: Option<RouteId>,
    network: Option<Net>,
    /// Of the wires, from the sender's post to the receiver.
    latency: Time,
    credit_latency: Time,
}

#[derive(Debug, Clone, Copy)]
struct Net {
    route: RouteId,
    /// Between a GPU and the proxy that watches its memory.
    post_latency: Time,
    message_overhead: Time,
}

/// A connection's ends, and the interfaces that it uses if it has to leave the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leg {
    pub(super) from: DeviceId,
    pub(super) to: DeviceId,
    pub(super) nics: Option<(DeviceId, DeviceId)>,
    /// Tells connections apart where paths are chosen by hash.
    pub(super) flow: u64,
}

/// Finds ways and remembers their routes.
pub(super) struct Ways<'t> {
    topology: &'t Topology,
    router: Router<'t>,
    pub(super) routes: Vec<Route>,
    known: BTreeMap<Leg, Way>,
}

impl<'t> Ways<'t> {
    pub(super) fn new(topology: &'t Topology, router: Router<'t>) -> Self {
        Ways {
            topology,
            router,
            routes: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn remember(&mut self, route: Route) -> RouteId {
        self.routes.push(route);
        RouteId(self.routes.len() as u32 - 1)
    }

    /// The way of a connection.
    pub(super) fn find(&mut self, mut leg: Leg) -> Result<Way, NcclError> {
        if leg.nics.is_none() {
            leg.flow = 0;
        }
        if let Some(&way) = self.known.get(&leg) {
            return Ok(way);
        }
        let way = match leg.nics {
            Some((out, into)) => self.over_network(leg, out, into)?,
            None => match self.router.peer(leg.from, leg.to) {
                Ok(route) => {
                    let latency = route.latency;
                    let store = Some(self.remember(route));
                    Way {
                        store,
                        load: None,
                        network: None,
                        latency,
                        credit_latency: latency,
                    }
                }
                Err(RouteError::NoPeerAccess { .. }) => self.through_host_memory(leg)?,
                Err(error) => return Err(error.into()),
            },
        };
        self.known.insert(leg, way);
        Ok(way)
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
        })
    }

    fn over_network(&mut self, leg: Leg, out: DeviceId, into: DeviceId) -> Result<Way, NcclError> {
        let (send_direct, head) = self.to_memory(leg.from, out)?;
        let (receive_direct, tail) = self.to_memory(leg.to, into)?;
        let middle = self.router.network(out, into, leg.flow)?;
        let message_overhead = self
            .topology
            .nic_model(out)
            .map_or(Time::ZERO, |m| m.message_overhead.value);
        let interfaces = self.topology.transit_latency(out) + self.topology.transit_latency(into);
        let tail_back = self.router.local(into, tail)?;
        let head = self.router.local(head, out)?;
        let latency = head.latency + interfaces + middle.latency + tail_back.latency;
        let route = join([head, middle, tail_back]);
        let route = self.remember(route);
        let (sender_cpu, receiver_cpu) = (self.cpu_of(leg.from)?, self.cpu_of(leg.to)?);
        let to_proxy = self.router.local(leg.from, sender_cpu)?;
        let from_proxy = self.router.local(receiver_cpu, leg.to)?;
        let post_latency = to_proxy.latency;
        let notice = from_proxy.latency;
        let store = (!send_direct).then(|| self.remember(to_proxy));
        let load = (!receive_direct).then(|| self.remember(from_proxy));
        Ok(Way {
            store,
            load,
            network: Some(Net {
                route,
                post_latency,
                message_overhead,
            }),
            latency: latency + notice,
            credit_latency: latency + notice,
        })
    }

    /// Where an interface finds a GPU's data: in the GPU, if no CPU is on the way (or a CPU
    /// that is joined to the GPU by C2C); else in host memory.
    fn to_memory(&self, gpu: DeviceId, nic: DeviceId) -> Result<(bool, DeviceId), NcclError> {
        let path = self.router.local(gpu, nic)?;
        let links = || path.hops.iter().map(|h| h.link);
        let host_bridge =
            links().any(|l| self.topology.device(self.topology.ends(l).1).kind == DeviceKind::Cpu);
        let coherent = links().any(|l| self.topology.family(l) == LinkFamily::C2c);
        if host_bridge && !coherent {
            Ok((false, self.cpu_of(gpu)?))
        } else {
            Ok((true, gpu))
        }
    }

    fn cpu_of(&self, gpu: DeviceId) -> Result<DeviceId, NcclError> {
        // A machine without CPUs has its proxies beside the GPU.
        Ok(self.router.cpu_of(gpu).unwrap_or(gpu))
    }
}

impl Way {
    /// With a protocol's `hop`: what noticing a slice costs beyond the wires.
    pub(super) fn transport(&self, hop: Time) -> Transport {
        Transport {
            store: self.store,
            load: self.load,
            network: self.network.map(|n| NetworkLeg {
                route: n.route,
                post_latency: n.post_latency + hop,
                message_overhead: n.message_overhead,
                rate: Bandwidth::from_bytes_per_sec(u64::MAX),
            }),
            latency: self.latency + hop,
            credit_latency: self.credit_latency,
        }
    }
}

/// One route after the other; a link that several of them cross counts as often.
fn join(routes: [Route; 3]) -> Route {
    let latency = routes.iter().map(|r| r.latency).sum();
    let mut hops: Vec<Hop> = Vec::new();
    for hop in routes.into_iter().flat_map(|r| r.hops) {
        match hops.iter_mut().find(|h| h.link == hop.link) {
            Some(known) => known.share = add(known.share, hop.share),
            None => hops.push(hop),
        }
    }
    Route { hops, latency }
}

fn add(a: Share, b: Share) -> Share {
    Share {
        num: a.num * b.den + b.num * a.den,
        den: a.den * b.den,
    }
}
