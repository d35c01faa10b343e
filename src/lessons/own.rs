//! What each rank has at the beginning.

use super::words::Words;
use fabricsim_collective::{Buffer, Collective, Program, ROOT, Rank};
use fabricsim_report::explanation::{Cell, CellState, Own};

/// Each rank's own data. Where places in the output are places in the input too (or are filled
/// from there), columns are those of the output, else those of the input.
pub(super) fn own(program: &dyn Program, words: &Words<'_>) -> Own {
    let outputs = words.outputs();
    let ranks = program.ranks();
    let columns: Vec<String> = match program.collective() {
        _ if !outputs.is_empty() && words.shows_own() => {
            outputs.iter().map(|&c| words.column_name(c)).collect()
        }
        Collective::ReduceScatter | Collective::Scatter => {
            (0..ranks).map(|to| format!("b{to}")).collect()
        }
        Collective::AllToAll | Collective::AllToAllV => {
            (0..ranks).map(|to| format!("for {to}")).collect()
        }
        _ => vec!["data".to_owned()],
    };
    let cell = |rank: u32, column: u32| {
        let text = if words.shows_own() {
            outputs
                .get(column as usize)
                .and_then(|&c| words.own(Rank(rank), c))
        } else {
            of_input(program, rank, column)
        };
        let state = match (&text, words.shows_own()) {
            (Some(_), _) => CellState::Own,
            (None, true) => CellState::Empty,
            (None, false) => CellState::Absent,
        };
        Cell {
            text: text.unwrap_or_default(),
            state,
            new: false,
        }
    };
    let holds = (0..ranks).map(|rank| (0..columns.len() as u32).map(|c| cell(rank, c)).collect());
    Own {
        holds: holds.collect(),
        columns,
    }
}

/// What a rank has for the rank `to`.
fn of_input(program: &dyn Program, rank: u32, to: u32) -> Option<String> {
    let has = program.buffer_len(Buffer::Input, Rank(rank)) > 0;
    match program.collective() {
        Collective::ReduceScatter => has.then(|| rank.to_string()),
        Collective::Scatter if rank != ROOT.0 => None,
        Collective::AllToAllV => {
            let bytes = program.matrix()?.bytes(Rank(rank), Rank(to));
            (bytes > 0).then(|| format!("{rank}>{to}"))
        }
        Collective::Scatter | Collective::AllToAll => has.then(|| format!("{rank}>{to}")),
        _ => has.then(|| rank.to_string()),
    }
}
