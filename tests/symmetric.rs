//! Symmetric windows and SHARP's trees as a user meets them: flags, scenarios of jobs, messages.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;

fn fabricsim(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(arguments);
    command
}

/// What a collective prints to standard output and to standard error.
fn said(arguments: &[&str]) -> (String, String) {
    let mut command = fabricsim(&["collective"]);
    let output = command.args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn windows_are_asked_for_by_name_or_as_nccl_tests_counts_them() {
    let one = ["all-reduce", "-t", "dgx-b200", "--size", "64K", "--csv"];
    let csv = |how: &str| said(&[&one[..], &[how]].concat()).0;
    assert!(csv("--registered=symmetric").contains("sym-multicast"));
    assert_eq!(csv("--registered=2"), csv("--registered=symmetric"));
    assert!(!csv("--registered=1").contains("sym-"));
}

#[test]
fn a_fall_back_is_told_with_its_reason() {
    let at = |machine: &[&str]| {
        let one = ["all-reduce", "--size", "1M", "--registered=symmetric"];
        said(&[&one[..], machine].concat())
    };
    let (out, err) = at(&["-t", "dgx-h100", "-n", "2"]);
    let all = out + &err;
    assert!(
        all.contains("NCCL takes its ordinary algorithms: 2 NVLink domains"),
        "{all}"
    );
    let (out, err) = at(&["-t", "dgx-h100"]);
    assert!(!(out + &err).contains("ordinary algorithms"));
    let (_, err) = at(&[
        "-t",
        "dgx-h100",
        "--algo",
        "sym-multicast",
        "--unregistered",
        "3",
    ]);
    assert!(
        err.contains("buffers of some ranks are not registered"),
        "{err}"
    );
    let (_, err) = at(&["-t", "dgx-h100", "--unregistered", "8"]);
    assert!(err.contains("ranks below 8"), "{err}");
    let alone = ["all-reduce", "-t", "dgx-h100", "--algo", "sym-multicast"];
    let (_, err) = said(&[&alone[..], &["--size", "1M"]].concat());
    assert!(err.contains("not registered as symmetric windows"), "{err}");
    let (out, err) = said(&[&alone[..3], &["--size", "1M", "--env", "NCCL_SYM_CTAS=4"]].concat());
    assert!((out + &err).contains("NCCL_SYM_CTAS is set, but no buffers"));
}

/// The summary of a training job with two variants.
fn trained(name: &str, scenario: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.json"));
    fs::write(&file, scenario.to_string()).unwrap();
    let out = folder.path().join("out");
    fabricsim(&["run", "--quiet"])
        .arg(&file)
        .arg("-o")
        .arg(&out)
        .assert()
        .success();
    serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn tensor_parallel_jobs_take_kernels_on_windows() {
    let summary = trained(
        "tp",
        &json!({
            "name": "tp", "topology": { "name": "gb200-nvl72" }, "nodes": 2,
            "job": { "training": {
                "model": { "preset": "llama3-8b" }, "micro_batch": 1, "global_batch": 4,
                "parallel": { "tp": 8 }, "data_parallel": { "zero": {} } } },
            "variants": [
                { "name": "plain" },
                { "name": "symmetric", "set": { "registered": "symmetric" } }
            ]
        }),
    );
    let text = summary.to_string();
    assert!(text.contains("sym-multicast"), "{text}");
    let step = |variant: usize| summary["variants"][variant]["ran"]["step_s"].clone();
    let steps = [0, 1].map(|v| step(v).as_f64());
    assert!(steps[1].unwrap() < steps[0].unwrap(), "{steps:?}");
}

/// Data-parallel groups have an interface each; who comes later finds its trees locked.
#[test]
fn later_communicators_find_sharps_trees_locked() {
    let summary = trained(
        "sharp",
        &json!({
            "name": "sharp", "topology": { "name": "dgx-h100" }, "nodes": 4,
            "environment": { "NCCL_COLLNET_ENABLE": 1 },
            "job": { "training": {
                "model": { "preset": "gpt2-124m" }, "micro_batch": 1, "global_batch": 8,
                "parallel": { "tp": 4, "pp": 2 }, "data_parallel": { "ddp": {} } } }
        }),
    );
    let warnings = summary["warnings"].to_string();
    assert!(
        warnings.contains("communicators of embedding go without CollNet"),
        "{warnings}"
    );
    assert!(
        warnings.contains("data parallel holds the streaming trees"),
        "{warnings}"
    );
    assert!(
        !warnings.contains("communicators of data parallel go"),
        "{warnings}"
    );
    assert!(summary.to_string().contains("collnet"));
}
