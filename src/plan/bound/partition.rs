//! Ways to cut a machine into parts, and what the links between the parts carry.

use super::CutKind;
use super::join::Sets;
use fabricsim_collective::ROOT;
use fabricsim_topology::{DeviceId, DeviceKind, DeviceModel, LinkFamily, LinkId, Topology};
use rustc_hash::{FxHashMap, FxHashSet};

/// A machine cut into parts.
#[derive(Debug, Clone)]
pub(super) struct Partition {
    pub(super) kind: CutKind,
    /// Ranks in all.
    pub(super) ranks: u64,
    /// The parts that have ranks.
    pub(super) parts: Vec<Part>,
    /// The part of each rank.
    pub(super) part_of: Vec<u32>,
    /// The narrowest parts of each kind.
    pub(super) kinds: Vec<Kind>,
    /// Out of all parts together, and into them.
    pub(super) all_out: Side,
    pub(super) all_into: Side,
    /// Some switch outside all parts sums and copies.
    pub(super) reduces: bool,
}

/// Some of the devices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    ranks: u64,
    has_root: bool,
    /// The GPU of its first rank.
    pub(super) first: DeviceId,
    /// Bytes per second out of it.
    pub(super) out: u64,
    /// Bytes per second into it.
    pub(super) into: u64,
}

/// What a part has links for, one way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side {
    /// Bytes per second.
    pub(super) rate: u64,
    /// The GPU of its first rank.
    pub(super) first: DeviceId,
}

/// Parts of which an operation with equal buffers needs the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) ranks: u64,
    pub(super) has_root: bool,
    /// That which least can leave.
    pub(super) out: Side,
    /// That which least can enter.
    pub(super) into: Side,
}

/// Of devices in none of the parts: those that no set of a rank has.
const OUTSIDE: u32 = u32::MAX;

/// All partitions of more than one part.
pub(super) fn all(topology: &Topology, gpus: &[DeviceId], network_inside: bool) -> Vec<Partition> {
    if gpus.len() < 2 {
        return Vec::new();
    }
    let machine = Machine::new(topology, gpus, network_inside);
    let mut found: Vec<Partition> = Vec::new();
    let mut add = |partition: Option<Partition>| found.extend(partition);
    add(machine.gpu_ports());
    add(machine.nvlink_groups());
    add(machine.below_pcie());
    add(machine.sockets());
    add(machine.nodes());
    add(machine.nvlink_domains());
    for tier in 1..=machine.highest_tier() {
        add(machine.below_tier(tier));
    }
    add(machine.switch_groups());
    found
}

/// A machine, and the ranks on it.
struct Machine<'t> {
    topology: &'t Topology,
    gpus: &'t [DeviceId],
    /// Ranks reach each other over the network.
    networked: bool,
    /// The tier of each switch of a network, and its group, by device.
    switches: FxHashMap<DeviceId, (u8, Option<u32>)>,
    /// Devices that NVLinks join.
    by_nvlink: Sets,
}

impl<'t> Machine<'t> {
    fn new(topology: &'t Topology, gpus: &'t [DeviceId], network_inside: bool) -> Self {
        let mut switches = FxHashMap::default();
        for fabric in &topology.fabrics {
            for (index, &switch) in fabric.switches.iter().enumerate() {
                let tier = fabric.tiers.get(index).copied().unwrap_or(0);
                switches.insert(switch, (tier, fabric.groups.get(index).copied()));
            }
        }
        let mut by_nvlink = Sets::alone(topology.device_count());
        for (id, _) in topology.links() {
            if topology.family(id) == LinkFamily::Nvlink {
                let (from, to) = topology.ends(id);
                by_nvlink.join(from, to);
            }
        }
        let mut machine = Machine {
            topology,
            gpus,
            networked: network_inside,
            switches,
            by_nvlink,
        };
        let mut domains = machine.domains();
        let first = domains.of(gpus[0]);
        machine.networked |= gpus.iter().any(|&gpu| domains.of(gpu) != first);
        machine
    }

    /// Nodes, and those joined by NVLinks.
    fn domains(&self) -> Sets {
        let mut sets = self.by_nvlink.clone();
        self.join_nodes(&mut sets);
        sets
    }

    fn join_nodes(&self, sets: &mut Sets) {
        let mut first: Vec<Option<DeviceId>> = vec![None; self.topology.nodes.len()];
        for (id, _) in self.topology.devices() {
            if let Some(node) = self.topology.node_of(id) {
                let first = first[node.index()].get_or_insert(id);
                sets.join(*first, id);
            }
        }
    }

    fn highest_tier(&self) -> u8 {
        let tiers = self.switches.values().map(|&(tier, _)| tier);
        tiers.max().filter(|_| self.networked).unwrap_or(0)
    }

    /// Each device with the rank's part that it is in, by the set that it is in.
    fn numbered(&self, sets: &mut Sets) -> (Vec<u32>, Vec<u32>) {
        let mut number: FxHashMap<DeviceId, u32> = FxHashMap::default();
        let part_of = self.gpus.iter().map(|&gpu| {
            let next = number.len() as u32;
            *number.entry(sets.of(gpu)).or_insert(next)
        });
        let part_of = part_of.collect();
        let devices = (0..self.topology.device_count()).map(|device| {
            let set = sets.of(DeviceId(device as u32));
            number.get(&set).copied().unwrap_or(OUTSIDE)
        });
        (part_of, devices.collect())
    }

    /// A partition whose parts carry what `counts` of the links between them, and between them and
    /// what is outside.
    fn cut(
        &self,
        kind: CutKind,
        sets: &mut Sets,
        counts: impl Fn(LinkId) -> bool,
    ) -> Option<Partition> {
        let (part_of, devices) = self.numbered(sets);
        let rates = self.topology.rates();
        let parts = part_of.iter().copied().max()? as usize + 1;
        if parts < 2 {
            return None;
        }
        let mut carries = vec![(0u64, 0u64); parts];
        for (id, _) in self.topology.links() {
            let (from, to) = self.topology.ends(id);
            let (a, b) = (devices[from.index()], devices[to.index()]);
            if a == b || !counts(id) {
                continue;
            }
            let rate = rates(id).bytes_per_sec();
            if let Some((out, _)) = carries.get_mut(a as usize) {
                *out = out.saturating_add(rate);
            }
            if let Some((_, into)) = carries.get_mut(b as usize) {
                *into = into.saturating_add(rate);
            }
        }
        let reduces = self.reduces(|device| devices[device.index()] == OUTSIDE);
        Some(self.partition(kind, part_of, &carries, reduces))
    }

    /// Whether some switch outside of all parts sums and copies.
    fn reduces(&self, outside: impl Fn(DeviceId) -> bool) -> bool {
        let mut devices = self.topology.devices();
        devices.any(|(id, _)| {
            let can = match self.topology.device_model(id) {
                DeviceModel::Nvswitch(model) => model.multicast,
                DeviceModel::Switch(model) => self.networked && model.reduction.is_some(),
                _ => false,
            };
            can && outside(id)
        })
    }

    fn partition(
        &self,
        kind: CutKind,
        part_of: Vec<u32>,
        carries: &[(u64, u64)],
        reduces: bool,
    ) -> Partition {
        let mut parts: Vec<Option<Part>> = vec![None; carries.len()];
        for (rank, (&part, &gpu)) in part_of.iter().zip(self.gpus).enumerate() {
            let (out, into) = carries[part as usize];
            let part = parts[part as usize].get_or_insert(Part {
                ranks: 0,
                has_root: false,
                first: gpu,
                out,
                into,
            });
            part.ranks += 1;
            part.has_root |= rank == ROOT.index();
        }
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        let mut kinds: FxHashMap<(u64, bool), Kind> = FxHashMap::default();
        for part in &parts {
            let side = |rate| Side {
                rate,
                first: part.first,
            };
            let (out, into) = (side(part.out), side(part.into));
            let key = (part.ranks, part.has_root);
            let kind = kinds.entry(key).or_insert(Kind {
                ranks: part.ranks,
                has_root: part.has_root,
                out,
                into,
            });
            if out.rate < kind.out.rate {
                kind.out = out;
            }
            if into.rate < kind.into.rate {
                kind.into = into;
            }
        }
        let mut kinds: Vec<Kind> = kinds.into_values().collect();
        kinds.sort_unstable_by_key(|kind| (kind.ranks, kind.has_root));
        let all = |of: fn(&Part) -> u64| Side {
            rate: parts.iter().map(of).fold(0, u64::saturating_add),
            first: self.gpus[0],
        };
        Partition {
            kind,
            ranks: self.gpus.len() as u64,
            all_out: all(|part| part.out),
            all_into: all(|part| part.into),
            kinds,
            parts,
            part_of,
            reduces,
        }
    }

    /// Each GPU by itself, with the ports that transports can use: NVLinks where they join ranks,
    /// with those to PCIe or the CPU as well where it takes these to reach the other ranks.
    fn gpu_ports(&self) -> Option<Partition> {
        let interfaces = self.interfaces();
        let carries: Vec<(u64, u64)> = self
            .gpus
            .iter()
            .map(|&gpu| {
                let node = self.topology.node_of(gpu);
                let network = node.map_or((0, 0), |node| interfaces[node.index()]);
                let ports = self.ports(gpu);
                let partners = self.partners(gpu);
                let side = |nvlink: u64, local: u64, network: u64| match partners {
                    Partners::Apart => local,
                    Partners::ByBoth => nvlink.saturating_add(local),
                    // Some are on other nodes.
                    Partners::ByNvlink if self.networked => {
                        nvlink.saturating_add(local.min(network)).max(local)
                    }
                    Partners::ByNvlink => nvlink.max(local),
                };
                (
                    side(ports.nvlink.0, ports.local.0, network.0),
                    side(ports.nvlink.1, ports.local.1, network.1),
                )
            })
            .collect();
        let part_of = (0..self.gpus.len() as u32).collect();
        let reduces = self.reduces(|_| true);
        Some(self.partition(CutKind::Gpu, part_of, &carries, reduces))
    }

    /// What each node's cables carry, out and in.
    fn interfaces(&self) -> Vec<(u64, u64)> {
        let mut carries = vec![(0u64, 0u64); self.topology.nodes.len()];
        let rates = self.topology.rates();
        for (id, _) in self.topology.links() {
            if self.topology.family(id) != LinkFamily::Network {
                continue;
            }
            let (from, to) = self.topology.ends(id);
            let [from, to] = [from, to].map(|end| self.topology.node_of(end));
            if from == to {
                continue;
            }
            let rate = rates(id).bytes_per_sec();
            if let Some(node) = from {
                let out = &mut carries[node.index()].0;
                *out = out.saturating_add(rate);
            }
            if let Some(node) = to {
                let into = &mut carries[node.index()].1;
                *into = into.saturating_add(rate);
            }
        }
        carries
    }

    fn ports(&self, gpu: DeviceId) -> Ports {
        use petgraph::Direction::{Incoming, Outgoing};
        use petgraph::graph::NodeIndex;
        use petgraph::visit::EdgeRef;
        let sum = |direction, nvlink: bool| {
            let edges = self
                .topology
                .graph
                .edges_directed(NodeIndex::new(gpu.index()), direction);
            edges
                .map(|edge| LinkId(edge.id().index() as u32))
                .filter(|&id| (self.topology.family(id) == LinkFamily::Nvlink) == nvlink)
                .map(|id| self.topology.rate(id).bytes_per_sec())
                .fold(0, u64::saturating_add)
        };
        Ports {
            nvlink: (sum(Outgoing, true), sum(Incoming, true)),
            local: (sum(Outgoing, false), sum(Incoming, false)),
        }
    }

    /// How the other ranks of its node and NVLink domain are reached.
    fn partners(&self, gpu: DeviceId) -> Partners {
        let links = self.topology.links_out_of(gpu);
        let ends = links.filter(|&(id, _)| self.topology.family(id) == LinkFamily::Nvlink);
        let ends: FxHashSet<DeviceId> = ends.map(|(_, to)| to).collect();
        if ends.is_empty() {
            return Partners::Apart;
        }
        let switched = |end: &DeviceId| self.topology.device(*end).kind == DeviceKind::NvSwitch;
        if ends.iter().any(switched) {
            return Partners::ByNvlink;
        }
        let node = self.topology.node_of(gpu);
        let of_node = node.map_or(&[][..], |node| &self.topology.nodes[node.index()].gpus);
        let mut others = of_node.iter().filter(|&&other| other != gpu);
        if others.all(|other| ends.contains(other)) {
            Partners::ByNvlink
        } else {
            Partners::ByBoth
        }
    }

    /// GPUs that NVLinks join, cut from PCIe and CPUs.
    fn nvlink_groups(&self) -> Option<Partition> {
        let mut sets = self.by_nvlink.clone();
        let ranks: FxHashSet<DeviceId> = self.gpus.iter().copied().collect();
        self.cut(CutKind::NvlinkGroup, &mut sets, |id| {
            let (from, to) = self.topology.ends(id);
            ranks.contains(&from) || ranks.contains(&to)
        })
    }

    /// What PCIe joins without a CPU.
    fn below_pcie(&self) -> Option<Partition> {
        let cpu = |end| self.topology.device(end).kind == DeviceKind::Cpu;
        self.inside_nodes(CutKind::PcieSwitch, |from, to| !cpu(from) && !cpu(to))
    }

    /// What PCIe and C2C join to one CPU.
    fn sockets(&self) -> Option<Partition> {
        self.inside_nodes(CutKind::Socket, |_, _| true)
    }

    fn inside_nodes(
        &self,
        kind: CutKind,
        joins: impl Fn(DeviceId, DeviceId) -> bool,
    ) -> Option<Partition> {
        let mut sets = Sets::alone(self.topology.device_count());
        for (id, _) in self.topology.links() {
            let (from, to) = self.topology.ends(id);
            let family = self.topology.family(id);
            if matches!(family, LinkFamily::Pcie | LinkFamily::C2c) && joins(from, to) {
                sets.join(from, to);
            }
        }
        self.cut(kind, &mut sets, |id| {
            self.networked || self.topology.family(id) != LinkFamily::Network
        })
    }

    fn nodes(&self) -> Option<Partition> {
        let mut sets = Sets::alone(self.topology.device_count());
        self.join_nodes(&mut sets);
        self.cut(CutKind::Node, &mut sets, |id| self.between_nodes(id))
    }

    fn nvlink_domains(&self) -> Option<Partition> {
        self.cut(CutKind::NvlinkDomain, &mut self.domains(), |id| {
            self.between_nodes(id)
        })
    }

    /// Cables serve between nodes only if some ranks have nothing else.
    fn between_nodes(&self, id: LinkId) -> bool {
        self.networked || self.topology.family(id) != LinkFamily::Network
    }

    /// Domains that switches below a tier join.
    fn below_tier(&self, tier: u8) -> Option<Partition> {
        let kind = if tier == 1 {
            CutKind::Leaves
        } else {
            CutKind::Pod
        };
        self.joined_by_switches(kind, |ends| {
            ends.iter().all(|&(of_switch, _)| of_switch < tier)
        })
    }

    /// Groups of networks that have some.
    fn switch_groups(&self) -> Option<Partition> {
        if self.topology.fabrics.iter().all(|f| f.groups.is_empty()) {
            return None;
        }
        self.joined_by_switches(CutKind::SwitchGroup, |ends| {
            ends.windows(2).all(|two| two[0].1 == two[1].1)
        })
    }

    /// Domains, and those that cables join whose switches (tiers and groups) are such.
    fn joined_by_switches(
        &self,
        kind: CutKind,
        joins: impl Fn(&[(u8, Option<u32>)]) -> bool,
    ) -> Option<Partition> {
        let mut sets = self.domains();
        for (id, _) in self.topology.links() {
            if self.topology.family(id) != LinkFamily::Network {
                continue;
            }
            let (from, to) = self.topology.ends(id);
            let ends = [from, to].map(|end| self.switches.get(&end).copied());
            let mut switches = ends.into_iter().flatten();
            let (first, second) = (switches.next(), switches.next());
            let of: &[(u8, Option<u32>)] = match (&first, &second) {
                (Some(a), Some(b)) => &[*a, *b],
                (Some(a), None) => &[*a],
                _ => &[],
            };
            if joins(of) {
                sets.join(from, to);
            }
        }
        self.cut(kind, &mut sets, |_| true)
    }
}

/// Bytes per second out of and into a GPU.
struct Ports {
    nvlink: (u64, u64),
    /// To PCIe, or by C2C to its CPU.
    local: (u64, u64),
}

/// How a GPU reaches others of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partners {
    /// By NVLinks, all of them.
    ByNvlink,
    /// Some by NVLinks, others by PCIe.
    ByBoth,
    /// It has no NVLinks.
    Apart,
}
