//! Weights that a rank has, and those that it updates.

use super::costs::{end_weights, layer_weights};
use super::resolve::Training;
use super::spec::DataParallelSpec;

/// Weights of a stage on one GPU: those that all replicas have, and those of its experts.
pub(super) fn stage_weights(training: &Training, stage: u32) -> (u64, u64) {
    let (mut dense, mut experts) = (0, 0);
    for layers in &training.layers[stage as usize] {
        for layer in layers.clone() {
            let own = whole_layer(training, layer);
            dense += own.0;
            experts += own.1;
        }
    }
    let [embedding, head] = end_weights(training);
    if stage == 0 {
        dense += embedding;
    }
    if stage + 1 == training.dims.pp {
        dense += head;
    }
    (dense, experts)
}

/// The same of a layer.
pub(super) fn whole_layer(training: &Training, layer: u64) -> (u64, u64) {
    let halves = layer_weights(training, layer);
    let dense = halves.iter().flat_map(|half| &half.dense).sum();
    (dense, halves.iter().map(|half| half.experts).sum())
}

/// One replica's part of weights, and of those of experts.
pub(super) fn part(training: &Training, dense: u64, experts: u64) -> u64 {
    let dims = &training.dims;
    let replicas = u64::from(dims.dp * dims.cp);
    dense.div_ceil(replicas) + experts.div_ceil((replicas / u64::from(dims.ep)).max(1))
}

/// Parameters that a rank's optimiser updates; of several replicas in one process the first alone does.
pub(super) fn updated(training: &Training, stage: u32, replica: u32) -> Option<u64> {
    let t = training;
    let (dense, experts) = stage_weights(t, stage);
    let parameters = match &t.spec.data_parallel {
        DataParallelSpec::Ddp(_) => dense + experts,
        DataParallelSpec::Zero(_) => part(t, dense, experts),
        DataParallelSpec::Fsdp(_) => {
            dense.div_ceil(u64::from(t.shard_group))
                + experts.div_ceil(u64::from(t.expert_shards()))
        }
        DataParallelSpec::SingleProcess if replica > 0 => return None,
        DataParallelSpec::SingleProcess => dense,
    };
    Some(parameters)
}
