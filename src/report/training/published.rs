//! Predicted steps beside published ones.

use super::StepKind;
use crate::summary_json::pretty;
use crate::table::paint;
use crate::{FORMAT, ReportError};
use anstyle::Style;
use serde::Serialize;
use std::fmt::Write;

/// One source's steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    /// Where the figures are from.
    pub source: String,
    /// What was assumed beside.
    pub assumed: String,
    /// The steps.
    pub rows: Vec<PublishedRow>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRow {
    /// Its name.
    pub name: String,
    /// GPUs.
    pub gpus: u32,
    /// What kind of step it is.
    #[serde(skip)]
    pub kind: Option<StepKind>,
    /// Predicted seconds; `None` if the job does not end.
    pub predicted_s: Option<f64>,
    /// Measured seconds.
    pub measured_s: f64,
    /// Predicted MFU.
    pub mfu: f64,
    /// Why there is no prediction.
    pub problem: String,
}

impl PublishedRow {
    /// Predicted over measured, less one.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        Some(self.predicted_s? / self.measured_s - 1.0)
    }
}

/// The median of absolute errors; `None` if there are none.
#[must_use]
pub fn median_error(tables: &[PublishedTable]) -> Option<f64> {
    let rows = tables.iter().flat_map(|t| &t.rows);
    median(rows.filter_map(|r| Some(r.error()?.abs())).collect())
}

/// The median of some numbers; `None` if there are none.
#[must_use]
pub fn median(mut errors: Vec<f64>) -> Option<f64> {
    errors.sort_by(f64::total_cmp);
    let middle = errors.len() / 2;
    match errors.len() {
        0 => None,
        n if n % 2 == 1 => Some(errors[middle]),
        _ => Some((errors[middle - 1] + errors[middle]) / 2.0),
    }
}

/// Spearman's correlation of the order of predicted and measured times; `None` for fewer than
/// four rows.
#[must_use]
pub fn rank_correlation(table: &PublishedTable) -> Option<f64> {
    let both: Vec<(f64, f64)> = table
        .rows
        .iter()
        .filter_map(|r| Some((r.predicted_s?, r.measured_s)))
        .collect();
    let count = both.len() as f64;
    if count < 4.0 {
        return None;
    }
    // Equal values share the mean of their places.
    let rank = |value: f64, all: &dyn Fn(&(f64, f64)) -> f64| {
        let below = both.iter().filter(|b| all(b) < value).count() as f64;
        let same = both.iter().filter(|b| all(b) == value).count() as f64;
        below + (same - 1.0) / 2.0
    };
    let squares: f64 = both
        .iter()
        .map(|b| (rank(b.0, &|x| x.0) - rank(b.1, &|x| x.1)).powi(2))
        .sum();
    Some(1.0 - 6.0 * squares / (count * (count * count - 1.0)))
}

/// What `validate --steps --json` prints; version 1 was the bare list of tables.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    tables: &'a [PublishedTable],
}

/// All steps as one document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn published_json(tables: &[PublishedTable]) -> Result<String, ReportError> {
    pretty(&Document {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        tables,
    })
}

/// All steps as text: predicted, measured, error; and each table's median error and order.
#[must_use]
pub fn published_text(tables: &[PublishedTable], colour: bool) -> String {
    let bold = Style::new().bold();
    let mut out = String::new();
    let width = tables.iter().flat_map(|t| &t.rows);
    let width = width.map(|r| r.name.chars().count()).max().unwrap_or(4);
    for table in tables {
        let _ = writeln!(out, "{}", paint(&table.source, bold, colour));
        let _ = writeln!(
            out,
            "  {:width$}  {:>6}  {:>11}  {:>11}  {:>7}  {:>6}",
            "job", "GPUs", "predicted s", "measured s", "error", "MFU"
        );
        for row in &table.rows {
            match (row.predicted_s, row.error()) {
                (Some(predicted), Some(error)) => {
                    let _ = writeln!(
                        out,
                        "  {:width$}  {:>6}  {predicted:>11.3}  {:>11.3}  {:>+6.1}%  {:>5.1}%",
                        row.name,
                        row.gpus,
                        row.measured_s,
                        error * 100.0,
                        row.mfu * 100.0
                    );
                }
                _ => {
                    let _ = writeln!(out, "  {:width$}  {}", row.name, row.problem);
                }
            }
        }
        let one = std::slice::from_ref(table);
        let median = median_error(one).map_or(String::new(), |m| {
            format!("median error {:.1} %", m * 100.0)
        });
        let order =
            rank_correlation(table).map_or(String::new(), |r| format!(", rank correlation {r:.2}"));
        let _ = writeln!(out, "  {median}{order}\n");
    }
    if let Some(median) = median_error(tables) {
        let count: usize = tables.iter().map(|t| t.rows.len()).sum();
        let line = format!("{count} steps, median error {:.1} %", median * 100.0);
        let _ = writeln!(out, "{}", paint(&line, bold, colour));
    }
    out
}
