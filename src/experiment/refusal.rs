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

/// Refuses names and titles that are longer than tables and plots can show.
pub(super) fn check_length(path: &str, text: &str, most: usize, faults: &mut Vec<Fault>) {
    let length = text.chars().count();
    if length > most {
        let expected = format!("at most {most}");
        faults.push(fault(path, format!("{length} characters"), expected));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_refused_by_their_length() {
        let mut faults = Vec::new();
        check_length("name", &"ä".repeat(200), 200, &mut faults);
        assert!(faults.is_empty());
        check_length("name", &"ä".repeat(201), 200, &mut faults);
        let told = [&faults[0].path, &faults[0].found, &faults[0].expected];
        assert_eq!(told, ["name", "201 characters", "at most 200"]);
    }
}
