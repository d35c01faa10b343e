//! A scenario's `job.calls`.

use fabricsim_fault::Ranks;
use fabricsim_units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What ranks call, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What a work of an NCCL group may take before PyTorch's watchdog gives it up; 600 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Time>,
    /// Communicators by name, beside `world`, which has all ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub communicators: BTreeMap<String, Ranks>,
    /// Whether communicators have streams of their own; `one` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsSpec>,
    /// Who calls what. Ranks that are in none call nothing.
    pub ranks: Vec<RankCallsSpec>,
}

/// How a rank's operations follow each other on its GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamsSpec {
    /// One after the other, as on one stream, or where all streams share a queue (`CUDA_DEVICE_MAX_CONNECTIONS=1`).
    #[default]
    One,
    /// Those of different communicators side by side, as PyTorch's groups do where SMs suffice.
    PerCommunicator,
}

/// What some ranks call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankCallsSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which ranks.
    pub ranks: Ranks,
    /// What they call, in order. Operations do not hold up the process.
    pub calls: Vec<CallSpec>,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum CallSpec {
    /// An all-reduce.
    AllReduce(OperationSpec),
    /// An all-gather.
    AllGather(OperationSpec),
    /// A reduce-scatter.
    ReduceScatter(OperationSpec),
    /// A broadcast of the communicator's first rank.
    Broadcast(OperationSpec),
    /// A reduce to the communicator's first rank.
    Reduce(OperationSpec),
    /// An all-to-all.
    AllToAll(OperationSpec),
    /// PyTorch's barrier of an NCCL group (an all-reduce of one element) on `world`.
    Barrier,
    /// PyTorch's `monitored_barrier`, on hosts.
    MonitoredBarrier(MonitoredSpec),
    /// A send to a rank.
    Send(MessageSpec),
    /// A receive from a rank.
    Recv(MessageSpec),
    /// Sends and receives at once (`ncclGroupStart`, `ncclGroupEnd`).
    Group(Vec<CallSpec>),
    /// Registering a window, which all ranks of a communicator do together (`ncclCommWindowRegister`).
    Register(RegisterSpec),
    /// The process waits for all of its operations.
    Synchronize,
    /// The process does something else for so long.
    Wait(Time),
    /// The process dies, once its operations are over.
    Crash,
}

/// An operation of a communicator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Its size, as nccl-tests counts it.
    pub size: Bytes,
    /// The communicator; `world` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The rank's buffer is registered (`ncclCommRegister`). False if absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub registered: bool,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The other rank, by its number in the job.
    pub with: u32,
    /// Its size.
    pub size: Bytes,
    /// The communicator; `world` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}

/// A barrier that says who is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MonitoredSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The communicator; `world` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// How long its first rank waits for others; the job's `timeout` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Time>,
}

/// Which communicator a window is registered with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The communicator; `world` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
}
