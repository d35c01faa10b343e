//! What each fault costs a job: a difference of the time of all simulated steps.

use super::disturb::Trouble;
use super::lowering::{Ready, Shared};
use super::valid::ValidTraining;
use crate::ScenarioError;
use crate::prices::{self, fault_costs, joins_switches};
use fabricsim_budget::Budget;
use fabricsim_engine::job::{JobOptions, Rehearsed, Unseen, run_job};
use fabricsim_fault::Faults;
use fabricsim_report::cause::NoCost;
use fabricsim_report::training::FaultPrices;
use fabricsim_topology::{LinkFamily, LinkId, Topology};
use fabricsim_units::Time;
use rustc_hash::FxHashSet;

/// A run of all steps.
struct Against {
    time: Time,
    /// Links of the network that carry anything, of ranks that stand for all that are alike.
    used: FxHashSet<LinkId>,
}

impl prices::Against for Against {
    fn time(&self) -> Time {
        self.time
    }
}

/// What each fault of a variant costs, whose steps take `time` with all of them; nothing without
/// faults.
pub(super) fn prices(
    variant: &ValidTraining,
    time: Time,
    how: (u64, &Budget),
    shared: &mut Shared,
) -> Result<Option<FaultPrices>, ScenarioError> {
    let faults = &variant.faults;
    if faults.is_empty() {
        return Ok(None);
    }
    let Some(healthy) = run(variant, &faults.healthy(), how, shared)? else {
        return Ok(None);
    };
    let costs = fault_costs(
        (faults, &variant.topology),
        time,
        &healthy,
        |faults| run(variant, faults, how, shared),
        |fault, against| why_free(variant, fault, time, against),
    )?;
    Ok(Some(FaultPrices {
        run_s: time.seconds(),
        healthy_s: healthy.time.seconds(),
        costs,
    }))
}

/// The job under other faults than its own; `None` if it does not end.
fn run(
    variant: &ValidTraining,
    faults: &Faults,
    how: (u64, &Budget),
    shared: &mut Shared,
) -> Result<Option<Against>, ScenarioError> {
    let topology = &variant.topology;
    let Ready { lowered, rehearsed } = shared.ready(variant, faults, how)?;
    let (_, budget) = how;
    let rate = |link| topology.rate(link);
    let Ok(rehearsed) = rehearsed else {
        return Ok(None);
    };
    let trouble = Trouble::new(faults, &lowered.job);
    let options = JobOptions {
        timeout: variant.training.spec.timeout,
        stop: Some(&budget.stop),
        work: Some(&budget.work),
        ..JobOptions::default()
    };
    let job = &lowered.job;
    let outcome = run_job(job, &rehearsed, rate, &trouble, options, &mut Unseen);
    Ok(outcome.ok().map(|outcome| Against {
        time: outcome.steps.last().copied().unwrap_or(Time::ZERO),
        used: used(&rehearsed, topology),
    }))
}

fn used(rehearsed: &[Rehearsed], topology: &Topology) -> FxHashSet<LinkId> {
    let loads = rehearsed.iter().flat_map(|alone| &alone.loads);
    let carries = loads.filter(|load| load.bytes > 0.0);
    carries
        .map(|load| load.link)
        .filter(|&link| topology.family(link) == LinkFamily::Network)
        .collect()
}

/// Why a fault costs nothing.
fn why_free(variant: &ValidTraining, fault: usize, time: Time, against: &Against) -> NoCost {
    let faults = &variant.faults;
    if faults.begins_after(fault, time) {
        return NoCost::TooLate;
    }
    if faults.is_fall(fault) {
        return NoCost::SameWay;
    }
    if faults.ranks_of(fault).next().is_some() {
        return NoCost::OthersTakeLonger;
    }
    let topology = &variant.topology;
    let links: Vec<LinkId> = faults.links_of(fault).collect();
    let above = |link: &LinkId| joins_switches(topology, *link);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::valid::{ValidExperiment, ValidJob};
    use std::path::Path;

    fn training(experiment: &ValidExperiment) -> &ValidTraining {
        match &experiment.variants[0].job {
            ValidJob::Training(job) => job,
            _ => panic!("a training job"),
        }
    }

    /// Whether rehearsals are shared with the runs before changes nothing; one fault is a link that is gone
    /// for good, which NCCL plans around.
    #[test]
    fn prices_are_the_same_with_rehearsals_of_their_own() {
        let text = r#"{"name": "p", "topology": {"name": "dgx-h100"}, "nodes": 2,
            "faults": [{"slow_gpu": {"ranks": 5, "speed": 0.8}},
                {"link": {"links": "node[1]/nic[2]", "factor": 0.5}},
                {"link": {"links": "node[0]/nic[3]", "factor": 0}}],
            "job": {"training": {"model": {"preset": "gpt2-124m"}, "micro_batch": 4,
                "global_batch": 64, "steps": 1}}}"#;
        let scenario = crate::parse(text, "test.json", &[]).unwrap();
        let experiment = crate::validate(scenario, Path::new("")).unwrap();
        let job = training(&experiment);
        let how = (experiment.seed, &Budget::default());
        let mut shared = Shared::default();
        shared.ready(job, &job.faults, how).unwrap();
        let time = Time::from_picos(1_000_000_000_000);
        let with = prices(job, time, how, &mut shared).unwrap();
        let with = with.unwrap();
        let healthy = run(job, &job.faults.healthy(), how, &mut Shared::default());
        let healthy = healthy.unwrap().unwrap().time;
        assert_eq!(with.healthy_s, healthy.seconds());
        assert_eq!(with.costs.len(), 3);
        for cost in with.costs {
            let without = job.faults.without(cost.fault);
            let alone = run(job, &without, how, &mut Shared::default());
            let alone = alone.unwrap().unwrap().time;
            let own = (time.picos() as i64 - alone.picos() as i64) as f64 / 1e6;
            assert_eq!(cost.cost_us, Some(own), "{}", cost.description);
        }
    }
}
