//! The best layout of each machine, found before they are compared: which machine is better is asked of
//! each at its best.

mod answer;
mod serving;
mod training;

use super::compare::free;
use super::error::ScenarioError;
use super::optimize::Progress;
use super::read::{Scenario, changed};
use super::refusal::{fault, refusal};
use super::site::Machines;
use super::spec::{JobSpec, TopologyRef};
use fabricsim_budget::Budget;
use fabricsim_report::Summary;
use fabricsim_report::comparison::Searched;
use fabricsim_report::serving::ServingResult;
use fabricsim_report::training::{TrainingOutcome, TrainingResult};
use fabricsim_report::{JobResult, Metrics, Variant};
use fabricsim_topology::Topology;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use answer::settle;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Of these machines.
    pub machines: &'a [TopologyRef],
    /// With so many GPUs of each; to serve, at most so many: the fewest are searched for.
    pub gpus: u32,
    /// To serve: the part of requests that has to keep the SLO, if there is one.
    pub slo_share: f64,
}

/// The best of a machine.
#[derive(Debug)]
pub struct BestOf {
    /// The machine's name, unique among those asked for.
    pub name: String,
    /// What is run to be compared: the best layout; of a load that none keeps the one that keeps most. Nothing
    /// if none runs.
    pub scenario: Option<Scenario>,
    /// The search.
    pub searched: Searched,
    machine: MachineSize,
    training: bool,
    slo_share: f64,
}

/// A machine with the GPUs that were asked for.
#[derive(Debug)]
struct MachineSize {
    topology: String,
    title: String,
    nodes: u32,
    gpus: u32,
}

impl MachineSize {
    fn of(topology: &Topology, nodes: u32, gpus: u32) -> Self {
        MachineSize {
            topology: topology.name.clone(),
            title: topology.title.clone(),
            nodes,
            gpus,
        }
    }
}

/// So many of those that were left out are named.
const MAX_REJECTED: usize = 20;

/// Searches the best layout of each machine for a job.
///
/// # Errors
/// A job that has no layouts, a machine that is none, GPUs that fill no whole number of its nodes.
pub fn best_of_each(
    (scenario, folder): (&Scenario, &Path),
    question: Question<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<Vec<BestOf>, ScenarioError> {
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for machine in question.machines {
        let at = (scenario, folder);
        let mut best = match &scenario.spec.job {
            JobSpec::Training(_) => training::best(at, machine, question, how, progress)?,
            JobSpec::Serving(_) => serving::best(at, machine, question, how, progress)?,
            other => {
                let found = format!("a job of the kind `{}`", other.kind());
                let expected = "`training` or `serving`: others have no layouts";
                return Err(refusal(
                    &scenario.origin,
                    vec![fault("job", found, expected)],
                ));
            }
        };
        best.name = free(&best.machine.topology, &names);
        names.insert(best.name.clone());
        best.searched.rejected.truncate(MAX_REJECTED);
        all.push(best);
    }
    Ok(all)
}

/// A layout's scenario as it is run.
fn runnable(json: &Value, origin: &str) -> Result<Scenario, ScenarioError> {
    changed(json, origin, "layout", &BTreeMap::new())
}

/// What a search came to that found this layout, of so many, and simulated so many.
fn searched<L: Serialize + ToString>(best: Option<&L>, all: u64, simulated: u64) -> Searched {
    Searched {
        layout: best.map(value),
        layout_text: best.map(ToString::to_string),
        searched: all,
        simulated,
        tried_gpus: Vec::new(),
        rejected: Vec::new(),
        why: None,
        holds: None,
    }
}

/// As JSON, for what was searched: it can always be written.
fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

impl BestOf {
    /// The summary of a machine of which no layout runs.
    #[must_use]
    pub fn without_layout(&self, seed: u64) -> Summary {
        let why = self.searched.why.clone().unwrap_or_default();
        let job = match self.training {
            true => JobResult::Training(Box::new(TrainingResult {
                model: String::new(),
                parameters: 0.0,
                layout: "none".to_owned(),
                schedule: String::new(),
                kind: None,
                fault_prices: None,
                outcome: TrainingOutcome::Failed(why),
            })),
            false => JobResult::Serving(Box::new(ServingResult {
                failed: Some(why),
                ..ServingResult::default()
            })),
        };
        let mut summary = Summary::new(self.name.clone(), seed, Value::Null);
        summary.variants.push(Variant {
            name: self.name.clone(),
            topology: self.machine.topology.clone(),
            topology_title: self.machine.title.clone(),
            nodes: self.machine.nodes,
            gpus: self.machine.gpus,
            differs: Vec::new(),
            no_effect: None,
            search: None,
            metrics: Metrics::default(),
            job,
        });
        summary
    }
}
