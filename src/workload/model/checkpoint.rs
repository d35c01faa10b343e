//! What a GPU holds of weights and optimizer states, and what of it a checkpoint has from it.

use super::memory::{MemoryPlan, Zero, stage_parameters};
use super::spec::ModelSpec;
use fabricsim_units::Bytes;

/// The state of one GPU, in bytes as it is kept: weights and what the optimizer has; gradients are not
/// kept from step to step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SavedState {
    /// What it writes: what is on several GPUs the first of them writes.
    pub written: Bytes,
    /// What it reads to go on.
    pub read: Bytes,
}

/// The state of a GPU of a stage, which is number `copy`, from 0, of those with the same part of the model:
/// of `dp` × `cp`, nearest first. The layout has been checked.
#[must_use]
pub fn saved_state(model: &ModelSpec, plan: &MemoryPlan, stage: u32, copy: u32) -> SavedState {
    let held = stage_parameters(model, &plan.layout, stage);
    let (shards, expert_shards) = plan.shards();
    let ep = u64::from(plan.layout.ep);
    let mut state = SavedState::default();
    let mut add = |width: u64, shared: bool| {
        let (shards, expert_shards) = match shared {
            true => (shards, expert_shards),
            false => (1, 1),
        };
        let dense = (held.dense * width).div_ceil(shards);
        let experts = (held.experts * width).div_ceil(expert_shards);
        // Neighbours have different experts; a shard of them is on as many GPUs as there are sets of these.
        let writes = |of: u64| u64::from(u64::from(copy) < of);
        let written = dense * writes(shards) + experts * writes(ep * expert_shards);
        state.written = Bytes::new(state.written.get().saturating_add(written));
        state.read = Bytes::new(state.read.get().saturating_add(dense + experts));
    };
    add(plan.widths.weight, plan.zero >= Zero::Weights);
    add(plan.widths.optimiser(), plan.zero >= Zero::Optimiser);
    state
}
