//! Which engine gets a request.

use super::handover::Handover;
use super::{Engine, Role, Worker};
use crate::serving::request::Request;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the engine of a request is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests.
    #[default]
    LeastLoaded,
    /// The one that has the fewest tokens to compute before it: those that wait there, and what its prefix cache
    /// lacks of the prompt.
    PrefixAware,
    /// As `least_loaded`; KV caches go to the engine with the fastest way from the prompt's, among those that have
    /// no more requests than an even share.
    TopologyAware,
}

/// Chooses engines.
#[derive(Debug)]
pub(super) struct Router {
    routing: Routing,
    prompts: Vec<u32>,
    generators: Vec<u32>,
    turn: [usize; 2],
}

impl Router {
    pub(super) fn new(routing: Routing, engines: &[Engine]) -> Self {
        let of = |roles: &[Role]| {
            let chosen = (0u32..).zip(engines);
            let chosen = chosen.filter(|(_, engine)| roles.contains(&engine.role));
            chosen.map(|(index, _)| index).collect()
        };
        Router {
            routing,
            prompts: of(&[Role::Both, Role::Prefill]),
            generators: of(&[Role::Decode]),
            turn: [0; 2],
        }
    }

    /// Whether engines that generate are apart.
    pub(super) fn has_generators(&self) -> bool {
        !self.generators.is_empty()
    }

    /// The engine that computes a request's prompt, and the part of it.
    pub(super) fn prompt(
        &mut self,
        number: u32,
        requests: &[Request],
        workers: &[Worker],
    ) -> (u32, u16) {
        match self.routing {
            Routing::RoundRobin => self.in_turn(0, workers),
            Routing::LeastLoaded | Routing::TopologyAware => least_loaded(&self.prompts, workers),
            Routing::PrefixAware => {
                let request = &requests[number as usize];
                let places = places(&self.prompts, workers);
                let ahead = |(engine, part): &(u32, u16)| {
                    let scheduler = &workers[*engine as usize].engine.parts[usize::from(*part)];
                    let waits = |&id: &u32| u64::from(scheduler.live(id).missing());
                    let queued: u64 = scheduler.waiting.iter().map(waits).sum();
                    let block_tokens = scheduler.pool.block_tokens();
                    let names = (0..(request.input - 1) / block_tokens)
                        .map(|block| request.block_name(number, block, block_tokens));
                    let known = scheduler.pool.known(names) * block_tokens;
                    (queued + u64::from(request.input - known), scheduler.load())
                };
                places.min_by_key(ahead).unwrap_or((0, 0))
            }
        }
    }

    /// The engine that generates what follows a prompt that `from` computed, if that is known, and the part of it.
    pub(super) fn generator(
        &mut self,
        from: Option<u32>,
        handover: &Handover,
        workers: &[Worker],
    ) -> (u32, u16) {
        match self.routing {
            Routing::RoundRobin => self.in_turn(1, workers),
            Routing::LeastLoaded | Routing::PrefixAware => least_loaded(&self.generators, workers),
            Routing::TopologyAware => {
                let load = |&(engine, part): &(u32, u16)| load(workers, engine, part);
                let all = || places(&self.generators, workers);
                let sum: usize = all().map(|place| load(&place)).sum();
                let even = sum / all().count().max(1);
                let near = all().filter(|place| load(place) <= even);
                let pace = |to| from.map_or(Time::ZERO, |from| handover.pace(from, to));
                let key = |place: &(u32, u16)| (pace(place.0), load(place));
                near.min_by_key(key).unwrap_or((0, 0))
            }
        }
    }

    /// One after the other.
    fn in_turn(&mut self, kind: usize, workers: &[Worker]) -> (u32, u16) {
        let engines = match kind {
            0 => &self.prompts,
            _ => &self.generators,
        };
        let count = places(engines, workers).count().max(1);
        let turn = self.turn[kind] % count;
        self.turn[kind] = turn + 1;
        // Engines first, then their parts.
        let (engine, part) = (turn % engines.len(), turn / engines.len());
        (engines[engine], part as u16)
    }
}

/// Requests that wait, run or are to come there.
fn load(workers: &[Worker], engine: u32, part: u16) -> usize {
    let worker = &workers[engine as usize];
    let part = usize::from(part);
    worker.engine.parts[part].load() + worker.arriving[part].len()
}

/// All parts of some engines.
fn places<'w>(engines: &'w [u32], workers: &'w [Worker]) -> impl Iterator<Item = (u32, u16)> + 'w {
    engines.iter().flat_map(|&engine| {
        let parts = workers[engine as usize].engine.parts.len() as u16;
        (0..parts).map(move |part| (engine, part))
    })
}

/// The place with the fewest requests; the first of those.
fn least_loaded(engines: &[u32], workers: &[Worker]) -> (u32, u16) {
    places(engines, workers)
        .min_by_key(|&(engine, part)| load(workers, engine, part))
        .unwrap_or((0, 0))
}
