//! The life of communicators: what making them and their first operations take, by parts, and what a node
//! needs of sockets for it.
//!
//! `life.rs` has the closed forms, `need.rs` counts sockets; figures are in
//! `topologies/software/bootstrap.json`.

mod groups;
mod job;
mod life;
mod need;
mod run;
mod spec;
mod valid;

pub(crate) use job::compare;
pub(crate) use run::making_time;
pub use spec::{CommunicatorSpec, FirstSpec, Modules, StoreSpec};
pub use valid::ValidCommunicator;
pub(crate) use valid::communicator;
