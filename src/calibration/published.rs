//! Files of published figures of training jobs: tables, each of one source.

use fabricsim_experiment::ScenarioError;
use fabricsim_topology::load::{from_json, read_text};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A file of tables.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published<T> {
    /// Free text.
    pub comment: String,
    /// Tables, each of one source.
    pub tables: Vec<T>,
    /// Where the file is: relative paths in it start there.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The file, in messages.
    #[serde(skip)]
    pub origin: String,
}

impl<T: DeserializeOwned> Published<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not of the format.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let origin = path.display().to_string();
        let mut published: Self = from_json(&read_text(path)?, &origin)?;
        published.origin = origin;
        published.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(published)
    }
}

/// Whether a row is one of those that are asked for: its name or its table's source holds one of `only`,
/// or nothing is asked for.
pub(crate) fn wanted(only: &[String], source: &str, name: &str) -> bool {
    let holds = |text: &String| name.contains(text) || source.contains(text);
    only.is_empty() || only.iter().any(holds)
}
