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
