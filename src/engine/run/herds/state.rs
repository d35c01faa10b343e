//! Regions of one kind: whether they do the same, and one that takes over what another one does.

use super::layout::Layout;
use crate::actor::{Alike, NO_FIFO, Phase, add_limited};
use crate::fifo::FifoId;
use crate::probe::{ActorId, Probe};
use crate::run::Run;
use crate::run::ends::GROUP;
use crate::run::herds::Herds;
use fabricsim_units::Time;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// What a region's parts have counted so far, by their places.
#[derive(Clone, Default)]
pub(super) struct Counts {
    /// Picoseconds of actors: synchronisation, latency, waiting for data and for credit,
    /// streaming at their own rates, idle.
    times: Vec<[i64; 6]>,
    /// Picoseconds of actors limited by resources.
    limited: Vec<(u32, u32, i64)>,
    /// Payload of queues.
    bytes: Vec<i64>,
}

impl Counts {
    /// These, and so many times those.
    pub(super) fn plus(mut self, other: &Self, sign: i64) -> Self {
        let most = (
            self.times.len().max(other.times.len()),
            self.bytes.len().max(other.bytes.len()),
        );
        self.times.resize(most.0, [0; 6]);
        self.bytes.resize(most.1, 0);
        for (own, other) in self.times.iter_mut().zip(&other.times) {
            own.iter_mut().zip(other).for_each(|(a, b)| *a += sign * b);
        }
        for (own, other) in self.bytes.iter_mut().zip(&other.bytes) {
            *own += sign * other;
        }
        let others = other.limited.iter().map(|&(a, r, t)| (a, r, sign * t));
        self.limited.extend(others);
        self.limited.sort_unstable();
        self.limited.dedup_by(|later, first| {
            let same = (later.0, later.1) == (first.0, first.1);
            first.2 += if same { later.2 } else { 0 };
            same
        });
        self.limited.retain(|&(.., time)| time != 0);
        self
    }

    /// Nothing was counted.
    pub(super) fn is_nothing(&self) -> bool {
        self.limited.is_empty()
            && self.times.iter().all(|times| *times == [0; 6])
            && self.bytes.iter().all(|&bytes| bytes == 0)
    }
}

fn picos(time: Time) -> i64 {
    time.picos() as i64
}

fn time(picos: i64) -> Time {
    Time::from_picos(u64::try_from(picos).unwrap_or(0))
}

impl<P: Probe> Run<'_, '_, P> {
    /// What a region's parts have counted.
    pub(super) fn counts(&self, herds: &Herds, region: u32) -> Counts {
        let layout = herds.layout(region);
        let mut counts = Counts::default();
        for (at, &id) in (0..).zip(&layout.actors) {
            let (a, cold) = (&self.actors[id as usize], &self.cold[id as usize]);
            let times = [
                a.sync,
                a.latency,
                a.wait_data,
                a.wait_credit,
                a.at_cap,
                cold.idle,
            ];
            counts.times.push(times.map(picos));
            let last = Some((a.limited_by, a.limited)).filter(|l| l.1 > Time::ZERO);
            for (resource, time) in cold.limited.iter().copied().chain(last) {
                let place = herds.resource_at(region, resource);
                counts.limited.push((at, place, picos(time)));
            }
        }
        let bytes = |&fifo: &FifoId| self.machinery.fifos.bytes(fifo) as i64;
        counts.bytes.extend(layout.fifos.iter().map(bytes));
        // Those of one resource may be in two parts.
        counts.plus(&Counts::default(), 1)
    }

    /// Lets a region's parts have counted this.
    pub(super) fn set_counts(&mut self, layout: &Layout, counts: &Counts) {
        for (&id, times) in layout.actors.iter().zip(&counts.times) {
            let (a, cold) = (&mut self.actors[id as usize], &mut self.cold[id as usize]);
            let times = times.map(time);
            [a.sync, a.latency, a.wait_data, a.wait_credit] =
                [times[0], times[1], times[2], times[3]];
            (a.at_cap, cold.idle) = (times[4], times[5]);
            a.limited = Time::ZERO;
            cold.limited.clear();
        }
        for &(at, resource, limited) in &counts.limited {
            let id = layout.actors[at as usize];
            let resource = layout.resources[resource as usize];
            add_limited(&mut self.cold[id as usize].limited, resource, time(limited));
        }
        for (&fifo, &bytes) in layout.fifos.iter().zip(&counts.bytes) {
            self.machinery.fifos.set_bytes(fifo, bytes as u64);
        }
    }

    /// Whether what two regions of one kind do from `now` on is the same, as long as they have the
    /// same to move and hear the same.
    pub(super) fn do_the_same(&self, herds: &Herds, (one, other): (u32, u32), now: Time) -> bool {
        let (a, b) = (herds.layout(one), herds.layout(other));
        let actors = || a.actors.iter().zip(&b.actors);
        actors().all(|(&a, &b)| self.are_alike(herds, (a, b), now))
            && (a.ranks.iter().zip(&b.ranks)).all(|(&a, &b)| {
                let of = |rank: u32| &self.ranks[rank as usize];
                let state = |rank: u32| (of(rank).running, of(rank).operation, of(rank).latest);
                state(a) == state(b)
            })
            && (a.fifos.iter().zip(&b.fifos))
                .all(|(&a, &b)| self.machinery.fifos.are_alike(a, b, now))
            && self.woken_at(herds, one) == self.woken_at(herds, other)
    }

    /// Whether two actors do the same.
    fn are_alike(&self, herds: &Herds, (one, other): (ActorId, ActorId), now: Time) -> bool {
        let (a, b) = (&self.actors[one as usize], &self.actors[other as usize]);
        let fifo = |fifo: FifoId| herds.place_of(fifo);
        if (a.phase, a.next_step) != (b.phase, b.next_step)
            || (fifo(a.recv), fifo(a.send)) != (fifo(b.recv), fifo(b.send))
            || a.many
            || b.many
        {
            return false;
        }
        let (c, d) = (&self.cold[one as usize], &self.cold[other as usize]);
        let roughly = |x: Time, y: Time| x.max(now) == y.max(now);
        self.moves_as(one, ((a, c), (b, d)), (|x, y| x == y, roughly))
    }

    /// The places of those who were woken in a region and have not been looked at.
    fn woken_at(&self, herds: &Herds, region: u32) -> Vec<u32> {
        let woken = self
            .regions
            .iter()
            .flat_map(|r| &r.all[region as usize].woken);
        let mut places: Vec<u32> = woken.map(|&actor| herds.actor_at(actor)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// A few numbers that are the same for regions that do the same.
    pub(super) fn glance(&self, layout: &Layout) -> u64 {
        let every = layout.actors.len() / 8 + 1;
        let mut hasher = FxHasher::default();
        for &id in layout.actors.iter().step_by(every) {
            let a = &self.actors[id as usize];
            hasher.write_u64(u64::from(a.next_step) << 8 | a.phase as u64);
            hasher.write_u64(a.left);
            if a.phase == Phase::Streams {
                hasher.write_u64(a.remaining);
                hasher.write_u64(a.mark.picos());
            }
        }
        hasher.finish()
    }

    /// A region does from now on what another one of its kind does.
    pub(super) fn take_over(&mut self, herds: &Herds, from: u32, to: u32) {
        let (old, new) = (herds.layout(from), herds.layout(to));
        for (&then, &own) in old.fifos.iter().zip(&new.fifos) {
            self.machinery.fifos.become_as(own, then);
        }
        let fifo = |fifo: FifoId| match fifo {
            NO_FIFO => NO_FIFO,
            known => new.fifos[herds.place_of(known) as usize],
        };
        for (&then, &own) in old.actors.iter().zip(&new.actors) {
            let mut actor = self.actors[then as usize].clone();
            debug_assert!(!actor.many, "one queue on each side");
            let before = &self.actors[own as usize];
            actor.generation = before.generation + 1;
            (actor.recv, actor.send) = (fifo(actor.recv), fifo(actor.send));
            actor.path = if own < self.workers {
                self.path_between((actor.recv, actor.send))
            } else {
                before.path
            };
            actor.limited = Time::ZERO;
            if own < self.workers {
                // What comes after the step at hand is of its own.
                self.alike[own as usize] = Alike::default();
            }
            self.actors[own as usize] = actor;
            self.cold[own as usize] = self.cold[then as usize].clone();
            self.cold[own as usize].limited.clear();
        }
        for (&then, &own) in old.ranks.iter().zip(&new.ranks) {
            let state = &self.ranks[then as usize];
            let (running, operation) = (state.running, state.operation);
            let latest = (state.latest, state.latest_by);
            let own = &mut self.ranks[own as usize];
            (own.running, own.operation) = (running, operation);
            (own.latest, own.latest_by) = latest;
        }
        self.take_over_events(herds, from, to);
    }

    /// What is to come in a region is what is to come in another one.
    fn take_over_events(&mut self, herds: &Herds, from: u32, to: u32) {
        let (old, new) = (herds.layout(from), herds.layout(to));
        let Some(regions) = &mut self.regions else {
            return;
        };
        let of = |actor: ActorId| new.actors[herds.actor_at(actor) as usize];
        let other = &regions.all[from as usize];
        let (now, due) = (other.queue.now(), other.due);
        let live = other.queue.held().filter(|&(_, (actor, generation))| {
            actor < GROUP && self.actors[actor as usize].generation == generation
        });
        let events = live.map(|(time, (actor, _))| {
            let own = of(actor);
            (time, (own, self.actors[own as usize].generation))
        });
        let events: Vec<_> = events.collect();
        let woken = other.woken.iter().map(|&actor| of(actor)).collect();
        let own = &mut regions.all[to as usize];
        own.woken = woken;
        own.queue.become_new(now, events.into_iter());
        own.due = u64::MAX;
        if due < u64::MAX {
            regions.expect(to, due);
        }
        // Rates are what they are there, for fair ones are unique.
        std::mem::swap(&mut self.queue, &mut regions.all[to as usize].queue);
        let streaming = new.actors.iter().copied().filter(|&id| self.shares(id));
        let streaming: Vec<ActorId> = streaming.collect();
        for &id in &streaming {
            let a = &self.actors[id as usize];
            self.sharing
                .start(&self.machinery.resources, id, a.path, a.cap);
        }
        self.share_unseen();
        let mut groups: Vec<u32> = streaming
            .iter()
            .map(|&id| self.sharing.group_of(id))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            // What events it had were in the queue that is no more.
            self.forget(group);
            self.expect_first(group);
        }
        if let Some(regions) = &mut self.regions {
            std::mem::swap(&mut self.queue, &mut regions.all[to as usize].queue);
        }
        debug_assert!(
            streaming
                .iter()
                .zip(old.actors.iter().filter(|&&id| self.shares(id)))
                .all(|(&own, &then)| self.sharing.rate(own).0 == self.sharing.rate(then).0)
        );
    }

    /// An actor moves bytes over links that others may use.
    fn shares(&self, id: ActorId) -> bool {
        let a = &self.actors[id as usize];
        a.phase == Phase::Streams && !self.machinery.is_free(a.path)
    }

    /// Shares links anew, where no actor has to be told: it knows already, or has nothing to move.
    fn share_unseen(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        self.sharing.solve(&mut changes);
        self.changes = changes;
    }

    /// Nothing of a region goes on by itself any more.
    pub(super) fn stand_still(&mut self, layout: &Layout, region: u32) {
        for &id in &layout.actors {
            if self.shares(id) {
                let group = self.sharing.group_of(id);
                self.forget(group);
                self.sharing.stop(id);
            }
        }
        self.share_unseen();
        if let Some(regions) = &mut self.regions {
            let own = &mut regions.all[region as usize];
            own.queue.become_new(own.queue.now(), std::iter::empty());
            own.woken.clear();
            own.due = u64::MAX;
        }
    }
}
