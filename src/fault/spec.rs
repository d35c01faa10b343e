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
    /// From one start to the next; at least 1 us.
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
