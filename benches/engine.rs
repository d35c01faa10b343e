//! The engine's parts, and a ring all-reduce unfolded. Events and transfers per second
//! are printed by `--verbose` runs of the scale group as criterion's throughput.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fabricsim::collective::{Collective, ConnId, Part, Program, RingProgram, Rings};
use fabricsim::engine::queue::EventQueue;
use fabricsim::engine::resources::Resources;
use fabricsim::engine::sharing::Sharing;
use fabricsim::engine::{Options, simulate};
use fabricsim::plan::{
    Issue, Later, MessageCost, NetworkLeg, Plan, Protocol, ProtocolKind, RoleCosts, RouteId,
    Routes, SliceCost, Transport, WorkerCosts,
};
use fabricsim::topology::{DeviceId, Hop, LinkId, Route, Share};
use fabricsim::units::{Bandwidth, Bytes, Time};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Pops an instant and pushes each event again, `held` events in all, with delays that
/// are spread or of four values (lockstep).
fn event_queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("event-queue/hold");
    for held in [1_000u64, 100_000] {
        for (name, mask) in [("spread", u64::MAX), ("lockstep", 3)] {
            group.throughput(Throughput::Elements(held));
            group.bench_function(BenchmarkId::new(name, held), |b| {
                let mut state = 1u64;
                let mut delay = move || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    ((state >> 40) & mask) * 1000 + 1000
                };
                let mut queue = EventQueue::new();
                (0..held).for_each(|i| queue.push(delay(), i));
                let mut batch = Vec::new();
                b.iter(|| {
                    let mut popped = 0;
                    while popped < held {
                        let Some(now) = queue.pop_instant(&mut batch) else {
                            break;
                        };
                        popped += batch.len() as u64;
                        batch.iter().for_each(|&i| queue.push(now + delay(), i));
                    }
                });
            });
        }
    }
    group.finish();
}

fn route(links: &[u32]) -> Route {
    let hops = links
        .iter()
        .map(|&l| Hop {
            link: LinkId(l),
            share: Share::WHOLE,
        })
        .collect();
    Route {
        hops,
        latency: Time::from_nanos(500),
        ..Route::default()
    }
}

/// One solve from nothing.
fn sharing(c: &mut Criterion) {
    let mut group = c.benchmark_group("sharing/solve");
    for ports in [8u32, 64, 256] {
        // All-to-all on a crossbar: out of port i (link i), into port j (link ports + j).
        let pairs = (0..ports)
            .flat_map(|i| (0..ports).map(move |j| (i, j)))
            .filter(|(i, j)| i != j);
        let routes: Routes = pairs.map(|(i, j)| route(&[i, ports + j])).collect();
        let resources = Resources::new(&routes, (1, 1), |_| Bandwidth::from_gb_per_sec(400));
        group.throughput(Throughput::Elements(routes.len() as u64));
        group.bench_function(BenchmarkId::new("crossbar", routes.len()), |b| {
            b.iter(|| {
                let mut sharing = Sharing::new(&resources, routes.len());
                for flow in 0..routes.len() as u32 {
                    sharing.start(&resources, flow, flow, u64::MAX);
                }
                let mut changed = Vec::new();
                sharing.solve(&mut changed);
                black_box(changed.len())
            });
        });
    }
    group.finish();
}

/// Ring all-reduce on nodes of eight: sixteen channels; inside a node over one port each
/// way per GPU, between nodes by a proxy and a NIC for every two channels.
fn nodes_of_eight(ranks: u32, bytes: u64) -> Plan {
    let channels = 16u16;
    // Channel pairs enter and leave by different NICs: the start GPU moves on.
    let orders = (0..8u32)
        .map(|start| {
            (0..ranks)
                .map(|p| {
                    let (node, at) = (p / 8, p % 8);
                    let forward = (start / 2 * 2 + at) % 8;
                    let backward = (start / 2 * 2 + 7 - at) % 8;
                    node * 8
                        + if (start + node) % 2 == 0 {
                            forward
                        } else {
                            backward
                        }
                })
                .collect()
        })
        .collect();
    let rings = Rings::new(orders, (0..channels).map(|c| c % 8).collect()).expect("permutations");
    let each = bytes / u64::from(channels);
    let parts = (0..u64::from(channels))
        .map(|c| Part {
            offset: c * each,
            len: each,
            chunk: 2 << 20,
        })
        .collect();
    let program = RingProgram::new(Collective::AllReduce, bytes, Arc::new(rings), parts);
    // Links: 0.. out of GPUs, ranks.. into GPUs, 2 ranks.. out of NICs, 3 ranks.. into NICs.
    let (mut routes, mut transports) = (Vec::new(), Vec::new());
    for c in 0..program.connections() {
        let ends = program.connection(ConnId(c));
        let (from, to) = (
            program.worker(ends.from).rank.0,
            program.worker(ends.to).rank.0,
        );
        let id = RouteId(routes.len() as u32);
        let latency = Time::from_nanos(700);
        let direct = from / 8 == to / 8;
        let links = if direct {
            [from, ranks + to]
        } else {
            [2 * ranks + from, 3 * ranks + to]
        };
        routes.push(route(&links));
        transports.push(Transport {
            store: direct.then_some(id),
            load: None,
            network: (!direct).then_some(NetworkLeg {
                route: id,
                post_latency: latency,
                message: MessageCost::flat(Time::from_nanos(1000)),
                later: Later::NEVER,
                rate: Bandwidth::from_gb_per_sec(50),
                ahead: 0,
            }),
            latency,
            credit_latency: latency,
        });
    }
    Plan {
        program: Arc::new(program),
        gpus: (0..ranks).map(DeviceId).collect(),
        protocol: Protocol {
            kind: ProtocolKind::Simple,
            slices_per_chunk: 2,
            min_slice: Bytes::from_kib(32),
            fifo_slices: 4,
            wire: (1, 1),
        },
        routes: Arc::new(routes.into_iter().collect()),
        merged: Arc::default(),
        transports: transports.into_iter().collect(),
        costs: vec![RoleCosts::same(
            Time::from_micros(10),
            WorkerCosts {
                slice: SliceCost::flat(Time::from_nanos(1200)),
                send_rate: Bandwidth::from_gb_per_sec(25),
                local_rate: Bandwidth::from_gb_per_sec(49),
                streams: 0,
            },
        )],
        rank_costs: vec![0; ranks as usize],
        issue: Issue::FREE,
    }
}

fn ring(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring-all-reduce-1GiB/unfolded");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    for ranks in [8u32, 64, 1024] {
        let plan = nodes_of_eight(ranks, 1 << 30);
        let rate =
            |link: LinkId| Bandwidth::from_gb_per_sec(if link.0 < 2 * ranks { 371 } else { 49 });
        let outcome = simulate(&plan, rate, Options::default()).expect("it runs");
        eprintln!(
            "{ranks} ranks: {} events, {} transfers, {}",
            outcome.events,
            outcome.transfers,
            outcome.end().human()
        );
        group.throughput(Throughput::Elements(outcome.events));
        group.bench_function(BenchmarkId::from_parameter(ranks), |b| {
            b.iter(|| {
                simulate(&plan, rate, Options::default())
                    .expect("it runs")
                    .events
            });
        });
    }
    group.finish();
}

criterion_group!(benches, event_queue, sharing, ring);
criterion_main!(benches);
