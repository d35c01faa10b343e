//! Paths inside a node, over PCIe, C2C and socket links.

use super::Router;
use crate::graph::{DeviceId, LinkId, Topology};
use crate::hardware::{CpuModel, DeviceModel, LinkFamily, PcieRole};
use crate::paths::PathType;
use fabricsim_units::Bandwidth;
use petgraph::Direction;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A chain of links inside a node.
#[derive(Debug, Clone)]
pub(crate) struct LocalPath {
    /// Where it ends.
    pub(crate) to: DeviceId,
    /// In order.
    pub(crate) links: Vec<LinkId>,
    /// Of its slowest link; the largest rate for a path without links.
    pub(crate) rate: Bandwidth,
}

/// What a device on a path counts as when the path is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cpu,
    Pcie(PcieRole),
    End,
}

impl Stop {
    fn of(topology: &Topology, device: DeviceId) -> Stop {
        match topology.device_model(device) {
            DeviceModel::Cpu(_) => Stop::Cpu,
            DeviceModel::PcieSwitch(model) => Stop::Pcie(model.role),
            _ => Stop::End,
        }
    }

    fn is_switch(self) -> bool {
        matches!(self, Stop::Pcie(PcieRole::Switch | PcieRole::Section))
    }
}

/// Whether two neighbours on a path are the levels of one chip.
fn one_chip(a: Stop, b: Stop) -> bool {
    let section = Stop::Pcie(PcieRole::Section);
    let switch = Stop::Pcie(PcieRole::Switch);
    (a, b) == (section, switch) || (a, b) == (switch, section)
}

impl LocalPath {
    /// Both ends of each PCIe step.
    fn pcie_steps(&self, topology: &Topology) -> impl Iterator<Item = (Stop, Stop)> {
        self.links
            .iter()
            .filter(|&&link| topology.family(link) == LinkFamily::Pcie)
            .map(|&link| {
                let (from, to) = topology.ends(link);
                (Stop::of(topology, from), Stop::of(topology, to))
            })
    }

    /// NCCL's type: the worst of its steps (NCCL 2.30.7 `src/graph/paths.cc`).
    pub(crate) fn kind(&self, topology: &Topology) -> PathType {
        let bridge = Stop::Pcie(PcieRole::HostBridge);
        let pcie = self.pcie_steps(topology).map(|(from, to)| {
            if [from, to].iter().any(|&s| s == Stop::Cpu || s == bridge) {
                PathType::Phb
            } else if from.is_switch() && to.is_switch() && !one_chip(from, to) {
                PathType::Pxb
            } else {
                PathType::Pix
            }
        });
        let others = self.links.iter().map(|&link| match topology.family(link) {
            LinkFamily::Nvlink => PathType::Nvl,
            LinkFamily::C2c => PathType::C2c,
            LinkFamily::Socket => PathType::Sys,
            LinkFamily::Network => PathType::Net,
            LinkFamily::Pcie => PathType::Loc,
        });
        pcie.chain(others).max().unwrap_or(PathType::Loc)
    }

    /// The word of `nvidia-smi topo -m`, which tells host bridges apart and counts every
    /// switch that shows itself.
    pub(crate) fn smi(&self, topology: &Topology) -> &'static str {
        let family = |family| {
            self.links
                .iter()
                .any(|&link| topology.family(link) == family)
        };
        // A GPU behind C2C is a NUMA node of its own (seen on a GB200 tray).
        if family(LinkFamily::Socket) || family(LinkFamily::C2c) {
            return "SYS";
        }
        let bridge = Stop::Pcie(PcieRole::HostBridge);
        let touches = |stop| {
            self.pcie_steps(topology)
                .any(|(from, to)| from == stop || to == stop)
        };
        if touches(Stop::Cpu) {
            "NODE"
        } else if touches(bridge) {
            "PHB"
        } else if self
            .pcie_steps(topology)
            .any(|(from, to)| from.is_switch() && to.is_switch())
        {
            "PXB"
        } else {
            "PIX"
        }
    }
}

/// What a path costs so far; smaller is better, field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    sockets: u16,
    cpus: u16,
    links: u16,
    rate: Reverse<Bandwidth>,
}

struct Label {
    cost: Cost,
    /// The last link and where it came from; `None` at the source.
    last: Option<(LinkId, DeviceId)>,
    settled: bool,
}

impl Router<'_> {
    /// The best path between two devices of a node that passes only PCIe switches and those
    /// CPUs that `passable` lets through.
    pub(crate) fn local_path(
        &self,
        from: DeviceId,
        to: DeviceId,
        passable: impl Fn(&CpuModel) -> bool,
    ) -> Option<LocalPath> {
        self.search(from, Some(to), passable).pop()
    }

    /// The best paths from a device to all that it reaches, best first.
    pub(crate) fn local_paths(
        &self,
        from: DeviceId,
        passable: impl Fn(&CpuModel) -> bool,
    ) -> Vec<LocalPath> {
        self.search(from, None, passable)
    }

    /// Dijkstra's algorithm. A node has a few dozen devices, so nothing is remembered; ties
    /// go to the smaller device and link, so that the answer does not depend on edge order.
    fn search(
        &self,
        from: DeviceId,
        target: Option<DeviceId>,
        passable: impl Fn(&CpuModel) -> bool,
    ) -> Vec<LocalPath> {
        let start = Cost {
            sockets: 0,
            cpus: 0,
            links: 0,
            rate: Reverse(Bandwidth::from_bytes_per_sec(u64::MAX)),
        };
        let mut labels: FxHashMap<DeviceId, Label> = FxHashMap::default();
        let mut queue = BinaryHeap::from([Reverse((start, from))]);
        let mut found = Vec::new();
        labels.insert(
            from,
            Label {
                cost: start,
                last: None,
                settled: false,
            },
        );
        while let Some(Reverse((cost, device))) = queue.pop() {
            let last = match labels.get_mut(&device) {
                Some(label) if !label.settled && label.cost == cost => {
                    label.settled = true;
                    label.last
                }
                _ => continue,
            };
            if target.is_none_or(|target| target == device) {
                found.push(traced(device, cost.rate.0, &labels));
                if target.is_some() {
                    break;
                }
            }
            let mut bridged = None;
            let cpus = match self.topology.device_model(device) {
                _ if device == from => 0,
                DeviceModel::PcieSwitch(model) => {
                    if model.role == PcieRole::HostBridge {
                        bridged = self.cpu_above(device);
                    }
                    0
                }
                DeviceModel::Cpu(cpu) if passable(cpu) => 1,
                DeviceModel::Cpu(_)
                | DeviceModel::Gpu(_)
                | DeviceModel::Nvswitch(_)
                | DeviceModel::Nic(_)
                | DeviceModel::Switch(_)
                | DeviceModel::Storage(_) => continue,
            };
            for (link, next) in self.links_of(device, Direction::Outgoing) {
                // Turning round in a host bridge takes what passing its CPU takes.
                let turns = match (bridged, last) {
                    (Some((cpu, model)), Some((_, previous))) if previous != cpu && next != cpu => {
                        if !passable(model) {
                            continue;
                        }
                        1
                    }
                    _ => 0,
                };
                let sockets = match self.topology.family(link) {
                    LinkFamily::Pcie | LinkFamily::C2c => 0,
                    LinkFamily::Socket => 1,
                    LinkFamily::Nvlink | LinkFamily::Network => continue,
                };
                let cost = Cost {
                    sockets: cost.sockets + sockets,
                    cpus: cost.cpus + cpus + turns,
                    links: cost.links + 1,
                    rate: Reverse(cost.rate.0.min(self.topology.rate(link))),
                };
                let last = Some((link, device));
                let better = match labels.get(&next) {
                    None => true,
                    Some(old) => {
                        !old.settled
                            && (cost, device, link)
                                < (
                                    old.cost,
                                    old.last.map_or(from, |(_, device)| device),
                                    old.last.map_or(link, |(link, _)| link),
                                )
                    }
                };
                if better {
                    labels.insert(
                        next,
                        Label {
                            cost,
                            last,
                            settled: false,
                        },
                    );
                    queue.push(Reverse((cost, next)));
                }
            }
        }
        found
    }

    /// The CPU that a host bridge belongs to.
    fn cpu_above(&self, bridge: DeviceId) -> Option<(DeviceId, &CpuModel)> {
        self.links_of(bridge, Direction::Outgoing)
            .filter_map(|(_, far)| match self.topology.device_model(far) {
                DeviceModel::Cpu(model) => Some((far, model)),
                _ => None,
            })
            .min_by_key(|&(far, _)| far)
    }
}

/// The path that the labels lead back along.
fn traced(to: DeviceId, rate: Bandwidth, labels: &FxHashMap<DeviceId, Label>) -> LocalPath {
    let mut links = Vec::new();
    let mut device = to;
    while let Some((link, previous)) = labels.get(&device).and_then(|label| label.last) {
        links.push(link);
        device = previous;
    }
    links.reverse();
    LocalPath { to, links, rate }
}
