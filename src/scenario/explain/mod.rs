//! An algorithm followed step by step on a few ranks.

mod algorithm;
mod closed_form;
mod state;
mod timing;

pub use algorithm::{ExplainAlgorithm, ExplainError};

use crate::collective::{Collective, Role, WorkerId, walk};
use crate::report::explanation::{Cost, Explanation};
use crate::units::{Bandwidth, Time};
use std::sync::Arc;

/// What is to be explained.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainSpec {
    /// The collective.
    pub collective: Collective,
    /// The algorithm; the usual one for the collective, if absent.
    pub algorithm: Option<ExplainAlgorithm>,
    /// How many ranks take part.
    pub ranks: u32,
    /// On how many nodes.
    pub nodes: Option<u32>,
    /// nccl-tests' size; a kilobyte for each rank, if absent.
    pub bytes: Option<u64>,
    /// The largest chunk; none are cut, if absent.
    pub chunk: Option<u64>,
    /// What a message takes, however small.
    pub latency: Time,
    /// The rate of each rank's port, in each direction.
    pub rate: Bandwidth,
}

/// Tables for more ranks, or of programs with more steps, are nothing that anybody reads.
const MOST_RANKS: u32 = 64;
const MOST_STEPS: u64 = 50_000;

/// Follows the algorithm through.
///
/// # Errors
/// Algorithms that do not do the collective or are not there yet; more ranks or messages
/// than can be shown.
pub fn explain(spec: &ExplainSpec) -> Result<Explanation, ExplainError> {
    if spec.ranks == 0 || spec.ranks > MOST_RANKS {
        return Err(ExplainError::Ranks {
            ranks: spec.ranks,
            most: MOST_RANKS,
        });
    }
    let algorithm = spec
        .algorithm
        .unwrap_or(ExplainAlgorithm::usual(spec.collective));
    let nodes = algorithm::nodes(spec, algorithm)?;
    let program = algorithm::program(spec, algorithm, nodes)?;
    let workers = (0..program.workers()).map(WorkerId);
    let steps: u64 = workers.map(|w| program.steps(w)).sum();
    if steps > MOST_STEPS {
        return Err(ExplainError::Steps {
            steps,
            most: MOST_STEPS,
        });
    }
    let walk = walk(program.as_ref())?;
    let bytes = program.bytes();
    let volume = walk.busiest(spec.ranks).iter().sum::<u64>() as f64 / bytes.max(1) as f64;
    let per_byte_us = bytes as f64 / spec.rate.bytes_per_sec().max(1) as f64 * 1e6;
    let micros = |steps: f64, volume: f64| steps * spec.latency.micros() + volume * per_byte_us;
    let times = timing::times(&Arc::clone(&program), &walk, spec)?;
    let chunk = algorithm::chunk(spec, algorithm, bytes);
    let closed_form =
        closed_form::closed_form(algorithm, spec.collective, spec.ranks, nodes, bytes, chunk).map(
            |mut form| {
                form.time_us = micros(form.steps, form.volume);
                form
            },
        );
    let tables = state::tables(program.as_ref(), &walk, &times);
    let mut sent = vec![0; spec.ranks as usize];
    let mut received = vec![0; spec.ranks as usize];
    for transfer in &walk.transfers {
        if transfer.from.role != Role::Switch {
            sent[transfer.from.rank.index()] += transfer.bytes();
        }
        if transfer.to.role != Role::Switch {
            received[transfer.to.rank.index()] += transfer.bytes();
        }
    }
    Ok(Explanation {
        collective: spec.collective.name().to_owned(),
        algorithm: algorithm.name().to_owned(),
        ranks: spec.ranks,
        nodes,
        bytes,
        columns: tables.columns,
        before: tables.before,
        steps: tables.steps,
        sent,
        received,
        cost: Cost {
            steps: walk.steps,
            volume,
            alpha_us: spec.latency.micros(),
            rate_gbs: spec.rate.gb_per_sec(),
            counted_us: micros(f64::from(walk.steps), volume),
            closed_form,
            simulated_us: times.end.micros(),
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

#[cfg(test)]
mod tests;
