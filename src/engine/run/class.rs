//! What actors of a kind cost.

use fabricsim_plan::{Later, MessageCost, SliceCost, Stretch};
use fabricsim_units::{Bytes, Time};

/// What one kind of actor costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// After each slice of a worker.
    pub(super) slice: SliceCost,
    /// How much longer all of a worker's work always takes; its rates know.
    pub(super) stretch: Stretch,
    /// Before each message of a proxy.
    pub(super) message: MessageCost,
    /// What large messages of a proxy take beside.
    pub(super) later: Later,
    /// The most that its passes move, if it moves anything in passes.
    pub(super) pass_rate: Option<u64>,
    pub(super) send_rate: u64,
    pub(super) local_rate: u64,
    /// Streams in and out at these rates; zero: any number.
    pub(super) streams: u32,
    /// The last slice's length, and what it cost: most are as long.
    pub(super) last: (u64, Time),
}

impl Class {
    /// What a slice costs a worker.
    #[inline]
    pub(super) fn cost_of(&mut self, len: u64) -> Time {
        if self.last.0 != len {
            self.last = (len, self.stretch.time(self.slice.of(len)));
        }
        self.last.1
    }

    /// What that is of it which its passes take.
    #[inline]
    pub(super) fn passes_of(&self, len: u64) -> (Time, u64) {
        let passes = self.slice.passes(len);
        let time = self.slice.pass_time.times(passes);
        (self.stretch.time(time), passes)
    }

    /// When a slice ends depends on when it began, beyond its bytes.
    pub(super) fn needs_start(&self) -> bool {
        self.slice.pass > Bytes::ZERO || self.slice.hidden
    }
}
