//! A folded simulation equals the full one: every rank's times to the picosecond, every
//! link's bytes, and how long workers did what.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::collective::{Collective, Matrix, WorkerId};
use fabricsim::engine::{Options, Outcome, simulate, simulate_folded};
use fabricsim::nccl::{Algorithm, Communicator, Env, Forced, Planned};
use fabricsim::plan::{ProtocolKind, Stretch};
use fabricsim::topology::{LinkId, Overrides, Topology, load};
use fabricsim::units::{Bandwidth, Time};
use proptest::prelude::*;

/// Cases with more would take their time, unfolded.
const MOST_STEPS: u64 = 100_000;

const MACHINES: [&str; 10] = [
    "dgx-h100",
    "dgx-a100",
    "a100-quad-slingshot",
    "dgx-1-v100",
    "gh200-quad",
    "dgx-b200",
    "l40s-pcie",
    "gb200-nvl72",
    "gcp-a3-high",
    "x86-h100-pcie",
];

/// Both outcomes: full, folded.
fn both(topology: &Topology, planned: &Planned, operations: u32) -> (Outcome, Outcome) {
    let options = || Options {
        operations,
        ..Options::default()
    };
    let full = simulate(&planned.plan, |l| topology.rate(l), options()).unwrap();
    let folded = simulate_folded(&planned.plan, |l| topology.rate(l), options()).unwrap();
    (full, folded)
}

/// What all workers together spent, by what they did; and limited by any resource.
fn spent(outcome: &Outcome) -> [u128; 8] {
    let mut sum = [0; 8];
    for (bins, workers) in outcome.bins() {
        let limited = bins.limited.iter().map(|&(_, t)| t.picos()).sum();
        let times = [
            bins.launch.picos(),
            bins.latency.picos(),
            bins.wait_data.picos(),
            bins.wait_credit.picos(),
            bins.sync.picos(),
            bins.at_cap.picos(),
            limited,
            bins.idle.picos(),
        ];
        for (sum, time) in sum.iter_mut().zip(times) {
            *sum += u128::from(time) * u128::from(workers);
        }
    }
    sum
}

#[derive(Debug, Clone)]
struct Case {
    machine: &'static str,
    nodes: u32,
    gpus: u32,
    collective: Collective,
    algorithm: Option<Algorithm>,
    protocol: Option<ProtocolKind>,
    bytes: u64,
    operations: u32,
}

fn case() -> impl Strategy<Value = Case> {
    // Kernels on symmetric windows need buffers that are registered so: `nccl/tests/symmetric.rs`.
    let algorithms = Algorithm::ALL.into_iter().filter(|a| !a.is_symmetric());
    let algorithms: Vec<Algorithm> = algorithms.collect();
    let algorithm = prop_oneof![
        1 => Just(None),
        3 => prop::sample::select(algorithms).prop_map(Some)
    ];
    let protocol = prop_oneof![
        1 => Just(None),
        1 => prop::sample::select(&ProtocolKind::ALL[..]).prop_map(Some)
    ];
    let bytes = prop_oneof![
        2 => (3u32..23).prop_map(|bits| 1u64 << bits),
        1 => 1u64..3_000_000,
        1 => (1u64..200).prop_map(|k| k * 12_288),
    ];
    (
        prop::sample::select(&MACHINES[..]),
        1u32..10,
        prop_oneof![1 => Just(8u32), 1 => 1u32..9],
        prop::sample::select(&Collective::ALL[..]),
        (algorithm, protocol),
        bytes,
        1u32..4,
    )
        .prop_map(
            |(machine, nodes, gpus, collective, (algorithm, protocol), bytes, operations)| Case {
                machine,
                nodes,
                gpus,
                collective,
                algorithm,
                protocol,
                bytes,
                operations,
            },
        )
}

/// The plan of a case, if there is one.
fn planned(topology: &Topology, case: &Case) -> Option<Planned> {
    let has = topology
        .nodes
        .iter()
        .map(|n| n.gpus.len())
        .min()
        .unwrap_or(0) as u32;
    let env = Env::parse([("NCCL_COLLNET_ENABLE", "1")]).unwrap();
    let mut comm = Communicator::new(topology, Some(case.gpus.min(has)), &env, 1).ok()?;
    let ranks = comm.ranks();
    if case.collective == Collective::AllToAllV {
        // Everyone sends to all others in the same pattern, or not quite.
        let irregular = case.bytes.is_multiple_of(3);
        let block = |from: u32, to: u32| {
            let base = case.bytes / u64::from(ranks) / 16 * 16;
            if from == to || (irregular && from * to % 3 == 1) {
                0
            } else {
                base
            }
        };
        let rows: Vec<Vec<u64>> = (0..ranks)
            .map(|from| (0..ranks).map(|to| block(from, to)).collect())
            .collect();
        return comm.plan_all_to_all_v(Matrix::new(&rows).ok()?).ok();
    }
    if case.collective.actual_bytes(case.bytes, ranks) == 0 {
        return None;
    }
    let forced = Forced {
        algorithm: case.algorithm,
        protocol: case.protocol,
    };
    let planned = comm.plan(case.collective, case.bytes, forced);
    let planned = planned.or_else(|_| comm.plan(case.collective, case.bytes, Forced::default()));
    let planned = planned.ok().filter(|p| p.bytes > 0)?;
    let program = planned.plan.program.as_ref();
    let steps: u64 = (0..program.workers())
        .map(|w| program.steps(WorkerId(w)))
        .sum();
    (steps * u64::from(case.operations) < MOST_STEPS).then_some(planned)
}

/// A rank (any), by how many microseconds its kernels start late, and by how much its thread blocks
/// are slow: 0.9, 1 or twice as long.
type Slow = Option<(prop::sample::Index, u64, f64)>;

fn slow() -> impl Strategy<Value = Slow> {
    let times = (
        any::<prop::sample::Index>(),
        0u64..4,
        prop::sample::select(vec![0.9, 1.0, 2.0]),
    );
    prop::option::of(times)
}

fn slowed(planned: &mut Planned, slow: Slow) {
    if let Some((rank, late, stretch)) = slow {
        let slow = rank.index(planned.plan.gpus.len());
        let plan = planned.plan.with_slow_ranks(|rank| {
            if rank.index() == slow {
                (Time::from_micros(late), Stretch::new(stretch))
            } else {
                (Time::ZERO, Stretch::NONE)
            }
        });
        planned.plan = plan.unwrap();
    }
}

/// How many ranks a process drives, and how many operations of one it starts in a row.
fn starts() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![1 => Just((1, 1)), 1 => (1u32..9, 1u32..4)]
}

fn started(planned: &mut Planned, (ranks_per_process, in_a_row): (u32, u32)) {
    planned.plan.issue.ranks_per_process = ranks_per_process;
    planned.plan.issue.in_a_row = in_a_row;
}

/// Times, bytes and where time went are the same.
fn same(full: &Outcome, folded: &Outcome, planned: &Planned) -> Result<(), TestCaseError> {
    prop_assert_eq!(&full.finish, &folded.finish);
    prop_assert_eq!(&full.connection_bytes, &folded.connection_bytes);
    let plan = &planned.plan;
    prop_assert_eq!(full.link_bytes(plan), folded.link_bytes(plan));
    prop_assert_eq!(spent(full), spent(folded));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn folded_is_full(case in case(), slow in slow(), starts in starts()) {
        let topology = load(case.machine, &Overrides { nodes: Some(case.nodes) }).unwrap();
        let Some(mut planned) = planned(&topology, &case) else { return Ok(()) };
        slowed(&mut planned, slow);
        started(&mut planned, starts);
        let (full, folded) = both(&topology, &planned, case.operations);
        same(&full, &folded, &planned)?;
        prop_assert!(folded.events <= full.events);
    }
}

/// A ring of equal blocks, in one loop or several: most of it repeats itself.
fn ring_case() -> impl Strategy<Value = Case> {
    let sizes = (4u32..13, prop_oneof![2 => Just(0u64), 1 => 1u64..4]);
    let collectives = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::Reduce,
    ];
    (
        prop::sample::select(&["dgx-h100", "dgx-a100", "gh200-quad", "superpod-h100"][..]),
        1u32..17,
        prop::sample::select(collectives.to_vec()),
        prop::option::of(prop::sample::select(&ProtocolKind::ALL[..])),
        sizes,
        1u32..4,
    )
        .prop_map(
            |(machine, nodes, collective, protocol, (bits, odd), operations)| Case {
                machine,
                nodes,
                gpus: 8,
                collective,
                algorithm: Some(Algorithm::Ring),
                protocol,
                bytes: (u64::from(nodes) << (bits + 9)) + odd * 4096,
                operations,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn skipped_is_full(case in ring_case(), slow in slow(), starts in starts()) {
        let topology = load(case.machine, &Overrides { nodes: Some(case.nodes) }).unwrap();
        let Some(mut planned) = planned(&topology, &case) else { return Ok(()) };
        slowed(&mut planned, slow);
        started(&mut planned, starts);
        let (full, folded) = both(&topology, &planned, case.operations);
        same(&full, &folded, &planned)?;
        prop_assert_eq!(full.skipped, 0);
    }
}

/// A ring whose last blocks are shorter, over enough nodes that most of them do the same.
fn uneven_ring_case() -> impl Strategy<Value = Case> {
    let machines = [
        "dgx-h100",
        "dgx-a100",
        "gh200-quad",
        "superpod-h100",
        "a100-quad-slingshot",
        "x86-h100-pcie",
    ];
    (
        prop::sample::select(machines.to_vec()),
        8u32..25,
        1u32..5,
        prop::option::of(prop::sample::select(&ProtocolKind::ALL[..])),
        (10u32..24, 1u64..1_000_000),
        1u32..4,
    )
        .prop_map(
            |(machine, nodes, gpus, protocol, (bits, odd), operations)| Case {
                machine,
                nodes,
                gpus,
                collective: Collective::AllReduce,
                algorithm: Some(Algorithm::Ring),
                protocol,
                bytes: (1 << bits) + odd % (1 << bits),
                operations,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Some link or none is half as fast, and some rank or none is slow.
    #[test]
    fn herds_are_full(
        case in uneven_ring_case(),
        link in prop::option::of(any::<prop::sample::Index>()),
        rank in slow(),
    ) {
        let topology = load(case.machine, &Overrides { nodes: Some(case.nodes) }).unwrap();
        let Some(mut planned) = planned(&topology, &case) else { return Ok(()) };
        slowed(&mut planned, rank);
        let links = planned.plan.routes.links().max(1);
        let slow = link.map(|link| link.index(links));
        let rate = |link: LinkId| {
            let rate = topology.rate(link);
            let part = if slow == Some(link.index()) { 2 } else { 1 };
            Bandwidth::from_bytes_per_sec(rate.bytes_per_sec() / part)
        };
        let options = || Options { operations: case.operations, ..Options::default() };
        let full = simulate(&planned.plan, rate, options()).unwrap();
        let folded = simulate_folded(&planned.plan, rate, options()).unwrap();
        same(&full, &folded, &planned)?;
    }
}

#[test]
fn most_of_an_uneven_ring_is_known_from_others() {
    for (machine, nodes, protocol) in [
        ("superpod-h100", 128, ProtocolKind::Ll128),
        ("superpod-h100", 128, ProtocolKind::Ll),
        ("gh200-quad", 128, ProtocolKind::Simple),
    ] {
        let nodes = Some(nodes);
        let topology = load(machine, &Overrides { nodes }).unwrap();
        let mut comm = Communicator::new(&topology, Some(1), &Env::default(), 1).unwrap();
        let forced = Forced {
            algorithm: Some(Algorithm::Ring),
            protocol: Some(protocol),
        };
        let planned = comm.plan(Collective::AllReduce, 9_999_999, forced).unwrap();
        assert!(planned.plan.program.evened().is_some());
        let (full, folded) = both(&topology, &planned, 2);
        assert_eq!(full.finish, folded.finish);
        assert_eq!(spent(&full), spent(&folded));
        assert!(
            folded.skipped > folded.events,
            "{machine} {protocol:?}: {} of {} events left",
            folded.events,
            full.events
        );
    }
}

/// Long pipelines of equal chunks, the last of them shorter or not: after some chunks the state
/// comes back.
fn pipeline_case() -> impl Strategy<Value = Case> {
    let algorithms = [
        Algorithm::Tree,
        Algorithm::Nvls,
        Algorithm::NvlsTree,
        Algorithm::CollnetChain,
        Algorithm::CollnetDirect,
    ];
    let bytes = (
        20u32..28,
        prop_oneof![2 => Just(0u64), 1 => 1u64..1_000_000],
    );
    (
        prop::sample::select(&["dgx-h100", "dgx-a100", "gh200-quad", "superpod-h100"][..]),
        1u32..9,
        prop_oneof![Just(8u32), 1u32..9],
        prop::sample::select(algorithms.to_vec()),
        prop::option::of(prop::sample::select(&ProtocolKind::ALL[..])),
        bytes,
        1u32..4,
    )
        .prop_map(
            |(machine, nodes, gpus, algorithm, protocol, (bits, odd), operations)| Case {
                machine,
                nodes,
                gpus,
                collective: Collective::AllReduce,
                algorithm: Some(algorithm),
                protocol,
                bytes: (1 << bits) + odd,
                operations,
            },
        )
}

/// A message or two of each rank, of many chunks.
fn message_case() -> impl Strategy<Value = Case> {
    let collectives: Vec<Collective> = Collective::ALL
        .into_iter()
        .filter(|c| c.is_point_to_point() && *c != Collective::AllToAllV)
        .collect();
    (
        prop::sample::select(&["dgx-h100", "dgx-1-v100", "gh200-quad", "l40s-pcie"][..]),
        (1u32..3, 1u32..5),
        prop::sample::select(collectives),
        prop::option::of(prop::sample::select(&ProtocolKind::ALL[..])),
        (20u32..29, 0u64..3),
        1u32..4,
    )
        .prop_map(
            |(machine, (nodes, gpus), collective, protocol, (bits, odd), operations)| Case {
                machine,
                nodes,
                gpus,
                collective,
                algorithm: None,
                protocol,
                bytes: (1 << bits) + odd * 77_777,
                operations,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn skipped_pipeline_is_full(case in prop_oneof![2 => pipeline_case(), 1 => message_case()]) {
        let topology = load(case.machine, &Overrides { nodes: Some(case.nodes) }).unwrap();
        let Some(planned) = planned(&topology, &case) else { return Ok(()) };
        let (full, folded) = both(&topology, &planned, case.operations);
        same(&full, &folded, &planned)?;
    }
}

#[test]
fn a_long_pipeline_is_mostly_skipped() {
    for (machine, nodes, collective, algorithm, bytes) in [
        (
            "gh200-quad",
            8,
            Collective::AllReduce,
            Some(Algorithm::Tree),
            1 << 30,
        ),
        (
            "dgx-h100",
            1,
            Collective::AllReduce,
            Some(Algorithm::Nvls),
            // Queues between its stages fill for some hundred loops.
            1 << 34,
        ),
        (
            "superpod-h100",
            8,
            Collective::AllReduce,
            Some(Algorithm::NvlsTree),
            1 << 34,
        ),
    ] {
        let nodes = Some(nodes);
        let topology = load(machine, &Overrides { nodes }).unwrap();
        let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let forced = Forced {
            algorithm,
            protocol: None,
        };
        let planned = comm.plan(collective, bytes, forced).unwrap();
        let folded =
            simulate_folded(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
        assert!(
            folded.skipped > folded.events,
            "{machine} {algorithm:?}: {} skipped, {} simulated",
            folded.skipped,
            folded.events
        );
    }
}

#[test]
fn a_long_ring_is_mostly_skipped() {
    let nodes = Some(32);
    let topology = load("dgx-h100", &Overrides { nodes }).unwrap();
    let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
    let forced = Forced {
        algorithm: Some(Algorithm::Ring),
        protocol: None,
    };
    let planned = comm.plan(Collective::AllReduce, 1 << 28, forced).unwrap();
    let (full, folded) = both(&topology, &planned, 2);
    assert_eq!(full.finish, folded.finish);
    assert_eq!(spent(&full), spent(&folded));
    assert!(
        folded.skipped > 9 * folded.events,
        "{} skipped, {} simulated",
        folded.skipped,
        folded.events
    );
}

#[test]
fn ring_workers_of_many_nodes_are_few() {
    for (machine, nodes, most) in [
        ("dgx-h100", 64, 256),
        ("dgx-a100", 32, 256),
        ("gh200-quad", 32, 128),
    ] {
        let topology = load(machine, &Overrides { nodes: Some(nodes) }).unwrap();
        let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        for collective in [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
        ] {
            let forced = Forced {
                algorithm: Some(Algorithm::Ring),
                protocol: None,
            };
            let planned = comm.plan(collective, 1 << 24, forced).unwrap();
            let folded =
                simulate_folded(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
            let workers = planned.plan.program.workers();
            assert!(
                folded.workers.len() <= most,
                "{machine} {collective}: {workers} workers, {} classes",
                folded.workers.len()
            );
        }
    }
}

/// Messages that wait for a proxy's handshakes begin to move long after they are there: two proxies
/// that were given theirs at different times, both of them over, do not do the same.
#[test]
fn proxies_remember_when_messages_came() {
    let case = Case {
        machine: "gh200-quad",
        nodes: 7,
        gpus: 2,
        collective: Collective::AllReduce,
        algorithm: Some(Algorithm::Ring),
        protocol: Some(ProtocolKind::Ll128),
        bytes: 33_903_524,
        operations: 2,
    };
    let nodes = Some(case.nodes);
    let topology = load(case.machine, &Overrides { nodes }).unwrap();
    let planned = planned(&topology, &case).unwrap();
    let (full, folded) = both(&topology, &planned, case.operations);
    same(&full, &folded, &planned).unwrap();
    // It was the herds that took one for the other.
    assert!(folded.skipped > 0);
}
