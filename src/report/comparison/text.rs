//! A run's results for a terminal.

use super::collectives;
use crate::Waterfall;
use crate::calls;
use crate::communicator;
use crate::concurrent;
use crate::lines::{Line, Whole, ended, fits, order};
use crate::numbers::{micros, size};
use crate::record::Row;
use crate::serving;
use crate::summary::{JobResult, Summary, Variant};
use crate::table::{HEADER, STRONG, attribution_table, links_table, table_footer, table_left_out};
use crate::text_table::{BEST, ERROR, Out, WARNING, cell, left, right, styled};
use crate::training::{self, alone, described, effort, ran, unsaid};
use anstyle::Style;

/// Of a comparison: characters of a line, beyond which variants get a table further down, where
/// nothing says how wide lines are.
const MOST_WIDTH: usize = 120;

/// Links that a table shows.
const LINKS_SHOWN: usize = 8;

/// A run's results for a terminal: of one collective what stands below its rows, of other runs all.
#[must_use]
pub fn summary_text(summary: &Summary, width: Option<usize>, colour: bool) -> String {
    let Some(view) = summary.only_collective() else {
        return variants_text(summary, width, colour);
    };
    let mut text = table_footer(view, colour);
    text += &table_left_out(view, width, "summary.json and --json have all", colour);
    if let Some(attribution) = &view.result.attribution {
        text.push('\n');
        text += &attribution_table(attribution, colour);
    }
    if !view.result.links.is_empty() {
        text += "\nThe busiest links\n";
        text += &links_table(&view.result.links, LINKS_SHOWN, colour);
    }
    text
}

/// What a person wants to know of a run first: for one training job its speed, where the time went,
/// communications, memory and whom others waited for; for several variants a comparison, whose
/// tables are at most `width` characters wide. Lines that start with `#` say what was run.
#[must_use]
pub fn variants_text(summary: &Summary, width: Option<usize>, colour: bool) -> String {
    let mut out = Out::new(colour);
    let run = format!("# fabricsim {}, seed {}", summary.version, summary.seed);
    out.line(&run, HEADER);
    if !summary.title.is_empty() {
        out.line(&format!("# {}", summary.title), HEADER);
    }
    match summary.variants.as_slice() {
        [one] => alone(summary, one, &mut out),
        several => {
            let shown = order(several).into_iter();
            let shown: Vec<&Variant> = shown.map(|index| &several[index]).collect();
            compared(summary, &shown, width.unwrap_or(MOST_WIDTH), &mut out);
        }
    }
    for warning in &summary.warnings {
        out.line(&format!("# warning: {warning}"), WARNING);
    }
    out.text
}

fn compared(summary: &Summary, variants: &[&Variant], width: usize, out: &mut Out) {
    for variant in variants {
        let lines = described(variant);
        out.line(&format!("# {}: {}", variant.name, lines.join("; ")), HEADER);
        if let Some(result) = ran(variant) {
            let text = effort(variant, result);
            out.line(&format!("#   {text}"), HEADER);
        }
    }
    let baseline = summary.baseline.as_deref().unwrap_or_default();
    let lines = lines_of(variants, &summary.waterfall, baseline);
    let headings = lines
        .iter()
        .filter_map(|line| line.part)
        .map(Whole::heading);
    let names = lines.iter().map(shown_name);
    let names = names.chain(headings.map(str::to_owned));
    let names = names.map(|name| name.chars().count());
    let names = names.max().unwrap_or(0);
    let mut first = 0;
    while first < variants.len() {
        let fitting = fitting(variants, &lines, first, width.saturating_sub(names + 2));
        out.text.push('\n');
        columns_of((variants, baseline), &lines, first..first + fitting, out);
        first += fitting;
    }
    if variants.iter().any(|variant| fits(variant)) {
        let mark = out.paint("*", BEST);
        let memory = variants
            .iter()
            .any(|variant| variant.metrics.fits.is_some());
        let text = match memory {
            true => " the best of those compared that fit into memory",
            false => " the best of those compared",
        };
        let text = out.paint(text, HEADER);
        out.plain(&format!("  {mark}{text}"));
    }
    sizes(variants, out);
    let choices = collectives::better_choices(variants.iter().copied());
    if !choices.is_empty() {
        out.text.push('\n');
    }
    for choice in choices {
        out.line(&choice, WARNING);
    }
    out.text.push('\n');
    for variant in variants {
        if let Some(error) = variant.job.failure() {
            out.line(&format!("{} failed: {error}", variant.name), ERROR);
        }
        if let Some(text) = unsaid(summary, variant) {
            out.plain(&text);
        }
    }
    if !summary.answer.is_empty() {
        out.line(&summary.answer, STRONG);
    }
}

/// The lines that variants of one kind of job are compared by.
pub(super) fn lines_of(
    variants: &[&Variant],
    waterfalls: &[Waterfall],
    baseline: &str,
) -> Vec<Line> {
    match variants.first().map(|variant| &variant.job) {
        Some(JobResult::Collective(_)) => collectives::lines(variants, waterfalls, baseline),
        Some(JobResult::Concurrent(_)) => concurrent::lines(variants),
        Some(JobResult::Serving(_)) => serving::lines(variants),
        Some(JobResult::Communicator(_)) => communicator::lines(variants),
        Some(JobResult::Calls(_)) => calls::lines(variants),
        _ => training::lines(variants, waterfalls, baseline),
    }
}

/// Times of collectives at all sizes, if there are several; the least of each is marked.
fn sizes(variants: &[&Variant], out: &mut Out) {
    let rows = collectives::by_size(variants);
    if rows.len() < 2 {
        return;
    }
    out.heading("Time by size");
    let mut columns = vec![right("")];
    columns.extend(variants.iter().map(|_| right("")));
    let mut heading = vec![cell("size")];
    heading.extend(
        variants
            .iter()
            .map(|v| styled(format!("{} ", v.name), STRONG)),
    );
    let mut table = vec![heading];
    for (bytes, found) in rows {
        let text = |row: &Row| micros(row.time_us);
        let times = found.iter().flatten().map(|row| row.time_us);
        let least = times.fold(f64::INFINITY, f64::min);
        let mut line = vec![cell(size(bytes.get() as f64))];
        line.extend(found.iter().map(|row| match row {
            Some(row) if text(row) == micros(least) => styled(format!("{}*", text(row)), BEST),
            Some(row) => cell(format!("{} ", text(row))),
            None => cell("– "),
        }));
        table.push(line);
    }
    out.table(&columns, &table);
}

fn shown_name(line: &Line) -> String {
    let indent = if line.part.is_some() { "  " } else { "" };
    format!("{indent}{}", line.what)
}

/// How many variants from `first` on fit into `width`; at least one.
fn fitting(variants: &[&Variant], lines: &[Line], first: usize, width: usize) -> usize {
    let mut used = 0;
    let fits = |variant: &usize| {
        let cells = lines
            .iter()
            .filter_map(|line| line.cells[*variant].as_ref());
        let widest = cells
            .map(|text| text.chars().count() + 1)
            .max()
            .unwrap_or(0);
        let (mark, _) = mark(variants[*variant], &variants[*variant].name);
        let mark = mark.chars().count();
        used += widest
            .max(variants[*variant].name.chars().count())
            .max(mark)
            + 2;
        used <= width
    };
    (first..variants.len()).take_while(fits).count().max(1)
}

/// What is said of a variant below its name.
fn mark(variant: &Variant, baseline: &str) -> (&'static str, Style) {
    match (ended(variant), fits(variant)) {
        (true, false) if variant.name == baseline => ("baseline, does not fit", ERROR),
        (true, false) => ("does not fit", ERROR),
        (true, true) if variant.name == baseline => ("baseline", HEADER),
        _ => ("", HEADER),
    }
}

/// The table of some of the variants; a `*` behind the best.
fn columns_of(
    (variants, baseline): (&[&Variant], &str),
    lines: &[Line],
    shown: std::ops::Range<usize>,
    out: &mut Out,
) {
    let mut columns = vec![left("")];
    columns.extend(shown.clone().map(|_| right("")));
    let mut heading = vec![cell("")];
    // As wide as a mark more, so that names stand over numbers.
    heading.extend(shown.clone().map(|v| {
        let name = &variants[v].name;
        styled(format!("{name} "), STRONG)
    }));
    let mut rows = vec![heading];
    let marks = shown.clone().map(|v| mark(variants[v], baseline));
    if marks.clone().any(|(text, _)| !text.is_empty()) {
        let mut row = vec![cell("")];
        row.extend(marks.map(|(text, style)| styled(format!("{text} "), style)));
        rows.push(row);
    }
    for (index, line) in lines.iter().enumerate() {
        if let Some(whole) = line.part
            && lines[index.saturating_sub(1)].part != line.part
        {
            rows.push(vec![cell(whole.heading())]);
        }
        let mut row = vec![cell(shown_name(line))];
        row.extend(shown.clone().map(|variant| {
            let failed = !ended(variants[variant]);
            match &line.cells[variant] {
                Some(text) if line.best.contains(&variant) => styled(format!("{text}*"), BEST),
                Some(text) => cell(format!("{text} ")),
                None if failed && line.headline => styled("failed ", ERROR),
                None => cell("– "),
            }
        }));
        rows.push(row);
    }
    out.table(&columns, &rows);
}
