use super::*;
use crate::catalogue_tests::{built, built_from, names, spec};
use crate::spec::RoutingPolicy;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(super) fn share(num: u32, den: u32) -> Share {
    Share { num, den }
}

fn gpu(topology: &Topology, node: usize, number: usize) -> DeviceId {
    topology.nodes[node].gpus[number]
}

pub(super) fn nic(topology: &Topology, node: usize, number: usize) -> DeviceId {
    topology.nodes[node].nics[number]
}

/// The SuperPOD with another routing policy and number of nodes.
fn superpod(routing: RoutingPolicy, nodes: u32) -> Topology {
    let mut spec = spec("superpod-h100");
    for fabric in spec.fabrics.values_mut() {
        fabric.routing = routing;
    }
    built_from(&spec, Some(nodes))
}

/// What every route must obey: it starts with everything, ends with everything, and loses
/// nothing between; no link comes twice.
pub(super) fn assert_conserves(topology: &Topology, route: &Route, from: DeviceId, to: DeviceId) {
    // Common denominators stay small here: shares are of a few dozen lanes.
    let lcm = route.hops.iter().fold(1_u64, |lcm, hop| {
        let den = u64::from(hop.share.den);
        let (mut a, mut b) = (lcm, den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        lcm / a * den
    });
    let mut balance: BTreeMap<DeviceId, i128> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for hop in &route.hops {
        assert!(
            seen.insert(hop.link),
            "{} twice",
            topology.link_name(hop.link)
        );
        let (start, end) = topology.ends(hop.link);
        let amount = i128::from(lcm / u64::from(hop.share.den) * u64::from(hop.share.num));
        assert!(amount > 0);
        *balance.entry(start).or_default() -= amount;
        *balance.entry(end).or_default() += amount;
    }
    balance.retain(|_, amount| *amount != 0);
    let whole = i128::from(lcm);
    assert_eq!(balance, BTreeMap::from([(from, -whole), (to, whole)]));
}

#[test]
fn peers_use_all_switches_in_proportion_to_their_links() {
    let topology = built("dgx-h100", None);
    let route = Router::new(&topology, 0)
        .peer(gpu(&topology, 0, 2), gpu(&topology, 0, 7))
        .unwrap();
    let shares: Vec<Share> = route.hops.iter().map(|hop| hop.share).collect();
    let once = [share(5, 18), share(2, 9), share(2, 9), share(5, 18)];
    assert_eq!(shares, [once, once].concat());
    // Two wires of 100 ns and a switch of 100 ns.
    assert_eq!(route.latency, Time::from_nanos(300));
}

#[test]
fn a_rack_of_trays_is_one_nvlink_domain() {
    let topology = built("gb200-nvl72", None);
    let router = Router::new(&topology, 0);
    let route = router
        .peer(gpu(&topology, 0, 0), gpu(&topology, 17, 3))
        .unwrap();
    assert_eq!(route.hops.len(), 36);
    assert!(route.hops.iter().all(|hop| hop.share == share(1, 18)));
}

#[test]
fn pcie_peers_stay_below_the_cpus() {
    let topology = built("x86-h100-pcie", None);
    let router = Router::new(&topology, 0);
    let near = router
        .peer(gpu(&topology, 0, 0), gpu(&topology, 0, 1))
        .unwrap();
    assert_eq!(near.hops.len(), 2);
    // Two wires of 100 ns and a switch of 120 ns.
    assert_eq!(near.latency, Time::from_nanos(320));
    for far in [2, 4] {
        let error = router
            .peer(gpu(&topology, 0, 0), gpu(&topology, 0, far))
            .unwrap_err();
        assert!(
            error.to_string().starts_with(&format!(
                "node0/gpu0 cannot reach the memory of node0/gpu{far}"
            )),
            "{error}"
        );
    }
}

#[test]
fn a_root_complex_that_forwards_joins_peers() {
    let mut hardware = crate::catalogue_tests::hardware();
    for model in hardware.devices.values_mut() {
        if let crate::DeviceModel::Cpu(cpu) = model {
            cpu.peer_to_peer = true;
        }
    }
    let mut spec = spec("x86-h100-pcie");
    spec.hardware = Some(hardware);
    let topology = built_from(&spec, None);
    let route = Router::new(&topology, 0)
        .peer(gpu(&topology, 0, 0), gpu(&topology, 0, 7))
        .unwrap();
    assert_eq!(route.hops.len(), 5);
}

#[test]
fn switches_behind_switches_and_direct_links_are_followed() {
    // Two boards as in DGX-2, in small: 2 switches each, trunks of 8 between equal ones.
    let text = r#"{
        "name": "boards", "title": "t", "source": "test",
        "components": { "box": { "node": true,
            "devices": { "gpu": { "model": "h100-sxm", "count": 4 },
                "a": { "model": "nvswitch3", "count": 2 }, "b": { "model": "nvswitch3", "count": 2 },
                "cpu": { "model": "xeon-8480c" } },
            "links": [
                { "from": "gpu[*]", "to": "cpu", "link": "pcie5", "lanes": 16 },
                { "from": "gpu[0-1]", "to": "a[*]", "link": "nvlink4" },
                { "from": "gpu[2-3]", "to": "b[*]", "link": "nvlink4" },
                { "from": "a[*]", "to": "b[*]", "link": "nvlink4", "lanes": 8, "match": "each" },
                { "from": "gpu[2]", "to": "gpu[3]", "link": "nvlink4", "lanes": 3 } ] } },
        "instances": [ { "name": "node", "component": "box" } ] }"#;
    let topology = built_from(&serde_json::from_str(text).unwrap(), None);
    let router = Router::new(&topology, 0);
    let (a, b) = (gpu(&topology, 0, 0), gpu(&topology, 0, 3));
    let across = router.peer(a, b).unwrap();
    assert_eq!(across.hops.len(), 6);
    assert!(across.hops.iter().all(|hop| hop.share == share(1, 2)));
    assert_conserves(&topology, &across, a, b);
    let direct = router.peer(gpu(&topology, 0, 2), b).unwrap();
    assert_eq!(direct.hops.len(), 1);
}

#[test]
fn one_rail_is_one_switch_and_another_is_three() {
    let topology = superpod(RoutingPolicy::Adaptive, 64);
    let mut router = Router::new(&topology, 0);
    let from = nic(&topology, 0, 3);
    let rail = router.network(from, nic(&topology, 31, 3), 0).unwrap();
    assert_eq!(rail.hops.len(), 2);
    // Two cables of 150 ns and a switch of 200 ns.
    assert_eq!(rail.latency, Time::from_nanos(500));
    let to = nic(&topology, 63, 3);
    let across = router.network(from, to, 0).unwrap();
    // Sixteen leaves of 32 uplinks fill eight spines.
    assert_eq!(across.hops.len(), 2 + 8 + 8);
    assert_eq!(across.hops[1].share, share(1, 8));
    assert_eq!(across.latency, Time::from_nanos(4 * 150 + 3 * 200));
    assert_conserves(&topology, &across, from, to);
}

#[test]
fn three_tiers_divide_over_every_core() {
    let topology = superpod(RoutingPolicy::Adaptive, 512);
    let mut router = Router::new(&topology, 0);
    let (from, to) = (nic(&topology, 0, 0), nic(&topology, 511, 0));
    let route = router.network(from, to, 0).unwrap();
    assert_conserves(&topology, &route, from, to);
    assert_eq!(route.latency, Time::from_nanos(6 * 150 + 5 * 200));
}

#[test]
fn hashed_flows_collide_and_a_seed_repeats_them() {
    let topology = superpod(RoutingPolicy::Ecmp, 64);
    let uplinks = |seed| {
        let mut router = Router::new(&topology, seed);
        (0..32)
            .map(|node| {
                let (from, to) = (nic(&topology, node, 0), nic(&topology, 32 + node, 0));
                let route = router.network(from, to, 0).unwrap();
                assert_eq!(route.hops.len(), 4);
                assert_conserves(&topology, &route, from, to);
                route.hops[1].link
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(uplinks(1), uplinks(1));
    assert_ne!(uplinks(1), uplinks(2));
    // 32 flows over 8 spines with 4 cables each: 32 · (1 − (31/32)^32) = 20.4 are in use, ± 2.2.
    let mut links = uplinks(1);
    links.sort_unstable();
    links.dedup();
    assert!((14..=27).contains(&links.len()), "{} of 32", links.len());
    // Connections between the same ends differ by flow: in spine and in both cables.
    let mut router = Router::new(&topology, 1);
    let (from, to) = (nic(&topology, 0, 0), nic(&topology, 32, 0));
    let mut ways = [1, 2].map(|_| std::collections::BTreeSet::new());
    for flow in 0..1024 {
        let route = router.network(from, to, flow).unwrap();
        for (ways, hop) in ways.iter_mut().zip(&route.hops[1..]) {
            assert_eq!(topology.link(hop.link).lanes, 1);
            ways.insert(hop.link);
        }
    }
    assert_eq!(ways.map(|ways| ways.len()), [32, 32]);
}

#[test]
fn destinations_of_a_leaf_take_the_uplinks_in_turn() {
    let topology = superpod(RoutingPolicy::Deterministic, 64);
    let mut router = Router::new(&topology, 0);
    let mut load: BTreeMap<LinkId, u32> = BTreeMap::new();
    for node in 0..32 {
        let (from, to) = (nic(&topology, node, 5), nic(&topology, 32 + node, 5));
        let route = router.network(from, to, u64::from(node as u32)).unwrap();
        assert_eq!(route.hops.len(), 4);
        *load.entry(route.hops[1].link).or_default() += 1;
    }
    // Eight bundles of four cables: four destinations each.
    assert_eq!(load.into_values().collect::<Vec<_>>(), [4; 8]);
}

#[test]
fn answers_do_not_depend_on_earlier_questions() {
    let topology = superpod(RoutingPolicy::Adaptive, 96);
    let pairs: Vec<_> = (0..96)
        .map(|node| {
            let other = (node * 37 + 11) % 96;
            (
                nic(&topology, node, node % 8),
                nic(&topology, other, node % 3),
            )
        })
        .collect();
    let mut warm = Router::new(&topology, 0);
    for &(from, to) in pairs.iter().rev() {
        let _ = warm.network(from, to, 0);
    }
    for &(from, to) in &pairs {
        let fresh = Router::new(&topology, 0).network(from, to, 0);
        assert_eq!(warm.network(from, to, 0), fresh);
    }
}

#[test]
fn failed_links_are_avoided_until_none_is_left() {
    let topology = superpod(RoutingPolicy::Adaptive, 64);
    let (from, to) = (nic(&topology, 0, 0), nic(&topology, 40, 0));
    let whole = Router::new(&topology, 0).network(from, to, 0).unwrap();
    let lost = whole.hops[1].link;
    let mut router = Router::new(&topology, 0).avoiding([lost]);
    let around = router.network(from, to, 0).unwrap();
    assert_eq!(around.hops.len(), 2 + 7 + 7);
    assert_conserves(&topology, &around, from, to);
    let mut router = Router::new(&topology, 0).avoiding([whole.hops[0].link]);
    assert_eq!(
        router.network(from, to, 0),
        Err(RouteError::NoNetworkPath {
            fabric: "compute".into(),
            from: "node0/nic0".into(),
            to: "node40/nic0".into()
        })
    );
    let (a, b) = (gpu(&topology, 0, 0), gpu(&topology, 0, 1));
    let dead = topology
        .links_from(a)
        .into_iter()
        .filter_map(|(link, _)| (topology.family(link) == LinkFamily::Nvlink).then_some(link));
    let router = Router::new(&topology, 0).avoiding(dead);
    assert!(matches!(
        router.peer(a, b),
        Err(RouteError::NoPeerAccess { .. })
    ));
}

#[test]
fn devices_without_a_way_are_named() {
    let topology = superpod(RoutingPolicy::Adaptive, 2);
    let mut router = Router::new(&topology, 0);
    let (a, b) = (gpu(&topology, 0, 0), nic(&topology, 1, 0));
    let cases = [
        (
            router.network(a, b, 0),
            "no fabric joins node0/gpu0 and node1/nic0",
        ),
        (
            router.local(a, b),
            "no PCIe, C2C or socket links lead from node0/gpu0 to node1/nic0",
        ),
    ];
    for (answer, text) in cases {
        assert_eq!(answer.unwrap_err().to_string(), text);
    }
    assert_eq!(router.peer(a, a), Ok(Route::default()));
}

#[test]
fn local_paths_cross_as_few_cpus_as_they_can() {
    let topology = built("dgx-a100", None);
    let router = Router::new(&topology, 0);
    let names = |route: &Route| -> Vec<String> {
        route
            .hops
            .iter()
            .map(|hop| topology.device_name(topology.ends(hop.link).1))
            .collect()
    };
    let near = router
        .local(gpu(&topology, 0, 0), nic(&topology, 0, 1))
        .unwrap();
    assert_eq!(names(&near), ["node0/pcie0", "node0/nic1"]);
    // NUMA nodes 3 and 5 are on different sockets and not joined directly.
    let far = router
        .local(gpu(&topology, 0, 0), nic(&topology, 0, 7))
        .unwrap();
    assert_eq!(far.hops.len(), 6);
    assert_conserves(&topology, &far, gpu(&topology, 0, 0), nic(&topology, 0, 7));
    let cpu = router.cpu_of(gpu(&topology, 0, 4)).unwrap();
    assert_eq!(topology.device_name(cpu), "node0/cpu7");
    assert_eq!(router.cpu_of(cpu), Some(cpu));
}

#[test]
fn nics_are_ranked_by_bandwidth_then_type_then_order() {
    let nics = |name: &str, number: usize| -> Vec<usize> {
        let topology = built(name, None);
        let node = &topology.nodes[0];
        let position = |nic| node.nics.iter().position(|&other| other == nic).unwrap();
        Router::new(&topology, 0)
            .nic_candidates(node.gpus[number])
            .into_iter()
            .map(position)
            .collect()
    };
    assert_eq!(nics("dgx-h100", 2), [2, 0, 1, 3, 4, 5, 6, 7]);
    assert_eq!(nics("dgx-a100", 3)[..2], [2, 3]);
    assert_eq!(nics("gb200-nvl72", 3)[..2], [2, 3]);
    assert_eq!(nics("x86-h100-pcie", 5), [1, 0]);
}

#[test]
fn in_every_shipped_machine_a_gpu_reaches_the_next_node() {
    for name in names() {
        let topology = built(&name, Some(40));
        let mut router = Router::new(&topology, 0);
        for node in 0..40 {
            for &gpu in &topology.nodes[node].gpus {
                let near = router.nic_candidates(gpu)[0];
                let route = router.local(gpu, near).unwrap();
                assert_conserves(&topology, &route, gpu, near);
                let far = nic(&topology, (node + 1) % 40, 0);
                let route = router.network(near, far, 0).unwrap();
                assert_conserves(&topology, &route, near, far);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_route_conserves_what_it_carries(
        nodes in 2_u32..100,
        policy in 0_usize..3,
        (a, b) in (0_usize..100, 0_usize..100),
        (x, y) in (0_usize..8, 0_usize..8),
        flow in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let policy = [RoutingPolicy::Adaptive, RoutingPolicy::Ecmp, RoutingPolicy::Deterministic][policy];
        let topology = superpod(policy, nodes);
        let (a, b) = (a % nodes as usize, b % nodes as usize);
        let mut router = Router::new(&topology, seed);
        let (from, to) = (nic(&topology, a, x), nic(&topology, b, y));
        if from != to {
            let route = router.network(from, to, flow).unwrap();
            assert_conserves(&topology, &route, from, to);
            // The way back has the same length and latency.
            let back = router.network(to, from, flow).unwrap();
            prop_assert_eq!(back.hops.len(), route.hops.len());
            prop_assert_eq!(back.latency, route.latency);
        }
        let (from, to) = (gpu(&topology, a, x), gpu(&topology, a, y));
        if from != to {
            assert_conserves(&topology, &router.peer(from, to).unwrap(), from, to);
            assert_conserves(&topology, &router.local(from, to).unwrap(), from, to);
        }
    }
}
