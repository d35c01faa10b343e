//! The attention core: scores, softmax, and the product with the values.
//!
//! With b sequences, q queries and s keys each, a heads of width d (scores) and v (values):
//!
//! - forward operations 2 b q s a (d + v), of which flash attention does half: it skips what a
//!   causal mask hides (FlashAttention-2, arXiv 2307.08691, section 3.1);
//! - flash backward: 2.5 × forward, five products in place of two, one of them the scores again;
//! - flash traffic: queries, keys, values, result once, and 4 bytes of each row's log-sum; the
//!   backward pass reads these and the result's gradient and writes three gradients;
//! - unfused traffic of each of the b a q s scores, w bytes each: softmax with scale and mask 2w
//!   forward, 3w backward; dropout 2w and a mask of 1 byte both ways (Korthikanti et al.,
//!   arXiv 2205.05198, section 4.1, keeps the same tensors).

use super::kernel::{AttentionKernel, GemmShape, KernelKind, Part, Pass, Style};
use super::work::Work;

/// The attention core on one GPU.
pub(super) struct Heads {
    pub(super) sequences: u64,
    pub(super) queries: u64,
    pub(super) keys: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    /// Width of a query and of a key.
    pub(super) qk: u64,
    /// Width of a value.
    pub(super) v: u64,
}

impl Heads {
    /// Elements of queries, keys, values and result.
    fn elements(&self) -> [f64; 4] {
        let rows = self.sequences as f64 * self.queries as f64;
        let key_rows = self.sequences as f64 * self.keys as f64;
        [
            rows * (self.heads * self.qk) as f64,
            key_rows * (self.kv_heads * self.qk) as f64,
            key_rows * (self.kv_heads * self.v) as f64,
            rows * (self.heads * self.v) as f64,
        ]
    }

    /// How many scores there are.
    fn scores(&self) -> f64 {
        (self.sequences * self.heads) as f64 * self.queries as f64 * self.keys as f64
    }
}

/// Writes the attention core.
pub(super) fn attend(shape: &Heads, style: &Style, work: &mut Work) {
    work.part(Part::AttentionCore);
    match style.attention {
        AttentionKernel::Flash => flash(shape, style, work),
        AttentionKernel::Unfused => unfused(shape, style, work),
    }
    work.part(Part::Attention);
}

fn flash(shape: &Heads, style: &Style, work: &mut Work) {
    let flops = shape.scores() * (shape.qk + shape.v) as f64;
    let all: f64 = shape.elements().iter().sum();
    let sums = 4.0 * (shape.sequences * shape.queries * shape.heads) as f64;
    let w = style.width as f64;
    let kind = KernelKind::Attention;
    let forward = work.kernel("flash_attention", kind, flops, w * all + sums);
    // In: all four, the result's gradient, the sums. Out: the three other gradients.
    let bytes = w * 2.0 * all + sums;
    let backward = work.kernel("flash_attention_backward", kind, 2.5 * flops, bytes);
    work.core_step(vec![forward], vec![backward]);
}

fn unfused(shape: &Heads, style: &Style, work: &mut Work) {
    let (w, scores) = (style.width as f64, shape.scores());
    let [queries, keys, values, result] = shape.elements();
    let (q, s) = (shape.queries, shape.keys);
    let batch = shape.sequences * shape.heads;
    // Rows of queries and keys are as wide as a head, rows of scores as long as the keys.
    let gemm = |work: &Work, name, m, n, k, bytes| {
        let flops = 2.0 * batch as f64 * m as f64 * n as f64 * k as f64;
        let width = if m == q && n == s { k } else { n };
        let kind = KernelKind::Gemm(GemmShape {
            m,
            n,
            k,
            batch,
            widths: [s, width],
        });
        work.kernel(name, kind, flops, w * bytes)
    };
    let kind = KernelKind::Memory(Pass::Other);
    let pass = |work: &Work, name, bytes| work.kernel(name, kind, 0.0, bytes * scores);
    let (d, v) = (shape.qk, shape.v);

    let product = gemm(work, "scores", q, s, d, queries + keys + scores);
    let to_queries = gemm(work, "scores_dgrad_q", q, d, s, scores + keys + queries);
    let to_keys = gemm(work, "scores_dgrad_k", s, d, q, scores + queries + keys);
    work.core_step(vec![product], vec![to_queries, to_keys]);
    let softmax = pass(work, "mask_softmax", 2.0 * w);
    let softmax_backward = pass(work, "mask_softmax_backward", 3.0 * w);
    work.core_step(vec![softmax], vec![softmax_backward]);
    if style.dropout {
        let dropout = pass(work, "attention_dropout", 2.0 * w + 1.0);
        let dropout_backward = pass(work, "attention_dropout_backward", 2.0 * w + 1.0);
        work.core_step(vec![dropout], vec![dropout_backward]);
    }
    let product = gemm(work, "context", q, v, s, scores + values + result);
    let to_scores = gemm(work, "context_dgrad_p", q, s, v, result + values + scores);
    let to_values = gemm(work, "context_dgrad_v", s, v, q, scores + result + values);
    work.core_step(vec![product], vec![to_scores, to_values]);
}
