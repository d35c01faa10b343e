//! What the compiler does not hold of the rooms. Each is a crate: which others it may use, its
//! `Cargo.toml` says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

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

/// Folders of `src` that are crates.
fn rooms() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(root).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    let mut rooms: Vec<PathBuf> = folders.filter(|f| f.join("Cargo.toml").exists()).collect();
    rooms.sort();
    rooms
}

#[test]
fn every_room_is_a_member_with_the_workspace_s_lints() {
    let workspace = include_str!("../Cargo.toml");
    let rooms = rooms();
    assert!((10..=15).contains(&rooms.len()), "{rooms:?}");
    for room in rooms {
        let name = room.file_name().unwrap().to_str().unwrap();
        assert!(workspace.contains(&format!("\"src/{name}\",")), "{name}");
        let manifest = fs::read_to_string(room.join("Cargo.toml")).unwrap();
        let package = format!("name = \"fabricsim-{name}\"");
        let parts = [
            &*package,
            "[lints]\nworkspace = true",
            "publish = false",
            "doctest = false",
        ];
        for part in parts {
            assert!(manifest.contains(part), "{name}: {part}");
        }
    }
}

/// Cargo runs what is in the suite or has a table of its own, and says nothing of other files.
#[test]
fn no_test_is_left_out() {
    let suite = include_str!("suite.rs");
    let manifest = include_str!("../Cargo.toml");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let own = name == "suite" || path.join("main.rs").exists();
        if own {
            assert!(
                manifest.contains(&format!("[[test]]\nname = \"{name}\"")),
                "{name}"
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            assert!(suite.contains(&format!("\nmod {name};\n")), "{name}");
        }
    }
}

/// Documentation has no examples that compile, so that no room is read a second time for them.
#[test]
fn no_example_of_documentation_goes_untested() {
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let comments = text.lines().map(str::trim_start);
        let mut fences =
            comments.filter(|line| line.starts_with("/// ```") || line.starts_with("//! ```"));
        assert_eq!(fences.next(), None, "{}", path.display());
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
