//! From a topology's file to the machine.

use super::check::{self, Severity, check};
use super::error::{Fault, TopologyError};
use super::fabric::{self, CableKind, End, Parts, Plan, Port};
use super::graph::{Device, DeviceId, DeviceKind, Fabric, Link, Node, NodeId, Place, Topology};
use super::hardware::{DeviceModel, Hardware};
use super::models::Models;
use super::selector::SelectorPath;
use super::spec::{FabricShape, FabricSpec, TopologySpec};
use super::template::{
    Builder, MAX_DEVICES, MAX_WIRES, Template, Wire, choose, join, ranges, too_many_devices,
    too_many_wires,
};
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a command line or a sweep changes of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// So many nodes in place of what the file's counts give. The instances are filled in
    /// order and each to the brim before the next; the last one that holds nodes repeats as
    /// often as needed. A rack that is not full still has all devices of its own.
    pub nodes: Option<u32>,
}

/// Builds the machine that a file describes. Models come from the file's own `hardware`
/// first, then from `hardware`.
///
/// Devices are numbered instance by instance, each component's own devices (by name, then
/// number) before those of its inner instances; fabrics' switches come last, fabrics in
/// order of name. Both directions of a wire are consecutive links, forward first.
///
/// # Errors
/// [`TopologyError::Faults`] with everything that is wrong: in the file first and, if that
/// is sound, in the machine as a whole (see [`check()`]).
pub fn expand(
    spec: &TopologySpec,
    hardware: &Hardware,
    overrides: &Overrides,
) -> Result<Topology, TopologyError> {
    let error = |faults| TopologyError::Faults {
        origin: format!("topology `{}`", spec.name),
        faults,
    };
    let mut faults = Vec::new();
    if let Some(own) = &spec.hardware {
        check::hardware(own, &mut faults);
    }
    let mut models = Models::new(spec.hardware.as_ref(), hardware);
    let mut machine = Machine::default();
    machine.add_instances(spec, overrides, &mut models, &mut faults);
    if faults.is_empty() {
        if spec.fabrics.len() > MAX_FABRICS {
            faults.push(Fault::new(
                "fabrics",
                format!("{} fabrics", spec.fabrics.len()),
                format!("at most {MAX_FABRICS}"),
            ));
        }
        for (name, fabric) in spec.fabrics.iter().take(MAX_FABRICS) {
            machine.add_fabric(name, fabric, &mut models, &mut faults);
        }
    }
    if !faults.is_empty() {
        return Err(error(faults));
    }
    let topology = machine.into_topology(spec, models);
    let faults: Vec<Fault> = check(&topology)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| {
            let more = finding.count - 1;
            let found = match more {
                0 => finding.found,
                _ => format!("{} (and at {more} more)", finding.found),
            };
            Fault::new(finding.place, found, finding.expected)
        })
        .collect();
    if faults.is_empty() {
        Ok(topology)
    } else {
        Err(error(faults))
    }
}

/// More fabrics than any machine has; keeps their numbers within 16 bits.
const MAX_FABRICS: usize = 1000;

/// A copy of a template at the top of the machine.
struct Stamp {
    base: u32,
    template: Rc<Template>,
    /// For a copy that is not full: the new numbers of the template's devices.
    kept: Option<Rc<Vec<u32>>>,
}

/// Stands for a device that a copy which is not full lacks.
const ABSENT: u32 = u32::MAX;

impl Stamp {
    fn device(&self, relative: u32) -> Option<u32> {
        match &self.kept {
            None => Some(self.base + relative),
            Some(kept) => match kept[relative as usize] {
                ABSENT => None,
                number => Some(self.base + number),
            },
        }
    }
}

/// The machine as it grows.
#[derive(Default)]
struct Machine {
    graph: DiGraph<Device, Link, u32>,
    places: Vec<Place>,
    node_names: Vec<String>,
    ports: BTreeMap<String, Vec<u32>>,
    stamps: BTreeMap<String, Vec<Stamp>>,
    /// The instances of the file, with the number after each entry's last copy.
    in_file: BTreeMap<String, Vec<(u64, Rc<Template>)>>,
    fabrics: Vec<Fabric>,
    /// NICs of each node that face a fabric, by fabric and rail.
    node_nics: Vec<Vec<DeviceId>>,
}

/// How many copies of an instance there are, and how many nodes the last one has if it is
/// not full.
type Fill = (u64, Option<u32>);

impl Machine {
    fn add_instances<'a>(
        &mut self,
        spec: &'a TopologySpec,
        overrides: &Overrides,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let mut builder = Builder::new(spec);
        let templates: Vec<_> = spec
            .instances
            .iter()
            .enumerate()
            .map(|(i, instance)| {
                builder.of_instance(instance, &format!("instances[{i}]"), models, faults)
            })
            .collect();
        // Components that nothing uses are read too, for their faults.
        for name in spec.components.keys() {
            let _ = builder.of_component(name, models, faults);
        }
        if !faults.is_empty() {
            return;
        }
        let templates: Vec<Rc<Template>> = templates.into_iter().flatten().collect();
        if templates.iter().all(|t| t.nodes == 0) {
            faults.push(Fault::new(
                "instances",
                "no instance that is or holds a node",
                "at least one component with `\"node\": true`",
            ));
            return;
        }
        if overrides.nodes == Some(0) {
            faults.push(Fault::new("nodes", "0", "at least 1 node"));
            return;
        }
        let fills = fills(spec, &templates, overrides.nodes);
        let sum = |cost: &dyn Fn(&Template) -> u64| -> u64 {
            let pairs = templates.iter().zip(&fills);
            pairs.fold(0, |sum, (template, &(count, _))| {
                sum.saturating_add(count.saturating_mul(cost(template)))
            })
        };
        let (devices, wires) = (sum(&Template::size), sum(&|t| t.wires.len() as u64));
        if devices > MAX_DEVICES {
            faults.push(too_many_devices("instances", devices));
        }
        if wires > MAX_WIRES {
            faults.push(too_many_wires("instances", wires));
        }
        if !faults.is_empty() {
            return;
        }
        // A group exists even if the nodes that were asked for have no port of it.
        for template in &templates {
            for group in template.ports.keys() {
                self.ports.entry(group.clone()).or_default();
            }
        }
        self.graph = DiGraph::with_capacity(devices as usize, 2 * wires as usize);
        for ((instance, template), (count, last)) in
            spec.instances.iter().zip(&templates).zip(fills)
        {
            let entries = self.in_file.entry(instance.name.clone()).or_default();
            let before = entries.last().map_or(0, |&(end, _)| end);
            entries.push((before + u64::from(instance.count), Rc::clone(template)));
            for i in 0..count {
                let part = last.filter(|_| i + 1 == count);
                self.stamp(&instance.name, template, part);
            }
        }
    }

    /// Adds one copy of a template, with all its nodes or the first `part`.
    fn stamp(&mut self, name: &str, template: &Rc<Template>, part: Option<u32>) {
        let stamps = self.stamps.entry(name.to_owned()).or_default();
        let prefix = format!("{name}{}", stamps.len());
        let base = self.graph.node_count() as u32;
        let node_base = self.node_names.len() as u32;
        // New numbers of the places; those of nodes that are not there are left out.
        let mut spots = Vec::with_capacity(template.spots.len());
        for spot in &template.spots {
            let absent = part.is_some_and(|n| !spot.inside.is_empty() && spot.inside.start >= n);
            if absent {
                spots.push(ABSENT);
                continue;
            }
            let full = join(&prefix, &spot.name);
            if let Some(node) = spot.node
                && node_base + node == self.node_names.len() as u32
            {
                self.node_names.push(full.clone());
            }
            spots.push(self.places.len() as u32);
            self.places.push(Place {
                name: full,
                node: spot.node.map(|n| NodeId(node_base + n)),
                fabric: None,
            });
        }
        let mut kept = Vec::new();
        let mut next = 0;
        for device in &template.parts {
            let place = spots[device.place as usize];
            if part.is_some() {
                kept.push(if place == ABSENT { ABSENT } else { next });
            }
            if place != ABSENT {
                next += 1;
                self.graph.add_node(Device {
                    kind: device.kind,
                    model: device.model,
                    place,
                    stem: device.stem,
                    index: device.index,
                });
            }
        }
        let stamp = Stamp {
            base,
            template: Rc::clone(template),
            kept: part.map(|_| Rc::new(kept)),
        };
        for &Wire {
            from,
            to,
            model,
            lanes,
        } in &template.wires
        {
            if let (Some(from), Some(to)) = (stamp.device(from), stamp.device(to)) {
                add_wire(&mut self.graph, from, to, Link { model, lanes });
            }
        }
        for (group, members) in &template.ports {
            let present = members.iter().filter_map(|&m| stamp.device(m));
            if let Some(ports) = self.ports.get_mut(group) {
                ports.extend(present);
            }
        }
        stamps.push(stamp);
    }

    /// The devices of the whole machine that a selector names. Those that the file has and
    /// the machine has not are `None`.
    fn find(&self, path: &SelectorPath, at: &str) -> Result<Vec<Option<u32>>, Fault> {
        let Some((segment, deeper)) = path.split_first() else {
            return Ok(Vec::new());
        };
        let Some((name, indices)) = choose(segment, |n| self.in_file.contains_key(n)) else {
            let known = self.in_file.keys().map(String::as_str);
            return Err(Fault::unknown(at, "instances", &segment.name, known));
        };
        let stamps = self.stamps.get(name).map_or(&[][..], Vec::as_slice);
        let entries = &self.in_file[name];
        let in_file = entries.last().map_or(0, |&(end, _)| end);
        let count = in_file.max(stamps.len() as u64);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut found = Vec::new();
        for range in ranges(&indices, count, name, at)? {
            for i in range {
                let stamp = stamps.get(i as usize);
                // A copy that is not there is asked for its devices all the same, so that
                // pairs still fit.
                let entry = entries.iter().find(|&&(end, _)| u64::from(i) < end);
                let template = stamp.map(|s| &s.template).or(entry.map(|(_, t)| t));
                let Some(template) = template else {
                    continue;
                };
                let mut relative = Vec::new();
                template.resolve(deeper, 0, at, &mut relative)?;
                found.extend(
                    relative
                        .into_iter()
                        .map(|r| stamp.and_then(|s| s.device(r))),
                );
                if found.len() as u64 > MAX_DEVICES {
                    return Err(too_many_devices(at, found.len() as u64));
                }
            }
        }
        Ok(found)
    }

    fn add_fabric<'a>(
        &mut self,
        name: &'a str,
        spec: &'a FabricSpec,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let at = format!("fabrics.{name}");
        let before = faults.len();
        if let Err(problem) = super::selector::check_name(name) {
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
        let switch = models.device(&spec.switch, &format!("{at}.switch"), faults);
        let radix = match switch {
            Some((_, DeviceModel::Switch(model))) => model.ports.value.min(u16::MAX.into()),
            Some((_, other)) => {
                faults.push(Fault::new(
                    format!("{at}.switch"),
                    format!(
                        "`{}`, a {}",
                        spec.switch,
                        super::models::kind(other).label()
                    ),
                    "a network switch",
                ));
                0
            }
            None => 0,
        };
        let (Some(port_link), Some(switch_link), Some((switch_model, _)), true) =
            (port_link, switch_link, switch, faults.len() == before)
        else {
            return;
        };
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
                find: &|path, at| self.find(path, at),
                name_of: &|device| names.of(device),
            };
            fabric::explicit_plan(&site, models, faults)
        } else {
            let rate =
                |model: &super::hardware::LinkModel| model.lane_rate.value.bytes_per_sec() as f64;
            let parts = Parts {
                radix,
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
        let links = (port_link.0, switch_link.0);
        self.build(
            name,
            spec,
            &ports,
            &plan,
            switch_model,
            links,
            models,
            faults,
        );
    }

    /// Ports in order of node and rail, with both. Ports of no node count by place.
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
        let (mut node, mut last) = (0, None);
        for (key, rail, device) in keyed {
            if last.is_some_and(|l| l != key) {
                node += 1;
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
        switch_model: u16,
        (port_link, switch_link): (u16, u16),
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) {
        let at = format!("fabrics.{name}");
        let total = (self.graph.node_count() + plan.switches.len()) as u64;
        let wires = (self.graph.edge_count() / 2 + plan.cables.len()) as u64;
        if total > MAX_DEVICES {
            faults.push(too_many_devices(&at, total));
            return;
        }
        if wires > MAX_WIRES {
            faults.push(too_many_wires(&at, wires));
            return;
        }
        let place = self.places.len() as u32;
        self.places.push(Place {
            name: name.to_owned(),
            node: None,
            fabric: Some(self.fabrics.len() as u16),
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
            let Some(stem) = models.stem(&switch.stem, &at, faults) else {
                return;
            };
            self.graph.add_node(Device {
                kind: DeviceKind::Switch,
                model: switch_model,
                place,
                stem,
                index,
            });
        }
        self.graph.reserve_edges(2 * plan.cables.len());
        for cable in &plan.cables {
            let from = match cable.from {
                End::Device(device) => device,
                End::Switch(switch) => first + switch,
            };
            let model = match cable.kind {
                CableKind::Port => port_link,
                CableKind::Switch => switch_link,
                CableKind::Model(model) => model,
            };
            let lanes = cable.lanes;
            add_wire(
                &mut self.graph,
                from,
                first + cable.to,
                Link { model, lanes },
            );
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
            ports: ports.iter().map(|p| DeviceId(p.device)).collect(),
        });
    }

    fn into_topology(mut self, spec: &TopologySpec, models: Models<'_>) -> Topology {
        self.node_nics.resize(self.node_names.len(), Vec::new());
        let mut nodes: Vec<Node> = self
            .node_names
            .into_iter()
            .zip(self.node_nics)
            .map(|(name, nics)| Node {
                name,
                gpus: Vec::new(),
                nics,
            })
            .collect();
        for (id, device) in self.graph.node_weights().enumerate() {
            if device.kind == DeviceKind::Gpu
                && let Some(node) = self.places[device.place as usize].node
            {
                nodes[node.index()].gpus.push(DeviceId(id as u32));
            }
        }
        let tables = models.into_tables();
        Topology {
            name: spec.name.clone(),
            title: spec.title.clone(),
            graph: self.graph,
            places: self.places,
            stems: tables.stems,
            nodes,
            fabrics: self.fabrics,
            device_models: tables.devices,
            link_models: tables.links,
        }
    }
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

fn add_wire(graph: &mut DiGraph<Device, Link, u32>, from: u32, to: u32, link: Link) {
    let (from, to) = (NodeIndex::new(from as usize), NodeIndex::new(to as usize));
    graph.add_edge(from, to, link);
    graph.add_edge(to, from, link);
}

/// How often each instance of the file is repeated.
fn fills(spec: &TopologySpec, templates: &[Rc<Template>], nodes: Option<u32>) -> Vec<Fill> {
    let last = templates.iter().rposition(|t| t.nodes > 0);
    let mut left = nodes.map(u64::from);
    spec.instances
        .iter()
        .zip(templates)
        .enumerate()
        .map(|(i, (instance, template))| {
            let (Some(left), true) = (left.as_mut(), template.nodes > 0) else {
                return (u64::from(instance.count), None);
            };
            let each = u64::from(template.nodes);
            let room = if Some(i) == last {
                u64::MAX
            } else {
                u64::from(instance.count)
            };
            let copies = left.div_ceil(each).min(room);
            let taken = (*left).min(copies.saturating_mul(each));
            *left -= taken;
            let part = taken % each;
            (copies, (part > 0).then_some(part as u32))
        })
        .collect()
}
