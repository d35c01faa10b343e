//! A ring of processes in host memory, as MPI and Gloo run it where they know nothing of GPUs:
//! the GPU's data is copied to the host, the ring sums there, and the result is copied back.
//!
//! The three go one after the other. The steps between are those of [`RingProgram`] on one
//! channel, over memory of the host, which is the rank's scratch memory here.

use super::goal::Collective;
use super::program::{
    After, At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::ring::{Part, RingProgram};
use super::rings::Rings;
use std::sync::Arc;

/// A ring in host memory.
#[derive(Debug, Clone)]
pub struct HostRingProgram {
    ring: RingProgram,
}

/// What kind of hop a connection of a [`HostRingProgram`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostHop {
    /// From one process to the next.
    Ring,
    /// From a GPU to its host.
    ToHost,
    /// Back.
    FromHost,
}

/// The workers of a rank: copying to the host and its arrival there, the process, copying
/// back and arrival.
const WORKERS: u32 = 5;
const OUT: u32 = 0;
const LANDED: u32 = 1;
const PROCESS: u32 = 2;
const BACK: u32 = 3;
const RETURNED: u32 = 4;

/// The longest single copy; what counts slices has 32 bits.
const COPY: u64 = 1 << 30;

impl HostRingProgram {
    /// `collective` over `bytes` (nccl-tests' size) between `ranks` processes in order, in
    /// chunks of at most `chunk`.
    ///
    /// # Panics
    /// If there are no ranks, `chunk` is zero, or the collective is made of sends and
    /// receives.
    #[must_use]
    pub fn new(collective: Collective, bytes: u64, ranks: u32, chunk: u64) -> Self {
        let len = match collective {
            Collective::AllGather | Collective::ReduceScatter => bytes / u64::from(ranks),
            _ => bytes,
        };
        let part = Part {
            offset: 0,
            len,
            chunk,
        };
        let rings = Arc::new(Rings::consecutive(ranks, 1));
        HostRingProgram {
            ring: RingProgram::new(collective, bytes, rings, vec![part]),
        }
    }

    /// What kind of hop a connection is.
    #[must_use]
    pub fn kind(&self, id: ConnId) -> HostHop {
        match id.0.checked_sub(self.ring.connections()) {
            None => HostHop::Ring,
            Some(copy) if copy.is_multiple_of(2) => HostHop::ToHost,
            Some(_) => HostHop::FromHost,
        }
    }

    fn id(rank: Rank, which: u32) -> WorkerId {
        WorkerId(rank.0 * WORKERS + which)
    }

    fn copies(&self, rank: Rank, buffer: Buffer) -> u32 {
        self.ring.buffer_len(buffer, rank).div_ceil(COPY) as u32
    }

    /// All steps of the ring are done only when the last is.
    fn after(&self, rank: Rank, which: u32) -> Option<After> {
        let worker = Self::id(rank, which);
        let steps = self.steps(worker) as u32;
        Some(After { worker, steps })
    }

    /// Where a place of the ring's buffers is in host memory: the input, then the output.
    fn staged(&self, rank: Rank, at: At) -> At {
        let offset = match at.buffer {
            Buffer::Output => self.ring.buffer_len(Buffer::Input, rank) + at.offset,
            _ => at.offset,
        };
        At {
            buffer: Buffer::Scratch,
            offset,
        }
    }

    fn process_step(&self, rank: Rank, index: u64) -> Step {
        let step = self.ring.step(WorkerId(rank.0), index);
        let staged = |at: Option<At>| at.map(|at| self.staged(rank, at));
        Step {
            source: staged(step.source),
            addend: staged(step.addend),
            target: staged(step.target),
            after: self.after(rank, LANDED),
            ..step
        }
    }

    /// One end of a copy between a GPU's `buffer` and its host.
    fn copy_step(&self, rank: Rank, which: u32, index: u64) -> Step {
        let out = matches!(which, OUT | LANDED);
        let buffer = if out { Buffer::Input } else { Buffer::Output };
        let conn = ConnId(self.ring.connections() + rank.0 * 2 + u32::from(!out));
        let offset = index * COPY;
        let own = At { buffer, offset };
        let host = self.staged(rank, own);
        let step = Step {
            len: COPY.min(self.ring.buffer_len(buffer, rank) - offset),
            ..Step::NOTHING
        };
        let send = |source| Step {
            send: Peers::one(conn),
            source: Some(source),
            ..step
        };
        let receive = |target| Step {
            recv: Peers::one(conn),
            target: Some(target),
            ..step
        };
        match which {
            OUT => send(own),
            LANDED => receive(host),
            BACK => Step {
                after: self.after(rank, PROCESS),
                ..send(host)
            },
            _ => receive(own),
        }
    }
}

impl Program for HostRingProgram {
    fn collective(&self) -> Collective {
        self.ring.collective()
    }

    fn bytes(&self) -> u64 {
        self.ring.bytes()
    }

    fn ranks(&self) -> u32 {
        self.ring.ranks()
    }

    fn workers(&self) -> u32 {
        self.ranks() * WORKERS
    }

    fn worker(&self, id: WorkerId) -> Worker {
        Worker {
            rank: Rank(id.0 / WORKERS),
            channel: 0,
            role: match id.0 % WORKERS {
                OUT | BACK => Role::Send,
                LANDED | RETURNED => Role::Receive,
                _ => Role::Block,
            },
        }
    }

    fn connections(&self) -> u32 {
        self.ring.connections() + 2 * self.ranks()
    }

    fn connection(&self, id: ConnId) -> Connection {
        let Some(copy) = id.0.checked_sub(self.ring.connections()) else {
            let ends = self.ring.connection(id);
            return Connection {
                from: Self::id(Rank(ends.from.0), PROCESS),
                to: Self::id(Rank(ends.to.0), PROCESS),
            };
        };
        let rank = Rank(copy / 2);
        let (from, to) = if copy.is_multiple_of(2) {
            (OUT, LANDED)
        } else {
            (BACK, RETURNED)
        };
        Connection {
            from: Self::id(rank, from),
            to: Self::id(rank, to),
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let rank = Rank(worker.0 / WORKERS);
        match worker.0 % WORKERS {
            PROCESS => self.ring.steps(WorkerId(rank.0)),
            OUT | LANDED => u64::from(self.copies(rank, Buffer::Input)),
            _ => u64::from(self.copies(rank, Buffer::Output)),
        }
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let rank = Rank(worker.0 / WORKERS);
        match worker.0 % WORKERS {
            PROCESS => self.process_step(rank, index),
            which => self.copy_step(rank, which, index),
        }
    }

    fn scratch(&self, rank: Rank) -> u64 {
        self.ring.buffer_len(Buffer::Input, rank) + self.ring.buffer_len(Buffer::Output, rank)
    }
}
