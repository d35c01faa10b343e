//! Published figures of serving, and what is predicted of them: one file or folder a kind of table.

mod columns;
mod dispatch;
pub(crate) mod engine;
pub(crate) mod kernels;
mod models;
mod sets;
mod table;
mod transfers;

pub use columns::Operator;
pub use table::{ServingTable, read_serving};

use fabricsim_budget::Budget;
use fabricsim_report::validation::{ServingSet, ServingSkip, ServingValidation};
use kernels::KernelTables;
use sets::Sets;

/// The kind of tables that hold profiles of kernels.
pub const KERNEL_PROFILES: &str = "kernel_profile";

/// The kind of tables that hold runs of engines.
pub(crate) const ENGINE_BENCHMARKS: &str = "engine_benchmark";

/// Predicts what can be predicted of these tables; calls `done` after each simulation.
///
/// # Errors
/// A table whose rows are not what its kind has.
pub fn predict_serving(
    tables: &[ServingTable],
    budget: &Budget,
    done: &(dyn Fn() + Sync),
) -> Result<ServingValidation, String> {
    let mut sets: Vec<ServingSet> = Vec::new();
    let mut skipped: Vec<ServingSkip> = Vec::new();
    let of = |kind: &str| -> Vec<&ServingTable> {
        tables.iter().filter(|table| table.kind == kind).collect()
    };
    let read = KernelTables::read(&of(KERNEL_PROFILES))?;
    sets.extend(read.predicted());
    skipped.extend(read.skipped);
    let (runs, unsaid) = engine::predict(&of(ENGINE_BENCHMARKS), budget, done);
    sets.extend(runs);
    skipped.extend(unsaid);
    let mut gathered = Sets::default();
    transfers::predict(&of(transfers::TRANSFERS), &mut gathered);
    transfers::predict(&of(transfers::OFFLOAD), &mut gathered);
    dispatch::predict(&of(dispatch::KIND), &mut gathered);
    sets.extend(gathered.sets);
    skipped.extend(gathered.skipped);
    let known = [
        KERNEL_PROFILES,
        ENGINE_BENCHMARKS,
        transfers::TRANSFERS,
        transfers::OFFLOAD,
        dispatch::KIND,
    ];
    for table in tables
        .iter()
        .filter(|table| !known.contains(&table.kind.as_str()))
    {
        skipped.push(ServingSkip {
            id: table.id.clone(),
            why: format!("tables of the kind `{}` are not predicted", table.kind),
            rows: table.rows.len(),
        });
    }
    Ok(ServingValidation::of(sets, skipped))
}
