//! From a checked training scenario to its results.

use super::answer::{Compared, answer};
use super::causes::causes;
use super::disturb::Trouble;
use super::effect::{Counted, count, why_none};
use super::lowering::{Ready, Shared, lowered_under};
use super::notes::{averaged, ddp_in_words, noted};
use super::prices::prices;
use super::results::{failed, results};
use super::spans::Spans;
use super::valid::ValidTraining;
use crate::ScenarioError;
use crate::allocation::nodes_of;
use crate::factors::one_at_a_time;
use crate::job::{Ctx, JobKind, JobRun};
use crate::uplinks::uplinks as uplinks_of;
use crate::valid::{ValidExperiment, ValidJob};
use fabricsim_budget::{Budget, OverBudget};
use fabricsim_engine::SimError;
use fabricsim_engine::job::{JobError, JobOptions, run_job};
use fabricsim_record::telemetry::{Activity, Both, Wanted};
use fabricsim_report::cause::prices as prices_in_words;
use fabricsim_report::telemetry::Telemetry;
use fabricsim_report::training::{
    FaultPrices, JobTimeline, StepKind, TrainingOutcome, TrainingResult, best, difference,
    is_equal, ran,
};
use fabricsim_report::{JobResult, Metrics, Output, Outputs, Recording, Summary, Variant};
use fabricsim_topology::{DeviceId, Topology};
use fabricsim_units::Time;
use fabricsim_workload::exchanges::AlikeNumbers;
use fabricsim_workload::model::parameters;
use fabricsim_workload::training::resolve::Training;
use std::time::Instant;

impl JobKind for ValidTraining {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn gpus(&self) -> Vec<DeviceId> {
        self.gpus.clone()
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
        let job = self;
        let mut shared = Shared::default();
        let run = run_variant((job, outputs), (seed, budget), &mut shared)?;
        let fault_prices = match &run.outcome {
            TrainingOutcome::Ran(ran) => {
                let seconds: f64 = ran.steps_s.iter().sum();
                let time = Time::from_picos((seconds * 1e12).round() as u64);
                prices(job, time, (seed, budget), &mut shared)?
            }
            TrainingOutcome::Failed(_) => None,
        };
        let uplinks = run.counted.as_ref();
        let uplinks = uplinks.and_then(|counted| uplinks_of(&job.topology, counted.climbs()));
        let mut variant = described((name, job), fault_prices, run.outcome);
        variant.metrics.uplinks = uplinks;
        Ok(JobRun {
            variant,
            recorded: run.timeline.map(Recording::Training),
            telemetry: run.telemetry,
            counted: run.counted,
            warnings: run.warnings,
        })
    }
}

/// Fills in what a summary says of its training jobs together: best, differences, the answer.
pub(crate) fn compare(
    experiment: &ValidExperiment,
    summary: &mut Summary,
    ended: &[Option<Counted>],
) {
    let baseline = experiment.baseline;
    let variants = &mut summary.variants;
    explain_equal(baseline, variants, ended);
    let best = best(variants, baseline);
    let changes = best.map_or_else(Vec::new, |best| {
        let done = |index: usize| ran(&variants[index]).is_some();
        one_at_a_time(&experiment.specs, (baseline, best), done)
    });
    let base = &variants[baseline];
    let others = (0..variants.len()).filter(|&index| index != baseline);
    let mut waterfall: Vec<_> = others
        .filter_map(|index| difference(base, &variants[index]))
        .collect();
    let on_the_way = changes.iter().filter(|change| change.from != baseline);
    waterfall.extend(on_the_way.filter_map(|c| difference(&variants[c.from], &variants[c.to])));
    summary.answer = answer(&Compared {
        variants,
        baseline,
        best,
        waterfall: &waterfall,
        changes: &changes,
    }) + &priced(variants)
        + &idle_uplinks(variants)
        + &noted(experiment);
    summary.best = best.map(|best| variants[best].name.clone());
    summary.waterfall = waterfall;
}

/// The answer of jobs that ran before, with no way from one to another known.
pub(crate) fn answer_of(summary: &Summary, baseline: usize, best: Option<usize>) -> String {
    answer(&Compared {
        variants: &summary.variants,
        baseline,
        best,
        waterfall: &summary.waterfall,
        changes: &[],
    })
}

/// Whether all variants fit into memory, before the first of them takes its time; what the largest
/// would take, if not.
///
/// # Errors
/// More than the memory of the budget holds.
pub(crate) fn expect_all(
    experiment: &ValidExperiment,
    budget: &Budget,
) -> Result<(), ScenarioError> {
    if experiment.variants.len() == 1 {
        return Ok(());
    }
    let mut largest: Option<OverBudget> = None;
    let counting = budget
        .work
        .part("variants estimated", experiment.variants.len() as u64);
    for variant in &experiment.variants {
        let ValidJob::Training(job) = &variant.job else {
            continue;
        };
        counting.add(1);
        let mut numbers = AlikeNumbers::default();
        let how = (experiment.seed, budget);
        let lowered = lowered_under(job, &job.faults, how, &mut numbers);
        // Other errors come in their turn.
        if let Err(ScenarioError::Memory(over)) = lowered {
            let known = largest.get_or_insert(over);
            if over.takes > known.takes {
                *known = over;
            }
        }
    }
    largest.map_or(Ok(()), |over| Err(over.into()))
}

/// Says of variants that take as long as the baseline why.
fn explain_equal(baseline: usize, variants: &mut [Variant], ended: &[Option<Counted>]) {
    let base = variants[baseline].clone();
    for (index, variant) in variants.iter_mut().enumerate() {
        if index != baseline
            && let (Some(from), Some(to)) = (&ended[baseline], &ended[index])
            && !variant.differs.is_empty()
            && is_equal(&base, variant)
        {
            variant.no_effect = Some(why_none(from, to, &variant.differs));
        }
    }
}

/// What came of a run under the job's own faults.
struct VariantRun {
    outcome: TrainingOutcome,
    /// If it ran.
    timeline: Option<JobTimeline>,
    telemetry: Option<Telemetry>,
    counted: Option<Counted>,
    warnings: Vec<String>,
}

impl VariantRun {
    fn failed(outcome: TrainingOutcome) -> Self {
        VariantRun {
            outcome,
            timeline: None,
            telemetry: None,
            counted: None,
            warnings: Vec::new(),
        }
    }
}

fn run_variant(
    (variant, outputs): (&ValidTraining, &Outputs),
    (seed, budget): (u64, &Budget),
    shared: &mut Shared,
) -> Result<VariantRun, ScenarioError> {
    let began = Instant::now();
    let topology = &variant.topology;
    let Ready { lowered, rehearsed } = shared.ready(variant, &variant.faults, (seed, budget))?;
    let rate = |link| topology.rate(link);
    let rehearsed = match rehearsed {
        Ok(rehearsed) => rehearsed,
        Err(
            JobError::Memory(over)
            | JobError::Exchange {
                source: SimError::Memory(over),
                ..
            },
        ) => return Err(over.into()),
        Err(error) => {
            let failed = TrainingOutcome::Failed(error.to_string());
            return Ok(VariantRun::failed(failed));
        }
    };
    let trouble = Trouble::new(&variant.faults, &lowered.job);
    let last = variant.training.spec.steps.saturating_sub(1);
    let plain = |rank: u32| variant.faults.is_plain(rank as usize);
    let record_one = outputs.need_record();
    let mut spans = match record_one {
        true => Spans::new(&lowered.job, last, plain, budget.exact_full),
        false => Spans::of_none(&lowered.job),
    };
    let watched = outputs.has(Output::Telemetry);
    let mut activity = watched.then(|| Activity::new(&lowered.job));
    let options = JobOptions {
        timeout: variant.training.spec.timeout,
        stop: Some(&budget.stop),
        work: Some(&budget.work),
        ..JobOptions::default()
    };
    let outcome = run_job(
        &lowered.job,
        &rehearsed,
        rate,
        &trouble,
        options,
        &mut Both(&mut spans, activity.as_mut()),
    );
    let outcome = match outcome {
        Ok(outcome) => averaged(&variant.training, outcome),
        Err(error) => return Ok(VariantRun::failed(failed(&error, variant, &lowered))),
    };
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    let (mut result, timeline) = results(
        (seed, budget),
        variant,
        &lowered,
        &rehearsed,
        &outcome,
        spans,
    )?;
    result.wall_ms = wall_ms;
    let telemetry = activity.map(|activity| {
        let taken = vec![Some(result.memory.total); variant.gpus.len()];
        let wanted = Wanted {
            topology,
            gpus: &variant.gpus,
            sample: outputs.sample(),
            memory: &taken,
        };
        activity.telemetry(
            wanted,
            &rehearsed,
            outcome.end,
            |rank| vec![rank],
            Vec::new(),
        )
    });
    result.causes = causes(variant, &lowered.job, &rehearsed, &outcome);
    Ok(VariantRun {
        outcome: TrainingOutcome::Ran(Box::new(result)),
        timeline: record_one.then_some(timeline),
        telemetry: telemetry.transpose()?,
        counted: Some(count(variant, &lowered.job, &rehearsed, &outcome)),
        warnings: lowered.fallen_back,
    })
}

/// Of one variant, of which nothing says why another takes as long: why an oversubscription costs nothing.
fn idle_uplinks(variants: &[Variant]) -> String {
    let told = match variants {
        [one] => one.metrics.uplinks.and_then(|uplinks| uplinks.sentence()),
        _ => None,
    };
    told.map_or_else(String::new, |told| format!(" {told}"))
}

/// What faults cost, variant by variant, as sentences after the answer; not of faults of which it says
/// already why they make no difference.
fn priced(variants: &[Variant]) -> String {
    let several = variants.len() > 1;
    let priced = variants.iter().filter_map(|variant| {
        let faults = variant.job.training()?.fault_prices.as_ref()?;
        let free = faults.costs.iter().all(|fault| fault.cost_us == Some(0.0));
        let explained =
            variant.no_effect.is_some() && variant.differs.iter().any(|d| d == "faults");
        if free && explained {
            return None;
        }
        let steps = ran(variant).map_or(1, |ran| ran.steps_s.len());
        let of = match steps {
            1 => "the step".to_owned(),
            steps => format!("{steps} steps"),
        };
        let name = match several {
            true => format!("In {}, {of}", variant.name),
            false => format!("Of {of}"),
        };
        let prices = prices_in_words(&faults.costs, faults.run_s * 1e6);
        Some(format!(" {name}: {prices}."))
    });
    priced.collect()
}

fn described(
    (name, job): (&str, &ValidTraining),
    fault_prices: Option<FaultPrices>,
    outcome: TrainingOutcome,
) -> Variant {
    let training = &job.training;
    let dims = &training.dims;
    let mut layout = vec![format!("tp {}", dims.tp)];
    let optional = [("cp", dims.cp), ("ep", dims.ep), ("pp", dims.pp)];
    layout.extend(
        optional
            .iter()
            .filter(|(_, n)| *n > 1)
            .map(|(name, n)| format!("{name} {n}")),
    );
    layout.push(format!("dp {}", dims.dp));
    let gpus = job.gpus.len() as u32;
    let result = TrainingResult {
        model: training.model_name.clone(),
        parameters: parameters(&training.model).total() as f64,
        layout: layout.join(" · "),
        schedule: schedule(training),
        kind: kind(job),
        fault_prices,
        outcome,
    };
    Variant {
        name: name.to_owned(),
        topology: job.topology.name.clone(),
        topology_title: job.topology.title.clone(),
        nodes: nodes_of(&job.topology, job.gpus.iter().copied()),
        gpus,
        differs: Vec::new(),
        no_effect: None,
        search: None,
        metrics: Metrics::of_training(&result, gpus),
        job: JobResult::Training(Box::new(result)),
    }
}

/// What kind of steps a job has; nothing without a GPU.
fn kind(job: &ValidTraining) -> Option<StepKind> {
    let gpu = job.gpus.first()?;
    Some(StepKind {
        experts: job.training.model.experts.is_some(),
        precision: job.training.spec.precision.name().to_owned(),
        gpu: job.topology.gpu_model(*gpu)?.architecture.clone(),
    })
}

fn schedule(training: &Training) -> String {
    use fabricsim_workload::pipeline::Schedule;
    use fabricsim_workload::training::spec::DataParallelSpec;
    let mut parts = Vec::new();
    if training.dims.pp > 1 {
        parts.push(match training.schedule {
            Schedule::Gpipe => "GPipe".to_owned(),
            Schedule::OneForwardOneBackward => "1F1B".to_owned(),
            Schedule::Interleaved => format!("interleaved × {}", training.dims.virtual_stages),
        });
    }
    parts.push(match training.micro_batches {
        1 => "1 micro-batch".to_owned(),
        n => format!("{n} micro-batches"),
    });
    parts.push(match &training.spec.data_parallel {
        DataParallelSpec::Ddp(ddp) => ddp_in_words(ddp),
        DataParallelSpec::Zero(zero) => format!("ZeRO-{}", zero.stage),
        DataParallelSpec::Fsdp(_) => "FSDP".to_owned(),
        DataParallelSpec::SingleProcess => "one process".to_owned(),
    });
    parts.join(", ")
}
