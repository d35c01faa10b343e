//! What NCCL's thread blocks cost and reach on a generation of GPUs.
//!
//! These are the parameters of time that no data sheet has; each is a [`Sourced`] value in
//! `topologies/hardware/architectures.json`, most of them fitted to published tables.

use super::hardware::Sourced;
use fabricsim_units::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A generation of multiprocessors, as collectives see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Copy from a FIFO to user memory on the same GPU, per thread block.
    pub local_copy_rate: Sourced<Bandwidth>,
    /// The Simple protocol.
    pub simple: SimpleModel,
    /// The LL protocol.
    pub ll: LlModel,
    /// The LL128 protocol.
    pub ll128: Ll128Model,
    /// Delays of hops vary. By how much longer the last of twice as many channels takes over a
    /// single hop; over several, these add up as their squares do. Absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Sourced<Time>>,
    /// Sends and receives with the Simple protocol; as rings if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_to_point: Option<PointToPointModel>,
    /// What one queue pair of an interface reads from the GPU's memory; absent: the whole wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_pair_rate: Option<Sourced<Bandwidth>>,
    /// Multicast memory; absent: the GPUs have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvls: Option<NvlsModel>,
    /// NCCL's kernels on symmetric windows; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symmetric: Option<SymmetricModel>,
    /// How fast kernels of training steps are; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelModel>,
}

/// How fast the kernels of a training step are: one model for all jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelModel {
    /// The share of the tensor cores' peak that power allows at boost clock in a long step: a product
    /// that reaches more in a profile of its own is slowed by the cube root of the ratio, for dynamic
    /// power grows with the cube of the clock. With it, products and most passes over memory take
    /// the laws of `topologies/hardware/kernels.json`. Without it, and of generations that those do
    /// not know, products go at `gemm_share` of the peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Sourced<f64>>,
    /// The share of the 16-bit peak at which large matrix products go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gemm_share: Option<Sourced<f64>>,
    /// The same of the FP8 peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8_gemm_share: Option<Sourced<f64>>,
    /// The share of the 16-bit peak at which FlashAttention's versions 1, 2 and 3 go, forward and
    /// backward together.
    pub attention_shares: Sourced<[f64; 3]>,
    /// The share of the memory's bandwidth that kernels without a law reach.
    pub memory_share: Sourced<f64>,
    /// What each kernel costs beside: its start and end on the GPU.
    pub latency: Sourced<Time>,
    /// Rows and columns of a matrix product that one SM computes at once, with `gemm_share`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<Sourced<(u64, u64)>>,
}

impl KernelModel {
    /// The share of the 16-bit peak at which a version of FlashAttention goes.
    #[must_use]
    pub fn attention_share(&self, version: u8) -> f64 {
        let [first, second, third] = self.attention_shares.value;
        match version {
            0 | 1 => first,
            2 => second,
            _ => third,
        }
    }
}

/// From a slice being posted to the peer seeing it, beyond the wires' own latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HopModel {
    /// Over NVLink, and to and from network interfaces.
    pub nvlink: Sourced<Time>,
    /// Over PCIe and host memory.
    pub pcie: Sourced<Time>,
}

/// What the Simple protocol costs a thread block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimpleModel {
    /// Start and end of the kernel, once per operation.
    pub launch: Sourced<Time>,
    /// Waiting for, fencing and posting one slice; occupies the thread block.
    pub slice_sync: Sourced<Time>,
    /// By what part of that thread blocks differ in it, so that those of a kernel fall out of step;
    /// absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uneven: Option<Sourced<f64>>,
    /// What is lost in the last round in which warps move a slice; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<RoundsModel>,
    /// Between two thread blocks.
    pub hop: HopModel,
    /// Payload rate of one thread block towards another GPU.
    pub rate: Sourced<Bandwidth>,
}

/// Rounds in which a thread block's warps move a slice, each a hunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoundsModel {
    /// What a warp moves in a round, in unrolled loads and stores.
    pub hunk: Sourced<Bytes>,
    /// A round, however many warps take part in it.
    pub time: Sourced<Time>,
    /// What less than a hunk takes more, where no warp is idle in the last round.
    pub rest: Sourced<Time>,
}

/// What the LL protocol costs a thread block: it moves data in passes of 8 bytes a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlModel {
    /// Start and end of the kernel, once per operation.
    pub launch: Sourced<Time>,
    /// Between two thread blocks.
    pub hop: HopModel,
    /// Payload of one pass of all threads.
    pub pass: Sourced<Bytes>,
    /// What each doubling of a slice above 64 bytes takes, up to a pass: more warps wait.
    pub doubling: Sourced<Time>,
    /// Each pass.
    pub pass_time: Sourced<Time>,
}

/// What the LL128 protocol costs a thread block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ll128Model {
    /// Start and end of the kernel, once per operation.
    pub launch: Sourced<Time>,
    /// Between two thread blocks.
    pub hop: HopModel,
    /// Payload rate of one thread block towards another GPU.
    pub rate: Sourced<Bandwidth>,
    /// Of a chunk that leaves by a network: the fence after its last store, before its proxy is told
    /// of it. The thread block does nothing else meanwhile (NCCL 2.30.7: `postSend` in
    /// `prims_ll128.h`). Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_fence: Option<Sourced<Time>>,
    /// So many warps reach half of what any number of them could: w of them w / (w + this) of it.
    /// In proportion to their number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_rate_warps: Option<Sourced<f64>>,
}

impl Ll128Model {
    /// Warps of a thread block (NCCL 2.30.7: 640 threads, `NCCL_LL128_MAX_NTHREADS`).
    pub const WARPS: u32 = 20;

    /// What a part of a thread block's warps reaches of the rate of all of them.
    #[must_use]
    pub fn share(&self, part: f64) -> f64 {
        let Some(half) = &self.half_rate_warps else {
            return part;
        };
        let all = f64::from(Self::WARPS);
        part * (all + half.value) / (part * all + half.value)
    }
}

/// Sends and receives with the Simple protocol, per thread block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointToPointModel {
    /// Start and end of the kernel.
    pub launch: Sourced<Time>,
    /// What it takes more where some of the messages cross a network: proxies take them up, and the
    /// receiver's flushes what came before its GPU may read it. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_start: Option<Sourced<Time>>,
    /// While bytes move.
    pub rate: Sourced<Bandwidth>,
    /// Per chunk: waiting for a slot, fencing, telling the peer or the proxy.
    pub chunk_sync: Sourced<Time>,
}

/// NVLink SHARP as a thread block sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NvlsModel {
    /// Start and end of the kernel.
    pub launch: Sourced<Time>,
    /// Of a loop among eight ranks: waiting for all of them, fencing, telling them.
    pub loop_sync: Sourced<Time>,
    /// Of a thread block: between the user's buffer and multicast memory, while bytes move.
    pub rate: Sourced<Bandwidth>,
    /// Part of a GPU's raw NVLink rate that loads from and stores to multicast memory reach while
    /// they are under way, where all ranks pause together after each loop.
    pub port_share: Sourced<f64>,
    /// The same in the long run, where nothing pauses: some thread blocks load or store while others
    /// wait. As `port_share` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sustained_share: Option<Sourced<f64>>,
    /// What each doubling of the ranks beyond eight takes away from both, as a part of them. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowding: Option<Sourced<f64>>,
}

/// NCCL's kernels on symmetric windows, which load from and store to their peers' buffers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SymmetricModel {
    /// Start and end of the kernel, as one of a captured graph.
    pub launch: Sourced<Time>,
    /// All wait for all, beyond the wires' own latency: fences, signals, and who comes last. Kernels
    /// without flags in their data do it at their begin and at their end.
    pub barrier: Sourced<Time>,
    /// What a thread block of an all-reduce moves over ports, in and out together.
    pub reduce_rate: Sourced<Bandwidth>,
    /// The same of an all-gather or reduce-scatter.
    pub gather_rate: Sourced<Bandwidth>,
    /// What copies by copy engines take more than a kernel to start and to wait for. Nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_start: Option<Sourced<Time>>,
}

impl NvlsModel {
    /// Part of a GPU's raw NVLink rate that loads and stores of `ranks`, which wait for each other,
    /// reach; `sustained` where they do not pause together.
    #[must_use]
    pub fn reached(&self, ranks: u32, sustained: bool) -> f64 {
        let doublings = (f64::from(ranks.max(8)) / 8.0).log2();
        let kept = 1.0 - self.crowding.as_ref().map_or(0.0, |c| c.value);
        let share = self.sustained_share.as_ref().filter(|_| sustained);
        share.unwrap_or(&self.port_share).value * kept.powf(doublings)
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::hardware;
    use crate::model_checks;
    use fabricsim_units::Time;

    #[test]
    fn a_spread_is_checked_as_other_times_are() {
        let mut model = hardware().architectures["hopper"].clone();
        let mut faults = Vec::new();
        model_checks::architecture("mine", &model, &mut faults);
        assert!(faults.is_empty());
        model.spread.as_mut().unwrap().value = Time::from_micros(2_000_000);
        model_checks::architecture("mine", &model, &mut faults);
        let told = format!("{faults:?}");
        assert!(
            told.contains("hardware.architectures.mine.spread.value"),
            "{told}"
        );
    }

    #[test]
    fn each_doubling_beyond_eight_ranks_costs_a_part_of_the_port() {
        let nvls = hardware().architectures["blackwell"].nvls.as_ref().unwrap();
        let (share, kept) = (
            nvls.port_share.value,
            1.0 - nvls.crowding.as_ref().unwrap().value,
        );
        for (ranks, expected) in [
            (4, share),
            (8, share),
            (16, share * kept),
            (64, share * kept.powi(3)),
        ] {
            assert!(
                (nvls.reached(ranks, false) - expected).abs() < 1e-12,
                "{ranks}"
            );
            let ratio = nvls.sustained_share.as_ref().unwrap().value / share;
            let sustained = nvls.reached(ranks, true);
            assert!((sustained - ratio * expected).abs() < 1e-12, "{ranks}");
        }
    }
}
