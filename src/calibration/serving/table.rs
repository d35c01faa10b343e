//! A published table of serving, as its file has it.

use crate::measurement::json_files;
use fabricsim_topology::{TopologyError, load};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// One published table. Files hold more than this; only what a prediction needs is read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ServingTable {
    /// What it is called, unique.
    pub id: String,
    /// What kind of table it is.
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
    /// The figures: columns differ by kind.
    pub rows: Vec<Map<String, Value>>,
}

/// What a table was measured on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct System {
    /// The GPU, as the source calls it.
    #[serde(default)]
    pub gpu: Option<String>,
    /// How the GPUs are connected, as the source calls it.
    #[serde(default)]
    pub interconnect: Option<String>,
}

/// What ran.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Engine {
    /// Its name.
    #[serde(default)]
    pub engine: Option<String>,
    /// Its release.
    #[serde(default)]
    pub version: Option<String>,
}

/// A model by its name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ModelName {
    /// As the source has it.
    #[serde(default)]
    pub name: Option<String>,
}

/// Reads tables: files as they are, of folders every `.json` in them, by name.
///
/// # Errors
/// What cannot be read, or is no table.
pub fn read_serving(paths: &[PathBuf]) -> Result<Vec<ServingTable>, TopologyError> {
    let files = json_files(paths)?;
    let read = files.iter().map(|path| {
        let text = load::read_text(path)?;
        load::from_json(&text, &path.display().to_string())
    });
    read.collect()
}
