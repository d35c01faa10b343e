//! Memory that a simulation holds, by what it is made of.

use super::actor::{Actor, Alike, Cold};
use super::machinery::{Proxy, Wire};
use crate::budget::{Held, Memory, OverBudget, Purpose};
use crate::plan::Plan;
use std::mem::size_of;

/// Of a worker or proxy beside its own state: events, its share of links, regions.
const AROUND_ACTOR: usize = 320;

/// Of a queue: its state and slots, paths and ends, twice, for a simulation that begins anew keeps
/// how all was at first.
const QUEUE: usize = 2 * 288;

/// What a plan's connection takes itself.
const CONNECTION: usize = 96;

/// Bytes of a simulation of so many workers, connections, and connections that cross a network.
fn bytes(workers: u64, connections: u64, networks: u64) -> u64 {
    let actor = size_of::<Actor>() + size_of::<Cold>() + AROUND_ACTOR;
    let worker = (actor + size_of::<Alike>()) as u64;
    let proxy = (actor + 2 * size_of::<Proxy>() + QUEUE) as u64;
    workers * worker + networks * proxy + connections * QUEUE as u64
}

/// Bytes that a plan takes.
#[must_use]
pub fn plan_footprint(plan: &Plan) -> u64 {
    u64::from(plan.program.connections()) * CONNECTION as u64
}

/// Bytes that simulating every worker of a plan takes, beside the plan.
#[must_use]
pub fn full_footprint(plan: &Plan) -> u64 {
    let crosses = |&id: &u32| plan.transports.get(id as usize).network.is_some();
    let connections = plan.program.connections();
    let networks = (0..connections).filter(crosses).count() as u64;
    bytes(
        u64::from(plan.program.workers()),
        u64::from(connections),
        networks,
    )
}

/// Holds what a simulation of these workers and wires takes.
pub(super) fn hold<'p>(
    memory: Option<&Memory>,
    workers: u32,
    wires: impl Iterator<Item = Wire<'p>>,
) -> Result<Option<Held>, OverBudget> {
    let Some(memory) = memory else {
        return Ok(None);
    };
    let (mut connections, mut networks) = (0, 0);
    for wire in wires {
        connections += 1;
        networks += u64::from(wire.transport.network.is_some());
    }
    let bytes = bytes(u64::from(workers), connections, networks);
    memory.hold(Purpose::Connections, bytes).map(Some)
}
