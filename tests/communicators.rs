//! What making communicators takes, as a user asks for it, beside what is published.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;

/// What a command prints, on which stream, and its exit status.
fn fabricsim(args: &str) -> (String, String, i32) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command.args(args.split(' ')).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code().unwrap(),
    )
}

/// The results of the only variant.
fn made(args: &str) -> Value {
    let (out, err, status) = fabricsim(&format!("communicator {args} --json"));
    assert_eq!(status, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    summary["variants"][0].clone()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap() / 1e6
}

/// The first object of that name, wherever it is.
fn found<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let object = value.as_object()?;
    let own = object.get(name).filter(|found| found.is_object());
    own.or_else(|| object.values().find_map(|value| found(value, name)))
}

/// A part of the first communicator, seconds.
fn part(made: &Value, name: &str) -> f64 {
    let parts = made["communicators"][0]["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["part"] == name).unwrap();
    seconds(&part["time_us"])
}

/// 8 H100 take 2.46 s (NVIDIA/nccl issue 534), of which bootstrap 1.60, 8 B200 55 s (issue 1646), nearly all for
/// kernels. What a rank waits for others makes the difference of the first, and is not known.
#[test]
fn eight_gpus_beside_published_timings() {
    let h100 = made("-t dgx-h100 --first none");
    let total = seconds(&h100["making_us"]);
    assert!((total / 1.64 - 1.0).abs() < 0.01, "{total}");
    assert!((total / 2.46 - 1.0) > -0.35, "{total}");
    assert_eq!(part(&h100, "kernels"), 0.18);
    assert!((part(&h100, "topology") - 0.52).abs() < 1e-9);
    let bootstrap = part(&h100, "arrival") + part(&h100, "root") + part(&h100, "all-gathers");
    assert!((bootstrap / 1.60 - 1.0) > -0.51, "{bootstrap}");
    let b200 = made("-t dgx-b200 --first none --cold");
    let total = seconds(&b200["making_us"]);
    assert!((total / 55.0 - 1.0).abs() < 0.03, "{total}");
}

/// Meta's 17 s with 16 K GPUs (arXiv 2602.00277, figure 2): what is known of the protocol explains two thirds.
#[test]
fn sixteen_thousand_ranks_of_one_root() {
    let made = made("-t superpod-h100 -n 2048 --roots 1 --first none --nccl-version 2.21");
    let total = seconds(&made["making_us"]);
    assert!((total / 11.4 - 1.0).abs() < 0.01, "{total}");
    // Root: 16,384 × 3 × 75 µs; ring: 3 × 16,383 × 75 µs.
    assert!((part(&made, "root") - 3.6864).abs() < 1e-6);
    assert!((part(&made, "all-gathers") - 3.686_175).abs() < 1e-6);
}

#[test]
fn a_user_reads_one_sentence() {
    let (out, _, status) = fabricsim("communicator -t dgx-h100 -n 128 --first all-reduce:64M");
    assert_eq!(status, 0);
    let out = out.replace('\u{a0}', " ");
    let said = "Making the communicator of 1 024 ranks takes 3.30 s, of which 2.33 s arrival and 520 ms topology; \
                its first all-reduce 321 ms more; 584 sockets a node and 640 MiB of a GPU's memory.";
    assert!(out.contains(said), "{out}");
}

/// What connecting takes is paid by the first operation, or by making it (NCCL_RUNTIME_CONNECT=0).
#[test]
fn connections_are_paid_once() {
    let ring = "-t dgx-h100 -n 4 --env NCCL_ALGO=Ring";
    let lazy = made(ring);
    let eager = made(&format!("{ring} --env NCCL_RUNTIME_CONNECT=0"));
    assert!(eager["making_us"].as_f64() > lazy["making_us"].as_f64());
    let first = |made: &Value| seconds(&made["communicators"][0]["first"]["connecting_us"]);
    assert!(first(&lazy) > 0.0 && first(&eager) == 0.0);
    // No warning says that the variable does nothing.
    let (out, _, _) = fabricsim("communicator -t dgx-h100 --env NCCL_RUNTIME_CONNECT=0");
    assert!(!out.contains("warning"), "{out}");
}

/// Communicators that are split off need no root, and no rank waits for others' contexts; made at once, the
/// longest hides the others.
#[test]
fn splitting_and_grouping_are_cheaper() {
    let names = "-t dgx-h100 -n 8 --first none --groups world,tp8,dp";
    let one_by_one = seconds(&made(names)["making_us"]);
    let split = made(&format!("{names} --split"));
    assert!(seconds(&split["making_us"]) < one_by_one);
    assert_eq!(split["communicators"][1]["roots"], 0);
    assert_eq!(split["communicators"][2]["count"], 8);
    let grouped = made(&format!("{names} --grouped"));
    let world = seconds(&grouped["communicators"][0]["making_us"]);
    assert_eq!(seconds(&grouped["making_us"]), world);
}

/// 256 nodes of 8 H100, all-to-all without PXN: "Call to bind failed"; with PXN it runs (NVIDIA/nccl issue 1882).
#[test]
fn ports_run_out_without_pxn() {
    let many = "communicator -t dgx-h100 -n 256 --first all-to-all:1M --open-files 65536";
    let (_, err, status) = fabricsim(&format!("{many} --env NCCL_PXN_DISABLE=1"));
    assert_eq!(status, 1);
    let said = "making the communicator fails: Call to bind failed : Address already in use: the first all-to-all takes \
                32696 ports of a node, and it hands out 28232; net.ipv4.ip_local_port_range = \"32000 65535\" would do";
    assert!(err.contains(said), "{err}");
    let (_, err, status) = fabricsim(
        "communicator -t dgx-h100 -n 256 --first all-to-all:1M --env NCCL_PXN_DISABLE=1 --ports 40000",
    );
    assert_eq!(status, 1);
    assert!(
        err.contains("Too many open files") && err.contains("`ulimit -n 4096` would do"),
        "{err}"
    );
}

/// MegaScale (NSDI 24): 1047 s with PyTorch's store and a barrier after each of all groups, 361 s with Redis, and less
/// than 5 s where there are few barriers.
#[test]
fn barriers_in_the_store_take_longest() {
    let groups = "-t superpod-h100 -n 256 --first none --groups world,tp8,pp8,dp --split";
    let tcp = seconds(&made(&format!("{groups} --store tcp"))["making_us"]);
    assert!((tcp / 1047.0 - 1.0).abs() < 0.02, "{tcp}");
    let redis = seconds(&made(&format!("{groups} --store redis"))["making_us"]);
    assert!((redis / 361.0 - 1.0).abs() < 0.02, "{redis}");
    let few = seconds(&made(groups)["making_us"]);
    assert!(few < 5.5, "{few}");
}

#[test]
fn what_does_not_divide_is_refused_with_its_place() {
    let (_, err, status) = fabricsim("communicator -t dgx-h100 --groups world,tp3");
    assert_eq!(status, 2);
    assert!(err.contains("job.communicator.groups[1]"), "{err}");
    assert!(
        err.contains("a number of ranks that divides 8: 1, 2, 4, 8"),
        "{err}"
    );
    let (_, err, status) = fabricsim("communicator -t dgx-h100 --roots 2 --nccl-version 2.20");
    assert_eq!(status, 2);
    assert!(err.contains("several are since NCCL 2.23"), "{err}");
}

/// A scenario has variants, `run` compares them and writes a page.
#[test]
fn a_scenario_compares_ways_to_make_them() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = json!({
        "name": "roots", "topology": { "name": "dgx-h100" }, "nodes": 256,
        "job": { "communicator": { "roots": 1 } },
        "variants": [
            { "name": "one" },
            { "name": "many", "set": { "job.communicator.roots": 16 } }
        ]
    });
    let file = folder.path().join("roots.json");
    fs::write(&file, scenario.to_string()).unwrap();
    let target = folder.path().join("out");
    let (out, err, status) = fabricsim(&format!("run {} -o {}", file.display(), target.display()));
    assert_eq!(status, 0, "{err}");
    assert!(
        out.contains("making communicators") && out.contains("root"),
        "{out}"
    );
    let page = fs::read_to_string(target.join("report.html")).unwrap();
    assert!(page.contains("all-gathers"));
    let summary = fs::read_to_string(target.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["best"], "many");
    let again = serde_json::from_value::<fabricsim::report::Summary>(summary.clone()).unwrap();
    assert_eq!(serde_json::to_value(again).unwrap(), summary);
}

/// Restarts of a long run take what making the job's communicators does.
#[test]
fn restarts_take_it_where_they_are_to() {
    let folder = tempfile::tempdir().unwrap();
    let run = |parts: Value| {
        let scenario = json!({
            "name": "restart", "topology": { "name": "dgx-h100" }, "nodes": 2,
            "job": { "training": {
                "model": { "preset": "mpt-1b" }, "sequence": 1024, "micro_batch": 1, "global_batch": 16,
                "parallel": { "tp": 8 }
            } },
            "long_run": {
                "duration": "10d", "mtbf": { "gpu": "1000h" }, "restart_parts": parts, "replicas": 3,
                "checkpoint": { "interval": "young", "cost": { "blocking": "10s" } }
            }
        });
        let file = folder.path().join("restart.json");
        fs::write(&file, scenario.to_string()).unwrap();
        let target = folder.path().join("out");
        fabricsim(&format!(
            "run {} -o {} --json",
            file.display(),
            target.display()
        ))
    };
    let communicators = |parts: Value| {
        let (out, err, status) = run(parts);
        assert_eq!(status, 0, "{err}");
        let summary: Value = serde_json::from_str(&out).unwrap();
        let restart = found(&summary["variants"][0], "restart").unwrap();
        restart["communicators_s"].as_f64().unwrap()
    };
    assert_eq!(communicators(json!({})), 2.46);
    let groups = "-t dgx-h100 -n 2 --first none --groups world,tp8,dp";
    let all = seconds(&made(groups)["making_us"]);
    let simulated = communicators(json!({ "make_communicators": true }));
    assert!((simulated - all).abs() < 1e-6, "{simulated} {all}");
    let (_, err, status) = run(json!({ "make_communicators": true, "communicators": "5s" }));
    assert_eq!(status, 2);
    assert!(err.contains("restart_parts.communicators"), "{err}");
}
