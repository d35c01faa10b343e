//! What every rank holds after each step, as words in a table.

use super::timing::Times;
use crate::collective::{Buffer, Change, Collective, Piece, Program, Rank, Role, Walk, Worker};
use crate::report::explanation::{Cell, CellState, Message, StepView};
use crate::units::Time;
use std::collections::BTreeSet;

/// The tables of an explanation.
pub(super) struct Tables {
    pub(super) columns: Vec<String>,
    pub(super) before: Vec<Vec<Cell>>,
    pub(super) steps: Vec<StepView>,
}

/// What a column of the tables shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    /// A stretch of a buffer that is only written as a whole: from and to.
    At(Buffer, u64, u64),
    /// Of an all-to-all-v: what comes from a rank, which is elsewhere on each rank.
    From(Rank),
    /// What is passed on without a place in the output.
    InHand,
}

pub(super) fn tables(program: &dyn Program, walk: &Walk, times: &Times) -> Tables {
    let words = Words::new(program, walk);
    let columns = &words.columns;
    let mut rows: Vec<Vec<Vec<Piece>>> =
        vec![vec![Vec::new(); columns.len()]; program.ranks() as usize];
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
                (0..columns.len())
                    .map(|c| {
                        let now = &rows[rank as usize][c];
                        words.cell(Rank(rank), c, now, &result[rank as usize][c])
                    })
                    .collect()
            })
            .collect();
        for change in changes {
            for column in words.places(change) {
                let cell = &mut cells[change.rank.index()][column];
                cell.new = true;
                if change.at.is_none() {
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
    for step in 1..=walk.steps {
        let first = index;
        while walk.transfers.get(index).is_some_and(|t| t.step == step) {
            index += 1;
        }
        let when = &times.messages[first..index];
        let begins = when.iter().map(|t| t.0).min().unwrap_or(Time::ZERO);
        let ends = when.iter().map(|t| t.1).max().unwrap_or(Time::ZERO);
        let mut messages: Vec<Message> = walk.transfers[first..index]
            .iter()
            .map(|t| Message {
                from: rank_of(t.from),
                to: rank_of(t.to),
                bytes: t.bytes(),
                data: words.message(&t.pieces),
            })
            .collect();
        messages.sort_by_key(|m| (m.from, m.to));
        steps.push(StepView {
            step,
            begins_us: whole_nanos(begins),
            ends_us: whole_nanos(ends),
            messages,
            holds: table(step),
        });
    }
    Tables {
        columns: (0..columns.len()).map(|c| words.column_name(c)).collect(),
        before,
        steps,
    }
}

/// In microseconds, without the picoseconds that local copies take.
fn whole_nanos(time: Time) -> f64 {
    (time.micros() * 1e3).round() / 1e3
}

/// How data is called.
struct Words<'p> {
    program: &'p dyn Program,
    columns: Vec<Column>,
    ranks: u32,
    block: u64,
}

impl<'p> Words<'p> {
    fn new(program: &'p dyn Program, walk: &Walk) -> Self {
        let ranks = program.ranks();
        let mut words = Words {
            program,
            columns: Vec::new(),
            ranks,
            block: (program.bytes() / u64::from(ranks)).max(1),
        };
        if program.matrix().is_some() {
            words.columns = (0..ranks).map(|from| Column::From(Rank(from))).collect();
            return words;
        }
        for buffer in [Buffer::Output, Buffer::Scratch] {
            let places = walk.changes.iter().filter_map(|change| {
                let at = change.at.filter(|at| at.buffer == buffer)?;
                let len: u64 = change.pieces.iter().map(|p| p.len).sum();
                Some((at.offset, at.offset + len))
            });
            let places: BTreeSet<(u64, u64)> = places.collect();
            let mut ends: BTreeSet<u64> = places.iter().flat_map(|p| [p.0, p.1]).collect();
            if words.is_vector() && buffer == Buffer::Output {
                // Chunks have names by their place, also where nobody stores them.
                let sent = walk.transfers.iter().flat_map(|t| merged(&t.pieces));
                ends.extend(sent.flat_map(|p| {
                    let at = p.value.first().map_or(0, |v| v.1);
                    [at, at + p.len]
                }));
            }
            let ends: Vec<u64> = ends.into_iter().collect();
            for pair in ends.windows(2) {
                let inside = |p: &(u64, u64)| p.0 <= pair[0] && pair[1] <= p.1;
                if words.is_vector() && buffer == Buffer::Output || places.iter().any(inside) {
                    words.columns.push(Column::At(buffer, pair[0], pair[1]));
                }
            }
        }
        if !words.is_vector() && walk.changes.iter().any(|c| c.at.is_none()) {
            words.columns.push(Column::InHand);
        }
        words
    }

    /// All ranks have all of the data, of which a chunk is known by its place.
    fn is_vector(&self) -> bool {
        matches!(
            self.program.collective(),
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast
        )
    }

    fn has_blocks_in_output(&self) -> bool {
        matches!(
            self.program.collective(),
            Collective::AllGather | Collective::Gather | Collective::AllToAll
        )
    }

    fn column_name(&self, index: usize) -> String {
        let (buffer, from) = match self.columns[index] {
            Column::InHand => return "in hand".to_owned(),
            Column::From(rank) => return format!("from {}", rank.0),
            Column::At(buffer, from, _) => (buffer, from),
        };
        let same = |column: &&Column| matches!(column, Column::At(b, ..) if *b == buffer);
        let number = self.columns[..index].iter().filter(same).count();
        if buffer == Buffer::Scratch {
            return format!("s{number}");
        }
        if !self.has_blocks_in_output() {
            return format!("c{number}");
        }
        let block = from / self.block;
        let of_block = |column: &&Column| matches!(column, Column::At(b, at, _) if *b == buffer && at / self.block == block);
        let pieces = self.columns.iter().filter(of_block).count();
        let piece = self.columns[..index].iter().filter(of_block).count();
        if pieces > 1 {
            format!("b{block}.{piece}")
        } else {
            format!("b{block}")
        }
    }

    /// Where a column is in a rank's memory.
    fn range(&self, rank: Rank, column: usize) -> Option<(Buffer, u64, u64)> {
        match self.columns[column] {
            Column::At(buffer, from, to) => Some((buffer, from, to)),
            Column::From(sender) => {
                let matrix = self.program.matrix()?;
                let from = matrix.received_before(sender, rank);
                Some((Buffer::Output, from, from + matrix.bytes(sender, rank)))
            }
            Column::InHand => None,
        }
    }

    /// The columns that a change touches.
    fn places(&self, change: &Change) -> Vec<usize> {
        let len: u64 = change.pieces.iter().map(|p| p.len).sum();
        let range = match change.at {
            Some(at) => Some((at.buffer, at.offset, at.offset + len)),
            None if self.is_vector() => {
                let first = change.pieces.first().and_then(|p| p.value.first());
                first.map(|&(_, at)| (Buffer::Output, at, at + len))
            }
            None => None,
        };
        let touched = |column: &usize| match (self.range(change.rank, *column), range) {
            (Some((b, from, to)), Some((buffer, begin, end))) => {
                b == buffer && from < to && begin <= from && to <= end
            }
            (None, None) => true,
            _ => false,
        };
        (0..self.columns.len()).filter(touched).collect()
    }

    fn apply(&self, rows: &mut [Vec<Vec<Piece>>], change: &Change) {
        let Some(at) = change.at else { return };
        for column in self.places(change) {
            if let Some((_, from, to)) = self.range(change.rank, column) {
                let skip = from - at.offset;
                rows[change.rank.index()][column] = cut(&change.pieces, skip, to - from);
            }
        }
    }

    fn cell(&self, rank: Rank, column: usize, now: &[Piece], result: &[Piece]) -> Cell {
        let Some((buffer, from, to)) = self.range(rank, column) else {
            return Cell::default();
        };
        let state = if from == to || from >= self.program.buffer_len(buffer, rank) {
            CellState::Absent
        } else if now.is_empty() {
            CellState::Empty
        } else if buffer == Buffer::Output && now == result {
            CellState::Done
        } else {
            CellState::Partial
        };
        Cell {
            text: if now.is_empty() {
                String::new()
            } else {
                self.data(now, column)
            },
            state,
            new: false,
        }
    }

    /// What is in a cell; of vectors the column says which chunk it is.
    fn data(&self, pieces: &[Piece], column: usize) -> String {
        let output = !matches!(self.columns[column], Column::At(Buffer::Scratch, ..));
        let known = output
            && self.columns[column] != Column::InHand
            && (self.is_vector() || matches!(self.program.collective(), Collective::ReduceScatter));
        let named = |p: &Piece| {
            if known { self.set(p) } else { self.named(p) }
        };
        joined(merged(pieces).iter().map(named))
    }

    fn message(&self, pieces: &[Piece]) -> String {
        joined(merged(pieces).iter().map(|p| self.named(p)))
    }

    /// Data with its name.
    fn named(&self, piece: &Piece) -> String {
        let &(rank, at) = piece.value.first().unwrap_or(&(0, 0));
        let blocks = || {
            let (first, last) = (at / self.block, (at + piece.len - 1) / self.block);
            range("b", first, last)
        };
        match self.program.collective() {
            Collective::AllReduce | Collective::Reduce => {
                format!("{}: {}", self.chunks(at, at + piece.len), self.set(piece))
            }
            Collective::Broadcast => self.chunks(at, at + piece.len),
            Collective::ReduceScatter => format!("{}: {}", blocks(), self.set(piece)),
            Collective::AllGather | Collective::Gather => format!("b{rank}"),
            Collective::SendRecv | Collective::SendRecvPairs | Collective::SendRecvHalves => {
                rank.to_string()
            }
            Collective::AllToAllV => {
                let to = self.program.matrix().and_then(|matrix| {
                    (0..self.ranks)
                        .map(Rank)
                        .rfind(|&to| matrix.sent_before(Rank(rank), to) <= at)
                });
                format!("{rank}>{}", to.map_or(0, |to| to.0))
            }
            Collective::AllToAll | Collective::Scatter => {
                let (first, last) = (at / self.block, (at + piece.len - 1) / self.block);
                range(&format!("{rank}>"), first, last)
            }
        }
    }

    /// The chunks of a vector from one byte to another.
    fn chunks(&self, from: u64, to: u64) -> String {
        let output = self.columns.iter().filter_map(|column| match column {
            Column::At(Buffer::Output, begin, end) => Some((*begin, *end)),
            _ => None,
        });
        let inside: Vec<u64> = (0u64..)
            .zip(output)
            .filter(|(_, (begin, end))| from < *end && *begin < to)
            .map(|(k, _)| k)
            .collect();
        match (inside.first(), inside.last()) {
            (Some(&first), Some(&last)) => range("c", first, last),
            _ => "c".to_owned(),
        }
    }

    /// The ranks that contributed: `0+1+2`, `0..7`, `all`.
    fn set(&self, piece: &Piece) -> String {
        let ranks: Vec<u32> = piece.value.iter().map(|v| v.0).collect();
        if ranks.len() as u32 == self.ranks && self.ranks > 4 {
            return "all".to_owned();
        }
        let mut parts: Vec<String> = Vec::new();
        for run in ranks.chunk_by(|a, b| a + 1 == *b) {
            match run {
                [first, .., last] if ranks.len() > 4 && run.len() > 2 => {
                    parts.push(format!("{first}..{last}"));
                }
                _ => parts.extend(run.iter().map(u32::to_string)),
            }
        }
        parts.join("+")
    }
}

fn range(prefix: &str, first: u64, last: u64) -> String {
    if first == last {
        format!("{prefix}{first}")
    } else {
        format!("{prefix}{first}..{last}")
    }
}

/// The pieces with those put together that are one stretch of the same data.
fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match out.last_mut() {
            Some(last) if follows(last, piece) => last.len += piece.len,
            _ => out.push(piece.clone()),
        }
    }
    out
}

fn follows(a: &Piece, b: &Piece) -> bool {
    a.value.len() == b.value.len()
        && a.value
            .iter()
            .zip(&b.value)
            .all(|(x, y)| x.0 == y.0 && x.1 + a.len == y.1)
}

/// `len` bytes of the pieces, from `skip` on, put together.
fn cut(pieces: &[Piece], skip: u64, len: u64) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut at = 0;
    for piece in pieces {
        let (from, to) = (skip.max(at), (skip + len).min(at + piece.len));
        if from < to {
            let shift = from - at;
            out.push(Piece {
                len: to - from,
                value: piece.value.iter().map(|v| (v.0, v.1 + shift)).collect(),
            });
        }
        at += piece.len;
    }
    merged(&out)
}

/// The names, `b0 b1 …`: as many as fit a line, and how many more there are.
fn joined(names: impl Iterator<Item = String>) -> String {
    const MOST: usize = 8;
    let mut names: Vec<String> = names.collect();
    names.dedup();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let mut text = names.join(" ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

/// A worker's rank, unless it is in the network's switches.
fn rank_of(worker: Worker) -> Option<u32> {
    (worker.role != Role::Switch).then_some(worker.rank.0)
}
