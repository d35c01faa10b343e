//! Predictions beside published measurements: how true the model is.
//!
//! [`read_measurements`] gives tables, [`predict`] what each of their rows should have been,
//! [`over_groups`] how far off that is, and [`validate`] all of it at once for a report. NCCL's own cost model stands beside it as the
//! baseline.

mod all;
mod claims;
mod coverage;
mod engine_fit;
mod fit;
mod kernel_fit;
mod known;
mod measurement;
mod memory;
mod models;
mod predict;
mod published;
mod serving;
mod step_fit;
mod steps;
mod summary;

pub use all::validate;
pub use claims::{Claim, Claims, Ran, Topic, judge};
pub use coverage::coverage;
pub use engine_fit::{EngineErrors, EngineFitLog, FittedEngine, fit_engines};
pub use fit::{Doubt, FitLog, FitSpec, FittedValue, Parameter, fit, leave_one_out};
pub use kernel_fit::{FittedEntry, KernelFitLog, LeftOut, fit_kernels, kernel_parameters_text};
pub use known::{KindError, KnownErrors, known_error};
pub use measurement::{
    Inferred, MeasuredRow, Measurement, Model, Software, Source, parse_measurements,
    read_measurements,
};
pub use memory::{PublishedMemory, predict_memory};
pub use models::{Modelled, Models};
pub use predict::{Group, Machines, PredictedRow, PredictedSet, Skip, predict};
pub use published::Published;
pub use serving::kernels::{KernelRow, KernelTables};
pub use serving::{KERNEL_PROFILES, Operator, ServingTable, predict_serving, read_serving};
pub use step_fit::{FittedPower, StepFitLog, fit_steps};
pub use steps::{PublishedSteps, predict_steps};
pub use summary::{Band, Pick, baseline, group_errors, over_groups, over_rows, simulated};
