//! Time: what a plan takes on a machine.
//!
//! Integer picoseconds; all events of one instant are handled together and their effect
//! does not depend on their order; rates are computed once per instant. The engine knows
//! programs, routes and costs, and nothing of NCCL. Regions of the machine that reach each
//! other only after a latency take turns, each with a clock of its own.
//!
//! What it models: workers that handle one slice at a time, queues with eight slots and
//! credits that take their time, transfers that share links max–min fairly, rates of
//! single workers, proxies that drive networks. Where nobody looks, one worker can stand for
//! all that are alike ([`simulate_folded`]), exactly. What it leaves out: packets (a transfer
//! is a fluid), queueing inside switches, memory bandwidth of GPUs.

mod actor;
mod error;
mod fifo;
mod fold;
mod footprint;
pub mod job;
mod machinery;
mod outcome;
pub mod path;
pub mod probe;
pub mod queue;
pub mod resources;
mod run;
pub mod sharing;

pub use error::SimError;
pub use fifo::FifoId;
pub use footprint::{folded_footprint, full_footprint, plan_footprint};
pub use outcome::{Bins, Folded, Outcome};
pub use run::{
    Options, Watched, simulate, simulate_folded, simulate_folded_with, simulate_with, watch,
};

#[cfg(test)]
mod tests;
