//! All-reduce with the sum formed by network switches, reached by a chain in each host
//! (NCCL's CollNetChain): the last GPU sends towards the first, which owns the network
//! interface; the result comes back the same way.
//!
//! Step lists: NCCL 2.30 `all_reduce.h` (`runTreeSplit` on the CollNet graph), restated.

use super::goal::Collective;
use super::program::{
    At, Buffer, ConnId, Connection, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::ring::Part;

/// The chains of one channel: for each host its ranks, from the one with the interface.
pub type Chains = Vec<Vec<u32>>;

/// An all-reduce over chains and switches.
#[derive(Debug, Clone)]
pub struct ChainProgram {
    bytes: u64,
    ranks: u32,
    hosts: u32,
    parts: Vec<Part>,
    /// By channel and rank: the rank's host, and its neighbours towards the interface and
    /// away from it.
    places: Vec<Vec<Place>>,
    /// By channel: the ranks with interfaces, by host, and then the others.
    order: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its place in `order`.
    index: u32,
    before: Option<u32>,
    after: Option<u32>,
}

impl ChainProgram {
    /// An all-reduce of `bytes`, `parts[c]` of it on `chains[c]`.
    ///
    /// # Panics
    /// If there are not as many chains as parts, or one does not visit each rank once.
    #[must_use]
    pub fn new(bytes: u64, chains: &[Chains], parts: Vec<Part>) -> Self {
        assert_eq!(chains.len(), parts.len(), "chains for each part");
        let ranks: usize = chains[0].iter().map(Vec::len).sum();
        let places = chains
            .iter()
            .map(|hosts| {
                let mut places: Vec<Option<Place>> = vec![None; ranks];
                let mut others = hosts.len() as u32;
                for (host, chain) in hosts.iter().enumerate() {
                    for (i, &rank) in chain.iter().enumerate() {
                        let place = Place {
                            index: if i == 0 {
                                host as u32
                            } else {
                                others += 1;
                                others - 1
                            },
                            before: i.checked_sub(1).map(|b| chain[b]),
                            after: chain.get(i + 1).copied(),
                        };
                        let old = places[rank as usize].replace(place);
                        assert!(old.is_none(), "rank {rank} is in one chain");
                    }
                }
                let all = places.into_iter().collect::<Option<Vec<_>>>();
                all.expect("each rank is in a chain")
            })
            .collect();
        ChainProgram {
            bytes,
            ranks: ranks as u32,
            hosts: chains[0].len() as u32,
            places,
            order: chains
                .iter()
                .map(|hosts| {
                    let heads = hosts.iter().map(|chain| chain[0]);
                    let others = hosts.iter().flat_map(|chain| chain[1..].iter().copied());
                    heads.chain(others).collect()
                })
                .collect(),
            parts,
        }
    }

    /// Workers of one channel: up and down of each rank, and the switches.
    fn block(&self) -> u32 {
        2 * self.ranks + 1
    }

    fn worker_id(&self, channel: u32, index: u32) -> WorkerId {
        WorkerId(channel * self.block() + index)
    }

    /// Connections of a channel: up from each rank (to its neighbour, or to the switches from
    /// those with interfaces) in the channel's order, and down likewise.
    fn conn(&self, channel: u16, rank: u32, down: bool) -> ConnId {
        let index = self.places[usize::from(channel)][rank as usize].index;
        let half = self.ranks;
        ConnId(u32::from(channel) * 2 * half + u32::from(down) * half + index)
    }
}

impl Program for ChainProgram {
    fn collective(&self) -> Collective {
        Collective::AllReduce
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
        self.block() * self.parts.len() as u32
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let (channel, index) = (id.0 / self.block(), id.0 % self.block());
        let (rank, role) = if index == 2 * self.ranks {
            (self.order[channel as usize][0], Role::Switch)
        } else if index < self.ranks {
            (index, Role::Up)
        } else {
            (index - self.ranks, Role::Down)
        };
        Worker {
            rank: Rank(rank),
            channel: channel as u16,
            role,
        }
    }

    fn connections(&self) -> u32 {
        2 * self.ranks * self.parts.len() as u32
    }

    fn connection(&self, id: ConnId) -> Connection {
        let (channel, rest) = (id.0 / (2 * self.ranks), id.0 % (2 * self.ranks));
        let (down, index) = (rest >= self.ranks, rest % self.ranks);
        let switch = self.worker_id(channel, 2 * self.ranks);
        let up = |rank| self.worker_id(channel, rank);
        let back = |rank| self.worker_id(channel, self.ranks + rank);
        let rank = self.order[channel as usize][index as usize];
        let other = self.places[channel as usize][rank as usize].before;
        match (down, other) {
            (false, other) => Connection {
                from: up(rank),
                to: other.map_or(switch, up),
            },
            (true, other) => Connection {
                from: other.map_or(switch, back),
                to: back(rank),
            },
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let part = &self.parts[(worker.0 / self.block()) as usize];
        part.len.div_ceil(part.chunk)
    }

    fn repeats(&self) -> bool {
        true
    }

    /// All steps of whole chunks.
    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        let part = &self.parts[(worker.0 / self.block()) as usize];
        part.same_after(part.chunk, index, shift)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let Worker {
            rank,
            channel,
            role,
        } = self.worker(worker);
        let part = &self.parts[usize::from(channel)];
        let place = self.places[usize::from(channel)][rank.index()];
        let done = index * part.chunk;
        let at = |buffer| {
            Some(At {
                buffer,
                offset: part.offset + done,
            })
        };
        let neighbour = |down| {
            let after = place.after.map(|after| self.conn(channel, after, down));
            after.map_or(Peers::NONE, Peers::one)
        };
        let all = |down| {
            let first = self.conn(channel, self.order[usize::from(channel)][0], down);
            Peers::range(first, self.hosts, 1)
        };
        let own = |down| Peers::one(self.conn(channel, rank.0, down));
        let step = Step {
            len: part.chunk.min(part.len - done),
            ..Step::NOTHING
        };
        match role {
            Role::Switch => Step {
                recv: all(false),
                send: all(true),
                ..step
            },
            Role::Up => Step {
                recv: neighbour(false),
                send: own(false),
                source: at(Buffer::Input),
                ..step
            },
            _ => Step {
                recv: own(true),
                send: neighbour(true),
                target: at(Buffer::Output),
                ..step
            },
        }
    }
}
