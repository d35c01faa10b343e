//! Activations that one layer keeps for its backward pass, and what else of a forward pass stays.
//!
//! By tensor, as Korthikanti et al. (arXiv 2205.05198, section 4) count them, for any shape. Per
//! row (a token of a sequence), with w bytes an element, in what tensor parallelism splits (all
//! over tp) and what it does not (over tp with sequence parallelism):
//!
//! | tensor | bytes of a row | split |
//! | --- | --- | --- |
//! | inputs of both norms | 2wh | no |
//! | inputs of the attention and of the MLP | 2wh | no |
//! | masks of two dropouts | 2h | no |
//! | queries, keys, values | w(ad + kd + kv) | yes |
//! | attention's result | wav | yes |
//! | MLP: inputs of activation and of the last matrix | 2wf; gated 3wf | yes |
//! | unfused attention: softmax, its dropout's mask and result | as(2w + 1) | yes |
//!
//! For a GPT (f = 4h, w = 2, dropout) that is sbh (10 + 24/t + 5as/ht), their equation 2.
//! Flash attention and selective recomputation keep no scores; the log-sums of flash attention
//! are left out. With full recomputation only the layer's input stays, wh.

use super::flops::Recompute;
use super::kernel::{AttentionKernel, MicroBatch, Sharding, Style};
use super::spec::{AttentionKind, ExpertSpec, ModelSpec};

/// Bytes that layer `layer` keeps of one micro-batch on one GPU. The model is checked, and can be
/// split like that.
#[must_use]
pub fn layer_activations(
    model: &ModelSpec,
    layer: u64,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> u64 {
    let rows = rows(batch, sharding);
    let (w, h) = (u128::from(style.width), u128::from(model.hidden));
    let outer = outer(sharding);
    if style.recompute == Recompute::Full {
        return whole(rows * w * h, outer);
    }
    let masks = if style.dropout { 2 * h } else { 0 };
    let mut whole_rows = 4 * w * h + masks;
    let mut split = attention(model, batch, style, sharding, &mut whole_rows);
    match model.experts_of(layer) {
        None => split += w * mlp(model, model.ffn),
        Some(experts) => {
            let (kept, inner) = routed(model, experts);
            whole_rows += w * kept;
            split += w * inner;
        }
    }
    // One division, so that nothing is rounded twice.
    let tp = u128::from(sharding.tp.max(1));
    whole(rows * (whole_rows * (tp / outer) + split), tp)
}

/// What attention keeps of a row, split by tensor parallelism; what is not is added to `outer`.
fn attention(
    model: &ModelSpec,
    batch: MicroBatch,
    style: &Style,
    sharding: &Sharding,
    outer: &mut u128,
) -> u128 {
    let w = u128::from(style.width);
    let (heads, qk, v) = (
        u128::from(model.heads),
        u128::from(model.qk_dim()),
        u128::from(model.v_dim()),
    );
    let kv_heads = match model.attention {
        AttentionKind::MultiHead => {
            // Fewer heads than GPUs are kept in copies.
            u128::from(model.kv_heads().max(sharding.tp.into()))
        }
        AttentionKind::Mla(mla) => {
            // Compressed rows, before and after their norms.
            let ranks = mla.q_lora.unwrap_or(0) + mla.kv_lora;
            *outer += w * u128::from(2 * ranks + mla.rope_dim);
            heads
        }
    };
    let projected = heads * qk + kv_heads * (qk + v) + heads * v;
    let scores = match (style.attention, style.recompute) {
        (AttentionKernel::Unfused, Recompute::None) => {
            let each = if style.dropout { 2 * w + 1 } else { w };
            heads * u128::from(batch.tokens) * each
        }
        _ => 0,
    };
    w * projected + scores
}

/// Elements of a row that a dense MLP of inner width `ffn` keeps.
fn mlp(model: &ModelSpec, ffn: u64) -> u128 {
    u128::from(model.mlp_matrices()) * u128::from(ffn)
}

/// Elements of a row that experts keep, before and inside the split by tensor parallelism: each
/// row is kept once for each of its experts when it goes in and when it comes out.
fn routed(model: &ModelSpec, experts: &ExpertSpec) -> (u128, u128) {
    let copies = 2 * u128::from(experts.per_token) * u128::from(model.hidden);
    let one = mlp(model, experts.ffn);
    let inner = u128::from(experts.per_token + experts.shared) * one;
    (copies, inner)
}

/// Bytes that the embedding keeps of one micro-batch: its dropout's mask.
#[must_use]
pub fn embedding_activations(
    model: &ModelSpec,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> u64 {
    let mask = if style.dropout { model.hidden } else { 0 };
    whole(rows(batch, sharding) * u128::from(mask), outer(sharding))
}

/// Bytes that the output keeps of one micro-batch: inputs of the last norm and of the projection,
/// and logits of 4 bytes (Korthikanti et al., arXiv 2205.05198, section 4.3: 4sbh/t (1 + v/h)).
#[must_use]
pub fn head_activations(
    model: &ModelSpec,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> u64 {
    let rows = rows(batch, sharding);
    let inputs = 2 * u128::from(style.width * model.hidden);
    let logits = 4 * u128::from(model.padded_vocabulary(sharding.tp));
    whole(rows * inputs, outer(sharding))
        .saturating_add(whole(rows * logits, sharding.tp.max(1).into()))
}

/// Bytes of keys and values that inference keeps of one token, in all layers: 2 layers × heads ×
/// width, or the compressed row and the position's part of latent attention (arXiv 2405.04434,
/// section 2.1.4). `width` is that of an element, in bytes.
#[must_use]
pub fn kv_cache_per_token(model: &ModelSpec, width: u64) -> u64 {
    let row = match model.attention {
        AttentionKind::MultiHead => model.kv_heads() * (model.qk_dim() + model.v_dim()),
        AttentionKind::Mla(mla) => mla.kv_lora + mla.rope_dim,
    };
    model.layers * row * width
}

fn rows(batch: MicroBatch, sharding: &Sharding) -> u128 {
    u128::from(batch.sequences) * u128::from(batch.tokens / u64::from(sharding.cp.max(1)))
}

fn outer(sharding: &Sharding) -> u128 {
    if sharding.sequence_parallel {
        sharding.tp.max(1).into()
    } else {
        1
    }
}

/// A quotient, rounded up; the largest number if it does not fit.
fn whole(bytes: u128, parts: u128) -> u64 {
    u64::try_from(bytes.div_ceil(parts)).unwrap_or(u64::MAX)
}
