//! One set's curves as a small drawing: time over size, both logarithmic.

use super::{ValidatedRow, ValidatedSet, choice, signed};
use crate::chart::Axis;
use crate::numbers::{micros, micros_mark, size, trimmed};
use maud::{Markup, html};

/// Width and height of the drawing.
pub(super) const SIZE: (f64, f64) = (360.0, 220.0);
/// The frame inside it: left, top, right, bottom.
const FRAME: (f64, f64, f64, f64) = (58.0, 8.0, 346.0, 194.0);
/// Labels along each axis.
const MOST_LABELS: usize = 6;

/// Colours of the plots; pages replace them by those of the dark.
pub(super) const INK: &str = "#1F2328";
pub(super) const MUTED: &str = "#575D66";
const GRID: &str = "#D9DDE3";
const FAINT: &str = "#EEF0F3";
const SIMULATED: &str = "#0072B2";
const BASELINE: &str = "#D55E00";

/// The drawing as the content of an `svg` or a `g`, from (0, 0) to [`SIZE`].
pub(super) fn panel(set: &ValidatedSet) -> Markup {
    let mut rows: Vec<&ValidatedRow> = set.rows.iter().collect();
    rows.sort_by_key(|row| row.bytes);
    let (x, y) = axes(&rows);
    let across = |part: f64| FRAME.0 + (FRAME.2 - FRAME.0) * part;
    let up = |part: f64| FRAME.3 - (FRAME.3 - FRAME.1) * part;
    let at = |row: &ValidatedRow, time: f64| {
        let (along, high) = (x.fraction(row.bytes as f64)?, y.fraction(time)?);
        Some((across(along), up(high)))
    };
    let curve =
        |time: fn(&ValidatedRow) -> f64| path(rows.iter().filter_map(|row| at(row, time(row))));
    html! {
        @for part in y.light_marks() { (grid((FRAME.0, up(part)), (FRAME.2, up(part)), FAINT)) }
        @for (part, _) in x.marks(MOST_LABELS) { (grid((across(part), FRAME.1), (across(part), FRAME.3), GRID)) }
        @for (part, _) in y.marks(MOST_LABELS) { (grid((FRAME.0, up(part)), (FRAME.2, up(part)), GRID)) }
        (grid((FRAME.0, FRAME.1), (FRAME.0, FRAME.3), GRID))
        (grid((FRAME.0, FRAME.3), (FRAME.2, FRAME.3), GRID))
        g font-family="sans-serif" font-size="11" fill=(MUTED) {
            @for (part, text) in x.marks(MOST_LABELS) {
                text x=(number(across(part))) y=(number(FRAME.3 + 16.0)) text-anchor="middle" { (text) }
            }
            @for (part, text) in y.marks(MOST_LABELS) {
                text x=(number(FRAME.0 - 6.0)) y=(number(up(part) + 4.0)) text-anchor="end" { (text) }
            }
        }
        path d=(curve(|row| row.baseline_us)) fill="none" stroke=(BASELINE) stroke-width="1.6" stroke-dasharray="5 4" {}
        path d=(curve(|row| row.predicted_us)) fill="none" stroke=(SIMULATED) stroke-width="2" stroke-linecap="round" stroke-linejoin="round" {}
        @for row in &rows {
            @if let Some((x, y)) = at(row, row.measured_us) {
                circle cx=(number(x)) cy=(number(y)) r="2.6" fill=(INK) { title { (told(row)) } }
            }
        }
    }
}

/// What the three kinds of curve are, in a line from (0, 0) on.
pub(super) fn legend() -> Markup {
    html! {
        g font-family="sans-serif" font-size="13" fill=(INK) {
            circle cx="6" cy="10" r="3.4" fill=(INK) {}
            text x="16" y="14" { "measured" }
            path d="M104 10H130" stroke=(SIMULATED) stroke-width="2" fill="none" {}
            text x="138" y="14" { "simulated" }
            path d="M226 10H252" stroke=(BASELINE) stroke-width="1.6" stroke-dasharray="5 4" fill="none" {}
            text x="260" y="14" { "NCCL's own cost model" }
        }
    }
}

fn axes(rows: &[&ValidatedRow]) -> (Axis, Axis) {
    let sizes = || rows.iter().map(|row| row.bytes as f64);
    let times = || {
        let all = rows
            .iter()
            .flat_map(|row| [row.measured_us, row.predicted_us, row.baseline_us]);
        all.filter(|time| *time > 0.0 && time.is_finite())
    };
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(1e-6, f64::max);
    let first = least(&mut sizes()).min(most(&mut sizes()));
    let fastest = least(&mut times()).min(most(&mut times()));
    (
        Axis::sizes("size", first, most(&mut sizes())),
        Axis::ratios("time", fastest, most(&mut times()), micros_mark),
    )
}

fn grid(from: (f64, f64), to: (f64, f64), colour: &str) -> Markup {
    let line = format!(
        "M{} {}L{} {}",
        number(from.0),
        number(from.1),
        number(to.0),
        number(to.1)
    );
    html! { path d=(line) stroke=(colour) fill="none" {} }
}

/// A line through points; of a single one, a dot where ends are round.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let points: Vec<String> = points
        .map(|(x, y)| format!("{} {}", number(x), number(y)))
        .collect();
    match points.as_slice() {
        [] => String::new(),
        [one] => format!("M{one}L{one}"),
        many => format!("M{}", many.join("L")),
    }
}

fn told(row: &ValidatedRow) -> String {
    format!(
        "{}: measured {}, simulated {} ({}), NCCL's model {} ({}); {}",
        size(row.bytes as f64),
        micros(row.measured_us),
        micros(row.predicted_us),
        signed(row.predicted_us, row.measured_us),
        micros(row.baseline_us),
        signed(row.baseline_us, row.measured_us),
        choice(row)
    )
}

pub(super) fn number(value: f64) -> String {
    trimmed(value, 1)
}
