//! How long serving goes on.

use fabricsim_workload::serving::spec::{LoadSpec, ServingSpec, SteadySpec, WindowSpec};

/// How long serving goes on, and what its figures are of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Horizon {
    /// Until all requests are served; figures are of all of it.
    Whole,
    /// Until all requests are served; figures are of the part in steady state.
    Fixed,
    /// Until figures are known.
    Known(SteadySpec),
}

impl Horizon {
    /// The same with figures that need to be known less well, after fewer passes.
    #[must_use]
    pub fn shorter(self, precision: f64, most_passes: u64) -> Self {
        match self {
            Horizon::Known(spec) => Horizon::Known(SteadySpec {
                precision,
                most_passes,
                ..spec
            }),
            other => other,
        }
    }
}

/// Whether a job's requests are those that it names, or those of a trace, or go on until figures are known.
pub(super) fn horizon(job: &ServingSpec, is_alone: bool) -> Horizon {
    let is_whole = matches!(job.window, Some(WindowSpec::Whole(_)));
    let is_trace = matches!(job.load, LoadSpec::Trace(_));
    let steady = match &job.window {
        Some(WindowSpec::Steady(spec)) => *spec,
        _ => SteadySpec::default(),
    };
    match job.requests {
        None if is_alone && !is_whole && !is_trace => Horizon::Known(steady),
        _ if !is_alone || is_whole => Horizon::Whole,
        _ if is_trace && job.window.is_none() => Horizon::Whole,
        _ => Horizon::Fixed,
    }
}

/// Requests per second of a load that has a rate.
pub(super) fn rate(load: &LoadSpec) -> Option<f64> {
    match load {
        LoadSpec::Poisson(load) | LoadSpec::Constant(load) => Some(load.rate),
        LoadSpec::Gamma(load) => Some(load.rate),
        LoadSpec::Closed(_) | LoadSpec::Trace(_) => None,
    }
}

/// Requests that a closed loop has at once.
pub(super) fn at_once(load: &LoadSpec) -> Option<u32> {
    match load {
        LoadSpec::Closed(load) => Some(load.concurrency),
        _ => None,
    }
}

/// Requests per second of a load, or at once, which is a whole number; nothing of a trace.
pub(crate) fn amount(load: &LoadSpec) -> Option<(f64, bool)> {
    let at_once = at_once(load).map(|at_once| (f64::from(at_once), true));
    rate(load).map(|rate| (rate, false)).or(at_once)
}
