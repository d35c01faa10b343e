//! `fabricsim compare … MODEL`: the best layout of each machine, then these beside each other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
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

fn document(folder: &Path, code: i32, args: &[&str]) -> Value {
    let (found, out, err) = fabricsim(folder, args);
    assert_eq!(found, code, "{err}");
    serde_json::from_str(&out).unwrap()
}

fn number(of: &Value, name: &str) -> f64 {
    of["metrics"][name].as_f64().unwrap()
}

const BOTH: [&str; 5] = ["compare", "-t", "dgx-h100", "-t", "dgx-a100"];
const TRAINED: [&str; 5] = ["gpt2-124m", "--gpus", "8", "--global-batch", "64"];
const SERVED: [&str; 9] = [
    "llama3-8b",
    "--gpus",
    "4",
    "--requests",
    "60",
    "--input",
    "512",
    "--output-tokens",
    "32",
];

#[test]
fn each_machine_is_compared_at_the_best_that_optimize_finds() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let found = document(folder, 0, &[&BOTH[..], &TRAINED, &["--json"]].concat());
    let variants = found["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 2);
    for variant in variants {
        let machine = variant["topology"].as_str().unwrap();
        let alone = ["optimize", "-t", machine, "--top", "1", "--json"];
        let best = document(folder, 0, &[&alone[..], &TRAINED].concat());
        assert_eq!(variant["layout"], best["best"][0]["layout"]);
        let rate = "tokens_per_s_per_gpu";
        assert_eq!(variant["metrics"][rate], best["best"][0]["metrics"][rate]);
        assert_eq!(variant["search"]["searched"], best["searched"]);
        assert_eq!(variant["search"]["simulated"], best["simulated"]);
        assert_eq!(variant["search"]["tried_gpus"], json!([8]));
        assert_eq!(variant["fits"], true);
    }
    let (first, other) = (&variants[0], &variants[1]);
    let answer = found["answer"].as_str().unwrap();
    let rate = |v| number(v, "tokens_per_s_per_gpu");
    let ratio = format!("{:.2} × dgx-a100", rate(first) / rate(other));
    for part in [
        &ratio,
        "kWh per M tokens",
        " kW and $",
        "on 8 GPUs",
        "(",
        "Known error",
    ] {
        assert!(answer.contains(part), "`{part}` is missing in: {answer}");
    }
    // The reason is the waterfall's.
    let cause = found["waterfall"][0]["parts"][0]["cause"].as_str().unwrap();
    assert!(answer.contains(cause), "{answer}");
    assert!(found["known_error"]["median"].is_number());
}

#[test]
fn the_page_has_every_machine_in_its_table_and_bars() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let args = [&BOTH[..], &TRAINED, &["-o", "x.html"]].concat();
    let (code, text, err) = fabricsim(folder, &args);
    assert_eq!(code, 0, "{err}");
    let page = fs::read_to_string(folder.join("x.html")).unwrap();
    for part in [
        "Speed, money, energy",
        "kWh per M tokens",
        "an hour of all GPUs",
        "dgx-a100 beside dgx-h100",
        "on one axis",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Text and page are of one table: each of its figures is on the page.
    let table = text
        .lines()
        .filter(|line| line.starts_with("  ") && line.contains("  "));
    let mut seen = 0;
    for line in table {
        let cells = line.trim().split("  ").map(str::trim);
        for cell in cells.filter(|cell| !cell.is_empty()) {
            let cell = cell.trim_matches('*').trim();
            let cell = cell.replace('&', "&amp;");
            if cell.starts_with("the best of") {
                continue;
            }
            assert!(page.contains(&cell), "`{cell}` is not on the page");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn prices_of_the_reader_are_in_the_sentence() {
    let home = tempfile::tempdir().unwrap();
    let prices = [
        "--price",
        "dgx-h100=2.20",
        "--price",
        "dgx-a100=1",
        "--json",
    ];
    let found = document(home.path(), 0, &[&BOTH[..], &TRAINED, &prices].concat());
    let answer = found["answer"].as_str().unwrap();
    // Eight GPUs.
    assert!(answer.contains("$17.6 an hour"), "{answer}");
    assert!(answer.contains("$8.00 an hour"), "{answer}");
}

#[test]
fn the_fewest_gpus_that_keep_a_load_are_found() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let load = ["--rate", "2", "--slo", "ttft=2s,tpot=100ms", "--json"];
    let found = document(folder, 0, &[&BOTH[..], &SERVED, &load].concat());
    for variant in found["variants"].as_array().unwrap() {
        assert_eq!(variant["verdict"], "STABLE", "{variant}");
        assert!(number(variant, "slo_share") >= 0.9);
        let gpus = variant["gpus"].as_u64().unwrap();
        let tried = variant["search"]["tried_gpus"].as_array().unwrap();
        assert!(tried.iter().any(|tried| tried == gpus));
        // No fewer of those that were tried keep it.
        let machine = variant["topology"].as_str().unwrap();
        for fewer in tried.iter().filter_map(Value::as_u64).filter(|&t| t < gpus) {
            let fewer = fewer.to_string();
            let alone = ["optimize", "-t", machine, "--gpus", &fewer];
            let more = [&SERVED[..1], &SERVED[3..], &load].concat();
            document(folder, 1, &[&alone[..], &more].concat());
        }
    }
    let answer = found["answer"].as_str().unwrap();
    assert!(
        answer.contains("keeps 2.00 requests/s on the fewest GPUs"),
        "{answer}"
    );
    let known = found["known_error"]["median"].as_f64().unwrap();
    assert!((0.0..1.0).contains(&known));
    assert!(
        answer.contains("Known error of engines that serve"),
        "{answer}"
    );
}

#[test]
fn of_a_load_that_no_machine_keeps_it_is_said_what_breaks_and_what_would_hold() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let load = ["--rate", "4000", "--slo", "ttft=100ms", "--json"];
    let found = document(folder, 1, &[&BOTH[..], &SERVED, &load].concat());
    assert_eq!(found["best"], Value::Null);
    let answer = found["answer"].as_str().unwrap();
    assert!(
        answer.starts_with("No machine keeps 4000 requests/s"),
        "{answer}"
    );
    for variant in found["variants"].as_array().unwrap() {
        assert_eq!(variant["fits"], false);
        let why = variant["why"].as_str().unwrap();
        assert!(
            why.contains("breaks first") || why.contains("faster than"),
            "{why}"
        );
        let holds = &variant["search"]["holds"];
        let (kept, not) = (
            holds["kept"].as_f64().unwrap(),
            holds["not_kept"].as_f64().unwrap(),
        );
        assert!(0.0 < kept && kept < not && not <= 4000.0);
        // What is said to hold does, and what is said not to does not.
        let machine = variant["topology"].as_str().unwrap();
        for (rate, code) in [(kept, 0), (not, 1)] {
            let rate = rate.to_string();
            let alone = ["optimize", "-t", machine, "--rate", &rate];
            let more = [&SERVED[..], &load[2..]].concat();
            document(folder, code, &[&alone[..], &more].concat());
        }
    }
}

#[test]
fn what_fits_nowhere_is_said_of_each_machine() {
    let home = tempfile::tempdir().unwrap();
    let job = [
        "llama3-405b",
        "--gpus",
        "8",
        "--global-batch",
        "8",
        "--json",
    ];
    let found = document(home.path(), 1, &[&BOTH[..], &job].concat());
    for variant in found["variants"].as_array().unwrap() {
        assert_eq!(variant["fits"], false);
        assert!(variant["why"].as_str().unwrap().contains("fit into memory"));
        assert!(!variant["search"]["rejected"].as_array().unwrap().is_empty());
    }
    let answer = found["answer"].as_str().unwrap();
    assert!(
        answer.starts_with("No layout runs on any machine"),
        "{answer}"
    );
}
