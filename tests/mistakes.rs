//! What people write by mistake, or shorter than it is: found, or answered with what belongs there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use std::fs;
use std::path::Path;

/// Exit code, standard output, standard error.
fn fabricsim(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).current_dir(folder);
    command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn refused(folder: &Path, args: &[&str], says: &[&str]) -> String {
    let (code, _, error) = fabricsim(folder, args);
    assert_eq!(code, 2, "{args:?}: {error}");
    for part in says {
        assert!(error.contains(part), "{args:?} says no `{part}`:\n{error}");
    }
    assert!(!error.contains("os error"), "{error}");
    error
}

fn printed(folder: &Path, args: &[&str]) -> String {
    let (code, out, error) = fabricsim(folder, args);
    assert_eq!(code, 0, "{args:?}: {error}");
    out
}

#[test]
fn words_that_are_no_commands_are_answered_with_those_that_are() {
    let here = Path::new(".");
    let hint = "`fabricsim collective all-reduce` times it";
    for word in ["allreduce", "all-reduce", "all_reduce", "all_reduce_perf"] {
        refused(here, &[word, "-t", "dgx-h100"], &[hint]);
    }
    let error = refused(here, &["colective"], &["'collective'"]);
    let at = |name: &str| error.find(name).unwrap();
    assert!(at("'collective'") < at("'completions'"), "{error}");
}

#[test]
fn folders_and_files_that_are_not_there_say_what_belongs_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("plain")).unwrap();
    fs::create_dir_all(at.join("full")).unwrap();
    fs::create_dir_all(at.join("results")).unwrap();
    fs::write(at.join("full/mine.json"), "{}").unwrap();
    fs::write(at.join("results/summary.json"), "{}").unwrap();
    let expected = "is a folder: expected a scenario's file";
    refused(at, &["run", "plain"], &[expected, "scenario list"]);
    refused(at, &["run", "full"], &[expected, "full/mine.json"]);
    refused(at, &["run", "results"], &[expected, "fabricsim compare"]);
    refused(
        at,
        &["run", "full/mina.json"],
        &["no such file", "mine.json"],
    );
    let measurements = "expected measurement files (.json), or folders of them";
    refused(
        at,
        &["validate", "full/nosuch"],
        &["no such file", measurements],
    );
    refused(at, &["validate", "plain"], &[measurements]);
}

#[test]
fn tokens_and_shares_are_read_as_people_write_them() {
    let at = Path::new(".");
    let serve = [
        "serve",
        "llama3-8b",
        "-t",
        "dgx-h100",
        "--rate",
        "1",
        "--input",
    ];
    refused(
        at,
        &[&serve[..], &["8kB"]].concat(),
        &["such as 8192 or 8k"],
    );
    let slow = |share: &str| {
        let all = [
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-s",
            "1M",
            "--json",
            "--slow-gpu",
            share,
        ];
        printed(at, &all)
    };
    assert_eq!(slow("3:50%"), slow("3:0.5"));
    let args = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "--slow-gpu",
        "3",
    ];
    refused(at, &args, &["such as 5:0.8 or 5:80%"]);
}

#[test]
fn devices_are_found_by_short_names_where_one_has_it() {
    let at = Path::new(".");
    let times = |what: &[&str]| {
        let all = [
            "collective",
            "all-reduce",
            "-t",
            "superpod-h100",
            "-n",
            "2",
            "-s",
            "1M",
            "--json",
        ];
        printed(at, &[&all[..], what].concat())
    };
    let full = times(&["--kill", "compute/leaf2"]);
    assert_eq!(times(&["--kill", "leaf2"]), full);
    let rail = times(&["--kill", "rail2"]);
    assert!(rail.contains("compute/rail2"), "{rail}");
    assert_eq!(rail.replace("compute/rail2", "compute/leaf2"), full);
    let refuse = |what: [&str; 2], says: &str| {
        let all = [
            "collective",
            "all-reduce",
            "-t",
            "superpod-h100",
            "-n",
            "2",
            "-s",
            "1M",
        ];
        refused(at, &[&all[..], &what].concat(), &[says]);
    };
    refuse(
        ["--nic", "nic2:0.5"],
        "`node0/nic2` … `node1/nic2`; `node[*]/nic2`",
    );
    refuse(["--kill", "leaf99"], "`compute/leaf[0-7]`");
    refuse(["--kill", "rail9"], "`compute/rail[0-7]`");
}

#[test]
fn a_machine_shows_how_its_leaves_are_oversubscribed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let shown = printed(at, &["topology", "show", "superpod-h100", "-n", "64"]);
    assert!(
        shown.contains("oversubscription, leaf switches: 1:1\n"),
        "{shown}"
    );
    assert!(
        shown.contains("`rail7` is compute/leaf7 … compute/leaf15\n"),
        "{shown}"
    );
    let new = [
        "topology",
        "new",
        "superpod-h100",
        "--oversubscription",
        "2",
        "-o",
        "mine.json",
    ];
    printed(at, &new);
    let shown = printed(at, &["topology", "show", "mine.json", "-n", "64"]);
    assert!(
        shown.contains("oversubscription, leaf switches: 2:1\n"),
        "{shown}"
    );
}

/// Uplinks that carry nothing make no difference, and that is said.
#[test]
fn an_oversubscription_that_changes_nothing_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = [
        "collective",
        "all-reduce",
        "-t",
        "superpod-h100",
        "-n",
        "32",
        "-s",
        "64K",
        "--oversubscription",
        "4",
    ];
    let out = printed(at, &args);
    let says = "oversubscribed 4:1 costs nothing here: the links above them carried 0 B";
    assert!(out.contains(says), "{out}");
    let job = r#"{"name": "mine", "topology": {"name": "MACHINE"}, "nodes": 4,
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["64KiB"]}}}}"#;
    let of = |machine: &str| {
        fs::write(at.join("job.json"), job.replace("MACHINE", machine)).unwrap();
        let over = ["--over", "oversubscription=1,4", "-o", machine];
        printed(at, &[&["sweep", "run", "job.json"][..], &over].concat())
    };
    let why = "oversubscription changes nothing: the links between switches, which it changes, carried 0 B";
    let rails = of("superpod-h100");
    assert!(rails.contains(why), "{rails}");
    // Two nodes a leaf: here rings go over spines.
    let leaves = of("llama3-24k");
    assert!(!leaves.contains("carried 0 B"), "{leaves}");
}

#[test]
fn points_of_sweeps_are_refused_by_their_axes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let job = r#"{"name": "mine", "topology": {"name": "dgx-h100"}, "nodes": 1,
        "job": {"training": {"model": {"preset": "gpt2-124m"}, "micro_batch": 1, "global_batch": 8}}}"#;
    fs::write(at.join("job.json"), job).unwrap();
    let over = |axes: &[&str], out: &str| {
        let mut args = vec!["sweep", "run", "job.json", "-o", out];
        args.extend(axes.iter().flat_map(|axis| ["--over", axis]));
        fabricsim(at, &args)
    };
    let (code, out, error) = over(&["nodes=1,2"], "one");
    assert_eq!(code, 0, "{error}");
    assert!(
        out.contains("nodes 2: job.training.global_batch: found 8, expected"),
        "{out}"
    );
    assert!(out.contains("--over global_batch=… sets it"), "{out}");
    // With the axis there is nothing to advise.
    let (_, out, _) = over(&["nodes=1,2", "global_batch=8,16"], "two");
    assert!(out.contains("job.training.global_batch: found 8"), "{out}");
    assert!(!out.contains("--over"), "{out}");
    let (code, _, error) = over(&["nonsense=1,2"], "three");
    assert_eq!(code, 2);
    assert!(
        error.contains("mine with nonsense=1, at nonsense"),
        "{error}"
    );
}

/// A file of MSCCL says for which sizes it is; NCCL's choice is not what runs.
#[test]
fn an_algorithms_file_says_where_it_is_not_meant_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let gpu = |rank: u32| {
        let other = 1 - rank;
        format!(
            r#"<gpu id="{rank}" i_chunks="2" o_chunks="2" s_chunks="0">
            <tb id="0" send="{other}" recv="-1" chan="0">
              <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
            </tb>
            <tb id="1" send="-1" recv="{other}" chan="0">
              <step s="0" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="0" deps="0" hasdep="0"/>
            </tb></gpu>"#
        )
    };
    let head = r#"<algo name="swap" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1" minBytes="262144">"#;
    fs::write(
        at.join("swap.xml"),
        format!("{head}{}{}</algo>", gpu(0), gpu(1)),
    )
    .unwrap();
    let of = |size: &str| {
        let args = [
            "collective",
            "all-reduce",
            "-t",
            "dgx-h100",
            "-g",
            "2",
            "-s",
            size,
            "--algo-file",
            "swap.xml",
            "--why",
        ];
        let (code, out, error) = fabricsim(at, &args);
        assert_eq!(code, 0, "{error}");
        assert!(!out.lines().any(|line| line.starts_with("> ")), "{out}");
        assert!(out.contains("`swap` of its file is simulated"), "{out}");
        out + &error
    };
    let told = "`swap` says that it is for 256KiB on (minBytes, maxBytes)";
    let small = of("64K");
    assert!(small.contains(told), "{small}");
    let large = of("256K");
    assert!(!large.contains("minBytes"), "{large}");
}
