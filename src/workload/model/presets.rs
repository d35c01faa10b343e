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
    /// Its name here: `llama3-8b`.
    #[serde(skip)]
    pub name: String,
    /// For people: "Llama 3 8B".
    pub title: String,
    /// What else models of this shape are called.
    #[serde(default)]
    pub aliases: Vec<String>,
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
        let named = presets.models.into_iter().map(|(name, preset)| {
            let preset = Preset {
                name: name.clone(),
                ..preset
            };
            (name, preset)
        });
        named.collect()
    })
}

/// Every name by its [`key`], and whose it is.
fn keys() -> &'static BTreeMap<String, &'static Preset> {
    static KEYS: OnceLock<BTreeMap<String, &'static Preset>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let keys = all().values().flat_map(|preset| {
            let names = spellings(preset).into_iter();
            names.map(move |name| (key(name), preset))
        });
        keys.collect()
    })
}

/// All that a model is called; aliases of a vendor also without the vendor.
fn spellings(preset: &Preset) -> Vec<&str> {
    let mut names = vec![preset.name.as_str(), preset.title.as_str()];
    for alias in &preset.aliases {
        names.push(alias);
        names.extend(alias.split_once('/').map(|(_, own)| own));
    }
    names
}

/// A name without what people write in many ways: capitals, and marks between words. Marks between digits stay:
/// Qwen2.5-7B is no Qwen2-57B.
fn key(name: &str) -> String {
    let mut key = String::new();
    let mut marked = false;
    for c in name.chars() {
        if matches!(c, '-' | '_' | '.' | ' ') {
            marked = true;
            continue;
        }
        let after_digit = key.ends_with(|last: char| last.is_ascii_digit());
        if marked && after_digit && c.is_ascii_digit() {
            key.push('-');
        }
        marked = false;
        key.push(c.to_ascii_lowercase());
    }
    key
}

/// The names of the shipped models, in alphabetical order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    all().keys().map(String::as_str)
}

/// The shipped models, in the order of their names.
pub fn presets() -> impl Iterator<Item = &'static Preset> {
    all().values()
}

/// A shipped model, by its name or another that it is known by, however that is written.
///
/// # Errors
/// [`ModelError::UnknownName`], with the closest name, if none is called that.
pub fn find(name: &str) -> Result<&'static Preset, ModelError> {
    let found = all().get(name).or_else(|| keys().get(&key(name)).copied());
    found.ok_or_else(|| ModelError::UnknownName {
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
            assert_eq!(preset.name, name);
        }
        assert_eq!(names().count(), 48);
    }

    #[test]
    fn capitals_and_marks_are_forgiven_and_other_names_known() {
        for (name, expected) in [
            ("llama-3-70b", "llama3-70b"),
            ("Llama3-70B", "llama3-70b"),
            ("llama3_70b", "llama3-70b"),
            ("Llama 3 70B", "llama3-70b"),
            ("meta-llama/Meta-Llama-3-70B", "llama3-70b"),
            ("Llama-3.1-405B-Instruct", "llama3-405b"),
            ("DeepSeekV3", "deepseek-v3"),
            ("Qwen2_5-7B", "qwen2.5-7b"),
            ("GPT_OSS.20b", "gpt-oss-20b"),
            ("glm-4-6", "glm-4.6"),
        ] {
            assert_eq!(find(name).unwrap().name, expected, "{name}");
        }
        for other in [
            "qwen2-57b",
            "llama370b",
            "llama-3-7-0b",
            "someone/llama3-70b",
        ] {
            assert!(find(other).is_err(), "{other}");
        }
    }

    #[test]
    fn no_name_is_that_of_two_models() {
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for preset in presets() {
            for name in spellings(preset) {
                let owner = owners.insert(key(name), &preset.name);
                assert!(owner.is_none_or(|owner| owner == preset.name), "{name}");
            }
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
        let error = find("lama3-70b").unwrap_err();
        assert!(error.to_string().contains("did you mean `llama3-70b`?"));
        let error = find("resnet").unwrap_err();
        assert!(!error.to_string().contains("did you mean"));
    }
}
