//! From the machine back to a file.
//!
//! The file that [`export`] writes gives the same machine again: the same devices and links
//! under the same numbers and names, the same nodes, fabrics and models. Equal instances
//! share a component, so a regular machine stays short; fabrics become explicit, with one
//! entry for cables that form a full product. Comments of models are kept; those of the
//! original file, and what no device uses, are not.

mod nccl_xml;
mod smi;

use super::graph::{Device, DeviceId, Fabric, Link, LinkId, Topology};
use super::hardware::Hardware;
use super::spec::{
    ComponentSpec, DeviceSpec, ExplicitFabric, FabricShape, FabricSpec, InstanceSpec, LinkSpec,
    Match, RoutingPolicy, TierSpec, TopologySpec,
};
use std::collections::BTreeMap;

pub use nccl_xml::nccl_xml;
pub use smi::smi;

/// The file of a machine.
#[must_use]
pub fn export(topology: &Topology) -> TopologySpec {
    let tree = Tree::of(topology);
    let (components, instances) = tree.components();
    TopologySpec {
        schema: None,
        comment: None,
        name: topology.name.clone(),
        title: topology.title.clone(),
        source: "exported from an expanded topology".into(),
        hardware: Some(used_hardware(topology)),
        components,
        instances,
        fabrics: topology
            .fabrics
            .iter()
            .filter(|fabric| !fabric.ports.is_empty())
            .map(|fabric| (fabric.name.clone(), tree.fabric(fabric)))
            .collect(),
    }
}

/// A file's text: indented JSON with a line break at its end.
#[must_use]
pub fn to_json(spec: &TopologySpec) -> String {
    // Serialising fails only for maps with keys that are no text, and there are none.
    let mut text = serde_json::to_string_pretty(spec).unwrap_or_default();
    text.push('\n');
    text
}

/// The models that some device or link has.
fn used_hardware(topology: &Topology) -> Hardware {
    let mut hardware = Hardware {
        architectures: topology.architectures.clone(),
        processors: topology.processors.clone(),
        server_overhead: topology.server_overhead.clone(),
        ..Hardware::default()
    };
    for (_, device) in topology.devices() {
        let (name, model) = &topology.device_models[device.model as usize];
        if !hardware.devices.contains_key(name) {
            hardware.devices.insert(name.clone(), model.clone());
        }
    }
    for (_, link) in topology.links() {
        let (name, model) = &topology.link_models[link.model as usize];
        if !hardware.links.contains_key(name) {
            hardware.links.insert(name.clone(), model.clone());
        }
    }
    hardware
}

/// A place among the others.
struct Branch<'t> {
    parent: Option<u32>,
    /// Its name without its number, and its number.
    stem: &'t str,
    number: u32,
    depth: u32,
}

/// The places as a tree, with what each holds.
struct Tree<'t> {
    topology: &'t Topology,
    /// By place; fabrics have none.
    branches: Vec<Option<Branch<'t>>>,
}

/// A wire or a bundle of cables.
#[derive(Clone, Copy)]
struct Wire {
    from: DeviceId,
    to: DeviceId,
    link: Link,
}

impl<'t> Tree<'t> {
    fn of(topology: &'t Topology) -> Self {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut branches: Vec<Option<Branch<'t>>> = Vec::with_capacity(topology.places.len());
        for (i, place) in topology.places.iter().enumerate() {
            if place.fabric.is_some() {
                branches.push(None);
                continue;
            }
            // An outer place always comes before those within it.
            let (outer, last) = place.name.rsplit_once('/').unwrap_or(("", &place.name));
            let parent = numbers.get(outer).copied();
            let depth = parent
                .and_then(|p| branches[p as usize].as_ref())
                .map_or(0, |b| b.depth + 1);
            let stem = last.trim_end_matches(|c: char| c.is_ascii_digit());
            branches.push(Some(Branch {
                parent,
                stem,
                number: last[stem.len()..].parse().unwrap_or(0),
                depth,
            }));
            numbers.insert(&place.name, i as u32);
        }
        Tree { topology, branches }
    }

    fn branch(&self, place: u32) -> Option<&Branch<'t>> {
        self.branches[place as usize].as_ref()
    }

    /// The innermost place that holds both.
    fn common(&self, mut a: u32, mut b: u32) -> Option<u32> {
        while a != b {
            let (x, y) = (self.branch(a)?, self.branch(b)?);
            if x.depth >= y.depth {
                a = x.parent?;
            } else {
                b = y.parent?;
            }
        }
        self.branch(a).map(|_| a)
    }

    /// The components and the instances at the top.
    fn components(&self) -> (BTreeMap<String, ComponentSpec>, Vec<InstanceSpec>) {
        let count = self.topology.places.len();
        let mut specs: Vec<ComponentSpec> = vec![ComponentSpec::default(); count];
        self.add_devices(&mut specs);
        self.add_links(&mut specs);
        self.add_ports(&mut specs);
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut top = Vec::new();
        for place in (0..count as u32).filter(|&p| self.branch(p).is_some()) {
            match self.branch(place).and_then(|b| b.parent) {
                Some(parent) => children[parent as usize].push(place),
                None => top.push(place),
            }
        }
        // Inner places first, so that equal ones are known when the outer are compared.
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        let mut same_as: Vec<u32> = (0..count as u32).collect();
        for place in (0..count as u32).rev() {
            let Some(branch) = self.branch(place) else {
                continue;
            };
            let inner = self.instances(&children[place as usize], |p| {
                same_as[p as usize].to_string()
            });
            let spec = &mut specs[place as usize];
            spec.instances = inner;
            let key = serde_json::to_string(spec).unwrap_or_default();
            let key = format!("{}\n{key}", branch.stem);
            same_as[place as usize] = *known.entry(key).or_insert(place);
        }
        self.named(specs, &same_as, &children, &top)
    }

    /// Gives components names in the order of their first instances.
    fn named(
        &self,
        mut specs: Vec<ComponentSpec>,
        same_as: &[u32],
        children: &[Vec<u32>],
        top: &[u32],
    ) -> (BTreeMap<String, ComponentSpec>, Vec<InstanceSpec>) {
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut taken: BTreeMap<String, u32> = BTreeMap::new();
        for (place, &original) in same_as.iter().enumerate() {
            let Some(branch) = self.branch(place as u32) else {
                continue;
            };
            names.entry(original).or_insert_with(|| {
                let nth = taken.entry(branch.stem.to_owned()).or_default();
                *nth += 1;
                match *nth {
                    1 => branch.stem.to_owned(),
                    n => format!("{}-{n}", branch.stem),
                }
            });
        }
        let name = |place: u32| names[&same_as[place as usize]].clone();
        let mut components = BTreeMap::new();
        for (&original, component) in &names {
            let mut spec = std::mem::take(&mut specs[original as usize]);
            spec.instances = self.instances(&children[original as usize], name);
            components.insert(component.clone(), spec);
        }
        (components, self.instances(top, name))
    }

    /// Instances for places, equal neighbours as one.
    fn instances(&self, places: &[u32], component: impl Fn(u32) -> String) -> Vec<InstanceSpec> {
        let mut instances: Vec<InstanceSpec> = Vec::new();
        for &place in places {
            let Some(branch) = self.branch(place) else {
                continue;
            };
            let component = component(place);
            match instances.last_mut() {
                Some(last) if last.name == branch.stem && last.component == component => {
                    last.count += 1;
                }
                _ => instances.push(InstanceSpec {
                    comment: None,
                    name: branch.stem.to_owned(),
                    component,
                    count: 1,
                }),
            }
        }
        instances
    }

    fn add_devices(&self, specs: &mut [ComponentSpec]) {
        for (i, place) in self.topology.places.iter().enumerate() {
            let name = place.node.map(|n| &self.topology.nodes[n.index()].name);
            specs[i].node = name == Some(&place.name);
            let price = place
                .price
                .and_then(|p| self.topology.prices.get(usize::from(p)));
            specs[i].price = price.cloned();
        }
        for (_, device) in self.topology.devices() {
            if self.branch(device.place).is_none() {
                continue;
            }
            let stem = &self.topology.stems[device.stem as usize];
            let devices = &mut specs[device.place as usize].devices;
            match devices.get_mut(stem) {
                Some(spec) => spec.count += 1,
                None => {
                    let model = &self.topology.device_models[device.model as usize].0;
                    let spec = DeviceSpec {
                        comment: None,
                        model: model.clone(),
                        count: 1,
                        rdma: self.topology.rdma[device.stem as usize].clone(),
                    };
                    devices.insert(stem.clone(), spec);
                }
            }
        }
    }

    fn add_links(&self, specs: &mut [ComponentSpec]) {
        let mut by_owner: BTreeMap<u32, Vec<Wire>> = BTreeMap::new();
        for wire in self.wires() {
            let (from, to) = (self.place(wire.from), self.place(wire.to));
            if let Some(owner) = self.common(from, to) {
                by_owner.entry(owner).or_default().push(wire);
            }
        }
        for (owner, wires) in by_owner {
            let name = |device: DeviceId| self.selector_within(Some(owner), device);
            specs[owner as usize].links = self.link_specs(&wires, name);
        }
    }

    fn add_ports(&self, specs: &mut [ComponentSpec]) {
        let mut node_places = vec![0; self.topology.nodes.len()];
        for (i, spec) in specs.iter().enumerate() {
            if let (true, Some(node)) = (spec.node, self.topology.places[i].node) {
                node_places[node.index()] = i as u32;
            }
        }
        for fabric in &self.topology.fabrics {
            let mut by_owner: BTreeMap<u32, Vec<(String, u32)>> = BTreeMap::new();
            for &port in &fabric.ports {
                let owner = match self.topology.node_of(port) {
                    Some(node) => node_places[node.index()],
                    None => self.place(port),
                };
                let selector = self.selector_within(Some(owner), port);
                by_owner.entry(owner).or_default().push(selector);
            }
            for (owner, members) in by_owner {
                let ports = &mut specs[owner as usize].ports;
                ports.insert(fabric.name.clone(), list(&members));
            }
        }
    }

    fn fabric(&self, fabric: &Fabric) -> FabricSpec {
        let t = self.topology;
        let first = fabric.switches.first().map_or(0, |s| s.0);
        let own = |device: DeviceId| fabric.switches.binary_search(&device).is_ok();
        let mut cables: Vec<Wire> = self.wires().filter(|wire| own(wire.to)).collect();
        if fabric.routing == RoutingPolicy::Ecmp {
            bundle(&mut cables);
        }
        let name = |device: DeviceId| {
            if own(device) {
                ("switch".to_owned(), device.0 - first)
            } else {
                self.selector_within(None, device)
            }
        };
        let mut tiers: Vec<TierSpec> = Vec::new();
        for (position, (&switch, &tier)) in fabric.switches.iter().zip(&fabric.tiers).enumerate() {
            let stem = &t.stems[t.device(switch).stem as usize];
            let group = fabric.groups.get(position).copied();
            match tiers.last_mut() {
                Some(last) if last.name == *stem && last.tier == tier && last.group == group => {
                    last.count += 1;
                }
                _ => tiers.push(TierSpec {
                    name: stem.clone(),
                    tier,
                    count: 1,
                    group,
                }),
            }
        }
        let model = |link: &Wire| t.link_models[link.link.model as usize].0.clone();
        let switch = |s: &DeviceId| t.device_models[t.device(*s).model as usize].0.clone();
        FabricSpec {
            comment: None,
            ports: fabric.name.clone(),
            port_link: cables.first().map(model).unwrap_or_default(),
            switch_link: None,
            switch: fabric.switches.first().map(switch).unwrap_or_default(),
            upper_switch: fabric
                .tiers
                .iter()
                .position(|&tier| tier > 0)
                .map(|position| switch(&fabric.switches[position])),
            shape: FabricShape::Explicit(ExplicitFabric {
                comment: None,
                switches: fabric.switches.len() as u32,
                leaf_ports: Some(fabric.leaf_ports).filter(|&ports| ports > 0),
                cables: self.link_specs(&cables, name),
                tiers,
            }),
            routing: fabric.routing,
        }
    }

    fn place(&self, device: DeviceId) -> u32 {
        self.topology.device(device).place
    }

    /// One direction of every wire, in order.
    fn wires(&self) -> impl Iterator<Item = Wire> {
        let t = self.topology;
        t.links()
            .step_by(2)
            .map(move |(id, &link): (LinkId, &Link)| {
                let (from, to) = t.ends(id);
                Wire { from, to, link }
            })
    }

    /// A device as a selector up to its number, and the number: `tray[3]/gpu`, 0.
    fn selector_within(&self, owner: Option<u32>, device: DeviceId) -> (String, u32) {
        let &Device {
            place, stem, index, ..
        } = self.topology.device(device);
        let mut parts = vec![self.topology.stems[stem as usize].clone()];
        let mut at = Some(place);
        while at != owner
            && let Some(branch) = at.and_then(|p| self.branch(p))
        {
            parts.push(format!("{}[{}]", branch.stem, branch.number));
            at = branch.parent;
        }
        parts.reverse();
        (parts.join("/"), u32::from(index))
    }

    /// Wires as entries of a file. Neighbours that form a product, every device of one
    /// list with every one of another, both in rising order, become one entry.
    fn link_specs(
        &self,
        wires: &[Wire],
        name: impl Fn(DeviceId) -> (String, u32),
    ) -> Vec<LinkSpec> {
        // First one device's wires to several others, then several devices' equal sets.
        let mut fans: Vec<(Vec<DeviceId>, Vec<DeviceId>, Link)> = Vec::new();
        for wire in wires {
            match fans.last_mut() {
                Some((from, to, link))
                    if from[0] == wire.from && *link == wire.link && to.last() < Some(&wire.to) =>
                {
                    to.push(wire.to);
                }
                _ => fans.push((vec![wire.from], vec![wire.to], wire.link)),
            }
        }
        let mut products: Vec<(Vec<DeviceId>, Vec<DeviceId>, Link)> = Vec::new();
        for (from, to, link) in fans {
            match products.last_mut() {
                Some(last) if last.1 == to && last.2 == link && last.0.last() < Some(&from[0]) => {
                    last.0.extend(from);
                }
                _ => products.push((from, to, link)),
            }
        }
        let text = |devices: &[DeviceId]| {
            let named: Vec<(String, u32)> = devices.iter().map(|&d| name(d)).collect();
            list(&named)
        };
        products
            .into_iter()
            .map(|(from, to, link)| LinkSpec {
                comment: None,
                from: text(&from),
                to: text(&to),
                link: self.topology.link_models[link.model as usize].0.clone(),
                lanes: u32::from(link.lanes),
                pairing: Match::All,
            })
            .collect()
    }
}

/// Joins neighbouring parallel cables to one entry.
fn bundle(cables: &mut Vec<Wire>) {
    cables.dedup_by(|next, last| {
        let parallel =
            (next.from, next.to, next.link.model) == (last.from, last.to, last.link.model);
        let lanes = last
            .link
            .lanes
            .checked_add(next.link.lanes)
            .filter(|_| parallel);
        last.link.lanes = lanes.unwrap_or(last.link.lanes);
        lanes.is_some()
    });
}

/// Numbered names as one selector: `gpu[0-3,5], nic[0]`.
fn list(devices: &[(String, u32)]) -> String {
    let mut groups: Vec<(&str, Vec<(u32, u32)>)> = Vec::new();
    for (name, number) in devices {
        match groups.last_mut() {
            Some((last, ranges)) if last == name => match ranges.last_mut() {
                Some((_, high)) if *high + 1 == *number => *high = *number,
                _ => ranges.push((*number, *number)),
            },
            _ => groups.push((name, vec![(*number, *number)])),
        }
    }
    let range = |&(low, high): &(u32, u32)| {
        if low == high {
            low.to_string()
        } else {
            format!("{low}-{high}")
        }
    };
    let group = |(name, ranges): &(&str, Vec<(u32, u32)>)| {
        let ranges: Vec<String> = ranges.iter().map(range).collect();
        format!("{name}[{}]", ranges.join(","))
    };
    let groups: Vec<String> = groups.iter().map(group).collect();
    groups.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{build, hardware, pair, rack, server};
    use crate::{Overrides, catalogue, expand, load};

    /// Export, read, expand, export: the same file and the same machine.
    fn check(topology: &Topology) {
        let text = to_json(&export(topology));
        let spec = load::parse(&text, "exported").unwrap();
        let nothing = Hardware::default();
        let again =
            expand(&spec, &nothing, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(to_json(&export(&again)), text);
        assert_eq!(again.nodes, topology.nodes);
        assert_eq!(again.fabrics, topology.fabrics);
        // A file of a part of a rack says nothing of the rest.
        let mut places = topology.places.clone();
        places.iter_mut().for_each(|place| place.absent_gpus = 0);
        assert_eq!(again.places, places);
        assert_eq!(again.link_count(), topology.link_count());
        for (id, device) in topology.devices() {
            assert_eq!(again.device_name(id), topology.device_name(id));
            assert_eq!(again.device(id).kind, device.kind);
            assert_eq!(again.device_model(id), topology.device_model(id));
        }
        for (id, link) in topology.links() {
            assert_eq!(again.ends(id), topology.ends(id));
            assert_eq!(again.link(id).lanes, link.lanes);
            assert_eq!(again.link_model(id), topology.link_model(id));
        }
    }

    #[test]
    fn exporting_and_reading_is_the_identity() {
        check(&build(&pair(), 1));
        check(&build(&server(), 1));
        check(&build(&server(), 70));
        check(&build(&server(), 300));
        check(&build(&rack(), 20));
        let drives = include_str!("../../tests/cases/topologies/drives.json");
        let drives = load::parse(drives, "drives").unwrap();
        check(&expand(&drives, catalogue::hardware(), &Overrides::default()).unwrap());
        for name in catalogue::names() {
            let spec = catalogue::find(name).unwrap();
            for nodes in [None, Some(1), Some(37)] {
                check(&expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap());
            }
        }
    }

    #[test]
    fn every_shape_of_fabric_is_exported() {
        let shapes = [
            r#"{"single_switch": {}}"#,
            r#"{"leaf_spine": {"ports_per_leaf": 16, "oversubscription": 2.0}}"#,
            r#"{"rail_only": {"nodes_per_unit": 4}}"#,
        ];
        for shape in shapes {
            let mut spec = server();
            if let Some(fabric) = spec.fabrics.get_mut("compute") {
                fabric.shape = serde_json::from_str(shape).unwrap();
            }
            check(&build(&spec, 10));
            // Cables that count singly become bundles again.
            if let Some(fabric) = spec.fabrics.get_mut("compute") {
                fabric.routing = RoutingPolicy::Ecmp;
            }
            check(&build(&spec, 10));
        }
    }

    #[test]
    fn equal_instances_share_a_component() {
        let spec = export(&build(&rack(), 38));
        let names: Vec<&str> = spec.components.keys().map(String::as_str).collect();
        assert_eq!(names, ["rack", "rack-2", "tray"]);
        let counts: Vec<_> = spec
            .instances
            .iter()
            .map(|i| (i.component.as_str(), i.count))
            .collect();
        assert_eq!(counts, [("rack", 2), ("rack-2", 1)]);
        assert!(hardware().links.len() > spec.hardware.unwrap().links.len());
    }
}
