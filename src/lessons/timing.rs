//! When each message goes, on a machine where every rank has one port into a crossbar.

use super::passage::Passage;
use super::{ExplainError, ExplainSpec};
use fabricsim_collective::{Change, ConnId, Program, Walk, WorkerId};
use fabricsim_engine::probe::{Probe, Slice};
use fabricsim_engine::{Options, simulate_with};
use fabricsim_plan::{
    Issue, Plan, Protocol, ProtocolKind, RoleCosts, RouteId, SliceCost, Transport, WorkerCosts,
};
use fabricsim_topology::{DeviceId, Hop, LinkId, Route, Share};
use fabricsim_units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The times of a walk's messages, in its order, and the end of it all.
pub(super) struct Times {
    /// Begin, and arrival at the receiver.
    pub(super) messages: Vec<(Time, Time)>,
    /// When steps of workers that move anything began.
    begins: BTreeMap<(WorkerId, u64), Time>,
    pub(super) end: Time,
}

impl Times {
    /// When a change was made: what came is there when the worker's step begins.
    pub(super) fn of(&self, change: &Change) -> Time {
        self.begins.get(&change.by).copied().unwrap_or_default()
    }
}

/// So fast that it takes no time.
const INSTANT: Bandwidth = Bandwidth::from_bytes_per_sec(1_000_000_000_000_000_000);

pub(super) fn times(
    program: &Arc<dyn Program>,
    walk: &Walk,
    passages: &[Passage],
    spec: &ExplainSpec,
) -> Result<Times, ExplainError> {
    let plan = crossbar(program, passages, spec.latency);
    let mut slices = Slices(vec![Vec::new(); program.workers() as usize]);
    let options = Options {
        operations: 1,
        ..Options::default()
    };
    let outcome = simulate_with(&plan, |_| spec.rate, options, &mut slices)?;
    // Each step that moves anything is one slice, in order.
    let mut slice_of: BTreeMap<(WorkerId, u64), (Time, Time)> = BTreeMap::new();
    for worker in (0..program.workers()).map(WorkerId) {
        let moving = (0..program.steps(worker)).filter(|&i| program.step(worker, i).len > 0);
        for (index, &slice) in moving.zip(&slices.0[worker.index()]) {
            slice_of.insert((worker, index), slice);
        }
    }
    let messages = walk.transfers.iter().map(|transfer| {
        let known = slice_of.get(&transfer.sender).copied();
        let (begin, end) = known.unwrap_or_default();
        (
            begin,
            end + latency(passages[transfer.conn.index()], spec.latency),
        )
    });
    Ok(Times {
        messages: messages.collect(),
        begins: slice_of.iter().map(|(&by, when)| (by, when.0)).collect(),
        end: outcome.end(),
    })
}

/// Begin and end of every worker's slices.
struct Slices(Vec<Vec<(Time, Time)>>);

impl Probe for Slices {
    const ACTIVE: bool = true;
    fn slice(&mut self, slice: &Slice<'_>) {
        if let Some(worker) = self.0.get_mut(slice.actor as usize) {
            worker.push((slice.start, slice.end));
        }
    }
}

/// What a message takes on its way. Into the network's switches it takes nothing: they pass it on as
/// it comes, and what comes out of them has taken all of the way.
fn latency(passage: Passage, latency: Time) -> Time {
    match passage {
        Passage::Inside | Passage::ToNetwork => Time::ZERO,
        _ => latency,
    }
}

/// Each rank has a link out, with its number, and after those of all one in. What switches add up
/// comes in once for all that goes out, what they copy goes out once for all that comes in.
fn crossbar(program: &Arc<dyn Program>, passages: &[Passage], alpha: Time) -> Plan {
    let ranks = program.ranks();
    let mut routes = Vec::new();
    let mut known: BTreeMap<Vec<u32>, RouteId> = BTreeMap::new();
    let transports = (0..program.connections())
        .map(|id| {
            let ends = program.connection(ConnId(id));
            let from = program.worker(ends.from).rank.0;
            let to = program.worker(ends.to).rank.0;
            let (out, into) = (from, ranks + to);
            let links = match passages[id as usize] {
                Passage::Inside | Passage::ToNetwork => vec![],
                Passage::Reduced { first: false, .. } => vec![out],
                Passage::Copied { first: false, .. } => vec![into],
                // The rank that gets a sum has sent its part of it.
                Passage::FromNetwork => vec![to, into],
                _ => vec![out, into],
            };
            let latency = latency(passages[id as usize], alpha);
            let route = (!links.is_empty()).then(|| {
                *known.entry(links).or_insert_with_key(|links| {
                    let hop = |&link| Hop {
                        link: LinkId(link),
                        share: Share::WHOLE,
                    };
                    routes.push(Route {
                        hops: links.iter().map(hop).collect(),
                        latency,
                        ..Route::default()
                    });
                    RouteId(routes.len() as u32 - 1)
                })
            });
            Transport {
                store: route,
                load: None,
                network: None,
                latency,
                credit_latency: Time::ZERO,
            }
        })
        .collect();
    Plan {
        program: Arc::clone(program),
        gpus: (0..ranks).map(DeviceId).collect(),
        protocol: Protocol {
            kind: ProtocolKind::Simple,
            slices_per_chunk: 1,
            min_slice: Bytes::new(16),
            fifo_slices: 8,
            wire: (1, 1),
        },
        routes: Arc::new(routes.into_iter().collect()),
        merged: Arc::default(),
        transports,
        costs: vec![RoleCosts::same(
            Time::ZERO,
            WorkerCosts {
                slice: SliceCost::default(),
                send_rate: INSTANT,
                local_rate: INSTANT,
                streams: 0,
            },
        )],
        rank_costs: vec![0; ranks as usize],
        issue: Issue::FREE,
    }
}
