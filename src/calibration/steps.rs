//! Published steps of training jobs, and what is predicted for them.

use crate::published::{Published, wanted};
use fabricsim_budget::Budget;
use fabricsim_budget::threads;
use fabricsim_experiment::{
    ScenarioError, Silent, ValidExperiment, ValidJob, ValidTraining, changed, run, validate,
};
use fabricsim_report::Outputs;
use fabricsim_report::training::{PublishedRow, PublishedTable, TrainingOutcome};
use fabricsim_topology::{Fault, TopologyError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The kind of job that published steps are of.
const TRAINING: &str = "training";

/// A file of published steps.
pub type PublishedSteps = Published<StepTable>;

/// One source's table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTable {
    /// Where the figures are from.
    pub source: String,
    /// What is not in the source and was assumed.
    #[serde(default)]
    pub assumed: String,
    /// It takes part in fits; all others are left for a look at what nothing was fitted to.
    #[serde(default)]
    pub fits: bool,
    /// A scenario, of which each row is a variant.
    pub scenario: Value,
    /// The rows.
    pub rows: Vec<StepRow>,
}

/// One published step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRow {
    /// Its name.
    pub name: String,
    /// What is different from the table's scenario.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Measured seconds of a step.
    #[serde(default)]
    pub step_s: Option<f64>,
    /// In its place: operations per second and GPU, 1e12, as the source counts them …
    #[serde(default)]
    pub tflops_per_gpu: Option<f64>,
    /// … which is so many times the model's operations (4/3 with all activations recomputed).
    #[serde(default = "one")]
    pub counted: f64,
}

fn one() -> f64 {
    1.0
}

/// Predicts the rows whose table or name holds one of `only` (all if there is none), on all
/// processors; the same for any number of them.
///
/// # Errors
/// A row that is no valid job.
pub fn predict_steps(
    steps: &PublishedSteps,
    only: &[String],
    budget: &Budget,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<PublishedTable>, ScenarioError> {
    let work: Vec<(usize, &StepRow)> = steps
        .tables
        .iter()
        .enumerate()
        .flat_map(|(t, table)| {
            let rows = table
                .rows
                .iter()
                .filter(|r| wanted(only, &table.source, &r.name));
            rows.map(move |r| (t, r))
        })
        .collect();
    let counting = budget.work.part("steps of jobs", work.len() as u64);
    let beside = budget.beside_others(budget.threads);
    let found = threads::each(
        &work,
        Some(budget.threads),
        || (),
        |(), &(table, row)| {
            let experiment = of_row(steps, &steps.tables[table], row);
            let result = experiment.and_then(|experiment| predict(&experiment, row, &beside));
            counting.add(1);
            done();
            result
        },
    );
    let mut tables: Vec<PublishedTable> = steps
        .tables
        .iter()
        .map(|t| PublishedTable {
            source: t.source.clone(),
            assumed: t.assumed.clone(),
            rows: Vec::new(),
        })
        .collect();
    for (&(table, _), result) in work.iter().zip(found) {
        tables[table].rows.push(result?);
    }
    tables.retain(|t| !t.rows.is_empty());
    Ok(tables)
}

/// A table's scenario with what a row changes of it, checked: one training job.
fn experiment(
    scenario: &Value,
    set: &BTreeMap<String, Value>,
    (folder, place): (&Path, &str),
) -> Result<ValidExperiment, ScenarioError> {
    let scenario = changed(scenario, place, "set", set)?;
    let kind = scenario.spec.job.kind();
    if kind != TRAINING || !scenario.spec.variants.is_empty() {
        return Err(no_training_job(kind, place));
    }
    validate(scenario, folder)
}

/// The training job of a table's scenario with what a row changes of it.
///
/// # Errors
/// What is no valid training job.
pub(crate) fn training_job(
    scenario: &Value,
    set: &BTreeMap<String, Value>,
    (folder, place): (&Path, &str),
) -> Result<ValidTraining, ScenarioError> {
    let experiment = experiment(scenario, set, (folder, place))?;
    let mut jobs = experiment.variants.into_iter().map(|variant| variant.job);
    match jobs.next() {
        Some(ValidJob::Training(job)) => Ok(*job),
        _ => Err(no_training_job("", place)),
    }
}

fn no_training_job(kind: &str, place: &str) -> ScenarioError {
    let faults = vec![Fault {
        path: "job".into(),
        found: format!("a job of the kind `{kind}`, or variants"),
        expected: format!("one job of the kind `{TRAINING}`"),
        nearest: None,
    }];
    let origin = place.to_owned();
    TopologyError::Faults { origin, faults }.into()
}

/// A row's job, checked.
pub(crate) fn of_row(
    steps: &PublishedSteps,
    table: &StepTable,
    row: &StepRow,
) -> Result<ValidExperiment, ScenarioError> {
    let place = format!("{}, row `{}`", steps.origin, row.name);
    experiment(&table.scenario, &row.set, (&steps.folder, &place))
}

/// A row's step beside what was measured.
pub(crate) fn predict(
    experiment: &ValidExperiment,
    row: &StepRow,
    budget: &Budget,
) -> Result<PublishedRow, ScenarioError> {
    let only_numbers = Outputs::of([]);
    let results = run(experiment, budget, &only_numbers, &mut Silent)?;
    let variant = results.summary.variants.first();
    let outcome = variant.and_then(|variant| Some(&variant.job.training()?.outcome));
    let gpus = variant.map_or(0, |variant| variant.gpus);
    let kind = variant.and_then(|variant| variant.job.training()?.kind.clone());
    let failed = |problem: String| PublishedRow {
        name: row.name.clone(),
        gpus,
        kind: kind.clone(),
        predicted_s: None,
        measured_s: row.step_s.unwrap_or(0.0),
        mfu: 0.0,
        problem,
    };
    Ok(match outcome {
        None => failed(String::new()),
        Some(TrainingOutcome::Failed(error)) => failed(error.clone()),
        Some(TrainingOutcome::Ran(result)) => PublishedRow {
            name: row.name.clone(),
            gpus,
            kind: kind.clone(),
            predicted_s: Some(result.step_s),
            // Both count the same operations, so that rates are times.
            measured_s: row.step_s.unwrap_or_else(|| {
                let rate = row.tflops_per_gpu.unwrap_or(0.0);
                result.step_s * result.model_tflops_per_gpu * row.counted / rate
            }),
            mfu: result.mfu,
            problem: String::new(),
        },
    })
}
