//! The best layout of a training job on a machine.

use super::{BestOf, MachineSize, Question, runnable, searched, value};
use crate::compare::filling;
use crate::error::ScenarioError;
use crate::optimize::{Ask, Progress, Size, optimize};
use crate::read::Scenario;
use crate::site::{Machines, machine_of};
use crate::spec::TopologyRef;
use fabricsim_budget::Budget;
use fabricsim_report::comparison::Searched;
use std::path::Path;

/// What a layout is best by.
const OBJECTIVE: &str = "tokens_per_s_per_gpu";

pub(super) fn best(
    (scenario, folder): (&Scenario, &Path),
    machine: &TopologyRef,
    question: Question<'_>,
    how: (&Budget, &Machines),
    progress: &dyn Fn(Progress<'_>),
) -> Result<BestOf, ScenarioError> {
    let topology = machine_of(machine, folder, &scenario.origin)?;
    let (nodes, _) = filling(&topology, question.gpus, &scenario.origin)?;
    let ask = Ask {
        machines: std::slice::from_ref(machine),
        sizes: &[Size::Gpus(question.gpus)],
        oversubscription: &[],
        limits: &[],
        objective: OBJECTIVE,
        top: 1,
        over: &[],
        exhaustive: false,
    };
    let (found, _) = optimize((scenario, folder), ask, how, progress)?;
    let best = found.best.first();
    let own = best.map(|best| runnable(&best.scenario, &scenario.origin));
    Ok(BestOf {
        name: String::new(),
        scenario: own.transpose()?,
        searched: Searched {
            tried_gpus: vec![question.gpus],
            rejected: found.rejected.iter().map(value).collect(),
            why: best.is_none().then(|| found.answer.clone()),
            ..searched(
                best.map(|best| &best.layout),
                found.searched,
                found.simulated,
            )
        },
        machine: MachineSize::of(&topology, nodes, question.gpus),
        training: true,
        slo_share: question.slo_share,
    })
}
