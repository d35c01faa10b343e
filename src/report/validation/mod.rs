//! Predictions beside published measurements: for a terminal, and as a folder.

mod claims;
mod curves;
mod folder;
mod json;
mod page;
mod panel;
mod serving;
mod text;

pub use claims::{
    JudgedCheck, JudgedClaim, JudgedClaims, JudgedPoint, Verdict, claims_json, claims_page,
    claims_text,
};
pub use curves::curves_svg;
pub use folder::{check_validation_target, write_validation};
pub use json::validation_json;
pub use page::validation_page;
pub use serving::{
    ServingErrors, ServingRow, ServingRun, ServingSet, ServingSkip, ServingValidation,
    serving_validation_json, serving_validation_text,
};
pub use text::validation_text;

use crate::published::Crossing;
use serde::Serialize;
use std::collections::BTreeMap;

/// Every table that was looked at, with what was predicted of it or why nothing was.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    /// Tables that were predicted.
    pub sets: Vec<ValidatedSet>,
    /// How far off they are together.
    pub overall: Vec<Overall>,
    /// Tables that were not predicted.
    pub skipped: Vec<SkippedSet>,
    /// How many tables there are of each kind.
    pub counts: Counts,
    /// The version of fabricsim.
    pub version: String,
}

/// How many tables there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All.
    pub tables: usize,
    /// Those whose source reports no fault.
    pub healthy: usize,
    /// Those of them that say how to run them here.
    pub with_model: usize,
    /// Those of them that were predicted.
    pub modelled: usize,
    /// Tables with settings that are taken to have been otherwise than their sources say; all others
    /// are in the errors over all.
    pub inferred: usize,
}

/// Settings of a table that are taken to have been otherwise than its source says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InferredSettings {
    /// What shows it.
    pub why: String,
    /// It was predicted with them; else as its source says.
    pub taken: bool,
}

/// One table, predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidatedSet {
    /// Its name.
    pub id: String,
    /// What its source is called.
    pub title: Option<String>,
    /// Where its source is.
    pub address: Option<String>,
    /// The machine's name.
    pub topology: String,
    /// How many ranks took part.
    pub ranks: u32,
    /// What they did.
    pub collective: String,
    /// All of them are within one NVLink domain.
    pub one_domain: bool,
    /// What messages between them cross.
    pub crosses: Crossing,
    /// Nodes that they are on.
    pub nodes: u32,
    /// Settings that are otherwise than its source says.
    pub inferred: Option<InferredSettings>,
    /// How far off its rows are, by band, from small sizes to large.
    pub errors: Vec<BandErrors>,
    /// Size by size.
    pub rows: Vec<ValidatedRow>,
}

/// One size, measured and predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValidatedRow {
    /// nccl-tests' size.
    pub bytes: u64,
    /// As published, microseconds.
    pub measured_us: f64,
    /// As simulated, microseconds.
    pub predicted_us: f64,
    /// By NCCL's own cost model, microseconds.
    pub baseline_us: f64,
    /// `ring`, `tree` …
    pub algo: String,
    /// `simple`, `ll`, `ll128`.
    pub proto: String,
    /// Thread blocks per rank.
    pub channels: u32,
}

impl ValidatedSet {
    /// Its name, and whether this is the prediction with its inferred settings.
    fn label(&self) -> String {
        match &self.inferred {
            Some(inferred) if inferred.taken => format!("{} (inferred)", self.id),
            _ => self.id.clone(),
        }
    }

    /// Its place on a page.
    fn anchor(&self) -> String {
        self.label().replace(" (inferred)", "-inferred")
    }
}

impl ValidatedRow {
    /// How far off the simulation is: the same for half and for double.
    fn distance(&self) -> f64 {
        (self.predicted_us / self.measured_us).ln().abs()
    }
}

/// Errors in one band of sizes; `None` where there is nothing in it.
#[derive(Debug, Clone, PartialEq)]
pub struct BandErrors {
    /// In files.
    pub key: String,
    /// For people.
    pub name: String,
    /// Of the simulation.
    pub predicted: Option<Spread>,
    /// Of NCCL's own cost model.
    pub baseline: Option<Spread>,
}

/// How errors are spread, of rows or of groups.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many groups (or rows, of a single set).
    pub count: usize,
    /// The median of |predicted / measured − 1|.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The geometric mean of predicted / measured.
    pub ratio: f64,
}

/// Errors over many tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Overall {
    /// In files.
    pub key: String,
    /// For people.
    pub name: String,
    /// By band, from small sizes to large.
    pub bands: Vec<BandErrors>,
}

/// A table of which nothing was predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedSet {
    /// Its name.
    pub id: String,
    /// The reason, for people.
    pub why: String,
    /// The kind of reason.
    pub kind: SkipKind,
}

/// Why a table is not predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipKind {
    /// It should have been, but could not.
    Failed,
    /// It does not say how to run it here.
    NoModel,
    /// Its own source reports a fault.
    Unhealthy,
}

impl SkipKind {
    /// For people.
    fn name(self) -> &'static str {
        match self {
            SkipKind::Failed => "failed",
            SkipKind::NoModel => "no model block",
            SkipKind::Unhealthy => "not healthy",
        }
    }
}

/// The rows that are furthest off, at most `most`, with their sets.
fn worst(validation: &Validation, most: usize) -> Vec<(&ValidatedSet, &ValidatedRow)> {
    let sets = validation.sets.iter();
    let mut rows: Vec<_> = sets
        .flat_map(|set| set.rows.iter().map(move |row| (set, row)))
        .collect();
    rows.sort_by(|(_, a), (_, b)| b.distance().total_cmp(&a.distance()));
    rows.truncate(most);
    rows
}

/// What was skipped, by kind and reason: the names of each.
fn skipped_by_reason(validation: &Validation) -> BTreeMap<(SkipKind, &str), Vec<&str>> {
    let mut reasons: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for set in &validation.skipped {
        let names = reasons.entry((set.kind, set.why.as_str())).or_default();
        names.push(&set.id);
    }
    reasons
}

/// `predicted / measured − 1` as people read it: `+12 %`.
fn signed(value: f64, measured: f64) -> String {
    let error = (value / measured - 1.0) * 100.0;
    let decimals = usize::from(error.abs() < 9.95);
    format!("{error:+.decimals$} %")
}

/// As NCCL writes it, after the algorithm.
fn choice(row: &ValidatedRow) -> String {
    let proto = super::plot::protocol_name(&row.proto);
    format!("{} {proto}, {} ch", row.algo, row.channels)
}

/// A part of one as percents: `9.3`, `104`.
fn hundredths(value: f64) -> String {
    let value = value * 100.0;
    let decimals = usize::from(value < 99.95);
    format!("{value:.decimals$}")
}

/// `set` is of `all-reduce, 16 ranks of dgx-h100`.
fn subject(set: &ValidatedSet) -> String {
    let ranks = if set.ranks == 1 { "rank" } else { "ranks" };
    format!(
        "{}, {} {ranks} of {}",
        set.collective, set.ranks, set.topology
    )
}
