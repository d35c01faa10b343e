//! The kernels of one layer on one GPU.
//!
//! With T = sequences × tokens / cp rows in what tensor parallelism splits, and R = T / tp with
//! sequence parallelism (else T) in what it does not, and w bytes an element:
//!
//! | kernel | forward bytes | backward bytes |
//! | --- | --- | --- |
//! | norm over h | 2wRh | 3wRh: gradient and input in, gradient out |
//! | residual sum | 3wRh | 3wRh: two gradients in, their sum out |
//! | … with dropout | and a mask of 1 byte an element | and the mask, and w more to write |
//! | rotary, of c columns | 2wTc | 2wTc |
//! | activation, f columns | 2wTf; gated 3wTf | 3wTf; gated 5wTf |
//!
//! Matrix products are in [`super::kernel`], attention in `attention.rs`, experts in
//! `experts.rs`. All layers normalise before attention and MLP.

use super::attention::{Heads, attend};
use super::error::{ModelError, ModelFault};
use super::experts;
use super::kernel::{LayerKernels, MicroBatch, Part, Pass, Sharding, Style, checked};
use super::recompute::{Operation, Recompute};
use super::spec::{AttentionKind, ModelSpec, Positions};
use super::work::{Linear, Work};

/// Sizes that all kernels of a layer share.
pub(super) struct Scene<'a> {
    pub(super) model: &'a ModelSpec,
    pub(super) style: Style,
    pub(super) tp: u64,
    pub(super) ep: u64,
    /// Rows in what tensor parallelism splits.
    pub(super) rows: f64,
    /// Rows in what it does not.
    pub(super) outer_rows: f64,
    /// Bytes of an element.
    pub(super) w: f64,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        model: &'a ModelSpec,
        batch: MicroBatch,
        sharding: &Sharding,
        style: Style,
    ) -> Self {
        let tp = u64::from(sharding.tp);
        let rows = batch.sequences as f64 * (batch.tokens / u64::from(sharding.cp)) as f64;
        let outer = if sharding.sequence_parallel { tp } else { 1 };
        Scene {
            model,
            style,
            tp,
            ep: u64::from(sharding.ep),
            rows,
            outer_rows: rows / outer as f64,
            w: style.width as f64,
        }
    }

    /// A linear layer over all rows.
    pub(super) fn linear(&self, names: [&'static str; 3], input: u64, output: u64) -> Linear {
        Linear {
            names,
            rows: self.rows,
            input,
            output,
            output_row: output,
            batch: 1,
            bias: self.model.biases,
        }
    }

    pub(super) fn norm(&self, work: &mut Work, names: [&'static str; 2], rows: f64, width: u64) {
        let elements = rows * width as f64;
        let width = self.w;
        work.memory(
            (Pass::Norm, names),
            2.0 * width * elements,
            3.0 * width * elements,
        );
    }

    fn residual(&self, work: &mut Work, names: [&'static str; 2]) {
        let elements = self.outer_rows * self.model.hidden as f64;
        let (mask, dropped) = if self.style.dropout {
            (1.0, 1.0 + self.w)
        } else {
            (0.0, 0.0)
        };
        work.memory(
            (Pass::Residual, names),
            (3.0 * self.w + mask) * elements,
            (3.0 * self.w + dropped) * elements,
        );
    }

    /// The two or three matrices of an MLP and what is between: inner width `ffn` on this GPU.
    pub(super) fn mlp(&self, work: &mut Work, rows: f64, ffn: u64, batch: u64, bias: bool) {
        let gates = self.model.mlp_matrices() - 1;
        let hidden = self.model.hidden;
        let linear = |names, input, output| Linear {
            names,
            rows,
            input,
            output,
            output_row: output,
            batch,
            bias,
        };
        let up = ["mlp_up", "mlp_up_dgrad", "mlp_up_wgrad"];
        work.linear(&linear(up, hidden, gates * ffn));
        let elements = rows * ffn as f64;
        let (forward, backward) = if gates == 2 { (3.0, 5.0) } else { (2.0, 3.0) };
        work.memory(
            (Pass::Activation, ["activation", "activation_backward"]),
            forward * self.w * elements,
            backward * self.w * elements,
        );
        let down = ["mlp_down", "mlp_down_dgrad", "mlp_down_wgrad"];
        work.linear(&linear(down, ffn, hidden));
    }
}

/// The kernels of layer `layer`, counted from 0, for one micro-batch on one GPU.
///
/// Experts are taken to get equal numbers of tokens.
///
/// # Errors
/// [`ModelError::Faults`] if the model has no such layer or cannot be split like that. The model
/// itself has to be checked already.
pub fn layer_kernels(
    model: &ModelSpec,
    layer: u64,
    batch: MicroBatch,
    sharding: &Sharding,
    style: &Style,
) -> Result<LayerKernels, ModelError> {
    checked(model, sharding, batch.tokens)?;
    if model.layers <= layer {
        let last = model.layers - 1;
        let fault = ModelFault::new("layer", layer, format!("at most {last}"));
        return Err(ModelError::Faults {
            faults: vec![fault],
        });
    }
    let scene = Scene::new(model, batch, sharding, *style);
    let mut work = Work::new(*style);
    attention(&scene, &mut work, batch, sharding);
    work.part(Part::MlpEntry);
    let names = ["mlp_norm", "mlp_norm_backward"];
    scene.norm(&mut work, names, scene.outer_rows, model.hidden);
    match model.experts_of(layer) {
        None => {
            work.part(Part::Mlp);
            let ffn = model.ffn / scene.tp;
            scene.mlp(&mut work, scene.rows, ffn, 1, model.biases);
        }
        Some(spec) => experts::write(&scene, &mut work, spec),
    }
    work.part(Part::MlpExit);
    scene.residual(&mut work, ["mlp_residual", "mlp_residual_backward"]);

    let (mut kernels, core) = work.finish();
    kernels.recompute = match (style.recompute.of_layer(layer), style.attention) {
        (Recompute::None, _) => Vec::new(),
        // Flash attention does that inside its backward kernel.
        (Recompute::Selective, super::kernel::AttentionKernel::Flash) => Vec::new(),
        (Recompute::Selective, super::kernel::AttentionKernel::Unfused) => core,
        (Recompute::Operations(set), attention) => {
            let fused = attention == super::kernel::AttentionKernel::Flash;
            let again = kernels.forward.iter().filter(|kernel| {
                // Flash attention alone would do twice what its backward kernel does.
                let core = kernel.part == Part::AttentionCore;
                let alone = core && fused && !set.has(Operation::Attention);
                set.runs_again(kernel) && !alone
            });
            again.copied().collect()
        }
        (Recompute::Full, _) => kernels.forward.clone(),
        (Recompute::Sqrt | Recompute::Every(_), _) => Vec::new(),
    };
    Ok(kernels)
}

fn attention(scene: &Scene<'_>, work: &mut Work, batch: MicroBatch, sharding: &Sharding) {
    let model = scene.model;
    let heads = model.heads / scene.tp;
    let (qk, v) = (model.qk_dim(), model.v_dim());
    work.part(Part::AttentionEntry);
    let names = ["attention_norm", "attention_norm_backward"];
    scene.norm(work, names, scene.outer_rows, model.hidden);
    let (kv_heads, rotated) = match model.attention {
        AttentionKind::MultiHead => {
            let kv_heads = (model.kv_heads() / scene.tp).max(1);
            work.part(Part::Attention);
            let columns = (heads + kv_heads) * qk + kv_heads * v;
            let names = ["qkv", "qkv_dgrad", "qkv_wgrad"];
            work.linear(&scene.linear(names, model.hidden, columns));
            (kv_heads, (heads + kv_heads) * qk)
        }
        AttentionKind::Mla(mla) => {
            let query = match mla.q_lora {
                None => model.hidden,
                Some(rank) => {
                    let names = ["q_down", "q_down_dgrad", "q_down_wgrad"];
                    compress(scene, work, names, rank, rank);
                    rank
                }
            };
            let names = ["kv_down", "kv_down_dgrad", "kv_down_wgrad"];
            compress(scene, work, names, mla.kv_lora + mla.rope_dim, mla.kv_lora);
            work.part(Part::Attention);
            let names = ["q_up", "q_up_dgrad", "q_up_wgrad"];
            work.linear(&scene.linear(names, query, heads * qk));
            let names = ["kv_up", "kv_up_dgrad", "kv_up_wgrad"];
            let columns = heads * (mla.nope_dim + v);
            work.linear(&scene.linear(names, mla.kv_lora, columns));
            (heads, (heads + 1) * mla.rope_dim)
        }
    };
    if model.positions == Positions::Rotary {
        let bytes = 2.0 * scene.w * scene.rows * rotated as f64;
        let names = ["rotary", "rotary_backward"];
        work.memory((Pass::Rotary, names), bytes, bytes);
    }
    let shape = Heads {
        sequences: batch.sequences,
        queries: batch.tokens / u64::from(sharding.cp),
        keys: batch.tokens,
        heads,
        kv_heads,
        qk,
        v,
    };
    attend(&shape, &scene.style, work);
    let names = [
        "attention_out",
        "attention_out_dgrad",
        "attention_out_wgrad",
    ];
    work.linear(&scene.linear(names, heads * v, model.hidden));
    work.part(Part::AttentionExit);
    let names = ["attention_residual", "attention_residual_backward"];
    scene.residual(work, names);
}

/// A compression of latent attention: each GPU does it for its own rows (Megatron-LM keeps the
/// matrix whole on each), before they are gathered; then the norm of `normed` columns.
fn compress(
    scene: &Scene<'_>,
    work: &mut Work,
    names: [&'static str; 3],
    output: u64,
    normed: u64,
) {
    let linear = Linear {
        rows: scene.outer_rows,
        ..scene.linear(names, scene.model.hidden, output)
    };
    work.linear(&linear);
    let names = ["latent_norm", "latent_norm_backward"];
    scene.norm(work, names, scene.outer_rows, normed);
}
