//! States in the memory of hosts and on drives, against closed forms and published figures.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::Outputs;
use fabricsim::report::training::{
    DataLoaderUse, HostMove, MemoryPart, OffloadUse, StepResult, ran,
};
use serde_json::{Value, json};
use std::path::Path;

fn run(scenario: &Value) -> Result<StepResult, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let parsed = parse(&scenario.to_string(), "test.json", &[]).map_err(|e| told(&e))?;
    let job = validate(parsed, Path::new("")).map_err(|e| told(&e))?;
    let outputs = Outputs::of([]);
    let run = experiment::run(&job, &Budget::default(), &outputs, &mut Silent);
    let run = run.map_err(|e| told(&e))?;
    Ok(ran(&run.summary.variants[0]).unwrap().clone())
}

/// A job on some GPUs of one node, or several nodes.
fn job(machine: (&str, u32, Option<u32>), training: Value) -> Value {
    let (name, nodes, gpus) = machine;
    let mut scenario = json!({
        "name": "offload", "topology": { "name": name }, "nodes": nodes,
        "job": { "training": training }
    });
    if let Some(gpus) = gpus {
        scenario["gpus_per_node"] = json!(gpus);
    }
    scenario
}

fn offload(result: &StepResult) -> &OffloadUse {
    result.offload.as_ref().unwrap()
}

fn way<'r>(result: &'r StepResult, name: &str) -> &'r HostMove {
    let mut moves = offload(result).moves.iter();
    moves.find(|moved| moved.way == name).unwrap()
}

fn part(result: &StepResult, part: MemoryPart) -> u64 {
    let parts = result.memory.parts.iter();
    parts
        .filter(|(p, _)| *p == part)
        .map(|(_, b)| b.get())
        .sum()
}

fn close(found: f64, expected: f64, within: f64) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= within, "{found} for {expected}: {off}");
}

/// A GPT of so many layers and such a width, as ZeRO-Offload (arXiv 2101.06840, table 2) has them.
fn gpt(layers: u32, hidden: u32) -> Value {
    json!({ "shape": {
        "layers": layers, "hidden": hidden, "heads": hidden / 128, "ffn": 4 * hidden,
        "vocabulary": 50257, "sequence": 1024
    } })
}

fn on_a_v100(model: &Value, micro_batch: u32, offload: Value) -> Value {
    job(
        ("dgx-2", 1, Some(1)),
        json!({
            "model": model, "micro_batch": micro_batch, "global_batch": micro_batch,
            "recompute": "full", "data_parallel": { "zero": { "stage": 2 } }, "offload": offload
        }),
    )
}

/// Bytes over the rate of the link: 2 bytes of gradient and of parameter each way over PCIe 3, of which copies
/// reach 92 %, and 30 bytes of 46 % of the memory's bandwidth for Adam.
#[test]
fn copies_take_bytes_over_rate() {
    let result = run(&on_a_v100(&gpt(10, 2048), 4, json!({ "optimizer": "cpu" }))).unwrap();
    let parameters = offload(&result).updated as f64;
    let out = way(&result, "to the host");
    let back = way(&result, "from the host");
    assert_eq!(out.bytes.get() as f64, 2.0 * parameters);
    assert_eq!(back.bytes.get() as f64, 2.0 * parameters);
    // 16 lanes of 8 GT/s in 128b/130b, with packets' headers: 12.8 GB/s.
    let rate = 12.8e9 * 0.92;
    for moved in [out, back] {
        close(moved.time_s, 2.0 * parameters / rate, 0.02);
        close(moved.alone_s, moved.time_s, 1e-9);
    }
    close(
        offload(&result).cpu_s,
        parameters * 30.0 / (256e9 * 0.46),
        1e-6,
    );
    // States lie where they were put, and nothing of them on the GPU.
    let host = &offload(&result).host;
    assert_eq!(host.optimizer.get() as f64, 12.0 * parameters);
    assert_eq!(host.gradients.get() as f64, 4.0 * parameters);
    assert_eq!(part(&result, MemoryPart::Optimizer), 0);
    assert_eq!(part(&result, MemoryPart::Gradients), 0);
    assert_eq!(
        part(&result, MemoryPart::Parameters) as f64,
        2.0 * parameters
    );
}

/// Nothing hides the copies: kernels, then gradients, the update, and the parameters, one after the other.
#[test]
fn without_overlap_a_step_is_the_sum_of_its_parts() {
    let without = json!({ "optimizer": "cpu", "overlap": false });
    let result = run(&on_a_v100(&gpt(10, 2048), 4, without)).unwrap();
    let used = offload(&result);
    let copies: f64 = used.moves.iter().map(|moved| moved.time_s).sum();
    let kernels = result.causes.iter();
    let kernels = kernels.filter(|p| p.cause.contains("kernels") || p.cause == "recomputation");
    let kernels: f64 = kernels.map(|part| part.time.seconds()).sum();
    close(result.step_s, kernels + copies + used.cpu_s, 1e-3);
    close(used.exposed_s, copies + used.cpu_s, 1e-3);
    let pageable = json!({ "optimizer": "cpu", "pin_memory": false });
    let slower = run(&on_a_v100(&gpt(10, 2048), 4, pageable)).unwrap();
    close(
        way(&slower, "to the host").time_s,
        way(&result, "to the host").time_s / 0.4,
        1e-3,
    );
}

fn cause(result: &StepResult, name: &str) -> f64 {
    let parts = result.causes.iter().filter(|part| part.cause == name);
    parts.map(|part| part.time.seconds()).sum()
}

/// Every other layer is half of all; segments of the root of the layers compute all again, and keep less; operations
/// take as long as their kernels.
#[test]
fn recomputation_of_a_part_takes_its_part() {
    let of = |recompute: Value, data_parallel: Value| {
        let training = json!({
            "model": gpt(16, 2048), "micro_batch": 4, "global_batch": 32, "recompute": recompute,
            "data_parallel": data_parallel, "free_communication": true
        });
        run(&job(("dgx-h100", 1, None), training)).unwrap()
    };
    for data_parallel in [json!({ "zero": {} }), json!({ "fsdp": {} })] {
        let of = |recompute| of(recompute, data_parallel.clone());
        let full = of(json!("full"));
        let again = |result: &StepResult| cause(result, "recomputation");
        let half = of(json!({ "every": 2 }));
        close(again(&half), again(&full) / 2.0, 1e-6);
        let sqrt = of(json!("sqrt"));
        close(again(&sqrt), again(&full), 1e-6);
        let none = of(json!("none"));
        assert_eq!(again(&none), 0.0);
        let kept = |result: &StepResult| part(result, MemoryPart::Activations) as f64;
        // Bytes of a row and column of a layer: 32 with all, 2 with its input alone.
        close(
            kept(&half),
            kept(&none) * (8.0 * 32.0 + 8.0 * 2.0) / (16.0 * 32.0),
            1e-9,
        );
        close(kept(&full), kept(&none) / 16.0, 1e-9);
        close(kept(&sqrt), kept(&full) / 4.0, 1e-9);
        let at_once = |result: &StepResult| part(result, MemoryPart::Transient);
        assert!(at_once(&sqrt) > at_once(&full));
        // Both blocks with their norms are the layer but for the sums with the residual stream.
        let parts = of(json!({ "operations": ["attention", "mlp", "norms"] }));
        assert!(again(&parts) < again(&full) && again(&parts) > 0.9 * again(&full));
        let small = of(json!({ "operations": ["norms", "activation"] }));
        assert!(again(&small) > 0.0 && again(&small) < 0.2 * again(&full));
        close(kept(&small), kept(&none) * 20.0 / 32.0, 1e-9);
        // hfu counts what mfu does not.
        close(
            half.hfu / half.mfu - 1.0,
            (full.hfu / full.mfu - 1.0) / 2.0,
            1e-9,
        );
    }
    let wrong = |recompute: Value| {
        let training = json!({ "model": gpt(16, 2048), "global_batch": 8, "recompute": recompute });
        run(&job(("dgx-h100", 1, None), training)).unwrap_err()
    };
    let said = wrong(json!({ "every": 17 }));
    assert!(
        said.contains("job.training.recompute.every") && said.contains("1 to 16"),
        "{said}"
    );
    let said = wrong(json!({ "operations": [] }));
    assert!(said.contains("`core_attention`"), "{said}");
}

/// Two nodes of two GPUs, a NIC and drives, and a file server.
const DRIVES: &str = include_str!("cases/topologies/drives.json");

/// A job of small steps on the machine with drives, with two GPUs of each node.
fn with_loader(nodes: u32, loader: &Value) -> Value {
    let machine: Value = serde_json::from_str(DRIVES).unwrap();
    json!({
        "name": "loader", "topology": { "inline": machine }, "nodes": nodes,
        "job": { "training": {
            "model": { "preset": "gpt2-124m" }, "micro_batch": 4, "global_batch": 8 * nodes,
            "data_loader": loader
        } }
    })
}

fn loader(result: &StepResult) -> &DataLoaderUse {
    result.data_loader.as_ref().unwrap()
}

/// A batch that takes longer than a step is the step; read between steps it comes on top, and small ones are hidden.
#[test]
fn a_slow_loader_is_what_a_step_takes() {
    let drives = |mut more: Value| {
        more["devices"] = json!("node0/nvme[0-1]");
        run(&with_loader(1, &more)).unwrap()
    };
    let small = drives(json!({}));
    assert_eq!(loader(&small).bytes.get(), 4 * 4 * 1024);
    assert!(loader(&small).stall_s < 2e-5);
    let slow = drives(json!({ "bytes_per_sample": "1GB" }));
    // Two GPUs read 4 GB each from two drives of 6.9 GB/s.
    let read = 4.0 / 6.9;
    close(loader(&slow).read_s, read, 1e-3);
    close(loader(&slow).gbs, 13.8, 1e-3);
    // It is then copied to the GPU, at 92 % of what both have of the switch's way to the CPU.
    let copy = slow.step_s - loader(&slow).read_s;
    assert!(4.0 / 64.0 < copy && copy < 8.0 / 45.0, "{copy}");
    close(loader(&slow).stall_s, slow.step_s - small.step_s, 0.01);
    let direct = drives(json!({ "bytes_per_sample": "1GB", "gds": true }));
    close(direct.step_s, read, 0.02);
    for between in [json!({ "prefetch": 0 }), json!({ "workers": 0 })] {
        let mut between = between;
        between["bytes_per_sample"] = json!("1GB");
        let result = drives(between);
        close(result.step_s, slow.step_s + small.step_s, 0.01);
    }
    // Four sequences of 200 ms each on four workers, and on one.
    let four = drives(json!({ "decode": "200ms", "workers": 4 }));
    close(four.step_s, 0.2, 0.01);
    let one = drives(json!({ "decode": "200ms", "workers": 1 }));
    close(one.step_s, 0.8, 0.01);
    close(loader(&one).stall_s, one.step_s - small.step_s, 0.01);
}

/// All replicas of all nodes share a file server's port.
#[test]
fn replicas_share_a_file_server() {
    let direct = json!({ "bytes_per_sample": "1GB", "gds": true });
    let result = run(&with_loader(2, &direct)).unwrap();
    assert_eq!(loader(&result).readers, 4);
    let port = loader(&result).gbs;
    assert!(40.0 < port && port < 50.0, "{port}");
    close(loader(&result).read_s, 4.0 * 4.0 / port, 1e-4);
    let training = json!({ "model": gpt(2, 1024), "global_batch": 8, "data_loader": {} });
    let said = run(&job(("dgx-h100", 1, None), training)).unwrap_err();
    assert!(
        said.contains("dgx-h100-nvme") && said.contains("job.training.data_loader"),
        "{said}"
    );
}

/// Of a 70B model on two nodes memory has room for so many layers and no more, each of which takes its weights.
#[test]
fn memory_decides_how_far_ahead_weights_are_gathered() {
    let of = |prefetch: Value| {
        let training = json!({
            "model": { "preset": "llama3-70b" }, "sequence": 2048, "micro_batch": 1,
            "global_batch": 24, "recompute": "full", "steps": 1,
            "data_parallel": { "fsdp": { "prefetch": prefetch } }
        });
        run(&job(("dgx-h100", 3, None), training))
    };
    let chosen = of(json!("memory")).unwrap();
    let used = chosen.prefetch.as_ref().unwrap();
    assert!(
        chosen.memory.fits && (1..79).contains(&used.layers),
        "{}",
        used.layers
    );
    let same = of(json!(used.layers)).unwrap();
    assert_eq!(same.step_s, chosen.step_s);
    assert_eq!(same.memory, chosen.memory);
    assert_eq!(same.prefetch, None);
    let more = of(json!(used.layers + 1)).unwrap();
    assert!(!more.memory.fits);
    let transient = |result: &StepResult| part(result, MemoryPart::Transient);
    assert_eq!(transient(&more) - transient(&same), used.layer_bytes.get());
    let said = of(json!("all")).unwrap_err();
    assert!(said.contains("a number of layers, or \"memory\""), "{said}");
}

/// Of 12 bytes of states each way, with several drives as one; as many drives as GPUs.
#[test]
fn drives_take_bytes_over_their_rates() {
    let of = |pipeline: bool| {
        let training = json!({
            "model": { "preset": "llama3-8b" }, "sequence": 2048, "micro_batch": 1,
            "global_batch": 8, "data_parallel": { "zero": { "stage": 2 } },
            "offload": { "optimizer": "nvme", "gradients": "cpu", "pipeline": pipeline }
        });
        run(&job(("dgx-h100-nvme", 1, None), training)).unwrap()
    };
    let result = of(false);
    let own = offload(&result).updated as f64;
    let (read, write) = (way(&result, "from drives"), way(&result, "to drives"));
    assert_eq!(read.bytes.get() as f64, 12.0 * own);
    assert_eq!(write.bytes.get() as f64, 12.0 * own);
    // Four lanes of PCIe 4 carry 6.5 GB/s, less than a drive reads.
    close(read.time_s, 12.0 * own / 6.5e9, 0.01);
    close(write.time_s, 12.0 * own / 4.0e9, 0.01);
    // One sub-group after the other: read, updated, written.
    let parts = read.time_s + write.time_s + offload(&result).cpu_s;
    assert!(offload(&result).exposed_s > parts && offload(&result).exposed_s < 1.1 * parts);
    assert_eq!(offload(&result).host.drives.get(), 8 * read.bytes.get());
    assert!(of(true).step_s <= result.step_s);
    let without = json!({
        "model": gpt(2, 1024), "global_batch": 8, "data_parallel": { "zero": {} },
        "offload": { "optimizer": "nvme" }
    });
    let said = run(&job(("dgx-h100", 1, None), without)).unwrap_err();
    assert!(
        said.contains("job.training.offload.optimizer") && said.contains("dgx-h100-nvme"),
        "{said}"
    );
}

/// SuperOffload (arXiv 2509.21271): 25 billion parameters on one GH200, whose states lie in LPDDR. Copies go at the
/// rate of C2C, 405 GB/s, of which they reach 92 %.
#[test]
fn grace_has_states_behind_c2c() {
    let of = |layers: u32, pinned: bool| {
        let training = json!({
            "model": gpt(layers, 5120), "micro_batch": 1, "global_batch": 1, "recompute": "full",
            "data_parallel": { "zero": { "stage": 2 } },
            "offload": { "optimizer": "cpu", "pin_memory": pinned, "host_memory": "480GB" }
        });
        run(&job(("gh200-quad", 1, Some(1)), training))
    };
    let result = of(78, true).unwrap();
    let own = offload(&result).updated as f64;
    assert!(24.5e9 < own && own < 25.5e9, "{own}");
    assert!(result.memory.fits);
    close(
        way(&result, "from the host").time_s,
        2.0 * own / (405e9 * 0.92),
        0.01,
    );
    close(offload(&result).cpu_s, own * 30.0 / (546e9 * 0.46), 1e-6);
    let host = &offload(&result).host;
    // HBM of 96 GB and LPDDR.
    assert!(
        host.superchip
            .is_some_and(|b| (570_000_000_000..590_000_000_000).contains(&b))
    );
    assert_eq!(host.buffers.get(), 0);
    // Pageable memory is as good.
    let pageable = of(78, false).unwrap();
    close(
        way(&pageable, "from the host").time_s,
        way(&result, "from the host").time_s,
        0.01,
    );
    // 32 billion do not fit 480 GB.
    let said = of(100, true).unwrap_err();
    assert!(
        said.contains("480 GB") && said.contains("host_memory"),
        "{said}"
    );
}

/// The largest models on one V100 of 32 GB: 13 billion with ZeRO-Offload (arXiv 2101.06840), 40 with ZeRO-3 Offload
/// and 1.5 TB of DRAM (DeepSpeed, 2021-03-08).
#[test]
fn models_as_large_as_was_published_fit_a_v100() {
    let of = |layers: u32, hidden: u32, data_parallel: Value, offload: Value| {
        let training = json!({
            "model": gpt(layers, hidden), "micro_batch": 1, "global_batch": 1,
            "recompute": "full", "data_parallel": data_parallel, "offload": offload, "steps": 1
        });
        run(&job(("dgx-2", 1, Some(1)), training))
    };
    let zero = |layers| {
        of(
            layers,
            4096,
            json!({ "zero": { "stage": 2 } }),
            json!({ "optimizer": "cpu" }),
        )
    };
    let thirteen = zero(65).unwrap();
    close(offload(&thirteen).updated as f64, 13e9, 0.05);
    assert!(thirteen.memory.fits);
    assert!(!zero(80).unwrap().memory.fits);
    let all = json!({ "optimizer": "cpu", "parameters": "cpu" });
    let forty = |layers| of(layers, 8192, json!({ "fsdp": {} }), all.clone());
    let result = forty(49).unwrap();
    close(offload(&result).updated as f64, 40e9, 0.02);
    assert!(result.memory.fits);
    // 60 billion do not: 18 bytes each, and half as much of buffers.
    let said = forty(74).unwrap_err();
    assert!(said.contains("of 1536 GB"), "{said}");
}

/// Copies and a NIC share the PCIe link of an H100's switch to its CPU, where data goes through hosts; a Grace has its
/// GPUs behind C2C and its NICs behind PCIe.
#[test]
fn copies_and_nics_share_pcie_but_not_c2c() {
    let of = |machine: &str, gpus: u32| {
        let training = json!({
            "model": gpt(8, 4096), "micro_batch": 1, "global_batch": 4 * gpus,
            "data_parallel": { "fsdp": {} },
            "offload": { "optimizer": "cpu", "parameters": "cpu" }
        });
        run(&job((machine, 2, None), training)).unwrap()
    };
    let slower = |result: &StepResult| {
        let moved = way(result, "from the host");
        moved.time_s / moved.alone_s
    };
    let shared = slower(&of("dgx-h100", 16));
    assert!(shared > 1.05, "{shared}");
    let apart = slower(&of("gh200-quad", 8));
    assert!(apart < 1.001, "{apart}");
}

/// A GPT without recomputation on one GPU of a machine: 4,096 tokens of a width, whose layers keep 32 bytes of each.
fn with_activations(machine: &str, (layers, hidden): (u32, u32), offload: Value) -> Value {
    job(
        (machine, 1, Some(1)),
        json!({
            "model": gpt(layers, hidden), "micro_batch": 4, "global_batch": 4, "offload": offload
        }),
    )
}

/// Seconds in which kernels run.
fn kernels(result: &StepResult) -> f64 {
    let parts = result.causes.iter();
    let names = [
        "forward kernels",
        "backward kernels",
        "kernels slowed by collectives",
        "optimiser",
    ];
    let parts = parts.filter(|part| names.contains(&part.cause.as_str()));
    parts.map(|part| part.time.seconds()).sum()
}

/// Over PCIe 3 copies take longer than kernels: both ways their bytes over the link's rate. Over C2C kernels hide them.
#[test]
fn activations_take_bytes_over_rate_or_are_hidden() {
    let away = json!({ "activations": "cpu" });
    let slow = run(&with_activations("dgx-2", (10, 2048), away.clone())).unwrap();
    let bytes = 9.0 * 32.0 * 4096.0 * 2048.0;
    let copies = ["to the host", "from the host"].map(|name| {
        let moved = way(&slow, name);
        assert_eq!(moved.bytes.get() as f64, bytes);
        assert_eq!(moved.copies, 9);
        close(moved.time_s, bytes / (12.8e9 * 0.92), 0.02);
        moved.time_s
    });
    let copies: f64 = copies.iter().sum();
    assert_eq!(offload(&slow).updated, 0);
    let plain = run(&with_activations("dgx-2", (10, 2048), json!(null))).unwrap();
    // Nothing hides the first layer forward, and the last, the head and the optimizer.
    assert!(slow.step_s > copies && slow.step_s < copies + 0.6 * plain.step_s);
    let apart = json!({ "activations": "cpu", "overlap": false });
    let apart = run(&with_activations("dgx-2", (10, 2048), apart)).unwrap();
    close(apart.step_s, kernels(&apart) + copies, 1e-3);
    assert!(slow.step_s < apart.step_s);
    let fast = run(&with_activations("gh200-quad", (8, 8192), away)).unwrap();
    let plain = run(&with_activations("gh200-quad", (8, 8192), json!(null))).unwrap();
    close(fast.step_s, plain.step_s, 2e-3);
    close(
        way(&fast, "to the host").time_s,
        7.0 * 32.0 * 4096.0 * 8192.0 / (405e9 * 0.92),
        0.02,
    );
}

/// Of eight layers two are on the GPU at most; with four that leave the other four and one. What is computed again is
/// not kept, and does not move.
#[test]
fn activations_that_leave_free_memory() {
    let of = |more: Value| {
        let mut scenario = with_activations("gh200-quad", (8, 4096), json!(null));
        let training = scenario["job"]["training"].as_object_mut().unwrap();
        training.extend(more.as_object().unwrap().clone());
        run(&scenario)
    };
    let kept = |result: &StepResult| part(result, MemoryPart::Activations);
    let on_host = |result: &StepResult| offload(result).host.activations.get();
    let layer = 32 * 4096 * 4096;
    let plain = of(json!({})).unwrap();
    let all = of(json!({ "offload": { "activations": "cpu" } })).unwrap();
    assert_eq!(kept(&plain) - kept(&all), 6 * layer);
    assert_eq!(on_host(&all), 7 * layer);
    let four = json!({ "activations": "cpu", "activation_layers": 4 });
    let four = of(json!({ "offload": four })).unwrap();
    assert_eq!(kept(&plain) - kept(&four), 3 * layer);
    assert_eq!(on_host(&four), 4 * layer);
    let again = json!({ "recompute": "full", "offload": { "activations": "cpu" } });
    let again = of(again).unwrap();
    assert_eq!(on_host(&again), 7 * layer / 16);
    assert_eq!(way(&again, "to the host").bytes.get(), 7 * layer / 16);
    for (offload, place, expected) in [
        (
            json!({ "activations": "nvme" }),
            "activations",
            "`none` or `cpu`",
        ),
        (
            json!({ "activation_layers": 4 }),
            "activation_layers",
            "`\"activations\": \"cpu\"` beside it",
        ),
        (
            json!({ "activations": "cpu", "activation_layers": 8 }),
            "activation_layers",
            "1 to 7",
        ),
        (
            json!({ "activations": "cpu", "host_memory": "1GB" }),
            "offload",
            "fewer `activation_layers`",
        ),
    ] {
        let said = of(json!({ "offload": offload })).unwrap_err();
        assert!(said.contains(place) && said.contains(expected), "{said}");
    }
}

/// Stages of a pipeline copy what each micro-batch in flight keeps; both GPUs' hosts hold it.
#[test]
fn activations_of_a_pipeline_leave_with_each_micro_batch() {
    let of = |offload: Value| {
        let training = json!({
            "model": gpt(8, 4096), "micro_batch": 1, "global_batch": 4, "parallel": { "pp": 2 },
            "offload": offload
        });
        run(&job(("dgx-h100", 1, Some(2)), training)).unwrap()
    };
    let result = of(json!({ "activations": "cpu" }));
    let layer = 32 * 1024 * 4096;
    // Three of four layers of four micro-batches; on the first stage two of these are in flight, on the second one.
    assert_eq!(way(&result, "to the host").bytes.get(), 3 * 4 * layer);
    assert_eq!(offload(&result).host.activations.get(), (2 + 1) * 3 * layer);
    let plain = of(json!(null));
    let kept = |result: &StepResult| part(result, MemoryPart::Activations);
    assert!(kept(&result) < kept(&plain) && result.step_s >= plain.step_s);
}

/// SuperOffload's 25 billion parameters on one GH200: updates that do not wait for the norm go on beside the backward
/// pass, all of them if that is long; and each Adam has its own rate.
#[test]
fn the_cpu_updates_as_gradients_come() {
    let of = |micro_batch: u32, more: Value| {
        let mut offload = json!({ "optimizer": "cpu", "host_memory": "480GB" });
        let fields = offload.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let training = json!({
            "model": gpt(78, 5120), "micro_batch": micro_batch, "global_batch": micro_batch,
            "recompute": "full", "data_parallel": { "zero": { "stage": 2 } }, "offload": offload
        });
        run(&job(("gh200-quad", 1, Some(1)), training))
    };
    let early = json!({ "speculative_update": true });
    let (late, long) = (of(16, json!({})).unwrap(), of(16, early.clone()).unwrap());
    let cpu = offload(&late).cpu_s;
    close(offload(&long).cpu_s, cpu, 1e-6);
    for name in ["to the host", "from the host"] {
        assert_eq!(way(&long, name).bytes, way(&late, name).bytes);
    }
    close(late.step_s - long.step_s, cpu, 0.03);
    assert!(offload(&long).exposed_s < 0.02 * long.step_s);
    // A short step is the CPU's, which begins behind the forward pass.
    let short = of(1, early).unwrap();
    assert!(short.step_s > cpu && short.step_s < of(1, json!({})).unwrap().step_s);
    let grace = of(1, json!({ "cpu_adam": "grace" })).unwrap();
    close(offload(&grace).cpu_s, cpu / 1.3, 1e-6);
    let pytorch = of(1, json!({ "cpu_adam": "pytorch" })).unwrap();
    close(offload(&pytorch).cpu_s, cpu * 3.0 / 1.3, 2e-3);
    let said = of(
        1,
        json!({ "speculative_update": true, "delayed_update": true }),
    )
    .unwrap_err();
    assert!(said.contains("offload.speculative_update"), "{said}");
    let x86 = json!({ "optimizer": "cpu", "cpu_adam": "grace" });
    let said = run(&on_a_v100(&gpt(10, 2048), 1, x86)).unwrap_err();
    assert!(
        said.contains("offload.cpu_adam") && said.contains("Arm's processors"),
        "{said}"
    );
}

/// An update that comes a step late is hidden, as long as it is shorter than the step; else it is the step.
#[test]
fn a_delayed_update_is_hidden_or_is_the_step() {
    let of = |micro_batch: u32, delayed: bool| {
        let spec = json!({ "optimizer": "cpu", "delayed_update": delayed });
        run(&on_a_v100(&gpt(10, 2048), micro_batch, spec)).unwrap()
    };
    let kernels = |result: &StepResult| {
        let parts = result.causes.iter();
        let parts = parts.filter(|p| p.cause.contains("kernels") || p.cause == "recomputation");
        parts.map(|part| part.time.seconds()).sum::<f64>()
    };
    let long = of(16, true);
    assert!(offload(&long).delayed);
    // The last gradients still go out behind the kernels.
    close(long.step_s, kernels(&of(16, false)), 0.05);
    let short = of(1, true);
    let used = offload(&short);
    assert!(short.step_s > 1.5 * kernels(&short) && short.step_s < of(1, false).step_s);
    // Its last tile has to be copied before the next update begins.
    let update = used.cpu_s + way(&short, "from the host").time_s;
    assert!(
        used.cpu_s < short.step_s && short.step_s < 1.1 * update,
        "{} {update}",
        short.step_s
    );
}
