//! The matrix of `nvidia-smi topo -m`, word by word.

use super::TopologyError;
use crate::error::nearest;
use std::collections::BTreeMap;

/// A cell, in `nvidia-smi`'s words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// One host bridge.
    Phb,
    /// Several host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
    /// So many bonded NVLinks.
    Nv(u32),
    /// The device itself.
    Self_,
}

const WORDS: [(&str, Word); 6] = [
    ("X", Word::Self_),
    ("PIX", Word::Pix),
    ("PXB", Word::Pxb),
    ("PHB", Word::Phb),
    ("NODE", Word::Node),
    ("SYS", Word::Sys),
];

impl Word {
    fn parse(text: &str) -> Option<Word> {
        if let Some(count) = text.strip_prefix("NV") {
            let count = count
                .parse()
                .ok()
                .filter(|&count| count > 0 && count <= 1000);
            return count.map(Word::Nv);
        }
        WORDS
            .iter()
            .find(|(word, _)| *word == text)
            .map(|&(_, word)| word)
    }

    pub(super) fn text(self) -> String {
        if let Word::Nv(count) = self {
            return format!("NV{count}");
        }
        WORDS
            .iter()
            .find(|&&(_, word)| word == self)
            .map_or_else(String::new, |(text, _)| (*text).to_owned())
    }
}

/// A cell with its place in the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) word: Word,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A device with what its row says at its end.
#[derive(Debug, Clone, Default)]
pub(super) struct SmiDevice {
    pub(super) label: String,
    /// What tells its NUMA node, if anything does.
    pub(super) affinity: Option<String>,
    /// Whether its memory is a NUMA node of its own, as behind C2C.
    pub(super) own_numa: bool,
    /// What the legend calls a NIC.
    pub(super) rdma: Option<String>,
}

/// A matrix; GPUs come first.
#[derive(Debug)]
pub(super) struct SmiMatrix {
    pub(super) devices: Vec<SmiDevice>,
    pub(super) gpus: usize,
    /// By row and column; rows may be missing.
    pub(super) cells: Vec<Vec<Option<Cell>>>,
}

/// More rows than any machine has; keeps reading quick.
const MAX_DEVICES: usize = 512;

/// Whether a text holds a matrix: some line near its start begins with GPU0.
pub(super) fn is_matrix(text: &str) -> bool {
    !text.contains("ROCm System Management") && header(text).is_some()
}

/// Position and text of the header.
fn header(text: &str) -> Option<(usize, String)> {
    text.lines()
        .take(20)
        .map(plain)
        .enumerate()
        .find(|(_, line)| line.split_whitespace().next() == Some("GPU0"))
}

/// A line without the escape sequences that underline the header on a terminal.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // `ESC [ … letter`
            for c in chars.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Words with their columns, from 1.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut column = 1;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        column += rest[..start].chars().count();
        rest = &rest[start..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        found.push((column, &rest[..end]));
        column += rest[..end].chars().count();
        rest = &rest[end..];
    }
    found
}

/// Reads a matrix.
pub(super) fn read(text: &str, origin: &str) -> Result<SmiMatrix, TopologyError> {
    let fault = |line, column, found: String, expected: String, nearest| TopologyError::Text {
        origin: origin.to_owned(),
        line,
        column,
        found,
        expected,
        nearest,
    };
    let Some((header_at, header)) = header(text) else {
        let expected = "a line of devices that begins with GPU0";
        return Err(fault(1, 1, "no matrix".into(), expected.into(), None));
    };
    let mut devices = Vec::new();
    let mut by_label: BTreeMap<String, usize> = BTreeMap::new();
    let mut gpus = 0;
    for (column, label) in words(&header) {
        // "CPU Affinity" and what follows it.
        if label == "CPU" || label == "NUMA" || label == "GPU" {
            break;
        }
        if is_gpu(label) && gpus == devices.len() {
            gpus += 1;
        } else if is_gpu(label) {
            let found = format!("`{label}` after a column of another device");
            let expected = "GPUs first, then NICs".into();
            return Err(fault(header_at + 1, column, found, expected, None));
        }
        if by_label.insert(label.to_owned(), devices.len()).is_some() {
            let found = format!("two columns `{label}`");
            let expected = "each device once".into();
            return Err(fault(header_at + 1, column, found, expected, None));
        }
        devices.push(SmiDevice {
            label: label.to_owned(),
            ..SmiDevice::default()
        });
        if devices.len() > MAX_DEVICES {
            let found = format!("more than {MAX_DEVICES} columns");
            let expected = "the devices of one machine".into();
            return Err(fault(header_at + 1, column, found, expected, None));
        }
    }
    let count = devices.len();
    let mut cells: Vec<Vec<Option<Cell>>> = vec![vec![None; count]; count];
    let mut seen = vec![false; count];
    let has_gpu_numa = header.contains("GPU NUMA ID");
    for (at, line) in text.lines().enumerate().skip(header_at + 1) {
        let line_number = at + 1;
        let line = plain(line);
        let words = words(&line);
        let Some(&(column, label)) = words.first() else {
            // What follows the matrix is a legend.
            if seen.iter().any(|&row| row) {
                break;
            }
            continue;
        };
        if label.ends_with(':') || label == "NIC" && words.len() > 1 && words[1].1 == "Legend:" {
            break;
        }
        let Some(&row) = by_label.get(label) else {
            let near = nearest(label, by_label.keys().map(String::as_str));
            let found = format!("a row `{label}`");
            let expected = "one of the columns' devices".into();
            return Err(fault(line_number, column, found, expected, near));
        };
        if std::mem::replace(&mut seen[row], true) {
            let found = format!("two rows `{label}`");
            let expected = "each device once".into();
            return Err(fault(line_number, column, found, expected, None));
        }
        if words.len() <= count {
            let found = format!("{} cells in row `{label}`", words.len() - 1);
            let expected = format!("{count}, one for each column");
            return Err(fault(line_number, column, found, expected, None));
        }
        for (to, &(column, text)) in words[1..=count].iter().enumerate() {
            let word = Word::parse(text).filter(|&word| (word == Word::Self_) == (row == to));
            let Some(word) = word else {
                let known = WORDS.iter().map(|(word, _)| *word).chain(["NV1", "NV2"]);
                let near = nearest(text, known).filter(|near| near != text);
                let expected = if row == to {
                    "X, the device itself"
                } else {
                    "NV# (bonded NVLinks), PIX, PXB, PHB, NODE or SYS"
                };
                let found = format!("`{text}`");
                return Err(fault(line_number, column, found, expected.into(), near));
            };
            cells[row][to] = Some(Cell {
                word,
                line: line_number,
                column,
            });
        }
        let after = words.get(count).map_or("", |(column, text)| {
            after(&line, column + text.chars().count() - 1)
        });
        if row < gpus {
            affinity(after, has_gpu_numa, &mut devices[row]);
        }
    }
    let mut matrix = SmiMatrix {
        devices,
        gpus,
        cells,
    };
    matrix.drop_false_superchips();
    matrix.name_nics(text);
    match matrix.contradiction() {
        None => Ok(matrix),
        Some((cell, other)) => Err(fault(
            cell.line,
            cell.column,
            cell.word.text(),
            format!(
                "{}, as the other direction has in line {}, column {}",
                other.word.text(),
                other.line,
                other.column
            ),
            None,
        )),
    }
}

fn is_gpu(label: &str) -> bool {
    label
        .strip_prefix("GPU")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What follows the first `columns` characters.
fn after(line: &str, columns: usize) -> &str {
    line.char_indices()
        .nth(columns)
        .map_or("", |(at, _)| &line[at..])
}

/// Reads the columns behind the cells: CPU affinity, NUMA affinity, GPU NUMA ID. Columns are
/// parted by tabs, or else by blanks; with tabs some may be empty.
fn affinity(text: &str, has_gpu_numa: bool, device: &mut SmiDevice) {
    let tabs = text.contains('\t');
    let columns: Vec<&str> = if tabs {
        // The tab behind the last cell opens the first column.
        text.trim_start_matches(' ')
            .strip_prefix('\t')
            .unwrap_or(text)
            .split('\t')
            .map(str::trim)
            .collect()
    } else {
        text.split_whitespace().collect()
    };
    let told = |text: Option<&&str>| {
        text.filter(|text| !text.is_empty() && **text != "N/A")
            .map(|text| (*text).to_owned())
    };
    device.affinity = told(columns.get(1))
        .map(|numa| format!("NUMA {numa}"))
        .or_else(|| told(columns.first()).map(|cpus| format!("CPUs {cpus}")));
    let own = columns.iter().skip(2).rev().find(|text| !text.is_empty());
    device.own_numa = has_gpu_numa && told(own).is_some();
}

impl SmiMatrix {
    /// The word between two devices, from whichever row is there.
    pub(super) fn between(&self, a: usize, b: usize) -> Option<Cell> {
        self.cells[a][b].or(self.cells[b][a])
    }

    /// A GPU behind C2C is SYS to all but its NVLinks; one that is nearer to something hangs
    /// from the PCIe bus, whatever its memory is.
    fn drop_false_superchips(&mut self) {
        for gpu in 0..self.gpus {
            let near = (0..self.devices.len()).any(|other| {
                self.between(gpu, other)
                    .is_some_and(|cell| cell.word < Word::Sys)
            });
            if near {
                self.devices[gpu].own_numa = false;
            }
        }
    }

    /// Reads the legend of NICs below the matrix: `NIC0: mlx5_0`. Older matrices have the names in
    /// place of labels.
    fn name_nics(&mut self, text: &str) {
        for device in &mut self.devices[self.gpus..] {
            let label = format!("{}:", device.label);
            let named = text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                (words.next() == Some(&label))
                    .then(|| words.next())
                    .flatten()
            });
            let old = Some(device.label.as_str()).filter(|label| !label.starts_with("NIC"));
            device.rdma = named.or(old).map(str::to_owned);
        }
    }

    /// A cell that differs from the one of the other direction.
    fn contradiction(&self) -> Option<(Cell, Cell)> {
        let count = self.devices.len();
        (0..count)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .find_map(|(a, b)| {
                let (one, other) = (self.cells[a][b]?, self.cells[b][a]?);
                (one.word != other.word).then_some((one, other))
            })
    }
}
