//! What a run is expected to take of memory, against what it was seen to take: within a factor of
//! two. Where the system does not tell what a process held at most, nothing is compared.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::cargo::cargo_bin;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

fn command(args: &[String]) -> Command {
    let mut command = Command::new(cargo_bin("fabricsim"));
    command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Megabytes that a refusal says the run would take.
fn expected(args: &[String]) -> f64 {
    let refused = [args, &["--memory".into(), "1".into()]].concat();
    let output = command(&refused).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    let told = text.split("would take ").nth(1);
    let mut words = told.unwrap_or_else(|| panic!("{text}")).split(' ');
    let number: f64 = words.next().unwrap().parse().unwrap();
    match words.next().unwrap() {
        "MB" => number,
        "GB" => number * 1e3,
        unit => panic!("{unit}"),
    }
}

/// Megabytes that the program is expected to take itself, before it does anything.
const PROGRAM: f64 = 12.0;

/// Megabytes that the run held at most, with the program as large as it is expected to be: an
/// unoptimized one has more code. `None` where the system does not tell.
fn seen(args: &[String]) -> Option<f64> {
    let mut child = command(args).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut held = None;
    // The highest so far never falls, and code that is there stays: the last look before the end is
    // enough.
    let code = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let megabytes = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib * 1.024e-3)
        };
        let peak = megabytes("VmHWM:").zip(megabytes("RssFile:"));
        held = peak.map(|(all, files)| all - files + PROGRAM).or(held);
        if let Some(code) = child.try_wait().unwrap() {
            break code;
        }
        thread::sleep(Duration::from_micros(300));
    };
    assert!(code.success(), "{args:?}");
    held
}

fn within_a_factor_of_two(args: &[String]) {
    let Some(peak) = seen(args) else {
        eprintln!("skipped: this system does not tell what a process held");
        return;
    };
    let told = expected(args);
    println!("{peak:6.0} MB seen, {told:6.0} expected: {args:?}");
    assert!(
        told < peak * 2.0 && peak < told * 2.0,
        "{peak:.0} MB seen, {told:.0} expected: {args:?}"
    );
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn scenario(path: &str, out: &Path, more: &[&str]) -> Vec<String> {
    let out = out.to_str().unwrap();
    let all = [&["run", path, "-q", "-o", out], more].concat();
    all.into_iter().map(str::to_owned).collect()
}

#[test]
fn shipped_scenarios_take_what_they_are_expected_to() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = fs::read_dir(root.join("scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        within_a_factor_of_two(&scenario(path.to_str().unwrap(), &out, &[]));
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn long_jobs_and_large_collectives_take_what_they_are_expected_to() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    let gpt3 = "scenarios/gpt3-175b-tp8-pp4-dp8.json";
    within_a_factor_of_two(&scenario(gpt3, &out, &["--set", "job.training.steps=8"]));
    for collective in [
        "all-reduce -t dgx-h100 -n 16 -s 64M --algo direct",
        "all-to-all -t dgx-h100 -n 32 -s 64M",
        "all-reduce -t superpod-h100 -n 1024 -s 1G --algo ring",
        "all-reduce -t superpod-h100 -n 32 -s 64M --algo nvls-tree",
    ] {
        within_a_factor_of_two(&words(&format!("collective {collective}")));
    }
}
