//! Training steps.

mod activations;
pub mod bound;
pub mod bucketing;
pub mod buckets;
pub mod checkpoint;
pub mod communicators;
mod compression;
pub mod compute;
#[cfg(test)]
mod compute_tests;
mod costs;
pub mod data_loader;
mod footprint;
mod framework;
mod gradients;
pub mod host;
pub mod host_memory;
mod host_step;
pub mod layer_count;
mod layers;
pub mod lower;
pub mod offload;
mod owned;
pub mod prefetch;
mod recompute;
pub mod relaxed;
pub mod resolve;
mod script;
mod shards;
pub mod spec;
mod step;
pub mod table;
mod ways;
