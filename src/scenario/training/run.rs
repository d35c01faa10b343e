//! From a checked training scenario to its results.

use super::answer::answer;
use super::disturb::Trouble;
use super::results::{Spans, failed, results};
use super::valid::{ValidJob, ValidVariant};
use crate::engine::job::{JobOptions, rehearse, run_job};
use crate::report::training::{JobSummary, JobTimeline, Variant, VariantResult};
use crate::scenario::ScenarioError;
use crate::topology::LinkId;
use crate::workload::model::parameters;
use crate::workload::training::lower::lower;
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
/// What NCCL refuses. A job that hangs is a result, not an error.
pub fn run_jobs(job: &ValidJob, tell: &mut dyn FnMut(&str)) -> Result<JobRun, ScenarioError> {
    let mut variants = Vec::new();
    let mut timelines = Vec::new();
    for variant in &job.variants {
        tell(&variant.name);
        let (result, timeline) = run_variant(variant, (job.seed, job.exact_full))?;
        variants.push(described(variant, result));
        if let Some(timeline) = timeline {
            timelines.push((variant.name.clone(), timeline));
        }
    }
    let mut warnings: Vec<String> = Vec::new();
    for warning in job.variants.iter().flat_map(|v| &v.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    Ok(JobRun {
        summary: JobSummary {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: job.seed,
            title: job.title.clone(),
            answer: answer(&variants),
            variants,
            warnings,
            spec: job.json.clone(),
        },
        timelines,
    })
}

pub(super) fn run_variant(
    variant: &ValidVariant,
    (seed, exact_full): (u64, bool),
) -> Result<(VariantResult, Option<JobTimeline>), ScenarioError> {
    let began = Instant::now();
    let topology = &variant.topology;
    let marks: Vec<u32> = (0..variant.gpus.len())
        .map(|rank| {
            if exact_full {
                rank as u32
            } else {
                variant.faults.signature(rank)
            }
        })
        .collect();
    // What is gone for good before the job begins NCCL does not see at all.
    let dead: Vec<LinkId> = variant.faults.gone_links().collect();
    let lowered = lower(
        &variant.training,
        topology,
        &variant.gpus,
        &variant.env,
        (seed, &marks, &dead),
    )?;
    let rate = |link| topology.rate(link);
    let rehearsed = match rehearse(&lowered.job, rate, exact_full) {
        Ok(rehearsed) => rehearsed,
        Err(error) => return Ok((VariantResult::Failed(error.to_string()), None)),
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
        Err(error) => return Ok((failed(&error, variant, &lowered), None)),
    };
    let wall_ms = began.elapsed().as_secs_f64() * 1e3;
    let (mut result, timeline) = results(seed, variant, &lowered, &rehearsed, &outcome, spans)?;
    result.wall_ms = wall_ms;
    Ok((VariantResult::Ran(Box::new(result)), Some(timeline)))
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
        result,
    }
}

fn schedule(variant: &ValidVariant) -> String {
    use crate::workload::pipeline::Schedule;
    use crate::workload::training::spec::DataParallelSpec;
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
