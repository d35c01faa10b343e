//! The kernels of a step, and how its operations are counted.

use crate::numbers::{grouped, micros, percent, seconds, three_digits};
use crate::text_table::{Cell, Out, cell, left, right};
use maud::{Markup, html};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kernels that are listed in text, where each is a line.
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
    /// Over the peak of the job's precision, 0 to 1; `null` where the convention counts more than GPUs can
    /// compute in the time, and so defines none.
    pub utilisation: Option<f64>,
}

impl FlopCount {
    /// Its utilisation for people.
    fn shown(&self) -> String {
        self.utilisation
            .map_or_else(|| "not defined".to_owned(), percent)
    }
}

/// Of which GPU kernels are, and what all of them take.
fn of_which(kernels: &[KernelUse]) -> String {
    let whole: f64 = kernels.iter().map(|k| k.time_us * k.count as f64).sum();
    format!(
        "of a step on a GPU of the first stage: {} with all SMs",
        seconds(whole / 1e6)
    )
}

/// The table of kernels and that of conventions for a page, with at most so many kernels, and what stands beside
/// their heading; nothing if they were not asked for.
pub(super) fn kernels_page(
    (kernels, counts): (&[KernelUse], &[FlopCount]),
    rows: usize,
) -> Option<(String, Markup)> {
    if kernels.is_empty() {
        return None;
    }
    let more = kernels.len().saturating_sub(rows);
    let markup = html! {
        div.scroll {
            table {
                thead { tr {
                    th { "kernel" } th.number { "count" } th.number { "in all" } th.number { "time" } th.number { "of all" }
                    th { "bound by" } th.number { "of peak" } th.number { "memory, GB/s" }
                } }
                tbody {
                    @for used in kernels.iter().take(rows) {
                        tr {
                            td { (used.name) }
                            td.number { (grouped(used.count)) }
                            td.number { (micros(used.time_us * used.count as f64)) }
                            td.number { (micros(used.time_us)) }
                            td.number { (percent(used.share)) }
                            td { (used.bound.name()) }
                            td.number { (percent(used.share_of_peak)) }
                            td.number { (three_digits(used.memory_gbs)) }
                        }
                    }
                }
            }
        }
        p.note {
            "Time is of one kernel with all SMs; of peak are its operations per second over the tensor cores' in the job's precision."
            @if more > 0 { " " (more) " more are in summary.json." }
        }
        @if !counts.is_empty() {
            h3 { "Utilisation by convention" }
            div.scroll {
                table.conventions {
                    thead { tr { th { "convention" } th.number { "utilisation" } th.number { "TFLOP a step" } th { "counts" } } }
                    tbody {
                        @for count in counts {
                            tr {
                                td { (count.convention) }
                                td.number { (count.shown()) }
                                td.number { (three_digits(count.flops / 1e12)) }
                                td { (count.counts) }
                            }
                        }
                    }
                }
            }
        }
    };
    Some((of_which(kernels), markup))
}

/// The table of kernels and that of conventions, if they were asked for.
pub(super) fn kernels_text((kernels, counts): (&[KernelUse], &[FlopCount]), out: &mut Out) {
    if kernels.is_empty() {
        return;
    }
    out.heading(&format!("Kernels {}", of_which(kernels)));
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
            cell(count.shown()),
            cell(format!("{} TFLOP", three_digits(count.flops / 1e12))),
            cell(&count.counts),
        ]
    };
    let rows: Vec<Vec<Cell>> = counts.iter().map(row).collect();
    out.table(&[left(""), right(""), right(""), left("")], &rows);
}
