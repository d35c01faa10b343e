//! The kernels of a step, one by one, with what bounds each.

use super::compute::Gpu;
use super::framework;
use super::owned::updated;
use super::resolve::{Training, TrainingError};
use crate::model::ends::{StateWidths, embedding_kernels, head_kernels, optimiser_kernels};
use crate::model::kernel::{Kernel, LayerKernels};
use crate::model::layer::layer_kernels;
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// What bounds a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory's rate, or what a kernel takes whatever its size.
    Memory,
    /// The process: it takes longer to start the kernel than that runs.
    Launch,
}

/// A kernel of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRow {
    /// What it does.
    pub name: &'static str,
    /// Whether it is computed again for the backward pass.
    pub again: bool,
    /// How often it runs in a step on a GPU of the first stage.
    pub count: u64,
    /// What one takes with all SMs.
    pub time: Time,
    /// What bounds it.
    pub bound: Bound,
    /// Operations of one.
    pub flops: f64,
    /// Memory traffic of one, bytes.
    pub bytes: f64,
}

/// The kernels of a step on a GPU of the first stage, what takes longest in all first. Kernels of the same
/// name and sizes are one row; of experts, with equal numbers of tokens.
///
/// # Errors
/// A model that cannot be divided so.
pub fn kernel_table(training: &Training, gpu: &Gpu) -> Result<Vec<KernelRow>, TrainingError> {
    let (model, batch) = (&training.model, training.batch);
    let (sharding, style) = (training.dims.sharding(), training.style());
    let passes = u64::from(training.micro_batches);
    let mut rows = Rows {
        gpu,
        launch: training.spec.host_launch(),
        rows: BTreeMap::new(),
    };
    // Layers are of two kinds at most: without and with experts.
    let layers = || training.layers[0].iter().cloned().flatten();
    for sparse in [false, true] {
        let mut alike = layers().filter(|&layer| model.experts_of(layer).is_some() == sparse);
        let Some(first) = alike.next() else { continue };
        let count = (1 + alike.count() as u64) * passes;
        let kernels = layer_kernels(model, first, batch, &sharding, &style)?;
        rows.add_all(&framework::layer(training, kernels), count);
    }
    let mut ends = vec![embedding_kernels(model, batch, &sharding, &style)?];
    if training.dims.pp == 1 {
        ends.push(head_kernels(model, batch, &sharding, &style)?);
    }
    for kernels in ends {
        rows.add_all(&framework::layer(training, kernels), passes);
    }
    if let Some(parameters) = updated(training, 0, 0) {
        let widths = StateWidths {
            gradient: u64::from(training.gradient_bytes()),
            ..StateWidths::MIXED
        };
        let kernels = optimiser_kernels(parameters, &widths);
        let kernels = framework::optimiser(training, parameters, &kernels);
        rows.add(&kernels, false, 1);
    }
    let mut rows: Vec<KernelRow> = rows.rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time.times(row.count)));
    Ok(rows)
}

struct Rows<'g> {
    gpu: &'g Gpu,
    launch: Time,
    rows: BTreeMap<(&'static str, bool, u64), KernelRow>,
}

impl Rows<'_> {
    fn add_all(&mut self, kernels: &LayerKernels, count: u64) {
        self.add(&kernels.forward, false, count);
        self.add(&kernels.recompute, true, count);
        self.add(&kernels.backward, false, count);
    }

    fn add(&mut self, kernels: &[Kernel], again: bool, count: u64) {
        for kernel in kernels {
            let cost = self.gpu.time([kernel]);
            let time = cost.compute + cost.memory;
            let bound = if time < self.launch {
                Bound::Launch
            } else if cost.compute > cost.memory {
                Bound::Compute
            } else {
                Bound::Memory
            };
            let key = (kernel.name, again, time.picos());
            let row = self.rows.entry(key).or_insert(KernelRow {
                name: kernel.name,
                again,
                count: 0,
                time,
                bound,
                flops: kernel.flops,
                bytes: kernel.bytes,
            });
            row.count += count;
        }
    }
}
