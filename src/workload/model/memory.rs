//! What a training job keeps in the memory of one GPU, and whether it fits.

use super::ends::StateWidths;
use super::error::ModelError;
use super::kept::Keeping;
use super::kernel::{MicroBatch, Style};
use super::layout::{Batch, Layout};
use super::parameters::{LayerParameters, layer_parameters, parameters};
use super::spec::{AttentionKind, ModelSpec};
use super::transients::{Transients, transients};
use crate::pipeline::Schedule;
use fabricsim_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What data-parallel GPUs share in place of keeping copies (ZeRO, arXiv 1910.02054, section 5):
/// each stage includes those before it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Zero {
    /// Nothing: copies of all (DDP).
    #[default]
    None,
    /// Optimiser states (ZeRO-1; Megatron-LM's distributed optimiser).
    Optimiser,
    /// And gradients (ZeRO-2).
    Gradients,
    /// And weights (ZeRO-3, FSDP full shard).
    Weights,
}

/// What decides how much memory a job needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryPlan {
    /// How the job is spread.
    pub layout: Layout,
    /// The batch of a step.
    pub batch: Batch,
    /// How kernels are written: what they keep.
    pub style: Style,
    /// The order of a pipeline's passes.
    pub schedule: Schedule,
    /// What data-parallel GPUs share.
    pub zero: Zero,
    /// Over how many of them what they share is divided; 0 or more than there are: over all.
    /// With fewer each part is on several GPUs (hybrid sharding).
    pub shards: u32,
    /// With [`Zero::Weights`]: how many layers' whole weights a GPU has at once; all of them if
    /// they stay between the passes.
    pub whole_layers: Option<u32>,
    /// Layers whose whole gradients are there until they are summed up together.
    pub summed_layers: u32,
    /// With [`Zero::Weights`]: whether a GPU sums whole gradients until the last micro-batch, as
    /// PyTorch's FSDP does inside its pipelines.
    pub whole_gradients: bool,
    /// With [`Zero::Weights`]: bytes of a gradient while it is reduced.
    pub reduced_width: u64,
    /// Bytes that the loss has of a logit at once.
    pub logit_bytes: u64,
    /// Bytes of weights, gradients and optimiser states, as they are kept.
    pub widths: StateWidths,
    /// Which states are not in the GPU's memory.
    pub offloaded: Offloaded,
    /// Bytes of a parameter beside its gradient as it is kept: as it is made, or in buckets.
    pub second_gradient: u64,
    /// Of a bucket beside the gradients.
    pub bucket: Bytes,
    /// Bytes of a parameter that ways to exchange less keep from one step for the next.
    pub carried: u64,
    /// Bytes of a parameter that is copied beside the others after the optimizer, to take the mean over replicas.
    pub averaged: u64,
    /// Of NCCL's buffers.
    pub nccl: Bytes,
    /// What the driver, CUDA's context and libraries take.
    pub context: Bytes,
    /// What the allocator holds beside.
    pub fragmentation: Fragmentation,
}

/// Which states are in the host's memory or on drives, and not in the GPU's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offloaded {
    /// Optimizer states, the FP32 values of parameters among them.
    pub optimizer: bool,
    /// Gradients.
    pub gradients: bool,
    /// Parameters: of them only those that are worked on are there.
    pub parameters: bool,
    /// Activations of so many layers of each virtual stage, from its first on; its last layer keeps them.
    pub activations: u64,
}

/// The part of what an allocator holds that is free, but for nothing that is asked for, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fragmentation {
    /// As long as there is memory enough.
    pub usual: f64,
    /// When all that can be has been given back.
    pub least: f64,
}

impl Fragmentation {
    /// Bytes beside so many that are in use.
    fn beside(share: f64, used: Bytes) -> Bytes {
        let share = share.clamp(0.0, 0.99);
        Bytes::new((used.get() as f64 * share / (1.0 - share)) as u64)
    }
}

impl MemoryPlan {
    pub(super) fn micro_batch(&self) -> MicroBatch {
        MicroBatch {
            sequences: self.batch.micro,
            tokens: self.batch.sequence,
        }
    }

    fn keeping(&self) -> Keeping<'_> {
        Keeping {
            layout: &self.layout,
            batch: &self.batch,
            style: &self.style,
            schedule: self.schedule,
            away: self.offloaded.activations,
        }
    }

    /// Over how many GPUs what data-parallel GPUs share is divided: of all but routed experts, and
    /// of these, of which expert-parallel GPUs, the nearest of them, have different ones.
    pub(super) fn shards(&self) -> (u64, u64) {
        let copies = u64::from(self.layout.dp) * u64::from(self.layout.cp);
        let shards = match u64::from(self.shards) {
            0 => copies,
            shards => shards.min(copies),
        };
        (shards, (shards / u64::from(self.layout.ep)).max(1))
    }
}

/// The memory of one GPU, by what it is for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryBreakdown {
    /// Weights.
    pub weights: Bytes,
    /// Gradients.
    pub gradients: Bytes,
    /// Optimiser states.
    pub optimiser: Bytes,
    /// Gradients, or what was left out of them, of the step before.
    pub carried: Bytes,
    /// Activations of layers and embedding, of all micro-batches in flight, but for those that wait elsewhere.
    pub activations: Bytes,
    /// What comes and goes, by as much as it is more than the activations beside it.
    pub transient: Bytes,
    /// NCCL's buffers.
    pub nccl: Bytes,
    /// What the driver, CUDA's context and libraries take.
    pub context: Bytes,
    /// What the allocator holds beside.
    pub fragmentation: Fragmentation,
}

fn sum(parts: &[Bytes]) -> Bytes {
    let add = |sum: u64, part: &Bytes| sum.saturating_add(part.get());
    Bytes::new(parts.iter().fold(0, add))
}

impl MemoryBreakdown {
    /// Tensors: what the allocator has been asked for.
    #[must_use]
    pub fn allocated(&self) -> Bytes {
        sum(&[
            self.weights,
            self.gradients,
            self.optimiser,
            self.carried,
            self.activations,
            self.transient,
        ])
    }

    /// What has to be there for the job to run.
    #[must_use]
    pub fn needed(&self) -> Bytes {
        let allocated = self.allocated();
        let lost = Fragmentation::beside(self.fragmentation.least, allocated);
        sum(&[allocated, lost, self.nccl, self.context])
    }

    /// Whether that fits a GPU of so much memory.
    ///
    /// PyTorch's allocator keeps what is freed, in blocks that do not always suit what is asked for
    /// next; where the driver has nothing left it gives back segments that are free as a whole, and
    /// asks again (`CUDACachingAllocator.cpp`: `release_cached_blocks`). So free blocks take what they
    /// usually do, or what is left, and at least the rest.
    #[must_use]
    pub fn fits(self, capacity: Bytes) -> Fit {
        let (need, capacity) = (self.needed().get(), capacity.get());
        let free = capacity.saturating_sub(need);
        let blocks = |share| Fragmentation::beside(share, self.allocated()).get();
        let least = blocks(self.fragmentation.least);
        let usual = blocks(self.fragmentation.usual);
        let more = usual.saturating_sub(least).min(free);
        Fit {
            breakdown: self,
            fragmentation: Bytes::new(least),
            reserve: Bytes::new(more),
            free: Bytes::new(free - more),
            missing: Bytes::new(need.saturating_sub(capacity)),
        }
    }
}

/// Whether a job fits a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// What is needed.
    pub breakdown: MemoryBreakdown,
    /// Blocks that the allocator cannot give back: they are needed.
    pub fragmentation: Bytes,
    /// Blocks that it usually holds free beside, and gives back where memory is short.
    pub reserve: Bytes,
    /// What is left beside both.
    pub free: Bytes,
    /// What there is too little.
    pub missing: Bytes,
}

impl Fit {
    /// Whether it fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.missing == Bytes::ZERO
    }

    /// All that is in use, with what the allocator holds in reserve.
    #[must_use]
    pub fn total(&self) -> Bytes {
        sum(&[self.breakdown.needed(), self.reserve])
    }
}

/// Parameters that one GPU of a stage holds before data-parallel GPUs share them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageParameters {
    /// All but routed experts: copied over `dp` × `cp`.
    pub dense: u64,
    /// Routed experts: copied over `dp` × `cp` / `ep`.
    pub experts: u64,
    /// The most that a single layer, embedding or output holds of both.
    pub largest: u64,
    /// The same of layers alone.
    pub largest_layer: u64,
    /// The table of tokens or the output projection; 0 on stages that have neither.
    pub table: u64,
}

/// Parameters of the GPUs of a stage: layers by `tp` and `ep` (what neither splits, such as norms
/// and routers, whole), the padded embedding on the first, the output on the last; a tied table is
/// on both if they differ. The layout has been checked.
#[must_use]
pub fn stage_parameters(model: &ModelSpec, layout: &Layout, stage: u32) -> StageParameters {
    let tp = u64::from(layout.tp);
    let mut sum = StageParameters::default();
    let mut add = |dense: u64, experts: u64| {
        sum.dense += dense;
        sum.experts += experts;
        sum.largest = sum.largest.max(dense + experts);
    };
    for chunk in 0..layout.virtual_stages {
        for layer in layout.layers_of(model, stage, chunk) {
            let parts = layer_parameters(model, layer);
            let experts = parts.experts / (tp * u64::from(layout.ep));
            add(dense_on_gpu(model, &parts, layout.tp), experts);
        }
    }
    let largest_layer = sum.largest;
    let mut add = |dense: u64| {
        sum.dense += dense;
        sum.largest = sum.largest.max(dense);
    };
    let whole = parameters(model);
    let unpadded = model.vocabulary * model.hidden;
    let table = model.padded_vocabulary(layout.tp) / tp * model.hidden;
    let (first, last) = (stage == 0, stage + 1 == layout.pp);
    if first {
        let places = whole.embedding - unpadded;
        add(table + places);
    }
    if last {
        let own = !(model.tied_embeddings && first);
        add(if own { table } else { 0 } + whole.norms);
    }
    StageParameters {
        largest_layer,
        table: if first || last { table } else { 0 },
        ..sum
    }
}

/// A layer's parameters but for routed experts on one GPU.
fn dense_on_gpu(model: &ModelSpec, parts: &LayerParameters, tp: u32) -> u64 {
    let tp = u64::from(tp);
    let h = model.hidden;
    // Biases of the attention's and the MLP's results are not split, nor is what latent attention
    // compresses with. Keys and values are copied if there are fewer heads than GPUs.
    let (whole, copied) = match model.attention {
        AttentionKind::MultiHead => {
            let copies = tp.max(model.kv_heads()) - model.kv_heads();
            let bias = u64::from(model.biases);
            let head = (h + bias) * (model.qk_dim() + model.v_dim());
            (bias * h, copies * head)
        }
        AttentionKind::Mla(mla) => {
            let columns = mla.q_lora.unwrap_or(0) + mla.kv_lora + mla.rope_dim;
            (h * columns, 0)
        }
    };
    let attention = whole + (parts.attention - whole + copied).div_ceil(tp);
    let mlp_whole = if model.biases && parts.mlp > 0 { h } else { 0 };
    let mlp = mlp_whole + (parts.mlp - mlp_whole).div_ceil(tp);
    attention + mlp + parts.shared_experts.div_ceil(tp) + parts.router + parts.norms
}

/// The memory of the GPUs of a stage.
///
/// # Errors
/// As [`Layout::check`], which it calls.
pub fn stage_memory(
    model: &ModelSpec,
    plan: &MemoryPlan,
    stage: u32,
) -> Result<MemoryBreakdown, ModelError> {
    let layout = &plan.layout;
    layout.check(model, &plan.batch, None)?;
    let held = stage_parameters(model, layout, stage);
    let (shards, expert_shards) = plan.shards();
    let state = |width: u64, shared: bool| {
        let (a, b) = if shared {
            (shards, expert_shards)
        } else {
            (1, 1)
        };
        let bytes = (held.dense * width).div_ceil(a) + (held.experts * width).div_ceil(b);
        Bytes::new(bytes)
    };
    let divided_gradients = plan.zero >= Zero::Gradients && !plan.whole_gradients;
    let updated = state(1, plan.zero >= Zero::Optimiser).get();
    let activations = plan.keeping().of_stage(model, stage).here;
    let Transients { passes, optimiser } = transients(model, plan, (stage, &held, updated));
    // The optimizer works when all activations are gone, and means are taken after it.
    let ending = optimiser.max(state(plan.averaged, false).get());
    let transient = passes.max(ending.saturating_sub(activations));
    let away = plan.offloaded;
    let kept = |width: u64, away: bool| if away { 0 } else { width };
    // FP32 weights go with the optimizer, whose values they are.
    let weight = match away.optimizer {
        true => plan.widths.weight.min(plan.style.width),
        false => plan.widths.weight,
    };
    let optimiser = kept(plan.widths.optimiser(), away.optimizer);
    Ok(MemoryBreakdown {
        weights: state(kept(weight, away.parameters), plan.zero >= Zero::Weights),
        gradients: sum(&[
            state(
                kept(plan.widths.gradient, away.gradients),
                divided_gradients,
            ),
            state(plan.second_gradient, false),
        ]),
        optimiser: state(optimiser, plan.zero >= Zero::Optimiser),
        carried: state(plan.carried, false),
        activations: Bytes::new(activations),
        transient: Bytes::new(transient),
        nccl: plan.nccl,
        context: plan.context,
        fragmentation: plan.fragmentation,
    })
}

/// The memory of the stage that needs most, and which one it is.
///
/// # Errors
/// As [`stage_memory`].
pub fn peak_memory(
    model: &ModelSpec,
    plan: &MemoryPlan,
) -> Result<(u32, MemoryBreakdown), ModelError> {
    let mut peak = (0, stage_memory(model, plan, 0)?);
    for stage in 1..plan.layout.pp {
        let memory = stage_memory(model, plan, stage)?;
        if peak.1.needed() < memory.needed() {
            peak = (stage, memory);
        }
    }
    Ok(peak)
}
