//! A machine in words and numbers.

use fabricsim_topology::graph::Fabric;
use fabricsim_topology::{DeviceKind, DeviceModel, LinkFamily, Topology, tiers};
use std::collections::BTreeMap;

/// Everything that a page can hold of a machine.
pub(super) fn show(topology: &Topology) -> String {
    let mut out = format!("{}: {}\n\n", topology.name, topology.title);
    out += &nodes(topology);
    out += "\nDevices\n";
    out += &devices(topology);
    out += "\nLinks (rates of one direction)\n";
    out += &links(topology);
    let storage = storage(topology);
    if !storage.is_empty() {
        out += "\nStorage (its link carries no more than it reads and writes)\n";
        out += &storage;
    }
    if !topology.fabrics.is_empty() {
        out += "\nFabrics\n";
        out += &fabrics(topology);
    }
    out
}

fn nodes(topology: &Topology) -> String {
    let gpus: usize = topology.nodes.iter().map(|node| node.gpus.len()).sum();
    let mut kinds: BTreeMap<(usize, usize), (usize, &str)> = BTreeMap::new();
    for node in &topology.nodes {
        let sizes = (node.gpus.len(), node.nics.len());
        kinds.entry(sizes).or_insert((0, &node.name)).0 += 1;
    }
    let mut out = format!(
        "{}, {}\n",
        plural(topology.nodes.len(), "node"),
        plural(gpus, "GPU")
    );
    for ((gpus, nics), (count, first)) in kinds {
        out += &format!(
            "  {} with {} and {} ({first}{})\n",
            plural(count, "node"),
            plural(gpus, "GPU"),
            plural(nics, "fabric NIC"),
            if count > 1 { " …" } else { "" },
        );
    }
    out
}

fn devices(topology: &Topology) -> String {
    let mut counts: BTreeMap<(DeviceKind, u16), usize> = BTreeMap::new();
    for (_, device) in topology.devices() {
        *counts.entry((device.kind, device.model)).or_default() += 1;
    }
    let rows = counts.into_iter().map(|((kind, model), count)| {
        let (name, model) = &topology.device_models[usize::from(model)];
        [
            count.to_string(),
            kind.label().to_owned(),
            name.clone(),
            model.title().to_owned(),
        ]
    });
    table(&rows.collect::<Vec<_>>())
}

/// What storage devices hold, read and write, with the sources.
fn storage(topology: &Topology) -> String {
    let mut out = String::new();
    for (name, model) in &topology.device_models {
        let DeviceModel::Storage(model) = model else {
            continue;
        };
        let (read, write) = (&model.read_rate, &model.write_rate);
        // Drives are sold by powers of ten.
        let terabytes = model.capacity.value.get() as f64 / 1e12;
        out += &format!("  {name}: {terabytes:.2} TB ({})\n", model.capacity.source);
        for (what, rate) in [("reads", read), ("writes", write)] {
            let gb = rate.value.gb_per_sec();
            out += &format!("    {what} {gb:.1} GB/s ({})\n", rate.source);
        }
        out += &format!(
            "    {} to the first byte ({})\n",
            model.latency.value, model.latency.source
        );
    }
    out
}

/// Kinds of wire: what they join, how wide they are, what they carry, and why so much.
fn links(topology: &Topology) -> String {
    type Wire = (LinkFamily, u16, DeviceKind, DeviceKind, u16);
    let mut counts: BTreeMap<Wire, usize> = BTreeMap::new();
    // Both directions of a wire follow each other.
    for (id, link) in topology.links().step_by(2) {
        let (from, to) = topology.ends(id);
        let (a, b) = (topology.device(from).kind, topology.device(to).kind);
        let wire = (
            topology.family(id),
            link.model,
            a.min(b),
            a.max(b),
            link.lanes,
        );
        *counts.entry(wire).or_default() += 1;
    }
    let mut rows = Vec::new();
    for (&(_, model, a, b, lanes), &count) in &counts {
        let (name, model) = &topology.link_models[usize::from(model)];
        let width = u32::from(lanes);
        let (usable, raw) = (
            model.rate(width).gb_per_sec(),
            model.raw_rate(width).gb_per_sec(),
        );
        rows.push([
            count.to_string(),
            format!("{name} x{lanes}"),
            format!("{} – {}", a.label(), b.label()),
            format!("{usable:.1} of {raw:.1} GB/s usable"),
        ]);
    }
    let mut out = table(&rows);
    let mut last = None;
    for &(_, index, ..) in counts.keys() {
        if last.replace(index) == Some(index) {
            continue;
        }
        let (name, model) = &topology.link_models[usize::from(index)];
        out += &format!(
            "  {name}: {} per lane ({})\n",
            model.lane_rate.value, model.lane_rate.source
        );
        for keep in &model.keeps {
            let percent = keep.fraction * 100.0;
            out += &format!(
                "    {percent:.1} % left by {} ({})\n",
                keep.what, keep.source
            );
        }
        out += &format!(
            "    latency {} ({})\n",
            model.latency.value, model.latency.source
        );
    }
    out
}

fn fabrics(topology: &Topology) -> String {
    let mut out = String::new();
    for fabric in &topology.fabrics {
        let tiers = (0..=u8::MAX).map_while(|tier| {
            let count = fabric.tiers.iter().filter(|&&t| t == tier).count();
            let name = ["leaf", "spine", "core"].get(usize::from(tier));
            (count > 0).then(|| match name {
                Some(name) => plural(count, &format!("{name} switch")),
                None => format!("{count} of tier {tier}"),
            })
        });
        let tiers: Vec<String> = tiers.collect();
        out += &format!(
            "  {}: {}, {}; routing {}\n",
            fabric.name,
            plural(fabric.ports.len(), "port"),
            match fabric.group_count() {
                0 if tiers.is_empty() => "no switches".to_owned(),
                0 => tiers.join(", "),
                groups => format!(
                    "{} in {}",
                    plural(fabric.switches.len(), "switch"),
                    plural(groups, "group")
                ),
            },
            format!("{:?}", fabric.routing).to_lowercase(),
        );
        for line in oversubscription(topology, fabric)
            .into_iter()
            .chain(rails(topology, fabric))
        {
            out += &format!("    {line}\n");
        }
    }
    out
}

/// What goes upwards of each tier beside what comes from below, by its cables.
fn oversubscription(topology: &Topology, fabric: &Fabric) -> Vec<String> {
    let grouped = fabric.group_count() > 0;
    let tiers = tiers::tiers(topology, fabric);
    let name = |tier: u8| match (grouped, tier) {
        (true, _) => "between groups".to_owned(),
        (false, 0) => "leaf switches".to_owned(),
        (false, 1) => "spine switches".to_owned(),
        (false, tier) => format!("tier {tier}"),
    };
    let with = tiers
        .iter()
        .filter_map(|tier| Some((tier.tier, tier.oversubscription?)));
    let lines: Vec<String> = with
        .map(|(tier, (least, most))| {
            let ratio = match (ratio(least), ratio(most)) {
                (least, most) if least == most => least,
                (least, most) => format!("{least} to {most}, for not all are full"),
            };
            format!("oversubscription, {}: {ratio}", name(tier))
        })
        .collect();
    let why = match fabric.switches.len() {
        _ if !lines.is_empty() => return lines,
        0 => return Vec::new(),
        1 => "all ports are on one switch",
        _ if grouped => "there is one group",
        _ => "no leaf switch reaches another",
    };
    vec![format!("oversubscription: none, {why}")]
}

/// `2:1` of what is below over what is above, `1:2` where there is more above.
fn ratio(below_over_above: f64) -> String {
    let short = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match below_over_above {
        more if more >= 1.0 => format!("{}:1", short(more)),
        less => format!("1:{}", short(1.0 / less)),
    }
}

/// Which leaf switches are a rail, if they are.
fn rails(topology: &Topology, fabric: &Fabric) -> Option<String> {
    let rails = tiers::rails(topology, fabric);
    let last = rails.values().copied().max().filter(|&last| last > 0)?;
    let of_last = rails.iter().filter(|(_, rail)| **rail == last);
    let leaves: Vec<String> = of_last
        .map(|(&leaf, _)| topology.device_name(leaf))
        .collect();
    let leaves = match leaves.as_slice() {
        [first, .., end] => format!("{first} … {end}"),
        leaves => leaves.concat(),
    };
    Some(format!(
        "rails 0 to {last}, a NIC of each node on each: `rail{last}` is {leaves}"
    ))
}

/// Columns as wide as their longest cell; the first one aligned to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            line += &match column {
                0 => format!(" {cell:>width$}"),
                _ => format!("  {cell:<width$}"),
            };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn plural(count: usize, what: &str) -> String {
    match (count, what.ends_with("ch")) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}
