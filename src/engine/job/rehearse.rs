//! Each communication alone: what it takes, and what it asks of links.

use super::JobError;
use crate::engine::{Options, Outcome, SimError, simulate, simulate_folded};
use crate::plan::Plan;
use crate::plan::job::{Exchange, Job};
use crate::threads;
use crate::topology::LinkId;
use crate::units::{Bandwidth, Time};
use std::collections::BTreeMap;

/// A communication as it is when nothing else goes on.
#[derive(Debug, Clone, Default)]
pub struct Rehearsed {
    /// What it takes.
    pub time: Time,
    /// Bytes that its own group (and groups that are one with it) moves over each link.
    pub loads: Vec<(LinkId, f64)>,
    /// Slices that were moved, and events handled, to find out; zero if an exchange that is
    /// alike was simulated instead.
    pub events: u64,
}

/// Simulates every exchange of a job alone, those that are alike once; on all processors, with
/// the same results for any number of them.
///
/// # Errors
/// The first exchange that cannot be simulated.
pub fn rehearse(
    job: &Job,
    rate: impl Fn(LinkId) -> Bandwidth + Sync,
    exact_full: bool,
) -> Result<Vec<Rehearsed>, JobError> {
    // The first of those that are alike speaks for all.
    let mut first: BTreeMap<u32, (usize, &Plan)> = BTreeMap::new();
    for (index, exchange) in job.exchanges.iter().enumerate() {
        if let Some(plan) = &exchange.plan {
            first.entry(exchange.alike).or_insert((index, plan));
        }
    }
    let work: Vec<(usize, &Plan)> = first.values().copied().collect();
    let found = threads::each(
        &work,
        None,
        || (),
        |(), &(_, plan)| alone(plan, &rate, exact_full),
    );
    let mut outcomes: BTreeMap<u32, Outcome> = BTreeMap::new();
    for ((index, _), result) in work.into_iter().zip(found) {
        let exchange = &job.exchanges[index];
        let outcome = result.map_err(|source| JobError::Exchange {
            exchange: exchange.name.clone(),
            source,
        })?;
        outcomes.insert(exchange.alike, outcome);
    }
    let rehearsed = job.exchanges.iter().enumerate().map(|(index, exchange)| {
        let known = exchange.plan.as_ref().zip(outcomes.get(&exchange.alike));
        known.map_or_else(Rehearsed::default, |(plan, outcome)| Rehearsed {
            time: outcome.end(),
            loads: loads(exchange, plan, outcome),
            events: if first.get(&exchange.alike).is_some_and(|f| f.0 == index) {
                outcome.events
            } else {
                0
            },
        })
    });
    Ok(rehearsed.collect())
}

fn alone(
    plan: &Plan,
    rate: &(impl Fn(LinkId) -> Bandwidth + Sync),
    exact_full: bool,
) -> Result<Outcome, SimError> {
    let options = Options {
        operations: 1,
        ..Options::default()
    };
    if exact_full {
        simulate(plan, rate, options)
    } else {
        simulate_folded(plan, rate, options)
    }
}

/// What an exchange's own connections move over each link.
fn loads(exchange: &Exchange, plan: &Plan, outcome: &Outcome) -> Vec<(LinkId, f64)> {
    let mut own = outcome.connection_bytes.clone();
    if own.len() != plan.transports.len() {
        return Vec::new();
    }
    for (id, bytes) in own.iter_mut().enumerate() {
        if !exchange.own.iter().any(|r| r.contains(&(id as u32))) {
            *bytes = 0;
        }
    }
    let links = Outcome::bytes_of_links(plan, &own);
    match &exchange.moved {
        None => links,
        Some(moved) => links
            .into_iter()
            .filter_map(|(link, bytes)| Some((*moved.get(&link)?, bytes)))
            .collect(),
    }
}
