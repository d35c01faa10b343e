//! How to run tables that do not say it themselves.

use super::measurement::{Measurement, Model};
use fabricsim_topology::{TopologyError, load};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// `model` blocks for tables without one, read by a person from what their sources say.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Free text.
    #[serde(default)]
    pub comment: Option<String>,
    /// By table.
    pub tables: Vec<Modelled>,
}

/// How to run some tables.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Modelled {
    /// The tables' ids.
    pub ids: Vec<String>,
    /// As in a measurement file.
    pub model: Model,
    /// They take part in fits; all others are left for a look at tables that nothing was fitted to.
    #[serde(default)]
    pub fits: bool,
    /// What of it the source says, and what is taken to be so.
    pub why: String,
}

impl Models {
    /// Reads a file of models.
    ///
    /// # Errors
    /// What cannot be read, is not JSON, or is no list of models.
    pub fn read(path: &Path) -> Result<Self, TopologyError> {
        load::from_json(&load::read_text(path)?, &path.display().to_string())
    }

    /// Gives tables without a model the one that is meant for them; the ids of those that got one.
    pub fn complete(&self, measurements: &mut [Measurement]) -> BTreeSet<String> {
        let mut given = BTreeSet::new();
        for table in measurements.iter_mut().filter(|m| m.model.is_none()) {
            if let Some(found) = self.tables.iter().find(|m| m.ids.contains(&table.id)) {
                table.model = Some(found.model.clone());
                given.insert(table.id.clone());
            }
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_measurements;

    #[test]
    fn only_tables_without_a_model_are_given_one() {
        let models: Models = serde_json::from_str(
            r#"{"tables": [{"ids": ["a", "b"], "why": "a test", "model": {"topology": "dgx-h100",
                "nodes": 2, "gpus_per_node": 8, "collective": "all-reduce"}}]}"#,
        )
        .unwrap();
        let text = r#"[{"id": "a", "collective": "all_reduce", "rows": []},
            {"id": "b", "collective": "all_reduce", "rows": [], "model": {"topology": "dgx-a100",
             "nodes": 1, "gpus_per_node": 8, "collective": "all-reduce"}},
            {"id": "c", "collective": "all_reduce", "rows": [], "model": null}]"#;
        let mut tables = parse_measurements(text, "tables.json").unwrap();
        assert_eq!(
            models.complete(&mut tables),
            BTreeSet::from(["a".to_owned()])
        );
        let topology = |at: usize| tables[at].model.as_ref().map(|m| m.topology.as_str());
        assert_eq!(topology(0), Some("dgx-h100"));
        assert_eq!(topology(1), Some("dgx-a100"), "its own");
        assert_eq!(topology(2), None);
    }
}
