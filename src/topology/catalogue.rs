//! The topologies and the hardware that the program carries with it.

use super::error::{TopologyError, nearest};
use super::hardware::Hardware;
use super::load;
use super::spec::TopologySpec;
use std::sync::OnceLock;

/// A shipped topology: its name and its text.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../topologies/", $name, ".json")))),*]
    };
}

/// Every shipped topology, in the order in which `topology list` shows them.
const SHIPPED: &[(&str, &str)] = shipped![
    "dgx-a100",
    "dgx-h100",
    "dgx-b200",
    "gb200-nvl72",
    "superpod-h100",
    "x86-h100-pcie",
];

/// The shipped hardware.
const HARDWARE: &str = include_str!("../../topologies/hardware.json");

/// The names of the shipped topologies.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|&(name, _)| name)
}

/// The text of a shipped topology.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED
        .iter()
        .find(|&&(known, _)| known == name)
        .map(|&(_, text)| text)
}

/// A shipped topology.
///
/// # Errors
/// [`TopologyError::UnknownName`], with the closest name, if none is called that.
pub fn find(name: &str) -> Result<TopologySpec, TopologyError> {
    match text(name) {
        Some(text) => load::parse(text, name),
        None => Err(TopologyError::UnknownName {
            name: name.to_owned(),
            nearest: nearest(name, names()),
            known: names().map(str::to_owned).collect(),
        }),
    }
}

/// The shipped models of links and devices.
///
/// # Panics
/// Never: the text is part of the program and a test reads it.
pub fn hardware() -> &'static Hardware {
    static PARSED: OnceLock<Hardware> = OnceLock::new();
    PARSED.get_or_init(|| {
        load::parse_hardware(HARDWARE, "topologies/hardware.json")
            .expect("the embedded hardware file is read by a test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::expand::{Overrides, expand};

    #[test]
    fn shipped_files_are_machines() {
        let _ = hardware();
        for name in names() {
            let spec = find(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(spec.name, name);
            expand(&spec, hardware(), &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}
