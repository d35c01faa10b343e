//! Routes: which links a transfer loads, and by how much.
//!
//! A [`Router`] answers three questions: how a GPU reaches another one's memory
//! ([`Router::peer`]), how data moves between a GPU, its CPU and its NICs
//! ([`Router::local`]), and how it crosses a network ([`Router::network`]). It looks only at
//! the graph and at a fabric's routing policy; which of these routes a collective takes is
//! decided elsewhere.
//!
//! Parallel cables between two switches are links of their own where flows are hashed, and one pipe
//! elsewhere: adaptive routing spreads over them, and deterministic routing deals destinations out to
//! them.
//!
//! Left out: detours over a third group of a dragonfly, as UGAL takes them under load.

mod fabric;
mod groups;
#[cfg(test)]
mod groups_tests;
mod local;
mod nvlink;
mod search;
mod spread;
#[cfg(test)]
mod tests;
mod twins;

use super::graph::{DeviceId, DeviceKind, LinkId, Topology};
use super::hardware::LinkFamily;
use super::paths::PathType;
use fabricsim_units::{Bandwidth, Time};
use petgraph::Direction;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use std::cmp::Reverse;
use thiserror::Error;

pub(super) use local::LocalPath;
pub use twins::Shift;

/// An exact fraction of a transfer: `num / den`, with `0 < num <= den` in lowest terms. Only what a
/// byte takes up of links ([`Route::load`]) may be more than all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    /// Numerator.
    pub num: u32,
    /// Denominator.
    pub den: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share::WHOLE
    }
}

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share { num: 1, den: 1 };

    /// In lowest terms; `None` if those are too large.
    pub fn reduced(num: u64, den: u64) -> Option<Share> {
        let divisor = spread::gcd(num, den).max(1);
        Some(Share {
            num: u32::try_from(num / divisor).ok()?,
            den: u32::try_from(den / divisor).ok()?,
        })
    }

    /// This one and another; `None` if in lowest terms that is too large.
    pub fn plus(self, other: Share) -> Option<Share> {
        spread::sum(self, other)
    }

    /// One of `parts` equal parts of it.
    pub fn part(self, parts: u64) -> Share {
        let den = u64::from(self.den) * parts;
        Share::reduced(u64::from(self.num), den).unwrap_or(self)
    }

    /// How fast a transfer can be of which a link carries this.
    pub fn carried_by(self, link: Bandwidth) -> Bandwidth {
        let rate = u128::from(link.bytes_per_sec()) * u128::from(self.den) / u128::from(self.num);
        Bandwidth::from_bytes_per_sec(rate.try_into().unwrap_or(u64::MAX))
    }

    /// As a floating-point number, for reports and solvers.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.num) / f64::from(self.den)
    }
}

/// One link of a route and the fraction of the transfer's bytes that crosses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The link.
    pub link: LinkId,
    /// The fraction of the bytes: a transfer that spreads over four NVSwitches
    /// crosses each with its part.
    pub share: Share,
}

/// The links that a transfer loads at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Each link once, in order from source to destination (parallel branches side by side).
    pub hops: Vec<Hop>,
    /// Of the slowest branch: links plus the devices between them.
    pub latency: Time,
    /// How much of its links' rate a byte takes up: more than one where links carry less of such
    /// transfers than of others.
    pub load: Share,
}

/// Why there is no route. Devices are named in full.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Neither NVLink nor PCIe peer-to-peer joins the two.
    #[error(
        "{from} cannot reach the memory of {to}: no NVLink joins them, and no PCIe path that \
         stays below the CPUs (or crosses only CPUs with `peer_to_peer`) between GPUs whose \
         driver allows it"
    )]
    NoPeerAccess {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// No PCIe, C2C or socket links lead from one to the other.
    #[error("no PCIe, C2C or socket links lead from {from} to {to}")]
    NoLocalPath {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// No fabric has both as ports.
    #[error("no fabric joins {from} and {to}")]
    NoSharedFabric {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// A fabric has both as ports, but its switches do not connect them.
    #[error("fabric {fabric} has no path from {from} to {to}")]
    NoNetworkPath {
        /// The last fabric tried.
        fabric: String,
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
}

/// Finds routes through one topology, remembering what it has searched.
///
/// Answers depend only on the topology, the seed and the question, never on earlier ones.
#[derive(Debug)]
pub struct Router<'t> {
    topology: &'t Topology,
    seed: u64,
    /// By link; empty when none has failed.
    failed: Vec<bool>,
    /// By fabric, made when first needed.
    fabrics: Vec<Option<fabric::FabricIndex>>,
    /// What was found inside nodes.
    twins: twins::Twins,
}

impl<'t> Router<'t> {
    /// A router that hashes flows with `seed` where a fabric's policy is ECMP.
    #[must_use]
    pub fn new(topology: &'t Topology, seed: u64) -> Self {
        Router {
            topology,
            seed,
            failed: Vec::new(),
            fabrics: (0..topology.fabrics.len()).map(|_| None).collect(),
            twins: twins::Twins::default(),
        }
    }

    /// The machine that it finds routes through.
    pub(super) fn topology(&self) -> &'t Topology {
        self.topology
    }

    /// The same router, but around these links (of the same topology; others are ignored).
    #[must_use]
    pub fn avoiding(self, links: impl IntoIterator<Item = LinkId>) -> Self {
        let mut failed = vec![false; self.topology.link_count()];
        for link in links {
            if let Some(flag) = failed.get_mut(link.index()) {
                *flag = true;
            }
        }
        Router {
            failed,
            ..Router::new(self.topology, self.seed)
        }
    }

    /// How `from` reads or writes the memory of `to`, both GPUs: over the shortest NVLink
    /// paths there are, all at once and in proportion to their lanes; else over PCIe. A GPU
    /// reaches itself over no links.
    ///
    /// # Errors
    /// [`RouteError::NoPeerAccess`] when only a copy through host memory or the network is left.
    pub fn peer(&self, from: DeviceId, to: DeviceId) -> Result<Route, RouteError> {
        if from == to {
            return Ok(Route::default());
        }
        self.known_peer(from, to)
            .ok_or_else(|| RouteError::NoPeerAccess {
                from: self.topology.device_name(from),
                to: self.topology.device_name(to),
            })
    }

    /// The best path between two devices of a node over PCIe, C2C and socket links: fewest
    /// sockets crossed, then fewest CPUs, then fewest links, then the widest. It never passes
    /// through a GPU or a NIC. A device reaches itself over no links.
    ///
    /// # Errors
    /// [`RouteError::NoLocalPath`] when these links do not join them.
    pub fn local(&self, from: DeviceId, to: DeviceId) -> Result<Route, RouteError> {
        self.known_local(from, to)
            .ok_or_else(|| RouteError::NoLocalPath {
                from: self.topology.device_name(from),
                to: self.topology.device_name(to),
            })
    }

    /// Through a fabric from NIC to NIC, over shortest paths chosen by the fabric's policy.
    /// `flow` tells connections between the same two NICs apart (channel, queue pair). The
    /// first fabric that joins both is used. A NIC reaches itself over no links.
    ///
    /// # Errors
    /// [`RouteError::NoSharedFabric`] and [`RouteError::NoNetworkPath`].
    pub fn network(
        &mut self,
        from: DeviceId,
        to: DeviceId,
        flow: u64,
    ) -> Result<Route, RouteError> {
        if from == to {
            return Ok(Route::default());
        }
        let mut shared = None;
        for number in 0..self.topology.fabrics.len() {
            if self.fabrics[number].is_none() {
                let index = fabric::FabricIndex::new(self, number);
                self.fabrics[number] = Some(index);
            }
            let Some(index) = &mut self.fabrics[number] else {
                continue;
            };
            if !(index.has(from) && index.has(to)) {
                continue;
            }
            shared = Some(number);
            if let Some(route) = index.route(self.topology, self.seed, from, to, flow) {
                return Ok(route);
            }
        }
        let (from, to) = (
            self.topology.device_name(from),
            self.topology.device_name(to),
        );
        Err(match shared {
            None => RouteError::NoSharedFabric { from, to },
            Some(number) => RouteError::NoNetworkPath {
                fabric: self.topology.fabrics[number].name.clone(),
                from,
                to,
            },
        })
    }

    /// The nearest CPU over PCIe or C2C: whose memory a device's staging buffers are in.
    /// A CPU is its own.
    #[must_use]
    pub fn cpu_of(&self, device: DeviceId) -> Option<DeviceId> {
        if self.topology.device(device).kind == DeviceKind::Cpu {
            return Some(device);
        }
        self.known_cpu(device)
    }

    fn search_cpu(&self, device: DeviceId) -> Option<DeviceId> {
        self.local_paths(device, |_| false)
            .into_iter()
            .find(|path| self.topology.device(path.to).kind == DeviceKind::Cpu)
            .map(|path| path.to)
    }

    fn search_local(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        self.local_path(from, to, |_| true)
            .map(|path| self.along(&path.links))
    }

    fn search_peer(&self, from: DeviceId, to: DeviceId) -> Option<Route> {
        let allowed = |gpu| self.topology.gpu_model(gpu).is_none_or(|m| m.peer_to_peer);
        self.nvlink(from, to).or_else(|| {
            if !(allowed(from) && allowed(to)) {
                return None;
            }
            self.local_path(from, to, |cpu| cpu.peer_to_peer)
                .map(|path| self.along(&path.links))
        })
    }

    /// The NICs of a GPU's node that face a fabric, as NCCL prefers them: by bandwidth of the
    /// path between GPU and network, then by type of path, then by order in the node (NCCL
    /// 2.30.7 `src/graph/topo.cc`, local devices). Unreachable ones are left out. Of a device in no
    /// node (a file server) those of any fabric that it reaches.
    #[must_use]
    pub fn nic_candidates(&self, gpu: DeviceId) -> Vec<DeviceId> {
        self.ranked_nics(gpu)
            .into_iter()
            .map(|(_, _, nic)| nic)
            .collect()
    }

    /// As [`Router::nic_candidates`], with bandwidth and type.
    #[must_use]
    pub fn ranked_nics(&self, gpu: DeviceId) -> Vec<(Bandwidth, PathType, DeviceId)> {
        self.known_nics(gpu)
    }

    fn rank_nics(&self, gpu: DeviceId) -> Vec<(Bandwidth, PathType, DeviceId)> {
        let paths = self.local_paths(gpu, |_| true);
        let reached: Vec<DeviceId>;
        let nics = match self.topology.node_of(gpu) {
            Some(node) => &self.topology.nodes[node.index()].nics,
            None => {
                let ports = self.topology.fabrics.iter().flat_map(|f| &f.ports);
                let found = |port: &&DeviceId| paths.iter().any(|path| path.to == **port);
                reached = ports.filter(found).copied().collect();
                &reached
            }
        };
        let mut ranked: Vec<_> = nics
            .iter()
            .enumerate()
            .filter_map(|(position, &nic)| {
                let path = paths.iter().find(|path| path.to == nic)?;
                let rate = path.rate.min(self.port_rate(nic));
                Some((Reverse(rate), path.kind(self.topology), position, nic))
            })
            .collect();
        ranked.sort_unstable();
        ranked
            .into_iter()
            .map(|(Reverse(rate), kind, _, nic)| (rate, kind, nic))
            .collect()
    }

    /// What a NIC's cables carry together, one direction: nothing where all of them have failed.
    pub(super) fn port_rate(&self, nic: DeviceId) -> Bandwidth {
        let total = self
            .links_of(nic, Direction::Outgoing)
            .filter(|&(link, _)| self.topology.family(link) == LinkFamily::Network)
            .map(|(link, _)| self.topology.rate(link).bytes_per_sec())
            .sum();
        Bandwidth::from_bytes_per_sec(total)
    }

    /// Links that leave or enter a device and have not failed, with their far ends; in no
    /// order that callers may rely on.
    fn links_of(
        &self,
        device: DeviceId,
        direction: Direction,
    ) -> impl Iterator<Item = (LinkId, DeviceId)> + '_ {
        self.topology
            .graph
            .edges_directed(NodeIndex::new(device.index()), direction)
            .map(move |edge| {
                let far = match direction {
                    Direction::Outgoing => edge.target(),
                    Direction::Incoming => edge.source(),
                };
                (
                    LinkId(edge.id().index() as u32),
                    DeviceId(far.index() as u32),
                )
            })
            .filter(|&(link, _)| !self.failed.get(link.index()).is_some_and(|failed| *failed))
    }

    /// All links that have not failed, with their ends.
    fn links(&self) -> impl Iterator<Item = (LinkId, DeviceId, DeviceId)> + '_ {
        let all = (0..).zip(self.topology.graph.raw_edges());
        all.map(|(link, edge)| {
            let [from, to] = [edge.source(), edge.target()].map(|d| DeviceId(d.index() as u32));
            (LinkId(link), from, to)
        })
        .filter(|&(link, ..)| !self.failed.get(link.index()).is_some_and(|failed| *failed))
    }

    /// The route over a chain of links.
    fn along(&self, links: &[LinkId]) -> Route {
        let mut latency = Time::ZERO;
        for (position, &link) in links.iter().enumerate() {
            if position > 0 {
                let (from, _) = self.topology.ends(link);
                latency += self.topology.transit_latency(from);
            }
            latency += self.topology.latency(link);
        }
        let hops = links
            .iter()
            .map(|&link| Hop {
                link,
                share: Share::WHOLE,
            })
            .collect();
        Route {
            hops,
            latency,
            ..Route::default()
        }
    }
}
