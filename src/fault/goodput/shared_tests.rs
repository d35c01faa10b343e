//! Failures that stop several nodes at once, against what they stop on known machines.

use super::shared::Outages;
use super::tests::{hourly, of};
use super::*;
use fabricsim_topology::{Overrides, Topology, load};

fn built(name: &str, nodes: u32) -> Topology {
    load::load(name, &Overrides { nodes: Some(nodes) }).unwrap()
}

/// Two racks of 18 trays, each one NVLink domain, with four leaf switches each.
pub(super) fn two_racks() -> SharedParts {
    SharedParts {
        domains: vec![18, 18],
        leaves: [0, 1].map(|rack| vec![vec![rack]; 4]).concat(),
        racks: vec![vec![0], vec![1]],
    }
}

#[test]
fn machines_say_what_their_nodes_share() {
    // Two racks of 18 trays. Rails of a unit end at its own four leaves: one a rack and rail.
    assert_eq!(SharedParts::of(&built("gb200-nvl72", 36)), two_racks());
    // 32 trays are 16 of each rack.
    assert_eq!(SharedParts::of(&built("gb200-nvl72", 32)).domains, [16, 16]);
    // 64 nodes of eight rails in units of 32: 16 leaves with 32 nodes each. Nodes stand in no racks
    // that the file knows of, and NVLink ends at each.
    let pod = SharedParts::of(&built("superpod-h100", 64));
    assert_eq!((pod.leaves.len(), pod.racks.len()), (16, 0));
    assert!(pod.leaves.iter().all(|nodes| nodes.len() == 32));
    assert!(pod.domains.is_empty());
    let one = SharedParts::of(&built("dgx-h100", 1));
    assert!(one.domains.is_empty() && one.racks.is_empty());
}

/// Of a run that always fails in one way and is repaired in two hours, the hours that it waits a
/// failure.
fn waited(component: Component, shared: &SharedParts, spares: (u32, u32)) -> f64 {
    let job = Job {
        rates: of(component, 1.0 / 3600.0),
        shared: shared.clone(),
        spares: spares.0,
        spares_per_domain: spares.1,
        repair: Some(Span::parse("2h").unwrap()),
        // Of failures of single nodes; what nodes share is out whenever it fails.
        drained: f64::from(u8::from(component == Component::Host)),
        ..hourly()
    };
    let replicas = simulate(&job, 380, 1, 2);
    let waited: f64 = replicas.iter().map(|r| r.ledger.waiting.seconds()).sum();
    let failures: u64 = replicas.iter().map(Replica::failure_count).sum();
    assert!(replicas.iter().all(|r| r.drained == r.failure_count()));
    waited / failures as f64 / 3600.0
}

#[test]
fn spares_stand_in_for_all_nodes_that_a_failure_stops() {
    let racks = two_racks();
    let leaf = SharedParts {
        leaves: vec![(0..32).collect()],
        ..SharedParts::default()
    };
    // One spare fewer than nodes are stopped is none: each failure waits the two hours, but for the last
    // one, which the end may cut short. There are 60 runs of some 140 failures.
    for (component, shared, stopped) in [
        (Component::Leaf, &leaf, 32),
        (Component::Rack, &racks, 18),
        (Component::Leaf, &racks, 18),
        (Component::Nvswitch, &racks, 18),
        (Component::Host, &racks, 18),
        // NVSwitches of a node, which not every failure drains.
        (Component::Host, &SharedParts::default(), 1),
    ] {
        let few = waited(component, shared, (stopped - 1, 0));
        assert!(1.98 < few && few <= 2.0, "{component:?}: {few}");
        let enough = waited(component, shared, (stopped, 0));
        assert!(enough < 1.5, "{component:?}: {enough}");
        assert_eq!(waited(component, shared, (100 * stopped, 0)), 0.0);
    }
}

#[test]
fn a_domain_with_spare_trays_goes_on_without_one() {
    let racks = two_racks();
    // Of failures at 1 an hour, half hit a rack, and nodes are away for two hours: with no spare tray each
    // failure waits, with many none.
    assert_eq!(waited(Component::Host, &racks, (0, 18)), 0.0);
    let two = waited(Component::Host, &racks, (0, 2));
    assert!(0.0 < two && two < 0.5, "{two}");
    // Spare trays do not help where the whole rack is out.
    assert!(1.98 < waited(Component::Rack, &racks, (0, 18)));

    // By hand: 100 h are left, repairs take 10 h. Trays fail in the first rack with 100, 98 and 95 h left: the
    // third is one too many, and a rack of 18 is out until 85 h are left.
    let hours = |hours: u64| Span::from_secs(3600 * hours);
    let mut outages = Outages::default();
    for (left, ready) in [(100, 100), (98, 98), (95, 85)] {
        outages.node(&racks, (0.1, 2), (hours(left), hours(left - 10)));
        assert_eq!(outages.wait(hours(left), 17), hours(ready));
    }
    // It is whole again: two more trays may fail there; one of the other rack does not count.
    for (left, which) in [(80, 0.1), (79, 0.1), (78, 0.6)] {
        outages.node(&racks, (which, 2), (hours(left), hours(left - 10)));
        assert_eq!(outages.wait(hours(left), 0), hours(left));
    }
    // With 70 h left the first of them is back, so that the next is the second.
    outages.node(&racks, (0.1, 2), (hours(70), hours(60)));
    assert_eq!(outages.wait(hours(70), 0), hours(70));
}

#[test]
fn parts_are_counted_once_for_all_nodes() {
    let racks = Cluster {
        nodes: 36,
        gpus_per_node: 4,
        nics_per_node: 4,
        nvswitches: 36,
        shared: two_racks(),
        step: Span::from_secs(1),
        ..Cluster::default()
    };
    let counts = Component::ALL.map(|component| racks.count(component));
    assert_eq!(counts, [144, 144, 36, 36, 36, 36, 8, 2]);
    // What nobody publishes never fails, unless the scenario says how often.
    let text = |mtbf: &str| {
        format!(
            r#"{{"duration": "30d", "mtbf": {{{mtbf}}}, "replicas": 1,
                "checkpoint": {{"interval": "young", "cost": {{"blocking": "1min"}}}}}}"#
        )
    };
    let rates = |mtbf: &str| {
        let spec: LongRunSpec = serde_json::from_str(&text(mtbf)).unwrap();
        Job::new(&racks, &spec).unwrap().rates
    };
    assert_eq!(
        rates("")[2..],
        [0.0, rates("")[3], rates("")[4], rates("")[5], 0.0, 0.0]
    );
    let own = rates(r#""rack": "100h", "leaf": "80h", "nvswitch": "360h""#);
    assert_eq!(
        [own[2], own[6], own[7]].map(|rate| (rate * 3600.0 * 1e6).round()),
        [1e5, 1e5, 2e4]
    );
}

#[test]
fn a_leaf_switch_fails_once_in_160_years() {
    // 0.051 % a month of 30.4 days.
    let rates = published()
        .rates
        .iter()
        .find(|r| r.name == "alibaba-hpn")
        .unwrap();
    let days = rates.mtbf(Component::Leaf).unwrap().seconds() / 86_400.0;
    assert!((days - 30.4 / 0.00051).abs() < 1e-3, "{days}");
    assert_eq!(rates.mtbf(Component::Rack), None);
}
