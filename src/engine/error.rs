//! Why a simulation ended without a result.

use fabricsim_budget::OverBudget;
use fabricsim_units::Time;
use thiserror::Error;

/// Why a simulation ended without a result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// Nothing can happen any more, and workers still wait: what NCCL would do is hang.
    #[error(
        "nothing moves after {}: {waiting} workers wait for ever; the first is channel {channel} of rank {rank}, {why}",
        at.human()
    )]
    Stalled {
        /// When the last event happened.
        at: Time,
        /// How many workers wait.
        waiting: usize,
        /// The first one's rank.
        rank: u32,
        /// Its channel.
        channel: u16,
        /// What it waits for.
        why: String,
    },
    /// It goes on, but later than the clock goes.
    #[error(
        "takes longer than 213 days, to which the clock goes; before that something last happened \
         after {}", at.human()
    )]
    PastTheClock {
        /// When the last event happened that the clock could tell.
        at: Time,
    },
    /// It would hold more than it may.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// Nobody waits for it any more ([`Stop`](fabricsim_budget::Stop)).
    #[error("stopped before it ended")]
    Stopped,
    /// A worker would have more steps than are counted.
    #[error(
        "a channel of rank {rank} takes more than 4 billion steps; expected a smaller size, or larger chunks"
    )]
    TooManySteps {
        /// Whose it is.
        rank: u32,
    },
    /// A plan's tables do not fit its program.
    #[error("the plan is inconsistent: {0}")]
    BadPlan(String),
}
