//! Tables for a terminal, and rows as CSV.
//!
//! The table of a collective has the columns, widths and number formats of nccl-tests,
//! so that eyes and scripts used to those find them; our own columns follow.

use super::ReportError;
use super::columns::Layout;
use super::numbers::percent;
use super::published::Fall;
use super::record::{Attribution, LinkUse, Part, Row};
use super::recorded::{link_count, recorded_sentence, with_others};
use super::summary::CollectiveView;
use anstyle::{AnsiColor, Style};
use fabricsim_units::Time;
use std::fmt::Write;

pub(super) const HEADER: Style = Style::new().dimmed();
pub(super) const STRONG: Style = Style::new().bold();
pub(super) const BAR: Style = AnsiColor::Blue.on_default();

/// The cells of a full bar.
const BAR_WIDTH: usize = 30;

/// `text`, in `style` if colours are wanted.
pub(super) fn paint(text: &str, style: Style, colour: bool) -> String {
    if colour {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// The rows of `summary` in nccl-tests' layout, with algorithm, protocol, channels, the
/// topology's bound and the bottleneck; lines that start with `#` are not data.
#[must_use]
pub fn collective_table(view: CollectiveView<'_>, colour: bool) -> String {
    let mut out = table_header(view, None, colour);
    for row in &view.result.rows {
        out.push_str(&table_row(view, row, None, colour));
    }
    out.push_str(&table_footer(view, colour));
    out
}

/// The lines above the rows, for printing rows one by one as they come (then the column
/// of the algorithm is as wide as the rows in `summary` ask for, at least 10). With a `width` of lines,
/// here and below, only columns that fit it.
#[must_use]
pub fn table_header(view: CollectiveView<'_>, width: Option<usize>, colour: bool) -> String {
    let gpus = match (view.variant.nodes, view.result.gpus_per_node) {
        (1, 1) => "1 GPU in one node".to_owned(),
        (1, gpus) => format!("{gpus} GPUs in one node"),
        (nodes, gpus) => format!(
            "{} GPUs, {gpus} in each of {nodes} nodes",
            view.result.ranks
        ),
    };
    let [names, units] = Layout::of(view, width).heading();
    let lines = [
        format!(
            "# fabricsim {}, seed {}",
            view.summary.version, view.summary.seed
        ),
        format!(
            "# {}: {} on {}",
            view.result.collective, gpus, view.variant.topology_title
        ),
        "#".to_owned(),
        names,
        units,
    ];
    lines
        .iter()
        .map(|line| paint(line.trim_end(), HEADER, colour) + "\n")
        .collect()
}

/// One row; `summary` gives the collective.
#[must_use]
pub fn table_row(
    view: CollectiveView<'_>,
    row: &Row,
    width: Option<usize>,
    colour: bool,
) -> String {
    Layout::of(view, width).row(view, row, colour)
}

/// The lines below the rows: nccl-tests' mean of all bus bandwidths, and the answer.
#[must_use]
pub fn table_footer(view: CollectiveView<'_>, colour: bool) -> String {
    let mut out = String::new();
    if !view.result.rows.is_empty() {
        let sum: f64 = view.result.rows.iter().map(|row| row.busbw_gbs).sum();
        let mean = sum / view.result.rows.len() as f64;
        let line = format!("# Avg bus bandwidth    : {mean:.6}");
        out += &(paint(&line, HEADER, colour) + "\n");
    }
    for fault in &view.result.faults {
        out += &(paint(&format!("# Fault                : {fault}"), HEADER, colour) + "\n");
    }
    if let Some(folded) = folded(view) {
        out += &(paint(&folded, HEADER, colour) + "\n");
    }
    if !view.result.bottleneck.is_empty() {
        let line = format!("# {}", view.result.bottleneck);
        out += &(paint(&line, STRONG, colour) + "\n");
    }
    if let Some(recorded) = &view.result.recorded {
        let line = format!("# {}", recorded_sentence(recorded));
        out += &(paint(&line, HEADER, colour) + "\n");
    }
    let beyond = view.result.beyond_tables.iter();
    let beyond = beyond.map(|rows| rows.sentence(&view.result.collective));
    for note in view.result.falls.iter().map(Fall::sentence).chain(beyond) {
        out += &(paint(&format!("# {note}"), HEADER, colour) + "\n");
    }
    for warning in &view.summary.warnings {
        let style = AnsiColor::Yellow.on_default();
        out += &(paint(&format!("# warning: {warning}"), style, colour) + "\n");
    }
    out
}

/// Which columns did not fit, and in which document they are; nothing if all did.
#[must_use]
pub fn table_left_out(
    view: CollectiveView<'_>,
    width: Option<usize>,
    document: &str,
    colour: bool,
) -> String {
    let left_out = Layout::of(view, width).left_out(view);
    let (Some(width), false) = (width, left_out.is_empty()) else {
        return String::new();
    };
    let lines = [
        format!("# Left out, for lines have {width} characters ({document}):"),
        format!("#   {}", left_out.join(", ")),
    ];
    lines
        .map(|line| paint(&line, HEADER, colour) + "\n")
        .concat()
}

/// How many ranks stood for all of them, at the size for which these were most.
fn folded(view: CollectiveView<'_>) -> Option<String> {
    let row = view.result.rows.iter().max_by_key(|row| row.rank_classes)?;
    let (ranks, classes) = (view.result.ranks, row.rank_classes);
    let text = || match classes {
        1 => format!("# Simulated            : 1 rank, which stands for all {ranks}"),
        _ => format!("# Simulated            : {classes} ranks, which stand for all {ranks}"),
    };
    (classes > 0 && classes < ranks).then(text)
}

/// The rows of `summary` as CSV with a header: what was run on what, so that the rows of several
/// files can be told apart, then the fields of the JSON without the wall-clock time: two
/// runs of one spec give the same text. With faults, the last column is the time without.
///
/// # Errors
/// None that a row in memory can cause.
pub fn rows_csv(view: CollectiveView<'_>) -> Result<String, ReportError> {
    let failed = |source| ReportError::Csv {
        what: "the rows",
        source,
    };
    let mut csv = csv::Writer::from_writer(Vec::new());
    let rows = &view.result.rows;
    let faulty = rows.iter().any(|row| row.healthy_us.is_some());
    let mut head = vec![
        "topology",
        "nodes",
        "gpus",
        "gpus_per_node",
        "collective",
        "bytes",
        "count",
        "time_us",
        "algbw_gbs",
        "busbw_gbs",
        "algo",
        "proto",
        "channels",
        "bound_us",
        "bottleneck",
        "events",
        "bound_plain_us",
    ];
    head.extend(faulty.then_some("healthy_us"));
    csv.write_record(head).map_err(failed)?;
    for row in rows {
        let mut cells = vec![
            view.variant.topology.clone(),
            view.variant.nodes.to_string(),
            view.result.ranks.to_string(),
            view.result.gpus_per_node.to_string(),
            view.result.collective.clone(),
            row.bytes.to_string(),
            row.count.to_string(),
            row.time_us.to_string(),
            row.algbw_gbs.to_string(),
            row.busbw_gbs.to_string(),
            row.algo.clone(),
            row.proto.clone(),
            row.channels.to_string(),
            row.bound_us.to_string(),
            row.bottleneck.clone(),
            row.events.to_string(),
            row.bound_plain_us.to_string(),
        ];
        if faulty {
            cells.push(row.healthy_us.map_or(String::new(), |us| us.to_string()));
        }
        csv.write_record(cells).map_err(failed)?;
    }
    let bytes = csv
        .into_inner()
        .map_err(|error| failed(error.into_error().into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where the time went, as bars: of all workers together, and of the chain of events
/// that decided the end.
#[must_use]
pub fn attribution_table(attribution: &Attribution, colour: bool) -> String {
    let blocks = [
        ("critical path", &attribution.critical_path),
        ("all workers", &attribution.total),
    ];
    let parts = blocks.iter().flat_map(|(_, parts)| parts.iter());
    let width = parts.map(|part| part.what.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut out = String::new();
    for (name, parts) in blocks {
        if parts.is_empty() {
            continue;
        }
        let total: Time = parts.iter().map(|part| part.time).sum();
        let heading = format!("Where the time went: {name}, {}", total.human());
        out += &(paint(&heading, STRONG, colour) + "\n");
        for part in by_time(parts) {
            let bar = paint(&bar(part.fraction), BAR, colour);
            let (what, time) = (&part.what, part.time.human());
            let share = percent(part.fraction);
            let line = format!("  {what:<width$}  {time:>8}  {share:>6}  {bar}");
            out += &(line.trim_end().to_owned() + "\n");
        }
    }
    out
}

/// The `top` most used links: use as a bar, bytes and rate.
#[must_use]
pub fn links_table(links: &[LinkUse], top: usize, colour: bool) -> String {
    let shown = busiest(links, top);
    let names: Vec<String> = shown.iter().map(|link| with_others(link)).collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let family = shown.iter().map(|link| link.family.chars().count()).max();
    let (width, family) = (width.unwrap_or(0), family.unwrap_or(0));
    let mut out = String::new();
    let more = link_count(links) - shown.iter().map(|link| u64::from(link.alike)).sum::<u64>();
    for (link, name) in shown.into_iter().zip(names) {
        let bar = paint(&bar(link.utilisation), BAR, colour);
        let moved = super::numbers::size(link.bytes.get() as f64);
        let rate = format!("{:.1} GB/s", link.rate.gb_per_sec());
        let share = percent(link.utilisation);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "  {name:<width$}  {:<family$}  {moved:>9}  {rate:>11}  {share:>6}  {bar}{}",
            link.family,
            if link.faulty { "  faulty" } else { "" },
        );
    }
    if more > 0 {
        let _ = writeln!(out, "  and {more} more links");
    }
    out
}

/// The `top` most used links, faulty ones before all others.
pub(super) fn busiest(links: &[LinkUse], top: usize) -> Vec<&LinkUse> {
    let mut shown: Vec<&LinkUse> = links.iter().collect();
    shown.sort_by(|a, b| {
        let faulty = b.faulty.cmp(&a.faulty);
        faulty.then(b.utilisation.total_cmp(&a.utilisation))
    });
    shown.truncate(top);
    shown
}

/// The longest part first; equal ones stay in order.
pub(super) fn by_time(parts: &[Part]) -> Vec<&Part> {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.time));
    parts
}

/// A bar in eighths of a cell.
pub(super) fn bar(fraction: f64) -> String {
    let eighths = (fraction.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    bar
}
