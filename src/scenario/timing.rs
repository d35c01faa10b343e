//! What nccl-tests would time.
//!
//! Operations are issued back to back, and the time of one is what it adds. Three are enough for
//! that, since the third begins as all later ones do; under faults that come and go it is the mean
//! of all three.

use super::disturb::Conditions;
use super::valid::ValidSpec;
use crate::engine::{Options, Outcome, SimError, simulate, simulate_folded};
use crate::plan::{Disturbances, Plan};
use crate::topology::{LinkId, Topology};
use crate::units::{Bandwidth, Time};

/// Operations of a size that are simulated.
const BACK_TO_BACK: u32 = 3;

/// How a time is come by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timing {
    /// Of one operation alone, not of what it adds to others that are issued back to back.
    pub(super) isolated: bool,
    /// By simulating every worker.
    pub(super) exact_full: bool,
    /// On so many processors, at most.
    pub(super) threads: u32,
}

/// What an operation takes.
pub(super) fn time_of(
    topology: &Topology,
    plan: &Plan,
    timing: Timing,
    progress: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<(Time, Outcome), SimError> {
    let (operations, mean): (u32, fn(&Outcome) -> Time) = match plan.issue.in_a_row {
        _ if timing.isolated => (1, |outcome| each(outcome, true)),
        0 | 1 => (BACK_TO_BACK, |outcome| each(outcome, true)),
        of_a_thread => (of_a_thread, mean_of_threads),
    };
    let outcome = outcome(plan, topology.rates(), None, (operations, timing), progress)?;
    Ok((mean(&outcome), outcome))
}

fn outcome<'a>(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    disturbances: Option<&'a dyn Disturbances>,
    (operations, timing): (u32, Timing),
    progress: Option<&'a mut dyn FnMut(u64, u64)>,
) -> Result<Outcome, SimError> {
    let options = Options {
        operations,
        threads: timing.threads,
        disturbances,
        progress,
    };
    if timing.exact_full {
        simulate(plan, rate, options)
    } else {
        simulate_folded(plan, rate, options)
    }
}

/// What an operation takes under faults.
pub(super) fn disturbed_time_of(
    spec: &ValidSpec,
    plan: &Plan,
    timing: Timing,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Time, Outcome), SimError> {
    let conditions = Conditions::new(plan, &spec.faults);
    let operations = if timing.isolated { 1 } else { BACK_TO_BACK };
    let rate = conditions.rates(&spec.topology);
    let disturbances = conditions.disturbances();
    let how = (operations, timing);
    let outcome = outcome(&conditions.plan, rate, disturbances, how, Some(progress))?;
    Ok((each(&outcome, spec.faults.is_steady()), outcome))
}

/// What it would take without them, counted as [`disturbed_time_of`] does.
pub(super) fn healthy_time_of(
    spec: &ValidSpec,
    plan: &Plan,
    timing: Timing,
) -> Result<Time, SimError> {
    let folded = Timing {
        exact_full: false,
        ..timing
    };
    let (_, outcome) = time_of(&spec.topology, plan, folded, None)?;
    Ok(each(&outcome, spec.faults.is_steady()))
}

/// What nccl-tests prints of threads with a rank each: every one counts from the common start to the
/// end of its own last operation, and the mean over all of them is told.
fn mean_of_threads(outcome: &Outcome) -> Time {
    let Some(last) = outcome.finish.last().filter(|last| !last.is_empty()) else {
        return Time::ZERO;
    };
    let all: u128 = last.iter().map(|time| u128::from(time.picos())).sum();
    let shares = last.len() as u128 * outcome.finish.len() as u128;
    Time::from_picos((all / shares) as u64)
}

/// What an operation takes, or adds to those before: the last one, or the mean of all if they differ.
fn each(outcome: &Outcome, alike: bool) -> Time {
    let operations = outcome.finish.len();
    match operations {
        0 | 1 => outcome.end(),
        n if alike => outcome.end().saturating_sub(outcome.finish_of(n - 2)),
        n => Time::from_picos(outcome.end().picos() / n as u64),
    }
}
