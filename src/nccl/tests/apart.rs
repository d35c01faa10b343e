//! Channels that fall out of step with each other.

use super::*;
use fabricsim_engine::simulate_folded;
use fabricsim_plan::Plan;
use fabricsim_topology::Topology;

/// An all-reduce by rings, on so many nodes with so many GPUs each.
fn ring(topology: &str, nodes: u32, gpus: u32, bytes: u64, kind: ProtocolKind) -> (Topology, Plan) {
    let topology = load(topology, &Overrides { nodes: Some(nodes) }).unwrap();
    let forced = Forced {
        algorithm: Some(Algorithm::Ring),
        protocol: Some(kind),
    };
    let mut comm = Communicator::new(&topology, Some(gpus), &Env::default(), 1).unwrap();
    let planned = comm.plan(Collective::AllReduce, bytes, forced).unwrap();
    (topology, planned.plan)
}

#[test]
fn rings_of_single_gpus_begin_a_message_apart() {
    // Two channels of two ranks, whose first slices of 1 MiB take 335 us each at 25 Gb/s.
    let (topology, plan) = ring("t4-pcie", 2, 1, 1 << 30, ProtocolKind::Simple);
    let network = plan.transports.iter().find_map(|t| t.network).unwrap();
    let hops = plan.routes.get(network.route).hops;
    let wire = hops
        .iter()
        .map(|h| h.share.carried_by(topology.rates()(h.link)));
    let message = wire.min().unwrap().time_for(Bytes::from_mib(1));
    assert_eq!(plan.costs[0].apart, message);
    assert_eq!(plan.costs[0].behind(3), message * 3);
    // GPUs of a node send to each other, too; one channel has no other one.
    let (_, several) = ring("t4-pcie", 2, 2, 1 << 30, ProtocolKind::Simple);
    assert_eq!(several.costs[0].apart, Time::ZERO);
    let (_, small) = ring("t4-pcie", 2, 1, 8, ProtocolKind::Ll);
    assert_eq!(small.costs[0].apart, Time::ZERO);
}

#[test]
fn wires_of_two_ranks_are_not_idle() {
    let (topology, plan) = ring("t4-pcie", 2, 1, 256 << 20, ProtocolKind::Simple);
    let mut in_step = plan.clone();
    in_step.costs[0].apart = Time::ZERO;
    let time = |plan: &Plan| {
        let full = simulate(plan, topology.rates(), Options::default()).unwrap();
        let folded = simulate_folded(plan, topology.rates(), Options::default()).unwrap();
        assert_eq!(full.end(), folded.end());
        full.end().micros()
    };
    // In step, an eighth of the time both wait for their last chunks to come.
    let (apart, in_step) = (time(&plan), time(&in_step));
    assert!(
        (1.08..1.2).contains(&(in_step / apart)),
        "{in_step} {apart}"
    );
}

#[test]
fn channels_that_share_ports_fall_out_of_step() {
    let uneven = |plan: &Plan| plan.costs.iter().map(|c| c.uneven).max().unwrap();
    let (_, ll) = ring("dgx-h100", 1, 8, 1 << 20, ProtocolKind::Ll);
    assert_eq!(uneven(&ll), 0);
    let (_, hosts) = ring("dgx-h100", 2, 8, 1 << 30, ProtocolKind::Simple);
    assert_eq!(uneven(&hosts), 0);
    // The larger a size, the less of the port's time is lost; in step it is always the same part.
    let rates = |uneven: u16| {
        [1u64 << 29, 1 << 33].map(|bytes| {
            let (topology, mut plan) = ring("dgx-h100", 1, 8, bytes, ProtocolKind::Simple);
            assert!(plan.costs.iter().all(|c| c.uneven > 0));
            plan.costs.iter_mut().for_each(|c| c.uneven = uneven);
            let folded = simulate_folded(&plan, topology.rates(), Options::default()).unwrap();
            bytes as f64 / folded.end().micros()
        })
    };
    let ([small, large], [in_step, always]) = (rates(50), rates(0));
    assert!(
        small < large * 0.995 && large > always * 1.01,
        "{small} {large} {in_step} {always}"
    );
    assert!(small > in_step * 0.999, "{small} {in_step}");
}

#[test]
fn uneven_channels_fold_exactly() {
    for (nodes, gpus, bytes) in [(1, 4, 96 << 20), (1, 8, (64 << 20) + 4096)] {
        let (topology, plan) = ring("dgx-h100", nodes, gpus, bytes, ProtocolKind::Simple);
        let [full, folded] = [
            simulate(&plan, topology.rates(), Options::default()).unwrap(),
            simulate_folded(&plan, topology.rates(), Options::default()).unwrap(),
        ];
        assert_eq!(full.finish, folded.finish);
        assert_eq!(full.connection_bytes, folded.connection_bytes);
    }
}
