//! What an engine has in the memory of a GPU, and how much it leaves for keys and values.
//!
//! vLLM measures the peak of a pass of `max_num_batched_tokens` tokens without a KV cache, and gives the cache what
//! is left of its share of the memory (`gpu_worker.py`, `determine_available_memory`). The same sum is made here.

use super::engine_shape::EngineShape;
use super::scheduler::Limits;
use crate::model::{layer_parameters, parameters};
use fabricsim_units::Bytes;

/// The memory of the fullest GPU of an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineMemory {
    /// What the engine takes in all: its share of the GPU's.
    pub share: Bytes,
    /// Weights.
    pub weights: Bytes,
    /// Activations of the largest pass.
    pub activations: Bytes,
    /// The driver, CUDA's context, communicators' buffers.
    pub other: Bytes,
}

impl EngineMemory {
    /// What is left for keys and values; `None` if the rest does not fit, even without any.
    #[must_use]
    pub fn kv(&self) -> Option<Bytes> {
        let taken = self.weights.get() + self.activations.get() + self.other.get();
        let left = self.share.get().checked_sub(taken)?;
        Some(Bytes::new(left))
    }
}

/// The memory of an engine whose GPUs have so much; `other` is what no tensor is in.
#[must_use]
pub fn engine_memory(
    shape: &EngineShape,
    limits: &Limits,
    (gpu, memory_share): (Bytes, f64),
    other: Bytes,
) -> EngineMemory {
    EngineMemory {
        share: Bytes::new((gpu.get() as f64 * memory_share) as u64),
        weights: weights(shape),
        activations: activations(shape, limits),
        other,
    }
}

/// Weights on the GPU with the most of them: a stage with an end of the model and its share of the layers.
#[must_use]
pub fn weights(shape: &EngineShape) -> Bytes {
    let model = &shape.model;
    let tp = shape.tp as f64;
    let spread = match shape.ep {
        1 => tp,
        ep => ep as f64,
    };
    let mut sum = 0.0;
    // The first layers may have no experts: the last ones are on the fullest stage.
    let first = model.layers - model.layers.div_ceil(shape.pp);
    for layer in first..model.layers {
        let of = layer_parameters(model, layer);
        sum += of.attention as f64 * shape.attention.bytes() / tp;
        sum += (of.mlp + of.shared_experts) as f64 * shape.weights.bytes() / tp;
        sum += of.experts as f64 * shape.experts.bytes() / spread;
        sum += (of.router + of.norms) as f64 * 2.0;
    }
    let ends = parameters(model);
    // 16 bits, split by vocabulary.
    let ends = match shape.pp {
        1 => ends.embedding + ends.head,
        _ => ends.embedding.max(ends.head),
    };
    sum += ends as f64 * 2.0 / tp;
    Bytes::new(sum.ceil() as u64)
}

/// Tensors of the largest pass at its peak: the residual stream with what an MLP widens it to, twice where it has a
/// gate, and the logits of all requests in 32 bits, of which sampling keeps two copies.
fn activations(shape: &EngineShape, limits: &Limits) -> Bytes {
    let model = &shape.model;
    let width = match &model.experts {
        None => model.ffn / shape.tp,
        // Each token is copied to its experts.
        Some(experts) => experts.ffn * experts.per_token / if shape.ep == 1 { shape.tp } else { 1 },
    };
    let wide = if model.gated { 3 * width } else { 2 * width };
    let tokens = u64::from(limits.token_budget);
    let of_tokens = tokens.saturating_mul(2 * (3 * model.hidden + wide));
    let logits = u64::from(limits.max_sequences).saturating_mul(2 * 4 * model.vocabulary);
    Bytes::new(of_tokens.saturating_add(logits))
}
