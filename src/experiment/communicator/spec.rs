//! A scenario's `job.communicator`.

use fabricsim_collective::Collective;
use fabricsim_units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Making the communicators of a job, and their first operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommunicatorSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The kinds of communicators that each rank is in: `world` (all ranks), or a name with the number of
    /// ranks of each (`tp8`). The first one's ranks are next to each other, those of the next ones lie as far apart as those
    /// before have ranks; the last needs no number (`dp`). `["world"]` if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The first operation of each; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstSpec>,
    /// Roots whom ranks ask for addresses (`ncclCommInitRankScalable`); if absent as PyTorch has it, one for every
    /// 128 ranks. Before NCCL 2.23 there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<u32>,
    /// All but the first are split off the first one, which has to be `world` (`ncclCommSplit`). False if
    /// absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub split: bool,
    /// They are made at the same time (`ncclGroupStart`, `ncclGroupEnd`), not one after the other. False if
    /// absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grouped: bool,
    /// Whether the driver has NCCL's kernels; `warm` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<Modules>,
    /// Ranks come so much later than the earliest could, in the mean; as published if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Time>,
    /// Ports that a node hands out by itself (`net.ipv4.ip_local_port_range`); 28232 if absent, as Linux has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u64>,
    /// Files that a process may have open (`ulimit -n`); 1024 if absent, as Linux has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// TCP sockets of a connection over a network: 1 if absent, as over InfiniBand and RoCE; over TCP threads times sockets
    /// of each, and one more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets_per_connection: Option<u64>,
    /// All ranks meet in the framework's store after each group of a kind is made, and it is this one; they do not if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreSpec>,
}

/// The first operation of a communicator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Which one.
    pub name: Collective,
    /// Its size, as nccl-tests counts it.
    pub size: Bytes,
}

/// Whether the driver has NCCL's kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Modules {
    /// It has.
    #[default]
    Warm,
    /// It has to make them first.
    Cold,
}

/// Where a framework's ranks meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreSpec {
    /// PyTorch's TCPStore.
    Tcp,
    /// Redis.
    Redis,
}

impl StoreSpec {
    /// All of them.
    pub const ALL: [StoreSpec; 2] = [StoreSpec::Tcp, StoreSpec::Redis];

    /// Its name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StoreSpec::Tcp => "tcp",
            StoreSpec::Redis => "redis",
        }
    }
}
