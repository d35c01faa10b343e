//! What each fault costs a job: the time of all simulated steps with all faults less that with all
//! but this one.

use super::disturb::Trouble;
use super::lowering::lowered_under;
use super::valid::ValidVariant;
use crate::budget::Budget;
use crate::engine::job::{JobOptions, Unseen, rehearse, run_job};
use crate::fault::Faults;
use crate::plan::job::Job;
use crate::report::cause::{FaultCost, NoCost};
use crate::report::training::FaultPrices;
use crate::scenario::ScenarioError;
use crate::topology::{DeviceKind, LinkFamily, LinkId, Topology};
use crate::units::Time;
use rustc_hash::FxHashSet;

/// More faults than these are not told apart: each takes a simulation.
const MOST_PRICED: usize = 16;

/// A run of all steps.
struct Against {
    time: Time,
    /// Links of the network that carry anything, of ranks that stand for all that are alike.
    used: FxHashSet<LinkId>,
}

/// What each fault of a variant costs, whose steps take `time` with all of them; nothing without
/// faults.
pub(super) fn prices(
    variant: &ValidVariant,
    time: Time,
    how: (u64, &Budget),
) -> Result<Option<FaultPrices>, ScenarioError> {
    let faults = &variant.faults;
    if faults.is_empty() {
        return Ok(None);
    }
    let Some(healthy) = run(variant, &faults.healthy(), how)? else {
        return Ok(None);
    };
    let mut costs = Vec::new();
    for fault in faults.places().take(MOST_PRICED) {
        let without = faults.without(fault);
        let other = if without.is_empty() {
            None
        } else {
            Some(run(variant, &without, how)?)
        };
        let against = match &other {
            None => Some(&healthy),
            Some(other) => other.as_ref(),
        };
        let cost = against.map(|a| time.picos() as i64 - a.time.picos() as i64);
        let reason = against.filter(|_| cost == Some(0));
        costs.push(FaultCost {
            fault,
            description: faults.describe(fault, &variant.topology),
            cost_us: cost.map(|picos| picos as f64 / 1e6),
            reason: reason.map(|against| why_free(variant, fault, time, against)),
        });
    }
    Ok(Some(FaultPrices {
        run_s: time.seconds(),
        healthy_s: healthy.time.seconds(),
        costs,
    }))
}

/// The job under other faults than its own; `None` if it does not end.
fn run(
    variant: &ValidVariant,
    faults: &Faults,
    (seed, budget): (u64, &Budget),
) -> Result<Option<Against>, ScenarioError> {
    let topology = &variant.topology;
    let lowered = lowered_under(variant, faults, (seed, budget))?;
    let rate = |link| topology.rate(link);
    let Ok(rehearsed) = rehearse(&lowered.job, rate, budget) else {
        return Ok(None);
    };
    let trouble = Trouble::new(faults, &lowered.job);
    let options = JobOptions {
        timeout: variant.training.spec.timeout,
    };
    let job = &lowered.job;
    let outcome = run_job(job, &rehearsed, rate, &trouble, options, &mut Unseen);
    Ok(outcome.ok().map(|outcome| Against {
        time: outcome.steps.last().copied().unwrap_or(Time::ZERO),
        used: used(job, topology),
    }))
}

fn used(job: &Job, topology: &Topology) -> FxHashSet<LinkId> {
    let mut used = FxHashSet::default();
    for exchange in &job.exchanges {
        let Some(plan) = &exchange.plan else { continue };
        let hops = plan.routes.iter().flat_map(|route| route.hops);
        let network = hops
            .map(|hop| hop.link)
            .filter(|&link| topology.family(link) == LinkFamily::Network);
        used.extend(network.map(|link| match &exchange.moved {
            Some(moved) => moved.get(&link).copied().unwrap_or(link),
            None => link,
        }));
    }
    used
}

/// Why a fault costs nothing.
fn why_free(variant: &ValidVariant, fault: usize, time: Time, against: &Against) -> NoCost {
    let faults = &variant.faults;
    if faults.begins_after(fault, time) {
        return NoCost::TooLate;
    }
    if faults.ranks_of(fault).next().is_some() {
        return NoCost::OthersTakeLonger;
    }
    let topology = &variant.topology;
    let links: Vec<LinkId> = faults.links_of(fault).collect();
    let above = |link: &LinkId| {
        let (from, to) = topology.ends(*link);
        [from, to].map(|d| topology.device(d).kind) == [DeviceKind::Switch; 2]
    };
    // Ranks that others stand for use links of the same kind, at other places.
    if !links.is_empty() && links.iter().all(above) && !against.used.iter().any(above) {
        return NoCost::BelowTheSpines;
    }
    if against.used.is_empty()
        && links
            .iter()
            .all(|&l| topology.family(l) == LinkFamily::Network)
    {
        return NoCost::NoTraffic;
    }
    match faults.is_always(fault) {
        true => NoCost::OthersTakeLonger,
        false => NoCost::OutagesMissed,
    }
}
