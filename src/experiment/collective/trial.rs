//! A collective at other choices than NCCL's own, or under other faults than its scenario's.

use super::planning::{What, plan_of, ranks_around, stopped};
use super::run::timing_of;
use super::timing::disturbed_time_of;
use super::valid::ValidCollective;
use crate::error::ScenarioError;
use fabricsim_budget::Budget;
use fabricsim_fault::Faults;
use fabricsim_nccl::{Candidate, Communicator, Forced};
use fabricsim_record::causes;
use fabricsim_report::cause::Causes;

/// Ranks of a collective that are joined once and timed as often as is asked for.
pub(super) struct Trial<'s> {
    spec: &'s ValidCollective,
    faults: Faults,
    budget: &'s Budget,
    communicator: Communicator<'s>,
}

impl<'s> Trial<'s> {
    /// # Errors
    /// What NCCL refuses.
    pub(super) fn new(
        spec: &'s ValidCollective,
        faults: Faults,
        budget: &'s Budget,
    ) -> Result<Self, ScenarioError> {
        let communicator = ranks_around(spec, &faults, &budget.estimating())?;
        Ok(Trial {
            spec,
            faults,
            budget,
            communicator,
        })
    }

    /// What NCCL considers for an operation of so many bytes.
    pub(super) fn candidates(&self, bytes: u64) -> Vec<Candidate> {
        let spec = self.spec;
        self.communicator
            .candidates(spec.collective, bytes, spec.forced)
    }

    /// What a size takes, by causes; `None` if NCCL refuses the choice, or nothing is moved.
    ///
    /// # Errors
    /// A simulation that stalls, more than the memory of the budget holds.
    pub(super) fn time(
        &mut self,
        size: u64,
        forced: Forced,
    ) -> Result<Option<Causes>, ScenarioError> {
        let Trial { spec, faults, .. } = self;
        let what = What {
            forced,
            ..What::of(spec)
        };
        let Ok(Some(planned)) = plan_of(what, &mut self.communicator, size) else {
            return Ok(None);
        };
        let topology = &spec.topology;
        let conditions = (&*faults, faults.is_steady());
        let timing = timing_of(spec, self.budget);
        let timed = disturbed_time_of(topology, &planned.plan, conditions, timing, &mut |_, _| {});
        let timed = timed.map_err(|source| stopped(spec, &planned, source))?;
        let faulty = |link| faults.touches(link);
        let of = (&timed.outcome, timed.path.as_ref());
        Ok(Some(causes(topology, of, timed.time, &faulty)))
    }
}
