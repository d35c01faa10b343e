//! Engines that serve requests, as a source of tasks: what is computed and handed over is decided
//! while time passes.
//!
//! Requests arrive (`arrivals`), are sent to an engine (`routing`), get back what tiers have of their KV cache
//! (`tiers`), take part in passes (`passes`), of which a part is kept (`kept`); where prompts and generation
//! have engines of their own, KV caches travel between them (`handover`).

mod arrivals;
mod handover;
mod kept;
mod passes;
mod routing;
mod tiers;

pub use handover::{Handover, HandoverOrder, Leg, LegWork};
pub use kept::{Gaps, PassSample, Passes};
pub use routing::Routing;
pub use tiers::{Level, Reload, TierWrite, Tiers, Way, has_tiers};

use super::load::MadeUp;
use super::pass_time::{PassCost, PassShape};
use super::policy::PolicyKind;
use super::record::{RequestRecord, TierRecord};
use super::request::Request;
use super::scheduler::{Pass, Scheduler};
use fabricsim_budget::{Memory, Part};
use fabricsim_plan::job::{ActorId, Batch, Ended, Task, TaskId, TaskSource, TimerId};
use fabricsim_units::Time;
use handover::Moving;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use tiers::Reading;

/// What an engine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Prompts and generation.
    Both,
    /// Prompts; their KV caches are handed over.
    Prefill,
    /// Generation from KV caches that are handed over.
    Decode,
}

/// An engine: one copy of the model.
#[derive(Debug, Clone)]
pub struct Engine {
    /// What it is for.
    pub role: Role,
    /// How it batches.
    pub policy: PolicyKind,
    /// The actor of each pipeline stage, on whose main stream its passes run.
    pub stages: Vec<ActorId>,
    /// A scheduler for each part of data-parallel attention.
    pub parts: Vec<Scheduler>,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// At their times, whatever became of those before; after the last one, requests have so long to be
    /// done.
    Open {
        /// How long.
        drain: Time,
    },
    /// So many are there at once: when one is done, the next arrives.
    Closed {
        /// How many.
        concurrency: u32,
    },
}

/// What is between users and schedulers: an API server for each engine that computes prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// What each request takes, however many come.
    pub latency: Time,
    /// What a token of a prompt takes: a server reads one prompt after the other, and the one that is done first
    /// takes the next.
    pub per_token: Time,
}

/// What serving came to.
#[derive(Debug)]
pub struct Served {
    /// The requests.
    pub requests: Vec<Request>,
    /// Of each request.
    pub records: Vec<RequestRecord>,
    /// Times between tokens, of requests from the first that is counted on.
    pub gaps: Gaps,
    /// Passes, if they were to be kept.
    pub passes: Passes,
    /// How many passes there were.
    pub pass_count: u64,
    /// Time that engines spent in passes, all together.
    pub busy: Time,
    /// Of each tier below the GPUs' memory.
    pub tiers: Vec<TierRecord>,
    /// How long requests waited for blocks to be read from tiers, each time.
    pub reloads: Vec<Time>,
    /// So many of the first requests were over when it was enough; all of them if nobody watched.
    pub over: u32,
    /// Time was up: the load was above what engines can do.
    pub is_overloaded: bool,
    /// Nothing could go on.
    pub is_stuck: bool,
    /// The most of a part's blocks that were taken, in thousandths.
    pub peak_kv_permille: u16,
    /// The last thing that happened.
    pub end: Time,
}

/// What has become of requests so far.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'r> {
    /// Those that have been made up.
    pub requests: &'r [Request],
    /// What has become of each.
    pub records: &'r [RequestRecord],
    /// So many of the first ones are over: done or refused.
    pub over: u32,
    /// What was simulated, in passes: those of engines, one more for every 32 requests in them, and ten for every part of a
    /// KV cache that travels. That is about what it takes.
    pub passes: u64,
}

/// Who looks at a run from time to time and says when it has been enough.
pub trait Watch {
    /// So many of the first requests are to be over for the first look.
    fn first_look(&self) -> u32;

    /// Passes after which it is enough whatever has been seen.
    fn most_passes(&self) -> u64;

    /// So many for the next look; none if this was enough.
    fn look(&mut self, seen: Seen<'_>) -> Option<u32>;
}

/// What [`Fleet::new`] takes.
pub struct FleetPlan<'c> {
    /// The engines.
    pub engines: Vec<Engine>,
    /// The requests, in order of arrival.
    pub requests: Vec<Request>,
    /// Those that follow, without end; the run is over when `watch` has seen enough.
    pub more: Option<MadeUp>,
    /// Who says when it is enough; if nobody does, all requests are served.
    pub watch: Option<&'c mut dyn Watch>,
    /// How they come.
    pub arrivals: Arrivals,
    /// Which engine gets them.
    pub routing: Routing,
    /// How KV caches travel, where engines have different roles.
    pub handover: Handover,
    /// From a request's arrival until it is queued.
    pub front_end: FrontEnd,
    /// What keeps blocks below the GPUs' memory.
    pub tiers: Tiers,
    /// What passes take.
    pub cost: &'c mut dyn PassCost,
    /// Times between tokens are counted from this request on.
    pub counted_from: u32,
    /// Whether passes are kept for a timeline.
    pub keeps_passes: bool,
    /// What times between tokens may take; the run ends where they are more.
    pub memory: Memory,
    /// Where requests that are over are counted.
    pub counting: Option<Part>,
    /// Actors of the job.
    pub actors: usize,
}

/// What a task that ended was.
#[derive(Debug, Clone, Copy)]
enum Purpose {
    /// A stage of a pass, by the pass's number on its engine.
    Stage { engine: u32, stage: u16, pass: u32 },
    /// A part of a hand-over.
    Leg { moving: u32 },
    /// A GPU's part of blocks that are read from a tier.
    Reading { number: u32 },
}

/// A pass that is under way.
#[derive(Debug, Default)]
struct Flight {
    /// Its number on its engine.
    number: u32,
    /// Of each part of data-parallel attention.
    passes: Vec<Pass>,
    begun: Time,
    /// What each stage takes.
    time: Time,
}

/// An engine at work.
struct Worker {
    engine: Engine,
    flights: VecDeque<Flight>,
    /// Passes that began.
    begun: u32,
    /// By part: requests whose KV cache is to come, in order, that have no blocks yet.
    arriving: Vec<VecDeque<u32>>,
    /// Something changed since it was last asked what to compute.
    is_dirty: bool,
}

/// Where a request is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The engine of its prompt, the part and its number there.
    prompt: Option<(u32, u16, u32)>,
    /// The engine that generates, likewise; the number comes with the reservation.
    generates: Option<(u32, u16, Option<u32>)>,
    /// When its last token came.
    last_token: Time,
    /// Tokens of its prompt that have been sent on.
    sent: u32,
    /// Parts of its hand-over that are under way.
    legs: u32,
}

/// Engines, requests and what has become of them.
pub struct Fleet<'c> {
    workers: Vec<Worker>,
    requests: Vec<Request>,
    more: Option<MadeUp>,
    watch: Option<&'c mut dyn Watch>,
    /// So many of the first requests are over, as far as that has been looked at.
    over: u32,
    /// Requests that took part in passes, each time.
    parts: u64,
    /// Parts of KV caches that travelled.
    travelled: u64,
    next_look: u32,
    is_enough: bool,
    arrivals: Arrivals,
    routing: routing::Router,
    handover: Handover,
    front_end: FrontEnd,
    /// When the front end of each engine that computes prompts has read those that it has.
    read: Vec<Time>,
    tiers: Tiers,
    reading: Vec<Reading>,
    names: Vec<u64>,
    cost: &'c mut dyn PassCost,
    counted_from: u32,
    keeps_passes: bool,
    counting: Option<Part>,
    places: Vec<Place>,
    /// Tasks that were written, by actor.
    written: Vec<u32>,
    purposes: FxHashMap<(ActorId, TaskId), Purpose>,
    moving: Vec<Moving>,
    /// The next stream of each actor for transfers.
    streams: Vec<u8>,
    /// The next request to arrive.
    next: u32,
    open: u32,
    under_way: u32,
    timers: u32,
    time_is_up: bool,
    spare: Vec<Flight>,
    shapes: Vec<PassShape>,
    dirty: Vec<u32>,
    done: Vec<u32>,
    served: Served,
}

/// The timer of the end of time.
const DRAIN: TimerId = TimerId(1 << 34);

/// Timers of requests that are through the front end: this and their number.
const QUEUED: u64 = 1 << 32;

impl<'c> Fleet<'c> {
    /// Nothing has arrived.
    #[must_use]
    pub fn new(plan: FleetPlan<'c>) -> Self {
        let of = |engine: Engine| Worker {
            flights: VecDeque::new(),
            begun: 0,
            arriving: vec![VecDeque::new(); engine.parts.len()],
            is_dirty: false,
            engine,
        };
        let served = Served {
            requests: Vec::new(),
            records: vec![RequestRecord::default(); plan.requests.len()],
            gaps: Gaps::new(plan.memory),
            passes: Passes::default(),
            pass_count: 0,
            busy: Time::ZERO,
            tiers: Vec::new(),
            reloads: Vec::new(),
            over: 0,
            is_overloaded: false,
            is_stuck: false,
            peak_kv_permille: 0,
            end: Time::ZERO,
        };
        let of_prompts = plan.engines.iter().filter(|e| e.role != Role::Decode);
        let read = vec![Time::ZERO; of_prompts.count()];
        let mut fleet = Fleet {
            routing: routing::Router::new(plan.routing, &plan.engines),
            workers: plan.engines.into_iter().map(of).collect(),
            places: vec![Place::default(); plan.requests.len()],
            open: plan.requests.len() as u32,
            requests: plan.requests,
            more: plan.more,
            counting: plan.counting,
            over: 0,
            parts: 0,
            travelled: 0,
            next_look: plan.watch.as_ref().map_or(0, |watch| watch.first_look()),
            watch: plan.watch,
            is_enough: false,
            arrivals: plan.arrivals,
            handover: plan.handover,
            front_end: plan.front_end,
            read,
            tiers: plan.tiers,
            reading: Vec::new(),
            names: Vec::new(),
            cost: plan.cost,
            counted_from: plan.counted_from,
            keeps_passes: plan.keeps_passes,
            written: vec![0; plan.actors],
            purposes: FxHashMap::default(),
            moving: Vec::new(),
            streams: vec![0; plan.actors],
            next: 0,
            under_way: 0,
            timers: 0,
            time_is_up: false,
            spare: Vec::new(),
            shapes: Vec::new(),
            dirty: Vec::new(),
            done: Vec::new(),
            served,
        };
        fleet.served.tiers = fleet.tier_records();
        fleet
    }

    /// What it came to, once it has run, of requests that have arrived.
    #[must_use]
    pub fn into_served(self) -> Served {
        let mut served = self.served;
        served.requests = self.requests;
        served.over = match self.watch {
            Some(_) => self.over,
            None => served.requests.len() as u32,
        };
        if self.watch.is_some() {
            served.requests.truncate(self.next as usize);
            served.records.truncate(self.next as usize);
        }
        served
    }

    /// Writes a task; what it is for is remembered if that matters.
    fn write(&mut self, actor: ActorId, task: Task, purpose: Option<Purpose>, out: &mut Batch) {
        let number = &mut self.written[actor.0 as usize];
        if let Some(purpose) = purpose {
            self.travelled += u64::from(!matches!(purpose, Purpose::Stage { .. }));
            self.purposes.insert((actor, TaskId(*number)), purpose);
            self.under_way += 1;
        }
        *number += 1;
        out.tasks.push((actor, task));
    }

    /// An engine is to be asked what to compute.
    fn touch(&mut self, engine: u32) {
        let worker = &mut self.workers[engine as usize];
        if !worker.is_dirty {
            worker.is_dirty = true;
            self.dirty.push(engine);
        }
    }

    /// Asks all engines that something changed for.
    fn decide(&mut self, now: Time, out: &mut Batch) {
        self.dirty.sort_unstable();
        while let Some(engine) = self.dirty.pop() {
            self.workers[engine as usize].is_dirty = false;
            self.reserve(engine, now, out);
            if self.has_tiers(engine) {
                self.reload(engine, now, out);
                self.launch(engine, now, out);
                self.write_back(engine, out);
            } else {
                self.launch(engine, now, out);
            }
        }
        if self.under_way == 0 && self.timers == 0 && self.open > 0 {
            self.served.is_stuck = true;
        }
    }
}

impl TaskSource for Fleet<'_> {
    fn start(&mut self, out: &mut Batch) {
        self.begin(out);
        self.decide(Time::ZERO, out);
    }

    fn instant(&mut self, now: Time, ended: &[Ended], timers: &[TimerId], out: &mut Batch) {
        self.served.end = now;
        for ended in ended {
            let Some(purpose) = self.purposes.remove(&(ended.actor, ended.task)) else {
                continue;
            };
            self.under_way -= 1;
            match purpose {
                Purpose::Stage {
                    engine,
                    stage,
                    pass,
                } => self.stage_over((engine, stage, pass), now, out),
                Purpose::Leg { moving } => self.leg_over(moving, now, out),
                Purpose::Reading { number } => self.read_over(number, now),
            }
        }
        for &timer in timers {
            self.timers -= 1;
            if timer == DRAIN {
                self.time_is_up = self.open > 0;
                self.served.is_overloaded = self.time_is_up;
            } else if timer.0 >= QUEUED {
                self.is_queued((timer.0 - QUEUED) as u32, now);
            } else {
                self.arrive_until(now, out);
            }
        }
        if !self.time_is_up && !self.is_enough {
            self.decide(now, out);
        }
    }

    fn is_finished(&self) -> bool {
        self.open == 0
            || self.is_enough
            || self.time_is_up
            || self.served.is_stuck
            || self.served.gaps.refused().is_some()
    }
}
