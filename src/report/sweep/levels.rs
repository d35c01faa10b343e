//! The values of a sweep's axes in their order, and what they count as.

use super::info::SweepInfo;
use super::row::{PointRow, ResultRow};
use super::table::value_text;
use fabricsim_units::{Bytes, Span};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a value counts as where it is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A bare number.
    Plain,
    /// Bytes.
    Size,
    /// Seconds.
    Span,
}

/// A value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    /// As tables of points have it.
    pub(crate) text: String,
    /// What it counts as, if it is a number.
    pub(crate) number: Option<(Kind, f64)>,
}

impl Level {
    pub(crate) fn of(value: &Value) -> Self {
        Level {
            number: number(value),
            text: value_text(value),
        }
    }

    /// For people: sizes and durations have a space before their unit.
    pub(crate) fn shown(&self) -> String {
        match self.number {
            Some((Kind::Size | Kind::Span, _)) => spaced(&self.text),
            _ => self.text.clone(),
        }
    }
}

fn number(value: &Value) -> Option<(Kind, f64)> {
    let Value::String(text) = value else {
        return value.as_f64().map(|number| (Kind::Plain, number));
    };
    let plain = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let plain = plain.map(|number| (Kind::Plain, number));
    let size = || Bytes::parse(text).ok();
    let size = || size().map(|size| (Kind::Size, size.get() as f64));
    let span = || Span::try_from(text.clone()).ok();
    let span = || span().map(|span| (Kind::Span, span.seconds()));
    plain.or_else(size).or_else(span)
}

fn spaced(text: &str) -> String {
    let unit = text.find(|c: char| c.is_alphabetic());
    match unit.map(|at| text.split_at(at)) {
        Some((number, unit)) => format!("{} {unit}", number.trim_end()),
        None => text.to_owned(),
    }
}

/// A value for people, wherever it stands.
pub(super) fn shown(value: &Value) -> String {
    Level::of(value).shown()
}

/// An axis with the levels that points have on it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) name: String,
    /// In the order of the points.
    pub(crate) levels: Vec<Level>,
    /// Where each text stands.
    index: BTreeMap<String, usize>,
}

/// The axis on which jobs at once stand, which have a row each.
pub(crate) const JOB: &str = "job";

impl Axis {
    /// All axes of points; of jobs at once also which job.
    pub(crate) fn all(names: &[String], points: &[PointRow]) -> Vec<Axis> {
        let own = names.iter().map(|name| {
            let values = points.iter().filter_map(|point| point.values.get(name));
            Axis::of(name, values.map(Level::of))
        });
        let mut axes: Vec<Axis> = own.collect();
        let jobs = points.iter().flat_map(|point| &point.rows);
        let jobs = jobs.filter_map(|row| row.job.as_ref());
        let job = Axis::of(
            JOB,
            jobs.map(|job| Level {
                text: job.clone(),
                number: None,
            }),
        );
        if !job.levels.is_empty() && !names.iter().any(|name| name == JOB) {
            axes.push(job);
        }
        axes
    }

    fn of(name: &str, all: impl Iterator<Item = Level>) -> Axis {
        let mut levels: Vec<Level> = Vec::new();
        let mut index = BTreeMap::new();
        for level in all {
            if !index.contains_key(&level.text) {
                index.insert(level.text.clone(), levels.len());
                levels.push(level);
            }
        }
        Axis {
            name: name.to_owned(),
            levels,
            index,
        }
    }

    /// Whether points differ in it.
    pub(crate) fn varies(&self) -> bool {
        self.levels.len() > 1
    }

    /// What all of its levels count as, if all are numbers of one kind.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let mut kinds = self.levels.iter().map(|level| level.number.map(|n| n.0));
        let first = kinds.next()??;
        kinds.all(|kind| kind == Some(first)).then_some(first)
    }

    /// Which of its levels a row has.
    pub(crate) fn level_of(&self, point: &PointRow, row: &ResultRow) -> Option<usize> {
        let found = match (point.values.get(&self.name), &row.job) {
            (Some(value), _) => value_text(value),
            (None, Some(job)) if self.name == JOB => job.clone(),
            (None, _) => return None,
        };
        self.index.get(&found).copied()
    }

    /// A level with its axis' name where it would say little without: `nodes 4`, but `ring`.
    pub(crate) fn named(&self, level: usize) -> String {
        let Some(level) = self.levels.get(level) else {
            return String::new();
        };
        match level.number {
            Some(_) => format!("{} {}", self.name, level.shown()),
            None => level.shown(),
        }
    }
}

/// All axes of points with their values in order, as tables of points have them.
#[must_use]
pub fn axis_values(info: &SweepInfo, points: &[PointRow]) -> Vec<(String, Vec<String>)> {
    let axes = Axis::all(&info.axes, points).into_iter();
    let values = |axis: Axis| {
        let texts = axis.levels.into_iter().map(|level| level.text);
        (axis.name, texts.collect())
    };
    axes.map(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_sizes_and_durations_are_told_apart() {
        let kind = |value: Value| Level::of(&value).number;
        assert_eq!(kind(json!(8)), Some((Kind::Plain, 8.0)));
        assert_eq!(kind(json!("16")), Some((Kind::Plain, 16.0)));
        assert_eq!(kind(json!("4KiB")), Some((Kind::Size, 4096.0)));
        assert_eq!(kind(json!("2h")), Some((Kind::Span, 7200.0)));
        assert_eq!(kind(json!("ring")), None);
        assert_eq!(kind(json!("inf")), None);
        assert_eq!(shown(&json!("64MiB")), "64 MiB");
        assert_eq!(shown(&json!("ring 2")), "ring 2");
    }
}
