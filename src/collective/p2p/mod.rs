//! Grouped sends and receives: all-to-all, all-to-all-v, gather, scatter, ring shift, pairs.
//!
//! In every **round** each rank sends to one peer and receives from one. A message is cut
//! in parts on consecutive channels, each a connection of its own, and a part in chunks.
//! A channel's thread block divides its warps over several operations at once: these are
//! **lanes**, each with a worker that sends and one that receives, and a rank's sends on a
//! channel go to its lanes in turn, as its receives do: an operation that only sends and one that
//! only receives share a lane's warps as the two sides of one do. Left out: NCCL begins the next
//! batch of operations only when the last lane of a batch is done; here each lane goes on by itself.
//!
//! Tables hold one entry a part of a message; chunks are computed.

mod rounds;

pub use rounds::{Rounds, RoundsError};

use super::goal::{Collective, ROOT};
use super::matrix::Matrix;
use super::program::{
    At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use rustc_hash::FxHashMap;

/// How a message is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// Bytes of a part, each on a channel of its own; the last may have less.
    pub part: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
}

/// The thread blocks that messages are laid on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    /// Channels of each rank.
    pub channels: u16,
    /// Operations that a channel works on at once.
    pub lanes: u16,
    /// The channel of the first part of each round's messages.
    pub first: Vec<u16>,
}

/// Sends and receives between all ranks, in rounds.
#[derive(Debug, Clone)]
pub struct P2pProgram {
    collective: Collective,
    bytes: u64,
    matrix: Option<Matrix>,
    ranks: u32,
    channels: u32,
    lanes: u32,
    cuts: Vec<Cut>,
    /// By connection: its workers, how its message is cut, and which part of it it is.
    from: Vec<u32>,
    to: Vec<u32>,
    cut: Vec<u32>,
    part: Vec<u16>,
    /// How each rank's message to itself is cut.
    own_cut: Vec<Cut>,
    /// Entries of each worker: `works[worker]..works[worker + 1]`.
    works: Vec<u32>,
    /// Connections, or parts of a copy (with [`COPY`] set), in the order of work.
    entries: Vec<u32>,
    /// Steps of the same worker before each entry.
    begins: Vec<u32>,
    /// Steps of each worker.
    steps: Vec<u32>,
}

/// Marks an entry that is a part of the message of a rank to itself.
const COPY: u32 = 1 << 31;

/// Sending comes first among a lane's two workers.
const SIDES: u32 = 2;

/// What is sent: how much, from where and to where.
struct Message {
    bytes: u64,
    source: u64,
    target: u64,
}

impl P2pProgram {
    /// `collective` over `bytes` (nccl-tests' size). `cut` says how a message from the first
    /// rank to the second of so many bytes (never zero) is cut.
    ///
    /// # Panics
    /// If the collective is not made of sends and receives or needs a matrix, if `lanes`
    /// does not fit the rounds, if parts or chunks are empty or parts are more than the
    /// channels, or if there are more than 2³¹ parts.
    #[must_use]
    pub fn new(
        collective: Collective,
        bytes: u64,
        rounds: &Rounds,
        lanes: &Lanes,
        cut: impl Fn(Rank, Rank, u64) -> Cut,
    ) -> Self {
        assert!(collective.is_point_to_point(), "{collective} has a kernel");
        assert!(
            collective != Collective::AllToAllV,
            "an all-to-all-v is made with its matrix"
        );
        Self::build(collective, bytes, None, rounds, lanes, &cut)
    }

    /// An all-to-all of unequal messages.
    ///
    /// # Panics
    /// As [`P2pProgram::new`]; or if matrix and rounds differ in their number of ranks.
    #[must_use]
    pub fn all_to_all_v(
        matrix: Matrix,
        rounds: &Rounds,
        lanes: &Lanes,
        cut: impl Fn(Rank, Rank, u64) -> Cut,
    ) -> Self {
        assert_eq!(matrix.ranks(), rounds.ranks(), "a row for each rank");
        let (collective, bytes) = (Collective::AllToAllV, matrix.size());
        Self::build(collective, bytes, Some(matrix), rounds, lanes, &cut)
    }

    fn build(
        collective: Collective,
        bytes: u64,
        matrix: Option<Matrix>,
        rounds: &Rounds,
        lanes: &Lanes,
        cut: &dyn Fn(Rank, Rank, u64) -> Cut,
    ) -> Self {
        assert!(lanes.channels > 0 && lanes.lanes > 0, "somebody works");
        assert_eq!(lanes.first.len(), rounds.len(), "a channel for each round");
        let ranks = rounds.ranks();
        let mut program = P2pProgram {
            collective,
            bytes,
            matrix,
            ranks,
            channels: u32::from(lanes.channels),
            lanes: 1,
            cuts: Vec::new(),
            from: Vec::new(),
            to: Vec::new(),
            cut: Vec::new(),
            part: Vec::new(),
            own_cut: vec![Cut { part: 1, chunk: 1 }; ranks as usize],
            works: vec![0],
            entries: Vec::new(),
            begins: Vec::new(),
            steps: Vec::new(),
        };
        // By rank and round: the first connection, and how many parts there are (of a
        // message to itself: without connections).
        let mut first = Vec::with_capacity(ranks as usize * rounds.len());
        let mut parts = Vec::with_capacity(first.capacity());
        let mut known: FxHashMap<Cut, u32> = FxHashMap::default();
        for from in (0..ranks).map(Rank) {
            for round in 0..rounds.len() {
                let to = rounds.to(round, from);
                first.push(program.cut.len() as u32);
                let bytes = program.message(from, to).bytes;
                if bytes == 0 {
                    parts.push(0);
                    continue;
                }
                let cut = cut(from, to, bytes);
                assert!(cut.part > 0 && cut.chunk > 0, "parts hold something");
                let count = bytes.div_ceil(cut.part);
                assert!(count <= u64::from(lanes.channels), "a channel for a part");
                parts.push(count as u16);
                if from == to {
                    program.own_cut[from.index()] = cut;
                    continue;
                }
                let id = *known.entry(cut).or_insert_with(|| {
                    program.cuts.push(cut);
                    program.cuts.len() as u32 - 1
                });
                program.cut.extend((0..count).map(|_| id));
                program.part.extend(0..count as u16);
            }
        }
        let connections = program.cut.len();
        assert!(connections < COPY as usize, "fewer than 2^31 connections");
        program.from = vec![0; connections];
        program.to = vec![0; connections];
        let at = |rank: Rank, round: usize| rank.index() * rounds.len() + round;
        let count_of = |rank: Rank, round: usize| {
            let from = rounds.from(round, rank);
            (parts[at(rank, round)], parts[at(from, round)])
        };
        let busiest = (0..ranks)
            .map(|rank| {
                let mut works = vec![[0u32; 2]; usize::from(lanes.channels)];
                for round in 0..rounds.len() {
                    let (out, into) = count_of(Rank(rank), round);
                    for part in 0..out.max(into) {
                        let works = &mut works[lanes.channel(round, part)];
                        works[0] += u32::from(part < out);
                        works[1] += u32::from(part < into);
                    }
                }
                works.into_iter().flatten().max().unwrap_or(0)
            })
            .max();
        program.lanes = u32::from(lanes.lanes).min(busiest.unwrap_or(0)).max(1);
        for rank in (0..ranks).map(Rank) {
            let mut works = vec![[0u32; 2]; usize::from(lanes.channels)];
            let per_rank = program.channels * program.lanes * SIDES;
            let mut lists: Vec<Vec<u32>> = vec![Vec::new(); per_rank as usize];
            for round in 0..rounds.len() {
                let (out, into) = count_of(rank, round);
                let peer = rounds.from(round, rank);
                for part in 0..out.max(into) {
                    let channel = lanes.channel(round, part);
                    // The lane's worker of a side, and its next operation.
                    let mut next = |side: u32| {
                        let works = &mut works[channel][side as usize];
                        let lane = *works % program.lanes;
                        *works += 1;
                        (channel as u32 * program.lanes + lane) * SIDES + side
                    };
                    if peer == rank {
                        // Who copies neither sends nor receives anything else.
                        let (copies, _) = (next(0), next(1));
                        lists[copies as usize].push(COPY | u32::from(part));
                        continue;
                    }
                    if part < out {
                        let conn = first[at(rank, round)] + u32::from(part);
                        let sender = next(0);
                        program.from[conn as usize] = rank.0 * per_rank + sender;
                        lists[sender as usize].push(conn);
                    }
                    if part < into {
                        let conn = first[at(peer, round)] + u32::from(part);
                        let receiver = next(1);
                        program.to[conn as usize] = rank.0 * per_rank + receiver;
                        lists[receiver as usize].push(conn);
                    }
                }
            }
            program.entries.extend(lists.iter().flatten());
            let mut end = program.works.last().copied().unwrap_or(0);
            for list in lists {
                end += list.len() as u32;
                program.works.push(end);
            }
        }
        program.count_steps();
        program
    }

    /// Counts steps; more than 2³² - 2 count as one more than these, which no simulation begins.
    fn count_steps(&mut self) {
        self.begins = Vec::with_capacity(self.entries.len());
        self.steps = Vec::with_capacity(self.works.len() - 1);
        for list in self.works.windows(2) {
            let mut steps = 0u64;
            for &entry in &self.entries[list[0] as usize..list[1] as usize] {
                self.begins.push(u32::try_from(steps).unwrap_or(u32::MAX));
                steps += if entry & COPY == 0 {
                    let (_, len) = self.part_of(ConnId(entry));
                    len.div_ceil(self.cuts[self.cut[entry as usize] as usize].chunk)
                } else {
                    1
                };
            }
            self.steps.push(u32::try_from(steps).unwrap_or(u32::MAX));
        }
    }

    /// Channels of each rank.
    #[must_use]
    pub fn channels(&self) -> u16 {
        self.channels as u16
    }

    /// Operations that a channel works on at once: no more than there are.
    #[must_use]
    pub fn lanes(&self) -> u16 {
        self.lanes as u16
    }

    fn message(&self, from: Rank, to: Rank) -> Message {
        let block = self.bytes / u64::from(self.ranks);
        let (row, column) = (u64::from(to.0) * block, u64::from(from.0) * block);
        let none_if = |absent: bool, source, target| Message {
            bytes: if absent { 0 } else { block },
            source,
            target,
        };
        match (self.collective, &self.matrix) {
            (_, Some(matrix)) => Message {
                bytes: matrix.bytes(from, to),
                source: matrix.sent_before(from, to),
                target: matrix.received_before(from, to),
            },
            (Collective::Gather, _) => none_if(to != ROOT, 0, column),
            (Collective::Scatter, _) => none_if(from != ROOT, row, 0),
            (collective, _) if collective.is_single_message() => Message {
                bytes: match collective.receiver(from, self.ranks) {
                    Some(receiver) if receiver == to => self.bytes,
                    _ => 0,
                },
                source: 0,
                target: 0,
            },
            _ => none_if(false, row, column),
        }
    }

    /// Where a connection's part lies in its message, and how long it is.
    fn part_of(&self, conn: ConnId) -> (u64, u64) {
        let cut = self.cuts[self.cut[conn.index()] as usize];
        let offset = u64::from(self.part[conn.index()]) * cut.part;
        let rank = |worker: u32| self.worker(WorkerId(worker)).rank;
        let (from, to) = (self.from[conn.index()], self.to[conn.index()]);
        let bytes = self.message(rank(from), rank(to)).bytes;
        (offset, cut.part.min(bytes - offset))
    }

    /// The entry that a worker's step belongs to.
    fn work_at(&self, worker: WorkerId, index: u64) -> usize {
        let first = self.works[worker.index()] as usize;
        let own = first..self.works[worker.index() + 1] as usize;
        first + self.begins[own].partition_point(|&b| u64::from(b) <= index) - 1
    }

    fn copy_step(&self, rank: Rank, part: u32) -> Step {
        let message = self.message(rank, rank);
        let each = self.own_cut[rank.index()].part;
        let offset = u64::from(part) * each;
        Step {
            source: Some(At {
                buffer: Buffer::Input,
                offset: message.source + offset,
            }),
            target: Some(At {
                buffer: Buffer::Output,
                offset: message.target + offset,
            }),
            len: each.min(message.bytes - offset),
            ..Step::NOTHING
        }
    }
}

impl Lanes {
    fn channel(&self, round: usize, part: u16) -> usize {
        (usize::from(self.first[round]) + usize::from(part)) % usize::from(self.channels)
    }
}

impl Program for P2pProgram {
    fn collective(&self) -> Collective {
        self.collective
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn waits_inside(&self) -> bool {
        false
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn workers(&self) -> u32 {
        self.works.len() as u32 - 1
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let lane = id.0 / SIDES;
        let role = if id.0.is_multiple_of(SIDES) {
            Role::Send
        } else {
            Role::Receive
        };
        Worker {
            rank: Rank(lane / self.lanes / self.channels),
            channel: (lane / self.lanes % self.channels) as u16,
            role,
        }
    }

    fn connections(&self) -> u32 {
        self.cut.len() as u32
    }

    fn connection(&self, id: ConnId) -> Connection {
        Connection {
            from: WorkerId(self.from[id.index()]),
            to: WorkerId(self.to[id.index()]),
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        u64::from(self.steps[worker.index()])
    }

    /// Of many messages each is over before anything could come back.
    fn repeats(&self) -> bool {
        self.collective.is_single_message()
    }

    /// All whole chunks of one part of a message.
    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        if index >= self.steps(worker) {
            return 0;
        }
        let work = self.work_at(worker, index);
        let entry = self.entries[work];
        if entry & COPY != 0 {
            return 0;
        }
        let chunk = self.cuts[self.cut[entry as usize] as usize].chunk;
        let (_, len) = self.part_of(ConnId(entry));
        (u64::from(self.begins[work]) + len / chunk).saturating_sub(index + shift)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let work = self.work_at(worker, index);
        let entry = self.entries[work];
        let Worker { rank, role, .. } = self.worker(worker);
        if entry & COPY != 0 {
            return self.copy_step(rank, entry & !COPY);
        }
        let conn = ConnId(entry);
        let chunk = self.cuts[self.cut[conn.index()] as usize].chunk;
        let (part, part_len) = self.part_of(conn);
        let begin = (index - u64::from(self.begins[work])) * chunk;
        let len = chunk.min(part_len - begin);
        let peer = |w: &[u32]| self.worker(WorkerId(w[conn.index()])).rank;
        let message = self.message(peer(&self.from), peer(&self.to));
        let at = |buffer, offset| {
            Some(At {
                buffer,
                offset: offset + part + begin,
            })
        };
        match role {
            Role::Send => Step {
                send: Peers::one(conn),
                source: at(Buffer::Input, message.source),
                len,
                ..Step::NOTHING
            },
            _ => Step {
                recv: Peers::one(conn),
                target: at(Buffer::Output, message.target),
                len,
                ..Step::NOTHING
            },
        }
    }

    fn matrix(&self) -> Option<&Matrix> {
        self.matrix.as_ref()
    }
}

#[cfg(test)]
mod tests;
