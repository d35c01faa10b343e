//! Memory that comes and goes within a step, at its peak.
//!
//! A step has three phases that do not meet: layers forward and backward, the output with its loss,
//! and the optimizer. The first two lie beside the activations that micro-batches keep, the last one
//! does not. What each has at most follows from which tensors are alive at once:
//!
//! | phase | bytes |
//! | --- | --- |
//! | a layer backward | what it (with `sqrt`: all layers of its segment) computes again, and gradients: of the residual stream before and after the layer, 2wh a row, and of the inputs of its widest part |
//! | the same with sequence parallelism | the gathered input and its gradient, 2wh a row of all tokens |
//! | output and loss forward | inputs of norm and projection, 2wh a row; logits in as many bytes as the loss has of them |
//! | output backward | those inputs and their gradients; logits and their gradients, 2w each; the table's gradient before it is added to the sum, where products do not add up |
//! | embedding backward | the table's gradient, as before |
//! | optimizer | gradients in FP32 of what a GPU updates, if they are kept in less (Megatron-LM's `_copy_model_grads_to_main_grads`, DeepSpeed's `stage_1_and_2.py`) |
//! | mean of weights (local SGD) | all of them in one tensor (PyTorch's `average_parameters` in `model_averaging/utils.py`, from memory) |
//!
//! With weights that data-parallel GPUs share, the whole weights of the layers gathered are there in
//! all passes, and one layer's gradient, as it is made and as it is reduced, backward.

use super::activations::{head_activations, layer_activations, layer_gradients, logits};
use super::ends::StateWidths;
use super::flops::Recompute;
use super::kernel::{MicroBatch, Style};
use super::layout::Layout;
use super::memory::{MemoryPlan, StageParameters, Zero};
use super::spec::ModelSpec;

/// Transient bytes of each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Transients {
    /// Beside the activations: of layers or of the output, whichever has more.
    pub(super) passes: u64,
    /// Of the optimizer.
    pub(super) optimiser: u64,
}

/// What comes and goes on a GPU of a stage that holds `held`, of which it updates `updated`.
pub(super) fn transients(
    model: &ModelSpec,
    plan: &MemoryPlan,
    (stage, held, updated): (u32, &StageParameters, u64),
) -> Transients {
    let batch = plan.micro_batch();
    let chunks = (0..plan.layout.virtual_stages).map(|c| plan.layout.layers_of(model, stage, c));
    let longest = chunks.map(|range| range.end.saturating_sub(range.start));
    let longest = longest.max().unwrap_or(1);
    let layers = layers_of(model, &plan.layout, stage)
        .map(|layer| of_layer(model, layer, (batch, longest), plan))
        .max()
        .unwrap_or(0);
    let (loss, output) = if stage + 1 == plan.layout.pp {
        of_output(model, batch, plan)
    } else {
        (0, 0)
    };
    let Whole { weights, gradients } = whole(plan, held);
    // Gradients that are reduced at once are no second ones.
    let table = if plan.style.fused_accumulation || gradients > 0 {
        0
    } else {
        held.table.saturating_mul(plan.style.width)
    };
    let backward = layers.max(output.saturating_add(table));
    let backward = backward
        .saturating_add(gradients)
        .saturating_add(plan.bucket.get());
    Transients {
        passes: loss.max(backward).saturating_add(weights),
        optimiser: match plan.offloaded.optimizer {
            true => 0,
            false => of_optimiser(&plan.widths, updated),
        },
    }
}

fn layers_of(model: &ModelSpec, layout: &Layout, stage: u32) -> impl Iterator<Item = u64> {
    // The MLPs of layers may differ, of which there are two kinds at most.
    let of_stage: Vec<_> = (0..layout.virtual_stages)
        .map(|chunk| layout.layers_of(model, stage, chunk))
        .collect();
    let first = of_stage.iter().find(|range| !range.is_empty());
    let last = of_stage.iter().rfind(|range| !range.is_empty());
    let ends = [
        first.map(|range| range.start),
        last.map(|range| range.end - 1),
    ];
    ends.into_iter().flatten()
}

/// A layer of a stage of so many, or those that are computed again together with it.
fn of_layer(
    model: &ModelSpec,
    layer: u64,
    (batch, layers): (MicroBatch, u64),
    plan: &MemoryPlan,
) -> u64 {
    let sharding = plan.layout.sharding();
    let most = Style {
        recompute: plan.style.recompute.most(),
        ..plan.style
    };
    let kept = layer_activations(model, layer, batch, &sharding, &most);
    let together = plan.style.recompute.segment(layers);
    let all = Style {
        recompute: Recompute::None,
        ..plan.style
    };
    let all = layer_activations(model, layer, batch, &sharding, &all);
    let gradients = layer_gradients(model, layer, batch, &sharding, &plan.style);
    let again = all.saturating_mul(together).saturating_sub(kept);
    again.saturating_add(gradients)
}

/// Of the output: with the loss forward, and backward.
fn of_output(model: &ModelSpec, batch: MicroBatch, plan: &MemoryPlan) -> (u64, u64) {
    let (sharding, style) = (plan.layout.sharding(), &plan.style);
    let inputs = head_activations(model, batch, &sharding, style);
    let logits = logits(model, batch, &sharding);
    let forward = inputs.saturating_add(logits.saturating_mul(plan.logit_bytes));
    let backward = inputs
        .saturating_add(logits.saturating_mul(style.width))
        .saturating_mul(2);
    (forward, backward)
}

/// Whole weights of layers that are gathered, and whole gradients of one that is reduced.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) weights: u64,
    pub(super) gradients: u64,
}

pub(super) fn whole(plan: &MemoryPlan, held: &StageParameters) -> Whole {
    let all_here = plan.shards().0 == 1 && !plan.offloaded.parameters;
    if plan.zero != Zero::Weights || all_here {
        return Whole::default();
    }
    let all = held.dense + held.experts;
    let weights = match plan.whole_layers {
        // Next to the largest there are layers. Nothing limits how many are fetched ahead.
        Some(layers) => u64::from(layers.max(1) - 1)
            .saturating_mul(held.largest_layer)
            .saturating_add(held.largest)
            .min(all),
        None => all,
    };
    // PyTorch's `foreach_reduce` copies gradients into what is reduced, in its own width.
    Whole {
        weights: weights * plan.style.width,
        gradients: u64::from(plan.summed_layers.max(1) - 1)
            .saturating_mul(held.largest_layer)
            .saturating_add(held.largest)
            .min(all)
            * (plan.style.width + plan.reduced_width),
    }
}

fn of_optimiser(widths: &StateWidths, updated: u64) -> u64 {
    const FP32: u64 = 4;
    if widths.gradient < FP32 {
        updated.saturating_mul(FP32)
    } else {
        0
    }
}
