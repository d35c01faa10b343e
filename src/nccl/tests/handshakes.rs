//! What messages cost a network that fetches all but the smallest ones, and where both sides agree on
//! large ones before they are sent (Slingshot).

use super::*;
use fabricsim_plan::NetworkLeg;
use fabricsim_topology::catalogue::hardware;
use fabricsim_topology::hardware::{DeviceModel, NicModel};

fn slingshot() -> &'static NicModel {
    match &hardware().devices["slingshot-11"] {
        DeviceModel::Nic(model) => model,
        _ => panic!("slingshot-11 is an interface"),
    }
}

/// The networks of an all-reduce over trees of four nodes with LL.
fn legs(bytes: u64) -> Vec<NetworkLeg> {
    legs_with(ProtocolKind::Ll, bytes)
}

fn legs_with(protocol: ProtocolKind, bytes: u64) -> Vec<NetworkLeg> {
    let topology = load("gh200-quad", &Overrides { nodes: Some(4) }).unwrap();
    let mut comm = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
    let forced = Forced {
        algorithm: Some(Algorithm::Tree),
        protocol: Some(protocol),
    };
    let planned = comm.plan(Collective::AllReduce, bytes, forced).unwrap();
    let transports = planned.plan.transports.iter();
    let legs: Vec<_> = transports.filter_map(|t| t.network).collect();
    assert!(!legs.is_empty());
    legs
}

#[test]
fn a_tree_of_one_chunk_has_received_all_before_it_sends() {
    let work = slingshot()
        .rendezvous
        .as_ref()
        .unwrap()
        .work
        .as_ref()
        .unwrap()
        .value;
    let of = |bytes| legs(bytes).into_iter().map(|leg| leg.message.large.1);
    // Who has two children sends to both at once.
    assert!(of(4096).all(|time| time == work || time == work * 2));
    assert!(of(4096).any(|time| time == work));
    // Chunk upon chunk, what comes from below is there while the one before goes up.
    assert!(of(64 << 20).any(|time| time >= work * 3));
}

#[test]
fn all_but_the_smallest_messages_are_fetched() {
    let small = slingshot().inline.as_ref().unwrap();
    let fetch = small.fetch.as_ref().unwrap().value;
    // LL sends twice the bytes.
    let fits = small.up_to.value.get() / 2;
    for leg in legs(4096) {
        assert_eq!(leg.later.of(Bytes::new(fits)), Time::ZERO);
        assert_eq!(leg.later.of(Bytes::new(fits + 1)), fetch);
        let large = leg.later.of(Bytes::new(1 << 20));
        assert_eq!(
            large,
            fetch + slingshot().rendezvous.as_ref().unwrap().time.value
        );
    }
}

#[test]
fn messages_of_ll_shake_hands_sooner() {
    let model = slingshot().rendezvous.as_ref().unwrap();
    let (all, of_ll) = (&model.above, model.above_ll.as_ref().unwrap());
    assert!(of_ll.value < all.value);
    // LL sends twice the bytes.
    for (protocol, above) in [
        (ProtocolKind::Ll, of_ll.value.get() / 2),
        (ProtocolKind::Simple, all.value.get()),
    ] {
        for leg in legs_with(protocol, 1 << 20) {
            let [below, beyond] = [above, above + 1].map(|len| leg.later.of(Bytes::new(len)));
            assert_eq!(beyond - below, model.time.value, "{protocol}");
            let [below, beyond] = [above, above + 1].map(|len| leg.message.of(Bytes::new(len)));
            assert!(below < beyond, "{protocol}");
        }
    }
}
