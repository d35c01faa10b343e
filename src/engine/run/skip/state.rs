//! What is remembered of an instant, and whether another one is like it.

use crate::actor::{Actor, Cold, Phase};
use crate::fifo::Fifos;
use crate::probe::{ActorId, Probe};
use crate::run::{RankState, Run};
use fabricsim_units::Time;

/// What is known of an instant.
pub(super) struct State {
    /// In the order of their being remembered; given by who remembers.
    pub(super) number: u32,
    /// The actor that last told it from another state: the next is likely told by it, too.
    pub(super) telling: usize,
    pub(super) now: Time,
    pub(super) actors: Vec<Actor>,
    pub(super) cold: Vec<Cold>,
    pub(super) fifos: Fifos,
    pub(super) ranks: Vec<RankThen>,
    /// What is due, and when.
    pub(super) queue: Vec<(u64, (ActorId, u32))>,
    /// Simulated and skipped.
    pub(super) events: u64,
    pub(super) transfers: u64,
    pub(super) steps_begun: u64,
    /// [`Probe::epoch`].
    pub(super) epoch: u32,
}

/// How far a rank was.
#[derive(Clone, Copy)]
pub(super) struct RankThen {
    pub(super) running: u32,
    pub(super) operation: u32,
    pub(super) latest: Time,
    pub(super) latest_by: u32,
}

/// A time, as far as it matters to what happens next: the past is all one, but for what somebody
/// still prepares ([`Fifos::preparing`]).
fn ahead(time: Time, now: Time) -> u64 {
    (time.picos() + 1).saturating_sub(now.picos())
}

impl<P: Probe> Run<'_, '_, P> {
    /// What is to be remembered of this instant, at which so many events have been skipped.
    pub(super) fn state(&self, skipped: u64) -> State {
        let ranks = self.ranks.iter().map(|r| RankThen {
            running: r.running,
            operation: r.operation,
            latest: r.latest,
            latest_by: r.latest_by,
        });
        let live = |&(_, (actor, generation)): &(u64, (ActorId, u32))| {
            self.actors[actor as usize].generation == generation
        };
        State {
            number: 0,
            telling: 0,
            now: self.now,
            actors: self.actors.clone(),
            cold: self.cold.clone(),
            fifos: self.machinery.fifos.clone(),
            ranks: ranks.collect(),
            queue: self.queue.held().filter(live).collect(),
            events: self.events + skipped,
            transfers: self.transfers,
            steps_begun: self.steps_begun,
            epoch: self.probe.epoch(),
        }
    }

    /// So many operations later than then it is; of different ranks it is the same number.
    pub(super) fn operations_since(&self, then: &State) -> Option<u32> {
        let mut ranks = self.ranks.iter().zip(&then.ranks);
        let later = ranks.next().map_or(Some(0), |(now, then)| {
            now.operation.checked_sub(then.operation)
        })?;
        ranks
            .all(|(now, then)| now.operation == then.operation + later)
            .then_some(later)
    }

    /// An actor that is not as it was; `None` if all is, queues included.
    pub(super) fn tells_apart(&self, then: &State, first: usize) -> Option<usize> {
        if !self.is_as_then(then, first) {
            return Some(first);
        }
        let actors = 0..self.actors.len();
        if let Some(other) = actors.into_iter().find(|&id| !self.is_as_then(then, id)) {
            return Some(other);
        }
        let same = |(r, t): (&RankState, &RankThen)| {
            let latest = ahead(r.latest, self.now) == ahead(t.latest, then.now);
            r.running == t.running && latest
        };
        let same = self.operations_since(then).is_some()
            && self.ranks.iter().zip(&then.ranks).all(same)
            && self.machinery.fifos.same(&then.fifos, |fifos, time| {
                ahead(time, if fifos { self.now } else { then.now })
            });
        (!same).then_some(first)
    }

    /// Whether of two states of an actor, or of two that are of a kind and in one phase, the slices
    /// at hand are the same and go on at the same times: `exactly` or `roughly`, where the past
    /// is all one.
    pub(in crate::run) fn moves_as(
        &self,
        id: ActorId,
        ((a, c), (b, d)): ((&Actor, &Cold), (&Actor, &Cold)),
        (exactly, roughly): (impl Fn(Time, Time) -> bool, impl Fn(Time, Time) -> bool),
    ) -> bool {
        // How long a worker waits is told; of a proxy nobody asks. When a slice began matters where
        // it is passed on while it moves.
        let passes = self.classes[usize::from(a.class)].needs_start();
        let free = match a.phase {
            Phase::Waits if id >= self.workers => roughly(a.free, b.free),
            Phase::Streams if !passes => true,
            _ => exactly(a.free, b.free),
        };
        let still = self.machinery.fifos.preparing(id);
        let busy = roughly(c.busy_until + still, d.busy_until + still);
        let streams = a.phase == Phase::Streams;
        free && busy
            && (a.slice, a.left, a.cap) == (b.slice, b.left, b.cap)
            && (!streams || a.remaining == b.remaining && exactly(a.mark, b.mark))
    }

    /// Whether an actor does what it did then.
    fn is_as_then(&self, then: &State, id: usize) -> bool {
        let (a, b) = (&self.actors[id], &then.actors[id]);
        if a.phase != b.phase {
            return false;
        }
        let since = |time: Time, now: Time| time.picos().wrapping_sub(now.picos());
        let exactly = |x: Time, y: Time| since(x, self.now) == since(y, then.now);
        let roughly = |x: Time, y: Time| ahead(x, self.now) == ahead(y, then.now);
        if a.phase == Phase::Done {
            // Within an operation its last time is a point in time, and stays.
            return a.free == b.free || exactly(a.free, b.free);
        }
        let (c, d) = (&self.cold[id], &then.cold[id]);
        if !self.moves_as(id as ActorId, ((a, c), (b, d)), (exactly, roughly))
            || (a.path, a.recv, a.send, a.many) != (b.path, b.recv, b.send, b.many)
        {
            return false;
        }
        (!a.many || (&c.recv, &c.send, c.last_part) == (&d.recv, &d.send, d.last_part))
            && c.after.is_none() == d.after.is_none()
    }
}
