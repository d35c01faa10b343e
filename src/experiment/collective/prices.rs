//! What each fault costs: the time with all of them less that with all but this one.
//!
//! Each is left out by itself, and all others are kept: of two faults either of which holds up all
//! alone, neither costs anything, and what they cost together is what the healthy run is faster.

use super::planning::{communicator_plan, ranks_around, stopped};
use super::timing::{Timed, Timing, disturbed_time_of};
use super::valid::ValidCollective;
use crate::error::ScenarioError;
use fabricsim_budget::Memory;
use fabricsim_fault::Faults;
use fabricsim_nccl::{Communicator, Planned};
use fabricsim_report::cause::{FaultCost, NoCost};
use fabricsim_topology::{DeviceKind, LinkFamily, LinkId};
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeMap;

/// More faults than these are not told apart: each takes a simulation of every size.
const MOST_PRICED: usize = 16;

/// The runs that faults are priced against.
pub(super) struct Prices<'s> {
    spec: &'s ValidCollective,
    memory: &'s Memory,
    /// Without any.
    healthy: Faults,
    /// Without one, in the order of the faults.
    without: Vec<Faults>,
    /// NCCL's ranks by what is gone, where that is not what is gone with all faults.
    ranks: BTreeMap<Vec<LinkId>, Communicator<'s>>,
}

/// What one of these runs takes, and what crosses its links.
struct Against {
    time: Time,
    carried: BTreeMap<LinkId, Bytes>,
}

impl<'s> Prices<'s> {
    pub(super) fn new(spec: &'s ValidCollective, memory: &'s Memory) -> Self {
        let places = spec.faults.places();
        Prices {
            spec,
            memory,
            healthy: spec.faults.healthy(),
            without: places
                .take(MOST_PRICED)
                .map(|fault| spec.faults.without(fault))
                .collect(),
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
        if self.spec.faults.is_empty() {
            return Ok((None, Vec::new()));
        }
        let healthy = self.healthy.clone();
        let healthy = self.against(&healthy, size, planned, timing)?;
        let mut costs = Vec::with_capacity(self.without.len());
        for fault in 0..self.without.len() {
            let faults = self.without[fault].clone();
            let other = if faults.is_empty() {
                None
            } else {
                Some(self.against(&faults, size, planned, timing))
            };
            let against = match &other {
                None => Some(&healthy),
                Some(other) => other.as_ref().ok(),
            };
            costs.push(self.cost(fault, timed, against));
        }
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
        let gone: Vec<LinkId> = faults.gone_links().collect();
        let other;
        let planned = if gone.iter().copied().eq(spec.faults.gone_links()) {
            planned
        } else {
            let ranks = match self.ranks.remove(&gone) {
                Some(ranks) => ranks,
                None => ranks_around(spec, gone.clone(), self.memory)?,
            };
            let ranks = self.ranks.entry(gone).or_insert(ranks);
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

    fn cost(&self, fault: usize, timed: &Timed, against: Option<&Against>) -> FaultCost {
        let description = self.spec.faults.describe(fault, &self.spec.topology);
        let cost = against.map(|a| timed.time.picos() as i64 - a.time.picos() as i64);
        let reason = match (cost, against) {
            (Some(0), Some(against)) => Some(self.reason(fault, timed, against)),
            _ => None,
        };
        FaultCost {
            fault,
            description,
            cost_us: cost.map(|picos| picos as f64 / 1e6),
            reason,
        }
    }

    /// Why a fault costs nothing.
    fn reason(&self, fault: usize, timed: &Timed, against: &Against) -> NoCost {
        let faults = &self.spec.faults;
        if faults.begins_after(fault, timed.outcome.end()) {
            return NoCost::TooLate;
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
            let topology = &self.spec.topology;
            let switch = |device| topology.device(device).kind == DeviceKind::Switch;
            let above = links.iter().all(|&link| {
                let (from, to) = topology.ends(link);
                topology.family(link) == LinkFamily::Network && switch(from) && switch(to)
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
}
