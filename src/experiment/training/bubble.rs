//! What a pipeline loses: the bubble.

use fabricsim_engine::job::Ledger;
use fabricsim_plan::job::{GroupRole, Job};
use fabricsim_units::Time;

/// The part of all actors' time, 0 to 1, in which they wait for other stages or have nothing left
/// to do, each as often as its weight says.
pub(super) fn bubble(job: &Job, ledgers: &[Ledger], weights: &[f64]) -> f64 {
    let mut between_stages = vec![false; job.exchanges.len()];
    for group in &job.groups {
        for exchange in &group.exchanges {
            between_stages[exchange.0 as usize] = joins_stages(group.role);
        }
    }
    let (mut lost, mut all) = (0.0, 0.0);
    for (ledger, weight) in ledgers.iter().zip(weights) {
        let waits = ledger.waiting_in.iter();
        let waits: Time = waits
            .filter(|(exchange, _)| between_stages[exchange.0 as usize])
            .map(|(_, time)| *time)
            .sum();
        lost += (waits + ledger.idle).seconds() * weight;
        all += ledger.total().seconds() * weight;
    }
    if all > 0.0 { lost / all } else { 0.0 }
}

/// Whether a communicator's ranks are of different stages, so that who waits there waits for a
/// stage.
const fn joins_stages(role: GroupRole) -> bool {
    match role {
        GroupRole::Pipeline | GroupRole::Embedding | GroupRole::StepEnd => true,
        GroupRole::TensorParallel
        | GroupRole::DataParallel
        | GroupRole::Replicas
        | GroupRole::ContextParallel
        | GroupRole::ExpertParallel
        | GroupRole::Collective => false,
    }
}
