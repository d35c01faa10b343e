//! The program language: who sends what to whom, and nothing about time.
//!
//! A program has **workers**, one per (rank, channel), as NCCL has thread blocks.
//! Workers are joined by **connections**, first-in-first-out queues of chunks. Each
//! worker runs a sequence of [`Step`]s: take a chunk from some connections, combine it
//! with local data, store it, pass it on. Steps are computed when they are asked for:
//! a ring over 65,536 ranks has 131,070 steps a rank, and none of them is stored.

use super::goal::Collective;

/// A process of the job, driving one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

/// A (rank, channel) pair: one thread block of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// A queue of chunks from one worker to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u32);

impl Rank {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl WorkerId {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ConnId {
    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A worker's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// The rank it belongs to.
    pub rank: Rank,
    /// Its channel.
    pub channel: u16,
}

/// A connection's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Who puts chunks in.
    pub from: WorkerId,
    /// Who takes them out.
    pub to: WorkerId,
}

/// Up to four connections of one step (NCCL's trees have at most three children).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers {
    len: u8,
    ids: [ConnId; 4],
}

impl Peers {
    /// No connection.
    pub const NONE: Peers = Peers {
        len: 0,
        ids: [ConnId(u32::MAX); 4],
    };

    /// One connection.
    #[must_use]
    pub const fn one(id: ConnId) -> Self {
        Peers {
            len: 1,
            ids: [id, ConnId(u32::MAX), ConnId(u32::MAX), ConnId(u32::MAX)],
        }
    }

    /// The connections.
    #[must_use]
    pub fn as_slice(&self) -> &[ConnId] {
        &self.ids[..usize::from(self.len)]
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same number of others.
    #[must_use]
    pub fn map(mut self, f: impl Fn(ConnId) -> ConnId) -> Self {
        for id in &mut self.ids[..usize::from(self.len)] {
            *id = f(*id);
        }
        self
    }
}

/// A rank's memory as a collective sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What the rank contributes; read only.
    Input,
    /// Where the result goes.
    Output,
}

/// A place in a rank's memory, in bytes from the buffer's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Which buffer.
    pub buffer: Buffer,
    /// Bytes from its start.
    pub offset: u64,
}

/// One primitive over one chunk.
///
/// The chunks taken from all of `recv` and the local data at `source` (if any) are
/// summed; the result is stored at `target` (if any) and put into all of `send`.
/// A step of no bytes does nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Connections of which one chunk each is taken.
    pub recv: Peers,
    /// Connections into which the result is put.
    pub send: Peers,
    /// Local data that takes part.
    pub source: Option<At>,
    /// Where the result is stored.
    pub target: Option<At>,
    /// Bytes of the chunk.
    pub len: u64,
}

impl Step {
    /// What NCCL calls this primitive, for timelines: `recv+reduce+copy+send`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let reduces = !self.recv.is_empty() && self.source.is_some();
        match (
            !self.recv.is_empty(),
            reduces,
            self.target.is_some(),
            !self.send.is_empty(),
        ) {
            (false, _, false, _) => "send",
            (false, _, true, true) => "copy+send",
            (false, _, true, false) => "copy",
            (true, false, false, true) => "recv+send",
            (true, false, true, true) => "recv+copy+send",
            (true, true, false, true) => "recv+reduce+send",
            (true, true, true, true) => "recv+reduce+copy+send",
            (true, true, _, false) => "recv+reduce+copy",
            (true, false, _, false) => "recv",
        }
    }
}

/// A collective as what each worker does. Implementations compute; they do not store.
pub trait Program: Send + Sync {
    /// What is to be achieved.
    fn collective(&self) -> Collective;
    /// nccl-tests' size: bytes of the whole operation.
    fn bytes(&self) -> u64;
    /// How many ranks take part.
    fn ranks(&self) -> u32;
    /// How many workers there are; ids are `0..workers()`.
    fn workers(&self) -> u32;
    /// A worker's place.
    fn worker(&self, id: WorkerId) -> Worker;
    /// How many connections there are; ids are `0..connections()`.
    fn connections(&self) -> u32;
    /// A connection's ends.
    fn connection(&self, id: ConnId) -> Connection;
    /// How many steps a worker has.
    fn steps(&self, worker: WorkerId) -> u64;
    /// A worker's step, `index < steps(worker)`.
    fn step(&self, worker: WorkerId, index: u64) -> Step;
}
