//! The fewest GPUs of a machine that keep a load; where none do, how much of it they keep.

use super::{BestOf, MachineSize, Question, runnable, searched, value};
use crate::compare::filling;
use crate::error::ScenarioError;
use crate::optimize::{Progress, ServingAsk, ServingSizes, optimize_serving};
use crate::read::Scenario;
use crate::site::{Machines, machine_of};
use crate::spec::TopologyRef;
use fabricsim_budget::Budget;
use fabricsim_report::comparison::{Holds, Searched};
use serde_json::Value;
use std::path::Path;

/// What engines are best by.
const OBJECTIVE: &str = "output_tokens_per_s_per_gpu";

pub(super) fn best(
    (scenario, folder): (&Scenario, &Path),
    machine: &TopologyRef,
    question: Question<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<BestOf, ScenarioError> {
    let topology = machine_of(machine, folder, &scenario.origin)?;
    let (nodes, _) = filling(&topology, question.gpus, &scenario.origin)?;
    let ask = ServingAsk {
        machines: std::slice::from_ref(machine),
        sizes: ServingSizes::FewestUpTo(question.gpus),
        objective: Some(OBJECTIVE),
        over: &[],
        slo_share: question.slo_share,
        top: 1,
    };
    let found = optimize_serving((scenario, folder), ask, how, progress)?;
    let held = found.held.first();
    let best = found.best.first().or(held.map(|held| &held.choice));
    // Of a load that is not kept, engines that keep most of it are shown under all of it.
    let load = &scenario.json["job"]["serving"]["load"];
    let own = best.map(|best| runnable(&with_load(&best.scenario, load), &scenario.origin));
    let mut tried_gpus: Vec<u32> = found.tried.iter().map(|tried| tried.gpus).collect();
    tried_gpus.sort_unstable();
    let most = question.gpus;
    let why = || format!("no way to serve on {most} GPUs keeps a thousandth of this load");
    Ok(BestOf {
        name: String::new(),
        scenario: own.transpose()?,
        searched: Searched {
            tried_gpus,
            rejected: found.rejected.iter().map(value).collect(),
            why: best.is_none().then(why),
            holds: held.map(|held| Holds {
                kept: held.kept,
                not_kept: held.not_kept,
            }),
            ..searched(
                best.map(|best| &best.layout),
                found.searched,
                found.simulated,
            )
        },
        machine: MachineSize::of(&topology, nodes, most),
        training: false,
        slo_share: question.slo_share,
    })
}

/// A scenario with another load.
fn with_load(scenario: &Value, load: &Value) -> Value {
    let mut scenario = scenario.clone();
    scenario["job"]["serving"]["load"] = load.clone();
    scenario
}
