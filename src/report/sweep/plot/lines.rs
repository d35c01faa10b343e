//! Lines and marks.

use super::values::{level_axis, metric_axis, places, span};
use super::{PlotSpec, View};
use crate::chart::{Chart, Mark, PALETTE, Series, Style};
use crate::metrics::label;
use crate::sweep::effects::Placed;
use crate::sweep::levels::{Axis, Kind};
use std::collections::BTreeMap;

/// More lines are a tangle.
const MAX_LINES: usize = 14;

/// Marks of lines, so that colour is not needed to tell them apart.
const MARKS: [Mark; 4] = [Mark::Circle, Mark::Triangle, Mark::Square, Mark::Cross];

/// What stands along x.
enum Across<'p> {
    /// Levels of an axis, and where each stands.
    Levels(&'p Axis, Vec<(usize, f64)>),
    /// A metric.
    Metric(&'p str),
}

impl Across<'_> {
    fn place(&self, placed: &Placed<'_>) -> Option<f64> {
        match self {
            Across::Levels(axis, places) => {
                let level = axis.level_of(placed.point, placed.row)?;
                let place = places.iter().find(|(index, _)| *index == level);
                place.map(|&(_, at)| at)
            }
            Across::Metric(metric) => placed.row.metrics.number(metric),
        }
    }

    /// Points with different values of a metric are not one line.
    fn is_line(&self) -> bool {
        !matches!(self, Across::Metric(metric) if *metric != "bytes")
    }
}

pub(super) fn lines(view: &View<'_>, spec: &PlotSpec) -> Option<Chart> {
    let across = match view.axis(&spec.x) {
        Some(axis) => Across::Levels(axis, places(axis)),
        None => Across::Metric(&spec.x),
    };
    let by = spec.by.as_deref().and_then(|name| view.axis(name));
    let mut found = points(view, spec, (&across, by));
    let left_out = found.len().saturating_sub(MAX_LINES);
    while found.len() > MAX_LINES {
        found.pop_last();
    }
    let all = || found.values().flatten();
    let (y, factor_y) = metric_axis(&spec.y, span(all().map(|point| point.1))?);
    let (x, factor_x) = match &across {
        Across::Levels(axis, _) => (level_axis(axis), 1.0),
        Across::Metric(metric) => metric_axis(metric, span(all().map(|point| point.0))?),
    };
    let several = found.len() > 1;
    let series = found
        .iter()
        .enumerate()
        .flat_map(|(number, (level, points))| {
            let line = Series {
                label: None,
                colour: PALETTE[number % PALETTE.len()],
                style: Style::Line,
                points: points
                    .iter()
                    .map(|&(x, y)| (x * factor_x, y * factor_y))
                    .collect(),
            };
            let name = by.filter(|_| several).zip(*level);
            let marks = Series {
                label: name.map(|(axis, level)| axis.named(level)),
                style: Style::Marks(MARKS[number % MARKS.len()]),
                ..line.clone()
            };
            [across.is_line().then_some(line), Some(marks)]
        });
    let mut shown = vec![spec.x.as_str()];
    shown.extend(by.map(|axis| axis.name.as_str()));
    if spec.x == "bytes" {
        let sizes = view
            .axes
            .iter()
            .filter(|axis| axis.kind() == Some(Kind::Size));
        shown.extend(sizes.map(|axis| axis.name.as_str()));
    }
    if !across.is_line() {
        // Each row has a mark of its own.
        shown.extend(view.axes.iter().map(|axis| axis.name.as_str()));
    }
    let mut notes: Vec<String> = Vec::new();
    let drawn = if across.is_line() { "lines" } else { "marks" };
    notes.extend(
        by.filter(|_| several)
            .map(|axis| format!("{drawn}: {}", axis.name)),
    );
    if left_out > 0 {
        notes.push(format!("{left_out} more not shown"));
    }
    let first = (!notes.is_empty()).then(|| notes.join(", "));
    Some(Chart {
        title: format!(
            "{}: {} by {}",
            view.info.name,
            label(&spec.y),
            label(&spec.x)
        ),
        subtitle: view.notes(first, &shown),
        x,
        y,
        series: series.flatten().collect(),
    })
}

/// The points of each line, by the level that it stands for, from left to right. Rows come best first,
/// so that the first at a place is the best there.
fn points(
    view: &View<'_>,
    spec: &PlotSpec,
    (across, by): (&Across<'_>, Option<&Axis>),
) -> BTreeMap<Option<usize>, Vec<(f64, f64)>> {
    let mut found: BTreeMap<Option<usize>, Vec<(f64, f64)>> = BTreeMap::new();
    for placed in &view.rows {
        let level = by.map(|axis| axis.level_of(placed.point, placed.row));
        // Rows that are not on the axis of the lines are on none of them.
        if level == Some(None) {
            continue;
        }
        let y = placed.row.metrics.number(&spec.y);
        let Some((x, y)) = across.place(placed).zip(y) else {
            continue;
        };
        let points = found.entry(level.flatten()).or_default();
        if !across.is_line() || !points.iter().any(|point| point.0 == x) {
            points.push((x, y));
        }
    }
    for points in found.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    found
}
