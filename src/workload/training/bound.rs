//! What no execution of a step can beat, from the job alone: nothing is lowered or simulated.
//!
//! A stage's kernels run one after the other, and communication of tensor parallelism stands between
//! them; the first micro-batch passes all stages before a stage, the gradients of the last one pass them
//! on the way back. All other communication, and the start of kernels, count as free.

use super::costs::StageCosts;
use super::lower::{gpu_of, order};
use super::resolve::{Training, TrainingError};
use crate::model::{Group, RankMap, Recompute};
use fabricsim_collective::Collective;
use fabricsim_plan::job::Kernels;
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_units::{Bytes, Time};

/// A time that no step of a job on these GPUs is below, once steps follow each other. `collective` is
/// what no operation of so many bytes between some GPUs can beat.
///
/// # Errors
/// A GPU of which too little is known, an order of ranks that is none.
pub fn step_bound(
    training: &Training,
    (topology, gpus): (&Topology, &[DeviceId]),
    collective: &dyn Fn(&[DeviceId], Collective, Bytes) -> Time,
) -> Result<Time, TrainingError> {
    let costs = StageCosts::new(training, gpu_of(training, topology, gpus)?)?;
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let group = places.group_of(Group::Tp, 0).unwrap_or_default();
    let group: Vec<DeviceId> = group.iter().map(|&rank| gpus[rank as usize]).collect();
    let dims = training.dims;
    let tensor = |what: Collective| match dims.tp {
        1 => Time::ZERO,
        _ if training.spec.overlap_tensor_parallel || training.spec.free_communication => {
            Time::ZERO
        }
        _ => {
            let rows = training.batch.sequences * training.batch.tokens / u64::from(dims.cp);
            collective(&group, what, Bytes::new(rows * training.model.hidden * 2))
        }
    };
    let (before, after) = match training.spec.parallel.sequence_parallel {
        true => (
            tensor(Collective::AllGather),
            tensor(Collective::ReduceScatter),
        ),
        false => (Time::ZERO, tensor(Collective::AllReduce)),
    };
    let passes = Passes {
        training,
        costs: &costs,
        before,
        after,
    };
    let stage = |stage: u32| -> Vec<(Time, Time)> {
        let chunks = 0..dims.virtual_stages;
        chunks.map(|chunk| passes.of(stage, chunk)).collect()
    };
    let mut longest = Time::ZERO;
    // What the first micro-batch has to pass before a stage, and the last one's gradients after it.
    let mut ends = Time::ZERO;
    for index in 0..dims.pp {
        let chunks = stage(index);
        let all = chunks.iter().fold(Time::ZERO, |all, &(f, b)| all + f + b);
        let whole = all.times(u64::from(training.micro_batches)) + ends;
        longest = longest.max(whole);
        if let Some(&(forward, backward)) = chunks.first() {
            ends += forward + backward;
        }
    }
    Ok(longest)
}

struct Passes<'t> {
    training: &'t Training,
    costs: &'t StageCosts,
    /// Of tensor parallelism: before what is divided, and after it.
    before: Time,
    after: Time,
}

impl Passes<'_> {
    /// The forward and the backward pass of a micro-batch through a virtual stage.
    fn of(&self, stage: u32, chunk: u32) -> (Time, Time) {
        let (training, costs) = (self.training, self.costs);
        let dims = training.dims;
        let (mut forward, mut backward) = (Time::ZERO, Time::ZERO);
        if stage == 0 && chunk == 0 {
            forward += time(costs.embedding.forward);
            backward += time(costs.embedding.backward);
        }
        if stage + 1 == dims.pp && chunk + 1 == dims.virtual_stages {
            forward += time(costs.head.forward);
            backward += time(costs.head.backward);
        }
        let full = training.spec.recompute == Recompute::Full;
        for layer in training.layers[stage as usize][chunk as usize].clone() {
            let cost = costs.layer(training, layer);
            // The block behind routed experts is not divided.
            let divided = [
                Some(&cost.attention),
                cost.experts.is_none().then_some(&cost.mlp),
            ];
            let whole = [
                cost.experts.as_ref(),
                cost.experts.is_some().then_some(&cost.mlp),
                Some(&cost.combine),
            ];
            for block in divided.into_iter().flatten() {
                let around = self.before + self.after;
                forward += time(block.forward) + around;
                // The sum for the block's input goes on beside the products for its weights.
                backward +=
                    self.before + time(block.backward) + time(block.weights).max(self.after);
                if full {
                    backward += time(block.again) + around;
                }
            }
            for block in whole.into_iter().flatten() {
                forward += time(block.forward);
                backward += time(block.backward) + time(block.weights);
                if full {
                    backward += time(block.again);
                }
            }
            if !full {
                backward += time(cost.attention.again);
            }
        }
        (forward, backward)
    }
}

/// Kernels with all of a GPU.
fn time(kernels: Kernels) -> Time {
    kernels.compute + kernels.memory
}
