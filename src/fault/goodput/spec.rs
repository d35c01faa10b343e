//! A long run: a cluster that fails, and what is done about it.

use super::shared::SharedParts;
use crate::published::Component;
use fabricsim_units::{Bandwidth, Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What runs for long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes that the job runs on.
    pub nodes: u32,
    /// GPUs of each node.
    pub gpus_per_node: u32,
    /// NICs of each node.
    pub nics_per_node: u32,
    /// NVSwitches, of all nodes together.
    pub nvswitches: u32,
    /// What stops several nodes at once.
    pub shared: SharedParts,
    /// How long a step takes.
    pub step: Span,
    /// How long the machine's storage takes for a checkpoint, for [`CostSpec::Storage`].
    pub storage: StorageTimes,
}

impl Cluster {
    /// GPUs, of all nodes together.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }

    /// How many parts of a kind there are.
    #[must_use]
    pub fn count(&self, component: Component) -> u64 {
        match component {
            Component::Gpu => self.gpus(),
            Component::Nic => u64::from(self.nodes) * u64::from(self.nics_per_node),
            Component::Nvswitch => u64::from(self.nvswitches),
            Component::Host | Component::Network | Component::Software => u64::from(self.nodes),
            Component::Leaf => self.shared.leaves.len() as u64,
            Component::Rack => self.shared.racks.len() as u64,
        }
    }
}

/// How long checkpoints take on the storage of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageTimes {
    /// From the GPUs to the memory of their hosts.
    pub copy: Span,
    /// To storage, all that write at once.
    pub write: Span,
    /// From storage, all GPUs at once.
    pub read: Span,
}

/// A long run with failures and checkpoints. Nodes, GPUs and the step are the job's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongRunSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How long the run is on the cluster, all told.
    pub duration: Span,
    /// When checkpoints are made, and what they cost.
    pub checkpoint: CheckpointSpec,
    /// Nodes that stand by for those that are out; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares: Option<u32>,
    /// Published rates of failures by name; `llama3-405b` if absent, `none` for those in `mtbf`
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<String>,
    /// The mean time between failures of one part of a kind, in place of what is published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mtbf: BTreeMap<Component, Span>,
    /// From a failure until it is noticed, such as NCCL's timeout; as published if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Span>,
    /// From having all nodes until the first step: processes, communicators, reading the
    /// checkpoint; as published if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Span>,
    /// The parts of a restart, in place of `restart`: they grow with the number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_parts: Option<RestartSpec>,
    /// How long a node is out that has to be repaired. If absent, no node ever is: a restart
    /// mends everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Span>,
    /// Share of failures, 0 to 1, after which a node is out; as published if absent. After failures
    /// of what nodes share (leaf switches, racks, NVSwitches of several nodes) all of these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<f64>,
    /// Nodes that stand by inside each NVLink domain of several nodes (2: 18 trays of which 16 work), so
    /// that it goes on; 0 if absent: one node that is out takes its whole domain with it, which as many
    /// of `spares` then have to stand in for. The nodes of the job are without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares_per_domain: Option<u32>,
    /// How often the run is simulated, each time with other failures; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

/// What a restart consists of, each part as published for so many GPUs if absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Starting processes, and all else that is not below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Span>,
    /// Making communicators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub communicators: Option<Span>,
    /// Making communicators takes what `job.communicator` says of those of the job (`world`, `tp`, `cp`, `pp`, `dp`),
    /// one kind after the other, in place of what is published. False if absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub make_communicators: bool,
    /// Reading the checkpoint; if absent what storage takes, or with a `blocking` or `write` cost as long
    /// as that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Span>,
}

/// When checkpoints are made, and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// How much work there is between two.
    pub interval: IntervalSpec,
    /// What one costs.
    pub cost: CostSpec,
}

/// How much work there is between two checkpoints, rounded to whole steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntervalSpec {
    /// So much.
    Every(Span),
    /// So many steps.
    Steps(u64),
    /// Young's √(2 C M).
    Young,
    /// Daly's estimate of higher order.
    Daly,
    /// The availability form with recovery (detection and restart).
    Recovery,
    /// The best for failures that come at a constant rate, if nodes are never waited for.
    Exact,
    /// The best one in simulations.
    Best,
}

/// How long training stands still for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CostSpec {
    /// So long.
    Blocking(Span),
    /// As long as it takes to write.
    Write {
        /// The size of a checkpoint of the whole job.
        size: Bytes,
        /// What all nodes together can write.
        rate: Bandwidth,
    },
    /// As long as weights and optimizer states take from the GPUs to the machine's storage, over the
    /// links between them.
    Storage(StorageSpec),
}

/// Checkpoints on the storage devices of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which devices, as a selector (`server[*]/pool`); if absent those of file servers, or if there are
    /// none the drives of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,
    /// Whether training goes on while a checkpoint is written: it stands still for the copy to the hosts'
    /// memory alone. A checkpoint counts once it is written; the next one waits for that. False if absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asynchronous: bool,
    /// Whether drives and interfaces read and write GPU memory themselves (GPUDirect Storage). If false,
    /// a thread reads into host memory and then copies, one after the other; true if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gds: Option<bool>,
}
