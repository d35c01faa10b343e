//! How many parameters a model has, by part.

use super::spec::{AttentionKind, ModelSpec, NormKind, Positions};

/// The parameters of one layer, by part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LayerParameters {
    /// Projections of queries, keys, values and the output, with their biases.
    pub attention: u64,
    /// The dense MLP, with its biases; 0 in a layer with experts.
    pub mlp: u64,
    /// The router of a layer with experts.
    pub router: u64,
    /// Experts that every token goes to.
    pub shared_experts: u64,
    /// All routed experts.
    pub experts: u64,
    /// The routed experts that one token goes to.
    pub active_experts: u64,
    /// Norms, also those inside latent attention.
    pub norms: u64,
}

impl LayerParameters {
    /// All parameters of the layer.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dense() + self.experts
    }

    /// The parameters that one token meets.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.dense() + self.active_experts
    }

    /// All but routed experts.
    #[must_use]
    pub fn dense(&self) -> u64 {
        self.attention + self.mlp + self.router + self.shared_experts + self.norms
    }
}

/// The parameters of a model, by part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The table of tokens and, if learned, that of positions.
    pub embedding: u64,
    /// The sum of all layers.
    pub layers: LayerParameters,
    /// Norms outside the layers: after the last one, and after the embedding if it has one.
    pub norms: u64,
    /// The output projection; 0 if it is the table of tokens.
    pub head: u64,
}

impl Parameters {
    /// All parameters.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.embedding + self.layers.total() + self.norms + self.head
    }

    /// The parameters that one token meets, with the whole embedding, as model cards count them.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.embedding + self.layers.active() + self.norms + self.head
    }
}

/// The parameters of a model.
#[must_use]
pub fn parameters(model: &ModelSpec) -> Parameters {
    let mut layers = LayerParameters::default();
    for layer in 0..model.layers {
        let one = layer_parameters(model, layer);
        layers.attention += one.attention;
        layers.mlp += one.mlp;
        layers.router += one.router;
        layers.shared_experts += one.shared_experts;
        layers.experts += one.experts;
        layers.active_experts += one.active_experts;
        layers.norms += one.norms;
    }
    let table = model.vocabulary * model.hidden;
    let places = match model.positions {
        Positions::Learned => model.sequence * model.hidden,
        Positions::Rotary | Positions::Alibi => 0,
    };
    Parameters {
        embedding: table + places,
        layers,
        norms: norm(model, model.hidden) * if model.embedding_norm { 2 } else { 1 },
        head: if model.tied_embeddings { 0 } else { table },
    }
}

/// The parameters of one layer, counted from 0.
#[must_use]
pub fn layer_parameters(model: &ModelSpec, layer: u64) -> LayerParameters {
    let (attention, inner_norms) = attention(model);
    let mut parts = LayerParameters {
        attention,
        norms: 2 * norm(model, model.hidden) + inner_norms,
        ..LayerParameters::default()
    };
    match model.experts_of(layer) {
        None => parts.mlp = mlp(model, model.ffn),
        Some(experts) => {
            let one = mlp(model, experts.ffn);
            parts.experts = experts.count * one;
            parts.active_experts = experts.per_token * one;
            parts.shared_experts = experts.shared * one;
            let bias = if experts.router_bias {
                experts.count
            } else {
                0
            };
            parts.router = model.hidden * experts.count + bias;
        }
    }
    parts
}

/// Weights and biases of the attention's projections, and those of norms inside it.
fn attention(model: &ModelSpec) -> (u64, u64) {
    let (h, heads) = (model.hidden, model.heads);
    match model.attention {
        AttentionKind::MultiHead => {
            let queries = heads * model.qk_dim();
            let keys = model.kv_heads() * model.qk_dim();
            let biases = if model.biases {
                queries + 2 * keys + h
            } else {
                0
            };
            (h * (2 * queries + 2 * keys) + biases, 0)
        }
        AttentionKind::Mla(mla) => {
            let queries = heads * (mla.nope_dim + mla.rope_dim);
            let (query, query_norm) = match mla.q_lora {
                None => (h * queries, 0),
                Some(rank) => (h * rank + rank * queries, norm(model, rank)),
            };
            let keys_values =
                h * (mla.kv_lora + mla.rope_dim) + mla.kv_lora * heads * (mla.nope_dim + mla.v_dim);
            let output = heads * mla.v_dim * h;
            let norms = query_norm + norm(model, mla.kv_lora);
            (query + keys_values + output, norms)
        }
    }
}

/// Weights and biases of an MLP of inner width `ffn`.
fn mlp(model: &ModelSpec, ffn: u64) -> u64 {
    let matrices = model.mlp_matrices();
    let biases = if model.biases {
        (matrices - 1) * ffn + model.hidden
    } else {
        0
    };
    matrices * model.hidden * ffn + biases
}

/// Parameters of a norm over `width` elements.
fn norm(model: &ModelSpec, width: u64) -> u64 {
    match model.norm {
        NormKind::LayerNorm => 2 * width,
        NormKind::RmsNorm => width,
    }
}
