//! Why a command failed, and its exit code.

use fabricsim_experiment::ScenarioError;
use fabricsim_lab::LabError;
use fabricsim_lessons::{ExplainError, LessonError};
use fabricsim_report::ReportError;
use fabricsim_topology::{RouteError, TopologyError};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// The scenario, or its simulation.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// What was to be explained.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// A lesson that cannot be made.
    #[error(transparent)]
    Lesson(#[from] LessonError),
    /// The page to play with cannot be served.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// No way between two devices.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Results that cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Arguments that do not make sense together, or name nothing.
    #[error("{0}")]
    Usage(String),
    /// A job that the results say does not end.
    #[error("{what} does not end: {why}\n    its results are in {}", results.display())]
    Found {
        /// Which: the job, or a variant of it.
        what: String,
        /// What it waits for.
        why: String,
        /// The folder of the results.
        results: PathBuf,
    },
    /// A job that the results say cannot be done.
    #[error("{what} fails: {why}{}", written(results.as_deref()))]
    Failed {
        /// Which: the job, or a variant of it.
        what: String,
        /// What there is too little of, or what goes wrong.
        why: String,
        /// The folder of the results, if they were written.
        results: Option<PathBuf>,
    },
    /// An algorithm's file that does not do what it says.
    #[error("{name} does not do its {collective}: {problem}")]
    WrongAlgorithm {
        /// The file's name for it.
        name: String,
        /// What it says it does.
        collective: String,
        /// Where it does not.
        problem: String,
    },
    /// A job that fits into no GPU's memory as it is divided.
    #[error("nothing fits into the memory of its GPUs; the results say what it needs")]
    NothingFits,
    /// A search of which nothing does what is asked.
    #[error("nothing that was searched does what is asked; the answer says why")]
    NoLayout,
    /// A sweep of which no point has results; how many there are.
    #[error("none of the {0} points has results; points.csv says why")]
    NoPointDone(usize),
    /// A validation without one prediction; how many tables were skipped.
    #[error(
        "none of the {0} tables could be predicted; what was skipped and why stands in the output"
    )]
    NothingPredicted(usize),
    /// Claims whose commands failed; how many.
    #[error(
        "{0} claims have no verdict, for a command failed or a figure is not there; the output says why"
    )]
    ClaimsFailed(usize),
    /// Slurm refuses, or tasks of a job array did not end well; all of it, for people.
    #[error("{0}")]
    Slurm(String),
    /// Standard output.
    #[error("cannot write to standard output: {0}")]
    Stdout(#[from] io::Error),
}

impl CliError {
    /// Nobody reads on (`| head`).
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            CliError::Stdout(error) | CliError::Scenario(ScenarioError::Output(error)) => {
                error.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }

    /// 0 if only nobody reads on, 1 if the answer is a failure, 2 for bad usage or input, 3 for
    /// output that cannot be written, and for another program that fails.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            _ if self.is_broken_pipe() => 0,
            CliError::Scenario(ScenarioError::Simulation { .. })
            | CliError::Explain(ExplainError::Simulation(_))
            | CliError::Lesson(LessonError::Scenario(ScenarioError::Simulation { .. }))
            | CliError::Found { .. }
            | CliError::Failed { .. }
            | CliError::WrongAlgorithm { .. }
            | CliError::NothingFits
            | CliError::NoLayout
            | CliError::NoPointDone(_)
            | CliError::NothingPredicted(_)
            | CliError::ClaimsFailed(_) => 1,
            CliError::Report(error) if error.is_usage() => 2,
            CliError::Report(_)
            | CliError::Stdout(_)
            | CliError::Slurm(_)
            | CliError::Scenario(ScenarioError::Output(_)) => 3,
            CliError::Scenario(_)
            | CliError::Explain(_)
            | CliError::Lesson(_)
            | CliError::Topology(_)
            | CliError::Route(_)
            | CliError::Lab(_)
            | CliError::Usage(_) => 2,
        }
    }
}

fn written(results: Option<&Path>) -> String {
    results.map_or_else(String::new, |folder| {
        format!("\n    its results are in {}", folder.display())
    })
}
