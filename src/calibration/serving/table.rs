//! A published table of serving, as its file has it.

use crate::measurement::json_files;
use fabricsim_topology::{TopologyError, load};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// One published table. Files hold more than this; only what a prediction needs is read, and what is of another
/// form than expected counts as not said.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ServingTable {
    /// What it is called, unique; the file's name if the file does not say.
    #[serde(default, deserialize_with = "text_or_empty")]
    pub id: String,
    /// What kind of table it is.
    #[serde(default, deserialize_with = "text_or_empty")]
    pub kind: String,
    /// What it was measured on.
    #[serde(default)]
    pub system: System,
    /// What ran.
    #[serde(default)]
    pub software: Engine,
    /// The model, if it is of one.
    #[serde(default)]
    pub model: ModelName,
    /// How engines are divided over GPUs.
    #[serde(default)]
    pub layout: Value,
    /// Load, lengths, flags of the server.
    #[serde(default)]
    pub settings: Value,
    /// From 3 (can be simulated as it is) to 0.
    #[serde(default, rename = "settings_completeness_0_3")]
    pub completeness: Value,
    /// The figures: columns differ by kind.
    #[serde(default)]
    pub rows: Vec<Map<String, Value>>,
}

/// What a table was measured on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct System {
    /// The GPU, as the source calls it.
    #[serde(default, deserialize_with = "text")]
    pub gpu: Option<String>,
    /// How the GPUs are connected, as the source calls it.
    #[serde(default, deserialize_with = "text")]
    pub interconnect: Option<String>,
    /// How many there are.
    #[serde(default)]
    pub gpus: Value,
    /// What limits their power.
    #[serde(default)]
    pub power_cap: Value,
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Engine {
    /// Its name.
    #[serde(default, deserialize_with = "text")]
    pub engine: Option<String>,
    /// Its release.
    #[serde(default, deserialize_with = "text")]
    pub version: Option<String>,
}

/// A model by its name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ModelName {
    /// As the source has it.
    #[serde(default, deserialize_with = "text")]
    pub name: Option<String>,
    /// What it is stored in.
    #[serde(default, deserialize_with = "text")]
    pub precision: Option<String>,
}

/// A text; anything else is none.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

fn text_or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(text(from)?.unwrap_or_default())
}

/// Reads tables: files as they are, of folders every `.json` in them, by name.
///
/// # Errors
/// What cannot be read, or is no table.
pub fn read_serving(paths: &[PathBuf]) -> Result<Vec<ServingTable>, TopologyError> {
    json_files(paths)?.iter().map(|path| table(path)).collect()
}

fn table(path: &Path) -> Result<ServingTable, TopologyError> {
    let text = load::read_text(path)?;
    let mut table: ServingTable = load::from_json(&text, &path.display().to_string())?;
    if table.id.is_empty() {
        let stem = path.file_stem().unwrap_or_default();
        table.id = stem.to_string_lossy().into_owned();
    }
    Ok(table)
}

/// A row's cells by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Cells<'a> {
    /// A number, if it is one.
    pub(super) fn number(self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// A text, if it is one.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    /// The middle of a range of two numbers.
    pub(super) fn middle(self, name: &str) -> Option<f64> {
        let [low, high] = self.0.get(name)?.as_array()?.as_slice() else {
            return None;
        };
        Some((low.as_f64()? + high.as_f64()?) / 2.0)
    }
}
