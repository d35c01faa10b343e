//! Whether a job fits the memory of its GPUs.

use crate::ScenarioError;
use fabricsim_report::training::{MemoryPart, MemoryUse};
use fabricsim_topology::{DeviceId, Topology, processes};
use fabricsim_units::Bytes;
use fabricsim_workload::model::{Batch, MemoryPlan, StateWidths, Zero, peak_memory};
use fabricsim_workload::training::resolve::{Training, TrainingError};
use fabricsim_workload::training::spec::DataParallelSpec;

/// The memory of the GPU that needs most, against the smallest GPU of the job.
///
/// # Errors
/// A layout that does not divide the model; a checked variant's does.
pub fn memory(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
) -> Result<MemoryUse, ScenarioError> {
    let plan = memory_plan(training);
    let (stage, parts) = peak_memory(&training.model, &plan).map_err(TrainingError::Model)?;
    let capacity = capacity(topology, gpus);
    let named = [
        (MemoryPart::Parameters, parts.weights),
        (MemoryPart::Gradients, parts.gradients),
        (MemoryPart::Optimizer, parts.optimiser),
        (MemoryPart::Activations, parts.activations),
        (
            MemoryPart::Transient,
            Bytes::new(parts.gathered.get().saturating_add(parts.logits.get())),
        ),
        (MemoryPart::Context, parts.reserved),
    ];
    Ok(MemoryUse {
        stage,
        parts: named
            .into_iter()
            .filter(|(_, b)| *b > Bytes::ZERO)
            .collect(),
        total: parts.total(),
        capacity,
        fits: parts.fits(capacity).fits(),
    })
}

/// The memory of the smallest of the GPUs.
pub(super) fn capacity(topology: &Topology, gpus: &[DeviceId]) -> Bytes {
    let models = gpus.iter().filter_map(|&gpu| topology.gpu_model(gpu));
    models.map(|m| m.memory.value).min().unwrap_or(Bytes::ZERO)
}

/// The memory plan of a job.
pub(super) fn memory_plan(training: &Training) -> MemoryPlan {
    let gradient = u64::from(training.gradient_bytes());
    MemoryPlan {
        layout: training.dims,
        batch: Batch {
            global: u64::from(training.spec.global_batch),
            micro: u64::from(training.spec.micro_batch),
            sequence: training.batch.tokens,
        },
        style: training.style(),
        schedule: training.schedule,
        zero: match &training.spec.data_parallel {
            DataParallelSpec::Ddp(_) | DataParallelSpec::SingleProcess => Zero::None,
            DataParallelSpec::Zero(_) if training.keeps_divided_gradients() => Zero::Gradients,
            DataParallelSpec::Zero(_) => Zero::Optimiser,
            DataParallelSpec::Fsdp(_) => Zero::Weights,
        },
        shards: training.shard_group,
        whole_layers: match &training.spec.data_parallel {
            DataParallelSpec::Fsdp(fsdp) => fsdp.reshard.then(|| fsdp.prefetch.saturating_add(1)),
            _ => None,
        },
        widths: StateWidths {
            gradient,
            ..StateWidths::MIXED
        },
        reserved: processes().taken(),
    }
}
