//! Where engines keep blocks of KV cache below the GPUs' memory, and the ways there: over the links of each GPU to
//! its host's memory, and to drives and file servers.

use super::handover::{STREAMS, narrowest};
use super::valid::{ValidPool, ValidServing};
use crate::error::ScenarioError;
use crate::refusal::{fault, refusal};
use crate::storage::storage_devices;
use fabricsim_plan::job::{ActorId, TransferRoute, TransferRouteId};
use fabricsim_topology::{
    DeviceId, Fault, LinkId, OffloadModel, Route, RouteError, Router, serving,
};
use fabricsim_units::{Bandwidth, Bytes, Time};
use fabricsim_workload::model::AttentionKind;
use fabricsim_workload::serving::fleet::{Leg, LegWork, Level, Tiers, Way, has_tiers};
use fabricsim_workload::serving::policy::PolicyKind;
use fabricsim_workload::serving::spec::{
    EngineSpec, HostTierSpec, StorageTierSpec, TierSpec, TiersSpec,
};
use fabricsim_workload::serving::store::Store;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Tokens that are copied as one: LMCache's `chunk_size`.
const CHUNK_TOKENS: u32 = 256;

/// What can be said of tiers without the machine.
pub(super) fn check(engine: &EngineSpec, faults: &mut Vec<Fault>) {
    let Some(tiers) = &engine.tiers else { return };
    let at = |field: &str| format!("job.serving.engine.tiers{field}");
    let mut add = |field: &str, found: &str, expected: &str| {
        faults.push(fault(&at(field), found.to_owned(), expected));
    };
    if !engine.prefix_cache {
        add(
            "",
            "tiers without a prefix cache",
            "`\"prefix_cache\": true` beside them",
        );
    }
    if engine.policy == PolicyKind::Static {
        add(
            "",
            "tiers with static batches, which keep nothing",
            "another policy",
        );
    }
    if tiers.levels.is_empty() {
        add(".levels", "no tier", "one or more");
    }
    for (number, level) in tiers.levels.iter().enumerate() {
        let (capacity, chunk) = match level {
            TierSpec::Host(host) => (host.capacity, host.chunk_tokens),
            TierSpec::Storage(storage) => (storage.capacity, storage.chunk_tokens),
        };
        let place = format!(".levels[{number}].{}", level.name());
        if capacity == Bytes::ZERO {
            add(&format!("{place}.capacity"), "0", "bytes above 0");
        }
        if chunk == Some(0) {
            add(&format!("{place}.chunk_tokens"), "0", "1 or more tokens");
        }
        if number > 0 && matches!(level, TierSpec::Host(_)) {
            add(
                &place,
                "the hosts' memory behind another tier",
                "`host` first, and once",
            );
        }
    }
}

/// The tiers of all engines; their routes come behind those that are there.
///
/// # Errors
/// Storage that the machine does not have or that no links lead to, and tiers that hold no block.
pub(super) fn tiers<'v>(
    valid: &'v ValidServing,
    actors: &FxHashMap<u32, ActorId>,
    router: Router<'v>,
    routes: &mut Vec<TransferRoute>,
) -> Result<Tiers, ScenarioError> {
    let engine = &valid.spec.engine;
    let Some(spec) = &engine.tiers else {
        return Ok(Tiers::default());
    };
    let figures = &serving().offload;
    let mut made = Made {
        valid,
        spec,
        figures,
        actors,
        router,
        routes,
        stores: Vec::new(),
        shared: BTreeMap::new(),
    };
    let mut levels = Vec::new();
    for pool in &valid.pools {
        for ranks in &pool.engines {
            levels.push(match has_tiers(super::laid::role(pool.role)) {
                true => made.levels(pool, ranks)?,
                false => Vec::new(),
            });
        }
    }
    Ok(Tiers {
        reload: spec.reload,
        write: spec.write,
        setup: figures.setup.value,
        stores: made.stores,
        levels,
    })
}

struct Made<'m, 'v> {
    valid: &'v ValidServing,
    spec: &'v TiersSpec,
    figures: &'static OffloadModel,
    actors: &'m FxHashMap<u32, ActorId>,
    router: Router<'v>,
    routes: &'m mut Vec<TransferRoute>,
    stores: Vec<Store>,
    /// Stores on devices that several engines reach: by the tier and the devices.
    shared: BTreeMap<(usize, Vec<DeviceId>), usize>,
}

/// How the GPUs of a part of an engine reach a tier.
struct Reach<'a> {
    pool: &'a ValidPool,
    ranks: &'a [u32],
    /// Devices that bytes are spread over; none: the hosts' memory.
    devices: &'a [DeviceId],
    chunk_tokens: u32,
    bandwidth: Option<Bandwidth>,
}

/// A direction of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
    /// From the hosts' memory.
    WriteFromHost,
}

impl Made<'_, '_> {
    /// The tiers of an engine.
    fn levels(&mut self, pool: &ValidPool, ranks: &[u32]) -> Result<Vec<Level>, ScenarioError> {
        let mut levels = Vec::new();
        let mut behind_host = false;
        for (number, tier) in self.spec.levels.iter().enumerate() {
            let (capacity, chunk_tokens, bandwidth, devices) = match tier {
                TierSpec::Host(HostTierSpec {
                    capacity,
                    chunk_tokens,
                    bandwidth,
                }) => (*capacity, *chunk_tokens, *bandwidth, Vec::new()),
                TierSpec::Storage(storage) => (
                    storage.capacity,
                    storage.chunk_tokens,
                    storage.bandwidth,
                    self.devices(storage, number, ranks)?,
                ),
            };
            let store = self.store((number, capacity), pool, &devices)?;
            let reach = Reach {
                pool,
                ranks,
                devices: &devices,
                chunk_tokens: chunk_tokens.unwrap_or(CHUNK_TOKENS),
                bandwidth,
            };
            let write = match behind_host {
                true => Direction::WriteFromHost,
                false => Direction::Write,
            };
            let mut ways = |direction| {
                let parts = 0..pool.parallel.attention_dp;
                let ways = parts.map(|part| self.way(&reach, part, direction));
                ways.collect::<Result<Vec<Way>, RouteError>>()
            };
            let made = ways(Direction::Read).and_then(|read| Ok((read, ways(write)?)));
            let (read, write) = made.map_err(|error| {
                let path = path(number, tier);
                let expected = "a place that links lead to from all GPUs of its engines";
                let wrong = fault(&path, error.to_string(), expected);
                refusal(&self.valid.topology.name, vec![wrong])
            })?;
            levels.push(Level { store, read, write });
            behind_host = matches!(tier, TierSpec::Host(_));
        }
        Ok(levels)
    }

    /// The devices of a tier that an engine reaches: those of its node, or else those of no node.
    fn devices(
        &self,
        storage: &StorageTierSpec,
        number: usize,
        ranks: &[u32],
    ) -> Result<Vec<DeviceId>, ScenarioError> {
        let topology = &self.valid.topology;
        let path = format!("job.serving.engine.tiers.levels[{number}].storage");
        let expected = "a topology with storage devices, or tiers in the hosts' memory alone";
        let all = storage_devices(
            storage.devices.as_deref(),
            topology,
            (&path, expected),
            &topology.name,
        )?;
        let first = ranks.first().map(|&rank| self.valid.gpus[rank as usize]);
        let node = first.and_then(|gpu| topology.node_of(gpu));
        let of = |wanted: Option<_>| -> Vec<DeviceId> {
            let all = all.iter().copied();
            all.filter(|&device| topology.node_of(device) == wanted)
                .collect()
        };
        let own = of(node);
        let chosen = match own.is_empty() {
            true => of(None),
            false => own,
        };
        // Those of other nodes, if that is what was asked for.
        Ok(if chosen.is_empty() { all } else { chosen })
    }

    /// What a tier is kept in: the devices' own, or the engine's.
    fn store(
        &mut self,
        (number, capacity): (usize, Bytes),
        pool: &ValidPool,
        devices: &[DeviceId],
    ) -> Result<usize, ScenarioError> {
        let key = (number, devices.to_vec());
        if let Some(&known) = self.shared.get(&key) {
            return Ok(known);
        }
        let block_tokens = u64::from(self.valid.spec.engine.block_tokens());
        let block = block_tokens.saturating_mul(stored_bytes_per_token(pool));
        let blocks = capacity.get() / block.max(1);
        if blocks == 0 {
            let path = format!("{}.capacity", path(number, &self.spec.levels[number]));
            let expected = format!("{} or more, a block of this model", Bytes::new(block));
            let wrong = fault(&path, capacity.to_string(), &expected);
            return Err(refusal(&self.valid.topology.name, vec![wrong]));
        }
        self.stores.push(Store::new(blocks));
        let store = self.stores.len() - 1;
        if !devices.is_empty() {
            self.shared.insert(key, store);
        }
        Ok(store)
    }

    /// The way of a part of an engine: each GPU reads and writes what it holds itself, of latent attention, which
    /// all have whole, the first one writes.
    fn way(
        &mut self,
        reach: &Reach<'_>,
        part: u32,
        direction: Direction,
    ) -> Result<Way, RouteError> {
        let parallel = &reach.pool.parallel;
        let (tp, stage) = (parallel.tp(), parallel.tp() * parallel.attention_dp);
        let places = (0..parallel.pp).flat_map(|at| (0..tp).map(move |t| (at, t)));
        let writers = match direction {
            Direction::Read => tp,
            _ if is_whole_everywhere(reach.pool) => 1,
            _ => tp,
        };
        let places: Vec<u32> = places
            .filter(|(_, t)| *t < writers)
            .map(|(at, t)| reach.ranks[(at * stage + part * tp + t) as usize])
            .collect();
        // With fewer GPUs than devices each reads from several.
        let pieces = reach.devices.len().div_ceil(places.len().max(1)).max(1);
        let pieces = pieces.min(usize::from(STREAMS)) as u64;
        let bytes_per_token = reach.pool.shape.kv_bytes_per_token().div_ceil(pieces);
        let block_tokens = f64::from(self.valid.spec.engine.block_tokens());
        let mut way = Way::default();
        let mut devices = reach.devices.iter().copied().cycle();
        // Devices that parts share: each begins elsewhere.
        for _ in 0..part as usize * places.len() {
            devices.next();
        }
        for rank in places {
            for piece in 0..pieces {
                let (work, latency) = match reach.bandwidth {
                    Some(rate) => (LegWork::Given(rate.bytes_per_sec() as f64), Time::ZERO),
                    None => self.route((rank, piece), devices.next(), direction)?,
                };
                way.latency = way.latency.max(latency);
                way.legs.push(Leg {
                    actor: self.actors[&rank],
                    streams: STREAMS,
                    bytes_per_token,
                    descriptors_per_block: block_tokens / f64::from(reach.chunk_tokens),
                    bytes_per_posting: self.bytes_per_posting(work),
                    work,
                });
            }
        }
        way.per_token = self.per_token(&way, f64::from(reach.chunk_tokens));
        Ok(way)
    }

    /// A GPU's route to or from a device, or its host's memory, and how long until the first byte is there.
    fn route(
        &mut self,
        (rank, flow): (u32, u64),
        device: Option<DeviceId>,
        direction: Direction,
    ) -> Result<(LegWork, Time), RouteError> {
        let topology = &self.valid.topology;
        let gpu = self.valid.gpus[rank as usize];
        let flow = u64::from(rank) + flow;
        let host = self.router.cpu_of(gpu).unwrap_or(gpu);
        let mut route = match (device, direction) {
            (None, Direction::Read) => self.router.local(host, gpu)?,
            (None, _) => self.router.local(gpu, host)?,
            (Some(device), Direction::Read) => {
                self.router.from_storage((device, gpu), false, flow)?
            }
            (Some(device), _) => {
                let from_host = direction == Direction::WriteFromHost;
                self.router.to_storage((gpu, device), from_host, flow)?
            }
        };
        let own = device.and_then(|device| topology.storage_model(device));
        route.latency += own.map_or(Time::ZERO, |model| model.latency.value);
        let latency = route.latency;
        let work = LegWork::Route(self.add(route, device.is_some()));
        Ok((work, latency))
    }

    fn add(&mut self, route: Route, is_storage: bool) -> TransferRouteId {
        let id = TransferRouteId(self.routes.len() as u32);
        let share = match is_storage {
            // What drives read is measured.
            true => 1.0,
            false => self.figures.rate_share.value,
        };
        let narrowest = narrowest(&self.valid.topology, &route);
        self.routes.push(TransferRoute {
            rate: narrowest.map(|rate| Bandwidth::from_bytes_per_sec((rate * share) as u64)),
            route,
            message: self.figures.copy.value,
        });
        id
    }

    /// Bytes that flow while a copy is asked for.
    fn bytes_per_posting(&self, work: LegWork) -> f64 {
        let LegWork::Route(id) = work else { return 0.0 };
        let route = &self.routes[id.0 as usize];
        let rate = route.rate.map_or(0.0, |rate| rate.bytes_per_sec() as f64);
        rate * route.message.seconds()
    }

    /// Seconds for a token: of the GPU that takes longest, or of the link that most of them share.
    fn per_token(&self, way: &Way, chunk_tokens: f64) -> f64 {
        let mut busy: BTreeMap<LinkId, f64> = BTreeMap::new();
        let mut longest: f64 = 0.0;
        for leg in &way.legs {
            let bytes = leg.bytes_per_token as f64;
            let LegWork::Route(id) = leg.work else {
                if let LegWork::Given(rate) = leg.work {
                    longest = longest.max(bytes / rate);
                }
                continue;
            };
            let route = &self.routes[id.0 as usize];
            let own = route
                .rate
                .map_or(0.0, |rate| bytes / rate.bytes_per_sec() as f64);
            longest = longest.max(own).max(route.message.seconds() / chunk_tokens);
            for hop in &route.route.hops {
                let rate = self.valid.topology.rate(hop.link).bytes_per_sec() as f64;
                *busy.entry(hop.link).or_default() += bytes * hop.share.as_f64() / rate;
            }
        }
        busy.into_values().fold(longest, f64::max)
    }
}

/// Whether every GPU of tensor parallelism has all keys and values: those are stored once.
fn is_whole_everywhere(pool: &ValidPool) -> bool {
    matches!(pool.shape.model.attention, AttentionKind::Mla(_))
}

/// Bytes of a token in a store, of all GPUs of a part of an engine.
pub(super) fn stored_bytes_per_token(pool: &ValidPool) -> u64 {
    let copies = match is_whole_everywhere(pool) {
        true => 1,
        false => u64::from(pool.parallel.tp()),
    };
    let stages = u64::from(pool.parallel.pp);
    pool.shape.kv_bytes_per_token() * copies * stages
}

fn path(number: usize, tier: &TierSpec) -> String {
    format!("job.serving.engine.tiers.levels[{number}].{}", tier.name())
}
