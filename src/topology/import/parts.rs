//! Which model stands for what an imported file says.
//!
//! Models are looked for in the shipped hardware when a file is read, so a new model there is
//! taken up by itself. What it lacks comes from `parts.json`, and goes with the imported
//! topology as its own hardware.

mod named;
mod rules;

use crate::error::nearest;
use crate::hardware::{
    DeviceModel, Hardware, LinkFamily, LinkModel, NicProtocol, PcieRole, Sourced,
};
use fabricsim_units::{Bandwidth, Time};
use rules::{CpuRule, GpuRule, NicRule, file};
use std::collections::BTreeMap;

pub(super) use named::NamedGpu;
pub(super) use rules::Generation;
pub(crate) use rules::{cpu_in_files, gpu_in_files};

/// The link that `pcilink` stands for.
pub(crate) const PEER: &str = "pcie-peer";
/// The link of a network interface without a place on the bus.
pub(crate) const VIRTUAL: &str = "virtual-port";

/// What a file says of a GPU.
#[derive(Debug, Clone, Default)]
pub(super) struct GpuClues<'a> {
    /// PCI device number.
    pub(super) device: Option<&'a str>,
    /// Compute capability × 10.
    pub(super) sm: Option<u32>,
    pub(super) nvlinks: u32,
    /// Whether C2C joins it to its CPU.
    pub(super) c2c: bool,
}

/// A link and its lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) link: String,
    pub(super) lanes: u32,
}

/// A CPU that stands for one of the file.
#[derive(Debug, Clone)]
pub(super) struct Cpu {
    pub(super) model: String,
    /// To any other CPU of the node: link and lanes.
    pub(super) socket: (&'static str, u32),
}

/// Finds models, and keeps those that the shipped hardware lacks.
pub(crate) struct Parts<'h> {
    shipped: &'h Hardware,
    own: Hardware,
}

impl<'h> Parts<'h> {
    pub(crate) fn new(shipped: &'h Hardware) -> Self {
        Parts {
            shipped,
            own: Hardware::default(),
        }
    }

    /// The models that may have to go with the topology.
    pub(super) fn into_own(self) -> Hardware {
        self.own
    }

    /// A device of this name, now in use.
    pub(super) fn device(&mut self, name: &str) -> Option<&DeviceModel> {
        if let Some(model) = self.shipped.devices.get(name) {
            return Some(model);
        }
        if !self.own.devices.contains_key(name) {
            let model = file().hardware.devices.get(name)?;
            self.own.devices.insert(name.to_owned(), model.clone());
        }
        self.own.devices.get(name)
    }

    fn link(&mut self, name: &str) -> Option<&LinkModel> {
        if let Some(model) = self.shipped.links.get(name) {
            return Some(model);
        }
        if !self.own.links.contains_key(name) {
            let model = file().hardware.links.get(name)?;
            self.own.links.insert(name.to_owned(), model.clone());
        }
        self.own.links.get(name)
    }

    /// A link of this name, now in use.
    pub(super) fn wire(&mut self, name: &str, lanes: u32) -> Use {
        let _ = self.link(name);
        Use {
            link: name.to_owned(),
            lanes,
        }
    }

    /// A PCIe link whose lanes make so many transfers.
    pub(super) fn pcie(&mut self, megatransfers: u64, lanes: u32) -> Option<Use> {
        let fits = |model: &LinkModel| {
            model.family == LinkFamily::Pcie && megabits(model) == megatransfers
        };
        let name = by_model(&self.shipped.links, fits)
            .or_else(|| by_model(&file().hardware.links, fits))?;
        Some(self.wire(&name, lanes))
    }

    /// The CPU model for what a file says, and how such CPUs are joined. Of an unknown maker
    /// there is none.
    pub(super) fn cpu(
        &mut self,
        vendor: &str,
        family: u32,
        model: u32,
        numa: usize,
    ) -> Option<Cpu> {
        let rule = self.cpu_rule(vendor, family, model, numa)?;
        let name = rule.models.iter().find(|name| self.has(name))?.clone();
        let _ = self.device(&name);
        Some(Cpu {
            model: name,
            socket: (&rule.socket_link, rule.socket_lanes),
        })
    }

    /// The rule for a CPU: of its family and not newer than it; else the oldest of its maker.
    fn cpu_rule(
        &self,
        vendor: &str,
        family: u32,
        model: u32,
        numa: usize,
    ) -> Option<&'static CpuRule> {
        let of_vendor = |rule: &&CpuRule| {
            rule.vendor == vendor
                && numa >= rule.min_numa
                && rule.models.iter().any(|name| self.has(name))
        };
        let rules = || file().cpus.iter().filter(of_vendor);
        rules()
            .find(|rule| rule.family == family && model >= rule.from_model)
            .or_else(|| rules().max_by_key(|rule| rule.min_numa))
    }

    fn has(&self, name: &str) -> bool {
        self.shipped.devices.contains_key(name) || file().hardware.devices.contains_key(name)
    }

    fn gpus(&self) -> impl Iterator<Item = (&'h str, u32)> + use<'h> {
        self.shipped
            .devices
            .iter()
            .filter_map(|(name, model)| match model {
                DeviceModel::Gpu(gpu) => Some((name.as_str(), gpu.compute_capability)),
                _ => None,
            })
    }

    /// Compute capability of a GPU model of this name.
    pub(super) fn sm_of(&self, model: &str) -> Option<u32> {
        self.gpus()
            .find(|&(name, _)| name == model)
            .map(|(_, sm)| sm)
    }

    /// The closest GPU model's name, and all of them.
    pub(super) fn gpu_names(&self, wrong: &str) -> (Option<String>, String) {
        let names: Vec<&str> = self.gpus().map(|(name, _)| name).collect();
        (nearest(wrong, names.iter().copied()), names.join(", "))
    }

    /// Compute capabilities in the hardware, for messages.
    pub(super) fn capabilities(&self) -> String {
        let mut by_sm: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (name, sm) in self.gpus() {
            by_sm.entry(sm).or_default().push(name);
        }
        let texts: Vec<String> = by_sm
            .iter()
            .map(|(sm, names)| format!("{sm} ({})", names.join(", ")))
            .collect();
        texts.join(", ")
    }

    /// The model for a GPU: by its PCI device number, else by compute capability, and then the
    /// one whose name fits its having NVLinks or not. Says so where it is only the nearest.
    pub(super) fn gpu(&self, clues: &GpuClues<'_>) -> Option<(String, Option<String>)> {
        let rule = clues.device.and_then(gpu_rule);
        let sm = clues.sm.or(rule.map(|rule| rule.sm))?;
        let listed = rule
            .into_iter()
            .flat_map(|rule| rule.models.iter().enumerate())
            .find(|(_, name)| self.sm_of(name) == Some(sm));
        if let Some((position, name)) = listed {
            let note = (position > 0)
                .then(|| format!("{} taken as {name}, the nearest model", title(rule)));
            return Some((name.clone(), note));
        }
        let mut same: Vec<&str> = self
            .gpus()
            .filter(|&(_, other)| other == sm)
            .map(|(name, _)| name)
            .collect();
        let has_form = |name: &&str| name.contains("pcie") == (clues.nvlinks == 0);
        if same.iter().any(has_form) {
            same.retain(has_form);
        }
        // GPUs of superchips are called after Grace.
        let has_cpu = |name: &&str| name.starts_with('g') == clues.c2c;
        if same.iter().any(has_cpu) {
            same.retain(has_cpu);
        }
        let name = (*same.first()?).to_owned();
        let note = match rule {
            Some(_) => Some(format!(
                "{} taken as {name}, the nearest model of compute capability {sm}",
                title(rule)
            )),
            None if clues.nvlinks == 0 => Some(format!(
                "GPUs of compute capability {sm} without NVLinks taken as {name} (--gpu, --nvlinks)"
            )),
            None => None,
        };
        Some((name, note))
    }

    /// NVLinks that a GPU has on its board, and whether such boards join all GPUs by NVSwitches:
    /// by its PCI device number, else by the model that stands for it.
    pub(crate) fn own_nvlinks(&self, device: Option<&str>, model: &str) -> Option<(u32, bool)> {
        let leads = |rule: &&GpuRule| {
            let known = rule.models.iter().find(|name| self.sm_of(name).is_some());
            known.is_some_and(|name| name == model)
        };
        let rule = device.and_then(gpu_rule);
        let rule = rule.or_else(|| file().gpus.iter().find(leads))?;
        (rule.nvlinks > 0).then_some((rule.nvlinks, rule.switched))
    }

    /// Compute capability of a PCI device number.
    pub(super) fn sm_of_device(&self, device: Option<&str>) -> Option<u32> {
        device.and_then(gpu_rule).map(|rule| rule.sm)
    }

    /// What a PCI device number is called, for messages.
    pub(super) fn title_of_device(&self, device: Option<&str>) -> String {
        device
            .and_then(gpu_rule)
            .map_or_else(String::new, |rule| format!(" ({})", rule.title))
    }

    /// The generation of a compute capability: its own, else the newest before it.
    pub(super) fn generation(sm: u32) -> &'static Generation {
        let all = &file().generations;
        all.iter()
            .rev()
            .find(|generation| generation.sm <= sm)
            .unwrap_or(&all[0])
    }

    /// Generations that the hardware has a GPU of and that fit, oldest first.
    pub(super) fn generations(
        &self,
        fits: impl Fn(&Generation) -> bool,
    ) -> Vec<&'static Generation> {
        let known = |g: &&Generation| self.gpus().any(|(_, sm)| sm == g.sm);
        let all = file().generations.iter().filter(known);
        all.filter(|generation| fits(generation)).collect()
    }

    /// GPU models of generations that fit, for messages: with or without cards, which have no
    /// NVLinks of their own.
    pub(super) fn models_of(&self, cards: bool, fits: impl Fn(&Generation) -> bool) -> String {
        let of_one = |&(name, sm): &(&str, u32)| {
            fits(Self::generation(sm)) && (cards || !name.contains("pcie"))
        };
        let names: Vec<&str> = self.gpus().filter(of_one).map(|(name, _)| name).collect();
        names.join(", ")
    }

    /// More NVLinks than this no GPU has.
    pub(super) fn most_nvlinks(&self) -> u32 {
        let counts = file()
            .generations
            .iter()
            .map(|generation| generation.nvlinks);
        counts.max().unwrap_or(0)
    }

    /// An NVSwitch with at least so many ports.
    pub(super) fn nvswitch(&mut self, sm: u32, ports: u32) -> String {
        let name = Self::generation(sm).nvswitch.clone();
        let Some(DeviceModel::Nvswitch(model)) = self.device(&name) else {
            return name;
        };
        if model.ports.value >= ports {
            return name;
        }
        let mut model = model.clone();
        model.title = format!("{}, several as one", model.title);
        model.ports = Sourced {
            value: ports,
            source: "the links that the imported file counts".into(),
            comment: None,
        };
        self.unused(&name);
        self.synthetic(
            format!("{name}-{ports}-ports"),
            DeviceModel::Nvswitch(model),
        )
    }

    /// A PCIe switch for links of this rate.
    pub(super) fn pcie_switch(&mut self, megatransfers: u64, role: PcieRole) -> String {
        match role {
            PcieRole::HostBridge => return self.named("host-bridge"),
            PcieRole::Card => return self.named("nic-card"),
            PcieRole::Switch | PcieRole::Section => {}
        }
        // Generation 3 has 8 GT/s, and each later one twice as much.
        let generation = 3 + (megatransfers / 8000).max(1).ilog2();
        let own = format!("pcie-switch-gen{generation}");
        let name = if self.has(&own) {
            own
        } else {
            "pcie-switch".to_owned()
        };
        if role == PcieRole::Switch {
            return self.named(&name);
        }
        let before = self.own.devices.contains_key(&name);
        let Some(DeviceModel::PcieSwitch(model)) = self.device(&name) else {
            return name;
        };
        let mut model = model.clone();
        model.title = format!("{}, part of the one above", model.title);
        model.role = role;
        model.latency = Sourced {
            value: Time::ZERO,
            source: "one chip with the switch above, whose latency counts once".into(),
            comment: None,
        };
        if !before {
            self.unused(&name);
        }
        self.synthetic(format!("{name}-section"), DeviceModel::PcieSwitch(model))
    }

    /// The model of a NIC.
    pub(super) fn nic(&mut self, protocol: NicProtocol, speed: u64, gdr: bool) -> String {
        let fits = |rule: &&NicRule| {
            rule.protocol == protocol && rule.speed.is_none_or(|only| only == speed)
        };
        let names = file().nics.iter().filter(fits).flat_map(|r| &r.models);
        let name = names
            .into_iter()
            .find(|name| self.has(name))
            .cloned()
            .unwrap_or_default();
        let before = self.own.devices.contains_key(&name);
        let Some(DeviceModel::Nic(model)) = self.device(&name) else {
            return name;
        };
        if model.gpu_direct == gdr {
            return name;
        }
        let mut model = model.clone();
        model.title = format!("{}, without GPUDirect RDMA", model.title);
        model.gpu_direct = false;
        if !gdr {
            if !before {
                self.unused(&name);
            }
            return self.synthetic(format!("{name}-no-gdr"), DeviceModel::Nic(model));
        }
        name
    }

    /// The cable of a NIC.
    pub(super) fn cable(&mut self, protocol: NicProtocol, speed: u64) -> String {
        let infiniband = protocol == NicProtocol::Infiniband;
        let known = self.shipped.links.iter().find(|(name, model)| {
            model.family == LinkFamily::Network
                && megabits(model) == speed
                && name.starts_with("ib") == infiniband
        });
        if let Some((name, _)) = known {
            return name.clone();
        }
        let kind = if infiniband { "infiniband" } else { "ethernet" };
        let name = if speed.is_multiple_of(1000) {
            format!("{kind}-{}g", speed / 1000)
        } else {
            format!("{kind}-{speed}m")
        };
        if let Some(model) = file().hardware.links.get(kind) {
            let mut model = model.clone();
            model.comment = None;
            model.lane_rate = Sourced {
                value: Bandwidth::from_bytes_per_sec(speed.saturating_mul(125_000)),
                source: "the speed in the imported file".into(),
                comment: None,
            };
            self.own.links.insert(name.clone(), model);
        }
        name
    }

    /// The C2C link whose single links carry so many MB/s; `None` for the usual.
    pub(super) fn c2c(&mut self, megabytes: Option<u64>, lanes: u32) -> Use {
        let usual = self.wire("c2c", lanes);
        let (Some(megabytes), Some(model)) = (megabytes, self.shipped.links.get("c2c")) else {
            return usual;
        };
        let rate = Bandwidth::from_bytes_per_sec(megabytes.saturating_mul(1_000_000));
        if model.lane_rate.value == rate {
            return usual;
        }
        let mut model = model.clone();
        model.lane_rate = Sourced {
            value: rate,
            source: "the speed in the imported file".into(),
            comment: None,
        };
        let link = format!("c2c-{megabytes}m");
        self.own.links.insert(link.clone(), model);
        Use { link, lanes }
    }

    pub(super) fn named(&mut self, name: &str) -> String {
        let _ = self.device(name);
        name.to_owned()
    }

    fn synthetic(&mut self, name: String, model: DeviceModel) -> String {
        self.own.devices.insert(name.clone(), model);
        name
    }

    /// Takes back a model that was only a pattern for another.
    fn unused(&mut self, name: &str) {
        self.own.devices.remove(name);
    }
}

fn gpu_rule(device: &str) -> Option<&'static GpuRule> {
    let device = device.to_ascii_lowercase();
    file().gpus.iter().find(|rule| rule.device == device)
}

fn title(rule: Option<&GpuRule>) -> &str {
    rule.map_or("the GPU", |rule| rule.title.as_str())
}

/// Raw megabits per second of one lane.
pub(crate) fn megabits(model: &LinkModel) -> u64 {
    model.lane_rate.value.bytes_per_sec() / 125_000
}

fn by_model(
    links: &BTreeMap<String, LinkModel>,
    fits: impl Fn(&LinkModel) -> bool,
) -> Option<String> {
    links
        .iter()
        .find(|(_, model)| fits(model))
        .map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests;
