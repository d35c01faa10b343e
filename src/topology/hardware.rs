//! What devices and links are made of: the figures, each with its source.
//!
//! A hardware file (one of those in `topologies/hardware/`, embedded, or the `hardware` part
//! of a topology file) gives models names; a topology file then refers to them. Every
//! figure is a [`Sourced`] value: a number with a unit and where it comes from.

use super::architecture::Architecture;
use super::power::{CableModel, PowerModel};
use fabricsim_units::{Bandwidth, Bytes, Money, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A figure and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sourced_{T}")]
pub struct Sourced<T> {
    /// The figure; with its unit, where it is text.
    pub value: T,
    /// Data sheet, manual, published constant or measurement.
    pub source: String,
    /// Anything else worth knowing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Named models of links and devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// JSON Schema of this file, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Kinds of link, by name. The shipped ones are known, too.
    #[serde(default)]
    pub links: BTreeMap<String, LinkModel>,
    /// Generations of GPUs, by name. The shipped ones are known, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub architectures: BTreeMap<String, Architecture>,
    /// What CPUs of a make have in common.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processors: BTreeMap<CpuVendor, ProcessorModel>,
    /// Kinds of device, by name. The shipped ones are known, too.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceModel>,
    /// What a server's fans and power supplies take, as a part of what all else in it draws: 0.1 is a tenth.
    /// Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_overhead: Option<Sourced<f64>>,
}

/// What a link belongs to; decides which paths may use it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LinkFamily {
    /// NVLink, between GPUs or between a GPU and an NVSwitch.
    Nvlink,
    /// NVLink-C2C, between a GPU and its CPU.
    C2c,
    /// PCI Express.
    Pcie,
    /// Between CPU sockets or NUMA nodes (UPI, xGMI).
    Socket,
    /// InfiniBand or Ethernet cables.
    Network,
}

impl LinkFamily {
    /// Every family, in the order in which reports list them.
    pub const ALL: [LinkFamily; 5] = [
        LinkFamily::Nvlink,
        LinkFamily::C2c,
        LinkFamily::Pcie,
        LinkFamily::Socket,
        LinkFamily::Network,
    ];

    /// The name used in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            LinkFamily::Nvlink => "NVLink",
            LinkFamily::C2c => "C2C",
            LinkFamily::Pcie => "PCIe",
            LinkFamily::Socket => "socket link",
            LinkFamily::Network => "network",
        }
    }
}

/// A kind of link: its raw rate and what is lost on the way, as separate physical terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What the link belongs to.
    pub family: LinkFamily,
    /// Raw rate of one lane (PCIe), one link (NVLink) or one cable, one direction: `"800Gb/s"` of a cable that
    /// is sold as 800G.
    pub lane_rate: Sourced<Bandwidth>,
    /// What encoding, headers and flow control leave of it; the usable rate is the product.
    #[serde(default)]
    pub keeps: Vec<Keep>,
    /// From the first bit in at one end to the first bit out at the other, without
    /// the devices at the ends.
    pub latency: Sourced<Time>,
    /// Of a network: the cables. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<CableModel>,
}

/// One physical loss on a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// The mechanism: encoding, packet headers, flow control …
    pub what: String,
    /// The fraction that remains, above 0 and at most 1.
    pub fraction: f64,
    /// Where the fraction comes from.
    pub source: String,
    /// Whose headers they are, of a network whose frames may have another size (`mtu`). None if absent:
    /// the fraction is that of any frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
}

/// Whose headers packets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Headers {
    /// TCP over IP.
    Tcp,
    /// RDMA over Ethernet, version 2.
    Roce,
    /// InfiniBand.
    Infiniband,
}

impl LinkModel {
    /// The fraction of the raw rate that payload can use.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        self.keeps.iter().map(|k| k.fraction).product()
    }

    /// Usable rate of `lanes` lanes, one direction: exactly `lanes` times that of one.
    #[must_use]
    pub fn rate(&self, lanes: u32) -> Bandwidth {
        let one = self.lane_rate.value.scaled(self.efficiency());
        Bandwidth::from_bytes_per_sec(one.bytes_per_sec().saturating_mul(u64::from(lanes)))
    }

    /// Raw rate of `lanes` lanes, one direction.
    #[must_use]
    pub fn raw_rate(&self, lanes: u32) -> Bandwidth {
        self.lane_rate.value.scaled(f64::from(lanes))
    }
}

/// A kind of device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceModel {
    /// A GPU.
    Gpu(GpuModel),
    /// An NVSwitch ASIC.
    Nvswitch(SwitchModel),
    /// A CPU socket or NUMA node, with its root complex.
    Cpu(CpuModel),
    /// A PCIe switch.
    PcieSwitch(PcieSwitchModel),
    /// A network interface (one port).
    Nic(NicModel),
    /// A switch of the network.
    Switch(SwitchModel),
    /// A drive or a file server.
    Storage(StorageModel),
}

impl DeviceModel {
    /// What people call it.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            DeviceModel::Gpu(m) => &m.title,
            DeviceModel::Nvswitch(m) | DeviceModel::Switch(m) => &m.title,
            DeviceModel::Cpu(m) => &m.title,
            DeviceModel::PcieSwitch(m) => &m.title,
            DeviceModel::Nic(m) => &m.title,
            DeviceModel::Storage(m) => &m.title,
        }
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people: "NVIDIA H100 SXM 80 GB".
    pub title: String,
    /// CUDA compute capability × 10, as NCCL writes it: 80, 90, 100.
    pub compute_capability: u32,
    /// Device memory.
    pub memory: Sourced<Bytes>,
    /// Device memory bandwidth.
    pub memory_bandwidth: Sourced<Bandwidth>,
    /// Dense BF16 rate in 1e12 operations per second.
    pub bf16_tflops: Sourced<f64>,
    /// Dense FP8 rate in 1e12 operations per second; absent if the chip has no FP8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8_tflops: Option<Sourced<f64>>,
    /// Dense FP4 rate in 1e12 operations per second; absent if the chip has no FP4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp4_tflops: Option<Sourced<f64>>,
    /// How many times as fast its kernels go on tensor cores as its generation's shares of the
    /// peak say, where it may draw more power at the same peak; 1 if absent. Laws of kernels take
    /// it for products in 16 bits, up to the peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained: Option<Sourced<f64>>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
    /// What an hour of one costs with its share of the machine, as clouds rent it. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Sourced<Money>>,
    /// How many streaming multiprocessors it has; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sms: Option<Sourced<u32>>,
    /// Its second-level cache, which profiles of kernels find small buffers in again; absent if that
    /// is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_cache: Option<Sourced<Bytes>>,
    /// Whether the driver lets GPUs of this kind reach each other's memory over PCIe.
    #[serde(default = "yes")]
    pub peer_to_peer: bool,
    /// Whether NICs that can (their own `gpu_direct`) may read and write its memory.
    #[serde(default = "yes")]
    pub gpu_direct: bool,
    /// The generation of its multiprocessors: a name among the hardware's architectures, which say what a
    /// collective's thread blocks cost and reach.
    pub architecture: String,
}

fn yes() -> bool {
    true
}

/// A switch: of NVLink or of the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people.
    pub title: String,
    /// How many links (of one lane) it takes.
    pub ports: Sourced<u32>,
    /// Port to port.
    pub latency: Sourced<Time>,
    /// What a port that has to send on loses when very many others send through it at once, as a part of its
    /// link's rate: they come at random, too many or too few at a time. Of two it loses half of that. Nothing
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merging: Option<Sourced<f64>>,
    /// Of an NVSwitch: whether it multicasts and reduces what GPUs store (NVLink SHARP).
    #[serde(default)]
    pub multicast: bool,
    /// Of a network switch: the payload of each port that it reduces on the way (SHARP), one
    /// direction; absent if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<Sourced<Bandwidth>>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}

impl SwitchModel {
    /// What is left of a link's rate when bytes come to it through so many other ports.
    #[must_use]
    pub fn merged(&self, ports: u32) -> f64 {
        let lost = self.merging.as_ref().map_or(0.0, |merging| merging.value);
        1.0 - lost * (1.0 - 1.0 / f64::from(ports.max(1)))
    }
}

/// A CPU's make, as NCCL distinguishes it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// NVIDIA Grace and other Arm CPUs.
    Arm,
}

impl fmt::Display for CpuVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CpuVendor::Intel => "intel",
            CpuVendor::Amd => "amd",
            CpuVendor::Arm => "arm",
        })
    }
}

/// What CPUs of a make have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorModel {
    /// What a process's proxy thread spends on each message over RDMA, sending and receiving; the
    /// messages that its other connections send at the same time wait for it.
    pub message_overhead: Sourced<Time>,
    /// The driver's part of starting a kernel, for which threads of one process wait for each other;
    /// all that a start takes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_start: Option<Sourced<Time>>,
}

/// A CPU socket or NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people.
    pub title: String,
    /// The maker.
    pub vendor: CpuVendor,
    /// Whether GPUs may reach each other's memory through this root complex.
    #[serde(default)]
    pub peer_to_peer: bool,
    /// Its cores, without counting their hyper-threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Sourced<u32>>,
    /// Memory bandwidth of the socket, shared by reads and writes.
    pub memory_bandwidth: Sourced<Bandwidth>,
    /// Memory of the socket, as machines with this processor have it. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Sourced<Bytes>>,
    /// Through the root complex, one way.
    pub latency: Sourced<Time>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}

/// What forwards PCIe traffic: not all of it is a switch, and `nvidia-smi` and NCCL name
/// paths by the difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PcieRole {
    /// A switch.
    #[default]
    Switch,
    /// A part of the switch above it, as chips have that show themselves as two levels:
    /// `nvidia-smi` counts it (PXB), NCCL does not (PIX).
    Section,
    /// A host bridge with several root ports: what turns round in it is PHB, what goes on to
    /// another one of the same CPU is NODE. A link straight into a CPU has a bridge of its own.
    HostBridge,
    /// The slot that several ports of one network card share; no switch to anyone.
    Card,
}

impl PcieRole {
    /// The default, which files leave out.
    fn is_switch(&self) -> bool {
        *self == PcieRole::Switch
    }
}

/// A PCIe switch, or something else that forwards PCIe traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcieSwitchModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people.
    pub title: String,
    /// What it is; a switch if absent.
    #[serde(default, skip_serializing_if = "PcieRole::is_switch")]
    pub role: PcieRole,
    /// Port to port.
    pub latency: Sourced<Time>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}

/// What a NIC speaks: which of NCCL's network plugins drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NicProtocol {
    /// InfiniBand verbs.
    Infiniband,
    /// RDMA over converged Ethernet.
    Roce,
    /// AWS's scalable reliable datagrams, by libfabric.
    Efa,
    /// HPE Slingshot, by libfabric.
    Slingshot,
    /// TCP: sockets, or a plugin that has the NIC place payload in GPU memory.
    Tcp,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people.
    pub title: String,
    /// What it speaks.
    pub protocol: NicProtocol,
    /// Whether it reads and writes GPU memory directly (GPUDirect RDMA).
    pub gpu_direct: bool,
    /// One way through the interface: doorbell, reading the descriptor, first byte on the wire.
    pub latency: Sourced<Time>,
    /// What a process's proxy thread spends on each message; if absent, what its CPU takes over RDMA
    /// (`message_overhead` of the make of processors).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_overhead: Option<Sourced<Time>>,
    /// More for messages of up to so many bytes from GPU memory: the processor copies them into
    /// the descriptor. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineModel>,
    /// More for messages of more than so many bytes on the wire: both sides agree on them
    /// before they are sent. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendezvous: Option<Box<RendezvousModel>>,
    /// What software takes on the receiving side after the last byte has arrived; it keeps what it
    /// has yet to deliver, so that neither side's buffers are held back. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Sourced<Time>>,
    /// What its transport's plugin says to NCCL of its latency, by which NCCL chooses algorithms;
    /// none if absent (InfiniBand).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_latency: Option<Sourced<Time>>,
    /// So many neighbours of a node are one interface to NCCL: the transport splits each message over
    /// them. 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rails: Option<Sourced<u32>>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}

/// Small messages of a network interface, which travel in their descriptors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineModel {
    /// Messages with up to so many bytes on the wire are small.
    pub up_to: Sourced<Bytes>,
    /// What the proxy thread spends on each of them more, if it lies in GPU memory.
    pub time: Sourced<Time>,
    /// What fetching larger ones from memory takes, before they leave. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Sourced<Time>>,
}

/// Large messages of a network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RendezvousModel {
    /// Messages with more bytes on the wire are large.
    pub above: Sourced<Bytes>,
    /// The same of what LL sends; as all others' if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ll: Option<Sourced<Bytes>>,
    /// What each of them takes more.
    pub time: Sourced<Time>,
    /// What the thread that drives the interface spends on each of them, at either end. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Sourced<Time>>,
}

/// A drive, or a file server as one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// For people: "NVMe drive, 3.84 TB, PCIe 4".
    pub title: String,
    /// What it holds.
    pub capacity: Sourced<Bytes>,
    /// Bytes per second that it reads, in large sequential requests.
    pub read_rate: Sourced<Bandwidth>,
    /// Bytes per second that it writes, in large sequential requests.
    pub write_rate: Sourced<Bandwidth>,
    /// From a request to the first byte that is read.
    pub latency: Sourced<Time>,
    /// What it draws; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerModel>,
    /// What one costs; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
}
