//! Which choice is fastest at which size.

use super::effects::{Placed, effects};
use super::info::SweepInfo;
use super::levels::Axis;
use super::plot::listed;
use super::row::PointRow;
use crate::metrics::{is_less_better, label, shown};
use crate::numbers::size;
use std::collections::{BTreeMap, BTreeSet};

/// Axes of what one has, in place of what one may choose.
const GIVEN: [&str; 6] = [
    "machine",
    "gpus",
    "nodes",
    "topology",
    "oversubscription",
    "seed",
];
/// Of more values of a second axis it is not said what wins with each.
const TOLD: usize = 4;
/// What is slower by less is as fast.
const EQUAL: f64 = 0.03;
/// What differs by less is the same thing under another name.
const SAME: f64 = 0.002;

/// Whether rows are of several sizes.
pub(super) fn has_sizes(rows: &[&Placed<'_>]) -> bool {
    let mut sizes = rows.iter().map(|placed| placed.row.metrics.bytes);
    let first = sizes.next();
    first.flatten().is_some() && sizes.any(|size| size.is_some() && Some(size) != first)
}

/// What to say of rows of several sizes, without a full stop. The choice is the axis that matters most of
/// those that are one's to choose; with each value of the axis that matters next it is said which choice
/// is fastest from which size on.
pub(super) fn by_size(
    info: &SweepInfo,
    points: &[PointRow],
    (axes, rows): (&[Axis], &[&Placed<'_>]),
) -> Option<String> {
    let others: Vec<&Axis> = axes.iter().filter(|axis| !is_size(axis, rows)).collect();
    if others.is_empty() {
        return Some(ends(info, rows));
    }
    let effects = effects(&info.axes, points, &info.objective);
    let order = effects.iter().map(|effect| effect.axis.as_str());
    let order = order.filter_map(|name| others.iter().find(|axis| axis.name == name));
    let order: Vec<&Axis> = order.copied().collect();
    let chosen = order
        .iter()
        .find(|axis| !GIVEN.contains(&axis.name.as_str()));
    let choice = *chosen.or(order.first())?;
    let rest: Vec<&Axis> = others
        .into_iter()
        .filter(|axis| axis.name != choice.name)
        .collect();
    let best = if ["time_us", "busbw_gbs", "algbw_gbs"].contains(&info.objective.as_str()) {
        "fastest"
    } else {
        "best"
    };
    let race = Race {
        choice,
        best,
        less: is_less_better(&info.objective),
    };
    match rest.as_slice() {
        [] => race.told(&[(String::new(), rows.to_vec())]),
        [one] if one.levels.len() <= TOLD => {
            let each = (0..one.levels.len()).map(|level| {
                let mine = |p: &&&Placed<'_>| one.level_of(p.point, p.row) == Some(level);
                let mine: Vec<&Placed<'_>> = rows.iter().filter(mine).copied().collect();
                (one.named(level), mine)
            });
            race.told(&each.collect::<Vec<_>>())
        }
        _ => race.counted(rows, &rest),
    }
}

/// Whether an axis says what the size is: each of its values has one, and each another.
fn is_size(axis: &Axis, rows: &[&Placed<'_>]) -> bool {
    let mut sizes: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for placed in rows {
        let level = axis.level_of(placed.point, placed.row);
        if let (Some(level), Some(bytes)) = (level, placed.row.metrics.bytes) {
            sizes.entry(level).or_default().insert(bytes);
        }
    }
    let all: BTreeSet<u64> = sizes.values().flatten().copied().collect();
    all.len() > 1 && all.len() == sizes.len() && sizes.values().all(|one| one.len() == 1)
}

/// The objective at the smallest size and at the largest.
fn ends(info: &SweepInfo, rows: &[&Placed<'_>]) -> String {
    let told = |placed: Option<&&Placed<'_>>| {
        placed.map_or_else(String::new, |placed| {
            let bytes = placed.row.metrics.bytes.unwrap_or(0) as f64;
            format!(
                "{} at {}",
                shown(&info.objective, placed.value),
                size(bytes)
            )
        })
    };
    let bytes = |placed: &&&Placed<'_>| placed.row.metrics.bytes;
    let sized = || {
        rows.iter()
            .filter(|placed| placed.row.metrics.bytes.is_some())
    };
    let (least, most) = (sized().min_by_key(bytes), sized().max_by_key(bytes));
    format!(
        "The {} goes from {} to {}",
        label(&info.objective),
        told(least),
        told(most)
    )
}

/// At a size, the choices that are as fast as any, or nearly.
type Heat = (u64, BTreeSet<usize>);

struct Race<'a> {
    choice: &'a Axis,
    best: &'static str,
    less: bool,
}

impl Race<'_> {
    /// Who wins at each size at which there is a choice, `without` one of them; smallest first.
    fn heats(&self, rows: &[&Placed<'_>], without: Option<usize>) -> Vec<Heat> {
        let mut all = self.values(rows);
        for values in all.values_mut() {
            values.retain(|level, _| Some(*level) != without);
        }
        all.into_iter()
            .filter(|(_, values)| values.len() > 1)
            .map(|(bytes, values)| (bytes, self.winners(&values)))
            .collect()
    }

    /// The best value of each choice, by size.
    fn values(&self, rows: &[&Placed<'_>]) -> BTreeMap<u64, BTreeMap<usize, f64>> {
        let mut all: BTreeMap<u64, BTreeMap<usize, f64>> = BTreeMap::new();
        for placed in rows {
            let level = self.choice.level_of(placed.point, placed.row);
            if let (Some(level), Some(bytes)) = (level, placed.row.metrics.bytes) {
                // Rows come best first.
                let values = all.entry(bytes).or_default();
                values.entry(level).or_insert(placed.value);
            }
        }
        all
    }

    fn winners(&self, values: &BTreeMap<usize, f64>) -> BTreeSet<usize> {
        let best = self.best_of(values);
        let near = |value: f64| (value - best).abs() <= EQUAL * best.abs();
        let near = values.iter().filter(|(_, value)| near(**value));
        near.map(|(level, _)| *level).collect()
    }

    fn best_of(&self, values: &BTreeMap<usize, f64>) -> f64 {
        let fold = if self.less { f64::min } else { f64::max };
        values.values().copied().reduce(fold).unwrap_or(0.0)
    }

    fn name(&self, level: usize) -> String {
        self.choice.named(level)
    }

    /// The sentence of several places, each with its rows.
    fn told(&self, each: &[(String, Vec<&Placed<'_>>)]) -> Option<String> {
        let heats = |without| {
            let each = each.iter();
            let each = each.map(|(place, rows)| (place.clone(), self.heats(rows, without)));
            let each = each.filter(|(_, heats)| !heats.is_empty());
            each.collect::<Vec<_>>()
        };
        let rows = || each.iter().map(|(_, rows)| rows.as_slice());
        let Some(name) = self.name_for_others(rows()) else {
            let whole = heats(None);
            return (!whole.is_empty()).then(|| format!("{} (to 3 %)", self.grouped(&whole)));
        };
        let told = format!("{} (to 3 %)", self.grouped(&heats(Some(name))));
        let behind = rows()
            .map(|rows| self.behind(rows, name))
            .fold(0.0, f64::max);
        let name = self.name(name);
        Some(match behind <= EQUAL {
            true => format!("{told}. {name} is as fast everywhere"),
            false => format!("{told}. {name} is at most {:.0} % behind", behind * 100.0),
        })
    }

    /// A choice that is always one of the others, such as NCCL's own: of at least two others.
    fn name_for_others<'r>(
        &self,
        each: impl Iterator<Item = &'r [&'r Placed<'r>]>,
    ) -> Option<usize> {
        let all = each.flat_map(|rows| self.values(rows).into_values());
        let all: Vec<BTreeMap<usize, f64>> = all.collect();
        let same = |a: f64, b: f64| (a - b).abs() <= SAME * b.abs();
        (0..self.choice.levels.len()).find(|level| {
            all.iter().any(|values| values.len() > 2)
                && all.iter().all(|values| {
                    let own = values.get(level);
                    let mut others = values.iter().filter(|(other, _)| *other != level);
                    own.is_some_and(|own| others.any(|(_, other)| same(*own, *other)))
                })
        })
    }

    /// How far a choice is behind the best at the size where it is furthest, as a part of the best.
    fn behind(&self, rows: &[&Placed<'_>], level: usize) -> f64 {
        let all = self.values(rows).into_values();
        let parts = all.filter_map(|values| {
            let (own, best) = (*values.get(&level)?, self.best_of(&values));
            Some((own - best).abs() / best.abs())
        });
        parts.filter(|part| part.is_finite()).fold(0.0, f64::max)
    }

    /// Places in which the same is true are told together.
    fn grouped(&self, each: &[(String, Vec<Heat>)]) -> String {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for (place, heats) in each {
            let said = self.runs(heats);
            match groups.iter_mut().find(|(known, _)| *known == said) {
                Some((_, places)) => places.push(place),
                None => groups.push((said, vec![place])),
            }
        }
        // What is true everywhere needs no places.
        if let [(said, _)] = groups.as_slice() {
            return said.clone();
        }
        let told = groups.iter();
        let told = told.map(|(said, places)| format!("{}: {said}", listed(places)));
        told.collect::<Vec<_>>().join("; ")
    }

    /// `nvls is fastest from 2 MiB on, ring below`.
    fn runs(&self, heats: &[Heat]) -> String {
        let mut runs: Vec<(u64, u64, BTreeSet<usize>)> = Vec::new();
        for (bytes, winners) in heats {
            let common = runs.last().map(|run| &run.2 & winners);
            match (runs.last_mut(), common) {
                (Some(run), Some(common)) if !common.is_empty() => {
                    run.1 = *bytes;
                    run.2 = common;
                }
                _ => runs.push((*bytes, *bytes, winners.clone())),
            }
        }
        let name = |run: &(u64, u64, BTreeSet<usize>)| {
            run.2
                .first()
                .map_or_else(String::new, |&level| self.name(level))
        };
        let best = self.best;
        match runs.as_slice() {
            [all] => format!("{} is {best} at every size", name(all)),
            [low, high] => {
                let from = size(high.0 as f64);
                format!(
                    "{} is {best} from {from} on, {} below",
                    name(high),
                    name(low)
                )
            }
            [low, middle, high] => format!(
                "{} is {best} up to {}, {} up to {}, {} above",
                name(low),
                size(low.1 as f64),
                name(middle),
                size(middle.1 as f64),
                name(high)
            ),
            _ => {
                let (level, count) = most(heats.iter().map(|(_, winners)| winners));
                let of = heats.len();
                format!("{} is {best} at {count} of {of} sizes", self.name(level))
            }
        }
    }

    /// Who wins most often, of all sizes and all values of the other axes.
    fn counted(&self, rows: &[&Placed<'_>], rest: &[&Axis]) -> Option<String> {
        let mut places: BTreeMap<Vec<Option<usize>>, Vec<&Placed<'_>>> = BTreeMap::new();
        for &placed in rows {
            let place = rest
                .iter()
                .map(|axis| axis.level_of(placed.point, placed.row));
            places.entry(place.collect()).or_default().push(placed);
        }
        let heats = places.values().flat_map(|rows| self.heats(rows, None));
        let heats: Vec<Heat> = heats.collect();
        if heats.is_empty() {
            return None;
        }
        let (level, count) = most(heats.iter().map(|(_, winners)| winners));
        let (name, of) = (self.name(level), heats.len());
        let with: Vec<&str> = rest.iter().map(|axis| axis.name.as_str()).collect();
        Some(match count == of {
            true => format!("{name} is never beaten by more than 3 %"),
            false => format!(
                "{name} is {} (to 3 %) in {count} of {of} cases of size, {}",
                self.best,
                listed(&with)
            ),
        })
    }
}

/// Who is among the winners most often, and how often.
fn most<'a>(heats: impl Iterator<Item = &'a BTreeSet<usize>>) -> (usize, usize) {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for level in heats.flatten() {
        *counts.entry(*level).or_default() += 1;
    }
    // Of two that win as often the first.
    let most = counts.into_iter().rev().max_by_key(|&(_, count)| count);
    most.unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sweep::{ResultRow, Status, sweep_sentence};
    use serde_json::json;

    /// A point of an algorithm at a size on a machine.
    fn point((machine, algorithm): (&str, &str), bytes: u64, time_us: f64) -> PointRow {
        let metrics = Metrics {
            bytes: Some(bytes),
            time_us: Some(time_us),
            ..Metrics::default()
        };
        let values = [
            ("machine", json!(machine)),
            ("algorithm", json!(algorithm)),
            ("size", json!(format!("{bytes}B"))),
        ];
        PointRow {
            point: 0,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            status: Status::Done,
            why: None,
            program: None,
            rows: vec![ResultRow {
                job: None,
                topology: machine.to_owned(),
                nodes: 1,
                gpus: 8,
                metrics,
            }],
        }
    }

    fn info() -> SweepInfo {
        SweepInfo {
            format: 2,
            version: String::new(),
            program: String::new(),
            name: "s".to_owned(),
            title: "s".to_owned(),
            digest: String::new(),
            points: 0,
            axes: ["machine", "algorithm", "size"].map(str::to_owned).into(),
            objective: "time_us".to_owned(),
            shard: None,
            spec: json!({}),
        }
    }

    fn points(machine: &str, times: &[(&str, [f64; 3])]) -> Vec<PointRow> {
        let sizes = [1 << 10, 1 << 20, 1 << 30];
        let each = times.iter().flat_map(|(algorithm, times)| {
            let times = sizes.into_iter().zip(*times);
            times.map(|(bytes, time)| point((machine, algorithm), bytes, time))
        });
        each.collect()
    }

    #[test]
    fn the_crossover_is_said() {
        let one = points(
            "a",
            &[("ring", [1.0, 5.0, 90.0]), ("nvls", [3.0, 4.0, 60.0])],
        );
        assert_eq!(
            sweep_sentence(&info(), &one),
            "nvls is fastest from 1 MiB on, ring below (to 3 %)."
        );
        let mut two = one;
        two.extend(points(
            "b",
            &[("ring", [1.0, 2.0, 3.0]), ("nvls", [2.0, 3.0, 4.0])],
        ));
        assert_eq!(
            sweep_sentence(&info(), &two),
            "a: nvls is fastest from 1 MiB on, ring below; b: ring is fastest at every size (to 3 %)."
        );
    }

    #[test]
    fn a_choice_that_is_always_one_of_the_others_is_set_beside_the_best() {
        let all = [
            ("NCCL", [1.0, 5.0, 60.0]),
            ("ring", [1.0, 5.0, 90.0]),
            ("nvls", [3.0, 4.0, 60.0]),
        ];
        assert_eq!(
            sweep_sentence(&info(), &points("a", &all)),
            "nvls is fastest from 1 MiB on, ring below (to 3 %). NCCL is at most 25 % behind."
        );
    }
}
