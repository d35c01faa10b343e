//! The event loop: workers take their steps in order, slice by slice.
//!
//! A slice begins when its worker is free, its data is visible in every incoming queue
//! and a slot is free in every outgoing one; it then streams at a rate given by sharing;
//! then it is posted to the receiver and its slot goes back to the sender. All of these
//! are times known as soon as the other side has acted, so a slice costs two events:
//! its begin and its end.

use super::actor::{Actor, Phase};
use super::error::SimError;
use super::fifo::{Fifo, FifoId, MAX_SLOTS};
use super::outcome::Outcome;
use super::probe::{ActorId, Blind, Cause, Probe, Segment, Slice};
use super::queue::EventQueue;
use super::resources::{PathId, Resources};
use super::sharing::{Change, Limit, Sharing};
use crate::collective::{ConnId, Peers, WorkerId};
use crate::plan::{Plan, Protocol, RouteId};
use crate::topology::LinkId;
use crate::units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How to run.
#[derive(Default)]
pub struct Options<'a> {
    /// How often the operation is repeated back to back; at least once.
    pub operations: u32,
    /// Called now and then with (steps begun, steps in all).
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
}

/// Simulates `plan` on links with the given payload rates.
///
/// # Errors
/// [`SimError::Stalled`] when nothing moves any more, [`SimError::BadPlan`] when the
/// plan's tables do not fit its program.
pub fn simulate(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
) -> Result<Outcome, SimError> {
    simulate_with(plan, rate, options, &mut Blind)
}

/// As [`simulate`], with somebody looking.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with<P: Probe>(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
    probe: &mut P,
) -> Result<Outcome, SimError> {
    check(plan)?;
    let machinery = Machinery::new(plan, rate);
    let mut run = Run::new(plan, machinery, options, probe);
    run.begin_all();
    run.events_until_quiet();
    run.into_outcome()
}

fn check(plan: &Plan) -> Result<(), SimError> {
    let bad = |text: String| Err(SimError::BadPlan(text));
    let program = &plan.program;
    if plan.transports.len() != program.connections() as usize {
        return bad(format!(
            "{} transports for {} connections",
            plan.transports.len(),
            program.connections()
        ));
    }
    if plan.rank_costs.len() != program.ranks() as usize || plan.gpus.len() != plan.rank_costs.len()
    {
        return bad(format!(
            "{} ranks have costs, {} take part",
            plan.rank_costs.len(),
            program.ranks()
        ));
    }
    if plan
        .rank_costs
        .iter()
        .any(|&c| usize::from(c) >= plan.costs.len())
    {
        return bad("a rank's costs are missing".into());
    }
    if plan
        .costs
        .iter()
        .any(|c| c.send_rate.bytes_per_sec() == 0 || c.local_rate.bytes_per_sec() == 0)
    {
        return bad("a worker's rate is zero".into());
    }
    let slots = plan.protocol.fifo_slices;
    if slots == 0 || slots as usize > MAX_SLOTS {
        return bad(format!("queues of {slots} slots"));
    }
    Ok(())
}

/// The parts that a plan is executed by: actors' queues and what they share.
struct Machinery {
    resources: Resources,
    fifos: Vec<Fifo>,
    /// For each connection, the queue that its receiver reads (a network has two).
    incoming: Vec<FifoId>,
    /// For each queue: what its sender's and its receiver's work loads.
    store_path: Vec<Option<PathId>>,
    load_path: Vec<Option<PathId>>,
    proxies: Vec<Proxy>,
    /// The path that loads nothing.
    nowhere: PathId,
}

/// A network connection's proxy: takes from one queue, puts into another.
struct Proxy {
    takes: FifoId,
    puts: FifoId,
    path: PathId,
    rate: Bandwidth,
    overhead: Time,
}

impl Machinery {
    fn new(plan: &Plan, rate: impl Fn(LinkId) -> Bandwidth) -> Self {
        let mut resources = Resources::new(&plan.routes, plan.protocol.wire, rate);
        let nowhere = resources.add_path(std::iter::empty());
        let path = |route: Option<RouteId>| route.map(|r| r.0);
        let slots = plan.protocol.fifo_slices;
        let connections = plan.transports.len();
        let workers = plan.program.workers();
        let mut m = Machinery {
            resources,
            fifos: Vec::with_capacity(connections),
            incoming: (0..connections as u32).collect(),
            store_path: plan.transports.iter().map(|t| path(t.store)).collect(),
            load_path: plan.transports.iter().map(|t| path(t.load)).collect(),
            proxies: Vec::new(),
            nowhere,
        };
        let mut second = Vec::new();
        for (id, transport) in plan.transports.iter().enumerate() {
            let ends = plan.program.connection(ConnId(id as u32));
            let (from, to) = (ends.from.0, ends.to.0);
            let Some(leg) = transport.network else {
                m.fifos.push(Fifo::new(
                    from,
                    to,
                    slots,
                    transport.latency,
                    transport.credit_latency,
                ));
                continue;
            };
            let proxy = workers + m.proxies.len() as u32;
            let puts = (connections + second.len()) as u32;
            m.fifos.push(Fifo::new(
                from,
                proxy,
                slots,
                leg.post_latency,
                leg.post_latency,
            ));
            second.push(Fifo::new(
                proxy,
                to,
                slots,
                transport.latency,
                transport.credit_latency,
            ));
            m.incoming[id] = puts;
            let load = m.load_path[id].take();
            m.load_path.push(load);
            m.store_path.push(None);
            m.proxies.push(Proxy {
                takes: id as u32,
                puts,
                path: leg.route.0,
                rate: leg.rate,
                overhead: leg.message_overhead,
            });
        }
        m.fifos.extend(second);
        m
    }
}

/// How often progress is told: every so many instants.
const PROGRESS_EVERY: u64 = 1 << 14;

struct Run<'r, 'o, P: Probe> {
    plan: &'r Plan,
    protocol: Protocol,
    options: Options<'o>,
    probe: &'r mut P,
    machinery: Machinery,
    sharing: Sharing,
    /// Workers, then proxies.
    actors: Vec<Actor>,
    queue: EventQueue<(ActorId, u32)>,
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
}

struct RankState {
    workers: (u32, u32),
    running: u32,
    operation: u32,
    latest: Time,
}

impl<'r, 'o, P: Probe> Run<'r, 'o, P> {
    fn new(plan: &'r Plan, machinery: Machinery, options: Options<'o>, probe: &'r mut P) -> Self {
        let program = plan.program.as_ref();
        let mut by_rank: Vec<(u32, ActorId)> = Vec::with_capacity(program.workers() as usize);
        let mut actors = Vec::with_capacity(program.workers() as usize + machinery.proxies.len());
        let mut steps_total = 0;
        for worker in 0..program.workers() {
            let rank = program.worker(WorkerId(worker)).rank;
            let costs = &plan.costs[usize::from(plan.rank_costs[rank.index()])];
            let mut actor = Actor::new(costs.slice_sync);
            actor.steps = program.steps(WorkerId(worker));
            steps_total += actor.steps;
            actors.push(actor);
            by_rank.push((rank.0, worker));
        }
        for proxy in &machinery.proxies {
            let mut actor = Actor::new(proxy.overhead);
            actor.recv = Peers::one(ConnId(proxy.takes));
            actor.send = Peers::one(ConnId(proxy.puts));
            actor.path = proxy.path;
            actor.cap = proxy.rate.bytes_per_sec().max(1);
            actor.name = "network";
            actors.push(actor);
        }
        by_rank.sort_unstable();
        let mut ranks = Vec::with_capacity(program.ranks() as usize);
        let mut start = 0;
        for rank in 0..program.ranks() {
            let own = by_rank[start..].partition_point(|(r, _)| *r == rank);
            let workers = (start as u32, (start + own) as u32);
            ranks.push(RankState {
                workers,
                running: 0,
                operation: 0,
                latest: Time::ZERO,
            });
            start += own;
        }
        let operations = options.operations.max(1);
        let flows = actors.len();
        Run {
            protocol: plan.protocol,
            sharing: Sharing::new(&machinery.resources, flows),
            plan,
            options,
            probe,
            machinery,
            actors,
            queue: EventQueue::new(),
            woken: Vec::new(),
            sums: FxHashMap::default(),
            finish: vec![vec![Time::ZERO; ranks.len()]; operations as usize],
            rank_workers: by_rank.into_iter().map(|(_, w)| w).collect(),
            ranks,
            now: Time::ZERO,
            events: 0,
            transfers: 0,
            steps_begun: 0,
            steps_total: steps_total * u64::from(operations),
        }
    }

    fn begin_all(&mut self) {
        for rank in 0..self.ranks.len() {
            self.launch(rank);
        }
        for proxy in self.plan.program.workers()..self.actors.len() as u32 {
            self.try_begin(proxy);
        }
        self.quiet_instant();
    }

    fn events_until_quiet(&mut self) {
        let mut batch = Vec::new();
        let mut instants = 0u64;
        while let Some(time) = self.queue.pop_instant(&mut batch) {
            self.now = Time::from_picos(time);
            for &(actor, generation) in &batch {
                let a = &self.actors[actor as usize];
                // A newer event of this actor was queued since: its rate changed.
                if a.generation != generation {
                    continue;
                }
                self.events += 1;
                match a.phase {
                    Phase::Scheduled => self.begin(actor),
                    Phase::Streams => self.end(actor),
                    Phase::Waits | Phase::Done => {}
                }
            }
            self.quiet_instant();
            instants += 1;
            if instants.is_multiple_of(PROGRESS_EVERY)
                && let Some(tell) = self.options.progress.as_mut()
            {
                tell(self.steps_begun, self.steps_total);
            }
        }
    }

    /// Wakes whom the instant's events concern, then shares links anew.
    fn quiet_instant(&mut self) {
        while let Some(actor) = self.woken.pop() {
            self.try_begin(actor);
        }
        if self.sharing.is_dirty() {
            let mut changes = Vec::new();
            self.share(&mut changes);
        }
    }

    fn share(&mut self, changes: &mut Vec<Change>) {
        self.sharing.solve(&self.machinery.resources, changes);
        for &Change { flow, rate, limit } in changes.iter() {
            let (new_rate, _) = self.sharing.rate(flow);
            if rate > 0 {
                self.book(flow, rate, limit);
            }
            if new_rate != rate {
                let actor = &mut self.actors[flow as usize];
                actor.advance(rate, self.now);
                actor.generation += 1;
                if let Some(end) = actor.end_at(new_rate) {
                    self.queue.push(end.picos(), (flow, actor.generation));
                }
            }
        }
    }

    /// Puts streaming at one rate, up to now, into the bins.
    fn book(&mut self, id: ActorId, rate: u64, limit: Limit) {
        let now = self.now;
        let actor = &mut self.actors[id as usize];
        let from = std::mem::replace(&mut actor.booked, now);
        if from == now {
            return;
        }
        match limit {
            Limit::Cap => actor.bins.at_cap += now - from,
            Limit::Resource(resource) => actor.bins.add_limited(resource, now - from),
        }
        if P::ACTIVE {
            let path = actor.path;
            self.probe.segment(&Segment {
                actor: id,
                path,
                start: from,
                end: now,
                rate,
                limit,
            });
        }
    }

    /// Starts a rank's next operation, or notes that none is left.
    fn launch(&mut self, rank: usize) {
        loop {
            let state = &mut self.ranks[rank];
            if state.operation as usize >= self.finish.len() {
                return;
            }
            let (first, last) = state.workers;
            let idle_until = state.latest;
            let costs = &self.plan.costs[usize::from(self.plan.rank_costs[rank])];
            let free = idle_until + costs.launch;
            state.running = 0;
            for i in first..last {
                let worker = self.rank_workers[i as usize];
                let actor = &mut self.actors[worker as usize];
                actor.bins.idle += idle_until.saturating_sub(actor.free);
                actor.bins.launch += costs.launch;
                if P::ACTIVE {
                    self.probe.launch(worker, idle_until, free);
                }
                actor.free = free;
                actor.next_step = 0;
                actor.cause = Cause::Launch;
                if self.fetch(worker) {
                    self.ranks[rank].running += 1;
                    self.woken.push(worker);
                } else {
                    self.actors[worker as usize].phase = Phase::Done;
                }
            }
            let state = &mut self.ranks[rank];
            if state.running > 0 {
                state.latest = free;
                return;
            }
            self.finish[state.operation as usize][rank] = free;
            state.latest = free;
            state.operation += 1;
        }
    }

    /// Loads a worker's next step that moves anything; false if none is left.
    fn fetch(&mut self, id: ActorId) -> bool {
        let program = self.plan.program.as_ref();
        let actor = &mut self.actors[id as usize];
        while actor.next_step < actor.steps {
            let step = program.step(WorkerId(id), actor.next_step);
            actor.next_step += 1;
            self.steps_begun += 1;
            if step.len == 0 {
                continue;
            }
            let rank = program.worker(WorkerId(id)).rank;
            let costs = &self.plan.costs[usize::from(self.plan.rank_costs[rank.index()])];
            let rate = if step.send.is_empty() {
                costs.local_rate
            } else {
                costs.send_rate
            };
            actor.cap = rate.bytes_per_sec();
            actor.name = step.name();
            actor.recv = step
                .recv
                .map(|c| ConnId(self.machinery.incoming[c.index()]));
            actor.send = step.send;
            actor.slice_len = self.protocol.slice_len(step.len);
            actor.slice = actor.slice_len.min(step.len);
            actor.left = step.len - actor.slice;
            let (recv, send) = (actor.recv, actor.send);
            let path = self.path_of(recv, send);
            self.actors[id as usize].path = path;
            return true;
        }
        false
    }

    /// What a step's loads and stores use together.
    fn path_of(&mut self, recv: Peers, send: Peers) -> PathId {
        let loads = recv
            .as_slice()
            .iter()
            .filter_map(|f| self.machinery.load_path[f.index()]);
        let stores = send
            .as_slice()
            .iter()
            .filter_map(|f| self.machinery.store_path[f.index()]);
        let paths: SmallVec<[PathId; 4]> = loads.chain(stores).collect();
        match paths.as_slice() {
            [] => self.machinery.nowhere,
            [path] => *path,
            _ => {
                let resources = &mut self.machinery.resources;
                *self
                    .sums
                    .entry(paths)
                    .or_insert_with_key(|paths| resources.add_sum(paths))
            }
        }
    }

    /// If all that the next slice needs has a time, schedules (or does) its begin.
    fn try_begin(&mut self, id: ActorId) {
        let actor = &self.actors[id as usize];
        if matches!(actor.phase, Phase::Streams | Phase::Scheduled) {
            return;
        }
        let (recv, send) = (actor.recv, actor.send);
        let free = actor.free;
        let fifos = &mut self.machinery.fifos;
        let (mut data, mut data_from) = (Time::ZERO, None);
        let (mut credit, mut credit_from) = (Time::ZERO, None);
        let mut known = true;
        for f in recv.as_slice() {
            let fifo = &mut fifos[f.index()];
            match fifo.data_at() {
                Some(at) if data_from.is_none() || at > data => (data, data_from) = (at, Some(f.0)),
                Some(_) => {}
                None => {
                    fifo.receiver_waits = true;
                    known = false;
                }
            }
        }
        for f in send.as_slice() {
            let fifo = &mut fifos[f.index()];
            match fifo.credit_at() {
                Some(at) if credit_from.is_none() || at > credit => {
                    (credit, credit_from) = (at, Some(f.0))
                }
                Some(_) => {}
                None => {
                    fifo.sender_waits = true;
                    known = false;
                }
            }
        }
        let proxy = id >= self.plan.program.workers();
        let actor = &mut self.actors[id as usize];
        if !known {
            actor.phase = Phase::Waits;
            return;
        }
        let mut start = free.max(data).max(credit);
        if proxy {
            // The proxy's work on a message overlaps with the one before leaving.
            let handed = data.max(credit).max(actor.handed) + actor.overhead;
            actor.handed = handed;
            start = free.max(handed);
            actor.slice = data_from.map_or(0, |f| fifos[f as usize].next_len());
            let busy = (start - free).min(actor.overhead);
            actor.bins.sync += busy;
        }
        let waited_until = if proxy {
            start - (start - free).min(actor.overhead)
        } else {
            start
        };
        if actor.cause != Cause::Launch {
            actor.cause = Cause::Own;
        }
        actor.posted = free;
        if waited_until > free {
            let (cause, fifo, lag) = match (data_from, credit_from) {
                (Some(f), _) if data >= credit => (Cause::Data(f), f, fifos[f as usize].latency),
                (_, Some(f)) => (Cause::Credit(f), f, fifos[f as usize].credit_latency),
                // Nothing to wait for: only a proxy's earlier message holds it up.
                _ => (Cause::Own, u32::MAX, Time::ZERO),
            };
            let late = data.max(credit);
            let posted = late.saturating_sub(lag).clamp(free, waited_until);
            actor.cause = cause;
            actor.posted = posted;
            actor.bins.latency += waited_until - posted;
            match cause {
                Cause::Data(_) => {
                    actor.bins.wait_data += posted - free;
                    fifos[fifo as usize].wait_data += posted - free;
                }
                Cause::Credit(_) => {
                    actor.bins.wait_credit += posted - free;
                    fifos[fifo as usize].wait_credit += posted - free;
                }
                Cause::Own | Cause::Launch => actor.bins.sync += posted - free,
            }
        }
        actor.start = start;
        actor.phase = Phase::Scheduled;
        if start <= self.now {
            self.begin(id);
        } else {
            actor.generation += 1;
            self.queue.push(start.picos(), (id, actor.generation));
        }
    }

    /// Bytes begin to move.
    fn begin(&mut self, id: ActorId) {
        let now = self.now;
        let actor = &mut self.actors[id as usize];
        actor.phase = Phase::Streams;
        actor.remaining = actor.slice * 1_000_000;
        actor.mark = now;
        actor.booked = now;
        let (path, cap) = (actor.path, actor.cap);
        if self.machinery.resources.path(path).is_empty() {
            actor.generation += 1;
            if let Some(end) = actor.end_at(cap) {
                self.queue.push(end.picos(), (id, actor.generation));
            }
        } else {
            self.sharing.start(&self.machinery.resources, id, path, cap);
        }
    }

    /// The last byte has moved: pass the slice on, give the slot back, go on.
    fn end(&mut self, id: ActorId) {
        let path = self.actors[id as usize].path;
        if self.machinery.resources.path(path).is_empty() {
            let cap = self.actors[id as usize].cap;
            self.book(id, cap, Limit::Cap);
        } else {
            let (rate, limit) = self.sharing.rate(id);
            self.book(id, rate, limit);
            self.sharing.stop(&self.machinery.resources, id);
            self.transfers += 1;
        }
        let proxy = id >= self.plan.program.workers();
        let now = self.now;
        let actor = &mut self.actors[id as usize];
        let done = if proxy { now } else { now + actor.overhead };
        if !proxy {
            actor.bins.sync += actor.overhead;
        }
        if P::ACTIVE {
            self.probe.slice(&Slice {
                actor: id,
                free: actor.free,
                posted: actor.posted,
                start: actor.start,
                end: now,
                done,
                cause: actor.cause,
                bytes: actor.slice,
                name: actor.name,
            });
        }
        actor.cause = Cause::Own;
        actor.free = done;
        actor.phase = Phase::Waits;
        let (recv, send, slice) = (actor.recv, actor.send, actor.slice);
        for f in recv.as_slice() {
            let fifo = &mut self.machinery.fifos[f.index()];
            fifo.take(done);
            if std::mem::take(&mut fifo.sender_waits) {
                self.woken.push(fifo.from);
            }
        }
        for f in send.as_slice() {
            let fifo = &mut self.machinery.fifos[f.index()];
            fifo.post(done, slice);
            if std::mem::take(&mut fifo.receiver_waits) {
                self.woken.push(fifo.to);
            }
        }
        if proxy {
            self.woken.push(id);
            return;
        }
        let actor = &mut self.actors[id as usize];
        if actor.left > 0 {
            actor.slice = actor.slice_len.min(actor.left);
            actor.left -= actor.slice;
            self.woken.push(id);
        } else if self.fetch(id) {
            self.woken.push(id);
        } else {
            self.worker_done(id, done);
        }
    }

    fn worker_done(&mut self, id: ActorId, at: Time) {
        self.actors[id as usize].phase = Phase::Done;
        let rank = self.plan.program.worker(WorkerId(id)).rank.index();
        let state = &mut self.ranks[rank];
        state.latest = state.latest.max(at);
        state.running -= 1;
        if state.running == 0 {
            self.finish[state.operation as usize][rank] = state.latest;
            state.operation += 1;
            self.launch(rank);
        }
    }

    fn into_outcome(self) -> Result<Outcome, SimError> {
        let workers = self.plan.program.workers() as usize;
        let stuck = |a: &&Actor| a.phase != Phase::Done;
        let waiting = self.actors[..workers].iter().filter(stuck).count();
        if let Some(first) = self.actors[..workers]
            .iter()
            .position(|a| a.phase != Phase::Done)
        {
            let place = self.plan.program.worker(WorkerId(first as u32));
            return Err(SimError::Stalled {
                at: self.now,
                waiting,
                rank: place.rank.0,
                channel: place.channel,
                why: self.why_stuck(first),
            });
        }
        let end = self
            .finish
            .iter()
            .flatten()
            .max()
            .copied()
            .unwrap_or(Time::ZERO);
        let fifos = &self.machinery.fifos;
        let connections = self.plan.transports.len();
        let waits = (0..connections)
            .map(|c| {
                (
                    fifos[self.machinery.incoming[c] as usize].wait_data,
                    fifos[c].wait_credit,
                )
            })
            .collect();
        let connection_bytes = fifos[..connections].iter().map(|f| f.bytes).collect();
        let mut bins: Vec<_> = self
            .actors
            .into_iter()
            .take(workers)
            .map(|a| a.bins)
            .collect();
        for b in &mut bins {
            b.idle += end.saturating_sub(b.total());
            b.limited.sort_unstable();
        }
        Ok(Outcome {
            finish: self.finish,
            workers: bins,
            waits,
            connection_bytes,
            resources: self.machinery.resources,
            events: self.events,
            transfers: self.transfers,
        })
    }

    fn why_stuck(&self, actor: usize) -> String {
        let a = &self.actors[actor];
        let rank_of = |id: ActorId| {
            if id < self.plan.program.workers() {
                format!("rank {}", self.plan.program.worker(WorkerId(id)).rank.0)
            } else {
                "the network".to_owned()
            }
        };
        for f in a.recv.as_slice() {
            let fifo = &self.machinery.fifos[f.index()];
            if fifo.data_at().is_none() {
                return format!("waiting for data from {}", rank_of(fifo.from));
            }
        }
        for f in a.send.as_slice() {
            let fifo = &self.machinery.fifos[f.index()];
            if fifo.credit_at().is_none() {
                return format!("waiting for a free slot at {}", rank_of(fifo.to));
            }
        }
        "in a transfer over a link without any bandwidth left".to_owned()
    }
}
