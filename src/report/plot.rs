//! The plots of a run: bus bandwidth and time over size, link use over time.

use super::chart::{Axis, Chart, GREY, Mark, PALETTE, Series, Style, draw_svg};
use super::record::{Row, Timeline};
use super::results::Results;
use super::summary::{CollectiveView, Summary};
use super::{ReportError, bins, numbers};

/// The plot of `bandwidth.svg`: bus bandwidth over size, or the use of links over time
/// if there is one size and it was traced.
///
/// # Errors
/// What drawing gives.
pub fn bandwidth_svg(view: CollectiveView<'_>, timeline: &Timeline) -> Result<String, ReportError> {
    draw_svg(&main_chart(view, timeline))
}

/// The one chart that stands for a run: of a collective its bandwidth, of several those of all; of
/// other jobs none.
pub(super) fn chart_of(results: &Results) -> Option<Chart> {
    if let Some(view) = results.summary.only_collective() {
        let empty = Timeline::default();
        let timeline = results.collective_record(&view.variant.name);
        return Some(main_chart(
            view,
            timeline.map_or(&empty, |(timeline, _)| timeline),
        ));
    }
    let several = results.summary.collectives().next().is_some();
    several.then(|| bandwidths(&results.summary))
}

/// The charts of collectives that are compared: bus bandwidth and time over size; none of one
/// size.
pub(super) fn compared(summary: &Summary) -> Vec<Chart> {
    if summary.collectives().any(has_sizes) {
        vec![bandwidths(summary), times(summary)]
    } else {
        Vec::new()
    }
}

/// Bus bandwidth over size of all variants.
fn bandwidths(summary: &Summary) -> Chart {
    let series = variants(summary, |row| row.busbw_gbs);
    let most = highest(&series);
    Chart {
        title: format!("{}: bus bandwidth by size", named(summary)),
        subtitle: summary.title.clone(),
        x: sizes_of(summary),
        y: Axis::linear("bus bandwidth, GB/s", if most > 0.0 { most } else { 1.0 }),
        series,
    }
}

/// Time over size of all variants.
fn times(summary: &Summary) -> Chart {
    let series = variants(summary, |row| row.time_us);
    let values = series.iter().flat_map(|series| &series.points);
    let values = values.map(|point| point.1).filter(|value| *value > 0.0);
    let least = values.fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least } else { 1.0 };
    let most = highest(&series).max(least);
    Chart {
        title: format!("{}: time by size", named(summary)),
        subtitle: summary.title.clone(),
        x: sizes_of(summary),
        y: Axis::decades("time", least, most, numbers::micros_mark),
        series,
    }
}

fn highest(series: &[Series]) -> f64 {
    let points = series.iter().flat_map(|series| &series.points);
    points.map(|point| point.1).fold(0.0, f64::max)
}

/// The collective, if all variants have the same.
fn named(summary: &Summary) -> &str {
    let mut names = summary
        .collectives()
        .map(|view| view.result.collective.as_str());
    let first = names.next().unwrap_or_default();
    if names.all(|name| name == first) {
        first
    } else {
        "collectives"
    }
}

fn sizes_of(summary: &Summary) -> Axis {
    let rows = || summary.collectives().flat_map(|view| &view.result.rows);
    let sizes = || rows().map(|row| row.bytes as f64);
    let (min, max) = (
        sizes().fold(f64::INFINITY, f64::min),
        sizes().fold(1.0, f64::max),
    );
    Axis::sizes("size", min.min(max), max)
}

/// Marks of variants, so that colour is not needed to tell them apart.
const MARKS: [Mark; 4] = [Mark::Circle, Mark::Triangle, Mark::Square, Mark::Cross];

/// A curve for each variant, with its marks.
fn variants(summary: &Summary, value: impl Fn(&Row) -> f64) -> Vec<Series> {
    let series = summary.collectives().enumerate().flat_map(|(index, view)| {
        let rows = view.result.rows.iter();
        let line = Series {
            label: None,
            colour: PALETTE[index % PALETTE.len()],
            style: Style::Line,
            points: rows.map(|row| (row.bytes as f64, value(row))).collect(),
        };
        let marks = Series {
            label: Some(view.variant.name.clone()),
            style: Style::Marks(MARKS[index % MARKS.len()]),
            ..line.clone()
        };
        [line, marks]
    });
    series.collect()
}

/// All the plots that a run and its `timeline` have data for, as SVG, for the page.
pub(super) fn all_svg(
    view: CollectiveView<'_>,
    timeline: &Timeline,
) -> Result<Vec<String>, ReportError> {
    let mut plots = Vec::new();
    if has_sizes(view) {
        plots.push(draw_svg(&bandwidth(view))?);
        plots.push(draw_svg(&time(view))?);
    }
    if !timeline.links.is_empty() {
        plots.push(draw_svg(&link_use(view, timeline))?);
    }
    Ok(plots)
}

fn main_chart(view: CollectiveView<'_>, timeline: &Timeline) -> Chart {
    if has_sizes(view) || timeline.links.is_empty() {
        bandwidth(view)
    } else {
        link_use(view, timeline)
    }
}

/// Whether there is a curve over sizes to show.
fn has_sizes(view: CollectiveView<'_>) -> bool {
    let first = view.result.rows.first().map(|row| row.bytes);
    view.result.rows.iter().any(|row| Some(row.bytes) != first)
}

fn subtitle(view: CollectiveView<'_>) -> String {
    let ranks = match (view.result.ranks, view.variant.nodes) {
        (1, _) => "1 GPU".to_owned(),
        (ranks, 1) => format!("{ranks} GPUs in 1 node"),
        (ranks, nodes) => format!("{ranks} GPUs in {nodes} nodes"),
    };
    format!("{}, {ranks}", view.variant.topology_title)
}

fn size_axis(view: CollectiveView<'_>) -> Axis {
    let sizes = || view.result.rows.iter().map(|row| row.bytes as f64);
    let min = sizes().fold(f64::INFINITY, f64::min);
    let max = sizes().fold(1.0, f64::max);
    Axis::sizes("size", min.min(max), max)
}

/// Linear in bandwidth, as such curves are shown everywhere; small sizes, which vanish
/// there, are what the logarithmic plot of the time is for.
fn bandwidth(view: CollectiveView<'_>) -> Chart {
    // busbw / algbw is the collective's own factor, so that bounds are comparable.
    let bound = |row: &Row, us: f64| {
        let factor = row.busbw_gbs / row.algbw_gbs;
        row.bytes as f64 / (us * 1e3) * factor
    };
    let value = |row: &Row| row.busbw_gbs;
    // As much more as it takes less time; not a number if there are no faults.
    let healthy = |row: &Row| row.busbw_gbs * row.time_us / row.healthy_us.unwrap_or(f64::NAN);
    let series = over_sizes(view, value, bound, healthy);
    let shown = series.iter().flat_map(|series| &series.points);
    let max = shown.map(|point| point.1).fold(0.0, f64::max);
    Chart {
        title: format!("{}: bus bandwidth by size", view.result.collective),
        subtitle: subtitle(view),
        x: size_axis(view),
        y: Axis::linear("bus bandwidth, GB/s", if max > 0.0 { max } else { 1.0 }),
        series,
    }
}

fn time(view: CollectiveView<'_>) -> Chart {
    let value = |row: &Row| row.time_us;
    let bound = |_: &Row, us: f64| us;
    let healthy = |row: &Row| row.healthy_us.unwrap_or(f64::NAN);
    let series = over_sizes(view, value, bound, healthy);
    let shown = || {
        let points = series.iter().flat_map(|series| &series.points);
        points.map(|point| point.1).filter(|value| *value > 0.0)
    };
    // The limit of a tiny message is far below any real time, and may leave the frame.
    let fastest = view
        .result
        .rows
        .iter()
        .map(value)
        .filter(|time| *time > 0.0);
    let floor = fastest.fold(f64::INFINITY, f64::min) / 20.0;
    let min = shown().fold(f64::INFINITY, f64::min).max(floor);
    let max = shown().fold(0.0, f64::max);
    let min = if min.is_finite() { min } else { 1.0 };
    let y = Axis::decades("time", min, max, numbers::micros_mark);
    let lowest = 10f64.powf(min.log10().floor());
    let series = series.into_iter().map(|mut series| {
        series.points.retain(|point| point.1 >= lowest);
        series
    });
    Chart {
        title: format!("{}: time by size", view.result.collective),
        subtitle: subtitle(view),
        x: size_axis(view),
        y,
        series: series.collect(),
    }
}

/// The curve, a mark for each row by algorithm and protocol, the bounds (`bound` makes a value of one
/// in microseconds), and what it would be without faults.
fn over_sizes(
    view: CollectiveView<'_>,
    value: impl Fn(&Row) -> f64,
    bound: impl Fn(&Row, f64) -> f64,
    healthy: impl Fn(&Row) -> f64,
) -> Vec<Series> {
    let points = |of: &dyn Fn(&Row) -> f64| -> Vec<(f64, f64)> {
        let rows = view
            .result
            .rows
            .iter()
            .map(|row| (row.bytes as f64, of(row)));
        rows.filter(|point| point.1.is_finite() && point.1 > 0.0)
            .collect()
    };
    let in_switches = |row: &Row| bound(row, row.bound_us);
    let plain = |row: &Row| bound(row, row.bound_plain_us);
    let (label, plain) = if bounds_differ(view) {
        (BOUND_IN_SWITCHES, points(&plain))
    } else {
        (BOUND, Vec::new())
    };
    let mut series = vec![
        Series {
            label: Some(label.to_owned()),
            colour: GREY,
            style: Style::Dashed,
            points: points(&in_switches),
        },
        Series {
            label: Some(BOUND_PLAIN.to_owned()),
            colour: PALETTE[3],
            style: Style::Dashed,
            points: plain,
        },
        Series {
            label: Some("without faults".to_owned()),
            colour: PALETTE[5],
            style: Style::Line,
            points: points(&healthy),
        },
        Series {
            label: None,
            colour: GREY,
            style: Style::Thin,
            points: points(&value),
        },
    ];
    series.retain(|series| !series.points.is_empty());
    let mut choices: Vec<(&str, &str)> = Vec::new();
    for row in &view.result.rows {
        let choice = (row.algo.as_str(), row.proto.as_str());
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    for (index, choice) in choices.into_iter().enumerate() {
        let rows = view.result.rows.iter();
        let chosen = rows.filter(|row| (row.algo.as_str(), row.proto.as_str()) == choice);
        series.push(Series {
            label: Some(format!("{}, {}", choice.0, protocol_name(choice.1))),
            colour: PALETTE[index % PALETTE.len()],
            style: Style::Marks(protocol_mark(choice.1)),
            points: chosen.map(|row| (row.bytes as f64, value(row))).collect(),
        });
    }
    series
}

const BOUND: &str = "bound of the machine";
const BOUND_IN_SWITCHES: &str = "bound, sums in switches";
const BOUND_PLAIN: &str = "bound, sums in GPUs";

/// Whether sums in switches make a difference to what is possible.
pub(super) fn bounds_differ(view: CollectiveView<'_>) -> bool {
    view.result
        .rows
        .iter()
        .any(|row| row.bound_plain_us > row.bound_us)
}

/// As NCCL writes protocols.
pub(super) fn protocol_name(proto: &str) -> &str {
    match proto {
        "ll" => "LL",
        "ll128" => "LL128",
        "simple" => "Simple",
        other => other,
    }
}

fn protocol_mark(proto: &str) -> Mark {
    match proto {
        "simple" => Mark::Circle,
        "ll128" => Mark::Triangle,
        "ll" => Mark::Square,
        _ => Mark::Cross,
    }
}

/// How many families of links a plot shows: more lines than that are a tangle.
const FAMILIES: usize = 4;

fn link_use(view: CollectiveView<'_>, timeline: &Timeline) -> Chart {
    let families = bins::families(timeline);
    let shown = families.len().min(FAMILIES);
    let end = (0..bins::count(timeline))
        .map(|bin| bins::span(timeline, bin).1)
        .fold(timeline.end, std::cmp::max);
    let (per_unit, unit) = match end.picos() {
        0..2_000_000 => (1e3, "ns"),
        2_000_000..2_000_000_000 => (1e6, "µs"),
        2_000_000_000..2_000_000_000_000 => (1e9, "ms"),
        _ => (1e12, "s"),
    };
    let at = |time: fabricsim_units::Time| time.picos() as f64 / per_unit;
    let steps = |values: &[f64]| -> Vec<(f64, f64)> {
        let bins = values.iter().enumerate();
        bins.flat_map(|(bin, value)| {
            let (start, end) = bins::span(timeline, bin);
            [(at(start), value * 100.0), (at(end), value * 100.0)]
        })
        .collect()
    };
    let mut series = Vec::new();
    for (index, family) in families.iter().take(FAMILIES).enumerate() {
        let colour = PALETTE[index % PALETTE.len()];
        series.push(Series {
            label: Some(match family.links {
                1 => family.name.to_owned(),
                links => format!("{}: busiest of {links} links", family.name),
            }),
            colour,
            style: Style::Line,
            points: steps(&family.max),
        });
        if family.links > 1 {
            series.push(Series {
                label: Some(format!("{}: mean", family.name)),
                colour,
                style: Style::Dashed,
                points: steps(&family.mean),
            });
        }
    }
    let values = series.iter().flat_map(|series| &series.points);
    let max = values.map(|point| point.1).fold(100.0, f64::max);
    let size = view
        .result
        .traced_row
        .and_then(|row| view.result.rows.get(row))
        .map_or_else(String::new, |row| {
            format!(" of {}", numbers::size(row.bytes as f64))
        });
    let omitted = match families.len() - shown {
        0 => String::new(),
        more => format!("; {more} less busy kinds of link not shown"),
    };
    Chart {
        title: format!(
            "{}{size}: use of the links over time",
            view.result.collective
        ),
        subtitle: format!("{}{omitted}", subtitle(view)),
        x: Axis::linear_to(&format!("time, {unit}"), at(end)),
        y: Axis::linear("link utilisation, %", max),
        series,
    }
}
