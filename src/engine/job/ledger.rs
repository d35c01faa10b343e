//! Where a rank's time goes in a job.

use fabricsim_plan::job::{ActorId, ExchangeId, StreamId, TaskKind};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// A time for each [`TaskKind`], in the order of [`TaskKind::ALL`].
pub type ByKind = [Time; TaskKind::ALL.len()];

/// Where a rank's time went: every picosecond of the job is in exactly one of compute, exposed,
/// waiting, host and idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Kernels ran.
    pub compute: Time,
    /// No kernel ran, but a communication or a transfer: by stream.
    pub exposed: Vec<Time>,
    /// No kernel ran, and others had not come to a communication: by stream.
    pub waiting: Vec<Time>,
    /// Something else: a copy, the host.
    pub other: Time,
    /// The process had not started what comes next.
    pub host: Time,
    /// Nothing was left to do.
    pub idle: Time,
    /// Transfers, and communications from their last rank's coming to their end, by stream, hidden
    /// or not.
    pub communication: Vec<Time>,
    /// Whom it waited for while no kernel ran: the last to come.
    pub waited_for: BTreeMap<ActorId, Time>,
    /// [`Ledger::compute`] by [`TaskKind`]; of several at once the first.
    pub kernels: ByKind,
    /// What of [`Ledger::kernels`] communications at the same time cost: they held SMs, and the
    /// kernels took that much longer than they would have with all of them.
    pub slowed: ByKind,
    /// [`Ledger::exposed`] of transfers.
    pub transfers: Time,
    /// [`Ledger::exposed`] of communications by exchange in place of stream.
    pub exposed_in: BTreeMap<ExchangeId, Time>,
    /// [`Ledger::waiting`] by exchange in place of stream.
    pub waiting_in: BTreeMap<ExchangeId, Time>,
}

/// What a rank is doing, as far as its ledger is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    /// A kernel runs.
    Compute(TaskKind),
    /// A communication on that stream.
    Exposed(StreamId, ExchangeId),
    /// A transfer on that stream.
    Transfer(StreamId),
    /// Something else.
    Other,
    /// Waiting for others on that stream.
    Waiting(StreamId, ExchangeId),
    /// Waiting for its own process.
    Host,
    /// Nothing left.
    Idle,
}

impl Ledger {
    pub(super) fn new(streams: usize) -> Self {
        Ledger {
            exposed: vec![Time::ZERO; streams],
            waiting: vec![Time::ZERO; streams],
            communication: vec![Time::ZERO; streams],
            ..Ledger::default()
        }
    }

    pub(super) fn add(&mut self, doing: Doing, time: Time) {
        if time == Time::ZERO {
            return;
        }
        let part = match doing {
            Doing::Compute(kind) => {
                self.kernels[kind.index()] += time;
                &mut self.compute
            }
            Doing::Exposed(stream, exchange) => {
                *self.exposed_in.entry(exchange).or_default() += time;
                &mut self.exposed[usize::from(stream.0)]
            }
            Doing::Transfer(stream) => {
                self.transfers += time;
                &mut self.exposed[usize::from(stream.0)]
            }
            Doing::Waiting(stream, exchange) => {
                *self.waiting_in.entry(exchange).or_default() += time;
                &mut self.waiting[usize::from(stream.0)]
            }
            Doing::Other => &mut self.other,
            Doing::Host => &mut self.host,
            Doing::Idle => &mut self.idle,
        };
        *part += time;
    }

    /// What has been added to it since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Ledger) -> Ledger {
        let each = |now: &[Time], then: &[Time]| -> Vec<Time> {
            let then = then.iter().copied().chain(std::iter::repeat(Time::ZERO));
            now.iter().zip(then).map(|(&n, t)| n - t).collect()
        };
        let by_kind = |now: &ByKind, then: &ByKind| -> ByKind {
            std::array::from_fn(|kind| now[kind] - then[kind])
        };
        Ledger {
            compute: self.compute - before.compute,
            exposed: each(&self.exposed, &before.exposed),
            waiting: each(&self.waiting, &before.waiting),
            transfers: self.transfers - before.transfers,
            other: self.other - before.other,
            host: self.host - before.host,
            idle: self.idle - before.idle,
            communication: each(&self.communication, &before.communication),
            waited_for: rest(&self.waited_for, &before.waited_for),
            kernels: by_kind(&self.kernels, &before.kernels),
            slowed: by_kind(&self.slowed, &before.slowed),
            exposed_in: rest(&self.exposed_in, &before.exposed_in),
            waiting_in: rest(&self.waiting_in, &before.waiting_in),
        }
    }

    /// The mean of `every` steps, all but one of them as this one and that one as `last`, rounded to
    /// picoseconds.
    #[must_use]
    pub fn mean_with(&self, last: &Ledger, every: u32) -> Ledger {
        let every = u64::from(every.max(1));
        self.combined(last, |own, last| {
            let sum = own.picos() * (every - 1) + last.picos();
            Time::from_picos((sum + every / 2) / every)
        })
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Ledger) -> Ledger {
        self.combined(other, |own, other| own + other)
    }

    fn combined(&self, other: &Ledger, both: impl Fn(Time, Time) -> Time) -> Ledger {
        let each = |own: &[Time], other: &[Time]| -> Vec<Time> {
            own.iter().zip(other).map(|(&o, &l)| both(o, l)).collect()
        };
        let by_kind = |own: &ByKind, other: &ByKind| -> ByKind {
            std::array::from_fn(|kind| both(own[kind], other[kind]))
        };
        Ledger {
            compute: both(self.compute, other.compute),
            exposed: each(&self.exposed, &other.exposed),
            waiting: each(&self.waiting, &other.waiting),
            transfers: both(self.transfers, other.transfers),
            other: both(self.other, other.other),
            host: both(self.host, other.host),
            idle: both(self.idle, other.idle),
            communication: each(&self.communication, &other.communication),
            waited_for: all_keys(&self.waited_for, &other.waited_for, &both),
            kernels: by_kind(&self.kernels, &other.kernels),
            slowed: by_kind(&self.slowed, &other.slowed),
            exposed_in: all_keys(&self.exposed_in, &other.exposed_in, &both),
            waiting_in: all_keys(&self.waiting_in, &other.waiting_in, &both),
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Time {
        let exposed: Time = self.exposed.iter().copied().sum();
        let waiting: Time = self.waiting.iter().copied().sum();
        self.compute + exposed + waiting + self.other + self.host + self.idle
    }
}

fn rest<K: Ord + Copy>(now: &BTreeMap<K, Time>, then: &BTreeMap<K, Time>) -> BTreeMap<K, Time> {
    let before = |key| then.get(key).copied().unwrap_or(Time::ZERO);
    let left = now.iter().map(|(key, &time)| (*key, time - before(key)));
    left.filter(|(_, time)| *time > Time::ZERO).collect()
}

fn all_keys<K: Ord + Copy>(
    own: &BTreeMap<K, Time>,
    other: &BTreeMap<K, Time>,
    both: impl Fn(Time, Time) -> Time,
) -> BTreeMap<K, Time> {
    let of = |map: &BTreeMap<K, Time>, key| map.get(key).copied().unwrap_or(Time::ZERO);
    let keys = own.keys().chain(other.keys());
    keys.map(|key| (*key, both(of(own, key), of(other, key))))
        .collect()
}
