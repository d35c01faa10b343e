//! Published figures of serving beside what is predicted of them.

use crate::summary_json::pretty;
use crate::table::paint;
use crate::training::median;
use crate::{FORMAT, ReportError};
use anstyle::Style;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ServingValidation {
    /// Tables, and groups of their rows.
    pub sets: Vec<ServingSet>,
    /// Errors by kind of table and quantity.
    pub summary: Vec<ServingErrors>,
    /// What is not predicted.
    pub skipped: Vec<ServingSkip>,
}

/// Rows of one table that count together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingSet {
    /// The table.
    pub id: String,
    /// What kind of table it is.
    pub kind: String,
    /// What its rows are of; sets of one group count once together.
    pub group: String,
    /// Its rows.
    pub rows: Vec<ServingRow>,
}

/// A measured figure and the predicted one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingRow {
    /// What of, for people.
    pub name: String,
    /// What is measured.
    pub quantity: String,
    /// As published.
    pub measured: f64,
    /// As predicted.
    pub predicted: f64,
    /// Of both.
    pub unit: &'static str,
}

impl ServingRow {
    /// Predicted over measured, less one.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// How far off predictions of a quantity are: each group counts once, with its median.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServingErrors {
    /// Of which tables.
    pub kind: String,
    /// Of which quantity; `all` of every one.
    pub quantity: String,
    /// Groups.
    pub groups: usize,
    /// Rows of them.
    pub rows: usize,
    /// Half of the groups are nearer.
    pub median: f64,
    /// Nine of ten groups are nearer.
    pub p90: f64,
}

/// Rows that are not predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServingSkip {
    /// Their table.
    pub id: String,
    /// Why not.
    pub why: String,
    /// How many.
    pub rows: usize,
}

/// Errors of rows by group and quantity.
type Groups<'a> = BTreeMap<(&'a str, &'a str), Vec<f64>>;

/// Stands for all quantities of a kind of table.
const ALL: &str = "all";

impl ServingValidation {
    /// What sets and skips come to.
    #[must_use]
    pub fn of(sets: Vec<ServingSet>, skipped: Vec<ServingSkip>) -> ServingValidation {
        let mut groups: BTreeMap<(&str, &str), Groups<'_>> = BTreeMap::new();
        for set in &sets {
            for row in &set.rows {
                let error = row.error().abs();
                for quantity in [row.quantity.as_str(), ALL] {
                    let kind = groups.entry((&set.kind, quantity)).or_default();
                    let group = (set.group.as_str(), row.quantity.as_str());
                    kind.entry(group).or_default().push(error);
                }
            }
        }
        let summary = groups.iter().map(|(&(kind, quantity), groups)| {
            let medians = groups.values().filter_map(|errors| median(errors.clone()));
            let mut medians: Vec<f64> = medians.collect();
            medians.sort_by(f64::total_cmp);
            let at = (medians.len() * 9).div_ceil(10).saturating_sub(1);
            ServingErrors {
                kind: kind.to_owned(),
                quantity: quantity.to_owned(),
                groups: groups.len(),
                rows: groups.values().map(Vec::len).sum(),
                p90: medians.get(at).copied().unwrap_or_default(),
                median: median(medians).unwrap_or_default(),
            }
        });
        let summary = summary.collect();
        ServingValidation {
            sets,
            summary,
            skipped,
        }
    }
}

/// What `validate --serving --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    version: &'a str,
    #[serde(flatten)]
    validation: &'a ServingValidation,
}

/// All of it as one document, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn serving_validation_json(validation: &ServingValidation) -> Result<String, ReportError> {
    for row in validation.sets.iter().flat_map(|set| &set.rows) {
        let numbers = [("measured", row.measured), ("predicted", row.predicted)];
        if let Some((name, value)) = numbers.into_iter().find(|(_, v)| !v.is_finite()) {
            let field = format!("{name} of {}", row.name);
            return Err(ReportError::NotFinite { field, value });
        }
    }
    pretty(&Document {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION"),
        validation,
    })
}

/// Groups with their errors, what they come to, and what is not predicted.
#[must_use]
pub fn serving_validation_text(validation: &ServingValidation, colour: bool) -> String {
    let bold = Style::new().bold();
    let mut out = String::new();
    let mut groups: BTreeMap<(&str, &str, &str), Vec<f64>> = BTreeMap::new();
    for set in &validation.sets {
        for row in &set.rows {
            let key = (set.kind.as_str(), set.group.as_str(), row.quantity.as_str());
            groups.entry(key).or_default().push(row.error());
        }
    }
    let width = groups
        .keys()
        .map(|(_, group, quantity)| group.len() + quantity.len() + 1);
    let width = width.max().unwrap_or(5).max(5);
    let _ = writeln!(
        out,
        "{}",
        paint(
            &format!(
                "{:width$}  {:>5}  {:>8}  {:>8}",
                "group", "rows", "error", "median"
            ),
            bold,
            colour
        )
    );
    for ((_, group, quantity), errors) in groups {
        let count = errors.len();
        let absolute = median(errors.iter().map(|e| e.abs()).collect()).unwrap_or_default();
        let signed = median(errors).unwrap_or_default();
        let name = format!("{group} {quantity}");
        let _ = writeln!(
            out,
            "{name:width$}  {count:>5}  {:>6.1} %  {:>+6.1} %",
            absolute * 100.0,
            signed * 100.0
        );
    }
    let _ = writeln!(out, "\n{}", paint("Median error of a group", bold, colour));
    for line in &validation.summary {
        let _ = writeln!(
            out,
            "  {} {}: {:.1} % in the median of {} groups, {:.1} % at the 90th percentile ({} rows)",
            line.kind,
            line.quantity,
            line.median * 100.0,
            line.groups,
            line.p90 * 100.0,
            line.rows
        );
    }
    if !validation.skipped.is_empty() {
        let _ = writeln!(out, "\n{}", paint("Not predicted", bold, colour));
    }
    for skip in &validation.skipped {
        let _ = writeln!(out, "  {}, {} rows: {}", skip.id, skip.rows, skip.why);
    }
    out
}
