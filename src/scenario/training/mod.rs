//! Training jobs: checked, run, and told as a report's input.

mod answer;
mod disturb;
mod results;
mod run;
mod valid;

pub use run::{JobRun, run_jobs};
pub use valid::{ValidJob, ValidVariant, validate_job};
