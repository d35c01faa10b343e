//! Published memory of training jobs, and what is expected of them.

use crate::published::{Published, wanted};
use crate::steps::training_job;
use fabricsim_experiment::{ScenarioError, memory};
use fabricsim_report::training::{MemoryRow, MemoryTable};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A file of published memory.
pub type PublishedMemory = Published<PublishedMemoryTable>;

/// One source's table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedMemoryTable {
    /// Where the figures are from.
    pub source: String,
    /// What is not in the source and was assumed.
    #[serde(default)]
    pub assumed: String,
    /// What was measured.
    pub measures: Measured,
    /// A scenario, of which each row is a variant.
    pub scenario: Value,
    /// The rows.
    pub rows: Vec<PublishedMemoryRow>,
}

/// What memory was measured of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// All that is in use on the GPU, as nvidia-smi shows it.
    Gpu,
    /// What PyTorch's allocator has reserved.
    Allocator,
}

/// One published job.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedMemoryRow {
    /// Its name.
    pub name: String,
    /// What is different from the table's scenario.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Measured memory of the fullest GPU, 1e9 bytes.
    #[serde(default)]
    pub measured_gb: Option<f64>,
    /// Whether it ran out of memory.
    #[serde(default)]
    pub ran_out: bool,
}

/// What is expected of the rows whose table or name holds one of `only` (all if there is none).
///
/// # Errors
/// A row that is no valid job.
pub fn predict_memory(
    published: &PublishedMemory,
    only: &[String],
    done: &dyn Fn(),
) -> Result<Vec<MemoryTable>, ScenarioError> {
    let mut tables = Vec::new();
    for table in &published.tables {
        let wanted = |row: &&PublishedMemoryRow| wanted(only, &table.source, &row.name);
        let mut rows = Vec::new();
        for row in table.rows.iter().filter(wanted) {
            rows.push(predict(published, table, row)?);
            done();
        }
        if !rows.is_empty() {
            tables.push(MemoryTable {
                source: table.source.clone(),
                assumed: table.assumed.clone(),
                rows,
            });
        }
    }
    Ok(tables)
}

fn predict(
    published: &PublishedMemory,
    table: &PublishedMemoryTable,
    row: &PublishedMemoryRow,
) -> Result<MemoryRow, ScenarioError> {
    let place = format!("{}, row `{}`", published.origin, row.name);
    let job = training_job(&table.scenario, &row.set, (&published.folder, &place))?;
    let memory = memory(&job.training, &job.topology, &job.gpus, &job.env)?;
    let predicted = match table.measures {
        Measured::Gpu => memory.total,
        Measured::Allocator => memory.reserved(),
    };
    Ok(MemoryRow {
        name: row.name.clone(),
        gpus: job.gpus.len() as u32,
        predicted_gb: predicted.get() as f64 / 1e9,
        measured_gb: row.measured_gb,
        ran_out: row.ran_out,
        memory,
    })
}
