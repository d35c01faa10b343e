//! What making communicators takes, as text and lines of a comparison.

use super::record::{CommunicatorResult, MadeCommunicator, SocketUse};
use crate::lines::{Better, Line, Table};
use crate::numbers::{grouped, seconds, size};
use crate::summary::{Summary, Variant};
use crate::table::STRONG;
use crate::text_table::{Cell, ERROR, Out, cell, left, right};

/// The columns of a table of parts, and its rows.
pub(crate) fn rows(result: &CommunicatorResult) -> ([&'static str; 4], Vec<[String; 4]>) {
    let mut rows = Vec::new();
    let mut add = |name: &str, part: &str, time_us: f64, why: String| {
        rows.push([
            name.to_owned(),
            part.to_owned(),
            seconds(time_us / 1e6),
            why,
        ]);
    };
    add(
        "",
        "start of processes",
        result.before_us,
        "imports, contexts; before any rank calls".into(),
    );
    for made in &result.communicators {
        add(&made.name, "making it", made.making_us, ranks(made));
        for part in &made.parts {
            add(
                "",
                &format!("  {}", part.part),
                part.time_us,
                part.why.clone(),
            );
        }
        if let Some(first) = &made.first {
            let ends = format!(
                "{} ends of connections inside the host, {} over networks",
                grouped(first.local_ends),
                grouped(first.network_ends)
            );
            add("", "connecting", first.connecting_us, ends);
            let what = format!(
                "first {} of {}, {}",
                first.collective,
                size(first.bytes as f64),
                first.algo
            );
            add("", "operation", first.operation_us, what);
        }
    }
    add(
        "",
        "members change",
        result.rebuild_us,
        "all given up and made again, up to the end of the first operation".into(),
    );
    (["communicator", "part", "time", "what it is"], rows)
}

fn ranks(made: &MadeCommunicator) -> String {
    let of = |count: u32, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{} {what}s", grouped(u64::from(count))),
    };
    let roots = match made.roots {
        0 => "split off".to_owned(),
        roots => of(roots, "root"),
    };
    let beside = match made.count {
        1 => String::new(),
        count => format!("; {} at once", grouped(u64::from(count))),
    };
    format!(
        "{} on {}, {roots}{beside}",
        of(made.ranks, "rank"),
        of(made.nodes, "node")
    )
}

/// Rows of what a node has of sockets, and a GPU of memory.
pub(crate) fn needs(result: &CommunicatorResult) -> Vec<[String; 3]> {
    let SocketUse {
        sockets,
        ports,
        ports_limit,
        files,
        files_limit,
    } = result.sockets;
    let mut rows = vec![
        ["sockets a node".to_owned(), grouped(sockets), String::new()],
        [
            "ports a node".to_owned(),
            grouped(ports),
            format!("of {}", grouped(ports_limit)),
        ],
        [
            "open files a process".to_owned(),
            grouped(files),
            format!("of {}", grouped(files_limit)),
        ],
    ];
    for made in result.communicators.iter().filter(|made| made.memory > 0) {
        let name = format!("buffers of {}", made.name);
        rows.push([
            name,
            size(made.memory as f64),
            "of each GPU's memory".to_owned(),
        ]);
    }
    rows
}

/// What a person wants to know of it.
pub(crate) fn communicator_text(summary: &Summary, result: &CommunicatorResult, out: &mut Out) {
    out.text.push('\n');
    if !summary.answer.is_empty() {
        out.line(&summary.answer, STRONG);
    }
    if let Some(error) = &result.failed {
        out.line(&format!("failed: {error}"), ERROR);
    }
    let cells = |row: &[String]| -> Vec<Cell> { row.iter().cloned().map(cell).collect() };
    if result.failed.is_none() {
        out.heading("What it takes");
        let (heading, rows) = rows(result);
        let columns = [
            left(heading[0]),
            left(heading[1]),
            right(heading[2]),
            left(heading[3]),
        ];
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| cells(row)).collect();
        out.table(&columns, &rows);
    }
    out.heading("What it needs");
    let rows: Vec<Vec<Cell>> = needs(result).iter().map(|row| cells(row)).collect();
    out.table(&[left(""), right(""), left("")], &rows);
}

/// What variants are compared by.
pub(crate) fn lines(variants: &[&Variant]) -> Vec<Line> {
    let table = Table { variants };
    let of = |variant: &Variant, value: fn(&CommunicatorResult) -> Option<f64>| {
        let result = variant.job.communicator()?;
        result.failed.is_none().then(|| value(result)).flatten()
    };
    let time = |micros: f64| seconds(micros / 1e6);
    let whole = |count: f64| grouped(count as u64);
    let mut lines = vec![
        Line::plain("GPUs", variants, |v| Some(v.gpus.to_string())),
        table
            .line("making communicators", Better::Less, time, |v| {
                of(v, |r| Some(r.making_us))
            })
            .headline(),
    ];
    let mut names: Vec<&str> = Vec::new();
    let results = variants.iter().filter_map(|v| v.job.communicator());
    for part in results
        .flat_map(|r| &r.communicators)
        .flat_map(|made| &made.parts)
    {
        if !names.contains(&part.part.as_str()) {
            names.push(&part.part);
        }
    }
    for name in names {
        let sum = |variant: &Variant| {
            let result = variant.job.communicator()?;
            let parts = result.communicators.iter().flat_map(|made| &made.parts);
            let own = parts
                .filter(|part| part.part == name)
                .map(|part| part.time_us);
            result.failed.is_none().then(|| own.sum())
        };
        lines.push(table.line(&format!("  {name}"), Better::Less, time, sum));
    }
    lines.push(table.line("first operation", Better::Less, time, |v| {
        of(v, |r| r.first_us)
    }));
    lines.push(table.line("members change", Better::Less, time, |v| {
        of(v, |r| Some(r.rebuild_us))
    }));
    lines.push(table.line("ports a node", Better::Less, whole, |v| {
        of(v, |r| Some(r.sockets.ports as f64))
    }));
    lines
}
