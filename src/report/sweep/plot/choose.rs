//! The plot that is shown if none is asked for.

use super::PlotSpec;
use crate::sweep::effects::effects;
use crate::sweep::info::SweepInfo;
use crate::sweep::levels::Axis;
use crate::sweep::row::PointRow;

/// Two axes with so many numbers each are a heat map.
const MAP: usize = 4;

/// What the sweep's file asks for; else the objective over the axis with the most numbers, a line for
/// each value of the axis that changes it most, or a heat map over two axes with many numbers.
#[must_use]
pub fn chosen_plot(info: &SweepInfo, points: &[PointRow]) -> PlotSpec {
    if let Some(plot) = info.plot() {
        return plot;
    }
    let axes: Vec<Axis> = Axis::all(&info.axes, points);
    let varying = || axes.iter().filter(|axis| axis.varies());
    let numbers = |axis: &Axis| axis.kind().map_or(0, |_| axis.levels.len());
    let mut numeric: Vec<&Axis> = varying().filter(|axis| numbers(axis) > 0).collect();
    // Of two with as many the first: sorting keeps their order.
    numeric.sort_by_key(|axis| std::cmp::Reverse(numbers(axis)));
    if let [x, y, ..] = numeric.as_slice()
        && numbers(y) >= MAP
    {
        return PlotSpec {
            x: x.name.clone(),
            y: y.name.clone(),
            by: None,
            color: Some(info.objective.clone()),
        };
    }
    // Several sizes of one point are an axis, too.
    let sizes = points.iter().any(|point| {
        point
            .rows
            .iter()
            .filter(|r| r.metrics.bytes.is_some())
            .count()
            > 1
    });
    let first = numeric.first().copied().or_else(|| varying().next());
    let x = match (sizes, first.or(axes.first())) {
        (false, Some(axis)) => axis.name.clone(),
        (true, _) | (false, None) => "bytes".to_owned(),
    };
    let effects = effects(&info.axes, points, &info.objective);
    let mut by = effects.into_iter().map(|effect| effect.axis);
    let by = by.find(|axis| *axis != x);
    PlotSpec {
        by: by.or_else(|| varying().map(|a| a.name.clone()).find(|name| *name != x)),
        x,
        y: info.objective.clone(),
        color: None,
    }
}
