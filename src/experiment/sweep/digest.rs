//! What tells one sweep from another: its points, with what they read.

use super::points::{Point, Sweep};
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::site::Machines;
use crate::spec::TopologyRef;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

impl Sweep {
    /// A digest of all points, and of the files that they read, as hexadecimal digits: two sweeps that
    /// have the same one give the same results with the same build of the program.
    ///
    /// # Errors
    /// Values that have no place in their scenario. What else is wrong with a point is a result.
    pub fn digest(&self, machines: &Machines) -> Result<String, ScenarioError> {
        let mut hash = Sha256::new();
        for point in &self.points {
            hash.update(self.point_text(point, machines)?);
        }
        let mut digest = String::new();
        for byte in hash.finalize().iter().take(16) {
            // Writing into a string does not fail.
            let _ = write!(digest, "{byte:02x}");
        }
        Ok(digest)
    }

    fn point_text(&self, point: &Point, machines: &Machines) -> Result<String, ScenarioError> {
        match self.scenario(point, machines) {
            Ok(scenario) => {
                let files = files_of(&scenario, self.folder(point));
                Ok(format!(
                    "{}\n{}\n{files}\n",
                    self.description(point),
                    scenario.json
                ))
            }
            Err(error @ (ScenarioError::Overridden { .. } | ScenarioError::Override { .. })) => {
                Err(error)
            }
            Err(error) => Ok(format!("{}\n{error}\n", self.description(point))),
        }
    }
}

/// The text of all files that a scenario reads; of one that cannot be read nothing, for its point says
/// so.
fn files_of(scenario: &Scenario, folder: &Path) -> String {
    let topology = match &scenario.spec.topology {
        TopologyRef::Path(path) => Some(path),
        TopologyRef::Name(_) | TopologyRef::Inline(_) => None,
    };
    let collective = scenario.spec.job.collective();
    let algorithm = collective.and_then(|job| job.algorithm_file.as_ref());
    let variables = scenario.spec.environment.values();
    let files = variables
        .map(|value| &value.0)
        .filter(|v| v.ends_with(".xml"));
    let all = topology.into_iter().chain(algorithm).chain(files);
    let texts = all.map(|path| std::fs::read_to_string(folder.join(path)).unwrap_or_default());
    texts.collect::<Vec<_>>().join("\n")
}
