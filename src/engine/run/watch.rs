//! The beginning of a simulation, for somebody who need not see all of it.

use super::cast::Cast;
use super::check::check;
use super::start::{Options, everybody, fold, resources};
use super::{Phase, Run};
use crate::error::SimError;
use crate::footprint::hold;
use crate::machinery::Unshared;
use crate::probe::{ActorId, Probe, Slice};
use fabricsim_plan::Plan;
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};

/// What was seen of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Up to when.
    pub until: Time,
    /// Whether that is all of it.
    pub whole: bool,
}

/// The beginning of a simulation, for a probe that sees all of it until it has seen
/// [enough](Probe::enough): with one worker for all that are alike, where nothing is disturbed
/// ([`Probe::alike`]).
///
/// # Errors
/// As [`simulate`](crate::simulate).
pub fn watch<P: Probe>(
    plan: &Plan,
    rate: impl Fn(LinkId) -> Bandwidth,
    options: Options<'_>,
    probe: &mut P,
) -> Result<Watched, SimError> {
    check(plan)?;
    let (resources, folded) = match options.disturbances {
        None => fold(plan, rate, options.stop)?,
        disturbances => (resources(plan, rate, disturbances), None),
    };
    if let Some(folded) = folded {
        let _held = hold(options.memory, folded.workers(), folded.wires())?;
        probe.alike(
            &folded.folding.workers.class_of,
            &folded.folding.conns.class_of,
        );
        let (machinery, cast) = folded.into_parts(plan);
        return Run::new(plan, machinery, cast, options, probe).until_enough();
    }
    let (machinery, _held) = everybody(plan, resources, &options)?;
    Run::new(plan, machinery, Cast::All, options, probe).until_enough()
}

impl<P: Probe> Run<'_, '_, P> {
    /// One instant after the other, until the probe has seen enough or all is over.
    fn until_enough(mut self) -> Result<Watched, SimError> {
        self.begin_those(|_| true);
        self.events_until_quiet();
        if !self.probe.enough() {
            let outcome = self.into_outcome()?;
            return Ok(Watched {
                until: outcome.end(),
                whole: true,
            });
        }
        for id in 0..self.actors.len() as ActorId {
            self.tell_part(id);
        }
        Ok(Watched {
            until: self.now,
            whole: false,
        })
    }

    /// Tells of a slice that is not over what of it has moved by now.
    fn tell_part(&mut self, id: ActorId) {
        let actor = &self.actors[id as usize];
        if actor.phase != Phase::Streams || actor.free >= self.now {
            return;
        }
        let rate = match self.machinery.unshared(actor.path, actor.cap, || None) {
            Some(Unshared::At(rate, limit)) => (rate, limit),
            // Nothing of it has been told, and all of it is told at its end.
            Some(Unshared::InPasses) => return,
            None => self.sharing.rate(id),
        };
        self.book(id, self.now, rate);
        let actor = &mut self.actors[id as usize];
        actor.advance(rate.0, self.now);
        let actor = &self.actors[id as usize];
        let moved = actor
            .slice
            .saturating_sub(actor.remaining.div_ceil(1_000_000));
        let cold = &self.cold[id as usize];
        let (recv, send) = actor.queues(cold);
        self.probe.slice(&Slice {
            actor: id,
            free: cold.free,
            posted: cold.posted,
            start: actor.free,
            end: self.now,
            done: self.now,
            cause: cold.cause,
            bytes: actor.slice,
            moved,
            name: cold.name,
            recv,
            send,
        });
    }
}
