//! Collectives in which some ranks of each host, the heads, each see to their share of
//! every loop: NVLS, NVLSTree, NVLS with SHARP, and CollNetDirect.
//!
//! In each host the data is scattered to the heads, summed on the way (by switches, with
//! multicast memory) or by the heads (CollNetDirect), summed between hosts over trees or in
//! network switches, and goes back to all ranks of the host. Whether switches or GPUs do the
//! sums inside hosts is a matter of transports, not of who sends what to whom.
//!
//! Step lists: NCCL 2.30 `all_reduce.h`, `all_gather.h`, `reduce_scatter.h` (NVLS, NVLSTree
//! and CollNetDirect parts), restated. With registered buffers switches read and write users'
//! memory: the steps that scatter and gather are then theirs, and cost no copies. Left out: a
//! head reading its own input directly: it scatters to itself.

mod joints;

use super::goal::Collective;
use super::program::{
    At, Buffer, ConnId, Connection, Deal, Peers, Program, Rank, Role, Step, Worker, WorkerId,
};
use super::ring::Part;
use joints::{Host, Joint, Owners, joints};

/// How hosts are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// One host only.
    Nothing,
    /// Heads of the same index form two complementary binary trees, which channels use in
    /// turn.
    Trees,
    /// Network switches sum what the heads of the same index send.
    Switches,
}

/// The last loop's chunks are rounded up to this (NCCL, `nvlsChunkSize` alignment).
const GRAIN: u64 = 16 << 10;

/// A collective with heads.
#[derive(Debug, Clone)]
pub struct HeadsProgram {
    collective: Collective,
    bytes: u64,
    between: Between,
    parts: Vec<Part>,
    ranks: u32,
    heads: u32,
    hosts: Vec<Host>,
    /// The host and local index of each rank.
    places: Vec<(u32, u32)>,
    /// For even and odd channels, by host.
    trees: [Vec<Joint>; 2],
    /// Of either: whose connections are whose.
    owners: [Owners; 2],
    /// Connections of a channel.
    conns: u32,
    /// Workers of a channel.
    workers: u32,
}

impl HeadsProgram {
    /// `collective` over `bytes` (nccl-tests' size), `parts[c]` of it on channel `c`. `hosts`
    /// gives the ranks of each host and which of them are heads.
    ///
    /// # Panics
    /// If hosts differ in their number of heads or have none, a rank is in two hosts, a chunk
    /// is zero, `between` does not fit the number of hosts, or the collective is not one of
    /// all-reduce and (on one host on which all are heads) all-gather and reduce-scatter.
    #[must_use]
    pub fn new(
        collective: Collective,
        bytes: u64,
        hosts: &[(Vec<u32>, Vec<u32>)],
        between: Between,
        parts: Vec<Part>,
    ) -> Self {
        let heads = hosts[0].1.len() as u32;
        assert!(heads > 0 && hosts.iter().all(|h| h.1.len() as u32 == heads));
        assert!(parts.iter().all(|p| p.chunk > 0), "chunks hold something");
        assert_eq!(hosts.len() == 1, between == Between::Nothing);
        let ranks: usize = hosts.iter().map(|h| h.0.len()).sum();
        let blocks = matches!(
            collective,
            Collective::AllGather | Collective::ReduceScatter
        );
        assert!(
            collective == Collective::AllReduce || (blocks && heads as usize == ranks),
            "{collective} with {heads} heads of {ranks} ranks"
        );
        let mut places = vec![(u32::MAX, 0); ranks];
        for (host, (members, _)) in hosts.iter().enumerate() {
            for (local, &rank) in members.iter().enumerate() {
                assert_eq!(
                    places[rank as usize].0,
                    u32::MAX,
                    "rank {rank} is in one host"
                );
                places[rank as usize] = (host as u32, local as u32);
            }
        }
        let hosts: Vec<Host> = hosts
            .iter()
            .map(|(ranks, heads)| Host {
                ranks: ranks.clone(),
                heads: heads.clone(),
            })
            .collect();
        let trees = [false, true].map(|second| joints(&hosts, heads, between, second));
        let n = hosts.len() as u32;
        let local: u32 = 2 * heads * ranks as u32;
        let (conns, workers) = match between {
            Between::Nothing => (local, 2 * ranks as u32 + heads),
            Between::Trees => (
                local + 2 * heads * (n - 1),
                2 * ranks as u32 + 2 * n * heads,
            ),
            Between::Switches => (
                local + 2 * heads * n,
                2 * ranks as u32 + (2 * n + 1) * heads,
            ),
        };
        HeadsProgram {
            collective,
            bytes,
            between,
            parts,
            ranks: ranks as u32,
            heads,
            hosts,
            places,
            owners: [&trees[0], &trees[1]].map(|joints| Owners::new(joints)),
            trees,
            conns,
            workers,
        }
    }

    /// What kind of hop a connection with these ends is.
    #[must_use]
    pub fn kind(&self, ends: Connection) -> HopKind {
        let (from, to) = (self.worker(ends.from), self.worker(ends.to));
        match (from.role, to.role) {
            (Role::Scatter, _) => HopKind::ToHead {
                first: from.rank.0 == self.host_of(to.rank).ranks[0],
            },
            (_, Role::Gather) => HopKind::FromHead {
                first: to.rank.0 == self.host_of(from.rank).ranks[0],
            },
            (Role::Switch, _) => HopKind::FromSwitch {
                first: self.places[to.rank.index()].0 == 0,
            },
            (_, Role::Switch) => HopKind::ToSwitch {
                first: self.places[from.rank.index()].0 == 0,
            },
            _ => HopKind::Network,
        }
    }

    fn host_of(&self, rank: Rank) -> &Host {
        &self.hosts[self.places[rank.index()].0 as usize]
    }

    fn joint(&self, channel: u32, host: u32) -> &Joint {
        &self.trees[(channel % 2) as usize][host as usize]
    }

    /// Workers of a channel: scatter and gather of each rank, then for each host and head
    /// upwards and (with several hosts) downwards, then the switches of each head.
    fn head_worker(&self, channel: u32, host: u32, head: u32, down: bool) -> WorkerId {
        let base = channel * self.workers + 2 * self.ranks;
        let index = host * self.heads + head;
        WorkerId(match self.between {
            Between::Nothing => base + head,
            _ => base + index * 2 + u32::from(down),
        })
    }

    fn switch_worker(&self, channel: u32, head: u32) -> WorkerId {
        let hosts = self.hosts.len() as u32;
        WorkerId(channel * self.workers + 2 * self.ranks + 2 * hosts * self.heads + head)
    }

    /// Bytes of a loop, of all heads.
    fn per_loop(&self, part: &Part) -> u64 {
        match self.collective {
            Collective::AllReduce => part.chunk * u64::from(self.heads),
            _ => part.chunk,
        }
    }

    /// Bytes of a loop's chunk, and where the loop begins in the part.
    fn chunk(&self, part: &Part, index: u64) -> (u64, u64, u64) {
        let heads = u64::from(self.heads);
        let whole = self.per_loop(part);
        let done = index * whole;
        let rest = part.len - done;
        if rest >= whole {
            return (part.chunk, done, whole);
        }
        match self.collective {
            Collective::AllReduce => {
                let even = rest.div_ceil(heads).next_multiple_of(GRAIN);
                (part.chunk.min(even), done, rest)
            }
            _ => (rest, done, rest),
        }
    }

    /// The bytes that a head is to see to, of a loop with so much in all.
    fn share(&self, head: u32, chunk: u64, all: u64) -> u64 {
        match self.collective {
            Collective::AllReduce => all.saturating_sub(u64::from(head) * chunk).min(chunk),
            _ => chunk,
        }
    }

    /// Connections relative to the channel's first: from the heads of a host to the switches
    /// (`host` by `host`), and back.
    fn switch_conn(&self, host: u32, head: u32, back: bool) -> u32 {
        let hosts = self.hosts.len() as u32;
        2 * self.heads * self.ranks + (head * 2 + u32::from(back)) * hosts + host
    }

    fn tree_step(&self, channel: u32, host: u32, head: u32, down: bool, step: Step) -> Step {
        let base = channel * self.conns;
        let joint = self.joint(channel, host);
        let locals = self.hosts[host as usize].ranks.len() as u32;
        let children = joint.children.len() as u32;
        let into = base + joint.into + head * joint.into_stride;
        let out = base + joint.out + head * joint.out_stride;
        let to_all = Peers::range(ConnId(out), locals + children, 1);
        match (down, joint.parent) {
            (false, parent) => Step {
                recv: Peers::range(ConnId(into), locals + children, 1),
                send: match parent {
                    None => to_all,
                    Some(parent) => Peers::one(self.up_conn(channel, host, parent, head)),
                },
                ..step
            },
            (true, None) => Step::NOTHING,
            (true, Some(parent)) => Step {
                recv: Peers::one(self.down_conn(channel, host, parent, head)),
                send: to_all,
                ..step
            },
        }
    }

    fn up_conn(&self, channel: u32, host: u32, parent: u32, head: u32) -> ConnId {
        let above = self.joint(channel, parent);
        let locals = self.hosts[parent as usize].ranks.len() as u32;
        let nth = self.joint(channel, host).nth;
        ConnId(channel * self.conns + above.into + head * above.into_stride + locals + nth)
    }

    fn down_conn(&self, channel: u32, host: u32, parent: u32, head: u32) -> ConnId {
        let above = self.joint(channel, parent);
        let locals = self.hosts[parent as usize].ranks.len() as u32;
        let nth = self.joint(channel, host).nth;
        ConnId(channel * self.conns + above.out + head * above.out_stride + locals + nth)
    }

    fn head_step(&self, channel: u32, host: u32, head: u32, down: bool, step: Step) -> Step {
        let base = channel * self.conns;
        let joint = self.joint(channel, host);
        let locals = self.hosts[host as usize].ranks.len() as u32;
        let into = Peers::range(
            ConnId(base + joint.into + head * joint.into_stride),
            locals,
            1,
        );
        let out = Peers::range(
            ConnId(base + joint.out + head * joint.out_stride),
            locals,
            1,
        );
        match (self.between, down) {
            (Between::Trees, _) => self.tree_step(channel, host, head, down, step),
            (Between::Nothing, _) => Step {
                recv: into,
                send: out,
                ..step
            },
            (Between::Switches, false) => Step {
                recv: into,
                send: Peers::one(ConnId(base + self.switch_conn(host, head, false))),
                ..step
            },
            (Between::Switches, true) => Step {
                recv: Peers::one(ConnId(base + self.switch_conn(host, head, true))),
                send: out,
                ..step
            },
        }
    }

    /// Who a worker is, within its channel.
    fn who(&self, id: WorkerId) -> (u32, Who) {
        let (channel, index) = (id.0 / self.workers, id.0 % self.workers);
        let hosts = self.hosts.len() as u32;
        let ranks = self.ranks;
        let who = if index < ranks {
            Who::Scatter(index)
        } else if index < 2 * ranks {
            Who::Gather(index - ranks)
        } else {
            let rest = index - 2 * ranks;
            match self.between {
                Between::Nothing => Who::Head(0, rest, false),
                _ if rest < 2 * hosts * self.heads => {
                    let index = rest / 2;
                    Who::Head(index / self.heads, index % self.heads, rest % 2 == 1)
                }
                _ => Who::Switch(rest - 2 * hosts * self.heads),
            }
        };
        (channel, who)
    }
}

/// What kind of hop a connection of a [`HeadsProgram`] is. Connections of one group, which
/// switches serve together, say which is the `first` of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopKind {
    /// From a rank to a head of its host.
    ToHead {
        /// The group is all ranks of the host.
        first: bool,
    },
    /// From a head to a rank of its host.
    FromHead {
        /// The group is all ranks of the host.
        first: bool,
    },
    /// Between heads of two hosts.
    Network,
    /// From a head to the network's switches.
    ToSwitch {
        /// The group is the heads of all hosts.
        first: bool,
    },
    /// From the network's switches to a head.
    FromSwitch {
        /// The group is the heads of all hosts.
        first: bool,
    },
}

enum Who {
    Scatter(u32),
    Gather(u32),
    /// Host, head, downwards.
    Head(u32, u32, bool),
    Switch(u32),
}

impl Program for HeadsProgram {
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
        self.ranks
    }

    fn workers(&self) -> u32 {
        self.workers * self.parts.len() as u32
    }

    fn worker(&self, id: WorkerId) -> Worker {
        let (channel, who) = self.who(id);
        let (rank, role) = match who {
            Who::Scatter(rank) => (rank, Role::Scatter),
            Who::Gather(rank) => (rank, Role::Gather),
            Who::Head(host, head, down) => (
                self.hosts[host as usize].heads[head as usize],
                if down { Role::Down } else { Role::Up },
            ),
            Who::Switch(head) => (self.hosts[0].heads[head as usize], Role::Switch),
        };
        Worker {
            rank: Rank(rank),
            channel: channel as u16,
            role,
        }
    }

    fn connections(&self) -> u32 {
        self.conns * self.parts.len() as u32
    }

    fn connection(&self, id: ConnId) -> Connection {
        let (channel, at) = (id.0 / self.conns, id.0 % self.conns);
        let base = channel * self.workers;
        let hosts = self.hosts.len() as u32;
        if self.between == Between::Switches && at >= 2 * self.heads * self.ranks {
            let rest = at - 2 * self.heads * self.ranks;
            let (head, back, host) = (rest / (2 * hosts), rest / hosts % 2 == 1, rest % hosts);
            let switch = self.switch_worker(channel, head);
            let own = self.head_worker(channel, host, head, back);
            return if back {
                Connection {
                    from: switch,
                    to: own,
                }
            } else {
                Connection {
                    from: own,
                    to: switch,
                }
            };
        }
        let trees = &self.trees[(channel % 2) as usize];
        let host = self.owners[(channel % 2) as usize].of(at, trees);
        let joint = &trees[host];
        let locals = &self.hosts[host].ranks;
        let host = host as u32;
        if at < joint.out {
            let rest = at - joint.into;
            let (head, k) = (
                rest / joint.into_stride,
                (rest % joint.into_stride) as usize,
            );
            let from = match locals.get(k) {
                Some(&rank) => WorkerId(base + rank),
                None => self.head_worker(channel, joint.children[k - locals.len()], head, false),
            };
            Connection {
                from,
                to: self.head_worker(channel, host, head, false),
            }
        } else {
            let rest = at - joint.out;
            let (head, k) = (rest / joint.out_stride, (rest % joint.out_stride) as usize);
            // Who has no one above turns around.
            let down = match self.between {
                Between::Nothing => false,
                Between::Trees => joint.parent.is_some(),
                Between::Switches => true,
            };
            let to = match locals.get(k) {
                Some(&rank) => WorkerId(base + self.ranks + rank),
                None => self.head_worker(channel, joint.children[k - locals.len()], head, true),
            };
            Connection {
                from: self.head_worker(channel, host, head, down),
                to,
            }
        }
    }

    fn steps(&self, worker: WorkerId) -> u64 {
        let (channel, who) = self.who(worker);
        let part = &self.parts[channel as usize];
        match who {
            Who::Head(host, _, true)
                if self.between == Between::Trees && self.joint(channel, host).parent.is_none() =>
            {
                0
            }
            _ => part.len.div_ceil(self.per_loop(part)),
        }
    }

    fn repeats(&self) -> bool {
        true
    }

    /// All loops of whole chunks.
    fn same_after(&self, worker: WorkerId, index: u64, shift: u64) -> u64 {
        let part = &self.parts[self.who(worker).0 as usize];
        part.same_after(self.per_loop(part), index, shift)
    }

    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let (channel, who) = self.who(worker);
        let part = &self.parts[channel as usize];
        let (chunk, done, all) = self.chunk(part, index);
        let offset = part.offset + done;
        let block = self.bytes / u64::from(self.ranks);
        let base = channel * self.conns;
        // All chunks of a rank's loop, one for each head, whose blocks may lie apart.
        let dealt = |memory_stride| Step {
            len: match self.collective {
                Collective::AllReduce => all,
                _ => chunk * u64::from(self.heads),
            },
            deal: Some(Deal {
                each: chunk,
                stride: memory_stride,
            }),
            ..Step::NOTHING
        };
        let stride = match self.collective {
            Collective::AllReduce => chunk,
            _ => block,
        };
        match who {
            Who::Scatter(_) if self.collective == Collective::AllGather => Step::NOTHING,
            Who::Gather(_) if self.collective == Collective::ReduceScatter => Step::NOTHING,
            Who::Scatter(rank) => {
                let (host, local) = self.places[rank as usize];
                let joint = self.joint(channel, host);
                let first = ConnId(base + joint.into + local);
                Step {
                    send: Peers::range(first, self.heads, joint.into_stride),
                    source: Some(At {
                        buffer: Buffer::Input,
                        offset,
                    }),
                    ..dealt(stride)
                }
            }
            Who::Gather(rank) => {
                let (host, local) = self.places[rank as usize];
                let joint = self.joint(channel, host);
                let first = ConnId(base + joint.out + local);
                Step {
                    recv: Peers::range(first, self.heads, joint.out_stride),
                    target: Some(At {
                        buffer: Buffer::Output,
                        offset,
                    }),
                    ..dealt(stride)
                }
            }
            Who::Head(host, head, down) => {
                let step = Step {
                    len: self.share(head, chunk, all),
                    ..Step::NOTHING
                };
                let step = self.head_step(channel, host, head, down, step);
                let own = |buffer| Some(At { buffer, offset });
                match self.collective {
                    Collective::AllGather => Step {
                        recv: Peers::NONE,
                        source: own(Buffer::Input),
                        ..step
                    },
                    Collective::ReduceScatter => Step {
                        send: Peers::NONE,
                        target: own(Buffer::Output),
                        ..step
                    },
                    _ => step,
                }
            }
            Who::Switch(head) => {
                let hosts = self.hosts.len() as u32;
                let conn = |back| ConnId(base + self.switch_conn(0, head, back));
                Step {
                    recv: Peers::range(conn(false), hosts, 1),
                    send: Peers::range(conn(true), hosts, 1),
                    len: self.share(head, chunk, all),
                    ..Step::NOTHING
                }
            }
        }
    }
}
