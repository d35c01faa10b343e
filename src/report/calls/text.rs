//! What came of calls, as text and lines of a comparison.

use super::record::{CallsResult, DoneCall, Hang};
use crate::lines::{Better, Line, Table};
use crate::numbers::{seconds, size};
use crate::summary::{Summary, Variant};
use crate::table::STRONG;
use crate::text_table::{Cell, ERROR, Out, WARNING, cell, left, right};

/// Operations that are listed.
const MOST_ROWS: usize = 20;

/// The columns of the tables, and their rows.
pub(crate) const DONE: [&str; 5] = ["call", "on", "size", "all have come", "over"];
pub(crate) const WAITS: [&str; 6] = ["ranks", "are in", "since", "started", "over", "wait for"];
pub(crate) const SAID: [&str; 3] = ["after", "who", "says"];

pub(crate) fn done_row(done: &DoneCall) -> [String; 5] {
    [
        done.call.clone(),
        done.on.clone(),
        size(done.bytes as f64),
        seconds(done.began_us / 1e6),
        seconds(done.ended_us / 1e6),
    ]
}

pub(crate) fn wait_rows(hang: &Hang) -> impl Iterator<Item = [String; 6]> + '_ {
    hang.waits.iter().map(|wait| {
        [
            wait.ranks.clone(),
            wait.inside.clone(),
            seconds(wait.since_us / 1e6),
            wait.enqueued.to_string(),
            wait.completed.to_string(),
            wait.waits_for.clone(),
        ]
    })
}

pub(crate) fn said_rows(hang: &Hang) -> impl Iterator<Item = [String; 3]> + '_ {
    hang.said
        .iter()
        .map(|said| [after(said.at_us), said.who.clone(), said.says.clone()])
}

/// Seconds to the tenth, as a watchdog looks.
fn after(micros: f64) -> String {
    if micros < 1e6 {
        return seconds(micros / 1e6);
    }
    format!("{:.1} s", micros / 1e6)
}

/// What a person wants to know of it.
pub(crate) fn calls_text(summary: &Summary, result: &CallsResult, out: &mut Out) {
    out.text.push('\n');
    let style = if result.failed.is_some() {
        ERROR
    } else {
        STRONG
    };
    if !summary.answer.is_empty() {
        out.line(&summary.answer, style);
    }
    for note in &result.notes {
        out.line(note, WARNING);
    }
    let cells = |row: &[String]| -> Vec<Cell> { row.iter().cloned().map(cell).collect() };
    if !result.done.is_empty() {
        out.heading("What came to its end");
        let columns = [
            left(DONE[0]),
            left(DONE[1]),
            right(DONE[2]),
            right(DONE[3]),
            right(DONE[4]),
        ];
        let rows: Vec<Vec<Cell>> = result
            .done
            .iter()
            .take(MOST_ROWS)
            .map(|done| cells(&done_row(done)))
            .collect();
        out.table(&columns, &rows);
        let more = result.done.len().saturating_sub(MOST_ROWS);
        if more > 0 {
            out.plain(&format!("  and {more} more"));
        }
    }
    if let Some(hang) = &result.hang {
        out.heading("Who waits for whom");
        let columns = [
            left(WAITS[0]),
            left(WAITS[1]),
            right(WAITS[2]),
            right(WAITS[3]),
            right(WAITS[4]),
            left(WAITS[5]),
        ];
        let rows: Vec<Vec<Cell>> = wait_rows(hang).map(|row| cells(&row)).collect();
        out.table(&columns, &rows);
        out.heading("What is said, and when");
        for [at, who, says] in said_rows(hang) {
            out.plain(&format!("  {at:>8}  {who}"));
            out.plain(&format!("            {says}"));
        }
    }
}

/// What variants are compared by.
pub(crate) fn lines(variants: &[&Variant]) -> Vec<Line> {
    let table = Table { variants };
    let end = |variant: &Variant| {
        let result = variant.job.calls()?;
        result.failed.is_none().then_some(result.ended_us)
    };
    vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        table
            .line(
                "end of all",
                Better::Less,
                |micros| seconds(micros / 1e6),
                end,
            )
            .headline(),
    ]
}
