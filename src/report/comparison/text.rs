//! A run's results for a terminal.

use super::collectives;
use super::job_view::view;
use super::table::{Cell, ComparisonTable, Row as TableRow};
use crate::numbers::{micros, size};
use crate::record::Row;
use crate::summary::{Summary, Variant};
use crate::table::{HEADER, STRONG, attribution_table, links_table, table_footer, table_left_out};
use crate::text_table::{BEST, ERROR, Out, WARNING, cell, left, right, styled};
use crate::training::{described, effort, ran, unsaid};

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
        [one] => {
            for line in described(one) {
                out.line(&format!("# {line}"), HEADER);
            }
            view(&one.job).text(summary, one, &mut out);
        }
        _ => compared(summary, width.unwrap_or(MOST_WIDTH), &mut out),
    }
    for warning in &summary.warnings {
        out.line(&format!("# warning: {warning}"), WARNING);
    }
    out.text
}

fn compared(summary: &Summary, width: usize, out: &mut Out) {
    let table = ComparisonTable::of(summary);
    let variants: Vec<&Variant> = table.columns.iter().map(|c| c.variant).collect();
    for variant in &variants {
        let lines = described(variant);
        out.line(&format!("# {}: {}", variant.name, lines.join("; ")), HEADER);
        if let Some(result) = ran(variant) {
            let text = effort(variant, result);
            out.line(&format!("#   {text}"), HEADER);
        }
    }
    let headings = table.rows.iter().filter_map(|row| row.heading);
    let names = table.rows.iter().map(shown_name);
    let names = names.chain(headings.map(str::to_owned));
    let names = names.map(|name| name.chars().count());
    let names = names.max().unwrap_or(0);
    let mut first = 0;
    while first < variants.len() {
        let fitting = fitting(&table, first, width.saturating_sub(names + 2));
        out.text.push('\n');
        columns_of(&table, first..first + fitting, out);
        first += fitting;
    }
    if let Some(what) = table.marked {
        let mark = out.paint("*", BEST);
        let text = out.paint(&format!(" {what}"), HEADER);
        out.plain(&format!("  {mark}{text}"));
    }
    sizes(&variants, out);
    let choices = collectives::better_choices(variants.iter().copied());
    if !choices.is_empty() {
        out.text.push('\n');
    }
    for choice in choices {
        out.line(&choice, WARNING);
    }
    out.text.push('\n');
    for variant in &variants {
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

fn shown_name(row: &TableRow) -> String {
    let indent = if row.part.is_some() { "  " } else { "" };
    format!("{indent}{}", row.what)
}

/// How many variants from `first` on fit into `width`; at least one.
fn fitting(table: &ComparisonTable<'_>, first: usize, width: usize) -> usize {
    let mut used = 0;
    let fits = |column: &usize| {
        let cells = table
            .rows
            .iter()
            .filter_map(|row| row.cells[*column].text.as_ref());
        let widest = cells
            .map(|text| text.chars().count() + 1)
            .max()
            .unwrap_or(0);
        let shown = &table.columns[*column];
        let mark = shown.mark().chars().count();
        used += widest.max(shown.variant.name.chars().count()).max(mark) + 2;
        used <= width
    };
    (first..table.columns.len()).take_while(fits).count().max(1)
}

/// The table of some of the variants; a `*` behind the best.
fn columns_of(table: &ComparisonTable<'_>, shown: std::ops::Range<usize>, out: &mut Out) {
    let mut columns = vec![left("")];
    columns.extend(shown.clone().map(|_| right("")));
    let mut heading = vec![cell("")];
    let of = &table.columns[shown.clone()];
    // As wide as a mark more, so that names stand over numbers.
    heading.extend(
        of.iter()
            .map(|c| styled(format!("{} ", c.variant.name), STRONG)),
    );
    let mut rows = vec![heading];
    if of.iter().any(|column| !column.mark().is_empty()) {
        let mut row = vec![cell("")];
        row.extend(of.iter().map(|column| {
            let style = if column.short.is_some() {
                ERROR
            } else {
                HEADER
            };
            styled(format!("{} ", column.mark()), style)
        }));
        rows.push(row);
    }
    for line in &table.rows {
        if let Some(heading) = line.heading {
            rows.push(vec![cell(heading)]);
        }
        let mut row = vec![cell(shown_name(line))];
        row.extend(shown.clone().map(|column| {
            let Cell { text, best } = &line.cells[column];
            match text {
                Some(text) if *best => styled(format!("{text}*"), BEST),
                Some(text) => cell(format!("{text} ")),
                None if table.columns[column].failed && line.headline => styled("failed ", ERROR),
                None => cell("– "),
            }
        }));
        rows.push(row);
    }
    out.table(&columns, &rows);
}
