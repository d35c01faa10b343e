//! A search's result for a terminal.

use super::listing::{self, Listing};
use super::{Choice, Optimized, ServingSearch, serving};
use crate::numbers::grouped;
use crate::text_table::{BEST, Out, cell, left, right, styled};

/// All of it.
#[must_use]
pub fn optimized_text(found: &Optimized, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.plain(&format!("# fabricsim {}: {}", found.version, found.title));
    if !found.best.is_empty() {
        out.plain("");
        choices(&mut out, found, &found.best);
    }
    let others = found.others();
    if !others.is_empty() {
        out.heading("and with less of something else (memory, money, power)");
        choices(&mut out, found, &others);
    }
    if !found.clusters.is_empty() {
        out.heading("GPUs and networks, each with its best layout");
        table(&mut out, &listing::clusters(found));
    }
    out.heading("what was searched");
    counts(&mut out, listing::ledger(found));
    if !found.flips.is_empty() {
        out.heading("what would change the choice");
        for flip in &found.flips {
            out.plain(&format!("  {}", listing::sentence(flip)));
        }
    }
    if let Some(room) = &found.headroom {
        out.heading("headroom of the best");
        for line in listing::headroom(room) {
            out.plain(&format!("  {line}"));
        }
    }
    out.plain("");
    out.plain(&found.answer);
    out.text
}

/// All that a search over ways to serve found.
#[must_use]
pub fn serving_search_text(found: &ServingSearch, colour: bool) -> String {
    let mut out = Out::new(colour);
    out.plain(&format!("# fabricsim {}: {}", found.version, found.title));
    if !found.best.is_empty() {
        out.plain("");
        table(&mut out, &serving::choices(&found.objective, &found.best));
    }
    if !found.pareto.is_empty() {
        out.heading("tokens per second and user against tokens per second and GPU");
        table(&mut out, &serving::choices(&found.objective, &found.pareto));
    }
    out.heading("what was searched");
    counts(&mut out, serving::ledger(found));
    let left_out = serving::left_out(found);
    if !left_out.is_empty() {
        out.heading("left out");
        for line in left_out {
            out.plain(&format!("  {line}"));
        }
    }
    out.plain("");
    out.plain(&found.answer);
    out.text
}

fn counts(out: &mut Out, rows: Vec<(u64, String)>) {
    let rows = rows.into_iter();
    let rows = rows.map(|(count, what)| vec![cell(grouped(count)), cell(what)]);
    out.table(&[right(""), left("")], &rows.collect::<Vec<_>>());
}

fn choices(out: &mut Out, found: &Optimized, choices: &[Choice]) {
    table(out, &listing::choices(found, choices));
    if let Some(line) = listing::as_good(found, choices) {
        out.plain(&format!("  {line}"));
    }
}

fn table(out: &mut Out, listing: &Listing) {
    let column = |(name, numbers): &(String, bool)| match numbers {
        true => right(name.clone()),
        false => left(name.clone()),
    };
    let columns: Vec<_> = listing.columns.iter().map(column).collect();
    // The objective is the first number behind the layout.
    let layout = listing
        .columns
        .iter()
        .position(|(name, _)| name == "layout");
    let rows = listing.rows.iter().map(|row| {
        let cells = row.cells.iter().enumerate();
        let cells =
            cells.map(
                |(index, of)| match row.tied && Some(index) == layout.map(|l| l + 1) {
                    true => styled(of.text.clone(), BEST),
                    false => cell(of.text.clone()),
                },
            );
        cells.collect()
    });
    out.table(&columns, &rows.collect::<Vec<Vec<_>>>());
}
