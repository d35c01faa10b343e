//! Running the points of a sweep, several at a time.

use super::place::short_name;
use super::points::{Point, Sweep};
use crate::error::ScenarioError;
use crate::run::run;
use crate::site::Machines;
use crate::valid::validate_on;
use crate::watch::Silent;
use fabricsim_budget::{Budget, threads};
use fabricsim_report::sweep::{PointRow, Status, rows_of};
use fabricsim_report::{Outputs, ReportError, Results};
use fabricsim_topology::TopologyError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs points of a sweep by their numbers; each is told to `done` as soon as it is over, with the time
/// that it took, in no certain order. Threads and memory of the budget are shared; what has no memory
/// beside others is run by itself when they are over.
///
/// # Errors
/// What `done` gives; what is wrong with a point is its result.
pub fn run_points(
    sweep: &Sweep,
    numbers: &[u32],
    (budget, machines): (&Budget, &Machines),
    done: &(dyn Fn(PointRow, Duration) -> Result<(), ReportError> + Sync),
) -> Result<(), ReportError> {
    let failed: Mutex<Option<ReportError>> = Mutex::new(None);
    let over = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let at_once = budget.threads.min(numbers.len()).max(1);
    let each = budget.beside_others((budget.threads / at_once).max(1));
    let counting = budget.work.part("points", numbers.len() as u64);
    let tell = |row, time| {
        counting.add(1);
        if let Err(error) = done(row, time) {
            over().get_or_insert(error);
        }
    };
    let find = |number: &u32| sweep.points.get(*number as usize);
    let points: Vec<&Point> = numbers.iter().filter_map(find).collect();
    let waiting = threads::each(
        &points,
        Some(at_once),
        || (),
        |(), point| {
            if over().is_some() {
                return None;
            }
            let began = Instant::now();
            match point_row(sweep, point, (&each, machines)) {
                Ok(row) => {
                    tell(row, began.elapsed());
                    None
                }
                Err(OutOfMemory) => Some(*point),
            }
        },
    );
    for point in waiting.into_iter().flatten() {
        if over().is_some() {
            break;
        }
        let began = Instant::now();
        let row = point_row(sweep, point, (budget, machines));
        let row = row.unwrap_or_else(|OutOfMemory| {
            let why = "more memory than the budget has (--memory)".to_owned();
            row_of(sweep, point, Status::Failed, Some(why))
        });
        tell(row, began.elapsed());
    }
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

/// There was no memory for it.
struct OutOfMemory;

fn point_row(
    sweep: &Sweep,
    point: &Point,
    how: (&Budget, &Machines),
) -> Result<PointRow, OutOfMemory> {
    match results(sweep, point, how) {
        Ok(Results { summary, .. }) => {
            let failure = summary.variants.iter().find_map(|v| v.job.failure());
            let status = match failure {
                Some(_) => Status::Failed,
                None => Status::Done,
            };
            let mut row = row_of(sweep, point, status, failure.map(str::to_owned));
            row.rows = summary.variants.iter().flat_map(rows_of).collect();
            Ok(row)
        }
        Err(ScenarioError::Memory(_)) => Err(OutOfMemory),
        Err(error) => Ok(row_of(
            sweep,
            point,
            Status::Refused,
            Some(told(sweep, &error)),
        )),
    }
}

fn results(
    sweep: &Sweep,
    point: &Point,
    (budget, machines): (&Budget, &Machines),
) -> Result<Results, ScenarioError> {
    let scenario = sweep.scenario(point, machines)?;
    let experiment = validate_on(machines, scenario, sweep.folder(point))?;
    run(&experiment, budget, &Outputs::of([]), &mut Silent)
}

impl Sweep {
    /// The values of a point by its axes, as its row has them.
    #[must_use]
    pub fn values(&self, point: &Point) -> BTreeMap<String, Value> {
        let named = self.axes.iter().zip(&point.values);
        let values = named.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        values.collect()
    }
}

/// A row without results.
fn row_of(sweep: &Sweep, point: &Point, status: Status, why: Option<String>) -> PointRow {
    PointRow {
        point: point.number,
        values: sweep.values(point),
        status,
        why: why.map(|why| one_line(&why)),
        program: None,
        rows: Vec::new(),
    }
}

/// What is wrong with a point, whose values stand beside; of values that an axis of its own would set, how.
fn told(sweep: &Sweep, error: &ScenarioError) -> String {
    let ScenarioError::Input(TopologyError::Faults { faults, .. }) = error else {
        return error.to_string();
    };
    let told = faults.iter().map(|fault| {
        let mut text = format!(
            "{}: found {}, expected {}",
            fault.path, fault.found, fault.expected
        );
        if let Some(name) = &fault.nearest {
            text += &format!("; did you mean `{name}`?");
        }
        if let Some(axis) =
            short_name(&fault.path).filter(|&short| !sweep.varies(short, &fault.path))
        {
            text += &format!(" (--over {axis}=… sets it beside the other axes)");
        }
        text
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Line breaks as spaces.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
