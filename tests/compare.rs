//! `fabricsim compare`, as its users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn fabricsim(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let done = command.current_dir(folder).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

/// The document of a comparison that works.
fn document(args: &[&str]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let (code, out, err) = fabricsim(home.path(), &[&["compare", "--json"], args].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

fn refused(args: &[&str], parts: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let (code, _, err) = fabricsim(home.path(), &[&["compare"], args].concat());
    assert_eq!(code, 2, "{err}");
    for part in parts {
        assert!(err.contains(part), "`{part}` is missing in: {err}");
    }
}

/// Picoseconds.
fn picos(value: &Value) -> i64 {
    (value.as_f64().unwrap() * 1e6).round() as i64
}

/// Every waterfall's parts are its total, and that is the difference of the two times, exactly.
fn adds_up(document: &Value) {
    let time = |name: &Value| {
        let variants = document["variants"].as_array().unwrap();
        let variant = variants.iter().find(|v| v["name"] == *name).unwrap();
        picos(&variant["metrics"]["time_us"])
    };
    let waterfalls = document["waterfall"].as_array().unwrap();
    assert!(!waterfalls.is_empty());
    for waterfall in waterfalls {
        let parts = waterfall["parts"].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| picos(&part["us"])).sum();
        assert_eq!(sum, picos(&waterfall["total_us"]));
        assert_eq!(sum, time(&waterfall["to"]) - time(&waterfall["from"]));
    }
}

/// The share of a difference that parts with such names make up.
fn share(document: &Value, name: &str) -> f64 {
    let waterfall = &document["waterfall"][0];
    let parts = waterfall["parts"].as_array().unwrap();
    let named = parts
        .iter()
        .filter(|p| p["cause"].as_str().unwrap().contains(name));
    let sum: f64 = named.map(|part| part["us"].as_f64().unwrap()).sum();
    sum / waterfall["total_us"].as_f64().unwrap()
}

#[test]
fn machines_are_compared_on_as_many_gpus() {
    let both = [
        "-t",
        "dgx-h100",
        "-t",
        "gb200-nvl72",
        "--gpus",
        "72",
        "--size",
        "64M",
    ];
    for collective in ["all-reduce", "alltoall"] {
        let found = document(&[&both[..], &[collective]].concat());
        adds_up(&found);
        assert_eq!(found["format"], 2);
        assert_eq!(found["baseline"], "dgx-h100");
        assert_eq!(found["best"], "gb200-nvl72");
        assert_eq!(found["known_error"], Value::Null);
        let variants = found["variants"].as_array().unwrap();
        let nodes: Vec<u64> = variants
            .iter()
            .map(|v| v["nodes"].as_u64().unwrap())
            .collect();
        assert_eq!(nodes, [9, 18]);
        assert!(variants.iter().all(|v| v["gpus"] == 72));
        let ratio = variants[0]["metrics"]["time_us"].as_f64().unwrap()
            / variants[1]["metrics"]["time_us"].as_f64().unwrap();
        let answer = found["answer"].as_str().unwrap();
        assert!(
            answer.contains(&format!("{ratio:.2} × as fast")),
            "{answer}"
        );
        assert_eq!(
            variants[0]["rows"][0]["time_us"],
            variants[0]["metrics"]["time_us"]
        );
    }
}

/// A scenario with a baseline and one variant that differs in one thing.
fn planted(folder: &Path, set: &str, more: &str) -> Value {
    let text = format!(
        r#"{{"name": "planted", "topology": {{"name": "dgx-h100"}}, "nodes": 2,
        "job": {{"collective": {{"name": "all-reduce", "sizes": {{"list": ["256MiB"]}},
            "algorithm": "ring", "protocol": "simple"}}}}{more},
        "variants": [{{"name": "as it is", "set": {{}}}}, {{"name": "other", "set": {{{set}}}}}]}}"#
    )
    .replace("as it is", "as-it-is");
    fs::write(folder.join("planted.json"), text).unwrap();
    let (code, out, err) = fabricsim(folder, &["compare", "--json", "planted.json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_planted_change_is_found() {
    let home = tempfile::tempdir().unwrap();
    // All network links at half their rate.
    let half = r#""faults": [{"link": {"links": "node[*]/nic[*] <> compute", "factor": 0.5}}]"#;
    let found = planted(home.path(), half, "");
    adds_up(&found);
    assert!(share(&found, "faults of other") > 0.999, "{found}");
    // A slow GPU.
    let slow = r#""faults": [{"slow_gpu": {"ranks": 3, "speed": 0.5}}]"#;
    let found = planted(home.path(), slow, "");
    adds_up(&found);
    assert!(share(&found, "faults of other") > 0.999, "{found}");
    // Another protocol, another algorithm.
    let found = planted(home.path(), r#""job.collective.protocol": "ll""#, "");
    adds_up(&found);
    assert!(share(&found, "protocol: simple → ll") > 0.9, "{found}");
    let found = planted(home.path(), r#""job.collective.algorithm": "tree""#, "");
    adds_up(&found);
    assert!(share(&found, "algorithm: ring → tree") > 0.9, "{found}");
}

#[test]
fn a_link_class_at_half_its_rate_is_the_difference() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let machine = |name: &str| {
        let (code, out, err) = fabricsim(folder, &["topology", "new", "dgx-h100", "--nodes", "2"]);
        assert_eq!(code, 0, "{err}");
        fs::write(folder.join(name), &out).unwrap();
        out
    };
    let own = machine("whole.json");
    let cable = "\"link\": \"ib-ndr400\"";
    assert!(own.contains("ib-ndr400"), "{cable}: {own}");
    // The slower generation of the same cable carries half as much.
    fs::write(
        folder.join("half.json"),
        own.replace("ib-ndr400", "ib-hdr200"),
    )
    .unwrap();
    let args = [
        "compare",
        "--json",
        "-t",
        "whole.json",
        "-t",
        "half.json",
        "all-reduce",
    ];
    let how = ["--size", "256M", "--algo", "ring", "--proto", "simple"];
    let (code, out, err) = fabricsim(folder, &[&args[..], &how].concat());
    assert_eq!(code, 0, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    adds_up(&found);
    assert!(share(&found, "network") > 0.9, "{found}");
}

#[test]
fn earlier_runs_are_compared_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    for (name, machine) in [("one", "dgx-h100"), ("two", "dgx-a100")] {
        let args = [
            "collective",
            "all-reduce",
            "-t",
            machine,
            "--size",
            "64M",
            "-q",
            "-o",
            name,
        ];
        assert_eq!(fabricsim(folder, &args).0, 0);
    }
    let (code, out, err) = fabricsim(folder, &["compare", "one", "two", "--json"]);
    assert_eq!(code, 0, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    adds_up(&found);
    let names: Vec<&Value> = found["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| &v["name"])
        .collect();
    assert_eq!(names, ["one", "two"]);
    let (code, _, err) = fabricsim(folder, &["compare", "one"]);
    assert_eq!(code, 2);
    assert!(err.contains("another folder"), "{err}");
}

#[test]
fn a_page_and_points_are_written_beside_the_table() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let args = [
        "compare",
        "-t",
        "dgx-h100",
        "-t",
        "dgx-a100",
        "all-reduce",
        "-b",
        "1M",
        "-e",
        "64M",
    ];
    for width in ["80", "120"] {
        let mut command = Command::cargo_bin("fabricsim").unwrap();
        let done = command
            .current_dir(folder)
            .env("COLUMNS", width)
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let width: usize = width.parse().unwrap();
        let table = text.lines().filter(|line| line.starts_with("  "));
        assert!(table.clone().count() > 15);
        for line in table {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
    let (code, ..) = fabricsim(folder, &[&args[..], &["-o", "page.html"]].concat());
    assert_eq!(code, 0);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    for part in [
        "dgx-a100 beside dgx-h100",
        "class=\"waterfall\"",
        "one operation of each, alone, on one axis",
        "bus bandwidth by size",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let (code, out, _) = fabricsim(folder, &[&args[..], &["--csv"]].concat());
    assert_eq!(code, 0);
    let mut lines = out.lines();
    let head = lines.next().unwrap();
    assert!(head.starts_with("variant,topology,nodes,gpus,"), "{head}");
    assert!(head.contains(",bytes,time_us,"), "{head}");
    assert_eq!(lines.count(), 2 * 4);
}

#[test]
fn machines_alone_are_cards_with_sources() {
    let found = document(&["-t", "dgx-h100", "-t", "gb200-nvl72"]);
    let machines = found["machines"].as_array().unwrap();
    assert_eq!(machines[1]["nvlink_domain_gpus"], 72);
    assert_eq!(machines[0]["nvlink_domain_gpus"], 8);
    assert_eq!(machines[0]["fp4_tflops"], Value::Null);
    assert!(machines[0]["memory_gib"]["source"].as_str().unwrap().len() > 5);
}

#[test]
fn what_cannot_be_compared_is_refused_with_what_to_write() {
    let both = ["-t", "dgx-h100", "-t", "gb200-nvl72"];
    let with = |more: &[&'static str]| -> Vec<&'static str> { [&both[..], more].concat() };
    refused(
        &with(&["--gpus", "13", "all-reduce"]),
        &["8 or 16", "dgx-h100 has nodes of 8"],
    );
    refused(&["all-reduce"], &["expected machines", "-t dgx-h100"]);
    refused(&["-t", "dgx-h100", "all-reduce"], &["two machines"]);
    refused(&[], &["expected machines"]);
    refused(&with(&["allreduce-dgx-h10"]), &["allreduce-dgx-h100"]);
    refused(
        &with(&["all-reduce", "--slow-gpu", "5"]),
        &["--slow-gpu 5", "5:0.8"],
    );
    refused(
        &with(&["all-reduce", "--flap", "node0/nic0:2s/1s"]),
        &["period longer"],
    );
}
