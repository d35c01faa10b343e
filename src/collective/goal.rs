//! What each collective has to achieve: buffers, results, and how nccl-tests rates it.

use super::program::{Buffer, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A collective operation.
#[derive(
    Debug, Clone, Copy, PartialEq, PartialOrd, Ord, Eq, Hash, Serialize, Deserialize, JsonSchema,
)]
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
    /// Everyone sends a block of its own to everyone.
    AllToAll,
    /// Everyone sends as much to everyone as a matrix says.
    AllToAllV,
    /// Everyone sends its data to the next rank: nccl-tests' ring shift.
    SendRecv,
    /// Ranks 2i and 2i + 1 exchange their data; a last one without a mate does nothing.
    SendRecvPairs,
    /// Ranks i and i + ⌊N/2⌋ exchange their data, as in OSU's multi-pair tests; of an odd
    /// number the last does nothing.
    SendRecvHalves,
    /// The root ends with everyone's block.
    Gather,
    /// Everyone ends with its block of the root's data.
    Scatter,
}

/// The root of rooted collectives. nccl-tests' default; other roots only relabel ranks.
pub const ROOT: Rank = Rank(0);

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 12] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllToAll,
        Collective::AllToAllV,
        Collective::SendRecv,
        Collective::SendRecvPairs,
        Collective::SendRecvHalves,
        Collective::Gather,
        Collective::Scatter,
    ];

    /// Those for which NCCL has kernels.
    pub const KERNELS: [Collective; 5] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
    ];

    /// True if it is made of sends and receives, without a kernel of its own in NCCL.
    #[must_use]
    pub const fn is_point_to_point(self) -> bool {
        matches!(
            self,
            Collective::AllToAll
                | Collective::AllToAllV
                | Collective::SendRecv
                | Collective::SendRecvPairs
                | Collective::SendRecvHalves
                | Collective::Gather
                | Collective::Scatter
        )
    }

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::AllGather => "all-gather",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::AllToAll => "all-to-all",
            Collective::AllToAllV => "all-to-all-v",
            Collective::SendRecv => "send-recv",
            Collective::SendRecvPairs => "send-recv-pairs",
            Collective::SendRecvHalves => "send-recv-halves",
            Collective::Gather => "gather",
            Collective::Scatter => "scatter",
        }
    }

    /// To whom a rank sends all of its data, where it sends to one other at most: the next
    /// rank, or its mate.
    #[must_use]
    pub fn receiver(self, from: Rank, ranks: u32) -> Option<Rank> {
        let half = ranks / 2;
        match self {
            Collective::SendRecv => Some(Rank((from.0 + 1) % ranks)),
            Collective::SendRecvPairs => Some(Rank(from.0 ^ 1)).filter(|to| to.0 < ranks),
            Collective::SendRecvHalves if from.0 < half => Some(Rank(from.0 + half)),
            Collective::SendRecvHalves if from.0 < 2 * half => Some(Rank(from.0 - half)),
            _ => None,
        }
    }

    /// True if each rank sends to one other at most.
    #[must_use]
    pub const fn is_single_message(self) -> bool {
        matches!(
            self,
            Collective::SendRecv | Collective::SendRecvPairs | Collective::SendRecvHalves
        )
    }

    /// Bytes of a rank's buffer, when the operation is of `bytes` as nccl-tests counts
    /// them (where ranks have blocks: all ranks' blocks together). The buffers of an
    /// all-to-all-v depend on its matrix; this is the size of the largest.
    #[must_use]
    pub fn buffer_len(self, buffer: Buffer, rank: Rank, ranks: u32, bytes: u64) -> u64 {
        let block = bytes / u64::from(ranks);
        match (self, buffer) {
            (_, Buffer::Scratch) => 0,
            (Collective::AllGather | Collective::Gather, Buffer::Input)
            | (Collective::ReduceScatter | Collective::Scatter, Buffer::Output) => block,
            (Collective::Broadcast | Collective::Scatter, Buffer::Input)
            | (Collective::Reduce | Collective::Gather, Buffer::Output)
                if rank != ROOT =>
            {
                0
            }
            // Who has no mate neither sends nor receives.
            (Collective::SendRecvPairs | Collective::SendRecvHalves, _)
                if self.receiver(rank, ranks).is_none() =>
            {
                0
            }
            _ => bytes,
        }
    }

    /// The smallest size of which [`Collective::actual_bytes`] leaves something.
    #[must_use]
    pub fn least_bytes(self, ranks: u32) -> u64 {
        match self {
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::Gather
            | Collective::Scatter => 16 * u64::from(ranks),
            Collective::AllToAllV => 1,
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv
            | Collective::SendRecvPairs
            | Collective::SendRecvHalves => 4,
        }
    }

    /// The size that really moves when `bytes` are asked for: nccl-tests rounds the
    /// per-rank count of block collectives down to a multiple of 16 bytes.
    #[must_use]
    pub fn actual_bytes(self, bytes: u64, ranks: u32) -> u64 {
        match self {
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::Gather
            | Collective::Scatter => {
                let n = u64::from(ranks);
                bytes / n / 16 * 16 * n
            }
            Collective::AllToAllV => bytes,
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv => bytes / 4 * 4,
            // Nobody to exchange with.
            Collective::SendRecvPairs | Collective::SendRecvHalves if ranks < 2 => 0,
            Collective::SendRecvPairs | Collective::SendRecvHalves => bytes / 4 * 4,
        }
    }

    /// Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md).
    #[must_use]
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Collective::AllReduce => 2.0 * (n - 1.0) / n,
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::AllToAll
            | Collective::AllToAllV
            | Collective::Gather
            | Collective::Scatter => (n - 1.0) / n,
            Collective::Broadcast
            | Collective::Reduce
            | Collective::SendRecv
            | Collective::SendRecvPairs
            | Collective::SendRecvHalves => 1.0,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
