//! Jobs that ran at once, as rows of a table and lines of a comparison.

use super::record::{ConcurrentJob, ConcurrentResult, ConcurrentRow};
use crate::lines::{Better, Line, Table};
use crate::numbers::{micros, size};
use crate::summary::{JobResult, Summary, Variant};
use crate::table::STRONG;
use crate::text_table::{Cell, ERROR, Out, cell, left, right};

/// Jobs that ran at once: each beside what it takes by itself.
pub(crate) fn concurrent_text(summary: &Summary, result: &ConcurrentResult, out: &mut Out) {
    out.text.push('\n');
    if !summary.answer.is_empty() {
        out.line(&summary.answer, STRONG);
    }
    if let Some(error) = &result.failed {
        out.line(&format!("failed: {error}"), ERROR);
        return;
    }
    out.heading("Jobs at once");
    let (heading, rows) = rows(&result.jobs);
    let columns: Vec<_> = (0..heading.len())
        .map(|column| match column {
            3..=7 => right(heading[column]),
            _ => left(heading[column]),
        })
        .collect();
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|row| row.into_iter().map(cell).collect())
        .collect();
    out.table(&columns, &rows);
}

/// The heading of a table of jobs, and its rows: a line a job, and of several sizes or steps one for
/// each below it.
pub(crate) fn rows(jobs: &[ConcurrentJob]) -> ([&'static str; 9], Vec<[String; 9]>) {
    let heading = [
        "job",
        "what",
        "GPUs",
        "start",
        "end",
        "time",
        "by itself",
        "slowdown",
        "longest shared link",
    ];
    let mut rows = Vec::new();
    for job in jobs {
        let shared = job.shared.as_ref();
        rows.push([
            job.name.clone(),
            job.what.clone(),
            gpus(job),
            micros(job.start_us),
            micros(job.end_us),
            micros(job.time_us),
            micros(job.alone_us),
            times(job.slowdown),
            shared.map_or_else(
                || "none".to_owned(),
                |s| format!("{}, with {}", s.link, s.with.join(", ")),
            ),
        ]);
        if job.rows.len() < 2 {
            continue;
        }
        for row in &job.rows {
            let mut cells: [String; 9] = Default::default();
            cells[1] = format!("  {}", name(row));
            cells[5] = micros(row.time_us);
            cells[6] = micros(row.alone_us);
            cells[7] = times(row.slowdown);
            rows.push(cells);
        }
    }
    (heading, rows)
}

/// Its GPUs, and with whom it takes turns on them.
fn gpus(job: &ConcurrentJob) -> String {
    match &job.shared_gpus {
        None => job.gpus.clone(),
        Some(shared) if shared.gpus == job.gpus => {
            format!("{}, with {}", job.gpus, shared.with.join(", "))
        }
        Some(shared) => format!(
            "{}; {} with {}",
            job.gpus,
            shared.gpus,
            shared.with.join(", ")
        ),
    }
}

fn name(row: &ConcurrentRow) -> String {
    if let Some(what) = &row.what {
        return what.clone();
    }
    match (row.bytes, row.step) {
        (Some(bytes), _) => size(bytes as f64),
        (None, Some(step)) => format!("step {step}"),
        (None, None) => String::new(),
    }
}

fn times(slowdown: f64) -> String {
    format!("{slowdown:.2} ×")
}

/// What variants with jobs that ran at once are compared by: when all ended, and of each job its time
/// and its slowdown.
pub(crate) fn lines(variants: &[&Variant]) -> Vec<Line> {
    let table = Table { variants };
    let end = |variant: &Variant| {
        let result = variant.job.concurrent()?;
        result.failed.is_none().then_some(result.end_us)
    };
    let mut lines = vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        table.line("end of all", Better::Less, micros, end),
    ];
    let mut names: Vec<&str> = Vec::new();
    for job in variants.iter().flat_map(|v| jobs(&v.job)) {
        if !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    for name in names {
        let of = |variant: &Variant, value: fn(&ConcurrentJob) -> f64| {
            let mut all = jobs(&variant.job).iter();
            all.find(|job| job.name == name).map(value)
        };
        let line = |what: &str, text: fn(f64) -> String, value: fn(&ConcurrentJob) -> f64| {
            let what = format!("{name}: {what}");
            table.line(&what, Better::Less, text, |v| of(v, value))
        };
        lines.push(line("time", micros, |job| job.time_us));
        lines.push(line("by itself", micros, |job| job.alone_us));
        lines.push(line("slowdown", times, |job| job.slowdown));
    }
    lines
}

fn jobs(job: &JobResult) -> &[ConcurrentJob] {
    job.concurrent().map_or(&[], |result| &result.jobs)
}
