//! Training jobs: checked, run, and told as a report's input.

mod answer;
mod bubble;
mod causes;
mod disturb;
mod effect;
mod factors;
mod lowering;
mod memory;
mod prices;
mod published;
mod results;
mod run;
mod valid;

pub use memory::memory;
pub use published::{PublishedSteps, predict_steps, read_steps};
pub use run::{JobRun, run_jobs};
pub use valid::{ValidJob, ValidVariant, validate_job};
