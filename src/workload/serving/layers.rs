//! The kernels of a layer, and of both ends of the model, on a GPU of an engine.

use super::engine_shape::EngineShape;
use crate::kernel::{DataType, ExpertLoad, Gemm, Kernel, KernelLaw, Moe, Routing, Small};
use crate::model::{AttentionKind, ExpertSpec};
use fabricsim_units::Time;

/// The time of all of a pass but attention, for a number of tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dense {
    pub(super) time: Time,
    pub(super) operations: f64,
    pub(super) bytes: f64,
}

/// Kernels one after the other.
pub(super) struct Sum<'a> {
    pub(super) law: &'a KernelLaw<'static>,
    pub(super) shape: &'a EngineShape,
    pub(super) seconds: Time,
    pub(super) operations: f64,
    pub(super) bytes: f64,
}

impl Sum<'_> {
    pub(super) fn clear(&mut self) {
        (self.seconds, self.operations, self.bytes) = (Time::ZERO, 0.0, 0.0);
    }

    pub(super) fn scaled(&self, factor: f64) -> Dense {
        let picos = self.seconds.picos() as f64 * factor;
        Dense {
            time: Time::from_picos(picos.round() as u64),
            operations: self.operations * factor,
            bytes: self.bytes * factor,
        }
    }

    /// A product of `m` rows with weights of `n` columns.
    pub(super) fn product(&mut self, (m, n, k): (u64, u64, u64), weights: DataType) {
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        let activations = match weights {
            DataType::Mxfp4 | DataType::Int4 => DataType::Bf16,
            other => other,
        };
        let kernel = Kernel::Gemm(Gemm {
            m,
            n,
            k,
            weights,
            activations,
            quantise: false,
        });
        self.seconds += self.shape.taken(self.law, &kernel);
        self.operations += 2.0 * m as f64 * n as f64 * k as f64;
        self.bytes += n as f64 * k as f64 * weights.bytes();
    }

    pub(super) fn small(&mut self, small: Small) {
        if small.rows > 0 && small.row > 0 {
            self.seconds += self.shape.taken(self.law, &Kernel::Small(small));
        }
    }
}

/// What stands around attention in a layer.
pub(super) fn projections(shape: &EngineShape, tokens: u64, sum: &mut Sum<'_>) {
    let model = &shape.model;
    let heads = (model.heads / shape.tp).max(1);
    let format = shape.attention;
    sum.small(Small::norm(tokens, model.hidden));
    match model.attention {
        AttentionKind::MultiHead => {
            let kv_heads = (model.kv_heads() / shape.tp).max(1);
            let columns = heads * model.qk_dim() + kv_heads * (model.qk_dim() + model.v_dim());
            sum.product((tokens, columns, model.hidden), format);
            sum.small(Small::rope(tokens, heads + kv_heads, model.qk_dim()));
        }
        AttentionKind::Mla(mla) => {
            let entry = mla.q_lora.unwrap_or(0) + mla.kv_lora + mla.rope_dim;
            sum.product((tokens, entry, model.hidden), format);
            let from = mla.q_lora.unwrap_or(model.hidden);
            sum.product(
                (tokens, heads * (mla.nope_dim + mla.rope_dim), from),
                format,
            );
            // Queries into the latent space, and what attention gives out of it: a product for each head.
            sum.product((tokens, heads * mla.kv_lora, mla.nope_dim), DataType::Bf16);
            sum.product((tokens, heads * mla.v_dim, mla.kv_lora), DataType::Bf16);
            sum.small(Small::rope(tokens, heads + 1, mla.rope_dim));
        }
    }
    sum.product((tokens, model.hidden, heads * model.v_dim()), format);
    sum.small(Small::norm(tokens, model.hidden));
}

/// A dense MLP.
pub(super) fn mlp(
    shape: &EngineShape,
    width: u64,
    tokens: u64,
    format: DataType,
    sum: &mut Sum<'_>,
) {
    let model = &shape.model;
    let width = (width / shape.tp).max(1);
    let first = if model.gated { 2 * width } else { width };
    sum.product((tokens, first, model.hidden), format);
    sum.small(Small::activation(tokens, width));
    sum.product((tokens, model.hidden, width), format);
}

/// A layer's experts: those of one GPU get their tokens of all parts, if they are spread over GPUs.
pub(super) fn mixture(
    shape: &EngineShape,
    experts: &ExpertSpec,
    (tokens, all): (u64, u64),
    sum: &mut Sum<'_>,
) {
    let model = &shape.model;
    sum.product((tokens, experts.count, model.hidden), DataType::Bf16);
    if experts.shared > 0 {
        mlp(
            shape,
            experts.shared * experts.ffn,
            tokens,
            shape.weights,
            sum,
        );
    }
    let (local, width) = match shape.ep {
        1 => (experts.count, (experts.ffn / shape.tp).max(1)),
        ep => (experts.count.div_ceil(ep), experts.ffn),
    };
    let load = ExpertLoad::of(&Routing {
        tokens: all,
        experts: experts.count,
        local,
        top_k: experts.per_token,
        skew: shape.skew,
    });
    let (rows, read) = (load.tokens(), load.experts());
    let activations = match shape.experts {
        // Tensor cores that have FP4 multiply it with FP8.
        DataType::Mxfp4 if sum.law.has_fp4() => DataType::Fp8,
        DataType::Mxfp4 | DataType::Int4 => DataType::Bf16,
        other => other,
    };
    if rows > 0.0 {
        let kernel = Kernel::Moe(Moe {
            load,
            hidden: model.hidden,
            inter: width,
            weights: shape.experts,
            activations,
        });
        sum.seconds += shape.taken(sum.law, &kernel);
    }
    let matrix = model.hidden as f64 * width as f64;
    sum.operations += 2.0 * 3.0 * rows * matrix;
    sum.bytes += 3.0 * read * matrix * shape.experts.bytes();
}

/// Entries of the vocabulary on a GPU. Engines round up so that rows of logits can be read 16 bytes at a time: vLLM and
/// SGLang to a multiple of 64 (`DEFAULT_VOCAB_PADDING_SIZE`, from memory), of which other vocabularies are one already.
fn vocabulary(entries: u64, tp: u64) -> u64 {
    let whole = match entries.is_multiple_of(tp * DataType::Bf16.in_a_piece()) {
        true => entries,
        false => entries.next_multiple_of(tp * 64),
    };
    (whole / tp).max(1)
}

/// Before the first layer and behind the last.
pub(super) fn ends(shape: &EngineShape, tokens: u64, logits: u64, sum: &mut Sum<'_>) {
    let model = &shape.model;
    sum.small(Small::embedding(tokens, model.hidden));
    sum.small(Small::norm(logits, model.hidden));
    let columns = vocabulary(model.vocabulary, shape.tp);
    sum.product((logits, columns, model.hidden), DataType::Bf16);
    sum.small(Small::sampling(logits, model.vocabulary));
}
