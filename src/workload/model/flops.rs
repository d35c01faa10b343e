//! Floating-point operations of training and inference, and how well hardware is used.
//!
//! A multiply and an add are two operations. Three counts are in use, and papers differ in
//! which they report:
//!
//! - [`six_n`]: 6 for each parameter and token (Kaplan et al., arXiv 2001.08361), without
//!   attention scores;
//! - [`palm_per_token`]: that and the scores (PaLM, arXiv 2204.02311, appendix B); what
//!   llm-foundry and MegaScale report their MFU with;
//! - [`narayanan_iteration`]: the matrix products of a GPT layer by layer, and the output
//!   projection (Narayanan et al., arXiv 2104.04473, appendix).
//!
//! [`model_flops_per_token`] is this program's own: it counts the matrix products of any
//! [`ModelSpec`] and equals Narayanan's for a GPT.

use super::parameters::parameters;
pub use super::recompute::Recompute;
use super::spec::ModelSpec;

/// How much of the square of attention scores is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScoreCount {
    /// Each token with each: what PaLM, Narayanan and llm-foundry count, though half of it is
    /// masked.
    #[default]
    Full,
    /// Half of that: what a causal mask leaves.
    Causal,
}

impl ScoreCount {
    /// The counted share.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            ScoreCount::Full => 1.0,
            ScoreCount::Causal => 0.5,
        }
    }
}

/// 6 operations for each of `parameters` and each of `tokens`: forward 2, backward 4. Of a mixture of experts
/// those that a token meets count.
#[must_use]
pub fn six_n(parameters: u64, tokens: f64) -> f64 {
    6.0 * parameters as f64 * tokens
}

/// Training operations of one token: 6 for each of `parameters`, and 12 layers × heads ×
/// head width × sequence for scores (PaLM, arXiv 2204.02311, appendix B).
#[must_use]
pub fn palm_per_token(
    model: &ModelSpec,
    parameters: u64,
    sequence: u64,
    scores: ScoreCount,
) -> f64 {
    six_n(parameters, 1.0) + 3.0 * scores_per_token(model, sequence, scores)
}

/// Operations of scores and of their product with the values, forward, of one token in all
/// layers: 2 layers × heads × (query width + value width) × sequence.
#[must_use]
pub fn scores_per_token(model: &ModelSpec, sequence: u64, scores: ScoreCount) -> f64 {
    let widths = (model.qk_dim() + model.v_dim()) as f64;
    let of_layer = 2.0 * model.heads as f64 * widths * sequence as f64;
    model.layers as f64 * of_layer * scores.share()
}

/// Operations of one iteration of a GPT by Narayanan's formula (arXiv 2104.04473, appendix):
/// 72 B s l h² (1 + s / 6h + V / 12 l h), and with full recomputation, which repeats the
/// layers but not the output projection, 96 B s l h² (1 + s / 6h + V / 16 l h).
#[must_use]
pub fn narayanan_iteration(model: &ModelSpec, batch: u64, sequence: u64, recompute: bool) -> f64 {
    let (h, s) = (model.hidden as f64, sequence as f64);
    let (l, v) = (model.layers as f64, model.vocabulary as f64);
    let (factor, head) = if recompute {
        (96.0, 16.0)
    } else {
        (72.0, 12.0)
    };
    factor * batch as f64 * s * l * h * h * (1.0 + s / (6.0 * h) + v / (head * l * h))
}

/// Days of a training with full recomputation: 8 tokens × parameters / (GPUs × rate)
/// (Narayanan et al., arXiv 2104.04473, equation 4). `rate` is operations per second of a GPU.
#[must_use]
pub fn training_days(parameters: f64, tokens: f64, gpus: u64, rate: f64) -> f64 {
    8.0 * tokens * parameters / (gpus as f64 * rate) / 86_400.0
}

/// Forward operations of one token: 2 for each weight that it is multiplied with (active
/// experts, router and output projection, tied or not; no lookup, norms or biases), and those
/// of its scores.
#[must_use]
pub fn forward_flops_per_token(model: &ModelSpec, sequence: u64, scores: ScoreCount) -> f64 {
    let unbiased = ModelSpec {
        biases: false,
        ..model.clone()
    };
    let layers = parameters(&unbiased).layers;
    // A router's bias is one addition for each expert: too few to be taken out.
    let weights = layers.active() - layers.norms + model.vocabulary * model.hidden;
    2.0 * weights as f64 + scores_per_token(model, sequence, scores)
}

/// Operations of training on one token without what is computed again: three times the forward
/// pass. What [`model_flops_utilisation`] is to be given in this program.
#[must_use]
pub fn model_flops_per_token(model: &ModelSpec, sequence: u64, scores: ScoreCount) -> f64 {
    3.0 * forward_flops_per_token(model, sequence, scores)
}

/// [`model_flops_per_token`] of all tokens of a step: `batch` sequences.
#[must_use]
pub fn model_flops_per_step(
    model: &ModelSpec,
    batch: u64,
    sequence: u64,
    scores: ScoreCount,
) -> f64 {
    batch as f64 * sequence as f64 * model_flops_per_token(model, sequence, scores)
}

/// Operations of a step that the hardware does: [`model_flops_per_step`] and the forward parts
/// that are computed again. The output projection never is.
#[must_use]
pub fn hardware_flops_per_step(
    model: &ModelSpec,
    batch: u64,
    sequence: u64,
    scores: ScoreCount,
    recompute: Recompute,
) -> f64 {
    let again = recompute.flops_per_token(model, sequence, scores);
    let tokens = batch as f64 * sequence as f64;
    model_flops_per_step(model, batch, sequence, scores) + tokens * again
}

/// Model FLOPs utilisation, a fraction: operations of a step without recomputation, over what
/// `gpus` GPUs of `peak` operations per second could do in its `seconds`.
#[must_use]
pub fn model_flops_utilisation(model_flops: f64, seconds: f64, gpus: u64, peak: f64) -> f64 {
    model_flops / (seconds * gpus as f64 * peak)
}

/// Hardware FLOPs utilisation, a fraction: as [`model_flops_utilisation`], of
/// [`hardware_flops_per_step`].
#[must_use]
pub fn hardware_flops_utilisation(hardware_flops: f64, seconds: f64, gpus: u64, peak: f64) -> f64 {
    model_flops_utilisation(hardware_flops, seconds, gpus, peak)
}
