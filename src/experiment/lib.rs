//! The experiment: a scenario's file, checked, run, and told as a report's input.
//!
//! [`read()`] or [`parse`] gives a [`Scenario`], [`validate`] a [`ValidSpec`] with its
//! machine, [`run()`] the results. Only reading touches files.

mod bound_words;
mod disturb;
mod error;
mod footprint;
mod planning;
mod prices;
mod read;
mod refusal;
mod run;
mod spec;
pub mod timing;
pub mod training;
mod valid;

pub use error::ScenarioError;
pub use fabricsim_fault::FaultSpec;
pub use fabricsim_fault::goodput::LongRunSpec;
pub use read::{Scenario, parse, read};
pub use run::{Silent, Step, Watch, run};
pub use spec::{
    CollectiveSpec, EnvValue, JobSpec, ScenarioSpec, SizesSpec, TopologyRef, VariantSpec,
    scenario_schema,
};
pub use valid::{ValidSpec, validate};

#[cfg(test)]
mod tests;
