//! What each fault costs an operation.

use super::planning::{communicator_plan, ranks_around, stopped};
use super::timing::{Timed, Timing, disturbed_time_of};
use super::valid::ValidCollective;
use crate::error::ScenarioError;
use crate::prices::{self, fault_costs, joins_switches};
use fabricsim_budget::Budget;
use fabricsim_fault::{Fall, Faults};
use fabricsim_nccl::{Communicator, Planned};
use fabricsim_report::cause::{FaultCost, NoCost};
use fabricsim_topology::{LinkFamily, LinkId};
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeMap;

/// The runs that faults are priced against.
pub(super) struct Prices<'s> {
    spec: &'s ValidCollective,
    budget: &'s Budget,
    /// NCCL's ranks by what is gone and what falls back, where that is not so with all faults.
    ranks: BTreeMap<Planning, Communicator<'s>>,
}

/// What NCCL plans by.
type Planning = (Vec<LinkId>, Vec<Fall>);

fn planning(faults: &Faults) -> Planning {
    (faults.gone_links().collect(), faults.falls())
}

/// What one of these runs takes, and what crosses its links.
struct Against {
    time: Time,
    carried: BTreeMap<LinkId, Bytes>,
}

impl prices::Against for Against {
    fn time(&self) -> Time {
        self.time
    }
}

impl<'s> Prices<'s> {
    pub(super) fn new(spec: &'s ValidCollective, budget: &'s Budget) -> Self {
        Prices {
            spec,
            budget,
            ranks: BTreeMap::new(),
        }
    }

    /// What a size takes without faults, and what each costs; nothing without faults.
    pub(super) fn of(
        &mut self,
        size: u64,
        planned: &Planned,
        timed: &Timed,
        timing: Timing<'_>,
    ) -> Result<(Option<Time>, Vec<FaultCost>), ScenarioError> {
        let spec = self.spec;
        if spec.faults.is_empty() {
            return Ok((None, Vec::new()));
        }
        let healthy = self.against(&spec.faults.healthy(), size, planned, timing)?;
        let costs = fault_costs(
            (&spec.faults, &spec.topology),
            timed.time,
            &healthy,
            // What NCCL refuses without a fault has no time to be set beside.
            |faults| Ok(self.against(faults, size, planned, timing).ok()),
            |fault, against| why_free(spec, fault, timed, against),
        )?;
        Ok((Some(healthy.time), costs))
    }

    fn against(
        &mut self,
        faults: &Faults,
        size: u64,
        planned: &Planned,
        timing: Timing<'_>,
    ) -> Result<Against, ScenarioError> {
        let spec = self.spec;
        let by = planning(faults);
        let other;
        let planned = if by == planning(&spec.faults) {
            planned
        } else {
            let ranks = match self.ranks.remove(&by) {
                Some(ranks) => ranks,
                None => ranks_around(spec, faults, self.budget)?,
            };
            let ranks = self.ranks.entry(by).or_insert(ranks);
            other = communicator_plan(spec, ranks, size)?;
            other.as_ref().unwrap_or(planned)
        };
        let folded = Timing {
            exact_full: false,
            ..timing
        };
        // Counted as with all faults: their mean, if any of them comes and goes.
        let faults = (faults, spec.faults.is_steady());
        let topology = &spec.topology;
        let timed = disturbed_time_of(topology, &planned.plan, faults, folded, &mut |_, _| {});
        let timed = timed.map_err(|source| stopped(spec, planned, source))?;
        Ok(Against {
            time: timed.time,
            carried: timed.outcome.link_bytes(&planned.plan),
        })
    }
}

/// Why a fault costs nothing.
fn why_free(spec: &ValidCollective, fault: usize, timed: &Timed, against: &Against) -> NoCost {
    let faults = &spec.faults;
    if faults.begins_after(fault, timed.outcome.end()) {
        return NoCost::TooLate;
    }
    if faults.is_fall(fault) {
        return NoCost::SameWay;
    }
    if faults.ranks_of(fault).next().is_some() {
        return NoCost::OthersTakeLonger;
    }
    let links: Vec<LinkId> = faults.links_of(fault).collect();
    if links.is_empty() {
        return NoCost::NotInvolved;
    }
    let used = links.iter().any(|link| against.carried.contains_key(link));
    if !used {
        let topology = &spec.topology;
        let above = links.iter().all(|&link| {
            topology.family(link) == LinkFamily::Network && joins_switches(topology, link)
        });
        return if above {
            NoCost::BelowTheSpines
        } else {
            NoCost::NoTraffic
        };
    }
    let gone = || faults.gone_links().any(|link| links.contains(&link));
    match faults.is_always(fault) {
        true if gone() => NoCost::PlannedAround,
        true => NoCost::OthersTakeLonger,
        false => NoCost::OutagesMissed,
    }
}
