//! NCCL's cost model: which protocol it believes to be fastest.
//!
//! Constants and formulas as of NCCL 2.30.7, src/graph/tuning.cc. This is a model for
//! choosing, not for timing: the engine times what was chosen.

use crate::collective::Collective;
use crate::plan::ProtocolKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An algorithm that the planner can build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Rings through all ranks.
    Ring,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 1] = [Algorithm::Ring];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
        }
    }

    /// The name in `NCCL_ALGO`.
    #[must_use]
    pub const fn nccl_name(self) -> &'static str {
        match self {
            Algorithm::Ring => "Ring",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the cost model looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setup {
    /// Ranks, and hosts as NCCL counts them (NVLink domains).
    pub(super) ranks: u32,
    pub(super) hosts: u32,
    /// Smallest compute capability × 10.
    pub(super) compute_capability: u32,
    /// The ring graph before doubling: channels and GB/s of each, inside and between hosts.
    pub(super) channels: u32,
    pub(super) intra: f64,
    pub(super) inter: f64,
    /// Every hop inside hosts is NVLink.
    pub(super) nvlink: bool,
    /// The CPUs are AMD's.
    pub(super) amd: bool,
    /// Interfaces are near enough to their GPUs for LL128 (PXB, or C2C).
    pub(super) near_nics: bool,
}

/// Latencies in microseconds by protocol (LL, LL128, Simple): base, a hop over NVLink, over
/// PCIe, over the network. Ring rows of `baseLat` and `hwLat`; Tree's network row serves
/// rings with one rank per host.
const BASE: [f64; 3] = [6.6, 14.0, 8.4];
const NVLINK: [f64; 3] = [0.6, 1.9, 3.4];
const PCI: [f64; 3] = [1.0, 2.5, 5.7];
const NET: [f64; 3] = [2.7, 4.0, 14.0];
const NET_ONE_RANK: [f64; 3] = [5.0, 8.5, 14.0];

/// GB/s of LL by GPU generation (Volta, Ampere, Hopper, Blackwell), for 1, 2 and more hosts.
const LL_MOST: [[f64; 3]; 4] = [
    [39.0, 39.0, 20.4],
    [87.7, 22.5, 19.0],
    [141.0, 45.0, 35.0],
    [282.0, 90.0, 70.0],
];
/// GB/s of LL128 per search channel, by GPU generation.
const LL128_PER_CHANNEL: [f64; 4] = [20.0, 20.0, 36.7, 40.0];

fn index(protocol: ProtocolKind) -> usize {
    match protocol {
        ProtocolKind::Ll => 0,
        ProtocolKind::Ll128 => 1,
        ProtocolKind::Simple => 2,
    }
}

impl Setup {
    /// LL128 is chosen by itself only where its 128-byte stores arrive whole.
    pub(super) fn allows(&self, protocol: ProtocolKind) -> bool {
        protocol != ProtocolKind::Ll128
            || (self.compute_capability >= 70 && self.nvlink && (self.hosts == 1 || self.near_nics))
    }

    /// What NCCL expects a ring to take, in microseconds.
    pub(super) fn ring_micros(
        &self,
        collective: Collective,
        protocol: ProtocolKind,
        bytes: u64,
    ) -> f64 {
        let (n, hosts) = (f64::from(self.ranks), f64::from(self.hosts));
        let p = index(protocol);
        let generation = match self.compute_capability {
            100.. => 3,
            90.. => 2,
            80.. => 1,
            _ => 0,
        };
        let hop = if self.nvlink { NVLINK } else { PCI }[p];
        let net = if self.ranks == self.hosts {
            NET_ONE_RANK
        } else {
            NET
        }[p];
        let post = match (self.hosts > 1, self.amd) {
            (false, _) => 0.0,
            (true, amd) => {
                let once = if amd { 2.0 } else { 1.0 };
                if protocol == ProtocolKind::Simple {
                    3.0 * once
                } else {
                    once
                }
            }
        };
        let (steps, net_steps) = match collective {
            Collective::AllReduce => (2.0 * (n - 1.0), 2.0 * (hosts - 1.0)),
            Collective::AllGather | Collective::ReduceScatter => (n - 1.0, hosts - 1.0),
            _ => (n, 0.0),
        };
        let mut latency = BASE[p]
            + match collective {
                Collective::Broadcast | Collective::Reduce => {
                    if self.hosts > 1 {
                        NET[p]
                    } else {
                        hop
                    }
                }
                _ => (steps - net_steps) * hop.max(post) + net_steps * net,
            };
        let per_channel = if self.hosts <= 2 {
            self.intra
        } else {
            self.inter
        };
        let plain = f64::from(self.channels) * per_channel;
        let column = (self.hosts.clamp(1, 3) - 1) as usize;
        let ll_row = match (self.hosts, self.amd) {
            (1, _) => generation,
            (_, true) => 1,
            (_, false) => 0,
        };
        let bus = match protocol {
            ProtocolKind::Ll => (0.5 * plain).min(LL_MOST[ll_row][column]),
            ProtocolKind::Ll128 => {
                (0.92 * plain).min(f64::from(self.channels) * LL128_PER_CHANNEL[generation])
            }
            ProtocolKind::Simple => plain,
        };
        let doubled_latency = protocol == ProtocolKind::Simple
            && collective == Collective::AllReduce
            && self.hosts > 1
            && bytes as f64 / (f64::from(self.channels) * n) >= 64.0;
        if doubled_latency {
            // "Plateau": network pipelines of Simple rings are slower to fill.
            latency *= if self.compute_capability < 80 {
                1.9
            } else {
                1.4
            };
        }
        let rate = bus * n / steps.max(1.0);
        latency + bytes as f64 / (1000.0 * rate)
    }
}
