//! What a lesson's file says.

use fabricsim_units::Time;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A lesson's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LessonSpec {
    /// What it is about.
    pub(super) title: String,
    /// What it answers.
    pub(super) question: String,
    /// What is drawn, for all scenes and positions.
    pub(super) picture: PictureSpec,
    /// What is set side by side; one, if it is empty.
    #[serde(default)]
    pub(super) scenes: Vec<ChangeSpec>,
    /// What is turned.
    pub(super) knob: KnobSpec,
    /// What to see.
    pub(super) see: Vec<String>,
    /// What the reader is asked.
    pub(super) check: CheckSpec,
}

/// What is drawn.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PictureSpec {
    /// An algorithm on ranks with one port each: what `explain` takes.
    Steps(BTreeMap<String, Value>),
    /// A scenario: of a collective the machine's links, of a job streams.
    Scenario(Value),
    /// A job of which only some streams are shown.
    Streams {
        /// The ranks; all that are recorded, if there is none.
        #[serde(default)]
        ranks: Vec<u32>,
        /// The streams, by name; all, if there is none.
        #[serde(default)]
        only: Vec<String>,
        /// So long from the run's begin; a job's last step, if absent. The curve needs a figure of its own then.
        #[serde(default)]
        first: Option<Time>,
        /// The scenario.
        scenario: Value,
    },
}

/// Values that are changed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeSpec {
    /// A position's label, or a scene's name.
    pub(super) name: String,
    /// Values by their places, or by their short names, as axes of sweeps take them.
    #[serde(default)]
    pub(super) set: BTreeMap<String, Value>,
    /// Of a position: values for single scenes, by the scene's name.
    #[serde(default)]
    pub(super) of: BTreeMap<String, BTreeMap<String, Value>>,
}

/// What is turned.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnobSpec {
    /// What it is.
    pub(super) name: String,
    /// The position that is shown first.
    pub(super) shown: usize,
    /// All positions below each other.
    #[serde(default)]
    pub(super) stacked: bool,
    /// The figure of its curve; how long a scene takes, if absent.
    #[serde(default)]
    pub(super) figure: Option<FigureSpec>,
    /// The positions.
    pub(super) positions: Vec<ChangeSpec>,
}

/// A number of a run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    /// Its name for people.
    pub(super) name: String,
    /// Its key among the metrics of a variant.
    pub(super) key: String,
    /// Its unit; none for a plain number.
    pub(super) unit: String,
    /// What it is multiplied with before it is shown.
    #[serde(default = "one")]
    pub(super) times: f64,
}

const fn one() -> f64 {
    1.0
}

/// What the reader is asked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckSpec {
    /// The question.
    pub(super) question: String,
    /// What answers it.
    pub(super) answer: AnswerSpec,
    /// Why it is so, in words; figures are added.
    pub(super) why: String,
}

/// How an answer follows from what was simulated. Positions are indices.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerSpec {
    /// The position, of those listed, at which the figure of a scene is least.
    LeastOf(Vec<usize>),
    /// … at which it is largest.
    MostOf(Vec<usize>),
    /// The scene with the least figure at a position.
    LeastAt(usize),
    /// The scene with the largest figure at a position.
    MostAt(usize),
    /// A figure: at a position, of a scene (an index).
    FigureAt(usize, usize),
    /// How many times the first figure is the second, each at a position and of a scene.
    Ratio((usize, usize), (usize, usize)),
}
