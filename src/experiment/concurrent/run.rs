//! From checked jobs at once to their results: each by itself first, then all of them together.

use super::lowering::{Engines, laid};
use super::memory::{memories, taken};
use super::results::{Ended, job_result, ranks, shared_gpus, shared_links, time_of};
use super::series::{with_rank, without};
use super::valid::{PartWork, ValidConcurrent, ValidPart};
use crate::allocation::nodes_of;
use crate::error::ScenarioError;
use crate::footprint::machine_footprint;
use crate::job::{Ctx, JobKind, JobRun};
use crate::serving::{ValidServing, medians};
use crate::tariff::Tariff;
use crate::training::{Spans, Trouble};
use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::job::{
    Done, JobError, JobOptions, JobOutcome, JobProbe, Moved, Rehearsed, run_source,
};
use fabricsim_plan::job::{Job, JobPart, Task, TaskSource, Together};
use fabricsim_record::telemetry::{Activity, Wanted};
use fabricsim_report::concurrent::{ConcurrentJob, ConcurrentResult};
use fabricsim_report::telemetry::Telemetry;
use fabricsim_report::training::JobTimeline;
use fabricsim_report::{
    Change, JobResult, Metrics, Output, Outputs, Part as Cause, Recording, Summary, Variant,
    Waterfall,
};
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_units::Time;
use fabricsim_workload::serving::fleet::Fleet;
use std::collections::BTreeSet;
use std::time::Instant;

impl JobKind for ValidConcurrent {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn gpus(&self) -> Vec<DeviceId> {
        let gpus = self.jobs.iter().flat_map(|job| job.gpus.iter().copied());
        gpus.collect::<BTreeSet<_>>().into_iter().collect()
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
        let began = Instant::now();
        let machine = machine_footprint(&valid.topology);
        let _machine = budget.memory.estimating().hold(Purpose::Machine, machine)?;
        let (mut result, events, timeline, telemetry) = match all(valid, (seed, budget), outputs)? {
            Ok(ran) => (ran.result, ran.events, Some(ran.timeline), ran.telemetry),
            Err(failed) => {
                let failed = ConcurrentResult {
                    failed: Some(failed),
                    ..ConcurrentResult::default()
                };
                (failed, 0, None, None)
            }
        };
        result.wall_ms = began.elapsed().as_secs_f64() * 1e3;
        let gpus = valid.jobs.iter().flat_map(|job| &job.gpus);
        let nodes = nodes_of(&valid.topology, gpus.copied());
        let ranks: BTreeSet<u32> = valid
            .jobs
            .iter()
            .flat_map(|job| &job.ranks)
            .copied()
            .collect();
        let (fits, warnings) = memories(valid, &result)?;
        let variant = Variant {
            name: name.to_owned(),
            topology: valid.topology.name.clone(),
            topology_title: valid.topology.title.clone(),
            nodes,
            gpus: ranks.len() as u32,
            differs: Vec::new(),
            no_effect: None,
            search: None,
            metrics: Metrics {
                fits,
                ..Metrics::of_concurrent(&result, events)
            },
            job: JobResult::Concurrent(Box::new(result)),
        };
        Ok(JobRun {
            variant,
            recorded: timeline.map(Recording::Training),
            telemetry,
            warnings,
            counted: None,
        })
    }

    /// And of each of its jobs.
    fn charge(&self, tariff: &Tariff, ran: &mut Variant) {
        tariff.add_to(ran, (&self.topology, &self.gpus()));
        if let JobResult::Concurrent(result) = &mut ran.job {
            tariff.add_to_parts(result, (&self.topology, &self.jobs));
        }
    }
}

/// Fills in what a summary says of jobs at once: who suffers most, variant by variant.
pub(crate) fn compare(summary: &mut Summary) {
    let several = summary.variants.len() > 1;
    let sentences = summary.variants.iter().filter_map(|variant| {
        let sentence = variant.job.concurrent()?.sentence();
        match (several, sentence.is_empty()) {
            (_, true) => None,
            (false, false) => Some(sentence),
            (true, false) => Some(format!("{}: {sentence}", variant.name)),
        }
    });
    summary.answer = sentences.collect::<Vec<_>>().join(" ");
}

/// Jobs that all came to their end.
struct Ran {
    result: ConcurrentResult,
    events: u64,
    timeline: JobTimeline,
    telemetry: Option<Telemetry>,
}

/// A job on the machine, and what its communications take alone.
type Part = (Job, Vec<Rehearsed>);

/// Each job by itself, then all together; or why one does not come to its end.
fn all(
    valid: &ValidConcurrent,
    (seed, budget): (u64, &Budget),
    outputs: &Outputs,
) -> Result<Result<Ran, String>, ScenarioError> {
    let mut laid_parts: Vec<Part> = Vec::new();
    let mut alone: Vec<Ended> = Vec::new();
    let mut held = Vec::new();
    let mut engines: Vec<Option<Engines<'_>>> = Vec::new();
    for (part, left_to_others) in valid.jobs.iter().zip(&valid.left_to_others) {
        let failed = |error: &JobError| format!("{} by itself: {error}", part.name);
        let laid = match laid(valid, part, left_to_others, (seed, budget))? {
            Ok(laid) => laid,
            Err(JobError::Memory(over)) => return Err(over.into()),
            Err(error) => return Ok(Err(failed(&error))),
        };
        held.extend(laid.held);
        let mut own = [laid.engines];
        match by_itself(
            (valid, budget),
            part,
            (&laid.job, &laid.rehearsed),
            &mut own,
        )? {
            Ok(ended) => alone.push(ended),
            Err(error) => return Ok(Err(failed(&error))),
        }
        engines.extend(own);
        laid_parts.push((laid.job, laid.rehearsed));
    }
    let indices: Vec<usize> = (0..laid_parts.len()).collect();
    let (together, rehearsed, parts) = joined(&laid_parts, &indices);
    let plain = |rank: u32| valid.faults.is_plain(rank as usize);
    let spans = Spans::new(&together, 0, plain, budget.exact_full);
    let watched = outputs.has(Output::Telemetry);
    let activity = watched.then(|| Activity::new(&together));
    let mut ends = Ends::new(&together, &parts, (Some(spans), activity));
    let every: Vec<&ValidPart> = valid.jobs.iter().collect();
    let both = (&together, &rehearsed[..]);
    let outcome = match run(
        (valid, budget),
        (&every, &parts),
        both,
        &mut engines,
        &mut ends,
    )? {
        Ok(outcome) => outcome,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Ends {
        ended,
        spans,
        activity,
        ..
    } = ends;
    let telemetry = activity.map(|activity| {
        let taken = taken(valid)?;
        let wanted = Wanted {
            topology: &valid.topology,
            gpus: &valid.gpus,
            sample: outputs.sample(),
            memory: &taken,
        };
        let on = |rank| with_rank(valid, rank);
        let without = without(valid);
        let series = activity.telemetry(wanted, &rehearsed, outcome.end, on, without)?;
        Ok::<_, ScenarioError>(series)
    });
    let telemetry = telemetry.transpose()?;
    let shared = shared_links(valid, (&together, &rehearsed), (&parts, &ended), &outcome);
    let jobs = valid.jobs.iter().zip(&ended).zip(&alone).zip(shared);
    let jobs = jobs.map(|(((part, ended), alone), shared)| job_result(part, ended, alone, shared));
    let mut jobs: Vec<ConcurrentJob> = jobs.collect();
    for (job, shared) in jobs.iter_mut().zip(shared_gpus(valid, &ended)) {
        job.shared_gpus = shared;
    }
    if valid.isolation.is_some() {
        let times = (&ended[..], &alone[..]);
        let all = (&laid_parts[..], &mut engines);
        if let Err(why) = costs(valid, all, times, &mut jobs, (seed, budget))? {
            return Ok(Err(why));
        }
    }
    let result = ConcurrentResult {
        jobs,
        end_us: outcome.end.micros(),
        ..ConcurrentResult::default()
    };
    let ranks = ranks(valid, &together, &parts);
    let timeline = spans.map(|spans| spans.timeline(&ranks, valid.gpus.len()));
    Ok(Ok(Ran {
        result,
        events: outcome.events + rehearsed.iter().map(|r| r.events).sum::<u64>(),
        timeline: JobTimeline {
            end: outcome.end,
            ..timeline.unwrap_or_default()
        },
        telemetry,
    }))
}

/// Some of the jobs as one.
fn joined(all: &[Part], some: &[usize]) -> (Job, Vec<Rehearsed>, Vec<JobPart>) {
    let mut together = Job::default();
    let mut rehearsed = Vec::new();
    let mut parts = Vec::new();
    for (job, own) in some.iter().map(|&index| &all[index]) {
        parts.push(together.add_beside(job.clone()));
        rehearsed.extend(own.iter().cloned());
    }
    (together, rehearsed, parts)
}

/// Runs one of the jobs alone.
fn by_itself(
    (valid, budget): (&ValidConcurrent, &Budget),
    part: &ValidPart,
    (job, own): (&Job, &[Rehearsed]),
    engines: &mut [Option<Engines<'_>>],
) -> Result<Result<Ended, JobError>, ScenarioError> {
    let whole = [JobPart::whole(job)];
    let mut ends = Ends::new(job, &whole, (None, None));
    let one = (&[part][..], &whole[..]);
    let outcome = run((valid, budget), one, (job, own), engines, &mut ends)?;
    Ok(outcome.map(|_| ends.ended.pop().unwrap_or_default()))
}

/// So many jobs are run without each of them in turn; of more it is not said who costs whom what.
const MAX_TURNS: usize = 16;

/// Adds to each job what each other one costs it: its time with all less that without the other one.
fn costs<'v>(
    valid: &'v ValidConcurrent,
    (all, engines): (&[Part], &mut Vec<Option<Engines<'v>>>),
    (ended, alone): (&[Ended], &[Ended]),
    jobs: &mut [ConcurrentJob],
    (seed, budget): (u64, &'v Budget),
) -> Result<Result<(), String>, ScenarioError> {
    let count = valid.jobs.len();
    // By job: who costs it how much.
    let mut by: Vec<Vec<(String, i64)>> = vec![Vec::new(); count];
    let with_all: Vec<Change> = valid
        .jobs
        .iter()
        .zip(ended)
        .map(|(p, e)| time_of(p, e))
        .collect();
    let by_itself_all: Vec<Change> = valid
        .jobs
        .iter()
        .zip(alone)
        .map(|(p, e)| time_of(p, e))
        .collect();
    if count == 2 {
        for (job, by) in by.iter_mut().enumerate() {
            let cost = with_all[job].0 - by_itself_all[job].0;
            by.push((valid.jobs[1 - job].name.clone(), cost));
        }
    } else if count <= MAX_TURNS {
        for away in 0..count {
            let rest: Vec<usize> = (0..count).filter(|&job| job != away).collect();
            let (job, rehearsed, parts) = joined(all, &rest);
            let mut ends = Ends::new(&job, &parts, (None, None));
            let own: Vec<&ValidPart> = rest.iter().map(|&job| &valid.jobs[job]).collect();
            let its_engines = engines.remove(away);
            let ran = run(
                (valid, budget),
                (&own, &parts),
                (&job, &rehearsed),
                engines,
                &mut ends,
            )?;
            engines.insert(away, its_engines);
            if let Err(error) = ran {
                return Ok(Err(format!("without {}: {error}", valid.jobs[away].name)));
            }
            for (&job, ended) in rest.iter().zip(&ends.ended) {
                let cost = with_all[job].0 - time_of(&valid.jobs[job], ended).0;
                by[job].push((valid.jobs[away].name.clone(), cost));
            }
        }
    }
    for (index, job) in jobs.iter_mut().enumerate() {
        let part = &valid.jobs[index];
        let mut begin = by_itself_all[index];
        let mut changes = std::mem::take(&mut by[index]);
        if !valid.left_to_others[index].is_empty() {
            let whole = match laid(valid, part, &[], (seed, budget))? {
                Ok(laid) => {
                    let job = (&laid.job, &laid.rehearsed[..]);
                    by_itself((valid, budget), part, job, &mut [laid.engines])?
                }
                Err(error) => Err(error),
            };
            match whole {
                Ok(whole) => begin = time_of(part, &whole),
                Err(error) => return Ok(Err(format!("{} by itself: {error}", part.name))),
            }
            job.whole_us = Some(begin.0 as f64 / 1e6);
            let less = by_itself_all[index].0 - begin.0;
            changes.push(("a part of the network only".to_owned(), less));
        }
        job.waterfall = Some(explained(&part.name, (begin, with_all[index]), changes));
    }
    Ok(Ok(()))
}

/// From a job by itself to the job beside all others.
fn explained(name: &str, (begin, end): (Change, Change), changes: Vec<(String, i64)>) -> Waterfall {
    let total = end.0 - begin.0;
    let known: i64 = changes.iter().map(|(_, change)| change).sum();
    let rest = ("several at once".to_owned(), total - known);
    let all = changes.into_iter().chain([rest]);
    let mut parts: Vec<Cause> = all
        .filter(|(_, change)| *change != 0)
        .map(|(cause, change)| Cause {
            cause,
            time: Change(change),
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.time.0.unsigned_abs()));
    Waterfall {
        from: format!("{name} by itself"),
        to: format!("{name} beside all"),
        begin,
        total: Change(total),
        parts,
        order: None,
    }
}

/// Runs some of the jobs as one; each has a timeout of its own, those that serve have a source of tasks.
///
/// # Errors
/// What NCCL refuses of an engine's communications; the inner error is one of the jobs.
fn run(
    (valid, budget): (&ValidConcurrent, &Budget),
    (jobs, parts): (&[&ValidPart], &[JobPart]),
    (job, rehearsed): (&Job, &[Rehearsed]),
    engines: &mut [Option<Engines<'_>>],
    ends: &mut Ends<'_>,
) -> Result<Result<JobOutcome, JobError>, ScenarioError> {
    let trouble = Trouble::new(&valid.faults, job);
    let mut timeouts = vec![None; job.groups.len()];
    for (part, own) in jobs.iter().zip(parts) {
        if let PartWork::Training(training) = &part.work {
            timeouts[own.groups.clone()].fill(training.spec.timeout);
        }
    }
    let options = JobOptions {
        of_groups: &timeouts,
        apart: valid.isolation.is_some(),
        stop: Some(&budget.stop),
        work: Some(&budget.work),
        ..JobOptions::default()
    };
    let rate = |link| valid.topology.rate(link);
    let mut fleets: Vec<(usize, &ValidServing, Fleet<'_>)> = Vec::new();
    for (index, laid) in engines.iter_mut().enumerate() {
        if let Some((served, laid)) = laid {
            fleets.push((index, served, laid.fleet(false)));
        }
    }
    let sources = fleets.iter_mut().map(|(index, _, fleet)| {
        let source: &mut dyn TaskSource = fleet;
        (parts[*index].clone(), source)
    });
    let mut source = Together::new(job, sources.collect());
    let outcome = run_source(job, &mut source, rehearsed, rate, &trouble, options, ends);
    drop(source);
    for (index, of, fleet) in fleets {
        let served = fleet.into_served();
        served.gaps.refused().map_or(Ok(()), Err)?;
        ends.ended[index].served = Some(medians(of, &served));
    }
    for (_, laid) in engines.iter().flatten() {
        laid.check()?;
    }
    Ok(outcome)
}

/// When each size or step of each job ended.
struct Ends<'j> {
    /// By actor: its job.
    job_of: Vec<usize>,
    ended: Vec<Ended>,
    spans: Option<Spans<'j>>,
    activity: Option<Activity<'j>>,
}

impl<'j> Ends<'j> {
    fn new(
        job: &Job,
        parts: &[JobPart],
        (spans, activity): (Option<Spans<'j>>, Option<Activity<'j>>),
    ) -> Self {
        let mut job_of = vec![0; job.actors.len()];
        for (index, part) in parts.iter().enumerate() {
            job_of[part.actors.clone()].fill(index);
        }
        Ends {
            job_of,
            ended: vec![Ended::default(); parts.len()],
            spans,
            activity,
        }
    }
}

impl JobProbe for Ends<'_> {
    fn task(&mut self, done: Done, task: &Task) {
        let ended = &mut self.ended[self.job_of[done.actor.0 as usize]];
        let row = usize::from(task.tag.step);
        if ended.rows.len() <= row {
            ended.rows.resize(row + 1, Time::ZERO);
        }
        ended.rows[row] = ended.rows[row].max(done.ended);
        if let Some(spans) = &mut self.spans {
            spans.task(done, task);
        }
        if let Some(activity) = &mut self.activity {
            activity.task(done, task);
        }
    }

    fn sees_bytes(&self) -> bool {
        self.activity.is_some()
    }

    fn moved(&mut self, moved: Moved) {
        if let Some(activity) = &mut self.activity {
            activity.moved(moved);
        }
    }
}
