//! How far predictions of each kind of step are off, as the last validation found it.
//!
//! `fabricsim validate --steps validation/training.json --known-errors
//! validation/known-errors.json` writes the file that is compiled in.

use fabricsim_report::Summary;
use fabricsim_report::comparison::KnownError;
use fabricsim_report::training::{PublishedTable, StepKind, median};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Errors by kind of step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownErrors {
    /// What wrote it.
    pub comment: String,
    /// A kind each.
    pub steps: Vec<KindError>,
    /// Of all kinds together.
    pub all: Spread,
}

/// The errors of one kind of step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindError {
    /// The kind.
    #[serde(flatten)]
    pub kind: StepKind,
    /// Its errors.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Errors of some predictions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of them are smaller, as a share of the measured time.
    pub median: f64,
    /// How many there are.
    pub rows: u32,
}

/// Of fewer measurements than these a median says little.
const FEWEST: u32 = 3;

const COMMENT: &str = "written by `fabricsim validate --steps validation/training.json \
                       --known-errors validation/known-errors.json`";

impl KnownErrors {
    /// Of predicted steps beside published ones.
    #[must_use]
    pub fn of(tables: &[PublishedTable]) -> KnownErrors {
        let mut kinds: BTreeMap<StepKind, Vec<f64>> = BTreeMap::new();
        let mut all = Vec::new();
        for row in tables.iter().flat_map(|table| &table.rows) {
            let Some(error) = row.error().map(f64::abs) else {
                continue;
            };
            all.push(error);
            if let Some(kind) = &row.kind {
                kinds.entry(kind.clone()).or_default().push(error);
            }
        }
        let spread = |errors: Vec<f64>| Spread {
            rows: errors.len() as u32,
            // Four digits are more than these figures hold.
            median: (median(errors).unwrap_or(f64::NAN) * 1e4).round() / 1e4,
        };
        KnownErrors {
            comment: COMMENT.to_owned(),
            steps: kinds
                .into_iter()
                .map(|(kind, errors)| KindError {
                    kind,
                    spread: spread(errors),
                })
                .collect(),
            all: spread(all),
        }
    }

    /// What is known of a kind; of all together, if of that one too little is.
    fn of_kind(&self, kind: &StepKind) -> KnownError {
        let found = self.steps.iter().find(|known| known.kind == *kind);
        match found.filter(|known| known.spread.rows >= FEWEST) {
            Some(known) => KnownError {
                kind: kind.text(),
                median: known.spread.median,
                rows: known.spread.rows,
            },
            None => KnownError {
                kind: "training steps of all kinds".to_owned(),
                median: self.all.median,
                rows: self.all.rows,
            },
        }
    }
}

/// Those that the program carries with it.
fn shipped() -> Option<&'static KnownErrors> {
    static SHIPPED: OnceLock<Option<KnownErrors>> = OnceLock::new();
    let text = include_str!("../../validation/known-errors.json");
    SHIPPED
        .get_or_init(|| serde_json::from_str(text).ok())
        .as_ref()
}

/// How far off predictions like those of a run are: that of its kinds of steps with the largest
/// error. The answer then says so, and that no one wins where a difference is smaller. Nothing of
/// collectives.
pub fn known_error(summary: &mut Summary) -> Option<KnownError> {
    let known = shipped()?;
    let kinds = summary.variants.iter().filter_map(|variant| {
        let kind = variant.job.training()?.kind.as_ref()?;
        Some(known.of_kind(kind))
    });
    let worst = kinds.max_by(|a, b| a.median.total_cmp(&b.median))?;
    let percent = worst.median * 100.0;
    if within(summary, worst.median) {
        summary.answer = format!(
            "No clear winner: the difference is within the known error of {percent:.0} %. {}",
            summary.answer
        );
    }
    summary.answer += &format!(
        " Known error of {}: {percent:.0} % in the median (n = {}).",
        worst.kind, worst.rows
    );
    Some(worst)
}

/// Whether the best is ahead of the next by less than this share.
fn within(summary: &Summary, error: f64) -> bool {
    let speed = |variant: &fabricsim_report::Variant| {
        let fits = variant.metrics.fits.unwrap_or(true);
        variant.metrics.tokens_per_s_per_gpu.filter(|_| fits)
    };
    let mut speeds: Vec<f64> = summary.variants.iter().filter_map(speed).collect();
    speeds.sort_by(|a, b| b.total_cmp(a));
    match speeds.as_slice() {
        [first, second, ..] => first / second - 1.0 < error,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_errors_can_be_read_and_are_of_some_steps() {
        let known = shipped().unwrap();
        assert!(known.all.rows > 100 && (0.0..1.0).contains(&known.all.median));
        let counted: u32 = known.steps.iter().map(|kind| kind.spread.rows).sum();
        assert!(counted <= known.all.rows);
        let none = StepKind {
            experts: true,
            precision: "FP2".into(),
            gpu: "next".into(),
        };
        assert_eq!(known.of_kind(&none).rows, known.all.rows);
    }
}
