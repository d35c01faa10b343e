//! Earlier runs beside each other, as they were.

use super::collective::answer as collective_answer;
use super::compare::free;
use super::error::ScenarioError;
use super::refusal::{fault, refusal};
use super::training::answer_of;
use super::{calls, communicator, concurrent, serving};
use fabricsim_report::comparison::{best_collective, collective_difference};
use fabricsim_report::record::CollectiveResult;
use fabricsim_report::training::{best, difference};
use fabricsim_report::{JobResult, Metrics, Summary, Variant};
use fabricsim_topology::error::nearest;
use fabricsim_units::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Earlier runs, by name, as the variants of one; the baseline is the variant of that name, or the first.
/// Differences are told by causes: nothing is simulated again. Of collectives the sizes that all have are
/// compared.
///
/// # Errors
/// Runs of jobs of different kinds, or of none; collectives without a size in common; a baseline that
/// is none of them.
pub fn of_runs(
    runs: Vec<(String, Summary)>,
    baseline: Option<&str>,
) -> Result<Summary, ScenarioError> {
    let seed = runs.first().map_or(0, |(_, summary)| summary.seed);
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    let title = names.join(" beside ");
    let specs: Vec<Value> = runs.iter().map(|(_, s)| s.spec.clone()).collect();
    let mut all = Summary::new(title, seed, json!({ "runs": specs }));
    let mut taken = BTreeSet::new();
    for (name, summary) in runs {
        let several = summary.variants.len() > 1;
        for mut variant in summary.variants {
            let own = match several {
                true => format!("{name}/{}", variant.name),
                false => name.clone(),
            };
            variant.name = free(&own, &taken);
            variant.no_effect = None;
            variant.differs.clear();
            taken.insert(variant.name.clone());
            all.variants.push(variant);
        }
        all.warn(summary.warnings);
    }
    same_kind(&all.variants)?;
    let left_out = share_sizes(&mut all.variants)?;
    all.warn(left_out);
    let base = base_of(&all.variants, baseline)?;
    all.baseline = all.variants.get(base).map(|variant| variant.name.clone());
    told(&mut all, base);
    Ok(all)
}

/// Says what differs, and why.
fn told(all: &mut Summary, base: usize) {
    let Some(first) = all.variants.get(base) else {
        return;
    };
    let others = || all.variants.iter().filter(|other| other.name != first.name);
    match &first.job {
        JobResult::Collective(_) => {
            let to = |other| collective_difference(first, other);
            all.waterfall = others().filter_map(to).collect();
            let best = best_collective(&all.variants, base);
            all.best = best.map(|best| all.variants[best].name.clone());
            all.answer = collective_answer(all, base, best);
        }
        JobResult::Training(_) => {
            let to = |other| difference(first, other);
            all.waterfall = others().filter_map(to).collect();
            let best = best(&all.variants, base);
            all.best = best.map(|best| all.variants[best].name.clone());
            all.answer = answer_of(all, base, best);
        }
        JobResult::Concurrent(_) => concurrent::compare(all),
        JobResult::Serving(_) => serving::compare(all),
        JobResult::Communicator(_) => communicator::compare(all),
        JobResult::Calls(_) => calls::compare(all),
    }
}

fn base_of(variants: &[Variant], baseline: Option<&str>) -> Result<usize, ScenarioError> {
    let Some(asked) = baseline else { return Ok(0) };
    let place = variants.iter().position(|variant| variant.name == asked);
    place.ok_or_else(|| {
        let names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
        let mut wrong = fault("--baseline", format!("`{asked}`"), names.join(", "));
        wrong.nearest = nearest(asked, names.iter().copied());
        refusal("compare", vec![wrong])
    })
}

fn same_kind(variants: &[Variant]) -> Result<(), ScenarioError> {
    let kind = |variant: &Variant| std::mem::discriminant(&variant.job);
    let mut pairs = variants.windows(2);
    match pairs.find(|pair| kind(&pair[0]) != kind(&pair[1])) {
        None => Ok(()),
        Some(pair) => {
            let found = format!("{} and {}", pair[0].name, pair[1].name);
            let expected = "runs of one kind of job: collectives, training, serving, communicators, calls or jobs at once";
            Err(refusal("compare", vec![fault("runs", found, expected)]))
        }
    }
}

/// Leaves of collectives the sizes that all of them have, and compares them at the largest; says what is
/// left out. Those that move nothing have no sizes.
fn share_sizes(variants: &mut [Variant]) -> Result<Option<String>, ScenarioError> {
    let results: Vec<&CollectiveResult> = variants
        .iter()
        .filter_map(|variant| variant.job.collective())
        .filter(|result| !result.rows.is_empty())
        .collect();
    let Some((first, others)) = results.split_first() else {
        return Ok(None);
    };
    let shared: Vec<(u64, u32)> = first
        .rows
        .iter()
        .filter(|row| {
            let size = (row.bytes, first.ranks);
            others.iter().all(|other| has(other, size))
        })
        .map(|row| (row.bytes, first.ranks))
        .collect();
    if shared.is_empty() {
        let sizes: Vec<String> = variants.iter().filter_map(listed).collect();
        let expected = "a size that all of them have: run them with the same sizes";
        let wrong = fault("runs", sizes.join("; "), expected);
        return Err(refusal("compare", vec![wrong]));
    }
    let mut left_out: Vec<String> = Vec::new();
    for variant in variants.iter_mut() {
        let JobResult::Collective(result) = &mut variant.job else {
            continue;
        };
        let dropped = keep(result, &shared);
        if !dropped.is_empty() {
            left_out.push(format!("{} of {}", dropped.join(", "), variant.name));
        }
    }
    at_one_size(variants);
    Ok((!left_out.is_empty()).then(|| {
        let named = left_out.join("; ");
        format!("sizes that not all of these runs have are left out: {named}")
    }))
}

/// Whether two sizes are the same one, rounded to what as many ranks can share.
fn is_same((a, of): (u64, u32), (b, on): (u64, u32)) -> bool {
    // nccl-tests rounds to whole shares of 16 bytes; of small sizes that is more than what tells them apart.
    let rounding = 16 * u64::from(of.max(on));
    let apart = a.abs_diff(b);
    apart == 0 || (apart < rounding && apart.saturating_mul(100) < a.min(b))
}

fn has(result: &CollectiveResult, size: (u64, u32)) -> bool {
    let mut rows = result.rows.iter();
    rows.any(|row| is_same((row.bytes, result.ranks), size))
}

/// The sizes of a run, with its name.
fn listed(variant: &Variant) -> Option<String> {
    let rows = &variant.job.collective()?.rows;
    let sizes = rows.iter().map(|row| Bytes::new(row.bytes).to_string());
    let sizes: Vec<String> = sizes.collect();
    (!sizes.is_empty()).then(|| format!("{} has {}", variant.name, sizes.join(", ")))
}

/// Leaves of a collective's rows those of such sizes, and what is told of them; the sizes that go.
fn keep(result: &mut CollectiveResult, shared: &[(u64, u32)]) -> Vec<String> {
    let ranks = result.ranks;
    let kept = |bytes: u64| shared.iter().any(|&size| is_same((bytes, ranks), size));
    let traced = result.traced().map(|row| row.bytes);
    let dropped = result.rows.iter().filter(|row| !kept(row.bytes));
    let dropped = dropped
        .map(|row| Bytes::new(row.bytes).to_string())
        .collect();
    result.rows.retain(|row| kept(row.bytes));
    result.decisions.retain(|decision| kept(decision.bytes));
    let choice = result.better_choice.take();
    result.better_choice = choice.filter(|choice| kept(choice.bytes));
    let place = result.rows.iter().position(|row| Some(row.bytes) == traced);
    trace(result, place);
    dropped
}

/// Makes `place` the row that details are of: there are some if it was that before.
fn trace(result: &mut CollectiveResult, place: Option<usize>) {
    if place.is_none() {
        result.attribution = None;
        result.links.clear();
        result.recorded = None;
    }
    result.traced_row = place;
}

/// Compares collectives at the row whose details all have, else at the largest.
fn at_one_size(variants: &mut [Variant]) {
    let of = |variant: &Variant| {
        let result = variant.job.collective()?;
        Some((result.traced()?.bytes, result.ranks))
    };
    let traced: Vec<Option<(u64, u32)>> = variants.iter().map(of).collect();
    let agree = traced.windows(2).all(|pair| match (pair[0], pair[1]) {
        (Some(a), Some(b)) => is_same(a, b),
        _ => false,
    });
    for variant in variants {
        let JobResult::Collective(result) = &mut variant.job else {
            continue;
        };
        if !agree {
            trace(result, None);
        }
        if let Some(row) = result.shown_row().cloned() {
            variant.metrics = at(&variant.metrics, Metrics::of_row(&row));
            if result.traced_row.is_none() {
                result.bottleneck = row.bottleneck;
            }
        }
    }
}

/// What is of the machine as it was, all else of another size.
fn at(before: &Metrics, row: Metrics) -> Metrics {
    Metrics {
        kw: before.kw,
        usd_per_gpu_hour: before.usd_per_gpu_hour,
        ..row
    }
}
