//! `summary.json` and its schema.

use super::ReportError;
use super::finite::check_finite;
use super::numeric::FORMAT;
use super::published::{Beyond, Fall};
use super::record::{Decision, Row, Timeline};
use super::summary::{CollectiveView, Summary};
use serde::Serialize;
use std::path::Path;

/// The text of `summary.json`, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn summary_json(summary: &Summary) -> Result<String, ReportError> {
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

/// The text of a document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub(super) fn pretty(document: &impl Serialize) -> Result<String, ReportError> {
    check_finite(document)?;
    let mut text = serde_json::to_string_pretty(document).map_err(|source| ReportError::Json {
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

/// Refuses bytes of a timeline's links that are not finite.
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
