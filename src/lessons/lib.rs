//! An algorithm followed step by step on a few ranks.

mod algorithm;
mod built;
mod closed_form;
mod own;
mod passage;
mod pipeline;
mod state;
mod timing;
mod words;

pub use algorithm::{ExplainAlgorithm, ExplainError};

use built::Built;
use fabricsim_collective::{Collective, ConnId, Transfer, WorkerId, walk};
use fabricsim_report::explanation::{Chunks, Cost, Explanation};
use fabricsim_units::{Bandwidth, Bytes, Time};
use passage::Passage;
use pipeline::Pipeline;

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
    /// The largest chunk; if absent, pipelines have as many as suit them, others cut none.
    pub chunk: Option<u64>,
    /// What a message takes, however small.
    pub latency: Time,
    /// The rate of each rank's port, in each direction.
    pub rate: Bandwidth,
}

/// Tables for more ranks, or of programs with more steps, are nothing that anybody reads.
const MOST_RANKS: u32 = 64;
const MOST_STEPS: u64 = 50_000;
/// Larger messages are more than the engine counts.
const MOST_CHUNK: u64 = 16 << 40;

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
    let nodes = built::nodes(spec, algorithm)?;
    let Built {
        program,
        passages,
        trees,
        chunk,
    } = built::build(spec, algorithm, nodes)?;
    let workers = (0..program.workers()).map(WorkerId);
    let steps: u64 = workers.map(|w| program.steps(w)).sum();
    if steps > MOST_STEPS {
        return Err(ExplainError::Steps {
            steps,
            most: MOST_STEPS,
        });
    }
    let inside = |id: ConnId| passages[id.index()] == Passage::Inside;
    let walk = walk(program.as_ref(), inside)?;
    let largest = walk.transfers.iter().map(Transfer::bytes).max();
    if let Some(chunk) = largest.filter(|&bytes| bytes > MOST_CHUNK) {
        return Err(ExplainError::Large {
            chunk: Bytes::new(chunk),
            most: Bytes::new(MOST_CHUNK),
        });
    }
    let mut sent = vec![Vec::new(); walk.steps as usize];
    for transfers in walk.transfers.chunk_by(|a, b| a.step == b.step) {
        sent[transfers[0].step as usize - 1] = passage::sent(transfers, &passages);
    }
    let bytes = program.bytes();
    let ports = passage::ports(&sent, spec.ranks);
    let volume = ports.busiest as f64 / bytes.max(1) as f64;
    let per_byte_us = bytes as f64 / spec.rate.bytes_per_sec().max(1) as f64 * 1e6;
    let micros = |steps: f64, volume: f64| {
        Time::round_micros(steps * spec.latency.micros() + volume * per_byte_us)
    };
    let times = timing::times(&program, &walk, &passages, spec)?;
    let closed_form =
        closed_form::closed_form(algorithm, spec.collective, spec.ranks, nodes, bytes, chunk).map(
            |mut form| {
                form.time_us = micros(form.steps, form.volume);
                form
            },
        );
    let tables = state::tables(program.as_ref(), &walk, &sent, &times);
    let chunks = Pipeline::of(algorithm, spec.collective, spec.ranks, nodes).map(|pipeline| {
        let parts = u64::from(pipeline.parts);
        Chunks {
            bytes: chunk,
            count: bytes.div_ceil(parts).div_ceil(chunk) * parts,
            given: spec.chunk.is_some(),
        }
    });
    Ok(Explanation {
        collective: spec.collective.name().to_owned(),
        algorithm: algorithm.name().to_owned(),
        ranks: spec.ranks,
        nodes,
        bytes,
        chunks,
        trees,
        own: tables.own,
        columns: tables.columns,
        before: tables.before,
        steps: tables.steps,
        sent: ports.out,
        received: ports.into,
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
