//! Profiles of jobs in the form of PyTorch's profiler, beside the accounting of the same steps.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::training::{RankUse, ShareKind, ran};
use fabricsim::report::{Output, Outputs, Summary, write_results};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// A step of DDP, whose buckets hide behind the backward pass; and one of a pipeline of four
/// stages of two GPUs each.
const STEPS: [(&str, &str); 2] = [
    ("ddp", ""),
    ("pipeline", r#", "parallel": {"tp": 2, "pp": 4}"#),
];

/// Runs a step and writes its profiles to `kineto`, and its summary, into a folder.
fn run(more: &str, folder: &Path) -> Summary {
    let text = format!(
        r#"{{"name": "t", "topology": {{"name": "dgx-h100"}},
        "job": {{"training": {{"model": {{"shape": {{"layers": 8, "hidden": 4096, "heads": 32,
            "ffn": 16384, "vocabulary": 512, "sequence": 1024}}}},
            "global_batch": 16, "steps": 1 {more}}}}}}}"#
    );
    let job = validate(parse(&text, "t", &[]).unwrap(), Path::new("")).unwrap();
    let outputs = Outputs::of([Output::Kineto]);
    let results = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    write_results(folder, &results, &outputs).unwrap();
    results.summary
}

fn ranks(summary: &Summary) -> &[RankUse] {
    &ran(&summary.variants[0]).unwrap().ranks
}

fn profile(folder: &Path, rank: u32) -> Value {
    let file = folder.join(format!("kineto/rank-{rank}.json.gz"));
    let mut text = String::new();
    let mut file = GzDecoder::new(fs::File::open(file).unwrap());
    file.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// How long any of these intervals is, in microseconds.
fn union(mut all: Vec<(f64, f64)>) -> f64 {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut until) = (0.0, 0.0f64);
    for (from, to) in all {
        sum += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    sum
}

#[test]
fn profiles_add_up_to_the_accounting_of_the_step() {
    for (name, more) in STEPS {
        let folder = tempfile::tempdir().unwrap();
        let summary = run(more, folder.path());
        for rank in ranks(&summary) {
            // Of those that do the same one is shown.
            let file = format!("kineto/rank-{}.json.gz", rank.rank);
            if !folder.path().join(file).exists() {
                continue;
            }
            let profile = profile(folder.path(), rank.rank);
            assert_eq!(profile["distributedInfo"]["rank"], rank.rank);
            assert_eq!(profile["distributedInfo"]["world_size"], 8);
            let events = profile["traceEvents"].as_array().unwrap();
            let of = |category: &str| -> Vec<&Value> {
                events.iter().filter(|e| e["cat"] == category).collect()
            };
            let kernels = of("kernel");
            let is_nccl = |e: &Value| e["name"].as_str().unwrap().starts_with("ncclDevKernel_");
            let during = |e: &Value| {
                let from = e["ts"].as_f64().unwrap();
                (from, from + e["dur"].as_f64().unwrap())
            };
            let compute = kernels.iter().filter(|e| !is_nccl(e));
            let compute = union(compute.map(|e| during(e)).collect());
            let all = union(kernels.iter().map(|e| during(e)).collect());
            let booked = |kinds: &[ShareKind]| -> f64 {
                let parts = rank.time.iter().filter(|s| kinds.contains(&s.kind));
                parts.map(|s| s.seconds * 1e6).sum()
            };
            let is = |time: f64, kinds: &[ShareKind]| {
                let booked = booked(kinds);
                let near = (time - booked).abs() < 1e-3;
                assert!(near, "{name}, rank {}: {time} and {booked}", rank.rank);
            };
            is(compute, &[ShareKind::Compute, ShareKind::Slowed]);
            is(all - compute, &[ShareKind::Exposed, ShareKind::Waiting]);
            // Each has the call that started it, and the arrow between the two.
            let calls = of("cuda_runtime");
            let number = |e: &&Value| e["args"]["correlation"].as_u64().unwrap();
            let started: Vec<u64> = calls.iter().map(number).collect();
            assert_eq!(started, kernels.iter().map(number).collect::<Vec<_>>());
            assert_eq!(of("ac2g").len(), 2 * kernels.len());
            // Calls are over before what they start begins, and one at a time.
            let began = kernels.iter().map(|e| (number(e), during(e).0));
            let began: BTreeMap<u64, f64> = began.collect();
            let mut host: Vec<(f64, f64)> = Vec::new();
            for call in &calls {
                let (from, to) = during(call);
                assert!(from < to && to <= began[&number(call)] + 1e-6, "{call}");
                host.push((from, to));
            }
            host.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(host.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-6));
            let steps = of("user_annotation");
            assert_eq!(steps.len(), 1);
            assert_eq!(steps[0]["name"], "ProfilerStep#0");
        }
    }
}

#[test]
fn the_same_step_has_the_same_profiles() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let bytes = folders.each_ref().map(|folder| {
        run(STEPS[0].1, folder.path());
        fs::read(folder.path().join("kineto/rank-0.json.gz")).unwrap()
    });
    assert_eq!(bytes[0], bytes[1]);
}

/// What HolisticTraceAnalysis makes of the same files; `.ci/hta` installs it and runs this.
#[test]
#[ignore = "needs HolisticTraceAnalysis: .ci/hta"]
fn holistic_trace_analysis_finds_what_the_summary_says() {
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in STEPS {
        run(more, &folder.path().join(name));
    }
    let check = Command::new("python3")
        .arg("tests/hta/check.py")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(check.success());
}
