//! What is published of each shipped machine, against the machine.

use super::catalogue_tests::{built, names};
use super::graph::{DeviceId, DeviceKind, NodeId, Topology};
use super::hardware::{LinkFamily, NicProtocol};
use super::paths::matrix;
use super::route::Router;
use std::collections::BTreeSet;

/// NICs of a node by number, for a GPU's number.
type Near = fn(u32) -> Vec<u32>;

struct Facts {
    name: &'static str,
    /// Of a node.
    gpus: u32,
    /// GB/s of a GPU's NVLinks, one direction, before any loss.
    nvlink: f64,
    /// Of a node.
    nics: u32,
    /// Gb/s of a NIC, before any loss.
    nic_rate: f64,
    speaks: NicProtocol,
    /// The NICs that no other is nearer than, for each GPU.
    near: Near,
}

fn own(gpu: u32) -> Vec<u32> {
    vec![gpu]
}

/// Two GPUs share one.
fn shared(gpu: u32) -> Vec<u32> {
    vec![gpu / 2]
}

/// Two GPUs share two.
fn pair(gpu: u32) -> Vec<u32> {
    vec![gpu / 2 * 2, gpu / 2 * 2 + 1]
}

/// Two GPUs share four.
fn four_of_two(gpu: u32) -> Vec<u32> {
    (gpu / 2 * 4..gpu / 2 * 4 + 4).collect()
}

fn own_two(gpu: u32) -> Vec<u32> {
    vec![2 * gpu, 2 * gpu + 1]
}

fn own_four(gpu: u32) -> Vec<u32> {
    (4 * gpu..4 * gpu + 4).collect()
}

fn half(gpu: u32) -> Vec<u32> {
    vec![gpu / 4]
}

fn only(_: u32) -> Vec<u32> {
    vec![0]
}

/// GPU 1 and GPU 3 have one each, the others are as far from both.
fn polaris(gpu: u32) -> Vec<u32> {
    match gpu {
        1 => vec![1],
        3 => vec![0],
        _ => vec![0, 1],
    }
}

const fn facts(
    name: &'static str,
    (gpus, nvlink): (u32, f64),
    (nics, nic_rate, speaks): (u32, f64, NicProtocol),
    near: Near,
) -> Facts {
    Facts {
        name,
        gpus,
        nvlink,
        nics,
        nic_rate,
        speaks,
        near,
    }
}

use NicProtocol::{Efa, Infiniband, Roce, Slingshot, Tcp};

const FACTS: &[Facts] = &[
    facts("dgx-1-v100", (8, 150.0), (4, 100.0, Infiniband), shared),
    facts("dgx-2", (16, 150.0), (8, 100.0, Infiniband), shared),
    facts("dgx-a100", (8, 300.0), (8, 200.0, Infiniband), pair),
    facts("dgx-h100", (8, 450.0), (8, 400.0, Infiniband), own),
    facts("dgx-h100-nvme", (8, 450.0), (8, 400.0, Infiniband), own),
    facts("dgx-h200", (8, 450.0), (8, 400.0, Infiniband), own),
    facts("dgx-b200", (8, 900.0), (8, 400.0, Infiniband), own),
    facts("dgx-b300", (8, 900.0), (8, 800.0, Infiniband), own),
    facts("gb200-nvl36x2", (4, 900.0), (4, 400.0, Infiniband), pair),
    facts("gb200-nvl72", (4, 900.0), (4, 400.0, Infiniband), pair),
    facts("gb300-nvl72", (4, 900.0), (4, 800.0, Infiniband), own),
    facts("gh200-quad", (4, 450.0), (4, 200.0, Slingshot), own),
    facts(
        "a100-quad-slingshot",
        (4, 300.0),
        (2, 200.0, Slingshot),
        polaris,
    ),
    facts("superpod-h100", (8, 450.0), (8, 400.0, Infiniband), own),
    facts("llama3-24k", (8, 450.0), (8, 400.0, Roce), pair),
    facts("hgx-h100-roce", (8, 450.0), (8, 400.0, Roce), own),
    facts("aws-p4d", (8, 300.0), (4, 100.0, Efa), shared),
    facts("aws-p5", (8, 450.0), (32, 100.0, Efa), own_four),
    facts("aws-p5en", (8, 450.0), (16, 200.0, Efa), four_of_two),
    facts("aws-p6-b300", (8, 900.0), (16, 400.0, Efa), own_two),
    facts("azure-ndv4", (8, 300.0), (8, 200.0, Infiniband), pair),
    facts("azure-ndv5", (8, 450.0), (8, 400.0, Infiniband), own),
    facts("gcp-a3-high", (8, 450.0), (4, 200.0, Tcp), shared),
    facts("gcp-a3-mega", (8, 450.0), (8, 200.0, Tcp), pair),
    facts("gcp-a3-ultra", (8, 450.0), (8, 400.0, Roce), own),
    facts("x86-h100-pcie", (8, 0.0), (2, 400.0, Infiniband), half),
    facts("l40s-pcie", (4, 0.0), (2, 100.0, Roce), shared),
    facts("rtx4090-pcie", (8, 0.0), (1, 100.0, Roce), only),
    facts("t4-pcie", (4, 0.0), (1, 25.0, Efa), only),
];

/// GB/s of a device's links of a family, before any loss.
fn raw(topology: &Topology, device: DeviceId, family: LinkFamily) -> f64 {
    topology
        .links_from(device)
        .into_iter()
        .filter(|&(link, _)| topology.family(link) == family)
        .map(|(link, _)| topology.raw_rate(link).gb_per_sec())
        .sum()
}

/// GB/s from some devices to all others over links of a family, before any loss.
fn cut(topology: &Topology, inside: impl Fn(DeviceId) -> bool, family: LinkFamily) -> f64 {
    topology
        .links()
        .map(|(link, _)| link)
        .filter(|&link| {
            let (from, to) = topology.ends(link);
            inside(from) && !inside(to) && topology.family(link) == family
        })
        .map(|link| topology.raw_rate(link).gb_per_sec())
        .sum()
}

#[test]
fn every_shipped_machine_has_its_facts() {
    let told: BTreeSet<&str> = FACTS.iter().map(|f| f.name).collect();
    let shipped = names();
    assert_eq!(told, shipped.iter().map(String::as_str).collect());
}

#[test]
fn nodes_have_the_gpus_links_and_nics_that_are_published() {
    for facts in FACTS {
        let name = facts.name;
        let topology = built(name, Some(2));
        assert_eq!(topology.nodes.len(), 2, "{name}");
        let router = Router::new(&topology, 0);
        for node in &topology.nodes {
            assert_eq!(node.gpus.len(), facts.gpus as usize, "{name}");
            assert_eq!(node.nics.len(), facts.nics as usize, "{name}");
            for &nic in &node.nics {
                let rate = raw(&topology, nic, LinkFamily::Network) * 8.0;
                assert_eq!(rate, facts.nic_rate, "{name}");
                let model = topology.nic_model(nic).unwrap();
                assert_eq!(model.protocol, facts.speaks, "{name}");
            }
            for (number, &gpu) in (0..).zip(&node.gpus) {
                let nvlink = raw(&topology, gpu, LinkFamily::Nvlink);
                assert_eq!(nvlink, facts.nvlink, "{name} {number}");
                let ranked = router.ranked_nics(gpu);
                let best = (ranked[0].0, ranked[0].1);
                let near: Vec<DeviceId> = ranked
                    .into_iter()
                    .filter(|&(rate, kind, _)| (rate, kind) == best)
                    .map(|(_, _, nic)| nic)
                    .collect();
                let told: Vec<DeviceId> = (facts.near)(number)
                    .into_iter()
                    .map(|n| node.nics[n as usize])
                    .collect();
                assert_eq!(near, told, "{name} GPU {number}");
            }
        }
    }
}

/// All cells between GPUs of the first node, as nvidia-smi calls them.
fn cells(name: &str) -> Vec<Vec<String>> {
    let topology = built(name, Some(1));
    let gpus = topology.gpus().count();
    matrix(&topology, NodeId(0)).cells[..gpus]
        .iter()
        .map(|row| row[..gpus].iter().map(|cell| cell.smi.clone()).collect())
        .collect()
}

#[test]
fn gpus_of_a_cube_mesh_are_joined_to_four_others() {
    let expected = [
        "X NV1 NV1 NV2 NV2 SYS SYS SYS",
        "NV1 X NV2 NV1 SYS NV2 SYS SYS",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS",
        "NV2 NV1 NV2 X SYS SYS SYS NV1",
        "NV2 SYS SYS SYS X NV1 NV1 NV2",
        "SYS NV2 SYS SYS NV1 X NV2 NV1",
        "SYS SYS NV1 SYS NV1 NV2 X NV2",
        "SYS SYS SYS NV1 NV2 NV1 NV2 X",
    ];
    let cells = cells("dgx-1-v100");
    for (row, expected) in cells.iter().zip(expected) {
        assert_eq!(row.join(" "), expected);
    }
}

#[test]
fn all_pairs_are_alike_where_all_are_joined() {
    let cases = [
        ("dgx-2", "NV6"),
        ("aws-p4d", "NV12"),
        ("azure-ndv5", "NV18"),
        ("dgx-b300", "NV18"),
        ("gb200-nvl36x2", "NV18"),
        ("gb300-nvl72", "NV18"),
        ("gh200-quad", "NV6"),
        ("a100-quad-slingshot", "NV4"),
    ];
    for (name, expected) in cases {
        for (i, row) in cells(name).iter().enumerate() {
            for (j, cell) in row.iter().enumerate() {
                let expected = if i == j { "X" } else { expected };
                assert_eq!(cell, expected, "{name} {i} {j}");
            }
        }
    }
}

#[test]
fn halves_of_a_node_meet_over_the_links_that_are_published() {
    // GB/s between the first and the second half of the GPUs, switches with their half.
    for (name, expected) in [("dgx-1-v100", 150.0), ("dgx-2", 1200.0)] {
        let topology = built(name, Some(1));
        let gpus = &topology.nodes[0].gpus;
        let first = &gpus[..gpus.len() / 2];
        let inside = |device: DeviceId| match topology.device(device).kind {
            DeviceKind::Gpu => first.contains(&device),
            DeviceKind::NvSwitch => topology.device(device).index < 6,
            _ => false,
        };
        assert_eq!(
            cut(&topology, inside, LinkFamily::Nvlink),
            expected,
            "{name}"
        );
    }
}

#[test]
fn pods_of_the_llama_3_cluster_have_a_seventh_of_their_bandwidth_up() {
    let topology = built("llama3-24k", None);
    assert_eq!(topology.gpus().count(), 24_576);
    let fabric = &topology.fabrics[0];
    let count = |tier| fabric.tiers.iter().filter(|&&t| t == tier).count();
    // A leaf per rack of two nodes; eight pods of 192 racks.
    assert_eq!(count(0), 1536);
    let cores: BTreeSet<DeviceId> = fabric
        .switches
        .iter()
        .zip(&fabric.tiers)
        .filter(|&(_, &tier)| tier == 2)
        .map(|(&switch, _)| switch)
        .collect();
    let up = cut(&topology, |d| !cores.contains(&d), LinkFamily::Network) / 8.0;
    let nics = 3072.0 * 50.0;
    assert!((up / (nics / 7.0) - 1.0).abs() < 0.03, "{up}");
    // Inside a pod nothing is missing: racks have twice as much up as their NICs.
    let leaf = fabric.switches[0];
    let is_nic = |d: DeviceId| topology.device(d).kind == DeviceKind::Nic;
    let of = |nic: bool| -> f64 {
        let links = topology.links_from(leaf).into_iter();
        links
            .filter(|&(_, far)| is_nic(far) == nic)
            .map(|(link, _)| topology.raw_rate(link).gb_per_sec())
            .sum()
    };
    assert_eq!(of(false), 2.0 * of(true));
}

#[test]
fn groups_of_a_dragonfly_have_the_injection_and_the_cables_of_frontier() {
    let topology = built("gh200-quad", Some(256));
    let fabric = &topology.fabrics[0];
    assert_eq!(fabric.group_count(), 2);
    let group: BTreeSet<DeviceId> = fabric
        .switches
        .iter()
        .zip(&fabric.groups)
        .filter(|&(_, &group)| group == 0)
        .map(|(&switch, _)| switch)
        .collect();
    let is_switch = |d: DeviceId| topology.device(d).kind == DeviceKind::Switch;
    let out = |nic: bool| -> f64 {
        let links = group.iter().flat_map(|&s| topology.links_from(s));
        links
            .filter(|&(_, far)| !group.contains(&far) && is_switch(far) != nic)
            .map(|(link, _)| topology.raw_rate(link).gb_per_sec())
            .sum()
    };
    assert_eq!(out(true), 12_800.0);
    assert_eq!(out(false), 4.0 * 25.0);
}

#[test]
fn what_devices_can_do_is_known() {
    // GPUDirect RDMA; peers over PCIe below one switch or over NVLink.
    let cases = [
        ("dgx-h100", true, true),
        ("t4-pcie", false, false),
        ("rtx4090-pcie", false, false),
        ("l40s-pcie", true, false),
        ("x86-h100-pcie", true, true),
        ("gcp-a3-high", true, true),
    ];
    for (name, direct, peers) in cases {
        let topology = built(name, Some(1));
        let node = &topology.nodes[0];
        assert_eq!(
            topology.gpu_direct(node.gpus[0], node.nics[0]),
            direct,
            "{name}"
        );
        assert!(!topology.gpu_direct(node.nics[0], node.gpus[0]), "{name}");
        let router = Router::new(&topology, 0);
        assert_eq!(
            router.peer(node.gpus[0], node.gpus[1]).is_ok(),
            peers,
            "{name}"
        );
    }
    // In-switch reduction: of NVSwitches from the third generation on, of InfiniBand.
    let cases = [
        ("dgx-2", false, false),
        ("dgx-a100", false, true),
        ("dgx-h100", true, true),
        ("gb300-nvl72", true, true),
        ("aws-p5", true, false),
        ("hgx-h100-roce", true, false),
    ];
    for (name, multicast, reduces) in cases {
        let topology = built(name, Some(1));
        for (id, device) in topology.devices() {
            let Some(model) = topology.switch_model(id) else {
                continue;
            };
            match device.kind {
                DeviceKind::NvSwitch => assert_eq!(model.multicast, multicast, "{name}"),
                _ => assert_eq!(model.reduction.is_some(), reduces, "{name}"),
            }
        }
    }
}
