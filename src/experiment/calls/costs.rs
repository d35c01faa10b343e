//! What operations take on the machine, each simulated alone.

use super::meet::{Costs, ELEMENT, Operation, What};
use super::valid::ValidCalls;
use crate::collective::alone;
use crate::error::ScenarioError;
use fabricsim_budget::Budget;
use fabricsim_collective::{Collective, WorkerId};
use fabricsim_nccl::{Communicator, Forced, Planned, Registration};
use fabricsim_topology::Router;
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Communicators that are made when they are asked for.
pub(super) struct Simulated<'v> {
    valid: &'v ValidCalls,
    budget: &'v Budget,
    /// By their number, and whether buffers are registered.
    communicators: BTreeMap<(usize, bool), Communicator<'v>>,
    times: BTreeMap<(usize, What, u64, bool), Time>,
    messages: BTreeMap<(u32, u32, u64), Time>,
}

impl<'v> Simulated<'v> {
    pub(super) fn new(valid: &'v ValidCalls, budget: &'v Budget) -> Self {
        Simulated {
            valid,
            budget,
            communicators: BTreeMap::new(),
            times: BTreeMap::new(),
            messages: BTreeMap::new(),
        }
    }

    fn communicator(
        &mut self,
        on: usize,
        registered: bool,
    ) -> Result<&mut Communicator<'v>, ScenarioError> {
        match self.communicators.entry((on, registered)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let ranks = &self.valid.members[on];
                let made = of_ranks((self.valid, self.budget), ranks, registered)?;
                Ok(new.insert(made))
            }
        }
    }

    fn simulated(&self, planned: &Planned, collective: Collective) -> Result<Time, ScenarioError> {
        alone(&self.valid.topology, (collective, planned), self.budget)
    }

    /// The plan of an operation; `None` if it moves nothing.
    fn plan(&mut self, operation: Operation) -> Result<Option<Planned>, ScenarioError> {
        let Some((collective, bytes)) = moved(operation) else {
            return Ok(None);
        };
        let communicator = self.communicator(operation.on, operation.registered)?;
        let nothing =
            communicator.ranks() < 2 || collective.actual_bytes(bytes, communicator.ranks()) == 0;
        if nothing {
            return Ok(None);
        }
        Ok(Some(communicator.plan(
            collective,
            bytes,
            Forced::default(),
        )?))
    }
}

/// A collective and its size; none if nothing is moved.
fn moved(operation: Operation) -> Option<(Collective, u64)> {
    match operation.what {
        What::Collective(collective) => Some((collective, operation.bytes)),
        What::Barrier => Some((Collective::AllReduce, ELEMENT)),
        What::Register => None,
    }
}

/// A communicator of these ranks.
fn of_ranks<'v>(
    (valid, budget): (&'v ValidCalls, &Budget),
    ranks: &[u32],
    registered: bool,
) -> Result<Communicator<'v>, ScenarioError> {
    let gpus = ranks.iter().map(|&rank| valid.gpus[rank as usize]);
    let mut env = valid.env.clone();
    env.register(registered.then_some(Registration::Local));
    let router = Router::new(&valid.topology, valid.seed);
    let made = Communicator::of(&valid.topology, gpus.collect(), &env, router)?;
    Ok(made.within(&budget.estimating()))
}

impl Costs for Simulated<'_> {
    type Error = ScenarioError;

    fn time(&mut self, operation: Operation) -> Result<Time, ScenarioError> {
        let Operation {
            on,
            what,
            bytes,
            registered,
        } = operation;
        if let Some(&known) = self.times.get(&(on, what, bytes, registered)) {
            return Ok(known);
        }
        let time = match (self.plan(operation)?, moved(operation)) {
            (Some(planned), Some((collective, _))) => self.simulated(&planned, collective)?,
            _ => Time::ZERO,
        };
        self.times.insert((on, what, bytes, registered), time);
        Ok(time)
    }

    fn message_time(&mut self, from: u32, to: u32, bytes: u64) -> Result<Time, ScenarioError> {
        if let Some(&known) = self.messages.get(&(from, to, bytes)) {
            return Ok(known);
        }
        // Both ways at once take as long as one of them.
        let mut pair = of_ranks((self.valid, self.budget), &[from, to], false)?;
        let planned = pair.plan(Collective::SendRecv, bytes, Forced::default())?;
        let time = self.simulated(&planned, Collective::SendRecv)?;
        self.messages.insert((from, to, bytes), time);
        Ok(time)
    }

    fn ahead(&mut self, on: usize, bytes: u64) -> Result<u64, ScenarioError> {
        Ok(self.communicator(on, false)?.ahead(Bytes::new(bytes)).get())
    }

    fn same_steps(
        &mut self,
        operation: Operation,
        other: Operation,
    ) -> Result<bool, ScenarioError> {
        let (Some(a), Some(b)) = (self.plan(operation)?, self.plan(other)?) else {
            return Ok(false);
        };
        let (program, of_other) = (a.plan.program.as_ref(), b.plan.program.as_ref());
        let alike = (a.algorithm, a.protocol, a.channels) == (b.algorithm, b.protocol, b.channels)
            && program.workers() == of_other.workers()
            && program.connections() == of_other.connections();
        let mut workers = (0..program.workers()).map(WorkerId);
        Ok(alike && workers.all(|worker| program.steps(worker) == of_other.steps(worker)))
    }
}
