//! What a fit knows: parameters and their values so far, the measurements that depend on each, and
//! what is predicted of them.

use super::pull::{Pull, scaled};
use super::spec::FitSpec;
use crate::measurement::Measurement;
use crate::predict::{Machines, PredictedRow, PredictedSet, predict};
use crate::summary::{Band, Counting, group_log_errors};
use fabricsim_budget::threads;
use fabricsim_nccl::Algorithm;
use fabricsim_topology::{Hardware, TopologyError, catalogue, load};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How many times its first value a parameter has at least and at most.
pub(super) const FACTORS: (f64, f64) = (0.02, 50.0);

/// The name of sends and receives.
const SENDS: &str = Algorithm::PointToPoint.name();

pub(super) struct Fit<'m> {
    base: Value,
    pub(super) paths: Vec<String>,
    pub(super) starts: Vec<Value>,
    /// How many times its first value each parameter has.
    pub(super) factors: Vec<f64>,
    pub(super) sets: Vec<&'m Measurement>,
    /// The rows of each that take part, by size.
    rows: Vec<BTreeSet<u64>>,
    /// Which sets a parameter can change.
    pub(super) touched: Vec<Vec<usize>>,
    pub(super) predicted: Vec<Option<PredictedSet>>,
    pub(super) evaluations: usize,
    pub(super) pull: Pull,
    /// What errors count for.
    pub(super) counting: Counting,
    /// The part of the objective that a move has to take away to be kept.
    noticeable: f64,
}

/// Where the parameters of a fit once were.
pub(super) struct Place {
    factors: Vec<f64>,
    predicted: Vec<Option<PredictedSet>>,
}

/// The mean over groups and bands of the mean of |ln(predicted / measured)|.
fn objective(predicted: &[Option<PredictedSet>], counting: Counting) -> f64 {
    let sets: Vec<&PredictedSet> = predicted.iter().flatten().collect();
    let errors: Vec<f64> = Band::ALL
        .iter()
        .flat_map(|&band| group_log_errors(&sets, band, counting))
        .collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

impl<'m> Fit<'m> {
    /// Predicts all rows with the values so far; the objective.
    pub(super) fn begin(&mut self) -> Result<f64, String> {
        let everything: Vec<_> = self.rows.iter().cloned().enumerate().collect();
        self.predicted = self.predict(&everything, &self.factors.clone())?;
        Ok(self.present())
    }

    /// The objective with the values so far.
    pub(super) fn present(&self) -> f64 {
        objective(&self.predicted, self.counting) + self.pull.cost(&self.starts, &self.factors)
    }

    /// Where the parameters are, and what is predicted there.
    pub(super) fn place(&self) -> Place {
        Place {
            factors: self.factors.clone(),
            predicted: self.predicted.clone(),
        }
    }

    /// Moves all parameters to where they were.
    pub(super) fn back_to(&mut self, place: Place) {
        self.factors = place.factors;
        self.predicted = place.predicted;
    }

    /// An objective is enough below the `best` one so far to move for it.
    pub(super) fn is_better(&self, objective: f64, best: f64) -> bool {
        objective < best * (1.0 - self.noticeable)
    }

    /// Leaves parameters where they were moved to.
    pub(super) fn settle(&mut self, moves: &[(usize, f64)], predicted: Vec<Option<PredictedSet>>) {
        for &(parameter, factor) in moves {
            self.factors[parameter] = factor;
        }
        self.predicted = predicted;
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
            counting: Counting::AT_LAST,
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
    pub(super) fn moved(
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
            objective(&all, self.counting) + self.pull.cost(&self.starts, &factors),
            all,
        ))
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
        (Some("architectures"), "nvls") => ["nvls", "nvls-tree"].contains(&row.algorithm),
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
    let topology = load::load(topology, &fabricsim_topology::Overrides::default())?;
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
