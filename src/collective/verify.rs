//! Proof that a program computes what it says.
//!
//! The program is run on **contribution sets** instead of numbers: the value of a byte
//! is the list of (rank, byte of its input) that were summed into it. At the end every
//! byte of every output must hold exactly the contributions that the collective
//! promises, each once. The run also shows that nothing is read before it is written,
//! that both ends of a connection agree on every chunk, and that there is no deadlock
//! with the credits given.

use super::goal::{Collective, ROOT};
use super::program::{At, Buffer, Program, Rank, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;

/// Why a program is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// A step reads a byte that nothing has been written to.
    #[error("rank {rank} reads byte {offset} of its {buffer:?} before it is written")]
    ReadsUnwritten {
        /// The rank.
        rank: u32,
        /// Its buffer.
        buffer: Buffer,
        /// The byte.
        offset: u64,
    },
    /// A step leaves the buffer, or writes to the input.
    #[error("rank {rank} {access} bytes {offset}..{end} of its {buffer:?}, which has {len}")]
    OutOfBounds {
        /// The rank.
        rank: u32,
        /// `reads` or `writes`.
        access: &'static str,
        /// Its buffer.
        buffer: Buffer,
        /// From.
        offset: u64,
        /// To.
        end: u64,
        /// The buffer's size.
        len: u64,
    },
    /// Two chunks that meet in one step differ in size.
    #[error(
        "worker {worker}, step {step}: takes a chunk of {found} bytes where it works on {expected}"
    )]
    ChunkMismatch {
        /// The worker.
        worker: u32,
        /// Its step.
        step: u64,
        /// What was in the queue.
        found: u64,
        /// What the step says.
        expected: u64,
    },
    /// A step of some bytes has nothing to work on.
    #[error("worker {worker}, step {step}: neither receives nor reads anything")]
    NothingToSend {
        /// The worker.
        worker: u32,
        /// Its step.
        step: u64,
    },
    /// No worker can go on, and not all are done.
    #[error("deadlock: worker {worker} waits in step {step} of {steps} ({waiting} workers wait)")]
    Deadlock {
        /// The first worker that waits.
        worker: u32,
        /// Its step.
        step: u64,
        /// How many it has.
        steps: u64,
        /// How many workers wait.
        waiting: usize,
    },
    /// Chunks are left in a connection at the end.
    #[error("connection {connection} still holds {chunks} chunks at the end")]
    LeftOver {
        /// The connection.
        connection: u32,
        /// How many chunks.
        chunks: usize,
    },
    /// An output byte does not hold what it should.
    #[error("rank {rank}, output byte {offset}: {problem}")]
    WrongResult {
        /// The rank.
        rank: u32,
        /// The byte.
        offset: u64,
        /// What is there, and what should be.
        problem: String,
    },
}

/// The contributions to a stretch of bytes: for its first byte, (rank, byte of that
/// rank's input), sorted; later bytes are the same plus their distance.
type Value = Vec<(u32, u64)>;

/// Consecutive bytes with known contributions.
#[derive(Debug, Clone)]
struct Piece {
    len: u64,
    value: Value,
}

/// The part of a piece that starts `skip` bytes in.
fn cut(piece: &Piece, skip: u64, len: u64) -> Piece {
    Piece {
        len,
        value: piece.value.iter().map(|&(r, at)| (r, at + skip)).collect(),
    }
}

/// Written stretches of a buffer by their start; they do not overlap.
#[derive(Debug, Default)]
struct Memory(BTreeMap<u64, Piece>);

impl Memory {
    /// Splits the stretch that covers `at`, so that one starts there.
    fn split(&mut self, at: u64) {
        if let Some((&start, piece)) = self.0.range(..at).next_back()
            && start + piece.len > at
        {
            let (head, tail) = (
                cut(piece, 0, at - start),
                cut(piece, at - start, start + piece.len - at),
            );
            self.0.insert(start, head);
            self.0.insert(at, tail);
        }
    }

    fn write(&mut self, offset: u64, pieces: &[Piece]) {
        let len: u64 = pieces.iter().map(|p| p.len).sum();
        self.split(offset);
        self.split(offset + len);
        let old: Vec<u64> = self
            .0
            .range(offset..offset + len)
            .map(|(&k, _)| k)
            .collect();
        for key in old {
            self.0.remove(&key);
        }
        let mut at = offset;
        for piece in pieces {
            self.0.insert(at, piece.clone());
            at += piece.len;
        }
    }

    /// The stretches of `offset..offset + len`, or the first byte never written.
    fn read(&mut self, offset: u64, len: u64) -> Result<Vec<Piece>, u64> {
        self.split(offset);
        self.split(offset + len);
        let mut at = offset;
        let mut pieces = Vec::new();
        for (&start, piece) in self.0.range(offset..offset + len) {
            if start != at {
                return Err(at);
            }
            at += piece.len;
            pieces.push(piece.clone());
        }
        if at == offset + len {
            Ok(pieces)
        } else {
            Err(at)
        }
    }
}

/// Adds two runs of pieces of equal total length.
fn sum(a: &[Piece], b: &[Piece]) -> Vec<Piece> {
    let (mut out, mut i, mut j, mut skip_a, mut skip_b) = (Vec::new(), 0, 0, 0, 0);
    while i < a.len() && j < b.len() {
        let len = (a[i].len - skip_a).min(b[j].len - skip_b);
        let mut piece = cut(&a[i], skip_a, len);
        piece.value.extend(cut(&b[j], skip_b, len).value);
        piece.value.sort_unstable();
        out.push(piece);
        skip_a += len;
        skip_b += len;
        if skip_a == a[i].len {
            (i, skip_a) = (i + 1, 0);
        }
        if skip_b == b[j].len {
            (j, skip_b) = (j + 1, 0);
        }
    }
    out
}

/// Runs `program` with `credits` chunks per connection and checks its result.
///
/// Cost and memory grow with ranks² × channels: meant for up to about a hundred ranks.
///
/// # Errors
/// The first [`VerifyError`] met.
pub fn verify(program: &dyn Program, credits: usize) -> Result<(), VerifyError> {
    let mut run = Run::new(program);
    let mut next = vec![0u64; program.workers() as usize];
    loop {
        let mut progressed = false;
        for worker in 0..program.workers() {
            let id = WorkerId(worker);
            while next[id.index()] < program.steps(id)
                && run.try_step(id, next[id.index()], credits)?
            {
                next[id.index()] += 1;
                progressed = true;
            }
        }
        if !progressed {
            break;
        }
    }
    let stuck: Vec<u32> = (0..program.workers())
        .filter(|&w| next[w as usize] < program.steps(WorkerId(w)))
        .collect();
    if let Some(&worker) = stuck.first() {
        return Err(VerifyError::Deadlock {
            worker,
            step: next[worker as usize],
            steps: program.steps(WorkerId(worker)),
            waiting: stuck.len(),
        });
    }
    run.check_result()
}

struct Run<'p> {
    program: &'p dyn Program,
    queues: Vec<VecDeque<Vec<Piece>>>,
    outputs: Vec<Memory>,
}

impl<'p> Run<'p> {
    fn new(program: &'p dyn Program) -> Self {
        Run {
            program,
            queues: vec![VecDeque::new(); program.connections() as usize],
            outputs: (0..program.ranks()).map(|_| Memory::default()).collect(),
        }
    }

    fn bounds(
        &self,
        rank: Rank,
        at: At,
        len: u64,
        access: &'static str,
    ) -> Result<(), VerifyError> {
        let p = self.program;
        let size = p
            .collective()
            .buffer_len(at.buffer, rank, p.ranks(), p.bytes());
        if at.offset + len > size || (access == "writes" && at.buffer == Buffer::Input) {
            return Err(VerifyError::OutOfBounds {
                rank: rank.0,
                access,
                buffer: at.buffer,
                offset: at.offset,
                end: at.offset + len,
                len: size,
            });
        }
        Ok(())
    }

    fn try_step(&mut self, id: WorkerId, index: u64, credits: usize) -> Result<bool, VerifyError> {
        let step = self.program.step(id, index);
        if step.len == 0 {
            return Ok(true);
        }
        let rank = self.program.worker(id).rank;
        let ready = step
            .recv
            .as_slice()
            .iter()
            .all(|c| !self.queues[c.index()].is_empty())
            && step
                .send
                .as_slice()
                .iter()
                .all(|c| self.queues[c.index()].len() < credits);
        if !ready {
            return Ok(false);
        }
        let mut value: Option<Vec<Piece>> = None;
        let mut add = |pieces: Vec<Piece>| {
            value = Some(match value.take() {
                None => pieces,
                Some(old) => sum(&old, &pieces),
            });
        };
        for conn in step.recv.as_slice() {
            let pieces = self.queues[conn.index()].pop_front().unwrap_or_default();
            let found: u64 = pieces.iter().map(|p| p.len).sum();
            if found != step.len {
                return Err(VerifyError::ChunkMismatch {
                    worker: id.0,
                    step: index,
                    found,
                    expected: step.len,
                });
            }
            add(pieces);
        }
        if let Some(at) = step.source {
            self.bounds(rank, at, step.len, "reads")?;
            add(match at.buffer {
                Buffer::Input => vec![Piece {
                    len: step.len,
                    value: vec![(rank.0, at.offset)],
                }],
                Buffer::Output => self.outputs[rank.index()]
                    .read(at.offset, step.len)
                    .map_err(|offset| VerifyError::ReadsUnwritten {
                        rank: rank.0,
                        buffer: at.buffer,
                        offset,
                    })?,
            });
        }
        let Some(value) = value else {
            return Err(VerifyError::NothingToSend {
                worker: id.0,
                step: index,
            });
        };
        if let Some(at) = step.target {
            self.bounds(rank, at, step.len, "writes")?;
            self.outputs[rank.index()].write(at.offset, &value);
        }
        for conn in step.send.as_slice() {
            self.queues[conn.index()].push_back(value.clone());
        }
        Ok(true)
    }

    fn check_result(&mut self) -> Result<(), VerifyError> {
        if let Some((connection, queue)) =
            self.queues.iter().enumerate().find(|(_, q)| !q.is_empty())
        {
            return Err(VerifyError::LeftOver {
                connection: connection as u32,
                chunks: queue.len(),
            });
        }
        let p = self.program;
        let (collective, ranks, bytes) = (p.collective(), p.ranks(), p.bytes());
        for rank in (0..ranks).map(Rank) {
            let len = collective.buffer_len(Buffer::Output, rank, ranks, bytes);
            let pieces = self.outputs[rank.index()].read(0, len).map_err(|offset| {
                let problem = "is never written".to_owned();
                VerifyError::WrongResult {
                    rank: rank.0,
                    offset,
                    problem,
                }
            })?;
            let mut offset = 0;
            for piece in pieces {
                let end = offset + piece.len;
                while offset < end {
                    let (expected, run) = promise(collective, rank, ranks, bytes, offset);
                    let here = cut(&piece, piece.len - (end - offset), 1);
                    if here.value != expected {
                        let problem = format!("holds {:?} instead of {expected:?}", here.value);
                        return Err(VerifyError::WrongResult {
                            rank: rank.0,
                            offset,
                            problem,
                        });
                    }
                    offset = end.min(offset + run);
                }
            }
        }
        Ok(())
    }
}

/// What an output byte must hold, and for how many bytes from there on the same holds
/// (each plus its distance).
fn promise(
    collective: Collective,
    rank: Rank,
    ranks: u32,
    bytes: u64,
    offset: u64,
) -> (Value, u64) {
    let block = (bytes / u64::from(ranks)).max(1);
    match collective {
        Collective::AllReduce | Collective::Reduce => {
            ((0..ranks).map(|r| (r, offset)).collect(), bytes - offset)
        }
        Collective::Broadcast => (vec![(ROOT.0, offset)], bytes - offset),
        Collective::ReduceScatter => {
            let at = u64::from(rank.0) * block + offset;
            ((0..ranks).map(|r| (r, at)).collect(), block - offset)
        }
        Collective::AllGather => (
            vec![((offset / block) as u32, offset % block)],
            block - offset % block,
        ),
    }
}
