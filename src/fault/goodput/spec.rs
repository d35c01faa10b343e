//! A long run: a cluster that fails, and what is done about it.

use crate::published::Component;
use fabricsim_units::{Bandwidth, Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What runs for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes that the job runs on.
    pub nodes: u32,
    /// GPUs of each node.
    pub gpus_per_node: u32,
    /// NICs of each node.
    pub nics_per_node: u32,
    /// NVSwitches of each node.
    pub nvswitches_per_node: u32,
    /// How long a step takes.
    pub step: Span,
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
    /// How long a node is out that has to be repaired. If absent, no node ever is: a restart
    /// mends everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Span>,
    /// Share of failures, 0 to 1, after which a node is out; as published if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<f64>,
    /// How often the run is simulated, each time with other failures; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}
