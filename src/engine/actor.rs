//! The state of one worker or proxy.

use super::outcome::Bins;
use super::probe::Cause;
use super::resources::PathId;
use crate::collective::Peers;
use crate::units::Time;

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

/// One worker, or one proxy. Hot state first.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) phase: Phase,
    /// Events of older generations are stale.
    pub(super) generation: u32,
    /// Over which resources the current chunk moves.
    pub(super) path: PathId,
    /// Its own fastest rate for the current chunk.
    pub(super) cap: u64,
    /// Bytes of the current slice, and of the chunk after it.
    pub(super) slice: u64,
    pub(super) left: u64,
    pub(super) slice_len: u64,
    /// Millionths of bytes still to move, as of `mark`.
    pub(super) remaining: u64,
    pub(super) mark: Time,
    /// Up to when streaming is in the bins.
    pub(super) booked: Time,
    /// Free for the next slice since (or from) then.
    pub(super) free: Time,
    /// Begin of the current slice.
    pub(super) start: Time,
    /// Queues (as connection ids) of the current chunk.
    pub(super) recv: Peers,
    pub(super) send: Peers,
    pub(super) next_step: u64,
    pub(super) steps: u64,
    /// What one slice costs after it has moved; for proxies, before.
    pub(super) overhead: Time,
    /// Proxies: when the last message was handed to the interface.
    pub(super) handed: Time,
    pub(super) cause: Cause,
    pub(super) posted: Time,
    pub(super) name: &'static str,
    pub(super) bins: Bins,
}

impl Actor {
    pub(super) fn new(overhead: Time) -> Self {
        Actor {
            phase: Phase::Waits,
            generation: 0,
            path: 0,
            cap: 0,
            slice: 0,
            left: 0,
            slice_len: 0,
            remaining: 0,
            mark: Time::ZERO,
            booked: Time::ZERO,
            free: Time::ZERO,
            start: Time::ZERO,
            recv: Peers::NONE,
            send: Peers::NONE,
            next_step: 0,
            steps: 0,
            overhead,
            handed: Time::ZERO,
            cause: Cause::Own,
            posted: Time::ZERO,
            name: "",
            bins: Bins::default(),
        }
    }

    /// Millionths of bytes that move at `rate` bytes per second until `now`.
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
    pub(super) fn end_at(&self, rate: u64) -> Option<Time> {
        let picos = match self.remaining.checked_mul(1_000_000) {
            Some(product) => {
                if rate == 0 {
                    return None;
                }
                product.div_ceil(rate)
            }
            None => {
                let product = u128::from(self.remaining) * 1_000_000;
                u64::try_from(product.checked_div(u128::from(rate))?).ok()? + 1
            }
        };
        Some(self.mark.saturating_add(Time::from_picos(picos)))
    }
}
