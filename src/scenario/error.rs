//! Why a scenario could not be run, or how its run failed.

use crate::engine::SimError;
use crate::nccl::NcclError;
use crate::topology::TopologyError;
use crate::workload::training::resolve::TrainingError;
use std::io;
use thiserror::Error;

/// Why a scenario could not be run, or how its run failed.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The scenario's or the topology's file, or what it says.
    #[error(transparent)]
    Input(#[from] TopologyError),
    /// An override does not fit the scenario's shape.
    #[error("--set {text}: {problem}")]
    Override {
        /// As it was typed.
        text: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// The scenario with its overrides is not of the format.
    #[error("{origin} with --set, at {path}\n    {message}{}", did_you_mean(nearest.as_deref()))]
    Overridden {
        /// The file.
        origin: String,
        /// The place in it.
        path: String,
        /// What is wrong.
        message: String,
        /// The closest valid name.
        nearest: Option<String>,
    },
    /// NCCL could not be set up like this.
    #[error(transparent)]
    Nccl(#[from] NcclError),
    /// An algorithm's file cannot be used.
    #[error("{path}: {problem}")]
    AlgorithmFile {
        /// The file.
        path: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// The simulation ended without a result.
    #[error("{collective} of {bytes} bytes: {source}{}", blamed(faults))]
    Simulation {
        /// The collective.
        collective: &'static str,
        /// The size.
        bytes: u64,
        /// What happened.
        source: SimError,
        /// What went wrong on the machine.
        faults: Vec<String>,
    },
    /// A training job could not be made.
    #[error(transparent)]
    Training(Box<TrainingError>),
    /// A result could not be passed on while the run went on.
    #[error("cannot write the results: {0}")]
    Output(#[from] io::Error),
}

impl From<TrainingError> for ScenarioError {
    fn from(error: TrainingError) -> Self {
        ScenarioError::Training(Box::new(error))
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("\n    did you mean `{name}`?"))
}

fn blamed(faults: &[String]) -> String {
    if faults.is_empty() {
        String::new()
    } else {
        format!("; with the faults of the scenario ({})", faults.join(", "))
    }
}
