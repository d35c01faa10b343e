//! A plan: a program laid onto a machine. Who sends what to whom (the program), over
//! which links, by which transport and protocol, and what each step costs a worker.
//! The plan knows costs of single actions, but nothing of time passing: that is the
//! engine's.

mod bound;
mod disturbed;
mod issue;
pub mod job;
mod merged;
mod routes;
mod side_by_side;
mod slice;
mod transports;

pub use bound::{Bounds, Cut, CutKind, Cuts, Direction, Operation};
pub use disturbed::{Disturbances, Stretch};
pub use issue::Issue;
pub use job::Job;
pub use merged::Merged;
pub use routes::{Laid, Routes};
pub use side_by_side::Joined;
pub use slice::{Rounds, SliceCost};
pub use transports::Transports;

use fabricsim_collective::{Program, Rank, Role, Worker};
use fabricsim_topology::DeviceId;
use fabricsim_units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

/// A route of a plan, an index into [`Plan::routes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u32);

/// A program with all that its execution needs.
#[derive(Clone)]
pub struct Plan {
    /// Who sends what to whom.
    pub program: Arc<dyn Program>,
    /// The GPU of each rank.
    pub gpus: Vec<DeviceId>,
    /// How chunks are cut and flagged.
    pub protocol: Protocol,
    /// Every route in use, once; others may be among them.
    pub routes: Arc<Routes>,
    /// Links that keep less than their rates.
    pub merged: Arc<Merged>,
    /// How each of the program's connections moves data, in order of its id.
    pub transports: Transports,
    /// What steps cost, by kind of GPU.
    pub costs: Vec<RoleCosts>,
    /// Which of `costs` each rank has.
    pub rank_costs: Vec<u16>,
    /// When kernels can start.
    pub issue: Issue,
}

impl Plan {
    /// How much longer than its costs say what a rank does always takes.
    #[must_use]
    pub fn stretch_of(&self, rank: Rank) -> Stretch {
        self.costs[usize::from(self.rank_costs[rank.index()])].stretch
    }

    /// The same where each rank's kernels start so much later, always, and what their thread blocks
    /// do takes so much longer; `None` if more kinds of ranks come of that than there can be.
    #[must_use]
    pub fn with_slow_ranks(&self, of: impl Fn(Rank) -> (Time, Stretch)) -> Option<Plan> {
        let mut plan = self.clone();
        let mut known: FxHashMap<(u16, Time, Stretch), u16> = FxHashMap::default();
        for (rank, kind) in (0..).map(Rank).zip(&mut plan.rank_costs) {
            let (late, stretch) = of(rank);
            if (late, stretch) == (Time::ZERO, Stretch::NONE) {
                continue;
            }
            let next = plan.costs.len();
            let slow = known.entry((*kind, late, stretch));
            *kind = match slow {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let costs = &plan.costs[usize::from(*kind)];
                    plan.costs.push(RoleCosts {
                        late,
                        stretch,
                        ..costs.clone()
                    });
                    *new.insert(u16::try_from(next).ok()?)
                }
            };
        }
        // Parts of thread blocks are told apart by numbers of this size, too.
        (plan.costs.len() * RoleCosts::PARTS <= usize::from(u16::MAX)).then_some(plan)
    }

    /// What steps cost a worker, but for what those of odd channels wait longer
    /// ([`RoleCosts::uneven`]).
    #[must_use]
    pub fn costs_of(&self, worker: Worker) -> &WorkerCosts {
        self.costs[usize::from(self.rank_costs[worker.rank.index()])].of(worker.role)
    }
}

/// A wire protocol of NCCL.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolKind {
    /// 4 bytes of data and 4 of flag: lowest latency, half the bandwidth.
    Ll,
    /// 120 bytes of data and 8 of flag.
    Ll128,
    /// Plain data; a fence and a counter per slice.
    Simple,
}

impl ProtocolKind {
    /// Every protocol, in NCCL's order.
    pub const ALL: [ProtocolKind; 3] =
        [ProtocolKind::Ll, ProtocolKind::Ll128, ProtocolKind::Simple];

    /// The name on the command line and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ProtocolKind::Ll => "ll",
            ProtocolKind::Ll128 => "ll128",
            ProtocolKind::Simple => "simple",
        }
    }
}

impl fmt::Display for ProtocolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How chunks are cut into slices, and what the wire carries for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Which one it is.
    pub kind: ProtocolKind,
    /// A chunk is cut into at most this many slices, the unit of synchronisation.
    pub slices_per_chunk: u32,
    /// … none smaller than this, except the last.
    pub min_slice: Bytes,
    /// Slices that fit into a connection's buffer.
    pub fifo_slices: u32,
    /// Bytes on the wire for each `wire.1` bytes of payload.
    pub wire: (u32, u32),
}

impl Protocol {
    /// The slices of a chunk: each but the last has this size.
    #[must_use]
    pub fn slice_len(&self, chunk: u64) -> u64 {
        let even = chunk
            .div_ceil(u64::from(self.slices_per_chunk))
            .next_multiple_of(16);
        even.max(self.min_slice.get())
    }
}

/// How a connection moves slices from one worker to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transport {
    /// What the sending worker's stores load: the way to the peer's memory, to host
    /// memory, or nothing (a buffer of its own from which the network reads).
    pub store: Option<RouteId>,
    /// What the receiving worker's loads load: the way from host memory, or nothing.
    pub load: Option<RouteId>,
    /// The network between two buffers, driven by proxies.
    pub network: Option<NetworkLeg>,
    /// From a slice being posted to the receiving worker seeing it (with a network:
    /// from its last byte leaving the network).
    pub latency: Time,
    /// From a slot being freed to the sender seeing it.
    pub credit_latency: Time,
}

/// The part of a transport between two network interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NetworkLeg {
    /// From the sender's buffer through both interfaces to the receiver's buffer.
    pub route: RouteId,
    /// From the worker's post to the proxy seeing it; also from completion to the worker.
    pub post_latency: Time,
    /// What the proxy spends on each message before it can leave.
    pub message: MessageCost,
    /// What large messages take beside.
    pub later: Later,
    /// The fastest that one connection goes, whatever the links allow.
    pub rate: Bandwidth,
    /// So many slices more than the receiver's buffer has slots may be under way: a slot holds
    /// several, or the transport's own software keeps them.
    pub ahead: u32,
}

/// Messages with more payload than each of these arrive later by what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Later(pub [(Bytes, Time); 2]);

impl Later {
    /// Not at all.
    pub const NEVER: Later = Later([(Bytes::ZERO, Time::ZERO); 2]);

    /// Of a message with so much payload.
    #[must_use]
    #[inline]
    pub fn of(&self, len: Bytes) -> Time {
        let by = |&(above, time): &(Bytes, Time)| if len > above { time } else { Time::ZERO };
        self.0.iter().map(by).sum()
    }
}

/// What a proxy thread spends on a message before it can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageCost {
    /// On the message itself.
    pub each: Time,
    /// On those of the thread's other connections that are there at the same time and leave
    /// together with this one.
    pub together: Time,
    /// On one message of each of the thread's other connections, which have their turns before
    /// the next one of this connection.
    pub others: Time,
    /// How fast messages that leave together, each as large as this one, do so: in bytes of
    /// this one. What the wire is busy with anyway, the thread has time for.
    pub wire: Bandwidth,
    /// With no more payload than `inline.0` in a message: more before it can leave, and more
    /// before the next one.
    pub inline: (Bytes, [Time; 2]),
    /// On one with more payload than `large.0`, `large.1` more.
    pub large: (Bytes, Time),
}

impl MessageCost {
    /// The same for every message, with no other connection.
    #[must_use]
    pub fn flat(each: Time) -> Self {
        MessageCost {
            each,
            together: Time::ZERO,
            others: Time::ZERO,
            wire: Bandwidth::from_bytes_per_sec(u64::MAX),
            inline: (Bytes::ZERO, [Time::ZERO; 2]),
            large: (Bytes::ZERO, Time::ZERO),
        }
    }

    /// No message takes more.
    #[must_use]
    pub fn most(&self) -> Time {
        let [waits, works] = self.inline.1;
        self.each + self.together.max(self.others) + waits.max(works) + self.large.1
    }

    /// From a message with so much payload being there to its leaving, by a thread that is free.
    #[must_use]
    #[inline]
    pub fn of(&self, len: Bytes) -> Time {
        let together = if self.together > Time::ZERO {
            self.together.saturating_sub(self.wire.time_for(len))
        } else {
            Time::ZERO
        };
        self.with(together, self.inline.1[0], len)
    }

    /// What the thread does for it and for those of its other connections, also while the wire is
    /// busy: the next one comes so much later at least.
    #[must_use]
    #[inline]
    pub fn work(&self, len: Bytes) -> Time {
        self.with(self.others, self.inline.1[1], len)
    }

    #[inline]
    fn with(&self, others: Time, inline: Time, len: Bytes) -> Time {
        let mut time = self.each + others;
        if len <= self.inline.0 {
            time += inline;
        }
        if len > self.large.0 {
            time += self.large.1;
        }
        time
    }
}

/// What steps cost on one kind of GPU, by the part of the thread block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleCosts {
    /// Start and end of the kernel, which has all parts; once an operation.
    pub launch: Time,
    /// How much later than it could it starts each time.
    pub late: Time,
    /// How much longer what thread blocks do takes than these costs say.
    pub stretch: Stretch,
    /// How much longer those of odd channels wait after each slice than those of even ones, in
    /// thousandths: in time they are out of step, so that some move bytes while others wait.
    pub uneven: u16,
    /// Each thread block begins so much after the one of the channel before.
    pub apart: Time,
    roles: [WorkerCosts; Role::ALL.len()],
}

impl RoleCosts {
    /// Parts of thread blocks, of even and of odd channels.
    pub const PARTS: usize = 2 * Role::ALL.len();

    /// The same for every part.
    #[must_use]
    pub fn same(launch: Time, costs: WorkerCosts) -> Self {
        RoleCosts {
            launch,
            late: Time::ZERO,
            stretch: Stretch::NONE,
            uneven: 0,
            apart: Time::ZERO,
            roles: [costs; Role::ALL.len()],
        }
    }

    /// With a kernel that takes so long to start and end.
    #[must_use]
    pub fn launching(self, launch: Time) -> Self {
        RoleCosts { launch, ..self }
    }

    /// With other costs for one part.
    #[must_use]
    pub fn with(mut self, role: Role, costs: WorkerCosts) -> Self {
        self.roles[role.index()] = costs;
        self
    }

    /// What steps cost that part, of an even channel.
    #[must_use]
    pub fn of(&self, role: Role) -> &WorkerCosts {
        &self.roles[role.index()]
    }

    /// How long after its kernel a channel's thread block begins.
    #[must_use]
    #[inline]
    pub fn behind(&self, channel: u16) -> Time {
        Time::from_picos(self.apart.picos().saturating_mul(u64::from(channel)))
    }

    /// Which part a worker is of, below [`RoleCosts::PARTS`]: those whose costs differ.
    #[must_use]
    pub fn part_of(&self, worker: Worker) -> usize {
        let odd = self.uneven > 0 && worker.channel % 2 == 1;
        usize::from(odd) * Role::ALL.len() + worker.role.index()
    }

    /// What steps cost, part by part, as [`RoleCosts::part_of`] numbers them.
    pub fn iter(&self) -> impl Iterator<Item = WorkerCosts> + '_ {
        let odd = self.roles.map(|mut costs| {
            let longer = costs.slice.each.picos() * u64::from(self.uneven) / 1000;
            costs.slice.each += Time::from_picos(longer);
            costs
        });
        self.roles.into_iter().chain(odd)
    }
}

/// What steps cost a worker on one kind of GPU, with the plan's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerCosts {
    /// Per slice, after its bytes have moved.
    pub slice: SliceCost,
    /// Payload rate of a step that sends.
    pub send_rate: Bandwidth,
    /// Payload rate of a step that only stores locally.
    pub local_rate: Bandwidth,
    /// So many streams of bytes in and out (queues and local memory) go at these rates; a
    /// step with more is slower in proportion. Zero: their number makes no difference.
    pub streams: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_time_for_others_while_the_wire_is_busy() {
        // Four other connections at once and nine in all, 1 us a message, on 50 GB/s.
        let us = Time::from_micros;
        let cost = MessageCost {
            together: us(4),
            others: us(9),
            wire: Bandwidth::from_bytes_per_sec(50_000_000_000 / 4),
            inline: (Bytes::new(192), [us(12), us(15)]),
            large: (Bytes::new(1 << 19), us(7)),
            ..MessageCost::flat(us(1))
        };
        assert_eq!(cost.of(Bytes::ZERO), us(17));
        assert_eq!(cost.most(), us(1 + 9 + 15 + 7));
        assert_eq!(cost.of(Bytes::new(12_500)), us(1) + us(3));
        assert_eq!(cost.of(Bytes::new(50_000)), us(1));
        assert_eq!(cost.of(Bytes::new(1 << 19)), us(1));
        assert_eq!(cost.of(Bytes::new(1 << 20)), us(1) + us(7));
        // All nine have their turns before the next one all the same.
        assert_eq!(cost.work(Bytes::new(50_000)), us(1 + 9));
        assert_eq!(cost.work(Bytes::ZERO), us(1 + 9 + 15));
    }
}
