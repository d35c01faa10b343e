//! What every rank holds after each step, as words in a table.

use super::own::own;
use super::passage::Sent;
use super::timing::Times;
use super::words::Words;
use fabricsim_collective::{Change, Piece, Program, Rank, Walk};
use fabricsim_report::explanation::{Cell, CellState, Message, Own, StepView};
use fabricsim_units::Time;
use std::collections::BTreeSet;

/// The tables of an explanation.
pub(super) struct Tables {
    pub(super) own: Own,
    pub(super) columns: Vec<String>,
    pub(super) before: Vec<Vec<Cell>>,
    pub(super) steps: Vec<StepView>,
}

/// The tables of a walk, of which `sent` goes over ports in each step.
pub(super) fn tables(
    program: &dyn Program,
    walk: &Walk,
    sent: &[Vec<Sent>],
    times: &Times,
) -> Tables {
    let words = Words::new(program, walk);
    let columns = words.count();
    let mut rows: Vec<Vec<Vec<Piece>>> = vec![vec![Vec::new(); columns]; program.ranks() as usize];
    // The result is what is there at the end.
    for change in &walk.changes {
        words.apply(&mut rows, change);
    }
    let result = rows.clone();
    for cells in rows.iter_mut().flatten() {
        cells.clear();
    }
    let mut table = |step: u32| -> Vec<Vec<Cell>> {
        let changes: Vec<&Change> = walk.changes.iter().filter(|c| c.step == step).collect();
        for change in &changes {
            words.apply(&mut rows, change);
        }
        let mut cells: Vec<Vec<Cell>> = (0..program.ranks())
            .map(|rank| {
                (0..columns)
                    .map(|c| {
                        let now = &rows[rank as usize][c];
                        words.cell(Rank(rank), c, now, &result[rank as usize][c])
                    })
                    .collect()
            })
            .collect();
        // What is passed on inside a rank can be stored in the same step.
        let mut stored = BTreeSet::new();
        for change in changes.iter().filter(|c| c.at.is_some()) {
            let places = words.places(change).into_iter();
            stored.extend(places.map(|column| (change.rank.index(), column)));
        }
        for change in changes {
            for column in words.places(change) {
                let cell = &mut cells[change.rank.index()][column];
                cell.new = true;
                if change.at.is_none() && !stored.contains(&(change.rank.index(), column)) {
                    cell.text = format!("({})", words.data(&change.pieces, column));
                    cell.state = CellState::Passing;
                }
            }
        }
        cells
    };
    let before = table(0);
    let mut steps = Vec::with_capacity(walk.steps as usize);
    let mut index = 0;
    for (step, sent) in (1..=walk.steps).zip(sent) {
        let first = index;
        while walk.transfers.get(index).is_some_and(|t| t.step == step) {
            index += 1;
        }
        let when = &times.messages[first..index];
        let begins = when.iter().map(|t| t.0).min().unwrap_or(Time::ZERO);
        let ends = when.iter().map(|t| t.1).max().unwrap_or(Time::ZERO);
        let messages = sent.iter().map(|sent| Message {
            from: sent.from.rank(),
            to: sent.to.rank(),
            switch: sent.from.switch().or(sent.to.switch()),
            operation: sent.operation,
            bytes: sent.bytes(),
            data: words.message(&sent.pieces),
        });
        steps.push(StepView {
            step,
            begins_us: whole_nanos(begins),
            ends_us: whole_nanos(ends),
            messages: messages.collect(),
            holds: table(step),
        });
    }
    Tables {
        own: own(program, &words),
        columns: (0..columns).map(|c| words.column_name(c)).collect(),
        before,
        steps,
    }
}

/// In microseconds, without the picoseconds that local copies take.
fn whole_nanos(time: Time) -> f64 {
    (time.micros() * 1e3).round() / 1e3
}
