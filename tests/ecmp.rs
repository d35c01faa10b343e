//! A hash picks a cable: flows collide also where cables between two switches run side by side.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::collective::Collective;
use fabricsim::engine::{Options, simulate};
use fabricsim::nccl::{Communicator, Env, Forced};
use fabricsim::topology::spec::{FabricShape, RoutingPolicy};
use fabricsim::topology::{Overrides, Topology, catalogue, expand};

const NODES: u32 = 8;

/// Eight nodes of eight H100 on four leaves of 16 ports; `spines` as a file may ask for.
fn cluster(routing: RoutingPolicy, spines: Option<u32>) -> Topology {
    let mut spec = catalogue::find("hgx-h100-roce").unwrap();
    for fabric in spec.fabrics.values_mut() {
        fabric.routing = routing;
        fabric.shape = FabricShape::LeafSpine(
            serde_json::from_value(serde_json::json!({ "ports_per_leaf": 16, "spines": spines }))
                .unwrap(),
        );
    }
    let nodes = Some(NODES);
    expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
}

/// Microseconds of a ring all-reduce of 64 MiB.
fn time(topology: &Topology, seed: u64) -> f64 {
    let env = Env::parse([("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")]).unwrap();
    let mut comm = Communicator::new(topology, None, &env, seed).unwrap();
    let planned = comm
        .plan(Collective::AllReduce, 64 << 20, Forced::default())
        .unwrap();
    let outcome = simulate(&planned.plan, |l| topology.rate(l), Options::default()).unwrap();
    outcome.end().micros()
}

#[test]
fn hashed_flows_collide_on_cables_side_by_side() {
    let adaptive = time(&cluster(RoutingPolicy::Adaptive, None), 1);
    let bundled = cluster(RoutingPolicy::Ecmp, None);
    let singly = cluster(RoutingPolicy::Ecmp, Some(16));
    let spines = |topology: &Topology| {
        topology.fabrics[0]
            .tiers
            .iter()
            .filter(|&&t| t == 1)
            .count()
    };
    assert_eq!((spines(&bundled), spines(&singly)), (1, 16));
    let of = |topology| [1, 2, 3, 4].map(|seed| time(topology, seed));
    let (bundled, singly) = (of(&bundled), of(&singly));
    println!("adaptive {adaptive}, one spine {bundled:?}, sixteen {singly:?}");
    // Of the flows of 16 ports some share a cable, whatever the seed.
    assert!(bundled.iter().all(|&t| t > 1.02 * adaptive));
    assert!(bundled.iter().any(|&t| t != bundled[0]));
    // One spine or sixteen: the cables are as many, and collisions as bad.
    let mean = |times: [f64; 4]| times.iter().sum::<f64>() / 4.0;
    let ratio = mean(bundled) / mean(singly);
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}

#[test]
fn a_bundle_carries_as_much_whatever_the_policy() {
    let rate = |routing| {
        let topology = cluster(routing, None);
        let leaf = topology.fabrics[0].switches[0];
        let up = topology
            .links_from(leaf)
            .into_iter()
            .filter(|&(_, far)| topology.fabrics[0].switches.contains(&far));
        up.map(|(link, _)| topology.rate(link).bytes_per_sec())
            .sum::<u64>()
    };
    assert_eq!(rate(RoutingPolicy::Ecmp), rate(RoutingPolicy::Adaptive));
}
