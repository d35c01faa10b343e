//! What runs on the machine beside single collectives: models, and what they compute and send.
//!
//! A [`model`] has kernels and memory; a [`kernel`] has a time on a GPU; a [`pipeline`] an order of passes; a [`training`] job becomes tasks on the streams of GPUs,
//! with its communications planned as NCCL would ([`exchanges`]), for one rank of each class of
//! those that behave alike ([`classes`]). A [`serving`] job is a fleet of engines that decide what to compute while time passes.

pub mod classes;
pub mod exchanges;
pub mod kernel;
pub mod model;
pub mod pipeline;
pub mod serving;
pub mod training;
