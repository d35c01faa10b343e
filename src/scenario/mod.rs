//! The experiment: from a scenario's file to results for people.

pub mod recorder;
