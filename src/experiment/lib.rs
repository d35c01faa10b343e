//! The experiment: a scenario's file, checked, run, and told as a report's input; the same for every
//! kind of job.
//!
//! [`read()`] or [`parse`] gives a [`Scenario`], [`validate`] a [`ValidExperiment`] with its
//! machines, [`run()`] the [`Results`](fabricsim_report::Results). Only reading touches files.
//! [`catalogue`] has the shipped scenarios.

mod allocation;
pub mod best_of_each;
pub mod bill;
mod by_time;
mod calls;
pub mod catalogue;
mod collective;
mod communicator;
pub mod compare;
mod concurrent;
mod draft;
pub mod earlier;
mod error;
mod factors;
mod fallback;
mod footprint;
mod job;
mod movement;
pub mod optimize;
mod prices;
mod read;
mod refusal;
mod run;
mod serving;
mod site;
mod spec;
mod storage;
pub mod sweep;
mod tariff;
mod training;
mod uplinks;
mod valid;
mod watch;

pub use allocation::{AllocationSpec, Distribution};
pub use calls::{
    CallSpec, CallsSpec, MessageSpec, Mistake, MonitoredSpec, OperationSpec, RankCallsSpec,
    RegisterSpec, StreamsSpec, ValidCalls, mistake, mistakes,
};
pub use collective::{ValidCollective, coverage, timing};
pub use communicator::{CommunicatorSpec, FirstSpec, Modules, StoreSpec, ValidCommunicator};
pub use concurrent::ValidConcurrent;
pub use draft::{Draft, draft_collective, draft_training};
pub use error::ScenarioError;
pub use fabricsim_fault::goodput::LongRunSpec;
pub use fabricsim_fault::{Because, FallTo, FaultSpec};
pub use read::{Scenario, changed, parse, read};
pub use run::run;
/// What joins the GPUs of engines that serve.
pub mod links {
    pub use crate::serving::{between, exchange_links, narrowest, shared_rate};
}
pub use serving::{ValidPool, ValidServing};
pub use site::{Machines, machine_of};
pub use spec::{
    CollectiveSpec, ConcurrentSpec, EnvValue, HostSpec, JobSpec, ScenarioSpec, SizesSpec,
    TopologyRef, VariantSpec, scenario_schema,
};
pub use tariff::{Tariff, not_a_pue};
pub use training::{ValidTraining, memory};
pub use valid::{ValidExperiment, ValidJob, ValidVariant, validate, validate_on};
pub use watch::{Silent, Watch};

#[cfg(test)]
mod tests;
