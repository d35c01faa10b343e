//! A sweep's points as tables that other programs read: CSV, and a JSON document a line.

use super::row::{PointRow, ResultRow};
use crate::ReportError;
use crate::metrics::Metrics;
use crate::points::{Columns, written};
use serde_json::Value;

/// One line for each row of each point. Key columns come first: the point's number, its value on each
/// axis, whether it has results; then the machine, and all numbers that at least one row has. No column is
/// there twice: a result of an axis' name that holds the same in all rows is left out, another one
/// stands behind `result.`.
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
    let programs = points.iter().any(|point| point.program.is_some());
    let shown = Shown { jobs, programs };
    let mut results = vec!["status", "why"];
    results.extend(programs.then_some("program"));
    results.extend(["topology", "nodes", "gpus"]);
    results.extend(jobs.then_some("job"));
    results.extend(columns.names());
    let mut lines: Vec<(&PointRow, Vec<String>)> = Vec::new();
    for point in points {
        let own = point.rows.iter().map(Some);
        // A point without results has a line, too.
        let none = point.rows.is_empty().then_some(None);
        for row in own.chain(none) {
            lines.push((point, cells(point, row, &shown, &columns)));
        }
    }
    let value = |point: &PointRow, axis: &str| {
        let value = point.values.get(axis);
        value.map_or_else(String::new, value_text)
    };
    // What an axis says already.
    let is_same = |place: usize| {
        let mut done = lines.iter().filter(|(point, _)| !point.rows.is_empty());
        let axis = results[place];
        axes.iter().any(|known| known == axis)
            && done.all(|(point, cells)| cells[place] == value(point, axis))
    };
    let kept: Vec<usize> = (0..results.len())
        .filter(|&place| !is_same(place))
        .collect();
    let mut csv = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["point".to_owned()];
    head.extend(axes.iter().map(|axis| match axis.as_str() {
        "point" => "axis.point".to_owned(),
        axis => axis.to_owned(),
    }));
    let heading = kept.iter().map(|&place| results[place]);
    let heading: Vec<String> = heading
        .map(|name| match axes.iter().any(|axis| axis == name) {
            true => format!("result.{name}"),
            false => name.to_owned(),
        })
        .collect();
    head.extend(heading);
    csv.write_record(head).map_err(failed)?;
    for (point, cells) in &lines {
        let mut line = vec![point.point.to_string()];
        line.extend(axes.iter().map(|axis| value(point, axis)));
        line.extend(kept.iter().map(|&place| cells[place].clone()));
        csv.write_record(line).map_err(failed)?;
    }
    written(csv).map_err(failed)
}

/// Columns that not every table has.
struct Shown {
    jobs: bool,
    /// Builds of the program, where points are of several.
    programs: bool,
}

/// The cells behind a point's keys; empty, where it has no results.
fn cells(
    point: &PointRow,
    row: Option<&ResultRow>,
    shown: &Shown,
    columns: &Columns,
) -> Vec<String> {
    let mut cells = vec![
        point.status.name().to_owned(),
        point.why.clone().unwrap_or_default(),
    ];
    if shown.programs {
        cells.push(point.program.clone().unwrap_or_default());
    }
    cells.extend(match row {
        Some(row) => [
            row.topology.clone(),
            row.nodes.to_string(),
            row.gpus.to_string(),
        ],
        None => [const { String::new() }; 3],
    });
    if shown.jobs {
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
