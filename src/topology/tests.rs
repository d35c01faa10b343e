//! Machines made of small files.

use super::*;
use crate::hardware::{CpuVendor, ProcessorModel};
use crate::spec::TopologySpec;
use fabricsim_units::Time;
use std::time::Instant;

/// Round figures, shared with the integration tests.
pub(super) fn hardware() -> Hardware {
    let text = include_str!("../../tests/cases/topologies/hardware.json");
    load::parse_hardware(text, "hardware.json").unwrap()
}

/// One server of eight GPUs with a rail-optimised fabric.
pub(super) fn server() -> TopologySpec {
    let text = include_str!("../../tests/cases/topologies/server.json");
    load::parse(text, "server.json").unwrap()
}

/// Racks of 18 nodes that share NVSwitches.
pub(super) fn rack() -> TopologySpec {
    let text = include_str!("../../tests/cases/topologies/rack.json");
    load::parse(text, "rack.json").unwrap()
}

/// Two GPUs at two sockets, no fabric.
pub(super) fn pair() -> TopologySpec {
    let text = include_str!("../../tests/cases/topologies/pair.json");
    load::parse(text, "pair.json").unwrap()
}

pub(super) fn build(spec: &TopologySpec, nodes: u32) -> Topology {
    let nodes = Some(nodes);
    expand(spec, &hardware(), &Overrides { nodes }).unwrap_or_else(|e| panic!("{e}"))
}

fn count(topology: &Topology, kind: DeviceKind) -> usize {
    topology.devices().filter(|(_, d)| d.kind == kind).count()
}

#[test]
fn a_server_has_its_devices_links_and_names() {
    let t = build(&server(), 1);
    assert_eq!(t.nodes.len(), 1);
    assert_eq!(t.nodes[0].name, "node0");
    let names: Vec<_> = t.nodes[0].gpus.iter().map(|&g| t.device_name(g)).collect();
    assert_eq!(names[0], "node0/gpu0");
    assert_eq!(names[7], "node0/gpu7");
    assert_eq!(t.nodes[0].nics.len(), 8);
    // 18 NVLinks leave each GPU: 5 + 4 + 4 + 5.
    for gpu in t.gpus() {
        let lanes: u32 = t
            .links_from(gpu)
            .into_iter()
            .filter(|&(link, _)| t.family(link) == LinkFamily::Nvlink)
            .map(|(link, _)| u32::from(t.link(link).lanes))
            .sum();
        assert_eq!(lanes, 18);
    }
    assert_eq!(check(&t), Vec::new());
}

#[test]
fn both_directions_of_a_wire_are_neighbours() {
    let t = build(&rack(), 20);
    for id in (0..t.link_count() as u32).step_by(2) {
        let (forward, back) = (LinkId(id), LinkId(id + 1));
        let (from, to) = t.ends(forward);
        assert_eq!(t.ends(back), (to, from));
        assert_eq!(t.link(back), t.link(forward));
    }
}

#[test]
fn nodes_are_spread_over_as_few_racks_as_hold_them() {
    let t = build(&rack(), 21);
    assert_eq!(t.nodes.len(), 21);
    assert_eq!(t.nodes[10].name, "rack0/tray10");
    assert_eq!(t.nodes[11].name, "rack1/tray0");
    assert_eq!(t.nodes[20].name, "rack1/tray9");
    assert_eq!(t.gpus().count(), 84);
    assert_eq!(count(&t, DeviceKind::NvSwitch), 36);
    for (id, device) in t.devices() {
        let in_node = matches!(
            device.kind,
            DeviceKind::Gpu | DeviceKind::Cpu | DeviceKind::Nic
        );
        assert_eq!(t.node_of(id).is_some(), in_node, "{}", t.device_name(id));
    }
    // A switch of the second rack sees only its 40 GPUs.
    let (id, _) = t
        .devices()
        .filter(|(_, d)| d.kind == DeviceKind::NvSwitch)
        .last()
        .unwrap();
    assert_eq!(t.device_name(id), "rack1/nvswitch17");
    assert_eq!(t.links_from(id).len(), 40);
    assert_eq!(build(&rack(), 36).nodes.len(), 36);
    assert_eq!(build(&rack(), 1).gpus().count(), 4);
}

/// A rack's leaf switches serve its own trays, also where some of the one before take no part.
#[test]
fn missing_nodes_leave_cables_where_they_are() {
    let t = expand(
        &catalogue::find("gb200-nvl72").unwrap(),
        catalogue::hardware(),
        &Overrides { nodes: Some(32) },
    );
    let t = t.unwrap();
    let leaf = |nic: &str| {
        let (nic, _) = t.devices().find(|&(d, _)| t.device_name(d) == nic).unwrap();
        let neighbours = t
            .links_from(nic)
            .into_iter()
            .map(|(_, to)| t.device_name(to));
        neighbours
            .filter(|name| name.contains("leaf"))
            .collect::<Vec<_>>()
    };
    assert_eq!(leaf("rack0/tray0/nic0").len(), 1);
    assert_eq!(leaf("rack0/tray0/nic0"), leaf("rack0/tray15/nic0"));
    assert_ne!(leaf("rack0/tray0/nic0"), leaf("rack1/tray0/nic0"));
    assert_eq!(leaf("rack1/tray0/nic0"), leaf("rack1/tray15/nic0"));
}

#[test]
fn ranks_go_node_by_node() {
    let t = build(&server(), 3);
    let names: Vec<_> = t.gpus().map(|g| t.device_name(g)).collect();
    assert_eq!(names.len(), 24);
    assert_eq!(names[8], "node1/gpu0");
    assert_eq!(names[23], "node2/gpu7");
}

#[test]
fn the_files_own_models_take_precedence() {
    let mut spec = server();
    let mut own = Hardware::default();
    let mut nvlink = hardware().links["nvlink"].clone();
    nvlink.keeps.clear();
    own.links.insert("nvlink".into(), nvlink);
    spec.hardware = Some(own);
    let t = build(&spec, 1);
    let (link, _) = t.links().next().unwrap();
    assert_eq!(t.rate(link).bytes_per_sec(), 125_000_000_000);
}

#[test]
fn messages_cost_what_the_make_of_the_cpu_says_unless_the_interface_does() {
    let mut spec = server();
    let make = |time: &str| {
        let text = format!(r#"{{"message_overhead": {{"value": "{time}", "source": "test"}}}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let mut shipped = hardware();
    shipped.processors = [
        (CpuVendor::Intel, make("3us")),
        (CpuVendor::Amd, make("7us")),
    ]
    .into();
    let takes = |spec: &TopologySpec, shipped: &Hardware| {
        let topology = expand(spec, shipped, &Overrides::default()).unwrap();
        let first = |kind| topology.devices().find(|(_, d)| d.kind == kind).unwrap().0;
        topology.message_overhead(first(DeviceKind::Cpu), first(DeviceKind::Nic))
    };
    let ns = Time::from_nanos;
    assert_eq!(takes(&spec, &shipped), ns(100));
    let Some(DeviceModel::Nic(nic)) = shipped.devices.get_mut("nic") else {
        panic!("the test's interface");
    };
    nic.message_overhead = None;
    assert_eq!(takes(&spec, &shipped), ns(3000));
    // The file's own makes take precedence.
    let own = spec.hardware.get_or_insert_default();
    own.processors.insert(CpuVendor::Intel, make("5us"));
    assert_eq!(takes(&spec, &shipped), ns(5000));
    let told = serde_json::from_str::<Hardware>(r#"{"processors": {"amdd": {}}}"#);
    let told = told.unwrap_err().to_string();
    assert!(told.contains("`amdd`, expected one of `intel`"), "{told}");
    let told = check_own(make("2s"));
    assert!(
        told.contains("hardware.processors.arm.message_overhead"),
        "{told}"
    );
}

/// What is said of a make's costs.
fn check_own(model: ProcessorModel) -> String {
    let hardware = Hardware {
        processors: [(CpuVendor::Arm, model)].into(),
        ..Hardware::default()
    };
    let mut faults = Vec::new();
    model_checks::hardware(&hardware, &mut faults);
    format!("{faults:?}")
}

#[test]
fn several_nodes_without_a_fabric_are_refused() {
    let error = expand(&pair(), &hardware(), &Overrides { nodes: Some(2) })
        .unwrap_err()
        .to_string();
    assert!(error.contains("a fabric joins the nodes"), "{error}");
}

#[test]
fn far_too_many_nodes_are_refused_before_memory_is_taken() {
    let nodes = Some(u32::MAX);
    let error = expand(&server(), &hardware(), &Overrides { nodes }).unwrap_err();
    assert!(error.to_string().contains("at most 20000000"), "{error}");
}

#[test]
fn a_large_machine_is_built_at_once() {
    let start = Instant::now();
    let t = build(&server(), 8192);
    let took = start.elapsed();
    assert_eq!(t.gpus().count(), 65_536);
    // 2048 leaves of 32 NICs, 64 pods of 32 spines, 32 × 32 cores: k^3/4 ports of k = 64.
    let tier = |n| t.fabrics[0].tiers.iter().filter(|&&t| t == n).count();
    assert_eq!((tier(0), tier(1), tier(2)), (2048, 2048, 1024));
    // Unoptimised and on a busy machine; the point is that it is not quadratic.
    assert!(took.as_secs() < 10, "{took:?}");
    println!(
        "{} devices, {} links in {took:?}",
        t.device_count(),
        t.link_count()
    );
}

/// A rack of the file that the machine has not is dropped from explicit cables, whatever
/// it holds.
#[test]
fn explicit_cables_to_nodes_that_were_not_asked_for_are_left_out() {
    let exported = export::export(&build(&rack(), 20));
    let nodes = Some(18);
    let smaller = expand(&exported, &hardware(), &Overrides { nodes }).unwrap();
    assert_eq!(smaller.nodes.len(), 18);
    assert_eq!(smaller.fabrics[0].ports.len(), 72);
    // The other way around there are nodes without cables, and that is said.
    let nodes = Some(40);
    let error = expand(&exported, &hardware(), &Overrides { nodes }).unwrap_err();
    let expected = "no cable at `rack1/tray2/nic0`, which is among the ports";
    let text = error.to_string();
    assert!(
        text.contains(expected) || text.contains("no cable at"),
        "{text}"
    );
}

#[test]
fn explicit_switches_stand_by_their_distance_from_the_ports() {
    let mut spec = server();
    if let Some(fabric) = spec.fabrics.get_mut("compute") {
        let shape = r#"{"explicit": {"switches": 3, "cables": [
            {"from": "node0/nic[0-3]", "to": "switch[0]", "link": "cable"},
            {"from": "node0/nic4, node[0]/nic[5-7]", "to": "switch[2]", "link": "cable"},
            {"from": "switch[0,2]", "to": "switch1", "link": "cable", "lanes": 4}
        ]}}"#;
        fabric.shape = serde_json::from_str(shape).unwrap();
    }
    let t = build(&spec, 1);
    let fabric = &t.fabrics[0];
    assert_eq!(fabric.tiers, [0, 1, 0]);
    let names: Vec<_> = fabric.switches.iter().map(|&s| t.device_name(s)).collect();
    assert_eq!(
        names,
        ["compute/switch0", "compute/switch1", "compute/switch2"]
    );
    assert_eq!(t.links_from(fabric.switches[1]).len(), 2);
    assert_eq!(t.links_from(fabric.switches[2]).len(), 5);
}
