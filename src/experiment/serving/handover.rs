//! The ways of KV caches between engines: which GPU sends what to which, over which links.

use super::pools::copies_kv;
use super::valid::{ValidPool, ValidServing};
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use fabricsim_plan::job::{ActorId, TransferRoute, TransferRouteId};
use fabricsim_topology::{
    DeviceId, Hop, LibraryModel, LinkFamily, Route, RouteError, Router, Share, Topology, serving,
};
use fabricsim_units::Time;
use fabricsim_workload::model::AttentionKind;
use fabricsim_workload::serving::fleet::{Handover, HandoverOrder, Leg, LegWork};
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::spec::{HandoverLibrary, PoolRole};
use rustc_hash::FxHashMap;

/// Streams of a GPU on which hand-overs go: so many are under way at once.
pub(super) const STREAMS: u8 = 31;

/// Hand-overs, and the routes that they take.
#[derive(Default)]
pub(super) struct Ways {
    pub(super) handover: Handover,
    pub(super) routes: Vec<TransferRoute>,
}

/// All ways between engines for prompts and engines that generate.
///
/// # Errors
/// GPUs that no links join.
pub(super) fn ways<'v>(
    valid: &'v ValidServing,
    actors: &FxHashMap<u32, ActorId>,
    router: Router<'v>,
) -> Result<Ways, ScenarioError> {
    let spec = &valid.spec.handover;
    let figures = serving().handover.of(library(valid).name());
    let own = match valid.spec.engine.policy {
        PolicyKind::Sglang => HandoverOrder::Push,
        _ => HandoverOrder::Pull,
    };
    let mut ways = Ways {
        handover: Handover {
            order: spec.order.unwrap_or(own),
            pipelined: spec.pipelined,
            setup: match spec.free {
                true => Time::ZERO,
                false => spec.setup.unwrap_or(figures.setup.value),
            },
            ..Handover::default()
        },
        routes: Vec::new(),
    };
    if spec.free {
        return Ok(ways);
    }
    let mut made = Made {
        valid,
        actors,
        router,
        known: FxHashMap::default(),
        routes: &mut ways.routes,
    };
    let engines = |role| {
        let mut number = 0;
        let mut found = Vec::new();
        for pool in &valid.pools {
            for ranks in &pool.engines {
                if pool.role == role {
                    found.push((number, pool, ranks.as_slice()));
                }
                number += 1;
            }
        }
        found
    };
    for (from, sender, sends) in engines(PoolRole::Prefill) {
        for (to, receiver, receives) in engines(PoolRole::Decode) {
            let legs = made
                .legs((sender, sends), (receiver, receives))
                .map_err(|error| {
                    let expected = "GPUs that NVLink, PCIe or a network joins, or `handover.free`";
                    let wrong = fault("job.serving.pools", error.to_string(), expected);
                    refusal(&valid.topology.name, vec![wrong])
                })?;
            let near = made.near(&legs);
            ways.handover.near.insert((from, to), near);
            ways.handover.legs.insert((from, to), legs);
        }
    }
    Ok(ways)
}

struct Made<'w, 'v> {
    valid: &'v ValidServing,
    actors: &'w FxHashMap<u32, ActorId>,
    router: Router<'v>,
    known: FxHashMap<(u32, u32), Vec<TransferRouteId>>,
    routes: &'w mut Vec<TransferRoute>,
}

impl Made<'_, '_> {
    /// What each GPU of an engine for prompts sends to one that generates. Both split layers and heads their own way:
    /// a piece is what two of them have in common.
    fn legs(
        &mut self,
        (sender, sends): (&ValidPool, &[u32]),
        (receiver, receives): (&ValidPool, &[u32]),
    ) -> Result<Vec<Leg>, RouteError> {
        let model = &sender.shape.model;
        let layers = model.layers as f64;
        let (stages, parts) = (sender.parallel.pp, receiver.parallel.pp);
        let mut legs = Vec::new();
        for stage in 0..stages {
            for part in 0..parts {
                // Layers that both have.
                let overlap = common((stage, stages), (part, parts)) * layers;
                if overlap <= 0.0 {
                    continue;
                }
                self.split(
                    (sender, &sends[(stage * sender.parallel.tp()) as usize..]),
                    (
                        receiver,
                        &receives[(part * receiver.parallel.tp()) as usize..],
                    ),
                    overlap,
                    &mut legs,
                )?;
            }
        }
        Ok(legs)
    }

    /// The pieces of one stage's heads, for so many layers.
    fn split(
        &mut self,
        (sender, sends): (&ValidPool, &[u32]),
        (receiver, receives): (&ValidPool, &[u32]),
        layers: f64,
        legs: &mut Vec<Leg>,
    ) -> Result<(), RouteError> {
        let model = &sender.shape.model;
        let (from_tp, to_tp) = (sender.parallel.tp(), receiver.parallel.tp());
        let whole = match model.attention {
            AttentionKind::Mla(mla) => mla.kv_lora + mla.rope_dim,
            AttentionKind::MultiHead => model.kv_heads() * (model.qk_dim() + model.v_dim()),
        } as f64;
        let bytes = whole * sender.shape.kv.cache_bytes() * layers;
        // Keys and values apart, but for latent attention, where they are one.
        let regions = match model.attention {
            AttentionKind::Mla(_) => 1.0,
            AttentionKind::MultiHead => 2.0,
        };
        let spec = &self.valid.spec.handover;
        let runs = spec.contiguous_blocks.unwrap_or(1.0).max(1.0);
        for to in 0..to_tp {
            for from in 0..from_tp {
                let share = match (copies_kv(&sender.shape), copies_kv(&receiver.shape)) {
                    // All GPUs have all: each reads from the one in its place.
                    (true, _) if from != to % from_tp => 0.0,
                    (true, true) => 1.0,
                    (true, false) => 1.0 / f64::from(to_tp),
                    (false, true) => 1.0 / f64::from(from_tp),
                    (false, false) => common((from, from_tp), (to, to_tp)),
                };
                if share <= 0.0 {
                    continue;
                }
                let (source, target) = (sends[from as usize], receives[to as usize]);
                let ways = match spec.bandwidth {
                    Some(rate) => vec![LegWork::Given(rate.bytes_per_sec() as f64)],
                    None => {
                        let routes = self.routes(source, target)?.into_iter();
                        routes.map(LegWork::Route).collect()
                    }
                };
                let count = ways.len().max(1) as f64;
                let bytes_per_token = (bytes * share / count).ceil() as u64;
                let block_tokens = self.valid.spec.engine.block_tokens();
                let block = bytes_per_token as f64 * f64::from(block_tokens);
                let descriptors_per_block = match spec.staging {
                    Some(piece) => block / piece.get().max(1) as f64,
                    None => layers * regions / runs / count,
                };
                legs.extend(ways.into_iter().map(|work| Leg {
                    actor: self.actors[&target],
                    streams: STREAMS,
                    bytes_per_token,
                    descriptors_per_block,
                    bytes_per_posting: self.bytes_per_posting(work),
                    work,
                }));
            }
        }
        Ok(())
    }

    /// Bytes that flow while a descriptor is posted.
    fn bytes_per_posting(&self, work: LegWork) -> f64 {
        let LegWork::Route(id) = work else { return 0.0 };
        let route = &self.routes[id.0 as usize];
        let rate = route.rate.map_or(0.0, |rate| rate.bytes_per_sec() as f64);
        rate * route.message.seconds()
    }

    /// The ways from one GPU to another.
    fn routes(&mut self, from: u32, to: u32) -> Result<Vec<TransferRouteId>, RouteError> {
        if let Some(known) = self.known.get(&(from, to)) {
            return Ok(known.clone());
        }
        let gpus = (self.valid.gpus[from as usize], self.valid.gpus[to as usize]);
        let figures = serving().handover.of(library(self.valid).name());
        let found = between(&mut self.router, gpus, figures.rails as usize)?;
        let ids: Vec<_> = found
            .into_iter()
            .map(|way| self.add(way, figures))
            .collect();
        self.known.insert((from, to), ids.clone());
        Ok(ids)
    }

    /// A way that hand-overs take, with what this library reaches on it.
    fn add(&mut self, mut route: Route, figures: &LibraryModel) -> TransferRouteId {
        let topology = &self.valid.topology;
        let spec = &self.valid.spec.handover;
        if let Some(latency) = spec.latency {
            route.latency = latency;
        }
        let over_nvlink = route
            .hops
            .iter()
            .all(|hop| topology.family(hop.link) == LinkFamily::Nvlink);
        let own = match over_nvlink {
            true => figures.posting_nvlink.value,
            false => figures.posting.value,
        };
        let narrowest = narrowest(topology, &route);
        let id = TransferRouteId(self.routes.len() as u32);
        self.routes.push(TransferRoute {
            rate: narrowest.map(|rate| {
                let share = match spec.posting {
                    // Without costs of its own a transfer goes as fast as its links.
                    Some(Time::ZERO) => 1.0,
                    _ => figures.rate_share.value,
                };
                fabricsim_units::Bandwidth::from_bytes_per_sec((rate * share) as u64)
            }),
            route,
            message: spec.posting.unwrap_or(own),
        });
        id
    }

    /// What a token takes on the slowest of these ways, with links for itself.
    fn near(&self, legs: &[Leg]) -> Time {
        let of = |leg: &Leg| match leg.work {
            LegWork::Given(rate) => leg.bytes_per_token as f64 / rate,
            LegWork::Route(id) => {
                let route = &self.routes[id.0 as usize];
                let rate = narrowest(&self.valid.topology, &route.route).unwrap_or(f64::INFINITY);
                let far = route.route.latency.seconds() / 1e3;
                leg.bytes_per_token as f64 / rate + far
            }
        };
        let slowest = legs.iter().map(of).fold(0.0, f64::max);
        Time::from_picos((slowest * 1e12) as u64)
    }
}

/// What two parts of a whole have in common, of it: the `one`-th of so many and the `other`-th of so many.
fn common((one, ones): (u32, u32), (other, others): (u32, u32)) -> f64 {
    let (ones, others) = (f64::from(ones), f64::from(others));
    let (one, other) = (f64::from(one) / ones, f64::from(other) / others);
    let from = one.max(other);
    let to = (one + 1.0 / ones).min(other + 1.0 / others);
    (to - from).max(0.0)
}

/// The library that moves KV caches: the one that the scenario says, or the engine's own.
fn library(valid: &ValidServing) -> HandoverLibrary {
    let own = match valid.spec.engine.policy {
        PolicyKind::Sglang => HandoverLibrary::Mooncake,
        _ => HandoverLibrary::Nixl,
    };
    valid.spec.handover.library.unwrap_or(own)
}

/// From GPU to GPU: over NVLink or PCIe peer to peer if they reach each other's memory, else through the NICs that are
/// nearest to each, at most so many: several that are as near share what moves.
///
/// # Errors
/// No links join them.
pub fn between(
    router: &mut Router<'_>,
    (from, to): (DeviceId, DeviceId),
    rails: usize,
) -> Result<Vec<Route>, RouteError> {
    let direct = router.peer(from, to);
    if direct.is_ok() {
        return Ok(vec![direct?]);
    }
    let nearest = |gpu| {
        let ranked = router.ranked_nics(gpu);
        let best = ranked.first().map(|&(rate, path, _)| (rate, path));
        let tied = ranked.into_iter();
        let tied = tied.take_while(|&(rate, path, _)| Some((rate, path)) == best);
        tied.map(|(.., nic)| nic).collect::<Vec<_>>()
    };
    let pairs = nearest(from).into_iter().zip(nearest(to));
    let pairs: Vec<_> = pairs.take(rails.max(1)).collect();
    if pairs.is_empty() {
        return Ok(vec![direct?]);
    }
    let routes = pairs.into_iter().map(|nics| over(router, (from, to), nics));
    routes.collect()
}

/// From GPU to GPU through these NICs.
///
/// # Errors
/// No links join them.
pub(crate) fn over(
    router: &mut Router<'_>,
    (from, to): (DeviceId, DeviceId),
    (sends, receives): (DeviceId, DeviceId),
) -> Result<Route, RouteError> {
    let parts = [
        router.local(from, sends)?,
        router.network(sends, receives, 0)?,
        router.local(receives, to)?,
    ];
    let mut whole = Route {
        load: Share::WHOLE,
        ..Route::default()
    };
    for part in parts {
        whole.hops.extend(part.hops.into_iter().map(|hop| Hop {
            // Where a part of the way carries less of such transfers than of others, its links do.
            share: hop.share,
            ..hop
        }));
        whole.latency += part.latency;
    }
    Ok(whole)
}

/// Bytes per second of the narrowest link of a way, by the share that crosses it.
pub fn narrowest(topology: &Topology, route: &Route) -> Option<f64> {
    let rate = |hop: &Hop| {
        hop.share
            .carried_by(topology.rate(hop.link))
            .bytes_per_sec() as f64
    };
    route.hops.iter().map(rate).reduce(f64::min)
}
