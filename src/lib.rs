//! fabricsim: a discrete-event simulator of the interconnect of AI clusters.
//!
//! Data flows one way: **spec → plan → simulate → report**. Each room is a module and
//! uses only those before it: [`units`], [`topology`] (the machine), [`collective`]
//! (what moves), [`report`] (results for people).

pub mod collective;
pub mod engine;
pub mod nccl;
pub mod plan;
pub mod report;
pub mod topology;
pub mod units;
