//! How a simulation begins: with everybody or one of each class, in order of time, in turns, in
//! herds.

use super::Run;
use super::cast::Cast;
use super::check::check;
use super::herds::{Herding, MARGINS};
use super::skip::Skipper;
use crate::error::SimError;
use crate::fold::{Folding, Traces};
use crate::footprint::hold;
use crate::machinery::{Machinery, Wire, roomy, wires};
use crate::outcome::Outcome;
use crate::probe::{Blind, Probe};
use crate::resources::Resources;
use crate::run::regions::MOST_ACTORS;
use fabricsim_budget::threads;
use fabricsim_budget::{Held, Memory, Stop};
use fabricsim_collective::Rank;
use fabricsim_plan::{Disturbances, Plan, Stretch};
use fabricsim_topology::LinkId;
use fabricsim_units::Bandwidth;
use std::sync::Arc;

/// Looking at so many connections takes longer than starting a thread for it.
const MANY: u32 = 1 << 16;

/// How to run.
#[derive(Default)]
pub struct Options<'a> {
    /// How often the operation is repeated back to back; at least once.
    pub operations: u32,
    /// On so many processors, where that is worth it; none is as one. Results do not depend on it.
    pub threads: u32,
    /// What is held counts against it, if there is any.
    pub memory: Option<&'a Memory>,
    /// Ends it now and then, if that was said.
    pub stop: Option<&'a Stop>,
    /// What goes wrong; nothing is folded or skipped then.
    pub disturbances: Option<&'a dyn Disturbances>,
    /// Called now and then with (steps begun, steps in all).
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
}

/// Simulates `plan` on links with the given payload rates.
///
/// # Errors
/// [`SimError::Stalled`] when nothing moves any more, [`SimError::PastTheClock`] when it does so for
/// too long, [`SimError::Memory`] when it would hold
/// more than it may, [`SimError::Stopped`] when it is told to end, [`SimError::BadPlan`] when the
/// plan's tables do not fit its program.
pub fn simulate(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
) -> Result<Outcome, SimError> {
    simulate_with(plan, rate, options, &mut Blind)
}

/// As [`simulate`], with somebody looking.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with<P: Probe>(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
    probe: &mut P,
) -> Result<Outcome, SimError> {
    check(plan)?;
    let resources = resources(plan, rate, options.disturbances);
    full(plan, resources, options, false, probe)
}

/// As [`simulate`], with one worker for all that are alike, and without going through what
/// repeats itself: the same times, from fewer events.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_folded(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
) -> Result<Outcome, SimError> {
    simulate_folded_with(plan, rate, options, &mut Blind)
}

/// As [`simulate_folded`], for a probe that tracks (`TRACKS`) but need not see all (`ACTIVE`).
///
/// # Errors
/// As [`simulate`].
pub fn simulate_folded_with<P: Probe>(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    mut options: Options<'_>,
    probe: &mut P,
) -> Result<Outcome, SimError> {
    if options.disturbances.is_some() || P::ACTIVE {
        return simulate_with(plan, rate, options, probe);
    }
    check(plan)?;
    let (resources, folded) = fold(plan, rate, options.stop)?;
    if let Some(folded) = folded {
        let _held = hold(options.memory, folded.workers(), folded.wires())?;
        let options = Options {
            operations: options.operations,
            threads: options.threads,
            memory: options.memory,
            stop: options.stop,
            disturbances: None,
            progress: options.progress.as_mut().map(|p| &mut **p as _),
        };
        let (machinery, cast) = folded.into_parts(plan);
        let outcome = go(plan, machinery, cast, options, true, probe);
        // Who waits for whom is told of the ranks themselves, not of those that stand for them.
        if !matches!(outcome, Err(SimError::Stalled { .. })) {
            return outcome;
        }
    }
    full(plan, resources, options, true, probe)
}

/// A plan with one worker for all that are alike.
pub(super) struct FoldedPlan<'p> {
    pub(super) folding: Folding,
    shared: Resources,
    wires: Vec<Wire<'p>>,
}

impl<'p> FoldedPlan<'p> {
    pub(super) fn workers(&self) -> u32 {
        self.folding.workers.len()
    }

    pub(super) fn wires(&self) -> impl Iterator<Item = Wire<'p>> + Clone {
        self.wires.iter().copied()
    }

    pub(super) fn into_parts(self, plan: &Plan) -> (Machinery, Cast) {
        let (slots, workers) = (plan.protocol.fifo_slices, self.workers());
        let wires = self.wires.iter().copied();
        let machinery = Machinery::new(slots, workers, self.shared, wires);
        (machinery, Cast::Classes(Arc::new(self.folding)))
    }
}

/// What transfers share and, if there are any, who is like whom.
///
/// # Errors
/// [`SimError::Stopped`] when it is told to end.
pub(super) fn fold<'p>(
    plan: &'p Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    stop: Option<&Stop>,
) -> Result<(Resources, Option<FoldedPlan<'p>>), SimError> {
    let traces = || Traces::new(plan.program.as_ref(), stop);
    let resources = || resources(plan, rate, None);
    let (traces, resources) = if plan.program.connections() >= MANY {
        threads::both(traces, resources)
    } else {
        (traces(), resources())
    };
    let traces = traces.ok_or(SimError::Stopped)?;
    let has_room = roomy(&resources, wires(plan, |rank| plan.stretch_of(rank)));
    let folded = Folding::new(plan, traces, &resources, has_room).and_then(|mut folding| {
        let (shared, wires) = folding.wires(plan, &resources)?;
        Some(FoldedPlan {
            folding,
            shared,
            wires,
        })
    });
    Ok((resources, folded))
}

/// What transfers share.
pub(super) fn resources(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    disturbances: Option<&dyn Disturbances>,
) -> Resources {
    let kept = |link| plan.merged.rate(link, rate(link));
    let changes = |link| disturbances.is_some_and(|d| d.changes(link));
    Resources::with_changing(&plan.routes, plan.protocol.wire, kept, changes)
}

fn full<P: Probe>(
    plan: &Plan,
    resources: Resources,
    options: Options<'_>,
    skips: bool,
    probe: &mut P,
) -> Result<Outcome, SimError> {
    let (machinery, _held) = everybody(plan, resources, &options)?;
    go(plan, machinery, Cast::All, options, skips, probe)
}

/// A plan as it is executed, and what that holds.
pub(super) fn everybody(
    plan: &Plan,
    resources: Resources,
    options: &Options<'_>,
) -> Result<(Machinery, Option<Held>), SimError> {
    let slots = plan.protocol.fifo_slices;
    let operations = options.operations.max(1);
    let stretch = |rank: Rank| match options.disturbances {
        None => plan.stretch_of(rank),
        Some(by) => plan
            .stretch_of(rank)
            .times(by.least_stretch(rank, operations)),
    };
    let stretch: Vec<Stretch> = (0..plan.program.ranks())
        .map(|r| stretch(Rank(r)))
        .collect();
    let wires = wires(plan, |rank| stretch[rank.index()]);
    let held = hold(options.memory, plan.program.workers(), wires.clone())?;
    let machinery = Machinery::new(slots, plan.program.workers(), resources, wires);
    Ok((machinery, held))
}

fn go<'r, P: Probe>(
    plan: &'r Plan,
    machinery: Machinery,
    cast: Cast,
    options: Options<'_>,
    skips: bool,
    probe: &'r mut P,
) -> Result<Outcome, SimError> {
    let mut run = Run::new(plan, machinery, cast, options, probe);
    let evened = || plan.program.evened();
    if let Some(even) = (skips && !P::ACTIVE).then(evened).flatten() {
        for margin in MARGINS {
            let Some(regions) = run.regions_of_herds() else {
                break;
            };
            let whole = run.machinery.clone();
            let herding = run.run_in_herds(regions, even.as_ref(), margin);
            if herding == Herding::Done {
                return run.into_outcome();
            }
            run = Run::new(plan, whole, run.cast, run.options, run.probe);
            if herding == Herding::Vain {
                break;
            }
        }
    }
    // How many events there are in how much time, where that is known.
    let mut pace = None;
    if skips && !P::ACTIVE && !run.waits_inside && plan.program.repeats() {
        let whole = run.machinery.clone();
        let steps = run.actors[..run.workers as usize].iter().map(|a| a.steps);
        run.skipper = Some(Box::new(Skipper::new(steps)));
        run.begin_those(|_| true);
        run.events_until_quiet();
        if !run.compares_in_vain() {
            return run.into_outcome();
        }
        pace = Some((run.events, run.now));
        run = Run::new(plan, whole, run.cast, run.options, run.probe);
    }
    // Who looks sees one instant after the other.
    let in_order = P::ACTIVE || run.waits_inside;
    run.by_group = !in_order;
    if in_order || !run.run_in_shards(pace) {
        run.begin_those(|_| true);
        if !in_order {
            if let Some(regions) = run.regions(MOST_ACTORS) {
                run.divide(regions);
            }
            run.runs_ahead = true;
            run.turns_until_quiet();
        }
        run.events_until_quiet();
    }
    run.into_outcome()
}
