//! What `nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -l 1` prints: a line for each GPU and sample,
//! each with a time of its own.

use super::clock::seconds;
use super::{Field, Metric, Point, Wrong, cell, table};
use std::collections::BTreeSet;

/// Columns that tell GPUs apart.
const ENTITIES: [&str; 7] = [
    "index",
    "uuid",
    "gpu_uuid",
    "pci.bus_id",
    "gpu_bus_id",
    "serial",
    "gpu_serial",
];
/// Columns that are no series.
const OTHERS: [&str; 3] = ["timestamp", "name", "gpu_name"];

/// The field of a column, whose unit stands behind it: `power.draw [W]`.
fn field(column: &str) -> Option<Field> {
    match property(column) {
        "power.draw" | "power.draw.average" | "power.draw.instant" => Some(Field::Power),
        "utilization.gpu" => Some(Field::GpuUtil),
        "memory.used" => Some(Field::FbUsed),
        _ => None,
    }
}

fn property(column: &str) -> &str {
    column.split('[').next().unwrap_or_default().trim()
}

/// Whether this is the first line of such a file.
pub(super) fn is_head(first: &str) -> bool {
    first.split(',').any(|column| field(column).is_some())
}

/// A line.
struct Sampled {
    line: u64,
    at: f64,
    /// The GPU, where a column says it.
    gpu: String,
    values: Vec<(Metric, f64)>,
}

pub(super) fn points(text: &str, unknown: &mut BTreeSet<String>) -> Result<Vec<Point>, Wrong> {
    let (head, rows) = table(text)?;
    let head: Vec<&str> = head.iter().map(str::trim).collect();
    let time = head.iter().position(|&column| column == "timestamp");
    let Some(time) = time else {
        let found = format!("the columns {}", head.join(", "));
        let expected = "a column timestamp, as of `--query-gpu=timestamp,index,power.draw`";
        return Err(Wrong::new(1, found, expected));
    };
    let entities: Vec<usize> = (0..head.len())
        .filter(|&index| ENTITIES.contains(&head[index]))
        .collect();
    let mut columns: Vec<(usize, Metric)> = Vec::new();
    for (index, column) in head.iter().enumerate() {
        let metric = field(column).map(Metric::Gpu);
        match metric.filter(|metric| columns.iter().all(|(_, known)| known != metric)) {
            Some(metric) => columns.push((index, metric)),
            None if ENTITIES.contains(column) || OTHERS.contains(column) => {}
            None => {
                unknown.insert(property(column).to_owned());
            }
        }
    }
    let mut lines = Vec::new();
    for row in rows {
        let (line, row) = row?;
        let cell = |index: usize| row.get(index).unwrap_or_default().trim();
        let at = seconds(cell(time)).ok_or_else(|| {
            let found = format!("`{}` in column timestamp", cell(time));
            Wrong::new(line, found, "a time such as 2026/01/31 12:00:00.123")
        })?;
        let mut values = Vec::new();
        for &(index, metric) in &columns {
            if !cell::is_absent(cell(index)) {
                let value = cell::value(line, head[index], metric, cell(index))?;
                values.push((metric, value));
            }
        }
        let gpu: Vec<&str> = entities.iter().map(|&index| cell(index)).collect();
        lines.push(Sampled {
            line,
            at,
            gpu: gpu.join("/"),
            values,
        });
    }
    let samples = match entities.is_empty() {
        true => by_time(&mut lines)?,
        false => by_gpu(&lines),
    };
    Ok(points_of(&lines, &samples))
}

/// The first line of each sample: one that has a GPU again.
fn by_gpu(lines: &[Sampled]) -> Vec<usize> {
    let mut firsts = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, sampled) in lines.iter().enumerate() {
        if index == 0 || !seen.insert(&sampled.gpu) {
            firsts.push(index);
            seen = BTreeSet::from([sampled.gpu.as_str()]);
        }
    }
    firsts
}

/// The same where no column says which GPU it is: lines of a sample follow each other faster than samples do.
/// GPUs are numbered as they stand in a sample.
fn by_time(lines: &mut [Sampled]) -> Result<Vec<usize>, Wrong> {
    /// Samples of one GPU are no more uneven than that.
    const UNEVEN: f64 = 3.0;
    /// Times are written to that.
    const LEAST: f64 = 1e-3;
    let gaps = lines
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).max(LEAST));
    let gaps: Vec<f64> = gaps.collect();
    let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    let between = match longest > UNEVEN * shortest {
        true => (longest * shortest).sqrt(),
        false => 0.0,
    };
    let begins = |&index: &usize| index == 0 || gaps[index - 1] > between;
    let firsts: Vec<usize> = (0..lines.len()).filter(begins).collect();
    let gpus = firsts.get(1).copied().unwrap_or(lines.len());
    for (number, &first) in firsts.iter().enumerate() {
        let next = firsts.get(number + 1).copied().unwrap_or(lines.len());
        let is_last = next == lines.len();
        // The last sample may have been cut off.
        if next - first > gpus || (next - first < gpus && !is_last) {
            let found = format!(
                "{} at about the same time, after {gpus} before",
                next - first
            );
            let expected = "as many of each sample, or a column index that tells GPUs apart";
            return Err(Wrong::new(lines[first].line, found, expected));
        }
        for (gpu, sampled) in lines[first..next].iter_mut().enumerate() {
            sampled.gpu = gpu.to_string();
        }
    }
    Ok(firsts)
}

/// All GPUs of a sample are looked at when its first one is.
fn points_of(lines: &[Sampled], firsts: &[usize]) -> Vec<Point> {
    let mut points = Vec::new();
    let ends = firsts.iter().skip(1).copied().chain([lines.len()]);
    for (&first, next) in firsts.iter().zip(ends) {
        for sampled in &lines[first..next] {
            points.extend(sampled.values.iter().map(|&(metric, value)| Point {
                metric,
                entity: sampled.gpu.clone(),
                at: lines[first].at,
                since: None,
                value,
                line: sampled.line,
            }));
        }
    }
    points
}
