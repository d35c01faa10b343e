//! The steps as a page: a drawing and a table for each.

use super::{Cell, CellState, Explanation, Message, StepView, party};
use crate::report::html::page;
use crate::report::numbers::{micros, size, trimmed};
use maud::{Markup, PreEscaped, html};
use std::f64::consts::TAU;

const STYLE: &str = include_str!("explanation.css");

/// Ranks that a drawing can hold.
const MOST_DRAWN: u32 = 40;
/// Half of the drawing's side, and the circle of ranks in it.
const HALF: f64 = 150.0;
const RADIUS: f64 = 118.0;

/// The whole explanation as a page that needs no other file.
#[must_use]
pub fn explanation_page(explanation: &Explanation) -> String {
    let cost = &explanation.cost;
    let body = html! {
        style { (PreEscaped(STYLE)) }
        header {
            h1 { (explanation.title()) }
            p { (explanation.setting()) " · " (explanation.key()) "; (…) is passed on, not stored" }
        }
        section.answer {
            div.tiles {
                (tile("steps", &cost.steps.to_string(), "each costs a message's latency α"))
                (tile("volume", &format!("{} S", trimmed(cost.volume, 3)), "through the busiest port, step by step"))
                (tile("counted", &micros(cost.counted_us), &format!("α = {}, B = {} GB/s", micros(cost.alpha_us), trimmed(cost.rate_gbs, 3))))
                @if let Some(form) = &cost.closed_form { (tile("closed form", &micros(form.time_us), &form.formula)) }
                (tile("simulated", &micros(cost.simulated_us), "steps overlap where they can"))
            }
        }
        @if explanation.before.iter().flatten().any(|cell| cell.new) {
            section {
                h2 { "Before the first step" }
                (holds(explanation, &explanation.before))
            }
        }
        @for step in &explanation.steps { (step_section(explanation, step)) }
        section {
            h2 { "Bytes" }
            table.messages {
                thead { tr { th { "rank" } th.number { "sent" } th.number { "received" } } }
                tbody {
                    @for (rank, (sent, received)) in explanation.sent.iter().zip(&explanation.received).enumerate() {
                        tr { td { (rank) } td.number { (size(*sent as f64)) } td.number { (size(*received as f64)) } }
                    }
                }
            }
        }
        footer { "fabricsim " (explanation.version) }
    };
    page(&explanation.title(), &body, &[])
}

fn tile(name: &str, value: &str, note: &str) -> Markup {
    html! { div.tile { span.name { (name) } span.value { (value) } span.note { (note) } } }
}

fn step_section(explanation: &Explanation, step: &StepView) -> Markup {
    html! {
        section {
            h2 {
                "Step " (step.step)
                span.aside { (micros(step.begins_us)) " to " (micros(step.ends_us)) }
            }
            div.step {
                @if explanation.ranks <= MOST_DRAWN { (drawing(explanation.ranks, &step.messages)) }
                div.scroll {
                    table.messages {
                        thead { tr { th { "from" } th { "to" } th.number { "bytes" } th { "data" } } }
                        tbody {
                            @for message in &step.messages {
                                tr {
                                    td { (party(message.from)) } td { (party(message.to)) }
                                    td.number { (size(message.bytes as f64)) } td { (message.data) }
                                }
                            }
                        }
                    }
                    (holds(explanation, &step.holds))
                }
            }
        }
    }
}

fn holds(explanation: &Explanation, rows: &[Vec<Cell>]) -> Markup {
    html! {
        table.holds {
            thead { tr { th { "rank" } @for name in &explanation.columns { th { (name) } } } }
            tbody {
                @for (rank, row) in rows.iter().enumerate() {
                    tr { th { (rank) } @for cell in row { (table_cell(cell)) } }
                }
            }
        }
    }
}

fn table_cell(cell: &Cell) -> Markup {
    let state = match cell.state {
        CellState::Absent => "absent",
        CellState::Empty => "empty",
        CellState::Partial => "partial",
        CellState::Passing => "passing",
        CellState::Done => "done",
    };
    let class = if cell.new {
        format!("{state} new")
    } else {
        state.to_owned()
    };
    html! {
        td class=(class) {
            @if cell.state == CellState::Empty { "·" } @else { (cell.text) }
        }
    }
}

/// Ranks on a circle, and an arrow for each pair that talks.
fn drawing(ranks: u32, messages: &[Message]) -> Markup {
    let place = |rank: Option<u32>| {
        // Switches are in the middle.
        let Some(rank) = rank else {
            return (0.0, 0.0);
        };
        let angle = TAU * f64::from(rank) / f64::from(ranks) - TAU / 4.0;
        (RADIUS * angle.cos(), RADIUS * angle.sin())
    };
    let size = (RADIUS * TAU / f64::from(ranks.max(1)) * 0.35).clamp(7.0, 18.0);
    let mut pairs: Vec<(Option<u32>, Option<u32>)> =
        messages.iter().map(|m| (m.from, m.to)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    html! {
        svg.ring viewBox=(format!("{} {} {} {}", -HALF, -HALF, 2.0 * HALF, 2.0 * HALF)) role="img" aria-label="Who sends to whom" {
            @for (from, to) in pairs { (arrow(place(from), place(to), size)) }
            @if messages.iter().any(|m| m.from.is_none() || m.to.is_none()) {
                circle cx="0" cy="0" r=(number(size)) {}
                text x="0" y="0" { "sw" }
            }
            @for rank in 0..ranks {
                @let (x, y) = place(Some(rank));
                circle cx=(number(x)) cy=(number(y)) r=(number(size)) {}
                text x=(number(x)) y=(number(y)) { (rank) }
            }
        }
    }
}

/// A bent arrow: the two directions of a pair stay apart.
fn arrow(from: (f64, f64), to: (f64, f64), size: f64) -> Markup {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1e-9);
    let (ux, uy) = (dx / length, dy / length);
    let bend = length * 0.10;
    let middle = (
        f64::midpoint(from.0, to.0) - uy * bend,
        f64::midpoint(from.1, to.1) + ux * bend,
    );
    // Both ends stay outside the circles, along the bent line.
    let towards = |end: (f64, f64), by: f64| {
        let (dx, dy) = (middle.0 - end.0, middle.1 - end.1);
        let length = dx.hypot(dy).max(1e-9);
        (end.0 + dx / length * by, end.1 + dy / length * by)
    };
    let (begin, tip, neck) = (
        towards(from, size + 1.0),
        towards(to, size + 1.0),
        towards(to, size + 9.0),
    );
    let (hx, hy) = (tip.0 - neck.0, tip.1 - neck.1);
    let line = format!(
        "M{} {}Q{} {} {} {}",
        number(begin.0),
        number(begin.1),
        number(middle.0),
        number(middle.1),
        number(neck.0),
        number(neck.1)
    );
    let head = format!(
        "M{} {}L{} {}L{} {}Z",
        number(tip.0),
        number(tip.1),
        number(neck.0 - hy * 0.45),
        number(neck.1 + hx * 0.45),
        number(neck.0 + hy * 0.45),
        number(neck.1 - hx * 0.45)
    );
    html! { path.arrow d=(line) {} path.head d=(head) {} }
}

fn number(value: f64) -> String {
    trimmed(value, 1)
}
