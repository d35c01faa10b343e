//! JSON as a tree whose keys may repeat and whose tokens need not be JSON, so that a mutant can be
//! what no serialiser writes.

use crate::random::Random;
use serde_json::Value;

enum Tree {
    /// Written as it is: a number, a word, or what is neither.
    Raw(String),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "-0.0",
    "NaN",
    "1e308",
    "1e999",
    "1e-300",
    "0.5",
    "7",
    "65535",
    "65536",
    "100000",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551616",
];

const QUANTITIES: &[&str] = &[
    "0B",
    "1B",
    "1.5B",
    "-1GiB",
    "1EiB",
    "16777215TiB",
    "18446744073709551615B",
    "1 GiB ",
    "5",
    "us",
    "18446744073709551616B",
    "0GB/s",
    "1b/s",
    "1B/s",
    "1e9GB/s",
    "1000000TB/s",
    "18EB/s",
    "0us",
    "1ps",
    "100d",
    "213d",
    "1000000d",
    "99999999999999999999s",
    "10 parsecs",
    "NaNus",
    "infGB/s",
    "",
    " ",
    "0.0000001us",
    "1GiB\u{0}",
    "\u{ff11}GB",
];

const SELECTORS: &[&str] = &[
    "gpu[*]",
    "gpu[0-4294967295]",
    "gpu[7-0]",
    "gpu[",
    "gpu[*][*]",
    "gpu[99]",
    "*",
    "gpu[0,0,0]",
    "node[*]/gpu[*]",
    "node[*]/nic[*] <> compute",
    "nic[*] <> nic[*]",
    "[",
    "/",
    "//",
    "..",
    "gpu[-1]",
    "gpu[18446744073709551616]",
    "node[0]",
    "nvswitch[*]",
];

const TEXTS: &[&str] = &[
    "\u{202e}gpj",
    "日本語",
    "\u{0}",
    "\u{1b}[2J",
    "<script>alert(1)</script>",
    "none",
    "null",
    "\n\n",
    "'\"`\\",
    "a/b",
    "../../x",
    "C:\\x",
    "%s%n",
    "${HOME}",
    "all-to-all",
    "fp8",
    "nvls",
];

fn tree(value: &Value) -> Tree {
    match value {
        Value::String(text) => Tree::Text(text.clone()),
        Value::Array(list) => Tree::List(list.iter().map(tree).collect()),
        Value::Object(map) => Tree::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), tree(value)))
                .collect(),
        ),
        other => Tree::Raw(other.to_string()),
    }
}

fn write(tree: &Tree, out: &mut String) {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    match tree {
        Tree::Raw(text) => out.push_str(text),
        Tree::Text(text) => out.push_str(&quoted(text)),
        Tree::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Tree::Object(list) => {
            out.push('{');
            for (index, (key, item)) in list.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&quoted(key));
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

fn text(tree: &Tree) -> String {
    let mut out = String::new();
    write(tree, &mut out);
    out
}

fn copy(tree: &Tree) -> Tree {
    match tree {
        Tree::Raw(text) => Tree::Raw(text.clone()),
        Tree::Text(text) => Tree::Text(text.clone()),
        Tree::List(list) => Tree::List(list.iter().map(copy).collect()),
        Tree::Object(list) => Tree::Object(
            list.iter()
                .map(|(key, item)| (key.clone(), copy(item)))
                .collect(),
        ),
    }
}

/// How many values there are, itself included.
fn count(tree: &Tree) -> usize {
    1 + match tree {
        Tree::List(list) => list.iter().map(count).sum(),
        Tree::Object(list) => list.iter().map(|(_, item)| count(item)).sum(),
        Tree::Raw(_) | Tree::Text(_) => 0,
    }
}

/// The value with this number, counted from the root on.
fn place(tree: &mut Tree, number: usize) -> Option<&mut Tree> {
    fn find<'t>(tree: &'t mut Tree, left: &mut usize) -> Option<&'t mut Tree> {
        if *left == 0 {
            return Some(tree);
        }
        *left -= 1;
        match tree {
            Tree::List(list) => list.iter_mut().find_map(|item| find(item, left)),
            Tree::Object(list) => list.iter_mut().find_map(|(_, item)| find(item, left)),
            Tree::Raw(_) | Tree::Text(_) => None,
        }
    }
    let mut left = number;
    find(tree, &mut left)
}

/// A mutant of a JSON text.
pub(crate) fn mutant(seed: &Value, random: &mut Random) -> String {
    let mut root = tree(seed);
    if random.one_in(40) {
        return broken(&text(&root), random);
    }
    for _ in 0..=random.below(2) {
        let all = count(&root);
        let other = place(&mut root, random.below(all)).map(|other| copy(other));
        if let Some(spot) = place(&mut root, random.below(all)) {
            change(spot, other, random);
        }
    }
    text(&root)
}

/// Changes a value, perhaps into another one of the same file.
fn change(spot: &mut Tree, other: Option<Tree>, random: &mut Random) {
    if random.one_in(10) {
        *spot = anything(other, random);
        return;
    }
    match spot {
        Tree::Raw(text) => {
            *text = match random.below(12) {
                0 => format!("\"{text}\""),
                1 => "null".into(),
                2 => "true".into(),
                _ => random.pick(NUMBERS).to_owned(),
            };
        }
        Tree::Text(text) => {
            *text = match random.below(10) {
                0..4 => random.pick(QUANTITIES).to_owned(),
                4..7 => random.pick(SELECTORS).to_owned(),
                7..9 => random.pick(TEXTS).to_owned(),
                _ => text.repeat(1 + random.below(3000)),
            };
        }
        Tree::List(list) => match random.below(5) {
            0 => list.clear(),
            1 if !list.is_empty() => {
                list.remove(random.below(list.len()));
            }
            2 | 3 if !list.is_empty() => {
                let item = &list[random.below(list.len())];
                let times = if random.one_in(4) {
                    3000 / count(item).max(1)
                } else {
                    1
                };
                let more: Vec<Tree> = (0..times).map(|_| copy(item)).collect();
                list.extend(more);
            }
            _ => list.extend(other),
        },
        Tree::Object(list) => match random.below(6) {
            0 => list.clear(),
            1 | 2 if !list.is_empty() => {
                list.remove(random.below(list.len()));
            }
            3 if !list.is_empty() => {
                let (key, item) = &list[random.below(list.len())];
                list.push((key.clone(), copy(item)));
            }
            4 if !list.is_empty() => {
                let at = random.below(list.len());
                list[at].0 += random.pick(&["x", "\u{0}", " ", "/../"]);
            }
            _ => list.extend(other.map(|other| (random.pick(TEXTS).to_owned(), other))),
        },
    }
}

/// Any value in place of another.
fn anything(other: Option<Tree>, random: &mut Random) -> Tree {
    match (random.below(8), other) {
        (0, _) => Tree::Raw("null".into()),
        (1, _) => Tree::Raw("false".into()),
        (2, _) => Tree::List(Vec::new()),
        (3, _) => Tree::Object(Vec::new()),
        (4, _) => Tree::Text(random.pick(QUANTITIES).to_owned()),
        (5, _) => {
            let deep = [100, 200, 20_000][random.below(3)];
            Tree::Raw("[".repeat(deep) + &"]".repeat(deep))
        }
        (_, Some(other)) => other,
        (_, None) => Tree::Raw(random.pick(NUMBERS).to_owned()),
    }
}

/// A text that is no JSON, mostly.
fn broken(text: &str, random: &mut Random) -> String {
    match random.below(5) {
        0 => text.chars().take(random.below(text.len())).collect(),
        1 => format!("\u{feff}{text}"),
        2 => text.to_owned() + random.pick(&["x", "{}", "\0", ",", "]"]),
        3 => random
            .pick(&["", " ", "null", "[]", "{}", "0", "\"x\"", "true"])
            .to_owned(),
        _ => text.replacen('}', ",}", 1),
    }
}
