//! Collectives beside each other: which is fastest, by how much, and why.

use super::substitution::{Side, between};
use super::valid::ValidCollective;
use crate::valid::{ValidExperiment, ValidJob};
use fabricsim_budget::Budget;
use fabricsim_report::comparison::{best_collective, is_same_work};
use fabricsim_report::numbers::{micros, size};
use fabricsim_report::record::Row;
use fabricsim_report::{EQUAL, Summary, Variant, Waterfall};

/// Fills in what a summary says of its collectives together: best, differences, the answer.
/// What cannot be simulated in between is left out of a waterfall.
pub(crate) fn compare(experiment: &ValidExperiment, summary: &mut Summary, budget: &Budget) {
    if let [only] = summary.variants.as_slice() {
        let sentence = only
            .job
            .collective()
            .map(|result| result.bottleneck.clone());
        summary.answer = sentence.unwrap_or_default();
        return;
    }
    let base = experiment.baseline;
    let best = best_collective(&summary.variants, base);
    summary.best = best.map(|best| summary.variants[best].name.clone());
    let others = (0..summary.variants.len()).filter(|&index| index != base);
    summary.waterfall = others
        .filter_map(|other| {
            let same = !summary.variants[other]
                .differs
                .iter()
                .any(|d| d == "faults");
            let from = side(experiment, &summary.variants, base)?;
            let to = side(experiment, &summary.variants, other)?;
            between(from, to, same, budget)
        })
        .collect();
    summary.answer = answer(summary, base, best);
}

fn side<'s>(
    experiment: &'s ValidExperiment,
    variants: &'s [Variant],
    index: usize,
) -> Option<Side<'s>> {
    let ValidJob::Collective(job) = &experiment.variants[index].job else {
        return None;
    };
    let job: &ValidCollective = job;
    let result = variants[index].job.collective()?;
    let row = result.shown_row()?;
    let at = result
        .rows
        .iter()
        .position(|other| std::ptr::eq(other, row))?;
    Some(Side {
        name: &variants[index].name,
        job,
        size: *job.sizes.get(at)?,
        row,
    })
}

fn row(variant: &Variant) -> Option<&Row> {
    variant.job.collective()?.shown_row()
}

/// The answer: the fastest beside the baseline, or the slowest beside it.
pub(crate) fn answer(summary: &Summary, base: usize, best: Option<usize>) -> String {
    let variants = &summary.variants;
    let Some(best) = best else {
        return "No variant moves anything.".to_owned();
    };
    let first = &variants[base];
    let (Some(base_row), Some(best_row)) = (row(first), row(&variants[best])) else {
        return String::new();
    };
    let same = is_same_work(variants);
    let at = |row: &Row| match same {
        true => format!("At {}, ", size(row.bytes as f64)),
        false => String::new(),
    };
    let rate = |row: &Row| match same {
        true => 1.0 / row.time_us,
        false => row.busbw_gbs,
    };
    let measure = if same { "" } else { " by bus bandwidth" };
    if best != base {
        let ratio = rate(best_row) / rate(base_row);
        let found = summary
            .waterfall
            .iter()
            .find(|w| w.to == variants[best].name);
        let why = found.map_or_else(String::new, Waterfall::clause);
        return format!(
            "{}{} takes {}, {} {}: {} is {ratio:.2} × as fast{measure}{why}.",
            at(base_row),
            variants[best].name,
            micros(best_row.time_us),
            first.name,
            micros(base_row.time_us),
            variants[best].name,
        );
    }
    let others = variants.iter().filter(|variant| variant.name != first.name);
    let slower: Vec<String> = others
        .filter_map(|other| {
            let ratio = rate(base_row) / rate(row(other)?);
            let found = summary.waterfall.iter().find(|w| w.to == other.name);
            Some(match ratio <= 1.0 + EQUAL {
                true => format!("{} is as fast", other.name),
                false => format!(
                    "{} takes {}, {ratio:.2} × as long{measure}{}",
                    other.name,
                    micros(row(other)?.time_us),
                    found.map_or_else(String::new, Waterfall::clause),
                ),
            })
        })
        .collect();
    format!(
        "{}{} takes {}, and no variant is faster: {}.",
        at(base_row),
        first.name,
        micros(base_row.time_us),
        slower.join("; ")
    )
}
