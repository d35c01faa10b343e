//! What engines of one pool are made of.

use crate::kernel::{AttentionFormat, DataType, Kernel, KernelLaw, MlaWidths, Skew};
use crate::model::{AttentionKind, MlaSpec, ModelSpec};
use fabricsim_units::Time;

/// What engines of one pool are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineShape {
    /// The model.
    pub model: ModelSpec,
    /// What weights of linear layers are stored and multiplied in.
    pub weights: DataType,
    /// The same of experts.
    pub experts: DataType,
    /// The same of attention's projections.
    pub attention: DataType,
    /// What keys and values are stored in.
    pub kv: AttentionFormat,
    /// Tensor parallelism.
    pub tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// Parts with attention of their own.
    pub attention_dp: u64,
    /// GPUs over which whole experts are spread; with 1 each is split by `tp`.
    pub ep: u64,
    /// How uneven the choice of experts is.
    pub skew: Skew,
    /// What the host takes for a pass, and for each request of it.
    pub host: (Time, Time),
    /// What starting the kernels of a layer takes the host at least, in passes that are no CUDA graph.
    pub eager: Time,
    /// Whether passes of single tokens are CUDA graphs.
    pub has_graphs: bool,
    /// Passes with prompts are CUDA graphs up to so many tokens.
    pub graph_tokens: u64,
    /// The part that is left of what kernels take whatever their shape.
    pub launch: f64,
    /// Tokens that are checked at once for each request that generates: 1 without speculation.
    pub checked: u64,
    /// What guessing them takes, as a part of the pass.
    pub draft: f64,
}

impl EngineShape {
    /// What a kernel takes in a pass: as in a profile, but for the part of what it takes whatever its shape that
    /// hides behind the kernel before it, or is of kernels that engines fuse with others.
    pub(super) fn taken(&self, law: &KernelLaw<'_>, kernel: &Kernel) -> Time {
        let hidden = law.launch(kernel).picos() as f64 * (1.0 - self.launch);
        let time = law
            .time(kernel)
            .saturating_sub(Time::from_picos(hidden.round() as u64));
        time.max(law.bound(kernel))
    }

    /// Bytes of a token's keys and values in one layer of one GPU.
    #[must_use]
    pub fn kv_row(&self) -> f64 {
        let model = &self.model;
        let elements = match model.attention {
            // Every GPU of tensor parallelism has all of it.
            AttentionKind::Mla(mla) => mla.kv_lora + mla.rope_dim,
            AttentionKind::MultiHead => {
                let kv_heads = (model.kv_heads() / self.tp).max(1);
                kv_heads * (model.qk_dim() + model.v_dim())
            }
        };
        elements as f64 * self.kv.cache_bytes()
    }

    /// Bytes of a token's keys and values on one GPU of the largest stage.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> u64 {
        // What lies behind a window is given back.
        let layers = self.model.full_layers(self.model.layers.div_ceil(self.pp));
        (self.kv_row() * layers as f64).ceil() as u64
    }
}

pub(super) fn mla_widths(mla: &MlaSpec) -> MlaWidths {
    MlaWidths {
        latent: mla.kv_lora,
        rope: mla.rope_dim,
        nope: mla.nope_dim,
        value: mla.v_dim,
    }
}
