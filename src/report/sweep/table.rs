//! A sweep's points as tables that other programs read: CSV, and a JSON document a line.

use super::row::{PointRow, ResultRow};
use crate::ReportError;
use crate::metrics::Metrics;
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
    let names = Metrics::default().numbers().map(|(name, _)| name);
    let used = |&column: &usize| rows().any(|row| row.metrics.numbers()[column].1.is_some());
    let columns: Vec<usize> = (0..names.len()).filter(used).collect();
    let jobs = rows().any(|row| row.job.is_some());
    let mut csv = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["point"];
    head.extend(axes.iter().map(String::as_str));
    head.extend(["status", "why", "topology", "nodes", "gpus"]);
    head.extend(jobs.then_some("job"));
    head.extend(["fits", "cause"]);
    head.extend(columns.iter().map(|&column| names[column]));
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
    let bytes = csv
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn cells(row: Option<&ResultRow>, jobs: bool, columns: &[usize]) -> Vec<String> {
    let Some(row) = row else {
        return vec![String::new(); 5 + usize::from(jobs) + columns.len()];
    };
    let mut cells = vec![
        row.topology.clone(),
        row.nodes.to_string(),
        row.gpus.to_string(),
    ];
    if jobs {
        cells.push(row.job.clone().unwrap_or_default());
    }
    let metrics = &row.metrics;
    cells.push(
        metrics
            .fits
            .map_or_else(String::new, |fits| fits.to_string()),
    );
    cells.push(metrics.cause.clone().unwrap_or_default());
    let numbers = metrics.numbers();
    let number = |&column: &usize| {
        numbers[column]
            .1
            .map_or_else(String::new, |n| n.to_string())
    };
    cells.extend(columns.iter().map(number));
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
