//! A connection's buffer: slots that go from sender to receiver and back as credits.

use super::probe::ActorId;
use crate::units::Time;

/// A queue, an index into the engine's table.
pub type FifoId = u32;

/// Most slots that a queue has (NCCL: 8 steps).
pub(super) const MAX_SLOTS: usize = 8;

/// A bounded queue of slices between two actors, as times: when each slice is visible
/// to the receiver, and when each slot is free again for the sender. Both are known
/// as soon as the other side has acted, even if they lie in the future, so a waiting
/// actor needs one event, not one for each arrival.
#[derive(Debug, Clone)]
pub(super) struct Fifo {
    pub(super) from: ActorId,
    pub(super) to: ActorId,
    /// Slices put in so far.
    pub(super) posted: u64,
    /// Slices taken out so far.
    pub(super) taken: u64,
    slots: u8,
    /// The receiver waits for the next slice.
    pub(super) receiver_waits: bool,
    /// The sender waits for a free slot.
    pub(super) sender_waits: bool,
    visible: [Time; MAX_SLOTS],
    freed: [Time; MAX_SLOTS],
    len: [u64; MAX_SLOTS],
    /// From posting to being visible, and from freeing to being free.
    pub(super) latency: Time,
    pub(super) credit_latency: Time,
    /// Payload so far.
    pub(super) bytes: u64,
    /// Waiting of the receiver for data not posted, of the sender for slots not freed.
    pub(super) wait_data: Time,
    pub(super) wait_credit: Time,
}

impl Fifo {
    pub(super) fn new(
        from: ActorId,
        to: ActorId,
        slots: u32,
        latency: Time,
        credit_latency: Time,
    ) -> Self {
        Fifo {
            from,
            to,
            posted: 0,
            taken: 0,
            slots: slots.clamp(1, MAX_SLOTS as u32) as u8,
            receiver_waits: false,
            sender_waits: false,
            visible: [Time::ZERO; MAX_SLOTS],
            freed: [Time::ZERO; MAX_SLOTS],
            len: [0; MAX_SLOTS],
            latency,
            credit_latency,
            bytes: 0,
            wait_data: Time::ZERO,
            wait_credit: Time::ZERO,
        }
    }

    fn slot(&self, index: u64) -> usize {
        (index % u64::from(self.slots)) as usize
    }

    /// When the receiver's next slice is visible; `None` while it is not posted.
    #[inline]
    pub(super) fn data_at(&self) -> Option<Time> {
        (self.posted > self.taken).then(|| self.visible[self.slot(self.taken)])
    }

    /// When the sender's next slot is free; `None` while it is not freed.
    #[inline]
    pub(super) fn credit_at(&self) -> Option<Time> {
        (self.posted - self.taken < u64::from(self.slots))
            .then(|| self.freed[self.slot(self.posted)])
    }

    /// The size of the receiver's next slice.
    #[inline]
    pub(super) fn next_len(&self) -> u64 {
        self.len[self.slot(self.taken)]
    }

    /// The sender is done with a slice at `now`.
    #[inline]
    pub(super) fn post(&mut self, now: Time, len: u64) {
        let slot = self.slot(self.posted);
        self.visible[slot] = now + self.latency;
        self.len[slot] = len;
        self.posted += 1;
        self.bytes += len;
    }

    /// The receiver is done with a slice at `now`.
    #[inline]
    pub(super) fn take(&mut self, now: Time) {
        let slot = self.slot(self.taken);
        self.freed[slot] = now + self.credit_latency;
        self.taken += 1;
    }
}
