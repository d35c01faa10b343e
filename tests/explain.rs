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
        (
            vec!["all-to-all", "--ranks", "8", "--size", "8B"],
            "all-to-all of 8 ranks needs at least 128B",
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

/// Several algorithms: each by itself, then what they cost beside each other, the fastest first.
#[test]
fn algorithms_are_set_side_by_side() {
    let text = stdout(&["all-reduce", "--algo", "ring,tree,nvls", "--ranks", "8"]);
    for title in [
        "all-reduce by ring",
        "all-reduce by tree",
        "all-reduce by nvls",
    ] {
        assert!(text.contains(title), "{title}");
    }
    let (_, beside) = text.split_once("Side by side\n").unwrap();
    let names: Vec<&str> = beside
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["nvls", "ring", "tree"]);
    let json = stdout(&["all-reduce", "--algo", "ring,tree", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["explanations"][1]["algorithm"], "tree");
}

/// On a machine the figures are those of the same operation by itself.
#[test]
fn a_machine_gives_what_collective_gives() {
    let machines: [(&[&str], &[&str], &str); 2] = [
        (&["-t", "dgx-h100"], &[], "ring,tree,nvls"),
        (
            &[
                "-t",
                "superpod-h100",
                "--nodes",
                "8",
                "--gpus-per-node",
                "1",
            ],
            &["--env", "NCCL_COLLNET_ENABLE=1"],
            "ring,tree,sharp",
        ),
    ];
    for (machine, switches, algorithms) in machines {
        let args = [&["all-reduce", "--algo", algorithms, "--json"], machine].concat();
        let lesson: Value = serde_json::from_str(&stdout(&args)).unwrap();
        let positions = lesson["positions"].as_array().unwrap();
        let mut compared = 0;
        for (size, label) in [("8K", "8 KiB"), ("8M", "8 MiB"), ("1G", "1 GiB")] {
            let position = positions.iter().find(|p| p["label"] == label).unwrap();
            for figure in position["figures"].as_array().unwrap() {
                let algorithm = figure["of"].as_str().unwrap();
                let mut command = Command::cargo_bin("fabricsim").unwrap();
                command.args(["collective", "all-reduce", "--isolated", "--json"]);
                command
                    .args(["--size", size, "--algo", algorithm])
                    .args(machine);
                if algorithm.starts_with("collnet") {
                    command.args(switches);
                }
                let output = command.assert().success().get_output().stdout.clone();
                let rows: Value = serde_json::from_slice(&output).unwrap();
                let alone = rows["rows"][0]["time_us"].as_f64().unwrap();
                let shown = figure["value"].as_f64().unwrap() / 1e3;
                // Pages have tenths of nanoseconds.
                assert!(
                    (alone - shown).abs() <= 1e-4,
                    "{algorithm} {size}: {alone} {shown}"
                );
                compared += 1;
            }
        }
        assert_eq!(compared, 9);
    }
}

#[test]
fn an_algorithm_file_that_is_wrong_shows_where_and_fails() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/wrong.xml");
    let assert = explain(&["all-reduce", "--algo-file", file])
        .assert()
        .code(1);
    let output = assert.get_output();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        text.contains("Step 4") && text.contains("\nWrong: rank 0"),
        "{text}"
    );
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        error.contains("chain that forgets rank 2 does not do its all-reduce"),
        "{error}"
    );
    let refused = explain(&["all-gather", "--algo-file", file])
        .assert()
        .code(2);
    let error = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(error.contains("an algorithm for all-reduce"), "{error}");
}

/// Text that can be read from the last row.
fn assert_readable(drawing: &roxmltree::Document<'_>, name: &str) {
    let texts = drawing.descendants().filter(|n| n.has_tag_name("text"));
    let sizes: Vec<f64> = texts
        .map(|node| node.attribute("font-size").unwrap().parse().unwrap())
        .collect();
    assert!(!sizes.is_empty(), "{name}: no text");
    assert!(sizes.iter().all(|&s| s >= 14.0), "{name}: {sizes:?}");
}

/// A machine beside others keeps the names that can be read, and what colours mean stands once below.
#[test]
fn slides_of_machines_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let machine = ["-t", "dgx-h100", "--nodes", "4", "--gpus-per-node", "1"];
    explain(&["all-reduce", "--algo", "ring,tree,collnet-direct", "-q"])
        .args(machine)
        .arg("--slides")
        .arg(folder.path())
        .assert()
        .success();
    let text = std::fs::read_to_string(folder.path().join("step-4.svg")).unwrap();
    let drawing = roxmltree::Document::parse(&text).unwrap();
    assert_readable(&drawing, "step-4.svg");
    for word in ["NVSwitch", "network switch"] {
        let once = drawing
            .descendants()
            .filter(|n| n.text() == Some(word) && n.has_tag_name("text"));
        assert_eq!(once.count(), 1, "{word}");
    }
}

/// 16:9, no background, text that can be read from the last row.
#[test]
fn slides_are_a_picture_a_step() {
    let folder = tempfile::tempdir().unwrap();
    explain(&["all-reduce", "--algo", "ring,nvls", "-q", "--slides"])
        .arg(folder.path())
        .assert()
        .success();
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    // The ring of four has six steps.
    assert_eq!(names.first().unwrap(), "animated.svg");
    assert_eq!(names.len(), 1 + 7);
    for name in names {
        let text = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        let drawing = roxmltree::Document::parse(&text).unwrap();
        let root = drawing.root_element();
        assert_eq!(root.attribute("viewBox"), Some("0 0 1280 720"));
        let whole = |node: &roxmltree::Node<'_, '_>| node.attribute("width") == Some("100%");
        assert!(
            !drawing.descendants().any(|node| whole(&node)),
            "{name}: a background"
        );
        assert_readable(&drawing, &name);
        let moves = drawing
            .descendants()
            .any(|node| node.has_tag_name("animateMotion"));
        assert_eq!(moves, name == "animated.svg");
    }
}
