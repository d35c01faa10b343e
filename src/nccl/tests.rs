use super::*;
use crate::collective::Collective;
use crate::engine::{Options, simulate};
use crate::topology::{Overrides, load};
use crate::units::{Bandwidth, Bytes, Time};

/// A row of nccl-tests: what one operation of a stream of them takes, and bus bandwidth.
fn row(
    name: &str,
    nodes: u32,
    per_node: Option<u32>,
    collective: Collective,
    bytes: u64,
) -> (Planned, Time, f64) {
    let topology = load(name, &Overrides { nodes: Some(nodes) }).unwrap();
    let mut comm = Communicator::new(&topology, per_node, &Env::default(), 1).unwrap();
    let planned = comm.plan(collective, bytes, Forced::default()).unwrap();
    let options = Options {
        operations: 3,
        ..Options::default()
    };
    let outcome = simulate(&planned.plan, |l| topology.rate(l), options).unwrap();
    let time = outcome.finish_of(2) - outcome.finish_of(1);
    let bus = Bandwidth::of(Bytes::new(planned.bytes), time).gb_per_sec()
        * collective.bus_factor(comm.ranks());
    (planned, time, bus)
}

#[test]
fn show() {
    for (name, nodes, per, measured) in [
        ("dgx-a100", 1, None, 233.0),
        ("dgx-h100", 1, None, 367.0),
        ("dgx-h100", 1, Some(4), 367.0),
        ("dgx-b200", 1, None, 690.0),
        ("gb200-nvl72", 1, None, 663.0),
        ("dgx-a100", 2, None, 178.0),
        ("dgx-h100", 10, Some(1), 48.9),
        ("dgx-h100", 10, Some(4), 196.3),
        ("dgx-h100", 4, None, 365.0),
        ("dgx-b200", 4, None, 388.0),
        ("x86-h100-pcie", 1, None, 0.0),
        ("x86-h100-pcie", 2, None, 0.0),
    ] {
        let (planned, time, bus) = row(name, nodes, per, Collective::AllReduce, 8 << 30);
        eprintln!(
            "{name} x{nodes} {per:?}: {} ch {} {time} bus {bus:.1} measured {measured}",
            planned.protocol, planned.channels
        );
    }
}
