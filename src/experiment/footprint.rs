//! Memory that a run takes, before it does: what its plans, their simulation, its record and its
//! files hold. Numbers of parts are counted; what a part takes was measured on shipped machines
//! (`docs/performance.md`, "Memory").

use super::valid::ValidSpec;
use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::job::{load_footprint, script_footprint, task_footprint};
use fabricsim_engine::{folded_footprint, full_footprint, plan_footprint};
use fabricsim_nccl::Planned;
use fabricsim_plan::Plan;
use fabricsim_plan::job::Job;
use fabricsim_topology::Topology;
use fabricsim_workload::training::lower::TaskFootprint;
use std::collections::BTreeMap;

/// Bytes of a device, and of a link with its part of the routes.
const DEVICE: u64 = 160;
const LINK: u64 = 96;

/// Bytes of a slice that is recorded, and the most that are.
const SLICE: u64 = 33;
const MOST_SLICES: u64 = 20_000_000;

/// Bytes of drawing and writing a folder of a collective, mostly its plots as pixels.
const FILES: u64 = 36_000_000;

/// The same of a job, whose plots have no pixels, and of the spans in it.
const FILES_OF_JOB: u64 = 4_000_000;

/// What the tasks of a job take of the budget's memory, while it is estimated what all of it takes.
pub(super) fn task_footprints(budget: &Budget) -> TaskFootprint {
    TaskFootprint {
        memory: budget.memory.estimating(),
        task: task_footprint(),
        of_actor: script_footprint(),
    }
}

/// Bytes that a machine takes.
pub(super) fn machine_footprint(topology: &Topology) -> u64 {
    topology.device_count() as u64 * DEVICE + topology.links().count() as u64 * LINK
}

/// What a size takes: its plan and its simulation, of every worker where there are faults; and a
/// record and a folder, if there are to be any.
pub(super) fn collective_footprint(
    spec: &ValidSpec,
    planned: &Planned,
    budget: &Budget,
) -> Vec<(Purpose, u64)> {
    let plan = &planned.plan;
    let run = match budget.exact_full || !spec.faults.is_empty() {
        true => full_footprint(plan, budget.threads),
        false => simulation_footprint(plan, false),
    };
    let mut parts = vec![(Purpose::Connections, plan_footprint(plan) + run)];
    if spec.traced.is_some() {
        // Both are simulated one after the other.
        let recorded = full_footprint(plan, 1);
        parts[0].1 += recorded.saturating_sub(run);
        parts.push((Purpose::Record, recorded_footprint(plan)));
    }
    parts
}

/// Bytes of a simulation on one thread. Messages of unequal sizes fold nothing.
fn simulation_footprint(plan: &Plan, full: bool) -> u64 {
    match full || plan.program.matrix().is_some() {
        true => full_footprint(plan, 1),
        false => folded_footprint(plan),
    }
}

/// Bytes that a record of a plan takes, and a folder with it.
pub(super) fn recorded_footprint(plan: &Plan) -> u64 {
    let program = plan.program.as_ref();
    let workers = (0..program.workers()).map(fabricsim_collective::WorkerId);
    let steps: u64 = workers
        .map(|worker| program.steps(worker))
        .fold(0, u64::saturating_add);
    let slices = steps.saturating_mul(u64::from(plan.protocol.slices_per_chunk));
    FILES + slices.min(MOST_SLICES) * SLICE
}

/// What a job takes beside its tasks and plans: each of its communications alone, as many at a time
/// as there are threads, and what they move over each link.
pub(super) fn communications_footprint(job: &Job, budget: &Budget) -> Vec<(Purpose, u64)> {
    // Those that are alike take as much.
    let mut alike: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut loads = 0u64;
    for exchange in &job.exchanges {
        let Some(plan) = &exchange.plan else { continue };
        let of_first = || {
            let alone = simulation_footprint(plan, budget.exact_full);
            (alone, load_footprint(exchange))
        };
        loads += alike.entry(exchange.alike).or_insert_with(of_first).1;
    }
    let mut alone: Vec<u64> = alike.into_values().map(|known| known.0).collect();
    alone.sort_unstable_by(|a, b| b.cmp(a));
    let alone = alone.iter().take(budget.threads).sum();
    vec![
        (Purpose::Connections, alone),
        (Purpose::Loads, loads),
        (Purpose::Record, FILES_OF_JOB),
    ]
}
