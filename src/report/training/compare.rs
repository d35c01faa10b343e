//! Training jobs beside each other: which is best, what is compared, and what makes the difference.

use super::{Share, ShareKind, StepResult};
use crate::lines::{Better, EQUAL, LEAST_SHARE, Line, Table, Whole, changes, fits};
use crate::numbers::{count, percent, seconds, size, three_digits, three_digits_of_small};
use crate::{Part, Summary, Variant, Waterfall, scaled, waterfall};

/// What a training step of a variant took, if it ran.
#[must_use]
pub fn ran(variant: &Variant) -> Option<&StepResult> {
    variant.job.training()?.ran()
}

fn per_gpu(variant: &Variant) -> Option<f64> {
    variant.metrics.tokens_per_s_per_gpu
}

/// The variant with the most tokens per second and GPU of those that run and fit into memory, as
/// an index; the baseline if none is faster by more than half a percent, else the first of equals;
/// none if no variant fits.
#[must_use]
pub fn best(variants: &[Variant], baseline: usize) -> Option<usize> {
    let speed = |index: usize| per_gpu(&variants[index]).unwrap_or(0.0);
    let fitting = (0..variants.len()).filter(|&index| fits(&variants[index]));
    let first = |best: usize, other: usize| {
        if speed(other) > speed(best) {
            other
        } else {
            best
        }
    };
    let best = fitting.reduce(first)?;
    let base = fits(&variants[baseline]) && speed(best) <= (1.0 + EQUAL) * speed(baseline);
    Some(if base { baseline } else { best })
}

/// The exact time of a variant's last step, of as many tokens per GPU as `base` has; nothing if it
/// failed.
fn causes_as(base: &Variant, variant: &Variant) -> Option<Vec<Part>> {
    let (own, result) = (ran(base)?, ran(variant)?);
    // Whole numbers: both are in the ratio of tokens × GPUs.
    let numerator = own.tokens.checked_mul(u64::from(variant.gpus))?;
    let denominator = result.tokens.checked_mul(u64::from(base.gpus))?;
    Some(if numerator == denominator {
        result.causes.clone()
    } else {
        scaled(&result.causes, numerator, denominator)
    })
}

/// Whether two variants have steps of as many tokens per GPU, so that their times compare as they
/// are.
#[must_use]
pub fn is_same_work(a: &Variant, b: &Variant) -> bool {
    let (Some(one), Some(other)) = (ran(a), ran(b)) else {
        return false;
    };
    u128::from(one.tokens) * u128::from(b.gpus) == u128::from(other.tokens) * u128::from(a.gpus)
}

/// What makes the difference between the times of two variants' last steps; of as many tokens per
/// GPU as the first has, if they have not as many. Nothing if one of them failed.
#[must_use]
pub fn difference(from: &Variant, to: &Variant) -> Option<Waterfall> {
    let parts = (&ran(from)?.causes, causes_as(from, to)?);
    Some(waterfall((&from.name, parts.0), (&to.name, &parts.1)))
}

/// Whether two variants on as many GPUs take as long, to within a part in two thousand.
#[must_use]
pub fn is_equal(a: &Variant, b: &Variant) -> bool {
    let (Some(one), Some(other)) = (per_gpu(a), per_gpu(b)) else {
        return false;
    };
    a.gpus == b.gpus && (one - other).abs() <= 5e-4 * one
}

/// That a variant is as fast as the baseline, and why.
#[must_use]
pub fn as_fast(variant: &Variant, baseline: &str) -> Option<String> {
    let why = variant.no_effect.as_ref()?;
    Some(format!("{} is as fast as {baseline}: {why}.", variant.name))
}

/// The same, if the answer does not say it.
pub(crate) fn unsaid(summary: &Summary, variant: &Variant) -> Option<String> {
    let text = as_fast(variant, summary.baseline.as_deref().unwrap_or_default())?;
    (!summary.answer.contains(&text)).then_some(text)
}

/// Names of the parts that the time of variants went to and their kinds, in the order of their
/// largest share; those that are small everywhere are left out.
pub(crate) fn parts<'a>(
    results: impl Iterator<Item = &'a StepResult>,
) -> Vec<(&'a str, ShareKind)> {
    let shares = results.flat_map(|result| &result.time);
    let mut parts: Vec<(&Share, f64)> = Vec::new();
    for share in shares {
        match parts.iter_mut().find(|(known, _)| known.what == share.what) {
            Some((_, most)) => *most = most.max(share.share),
            None => parts.push((share, share.share)),
        }
    }
    parts.retain(|(_, most)| *most >= LEAST_SHARE);
    // Stable: equal ones stay in order.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
        .into_iter()
        .map(|(share, _)| (share.what.as_str(), share.kind))
        .collect()
}

/// Seconds of a step, on average, and the share of the time that went to `what`.
pub(super) fn part_of_step(result: &StepResult, what: &str) -> Option<(f64, f64)> {
    let found = result.time.iter().find(|share| share.what == what)?;
    let steps = result.steps_s.len().max(1) as f64;
    Some((found.seconds / steps, found.share))
}

/// All that is compared, in the order of a table.
pub(crate) fn lines(variants: &[&Variant], waterfalls: &[Waterfall], baseline: &str) -> Vec<Line> {
    let table = Table { variants };
    let results = || variants.iter().filter_map(|v| ran(v));
    let base = variants.iter().find(|v| v.name == baseline);
    let base = base.and_then(|v| per_gpu(v));
    let same_tokens = {
        let first = results().next().map(|result| result.tokens);
        results().all(|result| Some(result.tokens) == first)
    };
    // A step of fewer tokens is no better for being shorter.
    let step = if same_tokens {
        Better::Less
    } else {
        Better::Neither
    };
    let share = |value: f64| percent(value);
    let mut lines = vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        table
            .line("step time", step, seconds, |v| Some(ran(v)?.step_s))
            .headline(),
        table.line("tokens/s", Better::More, count, |v| v.metrics.tokens_per_s),
        table.line("tokens/s per GPU", Better::More, count, per_gpu),
        table.line(
            "beside the baseline",
            Better::More,
            |r| format!("{r:.2} ×"),
            |v| Some(per_gpu(v)? / base?),
        ),
        table.line("TFLOP/s per GPU", Better::More, three_digits, |v| {
            Some(ran(v)?.model_tflops_per_gpu)
        }),
        table.line("MFU", Better::More, share, |v| v.metrics.mfu),
        table.known("power, kW", Better::Neither, three_digits, |v| v.metrics.kw),
        table.known("kWh per step", step, three_digits_of_small, |v| {
            v.metrics.kwh_per_step
        }),
        table.known("of whole units, kW", Better::Neither, three_digits, |v| {
            v.metrics.kw_whole
        }),
        table.known(
            "kWh per M tokens",
            Better::Less,
            three_digits_of_small,
            |v| v.metrics.kwh_per_mtok,
        ),
        table.known(
            "of whole units, kWh",
            Better::Less,
            three_digits_of_small,
            |v| v.metrics.kwh_per_mtok_whole,
        ),
        table.known("$ per GPU and hour", Better::Neither, three_digits, |v| {
            v.metrics.usd_per_gpu_hour
        }),
        table.known("$ per step", step, three_digits_of_small, |v| {
            v.metrics.usd_per_step
        }),
        table.known("$ per M tokens", Better::Less, three_digits_of_small, |v| {
            v.metrics.usd_per_mtok
        }),
        table.line("goodput", Better::More, share, |v| v.metrics.goodput),
        table.line("bubble", Better::Less, share, |v| v.metrics.bubble_share),
        table.line("exposed communication", Better::Less, share, |v| {
            v.metrics.exposed_share
        }),
        table.line("overlap", Better::More, share, |v| Some(ran(v)?.overlap)),
    ];
    lines.extend(parts(results()).into_iter().map(|(what, _)| {
        let cell = |v: &Variant| {
            let (time, share) = part_of_step(ran(v)?, what)?;
            Some(format!("{} · {}", seconds(time), percent(share)))
        };
        Line {
            part: Some(Whole::Time),
            ..Line::plain(what, variants, cell)
        }
    }));
    lines.extend(changes(variants, waterfalls, baseline));
    let memory = |v: &Variant| {
        let memory = &ran(v)?.memory;
        let (need, capacity) = (memory.need().get() as f64, memory.capacity.get() as f64);
        let note = if memory.fits { "" } else { ", too much" };
        Some(format!("{} of {}{note}", size(need), size(capacity)))
    };
    lines.push(Line::plain("memory needed", variants, memory));
    lines.retain(|line| line.cells.iter().any(Option::is_some));
    lines
}

/// What was simulated for how many, and by how many events: `2048 GPUs → 16 classes, 1.2 M
/// events`.
pub(crate) fn effort(variant: &Variant, result: &StepResult) -> String {
    let (gpus, classes) = (variant.gpus, result.ranks.len());
    let plural = |count: usize| if count == 1 { "" } else { "es" };
    format!(
        "{gpus} GPU{} → {classes} class{}, {} events",
        if gpus == 1 { "" } else { "s" },
        plural(classes),
        count(result.events as f64)
    )
}
