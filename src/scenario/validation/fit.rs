//! Fitting the parameters of time to published tables.
//!
//! Coordinate search on factors: each parameter in turn is moved up and down by steps that
//! become smaller, and what makes the objective smaller is kept; so are any two parameters of one
//! protocol of a generation, both the same way and one against the other (of a kernel's start and what
//! a step takes a table often knows the sum best), and parameters that are tied to each other, all alike.
//! The objective is the mean, over groups of measurements and bands of size, of |ln(predicted / measured)| (half the median and
//! half the mean of a group's rows), where large errors count less and less: every group counts
//! alike, and what no parameter explains bends none; and of a little for each parameter's distance
//! from the hardware files, and from those that it is tied to. No random choice is made, so a fit with the same files gives the same
//! values.

use super::fit_pull::{Pull, scaled};
use super::fit_spec::FitSpec;
use super::measurement::Measurement;
use super::predict::{Machines, PredictedRow, PredictedSet, predict};
use super::summary::{Band, group_log_errors};
use crate::nccl::Algorithm;
use crate::threads;
use crate::topology::{Hardware, TopologyError, catalogue, load};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A parameter's value, before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedValue {
    /// Its place in the hardware files.
    pub path: String,
    /// As the hardware files have it.
    pub before: Value,
    /// As fitted.
    pub after: Value,
    /// How many measurements depend on it; 0: it was taken from another parameter.
    pub sets: usize,
    /// How far it can be moved alone until the objective is 1 % worse, as factors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
}

/// What a fit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitLog {
    /// Measurements that took part.
    pub sets: Vec<String>,
    /// The objective before and after.
    pub objective: (f64, f64),
    /// How many predictions of a row it took.
    pub evaluations: usize,
    /// The values.
    pub values: Vec<FittedValue>,
}

/// The name of sends and receives.
const SENDS: &str = Algorithm::PointToPoint.name();

pub(super) struct Fit<'m> {
    base: Value,
    paths: Vec<String>,
    starts: Vec<Value>,
    factors: Vec<f64>,
    sets: Vec<&'m Measurement>,
    /// The rows of each that take part, by size.
    rows: Vec<BTreeSet<u64>>,
    /// Which sets a parameter can change.
    touched: Vec<Vec<usize>>,
    predicted: Vec<Option<PredictedSet>>,
    evaluations: usize,
    pull: Pull,
    /// The part of the objective that a move has to take away to be kept.
    noticeable: f64,
}

/// Fits what `spec` names on `measurements`; `tell` hears of every round and parameter.
///
/// # Errors
/// A parameter that is not in the hardware files, or has no unit.
pub fn fit(
    spec: &FitSpec,
    measurements: &[Measurement],
    tell: &mut dyn FnMut(&str),
) -> Result<FitLog, String> {
    let mut fit = Fit::new(spec, measurements)?;
    tell(&format!(
        "{} measurements, {} parameters",
        fit.sets.len(),
        fit.paths.len()
    ));
    let all: Vec<usize> = (0..fit.paths.len()).collect();
    let (before, best) = fit.run(spec, &all)?;
    tell(&format!("objective {before:.5} -> {best:.5}"));
    let mut values = Vec::new();
    for p in 0..fit.paths.len() {
        let range = fit.range(p, best)?;
        values.push(FittedValue {
            path: fit.paths[p].clone(),
            before: fit.starts[p].clone(),
            after: fit.value(p).unwrap_or(Value::Null),
            sets: fit.touched[p].len(),
            range,
        });
    }
    inherit(spec, &mut values);
    Ok(FitLog {
        sets: fit.sets.iter().map(|m| m.id.clone()).collect(),
        objective: (before, best),
        evaluations: fit.evaluations,
        values,
    })
}

/// Parameters on which no measurement depends take the value of those that they are like.
fn inherit(spec: &FitSpec, values: &mut [FittedValue]) {
    for p in (0..values.len())
        .filter(|&p| values[p].sets == 0)
        .collect::<Vec<_>>()
    {
        if let Some(like) = spec.like_of(p, |&q| values[q].sets > 0) {
            values[p].after = values[like].after.clone();
        }
    }
}

/// The mean over groups and bands of the mean of |ln(predicted / measured)|.
fn objective(predicted: &[Option<PredictedSet>]) -> f64 {
    let sets: Vec<&PredictedSet> = predicted.iter().flatten().collect();
    let errors: Vec<f64> = Band::ALL
        .iter()
        .flat_map(|&band| group_log_errors(&sets, band))
        .collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

impl<'m> Fit<'m> {
    /// Moves the parameters `free`, step by step; the objective before and after.
    pub(super) fn run(&mut self, spec: &FitSpec, free: &[usize]) -> Result<(f64, f64), String> {
        let everything: Vec<_> = self.rows.iter().cloned().enumerate().collect();
        self.predicted = self.predict(&everything, &self.factors.clone())?;
        let before = objective(&self.predicted) + self.pull.cost(&self.starts, &self.factors);
        let mut best = before;
        for &step in &spec.steps {
            for &parameter in free {
                best = self.search(&[(parameter, 1)], step, best)?;
                for &other in free.iter().filter(|&&other| other < parameter) {
                    if self.of_one_part(parameter, other) {
                        best = self.search(&[(parameter, 1), (other, -1)], step, best)?;
                        best = self.search(&[(parameter, 1), (other, 1)], step, best)?;
                    }
                }
            }
            for tied in self.pull.tied() {
                let all: Vec<_> = tied.into_iter().map(|p| (p, 1)).collect();
                if all.iter().all(|(p, _)| free.contains(p)) {
                    best = self.search(&all, step, best)?;
                }
            }
        }
        Ok((before, best))
    }

    /// Whether two parameters are of the same protocol of a generation, or the like: what one of them
    /// takes more the other may take less.
    fn of_one_part(&self, one: usize, other: usize) -> bool {
        let part = |at: usize| self.paths[at].splitn(4, '.').take(3).collect::<Vec<_>>();
        self.paths[one].split('.').count() > 3 && part(one) == part(other)
    }

    /// Measurements depend on a parameter.
    pub(super) fn knows(&self, parameter: usize) -> bool {
        !self.touched[parameter].is_empty()
    }

    /// How many measurements there are.
    pub(super) fn used(&self) -> usize {
        self.sets.len()
    }

    /// A parameter's value so far.
    pub(super) fn value(&self, parameter: usize) -> Option<Value> {
        scaled(&self.starts[parameter], self.factors[parameter])
    }

    /// Lets a parameter start from a value.
    pub(super) fn start_from(&mut self, parameter: usize, value: Value) {
        self.starts[parameter] = value;
        self.factors[parameter] = 1.0;
    }

    /// The parameters of what a topology is made of.
    pub(super) fn of_hardware(&self, topology: &str) -> Result<Vec<usize>, String> {
        let names = used_names(topology).map_err(|e| e.to_string())?;
        let own = |p: &usize| names.contains(&named(&self.paths[*p]));
        Ok((0..self.paths.len()).filter(own).collect())
    }

    /// The hardware with the values so far.
    pub(super) fn current(&self) -> Result<Hardware, String> {
        self.hardware(&self.factors)
    }

    pub(super) fn new(spec: &FitSpec, measurements: &'m [Measurement]) -> Result<Self, String> {
        let mut base = catalogue::hardware_json();
        let mut starts = Vec::new();
        for parameter in &spec.parameters {
            let found = catalogue::place_in(&mut base, &parameter.path).map(|v| v.clone());
            let value = found.ok_or_else(|| format!("{}: no such parameter", parameter.path))?;
            if scaled(&value, 1.0).is_none() {
                return Err(format!(
                    "{}: {value} is no time, rate or number",
                    parameter.path
                ));
            }
            starts.push(value);
        }
        let (mut sets, mut rows) = (Vec::new(), Vec::new());
        for set in measurements {
            let sizes = spec.sizes(set);
            if !sizes.is_empty() {
                sets.push(set);
                rows.push(sizes);
            }
        }
        let paths: Vec<String> = spec.parameters.iter().map(|p| p.path.clone()).collect();
        let mut names = BTreeMap::new();
        for set in &sets {
            let name = set.model.as_ref().map_or("", |m| m.topology.as_str());
            if !names.contains_key(name) {
                names.insert(name, used_names(name).map_err(|e| e.to_string())?);
            }
        }
        let touched: Vec<Vec<usize>> = paths
            .iter()
            .map(|path| {
                let part = named(path);
                let uses = |set: &Measurement| {
                    let topology = set.model.as_ref().map_or("", |m| m.topology.as_str());
                    let own = names.get(topology);
                    let one = set.model.as_ref().is_some_and(|m| m.nodes == 1);
                    let matters = match (part.0.as_str(), path.rsplit('.').next()) {
                        // Only threads wait for the driver alone.
                        ("processors", Some("driver_start")) => set.threads().is_some(),
                        // Networks do not matter inside one node.
                        ("devices" | "processors", _) => !one,
                        _ => true,
                    };
                    own.is_some_and(|n| n.contains(&part)) && matters
                };
                (0..sets.len()).filter(|&i| uses(sets[i])).collect()
            })
            .collect();
        let pull = Pull::new(spec, |p| !touched[p].is_empty())?;
        Ok(Fit {
            base,
            factors: vec![1.0; paths.len()],
            predicted: Vec::new(),
            evaluations: 0,
            pull,
            noticeable: spec.noticeable,
            paths,
            starts,
            sets,
            rows,
            touched,
        })
    }

    fn hardware(&self, factors: &[f64]) -> Result<Hardware, String> {
        let mut tree = self.base.clone();
        for ((path, start), &factor) in self.paths.iter().zip(&self.starts).zip(factors) {
            if let (Some(place), Some(value)) =
                (catalogue::place_in(&mut tree, path), scaled(start, factor))
            {
                *place = value;
            }
        }
        serde_json::from_value(tree).map_err(|e| e.to_string())
    }

    /// Predictions of some rows of sets, on all processors.
    fn predict(
        &mut self,
        jobs: &[(usize, BTreeSet<u64>)],
        factors: &[f64],
    ) -> Result<Vec<Option<PredictedSet>>, String> {
        self.evaluations += jobs.iter().map(|(_, rows)| rows.len()).sum::<usize>();
        let hardware = self.hardware(factors)?;
        Ok(threads::each(
            jobs,
            None,
            || Machines::new(&hardware),
            |machines, (set, rows)| {
                predict(self.sets[*set], machines, |bytes| rows.contains(&bytes)).ok()
            },
        ))
    }

    /// The objective with some parameters moved, and the predictions that change.
    fn moved(
        &mut self,
        moves: &[(usize, f64)],
    ) -> Result<(f64, Vec<Option<PredictedSet>>), String> {
        let mut factors = self.factors.clone();
        let mut concerned: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
        for &(parameter, factor) in moves {
            factors[parameter] = factor;
            // What NCCL chooses does not depend on these parameters, so who is concerned is known.
            let path = &self.paths[parameter];
            for &set in &self.touched[parameter] {
                let known = self.predicted[set].iter().flat_map(|p| &p.rows);
                let rows = known.filter(|row| concerns(path, row)).map(|row| row.bytes);
                concerned.entry(set).or_default().extend(rows);
            }
        }
        concerned.retain(|_, rows| !rows.is_empty());
        let jobs: Vec<_> = concerned.into_iter().collect();
        let changed = self.predict(&jobs, &factors)?;
        let mut all = self.predicted.clone();
        for ((set, rows), new) in jobs.iter().zip(changed) {
            let Some(old) = &mut all[*set] else { continue };
            let new = new.map_or(Vec::new(), |p| p.rows);
            // What could be predicted before has to stay so.
            let of = |bytes: u64| new.iter().find(|row| row.bytes == bytes);
            if rows.iter().any(|&bytes| of(bytes).is_none()) {
                return Ok((f64::INFINITY, all));
            }
            for row in &mut old.rows {
                if let Some(new) = of(row.bytes) {
                    row.predicted_us = new.predicted_us;
                }
            }
        }
        Ok((
            objective(&all) + self.pull.cost(&self.starts, &factors),
            all,
        ))
    }

    /// Moves parameters, each up or down, as long as that helps, or all of them the other way.
    fn search(&mut self, which: &[(usize, i32)], step: f64, mut best: f64) -> Result<f64, String> {
        if which.iter().any(|&(p, _)| self.touched[p].is_empty()) {
            return Ok(best);
        }
        for direction in [step, 1.0 / step] {
            let mut moves = 0;
            while moves < 3 {
                let moved = |&(p, sign): &(usize, i32)| (p, self.factors[p] * direction.powi(sign));
                let moved: Vec<(usize, f64)> = which.iter().map(moved).collect();
                if moved
                    .iter()
                    .any(|(_, factor)| !(0.02..=50.0).contains(factor))
                {
                    break;
                }
                let (objective, all) = self.moved(&moved)?;
                if objective >= best * (1.0 - self.noticeable) {
                    break;
                }
                best = objective;
                for (parameter, factor) in moved {
                    self.factors[parameter] = factor;
                }
                self.predicted = all;
                moves += 1;
            }
            if moves > 0 {
                break;
            }
        }
        Ok(best)
    }

    /// How well the measurements know a parameter.
    fn range(&mut self, parameter: usize, best: f64) -> Result<Option<(f64, f64)>, String> {
        if self.touched[parameter].is_empty() {
            return Ok(None);
        }
        let mut ends = [1.0f64; 2];
        for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
            for power in 1..=5 {
                *end = 1.1f64.powi(power * power).powf(sign);
                let factor = self.factors[parameter] * *end;
                if self.moved(&[(parameter, factor)])?.0 > best * 1.01 {
                    break;
                }
            }
        }
        let digits = |x: f64| (x * 100.0).round() / 100.0;
        Ok(Some((digits(ends[0]), digits(ends[1]))))
    }
}

/// Whether a parameter can change a row.
fn concerns(path: &str, row: &PredictedRow) -> bool {
    let mut parts = path.split('.');
    let (kind, part) = (parts.next(), parts.nth(1).unwrap_or_default());
    let simple = row.protocol == "simple";
    match (kind, part) {
        (Some("architectures"), "ll" | "ll128") => row.protocol == part,
        (Some("architectures"), "spread") => ["ring", "tree"].contains(&row.algorithm),
        (Some("architectures"), "nvls") => row.algorithm.starts_with("nvls"),
        (Some("architectures"), "point_to_point") => simple && row.algorithm == SENDS,
        (Some("architectures"), _) => simple && row.algorithm != "nvls",
        // What LL sends does not fill a link.
        (Some("links"), _) => row.protocol != "ll",
        _ => true,
    }
}

/// The kind and name of the hardware that a path is of.
fn named(path: &str) -> (String, String) {
    let mut parts = path.split('.').map(str::to_owned);
    (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    )
}

/// Kinds and names of the hardware that a topology uses.
fn used_names(topology: &str) -> Result<BTreeSet<(String, String)>, TopologyError> {
    let topology = load::load(topology, &crate::topology::Overrides::default())?;
    let named = |kind: &str, name: &String| (kind.to_owned(), name.clone());
    let devices = topology.device_models.iter();
    let links = topology.link_models.iter();
    let architectures = topology.architectures.keys();
    let makes = topology.processors.keys();
    Ok(devices
        .map(|(name, _)| named("devices", name))
        .chain(links.map(|(name, _)| named("links", name)))
        .chain(architectures.map(|name| named("architectures", name)))
        .chain(makes.map(|make| named("processors", &make.to_string())))
        .collect())
}
