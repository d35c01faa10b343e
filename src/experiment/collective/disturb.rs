//! A scenario's faults, as the execution of one operation after the other asks for them.
//!
//! Each operation is a step, a micro-batch and a kernel: jitter of any of these is drawn for each. What
//! slows a GPU down slows down what its thread blocks do, not the start of kernels, which is the
//! driver's. Faults that are always the same are told by the plan and by the links' rates, so that
//! ranks and links they do not tell apart are still simulated once.

use fabricsim_collective::Rank;
use fabricsim_fault::{Faults, Work};
use fabricsim_plan::{Disturbances, Plan, Stretch};
use fabricsim_report::record::FaultSpan;
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::{Bandwidth, Time};
use std::borrow::Cow;
use std::ops::Range;

/// What a plan is executed under.
pub(crate) struct Conditions<'c> {
    pub(crate) plan: Cow<'c, Plan>,
    faults: &'c Faults,
    /// Faults are always the same.
    steady: bool,
}

impl<'c> Conditions<'c> {
    pub(crate) fn new(plan: &'c Plan, faults: &'c Faults) -> Self {
        Self::with(plan, faults, faults.is_steady())
    }

    /// The plan with what faults of GPUs do to it, which is to be always the same; links' faults are
    /// asked for elsewhere.
    pub(crate) fn slow_gpus(plan: &'c Plan, faults: &'c Faults) -> Cow<'c, Plan> {
        Self::with(plan, faults, true).plan
    }

    fn with(plan: &'c Plan, faults: &'c Faults, steady: bool) -> Self {
        let mut conditions = Conditions {
            plan: Cow::Borrowed(plan),
            faults,
            steady,
        };
        if conditions.steady && !faults.is_empty() {
            let always = |rank: Rank| {
                let (stretch, _) = conditions.stretch(rank, 0, Time::ZERO);
                (conditions.delay(rank, 0), stretch)
            };
            match plan.with_slow_ranks(always) {
                Some(slow) => conditions.plan = Cow::Owned(slow),
                None => conditions.steady = false,
            }
        }
        conditions
    }

    /// What is asked for while the plan is executed, if anything is.
    pub(super) fn disturbances(&self) -> Option<&dyn Disturbances> {
        (!self.steady).then_some(self as &dyn Disturbances)
    }

    /// What a link can carry, as far as that never changes.
    pub(super) fn rates(&self, topology: &'c Topology) -> impl Fn(LinkId) -> Bandwidth {
        let (rate, steady, faults) = (topology.rates(), self.steady, self.faults);
        move |link| {
            if steady && faults.touches(link) {
                part_of(rate(link), faults.link_factor(link, Time::ZERO))
            } else {
                rate(link)
            }
        }
    }
}

/// More changes of one link than this are not looked at for its mean rate over a span.
const MOST_CHANGES: usize = 10_000;

/// What faults leave of a link's rate, in the mean over a span; `None` if none touches it. While the link
/// is away it counts as zero.
pub(super) fn rate_left(
    faults: &Faults,
    topology: &Topology,
    link: LinkId,
    span: Range<Time>,
) -> Option<Bandwidth> {
    if !faults.touches(link) {
        return None;
    }
    let Range { start, end } = span;
    let (mut sum, mut at) = (0.0, start);
    for _ in 0..MOST_CHANGES {
        let next = faults.next_link_change(link, at);
        let until = next.map_or(end, |next| next.min(end));
        sum += faults.link_factor(link, at) * until.saturating_sub(at).seconds();
        at = until;
        if at >= end {
            break;
        }
    }
    let mean = if at > start {
        sum / at.saturating_sub(start).seconds()
    } else {
        1.0
    };
    Some(part_of(topology.rate(link), mean))
}

fn part_of(whole: Bandwidth, left: f64) -> Bandwidth {
    Bandwidth::from_bytes_per_sec((whole.bytes_per_sec() as f64 * left) as u64)
}

/// When faults are on until `end`.
pub(super) fn spans(faults: &Faults, end: Time) -> Vec<FaultSpan> {
    let spans = faults.windows(end).into_iter().map(|window| FaultSpan {
        place: window.place,
        what: window.what,
        start: window.from,
        end: window.to,
    });
    spans.collect()
}

fn work(operation: u32) -> Work {
    Work {
        step: u64::from(operation),
        micro_batch: 0,
        kernel: 0,
    }
}

impl Disturbances for Conditions<'_> {
    fn delay(&self, rank: Rank, operation: u32) -> Time {
        let stall = self.faults.loader_stall(rank.index(), u64::from(operation));
        self.faults.delay(rank.index(), work(operation)) + stall
    }

    fn stretch(&self, rank: Rank, operation: u32, at: Time) -> (Stretch, Time) {
        let index = rank.index();
        if self.faults.is_plain(index) {
            return (Stretch::NONE, Time::MAX);
        }
        // The links of a GPU that has failed carry nothing: that holds it up.
        let speed = match self.faults.speed(index, at) {
            0.0 => 1.0,
            speed => speed,
        };
        let longer = self.faults.stretch(index, work(operation)) / speed;
        let until = self.faults.next_speed_change(index, at);
        (Stretch::new(longer), until.unwrap_or(Time::MAX))
    }

    fn least_stretch(&self, rank: Rank, operations: u32) -> Stretch {
        let index = rank.index();
        if self.faults.is_plain(index) {
            return Stretch::NONE;
        }
        let draws = (0..operations).map(|op| self.faults.stretch(index, work(op)));
        let drawn = draws.fold(f64::INFINITY, f64::min);
        Stretch::new(drawn / self.faults.most_speed(index))
    }

    fn changes(&self, link: LinkId) -> bool {
        self.faults.touches(link)
    }

    fn link(&self, link: LinkId, at: Time) -> f64 {
        self.faults.link_factor(link, at)
    }

    fn next_link_change(&self, link: LinkId, after: Time) -> Option<Time> {
        self.faults.next_link_change(link, after)
    }
}
