//! The steps as a page: a drawing and a table for each.

use super::{Cell, CellState, Explanation, MOST_COLUMNS, Message, PICTURE, StepView, Switch};
use crate::html::page;
use crate::numbers::{micros, size, trimmed};
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
            @for line in explanation.lines() { p.how { (line) } }
        }
        section.answer {
            div.tiles {
                (tile("steps", &cost.steps.to_string(), "each costs a message's latency α"))
                (tile("volume", &format!("{} S", trimmed(cost.volume, 3)), "through the busiest port, step by step"))
                (tile("counted", &micros(cost.counted_us), &format!("α = {}, B = {} GB/s", micros(cost.alpha_us), trimmed(cost.rate_gbs, 3))))
                @if let Some(form) = &cost.closed_form { (tile("closed form", &micros(form.time_us), &form.formula)) }
                (tile("simulated", &micros(cost.simulated_us), "steps overlap where they can"))
            }
            p.how { (PICTURE) }
        }
        section {
            h2 { "Step 0" span.aside { "each rank's own data" } }
            div.scroll { (own(explanation)) }
        }
        @if explanation.copied() {
            section {
                h2 { "Before the first step" }
                div.scroll { (holds(explanation, &explanation.before)) }
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
                @if explanation.ranks <= MOST_DRAWN { (drawing(explanation, &step.messages)) }
                div.scroll {
                    table.messages {
                        thead { tr { th { "from" } th { "to" } th.number { "bytes" } th { "data" } } }
                        tbody {
                            @for message in &step.messages {
                                tr {
                                    td { (explanation.end(message.from, message.switch)) } td { (explanation.end(message.to, message.switch)) }
                                    td.number { (size(message.bytes as f64)) } td {
                                        (message.data)
                                        @if let Some(remark) = Explanation::remark(message) { " (" (remark) ")" }
                                    }
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

fn own(explanation: &Explanation) -> Markup {
    let own = &explanation.own;
    let first: Vec<usize> = (0..own.columns.len().min(MOST_COLUMNS)).collect();
    table(&own.columns, &first, &own.holds)
}

fn holds(explanation: &Explanation, rows: &[Vec<Cell>]) -> Markup {
    table(&explanation.columns, &explanation.shown(rows), rows)
}

/// What ranks hold, in some of the columns.
fn table(columns: &[String], shown: &[usize], rows: &[Vec<Cell>]) -> Markup {
    let more = columns.len() - shown.len();
    html! {
        table.holds {
            thead {
                tr {
                    th { "rank" }
                    @for &column in shown { th { (columns[column]) } }
                    @if more > 0 { th { "and " (more) " more" } }
                }
            }
            tbody {
                @for (rank, row) in rows.iter().enumerate() {
                    tr { th { (rank) } @for &column in shown { (table_cell(&row[column])) } }
                }
            }
        }
    }
}

fn table_cell(cell: &Cell) -> Markup {
    let state = match cell.state {
        CellState::Absent => "absent",
        CellState::Empty => "empty",
        CellState::Own => "own",
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

/// An end of an arrow: a rank, or switches.
type End = (Option<u32>, Option<Switch>);

/// Ranks on a circle, and an arrow for each pair that talks.
fn drawing(explanation: &Explanation, messages: &[Message]) -> Markup {
    let ranks = explanation.ranks;
    let local = f64::from(ranks / explanation.nodes.max(1));
    let on = |radius: f64, index: f64| {
        let angle = TAU * index / f64::from(ranks) - TAU / 4.0;
        (radius * angle.cos(), radius * angle.sin())
    };
    let place = |(rank, switch): End| match (rank, switch) {
        (Some(rank), _) => on(RADIUS, f64::from(rank)),
        // Amid the ranks of their node.
        (None, Some(Switch::Node(node))) if explanation.nodes > 1 => {
            on(RADIUS * 0.55, f64::from(node) * local + (local - 1.0) / 2.0)
        }
        (None, _) => (0.0, 0.0),
    };
    let size = (RADIUS * TAU / f64::from(ranks.max(1)) * 0.35).clamp(7.0, 18.0);
    let ends = |m: &Message| {
        let end = |rank: Option<u32>| (rank, m.switch.filter(|_| rank.is_none()));
        (end(m.from), end(m.to))
    };
    let mut pairs: Vec<(End, End)> = messages.iter().map(ends).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut switches: Vec<End> = pairs.iter().flat_map(|p| [p.0, p.1]).collect();
    switches.retain(|end| end.0.is_none());
    switches.sort_unstable();
    switches.dedup();
    html! {
        svg.ring viewBox=(format!("{} {} {} {}", -HALF, -HALF, 2.0 * HALF, 2.0 * HALF)) role="img" aria-label="Who sends to whom" {
            @for (from, to) in pairs { (arrow(place(from), place(to), size)) }
            @for end in switches {
                @let (x, y) = place(end);
                circle cx=(number(x)) cy=(number(y)) r=(number(size)) {}
                text x=(number(x)) y=(number(y)) { "sw" }
            }
            @for rank in 0..ranks {
                @let (x, y) = on(RADIUS, f64::from(rank));
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
