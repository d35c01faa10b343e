//! Small plans made by hand on a real machine, and NCCL's on several.

mod large;
mod machines;
mod paths;

use super::*;
use fabricsim_collective::{Collective, ConnId, Part, Program, RingProgram, Rings, WorkerId};
use fabricsim_engine::path::CriticalPath;
use fabricsim_engine::{Options, simulate_folded_with, simulate_with};
use fabricsim_plan::{
    Issue, Later, MessageCost, NetworkLeg, Protocol, ProtocolKind, RoleCosts, RouteId, Routes,
    SliceCost, Transport, Transports, WorkerCosts,
};
use fabricsim_report::cause::{Cause, Causes, Method};
use fabricsim_report::record::{Activity, Doing, Lane, Part as TimePart, PartKind, Span, Track};
use fabricsim_topology::{Hop, LinkId, Overrides, Route, Router, Share, load};
use fabricsim_units::{Bandwidth, Bytes};
use std::collections::BTreeMap;
use std::sync::Arc;

const INSTANT: Bandwidth = Bandwidth::from_bytes_per_sec(1_000_000_000_000_000_000);

fn us(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn machine(name: &str, nodes: u32) -> Topology {
    load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

/// What the steps of a plan cost; everything else is instant.
#[derive(Debug, Clone, Copy)]
struct Costs {
    latency: Time,
    launch: Time,
    sync: Time,
    slots: u32,
    wire: (u32, u32),
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            latency: Time::ZERO,
            launch: Time::ZERO,
            sync: Time::ZERO,
            slots: 8,
            wire: (1, 1),
        }
    }
}

/// A ring over the first GPUs of a machine by NVLink, one slice a chunk.
fn nvlink_plan(
    topology: &Topology,
    collective: Collective,
    ranks: u32,
    bytes: u64,
    chunk: u64,
    costs: Costs,
) -> Plan {
    let len = match collective {
        Collective::AllGather | Collective::ReduceScatter => bytes / u64::from(ranks),
        _ => bytes,
    };
    let parts = vec![Part {
        offset: 0,
        len,
        chunk,
    }];
    let rings = Arc::new(Rings::consecutive(ranks, 1));
    let program = RingProgram::new(collective, bytes, rings, parts);
    let gpus: Vec<_> = topology.gpus().take(ranks as usize).collect();
    let router = Router::new(topology, 0);
    let mut routes = Vec::new();
    let mut transports = Transports::default();
    for connection in 0..program.connections() {
        let ends = program.connection(ConnId(connection));
        let gpu = |worker| gpus[program.worker(worker).rank.index()];
        routes.push(router.peer(gpu(ends.from), gpu(ends.to)).unwrap());
        transports.push(Transport {
            store: Some(RouteId(connection)),
            load: None,
            network: None,
            latency: costs.latency,
            credit_latency: costs.latency,
        });
    }
    Plan {
        program: Arc::new(program),
        gpus,
        protocol: Protocol {
            kind: ProtocolKind::Simple,
            slices_per_chunk: 1,
            min_slice: Bytes::new(16),
            fifo_slices: costs.slots,
            wire: costs.wire,
        },
        routes: Arc::new(routes.into_iter().collect()),
        merged: Arc::default(),
        transports,
        costs: vec![RoleCosts::same(
            costs.launch,
            WorkerCosts {
                slice: SliceCost::flat(costs.sync),
                send_rate: INSTANT,
                local_rate: INSTANT,
                streams: 0,
            },
        )],
        rank_costs: vec![0; ranks as usize],
        issue: Issue::FREE,
    }
}

/// A broadcast from one node's GPU to the other's, from NIC to NIC.
fn network_plan(topology: &Topology, chunk: u64, overhead: Time, costs: Costs) -> Plan {
    let mut plan = nvlink_plan(topology, Collective::Broadcast, 2, 8_000_000, chunk, costs);
    plan.gpus = topology.nodes.iter().map(|n| n.gpus[0]).collect();
    let nic = |node: usize| topology.nodes[node].nics[0];
    let hop = |link| Hop {
        link,
        share: Share::WHOLE,
    };
    let is_network = |l: &LinkId| topology.family(*l) == fabricsim_topology::LinkFamily::Network;
    let (out, switch) = topology
        .links_from(nic(0))
        .into_iter()
        .find(|(l, _)| is_network(l))
        .unwrap();
    let (into, _) = topology
        .links_from(switch)
        .into_iter()
        .find(|&(_, far)| far == nic(1))
        .unwrap();
    plan.routes = Arc::new(Routes::from_iter([Route {
        hops: vec![hop(out), hop(into)],
        latency: Time::ZERO,
        ..Route::default()
    }]));
    let leg = NetworkLeg {
        route: RouteId(0),
        post_latency: Time::ZERO,
        message: MessageCost::flat(overhead),
        later: Later::NEVER,
        rate: INSTANT,
        ahead: 0,
    };
    let transports = plan.transports.iter().enumerate();
    plan.transports = transports
        .map(|(id, transport)| Transport {
            store: None,
            network: (id == 0).then_some(leg),
            ..transport
        })
        .collect();
    plan
}

fn record_with(
    topology: &Topology,
    plan: &Plan,
    operations: u32,
    limits: Limits,
    rate: impl Fn(LinkId) -> Bandwidth,
) -> (Record, Outcome) {
    let mut recorder = Recorder::new(plan, limits);
    let options = Options {
        operations,
        ..Options::default()
    };
    let outcome = simulate_with(plan, &rate, options, &mut recorder).unwrap();
    let mut record = recorder.finish(topology, &outcome, &|_, _| None);
    let [full, folded] = [false, true].map(|folds| {
        let path = CriticalPath::default();
        causes_of(topology, plan, (operations, folds), path, &rate)
    });
    assert_eq!(folded.total(), outcome.end());
    // Under test, most folded runs count as large enough for several processors.
    if folded.method == full.method {
        assert_alike(&full, &folded);
    }
    record.attribution.critical_path = full
        .parts
        .iter()
        .map(|part| TimePart {
            kind: PartKind::from(&part.cause),
            what: label(&part.cause),
            time: part.time(),
            fraction: part.us / outcome.end().micros(),
        })
        .collect();
    (record, outcome)
}

/// The causes of all operations together.
fn causes_of(
    topology: &Topology,
    plan: &Plan,
    (operations, folds): (u32, bool),
    mut path: CriticalPath,
    rate: &dyn Fn(LinkId) -> Bandwidth,
) -> Causes {
    let options = Options {
        operations,
        ..Options::default()
    };
    let outcome = if folds {
        simulate_folded_with(plan, rate, options, &mut path)
    } else {
        simulate_with(plan, rate, options, &mut path)
    };
    let outcome = outcome.unwrap();
    let end = outcome.end();
    let times = path.walk(&outcome, end);
    causes(topology, (&outcome, times.as_ref()), end, &|_| false)
}

/// One path is the other's, but for which of several equally long ones it is.
#[track_caller]
fn assert_alike(full: &Causes, folded: &Causes) {
    let of = |causes: &Causes, cause: &Cause| {
        let part = causes.parts.iter().find(|part| part.cause == *cause);
        part.map_or(0.0, |part| part.us)
    };
    let kind = |cause: &Cause| matches!(cause, Cause::Links { .. });
    for part in full.parts.iter().filter(|part| !kind(&part.cause)) {
        let other = of(folded, &part.cause);
        let whole = full.total().micros();
        assert!(
            (part.us - other).abs() <= 0.02 * whole,
            "{full:?}\n{folded:?}"
        );
    }
}

fn record(topology: &Topology, plan: &Plan, operations: u32) -> (Record, Outcome) {
    let limits = Limits::WHOLE;
    record_with(topology, plan, operations, limits, |l| topology.rate(l))
}

fn sum(parts: &[TimePart]) -> Time {
    parts.iter().map(|p| p.time).sum()
}

fn share(parts: &[TimePart], what: &str) -> f64 {
    parts
        .iter()
        .find(|p| p.what == what)
        .map_or(0.0, |p| p.fraction)
}

fn time(parts: &[TimePart], what: &str) -> Time {
    parts
        .iter()
        .find(|p| p.what == what)
        .map_or(Time::ZERO, |p| p.time)
}

/// What holds of every record.
#[track_caller]
fn assert_consistent(topology: &Topology, plan: &Plan, record: &Record, outcome: &Outcome) {
    let end = outcome.end();
    let workers = u64::from(plan.program.workers());
    let attribution = &record.attribution;
    assert_eq!(
        sum(&attribution.total).picos(),
        end.picos() * workers,
        "total"
    );
    assert_eq!(sum(&attribution.critical_path), end, "critical path");
    let ranks: u64 = attribution.ranks.iter().map(|r| sum(r).picos()).sum();
    assert_eq!(ranks, end.picos() * workers, "ranks");
    let names = |parts: &[TimePart]| parts.iter().map(|p| p.what.clone()).collect::<Vec<_>>();
    for rank in &attribution.ranks {
        assert_eq!(names(rank), names(&attribution.total));
    }
    for waits in ["waiting for data", "waiting for credit", "finished"] {
        assert_eq!(time(&attribution.critical_path, waits), Time::ZERO);
    }
    assert_spans(&record.timeline, outcome, plan);
    assert_links(topology, plan, record, outcome);
}

/// Workers' spans fill the time without gaps, proxies' do not overlap; each activity takes
/// what the engine says.
#[track_caller]
fn assert_spans(timeline: &Timeline, outcome: &Outcome, plan: &Plan) {
    let mut filled: BTreeMap<(u32, Track), Time> = BTreeMap::new();
    let mut spent: BTreeMap<(u32, Activity), Time> = BTreeMap::new();
    for span in &timeline.spans {
        assert!(span.start < span.end);
        let end = filled.entry((span.rank, span.track)).or_default();
        match span.track {
            Track::Worker(..) => {
                assert_eq!(*end, span.start, "{span:?}");
                *spent.entry((span.rank, span.doing.activity())).or_default() +=
                    span.end - span.start;
            }
            Track::Proxy(_) => assert!(*end <= span.start, "{span:?} after {end}"),
        }
        *end = span.end;
    }
    assert_messages(timeline);
    let mut expected: BTreeMap<(u32, Activity), Time> = BTreeMap::new();
    for (worker, bins) in (0..).zip(&outcome.workers) {
        let place = plan.program.worker(WorkerId(worker));
        if place.rank.index() >= timeline.ranks.len() {
            continue;
        }
        let lane = super::cast::places(plan.program.as_ref())[worker as usize].lane;
        let track = (place.rank.0, Track::Worker(place.channel, lane));
        assert_eq!(filled.get(&track), Some(&outcome.end()), "{track:?}");
        let limited: Time = bins.limited.iter().map(|&(_, t)| t).sum();
        for (activity, time) in [
            (Activity::Launch, bins.launch),
            (Activity::Latency, bins.latency),
            (Activity::WaitData, bins.wait_data),
            (Activity::WaitCredit, bins.wait_credit),
            (Activity::Sync, bins.sync),
            (Activity::Stream, bins.at_cap + limited),
            (Activity::Idle, bins.idle),
        ] {
            if time > Time::ZERO {
                *expected.entry((place.rank.0, activity)).or_default() += time;
            }
        }
    }
    // Bytes that move as passes do are passes in the bins, but have a span.
    if plan.protocol.kind != ProtocolKind::Simple {
        for times in [&mut spent, &mut expected] {
            for rank in 0..timeline.ranks.len() as u32 {
                let moving = times.remove(&(rank, Activity::Stream));
                *times.entry((rank, Activity::Sync)).or_default() += moving.unwrap_or_default();
            }
        }
    }
    assert_eq!(spent, expected);
}

/// Messages go forward in time, from a span in which bytes move to another one.
#[track_caller]
fn assert_messages(timeline: &Timeline) {
    let moves = timeline.spans.iter();
    let moves = moves.filter(|span| matches!(span.doing, Doing::Moves(_)));
    let moves: BTreeMap<_, _> = moves.map(|s| ((s.rank, s.track, s.start), s.end)).collect();
    for ends in &timeline.messages {
        assert!((2..=3).contains(&ends.len()));
        for end in ends {
            let mut until = moves.range(..=(end.rank, end.track, end.at));
            let (&(rank, track, _), until) = until.next_back().unwrap();
            assert!((rank, track) == (end.rank, end.track) && end.at < *until);
        }
        assert!(
            ends.windows(2).all(|pair| pair[0].at <= pair[1].at),
            "{ends:?}"
        );
    }
}

/// Bins of links add up to what the links carried.
#[track_caller]
fn assert_links(topology: &Topology, plan: &Plan, record: &Record, outcome: &Outcome) {
    let bytes = outcome.link_bytes(plan);
    assert_eq!(record.links.len(), bytes.len());
    assert_eq!(record.timeline.links.len(), bytes.len());
    let uses = record.links.iter().zip(&record.timeline.links);
    for ((link, bytes), (total, series)) in bytes.into_iter().zip(uses) {
        assert_eq!(total.name, topology.link_name(link));
        assert_eq!(series.name, total.name);
        assert_eq!(total.bytes, bytes);
        let sum: f64 = series.bytes.iter().sum();
        let error = (sum - bytes.get() as f64).abs();
        assert!(
            error <= 0.5 + 1e-9 * sum,
            "{}: {sum} not {bytes}",
            series.name
        );
        assert!(total.utilisation > 0.0 && total.utilisation <= 1.000_001);
    }
}
