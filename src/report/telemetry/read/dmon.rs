//! What `dcgmi dmon` prints: a header that comes again, and a line for each GPU and sample.

use super::{Field, Metric, Point, Wrong, number};
use std::collections::BTreeMap;

/// Columns that dcgmi has and no run.
const OTHERS: [&str; 17] = [
    "GRACT", "SMOCC", "FP64A", "FP32A", "FP16A", "TMPTR", "MMTMP", "TOTEC", "MCUTL", "ENCUT",
    "DECUT", "FBFRE", "FBTTL", "SMCLK", "MMCLK", "PCIRC", "XIDER",
];

pub(super) fn points(text: &str, each: f64) -> Result<Vec<Point>, Wrong> {
    let mut columns: Vec<Option<Field>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut points = Vec::new();
    // How many samples of each GPU there were.
    let mut samples: BTreeMap<String, u32> = BTreeMap::new();
    for (index, text) in text.lines().enumerate() {
        let line = index as u64 + 1;
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("id") {
            continue;
        }
        if let Some(header) = text.strip_prefix('#') {
            let words = header.split_whitespace().skip(1);
            (columns, names) = (Vec::new(), Vec::new());
            for word in words {
                columns.push(column(line, word)?);
                names.push(word.to_owned());
            }
            continue;
        }
        let mut words = text.split_whitespace();
        let (Some("GPU"), Some(gpu)) = (words.next(), words.next()) else {
            let found = format!("`{}`", text.chars().take(40).collect::<String>());
            return Err(Wrong::new(
                line,
                found,
                "a line such as `GPU 0  0.912  0.355`",
            ));
        };
        let cells: Vec<&str> = words.collect();
        if cells.len() != columns.len() {
            let found = format!("{} values", cells.len());
            return Err(Wrong::new(line, found, format!("{}", columns.len())));
        }
        let count = samples.entry(gpu.to_owned()).or_default();
        let start = f64::from(*count) * each;
        *count += 1;
        for ((field, name), cell) in columns.iter().zip(&names).zip(cells) {
            let Some(field) = *field else { continue };
            // What a GPU cannot tell.
            if cell == "N/A" {
                continue;
            }
            points.push(Point {
                metric: Metric::Gpu(field),
                entity: gpu.to_owned(),
                at: start + each,
                since: Some(start),
                value: number(line, name, cell)?,
            });
        }
    }
    Ok(points)
}

/// The field of a column; nothing of one that no run has.
fn column(line: u64, word: &str) -> Result<Option<Field>, Wrong> {
    let mut fields = Field::ALL.into_iter();
    if let Some(field) = fields.find(|field| field.short() == Some(word)) {
        return Ok(Some(field));
    }
    if OTHERS.contains(&word) {
        return Ok(None);
    }
    let known: Vec<&str> = Field::ALL
        .iter()
        .filter_map(|field| field.short())
        .collect();
    let found = format!("the column {word}");
    Err(Wrong::new(line, found, known.join(", ")))
}
