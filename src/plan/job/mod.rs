//! A job laid onto a machine: what each rank does, task by task on its streams, and which
//! communications it meets others in.
//!
//! Tasks come from a [`TaskSource`]: written beforehand, or decided while time passes. Ranks that
//! do the same as was written beforehand have one [`Script`]; ranks that nothing tells apart are one
//! [`Actor`]. A communicator (or all that are alike) is a [`Group`] of actors; each of its
//! operations is an [`Exchange`], which holds the plan of one collective.

mod beside;
mod communicator;
mod disturbed;
mod source;
mod stream;
mod task;
mod together;
mod transfer;

pub use beside::JobPart;
pub use communicator::{Actor, Exchange, Group, GroupRole, HowMoved, Movement, TwinLinks};
pub use disturbed::{JobDisturbances, Undisturbed};
pub use source::{Batch, Ended, Scripted, TaskSource, TimerId};
pub use stream::StreamRole;
pub use task::{BucketId, Kernels, PeakShare, Script, Tag, Task, TaskKind, Work};
pub use together::Together;
pub use transfer::{TransferRoute, TransferRouteId};

/// A job with all that its execution needs.
#[derive(Clone, Default)]
pub struct Job {
    /// What the streams of a GPU are for, in order of their number: 1 to 64.
    pub streams: Vec<StreamRole>,
    /// Names of tasks.
    pub names: Vec<String>,
    /// What ranks do.
    pub scripts: Vec<Script>,
    /// Who does it.
    pub actors: Vec<Actor>,
    /// Who communicates with whom.
    pub groups: Vec<Group>,
    /// What is communicated.
    pub exchanges: Vec<Exchange>,
    /// The ways that transfers take.
    pub transfer_routes: Vec<TransferRoute>,
}

/// A stream of a GPU, an index into [`Job::streams`]. Stream 0 is the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u8);

/// A task of a script, an index into [`Script::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// An actor, an index into [`Job::actors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub u32);

/// A group, an index into [`Job::groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// An exchange, an index into [`Job::exchanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u32);
