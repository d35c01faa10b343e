//! What can be wrong with a scenario's faults or with a goodput job.

use fabricsim_topology::Fault as Problem;
use thiserror::Error;

/// Why a list of faults, or a goodput job, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", list(problems))]
pub struct FaultError {
    /// Everything that is wrong, in order of the file.
    pub problems: Vec<Problem>,
}

/// How many problems are printed before the rest is only counted.
const SHOWN: usize = 50;

fn list(problems: &[Problem]) -> String {
    let mut lines: Vec<String> = problems
        .iter()
        .take(SHOWN)
        .map(Problem::to_string)
        .collect();
    if problems.len() > SHOWN {
        lines.push(format!("… and {} more", problems.len() - SHOWN));
    }
    lines.join("\n")
}

/// A problem without a suggestion.
pub(super) fn problem(
    path: impl Into<String>,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Problem {
    Problem {
        path: path.into(),
        found: found.into(),
        expected: expected.into(),
        nearest: None,
    }
}
