//! One operation by itself, as other jobs have it among what they do.

use super::timing::{Timing, time_of};
use crate::error::ScenarioError;
use crate::footprint::simulation_footprint;
use fabricsim_budget::{Budget, Purpose};
use fabricsim_collective::Collective;
use fabricsim_nccl::Planned;
use fabricsim_topology::Topology;
use fabricsim_units::Time;

/// What a planned operation takes that nothing comes before or after.
///
/// # Errors
/// A simulation that stalls or takes more than the memory of the budget.
pub(crate) fn alone(
    topology: &Topology,
    (collective, planned): (Collective, &Planned),
    budget: &Budget,
) -> Result<Time, ScenarioError> {
    let footprint = simulation_footprint(&planned.plan, budget.exact_full);
    let _held = budget
        .memory
        .estimating()
        .hold(Purpose::Connections, footprint)?;
    let timing = Timing {
        isolated: true,
        exact_full: budget.exact_full,
        threads: budget.threads as u32,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
    };
    let timed = time_of(topology, &planned.plan, timing, None);
    let (time, _) = timed.map_err(|source| ScenarioError::Simulation {
        collective: collective.name(),
        bytes: planned.bytes,
        source,
        faults: Vec::new(),
    })?;
    Ok(time)
}
