//! Serving: requests arrive, engines batch them into passes, KV caches travel.
//!
//! A [`fleet`] of engines is a source of tasks for `engine::job`. What an engine computes next is decided by
//! its [`policy`] on the state of its [`scheduler`], whose KV cache is a pool of [`blocks`]; what a pass takes
//! is a [`pass_time::PassCost`].

pub mod blocks;
pub mod engine_shape;
pub mod exchange;
pub mod fleet;
mod layers;
pub mod load;
pub mod memory;
pub mod model_cost;
pub mod pass_time;
pub mod policy;
pub mod record;
pub mod request;
pub mod scheduler;
pub mod spec;
pub mod store;
pub mod trace;
