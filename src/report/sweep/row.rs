//! A point's results: one row of numbers, of a collective one for each of its sizes, of jobs at once
//! one for each job.

use crate::metrics::Metrics;
use crate::points::points_of;
use crate::summary::Variant;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

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
    #[serde(
        default,
        deserialize_with = "known_rows",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub rows: Vec<ResultRow>,
}

impl PointRow {
    /// What does not fit together in it.
    pub(super) fn misfit(&self) -> Option<String> {
        let number = self.point;
        match self.status {
            Status::Done if self.rows.is_empty() => {
                return Some(format!("point {number}, which is done, without rows"));
            }
            Status::Refused if !self.rows.is_empty() => {
                return Some(format!("point {number}, which is refused, with rows"));
            }
            Status::Done | Status::Refused | Status::Failed => {}
        }
        // A scenario may list one size twice.
        let mut alone = self.rows.iter().filter(|row| row.metrics.bytes.is_none());
        let mut jobs = BTreeSet::new();
        let twice = alone.find(|row| !jobs.insert(&row.job))?;
        Some(match &twice.job {
            Some(job) => format!("point {number} with two rows of the job `{job}`"),
            None => format!("point {number} with two rows of one job"),
        })
    }
}

/// Fields of a row beside its numbers.
const BESIDE: [&str; 8] = [
    "job", "topology", "nodes", "gpus", "fits", "cause", "events", "uplinks",
];

/// Rows of which every field is known. Serde does not look at that in a struct that others are flattened into.
fn known_rows<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ResultRow>, D::Error> {
    let rows: Vec<Map<String, Value>> = Vec::deserialize(from)?;
    let known = |name: &str| BESIDE.contains(&name) || Metrics::names().any(|known| known == name);
    let row = |row: Map<String, Value>| match row.keys().find(|name| !known(name)) {
        Some(name) => Err(D::Error::custom(format_args!(
            "unknown field `{name}` of a row, expected the name of a result"
        ))),
        None => ResultRow::deserialize(Value::Object(row)).map_err(D::Error::custom),
    };
    rows.into_iter().map(row).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_result_that_is_written_is_known() {
        let schema = schemars::schema_for!(Metrics);
        let names = schema.get("properties").and_then(Value::as_object);
        let names = names.expect("properties").keys();
        let known = |name: &str| BESIDE.contains(&name) || Metrics::names().any(|n| n == name);
        let unknown: Vec<&String> = names.filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn rows_that_do_not_fit_are_told() {
        let row = json!({"topology": "a", "nodes": 1, "gpus": 8, "time_us": 2.5, "kw": null});
        let point = |status: &str, rows: Value| -> Result<PointRow, serde_json::Error> {
            serde_json::from_value(
                json!({"point": 3, "values": {}, "status": status, "rows": rows}),
            )
        };
        let misfit = |status: &str, rows: Value| point(status, rows).expect("a point").misfit();
        assert_eq!(misfit("done", json!([row])), None);
        assert_eq!(misfit("failed", json!([])), None);
        for (status, rows, told) in [
            ("done", json!([]), "point 3, which is done, without rows"),
            (
                "refused",
                json!([row]),
                "point 3, which is refused, with rows",
            ),
            (
                "done",
                json!([row, row]),
                "point 3 with two rows of one job",
            ),
        ] {
            assert_eq!(misfit(status, rows).as_deref(), Some(told));
        }
        let mut other = row;
        other["tim_us"] = json!(1);
        let told = point("done", json!([other]))
            .expect_err("a field")
            .to_string();
        assert!(told.contains("unknown field `tim_us`"), "{told}");
    }
}
