//! Regions: parts of the machine that go on one after the other, each for a while.
//!
//! What a region does reaches another one only through queues, and not before their latency is
//! over. So a region may go on alone until that much later than the next event of each region next
//! to it, but no longer than what those farther away, or it itself, do could take by way of these:
//! two latencies after the earliest event of all. All that it needs then stays in the cache, where
//! going through the whole machine instant by instant fetches everything anew each time.
//!
//! Results are the same, for nothing of what a worker or proxy does depends on what the clock
//! shows elsewhere: when a slice begins follows from times that its queues hold, even if they lie
//! in the future, and who shares a resource with others is of their region.

use super::Run;
use super::ends::GROUP;
use super::upset::CHANGE;
use crate::machinery::Machinery;
use crate::probe::{ActorId, Probe};
use crate::queue::EventQueue;
use fabricsim_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// So many actors may become one region, if nothing forces them to be one: their state fits the
/// second-level cache. The engine's own tests are small, and to have regions all the same.
pub(super) const MOST_ACTORS: u32 = if cfg!(test) { 4 } else { 512 };

/// Regions grow until so many latencies have been tried.
const MOST_LATENCIES: usize = 16;

/// After so many turns it is looked at whether they are worth it …
const TURNS: u64 = 1 << 12;

/// … which they are with so many events a turn.
const EVENTS_A_TURN: u64 = 4;

/// With an event for so many actors a turn, fetching the state of all of them at once is worth it.
const ACTORS_AN_EVENT: u64 = 4;

/// The machine's regions, and who is next.
pub(super) struct Regions {
    /// The region of each actor.
    pub(super) of: Vec<u32>,
    pub(super) all: Vec<Region>,
    /// Whatever a region does reaches others so much later, or later still.
    pub(super) lookahead: Time,
    /// Whose turn it is.
    current: u32,
    /// Regions by when they are due; those whose `due` is another one are stale.
    agenda: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A region whose turn it is not.
#[derive(Default)]
pub(super) struct Region {
    pub(super) queue: Box<EventQueue<(ActorId, u32)>>,
    /// Actors that others woke since its last turn.
    pub(super) woken: Vec<ActorId>,
    /// Nothing happens in it before that.
    pub(super) due: u64,
    /// Its actors, as ranges of their numbers.
    actors: Vec<Range<ActorId>>,
    /// The regions that it has queues with, but for those that others simulate.
    near: Vec<u32>,
    /// Others simulate one that it has queues with.
    far: bool,
    size: u64,
    /// In its last turn many of them had something to do.
    busy: bool,
}

impl Regions {
    /// The regions of a machine, of up to `most` actors, if there are several; `ranks` are the workers of each rank.
    pub(super) fn new<'a>(
        machinery: &Machinery,
        (actors, most): (usize, u32),
        workers: u32,
        ranks: impl Iterator<Item = &'a [ActorId]>,
    ) -> Option<Self> {
        let mut sets = Sets::new(actors);
        for workers in ranks {
            workers.windows(2).for_each(|w| sets.unite(w[0], w[1]));
        }
        unite_sharers(&mut sets, machinery, workers);
        let mut between: Vec<(Time, ActorId, ActorId)> = machinery.fifos.latencies().collect();
        between.sort_unstable();
        let mut lookahead = Time::ZERO;
        for _ in 0..MOST_LATENCIES {
            between.retain(|&(_, from, to)| sets.find(from) != sets.find(to));
            lookahead = between.first()?.0;
            let mut larger = sets.clone();
            let nearest = between.iter().take_while(|b| b.0 == lookahead);
            nearest.for_each(|&(_, from, to)| larger.unite(from, to));
            if lookahead > Time::ZERO && larger.largest() > most {
                break;
            }
            sets = larger;
        }
        if lookahead == Time::ZERO {
            return None;
        }
        let mut numbers = vec![u32::MAX; actors];
        let mut count = 0;
        let of = (0..actors as ActorId).map(|actor| {
            let number = &mut numbers[sets.find(actor) as usize];
            if *number == u32::MAX {
                *number = count;
                count += 1;
            }
            *number
        });
        let of: Vec<u32> = of.collect();
        let mut all: Vec<Region> = (0..count).map(|_| Region::default()).collect();
        for (&region, actor) in of.iter().zip(0..) {
            let region = &mut all[region as usize];
            region.size += 1;
            match region.actors.last_mut() {
                Some(range) if range.end == actor => range.end += 1,
                _ => region.actors.push(actor..actor + 1),
            }
        }
        for (_, from, to) in between {
            let (from, to) = (of[from as usize], of[to as usize]);
            all[from as usize].near.push(to);
            all[to as usize].near.push(from);
        }
        for region in &mut all {
            region.near.sort_unstable();
            region.near.dedup();
        }
        Some(Regions {
            of,
            all,
            lookahead,
            current: u32::MAX,
            agenda: BinaryHeap::new(),
        })
    }

    /// Notes that somebody was woken by what was done at `at`; false if that is for the current
    /// region to see to.
    #[inline]
    pub(super) fn deliver(&mut self, id: ActorId, at: Time) -> bool {
        let region = self.of[id as usize];
        if region == self.current {
            return false;
        }
        self.all[region as usize].woken.push(id);
        self.expect(region, (at + self.lookahead).picos());
        true
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Somebody was woken by news of what will be at `at`.
    pub(super) fn tell(&mut self, id: ActorId, at: Time) {
        let region = self.of[id as usize];
        self.all[region as usize].woken.push(id);
        self.expect(region, at.picos());
    }

    /// Puts a region on the agenda.
    pub(super) fn expect(&mut self, region: u32, time: u64) {
        let due = &mut self.all[region as usize].due;
        if time < *due {
            *due = time;
            self.agenda.push(Reverse((time, region)));
        }
    }

    /// When something happens next.
    pub(super) fn due(&mut self) -> Option<u64> {
        while let Some(&Reverse((time, region))) = self.agenda.peek() {
            if self.all[region as usize].due == time {
                return Some(time);
            }
            self.agenda.pop();
        }
        None
    }

    /// Only regions whose actors are `own` are simulated here.
    pub(super) fn leave_others(&mut self, own: impl Fn(ActorId) -> bool) {
        let first = |region: &Region| region.actors.first().is_some_and(|range| own(range.start));
        let own: Vec<bool> = self.all.iter().map(first).collect();
        for region in &mut self.all {
            let before = region.near.len();
            region.near.retain(|&near| own[near as usize]);
            region.far = region.near.len() < before;
        }
    }

    /// How long a region can go on alone, if nothing happens anywhere before `first`.
    fn alone_until(&self, region: u32, first: u64) -> u64 {
        let region = &self.all[region as usize];
        let soon = first.saturating_add(self.lookahead.picos());
        if region.far {
            return soon;
        }
        let near = region.near.iter().map(|&near| self.all[near as usize].due);
        // What is next to it may do what those next to that make it do.
        let next = near.fold(soon, u64::min);
        next.saturating_add(self.lookahead.picos())
    }

    /// Whose turn is next, and from when on, if that is before `end`.
    fn next(&mut self, end: u64) -> Option<(u64, u32)> {
        self.due().filter(|&time| time < end)?;
        self.agenda.pop().map(|Reverse(next)| next)
    }
}

/// All who ever use a resource that can be full are of one region.
fn unite_sharers(sets: &mut Sets, machinery: &Machinery, workers: u32) {
    let mut user = vec![None; machinery.resources.all.len()];
    let mut uses = |actor: ActorId, path| {
        for u in machinery.resources.path(path) {
            if machinery.is_roomy(u.resource) {
                continue;
            }
            match user[u.resource as usize] {
                Some(other) => sets.unite(actor, other),
                None => user[u.resource as usize] = Some(actor),
            }
        }
    };
    let fifos = (0..).zip(machinery.store_path.iter().zip(&machinery.load_path));
    for (fifo, (store, load)) in fifos {
        let (from, to) = machinery.fifos.ends(fifo);
        store.iter().for_each(|&path| uses(from, path));
        load.iter().for_each(|&path| uses(to, path));
    }
    for (proxy, at) in machinery.proxies.iter().zip(workers..) {
        uses(at, proxy.path);
    }
}

/// Disjoint sets of actors.
#[derive(Clone)]
struct Sets {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl Sets {
    fn new(count: usize) -> Self {
        Sets {
            parent: (0..count as u32).collect(),
            size: vec![1; count],
        }
    }

    fn find(&mut self, mut of: u32) -> u32 {
        while self.parent[of as usize] != of {
            let above = self.parent[self.parent[of as usize] as usize];
            self.parent[of as usize] = above;
            of = above;
        }
        of
    }

    fn unite(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        let smaller = self.size[a as usize] < self.size[b as usize];
        let (a, b) = if smaller { (b, a) } else { (a, b) };
        self.parent[b as usize] = a;
        self.size[a as usize] += self.size[b as usize];
    }

    /// How many the largest set has.
    fn largest(&self) -> u32 {
        self.size.iter().copied().max().unwrap_or(0)
    }
}

impl<P: Probe> Run<'_, '_, P> {
    /// The machine's regions, if there are several: of so many actors, if nothing forces more to
    /// be one.
    pub(super) fn regions(&self, most: u32) -> Option<Box<Regions>> {
        let ranks = self.ranks.iter().map(|r| {
            let (first, last) = r.workers;
            &self.rank_workers[first as usize..last as usize]
        });
        let actors = (self.actors.len(), most);
        let regions = Regions::new(&self.machinery, actors, self.workers, ranks);
        regions.map(Box::new)
    }

    /// From now on regions take turns.
    pub(super) fn divide(&mut self, mut regions: Box<Regions>) {
        for (time, item) in self.queue.held() {
            // An event of a group whose members have all ended is stale.
            let actor = match item.0 {
                change if change >= CHANGE => self.user_of_change(change - CHANGE),
                group if group >= GROUP => self.sharing.members(group - GROUP).first().copied(),
                actor => Some(actor),
            };
            let Some(actor) = actor else { continue };
            let region = regions.of[actor as usize] as usize;
            regions.all[region].queue.push(time, item);
        }
        self.queue.become_new(0, std::iter::empty());
        for region in 0..regions.all.len() {
            let first = regions.all[region].queue.earliest();
            regions.all[region].due = u64::MAX;
            if let Some(time) = first {
                regions.expect(region as u32, time);
            }
        }
        self.regions = Some(regions);
    }

    /// The regions' turns, until nothing happens any more or turns are not worth it.
    pub(super) fn turns_until_quiet(&mut self) {
        let (mut turns, mut events) = (0, self.events);
        while let Some((time, region)) = self.next_turn(u64::MAX) {
            self.turn(region, self.alone_until(region, time));
            turns += 1;
            if turns % TURNS == 0 {
                if self.events - events < TURNS * EVENTS_A_TURN {
                    self.reunite();
                }
                events = self.events;
                self.tell_progress();
                if self.is_stopped() {
                    break;
                }
            }
        }
        self.end_turns();
    }

    /// The regions' turns that begin less than a lookahead after `first`, before which nothing
    /// happens anywhere.
    pub(super) fn turns_from(&mut self, first: u64) {
        let lookahead = self.regions.as_ref().map_or(Time::ZERO, |r| r.lookahead);
        let end = first.saturating_add(lookahead.picos());
        while let Some((_, region)) = self.next_turn(end) {
            self.turn(region, self.alone_until(region, first));
        }
    }

    pub(super) fn next_turn(&mut self, end: u64) -> Option<(u64, u32)> {
        self.regions.as_mut().and_then(|r| r.next(end))
    }

    /// How long a region can go on alone, if nothing happens anywhere before `first`.
    fn alone_until(&self, region: u32, first: u64) -> u64 {
        let regions = self.regions.as_ref();
        regions.map_or(first, |r| r.alone_until(region, first))
    }

    /// The clock shows what the last region's does.
    pub(super) fn end_turns(&mut self) {
        if let Some(regions) = &self.regions {
            let last = regions.all.iter().map(|r| r.queue.now()).max();
            self.now = Time::from_picos(last.unwrap_or(0));
        }
    }

    /// A region goes on alone until `until`.
    pub(super) fn turn(&mut self, region: u32, until: u64) {
        let Some(regions) = &mut self.regions else {
            return;
        };
        regions.current = region;
        let own = &mut regions.all[region as usize];
        own.due = u64::MAX;
        std::mem::swap(&mut self.queue, &mut own.queue);
        std::mem::swap(&mut self.woken, &mut own.woken);
        let (size, before) = (own.size, self.events);
        let actors = std::mem::take(&mut own.actors);
        let busy = own.busy;
        self.warm = busy;
        if busy {
            // In order, and all at once: the processor does not have to wait for each.
            self.touch(actors.iter().cloned().flatten());
        }
        if !self.woken.is_empty() {
            self.now = Time::from_picos(self.queue.now());
            self.quiet_instant();
        }
        let mut batch = std::mem::take(&mut self.batch);
        while let Some(time) = self.queue.pop_instant_before(until, &mut batch) {
            self.instant(time, &batch);
        }
        self.batch = batch;
        let next = self.queue.earliest();
        let Some(regions) = &mut self.regions else {
            return;
        };
        let own = &mut regions.all[region as usize];
        std::mem::swap(&mut self.queue, &mut own.queue);
        own.busy = (self.events - before) * ACTORS_AN_EVENT > size;
        own.actors = actors;
        self.warm = false;
        if let Some(time) = next {
            regions.expect(region, time);
        }
    }

    /// One region again.
    fn reunite(&mut self) {
        let Some(mut regions) = self.regions.take() else {
            return;
        };
        let first = regions.all.iter().map(|r| r.due).min().unwrap_or(0);
        self.now = Time::from_picos(first.saturating_sub(regions.lookahead.picos()));
        let held = regions.all.iter().flat_map(|r| r.queue.held());
        self.queue.become_new(self.now.picos(), held);
        for region in &mut regions.all {
            self.woken.append(&mut region.woken);
        }
        self.quiet_instant();
    }
}
