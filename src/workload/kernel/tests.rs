//! Laws against limits that can be calculated by hand.

use super::parameters::FILE;
use super::*;
use fabricsim_topology::catalogue;
use fabricsim_topology::hardware::DeviceModel;
use fabricsim_units::{Bandwidth, Bytes};
use proptest::prelude::*;

fn law(gpu: &str) -> KernelLaw<'static> {
    let DeviceModel::Gpu(model) = &catalogue::hardware().devices[gpu] else {
        panic!("{gpu} is no GPU");
    };
    KernelLaw::new(model).unwrap()
}

fn gemm(m: u64, n: u64, k: u64, data: DataType) -> Kernel {
    Kernel::Gemm(Gemm {
        m,
        n,
        k,
        weights: data,
        activations: data,
        quantise: false,
    })
}

fn decode(sequences: u64, context: u64, format: AttentionFormat) -> Kernel {
    Kernel::AttentionDecode(AttentionDecode {
        sequences,
        context,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        format,
    })
}

fn prefill(tokens: u64, prefix: u64) -> Kernel {
    Kernel::AttentionPrefill(AttentionPrefill {
        sequences: 1,
        tokens,
        prefix,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        format: AttentionFormat::Bf16,
    })
}

fn moe(routing: Routing) -> Moe {
    Moe {
        load: ExpertLoad::of(&routing),
        hidden: 7168,
        inter: 2048,
        weights: DataType::Fp8Block,
        activations: DataType::Fp8Block,
    }
}

/// How often `part` is in the whole.
fn share(part: f64, whole: Time) -> f64 {
    part / whole.seconds()
}

/// Rows of memory that are no multiples of 16 bytes are loaded in smaller pieces; how many tokens there are does not
/// matter.
#[test]
fn widths_that_are_no_multiples_of_16_bytes_are_slower() {
    let (a100, h100) = (law("a100-sxm-40gb"), law("h100-sxm"));
    let time = |law: &KernelLaw<'_>, m, n, k, data| law.time(&gemm(m, n, k, data)).seconds();
    let whole = time(&a100, 8192, 4096, 4096, DataType::Bf16);
    let over = |m, n, k| time(&a100, m, n, k, DataType::Bf16) / whole;
    // One column more takes no tile more than eight more do.
    let eight = over(8192, 4104, 4096);
    assert!((over(8192, 4097, 4096) / eight / 1.8 - 1.0).abs() < 0.02);
    assert!((over(8192, 4096, 4097) / 1.8 - 1.0).abs() < 0.02);
    assert!((over(8191, 4096, 4096) - 1.0).abs() < 1e-3);
    // Of eight bits 16 values are 16 bytes.
    let narrow = |n| time(&h100, 8192, n, 4096, DataType::Fp8);
    assert!(narrow(4104) / narrow(4112) > 1.5);
    // What memory limits is slower by less.
    let few = |n| time(&a100, 1, n, 4096, DataType::Bf16);
    assert!(few(50_257) < 1.2 * few(50_304));
}

/// One kernel of each family.
fn one_of_each() -> Vec<Kernel> {
    let routing = Routing {
        tokens: 64,
        experts: 128,
        local: 128,
        top_k: 8,
        skew: Skew::Even,
    };
    let (widths, format) = (MlaWidths::DEEPSEEK, AttentionFormat::Fp8);
    vec![
        gemm(16, 4096, 4096, DataType::Nvfp4),
        prefill(128, 0),
        decode(8, 8192, format),
        Kernel::MlaPrefill(MlaPrefill {
            sequences: 1,
            tokens: 128,
            prefix: 0,
            heads: 16,
            widths,
            format,
        }),
        Kernel::MlaDecode(MlaDecode {
            sequences: 1,
            context: 128,
            heads: 16,
            widths,
            format,
        }),
        Kernel::Moe(moe(routing)),
        Kernel::Small(Small::norm(16, 4096)),
        Kernel::AllReduce(CustomAllReduce {
            ranks: 8,
            size: Bytes::from_kib(64),
            port: Bandwidth::from_gb_per_sec(450),
        }),
    ]
}

#[test]
fn every_gpu_whose_sms_are_known_has_a_law_for_every_kernel() {
    for (name, model) in &catalogue::hardware().devices {
        let DeviceModel::Gpu(model) = model else {
            continue;
        };
        if model.sms.is_none() {
            continue;
        }
        let law = KernelLaw::new(model).unwrap();
        for kernel in one_of_each() {
            assert!(law.entry(&kernel).is_some(), "{name}: {kernel:?}");
        }
    }
}

#[test]
fn a_product_of_few_tokens_takes_its_weights_at_the_memorys_rate() {
    // 8192 x 28672 weights of 16 bits are 470 MB: 140 us at 3.35 TB/s.
    let time = law("h100-sxm").time(&gemm(1, 28672, 8192, DataType::Bf16));
    let least = 2.0 * 8192.0 * 28672.0 / 3.35e12;
    assert!((0.7..0.95).contains(&share(least, time)), "{time}");
    // Half the bytes, about half the time.
    let narrow = law("h100-sxm").time(&gemm(1, 28672, 8192, DataType::Fp8));
    assert!((0.45..0.6).contains(&share(narrow.seconds(), time)));
}

#[test]
fn a_large_product_goes_at_a_share_of_the_peak() {
    for (gpu, peak, low, high) in [
        ("h100-sxm", 989e12, 0.72, 0.88),
        ("a100-sxm-80gb", 312e12, 0.75, 0.95),
        ("b200", 2250e12, 0.55, 0.8),
    ] {
        let time = law(gpu).time(&gemm(8192, 8192, 8192, DataType::Bf16));
        let reached = share(2.0 * 8192f64.powi(3) / peak, time);
        assert!((low..high).contains(&reached), "{gpu}: {reached}");
    }
}

#[test]
fn a_long_cache_is_read_at_the_memorys_rate_and_half_as_long_in_fp8() {
    // 64 sequences of 16,384 tokens of 4 KiB: 4.3 GB.
    let half = law("h100-sxm").time(&decode(64, 64 * 16384, AttentionFormat::Bf16));
    let least = 64.0 * 16384.0 * 4096.0 / 3.35e12;
    assert!((0.8..0.95).contains(&share(least, half)), "{half}");
    let fp8 = law("h100-sxm").time(&decode(64, 64 * 16384, AttentionFormat::Fp8));
    assert!((0.45..0.65).contains(&share(fp8.seconds(), half)));
}

#[test]
fn a_cache_that_fits_is_found_again_by_profiles_only() {
    // 4 MB in 50.
    let (law, small) = (law("h100-sxm"), decode(1, 1024, AttentionFormat::Bf16));
    assert!(law.profiled(&small) < law.time(&small));
    let large = decode(64, 64 * 16384, AttentionFormat::Bf16);
    assert_eq!(law.profiled(&large), law.time(&large));
}

#[test]
fn a_long_prompts_attention_goes_at_a_share_of_the_peak() {
    let time = law("h100-sxm").time(&prefill(65536, 0));
    let least = 2.0 * 65536f64 * 65536.0 * 32.0 * 128.0 / 989e12;
    assert!((0.45..0.65).contains(&share(least, time)), "{time}");
    // A piece behind a prefix sees all of it: so many times as many keys as its own on average.
    let piece = law("h100-sxm").time(&prefill(2048, 65536 - 2048));
    let all = (0..32).map(|piece| law("h100-sxm").time(&prefill(2048, piece * 2048)));
    let all: f64 = all.map(Time::seconds).sum();
    assert!(piece.seconds() / time.seconds() > 1.0 / 17.0);
    assert!(all > time.seconds() && all < 1.5 * time.seconds());
}

#[test]
fn latent_attention_with_many_heads_is_bound_by_operations_too() {
    let shape = |heads| {
        Kernel::MlaDecode(MlaDecode {
            sequences: 128,
            context: 128 * 16384,
            heads,
            widths: MlaWidths::DEEPSEEK,
            format: AttentionFormat::Bf16,
        })
    };
    let law = law("h100-sxm");
    let (few, many) = (law.time(&shape(16)), law.time(&shape(128)));
    let bytes = 128.0 * 16384.0 * 576.0 * 2.0 / 3.35e12;
    assert!((0.8..1.0).contains(&share(bytes, few)), "{few}");
    assert!(many > few, "{many}");
    assert!(share(128.0 * 2.0 * 1088.0 * 128.0 * 16384.0 / 989e12, many) > 0.5);
}

#[test]
fn an_even_router_reads_the_expected_experts() {
    let load = |tokens, local| {
        ExpertLoad::of(&Routing {
            tokens,
            experts: 256,
            local,
            top_k: 8,
            skew: Skew::Even,
        })
    };
    // 256 (1 - (1 - 8/256)^32) = 163.3
    assert!((load(32, 256).experts() - 163.3).abs() < 0.1);
    assert!((load(32, 256).tokens() - 256.0).abs() < 1e-9);
    assert!((load(32, 32).tokens() - 32.0).abs() < 1e-9);
    assert!((load(1, 256).experts() - 8.0).abs() < 1e-9);
    assert!((load(0, 256).experts()).abs() < 1e-9);
}

#[test]
fn a_skewed_router_gives_out_every_choice_and_reads_fewer_experts() {
    for (tokens, local) in [(1, 256), (8, 256), (32, 256), (512, 256), (8192, 256)] {
        let load = ExpertLoad::of(&Routing {
            tokens,
            experts: 256,
            local,
            top_k: 8,
            skew: Skew::PowerLaw(1.2),
        });
        assert!((load.tokens() - 8.0 * tokens as f64).abs() < 1e-9);
        let even = 256.0 * (1.0 - (1.0 - 8.0 / 256.0f64).powf(tokens as f64));
        assert!(load.experts() <= even + 0.5, "{tokens}: {}", load.experts());
    }
}

#[test]
fn experts_are_read_once_each() {
    let routing = Routing {
        tokens: 256,
        experts: 256,
        local: 256,
        top_k: 8,
        skew: Skew::Even,
    };
    let shape = moe(routing);
    let weights = shape.load.experts() * 3.0 * 7168.0 * 2048.0;
    let time = law("h200").time(&Kernel::Moe(shape));
    assert!(
        (0.6..0.95).contains(&share(weights / 4.8e12, time)),
        "{time}"
    );
}

#[test]
fn a_norm_of_many_tokens_takes_its_bytes_and_of_one_a_launch() {
    let law = law("h100-sxm");
    let (one, many) = (Small::norm(1, 8192), Small::norm(65536, 8192));
    let bytes = 65536.0 * 4.0 * 8192.0 / 3.35e12;
    assert!(share(bytes, law.time(&Kernel::Small(many))) > 0.2);
    assert!(law.time(&Kernel::Small(one)) < Time::from_micros(10));
}

#[test]
fn an_all_reduce_is_one_pass_while_it_is_short() {
    let law = law("h100-sxm");
    let time = |ranks, size| {
        law.time(&Kernel::AllReduce(CustomAllReduce {
            ranks,
            size,
            port: Bandwidth::from_gb_per_sec(450),
        }))
    };
    assert_eq!(time(1, Bytes::from_mib(1)), Time::from_picos(0));
    // Twice the ranks read more than twice as much in one pass, hardly more in two.
    let extra = |ranks, size| time(ranks, size).seconds() - time(ranks, Bytes::new(1)).seconds();
    let short = extra(8, Bytes::from_kib(64)) / extra(4, Bytes::from_kib(64));
    assert!((2.2..2.5).contains(&short), "{short}");
    let long = extra(8, Bytes::from_mib(64)) / extra(4, Bytes::from_mib(64));
    assert!((1.1..1.25).contains(&long), "{long}");
}

#[test]
fn what_a_chip_cannot_do_goes_the_way_that_is_most_like_it() {
    let law = law("a100-sxm-80gb");
    // No FP8: its weights are half as long, its products go at the rate of 16 bits.
    let (wide, narrow) = (
        gemm(8192, 8192, 8192, DataType::Bf16),
        gemm(8192, 8192, 8192, DataType::Fp8),
    );
    assert!(share(law.time(&narrow).seconds(), law.time(&wide)) > 0.95);
    assert_eq!(law.borrowed(&wide), None);
    let latent = Kernel::MlaDecode(MlaDecode {
        sequences: 1,
        context: 1024,
        heads: 128,
        widths: MlaWidths::DEEPSEEK,
        format: AttentionFormat::Bf16,
    });
    assert_eq!(law.borrowed(&latent), Some("hopper"));
}

#[test]
fn the_parameters_file_is_strict() {
    let text = KernelParameters::shipped_text();
    let said = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        let broken = text.replacen(from, to, 1);
        let error = KernelParameters::parse(&broken, "mine.json").unwrap_err();
        error.to_string()
    };
    let unknown = said("\"generations\"", "\"colour\": 1, \"generations\"");
    assert!(
        unknown.contains("mine.json") && unknown.contains("colour"),
        "{unknown}"
    );
    let like = said("\"like\": \"ampere\"", "\"like\": \"ampre\"");
    assert!(like.contains("did you mean `ampere`?"), "{like}");
    let circle = said("\"like\": \"hopper\"", "\"like\": \"ada\"");
    assert!(circle.contains("its own laws"), "{circle}");
    let range = KernelParameters::parse(text, FILE).unwrap().generations["hopper"].gemm
        [&Format::Bf16]
        .compute
        .clone();
    assert!(range.range[0] <= range.value && range.value <= range.range[1]);
}

/// Any shape that an engine may ask for.
fn shapes() -> impl Strategy<Value = Kernel> {
    let data = prop_oneof![
        Just(DataType::Bf16),
        Just(DataType::Fp8),
        Just(DataType::Fp8Block),
        Just(DataType::Nvfp4),
        Just(DataType::Mxfp4),
        Just(DataType::Int4),
    ];
    let format = prop_oneof![
        Just(AttentionFormat::Bf16),
        Just(AttentionFormat::Bf16Fp8Cache),
        Just(AttentionFormat::Fp8),
    ];
    let products = (
        1u64..20_000,
        1u64..40_000,
        1u64..40_000,
        data.clone(),
        data.clone(),
        any::<bool>(),
    );
    let products = products.prop_map(|(m, n, k, weights, activations, quantise)| {
        Kernel::Gemm(Gemm {
            m,
            n,
            k,
            weights,
            activations,
            quantise,
        })
    });
    let decodes = (
        1u64..512,
        1u64..100_000,
        0u32..4,
        1u64..16,
        format.clone(),
        any::<bool>(),
    );
    let decodes = decodes.prop_map(|(sequences, length, kv, group, format, latent)| {
        let (context, kv_heads) = (sequences * length, 1 << kv);
        let heads = kv_heads * group;
        if latent {
            let widths = MlaWidths::DEEPSEEK;
            Kernel::MlaDecode(MlaDecode {
                sequences,
                context,
                heads,
                widths,
                format,
            })
        } else {
            let head_dim = 128;
            Kernel::AttentionDecode(AttentionDecode {
                sequences,
                context,
                heads,
                kv_heads,
                head_dim,
                format,
            })
        }
    });
    let prompts = (
        1u64..16,
        1u64..40_000,
        0u64..100_000,
        0u32..4,
        1u64..16,
        format,
        any::<bool>(),
    );
    let prompts = prompts.prop_map(|(sequences, tokens, prefix, kv, group, format, latent)| {
        let kv_heads = 1 << kv;
        let heads = kv_heads * group;
        if latent {
            let widths = MlaWidths::DEEPSEEK;
            Kernel::MlaPrefill(MlaPrefill {
                sequences,
                tokens,
                prefix,
                heads,
                widths,
                format,
            })
        } else {
            let head_dim = 128;
            Kernel::AttentionPrefill(AttentionPrefill {
                sequences,
                tokens,
                prefix,
                heads,
                kv_heads,
                head_dim,
                format,
            })
        }
    });
    let experts = (
        0u64..20_000,
        0u32..9,
        1u64..9,
        any::<bool>(),
        data.clone(),
        data,
    );
    let experts = experts.prop_map(|(tokens, experts, top_k, even, weights, activations)| {
        let experts = 1 << experts;
        let skew = if even {
            Skew::Even
        } else {
            Skew::PowerLaw(1.2)
        };
        let top_k = top_k.min(experts);
        let local = (experts / 4).max(1);
        let load = ExpertLoad::of(&Routing {
            tokens,
            experts,
            local,
            top_k,
            skew,
        });
        Kernel::Moe(Moe {
            load,
            hidden: 4096,
            inter: 1536,
            weights,
            activations,
        })
    });
    let small = (0u64..100_000, 1u64..100_000);
    let small = small.prop_map(|(tokens, width)| Kernel::Small(Small::norm(tokens, width)));
    prop_oneof![products, decodes, prompts, experts, small]
}

/// What a profile takes because the host starts each kernel, rounded up.
fn starts(law: &KernelLaw<'_>, kernel: &Kernel) -> Time {
    let Some((generation, Entry::Moe(format))) = law.entry(kernel) else {
        return Time::ZERO;
    };
    let entry = &KernelParameters::shipped().generations[generation].moe[&format];
    let starts = entry.starts.as_ref();
    starts.map_or(Time::ZERO, |starts| starts.value + Time::from_picos(1))
}

/// What twice as much of something takes at least: a little less than once as much does, where its
/// tiles fill the SMs better.
fn least(one: Time) -> f64 {
    0.98 * one.seconds()
}

proptest! {
    #[test]
    fn nothing_is_faster_than_the_peaks_allow(shape in shapes(), at in 0usize..4) {
        let law = law(["a100-sxm-80gb", "l40s", "h200", "gb200"][at]);
        let (time, bound) = (law.time(&shape), law.bound(&shape));
        prop_assert!(time >= bound, "{time} < {bound}");
        prop_assert!(!time.is_past_the_clock());
        // Caches only help; but of some kernels a profile has the host's starts, too.
        let most = time + starts(&law, &shape);
        prop_assert!(law.profiled(&shape) <= most, "{} > {most}", law.profiled(&shape));
    }

    #[test]
    fn more_takes_longer_but_for_waves(m in 1u64..8192, n in 64u64..16384, k in 256u64..16384) {
        let law = law("h100-sxm");
        let (one, two) = (law.time(&gemm(m, n, k, DataType::Bf16)), law.time(&gemm(2 * m, n, k, DataType::Bf16)));
        prop_assert!(two.seconds() >= least(one), "{m}: {one} {two}");
        let wide = law.time(&gemm(m, 2 * n, k, DataType::Bf16));
        prop_assert!(wide.seconds() >= least(one), "{n}: {one} {wide}");
        let deep = law.time(&gemm(m, n, 2 * k, DataType::Bf16));
        prop_assert!(deep.seconds() >= least(one), "{k}: {one} {deep}");
    }

    #[test]
    fn longer_caches_and_prompts_take_longer(sequences in 1u64..128, length in 1u64..50_000, prefix in 0u64..50_000) {
        let law = law("b200");
        let time = |length| law.time(&decode(sequences, sequences * length, AttentionFormat::Fp8));
        prop_assert!(time(2 * length).seconds() >= 0.98 * time(length).seconds());
        prop_assert!(law.time(&prefill(length, prefix + 128)) >= law.time(&prefill(length, prefix)));
        prop_assert!(law.time(&prefill(length + 128, prefix)) >= law.time(&prefill(length, prefix)));
    }
}
