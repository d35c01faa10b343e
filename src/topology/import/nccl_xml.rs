//! NCCL's topology XML, element by element (NCCL 2.30.7 `src/graph/topo.cc`, `xml.cc`).
//!
//! Read as NCCL reads it: dictionary keys are prefixes of attributes, an unknown link speed is
//! generation 3, width 0 is 16 lanes, a link's speed is that of its lower end, elements that
//! it does not know are skipped. NCCL completes a file from the machine that it runs on;
//! there is none here, so what is missing is assumed, with a note.

use super::draft::Draft;
use super::parts::Parts;
use super::tree;
use super::xml::{self, Element};
use super::{ImportOptions, TopologyError};

/// A bus number as NVML gives it for an NVSwitch that a virtual machine cannot see.
pub(crate) const HIDDEN: &str = "fffffff";

/// What a PCI function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Gpu,
    Nic,
    Switch,
    /// Of an NVSwitch: its NVLinks matter, its place on the bus does not.
    NvSwitch,
}

/// A `pci` element.
pub(super) struct Pci<'a> {
    pub(super) element: Element<'a>,
    pub(super) bus: String,
    pub(super) function: Function,
    pub(super) megatransfers: u64,
    pub(super) lanes: u32,
    /// Vendor, device, subsystem vendor and device.
    pub(super) ids: [u32; 4],
}

/// Reads a file into a node.
pub(super) fn read(
    text: &str,
    origin: &str,
    options: &ImportOptions,
    parts: &mut Parts<'_>,
    notes: &mut Vec<String>,
) -> Result<Draft, TopologyError> {
    let document = match xml::read(text, origin, "system") {
        Err(_) if is_graph(text) => {
            return Err(TopologyError::Text {
                origin: origin.to_owned(),
                line: 1,
                column: 1,
                found: "a graph file (`<graphs>`): channels, not a machine".into(),
                expected: "a topology file (`<system>`); NCCL reads graphs from NCCL_GRAPH_FILE"
                    .into(),
                nearest: None,
            });
        }
        other => other?,
    };
    let system = Element::root(&document, origin);
    check_maker(&system)?;
    let version = system.required("version")?;
    if version.trim() != "1" {
        let expected = "version 1, the only one that NCCL reads";
        return Err(system.misfit(format!("version=\"{version}\""), expected));
    }
    tree::Reader::new(origin, options, parts, notes).system(&system)
}

fn is_graph(text: &str) -> bool {
    xml::read(text, "", "graphs").is_ok()
}

/// RCCL's files have the same elements, but for AMD GPUs, of which there is no model.
fn check_maker(system: &Element<'_>) -> Result<(), TopologyError> {
    let expected = "GPUs of NVIDIA: there are no AMD GPUs among the models";
    if system.text("version") == Some("2") {
        return Err(system.misfit("version=\"2\", as RCCL writes for AMD GPUs", expected));
    }
    let mut open: Vec<Element<'_>> = system.children().collect();
    while let Some(element) = open.pop() {
        let amd = match element.name() {
            "xgmi" => Some("xGMI links (`<xgmi>`)"),
            "gpu" if element.text("gcn").is_some() => Some("an AMD GPU (attribute `gcn`)"),
            "pci" if element.text("vendor") == Some("0x1002") && is_gpu_class(&element) => {
                Some("an AMD GPU (vendor 0x1002)")
            }
            _ => None,
        };
        if let Some(found) = amd {
            return Err(element.misfit(found, expected));
        }
        open.extend(element.children());
    }
    Ok(())
}

fn is_gpu_class(element: &Element<'_>) -> bool {
    element
        .text("class")
        .is_some_and(|class| class.starts_with("0x03") || class.starts_with("0x12"))
}

impl<'a> Pci<'a> {
    /// Reads a `pci` element.
    pub(super) fn read(
        element: Element<'a>,
        notes: &mut Vec<String>,
    ) -> Result<Self, TopologyError> {
        let bus = element.required("busid")?.trim().to_ascii_lowercase();
        if !is_bus(&bus) {
            let expected = "a bus number in hexadecimal, such as 0000:1b:00.0";
            return Err(element.misfit(format!("busid=\"{bus}\""), expected));
        }
        let has = |name| element.children().any(|child| child.name() == name);
        let class = element.text("class");
        // What hangs below says more than the class.
        let function = if has("gpu") {
            Function::Gpu
        } else if has("nic") && !has("pci") {
            Function::Nic
        } else {
            match class {
                Some(class) if class.starts_with("0x03") => Function::Gpu,
                Some(class) if class.starts_with("0x02") => Function::Nic,
                Some(class) if class.starts_with("0x068000") => Function::NvSwitch,
                Some(_) => Function::Switch,
                None => {
                    return Err(element.misfit(
                        format!("`<pci busid=\"{bus}\">` without `class`"),
                        "a class that tells GPU (0x03…), NIC (0x02…) and switch (0x0604…) \
                         apart; NCCL reads a missing one from the machine that the file is \
                         for",
                    ));
                }
            }
        };
        let speed = element.text("link_speed").unwrap_or("");
        if speed.trim().parse::<f64>().is_ok_and(|bare| bare > 0.0) {
            let expected = "a speed such as \"16.0 GT/s PCIe\", or \"\" where it is not known";
            return Err(element.misfit(format!("link_speed=\"{speed}\""), expected));
        }
        let width: u32 = element.number("link_width")?.unwrap_or(0);
        if width > 64 {
            let found = format!("link_width=\"{width}\"");
            return Err(element.misfit(found, "at most 64 lanes, or 0 where it is not known"));
        }
        Ok(Pci {
            bus,
            function,
            megatransfers: megatransfers(speed).unwrap_or_else(|| {
                notes.push(if speed.is_empty() {
                    "PCIe links without a speed are read as generation 3, as NCCL does".into()
                } else {
                    format!("link speed \"{speed}\" is read as generation 3, as NCCL does")
                });
                GENERATION_3
            }),
            lanes: if width == 0 { 16 } else { width },
            ids: ["vendor", "device", "subsystem_vendor", "subsystem_device"]
                .map(|name| element.text(name).and_then(hexadecimal).unwrap_or(0)),
            element,
        })
    }

    /// Whether this is the `level` of a Broadcom switch that shows itself as two: its upper
    /// (0) or its lower one (1).
    pub(super) fn broadcom(&self, level: u32) -> Option<u32> {
        let [vendor, device, sub_vendor, sub_device] = self.ids;
        match (vendor, device, sub_vendor, sub_device >> 12) {
            (0x1000, 0xc010, 0x1000, 0xa) => Some(4),
            (0x1000, 0xc030, 0x1000, nibble) if nibble == level => Some(5),
            _ => None,
        }
    }
}

/// Whether a text is a place on the PCI bus, as NCCL and sysfs write it: hexadecimal numbers
/// (domain, bus, device, function) joined by `:` and `.`.
fn is_bus(text: &str) -> bool {
    let parts = text.split([':', '.']);
    let number =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
    (2..=4).contains(&parts.clone().count()) && parts.clone().all(number)
}

const GENERATION_3: u64 = 8000;

/// NCCL's table: keys are prefixes of what a file says.
const SPEEDS: [(&str, u64); 11] = [
    ("2.5 GT/s", 2500),
    ("5 GT/s", 5000),
    ("8 GT/s", 8000),
    ("16 GT/s", 16_000),
    ("32 GT/s", 32_000),
    ("5.0 GT/s PCIe", 5000),
    ("8.0 GT/s PCIe", 8000),
    ("16.0 GT/s PCIe", 16_000),
    ("32.0 GT/s PCIe", 32_000),
    ("64.0 GT/s PCIe", 64_000),
    ("2.5 GT/s PCIe", 2500),
];

fn megatransfers(speed: &str) -> Option<u64> {
    SPEEDS
        .iter()
        .find(|(key, _)| speed.starts_with(key))
        .map(|&(_, rate)| rate)
}

/// A speed as sysfs and NCCL write it.
pub(crate) fn speed_text(megatransfers: u64) -> String {
    format!(
        "{}.{} GT/s PCIe",
        megatransfers / 1000,
        megatransfers % 1000 / 100
    )
}

pub(super) fn hexadecimal(text: &str) -> Option<u32> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_prefixes_as_in_nccl() {
        let cases = [
            ("16 GT/s", Some(16_000)),
            ("16 GT/s PCIe", Some(16_000)),
            ("32 GT/s PCIe/s", Some(32_000)),
            ("16.0 GT/s PCIe", Some(16_000)),
            ("16.0 GT/s", None),
            ("64 GT/s", None),
            ("64.0 GT/s PCIe", Some(64_000)),
            ("", None),
        ];
        for (text, rate) in cases {
            assert_eq!(megatransfers(text), rate, "{text}");
        }
        for rate in [2500, 5000, 8000, 16_000, 32_000, 64_000] {
            assert_eq!(megatransfers(&speed_text(rate)), Some(rate));
        }
    }
}
