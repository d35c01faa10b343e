//! Searches ways to serve: engines that do both, or engines for prompts and engines that generate, of every size.
//!
//! Everything that fits is simulated until it is known whether it does what is asked; the fewest GPUs are those of which some
//! way does. What full engines do bounds what can be kept of a load.

mod fewest;
mod holds;
mod place;
mod rank;
mod trial;
mod ways;

use super::ask::{Progress, Size};
use super::ground::sized;
use super::standalone::standalone;
use crate::error::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::{fault, refusal};
use crate::site::Machines;
use crate::spec::{JobSpec, TopologyRef};
use crate::sweep::{AxisSpec, with_values};
use fabricsim_budget::Budget;
use fabricsim_report::optimize::{ServingChoice, ServingLayout, ServingRejected, ServingSearch};
use fabricsim_workload::model::{ModelSpec, presets};
use fabricsim_workload::serving::spec::{LoadSpec, ServingSpec};
use fabricsim_workload::training::resolve::TrainingError;
use fabricsim_workload::training::spec::ModelRef;
use place::Until;
use rank::{Order, pareto};
use std::collections::BTreeMap;
use std::path::Path;
use trial::{Goal, late};
use ways::{Asked, Way};

/// What serving is judged by, where nothing else is said.
const OBJECTIVE: &str = "output_tokens_per_s_per_gpu";

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct ServingAsk<'a> {
    /// On these machines.
    pub machines: &'a [TopologyRef],
    /// How many GPUs of each.
    pub sizes: ServingSizes<'a>,
    /// By this metric; if none is asked for, by the fewest GPUs, and of as many by tokens per second of each.
    pub objective: Option<&'a str>,
    /// The part of requests that has to meet the SLO, if there is one.
    pub slo_share: f64,
    /// So many of each machine are shown.
    pub top: usize,
    /// Values of knobs, in place of those that are tried.
    pub over: &'a [AxisSpec],
}

/// How many GPUs serve.
#[derive(Debug, Clone, Copy)]
pub enum ServingSizes<'a> {
    /// Each of these numbers.
    Each(&'a [Size]),
    /// As few as do what is asked, up to so many GPUs.
    FewestUpTo(u32),
}

/// Searches ways to serve a scenario's load: the best of each machine among those that keep up and meet the SLO.
///
/// # Errors
/// A scenario that serves nothing, machines that are none, GPUs that fill no nodes, knobs or an objective that ways to
/// serve do not have.
pub fn optimize_serving(
    (scenario, folder): (&Scenario, &Path),
    ask: ServingAsk<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<ServingSearch, ScenarioError> {
    let origin = scenario.origin.as_str();
    let JobSpec::Serving(job) = &scenario.spec.job else {
        let found = format!("a job of the kind `{}`", scenario.spec.job.kind());
        return Err(refusal(origin, vec![fault("job", found, "`serving`")]));
    };
    let asked = Asked::of(ask.over).map_err(|fault| refusal(origin, vec![fault]))?;
    let slo = job.slo.as_ref().map(|_| ask.slo_share);
    let order = Order {
        objective: ask.objective.unwrap_or(OBJECTIVE),
        fewest_first: ask.objective.is_none() || matches!(ask.sizes, ServingSizes::FewestUpTo(_)),
    };
    let title = format!("ways to serve {}", scenario.spec.name);
    let mut search = Search {
        scenario,
        folder,
        model: model(job)?,
        asked,
        order,
        how,
        progress,
        load: job.load.clone(),
        met: None,
        found: ServingSearch::new(title, order.objective, slo),
    };
    let mut machines = Vec::new();
    for machine in ask.machines {
        let mut own = match ask.sizes {
            ServingSizes::Each(sizes) => {
                let mut own = Vec::new();
                for &size in sizes {
                    let mut place = search.place(machine, size)?;
                    search.simulate_on(&mut place, Until::All);
                    own.append(&mut place.choices);
                }
                own
            }
            ServingSizes::FewestUpTo(most) => {
                let place = search.fewest(machine, most)?;
                place.map_or_else(Vec::new, |place| place.choices)
            }
        };
        search.check_objective(&own)?;
        order.sort(&mut own);
        search.know_better(&mut own, ask.top)?;
        search.miss(&own);
        machines.push(own);
    }
    settled(search.found, machines, (order, ask.top), folder)
}

/// The best of each machine, and what no other one beats.
fn settled(
    mut found: ServingSearch,
    mut machines: Vec<Vec<ServingChoice>>,
    (order, top): (Order<'_>, usize),
    folder: &Path,
) -> Result<ServingSearch, ScenarioError> {
    found.pareto = pareto(&found.all);
    machines.retain(|own| own.first().is_some_and(|choice| choice.meets));
    machines.sort_by(|a, b| order.compare(&a[0], &b[0]));
    for own in machines {
        let meets = own.into_iter().filter(|choice| choice.meets);
        found.best.extend(meets.take(top));
    }
    found.pareto.retain(|choice| !found.best.contains(choice));
    for choice in &mut found.best {
        choice.scenario = standalone(choice.scenario.take(), folder)?;
    }
    found.settle();
    Ok(found)
}

fn model(job: &ServingSpec) -> Result<ModelSpec, ScenarioError> {
    match &job.model {
        ModelRef::Preset(name) => {
            let preset = presets::find(name).map_err(TrainingError::Model)?;
            Ok(preset.model.clone())
        }
        ModelRef::Shape(shape) => Ok((**shape).clone()),
    }
}

/// A search under way.
struct Search<'a> {
    scenario: &'a Scenario,
    folder: &'a Path,
    model: ModelSpec,
    asked: Asked,
    order: Order<'a>,
    how: (&'a Budget, &'a Machines),
    progress: &'a dyn Fn(Progress<'_>),
    /// What is to be served.
    load: LoadSpec,
    /// Engines that did what is asked.
    met: Option<ServingLayout>,
    found: ServingSearch,
}

impl Search<'_> {
    /// The scenario on so many GPUs of a machine.
    fn own(&self, machine: &TopologyRef, size: Size) -> Result<Scenario, ScenarioError> {
        let origin = self.scenario.origin.as_str();
        let (json, set) = sized(self.scenario, (machine, size));
        let json = with_values(&json, origin, &set, (self.folder, self.how.1))?.json;
        changed(&json, origin, "size", &BTreeMap::new())
    }

    /// The first so many are simulated until their figures are known.
    fn know_better(&mut self, own: &mut [ServingChoice], top: usize) -> Result<(), ScenarioError> {
        let does = own.iter().take_while(|choice| choice.meets).count();
        let first = &mut own[..does.min(top)];
        let ways: Vec<Way> = first.iter().map(Way::from).collect();
        for (known, result) in first.iter_mut().zip(self.run(&ways, Goal::Known)) {
            let known_better = result?;
            let same = self.found.all.iter_mut().find(|choice| *choice == known);
            if let Some(same) = same {
                *same = known_better.clone();
            }
            *known = known_better;
        }
        self.order.sort(first);
        Ok(())
    }

    /// An objective that no result has is refused as soon as there is one.
    fn check_objective(&self, choices: &[ServingChoice]) -> Result<(), ScenarioError> {
        let objective = self.order.objective;
        let has = |choice: &ServingChoice| choice.metrics.number(objective).is_some();
        if choices.iter().any(has) || !choices.iter().any(|choice| choice.meets) {
            return Ok(());
        }
        let found = format!("`{objective}`, which no way to serve has");
        let expected = "a metric of serving, such as output_tokens_per_s_per_gpu, ttft_ms_p99 or usd_per_mtok \
                        (with a price: dollars_per_gpu_hour of the scenario)";
        let wrong = fault("--objective", found, expected);
        Err(refusal(&self.scenario.origin, vec![wrong]))
    }

    /// A machine of which no way does what is asked is told of, with the one that is nearest.
    fn miss(&mut self, own: &[ServingChoice]) {
        let Some(last) = self.found.rejected.last().cloned() else {
            return;
        };
        match own.first() {
            Some(first) if first.meets => {}
            Some(first) => self.found.missed.push(ServingRejected {
                topology: first.topology.clone(),
                gpus: first.gpus,
                layout: Some(first.layout.clone()),
                why: late(first),
            }),
            None => self.found.missed.push(last),
        }
    }
}
