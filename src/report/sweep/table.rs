//! A sweep's points as tables that other programs read: CSV, and a JSON document a line.

use super::row::{PointRow, ResultRow};
use crate::ReportError;
use crate::metrics::Metrics;
use crate::points::{Columns, written};
use serde_json::Value;

/// One line for each row of each point. Key columns come first: the point's number, its value on each
/// axis, whether it has results; then the machine, and all numbers that at least one row has.
///
/// # Errors
/// None that rows in memory can cause.
pub fn sweep_csv(axes: &[String], points: &[PointRow]) -> Result<String, ReportError> {
    let failed = |source| ReportError::Csv {
        what: "the points",
        source,
    };
    let rows = || points.iter().flat_map(|point| &point.rows);
    let columns = Columns::of(rows().map(|row| &row.metrics));
    let jobs = rows().any(|row| row.job.is_some());
    let mut csv = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["point"];
    head.extend(axes.iter().map(String::as_str));
    head.extend(["status", "why", "topology", "nodes", "gpus"]);
    head.extend(jobs.then_some("job"));
    head.extend(columns.names());
    csv.write_record(head).map_err(failed)?;
    for point in points {
        let mut keys = vec![point.point.to_string()];
        let value = |axis: &String| point.values.get(axis).map_or_else(String::new, value_text);
        keys.extend(axes.iter().map(value));
        keys.push(point.status.name().to_owned());
        keys.push(point.why.clone().unwrap_or_default());
        let own = point.rows.iter().map(Some);
        // A point without results has a line, too.
        let none = point.rows.is_empty().then_some(None);
        for row in own.chain(none) {
            let cells = cells(row, jobs, &columns);
            csv.write_record(keys.iter().chain(&cells))
                .map_err(failed)?;
        }
    }
    written(csv).map_err(failed)
}

/// The cells behind a point's keys; empty, where it has no results.
fn cells(row: Option<&ResultRow>, jobs: bool, columns: &Columns) -> Vec<String> {
    let mut cells = match row {
        Some(row) => vec![
            row.topology.clone(),
            row.nodes.to_string(),
            row.gpus.to_string(),
        ],
        None => vec![String::new(); 3],
    };
    if jobs {
        cells.push(row.and_then(|row| row.job.clone()).unwrap_or_default());
    }
    let none = Metrics::default();
    cells.extend(columns.cells(row.map_or(&none, |row| &row.metrics)));
    cells
}

/// A value of an axis as it stands in a table.
#[must_use]
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One JSON document a line, for each point.
///
/// # Errors
/// A number that is not finite.
pub fn sweep_jsonl(points: &[PointRow]) -> Result<String, ReportError> {
    let mut all = String::new();
    for point in points {
        all += &line_of(point)?;
    }
    Ok(all)
}

/// A point's line, with its line break.
pub(super) fn line_of(point: &PointRow) -> Result<String, ReportError> {
    let text = serde_json::to_string(point).map_err(|source| ReportError::Json {
        what: "a point",
        source,
    })?;
    Ok(text + "\n")
}
