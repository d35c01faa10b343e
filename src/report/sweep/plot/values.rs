//! Axes of plots for metrics and for the levels of a sweep's axes.

use crate::chart::{Axis, Scale};
use crate::metrics::label;
use crate::numbers::{micros_mark, trimmed};
use crate::sweep::levels::{Axis as Levels, Kind};

/// Values that span more than so many times are laid out by their logarithms.
pub(super) const LOG: f64 = 30.0;

/// The least and the largest of some numbers.
pub(crate) fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |span, value| match span {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// Whether values from `low` to `high` are laid out by their logarithms.
pub(super) fn is_log((low, high): (f64, f64)) -> bool {
    low > 0.0 && high > low * LOG
}

/// What a metric is multiplied with to be read, and its unit then; `most` is its largest value.
pub(super) fn unit(metric: &str, most: f64) -> (f64, &'static str) {
    match metric {
        _ if metric.ends_with("_us") => match most {
            v if v < 1.0 => (1e3, "ns"),
            v if v < 1e3 => (1.0, "µs"),
            v if v < 1e6 => (1e-3, "ms"),
            _ => (1e-6, "s"),
        },
        _ if metric.ends_with("_gbs") => (1.0, "GB/s"),
        _ if metric.ends_with("_gib") => (1.0, "GiB"),
        _ if metric.ends_with("_share") => (100.0, "%"),
        "mfu" | "hfu" | "goodput" => (100.0, "%"),
        _ if most >= 1e7 => (1e-6, "millions"),
        _ if most >= 1e4 => (1e-3, "thousands"),
        _ => (1.0, ""),
    }
}

/// What a metric is called beside an axis.
pub(super) fn with_unit(metric: &str, unit: &str) -> String {
    match unit {
        "" => label(metric).to_owned(),
        unit => format!("{}, {unit}", label(metric)),
    }
}

/// The axis of a metric, and what its values are multiplied with.
pub(crate) fn metric_axis(metric: &str, span: (f64, f64)) -> (Axis, f64) {
    let (low, high) = span;
    if metric == "bytes" {
        return (Axis::sizes("size", low, high), 1.0);
    }
    if is_log(span) {
        let axis = match metric.ends_with("_us") {
            true => Axis::ratios(label(metric), low, high, micros_mark),
            false => {
                let (factor, unit) = unit(metric, high);
                let text = |value: f64| trimmed(value, 3);
                let named = with_unit(metric, unit);
                return (
                    Axis::ratios(&named, low * factor, high * factor, text),
                    factor,
                );
            }
        };
        return (axis, 1.0);
    }
    let (factor, unit) = unit(metric, high);
    let (low, high) = (low * factor, high * factor);
    let named = with_unit(metric, unit);
    // What differs little is not drawn from 0.
    let axis = match low > 0.6 * high && high > low {
        true => Axis::between(&named, low, high),
        false => Axis::linear(&named, high),
    };
    (axis, factor)
}

/// Where the levels of an axis stand, in the order of their places: numbers at their values, others
/// side by side.
pub(super) fn places(levels: &Levels) -> Vec<(usize, f64)> {
    let numeric = levels.kind().is_some();
    let place = |(index, level): (usize, &crate::sweep::levels::Level)| match level.number {
        Some((_, number)) if numeric => (index, number),
        _ => (index, index as f64),
    };
    let mut places: Vec<(usize, f64)> = levels.levels.iter().enumerate().map(place).collect();
    places.sort_by(|a, b| a.1.total_cmp(&b.1));
    places
}

/// The axis of the levels of a sweep's axis.
pub(super) fn level_axis(levels: &Levels) -> Axis {
    let places = places(levels);
    let marks = places
        .iter()
        .map(|&(index, at)| (at, levels.levels[index].shown()));
    let marks: Vec<(f64, String)> = marks.collect();
    match levels.kind() {
        None => Axis::named(&levels.name, marks.into_iter().map(|(_, text)| text)),
        Some(kind) => {
            let ends = span(places.iter().map(|place| place.1)).unwrap_or((0.0, 1.0));
            let scale = match is_log(ends) || kind == Kind::Size && ends.0 > 0.0 {
                true => Scale::Log,
                false => Scale::Linear,
            };
            Axis::marked(&levels.name, marks, scale)
        }
    }
}
