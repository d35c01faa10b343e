//! The chain of events that ends last.
//!
//! Every slice remembers which one let it begin: the one that posted its data, the one
//! that freed its slot, its own actor's one before, or the one that ended its rank's
//! operation before. Walking back from the finish gives a chain without gaps, so its
//! parts add up to the whole time.

use super::{Cast, Stretch};
use crate::engine::probe::{ActorId, Cause, Slice};
use crate::engine::resources::ResourceId;
use crate::engine::sharing::Limit;
use crate::engine::{FifoId, Outcome};
use crate::plan::Plan;
use crate::units::Time;
use std::collections::BTreeMap;

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Launch,
    Latency,
    WaitData,
    WaitCredit,
    Sync,
    /// A proxy's overhead for a message.
    Message,
    /// Streaming at the worker's own rate.
    Worker,
    /// Streaming at the connection's own rate.
    Connection,
    Limited(ResourceId),
    Idle,
}

/// The sum of what is spent on each.
pub(super) type Times = BTreeMap<Kind, Time>;

/// No slice.
const NONE: u32 = u32::MAX;

/// Values of [`Told::limit`] that are no resource.
const CAP: u32 = u32::MAX;
const MIXED: u32 = 1 << 31;

/// What came before a slice could begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    Launch,
    Latency,
    /// Only its own handling.
    None,
}

/// A slice, small, because there may be millions.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// A worker's start, end of streaming and end; a proxy's begin of handling the
    /// message, start of streaming and end.
    times: [Time; 3],
    /// The slice that let it begin.
    before: u32,
    /// The resource that limited all of it; or [`CAP`]; or [`MIXED`] and an index into
    /// the list of mixtures.
    limit: u32,
}

/// Slices that went into and out of a queue so far.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    posted: u64,
    taken: u64,
}

/// All slices with what let them begin.
#[derive(Debug)]
pub(super) struct Chain {
    most: usize,
    full: bool,
    slices: Vec<Told>,
    flags: Vec<(Gap, bool)>,
    /// Where each mixture starts in `stretches`.
    mixtures: Vec<u32>,
    stretches: Vec<(Limit, Time)>,
    /// Of each queue; slices by queue and slot.
    counts: Vec<Counts>,
    posted: Vec<u32>,
    taken: Vec<u32>,
    /// Where each queue's slots begin among those of all, and where the last one's end.
    slots: Vec<usize>,
    /// The last slice of each actor, or that which let its kernel start.
    last: Vec<u32>,
    /// Of each rank, the slice that ended last, when, and whose.
    latest: Vec<(Time, ActorId, u32)>,
}

impl Chain {
    pub(super) fn new(cast: &Cast, plan: &Plan, most: usize) -> Self {
        let legs = plan.transports.iter().filter_map(|t| t.network);
        let ahead = std::iter::repeat_n(0, plan.transports.len()).chain(legs.map(|leg| leg.ahead));
        let mut slots = vec![0];
        slots.extend(ahead.scan(0, |end, ahead| {
            *end += (plan.protocol.fifo_slices + ahead).max(1) as usize;
            Some(*end)
        }));
        let fifos = cast.connection.len();
        let all = slots[fifos];
        Chain {
            most: most.min(MIXED as usize),
            full: false,
            slices: Vec::new(),
            flags: Vec::new(),
            mixtures: Vec::new(),
            stretches: Vec::new(),
            counts: vec![Counts::default(); fifos],
            posted: vec![NONE; all],
            taken: vec![NONE; all],
            slots,
            last: vec![NONE; cast.place.len()],
            latest: vec![(Time::ZERO, 0, NONE); plan.program.ranks() as usize],
        }
    }

    fn slot(&self, fifo: FifoId, index: u64) -> usize {
        let (first, end) = (self.slots[fifo as usize], self.slots[fifo as usize + 1]);
        first + (index % (end - first) as u64) as usize
    }

    pub(super) fn launch(&mut self, cast: &Cast, worker: ActorId) {
        let rank = cast.place[worker as usize].rank;
        self.last[worker as usize] = self.latest[rank as usize].2;
    }

    pub(super) fn slice(&mut self, cast: &Cast, slice: &Slice, stretches: &[Stretch]) {
        if self.full {
            return;
        }
        if self.slices.len() >= self.most {
            self.full = true;
            self.slices = Vec::new();
            self.flags = Vec::new();
            self.mixtures = Vec::new();
            self.stretches = Vec::new();
            return;
        }
        let id = self.slices.len() as u32;
        let actor = slice.actor as usize;
        let proxy = cast.is_proxy(slice.actor);
        let (before, gap) = match slice.cause {
            // The slice is the next of the queue that this actor takes: no other does.
            Cause::Data(fifo) => {
                let next = self.counts[fifo as usize].taken;
                (self.posted[self.slot(fifo, next)], Gap::Latency)
            }
            // It fills the slot that was freed when the queue had as many fewer.
            Cause::Credit(fifo) => {
                let next = self.counts[fifo as usize].posted;
                (self.taken[self.slot(fifo, next)], Gap::Latency)
            }
            Cause::After(other) => (self.last[other as usize], Gap::Latency),
            Cause::Own => (self.last[actor], Gap::None),
            Cause::Launch => (self.last[actor], Gap::Launch),
        };
        let limit = self.limit(stretches);
        self.slices.push(Told {
            times: if proxy {
                [cast.ready(slice), slice.start, slice.end]
            } else {
                [slice.start, slice.end, slice.done]
            },
            before,
            limit,
        });
        self.flags.push((gap, proxy));
        for &f in slice.recv {
            let slot = self.slot(f, self.counts[f as usize].taken);
            self.taken[slot] = id;
            self.counts[f as usize].taken += 1;
        }
        for &f in slice.send {
            let slot = self.slot(f, self.counts[f as usize].posted);
            self.posted[slot] = id;
            self.counts[f as usize].posted += 1;
        }
        self.last[actor] = id;
        if !proxy {
            let rank = cast.place[actor].rank;
            let latest = &mut self.latest[rank as usize];
            // Of those that end together the lowest worker, whatever their order.
            if latest.2 == NONE
                || slice.done > latest.0
                || (slice.done == latest.0 && slice.actor <= latest.1)
            {
                *latest = (slice.done, slice.actor, id);
            }
        }
    }

    fn limit(&mut self, stretches: &[Stretch]) -> u32 {
        let same = stretches.windows(2).all(|s| s[0].limit == s[1].limit);
        match (same, stretches.first().map(|s| s.limit)) {
            (_, None) | (true, Some(Limit::Cap)) => CAP,
            (true, Some(Limit::Resource(resource))) if resource < MIXED => resource,
            _ => {
                let mixture = self.mixtures.len() as u32;
                self.mixtures.push(self.stretches.len() as u32);
                let parts = stretches.iter().map(|s| (s.limit, s.end - s.start));
                self.stretches.extend(parts);
                MIXED | mixture
            }
        }
    }

    /// Walks back from the finish; `None` if there were too many slices to remember.
    pub(super) fn walk(&self, outcome: &Outcome) -> Option<Times> {
        if self.full {
            return None;
        }
        let end = outcome.end();
        let last = outcome.finish.last().into_iter().flatten();
        let rank = last.zip(&self.latest).find(|&(&finish, _)| finish == end);
        let mut walk = Walk {
            at: end,
            times: Times::new(),
        };
        let mut id = rank.map_or(NONE, |(_, latest)| latest.2);
        // A kernel that had nothing to do ends after its launch.
        let mut gap = Gap::Launch;
        while let Some(told) = self.slices.get(id as usize) {
            walk.back_to(told.times[2], gap.kind(false));
            let proxy;
            (gap, proxy) = self.flags[id as usize];
            if proxy {
                self.stream(&mut walk, told, told.times[1], proxy);
                walk.back_to(told.times[0], Kind::Message);
            } else {
                walk.back_to(told.times[1], Kind::Sync);
                self.stream(&mut walk, told, told.times[0], proxy);
            }
            id = told.before;
            if id == NONE {
                walk.back_to(Time::ZERO, gap.kind(proxy));
            }
        }
        walk.back_to(Time::ZERO, Kind::Launch);
        Some(walk.times)
    }

    /// The streaming of a slice, back to its start.
    fn stream(&self, walk: &mut Walk, told: &Told, start: Time, proxy: bool) {
        let own = if proxy {
            Kind::Connection
        } else {
            Kind::Worker
        };
        match told.limit {
            CAP => walk.back_to(start, own),
            limit if limit & MIXED != 0 => {
                let mixture = (limit & !MIXED) as usize;
                let from = self.mixtures[mixture] as usize;
                let to = self.mixtures.get(mixture + 1);
                let to = to.map_or(self.stretches.len(), |&to| to as usize);
                for &(limit, time) in self.stretches[from..to].iter().rev() {
                    let kind = match limit {
                        Limit::Cap => own,
                        Limit::Resource(resource) => Kind::Limited(resource),
                    };
                    walk.back_to(walk.at.saturating_sub(time).max(start), kind);
                }
                walk.back_to(start, own);
            }
            resource => walk.back_to(start, Kind::Limited(resource)),
        }
    }
}

impl Gap {
    /// What the time between two slices of the path is. Without any slice before it, a
    /// proxy's is the handling of its first message.
    fn kind(self, first_of_proxy: bool) -> Kind {
        match self {
            Gap::Latency => Kind::Latency,
            Gap::None if first_of_proxy => Kind::Message,
            Gap::None => Kind::Sync,
            Gap::Launch => Kind::Launch,
        }
    }
}

/// A walk back in time: every picosecond between the finish and `at` is in `times`.
struct Walk {
    at: Time,
    times: Times,
}

impl Walk {
    fn back_to(&mut self, time: Time, kind: Kind) {
        if time < self.at {
            *self.times.entry(kind).or_default() += self.at - time;
            self.at = time;
        }
    }
}
