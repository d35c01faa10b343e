//! Which span's data is which other's: queues keep their order, so the data that was put into one
//! as its nth is what was taken out as its nth.

use super::cast::{Cast, Place, Side};
use fabricsim_engine::FifoId;
use fabricsim_engine::probe::{Cause, Slice};
use fabricsim_report::record::MessageEnd;
use smallvec::SmallVec;

/// What is done with a message, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Sends,
    Passes,
    Receives,
}

/// One end of a message.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Its connection, and its number there.
    message: (u32, u32),
    part: Part,
    end: MessageEnd,
    /// Of those that are taken at once it came last, or nobody waited for any of them.
    last: bool,
}

/// Ends of messages of the ranks that are shown.
#[derive(Debug)]
pub(super) struct Messages {
    /// By rank.
    ends: Vec<Vec<Told>>,
    /// What was put into each queue so far, and taken out of it.
    sent: Vec<u32>,
    received: Vec<u32>,
}

impl Messages {
    pub(super) fn new(cast: &Cast, ranks: u32) -> Self {
        Messages {
            ends: vec![Vec::new(); ranks as usize],
            sent: vec![0; cast.queues()],
            received: vec![0; cast.queues()],
        }
    }

    /// What a slice does with its messages in this part is in a span of this place.
    pub(super) fn add(
        &mut self,
        cast: &Cast,
        (place, part): (Place, Part),
        slice: &Slice,
        end: MessageEnd,
    ) {
        let (queues, side, counts): (&[FifoId], _, _) = match part {
            Part::Sends | Part::Passes => (slice.send, Side::Receiver, &self.sent),
            Part::Receives => (slice.recv, Side::Sender, &self.received),
        };
        let last = match slice.cause {
            Cause::Data(queue) => Some(queue),
            _ => queues.first().copied(),
        };
        let told = queues.iter().map(|&queue| Told {
            message: (
                cast.peer(place, queue, side).connection,
                counts[queue as usize],
            ),
            part,
            end,
            last: last == Some(queue),
        });
        self.ends[end.rank as usize].extend(told);
    }

    /// A slice is over.
    pub(super) fn count(&mut self, slice: &Slice) {
        for &queue in slice.send {
            self.sent[queue as usize] += 1;
        }
        for &queue in slice.recv {
            self.received[queue as usize] += 1;
        }
    }

    /// A rank is not shown any more.
    pub(super) fn forget(&mut self, rank: u32) {
        self.ends[rank as usize] = Vec::new();
    }

    /// The messages of which sender and receiver are shown, in order of connections; if they are more
    /// than `limit`, those that came last.
    pub(super) fn finish(self, limit: usize) -> Vec<SmallVec<[MessageEnd; 3]>> {
        let mut ends: Vec<Told> = self.ends.into_iter().flatten().collect();
        ends.sort_unstable_by_key(|told| (told.message, told.part));
        let messages = ends.chunk_by(|a, b| a.message == b.message);
        let mut whole: Vec<&[Told]> = messages
            .filter(|ends| match ends {
                [from, .., to] => (from.part, to.part) == (Part::Sends, Part::Receives),
                _ => false,
            })
            .collect();
        if whole.len() > limit {
            whole.retain(|ends| ends.last().is_some_and(|to| to.last));
        }
        let ends = |told: &[Told]| told.iter().map(|told| told.end).collect();
        whole.into_iter().map(ends).collect()
    }
}
