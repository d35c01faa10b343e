//! Memory that a collective takes, before it does.

use super::valid::ValidCollective;
use crate::footprint::simulation_footprint;
use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::{full_footprint, plan_footprint};
use fabricsim_nccl::Planned;
use fabricsim_plan::Plan;
use fabricsim_record::Limits;

/// Bytes of a slice that is recorded, and the most that are.
const SLICE: u64 = 33;
const MOST_SLICES: u64 = 20_000_000;

/// Bytes of drawing and writing a folder of a collective, mostly its plots as pixels.
const FILES: u64 = 36_000_000;

/// What a size takes: its plan and its simulation, of every worker where there are faults; and a
/// record and a folder, if there are to be any.
pub(super) fn collective_footprint(
    (spec, recorded): (&ValidCollective, bool),
    planned: &Planned,
    budget: &Budget,
) -> Vec<(Purpose, u64)> {
    let plan = &planned.plan;
    let run = match budget.exact_full || !spec.faults.is_empty() {
        true => full_footprint(plan, budget.threads),
        false => simulation_footprint(plan, false),
    };
    let mut parts = vec![(Purpose::Connections, plan_footprint(plan) + run)];
    if recorded {
        // Both are simulated one after the other.
        let limits = Limits::of(plan, budget.exact_full);
        let recorded = match limits == Limits::WHOLE {
            true => full_footprint(plan, 1),
            false => run,
        };
        parts[0].1 += recorded.saturating_sub(run);
        parts.push((Purpose::Record, recorded_footprint(plan, limits)));
    }
    parts
}

/// Bytes that a record of a plan takes, and a folder with it.
pub(super) fn recorded_footprint(plan: &Plan, limits: Limits) -> u64 {
    let program = plan.program.as_ref();
    let workers = (0..program.workers()).map(fabricsim_collective::WorkerId);
    let steps: u64 = workers
        .map(|worker| program.steps(worker))
        .fold(0, u64::saturating_add);
    let slices = steps.saturating_mul(u64::from(plan.protocol.slices_per_chunk));
    let most = MOST_SLICES.min(limits.slices as u64);
    FILES + slices.min(most) * SLICE
}
