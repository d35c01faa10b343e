//! Switch counts against published reference designs.

use super::*;
use crate::spec::{Dragonfly, LeafSpine, RailOptimized};

fn ports(nodes: u32, rails: u32) -> Vec<Port> {
    (0..nodes)
        .flat_map(|node| {
            (0..rails).map(move |rail| Port {
                device: node * rails + rail,
                node,
                rail,
            })
        })
        .collect()
}

fn parts(radix: u32) -> Parts {
    Parts {
        radix,
        upper_radix: radix,
        rate_ratio: 1.0,
    }
}

fn rails(nodes_per_unit: Option<u32>) -> RailOptimized {
    RailOptimized {
        comment: None,
        nodes_per_unit,
        spines: None,
        oversubscription: 1.0,
        leaves_per_pod: None,
        core_oversubscription: 1.0,
    }
}

fn leaves(ports_per_leaf: Option<u32>) -> LeafSpine {
    LeafSpine {
        comment: None,
        ports_per_leaf,
        spines: None,
        oversubscription: 1.0,
        leaves_per_pod: None,
        core_oversubscription: 1.0,
    }
}

/// Leaves, spines and cores.
fn tiers(plan: &Plan) -> [usize; 3] {
    [0, 1, 2].map(|tier| plan.switches.iter().filter(|s| s.tier == tier).count())
}

/// Cables between leaves and spines, and between spines and cores.
fn trunks(plan: &Plan) -> [u64; 2] {
    [0, 1].map(|tier| {
        plan.cables
            .iter()
            .filter(|c| match c.from {
                End::Switch(from) => plan.switches[from as usize].tier == tier,
                End::Device(_) => false,
            })
            .map(|c| u64::from(c.lanes))
            .sum()
    })
}

/// No switch has more cables than ports.
fn fits(plan: &Plan, radix: u32) {
    let mut taken = vec![0u32; plan.switches.len()];
    for cable in &plan.cables {
        taken[cable.to as usize] += u32::from(cable.lanes);
        if let End::Switch(from) = cable.from {
            taken[from as usize] += u32::from(cable.lanes);
        }
    }
    assert!(
        taken.iter().all(|&n| n <= radix),
        "{:?}",
        taken.iter().max()
    );
}

#[test]
fn superpods_of_h100_have_the_published_switches() {
    // Nodes; leaves, spines; cables between them (NVIDIA DGX SuperPOD H100).
    let table = [
        (31, [8, 4, 0], 256),
        (63, [16, 8, 0], 512),
        (95, [24, 16, 0], 768),
        (127, [32, 16, 0], 1024),
    ];
    for (nodes, counts, cables) in table {
        let plan = rail::optimized(&rails(None), &ports(nodes, 8), parts(64), "").unwrap();
        assert_eq!(tiers(&plan), counts, "{nodes} nodes");
        assert_eq!(trunks(&plan), [cables, 0], "{nodes} nodes");
        fits(&plan, 64);
    }
}

#[test]
fn superpods_of_b200_have_the_published_switches() {
    // Nodes; leaves, spines, cores; cables of each level (NVIDIA DGX SuperPOD B200).
    let table = [
        (64, [16, 8, 0], [512, 0]),
        (128, [32, 16, 0], [1024, 0]),
        (256, [64, 32, 0], [2048, 0]),
        (512, [128, 128, 64], [4096, 4096]),
        (1024, [256, 256, 128], [8192, 8192]),
        (2048, [512, 512, 256], [16384, 16384]),
    ];
    for (nodes, counts, cables) in table {
        let plan = rail::optimized(&rails(Some(32)), &ports(nodes, 8), parts(64), "").unwrap();
        assert_eq!(tiers(&plan), counts, "{nodes} nodes");
        assert_eq!(trunks(&plan), cables, "{nodes} nodes");
        fits(&plan, 64);
    }
}

#[test]
fn superpods_of_b300_on_144_port_switches_have_the_published_switches() {
    let table = [
        (72, [8, 4, 0]),
        (144, [16, 8, 0]),
        (288, [32, 18, 0]),
        (576, [64, 36, 0]),
        (1296, [144, 72, 0]),
    ];
    for (nodes, counts) in table {
        let plan = rail::optimized(&rails(None), &ports(nodes, 8), parts(144), "").unwrap();
        assert_eq!(tiers(&plan), counts, "{nodes} nodes");
        fits(&plan, 144);
    }
}

#[test]
fn every_size_fits_its_switches() {
    for nodes in 1..200 {
        for shape in [rails(None), rails(Some(3))] {
            for plan in [
                rail::optimized(&shape, &ports(nodes, 4), parts(8), ""),
                rail::only(&shape, &ports(nodes, 4), parts(8), ""),
            ] {
                match plan {
                    Ok(plan) => fits(&plan, 8),
                    Err(fault) => assert!(fault.expected.contains("three tiers"), "{fault}"),
                }
            }
        }
    }
}

#[test]
fn one_leaf_needs_no_spine_and_may_use_all_its_ports() {
    let plan = leaf_spine::plan(&leaves(Some(64)), &ports(8, 8), parts(64), "").unwrap();
    assert_eq!(tiers(&plan), [1, 0, 0]);
}

#[test]
fn oversubscription_takes_spines_away() {
    let mut shape = leaves(None);
    shape.oversubscription = 4.0;
    let plan = leaf_spine::plan(&shape, &ports(64, 8), parts(64), "").unwrap();
    // 16 leaves with 8 cables up each fill 2 spines.
    assert_eq!(tiers(&plan), [16, 2, 0]);
    assert_eq!(trunks(&plan), [128, 0]);
}

#[test]
fn faster_cables_between_switches_are_fewer() {
    let fast = Parts {
        rate_ratio: 0.5,
        ..parts(64)
    };
    let plan = leaf_spine::plan(&leaves(None), &ports(64, 8), fast, "").unwrap();
    assert_eq!(trunks(&plan), [256, 0]);
}

#[test]
fn rails_of_their_own_meet_nowhere() {
    let plan = rail::only(&rails(None), &ports(64, 8), parts(64), "").unwrap();
    // Each rail: 2 leaves of 32 and a spine.
    assert_eq!(tiers(&plan), [16, 8, 0]);
    let one = rail::only(&rails(None), &ports(32, 8), parts(64), "").unwrap();
    assert_eq!(tiers(&one), [8, 0, 0]);
}

#[test]
fn what_cannot_be_wired_is_said() {
    let mut spines = leaves(None);
    spines.spines = Some(12);
    let cases = [
        (leaves(Some(0)), 8, "1 to 64"),
        (leaves(Some(65)), 8, "1 to 64"),
        (leaves(Some(48)), 64, "fewer ports_per_leaf"),
        (spines.clone(), 48, "at least 6, and a divisor of 32: 8"),
        (spines, 2048, "no `spines`, or at most 64 leaves"),
        (
            leaves(None),
            70_000,
            "what three tiers of 64-port switches join",
        ),
    ];
    for (shape, nodes, expected) in cases {
        let fault = leaf_spine::plan(
            &shape,
            &ports(nodes, if nodes == 48 { 8 } else { 4 }),
            parts(64),
            "",
        )
        .unwrap_err();
        assert!(fault.expected.contains(expected), "{fault}");
    }
}

#[test]
fn what_has_too_many_nodes_says_how_many_fit() {
    assert_eq!(last_that(9, |n| n <= 5), 5);
    assert_eq!((last_that(9, |_| false), last_that(0, |_| true)), (0, 0));
    let mut file: FabricSpec = serde_json::from_value(serde_json::json!({
        "ports": "compute", "port_link": "x", "switch": "y",
        "shape": {"rail_optimized": {}}, "routing": "ecmp"
    }))
    .unwrap();
    let most = |file: &FabricSpec, nodes, each| {
        let fault = super::plan(file, &ports(nodes, each), parts(8), "").unwrap_err();
        let (_, said) = fault.expected.split_once("nodes, at most ").unwrap();
        said.split_once(' ').unwrap().0.parse::<u32>().unwrap()
    };
    let fit = most(&file, 1000, 4);
    assert!(super::plan(&file, &ports(fit, 4), parts(8), "").is_ok());
    assert_eq!(most(&file, fit + 1, 4), fit);
    file.shape = FabricShape::Dragonfly(frontier(1));
    let fit = |nodes| super::plan(&file, &ports(nodes, 1), parts(64), "");
    assert!(fit(545 * 512).is_ok());
    let fault = fit(600 * 512).unwrap_err();
    assert!(
        fault
            .expected
            .ends_with(&format!("at most {} fit", 545 * 512)),
        "{fault}"
    );
}

/// As Frontier: 16 NICs and 31 neighbours on a switch of 64 ports.
fn frontier(global_cables: u32) -> Dragonfly {
    Dragonfly {
        comment: None,
        ports_per_switch: 16,
        switches_per_group: 32,
        local_cables: 1,
        global_cables,
    }
}

#[test]
fn groups_of_a_dragonfly_hold_128_nodes_of_four_nics() {
    for (nodes, groups, switches) in [(1, 1, 32), (128, 1, 32), (129, 2, 64)] {
        let plan = dragonfly::plan(&frontier(4), &ports(nodes, 4), parts(64), "").unwrap();
        fits(&plan, 64);
        assert_eq!(plan.switches.len(), switches, "{nodes} nodes");
        let last = plan.switches.last().and_then(|s| s.group);
        assert_eq!(last, Some(groups - 1), "{nodes} nodes");
    }
    // 74 groups of compute nodes: all to all inside, four cables between any two.
    let plan = dragonfly::plan(&frontier(4), &ports(74 * 128, 4), parts(64), "").unwrap();
    fits(&plan, 64);
    let local = 74 * (32 * 31 / 2);
    assert_eq!(trunks(&plan), [local + 74 * 73 / 2 * 4, 0]);
    // Every switch has its part of the cables to other groups: nine, as published.
    let mut global = vec![0; plan.switches.len()];
    for cable in &plan.cables {
        if let End::Switch(from) = cable.from
            && plan.switches[from as usize].group != plan.switches[cable.to as usize].group
        {
            global[from as usize] += 1;
            global[cable.to as usize] += 1;
        }
    }
    assert!(global.iter().all(|&n| n == 9 || n == 10), "{global:?}");
}

#[test]
fn a_dragonfly_of_64_ports_has_545_groups_at_most() {
    let of = |groups: u32| dragonfly::plan(&frontier(1), &ports(groups * 512, 1), parts(64), "");
    fits(&of(545).unwrap(), 64);
    let fault = of(546).unwrap_err();
    assert!(fault.path.ends_with("global_cables"), "{fault}");
    let mut crowded = frontier(1);
    crowded.local_cables = 2;
    let fault = dragonfly::plan(&crowded, &ports(4, 4), parts(64), "").unwrap_err();
    assert!(fault.path.ends_with("local_cables"), "{fault}");
    let mut few = frontier(1);
    few.switches_per_group = 2;
    let fault = dragonfly::plan(&few, &ports(4, 4), parts(64), "").unwrap_err();
    assert!(fault.path.ends_with("switches_per_group"), "{fault}");
}

#[test]
fn pods_meet_over_as_few_cables_as_asked_for() {
    let mut shape = leaves(Some(32));
    shape.leaves_per_pod = Some(8);
    shape.core_oversubscription = 4.0;
    // Eight leaves are a pod by themselves; 32 leaves are four pods.
    let pod = leaf_spine::plan(&shape, &ports(32, 8), parts(64), "").unwrap();
    assert_eq!(tiers(&pod), [8, 4, 0]);
    let four = leaf_spine::plan(&shape, &ports(128, 8), parts(64), "").unwrap();
    assert_eq!(tiers(&four), [32, 128, 32]);
    assert_eq!(trunks(&four), [32 * 32, 32 * 32 / 4]);
    fits(&four, 64);
    shape.core_oversubscription = 0.1;
    let fault = leaf_spine::plan(&shape, &ports(128, 8), parts(64), "").unwrap_err();
    assert!(fault.path.ends_with("core_oversubscription"), "{fault}");
    shape.leaves_per_pod = Some(64);
    let fault = leaf_spine::plan(&shape, &ports(128, 8), parts(64), "").unwrap_err();
    assert!(fault.path.ends_with("leaves_per_pod"), "{fault}");
}
