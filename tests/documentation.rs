//! The commands of README and docs do what is said of them.
//!
//! Blocks of `sh` are run in order, as a reader would who has the files that they name; what a block
//! of `console` shows of the output has to be in it. Commands of other programs are left to
//! `.ci/run`, and so is how the files under `results/` are made.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A block between fences.
struct Block<'t> {
    language: &'t str,
    text: Vec<&'t str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block {
                    language,
                    text: Vec::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// The words of a command: `#` begins a remark, `'…'` is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if !quoted && word.is_none() => break,
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn run(folder: &Path, words: &[String]) -> String {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(&words[1..]).current_dir(folder);
    command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // A mistake that hangs is an answer, with exit code 1.
    let answered = words[1] == "hang" && output.status.code() == Some(1);
    assert!(
        output.status.success() || answered,
        "{}: {error}",
        words.join(" ")
    );
    String::from_utf8(output.stdout).unwrap()
}

fn fabricsim(folder: &Path, line: &str) -> String {
    run(folder, &words(&format!("fabricsim {line}")))
}

/// One space for whatever is between words: what a page breaks into lines is one line of a program.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs what a page shows; returns how many commands there were.
fn follow(page: &str, folder: &Path) -> usize {
    let text = fs::read_to_string(Path::new(HERE).join(page)).unwrap();
    for shipped in ["scenarios", "validation", "topologies"] {
        symlink(Path::new(HERE).join(shipped), folder.join(shipped)).unwrap();
    }
    let mut count = 0;
    for block in blocks(&text) {
        let makes_results = block.text.iter().any(|line| line.contains(" results/"));
        match block.language {
            "sh" if !makes_results => {
                for line in &block.text {
                    let words = words(line);
                    if words.first().is_some_and(|word| word == "fabricsim") {
                        run(folder, &words);
                        count += 1;
                    }
                }
            }
            "console" => {
                let (first, shown) = block.text.split_first().unwrap();
                let out = flat(&run(folder, &words(first.strip_prefix("$ ").unwrap())));
                let mut rest = &*out;
                // What `…` stands for is anything.
                for part in shown.join("\n").split('…').map(flat) {
                    let Some(at) = rest.find(&part) else {
                        panic!("{page}: `{first}` does not print\n{part}\nbut\n{out}");
                    };
                    rest = &rest[at + part.len()..];
                }
                count += 1;
            }
            _ => {}
        }
    }
    println!("{page}: {count} commands");
    count
}

/// The JSON block behind the words that announce it.
fn announced(page: &str, words: &str) -> String {
    let text = fs::read_to_string(Path::new(HERE).join(page)).unwrap();
    let behind = &text[text.find(words).unwrap()..];
    let json = &behind[behind.find("```json\n").unwrap() + "```json\n".len()..];
    json[..json.find("```").unwrap()].to_owned()
}

#[test]
fn readme() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fabricsim(
        at,
        "topology export dgx-h100 --nodes 1 --format nccl-xml -o dump.xml",
    );
    for run in ["one", "two"] {
        fabricsim(at, &format!("run ddp-straggler -o runs/{run} -q"));
    }
    assert!(follow("README.md", at) > 10);
}

#[test]
fn sweeps() {
    let folder = tempfile::tempdir().unwrap();
    assert!(follow("docs/sweeps.md", folder.path()) > 4);
}

/// A folder with the files that a page of the guide names.
fn prepared(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let export = |format: &str| {
        fabricsim(
            at,
            &format!("topology export dgx-h100 --nodes 1 --format {format}"),
        )
    };
    for &file in files {
        let text = match file {
            "m.json" => even_traffic(8),
            "ring.xml" => RING.to_owned(),
            "half.json" => announced("docs/guide-training.md", "`half.json` is"),
            "my-first.json" => announced("docs/guide-training.md", "## A scenario"),
            "dump.xml" => export("nccl-xml"),
            "matrix.txt" => export("smi"),
            "measurements/made-up-h100x8.json" => {
                let made_up = Path::new(HERE).join("tests/measurements/made-up-all-reduce.json");
                let table = fs::read_to_string(made_up).unwrap();
                table.replacen("made-up-all-reduce", "made-up-h100x8", 1)
            }
            other => panic!("{other}: how is it made?"),
        };
        let path = at.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// A matrix of traffic: each rank sends as much to every other one.
fn even_traffic(ranks: usize) -> String {
    let one = |i: usize, j: usize| if i == j { "0" } else { "1" };
    let row = |i: usize| {
        let row: Vec<&str> = (0..ranks).map(|j| one(i, j)).collect();
        format!("[{}]", row.join(","))
    };
    let rows: Vec<String> = (0..ranks).map(row).collect();
    format!("[{}]", rows.join(","))
}

#[test]
fn guide() {
    let folder = prepared(&["m.json", "ring.xml"]);
    assert!(follow("docs/guide.md", folder.path()) > 20);
}

#[test]
fn guide_to_machines() {
    let folder = prepared(&["dump.xml", "matrix.txt", "measurements/made-up-h100x8.json"]);
    assert!(follow("docs/guide-machines.md", folder.path()) > 8);
}

#[test]
fn guide_to_training() {
    let folder = prepared(&["half.json", "my-first.json"]);
    let first = fs::read_to_string(folder.path().join("my-first.json")).unwrap();
    assert!(first.contains("my-first"), "{first}");
    assert!(follow("docs/guide-training.md", folder.path()) > 10);
}

#[test]
fn guide_to_planning() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for run in ["before", "after"] {
        fabricsim(at, &format!("run ddp-straggler -o runs/{run} -q"));
    }
    assert!(follow("docs/guide-planning.md", at) > 18);
}

/// A page that is longer than this is read by nobody from its beginning to its end.
#[test]
fn pages_of_the_guide_are_short() {
    for name in [
        "guide",
        "guide-machines",
        "guide-training",
        "guide-planning",
    ] {
        let words = page(&format!("docs/{name}.md")).split(' ').count();
        assert!(words <= 2000, "docs/{name}.md has {words} words");
    }
}

#[test]
fn host() {
    let folder = tempfile::tempdir().unwrap();
    assert!(follow("docs/host.md", folder.path()) > 1);
}

#[test]
fn telemetry() {
    let folder = tempfile::tempdir().unwrap();
    assert!(follow("docs/telemetry.md", folder.path()) > 1);
}

#[test]
fn nccl() {
    let folder = tempfile::tempdir().unwrap();
    assert!(follow("docs/nccl.md", folder.path()) > 1);
}

/// Makes all lessons of the course, and the one that the page shows.
#[test]
fn lessons() {
    let page = "docs/lessons.md";
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let own = announced(page, "A lesson is a JSON file.");
    fs::write(at.join("mine.json"), own).unwrap();
    assert!(follow(page, at) > 4);
}

#[test]
fn communicators_and_hangs() {
    let folder = tempfile::tempdir().unwrap();
    assert!(follow("docs/communicators.md", folder.path()) > 1);
    let folder = tempfile::tempdir().unwrap();
    let page = "docs/hangs.md";
    assert!(follow(page, folder.path()) > 1);
    let own = folder.path().join("mine.json");
    fs::write(&own, announced(page, "## Calls of one's own")).unwrap();
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command
        .arg("run")
        .arg(own)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    let says = "ranks 0-2 wait in all-reduce 1 of tp for rank 3, which comes 70.0 s later";
    assert!(error.contains(says), "{error}");
}

#[test]
fn money_and_power() {
    let folder = tempfile::tempdir().unwrap();
    let page = "docs/money-and-power.md";
    assert!(follow(page, folder.path()) > 8);
}

/// The document that a command prints.
fn document(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&fabricsim(folder, line)).unwrap()
}

fn page(name: &str) -> String {
    flat(&fs::read_to_string(Path::new(HERE).join(name)).unwrap())
}

/// Figures in sentences, which no block shows, are those of the commands that they speak of.
#[test]
fn figures_in_sentences() {
    let folder = prepared(&["half.json"]);
    let at = folder.path();
    let halved = document(
        at,
        "collective all-reduce -t dgx-h100 -n 4 -b 1M -e 1G -f 1024 --faults half.json --json",
    );
    let slower = |row: usize| {
        let time = |key: &str| halved["rows"][row][key].as_f64().unwrap();
        time("time_us") / time("healthy_us")
    };
    let (large, small) = (slower(1), slower(0));
    let says = format!("an all-reduce of 1 GiB {large:.2} × as long");
    assert!(page("docs/guide-training.md").contains(&says), "{says}");
    let says = format!("and one of 1 MiB {small:.2} ×");
    assert!(page("docs/guide-training.md").contains(&says), "{says}");
    let beside = document(at, "run serve-beside-training --json -o beside");
    let jobs = &beside["variants"][1]["jobs"];
    let slower = |job: usize| jobs[job]["slowdown"].as_f64().unwrap();
    let says = format!(
        "a training step takes {:.2} times as long, a first token {:.2}.",
        slower(0),
        slower(1)
    );
    assert!(page("docs/serving.md").contains(&says), "{says}");
    let answer = flat(&fabricsim(at, "sweep run crossover -o crossover"));
    let behind = &answer[answer.find("dgx-h100: nvls").unwrap() + "dgx-h100: ".len()..];
    let says = &behind[..behind.find(". ").unwrap()];
    assert!(page("docs/sweeps.md").contains(says), "{says}");
}

/// The places of a page of the reference that links can name: `reference-sweep.md#sweepspec`.
fn headings(file: &str, page: &str) -> Vec<String> {
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    headings
        .map(|name| format!("{file}#{}", name.to_lowercase()))
        .collect()
}

/// The reference is what the program prints. Each field has a meaning, each definition one name and one place, and
/// links lead to them.
#[test]
fn reference() {
    let folder = tempfile::tempdir().unwrap();
    let mut pages = Vec::new();
    for (format, name) in [
        ("topology", "machine"),
        ("scenario", "scenario"),
        ("sweep", "sweep"),
    ] {
        let printed = fabricsim(folder.path(), &format!("schema {format} --markdown"));
        let file = format!("reference-{name}.md");
        let path = Path::new(HERE).join("docs").join(&file);
        let same = fs::read_to_string(path).is_ok_and(|page| page == printed);
        let made = format!("fabricsim schema {format} --markdown > docs/{file}");
        assert!(same, "docs/{file} is not what is printed: {made}");
        pages.push((file, printed));
    }
    let places = pages.iter().flat_map(|(file, page)| headings(file, page));
    let places: Vec<String> = places.collect();
    let names = places.iter().filter_map(|place| place.split('#').nth(1));
    let names: BTreeSet<&str> = names.collect();
    let once = names.len() == places.len();
    assert!(once, "a definition is described twice: {places:?}");
    // Where two types have one name, the schema numbers the second.
    for name in &names {
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let numbered = bare != *name && names.contains(bare);
        assert!(!numbered, "two types are called {bare}");
    }
    for (file, page) in &pages {
        for line in page.lines() {
            assert!(!line.ends_with(" |  |"), "{file}: no meaning: {line}");
            for link in line.split("](").skip(1) {
                let to = link.split(')').next().unwrap();
                let to = match to.strip_prefix('#') {
                    Some(anchor) => format!("{file}#{anchor}"),
                    None => to.to_owned(),
                };
                let known = !to.contains('#') || places.contains(&to);
                assert!(known, "{file}: nothing is at {to}");
            }
        }
    }
}

/// An all-reduce of two ranks: each sends all to the other and adds what comes.
const RING: &str = include_str!("cases/digest/ring.xml");

/// `.ci/digest` runs pages with these files beside them.
#[test]
fn files_of_the_digest_are_those_that_pages_show() {
    for (file, page, words) in [
        ("half.json", "docs/guide-training.md", "`half.json` is"),
        ("my-first.json", "docs/guide-training.md", "## A scenario"),
        ("mine.json", "docs/lessons.md", "A lesson is a JSON file."),
    ] {
        let path = Path::new(HERE).join("tests/cases/digest").join(file);
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            announced(page, words),
            "{file}"
        );
    }
}
