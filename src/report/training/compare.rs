//! Variants beside each other: what is compared, and which is best at it.

use super::{StepResult, Variant, VariantResult};
use crate::report::numbers::{count, percent, seconds, size, three_digits};

/// One thing that is compared.
#[derive(Debug)]
pub(super) struct Line {
    /// What: `step time`.
    pub(super) what: String,
    /// As people read it, by variant; nothing where a variant has none.
    pub(super) cells: Vec<Option<String>>,
    /// Which variants are best; none if nothing is better or worse, or all are equal.
    pub(super) best: Vec<usize>,
    /// A part of the line above.
    pub(super) part: bool,
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

/// The variant with the most tokens per second; the first of equals, none if all failed.
pub(super) fn best(variants: &[Variant]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, variant) in variants.iter().enumerate() {
        if let Some(result) = ran(variant)
            && best.is_none_or(|(_, most)| result.tokens_per_s > most)
        {
            best = Some((index, result.tokens_per_s));
        }
    }
    best.map(|(index, _)| index)
}

/// Names of the parts that the time of variants went to, in the order of their largest share.
pub(super) fn parts<'a>(results: impl Iterator<Item = &'a StepResult>) -> Vec<&'a str> {
    let mut parts: Vec<(&str, f64)> = Vec::new();
    for share in results.flat_map(|result| &result.time) {
        match parts.iter_mut().find(|(what, _)| *what == share.what) {
            Some((_, most)) => *most = most.max(share.share),
            None => parts.push((&share.what, share.share)),
        }
    }
    // Stable: equal ones stay in order.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.into_iter().map(|(what, _)| what).collect()
}

/// Seconds of a step, on average, and the share of the time that went to `what`.
pub(super) fn part_of_step(result: &StepResult, what: &str) -> Option<(f64, f64)> {
    let found = result.time.iter().find(|share| share.what == what)?;
    let steps = result.steps_s.len().max(1) as f64;
    Some((found.seconds / steps, found.share))
}

/// All that is compared, in the order of a table.
pub(super) fn lines(variants: &[Variant]) -> Vec<Line> {
    let table = Table { variants };
    let results = || variants.iter().filter_map(ran);
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
            part: false,
        },
        table.line("step time", step, seconds, |_, r| Some(r.step_s)),
        table.line("tokens/s", Better::More, count, |_, r| Some(r.tokens_per_s)),
        table.line("tokens/s per GPU", Better::More, count, |v, r| {
            Some(r.tokens_per_s / f64::from(v.gpus.max(1)))
        }),
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
    lines.extend(parts(results()).into_iter().map(|what| {
        let cell = |v: &Variant| {
            let (time, share) = part_of_step(ran(v)?, what)?;
            Some(format!("{} · {}", seconds(time), percent(share)))
        };
        Line {
            what: what.to_owned(),
            cells: variants.iter().map(cell).collect(),
            best: Vec::new(),
            part: true,
        }
    }));
    let memory = |v: &Variant| {
        let memory = &ran(v)?.memory;
        let (total, capacity) = (memory.total.get() as f64, memory.capacity.get() as f64);
        let note = if memory.fits { "" } else { ", too much" };
        Some(format!("{} of {}{note}", size(total), size(capacity)))
    };
    lines.push(Line {
        what: "memory".into(),
        cells: variants.iter().map(memory).collect(),
        best: Vec::new(),
        part: false,
    });
    lines.retain(|line| line.cells.iter().any(Option::is_some));
    lines
}

struct Table<'a> {
    variants: &'a [Variant],
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
        let known = values.iter().copied().flatten();
        let most = match better {
            Better::More => known.max_by(f64::total_cmp),
            Better::Less => known.min_by(f64::total_cmp),
            Better::Neither => None,
        };
        let most = most.map(&text);
        // By what is read: of two that look the same, neither is better.
        let best: Vec<usize> = (0..cells.len())
            .filter(|&index| cells[index].is_some() && cells[index] == most)
            .collect();
        let known = cells.iter().flatten().count();
        Line {
            what: what.to_owned(),
            best: if best.len() < known { best } else { Vec::new() },
            cells,
            part: false,
        }
    }
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
