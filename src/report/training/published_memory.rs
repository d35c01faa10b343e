//! Expected memory of jobs beside what was published.

use super::MemoryUse;
use super::median;
use crate::summary_json::pretty;
use crate::table::paint;
use crate::{FORMAT, ReportError};
use anstyle::Style;
use serde::Serialize;
use std::fmt::Write;

/// One source's jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryTable {
    /// Where the figures are from.
    pub source: String,
    /// What was assumed beside.
    pub assumed: String,
    /// The jobs.
    pub rows: Vec<MemoryRow>,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryRow {
    /// Its name.
    pub name: String,
    /// GPUs.
    pub gpus: u32,
    /// Expected of the fullest GPU, as much of it as was measured, 1e9 bytes.
    pub predicted_gb: f64,
    /// Measured, 1e9 bytes; `None` if the job ran out of memory, or nothing else was said.
    pub measured_gb: Option<f64>,
    /// Whether the job ran out of memory.
    pub ran_out: bool,
    /// All that is expected of the fullest GPU.
    pub memory: MemoryUse,
}

impl MemoryRow {
    /// Predicted over measured, less one; `None` without a measurement.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        Some(self.predicted_gb / self.measured_gb? - 1.0)
    }
}

/// How far off expectations of some jobs are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MemoryErrors {
    /// Jobs with a measurement.
    pub measured: u32,
    /// Half of their errors are smaller, as a share of what was measured.
    pub median_error: Option<f64>,
    /// The median with its sign: less than 0, if too little is expected.
    pub median_signed: Option<f64>,
    /// Jobs that ran.
    pub ran: u32,
    /// How many of them are said not to fit.
    pub ran_but_refused: u32,
    /// Jobs that ran out of memory.
    pub ran_out: u32,
    /// How many of them are said not to fit.
    pub ran_out_and_refused: u32,
}

impl MemoryErrors {
    /// Over these rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a MemoryRow>) -> MemoryErrors {
        let (mut errors, mut found) = (Vec::new(), MemoryErrors::default());
        for row in rows {
            let refused = u32::from(!row.memory.fits);
            if row.ran_out {
                found.ran_out += 1;
                found.ran_out_and_refused += refused;
            } else {
                found.ran += 1;
                found.ran_but_refused += refused;
            }
            errors.extend(row.error());
        }
        found.measured = errors.len() as u32;
        found.median_error = median(errors.iter().map(|e| e.abs()).collect());
        found.median_signed = median(errors);
        found
    }

    fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if let Some((error, signed)) = self.median_error.zip(self.median_signed) {
            let (error, signed) = (error * 100.0, signed * 100.0);
            parts.push(format!("median error {error:.1} % ({signed:+.1} %)"));
        }
        if self.ran > 0 {
            let (no, of) = (self.ran_but_refused, self.ran);
            parts.push(format!("{no} of {of} that ran are said not to fit"));
        }
        if self.ran_out > 0 {
            let (no, of) = (self.ran_out_and_refused, self.ran_out);
            parts.push(format!(
                "{no} of {of} that ran out of memory are said not to fit"
            ));
        }
        parts.join(", ")
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    all: MemoryErrors,
    tables: Vec<TableDocument<'a>>,
}

#[derive(Serialize)]
struct TableDocument<'a> {
    errors: MemoryErrors,
    #[serde(flatten)]
    table: &'a MemoryTable,
}

/// All jobs as one document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn memory_json(tables: &[MemoryTable]) -> Result<String, ReportError> {
    pretty(&Document {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        all: MemoryErrors::of(tables.iter().flat_map(|table| &table.rows)),
        tables: tables
            .iter()
            .map(|table| TableDocument {
                errors: MemoryErrors::of(&table.rows),
                table,
            })
            .collect(),
    })
}

/// All jobs as text: expected, measured, error, and whether each fits; each table's errors.
#[must_use]
pub fn memory_text(tables: &[MemoryTable], colour: bool) -> String {
    let bold = Style::new().bold();
    let mut out = String::new();
    let width = tables.iter().flat_map(|t| &t.rows);
    let width = width.map(|r| r.name.chars().count()).max().unwrap_or(4);
    for table in tables {
        let _ = writeln!(out, "{}", paint(&table.source, bold, colour));
        let _ = writeln!(
            out,
            "  {:width$}  {:>6}  {:>12}  {:>12}  {:>7}  expected to",
            "job", "GPUs", "predicted GB", "measured GB", "error"
        );
        for row in &table.rows {
            let measured = match (row.measured_gb, row.ran_out) {
                (Some(measured), _) => format!("{measured:.1}"),
                (None, true) => "ran out".to_owned(),
                (None, false) => "ran".to_owned(),
            };
            let error = row
                .error()
                .map_or(String::new(), |error| format!("{:+.1}%", error * 100.0));
            let fits = if row.memory.fits { "fit" } else { "run out" };
            let _ = writeln!(
                out,
                "  {:width$}  {:>6}  {:>12.1}  {measured:>12}  {error:>7}  {fits}",
                row.name, row.gpus, row.predicted_gb
            );
        }
        let _ = writeln!(out, "  {}\n", MemoryErrors::of(&table.rows).sentence());
    }
    let all: Vec<&MemoryRow> = tables.iter().flat_map(|table| &table.rows).collect();
    let line = format!(
        "{} jobs: {}",
        all.len(),
        MemoryErrors::of(all.iter().copied()).sentence()
    );
    let _ = writeln!(out, "{}", paint(&line, bold, colour));
    out
}
