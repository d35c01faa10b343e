//! What is kept of passes: in memory that is asked for, or bounded.

use crate::serving::record::{Gap, PassRecord};
use fabricsim_budget::{Held, Memory, OverBudget, Purpose};
use fabricsim_units::Time;

/// Times between tokens that are kept before memory is asked for more.
const FIRST_GAPS: usize = 1024;

/// Times between tokens. How many there will be is seen only as they come: memory is asked for as they grow.
#[derive(Debug)]
pub struct Gaps {
    runs: Vec<Gap>,
    memory: Memory,
    held: Option<Held>,
    refused: Option<OverBudget>,
}

impl Gaps {
    pub(super) fn new(memory: Memory) -> Self {
        Gaps {
            runs: Vec::new(),
            memory,
            held: None,
            refused: None,
        }
    }

    /// As they came.
    pub fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.runs.iter()
    }

    /// More of them than the budget has memory for: those that came later are not here.
    #[must_use]
    pub fn refused(&self) -> Option<OverBudget> {
        self.refused
    }

    /// One more, of that length at that moment.
    pub(super) fn count(&mut self, at: Time, time: Time) {
        match self.runs.last_mut() {
            Some(last) if (last.at, last.time) == (at, time) => last.count += 1,
            _ => self.push(Gap { at, time, count: 1 }),
        }
    }

    pub(super) fn push(&mut self, gap: Gap) {
        if self.runs.len() == self.runs.capacity() && !self.grows() {
            return;
        }
        self.runs.push(gap);
    }

    /// Half as many again, if there is memory for them beside those that are there.
    fn grows(&mut self) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let more = (self.runs.len() / 2).max(FIRST_GAPS);
        let all = (self.runs.len() + more) * size_of::<Gap>();
        match self.memory.hold(Purpose::Requests, all as u64) {
            Ok(held) => {
                self.runs.reserve_exact(more);
                self.held = Some(held);
                true
            }
            Err(refused) => {
                self.refused = Some(refused);
                false
            }
        }
    }
}

/// Passes in order of their beginning: the first ones whole, all of them thinned.
#[derive(Debug, Default)]
pub struct Passes {
    /// The first ones, [`Passes::FIRST`] at most.
    pub first: Vec<PassRecord>,
    /// When the next one began, if there are more.
    pub after_first: Option<Time>,
    /// What engines had at most, over time.
    pub samples: Vec<PassSample>,
    /// So many passes are in a sample.
    each: u32,
    /// So many in the last one.
    in_last: u32,
}

/// The most of some passes that followed each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassSample {
    /// When the first of them began.
    pub begun: Time,
    /// Requests that went on from their last token.
    pub decodes: u32,
    /// Requests that waited for an engine.
    pub waiting: u32,
    /// Share of the KV blocks that were taken, in thousandths.
    pub kv_permille: u16,
}

impl PassSample {
    fn join(&mut self, other: PassSample) {
        self.decodes = self.decodes.max(other.decodes);
        self.waiting = self.waiting.max(other.waiting);
        self.kv_permille = self.kv_permille.max(other.kv_permille);
    }
}

impl Passes {
    /// So many of the first passes are kept.
    pub const FIRST: usize = 3000;
    /// So many samples at most; half as many at least, of as many passes.
    pub const SAMPLES: usize = 200;

    pub(super) fn push(&mut self, pass: PassRecord) {
        if self.first.len() < Self::FIRST {
            self.first.push(pass);
        } else {
            self.after_first.get_or_insert(pass.begun);
        }
        let sample = PassSample {
            begun: pass.begun,
            decodes: pass.decodes,
            waiting: pass.waiting,
            kv_permille: pass.kv_permille,
        };
        match self.samples.last_mut() {
            Some(last) if self.in_last < self.each => {
                last.join(sample);
                self.in_last += 1;
            }
            _ => {
                if self.samples.len() == Self::SAMPLES {
                    self.halve();
                }
                self.each = self.each.max(1);
                self.samples.push(sample);
                self.in_last = 1;
            }
        }
    }

    /// Each two samples are one.
    fn halve(&mut self) {
        let pairs = self.samples.chunks(2).map(|pair| {
            let mut one = pair[0];
            pair.iter().skip(1).for_each(|&other| one.join(other));
            one
        });
        self.samples = pairs.collect();
        self.each *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_units::Bytes;
    use proptest::prelude::*;

    fn pass(begun: u64, decodes: u32) -> PassRecord {
        PassRecord {
            engine: 0,
            begun: Time::from_nanos(begun),
            ended: Time::from_nanos(begun + 1),
            prompt_tokens: 0,
            decodes,
            waiting: decodes / 2,
            kv_permille: (decodes % 1000) as u16,
        }
    }

    proptest! {
        #[test]
        fn samples_are_the_most_of_as_many_passes(all in proptest::collection::vec(0_u32..500, 1..3500)) {
            let mut kept = Passes::default();
            for (at, &decodes) in (0_u64..).zip(&all) {
                kept.push(pass(at, decodes));
            }
            prop_assert_eq!(kept.first.len(), all.len().min(Passes::FIRST));
            prop_assert_eq!(kept.after_first.is_some(), all.len() > Passes::FIRST);
            let mut each = 1;
            while all.len().div_ceil(each) > Passes::SAMPLES {
                each *= 2;
            }
            let expected: Vec<u32> = all.chunks(each).filter_map(|of| of.iter().copied().max()).collect();
            let found: Vec<u32> = kept.samples.iter().map(|sample| sample.decodes).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn times_between_tokens_ask_for_memory_as_they_come() {
        let limit = Bytes::new(13_000_000);
        let mut gaps = Gaps::new(Memory::of(limit));
        for at in 0..100_000 {
            gaps.count(Time::from_nanos(at), Time::ZERO);
        }
        let refused = gaps
            .refused()
            .expect("2.4 MB of them are more than is left");
        assert_eq!(refused.limit, limit);
        let kept = gaps.iter().count();
        assert!(kept * size_of::<Gap>() < 1_000_000, "{kept}");
    }
}
