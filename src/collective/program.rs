//! The program language: who sends what to whom, and nothing about time.
//!
//! A program has **workers**, one per (rank, channel), as NCCL has thread blocks.
//! Workers are joined by **connections**, first-in-first-out queues of chunks. Each
//! worker runs a sequence of [`Step`]s: take a chunk from some connections, combine it
//! with local data, store it, pass it on. Steps are computed when they are asked for:
//! a ring over 65,536 ranks has 131,070 steps a rank, and none of them is stored.

use super::goal::Collective;
use super::matrix::Matrix;
use std::ops::Range;

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

/// What part of a thread block a worker is. NCCL divides the warps of some kernels, and
/// the parts run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// All of it.
    Block,
    /// Towards the root of a tree, or of a reduction.
    Up,
    /// Away from the root.
    Down,
    /// From the user's buffer to heads.
    Scatter,
    /// From heads to the user's buffer.
    Gather,
    /// The sending side of point-to-point operations.
    Send,
    /// The receiving side.
    Receive,
    /// No thread block at all: switches that reduce and copy by themselves.
    Switch,
}

impl Role {
    /// Every role, in order of [`Role::index`].
    pub const ALL: [Role; 8] = [
        Role::Block,
        Role::Up,
        Role::Down,
        Role::Scatter,
        Role::Gather,
        Role::Send,
        Role::Receive,
        Role::Switch,
    ];

    /// As an index into tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A worker's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    /// The rank it belongs to; of switches: the rank that is first served by them.
    pub rank: Rank,
    /// Its channel.
    pub channel: u16,
    /// Which part of the channel's thread block it is.
    pub role: Role,
}

/// A connection's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Who puts chunks in.
    pub from: WorkerId,
    /// Who takes them out.
    pub to: WorkerId,
}

/// The connections of one side of a step: up to four of any numbers, or any count of them
/// with numbers at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peers {
    count: u32,
    /// Distance of the numbers; zero: they are listed.
    stride: u32,
    ids: [ConnId; 4],
}

const NO_CONN: ConnId = ConnId(u32::MAX);

impl Peers {
    /// No connection.
    pub const NONE: Peers = Peers {
        count: 0,
        stride: 0,
        ids: [NO_CONN; 4],
    };

    /// One connection.
    #[must_use]
    pub const fn one(id: ConnId) -> Self {
        Peers {
            count: 1,
            stride: 0,
            ids: [id, NO_CONN, NO_CONN, NO_CONN],
        }
    }

    /// `count` connections, `first` and then every `stride`-th after it.
    ///
    /// # Panics
    /// If `stride` is zero.
    #[must_use]
    #[inline]
    pub const fn range(first: ConnId, count: u32, stride: u32) -> Self {
        assert!(stride > 0, "numbers differ");
        Peers {
            count,
            stride,
            ids: [first, NO_CONN, NO_CONN, NO_CONN],
        }
    }

    /// The connections listed, at most four.
    ///
    /// # Panics
    /// If there are more.
    #[must_use]
    pub fn list(ids: impl IntoIterator<Item = ConnId>) -> Self {
        let mut peers = Peers::NONE;
        for id in ids {
            peers.ids[peers.count as usize] = id;
            peers.count += 1;
        }
        peers
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The connection, if it is exactly one.
    #[must_use]
    pub const fn single(&self) -> Option<ConnId> {
        if self.count == 1 {
            Some(self.ids[0])
        } else {
            None
        }
    }

    /// The connections, in order.
    pub fn iter(&self) -> impl Iterator<Item = ConnId> + '_ {
        (0..self.count).map(|k| {
            if self.stride == 0 {
                self.ids[k as usize]
            } else {
                ConnId(self.ids[0].0 + k * self.stride)
            }
        })
    }

    /// The connections with numbers larger by so much.
    #[must_use]
    pub fn shifted(mut self, by: u32) -> Self {
        let listed = if self.stride == 0 { self.count } else { 1 };
        for id in self.ids.iter_mut().take(listed as usize) {
            id.0 += by;
        }
        self
    }

    /// Only the first `count` of them.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.count = self.count.min(count as u32);
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
    /// For what is neither; [`Program::scratch`] says how much.
    Scratch,
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
/// The chunks taken from all of `recv` and the local data at `source` and `addend` (if any)
/// are summed; the result is stored at `target` (if any) and put into all of `send`.
/// A step of no bytes does nothing at all, not even wait for `after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Connections of which one chunk each is taken.
    pub recv: Peers,
    /// Connections into which the result is put.
    pub send: Peers,
    /// Local data that takes part.
    pub source: Option<At>,
    /// More of it.
    pub addend: Option<At>,
    /// Where the result is stored.
    pub target: Option<At>,
    /// Bytes of the chunk.
    pub len: u64,
    /// The chunk is dealt over the connections instead of being the same on each.
    pub deal: Option<Deal>,
    /// Not to be begun before that.
    pub after: Option<After>,
}

/// How a chunk is dealt over a step's connections, of which there are some on one side
/// only: the first carries the first `each` bytes, and so on; the last what is left, and
/// those for which nothing is left take no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deal {
    /// Bytes of each connection.
    pub each: u64,
    /// Between the places in memory of one connection's bytes and the next one's.
    pub stride: u64,
}

/// A point in another worker's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// The worker, of the same rank.
    pub worker: WorkerId,
    /// So many of its steps are done.
    pub steps: u32,
}

impl Step {
    /// A step that moves nothing; to be filled in.
    pub const NOTHING: Step = Step {
        recv: Peers::NONE,
        send: Peers::NONE,
        source: None,
        addend: None,
        target: None,
        len: 0,
        deal: None,
        after: None,
    };

    /// The step without the connections for which a dealt chunk has nothing.
    #[must_use]
    #[inline]
    pub fn trimmed(mut self) -> Self {
        if let Some(deal) = self.deal {
            let used = self.len.div_ceil(deal.each.max(1)) as usize;
            self.recv = self.recv.first(used);
            self.send = self.send.first(used);
        }
        self
    }

    /// What NCCL calls this primitive, for timelines: `recv+reduce+copy+send`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.deal.is_some() {
            return if self.recv.is_empty() {
                "scatter"
            } else {
                "gather"
            };
        }
        let operands = self.recv.len()
            + usize::from(self.source.is_some())
            + usize::from(self.addend.is_some());
        let reduces = operands > 1;
        match (
            !self.recv.is_empty(),
            reduces,
            self.target.is_some(),
            !self.send.is_empty(),
        ) {
            (false, _, false, _) => "send",
            (false, _, true, true) => "copy+send",
            (false, false, true, false) => "copy",
            (false, true, true, false) => "reduce",
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
    /// Two workers for which this is the same (and something) have the same steps, but for the
    /// places in memory and the names of connections: where one has its n-th outgoing or
    /// incoming connection, in order of their ids, so has the other. Saves looking at each step
    /// of each worker; steps that wait for other workers cannot be told alike like this.
    fn alike(&self, _worker: WorkerId) -> Option<u64> {
        None
    }
    /// Programs for which this is the same (and something) are the same in all.
    fn fingerprint(&self) -> Option<u64> {
        None
    }
    /// The program is so many that are the same, side by side: the workers and connections of
    /// each come after those of the one before. Saves looking at more than one of them.
    fn copies(&self) -> u32 {
        1
    }
    /// How many of a worker's steps from `index` on take as long as, and use the connections of,
    /// the steps that come `shift` later; zero if that is not known. Lets a simulation jump over
    /// steps that repeat each other.
    fn same_after(&self, _worker: WorkerId, _index: u64, _shift: u64) -> u64 {
        0
    }
    /// Whether [`Program::same_after`] ever knows; looking for what repeats is vain otherwise.
    fn repeats(&self) -> bool {
        false
    }
    /// If its last blocks are shorter than the others: what it would be if they were not. Each
    /// worker has the same steps in it, but for the lengths of those in
    /// [`Program::uneven_steps`]; none waits for another worker, or has several connections on
    /// one side.
    fn evened(&self) -> Option<Box<dyn Program>> {
        None
    }
    /// The steps of a worker that are not as in the program [`evened`](Program::evened), as
    /// ranges of their numbers, in order.
    fn uneven_steps(&self, _worker: WorkerId) -> Vec<Range<u64>> {
        Vec::new()
    }
    /// Whether any step may wait for another worker ([`Step::after`]); a simulation of those
    /// that say no has less to keep.
    fn waits_inside(&self) -> bool {
        true
    }
    /// Of an all-to-all-v: who sends how much to whom.
    fn matrix(&self) -> Option<&Matrix> {
        None
    }
    /// Bytes of a rank's buffer.
    fn buffer_len(&self, buffer: Buffer, rank: Rank) -> u64 {
        match (buffer, self.matrix()) {
            (Buffer::Scratch, _) => self.scratch(rank),
            (Buffer::Input, Some(matrix)) => matrix.sent(rank),
            (Buffer::Output, Some(matrix)) => matrix.received(rank),
            _ => self
                .collective()
                .buffer_len(buffer, rank, self.ranks(), self.bytes()),
        }
    }
    /// Bytes of a rank's scratch memory.
    fn scratch(&self, _rank: Rank) -> u64 {
        0
    }
}
