//! Variants beside each other: which is best, what is compared, and what makes the difference.

use super::{JobSummary, Share, ShareKind, StepResult, Variant, VariantResult};
use crate::numbers::{count, percent, seconds, size, three_digits};
use crate::{Change, Part, Waterfall, scaled, waterfall};

/// One thing that is compared.
#[derive(Debug)]
pub(super) struct Line {
    /// What: `step time`.
    pub(super) what: String,
    /// As people read it, by variant; nothing where a variant has none.
    pub(super) cells: Vec<Option<String>>,
    /// Which variants are best; none if nothing is better or worse, or all are equal.
    pub(super) best: Vec<usize>,
    /// A part of what a heading names.
    pub(super) part: Option<Whole>,
}

/// What parts are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// The time of a step.
    Time,
    /// The difference from the baseline.
    Difference,
}

impl Whole {
    /// The heading above the first part.
    pub(super) const fn heading(self) -> &'static str {
        match self {
            Whole::Time => "where the time went, a step",
            Whole::Difference => "difference from the baseline, by cause",
        }
    }
}

/// Which end of a scale is better.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
    Neither,
}

/// What came of a variant, if it ran.
pub(super) fn ran(variant: &Variant) -> Option<&StepResult> {
    match &variant.result {
        VariantResult::Ran(result) => Some(result),
        VariantResult::Failed(_) => None,
    }
}

/// Whether a variant ran and fits into its GPUs' memory: what does not can win nothing.
pub(super) fn fits(variant: &Variant) -> bool {
    ran(variant).is_some_and(|result| result.memory.fits)
}

fn per_gpu(variant: &Variant) -> Option<f64> {
    Some(ran(variant)?.tokens_per_s / f64::from(variant.gpus.max(1)))
}

/// Less of a difference between two speeds is none.
const EQUAL: f64 = 0.005;

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

/// Indices of variants as they are shown: those that fit into memory, then those that do not, then
/// those that failed.
pub(super) fn order(variants: &[Variant]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(|&index| (ran(&variants[index]).is_none(), !fits(&variants[index])));
    order
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
pub(super) fn unsaid(summary: &JobSummary, variant: &Variant) -> Option<String> {
    let text = as_fast(variant, summary.baseline.as_deref().unwrap_or_default())?;
    (!summary.answer.contains(&text)).then_some(text)
}

/// Parts below this share of all are left out.
pub(super) const LEAST_SHARE: f64 = 0.0005;

/// Names of the parts that the time of variants went to and their kinds, in the order of their
/// largest share; those that are small everywhere are left out.
pub(super) fn parts<'a>(
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
pub(super) fn lines(variants: &[&Variant], waterfalls: &[Waterfall], baseline: &str) -> Vec<Line> {
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
        Line {
            what: "GPUs".into(),
            cells: variants.iter().map(|v| Some(v.gpus.to_string())).collect(),
            best: Vec::new(),
            part: None,
        },
        table.line("step time", step, seconds, |_, r| Some(r.step_s)),
        table.line("tokens/s", Better::More, count, |_, r| Some(r.tokens_per_s)),
        table.line("tokens/s per GPU", Better::More, count, |v, r| {
            Some(r.tokens_per_s / f64::from(v.gpus.max(1)))
        }),
        table.line(
            "beside the baseline",
            Better::More,
            |r| format!("{r:.2} ×"),
            |v, _| Some(per_gpu(v)? / base?),
        ),
        table.line("TFLOP/s per GPU", Better::More, three_digits, |_, r| {
            Some(r.model_tflops_per_gpu)
        }),
        table.line("MFU", Better::More, share, |_, r| Some(r.mfu)),
        table.line("$ per M tokens", Better::Less, three_digits, |_, r| {
            r.dollars_per_million_tokens
        }),
        table.line("goodput", Better::More, share, |_, r| {
            r.goodput.as_ref().map(|used| used.goodput)
        }),
        table.line("bubble", Better::Less, share, |_, r| Some(r.bubble)),
        table.line("exposed communication", Better::Less, share, |_, r| {
            Some(r.exposed_communication)
        }),
        table.line("overlap", Better::More, share, |_, r| Some(r.overlap)),
    ];
    lines.extend(parts(results()).into_iter().map(|(what, _)| {
        let cell = |v: &&Variant| {
            let (time, share) = part_of_step(ran(v)?, what)?;
            Some(format!("{} · {}", seconds(time), percent(share)))
        };
        Line {
            what: what.to_owned(),
            cells: variants.iter().map(cell).collect(),
            best: Vec::new(),
            part: Some(Whole::Time),
        }
    }));
    lines.extend(changes(variants, waterfalls, baseline));
    let memory = |v: &&Variant| {
        let memory = &ran(v)?.memory;
        let (total, capacity) = (memory.total.get() as f64, memory.capacity.get() as f64);
        let note = if memory.fits { "" } else { ", too much" };
        Some(format!("{} of {}{note}", size(total), size(capacity)))
    };
    lines.push(Line {
        what: "memory".into(),
        cells: variants.iter().map(memory).collect(),
        best: Vec::new(),
        part: None,
    });
    lines.retain(|line| line.cells.iter().any(Option::is_some));
    lines
}

struct Table<'a> {
    variants: &'a [&'a Variant],
}

impl Table<'_> {
    fn line(
        &self,
        what: &str,
        better: Better,
        text: impl Fn(f64) -> String,
        value: impl Fn(&Variant, &StepResult) -> Option<f64>,
    ) -> Line {
        let values = self.variants.iter().map(|v| value(v, ran(v)?));
        let values: Vec<Option<f64>> = values.collect();
        let cells: Vec<Option<String>> = values.iter().map(|v| v.map(&text)).collect();
        // What does not fit is best at nothing.
        let compared = self.variants.iter().zip(&values).filter(|(v, _)| fits(v));
        let known = compared.filter_map(|(_, value)| *value);
        let most = match better {
            Better::More => known.max_by(f64::total_cmp),
            Better::Less => known.min_by(f64::total_cmp),
            Better::Neither => None,
        };
        let most = most.map(&text);
        // By what is read: of two that look the same, neither is better.
        let best: Vec<usize> = (0..cells.len())
            .filter(|&index| fits(self.variants[index]))
            .filter(|&index| cells[index].is_some() && cells[index] == most)
            .collect();
        let differs = cells
            .iter()
            .flatten()
            .any(|cell| Some(cell) != most.as_ref());
        Line {
            what: what.to_owned(),
            best: if differs { best } else { Vec::new() },
            cells,
            part: None,
        }
    }
}

/// The difference of each variant from the baseline, cause by cause: the largest changes first,
/// what is left as one line.
fn changes(variants: &[&Variant], waterfalls: &[Waterfall], baseline: &str) -> Vec<Line> {
    let of = |variant: &&Variant| {
        let from_base = waterfalls.iter().filter(|w| w.from == baseline);
        from_base.into_iter().find(|w| w.to == variant.name)
    };
    let found: Vec<Option<&Waterfall>> = variants.iter().map(of).collect();
    let mut causes: Vec<(&str, u64)> = Vec::new();
    for waterfall in found.iter().flatten() {
        for part in waterfall.shown().0 {
            let size = part.time.0.unsigned_abs();
            match causes.iter_mut().find(|(cause, _)| *cause == part.cause) {
                Some((_, most)) => *most = (*most).max(size),
                None => causes.push((&part.cause, size)),
            }
        }
    }
    causes.sort_by_key(|&(_, size)| std::cmp::Reverse(size));
    let line = |what: &str, value: &dyn Fn(&Waterfall) -> Change| {
        let text = |waterfall: &Option<&Waterfall>| {
            let change = value((*waterfall)?);
            (change != Change(0)).then(|| change.text())
        };
        Line {
            what: what.to_owned(),
            cells: found.iter().map(text).collect(),
            best: Vec::new(),
            part: Some(Whole::Difference),
        }
    };
    // What is small beside a column's other changes is among its small ones.
    let of_cause = |waterfall: &Waterfall, cause: &str| -> i64 {
        let size = |part: &Part| part.time.0.unsigned_abs();
        let all: u64 = waterfall.parts.iter().map(size).sum();
        let part = waterfall.parts.iter().find(|part| part.cause == cause);
        let part = part.filter(|part| size(part) as f64 >= LEAST_SHARE * all as f64);
        part.map_or(0, |part| part.time.0)
    };
    let mut lines: Vec<Line> = causes
        .iter()
        .map(|(cause, _)| line(cause, &|w| Change(of_cause(w, cause))))
        .collect();
    lines.push(line("smaller changes", &|w| {
        let named: i64 = causes.iter().map(|(cause, _)| of_cause(w, cause)).sum();
        Change(w.total.0 - named)
    }));
    lines.push(line("all together", &|w| w.total));
    lines
}

/// What was simulated for how many, and by how many events: `2048 GPUs → 16 classes, 1.2 M
/// events`.
pub(super) fn effort(variant: &Variant, result: &StepResult) -> String {
    let (gpus, classes) = (variant.gpus, result.ranks.len());
    let plural = |count: usize| if count == 1 { "" } else { "es" };
    format!(
        "{gpus} GPU{} → {classes} class{}, {} events",
        if gpus == 1 { "" } else { "s" },
        plural(classes),
        count(result.events as f64)
    )
}
