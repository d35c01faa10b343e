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

/// Folders of a search, of lessons and of slides: an older one is replaced whole, and what somebody else put there stays.
#[test]
fn folders_are_new_or_replaced_whole_and_foreign_files_stay() {
    let home = tempfile::tempdir().unwrap();
    let at = home.path();
    let names = |folder: &str| {
        let entries = fs::read_dir(at.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let search = "optimize gpt2-124m -t dgx-h100 --gpus 8 --global-batch 64 --over tp=1,2 --over pp=1 -q -o best --top";
    let search: Vec<&str> = search.split(' ').collect();
    let slides = ["explain", "all-reduce", "-q", "--slides", "slides"];
    let with = |more: &'static str| [&search[..], &[more]].concat();
    assert_eq!(fabricsim(at, &with("3")).0, 0);
    assert_eq!(names("best").len(), 5);
    assert_eq!(fabricsim(at, &with("1")).0, 0);
    assert_eq!(
        names("best"),
        ["best-1-dgx-h100.json", "optimized.json", "report.html"]
    );
    let (code, err) = fabricsim(at, &slides);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fabricsim(at, &slides).0, 0);
    // Mine beside them, and folders of mine that have files of the same names.
    for (folder, file, command) in [
        ("best", "notes.txt", &with("1")[..]),
        ("slides", "notes.txt", &slides),
        ("mine", "report.html", &{
            let mut other = with("1");
            let place = other.iter().position(|word| *word == "best").unwrap();
            other[place] = "mine";
            other
        }),
        (
            "mine",
            "step-0.svg",
            &["explain", "all-reduce", "-q", "--slides", "mine"],
        ),
        ("mine", "index.html", &["lesson", "all", "-q", "-o", "mine"]),
    ] {
        let _ = fs::remove_dir_all(at.join("mine"));
        fs::create_dir_all(at.join(folder)).unwrap();
        let path = at.join(folder).join(file);
        fs::write(&path, "mine").unwrap();
        let before = names(folder);
        let (code, err) = fabricsim(at, command);
        assert_eq!(code, 2, "{file}: {err}");
        assert!(
            err.contains("is not a folder that fabricsim wrote"),
            "{err}"
        );
        assert_eq!(before, names(folder));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}

#[test]
fn products_and_numbers_beyond_any_use_are_refused_at_once() {
    let home = tempfile::tempdir().unwrap();
    let base = "optimize llama3-70b -t superpod-h100 --gpus 1024 --global-batch 1024";
    for (more, expected) in [
        (
            "--over tp=1..64+1 --over pp=1..64+1 --over cp=1..64+1 --over micro_batch=1..64+1 --over virtual_stages=1..64+1",
            "64 of tp × 64 of cp × 64 of pp",
        ),
        ("--top 0", "--top"),
        ("--budget kw=10 --budget kw=20", "--budget kw: given twice"),
        ("--target tokens/s=1e30", "at most 1e18"),
        ("--oversubscription 1e308", "at most 1000000"),
    ] {
        let words: Vec<&str> = base.split(' ').chain(more.split(' ')).collect();
        let (code, err) = fabricsim(home.path(), &words);
        assert_eq!(code, 2, "{more}: {err}");
        assert!(err.contains(expected), "{more}: {err}");
    }
    let serve = "serve llama3-8b -t dgx-h100 --gpus 1";
    for (more, expected) in [
        (
            "--set job.serving.lengths.input=1000000000000000000",
            "expected a number of tokens, 1 to 100000000",
        ),
        (
            "--set job.serving.requests=1000000000000000000",
            "expected a whole number from 0 to 4294967295",
        ),
        ("--rate 1e300", "at most 1e9"),
    ] {
        let words: Vec<&str> = serve.split(' ').chain(more.split(' ')).collect();
        let (code, err) = fabricsim(home.path(), &words);
        assert_eq!(code, 2, "{more}: {err}");
        assert!(err.contains(expected), "{more}: {err}");
    }
}
