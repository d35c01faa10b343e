//! The machine as a graph of devices and directed links.
//!
//! A [`Topology`] is made by [`super::expand()`] and never changes: faults are flags and
//! factors that the engine applies, so ids stay valid. Ids are dense and index tables.

use super::architecture::Architecture;
use super::hardware::{
    CpuVendor, DeviceModel, GpuModel, LinkFamily, LinkModel, NicModel, ProcessorModel, Sourced,
    SwitchModel,
};
use super::mtu::Mtu;
use super::spec::RoutingPolicy;
use fabricsim_units::{Bandwidth, Money, Time};
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A device of one topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// One direction of a bundle of parallel lanes between two devices; between switches of a fabric
/// that hashes flows, of one cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A node (one operating system), in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl DeviceId {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// A GPU.
    Gpu,
    /// An NVSwitch ASIC.
    NvSwitch,
    /// A CPU socket or NUMA node with its root complex and memory.
    Cpu,
    /// A PCIe switch.
    PcieSwitch,
    /// A network interface.
    Nic,
    /// A switch of the network.
    Switch,
    /// A drive or a file server.
    Storage,
}

impl DeviceKind {
    /// The name used in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            DeviceKind::Gpu => "GPU",
            DeviceKind::NvSwitch => "NVSwitch",
            DeviceKind::Cpu => "CPU",
            DeviceKind::PcieSwitch => "PCIe switch",
            DeviceKind::Nic => "NIC",
            DeviceKind::Switch => "network switch",
            DeviceKind::Storage => "storage",
        }
    }
}

/// A device: small, because a large machine has hundreds of thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// What it is.
    pub kind: DeviceKind,
    /// Its model, an index into [`Topology::device_models`].
    pub model: u16,
    /// The instance or fabric it belongs to, an index into [`Topology::places`].
    pub place: u32,
    /// Its device name within the place, an index into [`Topology::stems`].
    pub stem: u16,
    /// Its number among the devices of that name in that place.
    pub index: u16,
}

/// One direction of a bundle of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its model, an index into [`Topology::link_models`].
    pub model: u16,
    /// Lanes (PCIe), links (NVLink) or cables in the bundle.
    pub lanes: u16,
}

/// An instance of a component, or a fabric: where devices are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Full name: `node3`, `rack0/tray5`, or the fabric's name. Empty for the root.
    pub name: String,
    /// The node this place is or belongs to.
    pub node: Option<NodeId>,
    /// The fabric's index, if this is a fabric.
    pub fabric: Option<u16>,
    /// The price of its component, an index into [`Topology::prices`].
    pub price: Option<u16>,
    /// GPUs that are in it by its file, and not in this machine, which has fewer nodes.
    pub absent_gpus: u32,
}

/// One operating system's devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Full name: `node3` or `rack0/tray5`.
    pub name: String,
    /// Its GPUs in rank order.
    pub gpus: Vec<DeviceId>,
    /// Its NICs that face a fabric, in port order.
    pub nics: Vec<DeviceId>,
}

/// A fabric as built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fabric {
    /// Its name in the file.
    pub name: String,
    /// How paths are chosen.
    pub routing: RoutingPolicy,
    /// Its switches.
    pub switches: Vec<DeviceId>,
    /// The switches' tiers, in the order of `switches`: 0 leaf, 1 spine, 2 core.
    pub tiers: Vec<u8>,
    /// The switches' groups, in the order of `switches`: in a dragonfly a path leaves its
    /// group once at most. Empty in fabrics without groups.
    pub groups: Vec<u32>,
    /// The NICs that it joins.
    pub ports: Vec<DeviceId>,
    /// Ports of each switch of tier 0 that are for NICs, whether one is there or not; 0 where that is
    /// not known.
    pub leaf_ports: u32,
}

/// A machine: devices, links, nodes, fabrics, and the models behind them.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Devices and directed links. Never remove from it: ids are positions.
    pub graph: DiGraph<Device, Link, u32>,
    /// Instances and fabrics.
    pub places: Vec<Place>,
    /// Device names without numbers.
    pub stems: Vec<String>,
    /// By stem: the RDMA names of its NICs, by number; empty where the file does not say them.
    pub rdma: Vec<Vec<String>>,
    /// Nodes in order.
    pub nodes: Vec<Node>,
    /// Fabrics in order of name.
    pub fabrics: Vec<Fabric>,
    /// Device models with their names.
    pub device_models: Vec<(String, DeviceModel)>,
    /// Link models with their names.
    pub link_models: Vec<(String, LinkModel)>,
    /// The generations of the GPU models, by name.
    pub architectures: BTreeMap<String, Architecture>,
    /// What CPUs of each make have in common.
    pub processors: BTreeMap<CpuVendor, ProcessorModel>,
    /// Prices of components that are sold as a whole.
    pub prices: Vec<Sourced<Money>>,
    /// What fans and power supplies of servers take, as a part of what all else in them draws.
    pub server_overhead: Option<Sourced<f64>>,
    /// What links from and to storage devices carry at most: what those read and write.
    pub limits: BTreeMap<LinkId, Bandwidth>,
    /// Of its networks' frames, where that was asked for; else what the models of links say.
    pub mtu: Option<Mtu>,
}

impl Fabric {
    /// How many groups its switches form; 0 in a fabric without groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        let mut groups = self.groups.clone();
        groups.sort_unstable();
        groups.dedup();
        groups.len()
    }
}

impl Topology {
    /// The RDMA name of a NIC (`mlx5_0`), if its file says it.
    ///
    /// # Panics
    /// If the NIC is of another topology.
    #[must_use]
    pub fn rdma_name(&self, nic: DeviceId) -> Option<&str> {
        let device = self.device(nic);
        let names = self.rdma.get(usize::from(device.stem))?;
        names.get(usize::from(device.index)).map(String::as_str)
    }

    /// Number of devices.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.graph.node_count()
    }

    /// Number of directed links.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.graph.edge_count()
    }

    /// All devices in order of id.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &Device)> {
        self.graph
            .node_weights()
            .enumerate()
            .map(|(i, d)| (DeviceId(i as u32), d))
    }

    /// All links in order of id.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.graph
            .edge_weights()
            .enumerate()
            .map(|(i, l)| (LinkId(i as u32), l))
    }

    /// A device.
    ///
    /// # Panics
    /// If the id is of another topology.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.graph[NodeIndex::new(id.index())]
    }

    /// A link.
    ///
    /// # Panics
    /// If the id is of another topology.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.graph[EdgeIndex::new(id.index())]
    }

    /// Where a link leads from and to.
    ///
    /// # Panics
    /// If the id is of another topology.
    #[must_use]
    pub fn ends(&self, id: LinkId) -> (DeviceId, DeviceId) {
        let (from, to) = self
            .graph
            .edge_endpoints(EdgeIndex::new(id.index()))
            .expect("link ids of a topology are its edges, which are never removed");
        (DeviceId(from.index() as u32), DeviceId(to.index() as u32))
    }

    /// The links that leave a device, with their far ends, in order of id.
    #[must_use]
    pub fn links_from(&self, id: DeviceId) -> Vec<(LinkId, DeviceId)> {
        let mut links: Vec<_> = self.links_out_of(id).collect();
        links.sort_unstable();
        links
    }

    /// As [`Topology::links_from`], in no order.
    pub fn links_out_of(&self, id: DeviceId) -> impl Iterator<Item = (LinkId, DeviceId)> + '_ {
        use petgraph::visit::EdgeRef;
        self.graph.edges(NodeIndex::new(id.index())).map(|e| {
            (
                LinkId(e.id().index() as u32),
                DeviceId(e.target().index() as u32),
            )
        })
    }

    /// Full name: `node0/gpu3`, `compute/leaf12`. Devices of a kind that its place has
    /// only one of still carry their number.
    #[must_use]
    pub fn device_name(&self, id: DeviceId) -> String {
        let device = self.device(id);
        let place = &self.places[device.place as usize].name;
        let stem = &self.stems[device.stem as usize];
        if place.is_empty() {
            format!("{stem}{}", device.index)
        } else {
            format!("{place}/{stem}{}", device.index)
        }
    }

    /// Both ends: `node0/gpu3 > node0/nvswitch1`; with a number where cables between the same two
    /// switches count singly: `compute/leaf0 > compute/spine1 #3`.
    #[must_use]
    pub fn link_name(&self, id: LinkId) -> String {
        let (from, to) = self.ends(id);
        let ends = format!("{} > {}", self.device_name(from), self.device_name(to));
        match self.cable_number(id) {
            Some(number) => format!("{ends} #{number}"),
            None => ends,
        }
    }

    /// A link's position among those from the same device to the same other one, from 0 on; `None`
    /// for the only one.
    #[must_use]
    pub fn cable_number(&self, id: LinkId) -> Option<usize> {
        use petgraph::visit::EdgeRef;
        let (from, to) = self.ends(id);
        let [from, to] = [from, to].map(|device| NodeIndex::new(device.index()));
        let (mut all, mut before) = (0, 0);
        for edge in self.graph.edges_connecting(from, to) {
            all += 1;
            before += usize::from(edge.id().index() < id.index());
        }
        (all > 1).then_some(before)
    }

    /// The model of a link.
    #[must_use]
    pub fn link_model(&self, id: LinkId) -> &LinkModel {
        &self.link_models[self.link(id).model as usize].1
    }

    /// The family of a link.
    #[must_use]
    pub fn family(&self, id: LinkId) -> LinkFamily {
        self.link_model(id).family
    }

    /// What payload can use of a link: raw rate × lanes × what encoding and headers leave, or what
    /// the storage device at its end reads or writes.
    #[must_use]
    pub fn rate(&self, id: LinkId) -> Bandwidth {
        self.limited(id, self.wire_rate(id))
    }

    /// [`Topology::rate`], whatever is at the link's ends.
    pub(super) fn wire_rate(&self, id: LinkId) -> Bandwidth {
        self.link_model(id).rate(u32::from(self.link(id).lanes))
    }

    fn limited(&self, id: LinkId, rate: Bandwidth) -> Bandwidth {
        self.limits.get(&id).map_or(rate, |&limit| rate.min(limit))
    }

    /// [`Topology::rate`] for many links, one after the other: those next to each other are
    /// mostly of one kind, whose rate is worked out once.
    pub fn rates(&self) -> impl Fn(LinkId) -> Bandwidth + '_ {
        let last: Cell<Option<(Link, Bandwidth)>> = Cell::new(None);
        move |id| {
            let link = *self.link(id);
            if let Some((_, rate)) = last.get().filter(|(known, _)| *known == link) {
                return self.limited(id, rate);
            }
            let rate = self.wire_rate(id);
            last.set(Some((link, rate)));
            self.limited(id, rate)
        }
    }

    /// The raw rate of a link.
    #[must_use]
    pub fn raw_rate(&self, id: LinkId) -> Bandwidth {
        self.link_model(id).raw_rate(u32::from(self.link(id).lanes))
    }

    /// The latency of a link itself.
    #[must_use]
    pub fn latency(&self, id: LinkId) -> Time {
        self.link_model(id).latency.value
    }

    /// The model of a device.
    #[must_use]
    pub fn device_model(&self, id: DeviceId) -> &DeviceModel {
        &self.device_models[self.device(id).model as usize].1
    }

    /// The latency of passing through a device.
    #[must_use]
    pub fn transit_latency(&self, id: DeviceId) -> Time {
        match self.device_model(id) {
            // Nothing passes through these.
            DeviceModel::Gpu(_) | DeviceModel::Storage(_) => Time::ZERO,
            DeviceModel::Nvswitch(m) | DeviceModel::Switch(m) => m.latency.value,
            DeviceModel::Cpu(m) => m.latency.value,
            DeviceModel::PcieSwitch(m) => m.latency.value,
            DeviceModel::Nic(m) => m.latency.value,
        }
    }

    /// The GPU model, if the device is a GPU.
    #[must_use]
    pub fn gpu_model(&self, id: DeviceId) -> Option<&GpuModel> {
        match self.device_model(id) {
            DeviceModel::Gpu(model) => Some(model),
            _ => None,
        }
    }

    /// What thread blocks cost and reach on a device, if it is a GPU.
    #[must_use]
    pub fn architecture(&self, id: DeviceId) -> Option<&Architecture> {
        self.architectures.get(&self.gpu_model(id)?.architecture)
    }

    /// What a proxy thread on a CPU spends on each message through a NIC; nothing if that is not
    /// known.
    #[must_use]
    pub fn message_overhead(&self, cpu: DeviceId, nic: DeviceId) -> Time {
        let of_nic = self
            .nic_model(nic)
            .and_then(|m| m.message_overhead.as_ref());
        let of_cpu = || match self.device_model(cpu) {
            DeviceModel::Cpu(model) => Some(&self.processors.get(&model.vendor)?.message_overhead),
            _ => None,
        };
        of_nic.or_else(of_cpu).map_or(Time::ZERO, |time| time.value)
    }

    /// The driver's part of starting a kernel on a CPU, if it is known by itself.
    #[must_use]
    pub fn driver_start(&self, cpu: DeviceId) -> Option<Time> {
        match self.device_model(cpu) {
            DeviceModel::Cpu(model) => {
                let processor = self.processors.get(&model.vendor)?;
                Some(processor.driver_start.as_ref()?.value)
            }
            _ => None,
        }
    }

    /// The NIC model, if the device is a NIC.
    #[must_use]
    pub fn nic_model(&self, id: DeviceId) -> Option<&NicModel> {
        match self.device_model(id) {
            DeviceModel::Nic(model) => Some(model),
            _ => None,
        }
    }

    /// The NICs of its node that the transport drives as one with this one
    /// ([`NicModel::rails`]), itself among them; empty if it is none's.
    #[must_use]
    pub fn rails(&self, nic: DeviceId) -> &[DeviceId] {
        let nics = self.node_of(nic).map(|n| &*self.nodes[n.index()].nics);
        let nics = nics.unwrap_or_default();
        let Some(at) = nics.iter().position(|&other| other == nic) else {
            return &[];
        };
        let rails = self.nic_model(nic).and_then(|m| m.rails.as_ref());
        let rails = rails.map_or(1, |rails| rails.value.max(1) as usize);
        let first = at - at % rails;
        let alike = |&other: &DeviceId| self.device(other).model == self.device(nic).model;
        match nics.get(first..first + rails) {
            Some(all) if all.iter().all(alike) => all,
            _ => &nics[at..=at],
        }
    }

    /// The model of an NVSwitch or a network switch.
    #[must_use]
    pub fn switch_model(&self, id: DeviceId) -> Option<&SwitchModel> {
        match self.device_model(id) {
            DeviceModel::Nvswitch(model) | DeviceModel::Switch(model) => Some(model),
            _ => None,
        }
    }

    /// Whether a NIC may read and write a GPU's memory itself (GPUDirect RDMA), as far as the
    /// two devices are concerned; false for devices of other kinds.
    #[must_use]
    pub fn gpu_direct(&self, gpu: DeviceId, nic: DeviceId) -> bool {
        self.gpu_model(gpu).is_some_and(|model| model.gpu_direct)
            && self.nic_model(nic).is_some_and(|model| model.gpu_direct)
    }

    /// The node that a device belongs to; `None` for fabric switches and NVSwitches
    /// that serve several nodes.
    #[must_use]
    pub fn node_of(&self, id: DeviceId) -> Option<NodeId> {
        self.places[self.device(id).place as usize].node
    }

    /// All GPUs: node by node, each node's in rank order.
    pub fn gpus(&self) -> impl Iterator<Item = DeviceId> {
        self.nodes.iter().flat_map(|n| n.gpus.iter().copied())
    }
}
