//! What broke the command once: numbers that no machine has, times beyond the clock, jobs that no
//! memory holds, files that do not do what they say.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs a command in the project's folder; its exit code, and what it says on stderr and stdout.
fn run(args: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command.args(args).env_remove("CLICOLOR_FORCE").output();
    let output = output.unwrap();
    let text = [output.stderr, output.stdout].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// It ends with this code, and says all of these.
fn ends(args: &[&str], code: i32, says: &[&str]) {
    let (found, text) = run(args);
    assert_eq!(found, code, "{args:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    for part in says {
        assert!(
            text.contains(part),
            "{args:?}: `{part}` is not in: {}",
            &text[..text.len().min(2000)]
        );
    }
}

fn read(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Writes a file into a folder and returns its path.
fn write(folder: &Path, name: &str, value: &Value) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, value.to_string()).unwrap();
    path
}

/// A scenario of a small job on a machine whose file has kernels of its own.
fn with_kernels(folder: &Path, field: &str, value: Value) -> PathBuf {
    let mut hopper =
        read("topologies/hardware/architectures.json")["architectures"]["hopper"].take();
    hopper["kernels"][field] = json!({"value": value, "source": "made"});
    let mut topology = read("topologies/dgx-h100.json");
    topology["hardware"] = json!({"architectures": {"hopper": hopper}});
    let mut scenario = read("scenarios/ddp-straggler.json");
    scenario["topology"] = json!({"inline": topology});
    write(folder, "kernels.json", &scenario)
}

#[test]
fn numbers_of_kernels_that_no_gpu_has_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    for (field, value, expected) in [
        ("tile", json!([0, 256]), "rows and columns from 1 to 65536"),
        ("tile", json!([128, 1u64 << 40]), "rows and columns from 1"),
        ("gemm_share", json!(-1), "a share, from"),
        ("gemm_share", json!(0), "a share, from"),
        ("memory_share", json!(-0.0), "a share, from"),
        (
            "attention_shares",
            json!([0.2, 65536, 0.5]),
            "a share, from",
        ),
        ("gemm_share", json!(1e308), "a share, from"),
        ("power", json!(0), "a share, from"),
        ("power", json!(1.5), "a share, from"),
        ("latency", json!("100d"), "at most 1s"),
    ] {
        let path = with_kernels(folder.path(), field, value);
        let place = format!("hardware.architectures.hopper.kernels.{field}.value");
        let args = [
            "run",
            path.to_str().unwrap(),
            "-q",
            "-o",
            out.to_str().unwrap(),
        ];
        ends(&args, 2, &[&place, expected]);
        assert!(!out.exists());
    }
}

#[test]
fn sequences_that_no_gpu_could_keep_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    let began = Instant::now();
    for (scenario, tokens, expected) in [
        ("gpt3-175b-tp8-pp4-dp8", "1000000000000", "1 to 4294967296"),
        (
            "gpt3-175b-tp8-pp4-dp8",
            "1000000000",
            "times the memory of a GPU",
        ),
        ("moe-alltoall", "10000000", "times the memory of a GPU"),
        ("gpt3-175b-tp8-pp4-dp8", "0", "1 to 4294967296"),
    ] {
        let scenario = format!("scenarios/{scenario}.json");
        let set = format!("job.training.sequence={tokens}");
        let args = [
            "run",
            &scenario,
            "-q",
            "-o",
            out.to_str().unwrap(),
            "--set",
            &set,
        ];
        ends(&args, 2, &["job.training.sequence", expected]);
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_file_that_does_not_do_what_it_says_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let gpu = |id: u32| {
        format!(
            r#"<gpu id="{id}" i_chunks="1" o_chunks="2" s_chunks="0"><tb id="0" send="-1" recv="-1" chan="0"><step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{id}" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>"#
        )
    };
    let file = folder.path().join("none.xml");
    let head = r#"<algo name="x" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0">"#;
    fs::write(&file, format!("{head}{}{}</algo>", gpu(0), gpu(1))).unwrap();
    let args = [
        "collective",
        "all-gather",
        "-t",
        "dgx-h100",
        "-g",
        "2",
        "-s",
        "8M",
        "--algo-file",
        file.to_str().unwrap(),
    ];
    ends(
        &args,
        2,
        &["none.xml", "it is no all-gather", "rank 0, output chunk 1"],
    );
}

#[test]
fn what_takes_longer_than_the_clock_goes_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let beyond = "longer than 213 days";
    let jitter = json!([{"jitter": {"ranks": "all", "add": {"constant": {"value": "72d"}}, "per": "kernel"}}]);
    let jitter = write(folder.path(), "jitter.json", &jitter);
    let collective = ["collective", "all-reduce", "-t", "dgx-h100", "-n", "2"];
    let faults = ["-s", "1M", "--faults", jitter.to_str().unwrap()];
    ends(&[&collective[..], &faults].concat(), 1, &[beyond]);

    let link = json!([{"link": {"links": "node[1]/nic[2] <> compute", "factor": 1e-9}}]);
    let link = write(folder.path(), "link.json", &link);
    let faults = [
        "-s",
        "64G",
        "--algo",
        "ring",
        "--faults",
        link.to_str().unwrap(),
    ];
    ends(&[&collective[..], &faults].concat(), 1, &[beyond]);

    let out = folder.path().join("o");
    let slow = r#"faults=[{"slow_gpu":{"ranks":0,"speed":1e-9}}]"#;
    let args = [
        "run",
        "scenarios/ddp-straggler.json",
        "-o",
        out.to_str().unwrap(),
        "--set",
        "variants=[]",
        "--set",
        slow,
    ];
    ends(&args, 1, &[beyond]);
}

/// Runs what memory cannot hold: refused soon, with what it would take and what to change.
fn too_large(args: &[&str], says: &[&str]) {
    let began = Instant::now();
    let all = [
        &["of memory, most of it for", "but the budget is", "--memory"],
        says,
    ]
    .concat();
    ends(args, 2, &all);
    // 5 s of a quiet machine and a release build.
    assert!(began.elapsed() < Duration::from_secs(30), "{args:?}");
}

#[test]
fn a_job_that_memory_does_not_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    for (scenario, set) in [
        ("gpt3-175b-tp8-pp4-dp8", "job.training.steps=1000"),
        ("gpt3-175b-tp8-pp4-dp8", "job.training.global_batch=131072"),
        ("fsdp-70b-32gpu", "job.training.global_batch=1600000"),
    ] {
        let scenario = format!("scenarios/{scenario}.json");
        let args = [
            "run",
            &scenario,
            "-q",
            "-o",
            out.to_str().unwrap(),
            "--memory",
            "500M",
            "--set",
            set,
        ];
        too_large(&args, &["kernels and messages", "steps", "global_batch"]);
        assert!(!out.exists());
    }
    // All replicas by themselves take more than one that stands for all.
    let args = [
        "run",
        "scenarios/gpt3-175b-tp8-pp4-dp8.json",
        "-q",
        "-o",
        out.to_str().unwrap(),
        "--memory",
        "200M",
    ];
    ends(&args, 0, &[]);
    let full = [
        &args[..],
        &["--exact-full", "--set", "job.training.steps=4"],
    ]
    .concat();
    too_large(&full, &["kernels and messages"]);
}

#[test]
fn a_collective_that_memory_does_not_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let row = |i: u64| (0..64).map(|j| (7 * i + 13 * j) % 17).collect::<Vec<u64>>();
    let matrix = write(
        folder.path(),
        "m.json",
        &json!((0..64).map(row).collect::<Vec<_>>()),
    );
    let common = ["-t", "dgx-h100", "-s", "1M", "--memory", "20M"];
    let uneven = [
        &[
            "collective",
            "all-to-all-v",
            "-n",
            "8",
            "--matrix",
            matrix.to_str().unwrap(),
        ],
        &common[..],
    ];
    too_large(
        &uneven.concat(),
        &["connections between ranks", "fewer nodes"],
    );
    let direct = [
        &["collective", "all-reduce", "-n", "32", "--algo", "direct"],
        &common[..],
    ];
    too_large(
        &direct.concat(),
        &["connections between ranks", "fewer nodes"],
    );
    // Before any table of all pairs is made.
    let many = [
        "collective",
        "all-to-all",
        "-t",
        "superpod-h100",
        "-n",
        "2048",
        "-s",
        "1G",
        "--memory",
        "4G",
    ];
    too_large(&many, &["connections between ranks"]);
    let ring = [
        &["collective", "all-reduce", "-n", "2", "--algo", "ring"],
        &common[..],
    ];
    ends(&ring.concat(), 0, &[]);
}

#[test]
fn published_steps_that_memory_does_not_hold_are_refused() {
    let args = [
        "validate",
        "--steps",
        "validation/training.json",
        "--only",
        "kor-megatron-1T",
        "--memory",
        "60M",
    ];
    too_large(&args, &["kernels and messages"]);
}

#[test]
fn a_bare_word_for_an_object_is_told_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |topology: Value, model: Value| {
        let scenario = json!({
            "name": "a", "title": "A", "topology": topology,
            "job": {"training": {
                "model": model, "micro_batch": 1, "global_batch": 8, "data_parallel": {"ddp": {}}
            }}
        });
        write(folder.path(), "a.json", &scenario)
    };
    let said = |topology: Value, model: Value, says: &[&str]| {
        let path = scenario(topology, model);
        ends(&["run", path.to_str().unwrap(), "-q"], 2, says);
    };
    let (machine, model) = (json!({"name": "dgx-h100"}), json!({"preset": "llama3-8b"}));
    said(
        json!("dgx-h100"),
        model.clone(),
        &[
            "at topology",
            r#"found:    "dgx-h100" by itself"#,
            r#"{"name": "dgx-h100"} or {"path": "dgx-h100"}"#,
        ],
    );
    said(
        machine.clone(),
        json!("llama3-8b"),
        &[
            "at job.training.model",
            r#"found:    "llama3-8b" by itself"#,
            r#"expected: an object: {"preset": "llama3-8b"}"#,
        ],
    );
    said(
        machine.clone(),
        json!("preset"),
        &["at job.training.model", r#"{"preset": "…"}"#],
    );
    // Written so, a wrong name is told the nearest one.
    said(
        json!({"name": "dgx-h10"}),
        model.clone(),
        &["topology", "`dgx-h100`"],
    );
    said(
        machine.clone(),
        json!({"preset": "llama3-8"}),
        &["job.training.model", "`llama3-8b`"],
    );
    // By --set, too, and in the model of a serving job.
    let path = scenario(machine, model);
    let path = path.to_str().unwrap();
    ends(
        &["run", path, "-q", "--set", "topology=dgx-h100"],
        2,
        &["at topology", r#"{"name": "dgx-h100"}"#],
    );
    ends(
        &[
            "run",
            "serve-deepseek-v3",
            "-q",
            "--set",
            "job.serving.model=llama3-8b",
        ],
        2,
        &["at job.serving.model", r#"{"preset": "llama3-8b"}"#],
    );
}

#[test]
fn what_a_search_cannot_reach_is_refused_before_it_searches() {
    let began = Instant::now();
    // More layouts than anybody looks at: the product of axes, each of which is short.
    let axes = ["tp", "pp", "cp", "micro_batch", "virtual_stages"];
    let axes = axes.map(|knob| format!("{knob}=1..64+1"));
    let mut args = vec![
        "optimize",
        "llama3-70b",
        "-t",
        "superpod-h100",
        "--gpus",
        "1024",
    ];
    args.extend(["--global-batch", "1024"]);
    args.extend(axes.iter().flat_map(|axis| ["--over", axis]));
    ends(
        &args,
        2,
        &[
            "--over",
            "64 of tp × 64 of cp × 64 of pp",
            "at most 1000000",
        ],
    );
    // A rate above the peaks of all GPUs, whatever the layout.
    for (gpus, rate) in [("8", "tokens/s=1e17"), ("64", "tokens/s=1M")] {
        let at = [
            "optimize",
            "llama3-70b",
            "-t",
            "dgx-h100",
            "--global-batch",
            "64",
        ];
        let more = [
            "--gpus",
            gpus,
            "--target",
            rate,
            "--budget",
            "usd_per_hour=30",
            "--json",
        ];
        let (code, text) = run(&[&at[..], &more[..]].concat());
        assert_ne!(code, 0);
        assert!(text.contains("\"simulated\": 0"), "{text}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn more_variants_than_are_held_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut scenario = read("scenarios/ddp-straggler.json");
    let variants = (0..100_000).map(|i| json!({ "name": format!("v{i}"), "set": { "seed": i } }));
    scenario["variants"] = variants.collect();
    let path = write(folder.path(), "many.json", &scenario);
    let said = ["variants", "100000 variants", "at most 10000", "sweep run"];
    ends(&["run", path.to_str().unwrap()], 2, &said);
}

#[test]
#[cfg(unix)]
fn what_takes_long_is_announced_and_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("fabricsim"));
    // Steps of thousands of micro-batches.
    command.args([
        "run",
        "fsdp-70b-32gpu",
        "--set",
        "job.training.global_batch=100000",
        "-o",
    ]);
    command.arg(folder.path().join("out"));
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let announced = lines.find_map(|line| line.ok().filter(|line| line.contains("Ctrl-C")));
    let announced = announced.unwrap();
    for part in [
        "variants",
        " % after ",
        ", about ",
        " more, about ",
        " of memory",
    ] {
        assert!(announced.contains(part), "{announced}");
    }
    let sent = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let began = Instant::now();
    let status = child.wait().unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(status.code(), Some(130));
}
