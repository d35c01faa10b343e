//! The state of one worker or proxy.
//!
//! A large simulation touches these in no order that a cache could guess, so what every
//! slice needs is packed into two cache lines ([`Actor`]); the rest is apart ([`Cold`]).

use super::probe::Cause;
use super::resources::{PathId, ResourceId};
use crate::collective::{ConnId, Peers};
use crate::units::Time;
use smallvec::SmallVec;

/// What an actor is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Something it needs has no time yet; whoever provides it wakes it up.
    Waits,
    /// All is known: it begins at a time for which an event is queued.
    Scheduled,
    /// Bytes move.
    Streams,
    /// No steps are left.
    Done,
}

/// No queue.
pub(super) const NO_FIFO: u32 = u32::MAX;

/// One worker, or one proxy: what every slice touches.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Actor {
    pub(super) phase: Phase,
    /// A step with several queues on one side: they are in [`Cold`].
    pub(super) many: bool,
    /// What its steps cost, an index into the run's table.
    pub(super) class: u16,
    /// Events of older generations are stale.
    pub(super) generation: u32,
    /// Over which resources the current chunk moves.
    pub(super) path: PathId,
    /// The queues of the current chunk, unless `many`.
    pub(super) recv: u32,
    pub(super) send: u32,
    /// The resource that `limited` is of.
    pub(super) limited_by: ResourceId,
    /// Bytes of the current slice, and of a full one.
    pub(super) slice: u32,
    pub(super) slice_len: u32,
    /// Its own fastest rate for the current chunk.
    pub(super) cap: u64,
    /// Millionths of bytes still to move, as of `mark`.
    pub(super) remaining: u64,
    pub(super) mark: Time,
    /// Free for the next slice since (or from) then.
    pub(super) free: Time,
    // The second line.
    /// Bytes of the chunk after the current slice.
    pub(super) left: u64,
    pub(super) next_step: u32,
    pub(super) steps: u32,
    /// How many slices it has moved.
    pub(super) slices: u64,
    // Where its time went.
    pub(super) latency: Time,
    pub(super) wait_data: Time,
    pub(super) wait_credit: Time,
    pub(super) at_cap: Time,
    pub(super) limited: Time,
}

/// What only some steps, or only somebody who looks, need.
#[derive(Debug, Clone)]
pub(super) struct Cold {
    /// The queues of the current chunk, as connection ids.
    pub(super) recv: Peers,
    pub(super) send: Peers,
    /// Proxies: when the last message was handed to the interface.
    pub(super) handed: Time,
    /// Streaming limited by resources other than the last.
    pub(super) limited: SmallVec<[(ResourceId, Time); 2]>,
    /// Waiting for other workers of the rank, between operations.
    pub(super) idle: Time,
    // For a probe.
    pub(super) start: Time,
    pub(super) posted: Time,
    pub(super) cause: Cause,
    pub(super) name: &'static str,
}

impl Default for Cold {
    fn default() -> Self {
        Cold {
            recv: Peers::NONE,
            send: Peers::NONE,
            handed: Time::ZERO,
            limited: SmallVec::new(),
            idle: Time::ZERO,
            start: Time::ZERO,
            posted: Time::ZERO,
            cause: Cause::Own,
            name: "",
        }
    }
}

/// Puts `time` to what `resource` has in `list`.
pub(super) fn add_limited(
    list: &mut SmallVec<[(ResourceId, Time); 2]>,
    resource: ResourceId,
    time: Time,
) {
    match list.iter_mut().find(|(r, _)| *r == resource) {
        Some((_, total)) => *total += time,
        None => list.push((resource, time)),
    }
}

impl Actor {
    pub(super) fn new(class: u16, steps: u32) -> Self {
        Actor {
            phase: Phase::Waits,
            many: false,
            class,
            generation: 0,
            path: 0,
            recv: NO_FIFO,
            send: NO_FIFO,
            limited_by: 0,
            slice: 0,
            slice_len: 0,
            cap: 0,
            remaining: 0,
            mark: Time::ZERO,
            free: Time::ZERO,
            left: 0,
            next_step: 0,
            steps,
            slices: 0,
            latency: Time::ZERO,
            wait_data: Time::ZERO,
            wait_credit: Time::ZERO,
            at_cap: Time::ZERO,
            limited: Time::ZERO,
        }
    }

    /// Sets the queues of the current chunk.
    #[inline]
    pub(super) fn set_queues(&mut self, cold: &mut Cold, recv: Peers, send: Peers) {
        let single = |peers: &Peers| match peers.as_slice() {
            [] => Some(NO_FIFO),
            [one] => Some(one.0),
            _ => None,
        };
        if let (Some(r), Some(s)) = (single(&recv), single(&send)) {
            (self.recv, self.send, self.many) = (r, s, false);
        } else {
            (cold.recv, cold.send, self.many) = (recv, send, true);
        }
    }

    /// The queues of the current chunk: taken from, put into.
    #[inline]
    pub(super) fn queues(&self, cold: &Cold) -> (Peers, Peers) {
        if self.many {
            return (cold.recv, cold.send);
        }
        let peers = |id| {
            if id == NO_FIFO {
                Peers::NONE
            } else {
                Peers::one(ConnId(id))
            }
        };
        (peers(self.recv), peers(self.send))
    }

    /// Millionths of bytes that move at `rate` bytes per second until `now`.
    #[inline]
    pub(super) fn advance(&mut self, rate: u64, now: Time) {
        let picos = (now - self.mark).picos();
        // bytes/s × ps = 1e-12 bytes = 1e-6 millionths.
        let moved = match rate.checked_mul(picos) {
            Some(product) => product / 1_000_000,
            None => (u128::from(rate) * u128::from(picos) / 1_000_000) as u64,
        };
        self.remaining = self.remaining.saturating_sub(moved);
        self.mark = now;
    }

    /// When the rest has moved at `rate`; `None` if it never does.
    #[inline]
    pub(super) fn end_at(&self, rate: u64) -> Option<Time> {
        let picos = match self.remaining.checked_mul(1_000_000) {
            Some(_) if rate == 0 => return None,
            Some(product) => product.div_ceil(rate),
            None => {
                let product = u128::from(self.remaining) * 1_000_000;
                u64::try_from(product.checked_div(u128::from(rate))?).ok()? + 1
            }
        };
        Some(self.mark.saturating_add(Time::from_picos(picos)))
    }
}
