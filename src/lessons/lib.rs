//! An algorithm followed step by step on a few ranks.

mod algorithm;
mod built;
mod closed_form;
pub mod course;
mod error;
mod explained;
mod on_machine;
mod own;
mod passage;
mod pipeline;
mod places;
mod scene;
mod simulated;
mod state;
mod timing;
mod words;

pub use algorithm::{ExplainAlgorithm, ExplainError};

use built::Built;
pub use error::LessonError;
pub use explained::explained;
use fabricsim_collective::{Collective, ConnId, MscclAlgorithm, Transfer, Walk, WorkerId, walk};
use fabricsim_report::explanation::{Chunks, Cost, Explanation};
use fabricsim_units::{Bandwidth, Bytes, Time};
pub use on_machine::{MachineSpec, explained_on};
pub use scene::steps_scene;

use passage::{Passage, Ports, Sent};
use pipeline::Pipeline;
use std::sync::Arc;
use timing::Times;

/// What is to be explained.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainSpec {
    /// The collective.
    pub collective: Collective,
    /// The algorithm; the usual one for the collective, if absent.
    pub algorithm: Option<ExplainAlgorithm>,
    /// In its place one that was read from a file, right or wrong.
    pub file: Option<Arc<MscclAlgorithm>>,
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

impl ExplainSpec {
    /// What a message takes, if nothing else is said.
    pub const LATENCY: Time = Time::from_picos(1_000_000);
    /// A port's rate, if nothing else is said.
    pub const RATE: Bandwidth = Bandwidth::from_bytes_per_sec(100_000_000_000);

    /// nccl-tests' size, before rounding.
    fn size(&self) -> u64 {
        match (self.bytes, &self.file) {
            (Some(bytes), _) => bytes,
            (None, Some(file)) => 1024 * u64::from(file.chunks),
            (None, None) => 1024 * u64::from(self.ranks),
        }
    }
}

/// Tables for more ranks, or of programs with more steps, are nothing that anybody reads.
const MOST_RANKS: u32 = 64;
const MOST_STEPS: u64 = 50_000;
/// Larger messages are more than the engine counts.
const MOST_CHUNK: u64 = 16 << 40;

/// An algorithm that was followed through.
struct Followed {
    algorithm: Option<ExplainAlgorithm>,
    nodes: u32,
    built: Built,
    walk: Walk,
    times: Times,
    /// What goes over ports, by step.
    sent: Vec<Vec<Sent>>,
    ports: Ports,
}

impl Followed {
    /// The algorithm's name.
    fn name(&self, spec: &ExplainSpec) -> String {
        match (&spec.file, self.algorithm) {
            (Some(file), _) => file.name.clone(),
            (None, Some(algorithm)) => algorithm.name().to_owned(),
            (None, None) => String::new(),
        }
    }

    /// NCCL's tree inside one node, which has no branches there.
    fn is_chain(&self) -> bool {
        self.algorithm == Some(ExplainAlgorithm::Tree) && self.nodes == 1
    }

    /// What it costs: counted, by closed form, and simulated.
    fn cost(&self, spec: &ExplainSpec) -> Cost {
        let bytes = self.built.program.bytes();
        let volume = self.ports.busiest as f64 / bytes.max(1) as f64;
        let per_byte_us = bytes as f64 / spec.rate.bytes_per_sec().max(1) as f64 * 1e6;
        let micros = |steps: f64, volume: f64| {
            Time::round_micros(steps * spec.latency.micros() + volume * per_byte_us)
        };
        let size = (bytes, self.built.chunk);
        let closed_form = self.algorithm.and_then(|algorithm| {
            let mut form =
                closed_form::closed_form(algorithm, spec.collective, spec.ranks, self.nodes, size)?;
            form.time_us = micros(form.steps, form.volume);
            Some(form)
        });
        Cost {
            steps: self.walk.steps,
            volume,
            alpha_us: spec.latency.micros(),
            rate_gbs: spec.rate.gb_per_sec(),
            counted_us: micros(f64::from(self.walk.steps), volume),
            closed_form,
            simulated_us: self.times.end.micros(),
        }
    }
}

/// Builds the algorithm's program, proves what it computes, and times it.
fn follow(spec: &ExplainSpec) -> Result<Followed, ExplainError> {
    if spec.ranks == 0 || spec.ranks > MOST_RANKS {
        return Err(ExplainError::Ranks {
            ranks: spec.ranks,
            most: MOST_RANKS,
        });
    }
    let (algorithm, nodes, built) = match &spec.file {
        Some(file) => (None, 1, built::of_file(spec, file)?),
        None => {
            let usual = ExplainAlgorithm::usual(spec.collective);
            let algorithm = spec.algorithm.unwrap_or(usual);
            let nodes = built::nodes(spec, algorithm)?;
            (
                Some(algorithm),
                nodes,
                built::build(spec, algorithm, nodes)?,
            )
        }
    };
    let program = &built.program;
    let workers = (0..program.workers()).map(WorkerId);
    let steps: u64 = workers.map(|w| program.steps(w)).sum();
    if steps > MOST_STEPS {
        return Err(ExplainError::Steps {
            steps,
            most: MOST_STEPS,
        });
    }
    let inside = |id: ConnId| built.passages[id.index()] == Passage::Inside;
    let mut walk = walk(program.as_ref(), inside)?;
    if spec.file.is_none()
        && let Some(wrong) = walk.wrong.take()
    {
        return Err(wrong.into());
    }
    let largest = walk.transfers.iter().map(Transfer::bytes).max();
    if let Some(chunk) = largest.filter(|&bytes| bytes > MOST_CHUNK) {
        return Err(ExplainError::Large {
            chunk: Bytes::new(chunk),
            most: Bytes::new(MOST_CHUNK),
        });
    }
    let times = timing::times(program, &walk, &built.passages, spec)?;
    let mut sent = vec![Vec::new(); walk.steps as usize];
    let mut rest = times.messages.as_slice();
    for transfers in walk.transfers.chunk_by(|a, b| a.step == b.step) {
        let (now, later) = rest.split_at(transfers.len());
        rest = later;
        sent[transfers[0].step as usize - 1] = passage::sent(transfers, now, &built.passages);
    }
    Ok(Followed {
        algorithm,
        nodes,
        ports: passage::ports(&sent, spec.ranks),
        built,
        walk,
        times,
        sent,
    })
}

/// Follows the algorithm through.
///
/// # Errors
/// Algorithms that do not do the collective or are not there yet; more ranks or messages
/// than can be shown.
pub fn explain(spec: &ExplainSpec) -> Result<Explanation, ExplainError> {
    let followed = follow(spec)?;
    let cost = followed.cost(spec);
    let algorithm = followed.name(spec);
    let Followed {
        nodes,
        built,
        walk,
        times,
        sent,
        ports,
        ..
    } = followed;
    let bytes = built.program.bytes();
    let tables = state::tables(built.program.as_ref(), &walk, &sent, &times);
    let pipeline = followed
        .algorithm
        .and_then(|algorithm| Pipeline::of(algorithm, spec.collective, spec.ranks, nodes));
    let chunks = pipeline.map(|pipeline| {
        let parts = u64::from(pipeline.parts);
        Chunks {
            bytes: built.chunk,
            count: bytes.div_ceil(parts).div_ceil(built.chunk) * parts,
            given: spec.chunk.is_some(),
        }
    });
    Ok(Explanation {
        collective: spec.collective.name().to_owned(),
        algorithm,
        ranks: spec.ranks,
        nodes,
        bytes,
        chunks,
        trees: built.trees,
        own: tables.own,
        columns: tables.columns,
        before: tables.before,
        steps: tables.steps,
        sent: ports.out,
        received: ports.into,
        cost,
        wrong: walk.wrong.map(|wrong| wrong.to_string()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

#[cfg(test)]
mod tests;
