//! Activations that one layer keeps for its backward pass, and what else of a forward pass stays.
//!
//! By tensor, as Korthikanti et al. (arXiv 2205.05198, section 4) count them, for any shape. Per
//! row (a token of a sequence), with w bytes an element, in what tensor parallelism splits (all
//! over tp) and what it does not (over tp with sequence parallelism):
//!
//! | tensor | bytes of a row | split |
//! | --- | --- | --- |
//! | inputs of both norms | 2wh | no |
//! | inputs of the attention and of the MLP | 2oh | no |
//! | masks of two dropouts | 2h | no |
//! | queries, keys, values | w(ad + kd + kv) | yes |
//! | attention's result | wav; in FP8 (w + o)av | yes |
//! | MLP: inputs of activation and of the last matrix | (w + o)f; gated (2w + o)f | yes |
//! | unfused attention: softmax, its dropout's mask and result | as(2w + 1) | yes |
//!
//! Inputs of matrix products are kept as these take them, in o bytes: 1 in FP8 (Transformer Engine saves
//! the cast input), else w. A token's row is kept for each of its experts as their input; what they
//! give back is not, for the router's weights are applied inside them (Megatron-LM's
//! `weighted_bias_swiglu_impl`).
//!
//! For a GPT (f = 4h, o = w = 2, dropout) that is sbh (10 + 24/t + 5as/ht), their equation 2.
//! Flash attention and selective recomputation keep no scores; the log-sums of flash attention
//! are left out. With full recomputation only the layer's input stays, wh; parts of a layer that are computed
//! again keep nothing of their rows above ([`Operation`]).

use super::kernel::{AttentionKernel, MicroBatch, Sharding, Style};
use super::recompute::{Operation, Recompute};
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
    let style = &Style {
        recompute: style.recompute.of_layer(layer),
        ..*style
    };
    if style.recompute == Recompute::Full {
        return whole(rows * w * h, outer);
    }
    let masks = if style.dropout { 2 * h } else { 0 };
    let o = operand(style);
    // Inputs of norms stay, and what norms make of them is the input of both blocks.
    let made = if again(style, Operation::Norms) { 0 } else { o };
    let mut whole_rows = 2 * (w + made) * h + masks;
    let mut split = attention(model, batch, style, sharding, &mut whole_rows);
    match model.experts_of(layer) {
        None => split += mlp(model, model.ffn, style),
        Some(experts) => {
            let (copies, inner) = routed(model, experts, style);
            // Copies of rows go to their experts once more.
            whole_rows += if again(style, Operation::Mlp) {
                0
            } else {
                o * copies
            };
            split += inner;
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
    if again(style, Operation::Attention) {
        return 0;
    }
    let projected = heads * qk + kv_heads * (qk + v) + heads * v;
    let scores = match (style.attention, style.recompute) {
        (AttentionKernel::Unfused, recompute)
            if recompute != Recompute::Selective && !again(style, Operation::CoreAttention) =>
        {
            let each = if style.dropout { 2 * w + 1 } else { w };
            heads * u128::from(batch.tokens) * each
        }
        _ => 0,
    };
    // The last projection's input is the result itself, unless it is cast.
    let cast = if operand(style) < w {
        operand(style) * heads * v
    } else {
        0
    };
    w * projected + cast + scores
}

/// Whether a part of a layer is computed again, and keeps nothing of its own.
fn again(style: &Style, operation: Operation) -> bool {
    matches!(style.recompute, Recompute::Operations(set) if set.has(operation))
}

/// Bytes of an element of a matrix product's input.
fn operand(style: &Style) -> u128 {
    u128::from(style.operand_width.min(style.width))
}

/// Bytes of a row that a dense MLP of inner width `ffn` keeps: inputs of the activation, and of the
/// last matrix.
fn mlp(model: &ModelSpec, ffn: u64, style: &Style) -> u128 {
    if again(style, Operation::Mlp) {
        return 0;
    }
    let inner = u128::from(model.mlp_matrices() - 1) * u128::from(style.width);
    let made = if again(style, Operation::Activation) {
        0
    } else {
        operand(style)
    };
    (inner + made) * u128::from(ffn)
}

/// What experts keep of a row: elements of its copies, one for each of its experts, and bytes
/// inside the split by tensor parallelism.
fn routed(model: &ModelSpec, experts: &ExpertSpec, style: &Style) -> (u128, u128) {
    let copies = u128::from(experts.per_token) * u128::from(model.hidden);
    let one = mlp(model, experts.ffn, style);
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

/// Bytes that the output keeps of one micro-batch beside logits: inputs of the last norm and of the
/// projection, which sequence parallelism gathers.
#[must_use]
pub fn head_activations(
    model: &ModelSpec,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> u64 {
    let rows = rows(batch, sharding);
    let row = u128::from(style.width * model.hidden);
    let outer = outer(sharding);
    let gathered = if outer > 1 { rows * row } else { 0 };
    whole(2 * rows * row, outer).saturating_add(whole(gathered, 1))
}

/// Logits of one micro-batch on one GPU.
#[must_use]
pub fn logits(model: &ModelSpec, batch: MicroBatch, sharding: &Sharding) -> u64 {
    let all = rows(batch, sharding) * u128::from(model.padded_vocabulary(sharding.tp));
    whole(all, sharding.tp.max(1).into())
}

/// Bytes of gradients that are alive at once while a layer goes backward, at most: of the residual
/// stream before and after the layer; of the inputs of its widest part; and with sequence parallelism
/// of that part's input of all tokens, beside that input.
#[must_use]
pub fn layer_gradients(
    model: &ModelSpec,
    layer: u64,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> u64 {
    let rows = rows(batch, sharding);
    let (w, h) = (u128::from(style.width), u128::from(model.hidden));
    let tp = u128::from(sharding.tp.max(1));
    // Gradients have the weights' width, whatever products take.
    let plain = Style {
        operand_width: style.width,
        recompute: Recompute::None,
        ..*style
    };
    let mlp = match model.experts_of(layer) {
        None => mlp(model, model.ffn, &plain),
        Some(experts) => {
            let (copies, inner) = routed(model, experts, &plain);
            // Copies of rows for their experts are not split.
            w * copies * tp + inner
        }
    };
    let heads = u128::from(model.heads);
    let scores = match style.attention {
        AttentionKernel::Unfused => 2 * w * heads * u128::from(batch.tokens),
        AttentionKernel::Flash => w * heads * u128::from(2 * model.qk_dim() + 2 * model.v_dim()),
    };
    let outer = outer(sharding);
    let gathered = if outer > 1 { 2 * w * h } else { 0 };
    whole(
        rows * (2 * w * h * (tp / outer) + gathered * tp + mlp.max(scores)),
        tp,
    )
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
