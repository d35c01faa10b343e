//! A source file as the laws look at it: its code without comments, strings and tests, its comments, its functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A file below `src`.
pub(super) struct Source {
    /// Below `src`, with `/`.
    pub(super) path: String,
    /// As it stands.
    pub(super) text: String,
    /// The same places, with blanks for comments, strings and tests.
    pub(super) code: String,
    /// The same places, with blanks for all but comments.
    pub(super) comments: String,
}

/// A function with a body.
pub(super) struct Function<'s> {
    pub(super) name: &'s str,
    /// What stands between its parentheses.
    pub(super) parameters: &'s str,
    /// Lines from its signature to its brace.
    pub(super) lines: usize,
}

/// All sources of rooms and of the command line, those that are tests alone left out.
pub(super) fn all() -> &'static [Source] {
    static ALL: OnceLock<Vec<Source>> = OnceLock::new();
    ALL.get_or_init(read)
}

fn read() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    below(&root, &mut paths);
    let sources = paths.into_iter().filter_map(|path| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let name = name.replace('\\', "/");
        let is_test = name.split('/').any(|part| {
            part.trim_end_matches(".rs") == "tests"
                || part.trim_end_matches(".rs").ends_with("_tests")
        });
        (!is_test).then(|| Source::new(name, fs::read_to_string(&path).unwrap()))
    });
    sources.collect()
}

fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

impl Source {
    pub(super) fn new(path: String, text: String) -> Source {
        let (mut code, comments) = split(&text);
        // Tests stand behind all else in a file.
        if let Some(at) = code.find("\n#[cfg(test)]\nmod tests {") {
            code.replace_range(at.., &blank(&code[at..]));
        }
        Source {
            path,
            text,
            code,
            comments,
        }
    }

    /// The room, or `cli`.
    pub(super) fn room(&self) -> &str {
        self.path.split('/').next().unwrap()
    }

    /// Functions that have a body.
    pub(super) fn functions(&self) -> Vec<Function<'_>> {
        let code = &self.code;
        let mut found = Vec::new();
        for (at, _) in code.match_indices("fn ") {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[at + 3..];
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            let name = &rest[..length.unwrap_or(0)];
            let Some(open) = rest.find('(').filter(|_| !name.is_empty()) else {
                continue;
            };
            let close = open + closing(&rest[open..]);
            let Some(body) = body(&rest[close..]).map(|body| close + body) else {
                continue;
            };
            let end = body + closing(&rest[body..]);
            found.push(Function {
                name,
                parameters: &rest[open + 1..close],
                lines: rest[..end].lines().count(),
            });
        }
        found
    }

    /// Names of types, functions and constants that it makes public, each with what it is.
    pub(super) fn public(&self) -> Vec<(&'static str, &str)> {
        let kinds = [
            "struct", "enum", "trait", "type", "const fn", "fn", "const", "static",
        ];
        let lines = self
            .code
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("pub "));
        let named = lines.filter_map(|line| {
            let kind = kinds.into_iter().find(|kind| {
                line.strip_prefix(kind)
                    .is_some_and(|rest| rest.starts_with(' '))
            })?;
            let name = line[kind.len()..].trim_start();
            let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            Some((kind, &name[..end.unwrap_or(name.len())]))
        });
        named.collect()
    }
}

/// Where the bracket is closed with which a text begins.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len() - 1
}

/// Where the body begins behind the parameters; nowhere if the function is declared alone.
fn body(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// The same lines, empty.
fn blank(text: &str) -> String {
    text.chars()
        .map(|c| if c == '\n' { '\n' } else { ' ' })
        .collect()
}

/// Code and comments, each with blanks in the place of the other and of what stands in quotes.
fn split(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::new(), String::new());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_comment) = piece(rest, first, code.chars().next_back());
        let (piece, behind) = rest.split_at(length);
        match is_comment {
            None => {
                code.push_str(piece);
                comments.push_str(&blank(piece));
            }
            Some(is_comment) => {
                code.push_str(&blank(piece));
                comments.push_str(&if is_comment {
                    piece.to_owned()
                } else {
                    blank(piece)
                });
            }
        }
        rest = behind;
    }
    (code, comments)
}

/// How long the next piece is, and whether it is a comment, a string (`Some(false)`) or code.
fn piece(rest: &str, first: char, before: Option<char>) -> (usize, Option<bool>) {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Some(true));
    }
    if rest.starts_with("/*") {
        return (rest.find("*/").map_or(rest.len(), |at| at + 2), Some(true));
    }
    let raw = rest.strip_prefix('b').unwrap_or(rest);
    if !in_word && let Some(quoted) = raw.strip_prefix('r') {
        let marks = quoted.len() - quoted.trim_start_matches('#').len();
        if quoted[marks..].starts_with('"') {
            let end = format!("\"{}", &quoted[..marks]);
            let begin = rest.len() - quoted.len() + marks + 1;
            let length = rest[begin..]
                .find(&end)
                .map_or(rest.len() - begin, |at| at + end.len());
            return (begin + length, Some(false));
        }
    }
    if first == '"' {
        return (1 + until(&rest[1..], '"'), Some(false));
    }
    // A lifetime has no quote behind it.
    let mut next = rest.chars().skip(1);
    if first == '\'' && (next.next() == Some('\\') || next.next() == Some('\'')) {
        return (1 + until(&rest[1..], '\''), Some(false));
    }
    (first.len_utf8(), None)
}

/// How long a text is up to the quote that ends it, with it.
fn until(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
