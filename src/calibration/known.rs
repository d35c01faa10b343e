//! How far predictions of each kind of step, and of engines that serve, are off, as the last validation found it.
//!
//! `fabricsim validate --steps validation/training.json --known-errors validation/known-errors.json` writes one
//! part of the file that is compiled in, `--serving DIR` in place of `--steps` the other.

use fabricsim_report::comparison::KnownError;
use fabricsim_report::training::{PublishedTable, StepKind, median};
use fabricsim_report::validation::ServingValidation;
use fabricsim_report::{Summary, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Errors by kind of step, and of engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownErrors {
    /// What wrote it.
    pub comment: String,
    /// A kind of step each.
    pub steps: Vec<KindError>,
    /// Of all kinds of steps together.
    pub all: Spread,
    /// Of runs of engines: a quantity each.
    #[serde(default)]
    pub serving: Vec<EngineError>,
}

/// The errors of a quantity of engines that serve; groups of measurements (GPU, engine, model) count once each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineError {
    /// `throughput`, `tpot` or `ttft`.
    pub quantity: String,
    /// Groups.
    pub groups: u32,
    /// Its errors: the median over groups of their median.
    #[serde(flatten)]
    pub spread: Spread,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of them are smaller, as a share of the measured time.
    pub median: f64,
    /// How many there are.
    pub rows: u32,
}

/// Of fewer measurements than these a median says little.
const FEWEST: u32 = 3;

const COMMENT: &str = "written by `fabricsim validate --known-errors validation/known-errors.json`: `steps` and \
                       `all` with `--steps validation/training.json`, `serving` with `--serving DIR`";

/// What a table of runs of engines is called.
const RUNS: &str = "engine_benchmark";
/// Quantities of it, as people call them.
const QUANTITIES: [(&str, &str); 3] = [
    ("throughput", "for tokens/s"),
    ("tpot", "a token"),
    ("ttft", "to the first token"),
];

impl KnownErrors {
    /// The same with the errors of predicted runs of engines beside published ones.
    #[must_use]
    pub fn with_serving(self, found: &ServingValidation) -> KnownErrors {
        let of = |quantity: &str| {
            let mut all = found.summary.iter();
            let of = all.find(|errors| errors.kind == RUNS && errors.quantity == quantity)?;
            Some(EngineError {
                quantity: quantity.to_owned(),
                groups: of.groups as u32,
                spread: Spread {
                    median: four_digits(of.median),
                    rows: of.rows as u32,
                },
            })
        };
        KnownErrors {
            comment: COMMENT.to_owned(),
            serving: QUANTITIES.iter().filter_map(|(name, _)| of(name)).collect(),
            ..self
        }
    }

    /// The same with the errors of predicted steps beside published ones.
    #[must_use]
    pub fn with_steps(self, tables: &[PublishedTable]) -> KnownErrors {
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
            median: four_digits(median(errors).unwrap_or(f64::NAN)),
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
            serving: self.serving,
        }
    }

    /// What is known of engines; an answer says it of each quantity.
    fn of_serving(&self, answer: &mut String) -> Option<KnownError> {
        let of = |&(name, text): &(&str, &'static str)| {
            let mut all = self.serving.iter();
            let error = all.find(|error| error.quantity == name)?;
            Some((error, text))
        };
        let each: Vec<(&EngineError, &str)> = QUANTITIES.iter().filter_map(of).collect();
        let &(rate, _) = each.first()?;
        let said = each.iter().map(|(error, text)| {
            let percent = error.spread.median * 100.0;
            format!("{percent:.0} % {text}")
        });
        let said: Vec<String> = said.collect();
        *answer += &format!(
            " Known error of engines that serve: {} in the median (n = {} groups at least).",
            said.join(", "),
            each.iter()
                .map(|(error, _)| error.groups)
                .min()
                .unwrap_or(0)
        );
        Some(KnownError {
            kind: "tokens/s of engines that serve".to_owned(),
            median: rate.spread.median,
            rows: rate.spread.rows,
        })
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

/// Four digits are more than these figures hold.
fn four_digits(error: f64) -> f64 {
    (error * 1e4).round() / 1e4
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
/// error, or that of the tokens per second of engines. The answer then says so; of steps also that no one wins
/// where a difference is smaller. Nothing is known of collectives.
pub fn known_error(summary: &mut Summary) -> Option<KnownError> {
    let known = shipped()?;
    let serves = |variant: &Variant| variant.job.serving().is_some();
    if summary.variants.iter().any(serves) {
        return known.of_serving(&mut summary.answer);
    }
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
    let speed = |variant: &Variant| {
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

    #[test]
    fn the_shipped_errors_are_of_each_quantity_of_engines() {
        let mut answer = String::new();
        let known = shipped().unwrap().of_serving(&mut answer).unwrap();
        assert!(known.rows > 100 && (0.0..1.0).contains(&known.median));
        for (_, text) in QUANTITIES {
            assert!(answer.contains(text), "{answer}");
        }
    }
}
