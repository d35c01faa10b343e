//! From a checked serving job to its results.

use super::capacity::{at_rate, capacity};
use super::footprint::serving_footprint;
use super::horizon::{Horizon, rate};
use super::laid::{LaidServing, Load, Ran};
use super::results::result;
use super::series;
use super::steady::{Ladder, Saturated, saturate};
use super::timeline::timeline;
use super::valid::ValidServing;
use crate::allocation::nodes_of;
use crate::error::ScenarioError;
use crate::footprint::machine_footprint;
use crate::job::{Ctx, JobKind, JobRun};
use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::job::{JobError, JobOutcome};
use fabricsim_record::telemetry::{Activity, Wanted};
use fabricsim_report::serving::{ServingResult, Verdict};
use fabricsim_report::telemetry::Telemetry;
use fabricsim_report::{JobResult, Metrics, Output, Outputs, Recording, Summary, Variant};
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_workload::serving::fleet::Watch;
use fabricsim_workload::serving::load::MadeUp;
use fabricsim_workload::serving::spec::PoolRole;
use std::collections::BTreeSet;
use std::time::Instant;

impl JobKind for ValidServing {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn gpus(&self) -> Vec<DeviceId> {
        let engines = self.pools.iter().flat_map(|pool| &pool.engines);
        let ranks = engines.flatten();
        ranks.map(|&rank| self.gpus[rank as usize]).collect()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn run(
        &self,
        name: &str,
        ctx: Ctx<'_>,
        _: &Summary,
        _: &mut dyn crate::watch::Watch,
    ) -> Result<JobRun, ScenarioError> {
        let Ctx {
            seed,
            budget,
            outputs,
        } = ctx;
        let valid = self;
        let keeps_passes = outputs.need_record();
        let began = Instant::now();
        let machine = machine_footprint(&valid.topology);
        let _machine = budget.memory.estimating().hold(Purpose::Machine, machine)?;
        budget
            .memory
            .expect_all(&serving_footprint(valid, keeps_passes))?;
        let (mut recorded, mut warnings) = (None, Vec::new());
        let (mut telemetry, mut events) = (None, 0);
        let most = most(valid, (seed, budget))?;
        let found = match (valid.spec.capacity, most) {
            (Some(asked), Some(most)) => capacity((valid, most), asked, |tried| {
                let ran = served(tried, (seed, budget), &Outputs::of([]), Some(most))?;
                Ok(ran.ok().map(|((result, _), ..)| result))
            })?,
            _ => None,
        };
        let is_at = valid.spec.capacity.is_some_and(|asked| asked.serve);
        let moved = found.as_ref().filter(|_| is_at);
        let moved = moved.map(|found| at_rate(valid, found.requests_per_s));
        let valid = moved.as_ref().unwrap_or(valid);
        let mut result = match most.and_then(|most| hopeless(valid, most)) {
            Some(hopeless) => hopeless,
            None => match served(valid, (seed, budget), outputs, most)? {
                Ok(((result, count), ran, series)) => {
                    telemetry = series;
                    if keeps_passes {
                        let (timeline, left_out) = timeline(valid, &ran.served);
                        recorded = Some(Recording::Training(timeline));
                        warnings.extend(left_out);
                    }
                    events = count;
                    result
                }
                Err(error) => ServingResult {
                    failed: Some(error.to_string()),
                    ..ServingResult::default()
                },
            },
        };
        result.capacity = found;
        result.wall_ms = began.elapsed().as_secs_f64() * 1e3;
        let ranks = valid
            .pools
            .iter()
            .flat_map(|pool| pool.engines.iter().flatten());
        let ranks: BTreeSet<u32> = ranks.copied().collect();
        let used = ranks.iter().map(|&rank| valid.gpus[rank as usize]);
        let nodes = nodes_of(&valid.topology, used);
        let gpus = ranks.len() as u32;
        let variant = Variant {
            name: name.to_owned(),
            topology: valid.topology.name.clone(),
            topology_title: valid.topology.title.clone(),
            nodes,
            gpus,
            differs: Vec::new(),
            no_effect: None,
            search: None,
            metrics: Metrics::of_serving(&result, gpus, events),
            job: JobResult::Serving(Box::new(result)),
        };
        Ok(JobRun {
            variant,
            recorded,
            telemetry,
            warnings,
            counted: None,
        })
    }
}

/// What engines do at most, of a load that has a rate or of requests of which there are only so many.
///
/// # Errors
/// What NCCL refuses.
fn most(valid: &ValidServing, how: (u64, &Budget)) -> Result<Option<Saturated>, ScenarioError> {
    if valid.horizon == Horizon::Whole || rate(&valid.spec.load).is_none() {
        return Ok(None);
    }
    // Engines that are alike and have nothing in common do so many times what one does.
    let (one, times) = one_of_all(valid);
    let valid = one.as_ref().unwrap_or(valid);
    let mut laid = LaidServing::new(valid, (valid.env.clone(), &[]), how)?;
    let job = std::mem::take(&mut laid.job);
    saturate((valid, times), &mut laid, &job)
}

/// What is known without serving it of a load that is clearly above what full engines do, where only whether they keep up
/// is asked.
fn hopeless(valid: &ValidServing, most: Saturated) -> Option<ServingResult> {
    let offered = rate(&valid.spec.load).filter(|_| valid.decides.is_some())?;
    most.is_exceeded(offered).then(|| ServingResult {
        model: valid.model_name.clone(),
        verdict: Some(Verdict::Backlogged),
        offered_per_s: Some(offered),
        holds_per_s: Some(most.lo),
        saturation: Some(most.into()),
        ..ServingResult::default()
    })
}

/// The job with one of its engines, and how many there are, where all are alike and none waits for another.
fn one_of_all(valid: &ValidServing) -> (Option<ValidServing>, f64) {
    match &valid.pools[..] {
        [pool] if pool.engines.len() > 1 && pool.role == PoolRole::Both => {
            let is_apart = valid.spec.engine.tiers.is_none() && valid.faults.is_empty();
            if !is_apart {
                return (None, 1.0);
            }
            let times = pool.engines.len() as f64;
            let mut one = valid.clone();
            one.pools[0].engines.truncate(1);
            (Some(one), times)
        }
        _ => (None, 1.0),
    }
}

/// A result with its events, what it was made from, and what monitoring would have shown.
type Ended = ((ServingResult, u64), Ran, Option<Telemetry>);

/// Serves requests, all of them or until their figures are known, or until it is told whether enough keep limits; the inner
/// error is one of the job.
fn served(
    valid: &ValidServing,
    how: (u64, &Budget),
    outputs: &Outputs,
    saturated: Option<Saturated>,
) -> Result<Result<Ended, JobError>, ScenarioError> {
    let mut laid = LaidServing::new(valid, (valid.env.clone(), &[]), how)?;
    let job = std::mem::take(&mut laid.job);
    let mut load = Load::all(valid, outputs.need_record());
    let mut ladder = match (valid.horizon, &valid.spec.lengths) {
        (Horizon::Known(spec), Some(lengths)) => {
            load.requests.clear();
            load.more = Some(MadeUp::new(&valid.spec.load, lengths, valid.seed));
            Some(Ladder::new(valid, spec, saturated))
        }
        _ => None,
    };
    load.watch = ladder.as_mut().map(|ladder| ladder as &mut dyn Watch);
    let watched = outputs.has(Output::Telemetry);
    let mut activity = watched.then(|| Activity::new(&job));
    let (served, outcome) = laid.serve(&job, load, activity.as_mut());
    let telemetry = match (&outcome, activity) {
        (Ok(outcome), Some(activity)) => Some(series_of(valid, activity, outcome, outputs)?),
        _ => None,
    };
    laid.job = job;
    match outcome {
        Ok(outcome) => {
            let ran = laid.ran(served, outcome)?;
            Ok(Ok((result(valid, &ran, saturated), ran, telemetry)))
        }
        Err(error) => match laid.failure.borrow_mut().take() {
            Some(refused) => Err(refused),
            None => Ok(Err(error)),
        },
    }
}

/// What monitoring would have shown.
fn series_of(
    valid: &ValidServing,
    activity: Activity<'_>,
    outcome: &JobOutcome,
    outputs: &Outputs,
) -> Result<Telemetry, ScenarioError> {
    let wanted = Wanted {
        topology: &valid.topology,
        gpus: &valid.gpus,
        sample: outputs.sample(),
        memory: &series::taken(valid),
    };
    let on = |rank| series::with_rank(valid, rank);
    let without = vec![series::WITHOUT];
    Ok(activity.telemetry(wanted, &[], outcome.end, on, without)?)
}
