//! What the compiler does not hold of the rooms. Each is a crate: which others it may use, its
//! `Cargo.toml` says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/exceptions.rs"]
mod exceptions;
#[path = "architecture/source.rs"]
mod source;

use exceptions::hold;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of `src` that are crates.
fn rooms() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(root).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    let mut rooms: Vec<PathBuf> = folders.filter(|f| f.join("Cargo.toml").exists()).collect();
    rooms.sort();
    rooms
}

/// The programs that show how the library is used, as text.
fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = fs::read_dir(folder).unwrap();
    let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.collect()
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

/// Documentation of the rooms has no examples that compile, so that no room is read a second time for them. The face
/// of the library (`src/lib.rs`, `src/face.rs`) has some, and its crate alone tests them.
#[test]
fn no_example_of_documentation_goes_untested() {
    let rooms = rooms();
    for source in source::all() {
        if !rooms.iter().any(|room| room.ends_with(source.room())) {
            continue;
        }
        let comments = source.text.lines().map(str::trim_start);
        let mut fences =
            comments.filter(|line| line.starts_with("/// ```") || line.starts_with("//! ```"));
        assert_eq!(fences.next(), None, "{}", source.path);
    }
}

#[test]
fn no_module_is_a_drawer_for_odds_and_ends() {
    for source in source::all() {
        for line in source.text.lines() {
            for name in ["utils", "util", "common", "helpers", "misc"] {
                let named = line.trim_end().ends_with(&format!("mod {name};"));
                assert!(!named, "{}: {line}", source.path);
            }
        }
    }
}

/// Files of a room that need one another cannot be read, or changed, one by one.
#[test]
fn files_need_each_other_in_one_direction() {
    let circles = circles::circles(source::all());
    let found = circles.iter().map(|circle| circle.join(" "));
    hold("circles", "expected no circle of files", found.collect());
}

#[test]
fn files_are_short() {
    let lines = |source: &Source| source.text.lines().count();
    let long = source::all().iter().filter(|source| lines(source) > 600);
    let found = long.map(|source| source.path.clone());
    hold("long-files", "expected at most 600 lines", found.collect());
}

#[test]
fn functions_are_short() {
    let mut found = BTreeSet::new();
    for source in source::all() {
        let functions = source.functions();
        let long = functions.iter().filter(|function| function.lines > 100);
        found.extend(long.map(|function| format!("{} {}", source.path, function.name)));
    }
    hold(
        "long-functions",
        "expected at most 100 lines, but of a flat table",
        found,
    );
}

/// Which part of a tuple is what, its type does not say.
#[test]
fn parameters_have_names() {
    let mut found = BTreeSet::new();
    for source in source::all() {
        for function in source.functions() {
            let tuples = parameters(function.parameters).filter(|parameter| {
                let type_of = parameter.split_once(':').map_or("", |(_, of)| of.trim());
                parameter.starts_with('(') || type_of.starts_with('(')
            });
            if tuples.count() > 0 {
                found.insert(format!("{} {}", source.path, function.name));
            }
        }
    }
    hold(
        "tuple-parameters",
        "expected parameters with names of their own",
        found,
    );
}

/// What stands between commas that are in no bracket.
fn parameters(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = list.split(move |c: char| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim)
}

/// A public name has one meaning, whatever the room.
#[test]
fn names_of_types_are_told_apart() {
    let sources = source::all();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        for (kind, name) in source.public() {
            if matches!(kind, "struct" | "enum" | "trait" | "type") {
                *places.entry(name).or_default() += 1;
            }
        }
    }
    let twice = places.into_iter().filter(|(_, count)| *count > 1);
    let found = twice.map(|(name, count)| format!("{name} {count}"));
    hold(
        "names-with-several-meanings",
        "expected another name",
        found.collect(),
    );
}

#[test]
fn what_is_public_is_used() {
    let sources = source::all();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    let texts = sources.iter().map(|source| &*source.code);
    let benches = include_str!("../benches/engine.rs");
    let examples = examples();
    let beside = examples.iter().map(String::as_str).chain([benches]);
    for line in texts.chain(beside).flat_map(str::lines) {
        let start = line.trim_start();
        if start.starts_with("use ") || start.starts_with("pub use ") {
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        for word in line.split(|c| !is_word(c)).filter(|word| !word.is_empty()) {
            *uses.entry(word).or_default() += 1;
        }
    }
    let mut found = BTreeSet::new();
    for source in sources {
        for (_, name) in source.public() {
            if uses.get(name) == Some(&1) {
                found.insert(format!("{} {name}", source.path));
            }
        }
    }
    hold("unused", "expected a use outside of tests", found);
}

/// Who reads a comment has the repository, and nothing else.
#[test]
fn comments_cite_what_is_in_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = fs::read_dir(root.join("docs")).unwrap();
    let mut pages: BTreeSet<String> = here
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.extend(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(str::to_owned));
    let mut found = BTreeSet::new();
    for source in source::all() {
        let words: Vec<&str> = source.comments.split_whitespace().collect();
        for (word, next) in words.iter().zip(words.iter().skip(1).chain([&""])) {
            let end =
                |c: char| !c.is_alphanumeric() && c != '.' && c != '/' && c != '-' && c != '_';
            let word = word.trim_matches(end).trim_end_matches('.');
            let Some(name) = word.rsplit('/').next().filter(|_| word.ends_with(".md")) else {
                continue;
            };
            // Sections of these pages have names, not numbers.
            let numbered = next.starts_with(|c: char| c.is_ascii_digit() || c == '§');
            if numbered || !pages.contains(name) {
                found.insert(format!("{} {word}", source.path));
            }
        }
    }
    hold(
        "foreign-documents",
        "expected a page of the repository, or the source itself",
        found,
    );
}

#[test]
fn lines_are_short() {
    let mut found = BTreeSet::new();
    for source in source::all() {
        let long = source
            .text
            .lines()
            .filter(|line| line.chars().count() > 120)
            .count();
        if long > 0 {
            found.insert(format!("{} {long}", source.path));
        }
    }
    hold("long-lines", "expected at most 120 columns", found);
}

#[test]
fn examples_are_short() {
    let examples = examples();
    assert!(examples.len() >= 4);
    for text in examples {
        let first = text.lines().next().unwrap_or_default();
        assert!(text.lines().count() <= 60, "{first}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 120),
            "{first}"
        );
    }
}

#[test]
fn the_command_is_a_short_story() {
    let text = include_str!("../src/main.rs");
    assert!(text.lines().count() <= 80);
}
