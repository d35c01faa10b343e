//! From the elements of a topology XML to a node: the PCI tree.

mod endpoints;

use super::draft::{Draft, Forwarder, Up};
use super::nccl_xml::{Function, Pci};
use super::parts::{Parts, Use, VIRTUAL};
use super::xml::Element;
use super::{ImportOptions, TopologyError};
use crate::hardware::PcieRole;
use std::collections::{BTreeMap, BTreeSet};

/// More than any host has; keeps reading quick.
const MAX_FUNCTIONS: usize = 2048;

/// A GPU's place and what is said of it.
struct FoundGpu<'a> {
    pci: Pci<'a>,
    /// Absent where a file has only the place.
    gpu: Option<Element<'a>>,
    up: Up,
    cpu: usize,
}

/// A network device.
struct FoundNic<'a> {
    element: Element<'a>,
    /// Absent where a file has only the place.
    net: bool,
    dev: i64,
    infiniband: bool,
    up: Up,
    wire: Use,
}

struct CpuClues<'a> {
    element: Element<'a>,
    vendor: Option<String>,
    family: u32,
    model: u32,
}

/// See the module.
pub(super) struct Reader<'a, 'p, 'h> {
    origin: &'a str,
    options: &'p ImportOptions,
    parts: &'p mut Parts<'h>,
    notes: &'p mut Vec<String>,
    draft: Draft,
    /// By forwarder: its bus number and, for switches, whether a section may hang below.
    forwarder_ids: Vec<(String, Option<u32>)>,
    buses: BTreeSet<String>,
    /// Family and model of the first CPU, if the file says them.
    first_cpu: Option<(u32, u32)>,
    gpus: Vec<FoundGpu<'a>>,
    /// False if GPUDirect RDMA is off at every GPU.
    gpus_allow_gdr: bool,
    nics: Vec<FoundNic<'a>>,
    /// From a forwarder to a bus number.
    pci_links: Vec<(usize, String)>,
}

impl<'a, 'p, 'h> Reader<'a, 'p, 'h> {
    pub(super) fn new(
        origin: &'a str,
        options: &'p ImportOptions,
        parts: &'p mut Parts<'h>,
        notes: &'p mut Vec<String>,
    ) -> Self {
        Reader {
            origin,
            options,
            parts,
            notes,
            draft: Draft::default(),
            forwarder_ids: Vec::new(),
            buses: BTreeSet::new(),
            first_cpu: None,
            gpus: Vec::new(),
            gpus_allow_gdr: true,
            nics: Vec::new(),
            pci_links: Vec::new(),
        }
    }

    /// Reads the root element.
    pub(super) fn system(mut self, system: &Element<'a>) -> Result<Draft, TopologyError> {
        let cpus = self.cpus(system)?;
        let first = cpus.first().filter(|cpu| cpu.vendor.is_some());
        self.first_cpu = first.map(|cpu| (cpu.family, cpu.model));
        for (number, cpu) in cpus.iter().enumerate() {
            self.children(&cpu.element, Up::Cpu(number), number)?;
        }
        self.drop_the_unused();
        if self.gpus.is_empty() {
            let expected = "at least one GPU: a `gpu` element, or a `pci` of class 0x03…";
            return Err(system.misfit("a machine without GPUs", expected));
        }
        let allows = |found: &FoundGpu<'_>| {
            let gdr = found.gpu.and_then(|gpu| gpu.text("gdr"));
            gdr != Some("0")
        };
        self.gpus_allow_gdr = self.gpus.iter().any(allows);
        let sm = self.take_gpus()?;
        self.take_cpus(&cpus, sm)?;
        self.take_nics(sm)?;
        self.take_pci_links();
        Ok(self.draft)
    }

    /// The NUMA nodes, by number.
    fn cpus(&mut self, system: &Element<'a>) -> Result<Vec<CpuClues<'a>>, TopologyError> {
        let mut cpus: BTreeMap<i64, CpuClues<'a>> = BTreeMap::new();
        let mut host = None;
        for element in system.all("cpu") {
            let number = element.required_number("numaid")?;
            let hash = element.text("host_hash").unwrap_or_default();
            if *host.get_or_insert(hash) != hash {
                return Err(element.misfit(
                    "a second host (`host_hash`): a dump of a machine whose NVLinks join hosts",
                    "one host in a file",
                ));
            }
            let vendor = match (element.text("arch"), element.text("vendor")) {
                (Some("arm64"), _) => Some("arm64".to_owned()),
                (_, vendor) => vendor.map(str::to_owned),
            };
            let clues = CpuClues {
                element,
                vendor,
                family: element.number("familyid")?.unwrap_or(0),
                model: element.number("modelid")?.unwrap_or(0),
            };
            if cpus.insert(number, clues).is_some() {
                let found = format!("numaid=\"{number}\" a second time");
                return Err(element.misfit(found, "each NUMA node once"));
            }
        }
        if cpus.is_empty() {
            return Err(system.misfit("no `<cpu>`", "at least one `<cpu numaid=…>`"));
        }
        Ok(cpus.into_values().collect())
    }

    fn children(&mut self, element: &Element<'a>, up: Up, cpu: usize) -> Result<(), TopologyError> {
        for child in element.children() {
            match child.name() {
                "pci" => self.pci(child, up, cpu)?,
                // Without a place on the bus.
                "nic" => {
                    let wire = self.parts.wire(VIRTUAL, 1);
                    self.nets(&[child], false, up, &wire)?;
                }
                "pcilink" => {
                    let target = child.required("target")?.to_ascii_lowercase();
                    if let Up::Forwarder(number) = up {
                        self.pci_links.push((number, target));
                    }
                }
                // NCCL skips what it does not know.
                _ => {}
            }
        }
        Ok(())
    }

    fn pci(&mut self, element: Element<'a>, up: Up, cpu: usize) -> Result<(), TopologyError> {
        let pci = Pci::read(element, self.notes)?;
        if self.buses.len() >= MAX_FUNCTIONS {
            let found = format!("more than {MAX_FUNCTIONS} PCI functions");
            return Err(element.misfit(found, "one host; NCCL reads 256 elements of it"));
        }
        if !self.buses.insert(pci.bus.clone()) {
            let found = format!("busid=\"{}\" a second time", pci.bus);
            return Err(element.misfit(found, "each bus number once"));
        }
        match pci.function {
            Function::NvSwitch => Ok(()),
            Function::Gpu => {
                let mut gpus = element.all("gpu");
                let gpu = gpus.next();
                if gpus.next().is_some() {
                    let note = "parts of one GPU are read as the whole GPU".to_owned();
                    self.notes.push(note);
                }
                self.gpus.push(FoundGpu { pci, gpu, up, cpu });
                Ok(())
            }
            Function::Nic => self.nic(&pci, up),
            Function::Switch => {
                let above = match up {
                    Up::Forwarder(number) => self.forwarder_ids[number].1,
                    Up::Cpu(_) => None,
                };
                let section = above.is_some() && pci.broadcom(1) == above;
                let role = if section {
                    PcieRole::Section
                } else {
                    PcieRole::Switch
                };
                if element.all("nic").next().is_some() {
                    self.notes.push(
                        "a `pci` that holds a `nic` and other functions is read as a switch with \
                         the NIC in it; NCCL would take it for the NIC alone"
                            .into(),
                    );
                }
                let below = pci.broadcom(0).filter(|_| !section);
                let number = self.forwarder(&pci, up, role, below)?;
                self.children(&element, Up::Forwarder(number), cpu)
            }
        }
    }

    fn wire(&mut self, pci: &Pci<'a>) -> Result<Use, TopologyError> {
        self.parts
            .pcie(pci.megatransfers, pci.lanes)
            .ok_or_else(|| {
                let found = format!("a PCIe link of {} MT/s", pci.megatransfers);
                pci.element.misfit(found, "one of the hardware's links")
            })
    }

    fn forwarder(
        &mut self,
        pci: &Pci<'a>,
        up: Up,
        role: PcieRole,
        below: Option<u32>,
    ) -> Result<usize, TopologyError> {
        let wire = self.wire(pci)?;
        let model = self.parts.pcie_switch(pci.megatransfers, role);
        self.draft.forwarders.push(Forwarder { model, up, wire });
        self.forwarder_ids.push((pci.bus.clone(), below));
        Ok(self.draft.forwarders.len() - 1)
    }

    fn nic(&mut self, pci: &Pci<'a>, up: Up) -> Result<(), TopologyError> {
        let infiniband = pci
            .element
            .text("class")
            .is_some_and(|class| class.starts_with("0x0207"));
        let nics: Vec<Element<'a>> = pci.element.all("nic").collect();
        let ports = nics
            .iter()
            .flat_map(|nic| nic.all("net"))
            .filter(is_used)
            .count();
        let wire = self.wire(pci)?;
        if nics.is_empty() {
            self.nics.push(FoundNic {
                element: pci.element,
                net: false,
                dev: 0,
                infiniband,
                up,
                wire,
            });
            return Ok(());
        }
        let up = if ports > 1 {
            // The ports share the slot.
            Up::Forwarder(self.forwarder(pci, up, PcieRole::Card, None)?)
        } else {
            up
        };
        self.nets(&nics, infiniband, up, &wire)
    }

    fn nets(
        &mut self,
        nics: &[Element<'a>],
        infiniband: bool,
        up: Up,
        wire: &Use,
    ) -> Result<(), TopologyError> {
        for net in nics.iter().flat_map(|nic| nic.all("net")).filter(is_used) {
            self.nics.push(FoundNic {
                element: net,
                net: true,
                dev: net.required_number("dev")?,
                infiniband,
                up,
                wire: wire.clone(),
            });
        }
        Ok(())
    }

    /// Where a file names some GPUs, those that it only gives a place are not used; and NICs
    /// likewise. The rest is put in order.
    fn drop_the_unused(&mut self) {
        if self.gpus.iter().any(|found| found.gpu.is_some()) {
            self.gpus.retain(|found| found.gpu.is_some());
        } else {
            // NVML counts by bus number.
            self.gpus.sort_by(|a, b| a.pci.bus.cmp(&b.pci.bus));
        }
        if self.nics.iter().any(|found| found.net) {
            self.nics.retain(|found| found.net);
        }
        self.nics.sort_by_key(|found| found.dev);
    }
}

/// Network devices that NCCL's ordinary transports use.
fn is_used(net: &Element<'_>) -> bool {
    net.text("dev").is_some() && net.text("net") != Some("0")
}
