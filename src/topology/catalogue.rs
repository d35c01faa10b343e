//! The topologies and the hardware that the program carries with it.

use super::error::{Fault, TopologyError, candidates};
use super::hardware::Hardware;
use super::load;
use super::spec::TopologySpec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A shipped topology: its name and its text.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../topologies/", $name, ".json")))),*]
    };
}

/// A shipped hardware file: its name and its text.
macro_rules! hardware_files {
    ($($name:literal),* $(,)?) => {
        &[$((
            concat!("topologies/hardware/", $name, ".json"),
            include_str!(concat!("../../topologies/hardware/", $name, ".json")),
        )),*]
    };
}

/// Every shipped topology, in the order in which `topology list` shows them.
const SHIPPED: &[(&str, &str)] = shipped![
    "dgx-1-v100",
    "dgx-2",
    "dgx-a100",
    "dgx-h100",
    "dgx-h100-nvme",
    "dgx-h200",
    "dgx-b200",
    "dgx-b300",
    "gb200-nvl36x2",
    "gb200-nvl72",
    "gb300-nvl72",
    "gh200-quad",
    "a100-quad-slingshot",
    "superpod-h100",
    "llama3-24k",
    "hgx-h100-roce",
    "aws-p4d",
    "aws-p5",
    "aws-p5en",
    "aws-p6-b300",
    "azure-ndv4",
    "azure-ndv5",
    "gcp-a3-high",
    "gcp-a3-mega",
    "gcp-a3-ultra",
    "x86-h100-pcie",
    "l40s-pcie",
    "rtx4090-pcie",
    "t4-pcie",
];

/// The shipped hardware, by kind.
const HARDWARE: &[(&str, &str)] = hardware_files![
    "links",
    "architectures",
    "gpus",
    "hosts",
    "nics",
    "switches",
    "storage"
];

/// The names of the shipped topologies.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
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
            place: String::new(),
            name: name.to_owned(),
            candidates: candidates(name, names()),
            known: names().map(str::to_owned).collect(),
        }),
    }
}

/// Values that were fitted to measurements, in place of those of the hardware files: by their
/// place there, with dots. Made by `fabricsim fit`.
const FITTED: &str = include_str!("../../topologies/hardware/fitted.json");

/// The file of fitted values.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fitted {
    #[serde(rename = "comment")]
    _comment: String,
    values: BTreeMap<String, Value>,
}

/// The shipped hardware as one JSON value, as its files have it, without fitted values.
///
/// # Panics
/// Never: the texts are part of the program and a test reads them.
#[must_use]
pub fn hardware_json() -> Value {
    let mut all = serde_json::Map::new();
    for (name, text) in HARDWARE {
        let part: Value = load::from_json(text, name).expect("tests read the embedded files");
        let Value::Object(part) = part else { continue };
        for (kind, models) in part {
            if let (Value::Object(models), Value::Object(known)) = (
                models,
                all.entry(kind)
                    .or_insert_with(|| Value::Object(serde_json::Map::new())),
            ) {
                known.extend(models);
            }
        }
    }
    all.remove("comment");
    Value::Object(all)
}

/// The value at a place in hardware's JSON, with dots; an object with a `value` stands for
/// that.
pub fn place_in<'v>(hardware: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut place = hardware;
    for part in path.split('.') {
        place = match place {
            Value::Array(list) => list.get_mut(part.parse::<usize>().ok()?)?,
            _ => place.get_mut(part)?,
        };
    }
    if place.get("value").is_some() {
        place = place.get_mut("value")?;
    }
    Some(place)
}

/// The shipped models of links and devices, with the fitted values.
///
/// # Panics
/// Never: the texts are part of the program and a test reads them.
pub fn hardware() -> &'static Hardware {
    static PARSED: OnceLock<Hardware> = OnceLock::new();
    PARSED.get_or_init(|| {
        with_values(&[(FITTED, "topologies/hardware/fitted.json")])
            .expect("tests read the embedded files")
    })
}

/// The shipped hardware with the values of a file that `fabricsim fit` wrote; what the file does
/// not name keeps the shipped fitted values. `origin` names the file in errors.
///
/// # Errors
/// [`TopologyError::Json`] if the text is no such file, [`TopologyError::Faults`] for places
/// that the hardware does not have and values that do not belong there.
pub fn hardware_with(text: &str, origin: &str) -> Result<Hardware, TopologyError> {
    with_values(&[(FITTED, "topologies/hardware/fitted.json"), (text, origin)])
}

fn with_values(files: &[(&str, &str)]) -> Result<Hardware, TopologyError> {
    let mut all = hardware_json();
    let mut last = "";
    for &(text, origin) in files {
        last = origin;
        let fitted: Fitted = load::from_json(text, origin)?;
        let mut faults = Vec::new();
        for (path, value) in fitted.values {
            if let Some(place) = place_in(&mut all, &path) {
                *place = value;
            } else {
                let expected = "a place in topologies/hardware, with dots";
                faults.push(Fault::new("values", path, expected));
            }
        }
        if !faults.is_empty() {
            return Err(TopologyError::Faults {
                origin: origin.to_owned(),
                faults,
            });
        }
    }
    serde_path_to_error::deserialize(all).map_err(|error| TopologyError::Faults {
        origin: last.to_owned(),
        faults: vec![Fault::new(
            error.path().to_string(),
            error.inner().to_string(),
            "what the hardware files have there",
        )],
    })
}

/// The texts of the shipped hardware files, with their names.
#[cfg(test)]
pub(super) fn hardware_texts() -> &'static [(&'static str, &'static str)] {
    HARDWARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expand::{Overrides, expand};
    use fabricsim_units::Time;

    #[test]
    fn no_model_stands_in_two_files() {
        let parts = HARDWARE
            .iter()
            .map(|(name, text)| load::parse_hardware(text, name).unwrap_or_else(|e| panic!("{e}")));
        let (mut links, mut architectures, mut processors, mut devices) = (0, 0, 0, 0);
        for part in parts {
            links += part.links.len();
            architectures += part.architectures.len();
            processors += part.processors.len();
            devices += part.devices.len();
        }
        assert_eq!(links, hardware().links.len());
        assert_eq!(architectures, hardware().architectures.len());
        assert_eq!(processors, hardware().processors.len());
        assert_eq!(devices, hardware().devices.len());
    }

    #[test]
    fn values_of_a_file_stand_over_the_shipped_ones() {
        let file = |values: &str| format!(r#"{{"comment": "", "values": {{{values}}}}}"#);
        let read = |values: &str| hardware_with(&file(values), "mine.json");
        let place = "architectures.hopper.ll.launch";
        let mine = read(&format!(r#""{place}": "1.5us""#)).unwrap();
        let launch = |all: &Hardware| all.architectures["hopper"].ll.launch.value;
        assert_eq!(launch(&mine), Time::from_nanos(1500));
        assert_ne!(launch(hardware()), launch(&mine));
        let said = |values: &str| read(values).unwrap_err().to_string();
        let unknown = said(r#""architectures.hooper.ll.launch": "1.5us""#);
        assert!(unknown.contains("mine.json"), "{unknown}");
        assert!(unknown.contains("hooper"), "{unknown}");
        let wrong = said(&format!(r#""{place}": "1.5GB/s""#));
        assert!(wrong.contains(place), "{wrong}");
    }

    #[test]
    fn shipped_files_are_machines() {
        for name in names() {
            let spec = find(name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(spec.name, name);
            expand(&spec, hardware(), &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}
