//! Training jobs: checked, run, and told as a report's input.

mod answer;
mod disturb;
mod published;
mod results;
mod run;
mod valid;

pub use published::{PublishedSteps, predict_steps, read_steps};
pub use run::{JobRun, run_jobs};
pub use valid::{ValidJob, ValidVariant, validate_job};
