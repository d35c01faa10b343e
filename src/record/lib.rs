//! From what the engine tells to what a report shows: a [`Recorder`] looks inside one
//! simulation and makes of it a timeline, the use of links over time, where the workers'
//! time went, and the chain of events that set the finish.
//!
//! Memory is bounded by [`Limits`], whatever the size of the machine: spans by leaving
//! out whole ranks, bins of time by doubling their width. Bytes are those on the wire, protocol overhead included.

mod attribution;
mod causes;
mod link_use;
mod names;
mod spans;
#[cfg(test)]
mod tests;
mod words;

pub use attribution::label;
pub use causes::causes;

use fabricsim_collective::{ConnId, Program, Role, Worker, WorkerId};
use fabricsim_engine::Outcome;
use fabricsim_engine::probe::{ActorId, Probe, Segment, Slice};
use fabricsim_plan::{MessageCost, Plan};
use fabricsim_report::record::{Attribution, Lane, LinkUse, Timeline};
use fabricsim_topology::{LinkId, Topology};
use fabricsim_units::{Bandwidth, Bytes, Time};
use link_use::RouteUse;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use spans::Spans;
use std::ops::Range;

/// How much may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Spans of the timeline. Beyond it whole ranks are left out, highest ranks first.
    pub spans: usize,
    /// Bins of time for the use of links; at least one.
    pub bins: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            spans: 200_000,
            bins: 200,
        }
    }
}

/// What faults leave of a link's rate, in the mean over a span; `None` if none touches the link.
pub type RateLeft<'l> = &'l dyn Fn(LinkId, Range<Time>) -> Option<Bandwidth>;

/// What was recorded, for the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What happened when.
    pub timeline: Timeline,
    /// Where the workers' time went. The critical path is left empty: it is the row's.
    pub attribution: Attribution,
    /// Every link that carried anything, in order of id.
    pub links: Vec<LinkUse>,
}

/// Where an actor's time is shown.
#[derive(Debug, Clone, Copy)]
struct Place {
    rank: u32,
    channel: u16,
    lane: Lane,
}

/// The place of each worker. Those of one rank, channel and role are counted.
fn places(program: &dyn Program) -> Vec<Place> {
    let mut seen: FxHashMap<(u32, u16, Role), u8> = FxHashMap::default();
    (0..program.workers())
        .map(|worker| {
            let Worker {
                rank,
                channel,
                role,
            } = program.worker(WorkerId(worker));
            let count = seen.entry((rank.0, channel, role)).or_default();
            let k = *count;
            *count = count.saturating_add(1);
            let lane = match role {
                Role::Block => Lane::Whole,
                Role::Up => Lane::Up,
                Role::Down => Lane::Down,
                Role::Scatter => Lane::Scatter,
                Role::Gather => Lane::Gather,
                Role::Send => Lane::Send(k),
                Role::Receive => Lane::Receive(k),
                Role::Switch => Lane::Switch(k),
            };
            Place {
                rank: rank.0,
                channel,
                lane,
            }
        })
        .collect()
}

/// Who the engine's actors and queues are.
#[derive(Debug)]
struct Cast {
    workers: u32,
    /// Of each actor; a proxy is of the rank and channel that sends through it.
    place: Vec<Place>,
    /// What a proxy spends on a message; by number of proxy.
    message: Vec<MessageCost>,
    /// The route that a proxy drives.
    leg: Vec<u32>,
    /// The connection of each queue.
    connection: Vec<u32>,
    /// The ranks that put into and take out of each connection.
    ends: Vec<(u32, u32)>,
    /// What putting into a queue loads, and taking out of it.
    store: Vec<Option<u32>>,
    load: Vec<Option<u32>>,
}

impl Cast {
    fn new(plan: &Plan) -> Self {
        let program = plan.program.as_ref();
        let workers = program.workers();
        let connections = program.connections();
        let place = places(program);
        let mut cast = Cast {
            workers,
            place,
            message: Vec::new(),
            leg: Vec::new(),
            connection: (0..connections).collect(),
            ends: Vec::with_capacity(connections as usize),
            store: plan
                .transports
                .iter()
                .map(|t| t.store.map(|r| r.0))
                .collect(),
            load: plan
                .transports
                .iter()
                .map(|t| t.load.map(|r| r.0))
                .collect(),
        };
        for (id, transport) in (0..connections).zip(plan.transports.iter()) {
            let ends = program.connection(ConnId(id));
            let (from, to) = (cast.place[ends.from.index()], cast.place[ends.to.index()]);
            cast.ends.push((from.rank, to.rank));
            if let Some(leg) = transport.network {
                cast.place.push(from);
                cast.message.push(leg.message);
                cast.leg.push(leg.route.0);
                cast.connection.push(id);
                // The receiver takes from the proxy's queue, not from the connection's own.
                let load = cast.load[id as usize].take();
                cast.load.push(load);
                cast.store.push(None);
            }
        }
        cast
    }

    fn is_proxy(&self, actor: ActorId) -> bool {
        actor >= self.workers
    }

    /// When a slice stopped waiting: a proxy then handles the message before it starts.
    fn ready(&self, slice: &Slice) -> Time {
        if !self.is_proxy(slice.actor) {
            return slice.start;
        }
        let cost = self.message[(slice.actor - self.workers) as usize].of(Bytes::new(slice.bytes));
        let busy = slice.start.saturating_sub(slice.free).min(cost);
        slice.start.saturating_sub(busy)
    }

    /// The routes that a slice's bytes cross, each as often as they do.
    fn routes(&self, slice: &Slice) -> SmallVec<[u32; 8]> {
        if self.is_proxy(slice.actor) {
            return SmallVec::from_slice(&[self.leg[(slice.actor - self.workers) as usize]]);
        }
        let loads = slice.recv.iter().map(|&f| self.load[f as usize]);
        let stores = slice.send.iter().map(|&f| self.store[f as usize]);
        loads.chain(stores).flatten().collect()
    }
}

/// A stretch of the slice that an actor is at.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: Time,
    end: Time,
    rate: u64,
}

/// Collects what the engine tells it; hand it to [`fabricsim_engine::simulate_with`].
#[derive(Debug)]
pub struct Recorder {
    cast: Cast,
    /// Of the slice that each actor is at.
    stretches: Vec<SmallVec<[Stretch; 1]>>,
    spans: Spans,
    routes: RouteUse,
}

impl Recorder {
    /// Ready to record a simulation of `plan`.
    #[must_use]
    pub fn new(_topology: &Topology, plan: &Plan, limits: Limits) -> Self {
        let cast = Cast::new(plan);
        let actors = cast.place.len();
        Recorder {
            stretches: vec![SmallVec::new(); actors],
            spans: Spans::new(&cast, plan.program.ranks(), limits.spans),
            routes: RouteUse::new(plan.routes.len(), limits.bins),
            cast,
        }
    }

    /// Puts together what was recorded. `outcome` is that of the recorded simulation.
    #[must_use]
    pub fn finish(
        self,
        topology: &Topology,
        plan: &Plan,
        outcome: &Outcome,
        left: RateLeft<'_>,
    ) -> Record {
        let end = outcome.end();
        let account = attribution::Account {
            topology,
            plan,
            outcome,
        };
        let attribution = account.tell(&|link| left(link, Time::ZERO..end).is_some());
        let (ranks, spans, ranks_omitted) = self.spans.finish(&self.cast, topology, plan, end);
        let links = self.routes.into_links(plan, end);
        let timeline = Timeline {
            ranks,
            spans,
            bin: links.width,
            links: links.series(topology, end, left),
            faults: Vec::new(),
            end,
            ranks_omitted,
        };
        Record {
            timeline,
            attribution,
            links: link_use::totals(topology, plan, outcome, left),
        }
    }
}

impl Probe for Recorder {
    const ACTIVE: bool = true;

    fn slice(&mut self, slice: &Slice) {
        let stretches = std::mem::take(&mut self.stretches[slice.actor as usize]);
        for route in self.cast.routes(slice) {
            self.routes.add_slice(route, slice, &stretches);
        }
        self.spans.slice(&self.cast, slice);
    }

    fn segment(&mut self, segment: &Segment) {
        self.stretches[segment.actor as usize].push(Stretch {
            start: segment.start,
            end: segment.end,
            rate: segment.rate,
        });
    }

    fn launch(&mut self, actor: ActorId, from: Time, to: Time) {
        self.spans.launch(&self.cast, actor, from, to);
    }
}
