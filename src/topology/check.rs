//! Whether a machine makes sense as a whole.

use super::graph::{DeviceId, DeviceKind, Topology};
use super::hardware::{DeviceModel, LinkFamily};
use super::storage;
use fabricsim_units::Bandwidth;
use std::fmt;

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; the machine can be simulated.
    Warning,
    /// Not a machine: [`super::expand()`] refuses it.
    Error,
}

/// Something about a whole machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The full name of the device or link that shows it, or of the machine.
    pub place: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
    /// How many places show the same; `place` is the first.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.place)?;
        if self.count > 1 {
            write!(f, " and {} more", self.count - 1)?;
        }
        write!(f, ": {}; expected {}", self.found, self.expected)
    }
}

/// Looks at a whole machine: GPUs without links, nodes that cannot reach each other,
/// NVSwitches with more links than ports, NICs in several fabrics, NICs that are faster
/// than their slots, storage devices that hang on anything but one PCIe link.
/// Findings of one kind are told once, with their number.
#[must_use]
pub fn check(topology: &Topology) -> Vec<Finding> {
    let mut findings = Vec::new();
    if topology.gpus().next().is_none() {
        findings.push(Finding {
            severity: Severity::Error,
            place: topology.name.clone(),
            found: "no GPU".into(),
            expected: "at least one GPU in a node".into(),
            count: 1,
        });
    }
    let linked = lost_gpus(topology, &mut findings);
    unreachable(topology, &linked, &mut findings);
    crowded_switches(topology, &mut findings);
    shared_ports(topology, &mut findings);
    slow_slots(topology, &mut findings);
    for (devices, found) in storage::mislinked(topology) {
        let (devices, expected) = (devices.into_iter(), storage::ONE_LINK);
        tell(
            topology,
            &mut findings,
            Severity::Error,
            devices,
            found,
            expected,
        );
    }
    findings
}

/// GPUs that no node has, or without any link. Returns which devices have one.
fn lost_gpus(topology: &Topology, findings: &mut Vec<Finding>) -> Vec<bool> {
    let mut linked = vec![false; topology.device_count()];
    for edge in topology.graph.raw_edges() {
        linked[edge.source().index()] = true;
    }
    let gpus = || {
        topology
            .devices()
            .filter(|(_, d)| d.kind == DeviceKind::Gpu)
    };
    tell(
        topology,
        findings,
        Severity::Error,
        gpus()
            .filter(|&(id, _)| topology.node_of(id).is_none())
            .map(|(id, _)| id),
        "a GPU outside of any node",
        "GPUs inside a component with `\"node\": true`",
    );
    // A machine of a single GPU needs no link.
    if gpus().nth(1).is_some() {
        tell(
            topology,
            findings,
            Severity::Error,
            gpus()
                .filter(|&(id, _)| !linked[id.index()])
                .map(|(id, _)| id),
            "a GPU without any link",
            "a link to a switch, a CPU or another GPU",
        );
    }
    linked
}

/// GPUs with links that cannot reach the first such.
fn unreachable(topology: &Topology, linked: &[bool], findings: &mut Vec<Finding>) {
    // Groups of connected devices, as a forest with paths halved on the way up.
    let mut parent: Vec<u32> = (0..topology.device_count() as u32).collect();
    fn root(parent: &mut [u32], mut at: u32) -> u32 {
        while parent[at as usize] != at {
            let above = parent[parent[at as usize] as usize];
            parent[at as usize] = above;
            at = above;
        }
        at
    }
    // Both directions of a wire are there, so every other link tells as much.
    for edge in topology.graph.raw_edges().iter().step_by(2) {
        let a = root(&mut parent, edge.source().index() as u32);
        let b = root(&mut parent, edge.target().index() as u32);
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut gpus = topology.gpus().filter(|g| linked[g.index()]);
    let Some(first) = gpus.next() else {
        return;
    };
    let home = root(&mut parent, first.0);
    let lost: Vec<DeviceId> = gpus.filter(|g| root(&mut parent, g.0) != home).collect();
    let found = format!("no path to `{}`", topology.device_name(first));
    let hint = if topology.nodes.len() > 1 && topology.fabrics.is_empty() {
        "a path between any two GPUs; a fabric joins the nodes"
    } else {
        "a path between any two GPUs"
    };
    tell(
        topology,
        findings,
        Severity::Error,
        lost.into_iter(),
        &found,
        hint,
    );
}

/// NVSwitches with more links than ports.
fn crowded_switches(topology: &Topology, findings: &mut Vec<Finding>) {
    let mut taken = vec![0u64; topology.device_count()];
    for edge in topology.graph.raw_edges() {
        if topology.link_models[edge.weight.model as usize].1.family == LinkFamily::Nvlink {
            taken[edge.source().index()] += u64::from(edge.weight.lanes);
        }
    }
    let mut worst = Vec::new();
    for (id, device) in topology.devices() {
        if let DeviceModel::Nvswitch(model) = &topology.device_models[device.model as usize].1 {
            let ports = model.ports.value;
            if taken[id.index()] > u64::from(ports) {
                worst.push((id, taken[id.index()], ports));
            }
        }
    }
    if let Some(&(_, taken, ports)) = worst.first() {
        tell(
            topology,
            findings,
            Severity::Error,
            worst.iter().map(|&(id, _, _)| id),
            &format!("{taken} NVLinks at an NVSwitch"),
            &format!("at most {ports}, its ports"),
        );
    }
}

/// NICs that stand in the ports of several fabrics.
fn shared_ports(topology: &Topology, findings: &mut Vec<Finding>) {
    let mut ports: Vec<DeviceId> = topology
        .fabrics
        .iter()
        .flat_map(|f| f.ports.iter().copied())
        .collect();
    ports.sort_unstable();
    let mut twice: Vec<DeviceId> = ports
        .windows(2)
        .filter(|w| w[0] == w[1])
        .map(|w| w[0])
        .collect();
    twice.dedup();
    tell(
        topology,
        findings,
        Severity::Error,
        twice.into_iter(),
        "a NIC in the ports of several fabrics",
        "one fabric for each NIC, which has one port",
    );
}

/// NICs whose cables carry more than their PCIe links.
fn slow_slots(topology: &Topology, findings: &mut Vec<Finding>) {
    let rates = topology.rates();
    let mut network = vec![0u64; topology.device_count()];
    let mut host = vec![0u64; topology.device_count()];
    for (id, edge) in topology
        .links()
        .map(|(id, _)| id)
        .zip(topology.graph.raw_edges())
    {
        let table = match topology.family(id) {
            LinkFamily::Network => &mut network,
            LinkFamily::Pcie | LinkFamily::C2c => &mut host,
            LinkFamily::Nvlink | LinkFamily::Socket => continue,
        };
        let sum = &mut table[edge.source().index()];
        // A slow drive behind a NIC makes no slow slot.
        let rate = match topology.limits.contains_key(&id) {
            true => topology.wire_rate(id),
            false => rates(id),
        };
        *sum = sum.saturating_add(rate.bytes_per_sec());
    }
    let nics = topology
        .devices()
        .filter(|(_, d)| d.kind == DeviceKind::Nic);
    let (mut slow, mut bare) = (Vec::new(), Vec::new());
    for (id, _) in nics {
        let (out, slot) = (network[id.index()], host[id.index()]);
        if slot == 0 {
            bare.push(id);
        } else if out > slot {
            slow.push(id);
        }
    }
    if let Some(first) = slow.first() {
        let rate = |table: &[u64]| Bandwidth::from_bytes_per_sec(table[first.index()]);
        let found = format!(
            "a NIC of {:.1} GB/s in a slot of {:.1} GB/s",
            rate(&network).gb_per_sec(),
            rate(&host).gb_per_sec()
        );
        let slow = slow.iter().copied();
        tell(
            topology,
            findings,
            Severity::Warning,
            slow,
            &found,
            "a slot as fast as the NIC",
        );
    }
    tell(
        topology,
        findings,
        Severity::Warning,
        bare.into_iter(),
        "a NIC without a PCIe link",
        "a link to a PCIe switch or a CPU",
    );
}

/// Adds one finding for all of `devices`, if there are any.
fn tell(
    topology: &Topology,
    findings: &mut Vec<Finding>,
    severity: Severity,
    mut devices: impl Iterator<Item = DeviceId>,
    found: &str,
    expected: &str,
) {
    if let Some(first) = devices.next() {
        findings.push(Finding {
            severity,
            place: topology.device_name(first),
            found: found.to_owned(),
            expected: expected.to_owned(),
            count: 1 + devices.count() as u64,
        });
    }
}
