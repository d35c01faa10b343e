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
fn checkpoint(name: &str, model: &str) -> Checkpoint {
    let (own, only_experts) = match model {
        "kimi-k2" if !plain(name).ends_with("k2instruct") && plain(name).contains("k25") => {
            (DataType::Int4, true)
        }
        "deepseek-v3" | "minimax-m2" => (DataType::Fp8Block, false),
        "kimi-k2" => (DataType::Fp8Block, true),
        "gpt-oss-20b" | "gpt-oss-120b" => (DataType::Mxfp4, true),
        _ => (DataType::Bf16, false),
    };
    Checkpoint { own, only_experts }
}

/// Names of types of weights, those first that hold others.
const TYPES: [(&str, DataType); 13] = [
    ("mxfp4", DataType::Mxfp4),
    ("nvfp4", DataType::Nvfp4),
    ("fp8block", DataType::Fp8Block),
    ("fp4", DataType::Nvfp4),
    ("fp8", DataType::Fp8),
    ("int4", DataType::Int4),
    ("w4a16", DataType::Int4),
    ("awq", DataType::Int4),
    ("int8", DataType::Int8),
    ("bf16", DataType::Bf16),
    ("bfloat16", DataType::Bf16),
    ("fp16", DataType::Bf16),
    ("float16", DataType::Bf16),
];

/// What `text` calls a type of weights, of a checkpoint whose FP8 weights have a scale for a block or not. The type
/// that is named first counts: `float16 unless the name says FP8`.
fn data_type(text: &str, blocks: bool) -> Option<DataType> {
    let name = plain(text);
    let found = TYPES
        .iter()
        .filter_map(|&(part, data_type)| Some((name.find(part)?, data_type)));
    // Of those at the same place the first: `min_by_key` keeps it.
    let (_, found) = found.min_by_key(|(place, _)| *place)?;
    match found {
        DataType::Fp8 if blocks => Some(DataType::Fp8Block),
        other => Some(other),
    }
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
    let checkpoint = checkpoint(name, model);
    // Qwen's own FP8 checkpoints have blocks, as DeepSeek's.
    let blocks = checkpoint.own == DataType::Fp8Block || plain(name).starts_with("qwenqwen");
    let of_table = fields.table.model.precision.as_deref();
    let said = fields.text(&["gemm_quant", "precision"]).or(of_table);
    let named = data_type(name, blocks);
    let defers = said.is_none_or(|text| text.contains("unless the name"));
    let named = named.filter(|_| defers);
    let weights = match (named, said) {
        (Some(named), _) => named,
        (None, Some(text)) => {
            data_type(text, blocks).ok_or_else(|| format!("the precision `{text}`"))?
        }
        (None, None) => checkpoint.own,
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
        // ModelOpt's quantised checkpoints say that caches are FP8, which vLLM follows and TensorRT-LLM; that of others
        // has FP8 caches, too, where it is set up for FP8.
        None => of(match policy {
            PolicyKind::Trtllm | PolicyKind::Static => weights != DataType::Bf16,
            PolicyKind::Vllm => matches!(weights, DataType::Fp8 | DataType::Nvfp4),
            PolicyKind::Sglang => false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_many_names() {
        for (text, blocks, expected) in [
            ("nvfp4", false, DataType::Nvfp4),
            ("fp4", false, DataType::Nvfp4),
            ("fp8", false, DataType::Fp8),
            ("fp8", true, DataType::Fp8Block),
            ("fp8_block", false, DataType::Fp8Block),
            ("int4_wo", false, DataType::Int4),
            ("bfloat16", false, DataType::Bf16),
            (
                "float16 (README) unless the name says FP8",
                false,
                DataType::Bf16,
            ),
            ("fp16 (not in the CSV)", false, DataType::Bf16),
        ] {
            assert_eq!(data_type(text, blocks), Some(expected), "{text}");
        }
        assert_eq!(data_type("per row", false), None);
    }
}
