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
mod gradients;
mod layers;
pub mod lower;
mod owned;
pub mod resolve;
mod script;
mod shards;
pub mod spec;
mod step;
