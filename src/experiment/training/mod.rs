//! Training jobs: checked, run, and told as a report's input.

mod answer;
mod bubble;
mod bucketing;
mod causes;
mod disturb;
mod effect;
mod kernels;
mod lowering;
mod memory;
mod notes;
mod offload;
mod prices;
mod results;
mod run;
mod spans;
mod storage;
mod traced;
mod valid;

pub(crate) use bucketing::choose_gathers;
pub(crate) use disturb::Trouble;
pub(crate) use effect::Counted;
pub use memory::memory;
pub(crate) use run::{answer_of, compare, expect_all};
pub(crate) use spans::Spans;
pub use valid::ValidTraining;
pub(crate) use valid::{resolved, training};
