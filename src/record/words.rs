//! What resources and stretches of time are called, and sentences of them.

use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, LinkId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// What a resource is called: alone, and together with others of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// `NVLink out of node0/gpu3`.
    pub(super) name: String,
    /// `NVLink out of ` and `GPUs`.
    class: (String, String),
}

impl Words {
    /// `NVLink out of GPUs`.
    pub(super) fn class(&self) -> String {
        format!("{}{}", self.class.0, self.class.1)
    }

    /// `NVLink out of other GPUs`.
    pub(super) fn others(&self) -> String {
        format!("{}other {}", self.class.0, self.class.1)
    }
}

const fn plural(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu => "GPUs",
        DeviceKind::NvSwitch => "NVSwitches",
        DeviceKind::Cpu => "CPUs",
        DeviceKind::PcieSwitch => "PCIe switches",
        DeviceKind::Nic => "NICs",
        DeviceKind::Switch => "network switches",
        DeviceKind::Storage => "storage devices",
    }
}

const fn only_forwards(kind: DeviceKind) -> bool {
    matches!(
        kind,
        DeviceKind::NvSwitch | DeviceKind::PcieSwitch | DeviceKind::Switch
    )
}

fn families(topology: &Topology, links: &[LinkId]) -> String {
    let families: BTreeSet<LinkFamily> = links.iter().map(|&l| topology.family(l)).collect();
    let words = families.into_iter().enumerate();
    let words = words.map(|(place, family)| match (family, place) {
        (LinkFamily::Network, 0) => "network",
        (LinkFamily::Network, _) => "the network",
        (LinkFamily::Socket, 0) => "socket link",
        (LinkFamily::Socket, _) => "the socket link",
        (other, _) => other.label(),
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Names the links that a resource stands for, by where they lead from and to.
pub(super) fn describe(topology: &Topology, links: &[LinkId]) -> Words {
    let family = families(topology, links);
    let ends: Vec<_> = links.iter().map(|&link| topology.ends(link)).collect();
    let from: BTreeSet<DeviceId> = ends.iter().map(|e| e.0).collect();
    let to: BTreeSet<DeviceId> = ends.iter().map(|e| e.1).collect();
    let kind = |device| topology.device(device).kind;
    let name = |device| topology.device_name(device);
    let only = |set: &BTreeSet<DeviceId>| match set.len() {
        1 => set.first().copied(),
        _ => None,
    };
    // All links of one side of a device. Wires have both directions, so those that leave
    // it are as many as those that enter.
    let whole = |device: DeviceId| {
        let same = |l| links.first().map(|&f| topology.family(f)) == Some(topology.family(l));
        let own = topology.links_from(device);
        own.into_iter().filter(|&(l, _)| same(l)).count() <= links.len()
    };
    let side = |word: &str, device: DeviceId| Words {
        name: format!("{family} {word} {}", name(device)),
        class: (format!("{family} {word} "), plural(kind(device)).to_owned()),
    };
    match (only(&from), only(&to)) {
        (Some(a), _) if !only_forwards(kind(a)) && whole(a) => return side("out of", a),
        (_, Some(b)) if !only_forwards(kind(b)) && whole(b) => return side("into", b),
        (Some(a), None) => return side("out of", a),
        (None, Some(b)) => return side("into", b),
        _ => {}
    }
    let sources: Vec<_> = from.difference(&to).copied().collect();
    let sinks: Vec<_> = to.difference(&from).copied().collect();
    let class = if let ([a], [b]) = (sources.as_slice(), sinks.as_slice()) {
        let (a, b) = (kind(*a), kind(*b));
        let (word, kinds) = match (only_forwards(a), only_forwards(b)) {
            _ if a == b => ("between", plural(a).to_owned()),
            (false, true) => ("out of", plural(a).to_owned()),
            (true, false) => ("into", plural(b).to_owned()),
            _ => ("from", format!("{} to {}", plural(a), plural(b))),
        };
        (format!("{family} {word} "), kinds)
    } else {
        let kinds: BTreeSet<&str> = sources
            .iter()
            .chain(&sinks)
            .map(|&d| plural(kind(d)))
            .collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        (format!("{family} between "), kinds.join(" and "))
    };
    let chains = chains(&sources, &ends);
    let text = |&(a, b): &(DeviceId, DeviceId)| format!("from {} to {}", name(a), name(b));
    let name = match chains.as_slice() {
        // A closed circle: any link will do.
        [] => links
            .first()
            .map_or_else(String::new, |&link| text(&topology.ends(link))),
        [one] => text(one),
        [one, two] => format!("{} and {}", text(one), text(two)),
        [one, more @ ..] => format!("{} and {} more", text(one), more.len()),
    };
    Words {
        name: format!("{family} {name}"),
        class,
    }
}

/// Where one gets from each source, taking the first link of several.
fn chains(sources: &[DeviceId], ends: &[(DeviceId, DeviceId)]) -> Vec<(DeviceId, DeviceId)> {
    let mut next: BTreeMap<DeviceId, DeviceId> = BTreeMap::new();
    for &(from, to) in ends {
        next.entry(from).or_insert(to);
    }
    let follow = |&source: &DeviceId| {
        let mut at = source;
        // No chain is longer than there are links; a circle ends somewhere in it.
        for _ in ends {
            let Some(&to) = next.get(&at) else { break };
            at = to;
        }
        (source, at)
    };
    sources.iter().map(follow).collect()
}
