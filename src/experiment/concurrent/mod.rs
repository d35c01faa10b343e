//! Jobs of any kind at once, on GPUs of their own or on shared ones: checked, run in one simulation and each by
//! itself, and told as a report's input.

mod isolation;
mod lowering;
mod memory;
mod results;
mod run;
mod series;
mod stream;
mod valid;

pub(crate) use run::compare;
pub use valid::ValidConcurrent;
pub(crate) use valid::ValidPart;
pub(crate) use valid::concurrent;
