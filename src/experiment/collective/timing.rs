//! What nccl-tests would time.
//!
//! Operations are issued back to back, and the time of one is what it adds. Three are enough for
//! that where the third adds what the second does, but for a hundredth. Where ranks run ahead and
//! links are busy for more than half of the time, the last one of all adds less than those before:
//! no other takes anything of its links any more. Then five are simulated, and the time is the mean
//! of what the third and the fourth add, which have two before and one after them. No time is
//! shorter than the busiest link takes for the bytes of one operation: what follows a slow start may
//! be faster for a while, until buffers are empty, but not for long. Under faults that come and go
//! it is the mean of three.

use super::disturb::Conditions;
use fabricsim_budget::{Memory, Stop};
use fabricsim_engine::path::{CriticalPath, Times};
use fabricsim_engine::probe::{Blind, Probe};
use fabricsim_engine::{Options, Outcome, SimError, simulate_folded_with, simulate_with};
use fabricsim_fault::Faults;
use fabricsim_plan::{Disturbances, Plan};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::{Bandwidth, Time};

/// Operations of a size that are simulated.
const BACK_TO_BACK: u32 = 3;
/// The same where ranks run ahead.
const AHEAD: u32 = 5;

/// How a time is come by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing<'m> {
    /// Of one operation alone, not of what it adds to others that are issued back to back.
    pub isolated: bool,
    /// By simulating every worker.
    pub exact_full: bool,
    /// On so many processors, at most.
    pub threads: u32,
    /// What it holds counts against it.
    pub memory: Option<&'m Memory>,
    /// Ends it before its time.
    pub stop: Option<&'m Stop>,
}

/// What is simulated, and what of it is an operation's time.
#[derive(Debug, Clone, Copy)]
enum Count {
    /// One operation, all of it.
    Alone,
    /// What one adds to others.
    Added,
    /// Its share of so many.
    Mean(u32),
    /// The same as threads with a rank each see it.
    Threads(u32),
}

impl Count {
    fn of(plan: &Plan, timing: Timing<'_>) -> Self {
        match plan.issue.in_a_row {
            _ if timing.isolated => Count::Alone,
            0 | 1 => Count::Added,
            of_a_thread => Count::Threads(of_a_thread),
        }
    }

    /// Under faults, which may come and go.
    fn disturbed(steady: bool, timing: Timing<'_>) -> Self {
        match (timing.isolated, steady) {
            (true, _) => Count::Alone,
            (false, true) => Count::Added,
            (false, false) => Count::Mean(BACK_TO_BACK),
        }
    }
}

/// What an operation takes.
pub fn time_of(
    topology: &Topology,
    plan: &Plan,
    timing: Timing<'_>,
    progress: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<(Time, Outcome), SimError> {
    let run = Simulated {
        plan,
        disturbances: None,
        timing,
    };
    let count = Count::of(plan, timing);
    let (time, outcome, _) = run.counted(topology.rates(), count, progress, &mut Blind)?;
    Ok((time, outcome))
}

/// What an operation takes, and what that was spent on.
#[derive(Debug)]
pub struct Timed {
    /// What nccl-tests would print.
    pub time: Time,
    /// Of all operations that were simulated.
    pub outcome: Outcome,
    /// The critical path of the last one or, where they differ, of several; `None` if there was too
    /// much to remember.
    pub path: Option<Times>,
}

/// A plan, and how it is simulated.
#[derive(Clone, Copy)]
struct Simulated<'a> {
    plan: &'a Plan,
    disturbances: Option<&'a dyn Disturbances>,
    timing: Timing<'a>,
}

impl<'a> Simulated<'a> {
    /// An operation's time, what it is of, and how long before the end that has come to be.
    fn counted<P: Probe>(
        self,
        rate: impl Fn(LinkId) -> Bandwidth,
        count: Count,
        mut progress: Option<&mut dyn FnMut(u64, u64)>,
        probe: &mut P,
    ) -> Result<(Time, Outcome, Time), SimError> {
        let mut outcome = |operations| {
            let progress: Option<&mut dyn FnMut(u64, u64)> = match &mut progress {
                Some(progress) => Some(&mut **progress),
                None => None,
            };
            self.outcome(&rate, operations, progress, probe)
        };
        let whole = |time: Time, all: Outcome| {
            let end = all.end();
            (time, all, end)
        };
        match count {
            Count::Alone => outcome(1).map(|one| whole(one.end(), one)),
            Count::Mean(of) => outcome(of).map(|all| whole(share(all.end(), of), all)),
            Count::Threads(of) => outcome(of).map(|all| whole(mean_of_threads(&all), all)),
            Count::Added => {
                let mut all = outcome(BACK_TO_BACK)?;
                let mut time = added(&all, 2);
                let mut window = time;
                let busy = busiest(self.plan, &all, &rate);
                if time < share(added(&all, 1).times(99), 100) && busy * 2 > time {
                    all = outcome(AHEAD)?;
                    time = share(all.finish_of(3).saturating_sub(all.finish_of(1)), 2);
                    window = all.end().saturating_sub(all.finish_of(1));
                }
                Ok((time.max(busy), all, window))
            }
        }
    }

    fn outcome<'p, P: Probe>(
        self,
        rate: impl Fn(LinkId) -> Bandwidth,
        operations: u32,
        progress: Option<&'p mut (dyn FnMut(u64, u64) + 'p)>,
        probe: &mut P,
    ) -> Result<Outcome, SimError>
    where
        'a: 'p,
    {
        let options = Options {
            operations,
            threads: self.timing.threads,
            memory: self.timing.memory,
            stop: self.timing.stop,
            disturbances: self.disturbances,
            progress,
        };
        if self.timing.exact_full {
            simulate_with(self.plan, rate, options, probe)
        } else {
            simulate_folded_with(self.plan, rate, options, probe)
        }
    }
}

/// What an operation takes under faults, or without any; where they are on at times only (not
/// `steady`), its mean.
pub(super) fn disturbed_time_of(
    topology: &Topology,
    plan: &Plan,
    (faults, steady): (&Faults, bool),
    timing: Timing<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Timed, SimError> {
    let conditions = Conditions::new(plan, faults);
    let run = Simulated {
        plan: &conditions.plan,
        disturbances: conditions.disturbances(),
        timing,
    };
    let count = Count::disturbed(steady, timing);
    let mut path = CriticalPath::default();
    let rate = conditions.rates(topology);
    let (time, outcome, window) = run.counted(rate, count, Some(progress), &mut path)?;
    let path = path.walk(&outcome, window);
    Ok(Timed {
        time,
        outcome,
        path,
    })
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

/// What an operation (from 0, not the first) adds to those before.
fn added(outcome: &Outcome, operation: usize) -> Time {
    let before = outcome.finish_of(operation - 1);
    outcome.finish_of(operation).saturating_sub(before)
}

/// How long the busiest link is busy with one of the operations. Fewer than a buffer holds may follow
/// each other faster, while they bring what the first ones left behind; many cannot.
fn busiest(plan: &Plan, outcome: &Outcome, rate: impl Fn(LinkId) -> Bandwidth) -> Time {
    let busy = outcome
        .carried(plan)
        .map(|(link, bytes)| rate(link).time_for(bytes));
    share(
        busy.max().unwrap_or(Time::ZERO),
        outcome.finish.len() as u32,
    )
}

fn share(time: Time, of: u32) -> Time {
    Time::from_picos(time.picos() / u64::from(of))
}
