//! Shapes of published models, as data with sources: `presets.json`.

use super::error::ModelError;
use super::spec::ModelSpec;
use fabricsim_topology::error::candidates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TEXT: &str = include_str!("presets.json");

/// A published model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// For people: "Llama 3 8B".
    pub title: String,
    /// Where the shape is published.
    pub source: String,
    /// The shape.
    pub model: ModelSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Presets {
    #[serde(rename = "comment")]
    _comment: String,
    models: BTreeMap<String, Preset>,
}

fn all() -> &'static BTreeMap<String, Preset> {
    static ALL: OnceLock<BTreeMap<String, Preset>> = OnceLock::new();
    ALL.get_or_init(|| {
        let presets: Presets =
            serde_json::from_str(TEXT).expect("the embedded presets are read by a test");
        presets.models
    })
}

/// The names of the shipped models, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    all().keys().map(String::as_str)
}

/// A shipped model.
///
/// # Errors
/// [`ModelError::UnknownName`], with the closest name, if none is called that.
pub fn find(name: &str) -> Result<&'static Preset, ModelError> {
    all().get(name).ok_or_else(|| ModelError::UnknownName {
        name: name.to_owned(),
        candidates: candidates(name, names()),
        known: names().map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_and_has_a_source() {
        for name in names() {
            let preset = find(name).unwrap();
            assert_eq!(preset.model.check(), Ok(()), "{name}");
            assert!(!preset.source.is_empty(), "{name}");
        }
        assert_eq!(names().count(), 48);
    }

    #[test]
    fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
        let error = find("lama3-70b").unwrap_err();
        assert!(error.to_string().contains("did you mean `llama3-70b`?"));
        let error = find("resnet").unwrap_err();
        assert!(!error.to_string().contains("did you mean"));
    }
}
