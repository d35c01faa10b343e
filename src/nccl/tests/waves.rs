//! In which order a proxy thread sends what thread blocks have given it at the same time.

use super::*;
use fabricsim_plan::NetworkLeg;
use std::collections::BTreeMap;

/// The networks of an all-reduce on so many nodes of eight GPUs, each with a process of its own.
fn legs(nodes: u32, algorithm: Algorithm) -> Vec<NetworkLeg> {
    let topology = load("dgx-h100", &Overrides { nodes: Some(nodes) }).unwrap();
    let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
    let forced = Forced {
        algorithm: Some(algorithm),
        protocol: Some(ProtocolKind::Simple),
    };
    let planned = comm.plan(Collective::AllReduce, 8 << 20, forced).unwrap();
    let transports = planned.plan.transports.iter();
    transports.filter_map(|t| t.network).collect()
}

/// How many of them there are by what is asked for.
fn count<T: Ord>(legs: &[NetworkLeg], of: impl Fn(&NetworkLeg) -> T) -> Vec<(T, usize)> {
    let mut counts = BTreeMap::new();
    for leg in legs {
        *counts.entry(of(leg)).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn thread_blocks_of_rings_keep_step() {
    // Each message leaves with all that the thread sends, and before the next one all have left.
    let legs = legs(2, Algorithm::Ring);
    let each = legs[0].message.each;
    assert!(legs.iter().all(|leg| leg.message.together == each));
    assert!(legs.iter().all(|leg| leg.message.others == each));
    assert_eq!(count(&legs, |leg| leg.post_latency).len(), 1);
}

#[test]
fn heads_of_nvls_trees_send_in_waves() {
    // On two nodes a GPU's thread sends up on half of its sixteen channels, and down on the others.
    let legs = legs(2, Algorithm::NvlsTree);
    let each = legs[0].message.each;
    assert!(legs.iter().all(|leg| leg.message.others == each * 15));
    assert!(legs.iter().all(|leg| leg.message.together == each * 3));
    // The second wave of what leaves first comes four messages later; what answers is out of step
    // already.
    let all = 2 * 8 * 16;
    let first = legs.iter().map(|leg| leg.post_latency).min().unwrap();
    assert_eq!(
        count(&legs, |leg| leg.post_latency - first),
        [(Time::ZERO, all * 3 / 4), (each * 4, all / 4)]
    );
}

#[test]
fn only_leaves_of_trees_begin_a_wave() {
    // On four nodes every other one is a leaf of a tree, and of the two that are not one is the root.
    let legs = legs(4, Algorithm::NvlsTree);
    let first = legs.iter().map(|leg| leg.post_latency).min().unwrap();
    let later = legs.iter().filter(|leg| leg.post_latency > first);
    // Half of what four leaves send, two of each of the two trees, on eight channels of eight GPUs.
    assert_eq!(later.count(), 4 * 8 * 8 / 2);
}
