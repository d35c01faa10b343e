//! A point's results: one row of numbers, of a collective one for each of its sizes, of jobs at once
//! one for each job.

use crate::metrics::Metrics;
use crate::points::points_of;
use crate::summary::Variant;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What came of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointRow {
    /// Its number.
    pub point: u32,
    /// Its value on each axis that it has.
    pub values: BTreeMap<String, Value>,
    /// Whether it has results.
    pub status: Status,
    /// Why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The build of the program that made it, where that is not the folder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<ResultRow>,
}

/// Whether a point has results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It has.
    Done,
    /// Its scenario is none: a layout that does not divide, a machine that is not there.
    Refused,
    /// Its job did not end: it hangs, times out, takes more memory than there is.
    Failed,
}

impl Status {
    /// As files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Refused => "refused",
            Status::Failed => "failed",
        }
    }
}

/// One row of numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Of jobs at once: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The machine.
    pub topology: String,
    /// Its nodes.
    pub nodes: u32,
    /// GPUs that take part.
    pub gpus: u32,
    /// The numbers.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// The rows of a variant.
#[must_use]
pub fn rows_of(variant: &Variant) -> Vec<ResultRow> {
    let points = points_of(variant).into_iter();
    let row = points.map(|(job, metrics)| ResultRow {
        job: job.map(str::to_owned),
        topology: variant.topology.clone(),
        nodes: variant.nodes,
        gpus: variant.gpus,
        metrics,
    });
    row.collect()
}
