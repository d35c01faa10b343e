//! Memory that a run takes, before it does: what its plans, their simulation, its record and its
//! files hold. Numbers of parts are counted; what a part takes was measured on shipped machines
//! (`docs/performance.md`, "Memory").

use fabricsim_budget::{Budget, Purpose};
use fabricsim_engine::job::{load_footprint, script_footprint, task_footprint};
use fabricsim_engine::{folded_footprint, full_footprint};
use fabricsim_plan::Plan;
use fabricsim_plan::job::Job;
use fabricsim_topology::Topology;
use fabricsim_workload::training::lower::TaskFootprint;
use std::collections::BTreeMap;

/// Bytes of a device, and of a link with its part of the routes.
const DEVICE: u64 = 160;
const LINK: u64 = 96;

/// Bytes of drawing and writing a folder of a job, whose plots have no pixels, and of the spans in it.
const FILES_OF_JOB: u64 = 4_000_000;

/// What the tasks of a job take of the budget's memory, while it is estimated what all of it takes.
pub(super) fn task_footprints(budget: &Budget) -> TaskFootprint {
    TaskFootprint {
        budget: budget.estimating(),
        task: task_footprint(),
        of_actor: script_footprint(),
    }
}

/// Bytes that a machine takes.
pub(super) fn machine_footprint(topology: &Topology) -> u64 {
    topology.device_count() as u64 * DEVICE + topology.links().count() as u64 * LINK
}

/// Bytes of a simulation on one thread. Messages of unequal sizes fold nothing.
pub(super) fn simulation_footprint(plan: &Plan, full: bool) -> u64 {
    match full || plan.program.matrix().is_some() {
        true => full_footprint(plan, 1),
        false => folded_footprint(plan),
    }
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
