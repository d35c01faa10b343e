//! Fitting what power allows products of a long step, to published steps of training jobs.
//!
//! One figure a generation of GPUs, `kernels.power` of `topologies/hardware/architectures.json`, the same for all
//! systems, models, sizes and data types. Tables with `fits` take part, of them the jobs of up to [`LARGEST_JOB`]
//! GPUs: larger ones take long to simulate, and more of communication. What is least is the mean over tables of the
//! mean of squared errors, as logarithms, so that tables count alike. The figure is sought on a ladder of hundredths, first in
//! wide steps around where it stands, then in narrower ones around the best.

use crate::steps::{PublishedSteps, StepRow, of_row, predict};
use fabricsim_budget::{Budget, threads};
use fabricsim_experiment::{ScenarioError, ValidExperiment, ValidJob, ValidTraining};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a fit of steps did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFitLog {
    /// What wrote it.
    pub comment: String,
    /// Generations of GPUs.
    pub generations: Vec<FittedPower>,
}

/// A generation's figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FittedPower {
    /// Its place in the hardware files, with dots.
    pub path: String,
    /// Tables that took part.
    pub tables: usize,
    /// Steps of them that took part.
    pub rows: usize,
    /// The figure before and after.
    pub value: (f64, f64),
    /// The mean over tables of the mean squared error, as a logarithm, before and after.
    pub objective: (f64, f64),
}

/// Jobs of more GPUs take no part.
const LARGEST_JOB: usize = 600;

/// Steps of the search, in hundredths.
const STRIDES: [u32; 4] = [8, 4, 2, 1];

/// A figure is at least and at most so many hundredths.
const LADDER: (u32, u32) = (10, 100);

/// A row that takes part.
struct Used<'s> {
    table: usize,
    row: &'s StepRow,
}

/// Fits the figures of all generations that tables have steps of; `tell` hears of each.
///
/// # Errors
/// A row that is no valid job.
pub fn fit_steps(
    steps: &PublishedSteps,
    budget: &Budget,
    tell: &dyn Fn(&str),
) -> Result<StepFitLog, ScenarioError> {
    let mut log = StepFitLog {
        comment: "written by `fabricsim fit --steps`".to_owned(),
        generations: Vec::new(),
    };
    for (generation, (before, rows)) in rows_by_generation(steps)? {
        let tables: BTreeSet<usize> = rows.iter().map(|used| used.table).collect();
        let mut search = Search {
            steps,
            generation: &generation,
            rows: &rows,
            budget,
            known: BTreeMap::new(),
        };
        let (first, (after, last)) = search.nearest(hundredths(before))?;
        let done = FittedPower {
            path: format!("architectures.{generation}.kernels.power"),
            tables: tables.len(),
            rows: rows.len(),
            value: (before, f64::from(after) / 100.0),
            objective: (first, last),
        };
        tell(&format!(
            "{}: {} steps of {} tables, {:.2} -> {:.2}",
            done.path, done.rows, done.tables, done.value.0, done.value.1
        ));
        log.generations.push(done);
    }
    Ok(log)
}

fn hundredths(value: f64) -> u32 {
    ((value * 100.0).round() as u32).clamp(LADDER.0, LADDER.1)
}

/// A generation's figure, and the rows of it that take part.
type ByGeneration<'s> = BTreeMap<String, (f64, Vec<Used<'s>>)>;

fn rows_by_generation(steps: &PublishedSteps) -> Result<ByGeneration<'_>, ScenarioError> {
    let mut found = ByGeneration::new();
    for (table, of) in steps.tables.iter().enumerate().filter(|(_, t)| t.fits) {
        for row in &of.rows {
            let mut experiment = of_row(steps, of, row)?;
            let Some(job) = training(&mut experiment).filter(|job| job.gpus.len() <= LARGEST_JOB)
            else {
                continue;
            };
            let gpu = job
                .gpus
                .first()
                .and_then(|gpu| job.topology.gpu_model(*gpu));
            let Some(generation) = gpu.map(|gpu| gpu.architecture.clone()) else {
                continue;
            };
            let model = job.topology.architectures.get(&generation);
            let power = model.and_then(|m| m.kernels.as_ref()?.power.as_ref());
            if let Some(power) = power {
                let (_, rows) = found.entry(generation).or_insert((power.value, Vec::new()));
                rows.push(Used { table, row });
            }
        }
    }
    Ok(found)
}

fn training(experiment: &mut ValidExperiment) -> Option<&mut ValidTraining> {
    match &mut experiment.variants.first_mut()?.job {
        ValidJob::Training(job) => Some(job),
        _ => None,
    }
}

/// A search for the figure of one generation.
struct Search<'s> {
    steps: &'s PublishedSteps,
    generation: &'s str,
    rows: &'s [Used<'s>],
    budget: &'s Budget,
    /// The objective at figures that were tried, in hundredths.
    known: BTreeMap<u32, f64>,
}

impl Search<'_> {
    /// The objective at `start`, and where it is least.
    fn nearest(&mut self, start: u32) -> Result<(f64, (u32, f64)), ScenarioError> {
        let first = self.objective(start)?;
        let mut best = (start, first);
        for stride in STRIDES {
            loop {
                let centre = best.0;
                let around = [centre.saturating_sub(stride), centre + stride];
                for power in around.map(|power| power.clamp(LADDER.0, LADDER.1)) {
                    let objective = self.objective(power)?;
                    if objective < best.1 {
                        best = (power, objective);
                    }
                }
                if best.0 == centre {
                    break;
                }
            }
        }
        Ok((first, best))
    }

    fn objective(&mut self, power: u32) -> Result<f64, ScenarioError> {
        if let Some(&known) = self.known.get(&power) {
            return Ok(known);
        }
        let found = threads::each(
            self.rows,
            Some(self.budget.threads),
            || (),
            |(), used| self.error(used, f64::from(power) / 100.0),
        );
        let mut errors: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (used, error) in self.rows.iter().zip(found) {
            if let Some(error) = error? {
                errors.entry(used.table).or_default().push(error);
            }
        }
        let count = errors.len().max(1) as f64;
        let of_table = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len() as f64;
        let objective = errors.into_values().map(of_table).sum::<f64>() / count;
        self.known.insert(power, objective);
        Ok(objective)
    }

    /// The squared error of a step with this figure, as a logarithm; `None` if the job does not end.
    fn error(&self, used: &Used<'_>, power: f64) -> Result<Option<f64>, ScenarioError> {
        let mut experiment = of_row(self.steps, &self.steps.tables[used.table], used.row)?;
        if let Some(job) = training(&mut experiment) {
            let machine = Arc::make_mut(&mut job.topology);
            let model = machine.architectures.get_mut(self.generation);
            let kernels = model.and_then(|model| model.kernels.as_mut());
            if let Some(figure) = kernels.and_then(|kernels| kernels.power.as_mut()) {
                figure.value = power;
            }
        }
        let row = predict(&experiment, used.row, self.budget)?;
        Ok(row.error().map(|error| error.ln_1p().powi(2)))
    }
}
