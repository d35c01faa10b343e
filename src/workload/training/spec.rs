//! The training job of a scenario file.

use super::bucketing::Bucketing;
use super::data_loader::DataLoaderSpec;
use super::host::HostSpec;
use super::offload::OffloadSpec;
use super::prefetch::Prefetch;
use super::relaxed::LocalSgdSpec;
use crate::model::kernel::AttentionKernel;
use crate::model::{ModelSpec, Recompute};
use crate::pipeline::Schedule;
use fabricsim_units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A training job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The model.
    pub model: ModelRef,
    /// Tokens of a sequence; the model's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Sequences of a micro-batch.
    #[serde(default = "one")]
    pub micro_batch: u32,
    /// Sequences of a step, all GPUs together.
    pub global_batch: u32,
    /// How the model and the batch are divided.
    #[serde(default)]
    pub parallel: ParallelSpec,
    /// The order of micro-batches; 1F1B, or interleaved with virtual stages, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// How replicas are kept equal.
    #[serde(default)]
    pub data_parallel: DataParallelSpec,
    /// What matrices are multiplied in.
    #[serde(default)]
    pub precision: Precision,
    /// Bytes of a gradient when replicas exchange it: 4 in Megatron by default, 2 in FSDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_bytes: Option<u32>,
    /// What is computed again in the backward pass.
    #[serde(default)]
    pub recompute: Recompute,
    /// States in the host's memory or on drives (ZeRO-Offload, ZeRO-Infinity, FSDP's CPUOffload). All on the
    /// GPU if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadSpec>,
    /// Batches that come from storage; without, they are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_loader: Option<DataLoaderSpec>,
    /// Attention as one kernel that keeps scores on chip, or as kernels over all scores.
    #[serde(default)]
    pub attention: AttentionKernel,
    /// Which FlashAttention: 1 (2022), 2 (2023), or 3, which stands for all kernels written for
    /// Hopper and later, those of cuDNN too. 2 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_version: Option<u8>,
    /// Whether products add weights' gradients to the sum over micro-batches themselves, as
    /// Megatron-LM's do; if absent, they do with `ddp` and `zero`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fused_accumulation: Option<bool>,
    /// Activations are dropped out (GPT-3 and its time; not Llama).
    #[serde(default)]
    pub dropout: bool,
    /// The cross-entropy is one kernel over the logits.
    #[serde(default = "yes")]
    pub fused_loss: bool,
    /// Bytes that the loss has in memory at once of a logit, if it is another cross-entropy than its
    /// kernels are counted as. If absent 4 with `fused_loss`; else 12 with `fsdp`, for PyTorch's own, and
    /// 10, for Megatron-LM's. Changes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_bytes: Option<u8>,
    /// Tensor-parallel communication goes on beside the matrix products that it feeds, chunk by
    /// chunk, instead of before and after them.
    #[serde(default)]
    pub overlap_tensor_parallel: bool,
    /// How tokens are spread over experts.
    #[serde(default)]
    pub routing: RoutingSpec,
    /// Steps that are simulated; the last is what is reported.
    #[serde(default = "two")]
    pub steps: u16,
    /// What starting a kernel takes the process; `"0us"` with CUDA graphs.
    #[serde(default = "launch")]
    pub kernel_launch: Time,
    /// The process on the host: where it waits for its GPU, and how kernels are written and started. If
    /// absent it waits at the end of each step, and kernels are those that Megatron-LM fuses by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// The results have a table of the step's kernels with what bounds each, and the utilisation by every
    /// convention. False if absent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kernel_table: bool,
    /// Communication that costs nothing, to see what it is that costs.
    #[serde(default)]
    pub free_communication: bool,
    /// Ranks that wait longer than that for others end the job with an error that names those
    /// who are missing. No limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Time>,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn two() -> u16 {
    2
}

fn launch() -> Time {
    Time::from_nanos(4000)
}

/// A model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelRef {
    /// A known one.
    Preset(String),
    /// Its shape.
    Shape(Box<ModelSpec>),
}

/// How the model and the batch are divided over ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Ranks that share each layer (tensor parallel).
    #[serde(default = "one")]
    pub tp: u32,
    /// Ranks that share each sequence (context parallel).
    #[serde(default = "one")]
    pub cp: u32,
    /// Ranks that share the experts.
    #[serde(default = "one")]
    pub ep: u32,
    /// Stages of the pipeline.
    #[serde(default = "one")]
    pub pp: u32,
    /// Replicas; what the ranks leave if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dp: Option<u32>,
    /// Virtual stages on each GPU.
    #[serde(default = "one")]
    pub virtual_stages: u32,
    /// Norms and dropout are divided along the sequence, with all-gather and reduce-scatter in
    /// place of all-reduce (Korthikanti et al. 2022).
    #[serde(default)]
    pub sequence_parallel: bool,
    /// Each tensor-parallel rank sends its part of the activations to the next stage, where they
    /// are gathered again (Megatron-LM's scatter-gather); with sequence parallelism they are in
    /// parts anyway. True if absent.
    #[serde(default = "yes")]
    pub scatter_gather: bool,
    /// Which dimension's neighbours are neighbours of a rank, from the nearest on; Megatron's
    /// `tp-cp-ep-dp-pp` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How sequences are exchanged between context-parallel ranks.
    #[serde(default)]
    pub context: ContextParallel,
}

impl Default for ParallelSpec {
    fn default() -> Self {
        ParallelSpec {
            comment: None,
            tp: 1,
            cp: 1,
            ep: 1,
            pp: 1,
            dp: None,
            virtual_stages: 1,
            sequence_parallel: false,
            scatter_gather: true,
            order: None,
            context: ContextParallel::default(),
        }
    }
}

/// How keys and values get from one context-parallel rank to the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContextParallel {
    /// Around a ring, beside the attention of what has come (ring attention).
    #[default]
    Ring,
    /// All at once before attention (Llama 3).
    AllGather,
    /// Heads for sequence, by all-to-all before and after attention (Ulysses).
    AllToAll,
}

/// How replicas are kept equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataParallelSpec {
    /// All-reduce of gradients in buckets, as soon as they are there (PyTorch DDP).
    Ddp(DdpSpec),
    /// Optimizer states (and more) divided over replicas, as ZeRO and Megatron's distributed
    /// optimizer do.
    Zero(ZeroSpec),
    /// Weights divided over replicas, gathered layer by layer (ZeRO-3, FSDP).
    Fsdp(FsdpSpec),
    /// One process for all GPUs of a node: inputs scattered, weights broadcast and gradients
    /// summed on the first GPU in every step. For the lesson.
    SingleProcess,
}

impl Default for DataParallelSpec {
    fn default() -> Self {
        DataParallelSpec::Ddp(DdpSpec::default())
    }
}

/// PyTorch DDP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DdpSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A bucket is closed when it has so much.
    pub bucket: Bytes,
    /// The same of the bucket that is ready first.
    pub first_bucket: Bytes,
    /// Buckets go out as they fill, beside the rest of the backward pass; if false, after it.
    pub overlap: bool,
    /// Gradients that no loss reaches are found by walking the graph after the forward pass,
    /// which takes so long. Nobody walks it if absent.
    pub find_unused: Option<Time>,
    /// What the communication hook makes of gradients.
    pub compression: Compression,
    /// Who communicates.
    pub backend: Backend,
    /// Replicas exchange nothing in a step, and the mean of their weights every so many steps. It changes
    /// what is computed. They exchange gradients in every step if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_sgd: Option<LocalSgdSpec>,
    /// By how many steps the gradients are old that the optimizer takes: 0, or 1, with which their exchange
    /// goes on beside the next step. It changes what is computed. 0 if absent.
    #[serde(skip_serializing_if = "is_zero")]
    pub staleness: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(value: &u8) -> bool {
    *value == 0
}

impl Default for DdpSpec {
    fn default() -> Self {
        DdpSpec {
            comment: None,
            // torch/nn/parallel/distributed.py: bucket_cap_mb=25; reducer.hpp:
            // kDefaultFirstBucketBytes = 1 MiB.
            bucket: Bytes::new(25 << 20),
            first_bucket: Bytes::new(1 << 20),
            overlap: true,
            find_unused: None,
            compression: Compression::None,
            backend: Backend::Nccl,
            local_sgd: None,
            staleness: 0,
        }
    }
}

/// What a communication hook makes of gradients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// Two bytes each.
    HalfPrecision,
    /// Two thin matrices for each matrix (PowerSGD), of this rank.
    PowerSgd(u32),
    /// The largest gradients of each bucket with their places, this share of all; what is left out is
    /// added to the next step's (top-k).
    TopK(f64),
}

/// Who communicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// NCCL.
    #[default]
    Nccl,
    /// Processes, over sockets, with data in host memory.
    Gloo,
}

/// ZeRO 1 and 2, and Megatron's distributed optimizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// 1: optimizer states are divided, and gradients go out after the last micro-batch; 2: gradients are
    /// divided as well, and go out after every one, in a pipeline when another virtual stage is next.
    pub stage: u8,
    /// Gradients go out in parts of this size as the backward pass makes them.
    pub bucket: Bytes,
    /// They do so beside the backward pass; if false, after it.
    pub overlap_gradients: bool,
    /// New weights come beside the next step's forward pass; if false, before it.
    pub overlap_weights: bool,
}

impl Default for ZeroSpec {
    fn default() -> Self {
        ZeroSpec {
            comment: None,
            stage: 1,
            // Megatron-Core: max(40,000,000, 1,000,000 × dp) elements; of 4 bytes.
            bucket: Bytes::new(160_000_000),
            overlap_gradients: true,
            overlap_weights: true,
        }
    }
}

/// PyTorch FSDP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FsdpSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// So many layers' weights are gathered ahead of the layer that is worked on; `memory`: as many as fit.
    pub prefetch: Prefetch,
    /// So many layers are gathered at once, and their gradients summed up at once; `auto`: as many as are
    /// fastest if kernels and exchanges take what they take alone. `prefetch` counts such buckets. 1 if absent.
    #[serde(skip_serializing_if = "Bucketing::is_default")]
    pub bucketing: Bucketing,
    /// Weights are dropped after the forward pass and gathered again for the backward pass.
    pub reshard: bool,
    /// Weights are divided over so many ranks, and each part is on several (hybrid sharding);
    /// over all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_group: Option<u32>,
}

impl Default for FsdpSpec {
    fn default() -> Self {
        FsdpSpec {
            comment: None,
            prefetch: Prefetch::default(),
            bucketing: Bucketing::default(),
            reshard: true,
            shard_group: None,
        }
    }
}

/// What matrices are multiplied in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// BF16 or FP16.
    #[default]
    Bf16,
    /// FP8, but for attention and the output projection.
    Fp8,
}

impl Precision {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "BF16",
            Precision::Fp8 => "FP8",
        }
    }
}

/// How tokens are spread over experts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub struct RoutingSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The n-th most popular expert gets tokens in proportion to n to the power of minus this;
    /// 0: all alike.
    pub skew: f64,
}
