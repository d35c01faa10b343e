//! Parameters and FLOPs against what is published.

use super::flops::*;
use super::parameters::{layer_parameters, parameters};
use super::presets::find;
use super::spec::ModelSpec;

fn model(name: &str) -> ModelSpec {
    find(name).unwrap().model.clone()
}

/// Asserts that `got` is `expected` to within `tolerance`, relative.
fn close(got: f64, expected: f64, tolerance: f64) {
    let off = (got / expected - 1.0).abs();
    assert!(off <= tolerance, "got {got:e}, expected {expected:e}");
}

#[test]
fn parameters_are_those_of_published_checkpoints() {
    for (name, published) in [
        ("gpt2-124m", 124_439_808),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        ("bloom-176b", 176_247_271_424),
        // huggingface.co deepseek-ai/DeepSeek-V3: 671B of the main model.
        ("deepseek-v3", 671_026_419_200),
    ] {
        assert_eq!(parameters(&model(name)).total(), published, "{name}");
    }
}

#[test]
fn parameters_are_about_what_papers_round_to() {
    for (name, total, active) in [
        // Brown et al., arXiv 2005.14165, table 2.1: 175.0B.
        ("gpt3-175b", 174.6e9, 174.6e9),
        // Narayanan et al., arXiv 2104.04473, table 1: 529.6 and 1008.0.
        ("turing-530b", 529.6e9, 529.6e9),
        ("megatron-1t", 1008.0e9, 1008.0e9),
        // Jiang et al., arXiv 2401.04088: 47B and 13B.
        ("mixtral-8x7b", 46.7e9, 12.88e9),
        // arXiv 2412.19437: 671B and 37B; the latter without the embedding.
        ("deepseek-v3", 671e9, 37.55e9),
        // arXiv 2402.16819: 12.5B and 3.1B of embeddings; arXiv 2406.11704: 331.6B and 9.4B.
        ("nemotron4-15b", 15.6e9, 15.6e9),
        ("nemotron4-340b", 341.0e9, 341.0e9),
    ] {
        let counted = parameters(&model(name));
        close(counted.total() as f64, total, 0.002);
        close(counted.active() as f64, active, 0.002);
    }
}

#[test]
fn models_that_are_served_have_the_parameters_that_are_published() {
    for (name, published) in [
        // Without biases of queries and keys, norms of heads and sinks, which are some ten-thousandths.
        ("llama2-7b", 6_738_415_616_u64),
        ("mistral-7b", 7_241_732_096),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("gpt-oss-20b", 20_914_757_184),
        ("gpt-oss-120b", 116_829_156_672),
        ("gpt-j-6b", 6_053_381_344),
        ("gemma2-9b", 9_241_705_984),
    ] {
        let counted = parameters(&model(name)).total();
        close(counted as f64, published as f64, 0.001);
    }
}

#[test]
fn mpt_has_the_parameters_of_llm_foundrys_tables() {
    // mosaicml/llm-foundry scripts/train/benchmarking/README.md, column NumParams.
    for (name, sequence, published) in [
        ("mpt-125m", 2048, 125_311_488),
        ("mpt-125m", 65536, 174_070_272),
        ("mpt-350m", 1024, 354_936_832),
        ("mpt-760m", 2048, 760_470_528),
        ("mpt-1b", 2048, 1_315_950_592),
        ("mpt-3b", 2048, 2_651_837_440),
        ("mpt-7b", 2048, 6_658_859_008),
        ("mpt-7b", 8192, 6_684_024_832),
        ("mpt-13b", 2048, 12_853_954_560),
        ("mpt-30b", 2048, 29_975_214_080),
        ("mpt-70b", 2048, 64_862_437_376),
    ] {
        let model = ModelSpec {
            sequence,
            ..model(name)
        };
        assert_eq!(parameters(&model).total(), published, "{name} {sequence}");
    }
}

#[test]
fn parts_and_layers_add_up() {
    let model = model("deepseek-v3");
    let whole = parameters(&model);
    let layers: u64 = (0..61).map(|l| layer_parameters(&model, l).total()).sum();
    assert_eq!(whole.layers.total(), layers);
    assert_eq!(layer_parameters(&model, 2).experts, 0);
    assert_eq!(layer_parameters(&model, 2).mlp, 3 * 7168 * 18432);
    assert_eq!(layer_parameters(&model, 3).mlp, 0);
    assert_eq!(layer_parameters(&model, 3).experts, 256 * 3 * 7168 * 2048);
    assert_eq!(whole.head, 129_280 * 7168);
}

#[test]
fn six_n_of_whole_trainings() {
    // formulas.md F1.
    close(six_n(70_000_000_000, 15e12), 6.3e24, 1e-9);
    let flops = six_n(405_000_000_000, 15.6e12);
    close(flops, 3.7908e25, 1e-9);
    close(flops / (16_384.0 * 400e12) / 86_400.0, 66.95, 1e-3);
}

#[test]
fn palms_attention_term() {
    // formulas.md F2: GPT-3, 2048 tokens: 2.76 % more.
    let model = model("gpt3-175b");
    let n = parameters(&model).total();
    let full = palm_per_token(&model, n, 2048, ScoreCount::Full);
    close(full / six_n(n, 1.0) - 1.0, 0.0276, 0.01);
    let causal = palm_per_token(&model, n, 2048, ScoreCount::Causal);
    close(causal / six_n(n, 1.0) - 1.0, 0.0138, 0.01);
}

#[test]
fn narayanans_iteration() {
    // formulas.md F3, arXiv 2104.04473: 175B with a vocabulary of 51,200, 1536 sequences.
    let model = ModelSpec {
        vocabulary: 51_200,
        biases: false,
        ..model("gpt3-175b")
    };
    let recomputed = narayanan_iteration(&model, 1536, 2048, true);
    close(recomputed, 4.51097e18, 1e-5);
    let plain = narayanan_iteration(&model, 1536, 2048, false);
    // formulas.md takes three quarters, which forgets that the output is not recomputed.
    close(plain, 3.38323e18, 2e-3);
    let seconds = recomputed / (1024.0 * 140e12);
    close(seconds, 31.466, 1e-4);
    let used = hardware_flops_utilisation(recomputed, seconds, 1024, 312e12);
    close(used, 0.449, 1e-3);
    let tokens = 1536.0 * 2048.0;
    close(tokens / seconds, 99_972.0, 1e-4);
    // 32.86 % is for 175e9 parameters, the paper's round number.
    let six = six_n(175_000_000_000, tokens);
    let mfu = model_flops_utilisation(six, seconds, 1024, 312e12);
    close(mfu, 0.3286, 1e-3);

    // This program's own count is the same for a GPT.
    let own = model_flops_per_step(&model, 1536, 2048, ScoreCount::Full);
    close(own, plain, 1e-9);
    let hardware = |r| hardware_flops_per_step(&model, 1536, 2048, ScoreCount::Full, r);
    close(hardware(Recompute::Full), recomputed, 1e-9);
    close(hardware(Recompute::None), own, 1e-12);
    // Korthikanti et al., arXiv 2205.05198, appendix A: 72 B s l h² (1 + s/6h + V/12lh) and
    // 24 B s l h² · s/6h more for selective recomputation (a third of the scores' three passes).
    let (h, s, l) = (12_288.0_f64, 2048.0, 96.0);
    let more = 24.0 * 1536.0 * s * l * h * h * s / (6.0 * h);
    close(hardware(Recompute::Selective) - own, more, 1e-6);
}

#[test]
fn days_of_a_training() {
    // formulas.md F3b, arXiv 2104.04473 section 5.1: 34 and 84 days.
    close(training_days(175e9, 300e9, 1024, 140e12), 33.9, 2e-3);
    close(training_days(1.008e12, 450e9, 3072, 163e12), 83.9, 2e-3);
}

#[test]
fn llm_foundrys_utilisation() {
    // mosaicml/llm-foundry scripts/train/benchmarking/README.md: tokens per second on H100 of
    // 989.5 TFLOP/s, MFU and HFU in percent. MFU is PaLM's count.
    for (name, sequence, gpus, tokens_per_s, mfu, hfu) in [
        ("mpt-70b", 2048, 512, 515_636.0, 41.25, 55.0),
        ("mpt-30b", 2048, 128, 281_491.0, 41.85, 55.8),
        ("mpt-7b", 8192, 8, 55_481.0, 37.14, 49.52),
    ] {
        let model = ModelSpec {
            sequence,
            ..model(name)
        };
        let n = parameters(&model).total();
        let flops = palm_per_token(&model, n, sequence, ScoreCount::Full);
        let got = model_flops_utilisation(flops * tokens_per_s, 1.0, gpus, 989.5e12);
        close(100.0 * got, mfu, 2e-3);
        close(100.0 * got * 4.0 / 3.0, hfu, 2e-3);
    }
}

#[test]
fn active_parameters_make_the_flops_of_experts() {
    let sparse = model("mixtral-8x7b");
    let per_token = model_flops_per_token(&sparse, 1, ScoreCount::Full);
    let lookup = 32_000 * 4096;
    let six = six_n(parameters(&sparse).active() - lookup, 1.0);
    close(per_token, six, 1e-3);
}

#[test]
fn faults_of_a_shape_say_what_would_do() {
    let mut wrong = model("llama3-8b");
    wrong.kv_heads = Some(7);
    wrong.heads = 30;
    let text = wrong.check().unwrap_err().to_string();
    assert!(text.starts_with("2 faults\n"), "{text}");
    assert!(
        text.contains("a divisor of hidden (4096), such as 16 or 32"),
        "{text}"
    );
    assert!(text.contains("a divisor of heads (30), such as 6 or 10"));
    let zero = ModelSpec {
        layers: 0,
        ..model("gpt2-124m")
    };
    assert!(zero.check().unwrap_err().to_string().contains("from 1 to"));
    let mut many = model("mixtral-8x7b");
    if let Some(experts) = &mut many.experts {
        experts.per_token = 9;
    }
    let text = many.check().unwrap_err().to_string();
    assert!(text.contains("at most experts.count (8)"), "{text}");
    let unknown = r#"{"layers":1,"hidden":8,"heads":1,"ffn":8,"vocabulary":8,"sequence":8,"x":1}"#;
    assert!(serde_json::from_str::<ModelSpec>(unknown).is_err());
}
