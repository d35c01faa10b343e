//! What the command does with streams, signals, folders and text that is not kind to it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("fabricsim"));
    command
        .args(args)
        .stdin(Stdio::null())
        .env_remove("CLICOLOR_FORCE");
    command
}

fn output(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const SCENARIO: &str = r#"{
    "name": "small", "topology": { "name": "dgx-h100" },
    "job": { "collective": { "name": "all-reduce", "sizes": { "list": ["1KiB", "4KiB"] } } }
}"#;

/// A folder with `small.json` in it.
fn scenario() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.json");
    fs::write(&path, SCENARIO).unwrap();
    (folder, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Hidden files and folders in a folder.
fn hidden(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// Runs that print a table and write a folder, each onto the stream, and what is left.
fn with_results(onto: impl Fn() -> Stdio, look: impl Fn(std::process::Child, &Path)) {
    let (folder, path) = scenario();
    let run = folder.path().join("run");
    let collective = folder.path().join("collective");
    let compared = folder.path().join("compared");
    let what = ["all-reduce", "-t", "dgx-h100"];
    let of_two = ["compare", "all-reduce", "-t", "dgx-h100", "-t", "dgx-a100"];
    for (target, args) in [
        (&run, vec!["run", text(&path)]),
        (
            &collective,
            [&["collective"], &what[..], &["-s", "1K"]].concat(),
        ),
        (&compared, [&of_two[..], &["--gpus", "8"]].concat()),
    ] {
        let child = command(&[&args[..], &["-o", text(target)]].concat())
            .stdout(onto())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        look(child, target);
    }
}

#[test]
fn results_are_written_though_nobody_reads_the_table_on() {
    with_results(Stdio::piped, |mut child, target| {
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert!(target.join("summary.json").is_file(), "{target:?}");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_written_though_the_table_cannot_be() {
    with_results(
        || {
            fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into()
        },
        |child, target| {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(3), "{}", err(&output));
            assert!(err(&output).contains("cannot write to standard output"));
            assert!(target.join("summary.json").is_file(), "{target:?}");
        },
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_error_is_no_panic() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let args = ["collective", "all-reduce", "-t", "dgx-h100", "-n", "0"];
    let status = command(&args).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = command(&["collective", "--nonsense"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_exits_with_3() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command(&["topology", "list"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(err(&output).starts_with("error: cannot write to standard output"));
}

#[cfg(unix)]
#[test]
fn files_without_end_are_refused() {
    let (_folder, path) = scenario();
    let zero = "/dev/zero";
    let set = format!("topology={{\"path\":\"{zero}\"}}");
    for args in [
        vec!["topology", "check", zero],
        vec!["run", zero],
        vec!["run", text(&path), "--set", &set],
        vec!["validate", zero],
        vec![
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1K",
            "--faults",
            zero,
        ],
        vec![
            "collective",
            "all-to-all-v",
            "-t",
            "dgx-h100",
            "-s",
            "1K",
            "--matrix",
            zero,
        ],
        vec![
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1K",
            "--algo-file",
            zero,
        ],
        vec![
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1K",
            "--env",
            "NCCL_GRAPH_FILE=/dev/zero",
        ],
    ] {
        let output = output(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        let said = err(&output);
        assert!(
            said.contains("cannot read /dev/zero: it has more than 256 MiB"),
            "{args:?}: {said}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_a_file() {
    use std::io::Write;
    let mut child = command(&["topology", "check", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let machine = output(&["topology", "export", "dgx-a100"]).stdout;
    child.stdin.take().unwrap().write_all(&machine).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

#[test]
fn nothing_a_terminal_obeys_reaches_it() {
    let (folder, path) = scenario();
    let title = r"a\u001b[2Jb\u009bc\u202ed\u0007";
    let named = SCENARIO.replace(
        "\"topology\"",
        &format!("\"title\": \"{title}\", \"topology\""),
    );
    fs::write(&path, named).unwrap();
    let machine = String::from_utf8(output(&["topology", "export", "dgx-a100"]).stdout).unwrap();
    let mut machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    machine["title"] = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}\u{202e}\u{fffe}\u{0}".into();
    let hostile = folder.path().join("hostile.json");
    fs::write(&hostile, machine.to_string()).unwrap();
    machine["components"]["dgx-a100"]["devices"]["\u{1b}[2J"] = serde_json::json!({"model": "x"});
    let wrong = folder.path().join("wrong.json");
    fs::write(&wrong, machine.to_string()).unwrap();
    let out = folder.path().join("out");
    let algo = "NCCL_ALGO=\u{1b}[2J\u{202e}";
    for args in [
        vec!["topology", "show", text(&hostile)],
        vec!["topology", "export", text(&hostile)],
        vec!["topology", "export", text(&hostile), "--format", "dot"],
        vec!["topology", "check", text(&wrong)],
        vec!["collective", "all-reduce", "-t", text(&hostile), "-s", "1K"],
        vec![
            "collective",
            "all-reduce",
            "-t",
            text(&hostile),
            "-s",
            "1K",
            "--json",
        ],
        vec![
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1K",
            "--env",
            algo,
        ],
        vec!["collective", "\u{1b}[2J", "-t", "dgx-h100"],
        vec!["run", text(&path), "-o", text(&out)],
        vec!["run", text(&path), "-o", text(&out), "--json"],
        vec!["run", "\u{1b}[2J.json"],
    ] {
        // As on a terminal: otherwise escapes are taken out anyway.
        let done = command(&args).env("CLICOLOR_FORCE", "1").output().unwrap();
        for stream in [&done.stdout, &done.stderr] {
            let shown = std::str::from_utf8(stream).unwrap();
            for (at, c) in shown
                .char_indices()
                .filter(|(_, c)| fabricsim::text::is_control(*c))
            {
                let style =
                    shown[at..].starts_with("\u{1b}[") && !shown[at..].starts_with("\u{1b}[2J");
                assert!(
                    c == '\n' || c == '\t' || style,
                    "{args:?}: {:?}",
                    &shown[at.saturating_sub(20)..]
                );
            }
        }
    }
    // The same title in pictures: they stay XML.
    output(&[
        "collective",
        "all-reduce",
        "-t",
        text(&hostile),
        "-s",
        "1K",
        "-o",
        text(&out),
    ]);
    let drawing = String::from_utf8(output(&["topology", "draw", text(&hostile)]).stdout).unwrap();
    let topology = fs::read_to_string(out.join("topology.svg")).unwrap();
    let bandwidth = fs::read_to_string(out.join("bandwidth.svg")).unwrap();
    for svg in [drawing, topology, bandwidth] {
        assert_eq!(fabricsim::text::xml(&svg), svg);
        assert!(svg.contains('\u{fffd}') || svg.contains("\\u001b"));
    }
}

#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    let (folder, path) = scenario();
    let target = folder.path().join("out");
    let stale = folder.path().join(".fabricsim-out-Ab12Cd");
    let other = folder.path().join(".fabricsim-other-Ab12Cd");
    for left in [&stale, &other] {
        fs::create_dir_all(left.join("new")).unwrap();
        fs::write(left.join("new/summary.json"), "{}").unwrap();
    }
    let done = output(&["run", text(&path), "-q", "-o", text(&target)]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert_eq!(hidden(folder.path()), [".fabricsim-other-Ab12Cd"]);
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_still_being_written_is_left_alone() {
    let (folder, path) = scenario();
    let target = folder.path().join("out");
    let alive = folder.path().join(".fabricsim-out-Ab12Cd");
    fs::create_dir(&alive).unwrap();
    let lock = fs::File::open(&alive).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let done = output(&["run", text(&path), "-q", "-o", text(&target)]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert_eq!(hidden(folder.path()), [".fabricsim-out-Ab12Cd"]);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_what_is_whole_and_nothing_else() {
    use std::time::{Duration, Instant};
    let (folder, path) = scenario();
    let target = folder.path().join("out");
    let done = output(&["run", text(&path), "-q", "-o", text(&target)]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let before = fs::read(target.join("summary.json")).unwrap();
    // Long enough to be met while it runs or writes, at several moments.
    let sizes = "job.collective.sizes={\"from\":\"1KiB\",\"to\":\"8GiB\"}";
    let set = [
        text(&path),
        "--set",
        "nodes=8",
        "--set",
        sizes,
        "--exact-full",
    ];
    for (signal, code, wait) in [("INT", 130, 300), ("TERM", 143, 500), ("INT", 130, 1500)] {
        let args = [&["run", "-q", "-o", text(&target)], &set[..]].concat();
        let mut child = command(&args).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let began = Instant::now();
        let status = child.wait().unwrap();
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(status.code(), Some(code), "{signal} after {wait} ms");
        assert_eq!(hidden(folder.path()), Vec::<String>::new());
        assert_eq!(fs::read(target.join("summary.json")).unwrap(), before);
    }
}

#[test]
fn runs_into_one_new_folder_at_once_all_succeed() {
    let (folder, path) = scenario();
    for round in 0..4 {
        let target = folder.path().join(format!("out{round}"));
        let args = ["run", text(&path), "-q", "-o", text(&target)];
        let children: Vec<_> = (0..4)
            .map(|_| command(&args).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        }
        assert!(target.join("summary.json").is_file());
    }
    assert_eq!(hidden(folder.path()), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_named() {
    let (folder, path) = scenario();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("gone", &link).unwrap();
    let done = output(&["run", text(&path), "-o", text(&link)]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        err(&done).contains("is a link to `gone`, which does not exist"),
        "{}",
        err(&done)
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let (folder, path) = scenario();
    let long = "x".repeat(300_000);
    fs::write(
        &path,
        SCENARIO.replace("\"name\": \"small\"", &format!("\"{long}\": 1")),
    )
    .unwrap();
    for args in [
        vec!["run", text(&path)],
        vec!["run", text(&path), "--set", "job.collective.sizes.list=[]"],
    ] {
        let said = err(&output(&args));
        assert!(
            said.contains("… (300000 characters)"),
            "{}",
            &said[..500.min(said.len())]
        );
        assert!(said.len() < 3000);
    }
    drop(folder);
}

#[test]
fn quiet_goes_with_everything() {
    let (folder, path) = scenario();
    let target = folder.path().join("out");
    let collective = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-s",
        "1K",
        "-q",
    ];
    let quiet = output(&collective);
    assert_eq!(
        (quiet.status.code(), quiet.stdout.len(), quiet.stderr.len()),
        (Some(0), 0, 0)
    );
    for args in [
        [&collective[..], &["--json"]].concat(),
        vec!["-q", "run", text(&path), "--json", "-o", text(&target)],
        vec!["explain", "all-reduce", "-q", "--json"],
    ] {
        let done = output(&args);
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        assert_eq!(err(&done), "");
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(json["format"], 2, "{args:?}");
    }
}

/// Places of eight GPUs and NICs, as a cloud gives them to its virtual machines.
fn places() -> String {
    let pair = |n: u32| {
        format!(
            "<pci busid=\"ffff:ff:{n:02x}.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\
             <pci busid=\"00{n:02x}:00:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>\
             <pci busid=\"01{n:02x}:00:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/></pci>"
        )
    };
    let cpu = |numa: u32| {
        let pairs: String = (numa * 4 + 1..=numa * 4 + 4).map(pair).collect();
        format!(
            "<cpu numaid=\"{numa}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">{pairs}</cpu>"
        )
    };
    format!("<system version=\"1\">{}{}</system>", cpu(0), cpu(1))
}

fn bus_bandwidth(args: &[&str]) -> f64 {
    let done = output(args);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    json["rows"][0]["busbw_gbs"].as_f64().unwrap()
}

#[test]
fn a_dump_says_what_was_assumed_and_has_the_nvlinks_of_its_gpus() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("topo.xml");
    fs::write(&dump, places()).unwrap();
    let imported = output(&["topology", "import", text(&dump)]);
    let notes = err(&imported);
    assert!(
        notes.contains("note: the file names no NVLinks: taken as the 18 of a h100-sxm"),
        "{notes}"
    );
    let run = [
        "collective",
        "all-reduce",
        "-t",
        text(&dump),
        "-s",
        "1G",
        "--json",
    ];
    let done = output(&run);
    for note in notes.lines() {
        assert!(
            err(&done).lines().any(|line| line == note),
            "{note}: {}",
            err(&done)
        );
    }
    let shown = output(&["topology", "show", text(&dump)]);
    assert_eq!(err(&shown), notes);
    assert_eq!(err(&output(&["topology", "show", text(&dump), "-q"])), "");
    let of_dump = bus_bandwidth(&run);
    let of_model = bus_bandwidth(&[
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-s",
        "1G",
        "--json",
    ]);
    assert!(
        (of_dump / of_model - 1.0).abs() < 0.05,
        "{of_dump} {of_model}"
    );
}

#[test]
fn interfaces_go_by_their_rdma_names() {
    let two = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-n",
        "2",
        "-s",
        "1G",
        "--json",
    ];
    let with = |hca: &str| {
        let env = format!("NCCL_IB_HCA={hca}");
        let args = [&two[..], &["--env", &env]].concat();
        (bus_bandwidth(&args), err(&output(&args)))
    };
    let all = bus_bandwidth(&two);
    // The list that the user guide of the DGX H100 gives.
    let (documented, said) = with("mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11");
    assert!((documented - all).abs() < 1e-9, "{documented} {all}");
    assert!(!said.contains("warning"), "{said}");
    // Two of the storage ports among them: said, with what there is.
    let (fewer, said) = with("=mlx5_0,mlx5_1,mlx5_2,mlx5_9");
    assert!(fewer < 0.5 * all, "{fewer}");
    assert!(
        said.contains("warning: NCCL_IB_HCA: no interface is called mlx5_1, mlx5_2: there are mlx5_0 (nic0), mlx5_3 (nic1)"),
        "{said}"
    );
}

#[test]
fn spellings_of_nccl_tests_are_taken_and_near_names_are_offered() {
    let small = ["-t", "dgx-h100", "-s", "1K", "--json"];
    for (name, meant) in [
        ("all_reduce", "all-reduce"),
        ("alltoall", "all-to-all"),
        ("sendrecv", "send-recv"),
    ] {
        let done = output(&[&["collective", name][..], &small].concat());
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(json["collective"], meant);
    }
    let ring = output(
        &[
            &[
                "collective",
                "allreduce",
                "--algo",
                "Ring",
                "--proto",
                "Simple",
            ][..],
            &small,
        ]
        .concat(),
    );
    assert_eq!(ring.status.code(), Some(0), "{}", err(&ring));
    for (name, offered) in [
        ("DGX-H100", "did you mean `dgx-h100`?"),
        (
            "h100",
            "`dgx-h100` or `dgx-h100-nvme` or `superpod-h100` or `hgx-h100-roce` or `x86-h100-pcie`?",
        ),
        ("nvl72", "`gb200-nvl72` or `gb300-nvl72`?"),
        ("dgx-h1000", "`dgx-h100`?"),
    ] {
        let said = err(&output(&["topology", "show", name]));
        assert!(said.contains(offered), "{name}: {said}");
    }
}

#[test]
fn refusals_name_the_file_or_flag_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let two = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-s",
        "1K",
        "--faults",
    ];
    for (text_of, place) in [
        (
            r#"[{"link": {"links": "node7/nic0 > compute", "factor": 0.5}}]"#,
            "f.json, at [0].link.links",
        ),
        (
            r#"[{"slow_gpu": {"ranks": [0], "speed": 0.5}}][]"#,
            "f.json, line 1, column",
        ),
        (
            r#"[{"slow_gpu": {"ranks": [0], "speed": 0.5}}]x"#,
            "f.json, line 1, column",
        ),
        (r#"[{"slow_gpu": [[0], 0.5]}]"#, "at [0].slow_gpu"),
        (
            r#"[{"slow_gpu": {"ranks": [0], "ranks": [1], "speed": 0.5}}]"#,
            "`ranks` stands twice",
        ),
    ] {
        let file = write("f.json", text_of);
        let done = output(&[&two[..], &[text(&file)]].concat());
        assert_eq!(done.status.code(), Some(2), "{text_of}");
        let said = err(&done);
        assert!(
            said.contains("--faults ") && said.contains(place),
            "{text_of}: {said}"
        );
    }
    let matrix = write("m.json", "[[0, 1, 2], [1, 0, -1], [1, 1]]");
    let args = [
        "collective",
        "all-to-all-v",
        "-t",
        "dgx-h100",
        "-g",
        "3",
        "-s",
        "1K",
        "--matrix",
        text(&matrix),
    ];
    let said = err(&output(&args));
    assert!(
        said.contains("--matrix ") && said.contains("m.json, at [1]"),
        "{said}"
    );
    // Places of a job are those of its file.
    let scenario = |name: &str| {
        fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("scenarios")
                .join(name),
        )
        .unwrap()
    };
    let job = write("job.json", &scenario("ddp-straggler.json"));
    for (set, place) in [
        ("job.training.global_batch=9", "job.training.global_batch"),
        ("job.training.parallel.tp=3", "job.training.parallel"),
        (
            "job.training.model={\"preset\":\"gpt9\"}",
            "job.training.model.preset",
        ),
        (
            "topology={\"name\":\"dgx-h10\"}",
            "at topology.name: there is no topology `dgx-h10`",
        ),
        (
            "variants=[{\"name\":\"a\",\"set\":{\"\":1}}]",
            "variants[0].set",
        ),
        ("name=-rf", "name"),
        ("name=CON.txt", "names no folder on Windows"),
    ] {
        let done = output(&["run", text(&job), "--set", "variants=[]", "--set", set]);
        assert_eq!(done.status.code(), Some(2), "{set}: {}", err(&done));
        let said = err(&done);
        assert!(
            said.contains("job.json") && said.contains(place),
            "{set}: {said}"
        );
        assert!(!said.contains("--set =1"), "{said}");
    }
}

#[test]
fn a_validation_without_a_prediction_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.json");
    let table = |row: &str| {
        format!(
            r#"{{"id": "a", "collective": "all_reduce", "rows": [{row}], "model": {{"topology": "nothing", "nodes": 1,
                "gpus_per_node": 8, "collective": "all-reduce"}}}}"#
        )
    };
    fs::write(&path, table(r#"{"bytes": 1024, "time_us": 10.0}"#)).unwrap();
    for more in [&[][..], &["--json"]] {
        let done = output(&[&["validate", text(&path)][..], more].concat());
        assert_eq!(done.status.code(), Some(1), "{}", err(&done));
        assert!(
            err(&done).contains("none of the 1 tables could be predicted"),
            "{}",
            err(&done)
        );
        assert!(!done.stdout.is_empty());
    }
}
