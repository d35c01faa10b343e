//! The machine as it grows: copies of templates, one after the other.

use super::error::Fault;
use super::graph::{Device, DeviceId, DeviceKind, Fabric, Link, Node, NodeId, Place, Topology};
use super::models::Models;
use super::selector::SelectorPath;
use super::spec::TopologySpec;
use super::storage;
use super::template::{MAX_DEVICES, Template, Wire, choose, join, ranges, too_many_devices};
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A copy of a template at the top of the machine.
pub(super) struct Stamp {
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
pub(super) struct Machine {
    pub(super) graph: DiGraph<Device, Link, u32>,
    pub(super) places: Vec<Place>,
    pub(super) node_names: Vec<String>,
    /// For each node how many before it are missing, in copies that are not full.
    pub(super) missing: Vec<u32>,
    /// How many are missing so far.
    missed: u32,
    pub(super) ports: BTreeMap<String, Vec<u32>>,
    pub(super) stamps: BTreeMap<String, Vec<Stamp>>,
    /// The instances of the file, with the number after each entry's last copy.
    pub(super) in_file: BTreeMap<String, Vec<(u64, Rc<Template>)>>,
    pub(super) fabrics: Vec<Fabric>,
    /// NICs of each node that face a fabric, by fabric and rail.
    pub(super) node_nics: Vec<Vec<DeviceId>>,
}

impl Machine {
    /// Adds one copy of a template, with all its nodes or the first `part` of them.
    pub(super) fn stamp(&mut self, name: &str, template: &Rc<Template>, part: Option<u32>) {
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
                self.missing.push(self.missed);
            }
            spots.push(self.places.len() as u32);
            self.places.push(Place {
                name: full,
                node: spot.node.map(|n| NodeId(node_base + n)),
                fabric: None,
                price: spot.price,
                absent_gpus: 0,
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
        if part.is_some() {
            self.count_absent(template, &spots);
        }
        self.missed += part.map_or(0, |part| template.nodes - part);
    }

    /// Counts the GPUs that a copy lacks, which is not full, in each place of it.
    fn count_absent(&mut self, template: &Template, spots: &[u32]) {
        let gpus = template.parts.iter();
        let gpus = gpus.filter(|part| part.kind == DeviceKind::Gpu);
        let absent = gpus.filter(|part| spots[part.place as usize] == ABSENT);
        for node in absent.filter_map(|part| template.spots[part.place as usize].node) {
            for (spot, &place) in template.spots.iter().zip(spots) {
                if place != ABSENT && spot.inside.contains(&node) {
                    self.places[place as usize].absent_gpus += 1;
                }
            }
        }
    }

    /// The devices of the whole machine that a selector names. Those that the file has and
    /// the machine has not are `None`.
    pub(super) fn find(&self, path: &SelectorPath, at: &str) -> Result<Vec<Option<u32>>, Fault> {
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

    /// What has been built, with every node's GPUs.
    pub(super) fn into_topology(mut self, spec: &TopologySpec, models: Models<'_>) -> Topology {
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
        let limits = storage::limits(&self.graph, &tables.devices);
        Topology {
            name: spec.name.clone(),
            title: spec.title.clone(),
            graph: self.graph,
            places: self.places,
            stems: tables.stems,
            rdma: tables.rdma,
            nodes,
            fabrics: self.fabrics,
            device_models: tables.devices,
            link_models: tables.links,
            architectures: tables.architectures,
            processors: tables.processors,
            prices: tables.prices,
            server_overhead: tables.server_overhead,
            limits,
            mtu: None,
        }
    }
}

/// Adds both directions of a wire.
pub(super) fn add_wire(graph: &mut DiGraph<Device, Link, u32>, from: u32, to: u32, link: Link) {
    let (from, to) = (NodeIndex::new(from as usize), NodeIndex::new(to as usize));
    graph.add_edge(from, to, link);
    graph.add_edge(to, from, link);
}
