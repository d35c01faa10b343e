//! Training steps.

pub mod bound;
pub mod buckets;
pub mod checkpoint;
pub mod communicators;
pub mod compute;
#[cfg(test)]
mod compute_tests;
mod costs;
mod footprint;
mod framework;
mod gradients;
pub mod host;
mod layers;
pub mod lower;
mod owned;
pub mod resolve;
mod script;
mod shards;
pub mod spec;
mod step;
