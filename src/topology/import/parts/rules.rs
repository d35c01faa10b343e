//! `parts.json`: which model stands for what, and models of its own.

use super::{GpuClues, Parts};
use crate::hardware::{Hardware, NicProtocol};
use serde::Deserialize;
use std::sync::OnceLock;

/// The embedded file.
const PARTS: &str = include_str!("../parts.json");

/// `parts.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::import) struct PartsFile {
    #[serde(rename = "comment")]
    _comment: String,
    pub(super) hardware: Hardware,
    pub(super) cpus: Vec<CpuRule>,
    pub(super) nics: Vec<NicRule>,
    pub(super) gpus: Vec<GpuRule>,
    pub(super) generations: Vec<Generation>,
}

/// A CPU as `/proc/cpuinfo` calls it, and what stands for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpuRule {
    pub(crate) vendor: String,
    pub(crate) family: u32,
    pub(crate) from_model: u32,
    /// Only for nodes of at least so many CPUs (NUMA nodes).
    #[serde(default)]
    pub(super) min_numa: usize,
    pub(super) models: Vec<String>,
    pub(super) socket_link: String,
    pub(super) socket_lanes: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NicRule {
    pub(super) protocol: NicProtocol,
    /// Mbit/s; any if absent.
    pub(super) speed: Option<u64>,
    pub(super) models: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuRule {
    /// PCI device number of vendor 0x10de.
    pub(super) device: String,
    pub(super) title: String,
    pub(super) sm: u32,
    /// Best first.
    pub(super) models: Vec<String>,
    /// NVLinks of one on its board; 0 if it has none, or nothing is known.
    #[serde(default)]
    pub(super) nvlinks: u32,
    /// Its boards join all GPUs by NVSwitches.
    #[serde(default)]
    pub(super) switched: bool,
}

/// What belongs to GPUs of one compute capability, for files that do not say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::import) struct Generation {
    pub(in crate::import) sm: u32,
    pub(in crate::import) nvlink: String,
    /// Of one GPU.
    pub(in crate::import) nvlinks: u32,
    pub(super) nvswitch: String,
    /// Of a PCIe lane.
    pub(in crate::import) megatransfers: u64,
    pub(in crate::import) nic: NicProtocol,
    /// Mbit/s.
    pub(in crate::import) nic_speed: u64,
    pub(in crate::import) vendor: String,
    pub(in crate::import) family: u32,
    pub(in crate::import) model: u32,
}

/// The parts of the program.
///
/// # Panics
/// Never: the text is part of the program and a test reads it.
pub(super) fn file() -> &'static PartsFile {
    static PARSED: OnceLock<PartsFile> = OnceLock::new();
    PARSED.get_or_init(|| {
        crate::load::from_json(PARTS, "parts.json")
            .expect("the embedded parts file is read by a test")
    })
}

/// How files call a CPU that is modelled so: the first rule that leads to it, else to its maker.
pub(crate) fn cpu_in_files(model: &str, vendor: &str, numa: usize) -> Option<&'static CpuRule> {
    let rules = || file().cpus.iter().filter(|rule| rule.vendor == vendor);
    rules()
        .find(|rule| numa >= rule.min_numa && rule.models.iter().any(|name| name == model))
        .or_else(|| rules().next())
}

/// The PCI device number that is read as this model, if there is one.
pub(crate) fn gpu_in_files(model: &str, hardware: &Hardware) -> Option<&'static str> {
    let parts = Parts::new(hardware);
    file()
        .gpus
        .iter()
        .find(|rule| {
            let clues = GpuClues {
                device: Some(&rule.device),
                sm: Some(rule.sm),
                nvlinks: 0,
                c2c: false,
            };
            parts.gpu(&clues).is_some_and(|(name, _)| name == model)
        })
        .map(|rule| rule.device.as_str())
}
