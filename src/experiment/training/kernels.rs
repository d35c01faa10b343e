//! A step's kernels and the ways to count its operations, for those who ask for them.

use super::valid::ValidTraining;
use crate::ScenarioError;
use crate::refusal::{fault, refusal};
use fabricsim_report::training::{FlopCount, KernelBound, KernelUse};
use fabricsim_units::Time;
use fabricsim_workload::model::ScoreCount;
use fabricsim_workload::model::flops::{palm_per_token, six_n};
use fabricsim_workload::model::parameters;
use fabricsim_workload::training::compute::Gpu;
use fabricsim_workload::training::resolve::Training;
use fabricsim_workload::training::table::{Bound, KernelRow, kernel_table};

/// The kernels of a step, if the job asks for them.
///
/// # Errors
/// A model that cannot be divided so.
pub(super) fn kernels(variant: &ValidTraining, gpu: &Gpu) -> Result<Vec<KernelUse>, ScenarioError> {
    if !variant.training.spec.kernel_table {
        return Ok(Vec::new());
    }
    let rows = kernel_table(&variant.training, gpu).map_err(|error| {
        let what = fault("model", error.to_string(), "one that can be divided so");
        refusal("job.training", vec![what])
    })?;
    let whole: f64 = rows.iter().map(all).sum();
    let of = |row: &KernelRow| {
        let seconds = row.time.seconds().max(1e-12);
        KernelUse {
            name: match row.again {
                true => format!("{} again", row.name),
                false => row.name.to_owned(),
            },
            count: row.count,
            time_us: Time::round_micros(row.time.micros()),
            bound: match row.bound {
                Bound::Compute => KernelBound::Compute,
                Bound::Memory => KernelBound::Memory,
                Bound::Launch => KernelBound::Launch,
            },
            share_of_peak: row.flops / seconds / gpu.peak_of_precision,
            memory_gbs: row.bytes / seconds / 1e9,
            share: if whole > 0.0 { all(row) / whole } else { 0.0 },
        }
    };
    Ok(rows.iter().map(of).collect())
}

fn all(row: &KernelRow) -> f64 {
    row.time.seconds() * row.count as f64
}

/// The ways to count a step's operations, of which `known` are the report's own: full, causal and
/// hardware's.
pub(super) fn flop_counts(
    training: &Training,
    [full, causal, hardware]: [f64; 3],
    (step_s, gpus, peak): (f64, u32, f64),
) -> Vec<FlopCount> {
    if !training.spec.kernel_table {
        return Vec::new();
    }
    let model = &training.model;
    let counted = parameters(model);
    let tokens = training.tokens() as f64;
    let sequence = training.batch.tokens;
    // Of experts a token meets only some: all of them would be work that nobody does.
    let active = counted.active();
    let palm = tokens * palm_per_token(model, active, sequence, ScoreCount::Full);
    let without = active.saturating_sub(counted.embedding);
    let which = match model.experts {
        Some(_) => "each parameter that a token meets",
        None => "each parameter",
    };
    let count = |convention: &str, counts: &str, flops: f64| FlopCount {
        convention: convention.to_owned(),
        counts: counts.to_owned(),
        flops,
        utilisation: Some(flops / (step_s * f64::from(gpus) * peak)).filter(|&used| used <= 1.0),
    };
    vec![
        count(
            "mfu",
            "products of active weights with the output projection, without the lookup; all scores (Narayanan, llm-foundry)",
            full,
        ),
        count(
            "mfu_causal",
            "the same with the half of the scores that a causal mask leaves",
            causal,
        ),
        count(
            "hfu",
            "mfu with what is computed again in the backward pass",
            hardware,
        ),
        count(
            "palm",
            &format!("6 for {which}, and all scores (PaLM)"),
            palm,
        ),
        count(
            "six_n",
            &format!("6 for {which}, no scores (Kaplan)"),
            six_n(active, tokens),
        ),
        count(
            "six_n_without_embedding",
            &format!("6 for {which} but the table of tokens, no scores"),
            six_n(without, tokens),
        ),
    ]
}
