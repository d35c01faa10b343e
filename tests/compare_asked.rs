//! What `fabricsim compare` is asked is what it runs: nodes, GPUs, sizes, prices, and names that are given.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::collections::BTreeSet;
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

fn done(folder: &Path, args: &[&str]) -> String {
    let (code, out, err) = fabricsim(folder, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    out
}

fn document(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&done(folder, args)).unwrap()
}

fn refused(folder: &Path, args: &[&str], parts: &[&str]) {
    let (code, _, err) = fabricsim(folder, args);
    assert_eq!(code, 2, "{args:?}: {err}");
    for part in parts {
        assert!(err.contains(part), "`{part}` is missing in: {err}");
    }
}

/// Of each variant its nodes and GPUs.
fn sizes(found: &Value) -> Vec<(u64, u64)> {
    let variants = found["variants"].as_array().unwrap();
    let of = |v: &Value, name: &str| v[name].as_u64().unwrap();
    let of = |v| (of(v, "nodes"), of(v, "gpus"));
    variants.iter().map(of).collect()
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(name), value.to_string()).unwrap();
}

fn all_reduce(name: &str, machine: &str, size: &str) -> Value {
    json!({
        "name": name,
        "topology": { "name": machine },
        "nodes": 2,
        "gpus_per_node": 4,
        "job": { "collective": { "name": "all-reduce", "sizes": { "list": [size] } } },
    })
}

#[test]
fn nodes_and_gpus_are_those_that_were_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let both = ["compare", "-t", "dgx-h100", "-t", "dgx-a100", "all-reduce"];
    let at = ["-s", "16M", "--json"];
    for (flags, expected) in [
        (&["-n", "2"][..], (2, 16)),
        (&["--nodes", "4"], (4, 32)),
        (&["-g", "4"], (1, 4)),
        (&["-n", "2", "-g", "4"], (2, 8)),
        (&["--gpus", "24"], (3, 24)),
    ] {
        let found = document(folder, &[&both[..], flags, &at].concat());
        assert_eq!(sizes(&found), [expected; 2], "{flags:?}");
    }
    // As `collective` has it.
    let found = document(folder, &[&both[..], &["-n", "2"], &at].concat());
    let args = ["collective", "all-reduce", "-t", "dgx-h100", "-n", "2"];
    let alone = document(folder, &[&args[..], &at].concat());
    let compared = &found["variants"][0]["rows"][0]["time_us"];
    assert_eq!(compared, &alone["rows"][0]["time_us"]);
    let more = [&both[..], &["-g", "9"], &at].concat();
    refused(folder, &more, &["gpus_per_node", "9", "1 to 8"]);
}

#[test]
fn a_scenario_keeps_its_nodes_on_other_machines_as_in_a_sweep() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(folder, "own.json", &all_reduce("own", "dgx-h100", "16MiB"));
    let both = ["-t", "dgx-h100", "-t", "dgx-a100"];
    let compare = [&["compare", "own.json", "--json"][..], &both].concat();
    let found = document(folder, &compare);
    assert_eq!(sizes(&found), [(2, 8); 2]);
    let args = [
        "sweep",
        "run",
        "own.json",
        "--over",
        "machine=dgx-h100,dgx-a100",
    ];
    done(folder, &[&args[..], &["-o", "swept", "-q"]].concat());
    let points = fs::read_to_string(folder.join("swept/points.jsonl")).unwrap();
    for (line, variant) in points.lines().zip(found["variants"].as_array().unwrap()) {
        let point: Value = serde_json::from_str(line).unwrap();
        let (row, own) = (&point["rows"][0], &variant["metrics"]);
        for name in ["time_us", "busbw_gbs", "kw", "usd_per_gpu_hour"] {
            assert_eq!(row[name], own[name], "{name}");
        }
        assert_eq!(row["gpus"], variant["gpus"]);
    }
    // What is asked for stands in place of what the scenario says.
    let more = document(folder, &[&compare[..], &["-n", "3"]].concat());
    assert_eq!(sizes(&more), [(3, 12); 2]);
    let all = document(folder, &[&compare[..], &["--gpus", "16"]].concat());
    assert_eq!(sizes(&all), [(2, 16); 2]);
}

#[test]
fn variants_with_sizes_of_their_own_are_not_overruled_in_silence() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let mut spec = all_reduce("own", "dgx-h100", "16MiB");
    spec["variants"] = json!([
        { "name": "as-it-is" },
        { "name": "ring", "set": { "job.collective.algorithm": "ring" } },
    ]);
    write(folder, "alike.json", &spec);
    let found = document(folder, &["compare", "alike.json", "-n", "4", "--json"]);
    assert_eq!(sizes(&found), [(4, 16); 2]);
    spec["variants"] = json!([{ "name": "one" }, { "name": "three", "set": { "nodes": 3 } }]);
    write(folder, "apart.json", &spec);
    let parts = ["variants[1].set.nodes", "found:    3", "--gpus"];
    refused(folder, &["compare", "apart.json", "-n", "4"], &parts);
    let both = ["compare", "apart.json", "-t", "dgx-h100", "-t", "dgx-a100"];
    refused(folder, &both, &parts);
    let found = document(folder, &[&both[..], &["-n", "2", "--json"]].concat());
    assert_eq!(sizes(&found), [(2, 8); 2]);
}

#[test]
fn cards_are_of_as_many_gpus_as_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let cards = ["compare", "-t", "dgx-h100", "-t", "gb200-nvl72", "--json"];
    let found = document(folder, &[&cards[..], &["--gpus", "144"]].concat());
    let machines = found["machines"].as_array().unwrap();
    let gpus: Vec<&Value> = machines.iter().map(|card| &card["gpus"]).collect();
    assert_eq!(gpus, [144, 144]);
    let one = document(folder, &["compare", "-t", "dgx-h100", "-n", "2", "--json"]);
    assert_eq!(one["machines"][0]["gpus"], 16);
    refused(
        folder,
        &[&cards[..], &["--gpus", "4"]].concat(),
        &["--gpus", "4", "whole nodes of 8"],
    );
    refused(
        folder,
        &[&cards[..], &["-g", "4"]].concat(),
        &["-g", "machines by themselves"],
    );
}

#[test]
fn flags_that_go_with_something_else_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(folder, "own.json", &all_reduce("own", "dgx-h100", "16MiB"));
    let both = ["compare", "own.json", "-t", "dgx-h100", "-t", "dgx-a100"];
    let with = |more: &[&'static str]| [&both[..], more].concat();
    refused(
        folder,
        &with(&["-s", "1M"]),
        &["-s", "job.collective.sizes"],
    );
    refused(folder, &with(&["--algo", "ring"]), &["--algo", "--set"]);
    refused(folder, &with(&["--rate", "3"]), &["--rate", "a model"]);
    refused(
        folder,
        &["compare", "llama3-70c"],
        &["did you mean `llama3-70b`"],
    );
    refused(
        folder,
        &["compare", "gpt2-124m", "-t", "dgx-h100"],
        &["--gpus"],
    );
    fs::write(folder.join("gpt2-124m"), "{}").unwrap();
    let both = ["-t", "dgx-h100", "-t", "dgx-a100", "--gpus", "8"];
    let two = [&["compare", "gpt2-124m"][..], &both].concat();
    refused(folder, &two, &["a file, and a model", "./gpt2-124m"]);
}

#[test]
fn two_scenarios_are_compared_by_their_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(
        folder,
        "best-1.json",
        &all_reduce("own", "dgx-h100", "16MiB"),
    );
    write(
        folder,
        "best-4.json",
        &all_reduce("own", "dgx-a100", "16MiB"),
    );
    let two = ["compare", "best-1.json", "best-4.json"];
    let found = document(folder, &[&two[..], &["--json"]].concat());
    let names: Vec<&Value> = (0..2).map(|v| &found["variants"][v]["name"]).collect();
    assert_eq!(names, ["best-1", "best-4"]);
    assert_eq!(found["best"], "best-1");
    assert_eq!(found["waterfall"][0]["to"], "best-4");
    let other = document(
        folder,
        &[&two[..], &["--baseline", "best-4", "--json"]].concat(),
    );
    assert_eq!(other["baseline"], "best-4");
    assert_eq!(other["waterfall"][0]["to"], "best-1");
    refused(
        folder,
        &[&two[..], &["--baseline", "best-2"]].concat(),
        &["best-1, best-4"],
    );
    let page = [&two[..], &["-o", "page.html", "-q"]].concat();
    done(folder, &page);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("one operation of each, alone, on one axis"));
}

#[test]
fn earlier_runs_are_compared_at_sizes_that_all_have() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let sizes_of = |value: Value| {
        let mut spec = all_reduce("own", "dgx-h100", "1MiB");
        spec["job"]["collective"]["sizes"]["list"] = value;
        spec
    };
    write(
        folder,
        "a.json",
        &sizes_of(json!(["4MiB", "16MiB", "64MiB"])),
    );
    write(folder, "b.json", &sizes_of(json!(["4MiB", "16MiB"])));
    write(folder, "c.json", &sizes_of(json!(["128MiB"])));
    for (name, nodes) in [("a", "nodes=1"), ("b", "nodes=3"), ("c", "nodes=1")] {
        let file = format!("{name}.json");
        done(folder, &["run", &file, "--set", nodes, "-o", name, "-q"]);
    }
    let found = document(folder, &["compare", "a", "b", "--json"]);
    for variant in found["variants"].as_array().unwrap() {
        let rows = variant["rows"].as_array().unwrap();
        let bytes: Vec<u64> = rows
            .iter()
            .map(|row| row["bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(bytes, [4 << 20, 16 << 20]);
        assert_eq!(variant["metrics"]["bytes"], 16 << 20);
        assert_eq!(variant["metrics"]["time_us"], rows[1]["time_us"]);
    }
    // The waterfall is of the same row, and the sentence too.
    let time = |v: usize| found["variants"][v]["metrics"]["time_us"].as_f64().unwrap();
    let total = found["waterfall"][0]["total_us"].as_f64().unwrap();
    assert!((total - (time(1) - time(0))).abs() < 1e-5, "{found}");
    assert!(
        found["warnings"].to_string().contains("64MiB of a"),
        "{found}"
    );
    refused(
        folder,
        &["compare", "a", "c"],
        &["c has 128MiB", "a size that all of them have"],
    );
}

/// No column of a table is there twice.
fn is_plain(csv: &str) -> Vec<String> {
    let head = csv.lines().next().unwrap();
    let names: Vec<String> = head.split(',').map(str::to_owned).collect();
    let once: BTreeSet<&String> = names.iter().collect();
    assert_eq!(once.len(), names.len(), "{head}");
    names
}

#[test]
fn no_table_has_a_column_twice() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    write(folder, "own.json", &all_reduce("own", "dgx-h100", "16MiB"));
    let both = ["-t", "dgx-h100", "-t", "dgx-a100", "-s", "1M"];
    is_plain(&done(
        folder,
        &[&["compare", "all-reduce", "--csv"][..], &both, &["-n", "2"]].concat(),
    ));
    is_plain(&done(
        folder,
        &[
            "compare", "own.json", "-t", "dgx-h100", "-t", "dgx-a100", "--gpus", "16", "--csv",
        ],
    ));
    let mut jobs = json!({
        "name": "two", "topology": { "name": "dgx-h100" },
        "job": { "concurrent": [
            { "name": "a", "gpus": "0-3", "job": { "collective": { "name": "all-reduce", "sizes": { "list": ["1MiB"] } } } },
            { "name": "b", "gpus": "4-7", "job": { "collective": { "name": "all-gather", "sizes": { "list": ["1MiB"] } } } },
        ] },
    });
    jobs["variants"] =
        json!([{ "name": "x" }, { "name": "y", "set": { "job": jobs["job"].clone() } }]);
    write(folder, "two.json", &jobs);
    let names = is_plain(&done(folder, &["compare", "two.json", "--csv"]));
    assert!(names.contains(&"set.job".to_owned()), "{names:?}");
    for (index, axis) in [
        "gpus=8,16",
        "nodes=1,2",
        "machine=dgx-h100,dgx-a100",
        "topology=dgx-h100,dgx-a100",
        "gpus_per_node=2,4",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("s{index}");
        done(
            folder,
            &[
                "sweep", "run", "own.json", "--over", axis, "-o", &target, "-q",
            ],
        );
        let csv = fs::read_to_string(folder.join(&target).join("points.csv")).unwrap();
        let names = is_plain(&csv);
        for name in ["topology", "nodes", "gpus", "time_us"] {
            assert!(names.contains(&name.to_owned()), "{axis}: {names:?}");
        }
    }
    done(folder, &["run", "own.json", "-o", "run", "-q"]);
    is_plain(&fs::read_to_string(folder.join("run").join("links.csv")).unwrap());
    is_plain(&done(
        folder,
        &[
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1M",
            "--csv",
        ],
    ));
}

#[test]
fn the_readers_prices_stand_before_all_others() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let both = [
        "compare",
        "-t",
        "dgx-h100",
        "-t",
        "dgx-a100",
        "all-reduce",
        "-s",
        "1M",
        "--json",
    ];
    let price =
        |found: &Value, v: usize| found["variants"][v]["metrics"]["usd_per_gpu_hour"].clone();
    let ours = document(folder, &both);
    let found = document(folder, &[&both[..], &["--price", "dgx-h100=2.20"]].concat());
    assert_eq!(price(&found, 0), 2.2);
    assert_eq!(price(&found, 1), price(&ours, 1));
    refused(
        folder,
        &[&both[..], &["--price", "dgx-h10=2"]].concat(),
        &[
            "--price dgx-h10",
            "dgx-h100, dgx-a100",
            "did you mean `dgx-h100`",
        ],
    );
    refused(
        folder,
        &[&both[..], &["--price", "dgx-h100=0"]].concat(),
        &["dgx-h100=2.20"],
    );
}
