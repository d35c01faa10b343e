//! How data is called, and which columns of tables it is in.

use fabricsim_collective::verify::promise;
use fabricsim_collective::{Buffer, Change, Collective, Piece, Program, ROOT, Rank, Walk};
use fabricsim_report::explanation::{Cell, CellState};
use std::collections::BTreeSet;

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

/// How data is called.
pub(super) struct Words<'p> {
    program: &'p dyn Program,
    columns: Vec<Column>,
    ranks: u32,
    block: u64,
}

impl<'p> Words<'p> {
    pub(super) fn new(program: &'p dyn Program, walk: &Walk) -> Self {
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

    /// How many columns tables have.
    pub(super) fn count(&self) -> usize {
        self.columns.len()
    }

    /// All ranks have all of the data, of which a chunk is known by its place.
    fn is_vector(&self) -> bool {
        matches!(
            self.program.collective(),
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast
        )
    }

    /// Places in the output are known by what ranks have for them at the beginning.
    pub(super) fn shows_own(&self) -> bool {
        self.is_vector()
            || matches!(
                self.program.collective(),
                Collective::AllGather | Collective::Gather
            )
    }

    /// The columns of the output.
    pub(super) fn outputs(&self) -> Vec<usize> {
        let output = |&c: &usize| matches!(self.columns[c], Column::At(Buffer::Output, ..));
        (0..self.columns.len()).filter(output).collect()
    }

    /// What a rank has at the beginning for a place in the output.
    pub(super) fn own(&self, rank: Rank, column: usize) -> Option<String> {
        let Column::At(Buffer::Output, from, _) = self.columns[column] else {
            return None;
        };
        match self.program.collective() {
            Collective::AllReduce | Collective::Reduce => Some(rank.0.to_string()),
            Collective::Broadcast => (rank == ROOT).then(|| rank.0.to_string()),
            Collective::AllGather | Collective::Gather => {
                (from / self.block == u64::from(rank.0)).then(|| format!("b{}", rank.0))
            }
            _ => None,
        }
    }

    /// Which part of a rank's data a byte of it is in: of vectors a chunk, else a block.
    pub(super) fn part(&self, rank: Rank, at: u64) -> u32 {
        if self.is_vector() {
            let output = self.outputs().into_iter();
            let inside = |c: &usize| matches!(self.columns[*c], Column::At(_, from, to) if (from..to).contains(&at));
            return output
                .zip(0u32..)
                .find(|(c, _)| inside(c))
                .map_or(0, |(_, k)| k);
        }
        match self.program.collective() {
            Collective::AllToAllV => self.receiver(rank, at).map_or(0, |to| to.0),
            Collective::AllToAll | Collective::Scatter | Collective::ReduceScatter => {
                u32::try_from(at / self.block).unwrap_or(u32::MAX)
            }
            _ => 0,
        }
    }

    /// How many parts a rank's data has.
    pub(super) fn parts(&self) -> u32 {
        match self.program.collective() {
            _ if self.is_vector() => self.outputs().len().max(1) as u32,
            Collective::AllToAllV
            | Collective::AllToAll
            | Collective::Scatter
            | Collective::ReduceScatter => self.ranks,
            _ => 1,
        }
    }

    /// What a piece is told apart by: the chunk or block where sums are made of it, else whose it is.
    pub(super) fn identity(&self, piece: &Piece) -> u32 {
        let &(rank, at) = piece.value.first().unwrap_or(&(0, 0));
        match self.program.collective() {
            _ if self.is_vector() => self.part(Rank(rank), at),
            Collective::ReduceScatter | Collective::Scatter => self.part(Rank(rank), at),
            _ => rank,
        }
    }

    /// What the collective promises for a place in the output of a rank.
    pub(super) fn promised(&self, rank: Rank, column: usize) -> Option<Piece> {
        let (buffer, from, to) = self.range(rank, column)?;
        let len = self.program.buffer_len(buffer, rank);
        if buffer != Buffer::Output || from >= to || from >= len {
            return None;
        }
        let (value, _) = promise(self.program, rank, from);
        let len = to - from;
        (!value.is_empty()).then_some(Piece { len, value })
    }

    /// Of an all-to-all-v: who gets a byte of a rank's data.
    fn receiver(&self, rank: Rank, at: u64) -> Option<Rank> {
        let matrix = self.program.matrix()?;
        let mut all = (0..self.ranks).map(Rank);
        all.rfind(|&to| matrix.sent_before(rank, to) <= at)
    }

    fn has_blocks_in_output(&self) -> bool {
        matches!(
            self.program.collective(),
            Collective::AllGather | Collective::Gather | Collective::AllToAll
        )
    }

    pub(super) fn column_name(&self, index: usize) -> String {
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
    pub(super) fn places(&self, change: &Change) -> Vec<usize> {
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

    pub(super) fn apply(&self, rows: &mut [Vec<Vec<Piece>>], change: &Change) {
        let Some(at) = change.at else { return };
        for column in self.places(change) {
            if let Some((_, from, to)) = self.range(change.rank, column) {
                let skip = from - at.offset;
                rows[change.rank.index()][column] = cut(&change.pieces, skip, to - from);
            }
        }
    }

    pub(super) fn cell(&self, rank: Rank, column: usize, now: &[Piece], result: &[Piece]) -> Cell {
        let Some((buffer, from, to)) = self.range(rank, column) else {
            return Cell::default();
        };
        if now.is_empty()
            && let Some(text) = self.own(rank, column)
        {
            return Cell {
                text,
                state: CellState::Own,
                new: false,
            };
        }
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
    pub(super) fn data(&self, pieces: &[Piece], column: usize) -> String {
        let output = !matches!(self.columns[column], Column::At(Buffer::Scratch, ..));
        let known = output
            && self.columns[column] != Column::InHand
            && (self.is_vector() || matches!(self.program.collective(), Collective::ReduceScatter));
        let named = |p: &Piece| {
            if known { self.set(p) } else { self.named(p) }
        };
        joined(merged(pieces).iter().map(named))
    }

    pub(super) fn message(&self, pieces: &[Piece]) -> String {
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
                let to = self.receiver(Rank(rank), at);
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
pub(super) fn merged(pieces: &[Piece]) -> Vec<Piece> {
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
