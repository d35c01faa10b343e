//! The best interval between checkpoints in simulations.

use super::{Job, Replica, formulas, simulate};
use fabricsim_units::Span;
use std::collections::BTreeMap;

/// The best interval, and how others did.
#[derive(Debug, Clone, PartialEq)]
pub struct BestInterval {
    /// Steps between checkpoints.
    pub steps: u64,
    /// The mean goodput with that.
    pub goodput: f64,
    /// All that were tried, in order of steps, with their mean goodput.
    pub tried: Vec<(u64, f64)>,
}

/// Tries those that the formulas of Young, Daly and [`formulas::exact`] give, intervals from an
/// eighth of the last one's to eight times it, each a fourth root of two longer than the one
/// before, and then more finely around the best. All see the same failures, so that even small differences count.
#[must_use]
pub fn best_interval(job: &Job, seed: u64, threads: usize) -> BestInterval {
    let by = |formula: fn(Span, Span) -> Span| job.steps_by(|mtbf| formula(job.cost, mtbf));
    let guess = by(formulas::exact);
    let mut tried = BTreeMap::new();
    let around = |centre: u64, exponents: &mut dyn Iterator<Item = f64>| -> Vec<u64> {
        exponents
            .map(|exponent| (centre as f64 * exponent.exp2()).round().max(1.0) as u64)
            .collect()
    };
    let mut attempt = |steps: Vec<u64>| {
        for steps in steps {
            tried.entry(steps).or_insert_with(|| {
                let replicas = simulate(job, steps, seed, threads);
                replicas.iter().map(Replica::goodput).sum::<f64>() / replicas.len() as f64
            });
        }
        best(&tried)
    };
    attempt(vec![by(formulas::young), by(formulas::daly)]);
    let (coarse, _) = attempt(around(guess, &mut (-12..=12).map(|k| f64::from(k) / 4.0)));
    let (steps, goodput) = attempt(around(coarse, &mut (-3..=3).map(|k| f64::from(k) / 16.0)));
    BestInterval {
        steps,
        goodput,
        tried: tried.into_iter().collect(),
    }
}

/// The best; of equals the shortest, which loses least if failures are worse than thought.
fn best(tried: &BTreeMap<u64, f64>) -> (u64, f64) {
    let mut best = (1, f64::NEG_INFINITY);
    for (&steps, &goodput) in tried {
        if best.1 < goodput {
            best = (steps, goodput);
        }
    }
    best
}
