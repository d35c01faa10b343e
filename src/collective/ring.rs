//! Ring algorithms, step for step as NCCL runs them.
//!
//! Each channel is a ring over all ranks and handles its own part of the data, in loops
//! of one chunk per rank (all-reduce) or one chunk (the others). Step lists: NCCL
//! 2.30 `all_reduce.h`, `all_gather.h`, `reduce_scatter.h`, `broadcast.h`, `reduce.h`,
//! restated. Left out: in-place shortcuts and registered buffers.

use super::goal::{Collective, ROOT};
use super::program::{
    At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::rings::Rings;
use std::ops::Range;
use std::sync::Arc;

/// A channel's part of the data, in bytes. For all-gather and reduce-scatter it is a
/// part of each rank's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Part {
    /// From the start of the buffer (or block).
    pub offset: u64,
    /// How much.
    pub len: u64,
    /// The largest chunk; a multiple of 16.
    pub chunk: u64,
}

impl Part {
    /// [`Program::same_after`] where each step sees to the next `step` bytes: all but a last
    /// one with less are the same.
    pub(super) fn same_after(&self, step: u64, index: u64, shift: u64) -> u64 {
        (self.len / step).saturating_sub(index + shift)
    }
}

/// A collective on rings.
#[derive(Debug, Clone)]
pub struct RingProgram {
    collective: Collective,
    bytes: u64,
    rings: Arc<Rings>,
    parts: Vec<Part>,
}

/// Where blocks are shorter than others.
struct ShortBlocks {
    /// Bytes of the loops before.
    before: u64,
    /// Bytes of the others.
    chunk: u64,
    /// The first of them; all after it are, too.
    first: u64,
}

/// Chunks of the last loop are rounded up to this many bytes (NCCL: 16).
const GRAIN: u64 = 16;

impl RingProgram {
    /// `collective` over `bytes` (nccl-tests' size), `parts[c]` of it on channel `c`.
    /// Only the first `parts.len()` channels of `rings` are used.
    ///
    /// # Panics
    /// If there are more parts than rings, a part's chunk is zero, or the collective is made
    /// of sends and receives.
    #[must_use]
    pub fn new(collective: Collective, bytes: u64, rings: Arc<Rings>, parts: Vec<Part>) -> Self {
        assert!(
            parts.len() <= usize::from(rings.channels()),
            "a ring for each part"
        );
        assert!(parts.iter().all(|p| p.chunk > 0), "chunks hold something");
        assert!(!collective.is_point_to_point(), "{collective} is no ring");
        RingProgram {
            collective,
            bytes,
            rings,
            parts,
        }
    }

    /// The rings that it runs on.
    #[must_use]
    pub fn rings(&self) -> &Rings {
        &self.rings
    }

    fn channels(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Bytes that one loop of a channel covers at most.
    fn loop_len(&self, part: &Part) -> u64 {
        match self.collective {
            Collective::AllReduce => part.chunk * u64::from(self.ranks()),
            _ => part.chunk,
        }
    }

    fn steps_per_loop(&self) -> u64 {
        let n = u64::from(self.ranks());
        match self.collective {
            _ if n == 1 => 1,
            Collective::AllReduce => 2 * n - 1,
            Collective::AllGather | Collective::ReduceScatter => n,
            _ => 1,
        }
    }

    /// The blocks of a last loop of an all-reduce over `rest` bytes, but for those that are
    /// shorter.
    fn last_chunk(&self, part: &Part, rest: u64) -> u64 {
        let even = rest.div_ceil(u64::from(self.ranks()));
        part.chunk.min(even.next_multiple_of(GRAIN))
    }

    /// The blocks of an all-reduce that are shorter than others of their loop, which is the last.
    fn short_blocks(&self, part: &Part) -> Option<ShortBlocks> {
        let n = u64::from(self.ranks());
        let rest = part.len % self.loop_len(part);
        if self.collective != Collective::AllReduce || n == 1 || rest == 0 {
            return None;
        }
        let chunk = self.last_chunk(part, rest);
        let first = rest / chunk;
        (first < n).then_some(ShortBlocks {
            before: part.len - rest,
            chunk,
            first,
        })
    }

    /// The steps in which short blocks come by a worker: twice, while they are summed and when
    /// they are, one step later at each position.
    fn short_steps(&self, worker: WorkerId) -> impl Iterator<Item = Range<u64>> {
        let Worker { rank, channel, .. } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let n = u64::from(self.ranks());
        let me = u64::from(self.rings.ring(channel).positions[rank.index()]);
        let steps = self.steps_per_loop();
        let short = self.short_blocks(part).map(|short| {
            let loops = short.before / self.loop_len(part);
            (short.first, loops * steps)
        });
        // In step k block me - 1 - k is due, modulo n.
        let turns = short.into_iter().flat_map(move |(block, before)| {
            (0..3).map(move |turn| {
                let first = (me + turn * n).saturating_sub(n);
                let end = (me + turn * n).saturating_sub(block);
                before + first.min(steps)..before + end.min(steps)
            })
        });
        turns.filter(|range| !range.is_empty())
    }

    /// The chunk that is due: where (relative to the buffer's or block's start) and how long.
    fn chunk(&self, part: &Part, round: u64, index: u64) -> (u64, u64) {
        let done = round * self.loop_len(part);
        let rest = part.len - done;
        match self.collective {
            Collective::AllReduce => {
                // Only the last loop has less than a full chunk for each rank.
                let chunk = if rest >= self.loop_len(part) {
                    part.chunk
                } else {
                    self.last_chunk(part, rest)
                };
                let start = (chunk * index).min(rest);
                (part.offset + done + start, chunk.min(rest - start))
            }
            _ => (part.offset + done, part.chunk.min(rest)),
        }
    }
}

impl Program for RingProgram {
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
        self.rings.ranks()
    }

    fn workers(&self) -> u32 {
        self.ranks() * self.channels()
    }

    fn worker(&self, id: WorkerId) -> Worker {
        Worker {
            rank: Rank(id.0 / self.channels()),
            channel: (id.0 % self.channels()) as u16,
            role: Role::Block,
        }
    }

    fn connections(&self) -> u32 {
        if self.ranks() == 1 { 0 } else { self.workers() }
    }

    /// Connection `w` leads from worker `w` to the next rank's worker of its channel.
    fn connection(&self, id: ConnId) -> Connection {
        let Worker { rank, channel, .. } = self.worker(WorkerId(id.0));
        let ring = self.rings.ring(channel);
        let position = ring.positions[rank.index()] + 1;
        let next = ring.ranks[(position % self.ranks()) as usize];
        Connection {
            from: WorkerId(id.0),
            to: WorkerId(next * self.channels() + u32::from(channel)),
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let part = &self.parts[usize::from(self.worker(worker).channel)];
        part.len.div_ceil(self.loop_len(part)) * self.steps_per_loop()
    }

    /// Channels with equal parts are alike, and on each all ranks that have the same turn: as
    /// long as all blocks of a loop are as long, where one is in the ring makes no difference.
    fn alike(&self, worker: WorkerId) -> Option<u64> {
        let Worker { rank, channel, .. } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let same = |p: &Part| p.len == part.len && p.chunk == part.chunk;
        let first = self.parts.iter().position(same)? as u64;
        let position = |rank: Rank| self.rings.ring(channel).positions[rank.index()];
        let turn = match self.collective {
            Collective::AllReduce if self.short_blocks(part).is_some() => return None,
            Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter => 0,
            // Whether it is the root, or before or after it.
            _ => match (position(rank) + self.ranks() - position(ROOT)) % self.ranks() {
                0 => 0,
                1 => 1,
                d if d + 1 == self.ranks() => 2,
                _ => 3,
            },
        };
        Some(first << 2 | turn)
    }

    fn repeats(&self) -> bool {
        true
    }

    fn evened(&self) -> Option<Box<dyn Program>> {
        let even = |part: &Part| match self.short_blocks(part) {
            Some(short) => Part {
                len: short.before + short.chunk * u64::from(self.ranks()),
                ..*part
            },
            None => *part,
        };
        let parts: Vec<Part> = self.parts.iter().map(even).collect();
        (parts != self.parts).then(|| {
            Box::new(RingProgram {
                parts,
                rings: Arc::clone(&self.rings),
                ..*self
            }) as Box<dyn Program>
        })
    }

    fn uneven_steps(&self, worker: WorkerId) -> Vec<Range<u64>> {
        self.short_steps(worker).collect()
    }

    /// Within a loop, all steps that receive and send chunks of one size; beyond, whole loops.
    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        let part = &self.parts[usize::from(self.worker(worker).channel)];
        let per_loop = self.steps_per_loop();
        let (round, k) = split(index, per_loop);
        let whole = part.len / self.loop_len(part);
        if shift.is_multiple_of(per_loop) {
            return (whole * per_loop).saturating_sub(index + shift);
        }
        // The first step receives nothing, the last sends nothing.
        if k == 0 {
            return 0;
        }
        let last = per_loop - 1;
        let end = match self.collective {
            // Those before the next block that is shorter.
            Collective::AllReduce if round == whole => {
                let mut short = self.short_steps(worker);
                let next = short.find(|range| range.end > index);
                next.map_or(last, |range| {
                    last.min(range.start.max(index) - round * per_loop)
                })
            }
            _ => last,
        };
        end.saturating_sub(k + shift)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let Worker { rank, channel, .. } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let ring = self.rings.ring(channel);
        let n = u64::from(self.ranks());
        let me = u64::from(ring.positions[rank.index()]);
        let per_loop = self.steps_per_loop();
        let (round, k) = split(index, per_loop);
        let send = ConnId(worker.0);
        let before = ring.ranks[(if me == 0 { n - 1 } else { me - 1 }) as usize];
        let recv = ConnId(before * self.channels() + u32::from(channel));
        let ends = Ends { recv, send };
        let input = |offset| {
            Some(At {
                buffer: Buffer::Input,
                offset,
            })
        };
        let output = |offset| {
            Some(At {
                buffer: Buffer::Output,
                offset,
            })
        };
        // A block's place in memory goes by rank, its turn by position in the ring.
        let block =
            |position: u64| u64::from(ring.ranks[(position % n) as usize]) * (self.bytes / n);
        if n == 1 {
            let (at, len) = self.chunk(part, round, 0);
            return ends.step(false, false, input(at), output(at), len);
        }
        match self.collective {
            Collective::AllReduce => {
                // First turn: my own chunk of the rank before me; then n-1 reductions, the
                // last of which finishes chunk `me`; then n-1 finished chunks pass by.
                // At most 2n - 1 steps a loop: `me + 2n - 1 - k` is below 3n.
                let ahead = me + 2 * n - 1 - k;
                let chunk = ahead - n * (u64::from(ahead >= n) + u64::from(ahead >= 2 * n));
                let (at, len) = self.chunk(part, round, chunk);
                match k {
                    0 => ends.step(false, true, input(at), None, len),
                    k if k < n - 1 => ends.step(true, true, input(at), None, len),
                    k if k == n - 1 => ends.step(true, true, input(at), output(at), len),
                    k if k < 2 * n - 2 => ends.step(true, true, None, output(at), len),
                    _ => ends.step(true, false, None, output(at), len),
                }
            }
            Collective::AllGather => {
                let (at, len) = self.chunk(part, round, 0);
                let place = block(me + n - k) + at;
                match k {
                    0 => ends.step(false, true, input(at), output(place), len),
                    k if k < n - 1 => ends.step(true, true, None, output(place), len),
                    _ => ends.step(true, false, None, output(place), len),
                }
            }
            Collective::ReduceScatter => {
                let (at, len) = self.chunk(part, round, 0);
                let place = block(me + 2 * n - 1 - k) + at;
                match k {
                    0 => ends.step(false, true, input(place), None, len),
                    k if k < n - 1 => ends.step(true, true, input(place), None, len),
                    _ => ends.step(true, false, input(place), output(at), len),
                }
            }
            Collective::Broadcast => {
                let (at, len) = self.chunk(part, round, 0);
                let root = u64::from(ring.positions[ROOT.index()]);
                if me == root {
                    ends.step(false, true, input(at), output(at), len)
                } else if (me + 1) % n == root {
                    ends.step(true, false, None, output(at), len)
                } else {
                    ends.step(true, true, None, output(at), len)
                }
            }
            // Reduce: [`RingProgram::new`] refuses all others.
            _ => {
                let (at, len) = self.chunk(part, round, 0);
                let root = u64::from(ring.positions[ROOT.index()]);
                if me == root {
                    ends.step(true, false, input(at), output(at), len)
                } else if me == (root + 1) % n {
                    ends.step(false, true, input(at), None, len)
                } else {
                    ends.step(true, true, input(at), None, len)
                }
            }
        }
    }
}

/// Quotient and remainder; division of 32 bits is several times as fast as of 64.
fn split(dividend: u64, divisor: u64) -> (u64, u64) {
    match (u32::try_from(dividend), u32::try_from(divisor)) {
        (Ok(a), Ok(b)) => (u64::from(a / b), u64::from(a % b)),
        _ => (dividend / divisor, dividend % divisor),
    }
}

/// A ring worker's two connections.
struct Ends {
    recv: ConnId,
    send: ConnId,
}

impl Ends {
    fn step(
        &self,
        recv: bool,
        send: bool,
        source: Option<At>,
        target: Option<At>,
        len: u64,
    ) -> Step {
        let peers = |used, id| if used { Peers::one(id) } else { Peers::NONE };
        Step {
            recv: peers(recv, self.recv),
            send: peers(send, self.send),
            source,
            target,
            len,
            ..Step::NOTHING
        }
    }
}
