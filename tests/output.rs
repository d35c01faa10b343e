//! What `-o` accepts: endings that a command cannot write are refused before anything is done.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
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
