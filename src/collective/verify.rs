//! Proof that a program computes what it says.
//!
//! The program is run on **contribution sets** instead of numbers: the value of a byte
//! is the list of (rank, byte of its input) that were summed into it. At the end every
//! byte of every output must hold exactly the contributions that the collective
//! promises, each once. The run also shows that nothing is read before it is written,
//! that both ends of a connection agree on every chunk, and that there is no deadlock
//! with the credits given.

use super::goal::{Collective, ROOT};
use super::matrix::Matrix;
use super::program::{At, Buffer, ConnId, Deal, Program, Rank, Step, WorkerId};
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
pub type Value = Vec<(u32, u64)>;

/// Consecutive bytes with known contributions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// How many.
    pub len: u64,
    /// What was summed into them.
    pub value: Value,
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
#[must_use]
pub fn sum(a: &[Piece], b: &[Piece]) -> Vec<Piece> {
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
    run(program, credits, |_, _, _, _| Ok(()))?.check_result()
}

/// Runs `program` to its end, with `watch` called after every step that moves anything, with its
/// worker, its index and itself; the result is not looked at.
pub(super) fn run<'p>(
    program: &'p dyn Program,
    credits: usize,
    mut watch: impl FnMut(&mut Run<'_>, WorkerId, u64, &Step) -> Result<(), VerifyError>,
) -> Result<Run<'p>, VerifyError> {
    let mut run = Run::new(program);
    loop {
        let mut progressed = false;
        for worker in 0..program.workers() {
            let id = WorkerId(worker);
            loop {
                let index = run.done[id.index()];
                if index >= program.steps(id) {
                    break;
                }
                let step = program.step(id, index).trimmed();
                if !run.try_step(id, index, &step, credits)? {
                    break;
                }
                run.done[id.index()] += 1;
                progressed = true;
                if step.len > 0 {
                    watch(&mut run, id, index, &step)?;
                }
            }
        }
        if !progressed {
            break;
        }
    }
    let stuck: Vec<u32> = (0..program.workers())
        .filter(|&w| run.done[w as usize] < program.steps(WorkerId(w)))
        .collect();
    if let Some(&worker) = stuck.first() {
        return Err(VerifyError::Deadlock {
            worker,
            step: run.done[worker as usize],
            steps: program.steps(WorkerId(worker)),
            waiting: stuck.len(),
        });
    }
    Ok(run)
}

pub(super) struct Run<'p> {
    program: &'p dyn Program,
    pub(super) queues: Vec<VecDeque<Vec<Piece>>>,
    outputs: Vec<Memory>,
    scratch: Vec<Memory>,
    /// Steps done by each worker.
    done: Vec<u64>,
}

impl<'p> Run<'p> {
    fn new(program: &'p dyn Program) -> Self {
        Run {
            program,
            queues: vec![VecDeque::new(); program.connections() as usize],
            outputs: (0..program.ranks()).map(|_| Memory::default()).collect(),
            scratch: (0..program.ranks()).map(|_| Memory::default()).collect(),
            done: vec![0; program.workers() as usize],
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
        let size = p.buffer_len(at.buffer, rank);
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

    fn try_step(
        &mut self,
        id: WorkerId,
        index: u64,
        step: &Step,
        credits: usize,
    ) -> Result<bool, VerifyError> {
        if step.len == 0 {
            return Ok(true);
        }
        let rank = self.program.worker(id).rank;
        let after = step
            .after
            .is_none_or(|a| self.done[a.worker.index()] >= u64::from(a.steps));
        let ready = after
            && step.recv.iter().all(|c| !self.queues[c.index()].is_empty())
            && step
                .send
                .iter()
                .all(|c| self.queues[c.index()].len() < credits);
        if !ready {
            return Ok(false);
        }
        if let Some(deal) = step.deal {
            self.dealt(id, index, step, deal)?;
            return Ok(true);
        }
        let mut value: Option<Vec<Piece>> = None;
        let mut add = |pieces: Vec<Piece>| {
            value = Some(match value.take() {
                None => pieces,
                Some(old) => sum(&old, &pieces),
            });
        };
        for conn in step.recv.iter() {
            add(self.take(conn, id, index, step.len)?);
        }
        for at in [step.source, step.addend].into_iter().flatten() {
            add(self.read(rank, at, step.len)?);
        }
        let Some(value) = value else {
            return Err(VerifyError::NothingToSend {
                worker: id.0,
                step: index,
            });
        };
        if let Some(at) = step.target {
            self.write(rank, at, step.len, &value)?;
        }
        for conn in step.send.iter() {
            self.queues[conn.index()].push_back(value.clone());
        }
        Ok(true)
    }

    /// A step whose chunk is dealt over its connections.
    fn dealt(
        &mut self,
        id: WorkerId,
        index: u64,
        step: &Step,
        deal: Deal,
    ) -> Result<(), VerifyError> {
        let rank = self.program.worker(id).rank;
        let place = |at: At, k: usize| At {
            offset: at.offset + k as u64 * deal.stride,
            ..at
        };
        let part = |k: usize| deal.each.min(step.len - k as u64 * deal.each);
        let nothing = VerifyError::NothingToSend {
            worker: id.0,
            step: index,
        };
        match (step.source, step.target) {
            (Some(source), None) if step.recv.is_empty() => {
                for (k, conn) in step.send.iter().enumerate() {
                    let value = self.read(rank, place(source, k), part(k))?;
                    self.queues[conn.index()].push_back(value);
                }
            }
            (None, Some(target)) if step.send.is_empty() => {
                for (k, conn) in step.recv.iter().enumerate() {
                    let value = self.take(conn, id, index, part(k))?;
                    self.write(rank, place(target, k), part(k), &value)?;
                }
            }
            _ => return Err(nothing),
        }
        Ok(())
    }

    fn take(
        &mut self,
        conn: ConnId,
        worker: WorkerId,
        step: u64,
        expected: u64,
    ) -> Result<Vec<Piece>, VerifyError> {
        let pieces = self.queues[conn.index()].pop_front().unwrap_or_default();
        let found: u64 = pieces.iter().map(|p| p.len).sum();
        if found == expected {
            return Ok(pieces);
        }
        Err(VerifyError::ChunkMismatch {
            worker: worker.0,
            step,
            found,
            expected,
        })
    }

    pub(super) fn read(&mut self, rank: Rank, at: At, len: u64) -> Result<Vec<Piece>, VerifyError> {
        self.bounds(rank, at, len, "reads")?;
        let memory = match at.buffer {
            Buffer::Input => {
                return Ok(vec![Piece {
                    len,
                    value: vec![(rank.0, at.offset)],
                }]);
            }
            Buffer::Output => &mut self.outputs[rank.index()],
            Buffer::Scratch => &mut self.scratch[rank.index()],
        };
        memory
            .read(at.offset, len)
            .map_err(|offset| VerifyError::ReadsUnwritten {
                rank: rank.0,
                buffer: at.buffer,
                offset,
            })
    }

    fn write(&mut self, rank: Rank, at: At, len: u64, value: &[Piece]) -> Result<(), VerifyError> {
        self.bounds(rank, at, len, "writes")?;
        match at.buffer {
            Buffer::Scratch => self.scratch[rank.index()].write(at.offset, value),
            _ => self.outputs[rank.index()].write(at.offset, value),
        }
        Ok(())
    }

    pub(super) fn check_result(&mut self) -> Result<(), VerifyError> {
        if let Some((connection, queue)) =
            self.queues.iter().enumerate().find(|(_, q)| !q.is_empty())
        {
            return Err(VerifyError::LeftOver {
                connection: connection as u32,
                chunks: queue.len(),
            });
        }
        let p = self.program;
        for rank in (0..p.ranks()).map(Rank) {
            let len = p.buffer_len(Buffer::Output, rank);
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
                    let (expected, run) = promise(p, rank, offset);
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
#[must_use]
pub fn promise(program: &dyn Program, rank: Rank, offset: u64) -> (Value, u64) {
    let (ranks, bytes) = (program.ranks(), program.bytes());
    let block = (bytes / u64::from(ranks)).max(1);
    match program.collective() {
        Collective::AllReduce | Collective::Reduce => {
            ((0..ranks).map(|r| (r, offset)).collect(), bytes - offset)
        }
        Collective::Broadcast => (vec![(ROOT.0, offset)], bytes - offset),
        Collective::ReduceScatter => {
            let at = u64::from(rank.0) * block + offset;
            ((0..ranks).map(|r| (r, at)).collect(), block - offset)
        }
        Collective::AllGather | Collective::Gather => (
            vec![((offset / block) as u32, offset % block)],
            block - offset % block,
        ),
        Collective::Scatter => (
            vec![(ROOT.0, u64::from(rank.0) * block + offset)],
            block - offset,
        ),
        Collective::SendRecv => (vec![((rank.0 + ranks - 1) % ranks, offset)], bytes - offset),
        Collective::SendRecvPairs | Collective::SendRecvHalves => {
            // Mates send to each other; who has none has no output.
            let mate = program.collective().receiver(rank, ranks);
            (
                mate.map(|mate| (mate.0, offset)).into_iter().collect(),
                bytes - offset,
            )
        }
        Collective::AllToAll => (
            vec![(
                (offset / block) as u32,
                u64::from(rank.0) * block + offset % block,
            )],
            block - offset % block,
        ),
        Collective::AllToAllV => {
            let even;
            let matrix = match program.matrix() {
                Some(matrix) => matrix,
                None => {
                    even = Matrix::even(ranks, block);
                    &even
                }
            };
            // The last sender whose bytes begin at or before this one, and who sends any.
            let from = (0..ranks)
                .map(Rank)
                .rfind(|&f| matrix.bytes(f, rank) > 0 && matrix.received_before(f, rank) <= offset)
                .unwrap_or(ROOT);
            let within = offset - matrix.received_before(from, rank);
            (
                vec![(from.0, matrix.sent_before(from, rank) + within)],
                (matrix.bytes(from, rank) - within).max(1),
            )
        }
    }
}
