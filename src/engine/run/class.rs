//! What actors of a kind cost.

use fabricsim_collective::{Program, Step, WorkerId};
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
    /// Of a step that sends with one or two streams in and one or two out, if their number matters.
    pub(super) copies: Option<[[u64; 2]; 2]>,
    /// Streams in and out at these rates; zero: any number.
    pub(super) streams: u32,
    /// The last slice's length, and what it cost: most are as long.
    pub(super) last: (u64, Time),
}

impl Class {
    /// How fast a step goes, as far as the worker is concerned.
    #[inline]
    pub(super) fn rate_of(&self, step: &Step) -> u64 {
        match &self.copies {
            _ if step.send.is_empty() => self.local_rate,
            Some(rates) => {
                let (loads, stores) = step.streams();
                rates[usize::from(loads > 1)][usize::from(stores > 1)]
            }
            None => self.send_rate,
        }
    }

    /// How many steps from `index` on take a worker as long as those that come `shift` later.
    #[inline]
    pub(super) fn same_after(
        &self,
        program: &dyn Program,
        worker: WorkerId,
        (index, shift): (u64, u64),
    ) -> u64 {
        let same = program.same_after(worker, index, shift);
        match self.copies {
            Some(_) => same.min(program.same_streams_after(worker, index, shift)),
            None => same,
        }
    }

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
