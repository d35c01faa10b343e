//! The chain of events that ends last, and what its time was spent on.
//!
//! Every slice remembers which one let it begin: the one that posted its data, the one that freed
//! its slot, its own actor's one before, or the one that ended its rank's operation before. Walking
//! back from the finish gives a chain without gaps, so that its parts add up to all of the time.
//!
//! Slices remember how long they took, not when they were: so one slice stands for all that are
//! alike, in a folded simulation as in one that jumps over what repeats itself. Where the chain
//! crosses a jump, what it did in the last repetition before it is taken as often as was jumped over.

use super::outcome::Outcome;
use super::probe::{ActorId, Probe, Segment};
use super::resources::ResourceId;
use super::sharing::Limit;
use fabricsim_units::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What time on the way to the finish is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Kernels start.
    Launch,
    /// Data or credit is on its way.
    Latency,
    /// Flags, fences and what else the protocol does for a slice, whatever its size.
    Sync,
    /// A proxy handles a message.
    Message,
    /// Thread blocks copy as fast as they can.
    CopyRate,
    /// A network connection carries all that it can.
    ConnectionRate,
    /// Links are full.
    Limited(ResourceId),
}

/// The sum of what is spent on each.
pub type Times = BTreeMap<Kind, Time>;

/// No slice.
pub const NOTHING: u32 = u32::MAX;

/// What a slice came after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gap {
    /// Its own actor's one before, or another actor of its rank: at once.
    #[default]
    None,
    /// The data that another one posted.
    Data,
    /// The slot that another one freed.
    Credit,
    /// The end of its rank's operation before.
    Launch,
}

/// A slice, and which one it came after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// The slice that it came after.
    pub before: u32,
    /// In which way.
    pub gap: Gap,
    /// From that one's end (or its posting) to this one's being ready.
    pub wait: Time,
    /// From then to the first byte's moving: a proxy handles the message.
    pub handling: Time,
    /// The bytes move.
    pub stream: Time,
    /// They move as fast as the threads copy, unless a probe is told of [`Segment`]s.
    pub sync: Time,
    /// So much before its end, in picoseconds, the slice was posted; after it if negative.
    pub lead: i64,
    /// It is a proxy's.
    pub proxy: bool,
}

/// A slice, small, because there may be many.
#[derive(Debug, Clone, Copy)]
struct Told {
    link: Link,
    /// The resource that limited all of it; or [`CAP`]; or [`MIXED`] and an index into the list of
    /// mixtures.
    limit: u32,
    /// Index into the tree of epochs.
    epoch: u32,
}

/// Values of [`Told::limit`] that are no resource.
const CAP: u32 = u32::MAX;
const MIXED: u32 = 1 << 31;

/// What was jumped over, and after which epoch.
#[derive(Debug, Clone, Copy)]
struct Jump {
    after: u32,
    period: Time,
    times: u64,
}

/// Jumps within the repetitions of jumps are followed so deep.
const DEPTH: u32 = 8;

/// Keeps what a walk back from the finish needs; hand it to [`super::simulate_folded_with`].
#[derive(Debug)]
pub struct CriticalPath {
    most: usize,
    given_up: bool,
    log: Vec<Told>,
    mixtures: Vec<SmallVec<[(Limit, Time); 4]>>,
    /// Of the slice that each actor is at.
    stretches: Vec<SmallVec<[(Limit, Time); 1]>>,
    jumps: Vec<Jump>,
    epoch: u32,
    last: u32,
}

impl Default for CriticalPath {
    /// One that gives up after a million slices, which take 100 MB.
    fn default() -> Self {
        Self::of_at_most(1 << 20)
    }
}

impl CriticalPath {
    /// One that gives up after so many slices.
    #[must_use]
    pub fn of_at_most(most: usize) -> Self {
        CriticalPath {
            most: most.min(MIXED as usize),
            given_up: false,
            log: Vec::new(),
            mixtures: Vec::new(),
            stretches: Vec::new(),
            jumps: Vec::new(),
            epoch: 0,
            last: NOTHING,
        }
    }

    /// What the last `window` before the finish was spent on; the parts add up to it. `None` if
    /// there were too many slices to remember, or if they do not go back so far.
    #[must_use]
    pub fn walk(&self, outcome: &Outcome, window: Time) -> Option<Times> {
        if self.given_up {
            return None;
        }
        if outcome.end() == Time::ZERO || self.last == NOTHING {
            return (window == Time::ZERO).then(Times::new);
        }
        let mut walk = Walk {
            path: self,
            times: Times::new(),
            left: window.picos(),
            hidden: 0,
        };
        walk.from(self.last, 0);
        (walk.left == 0).then_some(walk.times)
    }

    fn limit(&mut self, actor: ActorId, stream: Time) -> u32 {
        let Some(own) = self.stretches.get_mut(actor as usize) else {
            return CAP;
        };
        let sum: Time = own.iter().map(|s| s.1).sum();
        let last = own.last().map_or(Limit::Cap, |s| s.0);
        // Of a slice that was jumped into, only the end is known.
        let same = sum != stream || own.iter().all(|s| s.0 == last);
        let limit = match last {
            Limit::Cap if same => CAP,
            Limit::Resource(resource) if same && resource < MIXED => resource,
            _ => {
                self.mixtures.push(own.iter().copied().collect());
                MIXED | (self.mixtures.len() - 1) as u32
            }
        };
        own.clear();
        limit
    }
}

impl Probe for CriticalPath {
    const ACTIVE: bool = false;
    const TRACKS: bool = true;

    fn begin(&mut self, actors: usize) {
        let most = self.most;
        *self = Self::of_at_most(most);
        self.stretches = vec![SmallVec::new(); actors];
    }

    fn segment(&mut self, segment: &Segment) {
        let time = segment.end - segment.start;
        let own = &mut self.stretches[segment.actor as usize];
        match own.last_mut() {
            Some(last) if last.0 == segment.limit => last.1 += time,
            _ => own.push((segment.limit, time)),
        }
    }

    fn link(&mut self, actor: ActorId, link: &Link) -> u32 {
        if self.given_up {
            return NOTHING;
        }
        if self.log.len() >= self.most {
            self.give_up();
            return NOTHING;
        }
        let limit = self.limit(actor, link.stream);
        self.log.push(Told {
            link: *link,
            limit,
            epoch: self.epoch,
        });
        (self.log.len() - 1) as u32
    }

    fn repeated(&mut self, period: Time, times: u64) {
        self.jumps.push(Jump {
            after: self.epoch,
            period,
            times,
        });
        self.epoch = self.jumps.len() as u32;
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn go_back(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    fn give_up(&mut self) {
        self.given_up = true;
        (self.log, self.mixtures) = (Vec::new(), Vec::new());
    }

    fn finish(&mut self, last: u32) {
        self.last = last;
    }
}

/// A walk back in time.
struct Walk<'p> {
    path: &'p CriticalPath,
    times: Times,
    /// Picoseconds that are still to be explained.
    left: u64,
    /// Picoseconds of what comes next that went on beside what has been told already.
    hidden: u64,
}

impl Walk<'_> {
    fn take(&mut self, kind: Kind, time: u64) {
        let hidden = self.hidden.min(time);
        self.hidden -= hidden;
        let used = (time - hidden).min(self.left);
        self.left -= used;
        if used > 0 {
            *self.times.entry(kind).or_default() += Time::from_picos(used);
        }
    }

    /// Back from the end of a slice, until nothing is left to be explained.
    fn from(&mut self, mut id: u32, depth: u32) {
        let path = self.path;
        while let Some(told) = path.log.get(id as usize).filter(|_| self.left > 0) {
            let link = &told.link;
            self.take(Kind::Sync, link.sync.picos());
            self.stream(told);
            self.take(Kind::Message, link.handling.picos());
            let kind = match link.gap {
                Gap::Data | Gap::Credit => Kind::Latency,
                Gap::Launch => Kind::Launch,
                Gap::None => Kind::Sync,
            };
            self.take(kind, link.wait.picos());
            id = link.before;
            let Some(next) = path.log.get(id as usize) else {
                break;
            };
            if link.gap == Gap::Data {
                self.lead(&next.link);
            }
            let mut epoch = told.epoch;
            while epoch != next.epoch && self.left > 0 {
                let Some(jump) = path.jumps.get((epoch as usize).wrapping_sub(1)) else {
                    break;
                };
                self.repeated(id, jump, depth);
                epoch = jump.after;
            }
        }
    }

    /// A slice was posted before its end, or after it.
    fn lead(&mut self, link: &Link) {
        let picos = link.lead.unsigned_abs();
        if link.lead > 0 {
            self.hidden += picos;
        } else if link.proxy {
            self.take(Kind::Latency, picos);
        } else {
            self.take(Kind::Sync, picos);
        }
    }

    /// What was jumped over: as what led to this slice in the last repetition.
    fn repeated(&mut self, id: u32, jump: &Jump, depth: u32) {
        if depth >= DEPTH {
            return;
        }
        let mut once = Walk {
            path: self.path,
            times: Times::new(),
            left: jump.period.picos(),
            hidden: self.hidden,
        };
        once.from(id, depth + 1);
        let all = u128::from(jump.period.picos()) * u128::from(jump.times);
        let wanted = all.min(u128::from(self.left)) as u64;
        let once = once.times.iter();
        let once: BTreeMap<Kind, u128> = once.map(|(&k, t)| (k, u128::from(t.picos()))).collect();
        for (kind, time) in scaled(&once, Time::from_picos(wanted)) {
            self.left -= time.picos();
            *self.times.entry(kind).or_default() += time;
        }
    }

    /// The streaming of a slice.
    fn stream(&mut self, told: &Told) {
        let own = if told.link.proxy {
            Kind::ConnectionRate
        } else {
            Kind::CopyRate
        };
        match told.limit {
            CAP => self.take(own, told.link.stream.picos()),
            limit if limit & MIXED != 0 => {
                let path = self.path;
                let mixture = path.mixtures.get((limit & !MIXED) as usize);
                for &(limit, time) in mixture.iter().flat_map(|m| m.iter().rev()) {
                    let kind = match limit {
                        Limit::Cap => own,
                        Limit::Resource(resource) => Kind::Limited(resource),
                    };
                    self.take(kind, time.picos());
                }
            }
            resource => self.take(Kind::Limited(resource), told.link.stream.picos()),
        }
    }
}

/// The same parts of another whole, each in any unit: they add up to it exactly, if there are any.
#[must_use]
pub fn scaled<K: Copy>(parts: &BTreeMap<K, u128>, whole: Time) -> Vec<(K, Time)> {
    let sum: u128 = parts.values().sum();
    let mut before = 0u128;
    let mut done = 0u64;
    let part = |(&kind, part): (&K, &u128)| {
        before += part;
        let until = match u128::from(whole.picos()).checked_mul(before) {
            Some(product) => (product / sum.max(1)) as u64,
            None => (whole.picos() as f64 * (before as f64 / sum as f64)) as u64,
        };
        // Also where it was rounded, the last part reaches the end.
        let until = if before == sum { whole.picos() } else { until };
        let own = until.saturating_sub(done);
        done = until.max(done);
        (kind, Time::from_picos(own))
    };
    parts.iter().map(part).collect()
}
