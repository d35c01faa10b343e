//! Published figures of serving, and what is predicted of them: one file a kind of table.

mod columns;
pub(crate) mod kernels;
mod models;
mod table;

pub use columns::Operator;
pub use table::{ServingTable, read_serving};

use fabricsim_report::validation::{ServingSet, ServingSkip, ServingValidation};
use kernels::KernelTables;

/// The kind of tables that hold profiles of kernels.
pub const KERNEL_PROFILES: &str = "kernel_profile";

/// Predicts what can be predicted of these tables.
///
/// # Errors
/// A table whose rows are not what its kind has.
pub fn predict_serving(tables: &[ServingTable]) -> Result<ServingValidation, String> {
    let mut sets: Vec<ServingSet> = Vec::new();
    let mut skipped: Vec<ServingSkip> = Vec::new();
    let (kernels, others): (Vec<_>, Vec<_>) =
        tables.iter().partition(|t| t.kind == KERNEL_PROFILES);
    let read = KernelTables::read(&kernels)?;
    sets.extend(read.predicted());
    skipped.extend(read.skipped);
    for table in others {
        skipped.push(ServingSkip {
            id: table.id.clone(),
            why: format!("tables of the kind `{}` are not predicted", table.kind),
            rows: table.rows.len(),
        });
    }
    Ok(ServingValidation::of(sets, skipped))
}
