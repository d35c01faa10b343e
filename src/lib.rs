//! fabricsim: a discrete-event simulator of the interconnect of AI clusters.
//!
//! Data flows one way: **spec → plan → simulate → report**. Each room is a module and
//! uses only those before it: [`units`], [`topology`] (the machine), [`fault`] (what of it
//! is slow, fails or is away), [`collective`] (what moves), [`plan`] (a program laid onto a
//! machine), [`nccl`] (how NCCL decides), [`workload`] (what jobs compute and send) and
//! [`engine`] (time); [`report`] (results for people) knows only units and [`text`] (how what
//! comes from outside is shown). [`scenario`] joins them all, and [`cli`] is the command.

pub mod budget;
pub mod cli;
pub mod collective;
pub mod engine;
pub mod fault;
pub mod nccl;
pub mod plan;
pub mod report;
pub mod scenario;
pub mod text;
mod threads;
pub mod topology;
pub mod units;
pub mod workload;
