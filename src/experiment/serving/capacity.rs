//! The largest rate of requests that holds: that engines keep up with, and at which enough requests keep the limits on
//! times. By bisection, each rate simulated in steady state.

use super::horizon::Horizon;
use super::steady::Saturated;
use super::valid::ValidServing;
use crate::error::ScenarioError;
use fabricsim_report::serving::{Capacity, CapacityStep, ServingResult, Verdict};
use fabricsim_workload::serving::spec::{CapacitySpec, LoadSpec, SteadySpec};

/// It is known to that part.
const PRECISION: f64 = 0.02;
/// What times are to be known to, of a rate that is tried.
const KNOWN: f64 = 0.05;
/// Passes of a rate that is tried, about.
const MOST_PASSES: u64 = 200_000;
/// Rates that are tried at most.
const MOST: usize = 16;
/// Rates below that part of what full engines do are not tried.
const LEAST: f64 = 1e-3;

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

/// Finds it, for engines that do so much at most, by what serving a job comes to; nothing if no rate that was tried
/// holds.
///
/// # Errors
/// What NCCL refuses.
pub(super) fn capacity(
    (valid, most): (&ValidServing, Saturated),
    asked: CapacitySpec,
    serve: impl Fn(&ValidServing) -> Result<Option<ServingResult>, ScenarioError>,
) -> Result<Option<Capacity>, ScenarioError> {
    let mut steps = Vec::new();
    let mut held = 0.0f64;
    let (mut failed, mut by) = (most.hi, "saturation");
    // Where limits on times are not what decides, what full engines do is nearly reached.
    let mut next = most.lo * 0.97;
    while steps.len() < MOST && next > most.rate * LEAST {
        let mut tried = at_rate(valid, next);
        tried.horizon = Horizon::Known(SteadySpec::default()).shorter(KNOWN, MOST_PASSES);
        tried.decides = Some(asked.slo_share);
        let Some(result) = serve(&tried)? else {
            break;
        };
        let step = step(&result, next, asked);
        match (step.holds, result.verdict) {
            (true, _) => held = next,
            (false, Some(Verdict::Stable)) => (failed, by) = (next, "slo"),
            (false, _) => (failed, by) = (next, "saturation"),
        }
        steps.push(step);
        if held > 0.0 && failed <= held * (1.0 + PRECISION) {
            break;
        }
        next = match held > 0.0 {
            true => (held * failed).sqrt(),
            false => failed * 0.7,
        };
    }
    Ok((held > 0.0).then(|| Capacity {
        requests_per_s: held,
        requests_per_s_lo: held,
        requests_per_s_hi: failed,
        limited_by: by.to_owned(),
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
