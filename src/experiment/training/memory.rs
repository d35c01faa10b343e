//! Whether a job fits the memory of its GPUs.

use crate::ScenarioError;
use fabricsim_nccl::{Communicator, Env};
use fabricsim_report::training::{MemoryPart, MemoryUse, PrefetchUse};
use fabricsim_topology::{DeviceId, Router, Topology, processes};
use fabricsim_units::Bytes;
use fabricsim_workload::model::{Batch, Fragmentation, MemoryPlan, StateWidths, Zero, peak_memory};
use fabricsim_workload::training::communicators::communicators_of;
use fabricsim_workload::training::prefetch::{Prefetch, Room};
use fabricsim_workload::training::resolve::{Training, TrainingError};
use fabricsim_workload::training::spec::{Backend, DataParallelSpec};
use std::collections::BTreeSet;

/// The memory of the GPU that needs most, against the smallest GPU of the job.
///
/// # Errors
/// A layout that does not divide the model; a checked variant's does. Communicators that NCCL
/// refuses.
pub fn memory(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
    env: &Env,
) -> Result<MemoryUse, ScenarioError> {
    let plan = MemoryPlan {
        nccl: buffers(training, topology, gpus, env)?,
        ..memory_plan(training)
    };
    let (stage, parts) = peak_memory(&training.model, &plan).map_err(TrainingError::Model)?;
    let capacity = capacity(topology, gpus);
    let fit = parts.fits(capacity);
    let named = [
        (MemoryPart::Parameters, parts.weights),
        (MemoryPart::Gradients, parts.gradients),
        (MemoryPart::Optimizer, parts.optimiser),
        (MemoryPart::CarriedGradients, parts.carried),
        (MemoryPart::Activations, parts.activations),
        (MemoryPart::Transient, parts.transient),
        (MemoryPart::Nccl, parts.nccl),
        (MemoryPart::Context, parts.context),
        (MemoryPart::Fragmentation, fit.fragmentation),
        (MemoryPart::Reserve, fit.reserve),
    ];
    Ok(MemoryUse {
        stage,
        parts: named
            .into_iter()
            .filter(|(_, b)| *b > Bytes::ZERO)
            .collect(),
        total: fit.total(),
        reserve: fit.reserve,
        capacity,
        fits: fit.fits(),
    })
}

/// Gathers as many layers' weights ahead as fit beside all else, if memory is to decide that; none if nothing fits.
///
/// # Errors
/// As [`memory`].
pub(super) fn choose_prefetch(
    training: &mut Training,
    (topology, gpus): (&Topology, &[DeviceId]),
    env: &Env,
) -> Result<(), ScenarioError> {
    if !by_memory(training) {
        return Ok(());
    }
    let fitting = Fitting::new(training, (topology, gpus), env)?;
    let fits = |depth: u32| {
        fitting.fits(&Training {
            prefetch: depth,
            ..training.clone()
        })
    };
    // With all of a stage's layers there is no more to gather.
    let layers = training.layers.iter().flatten();
    let layers = layers.map(|range| range.end - range.start).max();
    let most = u32::try_from(layers.unwrap_or(1).saturating_sub(1)).unwrap_or(u32::MAX);
    // More take more: the largest that fits lies between one that does and one that does not.
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle)? {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    training.prefetch = low;
    Ok(())
}

/// Whether ways to run a job that differ in nothing that NCCL has buffers for fit the GPUs' memory.
pub(super) struct Fitting {
    nccl: Bytes,
    capacity: Bytes,
}

impl Fitting {
    /// # Errors
    /// As [`memory`].
    pub(super) fn new(
        training: &Training,
        (topology, gpus): (&Topology, &[DeviceId]),
        env: &Env,
    ) -> Result<Self, ScenarioError> {
        Ok(Fitting {
            nccl: buffers(training, topology, gpus, env)?,
            capacity: capacity(topology, gpus),
        })
    }

    /// # Errors
    /// A layout that does not divide the model.
    pub(super) fn fits(&self, training: &Training) -> Result<bool, TrainingError> {
        let plan = MemoryPlan {
            nccl: self.nccl,
            ..memory_plan(training)
        };
        let (_, parts) = peak_memory(&training.model, &plan)?;
        Ok(parts.fits(self.capacity).fits())
    }
}

fn by_memory(training: &Training) -> bool {
    matches!(&training.spec.data_parallel, DataParallelSpec::Fsdp(fsdp)
        if fsdp.prefetch == Prefetch::By(Room::Memory))
}

/// What memory chose, if it was to.
pub(super) fn prefetch_use(training: &Training) -> Option<PrefetchUse> {
    let layers = training.layers.iter().flatten().cloned().flatten();
    let largest = layers.map(|layer| training.layer_weights(layer)).max()?;
    by_memory(training).then(|| PrefetchUse {
        layers: training.prefetch.saturating_mul(training.bucketing),
        layer_bytes: Bytes::new(largest * training.style().width),
    })
}

/// The memory of the smallest of the GPUs.
pub(super) fn capacity(topology: &Topology, gpus: &[DeviceId]) -> Bytes {
    let models = gpus.iter().filter_map(|&gpu| topology.gpu_model(gpu));
    models.map(|m| m.memory.value).min().unwrap_or(Bytes::ZERO)
}

/// The buffers of all communicators of the job's first rank; those of its peers have as many, but
/// for pipelines' ends.
fn buffers(
    training: &Training,
    topology: &Topology,
    gpus: &[DeviceId],
    env: &Env,
) -> Result<Bytes, ScenarioError> {
    let uses_nccl = match &training.spec.data_parallel {
        DataParallelSpec::Ddp(ddp) => ddp.backend == Backend::Nccl,
        DataParallelSpec::SingleProcess => false,
        DataParallelSpec::Zero(_) | DataParallelSpec::Fsdp(_) => true,
    };
    let mut sum: u64 = 0;
    if !uses_nccl || training.spec.free_communication {
        return Ok(Bytes::ZERO);
    }
    for own in communicators_of(training, 0)? {
        let members = nearest(topology, own.ranks.iter().map(|&rank| gpus[rank as usize]));
        let router = Router::new(topology, 0);
        let communicator = Communicator::of(topology, members, env, router)?;
        sum = sum.saturating_add(communicator.buffers(own.traffic).get());
    }
    Ok(Bytes::new(sum))
}

/// Of a communicator's GPUs those on its first nodes: with more nodes than these a rank has no more
/// connections.
fn nearest(topology: &Topology, gpus: impl Iterator<Item = DeviceId>) -> Vec<DeviceId> {
    const NODES: usize = 3;
    let mut nodes = BTreeSet::new();
    gpus.take_while(|&gpu| {
        nodes.insert(topology.node_of(gpu));
        nodes.len() <= NODES
    })
    .collect()
}

/// The memory plan of a job, without NCCL's buffers.
pub(super) fn memory_plan(training: &Training) -> MemoryPlan {
    let spec = &training.spec;
    let fused = training.fused_accumulation();
    let gradient = u64::from(training.gradient_bytes());
    let style = training.style();
    // Without fused sums a gradient is made in the weights' width first, and stays beside the sum
    // if that is wider (DeepSpeed's `bf16_optimizer.py`).
    let made = if fused || gradient <= style.width {
        0
    } else {
        style.width
    };
    let mixed = |gradient| StateWidths {
        gradient,
        ..StateWidths::MIXED
    };
    let (zero, widths, second_gradient, bucket) = match &spec.data_parallel {
        // Megatron-LM's buckets are places in the gradients themselves, PyTorch's are copies of
        // them (`gradient_as_bucket_view` is false by default).
        DataParallelSpec::Ddp(_) if fused => (Zero::None, mixed(gradient), 0, 0),
        DataParallelSpec::Ddp(_) => (Zero::None, mixed(gradient), gradient, 0),
        DataParallelSpec::SingleProcess => (Zero::None, mixed(gradient), 0, 0),
        DataParallelSpec::Zero(zero) => {
            let shared = match training.keeps_divided_gradients() {
                true => Zero::Gradients,
                false => Zero::Optimiser,
            };
            let bucket = if fused { 0 } else { zero.bucket.get() };
            (shared, mixed(gradient), made, bucket)
        }
        // FSDP's weights are FP32, which are the optimizer's own; what is gathered is not.
        DataParallelSpec::Fsdp(_) => {
            let widths = StateWidths {
                weight: 4,
                gradient: 4,
                master: 0,
                ..StateWidths::MIXED
            };
            (Zero::Weights, widths, 0, 0)
        }
    };
    // Gradients that leave at once are on the GPU a bucket at a time: one that fills, one on its way.
    let (second_gradient, bucket) = match &spec.data_parallel {
        DataParallelSpec::Ddp(ddp) if training.gradients_leave() => {
            (0, ddp.bucket.get().saturating_mul(2))
        }
        _ => (second_gradient, bucket),
    };
    // `torch/distributed/pipelining/stage.py`: until the last micro-batch FSDP neither reduces
    // gradients nor drops weights.
    let in_pipeline = zero == Zero::Weights && training.dims.pp > 1 && training.micro_batches > 1;
    let processes = processes();
    MemoryPlan {
        layout: training.dims,
        batch: Batch {
            global: u64::from(spec.global_batch),
            micro: u64::from(spec.micro_batch),
            sequence: training.batch.tokens,
        },
        style,
        schedule: training.schedule,
        zero,
        shards: training.shard_group,
        whole_layers: match &spec.data_parallel {
            DataParallelSpec::Fsdp(fsdp) if fsdp.reshard && !in_pipeline => {
                let buckets = training.prefetch.saturating_add(1);
                Some(buckets.saturating_mul(training.bucketing))
            }
            _ => None,
        },
        summed_layers: training.bucketing,
        whole_gradients: in_pipeline,
        reduced_width: gradient,
        logit_bytes: training.logit_bytes(),
        widths,
        offloaded: training.offloaded(),
        second_gradient,
        bucket: Bytes::new(bucket),
        carried: training.carried_bytes(),
        averaged: training.averaged_bytes(),
        nccl: Bytes::ZERO,
        context: processes.taken(),
        fragmentation: Fragmentation {
            usual: processes.fragmentation.value,
            least: processes.least_fragmentation.value,
        },
    }
}
