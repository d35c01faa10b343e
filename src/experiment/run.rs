//! From a checked experiment to its results, whatever the job.

use super::error::ScenarioError;
use super::job::{Ctx, JobRun};
use super::valid::{ValidExperiment, ValidJob};
use super::watch::Watch;
use super::{calls, collective, communicator, concurrent, factors, serving, training};
use fabricsim_budget::Budget;
use fabricsim_report::nccl_profiler::EventMask;
use fabricsim_report::{Output, Outputs, Record, Results, Summary};
use serde_json::Value;

/// Runs all variants of an experiment and compares them. What is needed for `outputs` is recorded. But
/// for wall-clock times the same experiment gives the same results.
///
/// # Errors
/// What NCCL refuses, a simulation that stalls, more than the memory of the budget holds, or what
/// `watch` gives. A job that hangs is a result, not an error.
pub fn run(
    experiment: &ValidExperiment,
    budget: &Budget,
    outputs: &Outputs,
    watch: &mut dyn Watch,
) -> Result<Results, ScenarioError> {
    // Series are of each GPU, so that none stands for others.
    let all;
    let budget = match outputs.has(Output::Telemetry) {
        true => {
            all = Budget {
                exact_full: true,
                ..budget.clone()
            };
            &all
        }
        false => budget,
    };
    training::expect_all(experiment, budget)?;
    let mut summary = Summary::new(
        experiment.title.clone(),
        experiment.seed,
        experiment.json.clone(),
    );
    summary.warnings = experiment.warnings();
    let mut records = Vec::new();
    // What training counted, to say why a variant is no faster.
    let mut ended = Vec::new();
    let ctx = Ctx {
        seed: experiment.seed,
        budget,
        outputs,
    };
    let count = experiment.variants.len();
    let counting = budget.work.part("variants", count as u64);
    for (index, variant) in experiment.variants.iter().enumerate() {
        let job = variant.job.kind();
        let JobRun {
            variant: mut ran,
            recorded,
            telemetry: series,
            warnings,
            counted,
        } = job.run(&variant.name, ctx, &summary, watch)?;
        job.charge(&variant.tariff, &mut ran);
        summary.variants.push(ran);
        summary.warn(warnings);
        ended.push(counted);
        let left_out = series.iter().flat_map(|series| series.left_out.iter());
        summary.warn(
            left_out
                .map(|note| format!("Telemetry: {note}"))
                .collect::<Vec<_>>(),
        );
        let asked = event_mask(&experiment.specs[index]);
        summary.warn(profile_warning(asked, outputs, recorded.is_some()));
        let record = |recorded| Record {
            variant: variant.name.clone(),
            recorded,
            telemetry: series,
            events: asked.unwrap_or_default(),
        };
        records.extend(recorded.map(record));
        counting.add(1);
    }
    drop(counting);
    if count > 1 {
        let base = experiment.baseline;
        summary.baseline = Some(summary.variants[base].name.clone());
        for index in (0..count).filter(|&index| index != base) {
            let differs = factors::differs(&experiment.specs[base], &experiment.specs[index]);
            summary.variants[index].differs = differs.into_iter().collect();
        }
    }
    match experiment.variants.first().map(|variant| &variant.job) {
        Some(ValidJob::Collective(_)) => collective::compare(experiment, &mut summary, budget),
        Some(ValidJob::Training(_)) => training::compare(experiment, &mut summary, &ended),
        Some(ValidJob::Concurrent(_)) => concurrent::compare(&mut summary),
        Some(ValidJob::Serving(_)) => serving::compare(&mut summary),
        Some(ValidJob::Communicator(_)) => communicator::compare(&mut summary),
        Some(ValidJob::Calls(_)) => calls::compare(&mut summary),
        None => {}
    }
    Ok(Results { summary, records })
}

/// Which events of NCCL's profiler a variant asks for.
fn event_mask(spec: &Value) -> Option<EventMask> {
    let given = spec.get("environment")?.get(EventMask::VARIABLE)?;
    let bits = match given {
        Value::String(text) => text.trim().parse().ok(),
        number => number.as_u64().and_then(|bits| u32::try_from(bits).ok()),
    };
    bits.map(EventMask)
}

/// What of such a profile there is nothing of.
fn profile_warning(asked: Option<EventMask>, outputs: &Outputs, recorded: bool) -> Option<String> {
    let variable = EventMask::VARIABLE;
    let wanted = outputs.has(Output::NcclProfiler);
    if wanted && !recorded {
        return Some("No events of NCCL's profiler: nothing was recorded of this job".to_owned());
    }
    let asked = asked?;
    if !wanted {
        return Some(format!(
            "{variable} chooses events of `--outputs nccl-profiler`, which is not asked for"
        ));
    }
    let without = asked.without_events();
    (!without.is_empty()).then(|| {
        let without = without.join(", ");
        format!(
            "{variable}={}: a simulation has no events of {without}",
            asked.0
        )
    })
}
