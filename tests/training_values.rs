//! Values of training jobs against what is known of them apart from the program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::collective::Collective;
use fabricsim::engine::{Options, simulate};
use fabricsim::experiment::{self, Silent, ValidJob, parse, validate};
use fabricsim::nccl::{Algorithm, Communicator, Env, Forced};
use fabricsim::report::Outputs;
use fabricsim::report::training::{KernelBound, MemoryPart, StepResult, ran};
use fabricsim::topology::{Overrides, load};
use std::collections::BTreeMap;
use std::path::Path;

fn steps(text: &str) -> BTreeMap<String, StepResult> {
    let scenario = parse(text, "test.json", &[]).unwrap();
    let job = validate(scenario, Path::new("")).unwrap();
    let outputs = Outputs::of([]);
    let run = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    let variants = run.summary.variants.iter();
    let steps = variants.map(|variant| (variant.name.clone(), ran(variant).unwrap().clone()));
    steps.collect()
}

fn one(text: &str) -> StepResult {
    let all = steps(text);
    assert_eq!(all.len(), 1);
    all.into_values().next().unwrap()
}

/// Each all-reduce of Gloo's alone takes what one by itself takes: a ring of processes.
#[test]
fn gloo_takes_what_a_ring_of_processes_takes() {
    for (machine, nodes) in [
        ("dgx-h100", 1),
        ("dgx-h100", 2),
        ("dgx-h100", 4),
        ("dgx-1-v100", 2),
        ("dgx-a100", 2),
        ("t4-pcie", 2),
        ("l40s-pcie", 1),
        ("x86-h100-pcie", 1),
        ("gb200-nvl72", 2),
    ] {
        let text = format!(
            r#"{{"name": "g", "topology": {{"name": "{machine}"}}, "nodes": {nodes},
            "job": {{"training": {{"model": {{"preset": "gpt2-124m"}}, "micro_batch": 1,
                "global_batch": 32, "steps": 1,
                "data_parallel": {{"ddp": {{"bucket": "64MiB", "backend": "gloo"}}}}}}}}}}"#
        );
        let result = one(&text);
        let overrides = Overrides { nodes: Some(nodes) };
        let topology = load(machine, &overrides).unwrap();
        let mut ring = Communicator::new(&topology, None, &Env::default(), 1).unwrap();
        let forced = Forced {
            algorithm: Some(Algorithm::CpuRing),
            protocol: None,
        };
        let sums = result.collectives.iter();
        let mut sums = sums.filter(|c| c.group == "data parallel").peekable();
        assert!(sums.peek().is_some(), "{machine} × {nodes}: no sums");
        for sum in sums {
            assert_eq!(sum.how, "cpu-ring simple");
            let bytes = sum.bytes.get();
            let planned = ring.plan(Collective::AllReduce, bytes, forced).unwrap();
            let alone = simulate(&planned.plan, |l| topology.rate(l), Options::default());
            let alone = alone.unwrap().end().micros();
            let off = (sum.alone_us / alone - 1.0).abs();
            assert!(off < 1e-6, "{machine} × {nodes}: {} {alone}", sum.alone_us);
        }
    }
}

/// Several groups of Gloo's beside each other, whose plans are one.
#[test]
fn gloo_runs_beside_other_parallelism() {
    let text = r#"{"name": "g", "topology": {"name": "dgx-h100"}, "nodes": 2,
        "job": {"training": {"model": {"preset": "gpt2-124m"}, "micro_batch": 1,
            "global_batch": 32, "steps": 1, "parallel": {"tp": 2, "pp": 2},
            "data_parallel": {"ddp": {"backend": "gloo"}}}},
        "variants": [{"name": "gloo"}, {"name": "nccl",
            "set": {"job.training.data_parallel.ddp.backend": "nccl"}}]}"#;
    let results = steps(text);
    assert!(results["gloo"].step_s > results["nccl"].step_s);
}

/// A job of equal stages, in which communication costs nothing. Micro-batches are large and layers
/// many, so that the optimiser and the two ends of the model, of which the formula knows nothing, are
/// little beside them.
fn pipeline(tied: bool, pp: u32, chunks: u32, micro_batches: u32) -> StepResult {
    let batch = 8 * micro_batches;
    one(&format!(
        r#"{{"name": "p", "topology": {{"name": "dgx-h100"}}, "gpus_per_node": {pp},
        "job": {{"training": {{"model": {{"shape": {{"layers": 48, "hidden": 4096, "heads": 32,
                "ffn": 16384, "vocabulary": 512, "sequence": 2048, "tied_embeddings": {tied}}}}},
            "micro_batch": 8, "global_batch": {batch}, "steps": 1, "free_communication": true,
            "kernel_launch": "0us",
            "parallel": {{"pp": {pp}, "virtual_stages": {chunks}}}}}}}}}"#
    ))
}

fn computing(result: &StepResult) -> f64 {
    let kernels = result.time.iter().filter(|s| s.what == "compute");
    kernels.map(|s| s.share).sum()
}

/// (p - 1) / (v m + p - 1): Huang et al. 2019, Narayanan et al. 2021. Whether first and last stage
/// share a table changes nothing in it: waiting for it is waiting for a stage.
#[test]
fn the_bubble_is_all_that_a_pipeline_does_not_compute() {
    for (p, v, m) in [(4, 1, 8), (2, 1, 4), (8, 1, 16), (4, 2, 8), (4, 3, 8)] {
        let formula = f64::from(p - 1) / f64::from(v * m + p - 1);
        for tied in [false, true] {
            let result = pipeline(tied, p, v, m);
            let lost = 1.0 - computing(&result);
            let name = format!("p {p}, v {v}, m {m}, tied {tied}");
            assert!(
                (result.bubble - lost).abs() < 1e-9,
                "{name}: {} {lost}",
                result.bubble
            );
            let off = (result.bubble / formula - 1.0).abs();
            assert!(off < 0.02, "{name}: {} {formula}", result.bubble);
            let data = result
                .time
                .iter()
                .find(|s| s.what.contains("data parallel"));
            assert_eq!(data, None, "{name}");
        }
    }
}

/// GPT-3's ends are not small, and its stages not equal: still all that is not computed is bubble.
#[test]
fn the_bubble_of_gpt3_has_its_tied_embeddings() {
    let result = one(
        r#"{"name": "g", "topology": {"name": "dgx-h100"}, "nodes": 4,
        "job": {"training": {"model": {"preset": "gpt3-175b"}, "micro_batch": 1,
            "global_batch": 8, "flash_version": 3, "free_communication": true,
            "kernel_launch": "0us",
            "parallel": {"tp": 8, "pp": 4, "sequence_parallel": true}}}}"#,
    );
    let lost = 1.0 - computing(&result);
    assert!(
        (result.bubble - lost).abs() < 1e-9,
        "{} {lost}",
        result.bubble
    );
    assert!((0.25..0.3).contains(&result.bubble), "{}", result.bubble);
}

/// Bytes that a GPU sends to share sequences with three others, of a model with so many heads of
/// keys and values: in units of its own keys and values of a layer, by hand.
fn context(kind: &str, kv_heads: u32) -> f64 {
    let (layers, sequence, head) = (8, 8192, 128);
    let result = one(&format!(
        r#"{{"name": "c", "topology": {{"name": "dgx-h100"}}, "gpus_per_node": 4,
        "job": {{"training": {{"model": {{"shape": {{"layers": {layers}, "hidden": 4096, "heads": 32,
                "kv_heads": {kv_heads}, "ffn": 16384, "vocabulary": 512, "sequence": {sequence}}}}},
            "global_batch": 1, "steps": 1, "parallel": {{"cp": 4, "context": "{kind}"}}}}}}}}"#
    ));
    let own = f64::from(sequence / 4 * kv_heads * 2 * head * 2);
    let sent = result.collectives.iter();
    let sent = sent.filter(|c| c.group == "context parallel").map(|c| {
        // All-gather, reduce-scatter and all-to-all send (n - 1) / n of their size.
        0.75 * c.bytes.get() as f64 * f64::from(c.count)
    });
    sent.sum::<f64>() / own / f64::from(layers)
}

/// All-to-all sends a quarter of queries, keys, values and result to each (Ulysses, arXiv
/// 2309.14509), all-gather all keys and values to all (Llama 3, section 3.3.2), and the sum of
/// their gradients back. With 32 heads of each, cp 4: 3 against 9; with 8 of keys and values
/// queries and result are four times as large as these: 7.5 against 9, so that both take as long.
#[test]
fn sequences_are_shared_by_what_each_way_sends() {
    for (kind, kv_heads, sent) in [
        ("all-to-all", 32, 3.0),
        ("all-gather", 32, 9.0),
        ("all-to-all", 8, 7.5),
        ("all-gather", 8, 9.0),
    ] {
        let found = context(kind, kv_heads);
        assert!((found - sent).abs() < 1e-6, "{kind}, {kv_heads}: {found}");
    }
}

/// More power at the same peak: steps that products limit are faster in proportion, those of
/// machines with the same chips otherwise.
#[test]
fn a_gb300_is_not_a_gb200() {
    let text = r#"{"name": "g", "topology": {"name": "gb200-nvl72"}, "nodes": 2,
        "job": {"training": {"model": {"preset": "llama3-8b"}, "sequence": 8192,
            "micro_batch": 2, "global_batch": 128, "precision": "fp8", "flash_version": 3,
            "gradient_bytes": 2, "data_parallel": {"zero": {}}, "kernel_launch": "0us"}},
        "variants": [{"name": "gb200"},
            {"name": "gb300", "set": {"topology": {"name": "gb300-nvl72"}}}]}"#;
    let results = steps(text);
    let (old, new) = (&results["gb200"], &results["gb300"]);
    // Megatron-Bridge 25.11: 4.16 and 3.49 s. Memory-bound kernels and communication stay.
    let ratio = old.step_s / new.step_s;
    assert!((1.08..1.167).contains(&ratio), "{ratio}");
    assert!(new.memory.capacity > old.memory.capacity);
}

/// Llama 3 70B, tp 8, cp 4 on 32 H100: more than 80e9 bytes with what the allocator holds free, less
/// than the card has.
#[test]
fn cards_have_what_nvidia_smi_shows() {
    let result = one(
        r#"{"name": "m", "topology": {"name": "dgx-h100"}, "nodes": 4,
        "job": {"training": {"model": {"preset": "llama3-70b"}, "sequence": 4096,
            "global_batch": 32, "steps": 1, "gradient_bytes": 2, "parallel": {"tp": 8, "cp": 4,
            "sequence_parallel": true}, "data_parallel": {"zero": {}}}}}"#,
    );
    let memory = &result.memory;
    assert_eq!(memory.capacity.get(), 81_559 << 20);
    assert!(memory.total.get() > 80_000_000_000, "{:?}", memory.total);
    assert!(memory.fits);
}

/// Published steps are run with the FlashAttention that their table says was used.
#[test]
fn published_steps_run_with_the_attention_that_they_name() {
    let text = std::fs::read_to_string("validation/training.json").unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut named = 0;
    for table in file["tables"].as_array().unwrap() {
        let assumed = table["assumed"].as_str().unwrap();
        let Some((_, rest)) = assumed.split_once("FlashAttention ") else {
            continue;
        };
        named += 1;
        let version: u64 = rest[..1].parse().unwrap();
        let job = &table["scenario"]["job"]["training"];
        let set = job["flash_version"].as_u64().unwrap_or(2);
        assert_eq!(set, version, "{}", table["source"]);
    }
    assert!(named >= 6, "{named}");
}

/// The variant of a shipped job that does not fit: its states alone are 71 GB of 85, to which gathered
/// weights, their gradients and activations come.
const TOO_LARGE: (&str, &str) = ("fsdp-70b-32gpu", "hybrid-16");

/// Each shipped scenario of a job is one that could be run: every variant but one fits its GPUs.
#[test]
fn shipped_jobs_fit_their_gpus() {
    let mut jobs = 0;
    for entry in std::fs::read_dir("scenarios").unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario = parse(&text, &path.display().to_string(), &[]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        if json["job"]["training"].is_null() {
            continue;
        }
        jobs += 1;
        let experiment = validate(scenario, Path::new("scenarios")).unwrap();
        for variant in &experiment.variants {
            let ValidJob::Training(job) = &variant.job else {
                panic!("{} is a training job", variant.name);
            };
            let memory =
                fabricsim::experiment::memory(&job.training, &job.topology, &job.gpus, &job.env)
                    .unwrap();
            let gib = |bytes: fabricsim::units::Bytes| bytes.get() >> 30;
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!(
                memory.fits,
                (name, variant.name.as_str()) != TOO_LARGE,
                "{}, {}: {} of {} GiB",
                path.display(),
                variant.name,
                gib(memory.total),
                gib(memory.capacity)
            );
        }
    }
    assert!(jobs >= 9, "{jobs}");
}

/// Bytes of all operations whose name begins so, all times together.
fn moved(result: &StepResult, group: &str, name: &str) -> u64 {
    let all = result.collectives.iter();
    let named = all.filter(|c| c.group == group && c.what.starts_with(name));
    named.map(|c| c.bytes.get() * u64::from(c.count)).sum()
}

/// ZeRO's stage 2 adds up divided gradients, so that those of every micro-batch go out; stage 1, and
/// stage 2 where a stage has all of its micro-batches one after the other, send their sum.
#[test]
fn stage_2_sends_the_gradients_of_every_micro_batch() {
    let of = |stage: u8, (pp, virtual_stages): (u32, u32), global_batch: u32, overlap: bool| {
        one(&format!(
            r#"{{"name": "z", "topology": {{"name": "dgx-h100"}},
            "job": {{"training": {{"model": {{"shape": {{"layers": 4, "hidden": 1024, "heads": 16,
                    "ffn": 4096, "vocabulary": 1024, "sequence": 1024}}}},
                "micro_batch": 1, "global_batch": {global_batch}, "steps": 1,
                "parallel": {{"pp": {pp}, "virtual_stages": {virtual_stages}}},
                "data_parallel": {{"zero": {{"stage": {stage}, "bucket": "8MiB",
                    "overlap_gradients": {overlap}}}}}}}}}}}"#
        ))
    };
    let sent = |result: &StepResult| moved(result, "data parallel", "reduce-scatter of gradients");
    let once = sent(&of(2, (1, 1), 8, true));
    // Four layers of 12 h² + 2 h, two tables and the last norm, of 4 bytes.
    let (h, vocabulary) = (1024, 1024);
    let parameters = 4 * (12 * h * h + 2 * h) + 2 * vocabulary * h + h;
    assert_eq!(once, 4 * parameters);
    for overlap in [true, false] {
        for micro_batches in [2, 5] {
            let batch = 8 * micro_batches;
            let two = of(2, (1, 1), batch, overlap);
            assert_eq!(sent(&two), u64::from(micro_batches) * once);
            let one = of(1, (1, 1), batch, overlap);
            assert_eq!(sent(&one), once);
            assert!(two.step_s > one.step_s, "{} {}", two.step_s, one.step_s);
        }
    }
    // Two stages with two virtual stages each: two micro-batches of one, then of the other; so that four
    // micro-batches are two rounds.
    for (micro_batches, rounds) in [(2, 1), (4, 2)] {
        let batch = 4 * micro_batches;
        let (one, two) = (of(1, (2, 2), batch, true), of(2, (2, 2), batch, true));
        assert_eq!(sent(&two), rounds * sent(&one));
    }
    let (one, two) = (of(1, (2, 1), 16, true), of(2, (2, 1), 16, true));
    assert_eq!(sent(&one), sent(&two));
    assert_eq!(one.step_s, two.step_s);
    assert_eq!(one.memory.total, two.memory.total);
}

fn experts(gpus: u32, ep: u32, shard_group: &str) -> String {
    format!(
        r#"{{"name": "e", "topology": {{"name": "dgx-h100"}}, "gpus_per_node": {gpus},
        "job": {{"training": {{"model": {{"shape": {{"layers": 4, "hidden": 1024, "heads": 16,
                "ffn": 4096, "gated": true, "vocabulary": 1024, "sequence": 1024,
                "experts": {{"count": 8, "per_token": 2, "ffn": 2048}}}}}},
            "micro_batch": 1, "global_batch": {gpus}, "steps": 1, "parallel": {{"ep": {ep}}},
            "data_parallel": {{"fsdp": {{{shard_group}}}}}}}}}}}"#
    )
}

/// Ranks of an expert-parallel group have different experts: FSDP divides each over dp / ep ranks, and
/// a layer's all-gather brings a rank only its own.
#[test]
fn fsdp_divides_experts_over_those_that_have_the_same() {
    let (layers, h, ffn) = (4, 1024, 2048);
    let all_experts = 8 * 3 * h * ffn;
    // Attention, two norms, router; and two tables with the last norm.
    let (rest, ends) = (4 * h * h + 2 * h + 8 * h, 2 * 1024 * h + h);
    // Two bytes each, forward and backward; gradients once.
    let gathered = |weights: u64| 2 * 2 * layers * weights;
    let summed = |weights: u64| 2 * layers * weights;
    let ranks = |result: &StepResult, group: &str| {
        let found = result.collectives.iter().find(|c| c.group == group);
        found.map_or(0, |c| c.ranks)
    };

    let whole = one(&experts(8, 1, ""));
    let data = |result: &StepResult, name: &str| moved(result, "data parallel", name);
    assert_eq!(
        data(&whole, "all-gather of weights"),
        gathered(rest + all_experts) + 2 * ends
    );

    let divided = one(&experts(8, 4, ""));
    let own = all_experts / 4;
    assert_eq!(ranks(&divided, "data parallel"), 8);
    assert_eq!(
        data(&divided, "all-gather of weights"),
        gathered(rest) + 2 * ends
    );
    assert_eq!(ranks(&divided, "expert data parallel"), 2);
    let of = |name: &str| moved(&divided, "expert data parallel", name);
    assert_eq!(of("all-gather of experts"), gathered(own));
    assert_eq!(of("reduce-scatter of gradients of experts"), summed(own));
    assert_eq!(
        data(&divided, "reduce-scatter of gradients"),
        summed(rest) + 2 * ends
    );

    // Each rank has what it has of weights, optimiser states of the same parameters and so on.
    let weights = divided
        .memory
        .parts
        .iter()
        .find(|(part, _)| *part == MemoryPart::Parameters);
    // Four bytes each: they are the optimizer's own.
    let kept = 4 * (layers * rest + ends) / 8 + 4 * layers * own / 2;
    assert_eq!(weights.unwrap().1.get(), kept);
}

/// The same with hybrid sharding: within a shard group, or, if that is within an expert-parallel group,
/// not at all.
#[test]
fn hybrid_sharding_divides_experts_within_its_groups() {
    let (layers, own) = (4, 8 * 3 * 1024 * 2048 / 2);
    let result = one(&experts(8, 2, r#""shard_group": 4"#));
    let of = |group: &str, name: &str| moved(&result, group, name);
    assert_eq!(
        of("expert shards", "all-gather of experts"),
        2 * 2 * layers * own
    );
    assert_eq!(
        of("expert replicas", "all-reduce of gradients of experts"),
        2 * layers * own / 2
    );
    let own = own / 2;
    let result = one(&experts(8, 4, r#""shard_group": 2"#));
    let of = |group: &str, name: &str| moved(&result, group, name);
    assert_eq!(of("expert shards", "all-gather of experts"), 0);
    assert_eq!(
        of("expert replicas", "all-reduce of gradients of experts"),
        2 * layers * own
    );
    let text = experts(6, 2, r#""shard_group": 3"#);
    let scenario = parse(&text, "test.json", &[]).unwrap();
    let error = validate(scenario, Path::new("")).err().unwrap();
    let error = error.to_string();
    assert!(
        error.contains("a multiple or a divisor of ep = 2"),
        "{error}"
    );
}

/// Steps of GPT-2 on a server, one sequence a GPU, with a process as `host` says.
fn hosted(variants: &[(&str, &str)]) -> BTreeMap<String, StepResult> {
    let variants: Vec<String> = variants
        .iter()
        .map(|(name, set)| format!(r#"{{"name": "{name}", "set": {set}}}"#))
        .collect();
    steps(&format!(
        r#"{{"name": "h", "topology": {{"name": "dgx-a100"}}, "nodes": 1, "job": {{"training": {{
            "model": {{"preset": "gpt2-124m"}}, "micro_batch": 1, "global_batch": 8, "host": {{}}}}}},
            "variants": [{}]}}"#,
        variants.join(", ")
    ))
}

/// A wait costs what reading takes, the start of the next kernel and what the process does with the value.
#[test]
fn reading_a_value_in_every_layer_costs_its_lead_each_time() {
    let at = "job.training.host.synchronize";
    let all = hosted(&[
        ("none", "{}"),
        (
            "layers",
            &format!(r#"{{"{at}": {{"every": "layer", "where": "forward", "busy": "100us"}}}}"#),
        ),
        ("buckets", &format!(r#"{{"{at}": {{"every": "bucket"}}}}"#)),
    ]);
    let more = all["layers"].step_s - all["none"].step_s;
    // 12 layers: 10 us to read, 100 us to print, 4 us to start the next kernel.
    assert!((more - 12.0 * 114e-6).abs() < 1e-9, "{more}");
    // All-reduces that the process waits for hide behind nothing.
    let exposed = |name: &str| all[name].exposed_communication * all[name].step_s;
    assert!(exposed("buckets") > 2.0 * exposed("none"));
    assert!(all["buckets"].overlap < 0.1 && all["none"].overlap > 0.5);
}

/// With kernels that start slowly a step is as long as starting them; as a graph it is not.
#[test]
fn a_host_that_cannot_keep_up_is_what_a_step_takes() {
    let launch = "job.training.kernel_launch";
    let all = hosted(&[
        ("fast", &format!(r#"{{"{launch}": "0us"}}"#)),
        ("slow", &format!(r#"{{"{launch}": "500us"}}"#)),
        ("slower", &format!(r#"{{"{launch}": "1000us"}}"#)),
        (
            "graph",
            &format!(r#"{{"{launch}": "1000us", "job.training.host.launch": "graph"}}"#),
        ),
    ]);
    let step = |name: &str| all[name].step_s;
    // A whole number of kernels, which the GPU waits for most of the time.
    let kernels = (step("slower") - step("slow")) / 500e-6;
    assert!(
        (kernels - kernels.round()).abs() < 1e-6 && (300.0..500.0).contains(&kernels),
        "{kernels}"
    );
    assert!((step("slow") / (kernels * 500e-6) - 1.0).abs() < 0.05);
    let host = all["slow"]
        .time
        .iter()
        .find(|share| share.what == "host")
        .unwrap();
    assert!(host.share > 0.9, "{host:?}");
    // 2.5 us, and 1 ns for each of a few hundred kernels.
    let graph = step("graph") - step("fast");
    assert!((2.5e-6..4e-6).contains(&graph), "{graph}");
}

/// PyTorch 2.0's announcement (2022): on A100, 163 models train 1.43 times as fast compiled, 1.51 times with
/// mixed precision.
#[test]
fn compiling_makes_training_as_much_faster_as_was_published() {
    let text = |kernels: &str| {
        format!(
            r#"{{"name": "c", "topology": {{"name": "dgx-a100"}}, "nodes": 1, "gpus_per_node": 1,
            "job": {{"training": {{"model": {{"preset": "gpt2-124m"}}, "micro_batch": 12,
                "global_batch": 12, "attention": "unfused", "host": {{"kernels": "{kernels}"}}}}}}}}"#
        )
    };
    let faster = one(&text("eager")).step_s / one(&text("compiled")).step_s;
    assert!((1.3..1.6).contains(&faster), "{faster}");
}

/// DDP of GPT-2 on two servers with one interface of 100 GbE each, with a hook or replicas as `ddp` says.
fn relaxed(ddp: &str, steps: u32) -> StepResult {
    one(&format!(
        r#"{{"name": "r", "topology": {{"name": "rtx4090-pcie"}}, "nodes": 2, "job": {{"training": {{
            "model": {{"preset": "gpt2-124m"}}, "micro_batch": 2, "global_batch": 32, "steps": {steps},
            "data_parallel": {{"ddp": {ddp}}}}}}}}}"#
    ))
}

/// All replicas' values and indices go to all, 8 bytes for each of 16 x 1 % of 124 M.
#[test]
fn top_k_gathers_values_and_indices() {
    let plain = relaxed("{}", 2);
    let top = relaxed(r#"{"compression": {"top_k": 0.01}}"#, 2);
    let sum = |result: &StepResult| -> u64 {
        let of = result
            .collectives
            .iter()
            .filter(|c| c.group == "data parallel");
        of.map(|c| c.bytes.get() * u64::from(c.count)).sum()
    };
    let ratio = sum(&top) as f64 / sum(&plain) as f64;
    assert!((ratio - 16.0 * 0.01 * 8.0 / 4.0).abs() < 1e-3, "{ratio}");
    assert!(
        top.collectives
            .iter()
            .any(|c| c.what.contains("all-gather"))
    );
    assert!(top.step_s < plain.step_s, "{} {}", top.step_s, plain.step_s);
    // 16 replicas: it moves less below 1/16. With twice that it is slower than nothing at all.
    let large = relaxed(r#"{"compression": {"top_k": 0.125}}"#, 2);
    assert!(
        large.step_s > plain.step_s,
        "{} {}",
        large.step_s,
        plain.step_s
    );
}

/// Of each of GPT-2's 124,439,808 parameters a gradient of 4 bytes is kept from one step for the next, or two.
#[test]
fn what_is_left_out_and_what_is_old_takes_memory() {
    let carried = |ddp: &str, steps: u32| -> Option<u64> {
        let memory = relaxed(ddp, steps).memory;
        let mut parts = memory.parts.iter();
        let part = parts.find(|(part, _)| *part == MemoryPart::CarriedGradients);
        part.map(|(_, bytes)| bytes.get())
    };
    let whole = 124_439_808 * 4;
    assert_eq!(carried("{}", 2), None);
    assert_eq!(carried(r#"{"compression": "half_precision"}"#, 2), None);
    assert_eq!(carried(r#"{"local_sgd": {"every": 8}}"#, 2), None);
    let top = carried(r#"{"compression": {"top_k": 0.01}}"#, 2);
    assert_eq!(top, Some(whole));
    let thin = carried(r#"{"compression": {"power_sgd": 4}}"#, 2);
    assert_eq!(thin, Some(whole));
    assert_eq!(carried(r#"{"staleness": 1}"#, 3), Some(whole));
    let both = carried(r#"{"compression": {"top_k": 0.01}, "staleness": 1}"#, 3);
    assert_eq!(both, Some(2 * whole));
}

#[test]
fn a_step_of_local_sgd_is_the_mean_of_those_between_two_exchanges() {
    let every = |h: u32| relaxed(&format!(r#"{{"local_sgd": {{"every": {h}}}}}"#), 2);
    let (eight, many) = (every(8), every(1000));
    let [own, mean] = eight.steps_s[..] else {
        panic!("{:?}", eight.steps_s);
    };
    assert!((eight.step_s - (7.0 * own + mean) / 8.0).abs() < 1e-12);
    assert!(mean > own && many.step_s < eight.step_s && (many.step_s / own - 1.0).abs() < 0.01);
    // An exchange every step hides behind nothing.
    let (always, ddp) = (every(1), relaxed("{}", 2));
    assert!((always.step_s - always.steps_s[1]).abs() < 1e-12 && always.step_s > ddp.step_s);
    // A GPU's time is that of two mean steps.
    let all: f64 = eight.time.iter().map(|share| share.seconds).sum();
    assert!((all - 2.0 * eight.step_s).abs() < 1e-9, "{all}");
    let causes: f64 = eight.causes.iter().map(|part| part.time.seconds()).sum();
    assert!((causes - eight.step_s).abs() < 1e-9, "{causes}");
}

/// Computing and exchanging go on side by side: a step takes the longer of the two.
#[test]
fn gradients_a_step_old_hide_behind_the_next_step() {
    let (ddp, stale) = (relaxed("{}", 4), relaxed(r#"{"staleness": 1}"#, 4));
    let sums = ddp
        .collectives
        .iter()
        .filter(|c| c.group == "data parallel");
    let exchange: f64 = sums.map(|c| c.time_us * f64::from(c.count) / 4e6).sum();
    let compute = relaxed(r#"{"local_sgd": {"every": 1000}}"#, 2).step_s;
    let longer = compute.max(exchange);
    assert!(stale.step_s < ddp.step_s && stale.step_s > 0.98 * longer);
    assert!(
        stale.step_s < 1.1 * longer,
        "{} {compute} {exchange}",
        stale.step_s
    );
}

/// What is told of kernels adds up to what they compute, and conventions differ by what they count.
#[test]
fn kernels_of_a_step_add_up_and_say_what_bounds_them() {
    let result = one(
        r#"{"name": "k", "topology": {"name": "dgx-h100"}, "nodes": 1, "gpus_per_node": 1, "job": {"training": {
            "model": {"preset": "gpt2-124m"}, "micro_batch": 8, "global_batch": 8, "kernel_table": true}}}"#,
    );
    let all: f64 = result
        .kernels
        .iter()
        .map(|k| k.time_us * k.count as f64)
        .sum();
    let compute = result
        .time
        .iter()
        .find(|share| share.what == "compute")
        .unwrap();
    // Two steps; what the process adds to small kernels is little.
    assert!(
        (all / 1e6 / (compute.seconds / 2.0) - 1.0).abs() < 0.02,
        "{all} {compute:?}"
    );
    let of = |name: &str| result.kernels.iter().find(|k| k.name == name).unwrap();
    assert_eq!(of("mlp_up").bound, KernelBound::Compute);
    assert_eq!(of("mlp_norm").bound, KernelBound::Memory);
    assert_eq!(
        (of("mlp_up").count, of("mlp_norm").share_of_peak),
        (12, 0.0)
    );
    assert!((0.3..1.0).contains(&of("mlp_up").share_of_peak));
    let flops: f64 = {
        let all = result
            .kernels
            .iter()
            .map(|k| k.share_of_peak * k.time_us * k.count as f64);
        all.sum::<f64>() / 1e6 / result.step_s
    };
    // Products and flash attention, half of the scores, whose backward pass computes them again.
    assert!(
        flops > result.mfu_causal && flops < 1.1 * result.mfu,
        "{flops}"
    );
    let counts = &result.flop_counts;
    let known = [result.mfu, result.mfu_causal, result.hfu];
    let first: Vec<f64> = counts
        .iter()
        .take(3)
        .filter_map(|count| count.utilisation)
        .collect();
    assert!(first.iter().zip(known).all(|(a, b)| (a - b).abs() < 1e-12));
    // GPT-2's table is its output projection: 6 N counts it, without it there is less.
    let six = counts.iter().find(|c| c.convention == "six_n").unwrap();
    assert!(
        (six.flops / (6.0 * 124_439_808.0 * 8.0 * 1024.0) - 1.0).abs() < 1e-9,
        "{six:?}"
    );
    assert!(counts[5].flops < six.flops && six.flops < counts[3].flops);
}

/// A token meets two of Mixtral's eight experts: 12.9 of 46.7 billion parameters.
#[test]
fn conventions_count_the_experts_that_a_token_meets() {
    let result = one(
        r#"{"name": "moe", "topology": {"name": "dgx-h100"}, "nodes": 4, "job": {"training": {
            "model": {"preset": "mixtral-8x7b"}, "parallel": {"ep": 8}, "micro_batch": 1, "global_batch": 64,
            "sequence": 4096, "data_parallel": {"fsdp": {}}, "kernel_table": true}}}"#,
    );
    let of = |name: &str| {
        let mut counts = result.flop_counts.iter();
        counts.find(|count| count.convention == name).unwrap()
    };
    let six = of("six_n");
    let active = six.flops / (6.0 * 64.0 * 4096.0);
    assert!((active / 12.88e9 - 1.0).abs() < 0.005, "{active}");
    assert!(six.counts.contains("that a token meets"), "{six:?}");
    let mfu = of("mfu");
    for count in &result.flop_counts {
        assert!(count.utilisation.unwrap() < 1.0, "{count:?}");
        // They differ by the embedding and by scores, as for models without experts.
        assert!(
            (count.flops / mfu.flops - 1.0).abs() < 0.4,
            "{count:?} {mfu:?}"
        );
    }
}

/// Buckets of several layers move the same bytes in fewer calls; where calls are what takes long that is faster, and
/// what is chosen is the fastest.
#[test]
fn fsdp_gathers_several_layers_at_once() {
    let ran = |bucketing: &str| {
        one(&format!(
            r#"{{ "name": "b", "topology": {{ "name": "superpod-h100" }}, "nodes": 8, "job": {{ "training": {{
                "model": {{ "preset": "llama3-8b" }}, "micro_batch": 1, "global_batch": 64, "sequence": 1024,
                "data_parallel": {{ "fsdp": {{ "bucketing": {bucketing} }} }} }} }} }}"#
        ))
    };
    let gathers = |ran: &StepResult| {
        let own = ran.collectives.iter();
        let own = own.filter(|used| used.what == "all-gather of weights");
        own.fold((0, 0u64), |(calls, bytes), used| {
            (
                calls + used.count,
                bytes + u64::from(used.count) * used.bytes.get(),
            )
        })
    };
    let [single, two, three, four] = ["1", "2", "3", "4"].map(ran);
    let auto = ran("\"auto\"");
    let ((calls, bytes), (fewer, same)) = (gathers(&single), gathers(&three));
    assert_eq!(bytes, same);
    // 32 layers and the ends, forward and backward: 2 × 32 + 1 and 2 × 11 + 1 a step.
    assert_eq!(calls % 65, 0, "{calls}");
    assert_eq!(fewer, calls / 65 * 23);
    assert!(three.step_s < single.step_s * 0.95);
    assert_eq!(auto.bucketing, Some(3));
    for other in [&single, &two, &four] {
        assert!(auto.step_s < other.step_s);
    }
    assert_eq!(auto.step_s, three.step_s);
}
