//! The steps as aligned text.

use super::{Cell, CellState, Cost, Explanation, StepView, party};
use crate::report::numbers::{micros, size, trimmed};
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

/// The whole explanation for a terminal.
#[must_use]
pub fn explanation_text(explanation: &Explanation, colour: bool) -> String {
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
    let widths = widths(explanation);
    if explanation.before.iter().flatten().any(|cell| cell.new) {
        line(&mut out, "");
        line(&mut out, &paint("Before the first step", STRONG, colour));
        holds(&mut out, explanation, &explanation.before, &widths, colour);
    }
    for step in &explanation.steps {
        line(&mut out, "");
        let name = paint(&format!("Step {}", step.step), STRONG, colour);
        let when = format!("  {} to {}", micros(step.begins_us), micros(step.ends_us));
        line(&mut out, &(name + &paint(&when, FAINT, colour)));
        messages(&mut out, step);
        line(&mut out, "");
        holds(&mut out, explanation, &step.holds, &widths, colour);
    }
    line(&mut out, "");
    line(&mut out, &paint("Bytes", STRONG, colour));
    bytes(&mut out, explanation);
    line(&mut out, "");
    line(&mut out, &paint("Cost", STRONG, colour));
    costs(&mut out, cost);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn messages(out: &mut String, step: &StepView) {
    let ends = step.messages.iter().flat_map(|m| [m.from, m.to]);
    let rank = ends.map(|e| party(e).len()).max().unwrap_or(1);
    let sizes: Vec<String> = step.messages.iter().map(|m| size(m.bytes as f64)).collect();
    let width = sizes.iter().map(String::len).max().unwrap_or(0);
    for (message, bytes) in step.messages.iter().zip(&sizes) {
        let (from, to, data) = (party(message.from), party(message.to), &message.data);
        line(
            out,
            &format!("  {from:>rank$} → {to:<rank$}  {bytes:>width$}  {data}"),
        );
    }
}

/// The width of each column, over all steps: tables do not jump.
fn widths(explanation: &Explanation) -> Vec<usize> {
    let mut widths: Vec<usize> = explanation
        .columns
        .iter()
        .map(|name| name.chars().count())
        .collect();
    let tables = explanation.steps.iter().map(|s| &s.holds);
    for row in tables.chain([&explanation.before]).flatten() {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.chars().count());
        }
    }
    widths
}

fn holds(
    out: &mut String,
    explanation: &Explanation,
    rows: &[Vec<Cell>],
    widths: &[usize],
    colour: bool,
) {
    let label = format!("rank {}", explanation.ranks.saturating_sub(1)).len();
    let mut header = format!("  {:<label$}", "");
    for (name, &width) in explanation.columns.iter().zip(widths) {
        header += &format!("  {name:<width$}");
    }
    line(out, &paint(header.trim_end(), FAINT, colour));
    for (rank, row) in rows.iter().enumerate() {
        let mut text = format!("  {:<label$}", format!("rank {rank}"));
        for (cell, &width) in row.iter().zip(widths) {
            let padded = match cell.state {
                CellState::Empty => format!("{:<width$}", "·"),
                _ => format!("{:<width$}", cell.text),
            };
            let style = match (cell.state, cell.new) {
                (CellState::Empty | CellState::Absent, _) => FAINT,
                (CellState::Done, true) => DONE_NEW,
                (CellState::Done, false) => DONE,
                (_, true) => NEW,
                (_, false) => PARTIAL,
            };
            text += "  ";
            text += &paint(&padded, style, colour);
        }
        line(out, &text);
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
}
