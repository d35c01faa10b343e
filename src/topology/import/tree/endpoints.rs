//! From the elements of a topology XML to a node: GPUs, NVLinks, CPUs and NICs.

use super::super::draft::{Far, Gpu, Nic};
use super::super::nccl_xml::HIDDEN;
use super::super::parts::{Generation, GpuClues, NamedGpu, Parts, Use};
use super::super::{TopologyError, asked_gpu, say_model};
use super::{CpuClues, FoundGpu, FoundNic, Reader};
use crate::hardware::NicProtocol;
use std::collections::{BTreeMap, BTreeSet};

/// More links between two devices than any machine has.
const MAX_LINKS: u32 = 1000;
/// What a network device without a speed counts as, in Mbit/s (NCCL 2.30.7
/// `src/graph/topo.cc`).
const DEFAULT_SPEED: u64 = 10_000;
/// Faster than any port, in Mbit/s; keeps rates in range.
const MAX_SPEED: u64 = 1_000_000_000;

/// Where an NVLink leads, by bus number.
enum Target<'a> {
    Gpu(usize),
    Switch(&'a str),
    /// Nowhere that is in the file.
    Nowhere,
}

impl<'a> Reader<'a, '_, '_> {
    /// Reads the GPUs; returns the compute capability of the first.
    pub(super) fn take_gpus(&mut self) -> Result<u32, TopologyError> {
        let gpus = self.ordered_gpus()?;
        let switches = self.nvlinks(&gpus)?;
        let asked = asked_gpu(self.options, self.parts, self.origin)?;
        let mut first = None;
        for (number, found) in gpus.iter().enumerate() {
            let (model, sm) = self.gpu_model(number, found, asked.as_deref())?;
            first.get_or_insert(sm);
            let wire = self.wire(&found.pci)?;
            let c2c = self.c2c(found)?;
            self.draft.gpus.push(Gpu {
                model,
                slot: Some((found.up, wire)),
                c2c: c2c.map(|wire| (found.cpu, wire)),
            });
        }
        let sm = first.unwrap_or_default();
        Parts::generation(sm)
            .nvlink
            .clone_into(&mut self.draft.nvlink);
        let switches = switches.max(self.take_left_out_nvlinks(&gpus));
        self.draft.add_nvswitches(switches, sm, self.parts);
        Ok(sm)
    }

    /// Where a file names no NVLinks at all, they are those of the GPUs' models: NCCL asks NVML for
    /// them then (NCCL 2.30.7 `src/graph/xml.cc`, `ncclTopoGetXmlFromGpu`). Returns the
    /// number of switches.
    fn take_left_out_nvlinks(&mut self, gpus: &[FoundGpu<'a>]) -> usize {
        // None counted is an answer, too.
        let named = |found: &FoundGpu<'a>| {
            let mut gpus = found.gpu.iter();
            gpus.any(|gpu| gpu.all("nvlink").next().is_some())
        };
        if gpus.len() < 2 || self.options.nvlinks.is_some() || gpus.iter().any(named) {
            return 0;
        }
        let device = |found: &FoundGpu<'a>| found.pci.element.text("device");
        let models = self.draft.gpus.iter().zip(gpus);
        let own: Vec<Option<(u32, bool)>> = models
            .map(|(gpu, found)| self.parts.own_nvlinks(device(found), &gpu.model))
            .collect();
        let model = &self.draft.gpus[0].model;
        let Some((links, _)) = own.iter().flatten().next().copied() else {
            return 0;
        };
        let switched = own
            .iter()
            .all(|own| own.is_some_and(|(_, switched)| switched));
        if !switched {
            self.notes.push(format!(
                "the file names no NVLinks; a {model} has {links}, but how they join the GPUs is \
                 not known: there are none (--nvlinks)"
            ));
            return 0;
        }
        self.notes.push(format!(
            "the file names no NVLinks: taken as the {links} of a {model}, to NVSwitches, as NCCL \
             asks the driver for them (--nvlinks)"
        ));
        for (gpu, own) in own.into_iter().enumerate() {
            let links = own.map_or(0, |(links, _)| links);
            self.draft.nvlinks.insert((gpu, Far::Switch(0)), links);
        }
        1
    }

    /// By device number; those without keep their order.
    fn ordered_gpus(&mut self) -> Result<Vec<FoundGpu<'a>>, TopologyError> {
        let gpus = std::mem::take(&mut self.gpus);
        let mut order: BTreeMap<i64, usize> = BTreeMap::new();
        for (position, found) in gpus.iter().enumerate() {
            let Some(gpu) = found.gpu else {
                continue;
            };
            let dev = gpu.required_number("dev")?;
            if order.insert(dev, position).is_some() {
                let text = format!("dev=\"{dev}\" a second time");
                return Err(gpu.misfit(text, "each GPU with a number of its own"));
            }
        }
        if order.is_empty() {
            return Ok(gpus);
        }
        let mut taken: Vec<Option<FoundGpu<'a>>> = gpus.into_iter().map(Some).collect();
        Ok(order
            .values()
            .filter_map(|&position| taken[position].take())
            .collect())
    }

    /// Reads the NVLinks; returns the number of switches.
    fn nvlinks(&mut self, gpus: &[FoundGpu<'a>]) -> Result<usize, TopologyError> {
        let by_bus: BTreeMap<&str, usize> = gpus
            .iter()
            .enumerate()
            .map(|(number, found)| (found.pci.bus.as_str(), number))
            .collect();
        // By direction, because a file tells of each GPU's side.
        let mut to_gpus: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        let mut to_switches: BTreeMap<(usize, &str), u32> = BTreeMap::new();
        for (number, found) in gpus.iter().enumerate() {
            for link in found.gpu.iter().flat_map(|gpu| gpu.all("nvlink")) {
                let count: u32 = link.number("count")?.unwrap_or(1);
                if count > MAX_LINKS {
                    let text = format!("count=\"{count}\"");
                    return Err(link.misfit(text, format!("at most {MAX_LINKS} NVLinks")));
                }
                let target = link.required("target")?.trim();
                if count == 0 {
                    continue;
                }
                let sum = match self.target(&link, target, &by_bus)? {
                    Target::Nowhere => continue,
                    Target::Gpu(other) if other == number => {
                        self.notes
                            .push("NVLinks of a GPU to itself are left out".into());
                        continue;
                    }
                    Target::Gpu(other) => to_gpus.entry((number, other)).or_default(),
                    Target::Switch(bus) => to_switches.entry((number, bus)).or_default(),
                };
                *sum = sum.saturating_add(count).min(MAX_LINKS);
            }
        }
        let buses: BTreeSet<&str> = to_switches.keys().map(|&(_, bus)| bus).collect();
        let mut buses: Vec<&str> = buses.into_iter().collect();
        let switches_of = |gpu: usize| -> BTreeSet<&str> {
            let own = to_switches.keys().filter(|&&(g, _)| g == gpu);
            own.map(|&(_, bus)| bus).collect()
        };
        let sets: BTreeSet<BTreeSet<&str>> = (0..gpus.len())
            .map(switches_of)
            .filter(|set| !set.is_empty())
            .collect();
        // Links between switches (of two baseboards) are not in these files: to NCCL all
        // switches are one.
        let apart = sets.iter().any(|a| sets.iter().any(|b| a.is_disjoint(b)));
        if apart {
            buses.truncate(1);
            self.notes
                .push("some GPUs have no NVSwitch in common: all switches are taken as one".into());
        }
        let links = &mut self.draft.nvlinks;
        for (&(gpu, bus), &count) in to_switches.iter().filter(|&(_, &count)| count > 0) {
            let switch = if apart {
                0
            } else {
                buses.partition_point(|&other| other < bus)
            };
            let sum: &mut u32 = links.entry((gpu, Far::Switch(switch))).or_default();
            *sum = sum.saturating_add(count).min(MAX_LINKS);
        }
        for (&(a, b), &count) in to_gpus.iter().filter(|&(_, &count)| count > 0) {
            let back = to_gpus.get(&(b, a)).copied().unwrap_or(0);
            if back != count {
                self.notes.push(format!(
                    "GPU {a} counts {count} NVLinks to GPU {b}, which counts {back} back: the \
                     larger number is taken"
                ));
            }
            links.insert((a.min(b), Far::Gpu(a.max(b))), count.max(back));
        }
        match self.options.nvlinks {
            Some(count) if links.is_empty() && count > 0 => {
                for gpu in 0..gpus.len() {
                    links.insert((gpu, Far::Switch(0)), count.min(MAX_LINKS));
                }
                Ok(1)
            }
            _ => Ok(buses.len()),
        }
    }

    fn target<'t>(
        &mut self,
        link: &super::Element<'a>,
        target: &'t str,
        by_bus: &BTreeMap<&str, usize>,
    ) -> Result<Target<'t>, TopologyError> {
        let gpu = by_bus.get(target.to_ascii_lowercase().as_str()).copied();
        let class = link.text("tclass").unwrap_or(match gpu {
            Some(_) => "0x030200",
            None => "0x068000",
        });
        if class.starts_with("0x068001") {
            let expected = "NVLinks between GPUs and NVSwitches";
            return Err(link.misfit("an NVLink to a CPU (tclass 0x068001)", expected));
        }
        if class.starts_with("0x068000") {
            if gpu.is_some() {
                self.notes.push(
                    "NVLink targets that are GPUs but are declared as NVSwitches count as \
                     NVSwitches, as they do for NCCL"
                        .into(),
                );
            }
            // All switches that cannot be seen are one.
            let hidden = target.starts_with(HIDDEN);
            return Ok(Target::Switch(if hidden { HIDDEN } else { target }));
        }
        if class.starts_with("0x03") {
            if gpu.is_none() {
                self.notes.push(format!(
                    "NVLinks to {target}, which is not used, are left out"
                ));
            }
            return Ok(gpu.map_or(Target::Nowhere, Target::Gpu));
        }
        Err(link.unknown(
            class,
            "one of the classes that NVLinks lead to",
            &["0x068000", "0x030200", "0x030000"],
        ))
    }

    /// A GPU's model and compute capability.
    fn gpu_model(
        &mut self,
        number: usize,
        found: &FoundGpu<'a>,
        asked: Option<&str>,
    ) -> Result<(String, u32), TopologyError> {
        if let Some(model) = asked {
            let sm = self.parts.sm_of(model).unwrap_or_default();
            return Ok((model.to_owned(), sm));
        }
        let nvidia = found
            .pci
            .element
            .text("vendor")
            .is_none_or(|v| v == "0x10de");
        let device = found.pci.element.text("device").filter(|_| nvidia);
        let sm = match &found.gpu {
            Some(gpu) => gpu.number("sm")?,
            None => None,
        };
        let clues = GpuClues {
            device,
            sm,
            nvlinks: self.draft.nvlinks_of(number),
            c2c: found.gpu.is_some_and(|gpu| gpu.all("c2c").next().is_some()),
        };
        if let Some((model, note)) = self.parts.gpu(&clues) {
            self.notes.extend(note);
            let sm = self.parts.sm_of(&model).or(sm).unwrap_or_default();
            return Ok((model, sm));
        }
        let nvlinks = clues.nvlinks;
        if let Some(sm) = sm.or_else(|| self.parts.sm_of_device(device)) {
            let title = self.parts.title_of_device(device);
            let found_text = format!("a GPU of compute capability {sm}{title}");
            let known = self.parts.capabilities();
            let expected = format!("a GPU that there is a model of: {known}");
            return Err(found.pci.element.misfit(found_text, expected));
        }
        self.guessed_gpu(found, nvlinks)
    }

    /// A GPU of which a file says only the place: as the file's name has it, or of the one generation
    /// whose machines have such PCIe links and CPUs. Between generations nothing is guessed.
    fn guessed_gpu(
        &mut self,
        found: &FoundGpu<'a>,
        nvlinks: u32,
    ) -> Result<(String, u32), TopologyError> {
        // The machines that such files are for have NVLink.
        let nvlinks = nvlinks.max(1);
        if let Some(NamedGpu { model, sm, note }) = self.parts.named_gpu(self.origin, nvlinks) {
            self.notes.push(note);
            return Ok((model, sm));
        }
        let rate = found.pci.megatransfers;
        let fits = |g: &Generation| g.nvlinks > 0 && g.megatransfers == rate;
        let mut fitting = self.parts.generations(fits);
        let mut why = "the PCIe generation";
        if fitting.len() > 1 {
            why = "the PCIe generation and the CPUs";
            let cpu = self.first_cpu;
            fitting.retain(|g| Some((g.family, g.model)) == cpu);
        }
        if let [generation] = fitting.as_slice() {
            let clues = GpuClues {
                sm: Some(generation.sm),
                nvlinks,
                ..GpuClues::default()
            };
            if let Some((model, _)) = self.parts.gpu(&clues) {
                self.notes.push(format!(
                    "the file does not say the GPUs' model: taken as {model}, by {why} (--gpu)"
                ));
                return Ok((model, generation.sm));
            }
        }
        let possible = match self.parts.models_of(false, fits) {
            none if none.is_empty() => self.parts.models_of(false, |g| g.nvlinks > 0),
            some => some,
        };
        let text = "a GPU of which the file says only the place";
        Err(found.pci.element.misfit(text, say_model(&possible)))
    }

    fn c2c(&mut self, found: &FoundGpu<'a>) -> Result<Option<Use>, TopologyError> {
        let Some(c2c) = found.gpu.and_then(|gpu| gpu.all("c2c").next()) else {
            return Ok(None);
        };
        let count: u32 = c2c.number("count")?.unwrap_or(1);
        if count == 0 || count > MAX_LINKS {
            let text = format!("count=\"{count}\"");
            return Err(c2c.misfit(text, format!("from 1 to {MAX_LINKS} C2C links")));
        }
        let rate: Option<u64> = c2c.number("bw")?;
        if let Some(rate) = rate.filter(|&rate| rate == 0 || rate > MAX_SPEED) {
            let text = format!("bw=\"{rate}\"");
            return Err(c2c.misfit(text, "MB/s of one C2C link"));
        }
        Ok(Some(self.parts.c2c(rate, count)))
    }

    /// The CPUs' models; where the file does not name them, those that such GPUs ship with.
    pub(super) fn take_cpus(
        &mut self,
        cpus: &[CpuClues<'a>],
        sm: u32,
    ) -> Result<(), TopologyError> {
        for (number, clues) in cpus.iter().enumerate() {
            let usual = Parts::generation(sm);
            let (vendor, family, model) = match &clues.vendor {
                Some(vendor) => (vendor.as_str(), clues.family, clues.model),
                None => {
                    self.notes.push(format!(
                        "the file does not say which CPUs there are: taken as {} family {} \
                         model {}",
                        usual.vendor, usual.family, usual.model
                    ));
                    (usual.vendor.as_str(), usual.family, usual.model)
                }
            };
            let Some(cpu) = self.parts.cpu(vendor, family, model, cpus.len()) else {
                return Err(clues.element.unknown(
                    vendor,
                    "a CPU of one of these makers (`vendor`, or `arch` for Arm)",
                    &["GenuineIntel", "AuthenticAMD", "arm64"],
                ));
            };
            if number == 0 && cpus.len() > 1 {
                let (link, lanes) = cpu.socket;
                self.draft.socket = Some(self.parts.wire(link, lanes));
            }
            self.draft.cpus.push(cpu.model);
        }
        Ok(())
    }

    pub(super) fn take_nics(&mut self, sm: u32) -> Result<(), TopologyError> {
        // GPUDirect takes both ends.
        let gpus_allow = self.gpus_allow_gdr;
        for found in std::mem::take(&mut self.nics) {
            let (protocol, speed, gdr) = if found.net {
                self.net(&found)?
            } else {
                let usual = Parts::generation(sm);
                self.notes.push(format!(
                    "the file gives the places of NICs only: taken as {} Gbit/s each, as such \
                     GPUs have",
                    usual.nic_speed / 1000
                ));
                let protocol = match (found.infiniband, usual.nic) {
                    (true, _) => NicProtocol::Infiniband,
                    (false, NicProtocol::Infiniband) => NicProtocol::Roce,
                    (false, other) => other,
                };
                (protocol, usual.nic_speed, true)
            };
            let gdr = gdr && gpus_allow && protocol != NicProtocol::Tcp;
            let name = found.element.text("name").filter(|_| found.net);
            self.draft.nics.push(Nic {
                model: self.parts.nic(protocol, speed, gdr),
                rdma: name.map(str::to_owned),
                cable: self.parts.cable(protocol, speed),
                up: found.up,
                wire: found.wire,
            });
        }
        Ok(())
    }

    /// What a `net` element says: protocol, Mbit/s, GPUDirect RDMA.
    fn net(&mut self, found: &FoundNic<'a>) -> Result<(NicProtocol, u64, bool), TopologyError> {
        let net = &found.element;
        let speed = match net.number::<i64>("speed")? {
            Some(speed) if speed > 0 => speed.unsigned_abs(),
            _ => {
                self.notes.push(format!(
                    "network devices without a speed count as {} Gbit/s, as for NCCL",
                    DEFAULT_SPEED / 1000
                ));
                DEFAULT_SPEED
            }
        };
        if speed > MAX_SPEED {
            let text = format!("speed=\"{speed}\"");
            return Err(net.misfit(text, format!("Mbit/s, at most {MAX_SPEED}")));
        }
        // The transport over sockets counts no ports, verbs count from 1.
        let protocol = match net.number::<i64>("port")? {
            _ if found.infiniband => NicProtocol::Infiniband,
            Some(0) => NicProtocol::Tcp,
            _ => NicProtocol::Roce,
        };
        let gdr = net.number::<i64>("gdr")?;
        if gdr.is_none() && protocol != NicProtocol::Tcp {
            self.notes
                .push("NICs without `gdr` are taken as able to reach GPU memory".into());
        }
        Ok((protocol, speed, gdr != Some(0)))
    }

    /// Shortcuts between switches of the file.
    pub(super) fn take_pci_links(&mut self) {
        for (from, target) in std::mem::take(&mut self.pci_links) {
            let to = self
                .forwarder_ids
                .iter()
                .position(|(bus, _)| *bus == target);
            match to {
                Some(to) if to != from => self.draft.peers.push((from, to)),
                _ => self.notes.push(format!(
                    "`pcilink` to {target}, which is no switch, is left out"
                )),
            }
        }
    }
}
