//! `summary.json` and its schema.

use super::ReportError;
use super::numeric::FORMAT;
use super::published::{Beyond, Fall};
use super::record::{CollectiveResult, Decision, Part, Row, Timeline};
use super::summary::{CollectiveView, JobResult, Summary};
use super::training::training_floats;
use serde::Serialize;
use std::path::Path;

/// The text of `summary.json`, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn summary_json(summary: &Summary) -> Result<String, ReportError> {
    check_finite(summary)?;
    pretty(summary)
}

/// What `collective --json` prints: the fields of `summary.json` that need no recording, under the
/// same names.
#[derive(Serialize)]
struct Rows<'a> {
    format: u32,
    version: &'a str,
    seed: u64,
    topology: &'a str,
    nodes: u32,
    gpus_per_node: u32,
    ranks: u32,
    collective: &'a str,
    rows: &'a [Row],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    decisions: &'a [Decision],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    beyond_tables: &'a [Beyond],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    falls: &'a [Fall],
    warnings: &'a [String],
}

/// The rows of a collective as one document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn rows_json(view: CollectiveView<'_>) -> Result<String, ReportError> {
    let summary = view.summary;
    check_finite(summary)?;
    let rows: Vec<Row> = view
        .result
        .rows
        .iter()
        .cloned()
        .map(without_wall_time)
        .collect();
    pretty(&Rows {
        format: FORMAT,
        version: &summary.version,
        seed: summary.seed,
        topology: &view.variant.topology,
        nodes: view.variant.nodes,
        gpus_per_node: view.result.gpus_per_node,
        ranks: view.result.ranks,
        collective: &view.result.collective,
        rows: &rows,
        faults: &view.result.faults,
        decisions: &view.result.decisions,
        beyond_tables: &view.result.beyond_tables,
        falls: &view.result.falls,
        warnings: &summary.warnings,
    })
}

fn without_wall_time(mut row: Row) -> Row {
    row.wall_ms = 0.0;
    row
}

/// The text of a summary's file, whatever kind of run it is of.
pub(super) fn pretty(summary: &impl Serialize) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(summary).map_err(|source| ReportError::Json {
        what: "the summary",
        source,
    })?;
    text.push('\n');
    Ok(text)
}

/// Reads the `summary.json` of an earlier run.
///
/// # Errors
/// A file that cannot be read, or that is none.
pub fn read_summary(path: &Path) -> Result<Summary, ReportError> {
    let text = std::fs::read(path).map_err(ReportError::io("read", path))?;
    serde_json::from_slice(&text).map_err(|source| ReportError::Unread {
        path: path.to_owned(),
        source,
    })
}

/// The JSON Schema of `summary.json` (draft 2020-12).
#[must_use]
pub fn summary_schema() -> schemars::Schema {
    schemars::schema_for!(Summary)
}

/// serde writes numbers that are not finite as `null`, which no reader expects.
pub(super) fn check_finite(summary: &Summary) -> Result<(), ReportError> {
    let several = summary.variants.len() > 1;
    for (index, variant) in summary.variants.iter().enumerate() {
        let place = match (&variant.job, several) {
            (JobResult::Collective(_), false) => String::new(),
            _ => format!("variants[{index}]."),
        };
        let mut floats = Vec::new();
        match &variant.job {
            JobResult::Collective(result) => collective_floats(result, &mut floats),
            JobResult::Training(result) => training_floats(result, &mut floats),
            JobResult::Concurrent(result) => result.floats(&mut floats),
            JobResult::Serving(result) => result.floats(&mut floats),
            JobResult::Communicator(result) => result.floats(&mut floats),
            JobResult::Calls(result) => result.floats(&mut floats),
        }
        let numbers = variant.metrics.numbers().into_iter();
        let numbers = numbers.filter_map(|(name, value)| Some((format!("metrics.{name}"), value?)));
        floats.extend(numbers);
        if let Some((name, value)) = floats.into_iter().find(|(_, value)| !value.is_finite()) {
            let field = format!("{place}{name}");
            return Err(ReportError::NotFinite { field, value });
        }
    }
    Ok(())
}

/// All numbers of a collective's results.
fn collective_floats(result: &CollectiveResult, floats: &mut Vec<(String, f64)>) {
    for (index, row) in result.rows.iter().enumerate() {
        let row = row_floats(row).into_iter();
        floats.extend(row.map(|(name, value)| (format!("rows[{index}].{name}"), value)));
    }
    for (index, link) in result.links.iter().enumerate() {
        floats.push((format!("links[{index}].utilisation"), link.utilisation));
    }
    let Some(attribution) = &result.attribution else {
        return;
    };
    let mut parts =
        |place: &str, parts: &[Part]| {
            let fractions = parts.iter().map(|part| part.fraction).enumerate();
            floats.extend(fractions.map(|(index, fraction)| {
                (format!("attribution.{place}[{index}].fraction"), fraction)
            }));
        };
    parts("total", &attribution.total);
    parts("critical_path", &attribution.critical_path);
    for (rank, list) in attribution.ranks.iter().enumerate() {
        parts(&format!("ranks[{rank}]"), list);
    }
}

/// The same for the bytes of a timeline's links.
pub(super) fn check_finite_timeline(timeline: &Timeline) -> Result<(), ReportError> {
    for series in &timeline.links {
        if let Some((bin, &value)) = series
            .bytes
            .iter()
            .enumerate()
            .find(|(_, bytes)| !bytes.is_finite())
        {
            let field = format!("bytes of {} in bin {bin}", series.name);
            return Err(ReportError::NotFinite { field, value });
        }
    }
    Ok(())
}

fn row_floats(row: &Row) -> [(&'static str, f64); 6] {
    [
        ("time_us", row.time_us),
        ("algbw_gbs", row.algbw_gbs),
        ("busbw_gbs", row.busbw_gbs),
        ("bound_us", row.bound_us),
        ("bound_plain_us", row.bound_plain_us),
        ("wall_ms", row.wall_ms),
    ]
}
