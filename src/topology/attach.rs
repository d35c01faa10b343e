//! Joining a machine's nodes by its fabrics.

use super::error::Fault;
use super::fabric::{self, Cable, CableKind, End, Parts, Plan, PlannedSwitch, Port};
use super::graph::{Device, DeviceId, DeviceKind, Fabric, Link, Place};
use super::hardware::{DeviceModel, LinkModel};
use super::machine::{Machine, add_wire};
use super::models::{self, Models};
use super::selector;
use super::spec::{FabricShape, FabricSpec, RoutingPolicy};
use super::template::{MAX_DEVICES, MAX_WIRES, too_many_devices, too_many_wires};
use petgraph::graph::NodeIndex;
use std::collections::BTreeMap;

impl Machine {
    /// Adds a fabric: its switches and cables.
    pub(super) fn add_fabric<'a>(
        &mut self,
        name: &'a str,
        spec: &'a FabricSpec,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let at = format!("fabrics.{name}");
        let before = faults.len();
        if let Err(problem) = selector::check_name(name) {
            faults.push(Fault::new(
                &at,
                problem,
                "letters, digits, `_`, `-` and `.`",
            ));
        }
        if self.places.iter().any(|p| p.name == *name) {
            faults.push(Fault::new(
                &at,
                format!("`{name}`, which is an instance's name too"),
                "a name of its own",
            ));
        }
        if !self.ports.contains_key(&spec.ports) {
            let known = self.ports.keys().map(String::as_str);
            faults.push(Fault::unknown(
                format!("{at}.ports"),
                "port groups of the instances",
                &spec.ports,
                known,
            ));
        }
        let port_link = models.link(&spec.port_link, &format!("{at}.port_link"), faults);
        let switch_link = match &spec.switch_link {
            Some(link) => models.link(link, &format!("{at}.switch_link"), faults),
            None => port_link,
        };
        let switch = switch_model(&spec.switch, &format!("{at}.switch"), models, faults);
        let upper = match &spec.upper_switch {
            Some(name) => switch_model(name, &format!("{at}.upper_switch"), models, faults),
            None => switch,
        };
        let (Some(port_link), Some(switch_link), Some((switch, radix)), Some((upper, upper_radix))) =
            (port_link, switch_link, switch, upper)
        else {
            return;
        };
        if faults.len() > before {
            return;
        }
        let ports = self.numbered_ports(&spec.ports);
        let plan = if let FabricShape::Explicit(shape) = &spec.shape {
            let names = Names {
                machine: self,
                spec_stems: models.stem_names(),
            };
            let site = fabric::Site {
                shape,
                at: format!("{at}.shape.explicit"),
                ports: &ports,
                radix,
                upper_radix,
                find: &|path, at| self.find(path, at),
                name_of: &|device| names.of(device),
            };
            fabric::explicit_plan(&site, models, faults)
        } else {
            let rate = |model: &LinkModel| model.lane_rate.value.bytes_per_sec() as f64;
            let parts = Parts {
                radix,
                upper_radix,
                rate_ratio: rate(port_link.1) / rate(switch_link.1),
            };
            fabric::plan(spec, &ports, parts, &at).unwrap_or_else(|fault| {
                faults.push(fault);
                Plan::default()
            })
        };
        if faults.len() > before {
            return;
        }
        let used = Used {
            port_link: port_link.0,
            switch_link: switch_link.0,
            switch,
            upper,
        };
        self.build(name, spec, &ports, &plan, &used, models, faults);
    }

    /// Ports in order of node and rail, with both. Ports of no node count by place. Nodes that
    /// are missing in the middle keep their numbers: whoever is next is cabled as ever.
    fn numbered_ports(&self, group: &str) -> Vec<Port> {
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut keyed: Vec<((u32, u32), u32, u32)> = Vec::new();
        for &device in self.ports.get(group).into_iter().flatten() {
            let place = self.graph[NodeIndex::new(device as usize)].place;
            let key = match self.places[place as usize].node {
                Some(node) => (node.0, 0),
                None => (u32::MAX, place),
            };
            let count = counts.entry(key).or_default();
            keyed.push((key, *count, device));
            *count += 1;
        }
        keyed.sort_unstable();
        let mut ports = Vec::with_capacity(keyed.len());
        let missing = |key: (u32, u32)| self.missing.get(key.0 as usize).copied();
        let (mut node, mut last) = (0, None);
        for (key, rail, device) in keyed {
            if let Some(last) = last.filter(|&last| last != key) {
                let gap = missing(key).zip(missing(last)).map(|(b, a)| b - a);
                node += 1 + gap.unwrap_or(0);
            }
            last = Some(key);
            ports.push(Port { device, node, rail });
        }
        ports
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where all of it meets"
    )]
    fn build<'a>(
        &mut self,
        name: &str,
        spec: &FabricSpec,
        ports: &[Port],
        plan: &Plan,
        used: &Used,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let at = format!("fabrics.{name}");
        let total = (self.graph.node_count() + plan.switches.len()) as u64;
        let added: u64 = plan
            .cables
            .iter()
            .map(|c| u64::from(wires(spec, c).0))
            .sum();
        let wires_in_all = (self.graph.edge_count() / 2) as u64 + added;
        if total > MAX_DEVICES {
            faults.push(too_many_devices(&at, total));
            return;
        }
        if wires_in_all > MAX_WIRES {
            faults.push(too_many_wires(&at, wires_in_all));
            return;
        }
        let place = self.places.len() as u32;
        self.places.push(Place {
            name: name.to_owned(),
            node: None,
            fabric: Some(self.fabrics.len() as u16),
            price: None,
            absent_gpus: 0,
        });
        let first = self.graph.node_count() as u32;
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        for switch in &plan.switches {
            let number = numbers.entry(&switch.stem).or_default();
            let Ok(index) = u16::try_from(*number) else {
                faults.push(Fault::new(
                    at,
                    format!("more than 65536 switches called `{}`", switch.stem),
                    "at most 65536",
                ));
                return;
            };
            *number += 1;
            let Some(stem) = models.stem(&switch.stem, &[], &at, faults) else {
                return;
            };
            self.graph.add_node(Device {
                kind: DeviceKind::Switch,
                model: if switch.tier > 0 {
                    used.upper
                } else {
                    used.switch
                },
                place,
                stem,
                index,
            });
        }
        self.graph.reserve_edges(2 * added as usize);
        for cable in &plan.cables {
            let from = match cable.from {
                End::Device(device) => device,
                End::Switch(switch) => first + switch,
            };
            let model = match cable.kind {
                CableKind::Port => used.port_link,
                CableKind::Switch => used.switch_link,
                CableKind::Model(model) => model,
            };
            let (count, lanes) = wires(spec, cable);
            for _ in 0..count {
                add_wire(
                    &mut self.graph,
                    from,
                    first + cable.to,
                    Link { model, lanes },
                );
            }
        }
        self.node_nics.resize(self.node_names.len(), Vec::new());
        for port in ports {
            let place = self.graph[NodeIndex::new(port.device as usize)].place;
            if let Some(node) = self.places[place as usize].node {
                let nics = &mut self.node_nics[node.index()];
                if !nics.contains(&DeviceId(port.device)) {
                    nics.push(DeviceId(port.device));
                }
            }
        }
        self.fabrics.push(Fabric {
            name: name.to_owned(),
            routing: spec.routing,
            switches: (first..first + plan.switches.len() as u32)
                .map(DeviceId)
                .collect(),
            tiers: plan.switches.iter().map(|s| s.tier).collect(),
            groups: groups(plan),
            ports: ports.iter().map(|p| DeviceId(p.device)).collect(),
            leaf_ports: plan.leaf_ports,
        });
    }
}

/// How many wires parallel cables are, and how many lanes each has. A hash picks a cable, and what
/// it puts on one cannot use those beside it; other policies use a bundle as a whole.
fn wires(spec: &FabricSpec, cable: &Cable) -> (u16, u16) {
    let hashed = spec.routing == RoutingPolicy::Ecmp && matches!(cable.from, End::Switch(_));
    if hashed {
        (cable.lanes, 1)
    } else {
        (1, cable.lanes)
    }
}

/// The models of a fabric's parts.
struct Used {
    port_link: u16,
    switch_link: u16,
    switch: u16,
    upper: u16,
}

/// A network switch's model and ports.
fn switch_model<'a>(
    name: &'a str,
    at: &str,
    models: &mut Models<'a>,
    faults: &mut Vec<Fault>,
) -> Option<(u16, u32)> {
    match models.device(name, at, faults)? {
        (number, DeviceModel::Switch(model)) => {
            Some((number, model.ports.value.min(u16::MAX.into())))
        }
        (_, other) => {
            faults.push(Fault::new(
                at,
                format!("`{name}`, a {}", models::kind(other).label()),
                "a network switch",
            ));
            None
        }
    }
}

/// The groups of the switches, if they have any; those without one are a group together.
fn groups(plan: &Plan) -> Vec<u32> {
    if plan.switches.iter().all(|s| s.group.is_none()) {
        return Vec::new();
    }
    let group = |s: &PlannedSwitch| s.group.unwrap_or(u32::MAX);
    plan.switches.iter().map(group).collect()
}

/// Names of devices while the machine is not complete.
struct Names<'m> {
    machine: &'m Machine,
    spec_stems: Vec<String>,
}

impl Names<'_> {
    fn of(&self, device: u32) -> String {
        let device = self.machine.graph[NodeIndex::new(device as usize)];
        let place = &self.machine.places[device.place as usize].name;
        let stem = &self.spec_stems[device.stem as usize];
        format!("{place}/{stem}{}", device.index)
    }
}
