//! The serving job of a scenario file.

mod load;
mod window;

pub use load::{
    ArrivalUnit, ClosedSpec, DrawnLength, GammaSpec, LengthSpec, LengthsSpec, LoadSpec,
    LognormalSpec, RateSpec, SharedPrefixSpec, TraceColumns, TraceSpec,
};

pub use window::{CapacitySpec, SteadySpec, WholeSpec, WindowSpec};

use crate::kernel::{AttentionFormat, DataType};
use crate::serving::fleet::{HandoverOrder, Reload, Routing, TierWrite};
use crate::serving::pass_time::MixedPass;
use crate::serving::policy::PolicyKind;
use crate::training::spec::ModelRef;
use fabricsim_units::{Bandwidth, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A serving job: a model that answers requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The model.
    pub model: ModelRef,
    /// What weights and KV cache are stored in.
    #[serde(default)]
    pub precision: ServingPrecision,
    /// The engine, the same on all GPUs.
    #[serde(default)]
    pub engine: EngineSpec,
    /// Engines, on GPUs one after the other; if absent, as many that do both as the GPUs have room for,
    /// with the least tensor parallelism that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolSpec>,
    /// How KV caches travel between pools for prompts and for generation.
    #[serde(default)]
    pub handover: HandoverSpec,
    /// Which engine gets a request.
    #[serde(default)]
    pub routing: Routing,
    /// How requests come.
    pub load: LoadSpec,
    /// How many requests; if absent, all of a trace, else as many as it takes until figures are known (`window`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
    /// Tokens of requests, which every load but a trace needs; of a trace they are those of its rows, whatever
    /// is said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<LengthsSpec>,
    /// The first so many requests are left out, in place of the warm-up that is found.
    #[serde(default)]
    pub warm_up: u32,
    /// What rates and percentiles are of; of a trace the whole run if absent, else the part in steady state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSpec>,
    /// Also finds the largest rate that holds, of a load that has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySpec>,
    /// What a request is to keep for it to count as good. All count if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloSpec>,
    /// How long requests have to be done after the last one has arrived; those that are not count as not
    /// served. 10 minutes if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Time>,
    /// Speculative decoding; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative: Option<SpeculativeSpec>,
}

/// What a model is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServingPrecision {
    /// Weights of linear layers.
    pub weights: DataType,
    /// Weights of experts; as `weights` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<DataType>,
    /// Weights of attention's projections; as `weights` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<DataType>,
    /// Keys and values.
    pub kv: KvType,
}

impl Default for ServingPrecision {
    fn default() -> Self {
        ServingPrecision {
            weights: DataType::Bf16,
            experts: None,
            attention: None,
            kv: KvType::Bf16,
        }
    }
}

/// What keys and values are stored in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KvType {
    /// 16 bits.
    #[default]
    Bf16,
    /// 8 bits.
    Fp8,
}

impl KvType {
    /// How attention reads them.
    #[must_use]
    pub const fn attention(self) -> AttentionFormat {
        match self {
            KvType::Bf16 => AttentionFormat::Bf16,
            KvType::Fp8 => AttentionFormat::Bf16Fp8Cache,
        }
    }
}

/// An engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whose scheduler.
    pub policy: PolicyKind,
    /// Tokens that one pass computes at most.
    pub token_budget: u32,
    /// Requests that run at once at most.
    pub max_sequences: u32,
    /// Whether prompts may be computed in parts.
    pub chunked_prefill: bool,
    /// Tokens of a block of KV cache; the policy's own if absent: 16 (vLLM), 1 (SGLang), 32 (TensorRT-LLM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_tokens: Option<u32>,
    /// Blocks of KV cache that an engine has, as its log says; what memory leaves if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_gpu_blocks: Option<u32>,
    /// The part of a GPU's memory that the engine takes (vLLM's `gpu_memory_utilization`).
    pub memory_share: f64,
    /// Whether blocks are kept for prompts that begin alike.
    pub prefix_cache: bool,
    /// Where blocks are kept that the GPUs' memory has no room for; with `prefix_cache`. Of engines that compute
    /// prompts. Nowhere if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TiersSpec>,
    /// What a pass takes that has parts of prompts and single tokens.
    pub pass_cost: MixedPass,
    /// What passes take: from kernels, or given.
    pub pass_time: PassTimeSpec,
    /// What the host takes for a pass, in which the GPU does nothing; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_per_pass: Option<Time>,
    /// The same for each request of a pass; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_per_sequence: Option<Time>,
    /// What starting the kernels of a layer takes the host at least, in passes that are no CUDA graph: those with
    /// longer prompts, and all of static batching; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_per_layer: Option<Time>,
    /// The part that is left in a pass of what profiles of kernels take whatever their shape, 0 to 1; the policy's own
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_share: Option<f64>,
    /// From a request's arrival until it is queued: the front end; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front_end: Option<Time>,
    /// The same for each token of its prompt, one prompt after the other; the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front_end_per_token: Option<Time>,
}

impl Default for EngineSpec {
    fn default() -> Self {
        EngineSpec {
            comment: None,
            policy: PolicyKind::default(),
            token_budget: 8192,
            max_sequences: 256,
            chunked_prefill: true,
            block_tokens: None,
            num_gpu_blocks: None,
            memory_share: 0.9,
            prefix_cache: false,
            tiers: None,
            pass_cost: MixedPass::default(),
            pass_time: PassTimeSpec::default(),
            host_per_pass: None,
            host_per_sequence: None,
            host_per_layer: None,
            launch_share: None,
            front_end: None,
            front_end_per_token: None,
        }
    }
}

impl EngineSpec {
    /// Tokens of a block of KV cache.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens
            .unwrap_or_else(|| self.policy.block_tokens())
    }
}

/// Tiers of KV cache below the GPUs' memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TiersSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The tiers, the one that is looked into first at the beginning: what one gives up goes to the next.
    pub levels: Vec<TierSpec>,
    /// When blocks are read back.
    #[serde(default)]
    pub reload: Reload,
    /// When blocks are written to the first tier.
    #[serde(default)]
    pub write: TierWrite,
}

/// A tier of KV cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "KvTierSpec")]
pub enum TierSpec {
    /// In the memory of the GPUs' hosts: each engine has its own.
    Host(HostTierSpec),
    /// On drives of the node, or on file servers: engines that reach the same devices share it.
    Storage(StorageTierSpec),
}

impl TierSpec {
    /// What files call it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            TierSpec::Host(_) => "host",
            TierSpec::Storage(_) => "storage",
        }
    }
}

/// KV cache in the hosts' memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostTierSpec {
    /// Bytes of an engine, all its GPUs together.
    pub capacity: Bytes,
    /// Tokens that are copied as one; 256 (LMCache's) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_tokens: Option<u32>,
    /// At this rate for each GPU, whatever else goes on, in place of the machine's links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// KV cache on storage devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageTierSpec {
    /// Bytes of all devices that an engine reaches.
    pub capacity: Bytes,
    /// The devices, as faults and routes name them; if absent all file servers, or without any all drives of an
    /// engine's node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,
    /// Tokens that are read as one; 256 (LMCache's) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_tokens: Option<u32>,
    /// At this rate for each GPU, whatever else goes on, in place of the machine's links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// What passes take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PassTimeSpec {
    /// The sum of its kernels and communications on the machine.
    Kernels(KernelTimeSpec),
    /// Always the same.
    Fixed(FixedTimeSpec),
    /// Polynomials.
    Polynomial(PolynomialTimeSpec),
}

impl Default for PassTimeSpec {
    fn default() -> Self {
        PassTimeSpec::Kernels(KernelTimeSpec::default())
    }
}

/// Passes from kernels: `{}`, as nothing more is to be said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelTimeSpec {}

/// Passes that take always the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedTimeSpec {
    /// A pass with parts of prompts.
    pub prefill: Time,
    /// A pass in which requests get single tokens.
    pub decode: Time,
}

/// Passes by polynomials, in milliseconds; coefficients from the constant one on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolynomialTimeSpec {
    /// Of the tokens of prompts in a pass.
    pub prefill: [f64; 3],
    /// Of the share of the KV cache that is in use.
    pub decode: [f64; 3],
    /// Single tokens take no fewer milliseconds.
    #[serde(default)]
    pub decode_min: f64,
}

/// Engines that are alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What they are for.
    #[serde(default)]
    pub role: PoolRole,
    /// How many there are; if absent, as many as the GPUs that are left have room for (in the last pool).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How each is divided over GPUs.
    #[serde(default)]
    pub parallel: ServingParallelSpec,
    /// In place of the engine's: requests that run at once at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sequences: Option<u32>,
    /// In place of the engine's: tokens that one pass computes at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u32>,
}

/// What engines are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolRole {
    /// Prompts and generation.
    #[default]
    Both,
    /// Prompts alone; their KV caches are handed over.
    Prefill,
    /// Generation alone.
    Decode,
}

/// How an engine is divided over GPUs: `tp × pp × attention_dp` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServingParallelSpec {
    /// Heads and inner widths are split over so many GPUs; if absent, the fewest that leave a quarter of their memory
    /// to keys and values, else the fewest that the weights fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tp: Option<u32>,
    /// Layers are split over so many stages.
    pub pp: u32,
    /// So many parts of the engine have attention and requests of their own; experts are common to all.
    pub attention_dp: u32,
    /// Experts are split over so many GPUs, each whole; if absent over all of a stage with `attention_dp` above
    /// 1, else each is split by `tp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep: Option<u32>,
}

impl Default for ServingParallelSpec {
    fn default() -> Self {
        ServingParallelSpec {
            tp: None,
            pp: 1,
            attention_dp: 1,
            ep: None,
        }
    }
}

impl ServingParallelSpec {
    /// GPUs that heads are split over.
    #[must_use]
    pub fn tp(&self) -> u32 {
        self.tp.unwrap_or(1)
    }

    /// GPUs of an engine.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.tp()
            .saturating_mul(self.pp)
            .saturating_mul(self.attention_dp)
    }
}

/// How KV caches travel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandoverSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What moves them: `nixl` (vLLM, TensorRT-LLM) or `mooncake` (SGLang); the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<HandoverLibrary>,
    /// Who begins: `pull` (vLLM) or `push` (SGLang); the policy's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<HandoverOrder>,
    /// Each part of a prompt is sent as soon as it is computed; with `push`.
    pub pipelined: bool,
    /// What starting one takes the engine; the library's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Time>,
    /// What posting a descriptor takes; the library's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posting: Option<Time>,
    /// Until the first byte is there, in place of what the links say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Time>,
    /// Bytes of a piece are gathered in a buffer and go as one, in so many bytes at a time; without, each block of
    /// each layer has descriptors of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<Bytes>,
    /// Runs of blocks that lie next to each other in memory, on average; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contiguous_blocks: Option<f64>,
    /// At this rate for each GPU that sends, whatever else goes on, in place of the machine's links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// It takes no time.
    pub free: bool,
}

/// What moves KV caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoverLibrary {
    /// NIXL over UCX.
    Nixl,
    /// Mooncake's transfer engine.
    Mooncake,
}

impl HandoverLibrary {
    /// What files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            HandoverLibrary::Nixl => "nixl",
            HandoverLibrary::Mooncake => "mooncake",
        }
    }
}

/// What a request is to keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SloSpec {
    /// From its arrival to its first token; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Time>,
    /// From token to token, on average of a request; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot: Option<Time>,
    /// From its arrival to its last token; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e: Option<Time>,
}

/// Speculative decoding: tokens are guessed and checked in one pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpeculativeSpec {
    /// Tokens that are guessed ahead for each request.
    pub tokens: u32,
    /// The chance that a guess is right if all before it were.
    pub acceptance: f64,
    /// What guessing a token takes, as a part of what a pass takes: 0.05 for a head of the model's own.
    #[serde(default)]
    pub draft_share: f64,
}
