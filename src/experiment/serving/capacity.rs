//! The largest rate of requests that holds: that engines keep up with, and at which enough requests keep the limits on
//! times. By bisection, each rate simulated in steady state.

use super::horizon::Horizon;
use super::valid::ValidServing;
use crate::error::ScenarioError;
use fabricsim_report::serving::{Capacity, CapacityStep, ServingResult, Verdict};
use fabricsim_workload::serving::spec::{CapacitySpec, LoadSpec, SteadySpec};

/// It is known to that part.
const PRECISION: f64 = 0.02;
/// Passes of a rate that is tried, about.
const MOST_PASSES: u64 = 300_000;
/// What times are to be known to, of a rate that is tried.
const KNOWN: f64 = 0.05;
/// Rates that are tried at most.
const MOST: usize = 16;

/// The job with another rate.
pub(super) fn at_rate(valid: &ValidServing, to: f64) -> ValidServing {
    let mut changed = valid.clone();
    match &mut changed.spec.load {
        LoadSpec::Poisson(load) | LoadSpec::Constant(load) => load.rate = to,
        LoadSpec::Gamma(load) => load.rate = to,
        LoadSpec::Closed(_) | LoadSpec::Trace(_) => {}
    }
    changed
}

/// Finds it, by what serving a job comes to; nothing if no rate can be served.
///
/// # Errors
/// What NCCL refuses.
pub(super) fn capacity(
    valid: &ValidServing,
    asked: CapacitySpec,
    serve: impl Fn(&ValidServing) -> Result<Option<ServingResult>, ScenarioError>,
) -> Result<Option<Capacity>, ScenarioError> {
    let mut steps = Vec::new();
    let (mut held, mut failed): (f64, Option<(f64, String)>) = (0.0, None);
    // What full engines do is known after the first run, whatever its rate.
    let mut next = match &valid.spec.load {
        LoadSpec::Poisson(load) | LoadSpec::Constant(load) => load.rate,
        LoadSpec::Gamma(load) => load.rate,
        LoadSpec::Closed(_) | LoadSpec::Trace(_) => return Ok(None),
    };
    let mut above: Option<f64> = None;
    while steps.len() < MOST {
        let mut tried = at_rate(valid, next);
        tried.horizon = Horizon::Known(SteadySpec {
            precision: KNOWN,
            most_passes: MOST_PASSES,
            ..SteadySpec::default()
        });
        let Some(result) = serve(&tried)? else {
            break;
        };
        let step = step(&result, next, asked);
        match step.holds {
            true => held = held.max(next),
            false => failed = Some((next, limit(&result, asked))),
        }
        steps.push(step);
        above = above.or(result.saturation.map(|most| most.requests_per_s_hi));
        let top = match (&failed, above) {
            (Some((failed, _)), Some(above)) => failed.min(above),
            (Some((failed, _)), None) => *failed,
            (None, Some(above)) => above,
            (None, None) => next * 4.0,
        };
        if held > 0.0 && top <= held * (1.0 + PRECISION) {
            break;
        }
        next = match held > 0.0 {
            true => (held * top).sqrt(),
            false => top / 2.0,
        };
    }
    let last = failed.unwrap_or_else(|| (above.unwrap_or(held), "saturation".to_owned()));
    let top = above.map_or(last.0, |above| last.0.min(above));
    let by = match top < last.0 {
        true => "saturation".to_owned(),
        false => last.1,
    };
    Ok((held > 0.0).then_some(Capacity {
        requests_per_s: held,
        requests_per_s_lo: held,
        requests_per_s_hi: top,
        limited_by: by,
        steps,
    }))
}

fn step(result: &ServingResult, rate: f64, asked: CapacitySpec) -> CapacityStep {
    let verdict = result.verdict.unwrap_or(Verdict::Overloaded);
    let keeps = result
        .slo_share
        .is_none_or(|share| share >= asked.slo_share);
    CapacityStep {
        requests_per_s: rate,
        verdict,
        slo_share: result.slo_share,
        holds: verdict == Verdict::Stable && keeps,
    }
}

/// What does not hold.
fn limit(result: &ServingResult, asked: CapacitySpec) -> String {
    let misses = result
        .slo_share
        .is_some_and(|share| share < asked.slo_share);
    match (result.verdict, misses) {
        (Some(Verdict::Stable), true) => "slo".to_owned(),
        _ => "saturation".to_owned(),
    }
}
