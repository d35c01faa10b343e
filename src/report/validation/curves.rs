//! `curves.svg`: a few sets in one drawing.

use super::panel::{INK, MUTED, SIZE, legend, number, panel};
use super::{ValidatedSet, Validation, subject};
use fabricsim_units::text::xml;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Sets in the drawing, and side by side.
const SHOWN: usize = 10;
const COLUMNS: usize = 2;

const MARGIN: f64 = 24.0;
/// Between panels.
const GAP: f64 = 28.0;
/// Above a panel, for its two lines of text.
const HEAD: f64 = 40.0;
/// Above all panels.
const TOP: f64 = 112.0;

/// Ten sets as small plots in one drawing; the choice is told in it.
#[must_use]
pub fn curves_svg(validation: &Validation) -> String {
    let sets = representative(&validation.sets);
    let rows = sets.len().div_ceil(COLUMNS) as f64;
    let width = 2.0 * MARGIN + COLUMNS as f64 * SIZE.0 + (COLUMNS as f64 - 1.0) * GAP;
    let height = TOP + rows * (HEAD + SIZE.1 + GAP) + MARGIN - GAP;
    let place = |index: usize| {
        let (column, row) = ((index % COLUMNS) as f64, (index / COLUMNS) as f64);
        (
            MARGIN + column * (SIZE.0 + GAP),
            TOP + row * (HEAD + SIZE.1 + GAP),
        )
    };
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", number(width), number(height)))
            width=(number(width)) height=(number(height)) {
            rect width="100%" height="100%" fill="#FFFFFF" {}
            g font-family="sans-serif" fill=(MUTED) font-size="12.5" {
                text x=(MARGIN) y="34" fill=(INK) font-size="20" { "Published measurements and predictions: time over size" }
                @for (index, line) in CAPTION.iter().enumerate() {
                    text x=(MARGIN) y=(54 + 17 * index) { (line) }
                }
            }
            g transform=(format!("translate({} 82)", number(MARGIN))) { (legend()) }
            @for (index, set) in sets.iter().enumerate() { (titled(set, place(index))) }
        }
    };
    xml(&drawing.into_string()).into_owned() + "\n"
}

/// The rule of [`representative`], for readers.
const CAPTION: [&str; 2] = [
    "Chosen by a rule: of each topology and collective the set with most rows, and of these the ten with most rows,",
    "taking one of each topology before a second one; of equal ones the first by name.",
];

fn titled(set: &ValidatedSet, (x, y): (f64, f64)) -> Markup {
    html! {
        g transform=(format!("translate({} {})", number(x), number(y))) {
            g font-family="sans-serif" {
                text x="0" y="14" font-size="13" font-weight="bold" fill=(INK) { (subject(set)) }
                text x="0" y="30" font-size="11.5" fill=(MUTED) { (set.id) }
            }
            g transform=(format!("translate(0 {})", number(HEAD))) { (panel(set)) }
        }
    }
}

/// Of each topology and collective the set with most rows; of these ten: the first of each
/// topology, then its second …, among equals those with most rows.
pub(super) fn representative(sets: &[ValidatedSet]) -> Vec<&ValidatedSet> {
    let mut by_rows: Vec<&ValidatedSet> = sets.iter().collect();
    by_rows.sort_by(|a, b| (b.rows.len(), &a.id).cmp(&(a.rows.len(), &b.id)));
    let mut seen = BTreeSet::new();
    by_rows.retain(|set| seen.insert((&set.topology, &set.collective)));
    let mut of_topology: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rounds: Vec<(usize, &ValidatedSet)> = Vec::new();
    for set in by_rows {
        let round = of_topology.entry(&set.topology).or_default();
        rounds.push((*round, set));
        *round += 1;
    }
    // Stable: within a round, most rows stay first.
    rounds.sort_by_key(|(round, _)| *round);
    rounds.into_iter().take(SHOWN).map(|(_, set)| set).collect()
}
