//! What NCCL expects of its kernels on symmetric windows: for choosing the kernel and its number of
//! thread blocks, not for timing.
//!
//! NCCL 2.30.7 `sym_kernels.cc`: `softmin`, `softplus`, `model` and `queryModel`, with its constants.

use super::super::algorithm::Algorithm;
use fabricsim_collective::Collective;

/// Most thread blocks of such a kernel (`ncclSymkMaxBlocks`).
const MAX_BLOCKS: u16 = 64;
/// GiB/s in bytes a microsecond.
const GIB: f64 = (1u64 << 30) as f64 / 1e6;
/// What a byte with flags counts: twice the bytes, some processing, no unrolling.
const FLAGGED: f64 = 9.0;
/// Each thread block has to earn so much of the time.
const BLOCK_PENALTY: f64 = 0.025;
/// Fewer thread blocks do if they take at most so much longer than all.
const TOLERANCE: f64 = 1.025;

/// A call, and who may do it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) algorithm: Algorithm,
    pub(super) collective: Collective,
    /// nccl-tests' size.
    pub(super) bytes: u64,
    pub(super) ranks: u32,
    pub(super) compute_capability: u32,
    /// `NCCL_SYM_CTAS`.
    pub(super) blocks: Option<u16>,
    pub(super) least_blocks: u16,
    pub(super) most_blocks: u16,
}

/// What NCCL expects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Query {
    /// Microseconds.
    pub(in super::super) micros: f64,
    /// … whatever the size.
    pub(in super::super) latency: f64,
    /// Thread blocks.
    pub(in super::super) blocks: u16,
}

impl Query {
    /// What kernels are compared by.
    pub(super) fn weighed(&self) -> f64 {
        self.micros * (1.0 + BLOCK_PENALTY * f64::from(self.blocks))
    }
}

/// Looks like a smooth minimum of both.
fn softmin(x: f64, ceiling: f64, softness: f64) -> f64 {
    ceiling - softness * ((ceiling / softness).exp_m1() * (-x / softness).exp()).ln_1p()
}

/// Looks like a smooth maximum of zero and this.
fn softplus(x: f64) -> f64 {
    if x >= 100.0 { x } else { x.exp().ln_1p() }
}

/// What a GPU is believed to send or to receive, whichever is more.
pub(super) fn bus_bytes(
    algorithm: Algorithm,
    collective: Collective,
    bytes: u64,
    ranks: u32,
) -> f64 {
    let n = f64::from(ranks);
    // A rank's own part, where it has one.
    let own = match collective {
        Collective::AllReduce => bytes as f64,
        _ => bytes as f64 / n,
    };
    match (algorithm, collective) {
        (a, _) if a.has_flags() => FLAGGED * n * own,
        (Algorithm::SymLoadStore, Collective::AllReduce) => 2.0 * own * (n - 1.0) / n,
        (Algorithm::SymMulticast, Collective::AllReduce) => own + own / n,
        _ => (n - 1.0) * own,
    }
}

/// What a thread block is counted to move of that for each of its own accesses.
pub(super) fn multiplier(algorithm: Algorithm, collective: Collective, ranks: u32) -> f64 {
    let n = f64::from(ranks);
    match (algorithm, collective) {
        (Algorithm::SymLlMulticast, _) => 1.1,
        (Algorithm::SymMulticast, Collective::AllReduce) => n,
        (Algorithm::SymMulticast, _) => 0.55 * n,
        _ => 1.0,
    }
}

/// What NCCL expects of a call with the thread blocks that it would take.
pub(super) fn query(call: Call) -> Option<Query> {
    call.algorithm.symmetric_kernel(call.collective)?;
    if call.algorithm == Algorithm::SymCopy {
        return None;
    }
    let blackwell = call.compute_capability >= 100;
    let (flags, all_reduce) = (
        call.algorithm.has_flags(),
        call.collective == Collective::AllReduce,
    );
    let two_shot = call.algorithm == Algorithm::SymMulticast && all_reduce;
    let (latency, block, peak) = if blackwell {
        let latency = match (flags, call.collective) {
            (true, Collective::AllGather) => 8.5,
            (true, _) => 11.0,
            (false, Collective::AllReduce) => 19.5,
            (false, _) => 13.0,
        };
        (latency, 55.0, if two_shot { 1000.0 } else { 600.0 })
    } else {
        (
            if flags { 4.5 } else { 7.8 },
            if all_reduce { 65.0 } else { 44.0 },
            if two_shot { 480.0 } else { 320.0 },
        )
    };
    let bus = bus_bytes(call.algorithm, call.collective, call.bytes, call.ranks);
    let multiplier = multiplier(call.algorithm, call.collective, call.ranks);
    let micros = |blocks: u16| {
        let asked = f64::from(blocks) * block * GIB * multiplier;
        let rate = softmin(asked, peak * GIB, block * GIB);
        latency + softplus(bus / rate - 1.0)
    };
    let multicast = if blackwell { 32u32 } else { 16 };
    let most = match call.algorithm {
        Algorithm::SymMulticast => multicast.div_ceil(call.ranks.max(1)) as u16,
        _ => MAX_BLOCKS,
    };
    let (least, most) = match call.blocks {
        Some(blocks) => (blocks.min(MAX_BLOCKS), blocks.min(MAX_BLOCKS)),
        None => {
            let most = most.min(call.most_blocks).max(1);
            (call.least_blocks.min(most), most)
        }
    };
    let all = micros(most);
    let enough = |&blocks: &u16| micros(blocks) <= TOLERANCE * all;
    let blocks = (least..most).find(enough).unwrap_or(most);
    Some(Query {
        micros: micros(blocks),
        latency,
        blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(algorithm: Algorithm, bytes: u64, compute_capability: u32) -> Query {
        query(Call {
            algorithm,
            collective: Collective::AllReduce,
            bytes,
            ranks: 8,
            compute_capability,
            blocks: None,
            least_blocks: 1,
            most_blocks: u16::MAX,
        })
        .unwrap()
    }

    /// A table of 8 B200 (NVIDIA/nccl-tests issue 333) jumps between 32 and 64 KiB, from 4.2 to 8.3 us.
    #[test]
    fn eight_b200_change_kernels_where_their_table_jumps() {
        let flags = |bytes| of(Algorithm::SymLlMulticast, bytes, 100).weighed();
        let shots = |bytes| of(Algorithm::SymMulticast, bytes, 100).weighed();
        assert!(flags(32 << 10) < shots(32 << 10));
        assert!(flags(64 << 10) > shots(64 << 10));
    }

    #[test]
    fn few_thread_blocks_do_where_switches_sum() {
        assert_eq!(of(Algorithm::SymMulticast, 1 << 30, 90).blocks, 2);
        assert_eq!(of(Algorithm::SymMulticast, 1 << 30, 100).blocks, 3);
        assert_eq!(of(Algorithm::SymLl, 8, 100).blocks, 1);
    }

    #[test]
    fn smooth_minima_and_maxima_are_near_the_sharp_ones() {
        assert!((softmin(10.0, 1000.0, 10.0) - 10.0).abs() < 10.0);
        assert!((softmin(5000.0, 1000.0, 10.0) - 1000.0).abs() < 1e-9);
        assert!((softplus(-50.0)).abs() < 1e-9);
        assert!((softplus(200.0) - 200.0).abs() < 1e-9);
    }
}
