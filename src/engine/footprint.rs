//! Memory that a simulation holds, by what it is made of. Numbers of parts are counted; what a part
//! takes is the size of what is kept of it, and where tables are made on the way, what runs of
//! shipped machines were seen to take (`docs/performance.md`, "Memory").

use super::actor::{Actor, Alike, Cold};
use super::machinery::{Proxy, Wire};
use fabricsim_budget::{Held, Memory, OverBudget, Purpose};
use fabricsim_plan::Plan;
use std::mem::size_of;

/// Of a worker or proxy beside its own state: events, its share of links, regions.
const AROUND_ACTOR: usize = 160;

/// Of a queue: its state and slots, paths and ends.
const QUEUE: usize = 400;

/// A plan's connection: its place in the program, its way and its transport.
const CONNECTION: u64 = 60;

/// What finding out which ranks are alike takes for a connection, and what it and simulating those
/// takes for a worker.
const ALIKE_CONNECTION: u64 = 90;
const ALIKE_WORKER: u64 = 250;

/// A simulation of so many workers, connections, and connections that cross a network.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) workers: u64,
    pub(super) connections: u64,
    pub(super) networks: u64,
}

impl Parts {
    fn of(plan: &Plan) -> Parts {
        let crosses = |&id: &u32| plan.transports.get(id as usize).network.is_some();
        let connections = plan.program.connections();
        Parts {
            workers: u64::from(plan.program.workers()),
            connections: u64::from(connections),
            networks: (0..connections).filter(crosses).count() as u64,
        }
    }

    /// What one thread simulates.
    fn actors(self) -> u64 {
        self.workers + self.networks
    }

    /// What it holds.
    pub(super) fn bytes(self) -> u64 {
        let actor = size_of::<Actor>() + size_of::<Cold>() + AROUND_ACTOR;
        let worker = (actor + size_of::<Alike>()) as u64;
        let proxy = (actor + 2 * size_of::<Proxy>() + QUEUE) as u64;
        self.workers * worker + self.networks * proxy + self.connections * QUEUE as u64
    }

    /// Holds that.
    pub(super) fn hold(self, memory: Option<&Memory>) -> Result<Option<Held>, OverBudget> {
        let hold = |memory: &Memory| memory.hold(Purpose::Connections, self.bytes());
        memory.map(hold).transpose()
    }
}

/// Bytes that a plan takes.
#[must_use]
pub fn plan_footprint(plan: &Plan) -> u64 {
    u64::from(plan.program.connections()) * CONNECTION
}

/// Bytes that simulating every worker of a plan takes, beside the plan, on so many threads: each
/// has all tables, if there is enough to do for several.
#[must_use]
pub fn full_footprint(plan: &Plan, threads: usize) -> u64 {
    let parts = Parts::of(plan);
    let threads = match parts.actors() < super::run::FEWEST_ACTORS as u64 {
        true => 1,
        false => threads.max(1) as u64,
    };
    parts.bytes().saturating_mul(threads)
}

/// Bytes that simulating one worker for all that are alike takes, beside the plan.
#[must_use]
pub fn folded_footprint(plan: &Plan) -> u64 {
    let workers = u64::from(plan.program.workers());
    u64::from(plan.program.connections()) * ALIKE_CONNECTION + workers * ALIKE_WORKER
}

/// Holds what a simulation of these workers and wires takes.
pub(super) fn hold<'p>(
    memory: Option<&Memory>,
    workers: u32,
    wires: impl Iterator<Item = Wire<'p>>,
) -> Result<Option<Held>, OverBudget> {
    if memory.is_none() {
        return Ok(None);
    }
    let mut parts = Parts {
        workers: u64::from(workers),
        ..Parts::default()
    };
    for wire in wires {
        parts.connections += 1;
        parts.networks += u64::from(wire.transport.network.is_some());
    }
    parts.hold(memory)
}
