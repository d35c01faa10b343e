//! What each fault costs: the time with all of them less that with all but this one.
//!
//! Each is left out by itself, and all others are kept: of two faults either of which holds up all
//! alone, neither costs anything, and what they cost together is what the healthy run is faster.

use crate::error::ScenarioError;
use fabricsim_fault::Faults;
use fabricsim_report::cause::{FaultCost, NoCost};
use fabricsim_topology::{DeviceKind, LinkId, Topology};
use fabricsim_units::Time;

/// More faults than these are not told apart: each takes a simulation.
const MAX_PRICED: usize = 16;

/// A run that faults are priced against.
pub(crate) trait Against {
    /// How long it takes.
    fn time(&self) -> Time;
}

/// What each fault of a run costs, which takes `time` with all of them. `healthy` is the run without
/// any, `against` makes one with the faults that it is given (`None` if it does not end), and
/// `why_free` says why a fault costs nothing.
///
/// # Errors
/// What `against` refuses.
pub(crate) fn fault_costs<A: Against>(
    (faults, topology): (&Faults, &Topology),
    time: Time,
    healthy: &A,
    mut against: impl FnMut(&Faults) -> Result<Option<A>, ScenarioError>,
    why_free: impl Fn(usize, &A) -> NoCost,
) -> Result<Vec<FaultCost>, ScenarioError> {
    let cost = |fault: usize| {
        let without = faults.without(fault);
        let other = if without.is_empty() {
            None
        } else {
            Some(against(&without)?)
        };
        let against = match &other {
            None => Some(healthy),
            Some(other) => other.as_ref(),
        };
        let cost = against.map(|a| time.picos() as i64 - a.time().picos() as i64);
        let free = against.filter(|_| cost == Some(0));
        Ok(FaultCost {
            fault,
            description: faults.describe(fault, topology),
            cost_us: cost.map(|picos| picos as f64 / 1e6),
            reason: free.map(|against| why_free(fault, against)),
        })
    };
    faults.places().take(MAX_PRICED).map(cost).collect()
}

/// A link between two switches.
pub(crate) fn joins_switches(topology: &Topology, link: LinkId) -> bool {
    let (from, to) = topology.ends(link);
    [from, to].map(|d| topology.device(d).kind) == [DeviceKind::Switch; 2]
}
