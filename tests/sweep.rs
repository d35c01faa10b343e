//! `fabricsim sweep`, as its users run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

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

/// A sweep of a few all-reduces on one node, with more arguments.
fn small(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let own = [
        "sweep",
        "run",
        "allreduce-dgx-h100",
        "--over",
        "algorithm=ring,tree",
        "--over",
        "size=1MiB..64MiB*8",
    ];
    fabricsim(folder, &[&own, args].concat())
}

/// All files of a folder by their names.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    });
    entries.collect()
}

/// Asserts that two folders hold the same, and names the first file that differs.
fn assert_same(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    assert!(a.keys().eq(b.keys()), "{:?} {:?}", a.keys(), b.keys());
    for (name, bytes) in &a {
        assert!(*bytes == b[name], "{name} differs");
    }
}

fn refused(done: (i32, String, String), parts: &[&str]) {
    let (code, _, err) = done;
    assert_eq!(code, 2, "{err}");
    for part in parts {
        assert!(err.contains(part), "`{part}` is missing in: {err}");
    }
}

#[test]
fn a_sweep_is_a_table_a_page_and_a_plot() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let (code, out, err) = small(at, &["-o", "s"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("what matters"), "{out}");
    let csv = fs::read_to_string(at.join("s/points.csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "point,algorithm,size,status,why,topology,nodes,gpus,fits,cause,bytes,time_us,algbw_gbs,\
         busbw_gbs,bound_us,bound_plain_us,kw,kw_whole,usd_per_gpu_hour,\
         usd_per_hour"
    );
    let keys: Vec<String> = lines
        .map(|line| line.split(',').take(4).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        keys,
        [
            "0 ring 1MiB done",
            "1 ring 8MiB done",
            "2 ring 64MiB done",
            "3 tree 1MiB done",
            "4 tree 8MiB done",
            "5 tree 64MiB done",
        ]
    );
    let page = fs::read_to_string(at.join("s/sweep.html")).unwrap();
    for part in [
        "<svg",
        "What matters most",
        "best first",
        "default-src 'none'",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let svg = fs::read_to_string(at.join("s/plot.svg")).unwrap();
    let drawing = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = drawing.descendants().filter_map(|n| n.text()).collect();
    for text in ["ring", "tree", "64 MiB"] {
        assert!(texts.iter().any(|t| t.trim() == text), "{text}: {texts:?}");
    }
    // The same again runs nothing and changes nothing, and is one document if asked for.
    let before = contents(&at.join("s"));
    let (code, out, err) = small(at, &["-o", "s", "--json"]);
    assert_eq!(code, 0, "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["points"].as_array().unwrap().len(), 6);
    assert_eq!(document["format"], 2);
    let answer = document["answer"].as_str().unwrap();
    assert!(page.contains(answer), "{answer}");
    assert!(before == contents(&at.join("s")));
}

#[test]
fn points_that_cannot_be_run_are_rows_with_their_reasons() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let run = |nodes: &str, to: &str| {
        let over = format!("nodes={nodes}");
        let args = ["sweep", "run", "allreduce-dgx-h100", "--over", &over];
        fabricsim(
            at,
            &[&args[..], &["--over", "size=1MiB", "-o", to]].concat(),
        )
    };
    let (code, out, err) = run("1,100000", "some");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("1 of 2 points have no results"), "{out}");
    let page = fs::read_to_string(at.join("some/sweep.html")).unwrap();
    assert!(page.contains("Without results"));
    let (code, _, err) = run("100000,200000", "none");
    assert_eq!(code, 1, "{err}");
    let csv = fs::read_to_string(at.join("none/points.csv")).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(!at.join("none/plot.svg").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let over = |axis: &str| {
        let args = ["sweep", "run", "allreduce-dgx-h100", "--over", axis];
        fabricsim(at, &[&args[..], &["-o", "s"]].concat())
    };
    refused(over("nods=1,2"), &["nods", "`nodes`?"]);
    refused(small(at, &["-o", "s", "--objective", "time"]), &["time"]);
    refused(
        small(at, &["-o", "s", "--objective", "time_u"]),
        &["`time_us`?"],
    );
    refused(
        fabricsim(at, &["sweep", "run", "crosover"]),
        &["`crossover`?"],
    );
    refused(fabricsim(at, &["sweep", "copy", "bucket"]), &["`buckets`?"]);
    assert!(!at.join("s").exists());
}

#[test]
fn a_folder_is_of_one_sweep_and_written_by_one_process() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let sizes = |sizes: &str| {
        let over = format!("size={sizes}");
        let args = ["sweep", "run", "allreduce-dgx-h100", "--over", &over];
        fabricsim(at, &[&args[..], &["-q", "-o", "s"]].concat())
    };
    assert_eq!(sizes("1MiB,2MiB").0, 0);
    refused(sizes("1MiB,4MiB"), &["another sweep", "values"]);
    refused(sizes("1MiB,2MiB,4MiB"), &["2 points", "3"]);
    let lock = fs::File::create(at.join("s/.lock")).unwrap();
    lock.try_lock().unwrap();
    refused(sizes("1MiB,2MiB"), &["another process"]);
    drop(lock);
    assert_eq!(sizes("1MiB,2MiB").0, 0);
}

/// Pseudo-random numbers, the same in every run.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
}

#[test]
fn killed_at_any_moment_it_goes_on_to_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let args = [
        "sweep",
        "run",
        "crossover",
        "--over",
        "machine=dgx-h100,dgx-b200",
        "-q",
    ];
    let whole = fabricsim(at, &[&args[..], &["-o", "whole"]].concat());
    assert_eq!(whole.0, 0, "{}", whole.2);
    let program = assert_cmd::cargo::cargo_bin("fabricsim");
    for kill in 0..20 {
        let mut child = std::process::Command::new(&program)
            .current_dir(at)
            .args(args)
            .args(["-o", "killed"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(10 + random(kill) % 300));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = fabricsim(at, &[&args[..], &["-o", "killed"]].concat());
    assert_eq!(last.0, 0, "{}", last.2);
    assert_same(&at.join("whole"), &at.join("killed"));
}

#[test]
fn shards_are_merged_to_what_one_run_gives() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    assert_eq!(small(at, &["-q", "-o", "whole"]).0, 0);
    for shard in ["1/3", "2/3", "3/3"] {
        let to = format!("s{}", &shard[..1]);
        assert_eq!(small(at, &["-q", "--shard", shard, "-o", &to]).0, 0);
        assert!(at.join(&to).join("sweep.html").exists());
    }
    let merge = |shards: &[&str], to: &str| {
        fabricsim(at, &[&["sweep", "merge"], shards, &["-o", to]].concat())
    };
    refused(merge(&["s1", "s3"], "m"), &["2 points are missing", "1, 4"]);
    let twice = merge(&["s1", "s2", "s3", "./s2"], "m");
    refused(twice, &["`./s2` is given twice"]);
    assert_eq!(small(at, &["-q", "--shard", "2/3", "-o", "again"]).0, 0);
    let again = merge(&["s1", "s2", "s3", "again"], "m");
    refused(again, &["point 1", "s2", "again"]);
    let (code, _, err) = merge(&["s3", "s1", "s2"], "m");
    assert_eq!(code, 0, "{err}");
    assert_same(&at.join("whole"), &at.join("m"));
}

/// A folder of the points of `small`, the last of which is in no table yet.
fn unfinished(at: &Path, name: &str) -> Vec<String> {
    assert_eq!(small(at, &["-q", "-o", name]).0, 0);
    let folder = at.join(name);
    let points = fs::read_to_string(folder.join("points.jsonl")).unwrap();
    fs::remove_file(folder.join("points.jsonl")).unwrap();
    let lines: Vec<String> = points.lines().map(|line| format!("{line}\n")).collect();
    fs::write(folder.join("journal.jsonl"), lines[..4].concat()).unwrap();
    lines
}

#[test]
fn merge_leaves_the_folders_of_other_sweeps_alone() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let other = [
        "sweep",
        "run",
        "allreduce-dgx-h100",
        "--over",
        "size=1MiB,2MiB",
    ];
    assert_eq!(
        fabricsim(at, &[&other[..], &["-q", "-o", "other"]].concat()).0,
        0
    );
    let before = contents(&at.join("other"));
    assert_eq!(small(at, &["-q", "-o", "whole"]).0, 0);
    let merge = |to: &str| fabricsim(at, &["sweep", "merge", "whole", "-o", to]);
    refused(merge("other"), &["`other` has points of another sweep"]);
    refused(small(at, &["-q", "-o", "other"]), &["of another sweep"]);
    assert_eq!(before, contents(&at.join("other")));
    // Onto an unfinished one of the same sweep nothing of it stays.
    unfinished(at, "begun");
    let (code, _, err) = merge("begun");
    assert_eq!(code, 0, "{err}");
    assert_same(&at.join("whole"), &at.join("begun"));
    // Points of nobody knows which sweep.
    fs::remove_file(at.join("begun/sweep.json")).unwrap();
    refused(merge("begun"), &["points.jsonl", "no `sweep.json`"]);
}

#[test]
fn rows_that_are_not_of_the_sweep_are_refused_with_their_line() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let lines = unfinished(at, "s");
    let journal = at.join("s/journal.jsonl");
    let with = |line: String| {
        fs::write(&journal, lines[..3].concat() + &line).unwrap();
        small(at, &["-q", "-o", "s"])
    };
    let none = lines[3].replace("\"point\":3", "\"point\":2000");
    refused(
        with(none),
        &["journal.jsonl`, line 4", "point 2000", "0 to 5"],
    );
    let exchanged = lines[3].replace("\"point\":3", "\"point\":4");
    refused(with(exchanged), &["line 4", "other values than point 4"]);
    let other = lines[2].replace("\"status\":\"done\"", "\"status\":\"failed\"");
    refused(with(other), &["line 4", "point 2 again"]);
    refused(with("\0\0\0\0\n".to_owned()), &["line 4", "goes on"]);
    // Status and merge read them, too.
    let foreign = lines[3].replace("\"algorithm\"", "\"routing\"");
    fs::write(&journal, lines[..3].concat() + &foreign).unwrap();
    for args in [
        &["sweep", "status", "s"][..],
        &["sweep", "merge", "s", "-o", "m"],
    ] {
        refused(fabricsim(at, args), &["line 4", "`routing`"]);
    }
    fs::write(&journal, lines[..3].concat()).unwrap();
    assert_eq!(small(at, &["-q", "-o", "s"]).0, 0);
    let info = fs::read_to_string(at.join("s/sweep.json")).unwrap();
    fs::write(
        at.join("s/sweep.json"),
        info.replace("\"format\": 2", "\"format\": 99"),
    )
    .unwrap();
    refused(small(at, &["-q", "-o", "s"]), &["format 99", "expected 2"]);
}

#[test]
fn points_of_another_build_are_kept_only_where_that_is_accepted() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    unfinished(at, "s");
    let path = at.join("s/sweep.json");
    let info: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let build = info["program"].as_str().unwrap();
    let older = fs::read_to_string(&path).unwrap().replace(build, "0.0.9-1");
    fs::write(&path, older).unwrap();
    refused(
        small(at, &["-q", "-o", "s"]),
        &["points of fabricsim 0.0.9-1", build, "--accept-program"],
    );
    let (code, out, err) = small(at, &["--accept-program", "-o", "s"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("2 of 6 of 0.1.0-"), "{out}");
    let points = fs::read_to_string(at.join("s/points.jsonl")).unwrap();
    let made = points.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["program"].as_str().map(str::to_owned)
    });
    let mut expected = vec![None; 4];
    expected.resize(6, Some(build.to_owned()));
    assert_eq!(made.collect::<Vec<_>>(), expected);
    let table = fs::read_to_string(at.join("s/points.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains(",program,"));
    let page = fs::read_to_string(at.join("s/sweep.html")).unwrap();
    assert!(page.contains("2 of 6 of 0.1.0-"));
    // Shards of two builds.
    for shard in ["1/2", "2/2"] {
        let to = &shard[..1];
        assert_eq!(small(at, &["-q", "--shard", shard, "-o", to]).0, 0);
    }
    let second = fs::read_to_string(at.join("2/sweep.json")).unwrap();
    fs::write(at.join("2/sweep.json"), second.replace(build, "0.0.9-1")).unwrap();
    let merge = ["sweep", "merge", "1", "2", "-o", "m"];
    refused(fabricsim(at, &merge), &["0.0.9-1", "--accept-program"]);
    let (code, out, err) = fabricsim(at, &[&merge[..], &["--accept-program"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("3 of 6 of 0.0.9-1, the others"), "{out}");
}

#[test]
fn other_plots_are_drawn_from_a_folder() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    assert_eq!(small(at, &["-q", "-o", "s"]).0, 0);
    let plot = |args: &[&str]| fabricsim(at, &[&["sweep", "plot", "s"], args].concat());
    let texts = |file: &str| {
        let svg = fs::read_to_string(at.join(file)).unwrap();
        let drawing = roxmltree::Document::parse(&svg).unwrap();
        let texts = drawing.descendants().filter_map(|node| node.text());
        texts.map(|text| text.trim().to_owned()).collect::<Vec<_>>()
    };
    let (code, out, err) = plot(&["--y", "time_us", "--by", "none"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("plot-time_us-size.svg"), "{out}");
    let lines = texts("s/plot-time_us-size.svg");
    assert!(
        lines.iter().any(|text| text.contains("best of algorithm")),
        "{lines:?}"
    );
    let map = [
        "--x",
        "size",
        "--y",
        "algorithm",
        "--color",
        "busbw_gbs",
        "-o",
        "map.svg",
    ];
    let (code, _, err) = plot(&map);
    assert_eq!(code, 0, "{err}");
    let map = texts("map.svg");
    assert!(map.iter().any(|text| text.contains("(best)")), "{map:?}");
    let only = ["--where", "algorithm=tree", "-o", "tree.png"];
    let (code, _, err) = plot(&only);
    assert_eq!(code, 0, "{err}");
    assert!(
        fs::read(at.join("tree.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    refused(plot(&["--x", "siz"]), &["--x", "`size`?"]);
    refused(plot(&["--y", "time_u"]), &["--y", "`time_us`?"]);
    refused(plot(&["--where", "algorithm=tre"]), &["`tree`?"]);
    refused(plot(&["--where", "algorithms=tree"]), &["`algorithm`?"]);
    refused(plot(&["-o", "x.pdf"]), &[".svg"]);
    // A folder that is not finished has what is over.
    fs::rename(at.join("s/points.jsonl"), at.join("s/journal.jsonl")).unwrap();
    assert_eq!(plot(&["-o", "again.svg"]).0, 0);
}

#[test]
fn shipped_sweeps_are_listed_and_copied() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let (code, out, _) = fabricsim(at, &["sweep", "list", "--json"]);
    assert_eq!(code, 0);
    let list: Value = serde_json::from_str(&out).unwrap();
    let (code, out, _) = fabricsim(at, &["schema", "sweep"]);
    assert_eq!(code, 0);
    let schema = jsonschema::validator_for(&serde_json::from_str(&out).unwrap()).unwrap();
    for sweep in list["sweeps"].as_array().unwrap() {
        let name = sweep["name"].as_str().unwrap();
        let (code, _, err) = fabricsim(at, &["sweep", "copy", name]);
        assert_eq!(code, 0, "{err}");
        let text = fs::read_to_string(at.join(format!("{name}.json"))).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert!(schema.is_valid(&file), "{name}");
    }
    refused(fabricsim(at, &["sweep", "copy", "buckets"]), &["--force"]);
}
