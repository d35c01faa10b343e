//! What is chosen, size by size, and why.

use super::*;

fn communicator_test(
    name: &str,
    (nodes, per_node): (u32, Option<u32>),
    variables: &[(&str, &str)],
    check: impl FnOnce(&mut Communicator<'_>),
) {
    let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
    let env = Env::parse(variables.iter().copied()).unwrap();
    let mut comm = Communicator::new(&topology, per_node, &env, 1).unwrap();
    check(&mut comm);
}

/// The choices from 8 B to 8 GiB, each with the first size that it is made for.
fn choices(
    name: &str,
    shape: (u32, Option<u32>),
    variables: &[(&str, &str)],
    collective: Collective,
) -> Vec<(Algorithm, ProtocolKind, u64)> {
    let mut all: Vec<(Algorithm, ProtocolKind, u64)> = Vec::new();
    communicator_test(name, shape, variables, |comm| {
        for power in 3..=33 {
            let (algorithm, protocol) = comm
                .choose(collective, 1 << power, Forced::default())
                .unwrap();
            if all
                .last()
                .is_none_or(|l| (l.0, l.1) != (algorithm, protocol))
            {
                all.push((algorithm, protocol, 1 << power));
            }
        }
    });
    all
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Must-show of the issue: LL then NVLS by default, LL then LL128 then Simple with the ring.
/// Published: LL to NVLS between 1 and 2 MiB on 8 x H100 and between 2 and 4 MiB on 8 x
/// B200; ring LL128 to Simple between 32 and 64 MiB on 8 x H100 (calibration tables of
/// together-nccl-tests, aws p5, vultr).
#[test]
fn one_node_changes_algorithms_where_published_tables_do() {
    use Algorithm::{Nvls, Ring};
    use ProtocolKind::{Ll, Ll128, Simple};
    let h100 = choices("dgx-h100", (1, None), &[], Collective::AllReduce);
    assert_eq!(h100, [(Ring, Ll, 8), (Nvls, Simple, 2 * MIB)]);
    let b200 = choices("dgx-b200", (1, None), &[], Collective::AllReduce);
    assert_eq!(b200, [(Ring, Ll, 8), (Nvls, Simple, 4 * MIB)]);
    let ring = choices(
        "dgx-h100",
        (1, None),
        &[("NCCL_ALGO", "Ring")],
        Collective::AllReduce,
    );
    let order: Vec<_> = ring.iter().map(|c| c.1).collect();
    assert_eq!(order, [Ll, Ll128, Simple]);
    assert_eq!(ring[2].2, 64 * MIB);
    // Without switches that reduce.
    let a100 = choices("dgx-a100", (1, None), &[], Collective::AllReduce);
    assert!(
        a100.iter().all(|c| matches!(c.0, Ring | Algorithm::Tree)),
        "{a100:?}"
    );
}

#[test]
fn several_nodes_take_trees_when_small() {
    use Algorithm::{NvlsTree, Tree};
    let h100 = choices("dgx-h100", (2, None), &[], Collective::AllReduce);
    assert_eq!((h100[0].0, h100[0].1), (Tree, ProtocolKind::Ll));
    assert_eq!(h100.last().unwrap().0, NvlsTree, "{h100:?}");
    // Four GH200-like hosts of NVL72 racks: see nccl.md 3.
    let a100 = choices("dgx-a100", (16, None), &[], Collective::AllReduce);
    assert_eq!(a100[0].0, Tree, "{a100:?}");
    assert_eq!(a100.last().unwrap().0, Algorithm::Ring, "{a100:?}");
}

/// Two of a host's four GPUs have an interface near; the others reach one through other CPUs only.
/// Rings that enter by one interface and leave by the other pass all four between the two, and
/// are faster than trees. Published tables of two such nodes (Polaris) follow a ring's bandwidth.
#[test]
fn rings_enter_and_leave_where_interfaces_are_near() {
    let last = |variables: &[(&str, &str)]| {
        let all = choices(
            "a100-quad-slingshot",
            (2, None),
            variables,
            Collective::AllReduce,
        );
        all.last().map(|c| c.0)
    };
    assert_eq!(last(&[]), Some(Algorithm::Ring));
    assert_eq!(last(&[("NCCL_CROSS_NIC", "1")]), Some(Algorithm::Ring));
    assert_eq!(last(&[("NCCL_CROSS_NIC", "0")]), Some(Algorithm::Tree));
}

#[test]
fn gather_and_scatter_take_rings() {
    for collective in [
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
    ] {
        for shape in [(1, None), (2, None)] {
            let all = choices("dgx-h100", shape, &[], collective);
            assert!(
                all.iter().all(|c| c.0 == Algorithm::Ring),
                "{collective}: {all:?}"
            );
        }
    }
    // Naming NVLS changes nothing for them.
    let named = choices(
        "dgx-h100",
        (1, None),
        &[("NCCL_ALGO", "NVLS")],
        Collective::AllGather,
    );
    assert!(named.iter().all(|c| c.0 == Algorithm::Ring), "{named:?}");
}

/// nccl.md 5.8 and 3.4, worked out by hand there: bandwidths that NCCL's model gives.
#[test]
fn the_models_bandwidths_are_those_worked_out_by_hand() {
    let cases = [
        // 8 x 40 x 0.85 x 7/8 x 2 = 476 GB/s of bus bandwidth; x 8/14.
        ("dgx-h100", 1, Algorithm::Nvls, 476.0 * 8.0 / 14.0),
        ("dgx-h100", 1, Algorithm::Ring, 360.0 * 8.0 / 14.0),
        // min(80 x 0.74 x 7/8 x 2, 90) x 8 = 720.
        ("dgx-b200", 1, Algorithm::Nvls, 720.0 * 8.0 / 14.0),
        // Two nodes: 8 x min(59.5, 96, 57.7); four: 8 x min(59.5, 48, 45.5).
        ("dgx-h100", 2, Algorithm::NvlsTree, 461.6 * 16.0 / 30.0),
        ("dgx-h100", 4, Algorithm::NvlsTree, 364.0 * 32.0 / 62.0),
        ("dgx-h100", 4, Algorithm::Ring, 384.0 * 32.0 / 62.0),
    ];
    for (name, nodes, algorithm, bandwidth) in cases {
        communicator_test(name, (nodes, None), &[], |comm| {
            let setup = comm.setup();
            let found = setup
                .expectation(Collective::AllReduce, algorithm, ProtocolKind::Simple)
                .unwrap()
                .bandwidth;
            assert!(
                (found / bandwidth - 1.0).abs() < 0.002,
                "{name} {nodes} {algorithm}: {found}"
            );
        });
    }
}

#[test]
fn the_table_says_why_not() {
    communicator_test("dgx-a100", (1, None), &[("NCCL_PROTO", "^LL")], |comm| {
        let all = comm.candidates(Collective::AllReduce, 1 << 20, Forced::default());
        assert_eq!(all.len(), Algorithm::NCCL.len() * 3);
        assert_eq!(all.iter().filter(|c| c.chosen).count(), 1);
        let why = |a, p| {
            let c = all
                .iter()
                .find(|c| c.algorithm == a && c.protocol == p)
                .unwrap();
            c.excluded.clone().unwrap_or_default()
        };
        assert!(why(Algorithm::Nvls, ProtocolKind::Simple).contains("Hopper"));
        assert_eq!(why(Algorithm::Ring, ProtocolKind::Ll), "NCCL_PROTO");
        assert_eq!(why(Algorithm::Ring, ProtocolKind::Ll128), "");
        assert!(why(Algorithm::CollnetChain, ProtocolKind::Simple).contains("COLLNET"));
        assert!(why(Algorithm::Pat, ProtocolKind::Simple).contains("no kernel"));
    });
}

#[test]
fn what_excludes_everything_is_an_error_that_says_so() {
    communicator_test("dgx-a100", (1, None), &[("NCCL_ALGO", "NVLS")], |comm| {
        let error = comm
            .plan(Collective::AllReduce, KIB, Forced::default())
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("Hopper") && error.contains("NCCL_ALGO"),
            "{error}"
        );
    });
}

/// Must-show of the issue: both are shipped as scenarios, with a timeline.
#[test]
fn an_all_to_all_of_64_and_sixteen_nodes_of_nvls_tree_compute_what_they_say() {
    communicator_test("dgx-h100", (8, None), &[], |comm| {
        let planned = comm
            .plan(Collective::AllToAll, 64 * 64 * KIB, Forced::default())
            .unwrap();
        verify(planned.plan.program.as_ref(), 8).unwrap();
    });
    communicator_test("dgx-h100", (16, None), &[], |comm| {
        let forced = Forced {
            algorithm: Some(Algorithm::NvlsTree),
            ..Forced::default()
        };
        let planned = comm.plan(Collective::AllReduce, 4 * MIB, forced).unwrap();
        verify(planned.plan.program.as_ref(), 8).unwrap();
    });
}

/// 800G interfaces: releases before 2.27 tried 48 GB/s at most; 86 came with 2.30 and 80 with
/// 2.29, of which NVLS (nine times a speed within 721.8) takes 80.
#[test]
fn older_releases_search_other_speeds() {
    let topology = load("dgx-b300", &Overrides { nodes: Some(2) }).unwrap();
    let of = |version: &str| {
        let env = Env {
            version: version.parse().unwrap(),
            ..Env::default()
        };
        let comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let nvls = comm.setup().graphs.nvls.unwrap();
        (
            comm.graph.intra * f64::from(comm.graph.channels),
            nvls.intra,
        )
    };
    assert_eq!(of("2.26"), (384.0, 48.0));
    assert_eq!(of("2.28"), of("2.27"));
    let (ring, nvls) = of("2.30");
    assert!(ring > 384.0, "{ring}");
    assert_eq!((of("2.28").1, of("2.29").1, nvls), (48.0, 80.0, 80.0));
}

#[test]
fn hoppers_speeds_grew_after_2_18() {
    let of = |version: &str| super::super::rings::speeds(90, version.parse().unwrap()).intra;
    let new: Vec<f64> = of("2.19");
    assert!(new.contains(&50.0) && new.contains(&11.0));
    let old: Vec<f64> = new
        .iter()
        .copied()
        .filter(|&s| s != 50.0 && s != 11.0)
        .collect();
    assert_eq!(of("2.18"), old);
}

/// nccl.md 4.6: 8 x H100 in one node have 32 channels; between two nodes four to each peer.
#[test]
fn sends_and_receives_have_nccls_channels() {
    for (shape, collective, bytes) in [
        ((1, None), Collective::AllToAll, 8 * MIB),
        ((2, None), Collective::SendRecv, 16 * MIB),
    ] {
        communicator_test("dgx-h100", shape, &[], |comm| {
            let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
            assert_eq!(planned.algorithm, Algorithm::PointToPoint);
            verify(planned.plan.program.as_ref(), 8).unwrap();
            let expected = if shape.0 == 1 { 32 } else { 16 };
            assert_eq!(planned.channels, expected);
        });
    }
}

#[test]
fn every_algorithm_by_name_computes_what_it_says() {
    for (shape, algorithm, collective) in [
        (
            (2, None),
            Algorithm::RecursiveDoubling,
            Collective::AllReduce,
        ),
        (
            (2, None),
            Algorithm::RecursiveHalving,
            Collective::ReduceScatter,
        ),
        ((2, None), Algorithm::Bruck, Collective::AllToAll),
        ((2, None), Algorithm::Hierarchical, Collective::AllReduce),
        ((2, None), Algorithm::ParameterServer, Collective::AllReduce),
        ((2, None), Algorithm::Binomial, Collective::Broadcast),
        ((2, None), Algorithm::Direct, Collective::AllGather),
        ((3, Some(1)), Algorithm::Pat, Collective::AllGather),
    ] {
        communicator_test("dgx-h100", shape, &[], |comm| {
            let forced = Forced {
                algorithm: Some(algorithm),
                ..Forced::default()
            };
            let planned = comm.plan(collective, MIB, forced).unwrap();
            assert_eq!(planned.algorithm, algorithm);
            verify(planned.plan.program.as_ref(), 8).unwrap();
            let rate = comm.topology;
            simulate(&planned.plan, |l| rate.rate(l), Options::default()).unwrap();
        });
    }
}

/// SHARP: every node sends its data into the network once, whichever way it takes there.
#[test]
fn switches_of_the_network_halve_its_traffic() {
    for algorithm in [
        Algorithm::CollnetDirect,
        Algorithm::CollnetChain,
        Algorithm::Nvls,
    ] {
        communicator_test(
            "dgx-h100",
            (4, None),
            &[("NCCL_COLLNET_ENABLE", "1")],
            |comm| {
                let forced = Forced {
                    algorithm: Some(algorithm),
                    ..Forced::default()
                };
                let bytes = 256 * MIB;
                let planned = comm.plan(Collective::AllReduce, bytes, forced).unwrap();
                verify(planned.plan.program.as_ref(), 8).unwrap();
                let topology = comm.topology;
                let outcome =
                    simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
                let nic = fabricsim_topology::DeviceKind::Nic;
                let out: u64 = outcome
                    .link_bytes(&planned.plan)
                    .iter()
                    .filter(|(l, _)| {
                        let (from, to) = topology.ends(**l);
                        topology.device(from).kind == nic
                            && topology.device(to).kind == fabricsim_topology::DeviceKind::Switch
                    })
                    .map(|(_, b)| b.get())
                    .sum();
                assert_eq!(out, 4 * bytes, "{algorithm}");
            },
        );
    }
}

#[test]
fn trees_of_old_releases_move_smaller_chunks() {
    let topology = load("dgx-a100", &Overrides { nodes: Some(2) }).unwrap();
    let chunk = |version: &str, bytes: u64| {
        let env = Env {
            version: version.parse().unwrap(),
            ..Env::default()
        };
        let mut comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let forced = Forced {
            algorithm: Some(Algorithm::Tree),
            protocol: Some(ProtocolKind::Simple),
        };
        let planned = comm.plan(Collective::AllReduce, bytes, forced).unwrap();
        let program = planned.plan.program;
        let workers = (0..program.workers()).map(fabricsim_collective::WorkerId);
        let steps = workers.flat_map(|w| (0..program.steps(w)).map(move |s| (w, s)));
        let longest = steps.map(|(w, s)| program.step(w, s).len).max();
        (planned.channels, longest.unwrap())
    };
    // A chain of eight GPUs and one level of hosts: eight deep. 512 KiB a channel are not eight times
    // as many chunks of 128 KiB, nor four times as many of 64.
    assert_eq!(chunk("2.14.3", 8 << 20), (16, 64 << 10));
    assert_eq!(chunk("2.23.4", 8 << 20), (16, 512 << 10));
    // With enough of them they are as large.
    assert_eq!(chunk("2.14.3", 1 << 30), (16, 512 << 10));
}

#[test]
fn channels_of_old_releases_share_each_loop() {
    let topology = load("dgx-a100", &Overrides { nodes: Some(1) }).unwrap();
    let laid = |version: &str, collective, protocol, bytes: u64| {
        let env = Env {
            version: version.parse().unwrap(),
            ranks_per_process: 8,
            ..Env::default()
        };
        let mut comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let forced = Forced {
            protocol: Some(protocol),
            ..RING
        };
        let planned = comm.plan(collective, bytes, forced).unwrap();
        let program = &planned.plan.program;
        let workers = (0..program.workers()).map(fabricsim_collective::WorkerId);
        let first = workers.map(|w| program.step(w, 0).len).collect::<Vec<_>>();
        let (most, least) = (first.iter().max(), first.iter().min());
        let issue = planned.plan.issue;
        let starts = issue.each.picos() / 1000;
        // Before 2.14 what eight kernels' thread blocks take is between two operations, too.
        let between = if version == "2.12.12" {
            (starts - 4400) * 8
        } else {
            0
        };
        assert_eq!(issue.between.picos() / 1000, between);
        (planned.channels, *most.unwrap(), *least.unwrap(), starts)
    };
    use {Collective::Broadcast, ProtocolKind::Ll, ProtocolKind::Simple};
    // 24 channels take 4 KiB of each of 512 threads as often as it needs for all: eleven times. The last
    // one of them has what is left, 12 KiB. Cells of 32 KiB make 16 channels of two.
    let old = laid("2.12.12", Broadcast, Simple, 1 << 20);
    assert_eq!(old, (24, 44 << 10, 12 << 10, 4400 + 23 * 210));
    let new = laid("2.21.5", Broadcast, Simple, 1 << 20);
    assert_eq!(new, (16, 64 << 10, 64 << 10, 4400 + 15 * 210));
    // With LL an all-gather's blocks of 128 KiB are two passes each for sixteen of the channels; the
    // others start and have nothing to do.
    let old = laid("2.14.3", Collective::AllGather, Ll, 1 << 20);
    assert_eq!(old, (24, 8 << 10, 8 << 10, 4400 + 23 * 210));
    let new = laid("2.21.5", Collective::AllGather, Ll, 1 << 20);
    assert_eq!((new.0, new.1), (22, 6 << 10));
}
