//! The kernels of a stage, block by block, as times on a GPU.

use super::compute::Gpu;
use super::framework;
use super::resolve::{Training, TrainingError};
use crate::model::ends::{
    StateWidths, embedding_kernels, gradient_accumulation, head_kernels, optimiser_kernels,
};
use crate::model::kernel::{Kernel, LayerKernels, Part, Style};
use crate::model::layer::layer_kernels;
use crate::model::{Recompute, layer_parameters, parameters};
use fabricsim_plan::job::Kernels;

/// Between two communications of a layer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct BlockCost {
    pub(super) forward: Kernels,
    /// What is computed again before the backward pass.
    pub(super) again: Kernels,
    /// The backward pass but for the weights of the first product.
    pub(super) backward: Kernels,
    /// These: nothing waits for them but the gradients' exchange.
    pub(super) weights: Kernels,
    /// Of these passes, the core of the attention.
    pub(super) core: (Kernels, Kernels),
}

/// What a layer takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LayerCost {
    pub(super) attention: BlockCost,
    /// The MLP; of a layer with experts, what is before them.
    pub(super) mlp: BlockCost,
    /// Routed experts.
    pub(super) experts: Option<BlockCost>,
    /// After routed experts.
    pub(super) combine: BlockCost,
}

/// Weights of a half of a layer on one GPU, tensor by tensor in the order in which their
/// gradients are ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// Each replica has them.
    pub(super) dense: Vec<u64>,
    /// Divided over experts' ranks.
    pub(super) experts: u64,
}

/// What a job's parts take on its GPUs.
pub(super) struct StageCosts {
    /// A layer with a dense MLP.
    pub(super) dense: LayerCost,
    /// One with experts.
    pub(super) sparse: LayerCost,
    pub(super) embedding: BlockCost,
    pub(super) head: BlockCost,
    pub(super) gpu: Gpu,
}

impl StageCosts {
    pub(super) fn new(training: &Training, gpu: Gpu) -> Result<Self, TrainingError> {
        let (model, batch) = (&training.model, training.batch);
        let sharding = training.dims.sharding();
        // Of layers that are computed again; which they are is known where steps are written.
        let style = Style {
            recompute: training.spec.recompute.most(),
            ..training.style()
        };
        let layer = |index: u64| -> Result<LayerCost, TrainingError> {
            let kernels = layer_kernels(model, index, batch, &sharding, &style)?;
            let kernels = framework::layer(training, kernels);
            Ok(layer_cost(&gpu, &kernels, training))
        };
        let last = model.layers - 1;
        let sparse = if model.experts_of(last).is_some() {
            layer(last)?
        } else {
            LayerCost::default()
        };
        let dense = if model.experts_of(0).is_none() {
            layer(0)?
        } else {
            LayerCost::default()
        };
        let ends = |kernels: &LayerKernels| BlockCost {
            forward: gpu.time(&framework::written(training, &kernels.forward)),
            backward: gpu.time(&framework::written(training, &kernels.backward)),
            ..BlockCost::default()
        };
        Ok(StageCosts {
            dense,
            sparse,
            embedding: ends(&embedding_kernels(model, batch, &sharding, &style)?),
            head: ends(&head_kernels(model, batch, &sharding, &style)?),
            gpu,
        })
    }

    pub(super) fn layer(&self, training: &Training, index: u64) -> &LayerCost {
        if training.model.experts_of(index).is_some() {
            &self.sparse
        } else {
            &self.dense
        }
    }

    /// Seconds of a layer's kernels, forward and backward.
    pub(super) fn layer_passes(&self, training: &Training, index: u64) -> (f64, f64) {
        let layer = self.layer(training, index);
        let blocks = [&layer.attention, &layer.mlp, &layer.combine];
        let blocks = || blocks.into_iter().chain(&layer.experts);
        let seconds = |kernels: Kernels| kernels.time().seconds();
        let forward = blocks().map(|b| seconds(b.forward)).sum();
        let backward =
            blocks().map(|b| seconds(b.again) + seconds(b.backward) + seconds(b.weights));
        (forward, backward.sum())
    }

    /// The optimiser's step over so many parameters.
    pub(super) fn optimiser(&self, parameters: u64, training: &Training) -> Kernels {
        let widths = StateWidths {
            gradient: u64::from(training.gradient_bytes()),
            ..StateWidths::MIXED
        };
        let kernels = optimiser_kernels(parameters, &widths);
        self.gpu
            .time(&framework::optimiser(training, parameters, &kernels))
    }

    /// Kernels of a layer, forward and backward.
    pub(super) fn launches(&self, training: &Training) -> u64 {
        let layer = self.layer(training, training.model.layers - 1);
        let blocks = [&layer.attention, &layer.mlp, &layer.combine];
        let blocks = blocks.into_iter().chain(&layer.experts);
        let of = |b: &BlockCost| [b.forward, b.again, b.backward, b.weights];
        blocks.flat_map(of).map(|k| u64::from(k.launches)).sum()
    }

    /// Gradients of a micro-batch are added to those of the ones before, where products do not
    /// do so themselves.
    pub(super) fn accumulation(&self, parameters: u64, training: &Training) -> Kernels {
        let sum = u64::from(training.gradient_bytes());
        self.gpu.time(&[gradient_accumulation(parameters, 2, sum)])
    }
}

/// The blocks of a layer: parts between its communications.
fn layer_cost(gpu: &Gpu, kernels: &LayerKernels, training: &Training) -> LayerCost {
    let of = |parts: &[Part]| {
        let inside = |k: &&Kernel| parts.contains(&k.part);
        let list = |all: &[Kernel], keep: &dyn Fn(&Kernel) -> bool| {
            let kept: Vec<Kernel> = all
                .iter()
                .filter(inside)
                .filter(|k| keep(k))
                .copied()
                .collect();
            gpu.time(&kept)
        };
        let first = |k: &Kernel| matches!(k.name, "qkv_wgrad" | "mlp_up_wgrad");
        let core = |k: &Kernel| k.part == Part::AttentionCore;
        BlockCost {
            forward: list(&kernels.forward, &|_| true),
            again: list(&kernels.recompute, &|_| true),
            backward: list(&kernels.backward, &|k| !first(k)),
            weights: list(&kernels.backward, &first),
            core: (
                list(&kernels.forward, &core),
                list(&kernels.backward, &core),
            ),
        }
    };
    let sparse = kernels.forward.iter().any(|k| k.part == Part::Experts);
    let before = [Part::MlpEntry, Part::Mlp, Part::SharedExperts, Part::Router];
    let mut cost = LayerCost {
        attention: of(&[
            Part::AttentionEntry,
            Part::Attention,
            Part::AttentionCore,
            Part::AttentionExit,
        ]),
        mlp: of(&before),
        experts: sparse.then(|| of(&[Part::Experts])),
        combine: of(&[Part::Combine, Part::MlpExit]),
    };
    if !sparse {
        let exit = cost.combine;
        cost.mlp.forward += exit.forward;
        cost.mlp.again += exit.again;
        cost.mlp.backward += exit.backward;
        cost.combine = BlockCost::default();
    }
    if training.spec.recompute == Recompute::None {
        cost.attention.again = Kernels::default();
    }
    cost
}

/// Parameters of a layer's attention and of its MLP on one GPU.
pub(super) fn layer_weights(training: &Training, index: u64) -> [Weights; 2] {
    let (model, dims) = (&training.model, training.dims);
    let all = layer_parameters(model, index);
    let tp = u64::from(dims.tp);
    let out = model.heads * model.v_dim() * model.hidden;
    let attention = [out, all.attention.saturating_sub(out), all.norms / 2];
    let down = model.ffn * model.hidden;
    let mlp = if all.mlp > 0 {
        [down, all.mlp.saturating_sub(down), all.norms / 2]
    } else {
        [all.shared_experts, all.router, all.norms / 2]
    };
    let split = |tensors: [u64; 3]| {
        let share = |(index, size): (usize, u64)| {
            // Norms are on every GPU.
            if index == 2 { size } else { size / tp }
        };
        let sizes = tensors.into_iter().enumerate().map(share);
        sizes.filter(|s| *s > 0).collect()
    };
    [
        Weights {
            dense: split(attention),
            experts: 0,
        },
        Weights {
            dense: split(mlp),
            experts: all.experts / (u64::from(dims.ep) * tp),
        },
    ]
}

/// Parameters of the embedding and of the head on one GPU of their stages. A table that is both
/// is on both stages.
pub(super) fn end_weights(training: &Training) -> [u64; 2] {
    let all = parameters(&training.model);
    let tp = u64::from(training.dims.tp);
    let tied = training.model.tied_embeddings;
    let head = if !tied {
        all.head
    } else if training.dims.pp > 1 {
        all.embedding
    } else {
        0
    };
    [all.embedding / tp, (head + all.norms) / tp]
}
