//! Which files of a room need which others, and circles among them.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Files of a room, by the paths of their modules (`["sweep", "folder"]`).
struct Room<'s> {
    /// Whether it is a crate; the command line is a module of one.
    is_crate: bool,
    files: BTreeMap<Vec<&'s str>, &'s Source>,
}

/// Files that need one another, each circle once, in order.
pub(super) fn circles(sources: &[Source]) -> Vec<Vec<String>> {
    let rooms: BTreeSet<&str> = sources.iter().map(Source::room).collect();
    let rooms = rooms.into_iter().map(|name| {
        let own = sources.iter().filter(|source| source.room() == name);
        Room {
            is_crate: name != "cli",
            files: own.map(|source| (module(&source.path), source)).collect(),
        }
    });
    rooms.flat_map(|room| room.circles()).collect()
}

/// The path of a file's module in its room.
fn module(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').skip(1).collect();
    if matches!(parts.last(), Some(&"mod" | &"lib")) {
        parts.pop();
    }
    parts
}

impl<'s> Room<'s> {
    fn circles(&self) -> Vec<Vec<String>> {
        let names: Vec<&Vec<&str>> = self.files.keys().collect();
        let number: BTreeMap<&Vec<&str>, usize> = names.iter().copied().zip(0..).collect();
        let needs: Vec<Vec<usize>> = names
            .iter()
            .map(|name| self.needs(name).iter().map(|other| number[other]).collect())
            .collect();
        // What each reaches.
        let reaches: Vec<BTreeSet<usize>> = (0..names.len())
            .map(|from| {
                let (mut seen, mut next) = (BTreeSet::new(), needs[from].clone());
                while let Some(file) = next.pop() {
                    if seen.insert(file) {
                        next.extend(&needs[file]);
                    }
                }
                seen
            })
            .collect();
        let mut circles = BTreeSet::new();
        for from in 0..names.len() {
            let both = |&&other: &&usize| reaches[other].contains(&from);
            let circle: Vec<usize> = reaches[from].iter().filter(both).copied().collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let path = |&file: &usize| self.files[names[file]].path.clone();
        let paths = circles
            .iter()
            .map(|circle| circle.iter().map(path).collect());
        paths.collect()
    }

    /// The files whose names a file uses.
    fn needs(&self, own: &[&'s str]) -> BTreeSet<Vec<&'s str>> {
        let mut found = BTreeSet::new();
        for path in uses(&self.files[own].code) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            if let Some(file) = self.resolve(own, &path, 0)
                && file != own
            {
                found.insert(file);
            }
        }
        found
    }

    /// The file in which a path ends that stands in a module.
    fn resolve(&self, own: &[&'s str], path: &[&str], depth: usize) -> Option<Vec<&'s str>> {
        let mut at: Vec<&str> = own.to_vec();
        let mut rest = path;
        if !self.is_crate && path.starts_with(&["crate"]) {
            rest = path.strip_prefix(&["crate", "cli"])?;
            at.clear();
        }
        match *rest.first()? {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop();
            }
            first if self.child(&at, first).is_some() => {
                at.push(self.child(&at, first)?);
            }
            _ => return None,
        }
        rest = &rest[1..];
        while let Some((&first, behind)) = rest.split_first() {
            if first == "super" {
                at.pop();
            } else if let Some(child) = self.child(&at, first) {
                at.push(child);
            } else {
                break;
            }
            rest = behind;
        }
        let (file, _) = self.files.get_key_value(&at)?;
        // A name that the file has from another one.
        if let Some(&name) = rest.first()
            && depth < 8
        {
            let handed = uses(&self.files[file].code);
            let handed = handed
                .iter()
                .find(|path| path.len() > 1 && path.last().is_some_and(|last| last == name));
            if let Some(from) = handed {
                let from: Vec<&str> = from.iter().map(String::as_str).collect();
                return self.resolve(file, &from, depth + 1).or(None);
            }
        }
        Some(file.clone())
    }

    fn child(&self, at: &[&'s str], name: &str) -> Option<&'s str> {
        let is_child = |path: &&Vec<&'s str>| {
            path.len() == at.len() + 1 && path.starts_with(at) && path.last() == Some(&name)
        };
        self.files.keys().find(is_child)?.last().copied()
    }
}

/// The paths that `use` names, one by one; of `a::{b, c as d}` `a::b` and `a::c`.
fn uses(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let begins = rest[..at].rsplit('\n').next().is_some_and(|before| {
            let before = before.trim();
            before.is_empty() || before == "pub" || before.starts_with("pub(")
        });
        rest = &rest[at + 4..];
        if begins && let Some(end) = rest.find(';') {
            spread(&[], &rest[..end], &mut found);
        }
    }
    found
}

fn spread(before: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let mut path = before.to_vec();
        let parts = tree[..open].split("::").map(str::trim);
        path.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
        let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in inner.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    spread(&path, &inner[begin..at], found);
                    begin = at + 1;
                }
                _ => {}
            }
        }
        spread(&path, &inner[begin..], found);
        return;
    }
    if tree.is_empty() {
        return;
    }
    let name = tree.split(" as ").next().unwrap_or(tree);
    let mut path = before.to_vec();
    path.extend(name.split("::").map(|part| part.trim().to_owned()));
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    found.push(path);
}
