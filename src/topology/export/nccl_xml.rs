//! A node as NCCL's topology XML, as `NCCL_TOPO_DUMP_FILE` writes it.
//!
//! Bus numbers and GUIDs are made up, CPU affinities are left out: a topology has none. Host
//! bridges have no element in that format, and NVSwitches outside the node (or a single one)
//! are written as hidden, as in a virtual machine.

use crate::catalogue;
use crate::error::{Fault, TopologyError};
use crate::graph::{DeviceId, DeviceKind, LinkId, NodeId, Topology};
use crate::hardware::{CpuVendor, DeviceModel, LinkFamily, NicProtocol, PcieRole};
use crate::import::nccl_xml::{HIDDEN, speed_text};
use crate::import::parts::{self, PEER, VIRTUAL, megabits};
use crate::import::xml::escaped;
use std::collections::BTreeMap;

/// The XML of a node.
///
/// # Errors
/// [`TopologyError::Faults`] if the node's PCIe links are no trees with CPUs as roots, which is
/// all that the format can say.
///
/// # Panics
/// If the node is of another topology.
pub fn nccl_xml(topology: &Topology, node: NodeId) -> Result<String, TopologyError> {
    let mut writer = Writer {
        topology,
        node,
        tree: BTreeMap::new(),
        buses: BTreeMap::new(),
        devs: BTreeMap::new(),
        out: String::new(),
    };
    writer.grow().map_err(|fault| TopologyError::Faults {
        origin: format!("the node {}", topology.nodes[node.index()].name),
        faults: vec![fault],
    })?;
    writer.write();
    Ok(writer.out)
}

struct Writer<'t> {
    topology: &'t Topology,
    node: NodeId,
    /// By upper end: what hangs from it, with the link from above.
    tree: BTreeMap<DeviceId, Vec<(DeviceId, Option<LinkId>)>>,
    buses: BTreeMap<DeviceId, String>,
    /// Numbers of NICs.
    devs: BTreeMap<DeviceId, usize>,
    out: String,
}

impl Writer<'_> {
    fn kind(&self, device: DeviceId) -> DeviceKind {
        self.topology.device(device).kind
    }

    fn role(&self, device: DeviceId) -> Option<PcieRole> {
        match self.topology.device_model(device) {
            DeviceModel::PcieSwitch(model) => Some(model.role),
            _ => None,
        }
    }

    fn of_kind(&self, kind: DeviceKind) -> Vec<DeviceId> {
        let own = self.topology.devices().filter(|&(id, device)| {
            device.kind == kind && self.topology.node_of(id) == Some(self.node)
        });
        own.map(|(id, _)| id).collect()
    }

    fn link_name(&self, link: LinkId) -> &str {
        &self.topology.link_models[usize::from(self.topology.link(link).model)].0
    }

    /// Finds the trees and numbers what is in them.
    fn grow(&mut self) -> Result<(), Fault> {
        let t = self.topology;
        let cpus = self.of_kind(DeviceKind::Cpu);
        let mut above: BTreeMap<DeviceId, DeviceId> = BTreeMap::new();
        let mut open: Vec<DeviceId> = cpus.iter().rev().copied().collect();
        let mut order = Vec::new();
        while let Some(device) = open.pop() {
            order.push(device);
            let mut below = Vec::new();
            for (link, far) in t.links_from(device) {
                let is_tree = t.family(link) == LinkFamily::Pcie && self.link_name(link) != PEER;
                if !is_tree || above.get(&device) == Some(&far) {
                    continue;
                }
                if above.contains_key(&far) || cpus.contains(&far) {
                    let found = format!("a second PCIe way up, from `{}`", t.device_name(device));
                    let expected = "one, as NCCL's XML has";
                    return Err(Fault::new(t.device_name(far), found, expected));
                }
                above.insert(far, device);
                below.push((far, Some(link)));
            }
            // The last pushed is looked at first.
            let inner = below.iter().rev().map(|&(far, _)| far);
            open.extend(inner.filter(|&far| self.kind(far) == DeviceKind::PcieSwitch));
            self.tree.insert(device, below);
        }
        // GPUs of superchips may have C2C only.
        for &gpu in &t.nodes[self.node.index()].gpus {
            let c2c = t.links_from(gpu).into_iter().find(|&(link, far)| {
                t.family(link) == LinkFamily::C2c && self.tree.contains_key(&far)
            });
            if let (false, Some((_, cpu))) = (above.contains_key(&gpu), c2c) {
                above.insert(gpu, cpu);
                if let Some(below) = self.tree.get_mut(&cpu) {
                    below.push((gpu, None));
                }
            }
        }
        let nics = self.of_kind(DeviceKind::Nic);
        let gpus = t.nodes[self.node.index()].gpus.iter();
        if let Some(lost) = gpus.chain(&nics).find(|device| !above.contains_key(device)) {
            let expected = "a place on the PCIe bus of one of the node's CPUs";
            let found = "a device without any";
            return Err(Fault::new(t.device_name(*lost), found, expected));
        }
        let facing = t.nodes[self.node.index()].nics.iter().copied();
        for nic in facing.chain(nics) {
            let next = self.devs.len();
            self.devs.entry(nic).or_insert(next);
        }
        let nvswitches = self.of_kind(DeviceKind::NvSwitch);
        let children: Vec<DeviceId> = order
            .iter()
            .flat_map(|device| self.tree[device].iter().map(|&(far, _)| far))
            .collect();
        for device in children.into_iter().chain(nvswitches) {
            let number = self.buses.len() + 1;
            let bus = format!("{:04x}:{:02x}:00.0", number / 256, number % 256);
            self.buses.insert(device, bus);
        }
        Ok(())
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn write(&mut self) {
        self.line(0, "<system version=\"1\">");
        let cpus = self.of_kind(DeviceKind::Cpu);
        for (number, &cpu) in cpus.iter().enumerate() {
            let Device { model, vendor } = self.cpu(cpu);
            let words = match parts::cpu_in_files(model, vendor, cpus.len()) {
                Some(rule) if vendor != "arm64" => format!(
                    "arch=\"x86_64\" vendor=\"{vendor}\" familyid=\"{}\" modelid=\"{}\"",
                    rule.family, rule.from_model
                ),
                _ => "arch=\"arm64\"".to_owned(),
            };
            self.line(1, &format!("<cpu numaid=\"{number}\" {words}>"));
            self.children(cpu, 2);
            self.line(1, "</cpu>");
        }
        self.line(0, "</system>");
    }

    fn cpu(&self, cpu: DeviceId) -> Device<'_> {
        let number = usize::from(self.topology.device(cpu).model);
        let (model, details) = &self.topology.device_models[number];
        let vendor = match details {
            DeviceModel::Cpu(cpu) => match cpu.vendor {
                CpuVendor::Intel => "GenuineIntel",
                CpuVendor::Amd => "AuthenticAMD",
                CpuVendor::Arm => "arm64",
            },
            _ => "",
        };
        Device { model, vendor }
    }

    fn children(&mut self, device: DeviceId, depth: usize) {
        for (child, link) in self.tree.get(&device).cloned().unwrap_or_default() {
            match (self.kind(child), self.role(child)) {
                // Has no element: what is below hangs from the CPU.
                (_, Some(PcieRole::HostBridge)) => self.children(child, depth),
                (_, Some(PcieRole::Card)) => {
                    let nics = self.tree.get(&child).cloned().unwrap_or_default();
                    let nics: Vec<DeviceId> = nics.iter().map(|&(nic, _)| nic).collect();
                    self.card(child, link, &nics, depth);
                }
                (_, Some(_)) => self.switch(child, link, depth),
                (DeviceKind::Gpu, _) => self.gpu(child, link, depth),
                (DeviceKind::Nic, _) if link.is_some_and(|l| self.link_name(l) == VIRTUAL) => {
                    self.line(depth, "<nic>");
                    self.net(child, depth + 1);
                    self.line(depth, "</nic>");
                }
                (DeviceKind::Nic, _) => self.card(child, link, &[child], depth),
                _ => {}
            }
        }
    }

    /// The opening of a `pci` element, without its bracket.
    fn pci(&self, device: DeviceId, class: &str, ids: &str, link: Option<LinkId>) -> String {
        let (speed, width) = link.map_or((String::new(), 0), |link| {
            let rate = megabits(self.topology.link_model(link));
            (speed_text(rate), self.topology.link(link).lanes)
        });
        format!(
            "<pci busid=\"{}\" class=\"{class}\"{ids} link_speed=\"{speed}\" link_width=\"{width}\"",
            self.buses[&device]
        )
    }

    fn switch(&mut self, device: DeviceId, link: Option<LinkId>, depth: usize) {
        // NCCL takes two levels for one chip if they say that they are such a chip's.
        let is_section = self.role(device) == Some(PcieRole::Section);
        let below = self.tree.get(&device).into_iter().flatten();
        let has_sections = below
            .copied()
            .any(|(d, _)| self.role(d) == Some(PcieRole::Section));
        let ids = match (is_section, has_sections) {
            (true, _) => BROADCOM_LOWER,
            (false, true) => BROADCOM_UPPER,
            (false, false) => "",
        };
        let open = self.pci(device, "0x060400", ids, link);
        self.line(depth, &format!("{open}>"));
        for (link, far) in self.topology.links_from(device) {
            // Its wire is there in both directions; the second is the wire's end.
            if self.link_name(link) == PEER && device < far {
                let text = format!("<pcilink target=\"{}\"/>", self.buses[&far]);
                self.line(depth + 1, &text);
            }
        }
        self.children(device, depth + 1);
        self.line(depth, "</pci>");
    }

    fn gpu(&mut self, gpu: DeviceId, link: Option<LinkId>, depth: usize) {
        let t = self.topology;
        let Some(model) = t.gpu_model(gpu) else {
            return;
        };
        let name = &t.device_models[usize::from(t.device(gpu).model)].0;
        let ids = parts::gpu_in_files(name, catalogue::hardware())
            .map_or_else(String::new, |device| {
                format!(" vendor=\"0x10de\" device=\"{device}\"")
            });
        let open = self.pci(gpu, "0x030200", &ids, link);
        self.line(depth, &format!("{open}>"));
        let gpus = &t.nodes[self.node.index()].gpus;
        let dev = gpus.iter().position(|&other| other == gpu).unwrap_or(0);
        let open = format!(
            "<gpu dev=\"{dev}\" sm=\"{}\" rank=\"{dev}\" gdr=\"1\"",
            model.compute_capability
        );
        let links = self.gpu_links(gpu);
        if links.is_empty() {
            self.line(depth + 1, &format!("{open}/>"));
        } else {
            self.line(depth + 1, &format!("{open}>"));
            for link in links {
                self.line(depth + 2, &link);
            }
            self.line(depth + 1, "</gpu>");
        }
        self.line(depth, "</pci>");
    }

    /// Whether such a GPU has NVLinks on the boards that it is sold on.
    fn has_nvlinks_elsewhere(&self, gpu: DeviceId) -> bool {
        let model = usize::from(self.topology.device(gpu).model);
        let name = &self.topology.device_models[model].0;
        let parts = parts::Parts::new(catalogue::hardware());
        parts.own_nvlinks(None, name).is_some()
    }

    /// NVLinks, summed up by target, and C2C.
    fn gpu_links(&self, gpu: DeviceId) -> Vec<String> {
        let t = self.topology;
        let several = self.of_kind(DeviceKind::NvSwitch).len() > 1;
        let mut counts: BTreeMap<(String, &str), u32> = BTreeMap::new();
        let mut lines = Vec::new();
        for (link, far) in t.links_from(gpu) {
            let lanes = u32::from(t.link(link).lanes);
            match (t.family(link), self.kind(far)) {
                (LinkFamily::Nvlink, DeviceKind::NvSwitch) => {
                    let seen = self.buses.get(&far).filter(|_| several);
                    let target = seen.cloned().unwrap_or_else(|| format!("{HIDDEN}:ffff:ff"));
                    *counts.entry((target, "0x068000")).or_default() += lanes;
                }
                (LinkFamily::Nvlink, DeviceKind::Gpu) => {
                    if let Some(bus) = self.buses.get(&far) {
                        *counts.entry((bus.clone(), "0x030200")).or_default() += lanes;
                    }
                }
                (LinkFamily::C2c, _) => {
                    let rate = t.link_model(link).lane_rate.value.bytes_per_sec() / 1_000_000;
                    lines.push(format!("<c2c bw=\"{rate}\" count=\"{lanes}\"/>"));
                }
                _ => {}
            }
        }
        if counts.is_empty() && self.has_nvlinks_elsewhere(gpu) {
            // Else a reader takes those of its model, as NCCL asks the driver for them.
            counts.insert((format!("{HIDDEN}:ffff:ff"), "0x068000"), 0);
        }
        let nvlinks = counts.into_iter().map(|((target, class), count)| {
            format!("<nvlink target=\"{target}\" count=\"{count}\" tclass=\"{class}\"/>")
        });
        nvlinks.chain(lines).collect()
    }

    /// A PCI function with the ports that it has.
    fn card(&mut self, card: DeviceId, link: Option<LinkId>, nics: &[DeviceId], depth: usize) {
        let infiniband = |&nic: &DeviceId| {
            let model = self.topology.nic_model(nic);
            model.is_some_and(|model| model.protocol == NicProtocol::Infiniband)
        };
        let class = if nics.iter().any(infiniband) {
            "0x020700"
        } else {
            "0x020000"
        };
        let open = self.pci(card, class, "", link);
        self.line(depth, &format!("{open}>"));
        self.line(depth + 1, "<nic>");
        for &nic in nics {
            self.net(nic, depth + 2);
        }
        self.line(depth + 1, "</nic>");
        self.line(depth, "</pci>");
    }

    fn net(&mut self, nic: DeviceId, depth: usize) {
        let t = self.topology;
        let Some(model) = t.nic_model(nic) else {
            return;
        };
        let speed: u64 = t
            .links_from(nic)
            .into_iter()
            .filter(|&(link, _)| t.family(link) == LinkFamily::Network)
            .map(|(link, _)| megabits(t.link_model(link)) * u64::from(t.link(link).lanes))
            .sum();
        let dev = self.devs.get(&nic).copied().unwrap_or(0);
        let name = t.device_name(nic);
        let name = name.rsplit('/').next().unwrap_or(&name);
        let name = t.rdma_name(nic).unwrap_or(name);
        let port = u8::from(model.protocol != NicProtocol::Tcp);
        let text = format!(
            "<net name=\"{}\" dev=\"{dev}\" speed=\"{speed}\" port=\"{port}\" latency=\"0\" \
             guid=\"{:#x}\" maxconn=\"131072\" gdr=\"{}\"/>",
            escaped(name),
            dev + 1,
            u8::from(model.gpu_direct)
        );
        self.line(depth, &text);
    }
}

/// A CPU's model and maker.
struct Device<'a> {
    model: &'a str,
    vendor: &'static str,
}

/// A chip of the kind that NCCL flattens: its upper level …
const BROADCOM_UPPER: &str = " vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" \
                              subsystem_device=\"0x0072\"";
/// … and its lower one.
const BROADCOM_LOWER: &str = " vendor=\"0x1000\" device=\"0xc030\" subsystem_vendor=\"0x1000\" \
                              subsystem_device=\"0x1003\"";
