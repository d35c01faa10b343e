//! What `-o` accepts: endings that a command cannot write are refused before anything is done.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn fabricsim(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = Command::cargo_bin("fabricsim")
        .unwrap()
        .current_dir(folder)
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn endings_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let draw = ["topology", "draw", "dgx-h100"];
    let export = ["topology", "export", "dgx-h100"];
    let collective = ["collective", "all-reduce", "-t", "dgx-h100", "-s", "1K"];
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&["explain", "all-reduce"], &["x.svg"], ".html or .json"),
        (&["explain", "all-reduce"], &["X.PNG"], ".html or .json"),
        (&draw, &["x.png"], ".svg or .dot"),
        (&draw, &["x.svg", "--format", "dot"], "whose name says svg"),
        (&export, &["x.html"], ".json or .dot or .xml"),
        (
            &export,
            &["x.xml", "--format", "smi"],
            "whose name says nccl-xml",
        ),
        (&collective, &["x.html"], "a folder"),
        (&["run", "none.json"], &["x.svg"], "a folder"),
    ];
    for (command, name, expected) in cases {
        let args = [command, &["-o"], name].concat();
        let (code, text) = fabricsim(folder.path(), &args);
        assert_eq!(code, 2, "{args:?}: {text}");
        assert!(text.contains(expected), "{args:?}: {text}");
        assert!(!folder.path().join(name[0]).exists(), "{args:?}");
    }
}

#[test]
fn endings_choose_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let draw = ["topology", "draw", "dgx-h100"];
    let export = ["topology", "export", "dgx-h100"];
    let cases: [(&[&str], &str, &str); 8] = [
        (&["explain", "all-reduce"], "x.html", "<!DOCTYPE html>"),
        (&["explain", "all-reduce"], "x.JSON", "{"),
        (&["explain", "all-reduce"], "plain", "<!DOCTYPE html>"),
        (&draw, "x.svg", "<svg"),
        (&draw, "x.dot", "graph"),
        (&export, "y.dot", "graph"),
        (&export, "y.xml", "<"),
        (&export, "y.json", "{"),
    ];
    for (command, name, begin) in cases {
        let args = [command, &["-o", name]].concat();
        let (code, text) = fabricsim(folder.path(), &args);
        assert_eq!(code, 0, "{args:?}: {text}");
        let written = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(written.starts_with(begin), "{args:?}: {written}");
    }
}

/// How much of its rate each link used, bin by bin, as `links.csv` of an all-reduce over rings says.
fn use_of_links(faults: &str) -> BTreeMap<String, Vec<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let run = "collective all-reduce -t dgx-h100 -n 2 --algo ring --proto simple -s 64M";
    let more = ["--faults", "faults.json", "-o", "run"];
    fs::write(folder.path().join("faults.json"), faults).unwrap();
    let args: Vec<&str> = run.split(' ').chain(more).collect();
    let (code, text) = fabricsim(folder.path(), &args);
    assert_eq!(code, 0, "{text}");
    let mut links: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut csv = csv::Reader::from_path(folder.path().join("run/links.csv")).unwrap();
    for row in csv.records() {
        let row = row.unwrap();
        let used = row[5].parse().unwrap();
        links.entry(row[0].to_owned()).or_default().push(used);
    }
    links
}

#[test]
fn a_links_use_over_time_is_of_the_rate_that_faults_leave() {
    // At half its rate all the time, a part of the time, and away: for long, and often inside of a bin.
    let slow = r#""links": "node[1]/nic[2] <> compute", "factor": 0.5"#;
    let away = r#""links": "node[1]/nic[2]""#;
    let cases = [
        (format!(r#"[{{"link": {{{slow}}}}}]"#), 0.9),
        (
            format!(r#"[{{"link": {{{slow}, "from": "203us", "to": "401us"}}}}]"#),
            0.6,
        ),
        (
            format!(r#"[{{"flap": {{{away}, "from": "100us", "down": "250us"}}}}]"#),
            0.4,
        ),
        (
            format!(
                r#"[{{"flap": {{{away}, "from": "100us", "down": "1us", "up": "5us", "count": 500}}}}]"#
            ),
            0.6,
        ),
    ];
    for (faults, least) in cases {
        let links = use_of_links(&faults);
        let most = links.values().flatten().copied().fold(0.0, f64::max);
        assert!(most <= 1.0 + 1e-6, "{faults}: {most}");
        for name in ["node1/nic2 > compute/leaf2", "compute/leaf2 > node1/nic2"] {
            let bins = &links[name];
            let busy = bins.iter().filter(|&&used| used >= 0.95).count();
            let part = busy as f64 / bins.len() as f64;
            assert!(part >= least, "{faults}, {name}: {part} of the time");
        }
    }
}

/// The node with a fault is drawn in full, without its links to the network: the interface is marked.
#[test]
fn an_interface_whose_link_is_faulty_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let faults = r#"[{"link": {"links": "node[1]/nic[2] <> compute", "factor": 0.5}}]"#;
    fs::write(folder.path().join("faults.json"), faults).unwrap();
    let run = "collective all-reduce -t dgx-h100 -n 4 -s 1K --faults faults.json -o run";
    let (code, text) = fabricsim(folder.path(), &run.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{text}");
    let drawing = fs::read_to_string(folder.path().join("run/topology.svg")).unwrap();
    // The legend, the link, the interface among the others of all nodes and in full.
    assert_eq!(drawing.matches("#c2187a").count(), 4, "{drawing}");
}
