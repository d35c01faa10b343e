//! `fabricsim explain` as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;

fn explain(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.arg("explain").args(args);
    command
}

fn stdout(args: &[&str]) -> String {
    let output = explain(args).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn text_is_aligned_and_without_colours_in_a_pipe() {
    let text = stdout(&["all-reduce", "--ranks", "3", "--size", "3K"]);
    let step = "\
Step 1  0 µs to 1.01 µs
  0 → 1  1 KiB  c2: 0
  1 → 2  1 KiB  c0: 1
  2 → 0  1 KiB  c1: 2

          c0     c1     c2
  rank 0  0      (0+2)  0
  rank 1  1      1      (0+1)
  rank 2  (1+2)  2      2
";
    assert!(text.contains(step), "{text}");
    assert!(
        text.contains("closed form  2(N-1) α + 2(N-1)/N S/B = 4 α + 1.333 S/B"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_switch_adds_up_and_copies() {
    let text = stdout(&[
        "all-reduce",
        "--algo",
        "nvls",
        "--ranks",
        "4",
        "--chunk",
        "4K",
    ]);
    let step = "\
Step 1  0 µs to 1.04 µs
         0 → NVSwitch  4 KiB  c0..3: 0
         1 → NVSwitch  4 KiB  c0..3: 1
         2 → NVSwitch  4 KiB  c0..3: 2
         3 → NVSwitch  4 KiB  c0..3: 3
  NVSwitch → 0         1 KiB  c0: 0+1+2+3  (load-reduce)
  NVSwitch → 1         1 KiB  c1: 0+1+2+3  (load-reduce)
  NVSwitch → 2         1 KiB  c2: 0+1+2+3  (load-reduce)
  NVSwitch → 3         1 KiB  c3: 0+1+2+3  (load-reduce)
";
    assert!(text.contains(step), "{text}");
    assert!(
        text.contains("every rank sends 5 KiB and receives 5 KiB"),
        "{text}"
    );
    assert!(text.contains("no protocol"), "{text}");
}

#[test]
fn sharp_is_collnet() {
    let sharp = stdout(&["all-reduce", "--algo", "sharp", "--ranks", "8"]);
    assert_eq!(
        sharp,
        stdout(&["all-reduce", "--algo", "collnet-direct", "--ranks", "8"])
    );
    assert!(sharp.contains("8 ranks on 2 nodes"), "{sharp}");
}

/// The abstract picture has the order that a DGX H100 has at this size.
#[test]
fn nvls_ring_and_tree_come_in_the_order_of_a_machine() {
    let abstract_us = |algorithm: &str| -> f64 {
        let args = [
            "all-reduce",
            "--ranks",
            "8",
            "--size",
            "1G",
            "--algo",
            algorithm,
            "--json",
        ];
        let json: Value = serde_json::from_str(&stdout(&args)).unwrap();
        json["cost"]["counted_us"].as_f64().unwrap()
    };
    let simulated_us = |algorithm: &str| -> f64 {
        let mut command = Command::cargo_bin("fabricsim").unwrap();
        command.args(["collective", "all-reduce", "--isolated", "-t", "dgx-h100"]);
        command.args(["--size", "1G", "--algo", algorithm, "--json"]);
        let output = command.assert().success().get_output().stdout.clone();
        let json: Value = serde_json::from_slice(&output).unwrap();
        json["rows"][0]["time_us"].as_f64().unwrap()
    };
    for pair in ["nvls", "ring", "tree"].windows(2) {
        for times in [&abstract_us as &dyn Fn(&str) -> f64, &simulated_us] {
            let (first, second) = (times(pair[0]), times(pair[1]));
            assert!(first < second, "{pair:?}: {first} {second}");
        }
    }
}

/// What the guide and the README say to try does what it says.
#[test]
fn commands_of_the_documents_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for document in ["README.md", "docs/guide.md"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let text = std::fs::read_to_string(path).unwrap();
        for line in text
            .lines()
            .filter_map(|l| l.strip_prefix("fabricsim explain "))
        {
            let (line, _) = line.split_once('#').unwrap_or((line, ""));
            let args: Vec<&str> = line.split_whitespace().collect();
            explain(&args).current_dir(folder.path()).assert().success();
            count += 1;
        }
    }
    assert!(count >= 8, "{count}");
}

#[test]
fn json_has_every_step() {
    let text = stdout(&["all-gather", "--algo", "bruck", "--ranks", "8", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["steps"].as_array().unwrap().len(), 3);
    assert_eq!(json["cost"]["steps"], 3);
    assert_eq!(json["steps"][0]["messages"][0]["data"], "b0");
}

#[test]
fn a_page_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    explain(&["broadcast", "--algo", "binomial", "-o"])
        .arg(&file)
        .assert()
        .success();
    let page = std::fs::read_to_string(file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn what_cannot_be_is_bad_usage() {
    for (args, message) in [
        (
            vec!["all-to-all", "--algo", "ring"],
            "ring does not do all-to-all",
        ),
        (vec!["all-reduce", "--ranks", "0"], "expected 1 to 64"),
        (
            vec!["all-reduce", "--algo", "hierarchical", "--nodes", "3"],
            "cannot be spread evenly",
        ),
        (vec!["all-reduce", "--chunk", "0"], "--chunk 0"),
        (
            vec!["all-reduce", "--size", "16777215T"],
            "expected at most 1024TiB",
        ),
        (vec!["all-reduce", "--rate", "0GB/s"], "--rate 0"),
    ] {
        let assert = explain(&args).assert().code(2);
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn a_simulation_that_does_not_end_is_an_answer_and_no_bad_input() {
    let assert = explain(&["all-reduce", "--latency", "200d"])
        .assert()
        .code(1);
    let output = assert.get_output();
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        text.starts_with("error: ") && text.contains("213 days"),
        "{text}"
    );
    assert!(output.stdout.is_empty());
}
