//! Jobs of any kind at once, each on GPUs of its own: checked, run in one simulation and each by
//! itself, and told as a report's input.

mod lowering;
mod results;
mod run;
mod valid;

pub(crate) use run::{compare, run_concurrent};
pub use valid::ValidConcurrent;
pub(crate) use valid::concurrent;
