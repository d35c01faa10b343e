//! Searches ways to serve: engines that do both, or engines for prompts and engines that generate, of every size.
//!
//! Everything that fits is simulated: a bound on a run would be worth less than it takes.

mod fewest;
mod rank;
mod ways;

use super::ask::{Progress, Size};
use super::ground::sized;
use super::standalone::standalone;
use crate::compare::nvlink_domain;
use crate::error::ScenarioError;
use crate::read::{Scenario, changed};
use crate::refusal::{fault, refusal};
use crate::run::run;
use crate::site::Machines;
use crate::spec::{JobSpec, TopologyRef};
use crate::sweep::{AxisSpec, with_values};
use crate::valid::validate_on;
use crate::watch::Silent;
use fabricsim_budget::{Budget, threads};
use fabricsim_report::optimize::{Reason, ServingChoice, ServingRejected, ServingSearch};
use fabricsim_report::serving::Verdict;
use fabricsim_report::{Outputs, Variant};
use fabricsim_workload::model::{ModelSpec, presets};
use fabricsim_workload::serving::spec::ServingSpec;
use fabricsim_workload::training::resolve::TrainingError;
use fabricsim_workload::training::spec::ModelRef;
use rank::{Order, pareto};
use std::collections::BTreeMap;
use std::path::Path;
use ways::{Asked, Way, ways};

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
        found: ServingSearch::new(title, order.objective, slo),
    };
    let mut machines = Vec::new();
    for machine in ask.machines {
        let mut own = match ask.sizes {
            ServingSizes::Each(sizes) => {
                let mut own = Vec::new();
                for &size in sizes {
                    own.extend(search.on(machine, size)?.1);
                }
                own
            }
            ServingSizes::FewestUpTo(most) => search.fewest(machine, most)?,
        };
        order.sort(&mut own);
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

    /// All ways to serve on so many GPUs of a machine that could be simulated, with its name; the others are put down.
    fn on(
        &mut self,
        machine: &TopologyRef,
        size: Size,
    ) -> Result<(String, Vec<ServingChoice>), ScenarioError> {
        let origin = self.scenario.origin.as_str();
        let (budget, machines) = self.how;
        let own = self.own(machine, size)?;
        let site = machines.of(&own.spec, self.folder, origin)?;
        let each = own.spec.gpus_per_node.unwrap_or(u32::MAX);
        let nodes = site.topology.nodes.iter();
        let gpus: u32 = nodes.map(|node| (node.gpus.len() as u32).min(each)).sum();
        let joined = nvlink_domain(&site.topology).unwrap_or(1);
        let all = ways(&self.model, &self.asked, (gpus, joined), &own.json);
        self.found.searched += all.ways.len() as u64 + all.undivided;
        self.found.prune(Reason::Division, all.undivided);
        let each = Budget {
            threads: 1,
            ..budget.clone()
        };
        let at = (origin, self.folder);
        let results = threads::each(
            &all.ways,
            Some(budget.threads.max(1)),
            || (),
            |(), way| simulate(way, at, (&each, machines)),
        );
        let place = (site.topology.name.as_str(), gpus);
        let none = results.is_empty();
        let mut choices = Vec::new();
        for (way, result) in all.ways.into_iter().zip(results) {
            choices.extend(self.added(place, way, result));
        }
        if none {
            let why = Reason::Division.text();
            let why = format!("all ways {why}");
            self.found.reject(place, None, why);
        }
        self.check_objective(&choices)?;
        self.found.all.extend(choices.iter().cloned());
        (self.progress)(Progress {
            machine: &site.topology.name,
            gpus,
            simulated: self.found.simulated,
            left: 0,
        });
        Ok((site.topology.name.clone(), choices))
    }

    /// A way that ran; of another one the reason is put down.
    fn added(
        &mut self,
        place: (&str, u32),
        way: Way,
        result: Result<Variant, ScenarioError>,
    ) -> Option<ServingChoice> {
        match result {
            Ok(ran) => {
                self.found.simulated += 1;
                let choice = choice(way, ran, self.found.slo_share);
                if !choice.meets {
                    let layout = Some(choice.layout.clone());
                    self.found.reject(place, layout, late(&choice));
                }
                Some(choice)
            }
            Err(error) => {
                self.found.prune(Reason::Refused, 1);
                self.found
                    .reject(place, Some(way.layout), first_fault(&error));
                None
            }
        }
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

fn simulate(
    way: &Way,
    (origin, folder): (&str, &Path),
    (budget, machines): (&Budget, &Machines),
) -> Result<Variant, ScenarioError> {
    let scenario = changed(&way.scenario, origin, "pools", &BTreeMap::new())?;
    let experiment = validate_on(machines, scenario, folder)?;
    let mut results = run(&experiment, budget, &Outputs::of([]), &mut Silent)?;
    results.summary.variants.pop().ok_or_else(|| {
        let wrong = fault("job", "nothing that runs".into(), "a serving job");
        refusal(origin, vec![wrong])
    })
}

fn choice(way: Way, ran: Variant, slo: Option<f64>) -> ServingChoice {
    let served = ran.job.serving();
    let verdict = served.and_then(|served| served.verdict);
    let share = ran.metrics.serving.slo_share;
    let failed = ran.job.failure().is_some();
    let keeps_up = !failed && verdict == Some(Verdict::Stable);
    let meets = keeps_up && slo.is_none_or(|needed| share.is_some_and(|share| share >= needed));
    ServingChoice {
        topology: ran.topology,
        nodes: ran.nodes,
        gpus: ran.gpus,
        layout: way.layout,
        metrics: ran.metrics,
        verdict,
        meets,
        scenario: way.scenario,
    }
}

/// Why one is none of the answers: it is not known to keep up, or does not meet the SLO.
fn late(choice: &ServingChoice) -> String {
    match (choice.verdict, choice.metrics.serving.slo_share) {
        (Some(Verdict::Stable), Some(share)) => {
            format!("{:.0} % of requests meet the SLO", share * 100.0)
        }
        (Some(verdict), _) => format!("not known to keep up with the load: {}", verdict.name()),
        (None, _) => "it does not come to its end".to_owned(),
    }
}

/// What is wrong first, of an error that may say several things.
fn first_fault(error: &ScenarioError) -> String {
    let text = error.to_string();
    let found = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("found:"));
    found.map_or_else(
        || text.lines().next().unwrap_or_default().to_owned(),
        |found| found.trim().to_owned(),
    )
}
