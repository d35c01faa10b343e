//! The command as a user meets it: exit codes, streams, files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

struct Done {
    code: i32,
    out: String,
    err: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).env_remove("CLICOLOR_FORCE");
    command.env_remove("COLUMNS");
    command
}

fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn fabricsim(args: &[&str]) -> Done {
    done(&mut command(args))
}

fn succeeds(args: &[&str]) -> String {
    let done = fabricsim(args);
    assert_eq!(done.code, 0, "{args:?}: {}", done.err);
    assert_eq!(without_wall(&done.err), "", "{args:?}");
    done.out
}

/// What else is said than how long the simulation took.
fn without_wall(err: &str) -> String {
    let lines = err
        .lines()
        .filter(|line| !line.starts_with("simulated in "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Exit code 2, nothing on stdout, and an error that holds all of `parts`.
fn refuses(args: &[&str], parts: &[&str]) {
    fails(args, 2, parts);
}

/// The same with another exit code.
fn fails(args: &[&str], code: i32, parts: &[&str]) {
    let done = fabricsim(args);
    assert_eq!(done.code, code, "{args:?}: {}{}", done.out, done.err);
    assert_eq!(done.out, "", "{args:?}");
    assert!(done.err.starts_with("error: "), "{args:?}: {}", done.err);
    assert!(!done.err.contains("panicked"), "{}", done.err);
    for part in parts {
        assert!(
            done.err.contains(part),
            "{args:?}: `{part}` is not in: {}",
            done.err
        );
    }
}

const SMALL: &[&str] = &[
    "collective",
    "all-reduce",
    "--topology",
    "dgx-h100",
    "-e",
    "64K",
];

fn small(more: &[&'static str]) -> Vec<&'static str> {
    SMALL.iter().chain(more).copied().collect()
}

const SCENARIO: &str = r#"{
  "name": "small",
  "topology": { "name": "dgx-h100" },
  "gpus_per_node": 4,
  "job": { "collective": { "name": "all-reduce", "sizes": { "from": "1KiB", "to": "1MiB", "factor": 32 } } }
}"#;

/// A folder with a scenario in it, whose path comes along.
fn scenario() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.json");
    fs::write(&path, SCENARIO).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_collective_prints_the_columns_of_nccl_tests() {
    let out = succeeds(&small(&[]));
    let rows: Vec<&str> = out.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 14, "{out}");
    let cells: Vec<&str> = rows[0].split_whitespace().collect();
    assert_eq!(cells[..5], ["8", "2", "float", "sum", "-1"]);
    assert_eq!(cells[8], "ring");
    assert!(out.contains("# Avg bus bandwidth    : "));
    assert!(!out.contains('\u{1b}'), "colours in a pipe");
}

#[test]
fn json_is_the_contract() {
    let out = succeeds(&small(&[
        "--json",
        "--seed",
        "3",
        "--exact-full",
        "-g",
        "4",
    ]));
    let document: Value = serde_json::from_str(&out).unwrap();
    let schema = serde_json::json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["format", "topology", "nodes", "gpus_per_node", "ranks", "collective", "rows", "version", "seed", "warnings"],
        "properties": {
            "format": { "const": 2 },
            "warnings": { "maxItems": 0 },
            "topology": { "const": "dgx-h100" },
            "nodes": { "const": 1 },
            "gpus_per_node": { "const": 4 },
            "ranks": { "const": 4 },
            "collective": { "const": "all-reduce" },
            "version": { "type": "string" },
            "seed": { "const": 3 },
            "rows": { "minItems": 14, "maxItems": 14, "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["bytes", "count", "time_us", "algbw_gbs", "busbw_gbs", "algo", "proto", "channels", "bound_us", "bound_cut", "bound_plain_us", "bound_plain_cut", "bottleneck", "cause", "causes", "rank_classes", "worker_classes", "events", "skipped", "wall_ms"],
                "properties": {
                    "bytes": { "type": "integer" },
                    "count": { "type": "integer" },
                    "time_us": { "type": "number", "exclusiveMinimum": 0 },
                    "algbw_gbs": { "type": "number" },
                    "busbw_gbs": { "type": "number" },
                    "algo": { "const": "ring" },
                    "proto": { "enum": ["ll", "ll128", "simple"] },
                    "channels": { "type": "integer", "minimum": 1 },
                    "bound_us": { "type": "number" },
                    "bound_cut": { "type": "string" },
                    "bound_plain_us": { "type": "number" },
                    "bound_plain_cut": { "type": "string" },
                    "bottleneck": { "type": "string" },
                    "cause": { "type": "string" },
                    "causes": { "type": "object" },
                    "rank_classes": { "const": 4 },
                    "worker_classes": { "type": "integer", "minimum": 4 },
                    "events": { "type": "integer" },
                    "skipped": { "type": "integer" },
                    "wall_ms": { "const": 0.0 }
                }
            } }
        }
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    if let Err(error) = validator.validate(&document) {
        panic!("{error} at {}", error.instance_path());
    }
    for row in document["rows"].as_array().unwrap() {
        assert!(
            row["time_us"].as_f64() >= row["bound_plain_us"].as_f64(),
            "{row}"
        );
        assert!(
            row["bound_plain_us"].as_f64() >= row["bound_us"].as_f64(),
            "{row}"
        );
    }
}

#[test]
fn csv_repeats() {
    let out = succeeds(&small(&["--csv"]));
    assert!(out.starts_with("topology,nodes,gpus,gpus_per_node,collective,bytes,count,time_us,"));
    assert!(out.contains("\ndgx-h100,1,8,8,all-reduce,8,2,"));
    assert_eq!(out.lines().count(), 15);
    assert_eq!(out, succeeds(&small(&["--csv"])));
}

#[test]
fn flags_change_what_they_say() {
    let first = |args: &[&str]| {
        let out = succeeds(args);
        let row = out
            .lines()
            .find(|line| !line.starts_with('#'))
            .unwrap()
            .to_owned();
        row.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let base = &["collective", "all-gather", "-t", "dgx-a100", "--size", "1M"];
    let with = |more: &[&'static str]| first(&base.iter().chain(more).copied().collect::<Vec<_>>());
    assert_eq!(with(&["--proto", "simple"])[9], "simple");
    assert_eq!(with(&["--env", "NCCL_PROTO=LL128"])[9], "ll128");
    assert_eq!(
        with(&["--env", "NCCL_MAX_NCHANNELS=2", "--algo", "ring"])[10],
        "2"
    );
    assert_eq!(with(&["-g", "4"])[1], "65536");
    let time = |cells: Vec<String>| cells[5].parse::<f64>().unwrap();
    assert!(time(with(&["--isolated"])) >= time(with(&[])));
    let steps = succeeds(&[
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-b",
        "1K",
        "-e",
        "4K",
        "-i",
        "1K",
        "--csv",
    ]);
    assert_eq!(steps.lines().count(), 5);
}

#[test]
fn bad_flags_are_told() {
    let c = |more: &[&'static str]| {
        let mut args = vec!["collective", "all-reduce", "--topology", "dgx-h100"];
        args.extend_from_slice(more);
        args
    };
    refuses(&c(&["-e", "99999999T"]), &["99999999T", "too large"]);
    refuses(
        &c(&["-b", "8G", "-e", "8"]),
        &["-e", "8B", "at least `-b`, 8GiB"],
    );
    refuses(&c(&["-f", "0"]), &["-f", "at least 2"]);
    refuses(&c(&["-f", "1"]), &["-f", "at least 2"]);
    refuses(&c(&["-i", "0"]), &["-i", "at least 1B"]);
    refuses(&c(&["-i", "1", "-f", "2"]), &["cannot be used with"]);
    refuses(&c(&["-b", "0"]), &["-b", "at least 1B"]);
    refuses(&c(&["-b", "-3"]), &["-3"]);
    refuses(&c(&["-b", "1", "-e", "1M", "-i", "1"]), &["-i", "10000"]);
    refuses(&c(&["--size", "8 parsecs"]), &["parsecs"]);
    refuses(&c(&["--size", "0"]), &["--size", "at least 1B"]);
    refuses(&c(&["--size", "200G"]), &["200GiB", "79.6 GiB"]);
    for count in ["0", "9"] {
        refuses(
            &c(&["-g", count]),
            &["-g\n", count, "1 to 8, the GPUs of node0"],
        );
    }
    let rack = ["collective", "all-reduce", "-t", "gb200-nvl72", "-g", "72"];
    refuses(
        &rack,
        &["1 to 4, the GPUs of rack0/tray0", "18 nodes", "all 72 GPUs"],
    );
    refuses(&c(&["-n", "0"]), &["nodes"]);
    refuses(&c(&["-n", "4000000000"]), &[]);
    refuses(
        &c(&["-n", "100000"]),
        &["of the 100000 nodes, at most 8192 fit"],
    );
    refuses(&c(&["--algo", "treee"]), &["tree", "ring"]);
    refuses(&c(&["--proto", "l1"]), &["l1", "ll128"]);
    refuses(&c(&["--env", "NCCL_PROTO"]), &["NAME=VALUE"]);
    refuses(
        &c(&["--env", "NCCL_PROTO=Fast"]),
        &["NCCL_PROTO=Fast", "Simple"],
    );
    refuses(
        &c(&["--env", "NCCL_ALGO=NVLSTree"]),
        &["nothing is left", "NCCL_ALGO"],
    );
    refuses(&c(&["--json", "--csv"]), &["cannot be used with"]);
    refuses(&c(&["--nodez", "3"]), &["--nodez", "--nodes"]);
    refuses(
        &["collective", "all-to-one", "-t", "dgx-h100"],
        &["all-to-one", "all-reduce", "broadcast"],
    );
    refuses(
        &["collective", "all-reduce", "-t", "dgx-h10"],
        &["did you mean `dgx-h100`"],
    );
    refuses(
        &["collective", "all-reduce", "-t", "no/such.json"],
        &["no/such.json"],
    );
    refuses(&["schema", "summery"], &["summary"]);
}

#[test]
fn unknown_variables_are_warnings() {
    let out = succeeds(&small(&["--env", "NCCL_NOPE=1"]));
    assert!(out.contains("# warning: NCCL_NOPE"), "{out}");
    let done = fabricsim(&small(&["--env", "NCCL_NOPE=1", "--json"]));
    assert_eq!(done.code, 0);
    assert!(done.err.contains("warning: NCCL_NOPE"));
    let _: Value = serde_json::from_str(&done.out).unwrap();
}

#[test]
fn buffers_can_be_registered() {
    let gather = |more: &[&'static str]| {
        let base = [
            "collective",
            "all-gather",
            "-t",
            "dgx-h100",
            "--size",
            "64M",
        ];
        base.iter().chain(more).copied().collect::<Vec<_>>()
    };
    let few = ["--env", "NCCL_CTA_POLICY=EFFICIENCY", "--csv"];
    let out = succeeds(&gather(&[&["--registered"], &few[..]].concat()));
    assert!(out.contains(",nvls,simple,4,"), "{out}");
    let undone = [
        &["--registered", "--env", "NCCL_LOCAL_REGISTER=0"],
        &few[..],
    ]
    .concat();
    let done = fabricsim(&gather(&undone));
    assert!(done.out.contains(",ring,"), "{}", done.out);
    assert!(
        done.err.contains("warning: NCCL_CTA_POLICY"),
        "{}",
        done.err
    );
    refuses(&gather(&["--registered=windows"]), &["local", "graph"]);
    let done = fabricsim(&gather(&["--env", "NCCL_GRAPH_REGISTER=1", "--csv"]));
    assert!(done.err.contains("NCCL_GRAPH_REGISTER"), "{}", done.err);
}

#[test]
fn mates_meet_and_sockets_are_slow() {
    let time = |collective: &str, algorithm: &str| {
        let base = ["collective", collective, "-t", "dgx-h100", "-n", "2"];
        let more = ["--size", "16M", "--algo", algorithm, "--json"];
        let out: Value = serde_json::from_str(&succeeds(&[&base[..], &more].concat())).unwrap();
        assert_eq!(out["rows"][0]["algo"], algorithm);
        out["rows"][0]["time_us"].as_f64().unwrap()
    };
    // NVLink inside nodes is faster than the network between them.
    assert!(time("send-recv-pairs", "p2p") < time("send-recv-halves", "p2p"));
    assert!(time("all-reduce", "ring") * 10.0 < time("all-reduce", "cpu-ring"));
    let told = succeeds(&["explain", "send-recv-pairs", "--ranks", "5"]);
    assert!(told.contains("2 is the data of rank 2"), "{told}");
}

#[test]
fn a_run_writes_its_folder() {
    let (folder, path) = scenario();
    let target = folder.path().join("out/small");
    let out = succeeds(&["run", &path, "-o", &target.display().to_string()]);
    assert!(out.contains("Where the time went"), "{out}");
    assert!(out.contains("The busiest links"), "{out}");
    assert!(out.ends_with(&format!("Written to {}\n", target.display())));
    let names: Vec<String> = files(&target).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        cfg!(feature = "png")
            .then_some("bandwidth.png")
            .into_iter()
            .chain([
                "bandwidth.svg",
                "links.csv",
                "report.html",
                "summary.json",
                "timeline.json",
                "topology.svg"
            ])
            .collect::<Vec<_>>()
    );
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(target.join("summary.json")).unwrap()).unwrap();
    let schema: Value = serde_json::from_str(&succeeds(&["schema", "summary"])).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&summary));
    assert_eq!(summary["ranks"], 4);
    assert_eq!(summary["traced_row"], 2);
    assert_eq!(summary["spec"]["name"], "small");
}

#[test]
fn a_run_goes_to_runs_by_default() {
    let (folder, path) = scenario();
    let done = done(command(&["run", &path, "--quiet"]).current_dir(folder.path()));
    assert_eq!(
        (done.code, done.out.as_str(), done.err.as_str()),
        (0, "", "")
    );
    assert!(folder.path().join("runs/small/report.html").is_file());
}

#[test]
fn equal_runs_write_equal_bytes() {
    let (folder, path) = scenario();
    let outputs: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            let target = folder.path().join(name);
            let target_text = target.display().to_string();
            let out = succeeds(&["run", &path, "-o", &target_text, "--seed", "5", "--json"]);
            let summary = fs::read_to_string(target.join("summary.json")).unwrap();
            assert_eq!(out, summary, "--json is summary.json");
            files(&target)
        })
        .collect();
    assert!(outputs[0] == outputs[1]);
}

#[test]
fn overrides_reach_the_run() {
    let (folder, path) = scenario();
    let target = folder.path().join("out").display().to_string();
    let out = succeeds(&[
        "run",
        &path,
        "-o",
        &target,
        "--json",
        "--set",
        "job.collective.sizes.to=32KiB",
        "--set",
        "gpus_per_node=2",
        "--seed",
        "9",
    ]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["rows"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&summary["ranks"], &summary["seed"]),
        (&Value::from(2), &Value::from(9))
    );
    assert_eq!(summary["spec"]["gpus_per_node"], 2);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let (folder, path) = scenario();
    let target = folder.path().join("thesis");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("chapter1.tex"), "words").unwrap();
    let before = files(&target);
    let text = target.display().to_string();
    refuses(
        &["run", &path, "-o", &text],
        &["chapter1.tex", "it was left as"],
    );
    assert!(files(&target) == before);

    // A file where a folder would have to be.
    let inside = format!("{path}/out");
    fails(&["run", &path, "-o", &inside], 3, &["small.json"]);
    let all = small(&["-o"]);
    let args: Vec<&str> = all.iter().copied().chain([text.as_str()]).collect();
    refuses(&args, &["chapter1.tex"]);
    assert!(files(&target) == before);
}

#[test]
fn a_failed_run_leaves_the_results_of_the_last_one() {
    let (folder, path) = scenario();
    let target = folder.path().join("out");
    let text = target.display().to_string();
    succeeds(&["run", &path, "-o", &text, "--quiet"]);
    let before = files(&target);
    refuses(
        &["run", &path, "-o", &text, "--set", "gpus_per_node=9"],
        &["gpus_per_node", "1 to 8, the GPUs of node0"],
    );
    assert!(files(&target) == before);
}

#[test]
fn bad_scenarios_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str, parts: &[&str]| {
        let path = folder.path().join("bad.json");
        fs::write(&path, text).unwrap();
        refuses(&["run", &path.display().to_string()], parts);
    };
    run("", &["bad.json, line 1"]);
    run("{", &["bad.json, line 1"]);
    run("[]", &["bad.json, line 1"]);
    run(
        &SCENARIO.replace("name", "nome"),
        &["unknown field `nome`", "`name`"],
    );
    run(
        &SCENARIO.replace("\"1KiB\"", "1024"),
        &["sizes.from", "line 5"],
    );
    run(
        &SCENARIO.replace("{ \"name\": \"dgx-h100\" }", "{ \"path\": \"gone.json\" }"),
        &["gone.json"],
    );
    run(
        &SCENARIO.replace("{ \"name\": \"dgx-h100\" }", "{ \"inline\": {} }"),
        &["missing field"],
    );
    run(
        &SCENARIO.replace("all-reduce", "all-to-one"),
        &["all-to-one", "all-gather"],
    );
    run(&format!("{SCENARIO}x"), &["line 6"]);
    refuses(&["run", "no-such-file.json"], &["no-such-file.json"]);
    refuses(&["run", "."], &["is a folder", "a scenario's file"]);
    fs::write(folder.path().join("bytes.json"), [0xff, 0xfe, 0]).unwrap();
    let path = folder.path().join("bytes.json").display().to_string();
    refuses(&["run", &path], &["bytes.json"]);
}

#[test]
fn a_scenario_finds_its_topology_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let machine = succeeds(&["topology", "export", "dgx-a100"]);
    fs::write(folder.path().join("machine.json"), machine).unwrap();
    let text = SCENARIO.replace(
        "{ \"name\": \"dgx-h100\" }",
        "{ \"path\": \"machine.json\" }",
    );
    let path = folder.path().join("small.json");
    fs::write(&path, text).unwrap();
    let target = folder.path().join("out").display().to_string();
    let out = succeeds(&["run", &path.display().to_string(), "-o", &target, "--json"]);
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["topology"], "dgx-a100");
}

#[test]
fn topologies_can_be_looked_at() {
    let list = succeeds(&["topology", "list"]);
    let folder = tempfile::tempdir().unwrap();
    for line in list.lines() {
        let name = line.split_whitespace().next().unwrap();
        let show = succeeds(&["topology", "show", name]);
        assert!(
            show.contains("GPU") && show.contains("GB/s usable"),
            "{show}"
        );
        assert!(succeeds(&["topology", "check", name]).contains(name));
        assert!(succeeds(&["topology", "draw", name]).starts_with("<svg"));
        assert!(succeeds(&["topology", "paths", name]).contains("Legend"));
    }
    let file = folder.path().join("x.dot").display().to_string();
    assert_eq!(
        succeeds(&[
            "topology", "draw", "dgx-h100", "--format", "dot", "-o", &file
        ]),
        ""
    );
    assert!(fs::read_to_string(&file).unwrap().starts_with("graph"));
    let two = succeeds(&["topology", "show", "superpod-h100", "--nodes", "2"]);
    assert!(two.contains("2 nodes, 16 GPUs"), "{two}");
    let way = succeeds(&["topology", "paths", "dgx-h100", "gpu0", "node0/gpu3"]);
    assert!(way.contains("node0/gpu0 > node0/nvswitch0"), "{way}");
    let far = succeeds(&[
        "topology",
        "paths",
        "superpod-h100",
        "-n",
        "2",
        "node0/gpu0",
        "node1/gpu1",
    ]);
    assert!(far.contains("nic"), "{far}");
}

#[test]
fn bad_topologies_are_told() {
    refuses(
        &["topology", "show", "dgx-h1oo"],
        &["did you mean `dgx-h100`"],
    );
    refuses(
        &["topology", "paths", "dgx-h100", "gpu0", "gpu9"],
        &["no device `gpu9`", "gpu"],
    );
    refuses(&["topology", "paths", "dgx-h100", "gpu0"], &["<B>"]);
    fails(
        &[
            "topology",
            "draw",
            "dgx-h100",
            "-o",
            "/no/such/folder/x.svg",
        ],
        3,
        &["/no/such/folder"],
    );
    refuses(
        &["topology", "draw", "dgx-h100", "--format", "png"],
        &["png", "svg"],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    fs::write(&path, "{ \"name\": 3 }").unwrap();
    refuses(
        &["topology", "check", &path.display().to_string()],
        &["t.json, line 1", "at name"],
    );
}

#[test]
fn schemas_accept_what_is_shipped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let check = |format: &str, folder: &str| {
        let schema: Value = serde_json::from_str(&succeeds(&["schema", format])).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (name, bytes) in files(&root.join(folder)) {
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            assert!(validator.is_valid(&value), "{name}");
        }
    };
    check("topology", "topologies");
    check("scenario", "scenarios");
}

#[test]
fn completions_and_help_are_there() {
    assert!(succeeds(&["completions", "bash"]).contains("fabricsim"));
    let help = succeeds(&["--help"]);
    for command in ["run", "collective", "topology", "schema", "completions"] {
        assert!(help.contains(command), "{help}");
    }
    let version = succeeds(&["--version"]);
    assert_eq!(
        version,
        format!("fabricsim {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[cfg(unix)]
#[test]
fn nobody_reading_on_is_no_error() {
    use std::process::{Command, Stdio};
    let program = assert_cmd::cargo::cargo_bin("fabricsim");
    for args in [&small(&[])[..], &["topology", "paths", "dgx-h100"]] {
        let mut child = Command::new(&program)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn no_color_is_honoured() {
    let colours = done(command(&small(&[])).env("CLICOLOR_FORCE", "1"));
    assert!(colours.out.contains('\u{1b}'));
    let plain = done(command(&small(&[])).env("NO_COLOR", "1"));
    assert!(!plain.out.contains('\u{1b}'));
}

/// A folder with a file of faults in it, whose path comes along.
fn faults(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.json");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// An all-reduce of two nodes over rings.
fn with_faults<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let base = "collective all-reduce -t dgx-h100 -n 2 --algo ring --proto simple --faults";
    base.split(' ')
        .chain([path])
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn a_link_at_half_its_rate_doubles_a_large_ring_and_is_named() {
    let (_folder, path) =
        faults(r#"[{"link": {"links": "node[1]/nic[2] <> compute", "factor": 0.5}}]"#);
    let out = succeeds(&with_faults(&path, &["-s", "1G", "--json"]));
    let json: Value = serde_json::from_str(&out).unwrap();
    let row = &json["rows"][0];
    let [time, healthy] = ["time_us", "healthy_us"].map(|name| row[name].as_f64().unwrap());
    assert!((1.9..2.05).contains(&(time / healthy)), "{time} {healthy}");
    let bottleneck = row["bottleneck"].as_str().unwrap();
    assert!(bottleneck.contains("node1/nic2"), "{bottleneck}");
    assert_eq!(
        json["faults"][0],
        "node[1]/nic[2] <> compute: link at 0.5 of its rate"
    );
    let table = succeeds(&with_faults(&path, &["-s", "1G"]));
    assert!(table.contains("  healthy  slower  bottleneck"), "{table}");
    let named = "x  node1/nic2: link at 0.5 of its rate costs ";
    assert!(table.contains(named), "{table}");
}

#[test]
fn a_nic_that_flaps_holds_up_what_it_carries() {
    // Down for 2 ms of the first of three operations.
    let (_folder, path) =
        faults(r#"[{"flap": {"links": "node[1]/nic[2]", "from": "1ms", "down": "2ms"}}]"#);
    let out = succeeds(&with_faults(&path, &["-s", "1G", "--json"]));
    let json: Value = serde_json::from_str(&out).unwrap();
    let row = &json["rows"][0];
    let [time, healthy] = ["time_us", "healthy_us"].map(|name| row[name].as_f64().unwrap());
    let lost = 3.0 * (time - healthy);
    assert!((1_800.0..2_200.0).contains(&lost), "{lost}");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("run").display().to_string();
    fabricsim(&with_faults(&path, &["-s", "256M", "-o", &target]));
    let timeline = fs::read_to_string(Path::new(&target).join("timeline.json")).unwrap();
    assert!(timeline.contains(r#""args":{"name":"disturbances"}"#));
    assert!(timeline.contains(r#""name":"link down","cat":"disturbance","ts":1000,"#));
    // Operations that are over before do not meet it.
    let done = fabricsim(&with_faults(&path, &["-s", "1K", "--json"]));
    assert_eq!(done.code, 0);
    assert!(done.err.contains("not before all is over"), "{}", done.err);
}

#[test]
fn jitter_of_every_rank_is_reproducible_and_depends_on_the_seed() {
    let (_folder, path) = faults(
        r#"[{"jitter": {"ranks": "all", "per": "kernel", "add": {"exponential": {"mean": "20us"}}}}]"#,
    );
    let run = |seed: &'static str| {
        let args = with_faults(&path, &["-s", "1M", "--csv", "--seed", seed]);
        succeeds(&args)
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
    let out = run("1");
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0].last(), Some(&"healthy_us"));
    let column = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
    let micros = |name: &str| lines[1][column(name)].parse::<f64>().unwrap();
    assert!(micros("time_us") > micros("healthy_us"), "{out}");
}

#[test]
fn what_is_gone_before_is_planned_around_and_what_dies_later_is_a_hang() {
    let (_folder, path) = faults(r#"[{"failed": {"devices": "node1/nic2", "at": "0ns"}}]"#);
    let out = succeeds(&with_faults(&path, &["-s", "64M"]));
    assert!(
        out.contains("# Fault                : node1/nic2: failed"),
        "{out}"
    );
    let (_folder, path) = faults(r#"[{"failed": {"devices": "node1/nic2", "at": "100us"}}]"#);
    let done = fabricsim(&with_faults(&path, &["-s", "64M"]));
    assert_eq!(done.code, 1, "{}", done.err);
    for part in ["wait for ever", "node1/nic2: failed"] {
        assert!(done.err.contains(part), "{}", done.err);
    }
}

#[test]
fn faults_that_cannot_be_are_refused_by_their_place() {
    let (_folder, path) = faults(r#"[{"slow_gpu": {"ranks": 99, "speed": 0.5}}]"#);
    refuses(
        &with_faults(&path, &["-s", "1M"]),
        &["--faults ", "at [0].slow_gpu.ranks", "99"],
    );
    let (_folder, path) = faults(r#"[{"slow_gpus": {"ranks": 1, "speed": 0.5}}]"#);
    refuses(
        &with_faults(&path, &["-s", "1M"]),
        &["--faults", "unknown variant `slow_gpus`", "`slow_gpu`"],
    );
    refuses(
        &with_faults("no-such-file.json", &["-s", "1M"]),
        &["no-such-file.json"],
    );
}

#[test]
fn a_table_fits_the_columns_that_there_are() {
    let line = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-s",
        "1M",
        "-s",
        "8G",
    ];
    let rows = |columns: &str| {
        let out = done(command(&line).env("COLUMNS", columns)).out;
        let rows = out.lines().skip(3).take(4);
        (rows.map(|l| l.chars().count()).max().unwrap(), out)
    };
    let (longest, narrow) = rows("80");
    assert!(longest <= 80 && !narrow.contains("redop  "), "{narrow}");
    let last: Vec<&str> = narrow.lines().rev().take(2).collect();
    assert!(
        last[1].contains("80") && last[1].contains("--csv and --json"),
        "{narrow}"
    );
    assert!(
        last[0].contains("redop") && last[0].contains("channels"),
        "{narrow}"
    );
    // A pipe has no width of its own.
    let full = succeeds(&line);
    assert_eq!(full, rows("200").1);
    assert!(
        full.contains("redop") && !full.contains("Left out"),
        "{full}"
    );
}

/// The numbers of keys that end in `_us` as the text has them.
fn micros_of(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.split_once("_us\": "));
    lines
        .map(|(_, number)| number.trim_end_matches(','))
        .collect()
}

#[test]
fn microseconds_of_all_documents_have_six_decimals_at_most() {
    let (_folder, path) = faults(r#"[{"slow_gpu": {"ranks": 3, "speed": 0.7}}]"#);
    let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/measurements");
    let collective = ["collective", "all-reduce", "-t", "dgx-h100", "-n", "2"];
    let sizes = [
        "-s", "1000000", "-s", "3M", "--why", "--json", "--faults", &path,
    ];
    let explained = [
        "explain",
        "all-reduce",
        "--ranks",
        "7",
        "-s",
        "1000",
        "--rate",
        "7GB/s",
    ];
    for line in [
        [&collective[..], &sizes].concat(),
        [&explained[..], &["--json"]].concat(),
        vec!["validate", tables, "--json"],
    ] {
        let done = fabricsim(&line);
        let found = micros_of(&done.out);
        assert!(found.len() > 3, "{line:?}: {}", done.err);
        for number in found {
            let decimals = number.split_once('.').map_or("", |(_, decimals)| decimals);
            assert!(
                decimals.len() <= 6 && !number.contains('e'),
                "{line:?}: {number}"
            );
        }
    }
}

/// Sizes, machines and faults that limit in different ways.
fn causes_are_one(args: &str, fault: Option<&str>) -> Value {
    let file = fault.map(faults);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("run").display().to_string();
    let mut line: Vec<&str> = args.split(' ').collect();
    if let Some((_, path)) = &file {
        line.extend(["--faults", path]);
    }
    let with = |more: &[&str]| succeeds(&[&line[..], more].concat());
    let json: Value = serde_json::from_str(&with(&["--json"])).unwrap();
    let table = with(&["-o", &target]);
    let summary = fs::read_to_string(Path::new(&target).join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let page = fs::read_to_string(Path::new(&target).join("report.html")).unwrap();
    let row = &json["rows"][0];
    let (cause, words) = (
        row["cause"].as_str().unwrap(),
        row["bottleneck"].as_str().unwrap(),
    );
    assert!(!cause.is_empty(), "{args}");
    for key in ["cause", "causes", "bottleneck", "fault_costs"] {
        assert_eq!(row[key], summary["rows"][0][key], "{args}: {key}");
    }
    let sentence = summary["bottleneck"].as_str().unwrap();
    let first = sentence.split_once(": ").unwrap().1;
    assert!(first.starts_with(cause), "{args}: {sentence} / {cause}");
    assert!(words.starts_with(cause), "{args}: {words}");
    for text in [
        &table,
        &page
            .replace("&#39;", "'")
            .replace("&lt;", "<")
            .replace("&gt;", ">"),
    ] {
        assert!(text.contains(words), "{args}: {words}");
        assert!(text.contains(sentence), "{args}: {sentence}");
    }
    let picos = |us: &Value| (us.as_f64().unwrap() * 1e6).round() as u64;
    let parts = row["causes"]["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| picos(&part["us"])).sum();
    assert_eq!(sum, picos(&row["time_us"]), "{args}");
    row.clone()
}

#[test]
fn row_sentence_page_and_json_name_one_cause() {
    let kind = |row: &Value| row["causes"]["parts"][0]["cause"]["kind"].clone();
    for (args, method) in [
        ("collective all-reduce -t dgx-h100 -s 8", "critical_path"),
        ("collective all-reduce -t dgx-h100 -s 1G", "critical_path"),
        (
            "collective all-reduce -t dgx-h100 -n 4 -s 8K",
            "critical_path",
        ),
        (
            "collective all-reduce -t dgx-h100 -n 4 -s 4M",
            "critical_path",
        ),
        (
            "collective all-reduce -t gb200-nvl72 -g 4 -n 2 -s 64M",
            "critical_path",
        ),
        (
            "collective all-gather -t x86-h100-pcie -s 16M",
            "critical_path",
        ),
        (
            "collective all-to-all -t superpod-h100 -n 2 -s 1M",
            "critical_path",
        ),
        (
            "collective broadcast -t dgx-a100 -n 2 -s 64M --isolated",
            "critical_path",
        ),
    ] {
        let row = causes_are_one(args, None);
        assert_eq!(row["causes"]["method"], method, "{args}");
    }
    let small = causes_are_one("collective all-reduce -t dgx-h100 -s 8", None);
    assert_ne!(kind(&small), "links");
    let large = causes_are_one(
        "collective all-reduce -t dgx-h100 -n 2 -s 1G --algo ring --proto simple",
        None,
    );
    assert_eq!(kind(&large), "links", "{large}");
}

#[test]
fn faults_are_priced_and_the_dearest_is_the_answer() {
    let slow = r#"[{"slow_gpu": {"ranks": 3, "speed": 0.5}},
        {"link": {"links": "node[1]/nic[2] <> compute", "factor": 0.9}}]"#;
    let row = causes_are_one("collective all-reduce -t dgx-h100 -n 4 -s 8M", Some(slow));
    assert_eq!(row["cause"], "rank 3: GPU at 0.5 of its speed");
    let costs = row["fault_costs"].as_array().unwrap();
    let us = |value: &Value| value.as_f64().unwrap();
    let extra = us(&row["time_us"]) - us(&row["healthy_us"]);
    assert!(us(&costs[0]["cost_us"]) > 0.5 * extra, "{row}");
    assert_eq!(
        costs[1]["description"],
        "node1/nic2: link at 0.9 of its rate"
    );
    let (_folder, path) =
        faults(r#"[{"flap": {"links": "node[0]/nic[1]", "from": "10s", "down": "1ms"}}]"#);
    let late = fabricsim(&with_faults(&path, &["-s", "1M", "--json"]));
    let late: Value = serde_json::from_str(&late.out).unwrap();
    let cost = &late["rows"][0]["fault_costs"][0];
    assert_eq!(
        (us(&cost["cost_us"]), &cost["reason"]),
        (0.0, &"too_late".into())
    );
    // Alone, a fault costs what it takes longer than without any.
    let slow = r#"[{"slow_gpu": {"ranks": 3, "speed": 0.5}}]"#;
    let row = causes_are_one("collective all-reduce -t dgx-h100 -n 4 -s 8M", Some(slow));
    let extra = us(&row["time_us"]) - us(&row["healthy_us"]);
    assert!((us(&row["fault_costs"][0]["cost_us"]) - extra).abs() < 1e-6);
    // Spines that nothing crosses.
    let spines = r#"[{"link": {"links": "compute/leaf[*] <> compute/spine[*]", "factor": 0.5}}]"#;
    let row = causes_are_one(
        "collective all-reduce -t superpod-h100 -n 4 -s 64M",
        Some(spines),
    );
    assert_eq!(row["fault_costs"][0]["reason"], "below_the_spines");
}

#[test]
fn a_link_that_is_slow_is_used_by_what_is_left_of_it_and_marked() {
    let (_folder, path) =
        faults(r#"[{"link": {"links": "node[1]/nic[2] <> compute", "factor": 0.5}}]"#);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("run").display().to_string();
    succeeds(&with_faults(&path, &["-s", "1G", "-o", &target]));
    let read = |name: &str| fs::read_to_string(Path::new(&target).join(name)).unwrap();
    let summary: Value = serde_json::from_str(&read("summary.json")).unwrap();
    let links = summary["links"].as_array().unwrap();
    let of = |name: &str| {
        let found = links
            .iter()
            .find(|link| link["name"].as_str().unwrap().starts_with(name));
        found.unwrap()
    };
    let used = |link: &Value| link["utilisation"].as_f64().unwrap();
    let (slow, whole) = (of("node1/nic2 > compute"), of("node1/nic1 > compute"));
    assert_eq!(slow["faulty"], true);
    assert!(
        (used(slow) / used(whole) - 2.0).abs() < 0.05,
        "{slow} {whole}"
    );
    assert!(read("topology.svg").contains(">faulty</text>"));
}

#[test]
fn what_dies_is_named_with_its_rank_and_what_waits_for_it() {
    let (_folder, path) = faults(r#"[{"failed": {"devices": "node1/gpu3", "at": "0ns"}}]"#);
    let done = fabricsim(&with_faults(&path, &["-s", "64M"]));
    assert_eq!(done.code, 2, "{}", done.err);
    for part in ["node1/gpu3: failed from the start", "rank 11"] {
        assert!(done.err.contains(part), "{}", done.err);
    }
    assert!(!done.err.contains("add `ports`"), "{}", done.err);
    let (_folder, path) = faults(r#"[{"failed": {"devices": "node1/gpu3", "at": "30us"}}]"#);
    let line = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-n",
        "2",
        "-s",
        "64M",
        "--faults",
    ];
    let done = fabricsim(&[&line[..], &[&path]].concat());
    assert_eq!(done.code, 1, "{}", done.err);
    assert!(done.err.contains("the GPU of rank 11"), "{}", done.err);
    assert!(
        !done.err.contains("of rank 0, waiting for data from rank 0"),
        "{}",
        done.err
    );
    let (_folder, path) = faults(r#"[{"failed": {"devices": "node0/cpu0", "at": "0ns"}}]"#);
    refuses(
        &with_faults(&path, &["-s", "1M"]),
        &["at [0].failed.devices", "a CPU", "all of `node0`"],
    );
    let (_folder, path) = faults(
        r#"[{"flap": {"links": "node[0]/nic[2]", "from": "10us", "down": "1ps", "up": "1ps", "count": 4294967295}}]"#,
    );
    refuses(
        &with_faults(&path, &["-s", "1M"]),
        &["at [0].flap.up", "1us or more"],
    );
}

#[test]
fn a_jobs_faults_are_priced() {
    let folder = tempfile::tempdir().unwrap();
    let run = |scenario: &str, name: &str, more: &[&str]| -> Value {
        let target = folder.path().join(name).display().to_string();
        let line = ["run", scenario, "-q", "-o", &target];
        succeeds(&[&line[..], more].concat());
        let text = fs::read_to_string(Path::new(&target).join("summary.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let summary = run("scenarios/ddp-straggler.json", "straggler", &[]);
    let answer = summary["answer"].as_str().unwrap();
    assert!(
        answer.contains("rank 5: GPU at 0.8 of its speed costs "),
        "{answer}"
    );
    let variants = summary["variants"].as_array().unwrap();
    assert!(variants[0].get("fault_prices").is_none());
    let prices = &variants[1]["fault_prices"];
    let us = |value: &Value| value.as_f64().unwrap();
    let extra = (us(&prices["run_s"]) - us(&prices["healthy_s"])) * 1e6;
    assert!(
        (us(&prices["costs"][0]["cost_us"]) - extra).abs() < 1e-3,
        "{prices}"
    );
    let steps = variants[0]["ran"]["steps_s"].as_array().unwrap();
    let healthy: f64 = steps.iter().map(us).sum();
    assert!((us(&prices["healthy_s"]) - healthy).abs() < 1e-9);
}
