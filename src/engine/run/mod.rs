//! The event loop: workers take their steps in order, slice by slice.
//!
//! A slice begins when its worker is free, its data is visible in every incoming queue
//! and a slot is free in every outgoing one; it then streams at a rate given by sharing;
//! then it is posted to the receiver and its slot goes back to the sender. All of these
//! are times known as soon as the other side has acted, so a slice costs two events:
//! its begin and its end; and over links that nothing can ever fill, its end alone. Where
//! nobody looks or compares states, that needs no event either: it is done at once, ahead of
//! the clock.

mod cast;
mod check;
mod class;
mod ending;
mod ends;
mod herds;
mod regions;
mod shards;
mod skip;
mod slices;
mod start;
mod steps;
mod upset;
mod watch;

use super::actor::{Actor, Alike, Cold, Phase};
use super::machinery::Machinery;
use super::path::NOTHING;
use super::probe::{ActorId, Probe};
use super::queue::EventQueue;
use super::resources::PathId;
use super::sharing::{Change, Sharing};
use cast::Cast;
use class::Class;
use ends::{Due, GROUP};
use fabricsim_budget::Stop;
use fabricsim_plan::{Later, MessageCost, Plan, Protocol, RoleCosts, SliceCost, Stretch};
use fabricsim_units::Time;
use regions::Regions;
use rustc_hash::FxHashMap;
pub(super) use shards::FEWEST_ACTORS;
use skip::Skipper;
use smallvec::SmallVec;
pub use start::{Options, simulate, simulate_folded, simulate_folded_with, simulate_with};
use upset::{CHANGE, Upset};
pub use watch::{Watched, watch};

/// How often progress is told: every so many instants.
const PROGRESS_EVERY: u64 = 1 << 14;

/// So many actors' state is fetched at once: few enough to stay in the first-level cache.
const BLOCK: usize = 32;

/// So many events are brought to an end together: as many as fit the second-level cache.
const PART: usize = 256;

struct Run<'r, 'o, P: Probe> {
    plan: &'r Plan,
    protocol: Protocol,
    options: Options<'o>,
    probe: &'r mut P,
    machinery: Machinery,
    cast: Cast,
    sharing: Sharing,
    changes: Vec<Change>,
    classes: Vec<Class>,
    /// Workers, then proxies.
    actors: Vec<Actor>,
    cold: Vec<Cold>,
    /// Of workers.
    alike: Vec<Alike>,
    workers: u32,
    queue: Box<EventQueue<(ActorId, u32)>>,
    /// Events of one instant, while they are handled.
    batch: Vec<(ActorId, u32)>,
    /// If parts of the machine take turns.
    regions: Option<Box<Regions>>,
    /// All that the events of this turn need is in the cache.
    warm: bool,
    /// Slices that nothing can hold up are done as soon as it is known when they will be.
    runs_ahead: bool,
    /// Transfers that share end by groups: when the first of each does.
    by_group: bool,
    due: Vec<Due>,
    /// Those that end in this instant.
    over: Vec<ActorId>,
    /// Actors that finished a slice in this instant and go on to the next.
    ended: Vec<ActorId>,
    /// Actors that somebody woke in this instant.
    woken: Vec<ActorId>,
    /// Sums of paths, made when first needed.
    sums: FxHashMap<SmallVec<[PathId; 4]>, PathId>,
    ranks: Vec<RankState>,
    /// Workers of each rank, one after the other; bounds in `RankState`.
    rank_workers: Vec<ActorId>,
    finish: Vec<Vec<Time>>,
    now: Time,
    events: u64,
    transfers: u64,
    steps_begun: u64,
    steps_total: u64,
    /// The program tells which steps are alike.
    repeats: bool,
    /// The program has steps that wait for other workers of their ranks.
    waits_inside: bool,
    /// How many wait for other workers of their ranks.
    waiters: u64,
    /// Events of regions that others stood for.
    herded: u64,
    /// Another shard would go on, but later than the clock goes.
    past_the_clock: bool,
    /// What goes wrong, unless nothing does.
    upset: Option<Box<Upset<'o>>>,
    /// Jumps over what repeats itself, if that is wanted.
    skipper: Option<Box<Skipper>>,
}

struct RankState {
    workers: (u32, u32),
    running: u32,
    operation: u32,
    latest: Time,
    /// The slice that ended then.
    latest_by: u32,
}

impl<'r, 'o, P: Probe> Run<'r, 'o, P> {
    fn new(
        plan: &'r Plan,
        mut machinery: Machinery,
        cast: Cast,
        options: Options<'o>,
        probe: &'r mut P,
    ) -> Self {
        if P::TRACKS {
            probe.begin(cast.workers(plan.program.as_ref()) as usize + machinery.proxies.len());
            machinery.fifos.track();
        }
        let program = plan.program.as_ref();
        let workers = cast.workers(program);
        // Kinds of GPU by parts of thread blocks; then kinds of proxies.
        let mut classes: Vec<Class> = plan
            .costs
            .iter()
            .flat_map(|costs| costs.iter().map(|c| (costs.stretch, c)))
            .map(|(stretch, c)| Class {
                slice: c.slice,
                stretch,
                message: MessageCost::flat(Time::ZERO),
                later: Later::NEVER,
                pass_rate: c.slice.pass_rate().map(|r| stretch.rate(r.bytes_per_sec())),
                send_rate: stretch.rate(c.send_rate.bytes_per_sec()),
                local_rate: stretch.rate(c.local_rate.bytes_per_sec()),
                streams: c.streams,
                last: (0, stretch.time(c.slice.of(0))),
            })
            .collect();
        let mut by_rank: Vec<(u32, ActorId)> = Vec::with_capacity(workers as usize);
        let mut actors = Vec::with_capacity(workers as usize + machinery.proxies.len());
        let mut steps_total = 0;
        for actor in 0..workers {
            let worker = cast.worker(actor);
            let place = program.worker(worker);
            let rank = place.rank;
            let kind = usize::from(plan.rank_costs[rank.index()]);
            let class = kind * RoleCosts::PARTS + plan.costs[kind].part_of(place);
            let steps = program.steps(worker);
            steps_total += steps;
            actors.push(Actor::new(class as u16, steps as u32));
            by_rank.push((cast.part_of(rank), actor));
        }
        for proxy in &machinery.proxies {
            let rate = proxy.rate.bytes_per_sec().max(1);
            let class = Class {
                slice: SliceCost::default(),
                stretch: Stretch::NONE,
                message: proxy.message,
                later: proxy.later,
                pass_rate: None,
                send_rate: rate,
                local_rate: rate,
                streams: 0,
                last: (0, Time::ZERO),
            };
            let known = classes.iter().position(|c| *c == class).unwrap_or_else(|| {
                classes.push(class);
                classes.len() - 1
            });
            let mut actor = Actor::new(known as u16, 0);
            (actor.recv, actor.send) = (proxy.takes, proxy.puts);
            (actor.path, actor.cap) = (proxy.path, rate);
            actors.push(actor);
        }
        let mut cold = vec![Cold::default(); actors.len()];
        cold[workers as usize..]
            .iter_mut()
            .for_each(|c| c.name = "network");
        by_rank.sort_unstable();
        let parts = cast.ranks(program);
        let mut ranks = Vec::with_capacity(parts as usize);
        let mut start = 0;
        for rank in 0..parts {
            let own = by_rank[start..].partition_point(|(r, _)| *r == rank);
            let workers = (start as u32, (start + own) as u32);
            ranks.push(RankState {
                workers,
                running: 0,
                operation: 0,
                latest: Time::ZERO,
                latest_by: NOTHING,
            });
            start += own;
        }
        let operations = options.operations.max(1);
        let upset = options
            .disturbances
            .map(|by| Box::new(Upset::new(by, &machinery.resources, workers)));
        Run {
            protocol: plan.protocol,
            sharing: Sharing::with_room(&machinery.resources, actors.len(), |r| {
                machinery.is_roomy(r)
            }),
            changes: Vec::new(),
            plan,
            options,
            probe,
            machinery,
            cast,
            classes,
            actors,
            cold,
            alike: vec![Alike::default(); workers as usize],
            workers,
            queue: Box::default(),
            batch: Vec::new(),
            regions: None,
            warm: false,
            runs_ahead: false,
            by_group: false,
            due: Vec::new(),
            over: Vec::new(),
            ended: Vec::new(),
            woken: Vec::new(),
            sums: FxHashMap::default(),
            finish: vec![vec![Time::ZERO; ranks.len()]; operations as usize],
            rank_workers: by_rank.into_iter().map(|(_, w)| w).collect(),
            ranks,
            now: Time::ZERO,
            events: 0,
            transfers: 0,
            steps_begun: 0,
            waits_inside: program.waits_inside(),
            repeats: program.repeats() && !program.waits_inside() && !P::ACTIVE,
            waiters: 0,
            herded: 0,
            past_the_clock: false,
            upset,
            skipper: None,
            steps_total: steps_total * u64::from(operations),
        }
    }

    fn events_until_quiet(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let mut instants = 0u64;
        while let Some(time) = self.queue.pop_instant(&mut batch) {
            self.instant(time, &batch);
            self.skip();
            if self.compares_in_vain() || P::ACTIVE && self.probe.enough() {
                break;
            }
            instants += 1;
            if instants.is_multiple_of(PROGRESS_EVERY) {
                self.tell_progress();
                if self.is_stopped() {
                    break;
                }
            }
        }
    }

    /// All events of one instant.
    fn instant(&mut self, time: u64, batch: &[(ActorId, u32)]) {
        self.now = Time::from_picos(time);
        // Events of one part of the machine mostly come together. Finishing them, waking
        // and sharing included, before the next ones are looked at keeps their state in
        // the cache. Sharing twice in one instant changes nothing: no time passes between.
        for part in batch.chunks(PART) {
            for block in part.chunks(BLOCK) {
                if !self.warm {
                    self.touch(block.iter().map(|&(actor, _)| actor));
                }
                for &(actor, generation) in block {
                    self.handle(actor, generation);
                }
            }
            self.quiet_instant();
        }
    }

    fn tell_progress(&mut self) {
        if let Some(tell) = self.options.progress.as_mut() {
            tell(self.steps_begun, self.steps_total);
        }
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.is_some_and(Stop::is_now)
    }

    /// Lets somebody see whether he can go on, because of what was done at `at`.
    #[inline]
    fn wake(&mut self, woken: Option<ActorId>, at: Time) {
        let Some(id) = woken else { return };
        let elsewhere = match &mut self.regions {
            Some(regions) => regions.deliver(id, at),
            None => false,
        };
        if !elsewhere {
            self.woken.push(id);
        }
    }

    #[inline]
    fn handle(&mut self, actor: ActorId, generation: u32) {
        if actor >= GROUP {
            return if actor >= CHANGE {
                self.link_changes(actor - CHANGE);
            } else {
                self.end_some(actor - GROUP, generation);
            };
        }
        let a = &self.actors[actor as usize];
        // A newer event of this actor was queued since: its rate changed.
        if a.generation != generation {
            return;
        }
        self.events += 1;
        match a.phase {
            Phase::Scheduled => self.begin(actor),
            Phase::Streams => self.end(actor, self.now),
            Phase::Waits | Phase::Done => {}
        }
    }

    /// Reads the state of several actors and their queues, each independent of the others:
    /// the processor fetches it all at once instead of waiting for each in turn.
    #[inline]
    fn touch(&self, those: impl Iterator<Item = ActorId> + Clone) {
        let mut seen = 0;
        // Not filtered before: a chain of adapters is not always inlined.
        for id in those.clone() {
            if id < GROUP {
                let a = &self.actors[id as usize];
                seen ^= a.sync.picos() ^ u64::from(a.generation);
                if !self.machinery.is_free(a.path) {
                    seen ^= self.sharing.touch(id);
                    seen ^= self.cold[id as usize].limited.len() as u64;
                }
            }
        }
        for id in those {
            if id < GROUP {
                let a = &self.actors[id as usize];
                seen ^= self.machinery.fifos.touch(a.recv) ^ self.machinery.fifos.touch(a.send);
            }
        }
        std::hint::black_box(seen);
    }

    /// Wakes whom the instant's events concern, then shares links anew.
    fn quiet_instant(&mut self) {
        // Only now, when all that ended has been passed on: who went on at once would mostly
        // miss what its neighbour posts a moment later, and have to be woken for it. Whoever
        // runs ahead ends and wakes others in turn.
        while !self.ended.is_empty() || !self.woken.is_empty() {
            let mut next = 0;
            while let Some(&id) = self.ended.get(next) {
                self.try_begin(id);
                next += 1;
            }
            self.ended.clear();
            let mut next = 0;
            while next < self.woken.len() {
                let end = self.woken.len().min(next + BLOCK);
                if !self.warm {
                    self.touch(self.woken[next..end].iter().copied());
                }
                for at in next..end {
                    self.try_begin(self.woken[at]);
                }
                next = end;
            }
            self.woken.clear();
        }
        if self.sharing.is_dirty() && self.by_group {
            self.share_groups();
        } else if self.sharing.is_dirty() {
            self.share();
        }
    }
}
