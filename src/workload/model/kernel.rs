//! Kernels: what one GPU does, as work and traffic of its memory.
//!
//! Nothing here is a time. A matrix product m × k · k × n is 2mnk operations and reads each
//! operand once and writes its result once; what a cache saves or costs beyond that belongs to
//! whoever times it.

use super::error::{ModelError, ModelFault, divisors_near};
use super::flops::Recompute;
use super::spec::ModelSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of a matrix product: `batch` times m × k · k × n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GemmShape {
    /// Rows of the result: tokens, in the forward pass. Rounded up where experts get a fraction.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// The dimension that is summed over.
    pub k: u64,
    /// So many independent products: of heads, or of experts.
    pub batch: u64,
    /// How many values the rows have that lie in memory, of the operands and of the result, with what pads them.
    /// Rows of tokens are as wide as a layer; how many tokens there are is no width.
    pub widths: [u64; 2],
}

/// What bounds a kernel, at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// A matrix product.
    Gemm(GemmShape),
    /// Fused attention (flash): scores stay on the chip.
    Attention,
    /// Everything that reads and writes with little arithmetic.
    Memory(Pass),
}

/// What a pass over memory does, as far as profiles tell such passes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A norm of rows.
    Norm,
    /// Turning queries and keys by their positions.
    Rotary,
    /// An MLP's activation.
    Activation,
    /// The sum with the residual stream.
    Residual,
    /// Rows of the table of tokens.
    Lookup,
    /// Anything else: softmax, dropout, casts, copies, losses, sums of gradients, the optimiser.
    Other,
}

/// The part of a step that a kernel belongs to. Collectives stand between parts: those of tensor
/// parallelism around [`Part::Attention`], [`Part::Mlp`] and [`Part::SharedExperts`], the
/// all-to-alls of expert parallelism around [`Part::Experts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The lookup of tokens.
    Embedding,
    /// Before the attention: the norm, and latent attention's compression.
    AttentionEntry,
    /// Projections, split by tensor parallelism.
    Attention,
    /// Between these: scores, softmax and the product with values.
    AttentionCore,
    /// The sum of the attention's result with the residual stream.
    AttentionExit,
    /// The norm before the MLP or the experts.
    MlpEntry,
    /// The dense MLP, split by tensor parallelism.
    Mlp,
    /// The choice of experts and the sorting of tokens for them.
    Router,
    /// Routed experts, on the tokens that this GPU's experts got.
    Experts,
    /// The weighted sum of what experts gave back.
    Combine,
    /// Experts that every token goes to, split by tensor parallelism.
    SharedExperts,
    /// The sum of the MLP's result with the residual stream.
    MlpExit,
    /// The norm after the last layer.
    FinalNorm,
    /// The output projection.
    Head,
    /// Cross-entropy.
    Loss,
    /// Casts and sums of gradients.
    Gradients,
    /// The step of the optimiser.
    Optimiser,
}

/// One kernel on one GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernel {
    /// What it does.
    pub name: &'static str,
    /// Where it belongs.
    pub part: Part,
    /// What bounds it.
    pub kind: KernelKind,
    /// Floating-point operations; 0 for [`KernelKind::Memory`], which they never bound.
    pub flops: f64,
    /// Traffic of device memory, read and written, in bytes.
    pub bytes: f64,
}

/// How a layer is split over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharding {
    /// Tensor parallelism: heads and inner widths are split.
    pub tp: u32,
    /// Context parallelism: sequences are split.
    pub cp: u32,
    /// Expert parallelism: experts are split (each of them by `tp` as well).
    pub ep: u32,
    /// Whether what tensor parallelism leaves whole is split along the sequence.
    pub sequence_parallel: bool,
}

impl Sharding {
    /// One GPU has all.
    pub const WHOLE: Sharding = Sharding {
        tp: 1,
        cp: 1,
        ep: 1,
        sequence_parallel: false,
    };
}

/// The implementation of attention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKernel {
    /// Fused (FlashAttention-2, arXiv 2307.08691): no scores in memory, the masked half is
    /// skipped, the backward pass computes the scores again (2.5 × the forward operations).
    #[default]
    Flash,
    /// Separate kernels with all scores in memory, as Megatron-LM of 2021 has them.
    Unfused,
}

/// How kernels are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// The implementation of attention.
    pub attention: AttentionKernel,
    /// What is computed again in the backward pass.
    pub recompute: Recompute,
    /// Whether activations are dropped out (GPT-3 and its time; not Llama).
    pub dropout: bool,
    /// Bytes of an element of weights and activations: 2 for BF16.
    pub width: u64,
    /// Bytes of an operand of a linear layer's products: 2 for BF16, 1 for FP8. If less than
    /// `width`, operands are cast first.
    pub operand_width: u64,
    /// Bytes of an element of the gradients that are summed over micro-batches: 4 for FP32.
    pub gradient_width: u64,
    /// Whether weights' gradients are summed by the product itself, which then reads and writes
    /// the sum (Megatron-LM's gradient accumulation fusion). If not, the product writes `width`,
    /// and [`super::ends::gradient_accumulation`] is a kernel of its own.
    pub fused_accumulation: bool,
    /// Whether the cross-entropy is one kernel over the logits.
    pub fused_loss: bool,
    /// Whether rows of logits are padded to a multiple of 128, as Megatron-LM's are: products load them as fast as
    /// others. What is beside the vocabulary is not counted where `tp` divides that: 47 entries of GPT-2's 50,304.
    pub padded_rows: bool,
}

impl Style {
    /// Today's: flash attention, no dropout, BF16, sums of gradients in FP32 by the products.
    pub const MODERN: Style = Style {
        attention: AttentionKernel::Flash,
        recompute: Recompute::None,
        dropout: false,
        width: 2,
        operand_width: 2,
        gradient_width: 4,
        fused_accumulation: true,
        fused_loss: true,
        padded_rows: true,
    };

    /// Megatron-LM of 2021 and 2022 (arXiv 2104.04473, 2205.05198): unfused attention, dropout.
    pub const MEGATRON_2021: Style = Style {
        attention: AttentionKernel::Unfused,
        dropout: true,
        fused_loss: false,
        ..Style::MODERN
    };
}

/// What is put in: so many sequences of such a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroBatch {
    /// Sequences.
    pub sequences: u64,
    /// Tokens of each.
    pub tokens: u64,
}

/// The kernels of one layer for one micro-batch on one GPU, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LayerKernels {
    /// The forward pass.
    pub forward: Vec<Kernel>,
    /// What is computed again, before the backward pass needs it.
    pub recompute: Vec<Kernel>,
    /// The backward pass without that.
    pub backward: Vec<Kernel>,
}

impl LayerKernels {
    /// All that the backward pass runs: first what is computed again.
    pub fn backward_pass(&self) -> impl Iterator<Item = &Kernel> {
        self.recompute.iter().chain(&self.backward)
    }
}

/// Operations of kernels.
#[must_use]
pub fn flops<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> f64 {
    kernels.into_iter().map(|k| k.flops).sum()
}

/// Traffic of kernels, in bytes.
#[must_use]
pub fn bytes<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> f64 {
    kernels.into_iter().map(|k| k.bytes).sum()
}

/// Checks that a model can be split like that: heads, widths, experts, sequence.
pub(super) fn check_sharding(
    model: &ModelSpec,
    sharding: &Sharding,
    tokens: u64,
    faults: &mut Vec<ModelFault>,
) {
    let counts = [
        ("tp", sharding.tp),
        ("cp", sharding.cp),
        ("ep", sharding.ep),
    ];
    let zeros = counts.iter().filter(|&&(_, n)| n == 0);
    let before = faults.len();
    faults.extend(zeros.map(|(field, n)| ModelFault::new(*field, n, "at least 1")));
    if before < faults.len() {
        return;
    }
    let (tp, cp, ep) = (
        u64::from(sharding.tp),
        u64::from(sharding.cp),
        u64::from(sharding.ep),
    );
    let mut divides = |field: &str, value: u64, whole: u64, what: &str| {
        if !whole.is_multiple_of(value) {
            let near = divisors_near(value, whole);
            let expected = format!("a divisor of {what} ({whole}){near}");
            faults.push(ModelFault::new(field, value, expected));
        }
    };
    divides("tp", tp, model.heads, "heads");
    let kv = model.kv_heads();
    // More GPUs than heads keep copies of them.
    if kv.max(tp) % kv.min(tp) != 0 {
        divides("tp", tp, kv, "kv_heads, or a multiple of it");
    }
    divides("tp", tp, model.ffn, "ffn");
    match &model.experts {
        Some(experts) => {
            divides("tp", tp, experts.ffn, "experts.ffn");
            divides("ep", ep, experts.count, "experts.count");
        }
        None => divides("ep", ep, 1, "one, for the model has no experts"),
    }
    // The causal mask's work is evened out by giving each GPU a piece of both ends.
    let pieces = if cp == 1 { 1 } else { 2 * cp };
    if !tokens.is_multiple_of(pieces) {
        divides("cp", cp, tokens / 2, "half the sequence");
    } else if sharding.sequence_parallel && !(tokens / cp).is_multiple_of(tp) {
        divides(
            "tp",
            tp,
            tokens / cp,
            "the sequence on one GPU, which sequence_parallel splits",
        );
    }
}

/// As [`check_sharding`], as an error.
pub(super) fn checked(
    model: &ModelSpec,
    sharding: &Sharding,
    tokens: u64,
) -> Result<(), ModelError> {
    let mut faults = Vec::new();
    check_sharding(model, sharding, tokens, &mut faults);
    ModelError::unless_empty(faults)
}
