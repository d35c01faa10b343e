//! What weights and KV caches are stored in, from what sources say of it.

use super::fields::{Fields, Flags};
use super::names::plain;
use fabricsim_workload::kernel::DataType;
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::spec::{KvType, ServingPrecision};

/// What a model's published checkpoints are stored in, where that is not 16 bits or not all alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checkpoint {
    /// As the first one was published.
    own: DataType,
    /// Weights outside experts stay 16 bits, whatever experts are stored in.
    only_experts: bool,
}

/// Hugging Face `config.json` of each: `quantization_config` and the modules that it leaves out.
fn checkpoint(model: &str) -> Checkpoint {
    let (own, only_experts) = match model {
        "deepseek-v3" | "minimax-m2" => (DataType::Fp8Block, false),
        "kimi-k2" => (DataType::Fp8Block, true),
        "gpt-oss-20b" | "gpt-oss-120b" => (DataType::Mxfp4, true),
        _ => (DataType::Bf16, false),
    };
    Checkpoint { own, only_experts }
}

/// What `text` calls a type of weights, of a checkpoint whose FP8 weights have a scale for a block or not.
fn data_type(text: &str, blocks: bool) -> Option<DataType> {
    let name = plain(text);
    let has = |part: &str| name.contains(part);
    Some(match () {
        () if has("mxfp4") => DataType::Mxfp4,
        () if has("nvfp4") || has("fp4") => DataType::Nvfp4,
        () if has("fp8block") => DataType::Fp8Block,
        () if has("fp8") && blocks => DataType::Fp8Block,
        () if has("fp8") => DataType::Fp8,
        () if has("int4") || has("w4a16") => DataType::Int4,
        () if has("int8") => DataType::Int8,
        () if has("bf16") || has("fp16") || has("bfloat16") || has("float16") => DataType::Bf16,
        () => return None,
    })
}

/// What is stored in what, on such a model and engine.
///
/// # Errors
/// A precision that is not known.
pub(super) fn precision(
    fields: &Fields<'_>,
    (name, model): (&str, &str),
    policy: PolicyKind,
    flags: &Flags,
) -> Result<ServingPrecision, String> {
    let checkpoint = checkpoint(model);
    // Qwen's own FP8 checkpoints have blocks, as DeepSeek's.
    let blocks = checkpoint.own == DataType::Fp8Block || plain(name).starts_with("qwenqwen");
    let of_table = fields.table.model.precision.as_deref();
    let said = fields.text(&["gemm_quant", "precision"]).or(of_table);
    let named = data_type(name, blocks).filter(|_| said.is_none());
    let weights = match said {
        Some(text) => data_type(text, blocks).ok_or_else(|| format!("the precision `{text}`"))?,
        None => named.unwrap_or(checkpoint.own),
    };
    let experts = fields.text(&["moe_quant"]);
    let experts = experts
        .and_then(|text| data_type(text, blocks))
        .unwrap_or(weights);
    let kv = kv(fields, policy, weights, flags);
    if checkpoint.only_experts {
        // 4-bit names of a checkpoint in MXFP4 mean that.
        let experts = match checkpoint.own {
            DataType::Mxfp4 if experts != DataType::Bf16 => DataType::Mxfp4,
            _ => experts,
        };
        let others = match weights {
            DataType::Fp8Block if checkpoint.own == DataType::Fp8Block => DataType::Fp8Block,
            _ => DataType::Bf16,
        };
        return Ok(ServingPrecision {
            weights: others,
            experts: Some(experts),
            attention: Some(others),
            kv,
        });
    }
    // ModelOpt's NVFP4 checkpoints of models with experts keep attention's projections in 16 bits.
    let keeps = weights == DataType::Nvfp4 && matches!(model, "deepseek-v3" | "minimax-m2");
    Ok(ServingPrecision {
        weights,
        experts: Some(experts),
        attention: keeps.then_some(DataType::Bf16),
        kv,
    })
}

/// What keys and values are stored in: as flags say, else as engines choose by themselves.
fn kv(fields: &Fields<'_>, policy: PolicyKind, weights: DataType, flags: &Flags) -> KvType {
    let said = fields.text(&["kv_dtype", "kv_cache_dtype", "kvcache_quant"]);
    let said = said.or(flags.text(&["kv-cache-dtype", "kv-cache-config"]));
    let of = |is_fp8: bool| if is_fp8 { KvType::Fp8 } else { KvType::Bf16 };
    match said {
        Some(text) => of(plain(text).contains("fp8")),
        // ModelOpt's quantised checkpoints say that caches are FP8, which TensorRT-LLM follows.
        None => of(policy == PolicyKind::Trtllm && weights != DataType::Bf16),
    }
}
