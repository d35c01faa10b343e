//! What is shipped, without its files, and files of one's own made from it: `fabricsim scenario`,
//! `fabricsim run NAME`, `fabricsim topology new`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What a command did.
struct Done {
    code: i32,
    out: String,
    err: String,
}

/// Runs the command in a folder: the repository's files are not beside it.
fn fabricsim(folder: &Path, args: &[&str]) -> Done {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).current_dir(folder);
    command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    let output = command.output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn succeeds(folder: &Path, args: &[&str]) -> String {
    let done = fabricsim(folder, args);
    assert_eq!(done.code, 0, "{args:?}: {}", done.err);
    done.out
}

/// Exit code 2, nothing on stdout, and an error that holds all of `parts`.
fn refuses(folder: &Path, args: &[&str], parts: &[&str]) {
    let done = fabricsim(folder, args);
    assert_eq!((done.code, &*done.out), (2, ""), "{args:?}: {}", done.err);
    for part in parts {
        let err = &done.err;
        assert!(err.contains(part), "{args:?}: `{part}` is not in: {err}");
    }
}

fn shipped(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    fs::read_to_string(folder.join(format!("{name}.json"))).unwrap()
}

const SMALL: &str = "job.collective.sizes={\"list\": [\"64KiB\"]}";
const NO_TRACE: &str = "job.collective.trace=64KiB";

#[test]
fn the_list_has_every_scenario_in_columns_or_as_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let out = succeeds(folder.path(), &["scenario", "list"]);
    let document = succeeds(folder.path(), &["scenario", "list", "--json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["format"], 2);
    let entries = document["scenarios"].as_array().unwrap();
    assert_eq!(out.lines().count(), entries.len());
    let column = out.lines().next().unwrap().find("all-reduce").unwrap();
    for (line, entry) in out.lines().zip(entries) {
        let name = entry["name"].as_str().unwrap();
        let job = entry["collective"].as_str().or(entry["job"].as_str());
        let job = job.unwrap();
        assert!(line.starts_with(&format!("{name} ")), "{line}");
        assert!(line[column..].starts_with(&format!("{job} ")), "{line}");
        let topology = entry["machines"][0]["topology"].as_str().unwrap();
        assert!(line.contains(topology), "{line}");
        assert!(line.ends_with(entry["title"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn show_and_copy_give_the_file_as_it_is_shipped() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = shipped("nic-flap");
    assert_eq!(succeeds(at, &["scenario", "show", "nic-flap"]), text);
    let said = succeeds(at, &["scenario", "copy", "nic-flap"]);
    assert!(said.contains("nic-flap.json"), "{said}");
    assert_eq!(fs::read_to_string(at.join("nic-flap.json")).unwrap(), text);
    for (output, file) in [
        ("mine.json", "mine.json"),
        ("new/in", "new/in/nic-flap.json"),
    ] {
        let said = succeeds(at, &["scenario", "copy", "nic-flap", "-o", output, "-q"]);
        assert_eq!(said, "");
        assert_eq!(fs::read_to_string(at.join(file)).unwrap(), text);
    }
    refuses(
        at,
        &["scenario", "show", "nick-flap"],
        &["did you mean `nic-flap`?", "scenario list"],
    );
}

#[test]
fn an_edited_file_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let path = at.join("mine.json");
    for args in [
        &["scenario", "copy", "nic-flap", "-o", "mine.json"][..],
        &["scenario", "new", "collective", "-o", "mine.json"],
        &["scenario", "new", "training", "-o", "mine.json"],
    ] {
        fs::write(&path, "edited").unwrap();
        refuses(at, args, &["`mine.json` is there already", "--force"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "edited");
        let with_force: Vec<&str> = args.iter().copied().chain(["--force"]).collect();
        succeeds(at, &with_force);
        assert_ne!(fs::read_to_string(&path).unwrap(), "edited");
    }
}

#[test]
fn a_shipped_scenario_runs_by_its_name_and_a_file_of_that_name_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |name: &str| {
        let args = [
            "run", name, "--set", SMALL, "--set", NO_TRACE, "--json", "-q",
        ];
        let out = succeeds(at, &[&args[..], &["-o", "results"]].concat());
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let name = "allreduce-dgx-h100";
    let first = run(name);
    assert_eq!(first["spec"]["name"], name);
    // Its results do not hide it; a file does.
    fs::create_dir(at.join(name)).unwrap();
    assert_eq!(run(name), first);
    fs::remove_dir(at.join(name)).unwrap();
    let other = shipped(name).replace("All-reduce on one DGX H100", "Another");
    fs::write(at.join(name), other).unwrap();
    assert!(
        run(name)["spec"]["title"]
            .as_str()
            .unwrap()
            .starts_with("Another")
    );
    refuses(
        at,
        &["run", "allreduce-dgx-100"],
        &[
            "no scenario `allreduce-dgx-100`",
            "`allreduce-dgx-h100`?",
            "scenario list",
        ],
    );
    refuses(at, &["run", "nowhere.json"], &["cannot read nowhere.json"]);
}

#[test]
fn a_new_collective_runs_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = succeeds(at, &["scenario", "new", "collective", "-t", "t4-pcie"]);
    assert!((15..=25).contains(&text.lines().count()), "{text}");
    assert!(text.matches("\"comment\"").count() >= 3, "{text}");
    let args = ["scenario", "new", "collective", "-t", "t4-pcie"];
    succeeds(at, &[&args[..], &["-o", "mine.json"]].concat());
    let written = fs::read_to_string(at.join("mine.json")).unwrap();
    assert_eq!(written, text.replace("my-collective", "mine"));
    let out = succeeds(at, &["run", "mine.json", "--json", "-q", "-o", "results"]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["rows"].as_array().unwrap().len(), 11);
}

#[test]
fn a_new_training_job_runs_as_it_is_and_fits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let new = ["scenario", "new", "training", "-o", "mine.json"];
    succeeds(at, &[&new[..], &["--model", "gpt2-124m"]].concat());
    let out = succeeds(at, &["run", "mine.json", "--json", "-q", "-o", "results"]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    let names = summary["variants"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["as-written", "one-slow-gpu"]);
    assert_eq!(summary["best"], "as-written");
    refuses(
        at,
        &["scenario", "new", "training", "--model", "gpt2-125m"],
        &["gpt2-124m"],
    );
    refuses(
        at,
        &[
            "scenario",
            "new",
            "training",
            "--model",
            "megatron-1t",
            "-t",
            "t4-pcie",
        ],
        &["no layout of megatron-1t", "t4-pcie"],
    );
    refuses(
        at,
        &["scenario", "new", "training", "-t", "dgx-h10"],
        &["no topology `dgx-h10`", "dgx-h100"],
    );
}

/// The path of a machine starts at the scenario's folder, wherever the command was typed.
#[test]
fn a_new_scenario_finds_the_machine_it_was_made_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    succeeds(at, &["topology", "export", "t4-pcie", "-o", "machine.json"]);
    let new = ["scenario", "new", "collective", "-t", "machine.json", "-o"];
    for file in ["beside.json", "sub/below.json"] {
        succeeds(at, &[&new[..], &[file]].concat());
        let run = ["run", file, "--set", SMALL, "--set", NO_TRACE, "-q"];
        succeeds(at, &[&run[..], &["-o", "results"]].concat());
    }
}

#[test]
fn a_new_topology_is_the_shipped_file_with_values_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let topologies = Path::new(env!("CARGO_MANIFEST_DIR")).join("topologies");
    let shipped = fs::read_to_string(topologies.join("superpod-h100.json")).unwrap();
    let new = ["topology", "new", "superpod-h100"];
    assert_eq!(succeeds(at, &new), shipped);
    let changes = [
        "--nodes",
        "64",
        "--oversubscription",
        "2",
        "--set",
        "name=mine",
    ];
    succeeds(at, &[&new[..], &changes, &["-o", "mine.json"]].concat());
    let text = fs::read_to_string(at.join("mine.json")).unwrap();
    let expected = shipped
        .replace("\"name\": \"superpod-h100\"", "\"name\": \"mine\"")
        .replace("\"count\": 32", "\"count\": 64")
        .replace("32 }\n", "32, \"oversubscription\": 2.0 }\n");
    assert_eq!(text, expected);
    // Unlike what `export` writes, it takes any number of nodes.
    let shown = succeeds(at, &["topology", "show", "mine.json", "-n", "3"]);
    assert!(shown.contains("3 nodes, 24 GPUs"), "{shown}");
}

#[test]
fn a_new_topology_is_a_machine_or_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let new = ["topology", "new", "gb200-nvl72", "-o", "mine.json"];
    for (changes, parts) in [
        (&["--nodes", "37"][..], &["--nodes", "36 or 54"][..]),
        (
            &["--set", "instances.0.cuont=2"],
            &["instances[0]", "`count`?"],
        ),
        (
            &["--set", "fabrics.compute.switch=quantum-3"],
            &["fabrics.compute.switch", "quantum-2"],
        ),
        (
            &["--oversubscription", "0"],
            &["--oversubscription", "more than 0"],
        ),
    ] {
        refuses(at, &[&new[..], changes].concat(), parts);
        assert!(!at.join("mine.json").exists(), "{changes:?}");
    }
    fs::write(at.join("mine.json"), "edited").unwrap();
    refuses(at, &new, &["there already", "--force"]);
    succeeds(at, &[&new[..], &["--force"]].concat());
    refuses(at, &["topology", "new", "gb200"], &["gb200-nvl72"]);
}
