//! From a checked training scenario to its results.

use super::answer::{Compared, answer};
use super::causes::causes;
use super::disturb::Trouble;
use super::effect::{Counted, count, why_none};
use super::factors::{differs, one_at_a_time};
use super::lowering::{Ready, Shared, lowered_under};
use super::prices::prices;
use super::results::{Spans, failed, results};
use super::valid::{ValidJob, ValidVariant};
use crate::ScenarioError;
use fabricsim_budget::{Budget, OverBudget};
use fabricsim_engine::SimError;
use fabricsim_engine::job::{JobError, JobOptions, run_job};
use fabricsim_report::FORMAT;
use fabricsim_report::cause::prices as prices_in_words;
use fabricsim_report::training::{
    JobSummary, JobTimeline, Variant, VariantResult, best, difference, is_equal,
};
use fabricsim_units::Time;
use fabricsim_workload::exchanges::AlikeNumbers;
use fabricsim_workload::model::parameters;
use std::time::Instant;

/// The results of a job's scenario.
pub struct JobRun {
    /// Numbers.
    pub summary: JobSummary,
    /// What happened when, by variant; not of those that failed.
    pub timelines: Vec<(String, JobTimeline)>,
}

/// Runs all variants of a training scenario.
///
/// # Errors
/// What NCCL refuses, more than the memory of the budget holds. A job that hangs is a result, not
/// an error.
pub fn run_jobs(
    job: &ValidJob,
    budget: &Budget,
    tell: &mut dyn FnMut(&str),
) -> Result<JobRun, ScenarioError> {
    expect_all(job, budget)?;
    let mut variants = Vec::new();
    let mut timelines = Vec::new();
    let mut counted = Vec::new();
    for variant in &job.variants {
        tell(&variant.name);
        let mut shared = Shared::default();
        let run = run_variant(variant, (job.seed, budget), &mut shared)?;
        let fault_prices = match &run.result {
            VariantResult::Ran(ran) => {
                let seconds: f64 = ran.steps_s.iter().sum();
                let time = Time::from_picos((seconds * 1e12).round() as u64);
                prices(variant, time, (job.seed, budget), &mut shared)?
            }
            VariantResult::Failed(_) => None,
        };
        variants.push(Variant {
            fault_prices,
            ..described(variant, run.result)
        });
        counted.push(run.counted);
        if let Some(timeline) = run.timeline {
            timelines.push((variant.name.clone(), timeline));
        }
    }
    compare_with_baseline(job, &mut variants, &counted);
    let best = best(&variants, job.baseline);
    let changes = best.map_or_else(Vec::new, |best| {
        let ran = |index: usize| matches!(variants[index].result, VariantResult::Ran(_));
        one_at_a_time(&job.specs, (job.baseline, best), ran)
    });
    let base = &variants[job.baseline];
    let others = (0..variants.len()).filter(|&index| index != job.baseline);
    let mut waterfall: Vec<_> = others
        .filter_map(|index| difference(base, &variants[index]))
        .collect();
    let on_the_way = changes.iter().filter(|change| change.from != job.baseline);
    waterfall.extend(on_the_way.filter_map(|c| difference(&variants[c.from], &variants[c.to])));
    let mut warnings: Vec<String> = Vec::new();
    for warning in job.variants.iter().flat_map(|v| &v.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    Ok(JobRun {
        summary: JobSummary {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: job.seed,
            title: job.title.clone(),
            answer: answer(&Compared {
                variants: &variants,
                baseline: job.baseline,
                best,
                waterfall: &waterfall,
                changes: &changes,
            }) + &priced(&variants),
            baseline: (variants.len() > 1).then(|| base.name.clone()),
            best: best.map(|best| variants[best].name.clone()),
            waterfall,
            variants,
            warnings,
            spec: job.json.clone(),
        },
        timelines,
    })
}

/// Whether all variants fit into memory, before the first of them takes its time; what the largest
/// would take, if not.
fn expect_all(job: &ValidJob, budget: &Budget) -> Result<(), ScenarioError> {
    if job.variants.len() == 1 {
        return Ok(());
    }
    let mut largest: Option<OverBudget> = None;
    for variant in &job.variants {
        let mut numbers = AlikeNumbers::default();
        let lowered = lowered_under(variant, &variant.faults, (job.seed, budget), &mut numbers);
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

/// Says in what each variant differs from the baseline, and of those that take as long as it, why.
fn compare_with_baseline(job: &ValidJob, variants: &mut [Variant], counted: &[Option<Counted>]) {
    let base = variants[job.baseline].clone();
    for (index, variant) in variants.iter_mut().enumerate() {
        if index == job.baseline {
            continue;
        }
        let differs = differs(&job.specs[job.baseline], &job.specs[index]);
        variant.differs = differs.into_iter().collect();
        if let (Some(from), Some(to)) = (&counted[job.baseline], &counted[index])
            && !variant.differs.is_empty()
            && is_equal(&base, variant)
        {
            variant.no_effect = Some(why_none(from, to, &variant.differs));
        }
    }
}

/// What came of a variant.
pub(super) struct VariantRun {
    pub(super) result: VariantResult,
    /// If it ran.
    timeline: Option<JobTimeline>,
    counted: Option<Counted>,
}

impl VariantRun {
    fn failed(result: VariantResult) -> Self {
        VariantRun {
            result,
            timeline: None,
            counted: None,
        }
    }
}

pub(super) fn run_variant(
    variant: &ValidVariant,
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
            let failed = VariantResult::Failed(error.to_string());
            return Ok(VariantRun::failed(failed));
        }
    };
    let trouble = Trouble::new(&variant.faults, &lowered.job);
    let last = variant.training.spec.steps.saturating_sub(1);
    let plain = |rank: u32| variant.faults.is_plain(rank as usize);
    let mut spans = Spans::new(&lowered.job, last, plain);
    let options = JobOptions {
        timeout: variant.training.spec.timeout,
    };
    let outcome = run_job(
        &lowered.job,
        &rehearsed,
        rate,
        &trouble,
        options,
        &mut spans,
    );
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Ok(VariantRun::failed(failed(&error, variant, &lowered))),
    };
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    let (mut result, timeline) = results(seed, variant, &lowered, &rehearsed, &outcome, spans)?;
    result.wall_ms = wall_ms;
    result.causes = causes(variant, &lowered.job, &rehearsed, &outcome);
    Ok(VariantRun {
        result: VariantResult::Ran(Box::new(result)),
        timeline: Some(timeline),
        counted: Some(count(variant, &lowered.job, &rehearsed, &outcome)),
    })
}

/// What faults cost, variant by variant, as sentences after the answer; not of faults of which it says
/// already why they make no difference.
fn priced(variants: &[Variant]) -> String {
    let several = variants.len() > 1;
    let priced = variants.iter().filter_map(|variant| {
        let faults = variant.fault_prices.as_ref()?;
        let free = faults.costs.iter().all(|fault| fault.cost_us == Some(0.0));
        let told = variant.no_effect.is_some() && variant.differs.iter().any(|d| d == "faults");
        if free && told {
            return None;
        }
        let steps = match &variant.result {
            VariantResult::Ran(ran) => ran.steps_s.len(),
            VariantResult::Failed(_) => 1,
        };
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

fn described(variant: &ValidVariant, result: VariantResult) -> Variant {
    let training = &variant.training;
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
    Variant {
        name: variant.name.clone(),
        topology: variant.topology.name.clone(),
        topology_title: variant.topology.title.clone(),
        nodes: variant.topology.nodes.len() as u32,
        gpus: variant.gpus.len() as u32,
        model: training.model_name.clone(),
        parameters: parameters(&training.model).total() as f64,
        layout: layout.join(" · "),
        schedule: schedule(variant),
        differs: Vec::new(),
        no_effect: None,
        fault_prices: None,
        result,
    }
}

fn schedule(variant: &ValidVariant) -> String {
    use fabricsim_workload::pipeline::Schedule;
    use fabricsim_workload::training::spec::DataParallelSpec;
    let training = &variant.training;
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
        DataParallelSpec::Ddp(_) => "DDP".to_owned(),
        DataParallelSpec::Zero(zero) => format!("ZeRO-{}", zero.stage),
        DataParallelSpec::Fsdp(_) => "FSDP".to_owned(),
        DataParallelSpec::SingleProcess => "one process".to_owned(),
    });
    parts.join(", ")
}
