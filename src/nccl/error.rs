//! Why NCCL could not be set up on a machine.

use fabricsim_budget::OverBudget;
use fabricsim_topology::RouteError;
use thiserror::Error;

/// Why NCCL could not be set up on a machine.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum NcclError {
    /// More GPUs were asked for than some node has, or none.
    #[error("{asked} GPUs per node were asked for, but {node} has {has}")]
    GpusPerNode {
        /// What was asked for.
        asked: u32,
        /// The node's name.
        node: String,
        /// What it has.
        has: usize,
    },
    /// Two hosts have to talk, and one has no network interface.
    #[error(
        "{node} has no network interface that a fabric joins, so its GPUs cannot reach those of other nodes; add `ports` and a fabric to the topology"
    )]
    NoNic {
        /// The node's name.
        node: String,
    },
    /// No way between two devices.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A variable's value makes no sense.
    #[error("{name}={value}: {problem}")]
    Env {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong, and what may stand there.
        problem: String,
    },
    /// More connections than memory holds.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// Nobody waits for the plan any more ([`Stop`](fabricsim_budget::Stop)).
    #[error("stopped before it was planned")]
    Stopped,
    /// What was forced excludes every choice.
    #[error("nothing is left to run {collective} with: {reason}")]
    NothingLeft {
        /// The collective.
        collective: &'static str,
        /// Which restriction excludes what.
        reason: String,
    },
}

impl NcclError {
    /// The same of a variable that stands in a file, at `place` followed by its name.
    #[must_use]
    pub fn in_file(mut self, place: &str) -> Self {
        if let NcclError::Env { name, .. } = &mut self {
            name.insert_str(0, place);
        }
        self
    }
}
