//! Why a scenario could not be run, or how its run failed.

use fabricsim_budget::OverBudget;
use fabricsim_engine::SimError;
use fabricsim_fault::Faults;
use fabricsim_nccl::NcclError;
use fabricsim_record::telemetry::TelemetryError;
use fabricsim_topology::TopologyError;
use fabricsim_topology::error::did_you_mean_one_of;
use fabricsim_units::Time;
use fabricsim_workload::training::resolve::TrainingError;
use std::io;
use thiserror::Error;

/// Why a scenario could not be run, or how its run failed.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The scenario's or the topology's file, or what it says.
    #[error(transparent)]
    Input(#[from] TopologyError),
    /// Series of monitoring that cannot be.
    #[error("--sample: {0}")]
    Telemetry(#[from] TelemetryError),
    /// Neither a file nor a shipped scenario.
    #[error(
        "there is no scenario `{name}`, neither a file nor a shipped one{}\n    \
         `fabricsim scenario list` shows those that are shipped",
        did_you_mean_one_of(candidates)
    )]
    UnknownName {
        /// What was asked for.
        name: String,
        /// Shipped names that could be meant.
        candidates: Vec<String>,
    },
    /// A folder in place of a scenario.
    #[error(
        "{path} is a folder: expected a scenario's file, or the name of a shipped one\n    {}",
        folder_holds(*results, file.as_deref())
    )]
    Folder {
        /// The folder.
        path: String,
        /// Whether it holds the results of a run.
        results: bool,
        /// A file in it that may be a scenario.
        file: Option<String>,
    },
    /// Neither a file, a shipped scenario nor a shipped model.
    #[error(
        "there is no scenario and no model `{name}`{}\n    \
         `fabricsim scenario list` and `fabricsim model list` show those that are shipped",
        did_you_mean_one_of(candidates)
    )]
    UnknownJob {
        /// What was asked for.
        name: String,
        /// Shipped names that could be meant.
        candidates: Vec<String>,
    },
    /// No shipped sweep has that name.
    #[error(
        "there is no shipped sweep `{name}`{} (`fabricsim sweep list` shows all)",
        did_you_mean_one_of(candidates)
    )]
    UnknownSweep {
        /// What was asked for.
        name: String,
        /// Shipped names that could be meant.
        candidates: Vec<String>,
    },
    /// A new scenario's model is too large for the machine in every layout that was tried.
    #[error(
        "no layout of {model} that was tried fits the memory of {gpus} GPUs of {topology}; \
         expected a smaller model (--model) or GPUs with more memory (--topology)"
    )]
    NoLayout {
        /// The model.
        model: String,
        /// The machine.
        topology: String,
        /// The most GPUs that were tried.
        gpus: u32,
    },
    /// An override does not fit the scenario's shape.
    #[error("--set {text}: {problem}")]
    Override {
        /// As it was typed.
        text: String,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// The scenario with its overrides is not of the format.
    #[error("{origin}, at {path}\n    {message}{}", did_you_mean(nearest.as_deref()))]
    Overridden {
        /// The file, and where the overrides come from.
        origin: String,
        /// The place in it.
        path: String,
        /// What is wrong.
        message: String,
        /// The closest valid name.
        nearest: Option<String>,
    },
    /// A scenario that was built as a value cannot be written as JSON.
    #[error("{origin}: cannot write the scenario as JSON: {source}")]
    NoJson {
        /// Where it comes from.
        origin: String,
        /// What JSON cannot hold.
        source: serde_json::Error,
    },
    /// NCCL could not be set up like this.
    #[error(transparent)]
    Nccl(#[from] NcclError),
    /// NCCL could not be set up without what has failed before it begins.
    #[error(
        "NCCL cannot start without what has failed before it begins: {}\n    {why}",
        faults.join(", ")
    )]
    PlannedAround {
        /// What has failed.
        faults: Vec<String>,
        /// What that leaves, and what to do.
        why: String,
    },
    /// An algorithm's file cannot be used.
    #[error("{path}: {problem}")]
    AlgorithmFile {
        /// The file.
        path: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// It would hold more than it may.
    #[error(transparent)]
    Memory(#[from] OverBudget),
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

impl ScenarioError {
    /// The same of a job that is a part of another, at this place of the scenario.
    pub(super) fn below(self, at: &str) -> Self {
        match self {
            ScenarioError::Input(TopologyError::Faults { origin, mut faults }) => {
                for fault in &mut faults {
                    if fault.path.starts_with("job.") {
                        fault.path = format!("{at}.{}", fault.path);
                    }
                }
                TopologyError::Faults { origin, faults }.into()
            }
            other => other,
        }
    }

    /// NCCL found no way around what has failed from the start.
    pub(super) fn planned_around(faults: &Faults, source: &NcclError) -> Self {
        let dead = (0..faults.ranks()).filter(|&rank| faults.failed_at(rank) == Some(Time::ZERO));
        let dead: Vec<String> = dead.take(8).map(|rank| rank.to_string()).collect();
        let why = match (dead.as_slice(), source) {
            ([], NcclError::NoNic { node }) => {
                format!("no network interface of {node} is left to reach other nodes by")
            }
            ([], NcclError::Route(route)) => format!("no way is left: {route}"),
            ([], other) => other.to_string(),
            (ranks, _) => format!(
                "the GPU of rank {} takes part; let it fail later (`at`), or leave it out of the job",
                ranks.join(", ")
            ),
        };
        ScenarioError::PlannedAround {
            faults: faults.told().collect(),
            why,
        }
    }
}

fn folder_holds(results: bool, file: Option<&str>) -> String {
    match (results, file) {
        (true, _) => "it holds the results of a run: `fabricsim compare` reads those".to_owned(),
        (false, Some(file)) => format!("in it is {file}"),
        (false, None) => "`fabricsim scenario list` shows those that are shipped".to_owned(),
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
