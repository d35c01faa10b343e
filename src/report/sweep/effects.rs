//! What matters in a sweep: how much the objective changes along each axis, all others held.

use super::levels::{Axis, JOB, Level};
use super::row::{PointRow, ResultRow};
use super::table::value_text;
use crate::Uplinks;
use crate::metrics::is_less_better;
use std::collections::BTreeMap;

/// A row of a sweep with its place on the axes.
pub(crate) struct Placed<'p> {
    pub(crate) point: &'p PointRow,
    pub(crate) row: &'p ResultRow,
    /// Its objective.
    pub(crate) value: f64,
}

/// How much an axis changes the objective.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    /// The axis.
    pub(crate) axis: String,
    /// Its value that the others are set beside: the first one.
    pub(crate) from: Level,
    /// Each other value, and how many times as large the objective is: the geometric mean over all
    /// points that differ in nothing else.
    pub(crate) levels: Vec<(Level, f64)>,
    /// It changes the links between switches, and none of them carried anything at any level.
    pub(crate) idle_uplinks: bool,
}

impl Effect {
    /// By how much it can change the objective, up or down: the largest distance from 1, as a
    /// logarithm.
    pub(crate) fn weight(&self) -> f64 {
        let ratios = self.levels.iter().map(|(_, ratio)| ratio.ln().abs());
        ratios.fold(0.0, f64::max)
    }

    /// Why it changes nothing, if it does not and that is known.
    pub(crate) fn why_none(&self) -> Option<&'static str> {
        let none = self.weight() < 0.0005 && self.idle_uplinks;
        none.then_some("the links between switches, which it changes, carried 0 B")
    }

    /// The level that changes most.
    pub(crate) fn largest(&self) -> Option<&(Level, f64)> {
        let weight = |level: &&(Level, f64)| level.1.ln().abs();
        self.levels
            .iter()
            .max_by(|a, b| weight(a).total_cmp(&weight(b)))
    }

    /// The levels with the least and the largest objective; the one that others are set beside is 1.
    pub(crate) fn ends(&self) -> [(&Level, f64); 2] {
        let levels = || {
            let others = self.levels.iter().map(|(level, ratio)| (level, *ratio));
            std::iter::once((&self.from, 1.0)).chain(others)
        };
        let by = |a: &(&Level, f64), b: &(&Level, f64)| a.1.total_cmp(&b.1);
        let own = (&self.from, 1.0);
        [
            levels().min_by(by).unwrap_or(own),
            levels().max_by(by).unwrap_or(own),
        ]
    }
}

/// All rows that have the objective, best first; what does not fit into memory comes after all that
/// does.
pub(crate) fn ranked<'p>(points: &'p [PointRow], objective: &str) -> Vec<Placed<'p>> {
    let rows = points.iter().flat_map(|point| {
        point.rows.iter().filter_map(move |row| {
            let value = row.metrics.number(objective)?;
            Some(Placed { point, row, value })
        })
    });
    let mut rows: Vec<Placed<'_>> = rows.collect();
    let less = is_less_better(objective);
    rows.sort_by(|a, b| {
        let fits = |placed: &Placed<'_>| placed.row.metrics.fits == Some(false);
        let by = a.value.total_cmp(&b.value);
        let by = if less { by } else { by.reverse() };
        fits(a).cmp(&fits(b)).then(by)
    });
    rows
}

/// What each axis does to the objective, what matters most first; what does not fit into memory has no
/// say. Axes along which no two points differ in nothing else have none.
pub(crate) fn effects(axes: &[String], points: &[PointRow], objective: &str) -> Vec<Effect> {
    let rows = ranked(points, objective);
    let counts =
        |placed: &&Placed<'_>| placed.value > 0.0 && placed.row.metrics.fits != Some(false);
    let rows: Vec<&Placed<'_>> = rows.iter().filter(counts).collect();
    let axes = Axis::all(axes, points);
    let effects = axes.iter().filter(|axis| axis.varies());
    let mut effects: Vec<Effect> = effects.filter_map(|axis| effect(axis, &rows)).collect();
    effects.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    effects
}

fn effect(axis: &Axis, rows: &[&Placed<'_>]) -> Option<Effect> {
    // By all else that a row is of, the value at each level.
    let mut groups: BTreeMap<String, BTreeMap<usize, f64>> = BTreeMap::new();
    for placed in rows {
        let (point, row) = (placed.point, placed.row);
        let others = point.values.iter().filter(|(name, _)| **name != axis.name);
        let others: Vec<String> = others.map(|(_, value)| value_text(value)).collect();
        let job = row.job.as_ref().filter(|_| axis.name != JOB);
        let bytes = row.metrics.bytes.filter(|_| point.rows.len() > 1);
        let key = format!("{others:?} {job:?} {bytes:?}");
        if let Some(level) = axis.level_of(point, row) {
            groups.entry(key).or_default().insert(level, placed.value);
        }
    }
    let mean = |level: usize| {
        let ratios = groups.values().filter_map(|group| {
            let (from, to) = (group.get(&0)?, group.get(&level)?);
            Some((to / from).ln())
        });
        let ratios: Vec<f64> = ratios.collect();
        let count = ratios.len() as f64;
        (count > 0.0).then(|| (ratios.iter().sum::<f64>() / count).exp())
    };
    let levels = axis.levels.iter().enumerate().skip(1);
    let levels = levels.filter_map(|(index, level)| Some((level.clone(), mean(index)?)));
    let levels: Vec<(Level, f64)> = levels.collect();
    (!levels.is_empty()).then(|| Effect {
        axis: axis.name.clone(),
        from: axis.levels[0].clone(),
        levels,
        idle_uplinks: idle_uplinks(axis, rows),
    })
}

/// Whether levels of an axis have other links between switches, which carry nothing in any row.
fn idle_uplinks(axis: &Axis, rows: &[&Placed<'_>]) -> bool {
    let mut first: BTreeMap<usize, Uplinks> = BTreeMap::new();
    for placed in rows {
        let (Some(uplinks), Some(level)) = (
            placed.row.metrics.uplinks,
            axis.level_of(placed.point, placed.row),
        ) else {
            return false;
        };
        if uplinks.carried {
            return false;
        }
        first.entry(level).or_insert(uplinks);
    }
    let mut first = first.into_values();
    let Some(from) = first.next() else {
        return false;
    };
    first.any(|uplinks| uplinks.idle_beside(&from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sweep::Status;
    use serde_json::json;

    fn point(number: u32, nodes: u32, algo: &str, time_us: f64) -> PointRow {
        PointRow {
            point: number,
            values: BTreeMap::from([
                ("nodes".to_owned(), json!(nodes)),
                ("algo".to_owned(), json!(algo)),
            ]),
            status: Status::Done,
            why: None,
            program: None,
            rows: vec![ResultRow {
                job: None,
                topology: "t".into(),
                nodes,
                gpus: nodes,
                metrics: Metrics {
                    time_us: Some(time_us),
                    ..Metrics::default()
                },
            }],
        }
    }

    #[test]
    fn an_axis_is_judged_by_points_that_differ_in_it_alone() {
        let points = [
            point(0, 1, "ring", 10.0),
            point(1, 1, "tree", 20.0),
            point(2, 4, "ring", 30.0),
            point(3, 4, "tree", 240.0),
        ];
        let axes = ["nodes".to_owned(), "algo".to_owned()];
        let found = effects(&axes, &points, "time_us");
        // nodes: 3 and 12 times, in the mean 6; algo: 2 and 8 times, in the mean 4.
        assert_eq!(found[0].axis, "nodes");
        assert!((found[0].levels[0].1 - 6.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found[1].levels[0].0.text, "tree");
        assert!((found[1].levels[0].1 - 4.0).abs() < 1e-9, "{found:?}");
        let best = ranked(&points, "time_us");
        assert_eq!(best[0].point.point, 0);
    }
}
