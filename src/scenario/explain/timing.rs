//! When each message goes, on a machine where every rank has one port into a crossbar.

use super::{ExplainError, ExplainSpec};
use crate::collective::{Program, Walk, WorkerId};
use crate::engine::probe::{Probe, Slice};
use crate::engine::{Options, simulate_with};
use crate::plan::{
    Issue, Plan, Protocol, ProtocolKind, RoleCosts, RouteId, SliceCost, Transport, WorkerCosts,
};
use crate::topology::{DeviceId, Hop, LinkId, Route, Share};
use crate::units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The times of a walk's messages, in its order, and the end of it all.
pub(super) struct Times {
    /// Begin, and arrival at the receiver.
    pub(super) messages: Vec<(Time, Time)>,
    pub(super) end: Time,
}

/// So fast that it takes no time.
const INSTANT: Bandwidth = Bandwidth::from_bytes_per_sec(1_000_000_000_000_000_000);

pub(super) fn times(
    program: &Arc<dyn Program>,
    walk: &Walk,
    spec: &ExplainSpec,
) -> Result<Times, ExplainError> {
    let plan = crossbar(program, spec.latency);
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
        (begin, end + spec.latency)
    });
    Ok(Times {
        messages: messages.collect(),
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

fn crossbar(program: &Arc<dyn Program>, latency: Time) -> Plan {
    let ranks = program.ranks();
    let mut routes = Vec::new();
    let mut known: BTreeMap<(u32, u32), RouteId> = BTreeMap::new();
    let transports = (0..program.connections())
        .map(|id| {
            let ends = program.connection(crate::collective::ConnId(id));
            let from = program.worker(ends.from).rank.0;
            let to = program.worker(ends.to).rank.0;
            let route = *known.entry((from, to)).or_insert_with(|| {
                let hop = |link| Hop {
                    link: LinkId(link),
                    share: Share::WHOLE,
                };
                routes.push(Route {
                    hops: vec![hop(from), hop(ranks + to)],
                    latency,
                    ..Route::default()
                });
                RouteId(routes.len() as u32 - 1)
            });
            Transport {
                store: Some(route),
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
