//! What a job's run leaves behind, as plain values: the report's only input.

use super::kernels::{FlopCount, KernelUse};
use super::{DataLoaderUse, OffloadUse};
use crate::Part;
use crate::cause::FaultCost;
use crate::job_report::JobReport;
use crate::numbers::size;
use crate::numeric::{bytes, named_bytes};
use fabricsim_units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kinds of steps are told apart where it is said how far off predictions are.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct StepKind {
    /// A mixture of experts; dense, if not.
    pub experts: bool,
    /// What matrices are multiplied in: `BF16`, `FP8`.
    pub precision: String,
    /// The GPU's generation: `hopper`.
    pub gpu: String,
}

impl StepKind {
    /// For people: `dense BF16 on Hopper`.
    #[must_use]
    pub fn text(&self) -> String {
        let layers = if self.experts {
            "mixture-of-experts"
        } else {
            "dense"
        };
        let mut gpu = self.gpu.clone();
        if let Some(first) = gpu.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!("{layers} {} on {gpu}", self.precision)
    }
}

/// What came of a training job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrainingResult {
    /// The model's name.
    pub model: String,
    /// Its parameters.
    pub parameters: f64,
    /// How it is divided: `tp 8 · pp 4 · dp 8`.
    pub layout: String,
    /// How micro-batches are ordered and replicas kept equal: `interleaved × 3, 24 micro-batches,
    /// ZeRO-1`.
    pub schedule: String,
    /// What kind of steps these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StepKind>,
    /// What its faults cost, if it has any and ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_prices: Option<FaultPrices>,
    /// The results, or why there are none.
    #[serde(flatten)]
    pub outcome: TrainingOutcome,
}

impl TrainingResult {
    /// What a step took, if it ran.
    #[must_use]
    pub fn ran(&self) -> Option<&StepResult> {
        match &self.outcome {
            TrainingOutcome::Ran(result) => Some(result),
            TrainingOutcome::Failed(_) => None,
        }
    }
}

impl JobReport for TrainingResult {
    fn failure(&self) -> Option<&str> {
        match &self.outcome {
            TrainingOutcome::Ran(_) => None,
            TrainingOutcome::Failed(why) => Some(why),
        }
    }

    fn wall_ms(&self) -> f64 {
        self.ran().map_or(0.0, |ran| ran.wall_ms)
    }

    fn forget_wall_time(&mut self) {
        if let TrainingOutcome::Ran(result) = &mut self.outcome {
            result.wall_ms = 0.0;
        }
    }
}

/// What faults cost a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultPrices {
    /// Seconds of all simulated steps.
    pub run_s: f64,
    /// The same without any fault.
    pub healthy_s: f64,
    /// What each fault costs of that, in their order.
    pub costs: Vec<FaultCost>,
}

/// Whether a job ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrainingOutcome {
    /// It ran.
    Ran(Box<StepResult>),
    /// It hung, or ranks waited for too long: as NCCL would hang, or a monitored barrier name
    /// the missing ranks.
    Failed(String),
}

/// What a step took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepResult {
    /// Seconds of the last step.
    pub step_s: f64,
    /// Seconds of each step that was simulated.
    pub steps_s: Vec<f64>,
    /// Tokens of a step.
    pub tokens: u64,
    /// Tokens per second, all GPUs together.
    pub tokens_per_s: f64,
    /// Model operations per second and GPU, 1e12 (attention's scores counted in full).
    pub model_tflops_per_gpu: f64,
    /// These over the peak of the job's precision, 0 to 1: attention's scores counted in full, as
    /// PaLM, Megatron-LM and llm-foundry do.
    pub mfu: f64,
    /// The same with the half of the scores that a causal mask leaves, which is what kernels
    /// compute.
    #[serde(default)]
    pub mfu_causal: f64,
    /// The same as `mfu`, with what is computed again in the backward pass.
    #[serde(default)]
    pub hfu: f64,
    /// What a step costs by the price of the machine, if the scenario has one: dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars_per_million_tokens: Option<f64>,
    /// Where an average GPU's time went, of the whole run; adds up to it.
    pub time: Vec<Share>,
    /// Where an average GPU's time went in the last step, by cause; adds up to it exactly.
    #[serde(default)]
    pub causes: Vec<Part>,
    /// Of the whole run, 0 to 1: communication that no kernel hides, over all.
    pub exposed_communication: f64,
    /// Waiting for other pipeline stages, and being done before others.
    pub bubble: f64,
    /// The part of communication that kernels hide.
    pub overlap: f64,
    /// What each kind of communication took.
    pub collectives: Vec<CollectiveUse>,
    /// One rank of each class: those that nothing tells apart.
    pub ranks: Vec<RankUse>,
    /// Ranks that others waited for, worst first.
    pub culprits: Vec<Culprit>,
    /// Memory of the fullest GPU.
    pub memory: MemoryUse,
    /// Layers that FSDP gathers at once, if an estimate was to decide that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucketing: Option<u32>,
    /// What FSDP gathers ahead, if memory was to decide that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<PrefetchUse>,
    /// States in the memory of hosts and on drives, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadUse>,
    /// Batches from storage, if they come from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_loader: Option<DataLoaderUse>,
    /// What was disturbed: faults of the scenario that have a place and a time.
    pub disturbances: Vec<Disturbance>,
    /// Events handled, those of communications rehearsed alone included.
    pub events: u64,
    /// Wall-clock milliseconds. Not reproducible: zero in all documents.
    pub wall_ms: f64,
    /// Goodput over a long run with failures, if the scenario asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputUse>,
    /// The step's kernels, if the scenario asks for them; what takes longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelUse>,
    /// Utilisation by every convention, if the scenario asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flop_counts: Vec<FlopCount>,
}

/// A part of some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// `compute`, `kernels slowed by collectives`, `exposed: tensor parallel`, `waiting: pipeline`, `host`, `idle` …
    pub what: String,
    /// What kind of part it is.
    #[serde(default)]
    pub kind: ShareKind,
    /// Of exposed communication and waiting: on which stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Seconds.
    pub seconds: f64,
    /// Of all, 0 to 1.
    pub share: f64,
}

/// Kinds of parts of a time.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// Kernels run; of a long run, steps that count.
    Compute,
    /// Kernels run longer, as communications at the same time hold SMs.
    Slowed,
    /// Communication that no kernel hides.
    Exposed,
    /// Waiting for other ranks, or until nodes are back.
    Waiting,
    /// The process has not started what comes next.
    Host,
    /// Nothing is left to do.
    Idle,
    /// Something else: copies and delays, checkpoints, restarts.
    #[default]
    Other,
}

impl ShareKind {
    /// Whether kernels run.
    #[must_use]
    pub const fn is_computing(self) -> bool {
        matches!(self, ShareKind::Compute | ShareKind::Slowed)
    }
}

/// What one kind of communication took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveUse {
    /// The communicator: `tensor parallel`, `pipeline 0→1`.
    pub group: String,
    /// How many ranks it has.
    pub ranks: u32,
    /// The operation: `all-gather of weights`.
    pub what: String,
    /// nccl-tests' size of one, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// How often it took place on a GPU in the run.
    pub count: u32,
    /// Microseconds of one, on average.
    pub time_us: f64,
    /// Microseconds of one that has all links for itself.
    pub alone_us: f64,
    /// GB/s of bus bandwidth, on average.
    pub busbw_gbs: f64,
    /// Algorithm and protocol: `ring simple`.
    pub how: String,
    /// SMs that it holds.
    pub sms: u32,
}

/// One rank of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankUse {
    /// The rank.
    pub rank: u32,
    /// Its GPU: `node0/gpu3`.
    pub gpu: String,
    /// Its parts: `stage 2`, `stage 0, experts 3`.
    pub part: String,
    /// How many are alike, itself included.
    pub alike: u32,
    /// Where its time went; the same parts as [`StepResult::time`].
    pub time: Vec<Share>,
}

/// A rank that others waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// The rank.
    pub rank: u32,
    /// Its GPU.
    pub gpu: String,
    /// Seconds for which other ranks waited for it with nothing else to do, all of them together.
    pub caused_s: f64,
    /// Seconds that it waited for others itself.
    pub waited_s: f64,
    /// Why, if the scenario says: `slow GPU, 0.8 ×`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a GPU's memory is taken by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPart {
    /// Weights.
    Parameters,
    /// Gradients as they are kept.
    Gradients,
    /// The optimizer's states.
    Optimizer,
    /// What ways to exchange less keep for the next step: gradients that were left out, or are a step old.
    CarriedGradients,
    /// What the forward passes of micro-batches in flight keep for backward.
    Activations,
    /// What comes and goes within a step, at its peak: gathered weights, a layer that is computed
    /// again, logits, buckets, gradients in FP32 while the optimizer works.
    Transient,
    /// Buffers of NCCL's communicators.
    Nccl,
    /// CUDA's context, libraries, and what the driver keeps.
    Context,
    /// Blocks that the allocator holds free because nothing asks for their size, and cannot give back.
    Fragmentation,
    /// More of them, which it usually holds and gives back where memory is short: not needed.
    Reserve,
}

impl MemoryPart {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MemoryPart::Parameters => "parameters",
            MemoryPart::Gradients => "gradients",
            MemoryPart::Optimizer => "optimizer",
            MemoryPart::CarriedGradients => "gradients of the step before",
            MemoryPart::Activations => "activations",
            MemoryPart::Transient => "transient",
            MemoryPart::Nccl => "NCCL buffers",
            MemoryPart::Context => "CUDA context and driver",
            MemoryPart::Fragmentation => "fragmentation",
            MemoryPart::Reserve => "held in reserve",
        }
    }

    /// Whether PyTorch's allocator has it; what else there is lies beside.
    #[must_use]
    pub const fn is_allocators(self) -> bool {
        !matches!(self, MemoryPart::Nccl | MemoryPart::Context)
    }
}

/// Memory of the fullest GPU, bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// Its stage.
    pub stage: u32,
    /// What it is taken by, without parts of which there is nothing.
    #[serde(with = "named_bytes")]
    #[schemars(with = "Vec<(MemoryPart, u64)>")]
    pub parts: Vec<(MemoryPart, Bytes)>,
    /// All of them: what is in use.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub total: Bytes,
    /// Of that, what the allocator holds in reserve and gives back where memory is short; all else is needed.
    #[serde(default = "none", with = "bytes")]
    #[schemars(with = "u64")]
    pub reserve: Bytes,
    /// What the GPU has.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub capacity: Bytes,
    /// Whether it fits.
    pub fits: bool,
}

const fn none() -> Bytes {
    Bytes::ZERO
}

impl MemoryUse {
    /// What has to be there for the job to run.
    #[must_use]
    pub fn need(&self) -> Bytes {
        Bytes::new(self.total.get().saturating_sub(self.reserve.get()))
    }

    /// What is too much.
    #[must_use]
    pub fn missing(&self) -> Bytes {
        Bytes::new(self.need().get().saturating_sub(self.capacity.get()))
    }

    /// What is not needed, and how much of that the allocator holds: `6.05 GiB left, of which 6.05 GiB are
    /// held in reserve`.
    pub(crate) fn left(&self) -> String {
        let left = self.capacity.get().saturating_sub(self.need().get());
        let held = match self.reserve.get() {
            0 => String::new(),
            reserve => format!(", of which {} are held in reserve", size(reserve as f64)),
        };
        format!("{} left{held}", size(left as f64))
    }

    /// The largest part, the first of equal ones; `None` if there is nothing.
    #[must_use]
    pub fn largest(&self) -> Option<(MemoryPart, Bytes)> {
        let parts = self.parts.iter().copied().rev();
        parts.max_by_key(|&(_, bytes)| bytes)
    }

    /// What PyTorch's allocator has of it: what PyTorch calls reserved.
    #[must_use]
    pub fn reserved(&self) -> Bytes {
        let own = self.parts.iter().filter(|(part, _)| part.is_allocators());
        Bytes::new(own.map(|(_, bytes)| bytes.get()).sum())
    }
}

/// How far ahead weights are gathered, as memory allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrefetchUse {
    /// Layers whose weights are gathered ahead.
    pub layers: u32,
    /// What each of them takes of the GPU's memory, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub layer_bytes: Bytes,
}

/// Something that was disturbed for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// `link down`, `slow GPU, 0.8 ×`.
    pub what: String,
    /// Where: `node0/nic0`.
    pub place: String,
    /// Seconds since the job began.
    pub from_s: f64,
    /// Until; `None`: to the end.
    pub to_s: Option<f64>,
}

impl Disturbance {
    /// When it was on, within a run up to `end`; nothing if it is after that.
    pub(crate) fn during(&self, end: Time) -> Option<(Time, Time)> {
        let picos = |seconds: f64| Time::from_picos((seconds * 1e12).round().max(0.0) as u64);
        let from = picos(self.from_s);
        let to = self.to_s.map_or(end, picos).min(end);
        (from < to).then_some((from, to))
    }
}

/// A long run with failures and checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoodputUse {
    /// The part of the time that steps took which were not lost, 0 to 1.
    pub goodput: f64,
    /// What one run in ten does not reach.
    #[serde(default)]
    pub p10: f64,
    /// What half of the runs reach.
    #[serde(default)]
    pub p50: f64,
    /// What one run in ten is above.
    #[serde(default)]
    pub p90: f64,
    /// Seconds of work between two checkpoints.
    pub interval_s: f64,
    /// Failures in the run, on average.
    pub failures: f64,
    /// Where the time went: `steps`, `checkpoints`, `lost work`, `detection` …
    pub time: Vec<Share>,
    /// Intervals for comparison: name, seconds, goodput.
    pub intervals: Vec<(String, f64, f64)>,
    /// Kinds of parts that fail, and what they cost; what costs most first.
    #[serde(default)]
    pub components: Vec<ComponentLoss>,
    /// What a restart consists of, if the scenario asks for its parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartUse>,
    /// What a checkpoint takes on the machine's storage, if it goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointUse>,
}

/// A checkpoint on the machine's storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointUse {
    /// Its size, bytes.
    #[serde(with = "bytes")]
    #[schemars(with = "u64")]
    pub bytes: Bytes,
    /// GPUs that write.
    pub writers: u32,
    /// Storage devices that they write to.
    pub devices: u32,
    /// For how long training stands still, in seconds.
    pub blocked_s: f64,
    /// Copying it to the hosts' memory, if it is written from there while training goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<StorageMove>,
    /// Writing it.
    pub write: StorageMove,
    /// Reading it, by all GPUs.
    pub read: StorageMove,
}

/// What it takes to move a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageMove {
    /// In seconds.
    pub time_s: f64,
    /// What takes longest.
    pub limit: StorageLimit,
    /// The link that takes longest, of equals one.
    pub link: String,
}

/// What holds up checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StorageLimit {
    /// What storage devices read or write.
    Storage,
    /// The PCIe link of a storage device that reads or writes more.
    StorageLink,
    /// A network interface, at either of its ends.
    Nic,
    /// Cables between switches.
    Switches,
    /// Other links inside a server.
    Host,
}

/// What a restart consists of, one part after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartUse {
    /// Starting processes, and all else that is not below; in seconds.
    pub processes_s: f64,
    /// Making communicators.
    pub communicators_s: f64,
    /// Reading the checkpoint.
    pub load_s: f64,
}

/// What failures of one kind of part cost a long run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComponentLoss {
    /// The kind.
    pub component: String,
    /// Its failures in the run, on average.
    pub failures: f64,
    /// The goodput that there would be more, if it never failed.
    pub lost: f64,
    /// Of parts that nodes share: how many nodes a failure stops, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<f64>,
}
