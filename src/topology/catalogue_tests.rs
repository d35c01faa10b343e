//! The shipped files, and helpers to build machines from them for other tests.

use super::check::check;
use super::expand::{Overrides, expand};
use super::graph::{DeviceKind, Topology};
use super::hardware::{DeviceModel, Hardware, LinkFamily};
use super::spec::TopologySpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap()
}

pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".json").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

pub(super) fn hardware() -> Hardware {
    super::catalogue::hardware().clone()
}

pub(super) fn spec(name: &str) -> TopologySpec {
    serde_json::from_str(&read(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub(super) fn built_from(spec: &TopologySpec, nodes: Option<u32>) -> Topology {
    expand(spec, &hardware(), &Overrides { nodes }).unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn built(name: &str, nodes: Option<u32>) -> Topology {
    built_from(&spec(name), nodes)
}

#[test]
fn shipped_files_bear_their_names_and_are_sound_machines_of_any_size() {
    for name in names() {
        assert_eq!(spec(&name).name, name);
        for nodes in [None, Some(1), Some(2), Some(40)] {
            let topology = built(&name, nodes);
            let findings = check(&topology);
            assert!(findings.is_empty(), "{name} {nodes:?}: {}", findings[0]);
            if let Some(nodes) = nodes {
                assert_eq!(topology.nodes.len(), nodes as usize, "{name}");
            }
        }
    }
}

/// What rings and copies were measured to reach, in GB/s: 6 NVLinks of Volta 135, 12 of Ampere
/// 237–243, 18 of Hopper 369–373, 18 of Blackwell 705–730, x16 of PCIe 24–26.8 and 54–57.4,
/// HDR 24.5, NDR 49, the others as their files say.
#[test]
fn usable_rates_lie_within_what_was_measured() {
    let hardware = hardware();
    let cases = [
        ("nvlink2", 6, 134.9, 135.4),
        ("nvlink3", 12, 237.0, 243.0),
        ("nvlink4", 18, 369.0, 373.0),
        ("nvlink5", 18, 705.0, 730.0),
        ("pcie3", 16, 12.0, 13.2),
        ("pcie4", 16, 24.0, 26.8),
        ("pcie5", 16, 54.0, 57.4),
        ("ib-hdr200", 1, 24.4, 24.6),
        ("ib-ndr400", 1, 48.8, 49.3),
        ("ib-xdr800", 1, 96.4, 96.6),
        ("slingshot-200", 1, 23.0, 23.2),
        ("slingshot-200-phb", 1, 18.0, 18.2),
        ("roce-100", 1, 8.0, 9.8),
        ("roce-400", 1, 45.2, 49.2),
        ("efa-25", 1, 3.10, 3.12),
        ("gve-200-tcpx", 1, 17.7, 19.95),
    ];
    for (name, lanes, low, high) in cases {
        let rate = hardware.links[name].rate(lanes).gb_per_sec();
        assert!((low..=high).contains(&rate), "{name}: {rate}");
    }
}

/// NVLinks of each GPU, by NVSwitch in order; all GPUs of a machine are alike.
#[test]
fn gpus_spread_their_links_over_the_switches_as_documented() {
    let cases: [(&str, Vec<u16>); 9] = [
        ("dgx-2", vec![1; 6]),
        ("azure-ndv4", vec![2; 6]),
        ("aws-p5", vec![5, 4, 4, 5]),
        ("gb300-nvl72", vec![1; 18]),
        ("dgx-a100", vec![2; 6]),
        ("dgx-h100", vec![5, 4, 4, 5]),
        ("dgx-b200", vec![9; 2]),
        ("gb200-nvl36x2", vec![1; 18]),
        ("gb200-nvl72", vec![1; 18]),
    ];
    for (name, expected) in cases {
        let topology = built(name, None);
        assert!(topology.gpus().count() > 0);
        for gpu in topology.gpus() {
            let lanes: BTreeMap<_, u16> = topology
                .links_from(gpu)
                .into_iter()
                .filter(|&(link, _)| topology.family(link) == LinkFamily::Nvlink)
                .map(|(link, switch)| (switch, topology.link(link).lanes))
                .collect();
            let lanes: Vec<u16> = lanes.into_values().collect();
            assert_eq!(lanes, expected, "{name} {}", topology.device_name(gpu));
        }
    }
    assert_eq!(built("gb200-nvl72", None).gpus().count(), 72);
}

/// Used ports of an NVSwitch: 16 of 18 and of 36; 40 and 32 of 64; 72 of 72, three times. No switch has
/// more links than ports.
#[test]
fn switches_have_a_port_for_every_link() {
    let cases: [(&str, Vec<u32>); 6] = [
        ("dgx-2", vec![16; 12]),
        ("dgx-a100", vec![16; 6]),
        ("dgx-h100", vec![40, 32, 32, 40]),
        ("dgx-b200", vec![72; 2]),
        ("gb200-nvl36x2", vec![72; 36]),
        ("gb200-nvl72", vec![72; 18]),
    ];
    let used = |topology: &Topology| {
        let mut used: BTreeMap<_, u32> = BTreeMap::new();
        for (link, about) in topology.links() {
            *used.entry(topology.ends(link).0).or_default() += u32::from(about.lanes);
        }
        used
    };
    for (name, expected) in cases {
        let topology = built(name, None);
        let used = used(&topology);
        let nvswitches: Vec<u32> = topology
            .devices()
            .filter(|(_, device)| device.kind == DeviceKind::NvSwitch)
            .map(|(id, _)| used[&id])
            .collect();
        assert_eq!(nvswitches, expected, "{name}");
    }
    for name in names() {
        for nodes in [None, Some(100)] {
            let topology = built(&name, nodes);
            for (device, links) in used(&topology) {
                if let DeviceModel::Nvswitch(model) | DeviceModel::Switch(model) =
                    topology.device_model(device)
                {
                    let ports = model.ports.value;
                    assert!(links <= ports, "{name} {}", topology.device_name(device));
                }
            }
        }
    }
}

/// Leaves and spines of the published reference design, with all slots of a unit filled.
#[test]
fn superpods_have_the_switches_of_the_reference_design() {
    for (nodes, leaves, spines) in [(32, 8, 4), (64, 16, 8), (96, 24, 16), (128, 32, 16)] {
        let topology = built("superpod-h100", Some(nodes));
        let tiers = &topology.fabrics[0].tiers;
        let count = |tier| tiers.iter().filter(|&&t| t == tier).count();
        assert_eq!((count(0), count(1)), (leaves, spines), "{nodes} nodes");
    }
}
