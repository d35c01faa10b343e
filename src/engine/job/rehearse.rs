//! Each communication alone: what it takes, and what it asks of links.

use super::JobError;
use crate::{Options, Outcome, SimError, simulate, simulate_folded};
use fabricsim_budget::threads;
use fabricsim_budget::{Budget, Held, Purpose};
use fabricsim_collective::{ConnId, WorkerId};
use fabricsim_plan::Plan;
use fabricsim_plan::job::{Exchange, Job};
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// A communication as it is when nothing else goes on.
#[derive(Debug, Clone, Default)]
pub struct Rehearsed {
    /// What it takes.
    pub time: Time,
    /// So much of that is over before anything moves: its kernels start.
    pub launch: Time,
    /// What its own group (and groups that are one with it) moves over each link.
    pub loads: Vec<Load>,
    /// Slices that were moved, and events handled, to find out; zero if an exchange that is
    /// alike was simulated instead.
    pub events: u64,
}

/// The link on which a communication has most to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busiest {
    /// Which.
    pub link: LinkId,
    /// How long its bytes take there at least.
    pub time: Time,
    /// Whether the link's rate is what limits them, and not its workers and interfaces.
    pub by_link: bool,
}

impl Rehearsed {
    /// The link on which its bytes take longest, at what links carry; none if nothing moves.
    #[must_use]
    pub fn busiest(&self, rate: impl Fn(LinkId) -> Bandwidth) -> Option<Busiest> {
        let of = |load: &Load| {
            let on_link = load.bytes / (rate(load.link).bytes_per_sec() as f64 * load.kept);
            let at_pace = load.bytes / load.pace.bytes_per_sec() as f64;
            Busiest {
                link: load.link,
                time: Time::from_picos((on_link.max(at_pace) * 1e12).round() as u64),
                by_link: on_link >= at_pace,
            }
        };
        let all = self.loads.iter().map(of);
        all.max_by_key(|busiest| (busiest.time, std::cmp::Reverse(busiest.link)))
    }
}

/// What a communication does on a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Which.
    pub link: LinkId,
    /// Bytes that it moves.
    pub bytes: f64,
    /// The part of its rate that the link keeps meanwhile.
    pub kept: f64,
    /// How fast its workers and interfaces move them at most, whatever the link allows.
    pub pace: Bandwidth,
    /// Workers that send over it; one that sends elsewhere, too, counts by its bytes. Each has one
    /// transfer under way at a time, so that this is how many the link is shared among.
    pub streams: f64,
}

/// Bytes of what a communication does on its links.
#[must_use]
pub fn load_footprint(exchange: &Exchange) -> u64 {
    let Some(plan) = &exchange.plan else { return 0 };
    let links = Outcome::bytes_of_links(plan, &of_own(&exchange.own, plan, |_| 1));
    links.count() as u64 * size_of::<Load>() as u64
}

/// A number for each connection of a plan: what `of` it is for a group's own, 0 for others.
fn of_own(ranges: &[Range<u32>], plan: &Plan, of: impl Fn(usize) -> u64) -> Vec<u64> {
    let is_own = |id: usize| ranges.iter().any(|r| r.contains(&(id as u32)));
    let all = 0..plan.transports.len();
    all.map(|id| if is_own(id) { of(id) } else { 0 }).collect()
}

/// What a simulation of one communication says.
#[derive(Debug)]
struct Alone {
    time: Time,
    connection_bytes: Vec<u64>,
    events: u64,
}

/// What communications take alone, by [`Exchange::alike`]: kept for jobs with the same links at the same
/// rates, whose exchanges were numbered together.
#[derive(Debug, Default)]
pub struct Rehearsals {
    known: BTreeMap<u32, Alone>,
    held: Vec<Held>,
}

/// Simulates every exchange of a job alone, see [`Rehearsals::rehearse`].
///
/// # Errors
/// The first exchange that cannot be simulated.
pub fn rehearse(
    job: &Job,
    rate: impl Fn(LinkId) -> Bandwidth + Sync,
    budget: &Budget,
) -> Result<Vec<Rehearsed>, JobError> {
    Rehearsals::default().rehearse(job, rate, budget)
}

impl Rehearsals {
    /// Simulates every exchange of a job alone, those that are alike once, and those of earlier jobs not
    /// again; on all processors, with the same results for any number of them.
    ///
    /// # Errors
    /// The first exchange that cannot be simulated.
    pub fn rehearse(
        &mut self,
        job: &Job,
        rate: impl Fn(LinkId) -> Bandwidth + Sync,
        budget: &Budget,
    ) -> Result<Vec<Rehearsed>, JobError> {
        let first = first_of_alike(job);
        self.simulate(job, &first, rate, budget)?;
        self.tell(job, &first, budget)
    }

    /// Simulates what is not known.
    fn simulate(
        &mut self,
        job: &Job,
        first: &BTreeMap<u32, (usize, &Plan)>,
        rate: impl Fn(LinkId) -> Bandwidth + Sync,
        budget: &Budget,
    ) -> Result<(), JobError> {
        let new = first
            .iter()
            .filter(|(alike, _)| !self.known.contains_key(alike));
        let work: Vec<(usize, &Plan)> = new.map(|(_, &first)| first).collect();
        let counting = budget.work.part("communications", work.len() as u64);
        let found = threads::each(
            &work,
            Some(budget.threads),
            || (),
            |(), &(_, plan)| {
                let outcome = alone(plan, &rate, budget);
                counting.add(1);
                outcome
            },
        );
        for ((index, _), result) in work.into_iter().zip(found) {
            let exchange = &job.exchanges[index];
            let outcome = result.map_err(|source| JobError::Exchange {
                exchange: exchange.name.clone(),
                source,
            })?;
            let alone = Alone {
                time: outcome.end(),
                connection_bytes: outcome.connection_bytes,
                events: outcome.events,
            };
            let bytes = (alone.connection_bytes.len() * size_of::<u64>()) as u64;
            self.held
                .push(budget.memory.hold(Purpose::Connections, bytes)?);
            self.known.insert(exchange.alike, alone);
        }
        Ok(())
    }

    /// Every exchange of a job, of those that are known.
    fn tell(
        &self,
        job: &Job,
        first: &BTreeMap<u32, (usize, &Plan)>,
        budget: &Budget,
    ) -> Result<Vec<Rehearsed>, JobError> {
        // The same connections of those that are alike load the same links, or those in their stead.
        let mut in_place: FxHashMap<(u32, &[Range<u32>]), Vec<Load>> = FxHashMap::default();
        let rehearsed = job.exchanges.iter().enumerate().map(|(index, exchange)| {
            let known = exchange.plan.as_ref().zip(self.known.get(&exchange.alike));
            known.map_or_else(Rehearsed::default, |(plan, alone)| {
                let key = (exchange.alike, &*exchange.own);
                let loads = in_place
                    .entry(key)
                    .or_insert_with(|| loads(&exchange.own, plan, &alone.connection_bytes));
                Rehearsed {
                    time: alone.time,
                    launch: first_launch(plan),
                    loads: moved(loads, exchange),
                    events: if first.get(&exchange.alike).is_some_and(|f| f.0 == index) {
                        alone.events
                    } else {
                        0
                    },
                }
            })
        });
        let mut all: Vec<Rehearsed> = Vec::with_capacity(job.exchanges.len());
        // Counted as they come; they are held as long as the job, with all else that is.
        let mut bytes = 0;
        for alone in rehearsed {
            bytes += (alone.loads.len() * size_of::<Load>()) as u64;
            budget.memory.expect(Purpose::Loads, bytes)?;
            all.push(alone);
        }
        Ok(all)
    }
}

/// By [`Exchange::alike`]: the first of those that are alike, which speaks for all.
fn first_of_alike(job: &Job) -> BTreeMap<u32, (usize, &Plan)> {
    let mut first: BTreeMap<u32, (usize, &Plan)> = BTreeMap::new();
    for (index, exchange) in job.exchanges.iter().enumerate() {
        if let Some(plan) = &exchange.plan {
            first.entry(exchange.alike).or_insert((index, plan));
        }
    }
    first
}

fn alone(
    plan: &Plan,
    rate: &(impl Fn(LinkId) -> Bandwidth + Sync),
    budget: &Budget,
) -> Result<Outcome, SimError> {
    let options = Options {
        operations: 1,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
        ..Options::default()
    };
    if budget.exact_full {
        simulate(plan, rate, options)
    } else {
        simulate_folded(plan, rate, options)
    }
}

/// How long the kernel takes to start that is the first to.
fn first_launch(plan: &Plan) -> Time {
    let ranks = plan.rank_costs.iter();
    let launches = ranks.map(|&of| plan.costs[usize::from(of)].launch);
    launches.min().unwrap_or(Time::ZERO)
}

/// Loads of the links in whose stead an exchange has its own.
fn moved(loads: &[Load], exchange: &Exchange) -> Vec<Load> {
    let link = |link: LinkId| match &exchange.moved {
        None => Some(link),
        Some(moved) => moved.get(&link).copied(),
    };
    let load = |load: &Load| {
        let link = link(load.link)?;
        Some(Load { link, ..*load })
    };
    loads.iter().filter_map(load).collect()
}

/// What the connections in these ranges do on each link.
fn loads(ranges: &[Range<u32>], plan: &Plan, connection_bytes: &[u64]) -> Vec<Load> {
    if connection_bytes.len() != plan.transports.len() {
        return Vec::new();
    }
    let own = of_own(ranges, plan, |id| connection_bytes[id]);
    let (streams, paces) = senders(plan, &own);
    // Headers are bytes, but no transfers.
    let (num, den) = plan.protocol.wire;
    let unit = f64::from(den) / f64::from(num) / f64::from(STREAM);
    Outcome::bytes_of_links(plan, &own)
        .zip(Outcome::bytes_of_links(plan, &streams))
        .zip(Outcome::bytes_of_links(plan, &paces))
        .map(|(((link, bytes), (_, streams)), (_, pace))| Load {
            link,
            bytes,
            kept: plan.merged.part(link),
            pace: Bandwidth::from_bytes_per_sec(pace as u64),
            streams: streams * unit,
        })
        .collect()
}

/// A worker that sends, in the units of [`senders`].
const STREAM: u32 = 1 << 20;

/// Of each connection: the part of what its worker sends that goes over it, and how many bytes it
/// moves in a second at most. One that sends at all has more than none of both.
fn senders(plan: &Plan, bytes: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let senders: Vec<u32> = (0..bytes.len() as u32)
        .map(|id| plan.program.connection(ConnId(id)).from.0)
        .collect();
    let most = senders.iter().max().map_or(0, |&last| last as usize + 1);
    let mut sent = vec![0u64; most];
    for (&from, &bytes) in senders.iter().zip(bytes) {
        sent[from as usize] += bytes;
    }
    let part = |(&from, &bytes): (&u32, &u64)| {
        let whole = u128::from(sent[from as usize].max(1));
        let part = u128::from(bytes) * u128::from(STREAM) / whole;
        (part as u64).max(u64::from(bytes > 0))
    };
    let streams: Vec<u64> = senders.iter().zip(bytes).map(part).collect();
    let pace = |(id, (&from, &part)): (usize, (&u32, &u64))| {
        if part == 0 {
            return 0;
        }
        let worker = plan.program.worker(WorkerId(from));
        let costs = plan.costs_of(worker);
        let own = costs.slice.at_most(costs.send_rate).bytes_per_sec();
        let own = (u128::from(own) * u128::from(part) / u128::from(STREAM)) as u64;
        let network = plan.transports.get(id).network;
        own.min(network.map_or(u64::MAX, |leg| leg.rate.bytes_per_sec()))
            .max(1)
    };
    let paces = senders.iter().zip(&streams).enumerate().map(pace).collect();
    (streams, paces)
}
