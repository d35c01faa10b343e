//! Memory that a run takes, before it does: what the machine, its plans, their simulation and its
//! record hold. Numbers of parts are counted; bytes of a part follow from the sizes of what is
//! kept and are not calibrated on measured peaks yet.

use super::valid::ValidSpec;
use crate::budget::Budget;
use crate::engine::job::{script_footprint, task_footprint};
use crate::engine::{full_footprint, plan_footprint};
use crate::nccl::{Algorithm, Planned};
use crate::plan::Plan;
use crate::topology::Topology;
use crate::workload::training::lower::TaskFootprint;

/// Bytes of a device, and of a link with its part of the routes.
const DEVICE: u64 = 160;
const LINK: u64 = 96;

/// Bytes of a slice that is recorded, and the most that are.
const SLICE: u64 = 33;
const MOST_SLICES: u64 = 20_000_000;

/// Bytes of a record's spans and drawings, and of writing them.
const RECORD: u64 = 24_000_000;

/// What simulating one worker for all that are alike takes of what all of them take.
const FOLDED: f64 = 0.1;

/// What the tasks of a job take.
pub(super) fn task_footprints(budget: &Budget) -> TaskFootprint<'_> {
    TaskFootprint {
        memory: &budget.memory,
        task: task_footprint(),
        of_actor: script_footprint(),
    }
}

/// Bytes that a machine takes.
pub(super) fn machine_footprint(topology: &Topology) -> u64 {
    topology.device_count() as u64 * DEVICE + topology.links().count() as u64 * LINK
}

/// Bytes that a size takes: its plan, its simulation, and its record if it is recorded. In `full`
/// every worker is simulated.
pub(super) fn plan_and_run_footprint(spec: &ValidSpec, planned: &Planned, full: bool) -> u64 {
    let plan = &planned.plan;
    // What a record is of is simulated whole, and so are unequal messages, which nothing folds.
    let whole = full
        || spec.traced.is_some()
        || spec.matrix.is_some()
        || planned.algorithm == Algorithm::Direct;
    let run = full_footprint(plan) as f64 * if whole { 1.0 } else { FOLDED };
    let record = if spec.traced.is_some() {
        recorded_footprint(plan)
    } else {
        0
    };
    (plan_footprint(plan) + record).saturating_add(run as u64)
}

/// Bytes that a record of a plan takes.
pub(super) fn recorded_footprint(plan: &Plan) -> u64 {
    let program = plan.program.as_ref();
    let workers = (0..program.workers()).map(crate::collective::WorkerId);
    let steps: u64 = workers
        .map(|worker| program.steps(worker))
        .fold(0, u64::saturating_add);
    let slices = steps.saturating_mul(u64::from(plan.protocol.slices_per_chunk));
    RECORD + slices.min(MOST_SLICES) * SLICE
}
