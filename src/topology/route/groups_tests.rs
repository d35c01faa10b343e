//! Routes between groups of a dragonfly.

use super::tests::{assert_conserves, nic, share};
use super::*;
use crate::catalogue_tests::{built_from, spec};
use crate::spec::RoutingPolicy;

/// Nodes of four NICs, 128 to a group, four cables between any two groups.
fn dragonfly(routing: RoutingPolicy, nodes: u32) -> Topology {
    let mut spec = spec("gh200-quad");
    for fabric in spec.fabrics.values_mut() {
        fabric.routing = routing;
    }
    built_from(&spec, Some(nodes))
}

/// The groups of the switches that a path enters, in order.
fn groups_on(topology: &Topology, route: &Route) -> Vec<u32> {
    let fabric = &topology.fabrics[0];
    let mut groups: Vec<u32> = route
        .hops
        .iter()
        .filter_map(|hop| {
            let (_, to) = topology.ends(hop.link);
            let position = fabric.switches.binary_search(&to).ok()?;
            Some(fabric.groups[position])
        })
        .collect();
    groups.dedup();
    groups
}

#[test]
fn inside_a_group_two_switches_are_neighbours() {
    let topology = dragonfly(RoutingPolicy::Adaptive, 128);
    let mut router = Router::new(&topology, 0);
    let from = nic(&topology, 0, 0);
    let same = router.network(from, nic(&topology, 15, 0), 0).unwrap();
    assert_eq!(same.hops.len(), 2);
    // Over their cable, and over each of 30 other switches.
    let to = nic(&topology, 127, 3);
    let other = router.network(from, to, 0).unwrap();
    assert_conserves(&topology, &other, from, to);
    assert_eq!(other.hops.len(), 3 + 2 * 30);
    assert!(
        other.hops[1..62]
            .iter()
            .all(|hop| hop.share == share(1, 31))
    );
    // Three cables of 150 ns and two switches of 350 ns.
    assert_eq!(other.latency, Time::from_nanos(3 * 150 + 2 * 350));
}

#[test]
fn between_groups_a_flow_spreads_over_all_cables_of_the_two() {
    let topology = dragonfly(RoutingPolicy::Adaptive, 3 * 128);
    let mut router = Router::new(&topology, 0);
    for (a, b) in [(0, 128), (5, 383), (380, 17), (130, 300)] {
        let (from, to) = (nic(&topology, a, 1), nic(&topology, b, 2));
        let route = router.network(from, to, 0).unwrap();
        assert_conserves(&topology, &route, from, to);
        let groups = groups_on(&topology, &route);
        assert_eq!(groups, [a as u32 / 128, b as u32 / 128]);
        let crossing: Vec<_> = route
            .hops
            .iter()
            .filter(|hop| hop.share == share(1, 4))
            .collect();
        assert!(crossing.len() >= 4, "{route:?}");
        // At most local, global and local.
        assert!(route.latency <= Time::from_nanos(5 * 150 + 4 * 350));
    }
}

#[test]
fn other_policies_take_one_cable_each() {
    for routing in [RoutingPolicy::Ecmp, RoutingPolicy::Deterministic] {
        let topology = dragonfly(routing, 2 * 128);
        let mut router = Router::new(&topology, 7);
        let mut middles = std::collections::BTreeSet::new();
        for node in 0..32 {
            let (from, to) = (nic(&topology, 0, 0), nic(&topology, 128 + node, 0));
            let route = router.network(from, to, 0).unwrap();
            assert_conserves(&topology, &route, from, to);
            assert!((3..=5).contains(&route.hops.len()));
            let fabric = &topology.fabrics[0];
            let group = |device| {
                let position = fabric.switches.binary_search(&device).ok();
                position.map(|p| fabric.groups[p])
            };
            middles.extend(route.hops.iter().filter_map(|hop| {
                let (a, b) = topology.ends(hop.link);
                (group(a)? != group(b)?).then_some(hop.link)
            }));
        }
        assert_eq!(middles.len(), 4, "{routing:?}");
    }
}

#[test]
fn a_broken_cable_is_left_out_and_a_third_group_is_the_last_resort() {
    let topology = dragonfly(RoutingPolicy::Adaptive, 3 * 128);
    let fabric = &topology.fabrics[0];
    let group = |device| {
        let position = fabric.switches.binary_search(&device).ok()?;
        Some(fabric.groups[position])
    };
    let between: Vec<LinkId> = topology
        .links()
        .map(|(id, _)| id)
        .filter(|&id| {
            let (from, to) = topology.ends(id);
            group(from) == Some(0) && group(to) == Some(1)
        })
        .collect();
    assert_eq!(between.len(), 4);
    let (from, to) = (nic(&topology, 0, 0), nic(&topology, 128, 0));
    let mut some = Router::new(&topology, 0).avoiding(between[..1].iter().copied());
    let route = some.network(from, to, 0).unwrap();
    assert_conserves(&topology, &route, from, to);
    assert!(route.hops.iter().any(|hop| hop.share == share(1, 3)));
    let mut none = Router::new(&topology, 0).avoiding(between);
    let route = none.network(from, to, 0).unwrap();
    assert_conserves(&topology, &route, from, to);
    assert_eq!(groups_on(&topology, &route), [0, 2, 1]);
}

#[test]
fn without_their_cable_two_switches_of_a_group_meet_over_the_others() {
    let topology = dragonfly(RoutingPolicy::Adaptive, 128);
    let (from, to) = (nic(&topology, 0, 0), nic(&topology, 127, 3));
    let switch = |nic| {
        topology.fabrics[0]
            .switches
            .iter()
            .copied()
            .find(|&s| topology.links_from(nic).iter().any(|&(_, far)| far == s))
    };
    let ends = (switch(from).unwrap(), switch(to).unwrap());
    let cable = topology
        .links()
        .map(|(id, _)| id)
        .find(|&id| topology.ends(id) == ends);
    let mut router = Router::new(&topology, 0).avoiding(cable);
    let route = router.network(from, to, 0).unwrap();
    assert_conserves(&topology, &route, from, to);
    assert!(route.hops.iter().all(|hop| Some(hop.link) != cable));
    assert_eq!(route.hops.len(), 2 + 2 * 30);
}
