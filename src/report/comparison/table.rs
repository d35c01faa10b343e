//! What is compared, as one value: the terminal and the page draw it, neither knows more.

use super::job_view::{OneKind, view};
use crate::bill::dollars;
use crate::lines::{Better, Line, Table, Whole, ended, falls_short, fits, order, qualifies};
use crate::summary::{Summary, Variant};

/// Variants as columns, what they are compared by as rows.
pub(super) struct ComparisonTable<'s> {
    pub(super) columns: Vec<Column<'s>>,
    pub(super) rows: Vec<Row>,
    /// What a marked cell is, if any variant can be marked.
    pub(super) marked: Option<&'static str>,
}

/// A variant.
pub(super) struct Column<'s> {
    pub(super) variant: &'s Variant,
    /// The others are compared with it.
    pub(super) baseline: bool,
    /// Why it is best at nothing, though it ran.
    pub(super) short: Option<&'static str>,
    /// It has no results.
    pub(super) failed: bool,
}

/// One thing that is compared.
pub(super) struct Row {
    /// What: `step time`.
    pub(super) what: String,
    /// What stands above it.
    pub(super) heading: Option<&'static str>,
    /// A part of what its heading names.
    pub(super) part: Option<Whole>,
    /// That a variant failed is said here.
    pub(super) headline: bool,
    /// By column.
    pub(super) cells: Vec<Cell>,
}

/// A variant's figure.
pub(super) struct Cell {
    /// As people read it; nothing where there is none.
    pub(super) text: Option<String>,
    /// It is the best of its row.
    pub(super) best: bool,
}

impl Column<'_> {
    /// It is best at nothing.
    pub(super) fn is_unfit(&self) -> bool {
        self.failed || self.short.is_some()
    }

    /// What is said below its name.
    pub(super) fn mark(&self) -> String {
        let said = [self.baseline.then_some("baseline"), self.short];
        let said: Vec<&str> = said.into_iter().flatten().collect();
        said.join(", ")
    }
}

impl<'s> ComparisonTable<'s> {
    /// Of all variants of a run: those that fit into memory first, those that failed last.
    pub(super) fn of(summary: &'s Summary) -> Self {
        let variants: Vec<&Variant> = order(&summary.variants)
            .into_iter()
            .map(|index| &summary.variants[index])
            .collect();
        let baseline = summary.baseline.as_deref().unwrap_or_default();
        let of = OneKind {
            variants: &variants,
            waterfalls: &summary.waterfall,
            baseline,
        };
        let first = variants.first();
        let mut lines = first.map_or_else(Vec::new, |first| view(&first.job).lines(of));
        searched(&variants, &mut lines);
        let mut above = None;
        let rows = lines.into_iter().map(|line| {
            let heading = line.part.filter(|_| line.part != above);
            above = line.part;
            Row::of(line, heading)
        });
        ComparisonTable {
            rows: rows.collect(),
            marked: marked(&variants),
            columns: variants
                .into_iter()
                .map(|variant| Column {
                    variant,
                    baseline: variant.name == baseline,
                    short: match ended(variant) && !fits(variant) {
                        true => Some("does not fit"),
                        false => falls_short(variant).filter(|_| ended(variant)),
                    },
                    failed: !ended(variant),
                })
                .collect(),
        }
    }
}

impl Row {
    fn of(line: Line, heading: Option<Whole>) -> Row {
        let cells = line.cells.into_iter().enumerate();
        Row {
            what: line.what,
            heading: heading.map(Whole::heading),
            part: line.part,
            headline: line.headline,
            cells: cells
                .map(|(index, text)| Cell {
                    text,
                    best: line.best.contains(&index),
                })
                .collect(),
        }
    }
}

/// What the best of a row is best of; nothing if no variant can be.
fn marked(variants: &[&Variant]) -> Option<&'static str> {
    let any = |what: &dyn Fn(&Variant) -> bool| variants.iter().any(|variant| what(variant));
    if !any(&qualifies) {
        return None;
    }
    Some(
        match (
            any(&|v| v.metrics.fits.is_some()),
            any(&|v| falls_short(v).is_some()),
        ) {
            (true, _) => "the best of those compared that fit into memory",
            (false, true) => "the best of those compared that keep up and keep their SLO",
            (false, false) => "the best of those compared",
        },
    )
}

/// Adds what the layouts that were searched for are, and what their GPUs cost together.
fn searched(variants: &[&Variant], lines: &mut Vec<Line>) {
    if variants.iter().all(|variant| variant.search.is_none()) {
        return;
    }
    let table = Table { variants };
    let more = [
        Line::plain("layout", variants, |v| {
            let search = v.search.as_ref()?;
            Some(
                search
                    .layout_text
                    .clone()
                    .unwrap_or_else(|| "none".to_owned()),
            )
        }),
        Line::plain("searched, simulated", variants, |v| {
            let search = v.search.as_ref()?;
            Some(format!("{}, {}", search.searched, search.simulated))
        }),
        table.known("$ per hour, all GPUs", Better::Less, dollars, |v| {
            let hourly = v.metrics.usd_per_gpu_hour?;
            Some(hourly.map(|hourly| hourly * f64::from(v.gpus)))
        }),
    ];
    let at = lines.len().min(1);
    lines.splice(at..at, more);
}
