//! All-reduces within a node that engines write themselves (vLLM: `csrc/custom_all_reduce.cuh`).
//!
//! A short one is one pass: after a barrier each rank reads all peers' buffers over NVLink and adds
//! them up. A long one is two: each rank adds up its share, then reads the shares of the others. The
//! faster of both is taken, which is what the sizes in the source come to.

use super::Limits;
use super::parameters::AllReduceParameters;
use fabricsim_units::{Bandwidth, Bytes};

/// An all-reduce among GPUs that reach each other's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CustomAllReduce {
    /// GPUs.
    pub ranks: u64,
    /// What each has.
    pub size: Bytes,
    /// What one of them can read from its peers: its NVLinks together, one direction.
    pub port: Bandwidth,
}

impl CustomAllReduce {
    /// What each rank has to read at least.
    pub(super) fn limits(&self) -> Limits {
        let ranks = self.ranks.max(1) as f64;
        let read = self.size.get() as f64 * (ranks - 1.0) / ranks;
        Limits {
            operations: read / (self.port.bytes_per_sec() as f64).max(1.0),
            bytes: 0.0,
        }
    }

    /// Seconds.
    pub(super) fn time(&self, entry: &AllReduceParameters) -> f64 {
        if self.ranks < 2 {
            return 0.0;
        }
        let ranks = self.ranks as f64;
        let rate = entry.port.value * (self.port.bytes_per_sec() as f64).max(1.0);
        let read = self.size.get() as f64 * (ranks - 1.0) / rate;
        let start = entry.launch.value.seconds();
        let start = start + (ranks.log2() - 1.0) * entry.doubling.value.seconds();
        let two = entry.pass.value.seconds() + 2.0 * read / ranks;
        start + read.min(two)
    }
}
