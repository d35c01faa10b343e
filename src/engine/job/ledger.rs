//! Where a rank's time goes in a job.

use crate::plan::job::{ActorId, StreamId};
use crate::units::Time;
use std::collections::BTreeMap;

/// Where a rank's time went: every picosecond of the job is in exactly one of compute, exposed,
/// waiting, host and idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Kernels ran.
    pub compute: Time,
    /// No kernel ran, but a communication: by stream.
    pub exposed: Vec<Time>,
    /// No kernel ran, and others had not come to a communication: by stream.
    pub waiting: Vec<Time>,
    /// Something else: a copy, the host.
    pub other: Time,
    /// The process had not started what comes next.
    pub host: Time,
    /// Nothing was left to do.
    pub idle: Time,
    /// Communications from their last rank's coming to their end, by stream, hidden or not.
    pub communication: Vec<Time>,
    /// Whom it waited for while no kernel ran: the last to come.
    pub waited_for: BTreeMap<ActorId, Time>,
}

/// What a rank is doing, as far as its ledger is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    /// A kernel runs.
    Compute,
    /// A communication on that stream.
    Exposed(StreamId),
    /// Something else.
    Other,
    /// Waiting for others on that stream.
    Waiting(StreamId),
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
        let part = match doing {
            Doing::Compute => &mut self.compute,
            Doing::Exposed(stream) => &mut self.exposed[usize::from(stream.0)],
            Doing::Waiting(stream) => &mut self.waiting[usize::from(stream.0)],
            Doing::Other => &mut self.other,
            Doing::Host => &mut self.host,
            Doing::Idle => &mut self.idle,
        };
        *part += time;
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Time {
        let exposed: Time = self.exposed.iter().copied().sum();
        let waiting: Time = self.waiting.iter().copied().sum();
        self.compute + exposed + waiting + self.other + self.host + self.idle
    }
}
