//! The kernels of a step, and how its operations are counted.

use crate::numbers::{micros, percent, seconds, three_digits};
use crate::text_table::{Cell, Out, cell, left, right};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernels that are listed.
const MAX_ROWS: usize = 24;

/// What bounds a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelBound {
    /// Arithmetic.
    Compute,
    /// Memory's rate, or what a kernel takes whatever its size.
    Memory,
    /// The process, which takes longer to start it than it runs.
    Launch,
}

impl KernelBound {
    const fn name(self) -> &'static str {
        match self {
            KernelBound::Compute => "compute",
            KernelBound::Memory => "memory",
            KernelBound::Launch => "launch",
        }
    }
}

/// A kernel of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelUse {
    /// What it does: `mlp_up_wgrad`; `… again` if it is computed again for the backward pass.
    pub name: String,
    /// How often in a step.
    pub count: u64,
    /// Microseconds of one with all SMs.
    pub time_us: f64,
    /// What bounds it.
    pub bound: KernelBound,
    /// Operations per second over the peak of the job's precision, 0 to 1: of products, how well they use
    /// the tensor cores.
    pub share_of_peak: f64,
    /// GB/s of memory traffic.
    pub memory_gbs: f64,
    /// Of the time of all kernels, 0 to 1.
    pub share: f64,
}

/// A way to count a step's operations, and the utilisation that it gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlopCount {
    /// Its name: `mfu`, `mfu_causal`, `hfu`, `palm`, `six_n`, `six_n_without_embedding`.
    pub convention: String,
    /// What it counts.
    pub counts: String,
    /// Operations of a step, all GPUs together.
    pub flops: f64,
    /// Over the peak of the job's precision, 0 to 1.
    pub utilisation: f64,
}

/// The table of kernels and that of conventions, if they were asked for.
pub(super) fn kernels_text((kernels, counts): (&[KernelUse], &[FlopCount]), out: &mut Out) {
    if kernels.is_empty() {
        return;
    }
    let whole: f64 = kernels.iter().map(|k| k.time_us * k.count as f64).sum();
    let heading = format!(
        "Kernels of a step on a GPU of the first stage: {} with all SMs",
        seconds(whole / 1e6)
    );
    out.heading(&heading);
    let row = |used: &KernelUse| -> Vec<Cell> {
        vec![
            cell(&used.name),
            cell(used.count.to_string()),
            cell(micros(used.time_us)),
            cell(percent(used.share)),
            cell(used.bound.name()),
            cell(percent(used.share_of_peak)),
            cell(format!("{} GB/s", three_digits(used.memory_gbs))),
        ]
    };
    let rows: Vec<Vec<Cell>> = kernels.iter().take(MAX_ROWS).map(row).collect();
    let columns = [
        left("kernel"),
        right("count"),
        right("time"),
        right("of all"),
        left("bound by"),
        right("of peak"),
        right("memory"),
    ];
    out.table(&columns, &rows);
    if kernels.len() > MAX_ROWS {
        out.plain(&format!("  and {} more kernels", kernels.len() - MAX_ROWS));
    }
    out.heading("Utilisation by convention");
    let row = |count: &FlopCount| -> Vec<Cell> {
        vec![
            cell(&count.convention),
            cell(percent(count.utilisation)),
            cell(format!("{} TFLOP", three_digits(count.flops / 1e12))),
            cell(&count.counts),
        ]
    };
    let rows: Vec<Vec<Cell>> = counts.iter().map(row).collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}
