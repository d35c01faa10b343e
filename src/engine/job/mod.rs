//! Time of a job: tasks on streams, which meet in communications.
//!
//! A communication is first simulated alone, slice by slice ([`rehearse`]). In the job it takes
//! that time once its last rank has come; where several move bytes over the same links at once,
//! each goes on at the share of its speed that max–min sharing of those links leaves it, just as
//! transfers do in the simulation of one collective ([`super::sharing`]); the time in which it
//! moves none goes by as if it were alone. Transfers outside of communicators share the same links,
//! each as one transfer. Kernels slow down while communications hold SMs of
//! their GPU. Actors of one rank are processes that take turns on its GPU.
//!
//! What it leaves out: ranks that come early begin nothing alone; HBM is not shared between
//! communication and kernels.

mod contention;
mod ledger;
mod outline;
mod rehearse;
mod run;
#[cfg(test)]
mod source_tests;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;
#[cfg(test)]
mod turns_tests;

pub use ledger::{ByKind, Ledger};
pub use outline::task_footprint;
pub use rehearse::{Busiest, Load, Rehearsals, Rehearsed, load_footprint, rehearse};
pub use run::{JobOptions, run_job, run_source};
pub use state::script_footprint;

use super::error::SimError;
use fabricsim_budget::OverBudget;
use fabricsim_plan::job::{ActorId, ExchangeId, GroupId, Task, TaskId, TransferRouteId};
use fabricsim_units::{Bytes, Time};
use thiserror::Error;

/// Somebody who wants to see each task.
pub trait JobProbe {
    /// A task is done.
    fn task(&mut self, _done: Done, _task: &Task) {}

    /// Whether it is to see bytes move.
    fn sees_bytes(&self) -> bool {
        false
    }

    /// Bytes moved for a while.
    fn moved(&mut self, _moved: Moved) {}
}

/// A part of what an operation or a transfer moves, as it moved: evenly from one time to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// What moved.
    pub what: Flowing,
    /// From.
    pub from: Time,
    /// To.
    pub to: Time,
    /// The part of all of it: those of one operation or transfer add up to 1.
    pub part: f64,
}

/// What moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flowing {
    /// An operation of a communicator.
    Exchange(ExchangeId),
    /// A transfer, and its size.
    Transfer(TransferRouteId, Bytes),
}

/// Nobody looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unseen;

impl JobProbe for Unseen {}

/// A task that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Whose.
    pub actor: ActorId,
    /// Which.
    pub task: TaskId,
    /// When the process had started it, of several kernels the first; it begins no earlier.
    pub issued: Time,
    /// When its turn on the stream came and all that it needs was there.
    pub ready: Time,
    /// When the actor began it; of a communication: when it came there.
    pub came: Time,
    /// When it began; of a communication: when its last rank came.
    pub begun: Time,
    /// When it was done.
    pub ended: Time,
    /// Of a communication: which operation of its communicator it was. All ranks of one have the
    /// same.
    pub meeting: Option<Meeting>,
}

/// An operation of a communicator, as it took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meeting {
    /// The communicator.
    pub group: GroupId,
    /// How many operations of it began before.
    pub number: u32,
}

/// What a job did.
#[derive(Debug, Clone)]
pub struct JobOutcome {
    /// When the last task was done.
    pub end: Time,
    /// When each step of scripts ended, over all actors.
    pub steps: Vec<Time>,
    /// Where each actor's time went.
    pub ledgers: Vec<Ledger>,
    /// Where each actor's time went in the last step: from the end of the step before.
    pub last_step: Vec<Ledger>,
    /// [`JobOutcome::traffic`] of what ended in the last step.
    pub last_traffic: Vec<Vec<Traffic>>,
    /// How often each exchange took place in each group, and how long it took together, from
    /// its last rank's coming: `(group, slot)` in the order of [`fabricsim_plan::job::Group::exchanges`].
    pub traffic: Vec<Vec<Traffic>>,
    /// How many transfers each of [`fabricsim_plan::job::Job::transfer_routes`] had, and how long
    /// they took together.
    pub transfers: Vec<Traffic>,
    /// Events handled.
    pub events: u64,
}

/// What a group's exchange took, or transfers over a route, all times together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How often.
    pub count: u32,
    /// How long.
    pub time: Time,
    /// How long if each had had the links for itself.
    pub alone: Time,
    /// Size, all times together.
    pub bytes: Bytes,
}

impl Traffic {
    /// What has been added to it since it was `before`.
    pub(super) fn since(self, before: Traffic) -> Traffic {
        Traffic {
            count: self.count - before.count,
            time: self.time - before.time,
            alone: self.alone - before.alone,
            bytes: Bytes::new(self.bytes.get() - before.bytes.get()),
        }
    }
}

/// A rank that others wait for, or that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The communicator.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// What its operation is.
    pub exchange: String,
    /// Ranks that have come.
    pub come: Vec<u32>,
    /// Ranks that have not.
    pub missing: Vec<u32>,
}

/// Why a job does not end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobError {
    /// A communication could not be simulated.
    #[error("{exchange}: {source}")]
    Exchange {
        /// Which.
        exchange: String,
        /// Why.
        source: SimError,
    },
    /// Nothing happens any more, as NCCL would hang.
    #[error("the job hangs after {}: {}", at.human(), tell(waiting))]
    Hangs {
        /// Since when.
        at: Time,
        /// Who waits for whom.
        waiting: Vec<Waiting>,
    },
    /// Links that carry a communication are down and do not come back.
    #[error(
        "the job hangs after {}: {exchange} of {group} needs a link that is down and does not \
         come back", at.human()
    )]
    NoPath {
        /// Since when.
        at: Time,
        /// The operation.
        exchange: String,
        /// The communicator.
        group: String,
    },
    /// It would hold more than it may.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// Nobody waits for it any more ([`Stop`](fabricsim_budget::Stop)).
    #[error("stopped before it ended")]
    Stopped,
    /// It goes on, but later than the clock goes.
    #[error(
        "the job takes longer than 213 days, to which the clock goes; before that something last \
         happened after {}", at.human()
    )]
    PastTheClock {
        /// When the last event happened that the clock could tell.
        at: Time,
    },
    /// Ranks waited longer in a communication than they were to.
    #[error("timed out after {} in {}", after.human(), tell(std::slice::from_ref(waiting)))]
    TimedOut {
        /// When.
        at: Time,
        /// The limit.
        after: Time,
        /// Who waited for whom.
        waiting: Waiting,
    },
    /// A source of tasks writes none, though nothing goes on, no timer is set, and it is not
    /// finished.
    #[error(
        "the job stalls after {}: no task is under way, no timer is set, and the source of its \
         tasks is not finished", at.human()
    )]
    Stalls {
        /// Since when.
        at: Time,
    },
    /// A source of tasks writes tasks that take no time, one after the other without end.
    #[error("the job does not get beyond {}: tasks without end take no time there", at.human())]
    NoProgress {
        /// When.
        at: Time,
    },
    /// A source of tasks writes what makes no sense.
    #[error("after {} a source of tasks writes {what}", at.human())]
    Source {
        /// When.
        at: Time,
        /// What.
        what: String,
    },
    /// Ranks of a communicator call different operations.
    #[error("ranks of {group} call different operations: {first} and {other}")]
    Mismatch {
        /// The communicator.
        group: String,
        /// What the first rank called.
        first: String,
        /// What another called.
        other: String,
    },
}

/// A few of who waits for whom.
fn tell(waiting: &[Waiting]) -> String {
    let ranks = |ranks: &[u32]| {
        let shown: Vec<String> = ranks.iter().take(8).map(ToString::to_string).collect();
        let more = ranks.len().saturating_sub(8);
        let list = shown.join(", ");
        if more > 0 {
            format!("{list} and {more} more")
        } else {
            list
        }
    };
    let told = waiting.iter().take(3).map(|w| {
        format!(
            "{} of {}: ranks {} have come, ranks {} have not",
            w.exchange,
            w.name,
            ranks(&w.come),
            ranks(&w.missing)
        )
    });
    told.collect::<Vec<_>>().join("; ")
}
