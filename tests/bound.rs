//! The bound of shipped machines, counted by hand.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::collective::{Collective, Matrix};
use fabricsim::nccl::Communicator;
use fabricsim::plan::{Bounds, Cut, CutKind, Cuts, Direction, Operation};
use fabricsim::topology::{Overrides, Topology, catalogue, expand, load, load::parse};
use fabricsim::units::Bytes;

const GIB: u64 = 1 << 30;

fn machine(name: &str, nodes: u32) -> Topology {
    load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

fn cuts(topology: &Topology, gpus_per_node: Option<u32>) -> Cuts {
    let gpus = Communicator::gpus_of(topology, gpus_per_node).unwrap();
    Cuts::of(topology, &gpus, false)
}

fn of(collective: Collective, bytes: u64) -> Operation<'static> {
    Operation {
        collective,
        bytes,
        matrix: None,
    }
}

/// Microseconds, to within a thousandth, and the cut.
fn is(found: Option<Cut>, expected: f64, kind: CutKind) {
    let cut = found.unwrap();
    let micros = cut.time().micros();
    assert!(
        (micros / expected - 1.0).abs() < 1e-3,
        "{micros} us for {expected}: {cut:?}"
    );
    assert_eq!(cut.kind, kind, "{cut:?}");
}

/// Eight H100 on four NVSwitches: 18 NVLinks of 25 GB/s a GPU, of which 82.5 % are for payload.
const NVLINKS: f64 = 18.0 * 25e3 * 0.825;
/// An NDR interface, bytes a microsecond.
const NDR: f64 = 49.0e3;

#[test]
fn one_node_is_limited_by_the_nvlinks_of_its_gpus_alone() {
    let topology = machine("dgx-h100", 1);
    let cuts = cuts(&topology, None);
    let (size, s) = (GIB, GIB as f64);
    let all_reduce = cuts.bounds(of(Collective::AllReduce, size));
    is(all_reduce.in_switches, s / NVLINKS, CutKind::Gpu);
    is(all_reduce.plain, 1.75 * s / NVLINKS, CutKind::Gpu);
    assert_eq!(all_reduce.plain.unwrap().direction, Direction::Between);
    for (collective, factor) in [
        (Collective::AllGather, 0.875),
        (Collective::ReduceScatter, 0.875),
        (Collective::AllToAll, 0.875),
        (Collective::Gather, 0.875),
        (Collective::Scatter, 0.875),
        (Collective::Broadcast, 1.0),
        (Collective::Reduce, 1.0),
        (Collective::SendRecv, 1.0),
        (Collective::SendRecvPairs, 1.0),
        (Collective::SendRecvHalves, 1.0),
    ] {
        let bounds = cuts.bounds(of(collective, size));
        is(bounds.plain, factor * s / NVLINKS, CutKind::Gpu);
        assert_eq!(bounds.plain, bounds.in_switches, "{collective}");
    }
}

/// Sums in NVSwitches do nothing for what goes between nodes whose network does not sum.
#[test]
fn switches_help_only_the_cuts_between_which_they_stand() {
    let s = (256 << 20) as f64;
    let between = 2.0 * 15.0 / 16.0 * s / (8.0 * NDR);
    let operation = of(Collective::AllReduce, 256 << 20);
    let plain = machine("hgx-h100-roce", 16);
    let bounds = cuts(&plain, None).bounds(operation);
    assert_eq!(bounds.in_switches, bounds.plain);
    assert_eq!(bounds.plain.unwrap().kind, CutKind::Node);
    // Quantum-2 can.
    let sharp = machine("dgx-h100", 16);
    let bounds = cuts(&sharp, None).bounds(operation);
    is(bounds.plain, between, CutKind::Node);
    is(bounds.in_switches, s / (8.0 * NDR), CutKind::Node);
}

#[test]
fn racks_leaves_and_sockets_are_cuts() {
    // Two racks of NVL72, 64 MiB a rank: half of it leaves the rack by one interface a GPU.
    let racks = machine("gb200-nvl72", 36);
    let bounds = cuts(&racks, None).bounds(of(Collective::AllToAll, 64 << 20));
    is(bounds.plain, (32 << 20) as f64 / NDR, CutKind::NvlinkDomain);
    // Eight nodes, 8 ports each, below four leaves of 16 with a quarter of that upwards.
    let text = catalogue::text("dgx-h100").unwrap().replace(
        "\"rail_optimized\": {}",
        "\"leaf_spine\": { \"ports_per_leaf\": 16, \"oversubscription\": 4 }",
    );
    let spec = parse(&text, "test").unwrap();
    let overrides = Overrides { nodes: Some(8) };
    let tapered = expand(&spec, catalogue::hardware(), &overrides).unwrap();
    let bounds = cuts(&tapered, None).bounds(of(Collective::AllToAll, GIB));
    let leaving = 16.0 * 48.0 / 64.0 * GIB as f64;
    is(bounds.plain, leaving / (4.0 * NDR), CutKind::Leaves);
    // Two sockets of four GPUs, joined by 22 GB/s.
    let sockets = machine("x86-h100-pcie", 1);
    let bounds = cuts(&sockets, None).bounds(of(Collective::AllToAll, GIB));
    is(
        bounds.plain,
        16.0 / 8.0 * GIB as f64 / 22e3,
        CutKind::Socket,
    );
    let bounds = cuts(&sockets, None).bounds(of(Collective::AllReduce, GIB));
    is(bounds.plain, GIB as f64 / 22e3, CutKind::Socket);
    // Interfaces that serve inside the node, too.
    let gpus = Communicator::gpus_of(&sockets, None).unwrap();
    let bounds = Cuts::of(&sockets, &gpus, true).bounds(of(Collective::AllToAll, GIB));
    assert!(bounds.plain.unwrap().time().micros() < GIB as f64 / 22e3);
}

/// One GPU of a node has its PCIe port for what leaves the node, not the interfaces of all.
#[test]
fn interfaces_count_as_far_as_ranks_reach_them() {
    let topology = machine("dgx-h100", 4);
    let bounds = cuts(&topology, Some(1)).bounds(of(Collective::AllToAll, GIB));
    let cut = bounds.plain.unwrap();
    assert_eq!(cut.kind, CutKind::NvlinkGroup);
    assert!((50e9..60e9).contains(&(cut.carries.bytes_per_sec() as f64)));
}

#[test]
fn what_matters_of_a_matrix_is_what_crosses() {
    let topology = machine("dgx-h100", 2);
    let mut rows = vec![vec![0; 16]; 16];
    // Rank 3 sends to one of the other node, ranks 4 and 5 to it.
    rows[3][9] = 1 << 20;
    rows[4][9] = 3 << 20;
    rows[5][9] = 1 << 20;
    let matrix = Matrix::new(&rows).unwrap();
    let operation = Operation {
        matrix: Some(&matrix),
        ..of(Collective::AllToAllV, matrix.size())
    };
    let cut = cuts(&topology, None).bounds(operation).plain.unwrap();
    assert_eq!(cut.needs, Bytes::new(5 << 20));
    assert_eq!(cut.direction, Direction::Out);
    // One rank has nobody to send to, and nothing takes no time.
    let alone = Cuts::of(&topology, &topology.nodes[0].gpus[..1], false);
    assert_eq!(alone.bounds(operation), Bounds::default());
    let nothing = of(Collective::AllReduce, 0);
    assert_eq!(cuts(&topology, None).bounds(nothing), Bounds::default());
}
