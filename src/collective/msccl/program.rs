//! The program of a file, over so many bytes.

use super::MscclAlgorithm;
use super::memory::ResolvedStep;
use crate::goal::Collective;
use crate::program::{
    After, At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use std::collections::BTreeMap;

/// A collective by an algorithm from a file.
#[derive(Debug, Clone)]
pub struct MscclProgram {
    collective: Collective,
    bytes: u64,
    ranks: u32,
    /// Bytes of one of the file's chunks.
    unit: u64,
    /// Of which a pass over the program handles so many.
    window: u64,
    /// Of whole chunks, so many go together.
    group: u32,
    scratch: u64,
    workers: Vec<Block>,
    connections: Vec<Connection>,
    steps: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    rank: u32,
    channel: u16,
    send: Option<ConnId>,
    recv: Option<ConnId>,
    /// Its entries in the table of steps, and how many steps they are.
    first: u32,
    end: u32,
    steps: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    step: ResolvedStep,
    /// Steps of the worker before it in a pass.
    begins: u64,
    /// The worker that it waits for, and how many of its steps in a pass.
    after: Option<(WorkerId, u64)>,
}

/// What a step moves that only waits; such a step must be no step of no bytes.
const TOKEN: u64 = 16;

impl MscclProgram {
    pub(super) fn new(algorithm: &MscclAlgorithm, bytes: u64, chunk: u64) -> Self {
        assert!(chunk > 0, "chunks hold something");
        let unit = bytes / u64::from(algorithm.chunks);
        let group = if algorithm.together && unit > 0 {
            u32::try_from((chunk / unit).max(1)).unwrap_or(u32::MAX)
        } else {
            1
        };
        let pieces = |step: &ResolvedStep| match step.count {
            0 => 1,
            count => u64::from(count.div_ceil(group)),
        };
        let mut workers = Vec::new();
        let mut steps: Vec<Entry> = Vec::new();
        let (mut senders, mut receivers) = (BTreeMap::new(), BTreeMap::new());
        for (rank, blocks) in (0..).zip(&algorithm.ranks) {
            let first_worker = workers.len() as u32;
            let first_step = steps.len();
            for block in &blocks.0 {
                let worker = WorkerId(workers.len() as u32);
                if let Some(to) = block.send {
                    senders.insert((rank, to, block.channel), worker);
                }
                if let Some(from) = block.recv {
                    receivers.insert((from, rank, block.channel), worker);
                }
                let first = steps.len() as u32;
                let mut begins = 0;
                for &step in &block.steps {
                    steps.push(Entry {
                        step,
                        begins,
                        after: None,
                    });
                    begins += pieces(&step);
                }
                workers.push(Block {
                    rank,
                    channel: block.channel,
                    send: None,
                    recv: None,
                    first,
                    end: steps.len() as u32,
                    steps: begins,
                });
            }
            for at in first_step..steps.len() {
                let Some((block, step)) = steps[at].step.after else {
                    continue;
                };
                let worker = WorkerId(first_worker + block);
                let before = &steps[(workers[worker.index()].first + step) as usize];
                let reached = before.begins + pieces(&before.step);
                steps[at].after = Some((worker, reached));
            }
        }
        let mut connections = Vec::with_capacity(senders.len());
        for (key, from) in senders {
            let to = receivers[&key];
            let id = ConnId(connections.len() as u32);
            workers[from.index()].send = Some(id);
            workers[to.index()].recv = Some(id);
            connections.push(Connection { from, to });
        }
        MscclProgram {
            collective: algorithm.collective,
            bytes,
            ranks: algorithm.ranks(),
            unit,
            window: unit.min(chunk),
            group,
            scratch: u64::from(algorithm.scratch) * unit,
            workers,
            connections,
            steps,
        }
    }
}

impl Program for MscclProgram {
    fn collective(&self) -> Collective {
        self.collective
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let block = &self.workers[id.index()];
        Worker {
            rank: Rank(block.rank),
            channel: block.channel,
            role: Role::Block,
        }
    }

    fn connections(&self) -> u32 {
        self.connections.len() as u32
    }

    fn connection(&self, id: ConnId) -> Connection {
        self.connections[id.index()]
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let passes = self.unit.div_ceil(self.window.max(1));
        passes * self.workers[worker.index()].steps
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let block = &self.workers[worker.index()];
        let (pass, within) = (index / block.steps, index % block.steps);
        let own = &self.steps[block.first as usize..block.end as usize];
        let entry = &own[own.partition_point(|e| e.begins <= within) - 1];
        let step = &entry.step;
        let after = entry.after.map(|(worker, steps)| After {
            worker,
            steps: (pass * self.workers[worker.index()].steps + steps) as u32,
        });
        let begin = pass * self.window;
        let window = self.window.min(self.unit - begin);
        let skipped = (within - entry.begins) * u64::from(self.group);
        let at = |(buffer, chunk): (Buffer, u32)| At {
            buffer,
            offset: (u64::from(chunk) + skipped) * self.unit + begin,
        };
        if step.count == 0 {
            return Step {
                source: step.source.map(at),
                target: Some(At {
                    buffer: Buffer::Scratch,
                    offset: self.scratch,
                }),
                len: TOKEN.min(window),
                after,
                ..Step::NOTHING
            };
        }
        // More than one chunk at once only if a pass covers chunks whole.
        let count = (u64::from(step.count) - skipped).min(u64::from(self.group));
        let peers = |used: bool, conn: Option<ConnId>| {
            conn.filter(|_| used).map_or(Peers::NONE, Peers::one)
        };
        Step {
            recv: peers(step.receives, block.recv),
            send: peers(step.sends, block.send),
            source: step.source.map(at),
            addend: step.addend.map(at),
            target: step.target.map(at),
            len: window * count,
            after,
            ..Step::NOTHING
        }
    }

    fn scratch(&self, _rank: Rank) -> u64 {
        self.scratch + TOKEN
    }
}
