//! What can be wrong with a lesson.

use super::ExplainError;
use fabricsim_experiment::ScenarioError;
use fabricsim_report::lesson::NotShown;
use thiserror::Error;

/// Why there is no lesson.
#[derive(Debug, Error)]
pub enum LessonError {
    /// Its file is not of the format.
    #[error("lesson `{name}`: {source}")]
    File {
        /// The lesson.
        name: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// An algorithm's fields are not of the format; a bug.
    #[error("the picture of steps: {0}")]
    Steps(serde_json::Error),
    /// An algorithm that is not known.
    #[error("there is no algorithm `{0}`")]
    Algorithm(String),
    /// An algorithm that NCCL does not have.
    #[error(
        "{0} is none of NCCL's algorithms; on a machine expected one that is, or none for NCCL's choice"
    )]
    NotOfNccl(&'static str),
    /// A picture of a part of the run, and a curve of how long it takes.
    #[error("`first` shows a part of the run: `knob.figure` has to say what the curve is of")]
    PartWithoutFigure,
    /// A number that a run does not have; a bug.
    #[error("its runs have no metric `{0}`")]
    Metric(String),
    /// A check about what is not there; a bug.
    #[error("its check asks for position {position}, scene {scene}, which has no figure")]
    NoFigure {
        /// The position.
        position: usize,
        /// The scene.
        scene: usize,
    },
    /// Two answers are equally right; a bug.
    #[error("its check has more than one answer")]
    NoAnswer,
    /// A rank or a stream is not there.
    #[error(transparent)]
    NotShown(#[from] NotShown),
    /// Nothing was recorded; a bug.
    #[error("nothing of its run was recorded")]
    NothingRan,
    /// An algorithm cannot be shown.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// A scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}
