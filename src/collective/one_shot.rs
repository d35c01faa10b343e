//! One-shot collectives: every rank stores what another one needs straight into that one's
//! memory, and each does its own sums. One hop, at the price of moving every rank's data to all.
//!
//! NCCL 2.30 `sym/all_reduce.cuh` (AGxLL_R), `sym/all_gather.cuh` (LL) and
//! `sym/reduce_scatter.cuh` (LL), restated: data goes with its flags, so that who waits for the
//! bytes has waited for the rank. With multicast memory one store reaches all; that is a matter of
//! transports, not of who sends what to whom. A rank stores to itself, too.

use super::goal::Collective;
use super::program::{
    At, Buffer, ConnId, Connection, Deal, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::ring::Part;

/// A one-shot all-reduce, all-gather or reduce-scatter.
#[derive(Debug, Clone)]
pub struct OneShotProgram {
    collective: Collective,
    bytes: u64,
    ranks: u32,
    parts: Vec<Part>,
}

impl OneShotProgram {
    /// `collective` over `bytes` (nccl-tests' size), `parts[c]` of it, or of each rank's block, on
    /// channel `c`.
    ///
    /// # Panics
    /// If there are no ranks, a chunk is zero, or the collective is another one.
    #[must_use]
    pub fn new(collective: Collective, bytes: u64, ranks: u32, parts: Vec<Part>) -> Self {
        assert!(ranks > 0 && parts.iter().all(|p| p.chunk > 0));
        assert!(
            Self::does(collective),
            "{collective} is done in several shots"
        );
        OneShotProgram {
            collective,
            bytes,
            ranks,
            parts,
        }
    }

    /// Whether there is such a program of a collective.
    #[must_use]
    pub const fn does(collective: Collective) -> bool {
        matches!(
            collective,
            Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter
        )
    }

    /// The ends of a connection: who stores, and whom it reaches.
    #[must_use]
    pub fn ends(&self, id: ConnId) -> (Rank, Rank) {
        let at = id.0 % (self.ranks * self.ranks);
        (Rank(at / self.ranks), Rank(at % self.ranks))
    }

    fn conn(&self, channel: u32, from: u32, to: u32) -> ConnId {
        ConnId((channel * self.ranks + from) * self.ranks + to)
    }

    /// Channel, rank, and whether it is the side that receives.
    fn who(&self, id: WorkerId) -> (u32, u32, bool) {
        let (channel, at) = (id.0 / (2 * self.ranks), id.0 % (2 * self.ranks));
        (channel, at % self.ranks, at >= self.ranks)
    }
}

impl Program for OneShotProgram {
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
        2 * self.ranks * self.parts.len() as u32
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let (channel, rank, receives) = self.who(id);
        Worker {
            rank: Rank(rank),
            channel: channel as u16,
            role: if receives {
                Role::Gather
            } else {
                Role::Scatter
            },
        }
    }

    fn connections(&self) -> u32 {
        self.ranks * self.ranks * self.parts.len() as u32
    }

    fn connection(&self, id: ConnId) -> Connection {
        let base = id.0 / (self.ranks * self.ranks) * 2 * self.ranks;
        let (from, to) = self.ends(id);
        Connection {
            from: WorkerId(base + from.0),
            to: WorkerId(base + self.ranks + to.0),
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let part = &self.parts[self.who(worker).0 as usize];
        part.len.div_ceil(part.chunk)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let (channel, rank, receives) = self.who(worker);
        let part = &self.parts[channel as usize];
        let done = index * part.chunk;
        let chunk = part.chunk.min(part.len - done);
        let offset = part.offset + done;
        let ranks = u64::from(self.ranks);
        // Blocks of all ranks, one after the other.
        let dealt = Some(Deal {
            each: chunk,
            stride: self.bytes / ranks,
        });
        let (deal, len) = match (self.collective, receives) {
            (Collective::AllGather, true) | (Collective::ReduceScatter, false) => {
                (dealt, chunk * ranks)
            }
            _ => (None, chunk),
        };
        let at = |buffer| Some(At { buffer, offset });
        let step = Step {
            len,
            deal,
            ..Step::NOTHING
        };
        if receives {
            Step {
                recv: Peers::range(self.conn(channel, 0, rank), self.ranks, self.ranks),
                target: at(Buffer::Output),
                ..step
            }
        } else {
            Step {
                send: Peers::range(self.conn(channel, rank, 0), self.ranks, 1),
                source: at(Buffer::Input),
                ..step
            }
        }
    }

    fn repeats(&self) -> bool {
        true
    }

    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        let part = &self.parts[self.who(worker).0 as usize];
        part.same_after(part.chunk, index, shift)
    }

    fn waits_inside(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;

    #[test]
    fn everyone_ends_with_what_the_collective_says() {
        for collective in [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
        ] {
            for ranks in [1, 2, 3, 5, 8] {
                for (bytes, channels, chunk) in [(0, 1, 16), (48, 1, 16), (5000, 3, 256)] {
                    let bytes = collective.actual_bytes(bytes * u64::from(ranks), ranks);
                    let all = match collective {
                        Collective::AllReduce => bytes,
                        _ => bytes / u64::from(ranks),
                    };
                    let each = all.div_ceil(channels).next_multiple_of(16);
                    let part = |c: u64| {
                        let offset = (c * each).min(all);
                        let len = each.min(all - offset);
                        Part { offset, len, chunk }
                    };
                    let parts = (0..channels).map(part).collect();
                    let program = OneShotProgram::new(collective, bytes, ranks, parts);
                    verify(&program, 1).unwrap();
                }
            }
        }
    }
}
