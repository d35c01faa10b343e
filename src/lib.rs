//! fabricsim: a discrete-event simulator of the interconnect of AI clusters.
//!
//! Data flows one way: **spec → plan → simulate → report**. Each room is a crate and
//! uses only those before it: [`units`], [`topology`] (the machine), [`fault`] (what of it
//! is slow, fails or is away), [`collective`] (what moves), [`plan`] (a program laid onto a
//! machine), [`nccl`] (how NCCL decides), [`workload`] (what jobs compute and send) and
//! [`engine`] (time); [`report`] (results for people) knows only units and [`text`] (how what
//! comes from outside is shown), and [`record`] makes of what the engine tells what a report shows.
//! [`experiment`] joins them all; [`lessons`], [`calibration`] and [`lab`] (a page to play with) stand beside it, and
//! [`cli`] is the command.
//!
//! Begin with [`measure()`], one collective on one machine, and [`Experiment`], a scenario of any job; docs/library.md
//! and the programs in `examples/` show both. The rooms are what these two are made of.
//!
//! ```
//! use fabricsim::{Bytes, Collective, Measure, measure};
//!
//! # fn main() -> Result<(), fabricsim::ScenarioError> {
//! let asked = Measure::new("dgx-h100", Collective::AllReduce, [Bytes::from_mib(16)]);
//! let measured = measure(&asked)?;
//! println!("{}", measured.sizes[0].time.human());
//! # Ok(())
//! # }
//! ```

pub mod cli;
mod face;

pub use fabricsim_budget::{Budget, Memory};
pub use fabricsim_collective::Collective;
pub use fabricsim_experiment::{ScenarioError, ScenarioSpec, TopologyRef};
pub use fabricsim_nccl::Algorithm;
pub use fabricsim_plan::ProtocolKind;
pub use fabricsim_report::Summary;
pub use fabricsim_units::{Bandwidth, Bytes, Time};
pub use face::{Experiment, Measure, MeasuredCollective, MeasuredSize, measure};

pub use fabricsim_budget as budget;
pub use fabricsim_calibration as calibration;
pub use fabricsim_collective as collective;
pub use fabricsim_engine as engine;
pub use fabricsim_experiment as experiment;
pub use fabricsim_fault as fault;
pub use fabricsim_lab as lab;
pub use fabricsim_lessons as lessons;
pub use fabricsim_nccl as nccl;
pub use fabricsim_plan as plan;
pub use fabricsim_record as record;
pub use fabricsim_report as report;
pub use fabricsim_topology as topology;
pub use fabricsim_units as units;
pub use fabricsim_units::text;
pub use fabricsim_workload as workload;
