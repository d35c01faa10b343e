//! The steps as aligned text.

use super::MOST_COLUMNS;
use super::{Cell, CellState, Cost, Explanation, PICTURE, StepView};
use crate::numbers::{micros, size, trimmed};
use crate::text_table::{self, Out, left, right};
use anstyle::{AnsiColor, Style};

const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const NEW: Style = AnsiColor::Cyan.on_default().bold();
const DONE: Style = AnsiColor::Green.on_default();
const DONE_NEW: Style = AnsiColor::Green.on_default().bold();
const PARTIAL: Style = AnsiColor::Yellow.on_default();

fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour && !text.trim().is_empty() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// Explanations for a terminal: one after the other, and what they cost beside each other.
#[must_use]
pub fn explanations_text(explanations: &[Explanation], colour: bool) -> String {
    let mut out = String::new();
    for explanation in explanations {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &explanation_text(explanation, colour);
    }
    if explanations.len() > 1 {
        out += &side_by_side(explanations, colour);
    }
    out
}

/// What algorithms cost, the fastest first.
fn side_by_side(explanations: &[Explanation], colour: bool) -> String {
    let mut out = Out::new(colour);
    out.heading("Side by side");
    let mut sorted: Vec<&Explanation> = explanations.iter().collect();
    sorted.sort_by(|a, b| a.cost.simulated_us.total_cmp(&b.cost.simulated_us));
    let names = ["steps", "volume", "closed form", "counted", "simulated"];
    let columns = std::iter::once(left("algorithm")).chain(names.map(right));
    let rows = sorted.iter().map(|explanation| {
        let cost = &explanation.cost;
        let closed = cost.closed_form.as_ref();
        vec![
            text_table::cell(&explanation.algorithm),
            text_table::cell(cost.steps.to_string()),
            text_table::cell(format!("{} S", trimmed(cost.volume, 3))),
            text_table::cell(closed.map_or_else(|| "none".to_owned(), |f| micros(f.time_us))),
            text_table::cell(micros(cost.counted_us)),
            text_table::cell(micros(cost.simulated_us)),
        ]
    });
    out.table(&columns.collect::<Vec<_>>(), &rows.collect::<Vec<_>>());
    out.text
}

/// The whole explanation for a terminal.
fn explanation_text(explanation: &Explanation, colour: bool) -> String {
    let mut out = String::new();
    let heading = format!("{}: {}", explanation.title(), explanation.setting());
    line(&mut out, &paint(&heading, STRONG, colour));
    let cost = &explanation.cost;
    let machine = format!(
        "{}; (…) is passed on, not stored. Times: a message takes {} and a port moves {} GB/s.",
        explanation.key(),
        micros(cost.alpha_us),
        trimmed(cost.rate_gbs, 3)
    );
    line(&mut out, &paint(&machine, FAINT, colour));
    for text in explanation.lines() {
        line(&mut out, &text);
    }
    line(&mut out, "");
    line(
        &mut out,
        &paint("Step 0  each rank's own data", STRONG, colour),
    );
    let own = &explanation.own;
    let first: Vec<usize> = (0..own.columns.len().min(MOST_COLUMNS)).collect();
    let own_widths = widths(&own.columns, own.holds.iter());
    let table = Table {
        columns: &own.columns,
        shown: &first,
        widths: &own_widths,
        colour,
    };
    table.write(&mut out, &own.holds);
    let widths = widths(
        &explanation.columns,
        explanation
            .steps
            .iter()
            .flat_map(|s| &s.holds)
            .chain(&explanation.before),
    );
    let holds = |out: &mut String, rows: &[Vec<Cell>]| {
        let table = Table {
            columns: &explanation.columns,
            shown: &explanation.shown(rows),
            widths: &widths,
            colour,
        };
        table.write(out, rows);
    };
    if explanation.copied() {
        line(&mut out, "");
        line(&mut out, &paint("Before the first step", STRONG, colour));
        holds(&mut out, &explanation.before);
    }
    for step in &explanation.steps {
        line(&mut out, "");
        let name = paint(&format!("Step {}", step.step), STRONG, colour);
        let when = format!("  {} to {}", micros(step.begins_us), micros(step.ends_us));
        line(&mut out, &(name + &paint(&when, FAINT, colour)));
        messages(&mut out, explanation, step);
        line(&mut out, "");
        holds(&mut out, &step.holds);
    }
    if let Some(wrong) = &explanation.wrong {
        line(&mut out, "");
        let text = format!("Wrong: {wrong}");
        line(&mut out, &paint(&text, PARTIAL, colour));
    }
    line(&mut out, "");
    line(&mut out, &paint("Bytes", STRONG, colour));
    bytes(&mut out, explanation);
    line(&mut out, "");
    line(&mut out, &paint("Cost", STRONG, colour));
    costs(&mut out, cost);
    line(&mut out, &paint(&format!("  {PICTURE}"), FAINT, colour));
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn messages(out: &mut String, explanation: &Explanation, step: &StepView) {
    let rows: Vec<[String; 3]> = step
        .messages
        .iter()
        .map(|m| {
            [
                explanation.end(m.from, m.switch),
                explanation.end(m.to, m.switch),
                size(m.bytes as f64),
            ]
        })
        .collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].len());
        lengths.max().unwrap_or(0)
    };
    let (ends, bytes) = (width(0).max(width(1)), width(2));
    for (message, [from, to, size]) in step.messages.iter().zip(&rows) {
        let remark = Explanation::remark(message).map_or_else(String::new, |r| format!("  ({r})"));
        let data = &message.data;
        line(
            out,
            &format!("  {from:>ends$} → {to:<ends$}  {size:>bytes$}  {data}{remark}"),
        );
    }
}

/// The width of each column, over all tables: they do not jump.
fn widths<'a>(columns: &[String], rows: impl Iterator<Item = &'a Vec<Cell>>) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.chars().count());
        }
    }
    widths
}

/// What ranks hold, in some of the columns.
struct Table<'a> {
    columns: &'a [String],
    shown: &'a [usize],
    widths: &'a [usize],
    colour: bool,
}

impl Table<'_> {
    fn write(&self, out: &mut String, rows: &[Vec<Cell>]) {
        let label = format!("rank {}", rows.len().saturating_sub(1)).len();
        let mut header = format!("  {:<label$}", "");
        for &column in self.shown {
            let (name, width) = (&self.columns[column], self.widths[column]);
            header += &format!("  {name:<width$}");
        }
        let more = self.columns.len() - self.shown.len();
        if more > 0 {
            header += &format!("  (and {more} more)");
        }
        line(out, &paint(header.trim_end(), FAINT, self.colour));
        for (rank, row) in rows.iter().enumerate() {
            let mut text = format!("  {:<label$}", format!("rank {rank}"));
            for &column in self.shown {
                let (cell, width) = (&row[column], self.widths[column]);
                let padded = match cell.state {
                    CellState::Empty => format!("{:<width$}", "·"),
                    _ => format!("{:<width$}", cell.text),
                };
                text += "  ";
                text += &paint(&padded, style(cell), self.colour);
            }
            line(out, &text);
        }
    }
}

fn style(cell: &Cell) -> Style {
    match (cell.state, cell.new) {
        (CellState::Empty | CellState::Absent, _) => FAINT,
        (CellState::Own, false) => Style::new(),
        (CellState::Done, true) => DONE_NEW,
        (CellState::Done, false) => DONE,
        (_, true) => NEW,
        (_, false) => PARTIAL,
    }
}

fn bytes(out: &mut String, explanation: &Explanation) {
    let (sent, received) = (&explanation.sent, &explanation.received);
    let all_alike = |values: &[u64]| values.windows(2).all(|w| w[0] == w[1]);
    let text = |bytes: u64| size(bytes as f64);
    if let (true, true, [first, ..], [into, ..]) = (
        all_alike(sent),
        all_alike(received),
        sent.as_slice(),
        received.as_slice(),
    ) {
        let words = format!(
            "  every rank sends {} and receives {}",
            text(*first),
            text(*into)
        );
        line(out, &words);
        return;
    }
    let label = format!("rank {}", explanation.ranks.saturating_sub(1)).len();
    for (rank, (&sent, &received)) in sent.iter().zip(received).enumerate() {
        let name = format!("rank {rank}");
        let (sent, received) = (text(sent), text(received));
        line(
            out,
            &format!("  {name:<label$}  sends {sent:>9}, receives {received:>9}"),
        );
    }
}

fn costs(out: &mut String, cost: &Cost) {
    let mut rows = vec![(
        "counted",
        format!("{} α + {} S/B", cost.steps, trimmed(cost.volume, 3)),
        cost.counted_us,
    )];
    if let Some(form) = &cost.closed_form {
        let here = format!(
            "{} = {} α + {} S/B",
            form.formula,
            trimmed(form.steps, 3),
            trimmed(form.volume, 3)
        );
        rows.push(("closed form", here, form.time_us));
    }
    rows.push(("simulated", String::new(), cost.simulated_us));
    let width = rows.iter().map(|r| r.1.chars().count()).max().unwrap_or(0);
    for (name, form, time) in rows {
        let time = micros(time);
        line(out, &format!("  {name:<11}  {form:<width$}  {time:>8}"));
    }
    line(out, &format!("  {}", cost.overlap()));
}
