//! What a decoder-only transformer is: its shape.

use super::error::{ModelError, ModelFault, divisors_near};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of a decoder-only transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Transformer layers.
    pub layers: u64,
    /// Width of the residual stream, in elements.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads (grouped-query attention); as many as `heads` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// Elements of a head; `hidden / heads` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<u64>,
    /// Inner width of a dense MLP, in elements.
    pub ffn: u64,
    /// Whether the MLP has a gate (SwiGLU): three matrices in place of two.
    #[serde(default)]
    pub gated: bool,
    /// Entries of the vocabulary.
    pub vocabulary: u64,
    /// Tokens of a sequence, and rows of a table of learned positions.
    pub sequence: u64,
    /// Whether the output projection is the embedding table itself.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// How a token's position is told.
    #[serde(default)]
    pub positions: Positions,
    /// Whether every linear layer adds a bias (those of the router and the output do not).
    #[serde(default)]
    pub biases: bool,
    /// How layers normalise.
    #[serde(default)]
    pub norm: NormKind,
    /// Whether what comes from the embedding is normalised as well (BLOOM).
    #[serde(default)]
    pub embedding_norm: bool,
    /// The kind of attention.
    #[serde(default)]
    pub attention: AttentionKind,
    /// Layers that attend to the last tokens alone, among others that attend to all. Serving counts them;
    /// training takes every layer for one that attends to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding: Option<SlidingSpec>,
    /// A mixture of experts in place of dense MLPs. Dense ones if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertSpec>,
}

/// Layers with a window among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlidingSpec {
    /// Tokens that a token of such a layer attends to: itself and those before it.
    pub window: u64,
    /// Every so many layers one attends to all tokens.
    pub full_every: u64,
}

/// How a token's position is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// A table of learned vectors, one for each place of a sequence.
    Learned,
    /// Rotary embedding of queries and keys.
    #[default]
    Rotary,
    /// A bias on scores, or nothing: no parameters and no kernel of its own.
    Alibi,
}

/// How layers normalise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Mean and variance; a weight and a bias of each element.
    LayerNorm,
    /// Root mean square; a weight of each element.
    #[default]
    RmsNorm,
}

/// The kind of attention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// Multi-head, or grouped-query if `kv_heads` is below `heads`.
    #[default]
    MultiHead,
    /// Multi-head latent attention.
    Mla(MlaSpec),
}

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlaSpec {
    /// Rank of the compressed queries; queries are not compressed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_lora: Option<u64>,
    /// Rank of the compressed keys and values.
    pub kv_lora: u64,
    /// Elements of a head that carry the position.
    pub rope_dim: u64,
    /// Elements of a query or key head that carry no position.
    pub nope_dim: u64,
    /// Elements of a value head.
    pub v_dim: u64,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertSpec {
    /// Routed experts of a layer.
    pub count: u64,
    /// Experts that each token goes to.
    pub per_token: u64,
    /// Inner width of one expert, in elements.
    pub ffn: u64,
    /// Experts of the same width that every token goes to.
    #[serde(default)]
    pub shared: u64,
    /// So many layers at the start have a dense MLP.
    #[serde(default)]
    pub first_dense_layers: u64,
    /// Whether the router keeps a bias of each expert (DeepSeek-V3's load balancing).
    #[serde(default)]
    pub router_bias: bool,
}

impl ModelSpec {
    /// Key and value heads.
    #[must_use]
    pub fn kv_heads(&self) -> u64 {
        self.kv_heads.unwrap_or(self.heads)
    }

    /// Elements of a query head and of a key head: what a score is a product of.
    #[must_use]
    pub fn qk_dim(&self) -> u64 {
        match self.attention {
            AttentionKind::MultiHead => self.multi_head_dim(),
            AttentionKind::Mla(mla) => mla.nope_dim + mla.rope_dim,
        }
    }

    /// Elements of a value head.
    #[must_use]
    pub fn v_dim(&self) -> u64 {
        match self.attention {
            AttentionKind::MultiHead => self.multi_head_dim(),
            AttentionKind::Mla(mla) => mla.v_dim,
        }
    }

    fn multi_head_dim(&self) -> u64 {
        // `heads` is not zero in a model that has been checked.
        self.head_dim.unwrap_or(self.hidden / self.heads.max(1))
    }

    /// The experts of a layer, counted from 0; none if its MLP is dense.
    #[must_use]
    pub fn experts_of(&self, layer: u64) -> Option<&ExpertSpec> {
        self.experts
            .as_ref()
            .filter(|e| e.first_dense_layers <= layer)
    }

    /// Layers that attend to all tokens, of so many.
    #[must_use]
    pub fn full_layers(&self, layers: u64) -> u64 {
        self.sliding
            .map_or(layers, |sliding| layers / sliding.full_every.max(1))
    }

    /// Matrices of an MLP: up and down, and the gate.
    #[must_use]
    pub(super) fn mlp_matrices(&self) -> u64 {
        if self.gated { 3 } else { 2 }
    }

    /// The vocabulary as it is laid out on `tp` GPUs. On one it is as it is; so it is on several if each has a
    /// multiple of 8 entries. Else it is rounded up to a multiple of 128 `tp`, as Megatron-LM does
    /// (`make-vocab-size-divisible-by`): GPT-3's 50,257 entries are 51,200 on 8 GPUs.
    #[must_use]
    pub fn padded_vocabulary(&self, tp: u32) -> u64 {
        let tp = u64::from(tp.max(1));
        if tp == 1 || self.vocabulary.is_multiple_of(8 * tp) {
            self.vocabulary
        } else {
            self.vocabulary.next_multiple_of(128 * tp)
        }
    }

    /// Checks that the shape can be.
    ///
    /// # Errors
    /// All faults at once: [`ModelError::Faults`].
    pub fn check(&self) -> Result<(), ModelError> {
        let mut faults = Vec::new();
        self.sizes(&mut faults);
        if faults.is_empty() {
            self.heads_fit(&mut faults);
            self.experts_fit(&mut faults);
            self.countable(&mut faults);
        }
        ModelError::unless_empty(faults)
    }

    /// Every size is at least 1 and small enough for sums and products to fit 64 bits.
    fn sizes(&self, faults: &mut Vec<ModelFault>) {
        const MOST: u64 = 1 << 24;
        let mut sizes = vec![
            ("layers", self.layers, 1 << 16),
            ("hidden", self.hidden, 1 << 20),
            ("heads", self.heads, 1 << 16),
            ("kv_heads", self.kv_heads(), 1 << 16),
            ("ffn", self.ffn, MOST),
            ("vocabulary", self.vocabulary, MOST),
            ("sequence", self.sequence, 1 << 32),
        ];
        sizes.extend(self.head_dim.map(|d| ("head_dim", d, 1 << 16)));
        if let AttentionKind::Mla(mla) = &self.attention {
            sizes.extend(
                mla.q_lora
                    .map(|rank| ("attention.mla.q_lora", rank, 1 << 20)),
            );
            sizes.extend([
                ("attention.mla.kv_lora", mla.kv_lora, 1 << 20),
                ("attention.mla.rope_dim", mla.rope_dim, 1 << 16),
                ("attention.mla.nope_dim", mla.nope_dim, 1 << 16),
                ("attention.mla.v_dim", mla.v_dim, 1 << 16),
            ]);
        }
        if let Some(sliding) = &self.sliding {
            sizes.extend([
                ("sliding.window", sliding.window, 1 << 32),
                ("sliding.full_every", sliding.full_every, 1 << 16),
            ]);
        }
        if let Some(experts) = &self.experts {
            sizes.extend([
                ("experts.count", experts.count, 1 << 16),
                ("experts.per_token", experts.per_token, 1 << 16),
                ("experts.ffn", experts.ffn, 1 << 20),
            ]);
            if experts.shared > 1 << 10 {
                sizes.push(("experts.shared", experts.shared, 1 << 10));
            }
        }
        for (field, size, most) in sizes {
            if !(1..=most).contains(&size) {
                faults.push(ModelFault::new(
                    field,
                    size,
                    format!("a whole number from 1 to {most}"),
                ));
            }
        }
    }

    /// So few parameters that sums of their bytes fit 64 bits.
    fn countable(&self, faults: &mut Vec<ModelFault>) {
        const MOST: u128 = 10_000_000_000_000_000;
        let experts = self.experts.map_or(0, |e| (e.count + e.shared) * e.ffn);
        let heads = 2 * self.heads * (self.qk_dim() + self.v_dim());
        let width = 3 * (u128::from(self.ffn) + u128::from(experts)) + u128::from(heads);
        let parameters = u128::from(self.layers) * u128::from(self.hidden) * width;
        if MOST < parameters {
            faults.push(ModelFault::new(
                "layers",
                format!("about {parameters} parameters in all"),
                format!("at most {MOST}"),
            ));
        }
    }

    fn heads_fit(&self, faults: &mut Vec<ModelFault>) {
        let (heads, hidden) = (self.heads, self.hidden);
        match self.attention {
            AttentionKind::MultiHead => {
                if self.head_dim.is_none() && !hidden.is_multiple_of(heads) {
                    faults.push(ModelFault::new(
                        "heads",
                        heads,
                        format!(
                            "a divisor of hidden ({hidden}){}, or a `head_dim`",
                            divisors_near(heads, hidden)
                        ),
                    ));
                }
                if !heads.is_multiple_of(self.kv_heads()) {
                    faults.push(ModelFault::new(
                        "kv_heads",
                        self.kv_heads(),
                        format!(
                            "a divisor of heads ({heads}){}",
                            divisors_near(self.kv_heads(), heads)
                        ),
                    ));
                }
            }
            AttentionKind::Mla(_) => {
                for (field, value) in [("kv_heads", self.kv_heads), ("head_dim", self.head_dim)] {
                    if let Some(value) = value {
                        faults.push(ModelFault::new(
                            field,
                            value,
                            "nothing: latent attention says its dimensions in `attention.mla`",
                        ));
                    }
                }
            }
        }
    }

    fn experts_fit(&self, faults: &mut Vec<ModelFault>) {
        let Some(experts) = &self.experts else {
            return;
        };
        if experts.count < experts.per_token {
            faults.push(ModelFault::new(
                "experts.per_token",
                experts.per_token,
                format!("at most experts.count ({})", experts.count),
            ));
        }
        if self.layers <= experts.first_dense_layers {
            faults.push(ModelFault::new(
                "experts.first_dense_layers",
                experts.first_dense_layers,
                format!(
                    "less than layers ({}); leave out `experts` for a dense model",
                    self.layers
                ),
            ));
        }
    }
}
