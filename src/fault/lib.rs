//! What goes wrong: ranks that are slow, links that fail, and what failures cost a long run.
//!
//! The faults of a scenario ([`FaultSpec`]) are found on a machine ([`Faults::resolve`]); the
//! simulation then asks what is left of a speed or a rate at a time, and how long a delay is.
//! [`goodput`](mod@goodput) is about a long run as a whole, with [`published`] rates of failures.
//!
//! Left out: faults that corrupt data, packets that are lost (a link has a rate or it has none),
//! and jitter that several ranks share.

pub mod distribution;
mod draw;
pub mod effects;
pub mod error;
pub mod goodput;
pub mod published;
pub mod ranks;
mod resolve;
pub mod spec;
#[cfg(test)]
mod tests;
mod window;

pub use distribution::{Amount, Distribution};
pub use effects::{Fall, FaultWindow, Faults, Release, Work};
pub use error::FaultError;
pub use ranks::Ranks;
pub use spec::{Because, FallTo, FaultKind, FaultSpec};
