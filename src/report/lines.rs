//! What variants are compared by, line by line.

use super::serving::Verdict;
use super::summary::Variant;
use super::{Change, Known, Part, Waterfall};

/// One thing that is compared.
#[derive(Debug)]
pub(crate) struct Line {
    /// What: `step time`.
    pub(crate) what: String,
    /// As people read it, by variant; nothing where a variant has none.
    pub(crate) cells: Vec<Option<String>>,
    /// Which variants are best; none if nothing is better or worse, or all are equal.
    pub(crate) best: Vec<usize>,
    /// A part of what a heading names.
    pub(crate) part: Option<Whole>,
    /// That a variant failed is said here.
    pub(crate) headline: bool,
}

impl Line {
    /// The line in which it is said that a variant failed.
    pub(crate) fn headline(self) -> Line {
        Line {
            headline: true,
            ..self
        }
    }

    /// A line in which nothing is better or worse.
    pub(crate) fn plain(
        what: &str,
        variants: &[&Variant],
        cell: impl Fn(&Variant) -> Option<String>,
    ) -> Line {
        Line {
            what: what.to_owned(),
            cells: variants.iter().map(|variant| cell(variant)).collect(),
            best: Vec::new(),
            part: None,
            headline: false,
        }
    }
}

/// What parts are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// The time of a step.
    Time,
    /// The difference from the baseline.
    Difference,
}

impl Whole {
    /// The heading above the first part.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Whole::Time => "where the time went, a step",
            Whole::Difference => "difference from the baseline, by cause",
        }
    }
}

/// Which end of a scale is better.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    Less,
    More,
    Neither,
}

/// Less of a difference between two speeds is none.
pub const EQUAL: f64 = 0.005;

/// Whether a variant's job came to its end.
#[must_use]
pub fn ended(variant: &Variant) -> bool {
    variant.job.report().ended()
}

/// Whether a variant ran and fits into its GPUs' memory: what does not can win nothing.
#[must_use]
pub fn fits(variant: &Variant) -> bool {
    ended(variant) && variant.metrics.fits.unwrap_or(true)
}

/// So much of its requests has to keep the SLO of what keeps it.
pub const KEEPS_SLO: f64 = 0.9;

/// Whether a variant does what it is to do: it fits, and where it serves it keeps up with its load and
/// keeps its SLO. What does not is best at nothing.
#[must_use]
pub fn qualifies(variant: &Variant) -> bool {
    fits(variant) && falls_short(variant).is_none()
}

/// In which way a variant that serves does not do what it is to do, for people.
#[must_use]
pub fn falls_short(variant: &Variant) -> Option<&'static str> {
    let served = variant.job.serving()?;
    match (served.verdict, served.slo_share) {
        (Some(Verdict::Stable), Some(share)) if share < KEEPS_SLO => Some("misses its SLO"),
        (Some(Verdict::Stable) | None, _) => None,
        (Some(verdict), _) => Some(verdict.name()),
    }
}

/// Indices of variants as they are shown: those that fit into memory, then those that do not, then
/// those that failed.
pub(crate) fn order(variants: &[Variant]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(|&index| (!ended(&variants[index]), !fits(&variants[index])));
    order
}

/// Makes lines of the numbers of variants.
pub(crate) struct Table<'a> {
    pub(crate) variants: &'a [&'a Variant],
}

impl Table<'_> {
    /// A line of one number a variant that may be unknown, which is then said.
    pub(crate) fn known(
        &self,
        what: &str,
        better: Better,
        text: impl Fn(f64) -> String,
        value: impl Fn(&Variant) -> Known,
    ) -> Line {
        let mut line = self.line(what, better, text, |variant| value(variant).flatten());
        for (cell, variant) in line.cells.iter_mut().zip(self.variants) {
            if value(variant) == Some(None) {
                *cell = Some("unknown".to_owned());
            }
        }
        line
    }

    /// A line of one number a variant.
    pub(crate) fn line(
        &self,
        what: &str,
        better: Better,
        text: impl Fn(f64) -> String,
        value: impl Fn(&Variant) -> Option<f64>,
    ) -> Line {
        let values = self.variants.iter().map(|v| value(v));
        let values: Vec<Option<f64>> = values.collect();
        let cells: Vec<Option<String>> = values.iter().map(|v| v.map(&text)).collect();
        let compared = self
            .variants
            .iter()
            .zip(&values)
            .filter(|(v, _)| qualifies(v));
        let known = compared.filter_map(|(_, value)| *value);
        let most = match better {
            Better::More => known.max_by(f64::total_cmp),
            Better::Less => known.min_by(f64::total_cmp),
            Better::Neither => None,
        };
        // Of two that are nearly equal, or look the same, neither is better.
        let as_good = |index: usize| {
            let (value, most) = (values[index]?, most?);
            let near = (value - most).abs() <= EQUAL * most.abs();
            Some(near || text(value) == text(most))
        };
        let best: Vec<usize> = (0..cells.len())
            .filter(|&index| qualifies(self.variants[index]))
            .filter(|&index| as_good(index) == Some(true))
            .collect();
        let differs = (0..cells.len()).any(|index| as_good(index) == Some(false));
        Line {
            what: what.to_owned(),
            best: if differs { best } else { Vec::new() },
            cells,
            part: None,
            headline: false,
        }
    }
}

/// Parts below this share of all are left out.
pub(crate) const LEAST_SHARE: f64 = 0.0005;

/// The difference of each variant from the baseline, cause by cause: the largest changes first,
/// what is left as one line.
pub(crate) fn changes(
    variants: &[&Variant],
    waterfalls: &[Waterfall],
    baseline: &str,
) -> Vec<Line> {
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
            headline: false,
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
