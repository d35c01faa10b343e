//! Rows of published kernel tables, by their columns.

use super::models::Shape;
use super::table::ServingTable;
use fabricsim_units::{Bandwidth, Bytes};
use fabricsim_workload::kernel::{
    AttentionDecode, AttentionFormat, AttentionPrefill, CustomAllReduce, DataType, ExpertLoad,
    Gemm, Kernel, MlaDecode, MlaPrefill, MlaWidths, Moe, Routing, Skew, Small,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// A matrix product.
    Gemm,
    /// Attention over prompts.
    Prefill,
    /// Attention of one new token.
    Decode,
    /// Latent attention over prompts.
    MlaPrefill,
    /// Latent attention of one new token.
    MlaDecode,
    /// The experts of a layer.
    Moe,
    /// A norm.
    Norm,
    /// Turning queries and keys.
    Rope,
    /// A gated activation.
    Activation,
    /// An addition.
    Add,
    /// Looking up tokens.
    Embedding,
    /// An all-reduce that an engine writes itself.
    AllReduce,
}

impl Operator {
    /// In groups' names and quantities.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operator::Gemm => "gemm",
            Operator::Prefill => "attention prefill",
            Operator::Decode => "attention decode",
            Operator::MlaPrefill => "MLA prefill",
            Operator::MlaDecode => "MLA decode",
            Operator::Moe => "experts",
            Operator::Norm => "norm",
            Operator::Rope => "rope",
            Operator::Activation => "activation",
            Operator::Add => "add",
            Operator::Embedding => "embedding",
            Operator::AllReduce => "custom all-reduce",
        }
    }
}

/// A row that can be predicted.
pub(super) struct Read {
    pub(super) operator: Operator,
    /// The data type as the table has it.
    pub(super) data: String,
    pub(super) kernel: Kernel,
    pub(super) micros: f64,
}

/// A row, or why nothing is predicted of it.
pub(super) enum Row {
    Read(Vec<Read>),
    Skip(&'static str),
}

/// Reads a row; `port` is what a GPU of the table reads from its peers, if it has NVLink.
pub(super) fn read(
    table: &ServingTable,
    row: &Map<String, Value>,
    (model, port): (Option<Shape>, Option<Bandwidth>),
) -> Result<Row, String> {
    let has = |column: &str| row.contains_key(column);
    if has("topk") && has("moe_tp") {
        return experts(&columns(table, row)?);
    }
    if has("kv_heads") {
        return attention(&columns(table, row)?);
    }
    if has("heads") && has("kv_dtype") {
        return latent(&columns(table, row)?);
    }
    if has("m") && has("n") && has("k") {
        return product(&columns(table, row)?);
    }
    if has("mlp_up_proj_ms") {
        return Ok(match model {
            Some(model) => operators(&columns(table, row)?, model),
            None => Row::Skip("operators of a model whose shape is not known here"),
        });
    }
    if has("mode") && has("message_elements") {
        return Ok(all_reduce(&columns(table, row)?, port));
    }
    if has("op") || has("size_bytes_printed") {
        return Ok(Row::Skip(
            "collectives of NCCL, which `fabricsim validate` predicts on machines",
        ));
    }
    Ok(Row::Skip("figures without the shape of a kernel"))
}

fn columns<T: for<'a> Deserialize<'a>>(
    table: &ServingTable,
    row: &Map<String, Value>,
) -> Result<T, String> {
    let parsed = serde_json::from_value(Value::Object(row.clone()));
    parsed.map_err(|error| format!("{}: a row of kernels: {error}", table.id))
}

/// A data type of products as tables call it: weights and activations.
fn data_types(name: &str) -> Option<(DataType, DataType)> {
    Some(match name {
        "bfloat16" | "float16" | "half" => (DataType::Bf16, DataType::Bf16),
        "fp8" | "fp8_static" => (DataType::Fp8, DataType::Fp8),
        "fp8_block" => (DataType::Fp8Block, DataType::Fp8Block),
        "nvfp4" => (DataType::Nvfp4, DataType::Nvfp4),
        "w4a16_mxfp4" => (DataType::Mxfp4, DataType::Bf16),
        "w4a8_mxfp4_mxfp8" => (DataType::Mxfp4, DataType::Fp8),
        "int8_wo" => (DataType::Int8, DataType::Bf16),
        "int4_wo" => (DataType::Int4, DataType::Bf16),
        _ => return None,
    })
}

fn attention_format(scores: &str, cache: &str) -> Option<AttentionFormat> {
    Some(match (scores, cache) {
        ("bfloat16", "bfloat16") => AttentionFormat::Bf16,
        ("bfloat16", "fp8") => AttentionFormat::Bf16Fp8Cache,
        ("fp8", "fp8") => AttentionFormat::Fp8,
        _ => return None,
    })
}

const UNKNOWN_DATA: Row = Row::Skip("a data type that no law has");

fn one(operator: Operator, data: &str, kernel: Kernel, latency_ms: f64) -> Row {
    Row::Read(vec![Read {
        operator,
        data: data.to_owned(),
        kernel,
        micros: latency_ms * 1e3,
    }])
}

#[derive(Deserialize)]
struct Product {
    dtype: String,
    m: u64,
    n: u64,
    k: u64,
    latency_ms: f64,
}

fn product(row: &Product) -> Result<Row, String> {
    let Some((weights, activations)) = data_types(&row.dtype) else {
        return Ok(UNKNOWN_DATA);
    };
    let kernel = Kernel::Gemm(Gemm {
        m: row.m,
        n: row.n,
        k: row.k,
        weights,
        activations,
        quantise: weights != DataType::Bf16,
    });
    Ok(one(Operator::Gemm, &row.dtype, kernel, row.latency_ms))
}

#[derive(Deserialize)]
struct Attention {
    attn_dtype: String,
    kv_dtype: String,
    q_heads: u64,
    kv_heads: u64,
    head_dim: u64,
    batch: u64,
    #[serde(default)]
    kv_tokens: Option<u64>,
    #[serde(default)]
    input_tokens: Option<u64>,
    latency_ms: f64,
}

fn attention(row: &Attention) -> Result<Row, String> {
    let Some(format) = attention_format(&row.attn_dtype, &row.kv_dtype) else {
        return Ok(UNKNOWN_DATA);
    };
    let (heads, kv_heads, head_dim) = (row.q_heads, row.kv_heads, row.head_dim);
    let data = format!("{}/{}", row.attn_dtype, row.kv_dtype);
    Ok(match (row.kv_tokens, row.input_tokens) {
        (Some(tokens), None) => {
            let kernel = Kernel::AttentionDecode(AttentionDecode {
                sequences: row.batch,
                context: row.batch * tokens,
                heads,
                kv_heads,
                head_dim,
                format,
            });
            one(Operator::Decode, &data, kernel, row.latency_ms)
        }
        (None, Some(tokens)) => {
            let kernel = Kernel::AttentionPrefill(AttentionPrefill {
                sequences: row.batch,
                tokens,
                prefix: 0,
                heads,
                kv_heads,
                head_dim,
                format,
            });
            one(Operator::Prefill, &data, kernel, row.latency_ms)
        }
        _ => Row::Skip("attention with neither input nor cached tokens, or with both"),
    })
}

#[derive(Deserialize)]
struct Latent {
    kv_dtype: String,
    heads: u64,
    batch: u64,
    #[serde(default)]
    kv_tokens: Option<u64>,
    #[serde(default)]
    input_tokens: Option<u64>,
    latency_ms: f64,
}

fn latent(row: &Latent) -> Result<Row, String> {
    let Some(format) = attention_format(&row.kv_dtype, &row.kv_dtype) else {
        return Ok(UNKNOWN_DATA);
    };
    let (sequences, heads, widths) = (row.batch, row.heads, MlaWidths::DEEPSEEK);
    Ok(match (row.kv_tokens, row.input_tokens) {
        (Some(tokens), None) => {
            let kernel = Kernel::MlaDecode(MlaDecode {
                sequences,
                context: sequences * tokens,
                heads,
                widths,
                format,
            });
            one(Operator::MlaDecode, &row.kv_dtype, kernel, row.latency_ms)
        }
        (None, Some(tokens)) => {
            let kernel = Kernel::MlaPrefill(MlaPrefill {
                sequences,
                tokens,
                prefix: 0,
                heads,
                widths,
                format,
            });
            one(Operator::MlaPrefill, &row.kv_dtype, kernel, row.latency_ms)
        }
        _ => Row::Skip("attention with neither input nor cached tokens, or with both"),
    })
}

#[derive(Deserialize)]
struct Experts {
    dtype: String,
    tokens: u64,
    hidden: u64,
    inter: u64,
    topk: u64,
    experts: u64,
    moe_tp: u64,
    moe_ep: u64,
    token_distribution: String,
    latency_ms: f64,
}

fn experts(row: &Experts) -> Result<Row, String> {
    let Some((weights, activations)) = data_types(&row.dtype) else {
        return Ok(UNKNOWN_DATA);
    };
    let exponent = row.token_distribution.strip_prefix("power_law_");
    let skew = match exponent.map(str::parse) {
        Some(Ok(exponent)) => Skew::PowerLaw(exponent),
        _ if ["balanced", "uniform"].contains(&row.token_distribution.as_str()) => Skew::Even,
        _ => {
            return Ok(Row::Skip(
                "experts with a distribution that is not known here",
            ));
        }
    };
    let load = ExpertLoad::of(&Routing {
        tokens: row.tokens,
        experts: row.experts,
        local: row.experts / row.moe_ep.max(1),
        top_k: row.topk,
        skew,
    });
    let kernel = Kernel::Moe(Moe {
        load,
        hidden: row.hidden,
        inter: row.inter / row.moe_tp.max(1),
        weights,
        activations,
    });
    Ok(one(Operator::Moe, &row.dtype, kernel, row.latency_ms))
}

#[derive(Deserialize)]
struct Operators {
    tokens: u64,
    tp: u64,
    emb_ms: f64,
    input_layernorm_ms: f64,
    attn_pre_proj_ms: f64,
    attn_rope_ms: f64,
    attn_post_proj_ms: f64,
    post_attention_layernorm_ms: f64,
    mlp_up_proj_ms: f64,
    mlp_act_ms: f64,
    mlp_down_proj_ms: f64,
    add_ms: f64,
}

/// The operators of one layer, whose times come in steps of half a microsecond: those of a few
/// steps say nothing.
fn operators(row: &Operators, model: Shape) -> Row {
    const SHORTEST_MS: f64 = 0.005;
    let tp = row.tp.max(1);
    let (heads, kv) = (model.heads / tp, (model.kv_heads / tp).max(1));
    let (tokens, hidden, ffn) = (row.tokens, model.hidden, model.ffn / tp);
    let product = |n, k| {
        Kernel::Gemm(Gemm {
            m: tokens,
            n,
            k,
            weights: DataType::Bf16,
            activations: DataType::Bf16,
            quantise: false,
        })
    };
    let queries = heads * model.head_dim;
    let all = queries + 2 * kv * model.head_dim;
    let norm = Kernel::Small(Small::norm(tokens, hidden));
    let rope = Kernel::Small(Small::rope(tokens, heads + kv, model.head_dim));
    let rows = [
        (Operator::Gemm, product(all, hidden), row.attn_pre_proj_ms),
        (
            Operator::Gemm,
            product(hidden, queries),
            row.attn_post_proj_ms,
        ),
        (Operator::Gemm, product(2 * ffn, hidden), row.mlp_up_proj_ms),
        (Operator::Gemm, product(hidden, ffn), row.mlp_down_proj_ms),
        (Operator::Norm, norm.clone(), row.input_layernorm_ms),
        (Operator::Norm, norm, row.post_attention_layernorm_ms),
        (Operator::Rope, rope, row.attn_rope_ms),
        (
            Operator::Activation,
            Kernel::Small(Small::activation(tokens, ffn)),
            row.mlp_act_ms,
        ),
        (
            Operator::Add,
            Kernel::Small(Small::add(tokens, hidden)),
            row.add_ms,
        ),
        (
            Operator::Embedding,
            Kernel::Small(Small::embedding(tokens, hidden)),
            row.emb_ms,
        ),
    ];
    let long = rows.into_iter().filter(|(.., ms)| *ms >= SHORTEST_MS);
    let read = long.map(|(operator, kernel, ms)| Read {
        operator,
        data: "bfloat16".to_owned(),
        kernel,
        micros: ms * 1e3,
    });
    Row::Read(read.collect())
}

#[derive(Deserialize)]
struct AllReduce {
    gpus: u64,
    mode: String,
    dtype: String,
    message_elements: u64,
    latency_ms: f64,
}

/// Above this, engines call NCCL (vLLM: `CUSTOM_ALL_REDUCE_MAX_SIZES`, `max_size` of 8 MiB).
const LONGEST: u64 = 8 << 20;

fn all_reduce(row: &AllReduce, port: Option<Bandwidth>) -> Row {
    let width = if row.dtype == "float" { 4 } else { 2 };
    let size = row.message_elements * width;
    let Some(port) = port else {
        return Row::Skip("all-reduces without NVLink");
    };
    if row.mode.ends_with("eager") {
        return Row::Skip("the host starts each all-reduce, which takes longer than it does");
    }
    if size >= LONGEST {
        return Row::Skip("all-reduces of 8 MiB or more, which NCCL does");
    }
    let kernel = Kernel::AllReduce(CustomAllReduce {
        ranks: row.gpus,
        size: Bytes::new(size),
        port,
    });
    one(Operator::AllReduce, &row.dtype, kernel, row.latency_ms)
}
