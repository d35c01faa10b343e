//! Heat maps.

use super::values::{is_log, places, span, unit, with_unit};
use super::{PlotSpec, View};
use crate::chart::{HeatMap, Side};
use crate::metrics::{is_less_better, label, shown};
use crate::numbers::three_digits;
use crate::sweep::levels::Axis;

pub(super) fn map(view: &View<'_>, spec: &PlotSpec) -> Option<HeatMap> {
    let metric = spec.color.as_ref().unwrap_or(&view.info.objective);
    let (x, y) = (view.axis(&spec.x)?, view.axis(&spec.y)?);
    let (columns, mut rows) = (places(x), places(y));
    // Numbers grow upwards; names are read downwards.
    if y.kind().is_some() {
        rows.reverse();
    }
    let mut cells: Vec<Option<f64>> = vec![None; columns.len() * rows.len()];
    for placed in &view.rows {
        let level = |axis: &Axis| axis.level_of(placed.point, placed.row);
        let place = |places: &[(usize, f64)], level| places.iter().position(|p| p.0 == level);
        let at = level(x).and_then(|level| place(&columns, level));
        let at = at.zip(level(y).and_then(|level| place(&rows, level)));
        let Some((column, row)) = at else { continue };
        // Rows come best first: the first is the best there.
        let cell = &mut cells[row * columns.len() + column];
        *cell = cell.or(placed.row.metrics.number(metric));
    }
    let ends = span(cells.iter().flatten().copied())?;
    let (factor, unit) = unit(metric, ends.1);
    let texts = cells.iter();
    let texts = texts.map(|cell| cell.map(|value| three_digits(value * factor)));
    let side = |axis: &Axis, places: &[(usize, f64)]| Side {
        label: axis.name.clone(),
        names: places.iter().map(|p| axis.levels[p.0].shown()).collect(),
    };
    let log = is_log(ends);
    let (low, high) = match log {
        true => (ends.0.ln(), ends.1.ln()),
        false => ends,
    };
    let less = is_less_better(metric);
    let shade = |value: f64| {
        let value = if log { value.ln() } else { value };
        let part = if high > low {
            (value - low) / (high - low)
        } else {
            1.0
        };
        if less { 1.0 - part } else { part }
    };
    let (worst, best) = if less { (ends.1, ends.0) } else { ends };
    let named = [spec.x.as_str(), spec.y.as_str()];
    Some(HeatMap {
        title: format!(
            "{}: {} by {} and {}",
            view.info.name,
            label(metric),
            spec.x,
            spec.y
        ),
        subtitle: view.notes(None, &named),
        x: side(x, &columns),
        y: side(y, &rows),
        cells: cells
            .iter()
            .zip(texts)
            .map(|(cell, text)| Some((shade((*cell)?), text?)))
            .collect(),
        scale: with_unit(metric, unit),
        ends: (shown(metric, worst), shown(metric, best)),
    })
}
