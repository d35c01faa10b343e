//! Kernels outside the layers: embedding, output projection, loss, gradients, optimiser.

use super::error::ModelError;
use super::kernel::{
    Kernel, KernelKind, LayerKernels, MicroBatch, Part, Pass, Sharding, Style, checked,
};
use super::layer::Scene;
use super::spec::{ModelSpec, Positions};
use super::work::{Linear, Work};

/// The lookup of tokens. Each GPU of a tensor-parallel group writes all T rows, most of them
/// zero (the table is split by tokens): 2wTh bytes, and wTh more for learned positions. Backward,
/// rows are added to the table's gradient: wTh + 2gTh with g bytes of a gradient.
///
/// # Errors
/// As [`super::layer::layer_kernels`].
pub fn embedding_kernels(
    model: &ModelSpec,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> Result<LayerKernels, ModelError> {
    checked(model, sharding, batch.tokens)?;
    let scene = Scene::new(model, batch, sharding, *style);
    let mut work = Work::new(*style);
    work.part(Part::Embedding);
    let elements = scene.rows * model.hidden as f64;
    let places = match model.positions {
        Positions::Learned => 1.0,
        Positions::Rotary | Positions::Alibi => 0.0,
    };
    let gradient = 2.0 * style.gradient_width as f64;
    work.memory(
        (Pass::Lookup, ["embedding", "embedding_backward"]),
        (2.0 + places) * scene.w * elements,
        (scene.w + gradient * (1.0 + places)) * elements,
    );
    let outer = scene.outer_rows * model.hidden as f64;
    if style.dropout {
        let bytes = (2.0 * scene.w + 1.0) * outer;
        let names = ["embedding_dropout", "embedding_dropout_backward"];
        work.memory((Pass::Other, names), bytes, bytes);
    }
    if model.embedding_norm {
        let names = ["embedding_norm", "embedding_norm_backward"];
        scene.norm(&mut work, names, scene.outer_rows, model.hidden);
    }
    Ok(work.finish().0)
}

/// The norm after the last layer, the output projection and the cross-entropy; the vocabulary is
/// padded and split over `tp`, and rows of logits may be padded beside ([`Style::padded_rows`]).
///
/// Bytes of the cross-entropy for each logit of w bytes: fused, 2w forward (maximum and sum; then
/// the target) and 2w backward. Unfused, as Megatron-LM's vocabulary-parallel one in FP32, w + 36
/// forward (cast w + 4, maximum 4, difference 8, exponential 8, sum 4, quotient 8) and 12 + w
/// backward (scaling 8, cast 4 + w).
///
/// # Errors
/// As [`super::layer::layer_kernels`].
pub fn head_kernels(
    model: &ModelSpec,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> Result<LayerKernels, ModelError> {
    checked(model, sharding, batch.tokens)?;
    let scene = Scene::new(model, batch, sharding, *style);
    let mut work = Work::new(*style);
    work.part(Part::FinalNorm);
    let names = ["final_norm", "final_norm_backward"];
    scene.norm(&mut work, names, scene.outer_rows, model.hidden);
    work.part(Part::Head);
    let vocabulary = model.padded_vocabulary(sharding.tp) / scene.tp;
    let names = ["head", "head_dgrad", "head_wgrad"];
    work.linear(&Linear {
        bias: false,
        output_row: if style.padded_rows {
            vocabulary.next_multiple_of(128)
        } else {
            vocabulary
        },
        ..scene.linear(names, model.hidden, vocabulary)
    });
    work.part(Part::Loss);
    let logits = scene.rows * vocabulary as f64;
    let (forward, backward) = if style.fused_loss {
        (2.0 * scene.w, 2.0 * scene.w)
    } else {
        (scene.w + 36.0, scene.w + 12.0)
    };
    let names = ["cross_entropy", "cross_entropy_backward"];
    work.memory((Pass::Other, names), forward * logits, backward * logits);
    Ok(work.finish().0)
}

/// Bytes of an element of each state of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateWidths {
    /// Weights that layers compute with.
    pub weight: u64,
    /// Gradients as they are kept.
    pub gradient: u64,
    /// The optimiser's own copy of the weights; 0 if it has none.
    pub master: u64,
    /// Both moments of Adam together.
    pub moments: u64,
}

impl StateWidths {
    /// BF16 weights and gradients, FP32 copy and moments: 2 + 2 + 12 bytes a parameter (ZeRO,
    /// arXiv 1910.02054, section 3.1).
    pub const MIXED: StateWidths = StateWidths {
        weight: 2,
        gradient: 2,
        master: 4,
        moments: 8,
    };

    /// [`StateWidths::MIXED`] with gradients summed in FP32, as Megatron-LM does: 18 bytes.
    pub const MIXED_FP32_GRADIENTS: StateWidths = StateWidths {
        gradient: 4,
        ..StateWidths::MIXED
    };

    /// What the optimiser keeps of a parameter.
    #[must_use]
    pub const fn optimiser(&self) -> u64 {
        self.master + self.moments
    }

    /// All that is kept of a parameter.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.weight + self.gradient + self.optimiser()
    }
}

/// A step of Adam over the `parameters` that this GPU updates: first the norm of the gradients
/// (each read once), then one fused pass that reads the gradient, reads and writes copy and
/// moments, and writes the weight. With FP32 gradients 4 + (4 + 24 + 2) = 34 bytes a parameter,
/// with BF16 ones 30.
#[must_use]
pub fn optimiser_kernels(parameters: u64, widths: &StateWidths) -> Vec<Kernel> {
    let step = widths.gradient + 2 * widths.optimiser() + widths.weight;
    vec![
        pass(
            "gradient_norm",
            Part::Optimiser,
            parameters,
            widths.gradient,
        ),
        pass("adam", Part::Optimiser, parameters, step),
    ]
}

/// Adds the gradients of a micro-batch, of `from` bytes each, to their sum of `sum` bytes: one is
/// read, the other read and written. A kernel of its own only if products do not do it.
#[must_use]
pub fn gradient_accumulation(parameters: u64, from: u64, sum: u64) -> Kernel {
    pass(
        "gradient_accumulation",
        Part::Gradients,
        parameters,
        from + 2 * sum,
    )
}

/// Casts gradients from one width to another, such as before or after they are reduced between
/// GPUs: one is read, the other written.
#[must_use]
pub fn gradient_cast(parameters: u64, from: u64, to: u64) -> Kernel {
    pass("gradient_cast", Part::Gradients, parameters, from + to)
}

fn pass(name: &'static str, part: Part, elements: u64, bytes_each: u64) -> Kernel {
    Kernel {
        name,
        part,
        kind: KernelKind::Memory(Pass::Other),
        flops: 0.0,
        bytes: elements as f64 * bytes_each as f64,
    }
}
