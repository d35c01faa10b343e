//! Several programs at once, each on ranks of its own.

use super::goal::Collective;
use super::program::{After, Buffer, ConnId, Connection, Program, Rank, Step, Worker, WorkerId};
use std::sync::Arc;

/// Programs that run side by side: the same collective in several groups of ranks. The ranks,
/// workers and connections of each program come after those of the ones before.
pub struct SideBySide {
    programs: Vec<Arc<dyn Program>>,
    /// Where the ranks, workers and connections of each begin, and the ends.
    starts: Vec<Start>,
    /// All have as many of everything, so that their workers can be told alike.
    same: bool,
    /// All are the same program.
    one: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Start {
    rank: u32,
    worker: u32,
    connection: u32,
}

impl SideBySide {
    /// These programs, in this order.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(programs: Vec<Arc<dyn Program>>) -> Self {
        assert!(!programs.is_empty(), "something runs");
        let mut starts = vec![Start::default()];
        let mut at = Start::default();
        for program in &programs {
            at.rank += program.ranks();
            at.worker += program.workers();
            at.connection += program.connections();
            starts.push(at);
        }
        let kind = |p: &Arc<dyn Program>| {
            let counts = (p.ranks(), p.workers(), p.connections());
            (p.collective(), p.bytes(), counts)
        };
        let same = programs.iter().all(|p| kind(p) == kind(&programs[0]));
        let first = programs[0].fingerprint();
        let one = first.is_some() && programs[1..].iter().all(|p| p.fingerprint() == first);
        SideBySide {
            programs,
            starts,
            same,
            one,
        }
    }

    /// Which program a worker belongs to.
    #[must_use]
    pub fn program_of(&self, worker: WorkerId) -> usize {
        self.starts.partition_point(|s| s.worker <= worker.0) - 1
    }

    /// Which program a connection belongs to.
    #[must_use]
    pub fn program_of_connection(&self, connection: ConnId) -> usize {
        self.starts
            .partition_point(|s| s.connection <= connection.0)
            - 1
    }

    fn inside(&self, worker: WorkerId) -> (&dyn Program, Start, WorkerId) {
        let index = self.program_of(worker);
        let start = self.starts[index];
        let inner = WorkerId(worker.0 - start.worker);
        (self.programs[index].as_ref(), start, inner)
    }
}

impl Program for SideBySide {
    fn collective(&self) -> Collective {
        self.programs[0].collective()
    }

    fn bytes(&self) -> u64 {
        self.programs[0].bytes()
    }

    fn ranks(&self) -> u32 {
        self.starts[self.programs.len()].rank
    }

    fn workers(&self) -> u32 {
        self.starts[self.programs.len()].worker
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let (program, start, inner) = self.inside(id);
        let worker = program.worker(inner);
        Worker {
            rank: Rank(worker.rank.0 + start.rank),
            ..worker
        }
    }

    fn connections(&self) -> u32 {
        self.starts[self.programs.len()].connection
    }

    fn connection(&self, id: ConnId) -> Connection {
        let index = self.program_of_connection(id);
        let start = self.starts[index];
        let inner = self.programs[index].connection(ConnId(id.0 - start.connection));
        Connection {
            from: WorkerId(inner.from.0 + start.worker),
            to: WorkerId(inner.to.0 + start.worker),
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let (program, _, inner) = self.inside(worker);
        program.steps(inner)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let (program, start, inner) = self.inside(worker);
        let step = program.step(inner, index);
        Step {
            recv: step.recv.shifted(start.connection),
            send: step.send.shifted(start.connection),
            after: step.after.map(|after| After {
                worker: WorkerId(after.worker.0 + start.worker),
                ..after
            }),
            ..step
        }
    }

    fn copies(&self) -> u32 {
        if self.one {
            self.programs.len() as u32
        } else {
            1
        }
    }

    fn alike(&self, worker: WorkerId) -> Option<u64> {
        let (program, _, inner) = self.inside(worker);
        if self.same {
            program.alike(inner)
        } else {
            None
        }
    }

    fn waits_inside(&self) -> bool {
        self.programs.iter().any(|p| p.waits_inside())
    }

    fn buffer_len(&self, buffer: Buffer, rank: Rank) -> u64 {
        let index = self.starts.partition_point(|s| s.rank <= rank.0) - 1;
        let inner = Rank(rank.0 - self.starts[index].rank);
        self.programs[index].buffer_len(buffer, inner)
    }

    fn scratch(&self, rank: Rank) -> u64 {
        self.buffer_len(Buffer::Scratch, rank)
    }
}
