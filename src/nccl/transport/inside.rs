//! Ways inside a host: peer to peer, or through host memory.

use super::{Kind, Leg, Way, Ways};
use crate::error::NcclError;
use crate::hosts::by_nvlink;
use fabricsim_plan::RouteId;
use fabricsim_topology::{
    DeviceId, DeviceKind, Hop, LinkFamily, PathType, Route, RouteError, Share, Shift,
};
use rustc_hash::FxHashMap;

/// What was found inside hosts.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// By the devices of the first node of its kind: what is the same in all copies of it.
    found: FxHashMap<(DeviceId, DeviceId), u32>,
    all: Vec<Found>,
    /// By node, what it was asked for, in order, and the first route of that: rings go from node to
    /// node, and ask for a few in each.
    moved: Vec<Vec<(u32, RouteId)>>,
}

/// How two GPUs of a host reach each other.
#[derive(Debug)]
struct Found {
    by: By,
    kind: u32,
}

#[derive(Debug)]
enum By {
    /// The sender stores into the receiver's memory.
    Peers(Route),
    /// Both meet in host memory: stored into, and loaded from.
    HostMemory(Route, Route),
    /// Over the network that both have interfaces of.
    Network(DeviceId, DeviceId),
}

impl Ways<'_> {
    pub(super) fn inside_host(&mut self, leg: Leg) -> Result<Way, NcclError> {
        let (from, to) = (leg.from, leg.to);
        if from == to {
            return Ok(Way::LOCAL);
        }
        // In nodes that are copies of each other the same is found.
        let copied = self.router.copied_peers(from, to);
        let (first, second, shift) = copied.unwrap_or((from, to, Shift::default()));
        let index = match self.inside.found.get(&(first, second)) {
            Some(&index) => index,
            None => {
                // Errors name the devices that were asked for.
                let (by, kind) = self
                    .search((first, second))
                    .or_else(|_| self.search((from, to)))?;
                let kind = self.kind(kind);
                let index = self.inside.all.len() as u32;
                self.inside.all.push(Found { by, kind });
                self.inside.found.insert((first, second), index);
                index
            }
        };
        let Found { by, kind } = &self.inside.all[index as usize];
        let kind = *kind;
        let (store, load) = match by {
            By::Peers(store) => (store, None),
            By::HostMemory(store, load) => (store, Some(load)),
            &By::Network(out, into) => {
                return self.over_network(leg, shift.device(out), shift.device(into));
            }
        };
        let node = self.topology.node_of(from).map_or(0, |node| node.index());
        if self.inside.moved.len() <= node {
            self.inside.moved.resize(node + 1, Vec::new());
        }
        let moved = &mut self.inside.moved[node];
        let route = match moved.binary_search_by_key(&index, |known| known.0) {
            Ok(at) => moved[at].1,
            Err(at) => {
                let routes = std::sync::Arc::make_mut(&mut self.routes);
                let first = routes.push(shift.hops(&store.hops), store.load);
                if let Some(load) = load {
                    routes.push(shift.hops(&load.hops), load.load);
                }
                moved.insert(at, (index, first));
                first
            }
        };
        Ok(Way {
            store: Some(route),
            // They follow each other.
            load: load.map(|_| RouteId(route.0 + 1)),
            network: None,
            kind,
        })
    }

    fn search(&self, (from, to): (DeviceId, DeviceId)) -> Result<(By, Kind), NcclError> {
        let mut peer = self.router.peer(from, to);
        // NVLink by way of another GPU is better than PCIe, and than nothing (NCCL: NVB).
        let nvlink = peer
            .as_ref()
            .is_ok_and(|r| self.type_of(r) == PathType::Nvl);
        let nvb = self.rules.through_gpus
            && self
                .rules
                .p2p_level
                .is_none_or(|most| PathType::Nvb <= most);
        if !nvlink
            && nvb
            && let Some(route) = self.through_a_gpu(from, to)
        {
            peer = Ok(route);
        }
        let direct = match (peer, self.rules.p2p_level) {
            (Ok(route), None) => Some(route),
            (Ok(route), Some(most)) => (self.type_of(&route) <= most).then_some(route),
            // The level may allow what is not by default: through CPUs.
            (Err(RouteError::NoPeerAccess { .. }), Some(most)) => {
                let route = self.router.local(from, to)?;
                (self.type_of(&route) <= most).then_some(route)
            }
            (Err(RouteError::NoPeerAccess { .. }), None) => None,
            (Err(error), _) => return Err(error.into()),
        };
        if let Some(route) = direct {
            let nvlink = |h: &Hop| self.topology.family(h.link) == LinkFamily::Nvlink;
            let pcie = !route.hops.iter().any(nvlink);
            let kind = Kind::inside(route.latency, pcie);
            return Ok((By::Peers(route), kind));
        }
        if self.rules.shared_memory {
            // Both sides meet in the memory of the receiver's CPU (`NCCL_SHM_LOCALITY` 2).
            let cpu = self.cpu_of(to)?;
            let store = self.router.local(from, cpu)?;
            let load = self.router.local(cpu, to)?;
            let kind = Kind::inside(store.latency + load.latency, true);
            return Ok((By::HostMemory(store, load), kind));
        }
        let nic = |gpu| self.router.nic_candidates(gpu).first().copied();
        match (nic(from), nic(to)) {
            (Some(out), Some(into)) => Ok((By::Network(out, into), Kind::LOCAL)),
            _ => Err(NcclError::NothingLeft {
                collective: "a connection",
                reason: format!(
                    "{} and {} have neither peer access nor shared memory nor network interfaces",
                    self.topology.device_name(from),
                    self.topology.device_name(to)
                ),
            }),
        }
    }

    /// The widest way over two NVLinks and the GPU between them.
    fn through_a_gpu(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let node = self.topology.node_of(from)?;
        let links = |a: DeviceId, b: DeviceId| {
            let route = self.router.peer(a, b).ok()?;
            (self.type_of(&route) == PathType::Nvl).then_some(route)
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
                best = Some((narrow, one_after_the_other(a, b)));
            }
        }
        best.map(|(_, route)| route)
    }

    /// What type of path a route is, as NCCL counts them.
    fn type_of(&self, route: &Route) -> PathType {
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
}

/// Two routes that have no link in common: into a GPU, and out of it.
fn one_after_the_other(a: Route, b: Route) -> Route {
    let latency = a.latency + b.latency;
    Route {
        hops: [a.hops, b.hops].concat(),
        latency,
        load: Share::WHOLE,
    }
}
