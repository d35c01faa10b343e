//! Machines: those that are shipped, and made-up ones.

use super::draw::Draw;
use serde_json::{Value, json};

/// A machine, as a scenario names it, and how many nodes and GPUs of a node take part.
pub(crate) struct Machine {
    pub(crate) topology: Value,
    pub(crate) nodes: u64,
    /// All if absent.
    pub(crate) gpus_per_node: Option<u64>,
    pub(crate) ranks: u64,
}

/// Shipped machines with the GPUs of a node, and the most nodes that cases have of them.
const SHIPPED: [(&str, u64, u64); 26] = [
    ("a100-quad-slingshot", 4, 6),
    ("aws-p4d", 8, 3),
    ("aws-p5", 8, 3),
    ("aws-p5en", 8, 3),
    ("aws-p6-b300", 8, 2),
    ("azure-ndv4", 8, 3),
    ("azure-ndv5", 8, 3),
    ("dgx-1-v100", 8, 3),
    ("dgx-2", 16, 2),
    ("dgx-a100", 8, 3),
    ("dgx-b200", 8, 3),
    ("dgx-b300", 8, 3),
    ("dgx-h100", 8, 4),
    ("dgx-h200", 8, 3),
    ("gb200-nvl72", 4, 4),
    ("gb300-nvl72", 4, 4),
    ("gcp-a3-high", 8, 2),
    ("gcp-a3-mega", 8, 2),
    ("gcp-a3-ultra", 8, 2),
    ("gh200-quad", 4, 5),
    ("hgx-h100-roce", 8, 4),
    ("l40s-pcie", 4, 4),
    ("llama3-24k", 8, 3),
    ("rtx4090-pcie", 8, 2),
    ("t4-pcie", 4, 3),
    ("x86-h100-pcie", 8, 3),
];

/// A machine, by chance.
pub(crate) fn machine(draw: &mut Draw) -> Machine {
    if draw.percent(35) {
        return made_up(draw);
    }
    let (name, gpus, most) = draw.of(&SHIPPED);
    // Two racks, of which the second is nearly empty.
    let racks = name.ends_with("nvl72") && draw.percent(15);
    let nodes = if racks { 19 } else { 1 + draw.below(most) };
    let taking = if draw.percent(30) {
        1 + draw.below(gpus)
    } else {
        gpus
    };
    Machine {
        topology: json!({ "name": name }),
        nodes,
        gpus_per_node: (taking < gpus).then_some(taking),
        ranks: nodes * taking,
    }
}

/// What GPUs of a kind are attached by: model, NVLink, NVSwitch, PCIe, PCIe switch, lanes of PCIe.
const GPUS: [(&str, &str, &str, &str, &str); 4] = [
    (
        "v100-sxm2-32gb",
        "nvlink2",
        "nvswitch1",
        "pcie3",
        "pcie-switch-gen3",
    ),
    (
        "a100-sxm-80gb",
        "nvlink3",
        "nvswitch2",
        "pcie4",
        "pcie-switch-gen4",
    ),
    (
        "h100-sxm",
        "nvlink4",
        "nvswitch3",
        "pcie5",
        "pcie-switch-gen5",
    ),
    ("b200", "nvlink5", "nvswitch5", "pcie5", "pcie-switch-gen5"),
];

/// Interfaces with their cables and switches.
const NICS: [(&str, &str, &str); 4] = [
    ("connectx-4", "ib-edr100", "switch-edr"),
    ("connectx-7", "ib-ndr400", "quantum-2"),
    ("connectx-7-roce", "roce-400", "ethernet-64x400"),
    ("connectx-6-dx", "roce-100", "ethernet-128x100"),
];

/// How the GPUs of a made-up node are joined, beside PCIe.
#[derive(Clone, Copy, PartialEq)]
enum Joined {
    Not,
    BySwitches,
    All,
    InPairs,
}

fn made_up(draw: &mut Draw) -> Machine {
    let (gpu, nvlink, nvswitch, pcie, pcie_switch) = draw.of(&GPUS);
    let (nic, cable, switch) = draw.of(&NICS);
    let gpus = draw.of(&[1u64, 2, 4, 4, 8]);
    let nodes = draw.of(&[1u64, 2, 3, 4, 6]);
    let sockets = if gpus > 1 { draw.of(&[1u64, 2]) } else { 1 };
    let of_socket = gpus.div_ceil(sockets);
    let joined = draw.of(&[
        Joined::Not,
        Joined::BySwitches,
        Joined::All,
        Joined::InPairs,
    ]);
    let lanes = draw.of(&[16u64, 16, 8, 4]);
    let nics = draw.of(&[1, sockets, gpus]).max(1);
    let mut devices = json!({
        "gpu": { "model": gpu, "count": gpus },
        "cpu": { "model": "xeon-8480c", "count": sockets },
        "nic": { "model": nic, "count": nics },
    });
    let mut links = Vec::new();
    let below_switches = draw.percent(60);
    if below_switches {
        devices["pcie"] = json!({ "model": pcie_switch, "count": sockets });
    }
    for socket in 0..sockets {
        let attached = if below_switches {
            links.push(json!({ "from": format!("pcie[{socket}]"), "to": format!("cpu[{socket}]"), "link": pcie, "lanes": lanes }));
            format!("pcie[{socket}]")
        } else {
            format!("cpu[{socket}]")
        };
        for gpu in (0..gpus).filter(|gpu| gpu / of_socket == socket) {
            links.push(json!({ "from": format!("gpu[{gpu}]"), "to": attached, "link": pcie, "lanes": lanes }));
        }
        for nic in (0..nics).filter(|nic| nic * sockets / nics == socket) {
            links.push(json!({ "from": format!("nic[{nic}]"), "to": attached, "link": pcie, "lanes": lanes }));
        }
    }
    if sockets > 1 {
        links.push(json!({ "from": "cpu[0]", "to": "cpu[1]", "link": "upi-sapphire-rapids", "lanes": draw.of(&[2u64, 4]) }));
    }
    match joined {
        Joined::BySwitches if gpus > 1 => {
            let count = draw.of(&[1u64, 2, 4]);
            devices["nvswitch"] = json!({ "model": nvswitch, "count": count });
            links.push(json!({ "from": "gpu[*]", "to": "nvswitch[*]", "link": nvlink, "lanes": draw.of(&[1u64, 2, 4]) }));
        }
        Joined::All => {
            for a in 0..gpus {
                for b in a + 1..gpus {
                    links.push(json!({ "from": format!("gpu[{a}]"), "to": format!("gpu[{b}]"), "link": nvlink, "lanes": 2 }));
                }
            }
        }
        Joined::InPairs => {
            for a in (0..gpus.saturating_sub(1)).step_by(2) {
                links.push(json!({ "from": format!("gpu[{a}]"), "to": format!("gpu[{}]", a + 1), "link": nvlink, "lanes": 4 }));
            }
        }
        Joined::BySwitches | Joined::Not => {}
    }
    Machine {
        topology: json!({ "inline": {
            "name": "made-up",
            "title": "a made-up machine",
            "source": "none",
            "components": { "server": {
                "node": true,
                "devices": devices,
                "links": links,
                "ports": { "compute": "nic[*]" },
            } },
            "instances": [{ "name": "node", "component": "server", "count": nodes }],
            "fabrics": { "compute": {
                "ports": "compute",
                "port_link": cable,
                "switch": switch,
                "shape": shape(draw, nics),
                "routing": draw.of(&["adaptive", "ecmp", "deterministic"]),
            } },
        } }),
        nodes,
        gpus_per_node: None,
        ranks: nodes * gpus,
    }
}

fn shape(draw: &mut Draw, nics: u64) -> Value {
    let down = draw.of(&[1u64, 2, 4, 8]);
    let over = draw.of(&[1.0, 2.0, 4.0]);
    match draw.below(4) {
        0 => json!({ "single_switch": {} }),
        1 => json!({ "rail_optimized": { "nodes_per_unit": down, "oversubscription": over } }),
        _ => {
            json!({ "leaf_spine": { "ports_per_leaf": nics * down.min(4), "oversubscription": over } })
        }
    }
}
