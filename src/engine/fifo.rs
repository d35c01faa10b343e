//! Connections' buffers: slots that go from sender to receiver and back as credits.
//!
//! A queue is kept as times: when each slice is visible to the receiver, and when each
//! slot is free again for the sender. Both are known as soon as the other side has
//! acted, even if they lie in the future, so a waiting actor needs one event, not one for
//! each arrival.

use super::probe::ActorId;
use crate::units::Time;

/// A queue, an index into the engine's table.
pub type FifoId = u32;

/// Most slots that a queue has (NCCL: 8 steps).
pub(super) const MAX_SLOTS: usize = 8;

/// A bounded queue of slices between two actors; its slots' times are in [`Fifos`].
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Fifo {
    from: ActorId,
    to: ActorId,
    /// Slices put in and taken out so far.
    posted: u64,
    taken: u64,
    /// The receiver waits for the next slice; the sender for a free slot.
    receiver_waits: bool,
    sender_waits: bool,
    /// Slot of the next slice to post and to take: `posted` and `taken` modulo the slots.
    post_slot: u8,
    take_slot: u8,
    /// Where the sizes of its slices are, if its receiver (a proxy) has to ask for them.
    lens_at: u32,
    /// From posting to being visible, and from freeing to being free.
    latency: Time,
    credit_latency: Time,
    /// Payload so far.
    bytes: u64,
}

/// No sizes are kept.
const NO_LENS: u32 = u32::MAX;

/// All queues of a simulation; each has the same number of slots.
#[derive(Debug)]
pub(super) struct Fifos {
    slots: u8,
    all: Vec<Fifo>,
    /// `slots` times of visibility, then `slots` times of freedom, for each queue.
    times: Vec<Time>,
    lens: Vec<u32>,
}

impl Fifos {
    pub(super) fn new(slots: u32) -> Self {
        let slots = slots.clamp(1, MAX_SLOTS as u32) as u8;
        Fifos {
            slots,
            all: Vec::new(),
            times: Vec::new(),
            lens: Vec::new(),
        }
    }

    /// Adds a queue; `sized` if the receiver does not know the slices' sizes by itself.
    pub(super) fn add(
        &mut self,
        (from, to): (ActorId, ActorId),
        (latency, credit_latency): (Time, Time),
        sized: bool,
    ) -> FifoId {
        let lens_at = if sized {
            self.lens.len() as u32
        } else {
            NO_LENS
        };
        if sized {
            self.lens
                .resize(self.lens.len() + usize::from(self.slots), 0);
        }
        self.times
            .resize(self.times.len() + 2 * usize::from(self.slots), Time::ZERO);
        self.all.push(Fifo {
            from,
            to,
            posted: 0,
            taken: 0,
            receiver_waits: false,
            sender_waits: false,
            post_slot: 0,
            take_slot: 0,
            lens_at,
            latency,
            credit_latency,
            bytes: 0,
        });
        self.all.len() as u32 - 1
    }

    #[inline]
    fn visible_at(&self, id: FifoId, slot: u8) -> usize {
        id as usize * 2 * usize::from(self.slots) + usize::from(slot)
    }

    #[inline]
    fn freed_at(&self, id: FifoId, slot: u8) -> usize {
        self.visible_at(id, slot) + usize::from(self.slots)
    }

    /// When the receiver's next slice is visible. While it is not posted: `None`, and the
    /// sender will wake the receiver.
    #[inline]
    pub(super) fn data_or_wait(&mut self, id: FifoId) -> Option<Time> {
        let fifo = &mut self.all[id as usize];
        if fifo.posted > fifo.taken {
            let slot = fifo.take_slot;
            Some(self.times[self.visible_at(id, slot)])
        } else {
            fifo.receiver_waits = true;
            None
        }
    }

    /// When the sender's next slot is free. While it is not freed: `None`, and the receiver
    /// will wake the sender.
    #[inline]
    pub(super) fn credit_or_wait(&mut self, id: FifoId) -> Option<Time> {
        let fifo = &mut self.all[id as usize];
        if fifo.posted - fifo.taken < u64::from(self.slots) {
            let slot = fifo.post_slot;
            Some(self.times[self.freed_at(id, slot)])
        } else {
            fifo.sender_waits = true;
            None
        }
    }

    /// From posting to being visible.
    pub(super) fn latency(&self, id: FifoId) -> Time {
        self.all[id as usize].latency
    }

    /// From freeing to being free.
    pub(super) fn credit_latency(&self, id: FifoId) -> Time {
        self.all[id as usize].credit_latency
    }

    /// The size of the receiver's next slice, where sizes are kept.
    pub(super) fn next_len(&self, id: FifoId) -> u32 {
        let fifo = &self.all[id as usize];
        self.lens[fifo.lens_at as usize + usize::from(fifo.take_slot)]
    }

    /// The sender is done with a slice at `now`; returns the receiver if it waits for it.
    #[inline]
    pub(super) fn post(&mut self, id: FifoId, now: Time, len: u32) -> Option<ActorId> {
        let slots = self.slots;
        let fifo = &mut self.all[id as usize];
        let slot = fifo.post_slot;
        fifo.post_slot = if slot + 1 == slots { 0 } else { slot + 1 };
        fifo.posted += 1;
        fifo.bytes += u64::from(len);
        let visible = now + fifo.latency;
        if fifo.lens_at != NO_LENS {
            self.lens[fifo.lens_at as usize + usize::from(slot)] = len;
        }
        let wakes = std::mem::take(&mut fifo.receiver_waits).then_some(fifo.to);
        let at = self.visible_at(id, slot);
        self.times[at] = visible;
        wakes
    }

    /// The receiver is done with a slice at `now`; returns the sender if it waits for a slot.
    #[inline]
    pub(super) fn take(&mut self, id: FifoId, now: Time) -> Option<ActorId> {
        let slots = self.slots;
        let fifo = &mut self.all[id as usize];
        let slot = fifo.take_slot;
        fifo.take_slot = if slot + 1 == slots { 0 } else { slot + 1 };
        fifo.taken += 1;
        let freed = now + fifo.credit_latency;
        let wakes = std::mem::take(&mut fifo.sender_waits).then_some(fifo.from);
        let at = self.freed_at(id, slot);
        self.times[at] = freed;
        wakes
    }

    /// Payload that went through so far.
    pub(super) fn bytes(&self, id: FifoId) -> u64 {
        self.all[id as usize].bytes
    }

    /// Who waits for whom: the sender, if the receiver waits for data; the receiver, if the
    /// sender waits for a slot.
    pub(super) fn missing(&self, id: FifoId) -> (Option<ActorId>, Option<ActorId>) {
        let fifo = &self.all[id as usize];
        (
            fifo.receiver_waits.then_some(fifo.from),
            fifo.sender_waits.then_some(fifo.to),
        )
    }
}
