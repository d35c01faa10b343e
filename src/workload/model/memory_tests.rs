//! Memory against the papers' formulas and figures.

use super::activations::{kv_cache_per_token, layer_activations};
use super::checkpoint::saved_state;
use super::ends::StateWidths;
use super::flops::Recompute;
use super::kept::groups_in_flight;
use super::kernel::{AttentionKernel, MicroBatch, Sharding, Style};
use super::layout::{Batch, Layout};
use super::memory::*;
use super::parameters::parameters;
use super::presets::find;
use super::spec::ModelSpec;
use crate::pipeline::Schedule;
use fabricsim_units::Bytes;

fn model(name: &str) -> ModelSpec {
    find(name).unwrap().model.clone()
}

fn close(got: f64, expected: f64, tolerance: f64) {
    let off = (got / expected - 1.0).abs();
    assert!(off <= tolerance, "got {got:e}, expected {expected:e}");
}

fn plan(layout: Layout, batch: Batch, style: Style) -> MemoryPlan {
    MemoryPlan {
        layout,
        batch,
        style,
        schedule: Schedule::OneForwardOneBackward,
        zero: Zero::None,
        shards: 0,
        whole_layers: Some(2),
        summed_layers: 1,
        whole_gradients: false,
        reduced_width: 2,
        logit_bytes: 4,
        widths: StateWidths::MIXED,
        offloaded: Offloaded::default(),
        second_gradient: 0,
        bucket: Bytes::ZERO,
        carried: 0,
        averaged: 0,
        nccl: Bytes::ZERO,
        context: Bytes::ZERO,
        fragmentation: Fragmentation::default(),
    }
}

/// Means of weights are taken when activations are gone: only what is more than these is beside them.
#[test]
fn a_mean_of_weights_takes_the_place_of_activations() {
    let model = model("llama3-8b");
    let of = |sequence, averaged| {
        let batch = Batch {
            global: 1,
            micro: 1,
            sequence,
        };
        let plan = MemoryPlan {
            averaged,
            ..plan(Layout::default(), batch, Style::MODERN)
        };
        stage_memory(&model, &plan, 0).unwrap()
    };
    let few = of(128, 4);
    let weights = 4 * parameters(&model).total();
    assert_eq!(
        few.transient.get(),
        weights - few.activations.get(),
        "{few:?}"
    );
    assert_eq!(of(65_536, 4), of(65_536, 0));
}

/// Whole weights that the first stage gathers.
fn gathered(model: &ModelSpec, plan: &MemoryPlan) -> u64 {
    let held = stage_parameters(model, &plan.layout, 0);
    super::transients::whole(plan, &held).weights
}

#[test]
fn bytes_of_a_parameter() {
    // formulas.md M1.
    assert_eq!(StateWidths::MIXED.all(), 16);
    assert_eq!(StateWidths::MIXED_FP32_GRADIENTS.all(), 18);
}

#[test]
fn zero_shares_states() {
    // formulas.md M2, arXiv 1910.02054 figure 1: 120, 31.4, 16.6 and 1.9 GB for 7.5e9 parameters
    // on 64 GPUs; here of a model with about as many.
    let model = model("mpt-7b");
    let n = super::parameters::parameters(&model).total() as f64;
    let batch = Batch {
        global: 64,
        micro: 1,
        sequence: 2048,
    };
    let layout = Layout {
        dp: 64,
        ..Layout::default()
    };
    for (zero, gigabytes) in [
        (Zero::None, 120.0),
        (Zero::Optimiser, 31.40625),
        (Zero::Gradients, 16.640625),
        (Zero::Weights, 1.875),
    ] {
        let plan = MemoryPlan {
            zero,
            ..plan(layout, batch, Style::MODERN)
        };
        let memory = stage_memory(&model, &plan, 0).unwrap();
        let states = memory.weights.get() + memory.gradients.get() + memory.optimiser.get();
        close(states as f64 / n * 7.5, gigabytes, 1e-6);
        assert_eq!(gathered(&model, &plan) != 0, zero == Zero::Weights);
    }
}

#[test]
fn layers_may_be_fetched_ahead_without_limit() {
    let model = model("llama3-70b");
    let batch = Batch {
        global: 32,
        micro: 1,
        sequence: 2048,
    };
    let layout = Layout {
        dp: 32,
        ..Layout::default()
    };
    let of = |layers| {
        let plan = MemoryPlan {
            zero: Zero::Weights,
            whole_layers: layers,
            ..plan(layout, batch, Style::MODERN)
        };
        gathered(&model, &plan)
    };
    assert_eq!(of(Some(u32::MAX)), of(None));
}

/// Llama 3 70B on 32 GPUs of which groups of so many share weights: 2 + 2 + 12 bytes of 70.55e9
/// parameters over each, by hand.
#[test]
fn hybrid_sharding_divides_over_its_groups_only() {
    let model = model("llama3-70b");
    let layout = Layout {
        dp: 32,
        ..Layout::default()
    };
    let batch = Batch {
        global: 32,
        micro: 1,
        sequence: 4096,
    };
    for (shards, weights, gradients, optimiser) in [
        (0, 4.41, 4.41, 26.46),
        (32, 4.41, 4.41, 26.46),
        (16, 8.82, 8.82, 52.92),
        (8, 17.64, 17.64, 105.83),
        (4, 35.28, 35.28, 211.66),
        (1, 141.11, 141.11, 846.64),
    ] {
        let plan = MemoryPlan {
            zero: Zero::Weights,
            shards,
            ..plan(layout, batch, Style::MODERN)
        };
        let memory = stage_memory(&model, &plan, 0).unwrap();
        for (got, gigabytes) in [
            (memory.weights, weights),
            (memory.gradients, gradients),
            (memory.optimiser, optimiser),
        ] {
            close(got.get() as f64 / 1e9, gigabytes, 1e-3);
        }
        // The table of tokens, 128,256 × 8,192, is larger than a layer.
        let least = if shards == 1 { 0 } else { 2 * 128_256 * 8_192 };
        let found = gathered(&model, &plan);
        assert!(found >= least);
        assert_eq!(found == 0, shards == 1);
        assert!(memory.transient.get() >= found);
    }
}

/// Weights that stay between forward and backward pass are all there; those asked for ahead are
/// beside the layer that computes.
#[test]
fn gathered_weights_are_as_many_as_the_job_keeps() {
    let model = model("llama3-70b");
    let layout = Layout {
        dp: 32,
        ..Layout::default()
    };
    let batch = Batch {
        global: 32,
        micro: 1,
        sequence: 4096,
    };
    let of = |whole_layers| {
        let plan = MemoryPlan {
            zero: Zero::Weights,
            whole_layers,
            ..plan(layout, batch, Style::MODERN)
        };
        gathered(&model, &plan)
    };
    let layer = 8192 * (2 * 8192 + 2 * 1024 + 3 * 28_672 + 2);
    // The output is gathered with the norm before it.
    let output = 128_256 * 8192 + 8192;
    assert_eq!(of(Some(1)), 2 * output);
    assert_eq!(of(Some(3)), 2 * (output + 2 * layer));
    let held = stage_parameters(&model, &layout, 0);
    assert_eq!(of(None), 2 * held.dense);
    assert_eq!(of(Some(1000)), 2 * held.dense);
}

#[test]
fn activations_of_a_layer() {
    // formulas.md M3, arXiv 2205.05198 table 2: s 2048, b 1, h 12288, a 96, t 8.
    let model = model("gpt3-175b");
    let batch = MicroBatch {
        sequences: 1,
        tokens: 2048,
    };
    let split = Sharding {
        tp: 8,
        ..Sharding::WHOLE
    };
    let along = Sharding {
        sequence_parallel: true,
        ..split
    };
    let keep = Style::MEGATRON_2021;
    let style = |recompute| Style { recompute, ..keep };
    let flash = Style {
        attention: AttentionKernel::Flash,
        ..keep
    };
    for (sharding, style, gigabytes) in [
        (Sharding::WHOLE, keep, 2.8689),
        (split, keep, 0.57881),
        (along, keep, 0.35861),
        (along, style(Recompute::Selective), 0.106955),
        (along, flash, 0.106955),
        (split, style(Recompute::Full), 0.050332),
    ] {
        let bytes = layer_activations(&model, 0, batch, &sharding, &style);
        close(bytes as f64 / 1e9, gigabytes, 2e-5);
    }
    // 34 sbh/t, exactly.
    let bytes = layer_activations(&model, 0, batch, &along, &style(Recompute::Selective));
    assert_eq!(bytes, 34 * 2048 * 12_288 / 8);
}

#[test]
fn figure_1_of_korthikanti() {
    // arXiv 2205.05198 figure 1 in GiB, as quoted in calculon's validation.py: parameters and
    // optimiser of 18 bytes a parameter for 12 l h² of them; activations without and with sequence
    // parallelism and selective recomputation, on the first stage.
    for (name, pp, v, micro, states, none, selective) in [
        ("megatron-22b", 1, 1, 4, 45.5625, 59.25, 9.5625),
        ("gpt3-175b", 8, 3, 1, 45.5625, 66.84375, 12.3515625),
        (
            "turing-530b",
            35,
            3,
            1,
            31.640625,
            114.0234375,
            23.076171875,
        ),
        ("megatron-1t", 64, 1, 1, 32.958984375, 131.25, 26.5625),
    ] {
        let model = model(name);
        let layout = Layout {
            tp: 8,
            pp,
            virtual_stages: v,
            ..Layout::default()
        };
        let batch = Batch {
            global: micro * u64::from(pp) * 8,
            micro,
            sequence: 2048,
        };
        let run = |layout, recompute| {
            let style = Style {
                recompute,
                ..Style::MEGATRON_2021
            };
            let plan = MemoryPlan {
                widths: StateWidths::MIXED_FP32_GRADIENTS,
                ..plan(layout, batch, style)
            };
            stage_memory(&model, &plan, 0).unwrap()
        };
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);

        // The figure leaves out embeddings, and their dropout's masks.
        let sharding = layout.sharding();
        let micro_batch = MicroBatch {
            sequences: micro,
            tokens: 2048,
        };
        let in_flight = groups_in_flight(
            &layout,
            Schedule::OneForwardOneBackward,
            u64::from(pp) * 8,
            0,
        );
        let of_layers = |sharding: &Sharding, recompute| {
            let style = Style {
                recompute,
                ..Style::MEGATRON_2021
            };
            let one = layer_activations(&model, 0, micro_batch, sharding, &style);
            one * in_flight * (model.layers / u64::from(pp * v))
        };
        let along = Sharding {
            sequence_parallel: true,
            ..sharding
        };
        close(gib(of_layers(&sharding, Recompute::None)), none, 1e-9);
        let kept = of_layers(&along, Recompute::Selective);
        close(gib(kept), selective, 1e-9);

        let memory = run(layout, Recompute::None);
        let more = memory.activations.get() - of_layers(&sharding, Recompute::None);
        let masks = micro * 2048 * model.hidden * in_flight.div_ceil(u64::from(v));
        assert_eq!(more, masks);
        let held = memory.weights.get() + memory.gradients.get() + memory.optimiser.get();
        let bare = 12 * model.layers * model.hidden.pow(2) / (8 * u64::from(pp)) * 18;
        close(gib(bare), states, 1e-9);
        // What the figure leaves out: the tables of tokens and places, and a little for biases
        // and norms.
        let tables = (51_200 / 8 + 2048) * model.hidden * 18;
        close((held - bare) as f64, tables as f64 * 1.02, 0.025);
    }
}

#[test]
fn keys_and_values_of_a_token() {
    // formulas.md M4.
    for (name, bytes) in [
        ("llama3-8b", 131_072),
        ("llama3-70b", 327_680),
        ("llama3-405b", 516_096),
        ("gpt3-175b", 4_718_592),
        ("deepseek-v3", 70_272),
    ] {
        assert_eq!(kv_cache_per_token(&model(name), 2), bytes, "{name}");
    }
}

#[test]
fn micro_batches_in_flight() {
    // formulas.md PP3: GPipe m, one-forward-one-backward min(m, p - i).
    let layout = Layout {
        pp: 4,
        ..Layout::default()
    };
    let flying = |schedule, stage| groups_in_flight(&layout, schedule, 8, stage);
    assert_eq!(flying(Schedule::Gpipe, 0), 8);
    assert_eq!(flying(Schedule::OneForwardOneBackward, 0), 4);
    assert_eq!(flying(Schedule::OneForwardOneBackward, 3), 1);
    let few = groups_in_flight(&layout, Schedule::OneForwardOneBackward, 2, 0);
    assert_eq!(few, 2);
}

#[test]
fn stages_hold_the_whole_model() {
    let model = model("deepseek-v3");
    let layout = Layout {
        pp: 1,
        ..Layout::default()
    };
    let held = stage_parameters(&model, &layout, 0);
    let whole = super::parameters::parameters(&model).total();
    assert_eq!(held.dense + held.experts, whole);
    let layout = Layout {
        ep: 64,
        dp: 128,
        ..Layout::default()
    };
    let spread = stage_parameters(&model, &layout, 0);
    assert_eq!(spread.experts, held.experts / 64);
    assert_eq!(spread.dense, held.dense);
}

#[test]
fn the_answer_says_what_is_missing() {
    let model = model("llama3-8b");
    let batch = Batch {
        global: 8,
        micro: 1,
        sequence: 8192,
    };
    let layout = Layout {
        dp: 8,
        ..Layout::default()
    };
    let plain = plan(layout, batch, Style::MODERN);
    let capacity = Bytes::parse("80GB").unwrap();
    let (stage, memory) = peak_memory(&model, &plain).unwrap();
    let fit = memory.fits(capacity);
    assert_eq!(stage, 0);
    assert!(!fit.fits());
    assert_eq!(fit.missing.get() + capacity.get(), fit.total().get());
    let shared = MemoryPlan {
        zero: Zero::Weights,
        style: Style {
            recompute: Recompute::Full,
            ..Style::MODERN
        },
        ..plain
    };
    let (_, memory) = peak_memory(&model, &shared).unwrap();
    assert!(memory.fits(capacity).fits());
}

/// A GPT of h 12,288, a 96, s 2,048, b 1 on tp 8, all activations recomputed: by hand from the table of
/// arXiv 2205.05198 and what is alive backward.
#[test]
fn a_layer_that_is_computed_again_is_there_for_a_while() {
    let model = model("gpt3-175b");
    let (h, s) = (12_288, 2048);
    let layout = Layout {
        tp: 8,
        pp: 8,
        ..Layout::default()
    };
    let batch = Batch {
        global: 64,
        micro: 1,
        sequence: s,
    };
    let style = Style {
        recompute: Recompute::Full,
        ..Style::MEGATRON_2021
    };
    let memory = stage_memory(&model, &plan(layout, batch, style), 1).unwrap();
    let again = s * h * (10 + 24 / 8) + 5 * 96 * s * s / 8 - 2 * s * h;
    let gradients = 2 * 2 * s * h + 2 * 2 * 96 * s * s / 8;
    let optimiser = 4 * stage_parameters(&model, &layout, 1).dense - memory.activations.get();
    let expected = (again + gradients).max(optimiser);
    assert_eq!(memory.transient.get(), expected);
    // Gradients that are kept in FP32 are the optimizer's.
    let wide = MemoryPlan {
        widths: StateWidths::MIXED_FP32_GRADIENTS,
        ..plan(layout, batch, style)
    };
    let memory = stage_memory(&model, &wide, 1).unwrap();
    assert_eq!(memory.transient.get(), again + gradients);
}

/// Logits of 4,096 tokens and 128,256 entries over tp 8, in as many bytes as the loss has of each.
#[test]
fn logits_are_there_on_the_last_stage() {
    let model = model("llama3-8b");
    let layout = Layout {
        tp: 8,
        pp: 2,
        ..Layout::default()
    };
    let batch = Batch {
        global: 64,
        micro: 1,
        sequence: 4096,
    };
    let of = |logit_bytes, stage| {
        let plan = MemoryPlan {
            logit_bytes,
            widths: StateWidths::MIXED_FP32_GRADIENTS,
            ..plan(layout, batch, Style::MODERN)
        };
        stage_memory(&model, &plan, stage).unwrap().transient.get()
    };
    let logits = 4096 * 128_256 / 8;
    let inputs = 2 * 2 * 4096 * 4096;
    assert_eq!(of(12, 1), 12 * logits + inputs);
    assert_eq!(of(10, 1), 10 * logits + inputs);
    assert_eq!(of(4, 1), 4 * logits + 2 * inputs);
    assert_eq!(of(12, 0), of(4, 0));
    assert!(of(4, 0) < 2 * logits);
}

/// Inside a pipeline PyTorch's FSDP keeps weights and gradients whole between micro-batches.
#[test]
fn whole_gradients_are_not_divided() {
    let model = model("llama3-8b");
    let layout = Layout {
        dp: 8,
        pp: 2,
        ..Layout::default()
    };
    let batch = Batch {
        global: 64,
        micro: 1,
        sequence: 4096,
    };
    let of = |whole_gradients| {
        let plan = MemoryPlan {
            zero: Zero::Weights,
            whole_gradients,
            ..plan(layout, batch, Style::MODERN)
        };
        stage_memory(&model, &plan, 0).unwrap()
    };
    assert_eq!(of(true).gradients.get(), 8 * of(false).gradients.get());
    assert_eq!(of(true).weights, of(false).weights);
}

/// In FP8 products keep their inputs in one byte: of a GPT with flash attention 34 - 2 (norms' results) -
/// 4 (the last matrix's input) + 1 (the attention's result, cast) a row and element of h.
#[test]
fn products_in_fp8_keep_inputs_of_one_byte() {
    let model = model("gpt3-175b");
    let batch = MicroBatch {
        sequences: 1,
        tokens: 2048,
    };
    let of = |operand_width| {
        let style = Style {
            operand_width,
            dropout: true,
            ..Style::MODERN
        };
        layer_activations(&model, 0, batch, &Sharding::WHOLE, &style)
    };
    assert_eq!(of(2), 34 * 2048 * 12_288);
    assert_eq!(of(1), (34 - 2 - 4 + 1) * 2048 * 12_288);
}

/// Of a token each of its experts keeps a row of its own: DeepSeek-V3's layers, by hand.
#[test]
fn experts_keep_a_row_for_each_of_theirs() {
    let model = model("deepseek-v3");
    let batch = MicroBatch {
        sequences: 1,
        tokens: 4096,
    };
    let layer = |index| layer_activations(&model, index, batch, &Sharding::WHOLE, &Style::MODERN);
    // Against a dense layer's MLP of 18,432: 8 copies of 7,168, and 8 + 1 experts of 2,048.
    let more = 2 * (8 * 7168 + 9 * 3 * 2048);
    assert_eq!(layer(60) - layer(0), 4096 * (more - 2 * 3 * 18_432));
}

#[test]
fn free_blocks_take_what_is_left_but_not_less_than_stays() {
    let parts = MemoryBreakdown {
        weights: Bytes::new(1_000_000),
        fragmentation: Fragmentation {
            usual: 0.2,
            least: 0.1,
        },
        ..MemoryBreakdown::default()
    };
    let at = |capacity| {
        let fit = parts.fits(Bytes::new(capacity));
        let held = Bytes::new(fit.fragmentation.get() + fit.reserve.get());
        let numbers = [held, fit.free, fit.missing];
        (numbers.map(Bytes::get), fit.total().get(), fit.fits())
    };
    // The need is the same, however much is left beside it.
    let reserve = |capacity| parts.fits(Bytes::new(capacity)).reserve.get();
    let reserves = [2_000_000, 1_200_000, 1_111_111, 1_000_000].map(reserve);
    assert_eq!(reserves, [138_889, 88_889, 0, 0]);
    assert_eq!(parts.needed().get(), 1_111_111);
    assert_eq!(at(2_000_000), ([250_000, 750_000, 0], 1_250_000, true));
    assert_eq!(at(1_200_000), ([200_000, 0, 0], 1_200_000, true));
    assert_eq!(at(1_111_111), ([111_111, 0, 0], 1_111_111, true));
    assert_eq!(at(1_000_000), ([111_111, 0, 111_111], 1_111_111, false));
}

#[test]
fn a_checkpoint_has_each_parameter_once() {
    let model = model("mixtral-8x7b");
    let parameters = parameters(&model).total();
    let batch = Batch {
        global: 32,
        micro: 1,
        sequence: 2048,
    };
    for (cp, ep, shards) in [
        (1, 1, 0),
        (2, 1, 0),
        (1, 4, 0),
        (2, 8, 0),
        (1, 2, 4),
        (2, 8, 4),
    ] {
        for zero in [Zero::None, Zero::Optimiser, Zero::Weights] {
            let layout = Layout {
                cp,
                ep,
                dp: 8,
                ..Layout::default()
            };
            let plan = MemoryPlan {
                zero,
                shards,
                ..plan(layout, batch, Style::MODERN)
            };
            let states = (0..8 * cp).map(|copy| saved_state(&model, &plan, 0, copy));
            let written: u64 = states.clone().map(|state| state.written.get()).sum();
            // 2 and 12 bytes of each; parts are rounded up to whole bytes.
            let most = 14 * parameters + 64;
            assert!(
                (14 * parameters..=most).contains(&written),
                "{cp} {ep} {shards} {zero:?}: {written} of {parameters}"
            );
            let memory = stage_memory(&model, &plan, 0).unwrap();
            let held = memory.weights.get() + memory.optimiser.get();
            let read: Vec<u64> = states.map(|state| state.read.get()).collect();
            assert!(read.iter().all(|&read| read.abs_diff(held) <= 2));
        }
    }
}
