//! The names that a topology uses, as numbers: models of devices and links, and stems.

use super::architecture::Architecture;
use super::error::Fault;
use super::graph::DeviceKind;
use super::hardware::{CpuVendor, DeviceModel, Hardware, LinkModel, ProcessorModel, Sourced};
use super::model_checks;
use fabricsim_units::Money;
use std::collections::BTreeMap;

/// Models and device names met so far, numbered in the order of first use.
pub(super) struct Models<'a> {
    own: Option<&'a Hardware>,
    shipped: &'a Hardware,
    devices: Vec<(&'a str, &'a DeviceModel)>,
    links: Vec<(&'a str, &'a LinkModel)>,
    architectures: BTreeMap<String, Architecture>,
    processors: BTreeMap<CpuVendor, ProcessorModel>,
    prices: Vec<&'a Sourced<Money>>,
    stems: Vec<String>,
    rdma: Vec<&'a [String]>,
    device_numbers: BTreeMap<&'a str, u16>,
    link_numbers: BTreeMap<&'a str, u16>,
    stem_numbers: BTreeMap<(String, &'a [String]), u16>,
}

/// The models and stems as a topology keeps them.
pub(super) struct Tables {
    pub(super) devices: Vec<(String, DeviceModel)>,
    pub(super) links: Vec<(String, LinkModel)>,
    pub(super) architectures: BTreeMap<String, Architecture>,
    pub(super) processors: BTreeMap<CpuVendor, ProcessorModel>,
    pub(super) prices: Vec<Sourced<Money>>,
    pub(super) server_overhead: Option<Sourced<f64>>,
    pub(super) stems: Vec<String>,
    pub(super) rdma: Vec<Vec<String>>,
}

impl<'a> Models<'a> {
    /// `own` takes precedence over `shipped`.
    pub(super) fn new(own: Option<&'a Hardware>, shipped: &'a Hardware) -> Self {
        Models {
            own,
            shipped,
            devices: Vec::new(),
            links: Vec::new(),
            architectures: BTreeMap::new(),
            processors: BTreeMap::new(),
            prices: Vec::new(),
            stems: Vec::new(),
            rdma: Vec::new(),
            device_numbers: BTreeMap::new(),
            link_numbers: BTreeMap::new(),
            stem_numbers: BTreeMap::new(),
        }
    }

    /// The number of a device model; a fault at `path` if there is none of this name.
    pub(super) fn device(
        &mut self,
        name: &str,
        path: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<(u16, &'a DeviceModel)> {
        let found = self
            .own
            .and_then(|h| h.devices.get_key_value(name))
            .map(|pair| (pair, true))
            .or_else(|| {
                self.shipped
                    .devices
                    .get_key_value(name)
                    .map(|pair| (pair, false))
            });
        let Some(((name, model), own)) = found else {
            let known = self.own.into_iter().chain([self.shipped]);
            let known = known.flat_map(|h| h.devices.keys().map(String::as_str));
            faults.push(Fault::unknown(path, "device models", name, known));
            return None;
        };
        if let Some(&number) = self.device_numbers.get(name.as_str()) {
            return Some((number, model));
        }
        if !own {
            model_checks::device_model(name, model, faults);
        }
        if let DeviceModel::Gpu(gpu) = model {
            self.architecture(&gpu.architecture, name, faults)?;
        }
        if let DeviceModel::Cpu(cpu) = model {
            self.processor(cpu.vendor, faults);
        }
        let number = number(self.devices.len(), "device models", path, faults)?;
        self.devices.push((name, model));
        self.device_numbers.insert(name, number);
        Some((number, model))
    }

    /// Keeps the generation of a GPU model `of`; a fault if there is none of this name.
    fn architecture(&mut self, name: &str, of: &str, faults: &mut Vec<Fault>) -> Option<()> {
        if self.architectures.contains_key(name) {
            return Some(());
        }
        let own = self.own.and_then(|h| h.architectures.get(name));
        let Some(model) = own.or_else(|| self.shipped.architectures.get(name)) else {
            let known = self.own.into_iter().chain([self.shipped]);
            let known = known.flat_map(|h| h.architectures.keys().map(String::as_str));
            let path = format!("hardware.devices.{of}.gpu.architecture");
            faults.push(Fault::unknown(&path, "architectures", name, known));
            return None;
        };
        if own.is_none() {
            model_checks::architecture(name, model, faults);
        }
        self.architectures.insert(name.to_owned(), model.clone());
        Some(())
    }

    /// Keeps what CPUs of a make have in common, if that is known.
    fn processor(&mut self, make: CpuVendor, faults: &mut Vec<Fault>) {
        if self.processors.contains_key(&make) {
            return;
        }
        let own = self.own.and_then(|h| h.processors.get(&make));
        if let Some(model) = own.or_else(|| self.shipped.processors.get(&make)) {
            if own.is_none() {
                model_checks::processor(make, model, faults);
            }
            self.processors.insert(make, model.clone());
        }
    }

    /// The number of a link model; a fault at `path` if there is none of this name.
    pub(super) fn link(
        &mut self,
        name: &str,
        path: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<(u16, &'a LinkModel)> {
        let found = self
            .own
            .and_then(|h| h.links.get_key_value(name))
            .map(|pair| (pair, true))
            .or_else(|| {
                self.shipped
                    .links
                    .get_key_value(name)
                    .map(|pair| (pair, false))
            });
        let Some(((name, model), own)) = found else {
            let known = self.own.into_iter().chain([self.shipped]);
            let known = known.flat_map(|h| h.links.keys().map(String::as_str));
            faults.push(Fault::unknown(path, "link models", name, known));
            return None;
        };
        if let Some(&number) = self.link_numbers.get(name.as_str()) {
            return Some((number, model));
        }
        if !own {
            model_checks::link_model(name, model, faults);
        }
        let number = number(self.links.len(), "link models", path, faults)?;
        self.links.push((name, model));
        self.link_numbers.insert(name, number);
        Some((number, model))
    }

    /// The number of a component's price.
    pub(super) fn price(
        &mut self,
        price: &'a Sourced<Money>,
        path: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<u16> {
        let known = self.prices.iter().position(|known| *known == price);
        let at = known.unwrap_or(self.prices.len());
        let number = number(at, "prices", path, faults)?;
        if known.is_none() {
            self.prices.push(price);
        }
        Some(number)
    }

    /// The number of a device name, and of the RDMA names of such devices, if they have any.
    pub(super) fn stem(
        &mut self,
        name: &str,
        rdma: &'a [String],
        path: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<u16> {
        let key = (name.to_owned(), rdma);
        if let Some(&number) = self.stem_numbers.get(&key) {
            return Some(number);
        }
        let number = number(self.stems.len(), "device names", path, faults)?;
        self.stems.push(name.to_owned());
        self.rdma.push(rdma);
        self.stem_numbers.insert(key, number);
        Some(number)
    }

    /// The device names so far, by number.
    pub(super) fn stem_names(&self) -> Vec<String> {
        self.stems.clone()
    }

    /// What has been used.
    pub(super) fn into_tables(self) -> Tables {
        let own = self.own.and_then(|own| own.server_overhead.as_ref());
        Tables {
            devices: owned(self.devices),
            links: owned(self.links),
            architectures: self.architectures,
            processors: self.processors,
            prices: self.prices.into_iter().cloned().collect(),
            server_overhead: own.or(self.shipped.server_overhead.as_ref()).cloned(),
            stems: self.stems,
            rdma: self.rdma.into_iter().map(<[String]>::to_vec).collect(),
        }
    }
}

fn owned<T: Clone>(models: Vec<(&str, &T)>) -> Vec<(String, T)> {
    models
        .into_iter()
        .map(|(name, model)| (name.to_owned(), model.clone()))
        .collect()
}

fn number(used: usize, what: &str, path: &str, faults: &mut Vec<Fault>) -> Option<u16> {
    let number = u16::try_from(used).ok();
    if number.is_none() {
        faults.push(Fault::new(
            path,
            format!("more than 65536 different {what}"),
            "at most 65536",
        ));
    }
    number
}

/// What a model makes of a device.
pub(super) fn kind(model: &DeviceModel) -> DeviceKind {
    match model {
        DeviceModel::Gpu(_) => DeviceKind::Gpu,
        DeviceModel::Nvswitch(_) => DeviceKind::NvSwitch,
        DeviceModel::Cpu(_) => DeviceKind::Cpu,
        DeviceModel::PcieSwitch(_) => DeviceKind::PcieSwitch,
        DeviceModel::Nic(_) => DeviceKind::Nic,
        DeviceModel::Switch(_) => DeviceKind::Switch,
        DeviceModel::Storage(_) => DeviceKind::Storage,
    }
}
