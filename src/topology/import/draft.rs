//! One node as a file of another program tells of it, and the topology file made of it.
//!
//! Devices get their numbers from the wiring and from the order of GPUs and NICs alone, so
//! that the same node, told in another order of lines, gives the same file.

mod wiring;

use super::parts::{Parts, Use};
use crate::builder::is_rdma_name;
use crate::hardware::{DeviceModel, Hardware};
use crate::spec::{
    ComponentSpec, DeviceSpec, FabricShape, FabricSpec, InstanceSpec, RoutingPolicy, SingleSwitch,
    TopologySpec,
};
use std::collections::BTreeMap;
use wiring::{Wires, selector};

/// What a device hangs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Up {
    /// A CPU.
    Cpu(usize),
    /// A switch, host bridge or card.
    Forwarder(usize),
}

/// Something that forwards PCIe traffic.
#[derive(Debug, Clone)]
pub(super) struct Forwarder {
    pub(super) model: String,
    pub(super) up: Up,
    pub(super) wire: Use,
}

#[derive(Debug, Clone)]
pub(super) struct Gpu {
    pub(super) model: String,
    /// Its place on the PCIe bus, if it has one.
    pub(super) slot: Option<(Up, Use)>,
    /// C2C to a CPU.
    pub(super) c2c: Option<(usize, Use)>,
}

#[derive(Debug, Clone)]
pub(super) struct Nic {
    pub(super) model: String,
    /// Its RDMA name, if the file says it.
    pub(super) rdma: Option<String>,
    pub(super) cable: String,
    pub(super) up: Up,
    pub(super) wire: Use,
}

/// The far end of NVLinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Far {
    Gpu(usize),
    Switch(usize),
}

/// A node.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Models, in order.
    pub(super) cpus: Vec<String>,
    /// Between any two CPUs.
    pub(super) socket: Option<Use>,
    /// In any order.
    pub(super) forwarders: Vec<Forwarder>,
    /// In rank order.
    pub(super) gpus: Vec<Gpu>,
    /// In the order of the network devices.
    pub(super) nics: Vec<Nic>,
    /// Models.
    pub(super) nvswitches: Vec<String>,
    /// From a GPU; between two GPUs once.
    pub(super) nvlinks: BTreeMap<(usize, Far), u32>,
    pub(super) nvlink: String,
    /// Shortcuts between two forwarders, each once.
    pub(super) peers: Vec<(usize, usize)>,
}

/// Says where a topology comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a str,
}

impl Draft {
    /// NVLinks of a GPU, all together.
    pub(super) fn nvlinks_of(&self, gpu: usize) -> u32 {
        self.nvlinks
            .iter()
            .filter(|&(&(from, far), _)| from == gpu || far == Far::Gpu(gpu))
            .fold(0, |sum: u32, (_, &count)| sum.saturating_add(count))
    }

    /// Models of so many NVSwitches, with the ports that the NVLinks take.
    pub(super) fn add_nvswitches(&mut self, count: usize, sm: u32, parts: &mut Parts<'_>) {
        let mut ports = vec![0u32; count];
        for (&(_, far), &links) in &self.nvlinks {
            if let Far::Switch(switch) = far {
                ports[switch] = ports[switch].saturating_add(links);
            }
        }
        if let Some(&most) = ports.iter().max() {
            self.nvswitches = vec![parts.nvswitch(sm, most); count];
        }
    }

    /// The topology file.
    pub(super) fn into_spec(mut self, origin: Origin<'_>, mut parts: Parts<'_>) -> TopologySpec {
        self.order_endpoints();
        self.order_forwarders();
        let mut component = ComponentSpec {
            node: true,
            ..ComponentSpec::default()
        };
        let nics = stems("nic", self.nics.iter().map(|n| &n.model), &mut component);
        name_rdma(&self.nics, &nics, &mut component);
        let names = Names {
            cpus: stems("cpu", self.cpus.iter(), &mut component),
            gpus: stems("gpu", self.gpus.iter().map(|g| &g.model), &mut component),
            nics,
            nvswitches: stems("nvswitch", self.nvswitches.iter(), &mut component),
            forwarders: stems(
                "pcie",
                self.forwarders.iter().map(|f| &f.model),
                &mut component,
            ),
        };
        component.links = Wires::of(&self, &names, &mut parts).specs(&component.devices);
        let mut fabrics = BTreeMap::new();
        for (number, (cable, members)) in self.cables().into_iter().enumerate() {
            let name = lettered("net", number);
            let members: Vec<Name> = members.iter().map(|&n| names.nics[n].clone()).collect();
            component
                .ports
                .insert(name.clone(), selector(&members, &component.devices));
            let fabric = FabricSpec {
                comment: None,
                ports: name.clone(),
                port_link: cable,
                switch_link: None,
                switch: parts.named("network-switch"),
                upper_switch: None,
                shape: FabricShape::SingleSwitch(SingleSwitch::default()),
                routing: RoutingPolicy::default(),
            };
            fabrics.insert(name, fabric);
        }
        let title = self.title(&mut parts);
        TopologySpec {
            schema: None,
            comment: None,
            name: origin.name.to_owned(),
            title,
            source: origin.source.to_owned(),
            hardware: used(parts, &component, &fabrics),
            components: BTreeMap::from([("node".to_owned(), component)]),
            instances: vec![InstanceSpec {
                comment: None,
                name: "node".into(),
                component: "node".into(),
                count: 1,
            }],
            fabrics,
        }
    }

    fn title(&self, parts: &mut Parts<'_>) -> String {
        let model = self.gpus.first().map_or("", |gpu| &gpu.model);
        let gpu = match parts.device(model) {
            Some(DeviceModel::Gpu(model)) => model.title.clone(),
            _ => "GPU".to_owned(),
        };
        let nics = match self.nics.len() {
            0 => String::new(),
            1 => ", 1 NIC".to_owned(),
            n => format!(", {n} NICs"),
        };
        format!("{} × {gpu}{nics} (imported)", self.gpus.len())
    }

    /// Cables with the NICs that have them, in the order of the NICs.
    fn cables(&self) -> Vec<(String, Vec<usize>)> {
        let mut cables: Vec<(String, Vec<usize>)> = Vec::new();
        for (number, nic) in self.nics.iter().enumerate() {
            match cables.iter_mut().find(|(cable, _)| *cable == nic.cable) {
                Some((_, members)) => members.push(number),
                None => cables.push((nic.cable.clone(), vec![number])),
            }
        }
        cables
    }

    /// A file counts GPUs by name and number, and NICs by fabric: those of one kind follow
    /// each other.
    fn order_endpoints(&mut self) {
        let order = grouped(&self.gpus, |gpu| &gpu.model);
        let place = inverse(&order);
        self.gpus = order.iter().map(|&old| self.gpus[old].clone()).collect();
        self.nvlinks = std::mem::take(&mut self.nvlinks)
            .into_iter()
            .map(|((gpu, far), count)| {
                let gpu = place[gpu];
                let key = match far {
                    Far::Gpu(other) => {
                        let other = place[other];
                        (gpu.min(other), Far::Gpu(gpu.max(other)))
                    }
                    Far::Switch(switch) => (gpu, Far::Switch(switch)),
                };
                (key, count)
            })
            .collect();
        let order = grouped(&self.nics, |nic| &nic.cable);
        self.nics = order.iter().map(|&old| self.nics[old].clone()).collect();
    }

    /// Keeps the forwarders that lead somewhere, CPU by CPU, each before those below it, and
    /// neighbours by the first GPU or NIC below them.
    fn order_forwarders(&mut self) {
        let count = self.forwarders.len();
        // GPUs come before NICs.
        let mut first = vec![usize::MAX; count];
        let slots = self.gpus.iter().map(|gpu| gpu.slot.as_ref().map(|s| s.0));
        let leaves = slots.chain(self.nics.iter().map(|nic| Some(nic.up)));
        for (leaf, up) in leaves.enumerate() {
            let mut up = up;
            while let Some(Up::Forwarder(number)) = up {
                if first[number] <= leaf {
                    break;
                }
                first[number] = leaf;
                up = Some(self.forwarders[number].up);
            }
        }
        let mut order = Vec::new();
        for cpu in 0..self.cpus.len() {
            let mut open = self.below(Up::Cpu(cpu), &first);
            while let Some(number) = open.pop() {
                order.push(number);
                open.extend(self.below(Up::Forwarder(number), &first));
            }
        }
        let mut place = vec![None; count];
        for (new, &old) in order.iter().enumerate() {
            place[old] = Some(new);
        }
        let moved = |up: Up| match up {
            Up::Forwarder(old) => Up::Forwarder(place[old].unwrap_or(0)),
            cpu @ Up::Cpu(_) => cpu,
        };
        self.forwarders = order
            .iter()
            .map(|&old| {
                let forwarder = self.forwarders[old].clone();
                Forwarder {
                    up: moved(forwarder.up),
                    ..forwarder
                }
            })
            .collect();
        for gpu in &mut self.gpus {
            if let Some((up, _)) = &mut gpu.slot {
                *up = moved(*up);
            }
        }
        for nic in &mut self.nics {
            nic.up = moved(nic.up);
        }
        self.peers = self
            .peers
            .iter()
            .filter_map(|&(a, b)| Some((place[a]?, place[b]?)))
            .map(|(a, b)| (a.min(b), a.max(b)))
            .collect();
        self.peers.sort_unstable();
        self.peers.dedup();
    }

    /// What hangs directly below and leads somewhere, last first.
    fn below(&self, up: Up, first: &[usize]) -> Vec<usize> {
        let mut below: Vec<usize> = (0..self.forwarders.len())
            .filter(|&n| self.forwarders[n].up == up && first[n] < usize::MAX)
            .collect();
        below.sort_by_key(|&n| std::cmp::Reverse(first[n]));
        below
    }
}

/// The topology's own models that something of it has.
fn used(
    parts: Parts<'_>,
    component: &ComponentSpec,
    fabrics: &BTreeMap<String, FabricSpec>,
) -> Option<Hardware> {
    let mut own = parts.into_own();
    own.devices.retain(|name, _| {
        component.devices.values().any(|d| d.model == *name)
            || fabrics.values().any(|f| f.switch == *name)
    });
    own.links.retain(|name, _| {
        component.links.iter().any(|l| l.link == *name)
            || fabrics.values().any(|f| f.port_link == *name)
    });
    let empty = own.devices.is_empty() && own.links.is_empty();
    (!empty).then_some(own)
}

/// Positions with equal keys beside each other, in the order in which keys first appear.
fn grouped<T>(items: &[T], key: impl Fn(&T) -> &String) -> Vec<usize> {
    let mut seen: Vec<&String> = Vec::new();
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let key = key(item);
        let group = seen.iter().position(|&other| other == key);
        let group = group.unwrap_or_else(|| {
            seen.push(key);
            seen.len() - 1
        });
        order.push((group, position));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, position)| position).collect()
}

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        place[old] = new;
    }
    place
}

/// A device's name in the component and its number.
type Name = (String, u32);

struct Names {
    cpus: Vec<Name>,
    gpus: Vec<Name>,
    nics: Vec<Name>,
    nvswitches: Vec<Name>,
    forwarders: Vec<Name>,
}

impl Names {
    fn up(&self, up: Up) -> Name {
        match up {
            Up::Cpu(cpu) => self.cpus[cpu].clone(),
            Up::Forwarder(number) => self.forwarders[number].clone(),
        }
    }
}

/// The name of the group after so many others: `nic`, `nic-b`, … in alphabetical order.
fn lettered(base: &str, number: usize) -> String {
    if number == 0 {
        return base.to_owned();
    }
    let (rounds, letter) = (number / 26, (b'a' + (number % 26) as u8) as char);
    format!("{base}-{}{letter}", "z".repeat(rounds))
}

/// Names for devices of the component: one for each model, in the order of first use.
fn stems<'a>(
    base: &str,
    models: impl Iterator<Item = &'a String>,
    component: &mut ComponentSpec,
) -> Vec<Name> {
    let mut known: Vec<(&String, String, u32)> = Vec::new();
    let mut names = Vec::new();
    for model in models {
        let position = known.iter().position(|(other, _, _)| *other == model);
        let position = position.unwrap_or_else(|| {
            known.push((model, lettered(base, known.len()), 0));
            known.len() - 1
        });
        let (_, name, count) = &mut known[position];
        names.push((name.clone(), *count));
        *count += 1;
    }
    for (model, name, count) in known {
        let device = DeviceSpec {
            comment: None,
            model: model.clone(),
            count,
            rdma: Vec::new(),
        };
        component.devices.insert(name, device);
    }
    names
}

/// Puts the NICs' RDMA names in, device by device; of those of a name all or none are known.
/// Such as are the devices' own names, as an exported file has them, are nothing new.
fn name_rdma(nics: &[Nic], names: &[Name], component: &mut ComponentSpec) {
    for (stem, device) in &mut component.devices {
        let own = nics.iter().zip(names).filter(|(_, (name, _))| name == stem);
        let own: Vec<(&Nic, u32)> = own.map(|(nic, (_, number))| (nic, *number)).collect();
        let known = own.iter().map(|(nic, _)| nic.rdma.clone());
        let Some(rdma) = known.collect::<Option<Vec<String>>>() else {
            continue;
        };
        let new = own.iter().zip(&rdma);
        let new = new.map(|((_, number), rdma)| *rdma != format!("{stem}{number}"));
        if rdma.iter().all(|name| is_rdma_name(name)) && new.into_iter().any(|new| new) {
            device.rdma = rdma;
        }
    }
}
