//! What a training job keeps in the memory of one GPU, and whether it fits.

use super::activations::{embedding_activations, head_activations, layer_activations};
use super::ends::StateWidths;
use super::error::ModelError;
use super::kernel::{MicroBatch, Style};
use super::layout::{Batch, Layout};
use super::parameters::{LayerParameters, layer_parameters, parameters};
use super::spec::{AttentionKind, ModelSpec};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Bytes of weights, gradients and optimiser states.
    pub widths: StateWidths,
    /// What the driver, libraries and NCCL take.
    pub reserved: Bytes,
}

/// The memory of one GPU, by what it is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryBreakdown {
    /// Weights.
    pub weights: Bytes,
    /// Gradients.
    pub gradients: Bytes,
    /// Optimiser states.
    pub optimiser: Bytes,
    /// Whole weights of the layer that computes and of those asked for ahead, if weights are
    /// shared; of all layers, if they stay.
    pub gathered: Bytes,
    /// Activations of layers and embedding, of all micro-batches in flight.
    pub activations: Bytes,
    /// Inputs of the output projection and logits, of one micro-batch.
    pub logits: Bytes,
    /// What the driver, libraries and NCCL take.
    pub reserved: Bytes,
}

impl MemoryBreakdown {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        let parts = [
            self.weights,
            self.gradients,
            self.optimiser,
            self.gathered,
            self.activations,
            self.logits,
            self.reserved,
        ];
        let sum = parts
            .iter()
            .fold(0, |sum: u64, b| sum.saturating_add(b.get()));
        Bytes::new(sum)
    }

    /// Whether that fits a GPU of so much memory.
    #[must_use]
    pub fn fits(self, capacity: Bytes) -> Fit {
        let (need, capacity) = (self.total().get(), capacity.get());
        Fit {
            breakdown: self,
            free: Bytes::new(capacity.saturating_sub(need)),
            missing: Bytes::new(need.saturating_sub(capacity)),
        }
    }
}

/// Whether a job fits a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// What is needed.
    pub breakdown: MemoryBreakdown,
    /// What is left.
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
    let whole = parameters(model);
    let unpadded = model.vocabulary * model.hidden;
    let table = model.padded_vocabulary(layout.tp) / tp * model.hidden;
    let (first, last) = (stage == 0, stage + 1 == layout.pp);
    if first {
        let places = whole.embedding - unpadded;
        add(table + places, 0);
    }
    if last {
        let own = !(model.tied_embeddings && first);
        add(if own { table } else { 0 } + whole.norms, 0);
    }
    sum
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

/// How many forward passes through one group of layers a stage keeps at most, over all its groups.
///
/// - GPipe: all micro-batches, of each group.
/// - One forward, one backward: min(m, p - stage) (formulas.md, section 6).
/// - Interleaved: Megatron-LM's warm-up and the one in work, `2 (p - stage - 1) + (v - 1) p + 1`;
///   on the first stage that is as much as `1 + (p - 1) / pv` times all layers of the model
///   (Korthikanti et al., arXiv 2205.05198, appendix C).
#[must_use]
pub fn groups_in_flight(
    layout: &Layout,
    schedule: Schedule,
    micro_batches: u64,
    stage: u32,
) -> u64 {
    let (p, v) = (u64::from(layout.pp), u64::from(layout.virtual_stages));
    let behind = p.saturating_sub(1 + u64::from(stage));
    let all = micro_batches.saturating_mul(v);
    match schedule {
        Schedule::Gpipe => all,
        _ if v == 1 => all.min(behind + 1),
        Schedule::OneForwardOneBackward | Schedule::Interleaved => {
            all.min(2 * behind + (v - 1) * p + 1)
        }
    }
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
    let (shards, expert_shards) = shards(plan);
    let state = |width: u64, shared: bool| {
        let (a, b) = if shared {
            (shards, expert_shards)
        } else {
            (1, 1)
        };
        let bytes = (held.dense * width).div_ceil(a) + (held.experts * width).div_ceil(b);
        Bytes::new(bytes)
    };
    let gathered = match (plan.zero, plan.whole_layers) {
        (Zero::Weights, Some(layers)) if shards > 1 => {
            // Nothing limits how many layers are fetched ahead.
            u64::from(layers)
                .saturating_mul(held.largest)
                .min(held.dense + held.experts)
        }
        (Zero::Weights, None) if shards > 1 => held.dense + held.experts,
        _ => 0,
    };
    Ok(MemoryBreakdown {
        weights: state(plan.widths.weight, plan.zero >= Zero::Weights),
        gradients: state(plan.widths.gradient, plan.zero >= Zero::Gradients),
        optimiser: state(plan.widths.optimiser(), plan.zero >= Zero::Optimiser),
        gathered: Bytes::new(gathered * plan.widths.weight),
        activations: Bytes::new(stage_activations(model, plan, stage)),
        logits: Bytes::new(logits(model, plan, stage)),
        reserved: plan.reserved,
    })
}

/// Over how many GPUs what data-parallel GPUs share is divided: of all but routed experts, and of
/// these, of which expert-parallel GPUs, the nearest of them, have different ones.
fn shards(plan: &MemoryPlan) -> (u64, u64) {
    let copies = u64::from(plan.layout.dp) * u64::from(plan.layout.cp);
    let shards = match u64::from(plan.shards) {
        0 => copies,
        shards => shards.min(copies),
    };
    (shards, (shards / u64::from(plan.layout.ep)).max(1))
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
        if peak.1.total() < memory.total() {
            peak = (stage, memory);
        }
    }
    Ok(peak)
}

fn micro_batch(plan: &MemoryPlan) -> MicroBatch {
    MicroBatch {
        sequences: plan.batch.micro,
        tokens: plan.batch.sequence,
    }
}

/// Activations of all micro-batches in flight, which are spread evenly over the stage's groups of
/// layers; what does not divide goes to the first ones.
fn stage_activations(model: &ModelSpec, plan: &MemoryPlan, stage: u32) -> u64 {
    let (layout, batch) = (&plan.layout, micro_batch(plan));
    let sharding = layout.sharding();
    let count = layout.micro_batches(&plan.batch);
    let in_flight = groups_in_flight(layout, plan.schedule, count, stage);
    let v = u64::from(layout.virtual_stages);
    let mut sum: u64 = 0;
    for chunk in 0..layout.virtual_stages {
        let times = in_flight / v + u64::from(u64::from(chunk) < in_flight % v);
        let mut group: u64 = layout
            .layers_of(model, stage, chunk)
            .map(|layer| layer_activations(model, layer, batch, &sharding, &plan.style))
            .fold(0, u64::saturating_add);
        if stage == 0 && chunk == 0 {
            let kept = embedding_activations(model, batch, &sharding, &plan.style);
            group = group.saturating_add(kept);
        }
        sum = sum.saturating_add(group.saturating_mul(times));
    }
    sum
}

fn logits(model: &ModelSpec, plan: &MemoryPlan, stage: u32) -> u64 {
    if stage + 1 < plan.layout.pp {
        return 0;
    }
    let sharding = plan.layout.sharding();
    head_activations(model, micro_batch(plan), &sharding, &plan.style)
}
