//! The machine as Graphviz DOT text: every device and wire, places as clusters.

use crate::graph::{DeviceId, DeviceKind, Topology};
use crate::hardware::LinkFamily;
use std::fmt::Write;

/// DOT text for `dot -Tsvg` or `neato`. Each wire is one undirected edge; its label says
/// how many lanes it has and what one direction carries.
#[must_use]
pub fn dot(topology: &Topology) -> String {
    let mut out = String::new();
    let t = topology;
    // Writing to a String cannot fail.
    let _ = writeln!(out, "graph \"{}\" {{", escape(&t.name));
    let _ = writeln!(out, "  label=\"{}\"; labelloc=t;", escape(&t.title));
    let _ = writeln!(
        out,
        "  node [shape=box, style=filled, fontname=\"sans-serif\"];"
    );
    let _ = writeln!(out, "  edge [fontname=\"sans-serif\", fontsize=9];");
    let mut members: Vec<Vec<DeviceId>> = vec![Vec::new(); t.places.len()];
    for (id, device) in t.devices() {
        members[device.place as usize].push(id);
    }
    for (i, (place, devices)) in t.places.iter().zip(&members).enumerate() {
        if devices.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  subgraph cluster{i} {{");
        let _ = writeln!(out, "    label=\"{}\";", escape(&place.name));
        for &id in devices {
            let device = t.device(id);
            let stem = &t.stems[device.stem as usize];
            let _ = writeln!(
                out,
                "    d{} [label=\"{}{}\", fillcolor=\"{}\"];",
                id.0,
                escape(stem),
                device.index,
                fill(device.kind)
            );
        }
        let _ = writeln!(out, "  }}");
    }
    for (id, link) in t.links().step_by(2) {
        let (from, to) = t.ends(id);
        let _ = writeln!(
            out,
            "  d{} -- d{} [label=\"{}× {} {:.0} GB/s\", color=\"{}\"];",
            from.0,
            to.0,
            link.lanes,
            t.family(id).label(),
            t.rate(id).gb_per_sec(),
            stroke(t.family(id))
        );
    }
    out.push_str("}\n");
    out
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A device's colour.
pub(super) const fn fill(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu => "#dcefc4",
        DeviceKind::NvSwitch => "#c9ebe4",
        DeviceKind::Cpu => "#dde3ef",
        DeviceKind::PcieSwitch => "#fbe6c3",
        DeviceKind::Nic => "#eadcf5",
        DeviceKind::Switch => "#d3e5f8",
        DeviceKind::Storage => "#f3d9dc",
    }
}

/// A link's colour.
pub(super) const fn stroke(family: LinkFamily) -> &'static str {
    match family {
        LinkFamily::Nvlink => "#5c9a2f",
        LinkFamily::C2c => "#1f8a7d",
        LinkFamily::Pcie => "#d08c1d",
        LinkFamily::Socket => "#5d719c",
        LinkFamily::Network => "#5b93d3",
    }
}
