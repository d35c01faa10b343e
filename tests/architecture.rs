//! The rooms' one direction, held by reading the sources.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each room, and the rooms that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("text", &[]),
    ("threads", &[]),
    ("budget", &["units", "threads"]),
    ("topology", &["units", "text"]),
    ("fault", &["units", "text", "threads", "topology"]),
    ("collective", &["units", "topology"]),
    ("plan", &["units", "topology", "collective"]),
    (
        "nccl",
        &["units", "budget", "topology", "collective", "plan"],
    ),
    (
        "engine",
        &[
            "units",
            "threads",
            "budget",
            "topology",
            "collective",
            "plan",
        ],
    ),
    (
        "workload",
        &[
            "units",
            "text",
            "budget",
            "topology",
            "collective",
            "plan",
            "nccl",
        ],
    ),
    ("report", &["units", "text"]),
    (
        "scenario",
        &[
            "units",
            "text",
            "threads",
            "budget",
            "topology",
            "collective",
            "plan",
            "nccl",
            "engine",
            "workload",
            "fault",
            "report",
        ],
    ),
    (
        "cli",
        &[
            "units",
            "text",
            "budget",
            "topology",
            "collective",
            "plan",
            "nccl",
            "report",
            "scenario",
        ],
    ),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&root, &mut found);
    found
}

/// The room that a source belongs to; none for `lib.rs` and `main.rs`.
fn room_of(path: &Path) -> Option<&'static (&'static str, &'static [&'static str])> {
    let inside = path
        .strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .unwrap();
    let first = inside.components().next()?.as_os_str().to_str()?;
    let name = first.trim_end_matches(".rs");
    ROOMS.iter().find(|(room, _)| *room == name)
}

/// Rooms named behind `crate::` in a line of code.
fn used(line: &str) -> Vec<String> {
    let code = line.split("//").next().unwrap_or("");
    let behind = code.split("crate::").skip(1);
    behind
        .flat_map(|rest| {
            let names: Vec<&str> = match rest.strip_prefix('{') {
                Some(list) => list.split(['{', '}', ',']).collect(),
                None => vec![rest],
            };
            names
                .into_iter()
                .map(|name| {
                    let end = name
                        .trim()
                        .find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
                    let name = name.trim();
                    name[..end.unwrap_or(name.len())].to_owned()
                })
                .collect::<Vec<_>>()
        })
        .filter(|name| ROOMS.iter().any(|(room, _)| room == name))
        .collect()
}

/// Tests may look at other rooms: they check the whole.
fn is_test(path: &Path) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs")
    })
}

#[test]
fn rooms_use_only_those_below_them() {
    let mut wrong = Vec::new();
    for path in all_sources() {
        let Some((room, allowed)) = room_of(&path) else {
            continue;
        };
        if is_test(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // What follows is a test beside the code.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            for name in used(line) {
                if name != *room && !allowed.contains(&name.as_str()) {
                    let place = format!("{}:{}", path.display(), number + 1);
                    wrong.push(format!("{place}: `{room}` must not use `{name}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_room_is_known() {
    let text = include_str!("../src/lib.rs");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pub mod ") {
            let name = name.trim_end_matches(';');
            let known = ROOMS.iter().any(|(room, _)| *room == name);
            assert!(known, "say in tests/architecture.rs what `{name}` may use");
        }
    }
}

#[test]
fn no_module_is_a_drawer_for_odds_and_ends() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            for name in ["utils", "util", "common", "helpers", "misc"] {
                let named = line.trim_end().ends_with(&format!("mod {name};"));
                assert!(!named, "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn the_command_is_a_short_story() {
    let text = include_str!("../src/main.rs");
    assert!(text.lines().count() <= 80);
}

#[test]
fn uses_are_found() {
    let cases: &[(&str, &[&str])] = &[
        ("use crate::units::Bytes;", &["units"]),
        ("use crate::{units::Bytes, plan};", &["units", "plan"]),
        (
            "    let x = crate::engine::run(crate::plan::y);",
            &["engine", "plan"],
        ),
        ("// crate::engine", &[]),
        ("use super::graph;", &[]),
    ];
    for (line, rooms) in cases {
        assert_eq!(used(line), *rooms, "{line}");
    }
}
