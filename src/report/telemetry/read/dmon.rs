//! What `dcgmi dmon` and `nvidia-smi dmon` print: a header that comes again, a line of units, and a line for each
//! GPU and sample. The interval between samples is not in it, for times that it prints are whole seconds.

use super::{Field, Metric, Point, Wrong, cell};
use std::collections::{BTreeMap, BTreeSet};

/// A program that prints such lines.
pub(super) struct Program {
    pub(super) form: &'static str,
    /// The header's word for what a line is of; words before it are times.
    entity: &'static str,
    /// What stands below it in the line of units.
    unit: &'static str,
    /// What a line says before the GPU's number.
    kind: Option<&'static str>,
    field: fn(&str) -> Option<Field>,
    line: &'static str,
    header: &'static str,
}

pub(super) const DCGMI: Program = Program {
    form: "dcgmi dmon",
    entity: "Entity",
    unit: "ID",
    kind: Some("GPU"),
    field: |word| Field::ALL.into_iter().find(|f| f.short() == Some(word)),
    line: "a line such as `GPU 0  0.912  0.355`",
    header: "a header such as `#Entity  SMACT  NVLTX`",
};

pub(super) const NVIDIA_SMI: Program = Program {
    form: "nvidia-smi dmon",
    entity: "gpu",
    unit: "Idx",
    kind: None,
    field: |word| match word {
        "pwr" => Some(Field::Power),
        "sm" => Some(Field::GpuUtil),
        "fb" => Some(Field::FbUsed),
        _ => None,
    },
    line: "a line such as `0  412  98`",
    header: "a header such as `# gpu  pwr  sm`",
};

impl Program {
    /// The program that prints such a first line.
    pub(super) fn of(first: &str) -> Option<&'static Program> {
        let words = first.trim().strip_prefix('#')?;
        let mut all = [&DCGMI, &NVIDIA_SMI].into_iter();
        all.find(|program| words.split_whitespace().any(|word| word == program.entity))
    }
}

/// The columns of a header.
#[derive(Default)]
struct Header {
    /// Words before the GPU's.
    before: usize,
    columns: Vec<(String, Option<Field>)>,
}

pub(super) fn points(
    (text, each): (&str, f64),
    program: &Program,
    unknown: &mut BTreeSet<String>,
) -> Result<Vec<Point>, Wrong> {
    let mut header = Header::default();
    let mut points = Vec::new();
    // How many samples of each GPU there were.
    let mut samples: BTreeMap<String, u32> = BTreeMap::new();
    for (index, text) in text.lines().enumerate() {
        let line = index as u64 + 1;
        let wrong = |expected: &str| {
            let found = format!("`{}`", text.trim().chars().take(40).collect::<String>());
            Wrong::new(line, found, expected)
        };
        let is_header = text.trim_start().starts_with('#');
        let words = text.trim().trim_start_matches('#').split_whitespace();
        let words: Vec<&str> = words.collect();
        let below = words.get(header.before);
        if words.is_empty() || below.is_some_and(|word| word.eq_ignore_ascii_case(program.unit)) {
            continue;
        }
        if is_header {
            let place = words.iter().position(|word| *word == program.entity);
            let before = place.ok_or_else(|| wrong(program.header))?;
            let columns = words.iter().skip(before + 1);
            let columns = columns.map(|word| ((*word).to_owned(), (program.field)(word)));
            let columns = columns.collect();
            header = Header { before, columns };
            let others = header.columns.iter().filter(|(_, field)| field.is_none());
            unknown.extend(others.map(|(name, _)| name.clone()));
            continue;
        }
        let mut words = words.into_iter().skip(header.before);
        let is_gpu = program.kind.is_none_or(|kind| words.next() == Some(kind));
        let gpu = words.next().filter(|word| word.parse::<u32>().is_ok());
        let (true, Some(gpu)) = (is_gpu, gpu) else {
            return Err(wrong(program.line));
        };
        let cells: Vec<&str> = words.collect();
        if cells.len() != header.columns.len() {
            let expected = format!("{}, one a column", header.columns.len());
            let found = format!("{} values", cells.len());
            return Err(Wrong::new(line, found, expected));
        }
        let count = samples.entry(gpu.to_owned()).or_default();
        let start = f64::from(*count) * each;
        *count += 1;
        for ((name, field), text) in header.columns.iter().zip(cells) {
            let Some(field) = *field else { continue };
            // What a GPU cannot tell.
            if cell::is_absent(text) {
                continue;
            }
            let metric = Metric::Gpu(field);
            points.push(Point {
                metric,
                entity: gpu.to_owned(),
                at: start + each,
                since: Some(start),
                value: cell::value(line, name, metric, text)?,
                line,
            });
        }
    }
    Ok(points)
}
