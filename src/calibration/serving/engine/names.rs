//! What sources call cards, engines and models.

use fabricsim_workload::serving::policy::PolicyKind;

/// A card that a shipped machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Card {
    /// What it is called in groups.
    pub(crate) name: &'static str,
    /// The machine.
    pub(super) topology: &'static str,
    /// In place of the machine's own card, this model from the hardware files.
    pub(super) part: Option<(&'static str, &'static str)>,
    /// Its memory in GB, where cards of the same name have others.
    memory: Option<&'static str>,
}

/// Cards, those first whose names hold others.
const CARDS: [Card; 12] = [
    card("GB300", "gb300-nvl72"),
    card("GB200", "gb200-nvl72"),
    card("GH200", "gh200-quad"),
    card("B300", "dgx-b300"),
    card("B200", "dgx-b200"),
    card("H200", "dgx-h200"),
    card("H100 PCIe", "x86-h100-pcie"),
    Card {
        memory: Some("80"),
        ..card("H100", "dgx-h100")
    },
    // The DGX A100 of 320 GB and that of 640 GB differ in their cards alone.
    Card {
        memory: Some("40"),
        ..card("A100 40GB", "dgx-a100")
    },
    Card {
        part: Some(("a100-sxm-40gb", "a100-sxm-80gb")),
        memory: Some("80"),
        ..card("A100", "dgx-a100")
    },
    card("L40S", "l40s-pcie"),
    card("RTX 4090", "rtx4090-pcie"),
];

const fn card(name: &'static str, topology: &'static str) -> Card {
    Card {
        name,
        topology,
        part: None,
        memory: None,
    }
}

/// Letters and digits alone, in small letters.
pub(super) fn plain(text: &str) -> String {
    let kept = text.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

/// The card that a source names.
///
/// # Errors
/// What is wrong with it.
pub(super) fn card_of(text: &str) -> Result<Card, String> {
    let name = plain(text);
    let unknown = || format!("no shipped machine has the card `{text}`");
    if name.contains("amd") && (name.contains("nvidia") || name.contains("b200")) {
        return Err(format!("measured on one of several cards: {text}"));
    }
    if name.contains("pcap") {
        return Err("its cards run at less power than they may, which is not modelled".into());
    }
    let memory = ["40gb", "64gb", "80gb", "94gb", "96gb"];
    let memory = memory.iter().find(|size| name.contains(*size));
    let has_memory = |card: &Card| match (card.memory, memory) {
        (Some(own), Some(size)) => size.starts_with(own),
        _ => true,
    };
    let is_named = |card: &Card| {
        let words = card.name.split(' ');
        // `A100 40GB` may stand with other words between.
        words.map(plain).all(|word| name.contains(&word)) && has_memory(card)
    };
    let card = CARDS.iter().find(|card| is_named(card));
    let card = card.ok_or_else(unknown)?;
    let is_other = |form: &str| name.contains(form) && !plain(card.name).contains(form);
    // Cards of the same chip in another form: `H200-NVL`, but not `GB200 NVL72`.
    let nvl = name.contains("nvl") && !name.contains("nvlink") && !card.topology.contains("nvl");
    if is_other("pcie") || nvl {
        return Err(unknown());
    }
    Ok(*card)
}

/// The scheduler of an engine that a source names.
///
/// # Errors
/// One that is not modelled.
pub(super) fn policy_of(text: &str) -> Result<PolicyKind, String> {
    let name = plain(text);
    let has = |part: &str| name.contains(part);
    Ok(match () {
        () if has("tensorrt") || has("trtllm") || has("nim") => PolicyKind::Trtllm,
        () if has("sglang") => PolicyKind::Sglang,
        () if has("ascend") => return Err(unmodelled(text)),
        () if has("vllm") => PolicyKind::Vllm,
        () => return Err(unmodelled(text)),
    })
}

fn unmodelled(text: &str) -> String {
    format!("the engine `{text}` is not modelled")
}

/// What names of models hold, and the shipped model of that shape, or why there is none. The first that a name
/// holds counts. Fine-tuned models have the shape of what they are made from.
const MODELS: [(&str, Result<&str, &str>); 62] = [
    ("r1distillllama70b", Ok("llama3-70b")),
    ("r1distillllama8b", Ok("llama3-8b")),
    ("r1distillqwen15b", Ok("qwen2.5-1.5b")),
    ("r1distillqwen7b", Ok("qwen2.5-7b")),
    ("r1distillqwen14b", Ok("qwen2.5-14b")),
    ("r1distillqwen32b", Ok("qwen2.5-32b")),
    ("deepseekv32", Err(SPARSE)),
    ("deepseekmathv2", Err(SPARSE)),
    ("deepseekv3", Ok("deepseek-v3")),
    ("deepseekr1", Ok("deepseek-v3")),
    ("kimilinear", Err(LINEAR)),
    ("kimik2", Ok("kimi-k2")),
    ("glm5", Err(SPARSE)),
    ("glm46", Ok("glm-4.6")),
    ("glm45", Ok("glm-4.6")),
    ("glm47flash", Ok("glm-4.7-flash")),
    ("gptoss120b", Ok("gpt-oss-120b")),
    ("gptoss20b", Ok("gpt-oss-20b")),
    ("minimaxm2", Ok("minimax-m2")),
    ("qwen35", Err(LINEAR)),
    ("qwen3next", Err(LINEAR)),
    ("qwen3codernext", Err(LINEAR)),
    ("nemotron3", Err(LINEAR)),
    ("qwen3coder", Ok("qwen3-coder-480b-a35b")),
    ("qwen3235b", Ok("qwen3-235b-a22b")),
    ("qwen330ba3b", Ok("qwen3-30b-a3b")),
    ("qwen3vl32b", Ok("qwen3-32b")),
    ("qwen332b", Ok("qwen3-32b")),
    ("qwen314b", Ok("qwen3-14b")),
    ("qwen38b", Ok("qwen3-8b")),
    ("qwq32b", Ok("qwen2.5-32b")),
    ("qwen2515b", Ok("qwen2.5-1.5b")),
    ("qwen257b", Ok("qwen2.5-7b")),
    ("qwen27b", Ok("qwen2.5-7b")),
    ("acemath7b", Ok("qwen2.5-7b")),
    ("qwen2514b", Ok("qwen2.5-14b")),
    ("qwen2532b", Ok("qwen2.5-32b")),
    ("qwen2572b", Ok("qwen2-72b")),
    ("qwen272b", Ok("qwen2-72b")),
    ("llama4scout", Ok("llama4-scout")),
    (
        "llama4maverick",
        Err("every other layer alone has experts, which no shipped model has"),
    ),
    ("llada", Err("it writes tokens by diffusion")),
    (
        "step35",
        Err("its layers with a window have more heads than the others"),
    ),
    ("nemotron70b", Ok("llama3-70b")),
    ("llama3370b", Ok("llama3-70b")),
    ("llama3170b", Ok("llama3-70b")),
    ("llamav3170b", Ok("llama3-70b")),
    ("llama370b", Ok("llama3-70b")),
    ("llama31405b", Ok("llama3-405b")),
    ("llamav31405b", Ok("llama3-405b")),
    ("llama318b", Ok("llama3-8b")),
    ("llamav318b", Ok("llama3-8b")),
    ("llama38b", Ok("llama3-8b")),
    ("llama270b", Ok("llama2-70b")),
    ("llama70b", Ok("llama2-70b")),
    ("llama27b", Ok("llama2-7b")),
    ("llama7b", Ok("llama2-7b")),
    ("mixtral8x7b", Ok("mixtral-8x7b")),
    ("mixtral8x22b", Ok("mixtral-8x22b")),
    ("mistral7b", Ok("mistral-7b")),
    ("gptj6b", Ok("gpt-j-6b")),
    ("falcon180b", Ok("falcon-180b")),
];

/// Those whose names are the shipped ones' without the marks between words.
const SAME: [&str; 3] = ["bloom-176b", "phi-4", "gemma2-9b"];

const SPARSE: &str = "its sparse attention is not modelled";
const LINEAR: &str = "its layers with linear attention are not modelled";

/// The shipped model of the shape of one that a source names.
///
/// # Errors
/// Why there is none.
pub(super) fn model_of(text: &str) -> Result<&'static str, String> {
    let name = plain(text);
    if let Some((_, found)) = MODELS.iter().find(|(part, _)| name.contains(part)) {
        return found.map_err(|why| format!("{text}: {why}"));
    }
    let same = SAME.iter().find(|known| name.contains(&plain(known)));
    same.copied()
        .ok_or_else(|| format!("the shape of `{text}` is not among the shipped models"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::catalogue;
    use fabricsim_workload::model::presets;

    #[test]
    fn every_card_and_model_is_shipped() {
        for card in CARDS {
            let names = catalogue::names();
            assert!(
                names.into_iter().any(|name| name == card.topology),
                "{card:?}"
            );
        }
        let shipped = MODELS.iter().filter_map(|(_, model)| model.ok());
        for model in shipped.chain(SAME) {
            assert!(presets::find(model).is_ok(), "{model}");
        }
    }

    #[test]
    fn cards_are_told_from_their_like() {
        let name = |text: &str| card_of(text).map(|card| card.name);
        for (text, expected) in [
            ("B200 SXM 180GB (DGX B200)", "B200"),
            ("GB200 192GB (NVL72)", "GB200"),
            ("NVIDIA H100 80GB HBM3 GPU (8x)", "H100"),
            ("H200-SXM-141GBx8_TRT", "H200"),
            ("a100-80gb", "A100"),
            ("NVIDIA A100 GPU (8x)", "A100"),
            ("A100-SXM4-40GB", "A100 40GB"),
            ("H100-PCIe", "H100 PCIe"),
            ("RTX-4090", "RTX 4090"),
            ("h100_sxm", "H100"),
        ] {
            assert_eq!(name(text), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("H200-NVL", "no shipped machine"),
            ("H100 NVL 94GB", "no shipped machine"),
            ("H100 SXM 64GB", "no shipped machine"),
            ("MI300X", "no shipped machine"),
            ("h100-80gb-pcap", "less power"),
            ("NVIDIA B200 GPU (8x), AMD MI300X (8x)", "several cards"),
        ] {
            assert!(name(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn models_are_known_by_many_names() {
        for (text, expected) in [
            ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
            ("LLaMA v3.1 405B", "llama3-405b"),
            ("LLaMA 70B", "llama2-70b"),
            ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama3-70b"),
            ("DeepSeek-V3.1-Terminus", "deepseek-v3"),
            ("Kimi-K2-Instruct (1T, 32B active, 384 experts)", "kimi-k2"),
            ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b"),
            ("llama-3_1-70b", "llama3-70b"),
            ("google/gemma-2-9b-it", "gemma2-9b"),
        ] {
            assert_eq!(model_of(text), Ok(expected), "{text}");
        }
        let why = |text| model_of(text).unwrap_err();
        assert!(why("Qwen/Qwen3.5-397B-A17B").contains("linear attention"));
        assert!(why("DeepSeek-V3.2-Exp").contains("sparse attention"));
        assert!(why("Motif-3").contains("not among the shipped models"));
    }
}
