//! A variant as a job of tasks, under its own faults or others.

use super::valid::ValidTraining;
use crate::ScenarioError;
use crate::fallback::fallen;
use crate::footprint::{communications_footprint, machine_footprint, task_footprints};
use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::job::{JobError, Rehearsals, Rehearsed};
use fabricsim_fault::{Fall, Faults};
use fabricsim_topology::LinkId;
use fabricsim_workload::exchanges::AlikeNumbers;
use fabricsim_workload::training::lower::{Lowered, Surroundings, lower};
use std::collections::BTreeMap;

/// What runs of one variant under several faults share, by the links that are gone before the job begins
/// and what falls back: what its communications take alone. Other faults do not change that.
#[derive(Default)]
pub(super) struct Shared(BTreeMap<(Vec<LinkId>, Vec<Fall>), (AlikeNumbers, Rehearsals)>);

/// A variant's tasks under some faults, and its communications alone.
pub(super) struct Ready {
    pub(super) lowered: Lowered,
    pub(super) rehearsed: Result<Vec<Rehearsed>, JobError>,
}

impl Shared {
    /// The tasks of a variant under `faults`, and what its communications take alone.
    ///
    /// # Errors
    /// Communications that cannot be planned, more than memory holds.
    pub(super) fn ready(
        &mut self,
        variant: &ValidTraining,
        faults: &Faults,
        (seed, budget): (u64, &Budget),
    ) -> Result<Ready, ScenarioError> {
        let by = (faults.gone_links().collect(), faults.falls());
        let (numbers, rehearsals) = self.0.entry(by).or_default();
        let lowered = lowered_under(variant, faults, (seed, budget), numbers)?;
        let rate = |link| variant.topology.rate(link);
        let rehearsed = rehearsals.rehearse(&lowered.job, rate, budget);
        Ok(Ready { lowered, rehearsed })
    }
}

/// The tasks of a variant under `faults`. Ranks that faults treat alike may be alike, unless the
/// budget asks for every one; what is gone for good before the job begins NCCL plans around. All
/// that running it takes has to fit the budget's memory.
///
/// # Errors
/// Communications that cannot be planned, more than memory holds.
pub(super) fn lowered_under(
    variant: &ValidTraining,
    faults: &Faults,
    (seed, budget): (u64, &Budget),
    numbers: &mut AlikeNumbers,
) -> Result<Lowered, ScenarioError> {
    let mark = |rank: usize| match budget.exact_full {
        true => rank as u32,
        false => faults.signature(rank),
    };
    let marks: Vec<u32> = (0..variant.gpus.len()).map(mark).collect();
    let dead: Vec<LinkId> = faults.gone_links().collect();
    let machine = machine_footprint(&variant.topology);
    let machine = budget.memory.estimating().hold(Purpose::Machine, machine)?;
    let mut lowered = lower(
        &variant.training,
        &variant.topology,
        &variant.gpus,
        &fallen(&variant.env, faults),
        Surroundings {
            seed,
            marks: &marks,
            dead: &dead,
            shared: false,
        },
        numbers,
        &task_footprints(budget),
    )?;
    let parts = communications_footprint(&lowered.job, budget);
    budget.memory.expect_all(&parts)?;
    lowered.held.push(machine);
    Ok(lowered)
}
