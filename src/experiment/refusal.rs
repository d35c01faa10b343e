//! How a scenario is refused: what is wrong, and where in which file.

use super::error::ScenarioError;
use fabricsim_topology::{Fault, TopologyError};

/// An error, if anything is wrong with the file `origin`.
pub(super) fn refuse(origin: &str, faults: Vec<Fault>) -> Result<(), ScenarioError> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(refusal(origin, faults))
}

/// What is wrong with the file `origin`.
pub(super) fn refusal(origin: &str, faults: Vec<Fault>) -> ScenarioError {
    TopologyError::Faults {
        origin: origin.to_owned(),
        faults,
    }
    .into()
}

/// One thing that is wrong.
pub(super) fn fault(path: &str, found: String, expected: impl Into<String>) -> Fault {
    Fault {
        path: path.to_owned(),
        found,
        expected: expected.into(),
        nearest: None,
    }
}
