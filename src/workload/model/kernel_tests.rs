//! Kernels against the closed forms of FLOPs, and against shapes worked out by hand.

use super::ends::*;
use super::flops::{Recompute, ScoreCount, hardware_flops_per_step, model_flops_per_step};
use super::kernel::*;
use super::layer::layer_kernels;
use super::presets::{find, names};
use super::spec::ModelSpec;

fn model(name: &str) -> ModelSpec {
    find(name).unwrap().model.clone()
}

fn close(got: f64, expected: f64, tolerance: f64) {
    let off = (got / expected - 1.0).abs();
    assert!(off <= tolerance, "got {got:e}, expected {expected:e}");
}

const ONE: MicroBatch = MicroBatch {
    sequences: 1,
    tokens: 2048,
};

/// Operations of a whole step of one micro-batch on one GPU of `sharding`: forward, recomputed
/// and backward.
fn step(model: &ModelSpec, sharding: &Sharding, style: &Style) -> [f64; 3] {
    let mut sums = [0.0; 3];
    let mut add = |kernels: LayerKernels| {
        sums[0] += flops(&kernels.forward);
        sums[1] += flops(&kernels.recompute);
        sums[2] += flops(&kernels.backward);
    };
    for layer in 0..model.layers {
        add(layer_kernels(model, layer, ONE, sharding, style).unwrap());
    }
    add(head_kernels(model, ONE, sharding, style).unwrap());
    sums
}

#[test]
fn kernels_add_up_to_the_closed_form() {
    for name in names() {
        let model = model(name);
        // Unfused attention counts all scores, as the closed form does.
        for recompute in [Recompute::None, Recompute::Selective, Recompute::Full] {
            let style = Style {
                recompute,
                ..Style::MEGATRON_2021
            };
            let sum: f64 = step(&model, &Sharding::WHOLE, &style).iter().sum();
            let all = ScoreCount::Full;
            let expected = hardware_flops_per_step(&model, 1, 2048, all, recompute);
            // The head's padding and routers' biases are the rest.
            close(sum, expected, 1e-5);
        }
        let [forward, again, _] = step(&model, &Sharding::WHOLE, &Style::MODERN);
        let expected = model_flops_per_step(&model, 1, 2048, ScoreCount::Causal);
        close(3.0 * forward, expected, 1e-5);
        assert_eq!(again, 0.0);
    }
}

#[test]
fn a_split_layer_does_its_share() {
    let model = model("llama3-70b");
    let whole = layer_kernels(&model, 0, ONE, &Sharding::WHOLE, &Style::MODERN).unwrap();
    let sharding = Sharding {
        tp: 8,
        cp: 2,
        ep: 1,
        sequence_parallel: true,
    };
    let part = layer_kernels(&model, 0, ONE, &sharding, &Style::MODERN).unwrap();
    for (one, all) in [
        (&part.forward, &whole.forward),
        (&part.backward, &whole.backward),
    ] {
        close(16.0 * flops(one), flops(all), 1e-12);
    }
    let qkv = part.forward.iter().find(|k| k.name == "qkv").unwrap();
    let shape = GemmShape {
        m: 1024,
        n: (64 + 2 * 8) / 8 * 128,
        k: 8192,
        batch: 1,
        widths: [8192, 1280],
    };
    assert_eq!(qkv.kind, KernelKind::Gemm(shape));
    assert_eq!(qkv.flops, 2.0 * 1024.0 * 1280.0 * 8192.0);
    let elements = 1024 * 8192 + 8192 * 1280 + 1024 * 1280;
    assert_eq!(qkv.bytes, 2.0 * f64::from(elements));
    // The norm has only its piece of the sequence: 128 rows.
    assert_eq!(part.forward[0].bytes, 2.0 * 2.0 * 128.0 * 8192.0);
    assert_eq!(part.forward[0].part, Part::AttentionEntry);
}

#[test]
fn flash_attention_keeps_scores_on_the_chip() {
    let model = model("gpt3-175b");
    let layer = |attention| {
        let style = Style {
            attention,
            ..Style::MEGATRON_2021
        };
        layer_kernels(&model, 0, ONE, &Sharding::WHOLE, &style).unwrap()
    };
    let (flash, unfused) = (
        layer(AttentionKernel::Flash),
        layer(AttentionKernel::Unfused),
    );
    let named = |list: &[Kernel], name: &str| *list.iter().find(|k| k.name == name).unwrap();
    let forward = named(&flash.forward, "flash_attention");
    // 4 s² h, half of it skipped.
    assert_eq!(forward.flops, 2.0 * 2048.0 * 2048.0 * 12_288.0);
    let backward = named(&flash.backward, "flash_attention_backward");
    assert_eq!(backward.flops, 2.5 * forward.flops);
    let scores = 96.0 * 2048.0 * 2048.0;
    assert_eq!(named(&unfused.forward, "mask_softmax").bytes, 4.0 * scores);
    let dropout = named(&unfused.backward, "attention_dropout_backward");
    assert_eq!(dropout.bytes, 5.0 * scores);
    assert!(bytes(&flash.forward) < bytes(&unfused.forward));
    // Backward, the last kernels of the forward pass come first.
    assert_eq!(flash.backward[0].name, "mlp_residual_backward");
    let last = flash.backward.last().unwrap();
    assert_eq!(last.name, "attention_norm_backward");
}

#[test]
fn recomputation_repeats_what_it_says() {
    let model = model("megatron-22b");
    let layer = |recompute| {
        let style = Style {
            recompute,
            ..Style::MEGATRON_2021
        };
        layer_kernels(&model, 0, ONE, &Sharding::WHOLE, &style).unwrap()
    };
    let selective: Vec<_> = layer(Recompute::Selective)
        .recompute
        .iter()
        .map(|k| k.name)
        .collect();
    let core = ["scores", "mask_softmax", "attention_dropout", "context"];
    assert_eq!(selective, core);
    let full = layer(Recompute::Full);
    assert_eq!(full.recompute, full.forward);
    let pass = full.backward_pass().count();
    assert_eq!(pass, full.forward.len() + full.backward.len());
}

#[test]
fn experts_share_tokens_evenly() {
    let model = model("mixtral-8x7b");
    let sharding = Sharding {
        ep: 4,
        ..Sharding::WHOLE
    };
    let layer = layer_kernels(&model, 0, ONE, &sharding, &Style::MODERN).unwrap();
    let up = layer
        .forward
        .iter()
        .find(|k| k.part == Part::Experts)
        .unwrap();
    // 2048 tokens on each of four GPUs, two experts each, eight experts: 2048 for an expert.
    let shape = GemmShape {
        m: 2048,
        n: 2 * 14_336,
        k: 4096,
        batch: 2,
        widths: [4096, 2 * 14_336],
    };
    assert_eq!(up.kind, KernelKind::Gemm(shape));
    let dispatch = layer.forward.iter().find(|k| k.name == "dispatch").unwrap();
    assert_eq!(dispatch.bytes, 2.0 * 2048.0 * 4096.0 * 3.0);
}

#[test]
fn eight_bit_operands_are_cast_first() {
    let model = model("llama3-8b");
    let style = Style {
        operand_width: 1,
        ..Style::MODERN
    };
    let plain = layer_kernels(&model, 0, ONE, &Sharding::WHOLE, &Style::MODERN).unwrap();
    let eight = layer_kernels(&model, 0, ONE, &Sharding::WHOLE, &style).unwrap();
    let casts = eight.forward.iter().filter(|k| k.name == "cast_input");
    assert_eq!(casts.count(), 4);
    assert_eq!(flops(&plain.forward), flops(&eight.forward));
}

/// Rows of logits are padded as in Megatron-LM, or as long as the vocabulary.
#[test]
fn rows_of_logits_may_be_padded() {
    for (padded_rows, row) in [(true, 50_304), (false, 50_257)] {
        let style = Style {
            padded_rows,
            ..Style::MODERN
        };
        let sharding = Sharding::WHOLE;
        let head = head_kernels(&model("gpt2-124m"), ONE, &sharding, &style).unwrap();
        let products = head.forward.iter().chain(&head.backward);
        let widths: Vec<[u64; 2]> = products
            .filter_map(|kernel| match kernel.kind {
                KernelKind::Gemm(shape) => Some(shape.widths),
                _ => None,
            })
            .collect();
        assert_eq!(widths, [[768, row]; 3]);
    }
    // GPT-J's 50,400 entries are 6,300 on each of 8 GPUs, which is no multiple of 8.
    let gpt_j = model("gpt-j-6b");
    assert_eq!(
        [1, 4, 8].map(|tp| gpt_j.padded_vocabulary(tp)),
        [50400, 50400, 51200]
    );
}

#[test]
fn bytes_of_ends_and_of_the_optimiser() {
    let adam = optimiser_kernels(1000, &StateWidths::MIXED_FP32_GRADIENTS);
    assert_eq!(bytes(&adam), 34_000.0);
    assert_eq!(bytes(&optimiser_kernels(1, &StateWidths::MIXED)), 30.0);
    assert_eq!(gradient_accumulation(10, 2, 4).bytes, 100.0);
    assert_eq!(gradient_cast(10, 4, 2).bytes, 60.0);

    // GPT-3's 50,257 entries are 51,200 on 8 GPUs.
    let model = model("gpt3-175b");
    let sharding = Sharding {
        tp: 8,
        ..Sharding::WHOLE
    };
    let head = head_kernels(&model, ONE, &sharding, &Style::MODERN).unwrap();
    let product = head.forward.iter().find(|k| k.name == "head").unwrap();
    assert_eq!(product.flops, 2.0 * 2048.0 * 6400.0 * 12_288.0);
    let loss = head.forward.last().unwrap();
    assert_eq!(loss.bytes, 4.0 * 2048.0 * 6400.0);
    let embedding = embedding_kernels(&model, ONE, &sharding, &Style::MODERN).unwrap();
    assert_eq!(bytes(&embedding.forward), 3.0 * 2.0 * 2048.0 * 12_288.0);
}

#[test]
fn what_cannot_be_split_is_refused() {
    let model = model("llama3-8b");
    let sharding = Sharding {
        tp: 3,
        ..Sharding::WHOLE
    };
    let text = layer_kernels(&model, 0, ONE, &sharding, &Style::MODERN)
        .unwrap_err()
        .to_string();
    assert!(text.contains("a divisor of heads (32), such as 2 or 4"));
    let text = layer_kernels(&model, 32, ONE, &Sharding::WHOLE, &Style::MODERN)
        .unwrap_err()
        .to_string();
    assert!(text.contains("at most 31"), "{text}");
}
