//! What each collective has to achieve: buffers, results, and how nccl-tests rates it.

use super::program::{Buffer, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Everyone ends with the sum of everyone's data.
    AllReduce,
    /// Everyone ends with everyone's block.
    AllGather,
    /// Everyone ends with its block of the sum.
    ReduceScatter,
    /// Everyone ends with the root's data.
    Broadcast,
    /// The root ends with the sum.
    Reduce,
}

/// The root of rooted collectives. nccl-tests' default; other roots only relabel ranks.
pub const ROOT: Rank = Rank(0);

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 5] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
    ];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::AllGather => "all-gather",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
        }
    }

    /// Bytes of a rank's buffer, when the operation is of `bytes` as nccl-tests counts
    /// them (for all-gather and reduce-scatter: all ranks' blocks together).
    #[must_use]
    pub fn buffer_len(self, buffer: Buffer, rank: Rank, ranks: u32, bytes: u64) -> u64 {
        let block = bytes / u64::from(ranks);
        match (self, buffer) {
            (Collective::AllGather, Buffer::Input)
            | (Collective::ReduceScatter, Buffer::Output) => block,
            (Collective::Broadcast, Buffer::Input) | (Collective::Reduce, Buffer::Output)
                if rank != ROOT =>
            {
                0
            }
            _ => bytes,
        }
    }

    /// The size that really moves when `bytes` are asked for: nccl-tests rounds the
    /// per-rank count of block collectives down to a multiple of 16 bytes.
    #[must_use]
    pub fn actual_bytes(self, bytes: u64, ranks: u32) -> u64 {
        match self {
            Collective::AllGather | Collective::ReduceScatter => {
                let n = u64::from(ranks);
                bytes / n / 16 * 16 * n
            }
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce => bytes / 4 * 4,
        }
    }

    /// Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md).
    #[must_use]
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::AllGather | Collective::ReduceScatter => (n - 1.0) / n,
            Collective::Broadcast | Collective::Reduce => 1.0,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
