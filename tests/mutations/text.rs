//! Mutants of XML and of tables in plain text.

use crate::random::Random;
use std::ops::Range;

const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "7",
    "99999999999",
    "4294967295",
    "65535",
    "1e9",
    "NaN",
    "",
    " ",
    "x",
    "日本",
    "&lt;b&gt;",
    "0x10de",
    "0000:00:00.0",
    "ffff:ff:ff.f",
    "2.5 GT/s PCIe",
    "1000000 GT/s PCIe",
    "-5 GT/s",
    "8",
    "0-4294967295",
    "18446744073709551616",
    "\u{202e}",
];

/// Where values of attributes are.
fn attributes(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find("=\"").map(|i| at + i + 2) {
        let Some(end) = text[start..].find('"').map(|i| start + i) else {
            break;
        };
        found.push(start..end);
        at = end + 1;
    }
    found
}

/// The same text without a line, with one twice, or with two in each other's place.
pub(crate) fn lines_changed(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(8) {
        0..3 => {
            lines.remove(a);
        }
        3..5 => lines.insert(b, lines[a]),
        5 => {
            let many = vec![lines[a]; 3000];
            lines.splice(a..a, many);
        }
        _ => lines.swap(a, b),
    }
    lines.join("\n")
}

/// One character is another, or the text ends early.
pub(crate) fn characters_changed(text: &str, random: &mut Random) -> String {
    let mut all: Vec<char> = text.chars().collect();
    if all.is_empty() {
        return String::new();
    }
    let at = random.below(all.len());
    match random.below(3) {
        0 => all.truncate(at),
        1 => all[at] = char::from(32 + random.below(95) as u8),
        _ => all[at] = ['\0', '\u{feff}', '\t', '\r', '<', '&'][random.below(6)],
    }
    all.into_iter().collect()
}

/// A mutant of an XML text.
pub(crate) fn xml_mutant(text: &str, random: &mut Random) -> String {
    let attributes = attributes(text);
    match random.below(20) {
        0..13 if !attributes.is_empty() => {
            let at = attributes[random.below(attributes.len())].clone();
            let value = if random.one_in(3) {
                &text[attributes[random.below(attributes.len())].clone()]
            } else {
                random.pick(VALUES)
            };
            format!("{}{value}{}", &text[..at.start], &text[at.end..])
        }
        13 if !attributes.is_empty() => {
            // Without the attribute.
            let at = &attributes[random.below(attributes.len())];
            let start = text[..at.start].rfind(' ').unwrap_or(at.start);
            format!("{}{}", &text[..start], &text[at.end + 1..])
        }
        14 => characters_changed(text, random),
        15 => {
            let entity =
                "<!DOCTYPE l [<!ENTITY a \"xxxxxxxxxx\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]>";
            entity.to_owned() + text
        }
        16 => {
            let deep = [50, 2000][random.below(2)];
            let (open, close) = ("<pci busid=\"0000:00:00.0\">", "</pci>");
            format!(
                "<system>{}{text}{}</system>",
                open.repeat(deep),
                close.repeat(deep)
            )
        }
        _ => lines_changed(text, random),
    }
}

const CELLS: &[&str] = &[
    "\"a,5\"",
    "\"5\"",
    "\"5",
    "\"5\"6",
    "5\"6",
    "X",
    "NV0",
    "NV1",
    "NV18",
    "NV99999999999",
    "NV-1",
    "PIX",
    "PXB",
    "PHB",
    "NODE",
    "SYS",
    "PSB",
    "?",
    "日本",
    "0-4294967295",
    "GPU0",
    "<b>",
    "NV9999999999999999999999999999999999",
    "-",
    "N/A",
    "NIC0",
    "1e308",
    "-5 W",
    "98 %",
    "2026-01-31 12:00:00",
    "9999-12-31T23:59:60.5",
    "\"",
];

/// A mutant of a table in plain text, whose cells this character parts.
pub(crate) fn table_mutant(text: &str, by: char, random: &mut Random) -> String {
    if random.one_in(3) {
        return match random.below(4) {
            0 => characters_changed(text, random),
            1 => text.replace(by, " "),
            2 => text.replace('\n', "\r\n"),
            _ => lines_changed(text, random),
        };
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.below(lines.len());
    let mut cells: Vec<&str> = lines[at].split(by).collect();
    let cell = random.below(cells.len());
    match random.below(6) {
        0 => {
            cells.remove(cell);
        }
        1 => cells.insert(cell, cells[cell]),
        _ => cells[cell] = random.pick(CELLS),
    }
    lines[at] = cells.join(&by.to_string());
    lines.join("\n")
}
