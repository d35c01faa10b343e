//! The state of one worker or proxy.
//!
//! A large simulation touches these in no order that a cache could guess, so what every
//! slice needs is packed into two cache lines ([`Actor`]); the rest is apart ([`Cold`]).

use super::fifo::FifoId;
use super::path::{Link, NOTHING};
use super::probe::{ActorId, Cause};
use super::resources::{PathId, ResourceId};
use fabricsim_collective::After;
use fabricsim_units::Time;
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

/// Most bytes of a slice: its millionths are counted.
pub(super) const MOST_SLICE: u64 = u64::MAX / 1_000_000 / 16 * 16;

/// No queue.
pub(super) const NO_FIFO: u32 = u32::MAX;

/// One worker, or one proxy: what every slice touches.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Actor {
    pub(super) phase: Phase,
    /// A step with several queues on one side, or that waits for another worker: see
    /// [`Cold`].
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
    /// Bytes of the current slice. While more of the chunk is left, it is a full one.
    pub(super) slice: u64,
    /// Its own fastest rate for the current chunk.
    pub(super) cap: u64,
    /// Millionths of bytes still to move, as of `mark`.
    pub(super) remaining: u64,
    pub(super) mark: Time,
    /// Free for the next slice since (or from) then; as soon as it is known when that begins,
    /// its begin.
    pub(super) free: Time,
    // The second line.
    /// Bytes of the chunk after the current slice.
    pub(super) left: u64,
    pub(super) next_step: u32,
    pub(super) steps: u32,
    // Where its time went.
    pub(super) sync: Time,
    pub(super) latency: Time,
    pub(super) wait_data: Time,
    pub(super) wait_credit: Time,
    pub(super) at_cap: Time,
    pub(super) limited: Time,
}

/// Steps that are as the one at hand, so that nobody has to be asked for them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Alike {
    /// Bytes of each one's chunk, and of its first slice.
    pub(super) len: u64,
    pub(super) slice: u64,
    /// Those before this one.
    pub(super) until: u32,
}

/// What only some steps, or only somebody who looks, need; but for the first cache line, which
/// rates that change often need too.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// Streaming limited by resources other than the last.
    pub(super) limited: SmallVec<[(ResourceId, Time); 2]>,
    /// The queues of the current chunk, if it is `many`.
    pub(super) recv: SmallVec<[FifoId; 4]>,
    pub(super) send: SmallVec<[FifoId; 4]>,
    /// Bytes of the queue that the last part of a dealt chunk goes through.
    pub(super) last_part: Option<u64>,
    /// What the current chunk may not begin before.
    pub(super) after: Option<After>,
    /// Streams of bytes in and out of the current chunk, if it is `many`.
    pub(super) streams: u32,
    /// How many steps were done before the last one, or the last few at once, and when that
    /// one was.
    pub(super) done_before: u32,
    pub(super) done_at: Time,
    /// Who waits for this worker to get on.
    pub(super) waiters: SmallVec<[ActorId; 2]>,
    /// Proxies: when the thread has time for the next message.
    pub(super) busy_until: Time,
    /// Waiting for other workers of the rank, between operations.
    pub(super) idle: Time,
    // For a probe.
    pub(super) free: Time,
    pub(super) posted: Time,
    pub(super) cause: Cause,
    pub(super) name: &'static str,
    // For a critical path.
    /// What the slice at hand began after.
    pub(super) link: Link,
    /// The actor's last slice, and the last one of its last step.
    pub(super) last: u32,
    pub(super) done_by: u32,
}

impl Default for Cold {
    fn default() -> Self {
        Cold {
            recv: SmallVec::new(),
            send: SmallVec::new(),
            last_part: None,
            after: None,
            streams: 0,
            done_before: 0,
            done_at: Time::ZERO,
            waiters: SmallVec::new(),
            busy_until: Time::ZERO,
            limited: SmallVec::new(),
            idle: Time::ZERO,
            free: Time::ZERO,
            posted: Time::ZERO,
            cause: Cause::Own,
            name: "",
            link: Link::default(),
            last: NOTHING,
            done_by: NOTHING,
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
            cap: 0,
            remaining: 0,
            mark: Time::ZERO,
            free: Time::ZERO,
            left: 0,
            next_step: 0,
            steps,
            sync: Time::ZERO,
            latency: Time::ZERO,
            wait_data: Time::ZERO,
            wait_credit: Time::ZERO,
            at_cap: Time::ZERO,
            limited: Time::ZERO,
        }
    }

    /// The queues of the current chunk: taken from, put into.
    #[inline]
    pub(super) fn queues<'a>(&'a self, cold: &'a Cold) -> (&'a [FifoId], &'a [FifoId]) {
        if self.many {
            return (&cold.recv, &cold.send);
        }
        (one(&self.recv), one(&self.send))
    }

    /// How many of its steps a worker has done.
    pub(super) fn steps_done(&self) -> u32 {
        match self.phase {
            Phase::Done => self.steps,
            // The step at hand is not done.
            _ => self.next_step.saturating_sub(1),
        }
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

    /// Whether all has moved by `now`, at `rate`: the end is not after it.
    #[inline]
    pub(super) fn is_over(&self, rate: u64, now: Time) -> bool {
        let picos = now.saturating_sub(self.mark).picos();
        match (
            self.remaining.checked_mul(1_000_000),
            rate.checked_mul(picos),
        ) {
            (Some(left), Some(moved)) => left <= moved,
            _ => self.end_at(rate).is_some_and(|end| end <= now),
        }
    }

    /// When the rest has moved at `rate`; `None` if it never does, [`Time::MAX`] if that is later
    /// than the clock goes.
    #[inline]
    pub(super) fn end_at(&self, rate: u64) -> Option<Time> {
        let picos = match self.remaining.checked_mul(1_000_000) {
            Some(_) if rate == 0 => return None,
            Some(product) => product.div_ceil(rate),
            None => {
                let product = u128::from(self.remaining) * 1_000_000;
                let whole = product.checked_div(u128::from(rate))?;
                u64::try_from(whole).map_or(u64::MAX, |whole| whole.saturating_add(1))
            }
        };
        Some(self.mark + Time::from_picos(picos))
    }
}

fn one(fifo: &FifoId) -> &[FifoId] {
    if *fifo == NO_FIFO {
        &[]
    } else {
        std::slice::from_ref(fifo)
    }
}
