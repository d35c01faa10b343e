//! Published figures of serving beside what is predicted of them.

use crate::summary_json::pretty;
use crate::table::paint;
use crate::training::median;
use crate::{FORMAT, ReportError};
use anstyle::Style;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
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
#[derive(Debug, Clone, PartialEq)]
pub struct ServingSet {
    /// The table.
    pub id: String,
    /// What kind of table it is.
    pub kind: String,
    /// What its rows are of; sets of one group count once together.
    pub group: String,
    /// Its rows, of one figure each.
    pub rows: Vec<ServingRow>,
    /// Its rows that are runs of an engine. In JSON they stand among `rows`.
    pub runs: Vec<ServingRun>,
}

impl ServingSet {
    /// All figures: what is measured, predicted over measured, less one.
    fn errors(&self) -> impl Iterator<Item = (&str, f64)> {
        let rows = self.rows.iter();
        let rows = rows.map(|row| (row.quantity.as_str(), row.error()));
        rows.chain(self.runs.iter().flat_map(ServingRun::errors))
    }
}

impl Serialize for ServingSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let runs = self.runs.iter().map(ServingRun::json);
        let rows: Vec<Value> = self.rows.iter().map(|row| json!(row)).chain(runs).collect();
        let mut set = serializer.serialize_struct("ServingSet", 4)?;
        set.serialize_field("id", &self.id)?;
        set.serialize_field("kind", &self.kind)?;
        set.serialize_field("group", &self.group)?;
        set.serialize_field("rows", &rows)?;
        set.end()
    }
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

/// A run of an engine: measured figures with the predicted ones, of those that its source has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServingRun {
    /// What ran, for people.
    pub name: String,
    /// Tokens of a prompt, on average.
    pub input_tokens: Option<u32>,
    /// Tokens that are generated for it, on average.
    pub output_tokens: Option<u32>,
    /// Requests at once.
    pub concurrency: Option<u32>,
    /// Requests per second.
    pub request_rate: Option<f64>,
    /// To the first token, milliseconds.
    pub ttft_ms: Option<(f64, f64)>,
    /// From token to token, milliseconds.
    pub tpot_ms: Option<(f64, f64)>,
    /// Tokens per second of all GPUs.
    pub tokens_s: Option<(f64, f64)>,
    /// Requests waited for the server's limits: such runs count apart.
    pub queue_limited: bool,
}

/// A quantity, its column, the measured figure and the predicted one.
type Figure = (&'static str, &'static str, Option<(f64, f64)>);

impl ServingRun {
    /// What is measured, its column, and both figures.
    fn figures(&self) -> [Figure; 3] {
        let (ttft, tpot, throughput) = match self.queue_limited {
            false => ("ttft", "tpot", "throughput"),
            true => (
                "ttft, queue limited",
                "tpot, queue limited",
                "throughput, queue limited",
            ),
        };
        [
            (ttft, "ttft_ms", self.ttft_ms),
            (tpot, "tpot_ms", self.tpot_ms),
            (throughput, "tokens_s", self.tokens_s),
        ]
    }

    fn errors(&self) -> impl Iterator<Item = (&str, f64)> {
        let figures = self.figures().into_iter();
        figures.filter_map(|(quantity, _, both)| {
            let (measured, predicted) = both?;
            Some((quantity, predicted / measured - 1.0))
        })
    }

    fn json(&self) -> Value {
        let mut row = Map::new();
        row.insert("name".into(), json!(self.name));
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                row.insert(name.to_owned(), value);
            }
        };
        add("input_tokens", self.input_tokens.map(|n| json!(n)));
        add("output_tokens", self.output_tokens.map(|n| json!(n)));
        add("concurrency", self.concurrency.map(|n| json!(n)));
        add("request_rate", self.request_rate.map(|n| json!(n)));
        for (_, column, both) in self.figures() {
            add(&format!("measured_{column}"), both.map(|b| json!(b.0)));
            add(&format!("predicted_{column}"), both.map(|b| json!(b.1)));
        }
        if self.queue_limited {
            add("queue_limited", Some(json!(true)));
        }
        Value::Object(row)
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

/// A group of fewer runs of engines counts for nothing.
const LEAST_RUNS: usize = 3;

/// Stands for all quantities of a kind of table.
const ALL: &str = "all";

impl ServingValidation {
    /// What sets and skips come to.
    #[must_use]
    pub fn of(sets: Vec<ServingSet>, skipped: Vec<ServingSkip>) -> ServingValidation {
        let mut groups: BTreeMap<(&str, &str), Groups<'_>> = BTreeMap::new();
        for set in &sets {
            for (quantity, error) in set.errors() {
                for of in [quantity, ALL] {
                    let kind = groups.entry((&set.kind, of)).or_default();
                    let group = (set.group.as_str(), quantity);
                    kind.entry(group).or_default().push(error.abs());
                }
            }
        }
        let is_of_runs =
            |kind: &str| (sets.iter()).any(|set| set.kind == kind && !set.runs.is_empty());
        for (&(kind, _), groups) in &mut groups {
            let least = if is_of_runs(kind) { LEAST_RUNS } else { 1 };
            groups.retain(|_, errors| errors.len() >= least);
        }
        groups.retain(|_, groups| !groups.is_empty());
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
        for (quantity, error) in set.errors() {
            let key = (set.kind.as_str(), set.group.as_str(), quantity);
            groups.entry(key).or_default().push(error);
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
