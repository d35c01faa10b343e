//! What a transformer model is, and what it costs.
//!
//! [`spec`] says the shape, [`presets`] those of published models. From the shape follow its
//! [`mod@parameters`] and [`flops`]; from the shape and how it is split, the [`kernel`]s of a
//! [`layer`] and of what is outside the layers ([`ends`]), the [`activations`] that they keep, and
//! the [`memory`] of a GPU. [`layout`] says over how many GPUs a job is spread, [`ranks`] which of
//! them has which part.
//!
//! Nothing here knows of a machine or of time.

pub mod activations;
mod attention;
pub mod checkpoint;
#[cfg(test)]
mod count_tests;
pub mod ends;
pub mod error;
mod experts;
pub mod flops;
pub mod kept;
pub mod kernel;
#[cfg(test)]
mod kernel_tests;
pub mod layer;
pub mod layout;
#[cfg(test)]
mod layout_tests;
pub mod memory;
#[cfg(test)]
mod memory_tests;
pub mod parameters;
pub mod presets;
pub mod ranks;
pub mod recompute;
pub mod spec;
mod transients;
mod work;

pub use activations::{kv_cache_per_token, layer_activations};
pub use checkpoint::{SavedState, saved_state};
pub use ends::{
    StateWidths, embedding_kernels, gradient_accumulation, gradient_cast, head_kernels,
    optimiser_kernels,
};
pub use error::{ModelError, ModelFault};
pub use flops::ScoreCount;
pub use kept::{Keeping, Kept, KeptLayer, groups_in_flight};
pub use kernel::{
    AttentionKernel, GemmShape, Kernel, KernelKind, LayerKernels, MicroBatch, Part, Sharding, Style,
};
pub use layer::layer_kernels;
pub use layout::{Batch, Layout};
pub use memory::{
    Fit, Fragmentation, MemoryBreakdown, MemoryPlan, StageParameters, Zero, peak_memory,
    stage_memory, stage_parameters,
};
pub use parameters::{LayerParameters, Parameters, layer_parameters, parameters};
pub use presets::Preset;
pub use ranks::{Coordinates, Dimension, ExpertCoordinates, Group, RankMap};
pub use recompute::{Operation, Operations, Recompute};
pub use spec::{AttentionKind, ExpertSpec, MlaSpec, ModelSpec, NormKind, Positions, SlidingSpec};
