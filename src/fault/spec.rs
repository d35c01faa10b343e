//! The faults of a scenario: where, what and when.
//!
//! Like every input: unknown fields are refused, variants are externally tagged, quantities
//! are strings with units, every object may carry a `"comment"`. Times count from the start of
//! the simulation.

use super::distribution::Distribution;
use super::ranks::Ranks;
use fabricsim_units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The faults of a scenario, in any order; those that meet add up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FaultSpec(pub Vec<FaultKind>);

/// One fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// GPUs that compute slowly, always or at times, as under thermal throttling.
    SlowGpu(SlowGpu),
    /// Compute that takes a little longer or shorter every time.
    Jitter(Jitter),
    /// Steps that start late, since the data loader has nothing ready.
    DataLoaderStall(DataLoaderStall),
    /// Links with less than their rate.
    Link(DegradedLink),
    /// Links that go down and come back.
    Flap(Flap),
    /// Devices that fail and stay failed: GPUs, NICs, NVSwitches, switches or whole nodes.
    Failed(Failed),
    /// A slower way that software takes without an error.
    Fallback(Fallback),
    /// Nodes with another release of NCCL, with which none of the others talks.
    OtherRelease(OtherRelease),
}

/// A slower way that software takes without an error. Needs `because`, `to`, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// What is taken instead; what follows from `because` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<FallTo>,
    /// On which nodes, such as `node[0-3]`; all if absent. Only interfaces that go through host memory
    /// may be some nodes' alone: all ranks have one network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
}

/// Why software takes a slower way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// The module nvidia_peermem is not loaded: interfaces do not reach GPU memory.
    NoPeermem,
    /// A container without `/dev/infiniband`: NCCL finds no verbs.
    NoRdmaDevices,
    /// The network's library or plugin is of a version that NCCL does not load.
    VersionMismatch,
    /// The process group was made with Gloo.
    GlooBackend,
}

impl Because {
    /// All of them.
    pub const ALL: [Because; 4] = [
        Because::NoPeermem,
        Because::NoRdmaDevices,
        Because::VersionMismatch,
        Because::GlooBackend,
    ];

    /// What files and flags call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Because::NoPeermem => "no_peermem",
            Because::NoRdmaDevices => "no_rdma_devices",
            Because::VersionMismatch => "version_mismatch",
            Because::GlooBackend => "gloo_backend",
        }
    }

    /// What is taken then.
    #[must_use]
    pub const fn to(self) -> FallTo {
        match self {
            Because::NoPeermem => FallTo::Staged,
            Because::NoRdmaDevices | Because::VersionMismatch => FallTo::Tcp,
            Because::GlooBackend => FallTo::Gloo,
        }
    }

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Because::NoPeermem => "nvidia_peermem is not loaded",
            Because::NoRdmaDevices => "no RDMA devices in the container",
            Because::VersionMismatch => {
                "the network's library is of a version that NCCL does not load"
            }
            Because::GlooBackend => "the process group was made with Gloo",
        }
    }
}

/// The slower way.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FallTo {
    /// RDMA through host memory, without GPUDirect.
    Staged,
    /// NCCL over sockets.
    Tcp,
    /// Gloo: a ring of processes in host memory, over sockets.
    Gloo,
}

impl FallTo {
    /// All of them.
    pub const ALL: [FallTo; 3] = [FallTo::Staged, FallTo::Tcp, FallTo::Gloo];

    /// What files and flags call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FallTo::Staged => "staged",
            FallTo::Tcp => "tcp",
            FallTo::Gloo => "gloo",
        }
    }

    /// For people, with what a log says of it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            FallTo::Staged => "RDMA through host memory (NCCL's log has no GDRDMA)",
            FallTo::Tcp => "TCP (NCCL's log says NET/Socket)",
            FallTo::Gloo => "Gloo over TCP (there is no log of NCCL)",
        }
    }
}

/// Nodes with another release of NCCL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherRelease {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which nodes, such as `node1`.
    pub nodes: String,
    /// Their release, such as `2.27.3`.
    pub nccl_version: String,
}

/// GPUs that compute slowly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowGpu {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which ranks.
    pub ranks: Ranks,
    /// How fast they compute, as a share of their normal speed: above 0, at most 1.
    pub speed: f64,
    /// From when on; from the start if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// Until when; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// On and off between `from` and `to`; on all the time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatSpec>,
}

/// A fault that comes back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatSpec {
    /// From one start to the next; at least `"1us"`.
    pub period: Time,
    /// How long the fault lasts each time; shorter than `period`.
    pub duration: Time,
}

/// Compute that takes a little longer or shorter every time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which ranks; each draws for itself.
    pub ranks: Ranks,
    /// A delay before the compute. Needs this or `stretch`, or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Distribution<Time>>,
    /// How much longer the compute takes, as a share of itself: 0.1 is a tenth longer, −0.1 a
    /// tenth shorter, −1 (the least) nothing at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<Distribution<f64>>,
    /// How often it is drawn.
    pub per: Per,
    /// The first step that has it; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<u64>,
    /// The first step that does not have it any more; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<u64>,
}

/// How often something is drawn. What is added comes before the first kernel of the part;
/// what stretches does so to all its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// For every kernel.
    Kernel,
    /// Once for all kernels of a micro-batch.
    MicroBatch,
    /// Once for all kernels of a step.
    Step,
}

/// Steps that start late.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataLoaderStall {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which ranks; each draws for itself.
    pub ranks: Ranks,
    /// Of a step to stall: 0 to 1.
    pub probability: f64,
    /// How long a stall lasts.
    pub stall: Distribution<Time>,
    /// The first step that may stall; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<u64>,
    /// The first step that does not any more; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_step: Option<u64>,
}

/// Links with less than their rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DegradedLink {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Links by their ends: `node0/nic3 > compute` one direction, `node0/nic3 <> compute` both;
    /// devices alone mean all their links.
    pub links: String,
    /// What is left of the rate, 0 to 1. Needs this or `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// What is left for payload in one direction of each link (bundle of lanes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bandwidth>,
    /// From when on; from the start if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// Until when; for ever if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
    /// On and off between `from` and `to`; on all the time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatSpec>,
}

/// Links that go down and come back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flap {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Links by their ends, or devices (such as a NIC) with all their links.
    pub links: String,
    /// When they first go down.
    pub from: Time,
    /// How long they are down each time.
    pub down: Time,
    /// How long they are up in between; needed if they go down more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Time>,
    /// How often they go down; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// Devices that fail and stay failed, with all their links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Devices by their full names (`node0/nvswitch1`, `compute/spine[0]`), or a place with all
    /// its devices (`node3`). The rank of a GPU among them stops.
    pub devices: String,
    /// When they fail.
    pub at: Time,
}
