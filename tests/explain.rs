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
  rank 0  ·      (0+2)  ·
  rank 1  ·      ·      (0+1)
  rank 2  (1+2)  ·      ·
";
    assert!(text.contains(step), "{text}");
    assert!(
        text.contains("closed form  2(N-1) α + 2(N-1)/N S/B = 4 α + 1.333 S/B"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
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
        (vec!["all-reduce", "--rate", "0GB/s"], "--rate 0"),
    ] {
        let assert = explain(&args).assert().code(2);
        let stderr = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(stderr.contains(message), "{stderr}");
    }
}
