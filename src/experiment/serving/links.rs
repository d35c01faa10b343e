//! What communications of an engine take on the machine, each simulated alone at a few sizes.
//!
//! Between those sizes, four to an octave, a time is on the straight line between its neighbours.

use super::handover::between;
use super::valid::ValidServing;
use crate::collective::timing::{Timing, time_of};
use crate::collective::{What, plan_of};
use crate::error::ScenarioError;
use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_engine::SimError;
use fabricsim_nccl::{Communicator, Env, Forced};
use fabricsim_topology::{DeviceId, LinkFamily, LinkId, Route, Router, Topology, serving};
use fabricsim_units::{Bandwidth, Bytes, Time};
use fabricsim_workload::kernel::{CustomAllReduce, Kernel, KernelLaw};
use fabricsim_workload::serving::exchange::{Exchange, ExchangeLinks};
use fabricsim_workload::serving::model_cost::EngineLinks;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What went wrong first in any engine's communications.
pub(super) type Failure = Rc<RefCell<Option<ScenarioError>>>;

/// What of the machine's network engines have, and how NCCL uses it.
#[derive(Debug)]
pub(super) struct Network {
    /// NCCL's variables.
    pub(super) env: Env,
    /// Links that have failed, and those that are another job's.
    pub(super) without: Vec<LinkId>,
}

impl Network {
    /// Finds ways over it.
    pub(super) fn router<'t>(&self, topology: &'t Topology, seed: u64) -> Router<'t> {
        let router = Router::new(topology, seed);
        match self.without.is_empty() {
            true => router,
            false => router.avoiding(self.without.iter().copied()),
        }
    }
}

/// The communications of engines that are alike.
pub(super) struct PlannedLinks<'v> {
    topology: &'v Topology,
    network: Rc<Network>,
    budget: &'v Budget,
    seed: u64,
    tensor: Group<'v>,
    experts: Group<'v>,
    /// Those of experts, where engines have kernels of their own.
    exchange: Option<ExchangeLinks>,
    stages: Group<'v>,
    failure: Failure,
}

/// GPUs that communicate.
struct Group<'v> {
    gpus: Vec<DeviceId>,
    communicator: Option<Communicator<'v>>,
    /// What engines write themselves, where NVLink joins all.
    custom: Option<(KernelLaw<'static>, Bandwidth)>,
    times: FxHashMap<u64, Time>,
}

impl Group<'_> {
    fn of(gpus: Vec<DeviceId>) -> Self {
        Group {
            gpus,
            communicator: None,
            custom: None,
            times: FxHashMap::default(),
        }
    }
}

impl<'v> PlannedLinks<'v> {
    /// Of an engine on these ranks: stage by stage, of each stage part by part.
    pub(super) fn new(
        (valid, network): (&'v ValidServing, Rc<Network>),
        (ranks, tp, stage): (&[u32], u32, u32),
        (seed, budget): (u64, &'v Budget),
        failure: Failure,
    ) -> Self {
        let topology: &'v Topology = &valid.topology;
        let router = || network.router(topology, 0);
        let gpus: Vec<DeviceId> = ranks
            .iter()
            .map(|&rank| valid.gpus[rank as usize])
            .collect();
        let first = |count: u32| gpus[..(count as usize).min(gpus.len())].to_vec();
        let mut tensor = Group::of(first(tp));
        tensor.custom = custom((topology, router()), &tensor.gpus);
        let next = [gpus.first(), gpus.get(stage as usize)];
        let exchange = exchange_links((topology, router()), &first(stage));
        PlannedLinks {
            topology,
            budget,
            seed,
            tensor,
            exchange: exchange.map(|links| ExchangeLinks {
                posting: match network.env.gpu_posts {
                    true => links.posting,
                    false => serving().posting.proxy.value,
                },
                ..links
            }),
            experts: Group::of(first(stage)),
            stages: Group::of(next.into_iter().flatten().copied().collect()),
            failure,
            network,
        }
    }
}

/// The law of engines' own all-reduces, and what a GPU reads from its peers, if NVLink joins all of them.
fn custom(
    (topology, router): (&Topology, Router<'_>),
    gpus: &[DeviceId],
) -> Option<(KernelLaw<'static>, Bandwidth)> {
    let &first = gpus.first()?;
    let joined = gpus.iter().skip(1).all(|&gpu| {
        let route = router.peer(first, gpu);
        let links = route.as_ref().map(|route| route.hops.as_slice());
        let links = links.unwrap_or_default();
        !links.is_empty()
            && links
                .iter()
                .all(|hop| topology.family(hop.link) == LinkFamily::Nvlink)
    });
    let law = KernelLaw::new(topology.gpu_model(first)?)?;
    joined.then(|| (law, port(topology, first)))
}

/// The links of GPUs that experts are spread over, if NVLink joins those of a node; a machine without it has no kernels
/// of its own for that.
#[must_use]
pub fn exchange_links(
    (topology, mut router): (&Topology, Router<'_>),
    gpus: &[DeviceId],
) -> Option<ExchangeLinks> {
    let &first = gpus.first()?;
    let is_nvlink = |route: &Route| {
        let mut hops = route.hops.iter();
        hops.all(|hop| topology.family(hop.link) == LinkFamily::Nvlink)
    };
    let peer = |router: &Router<'_>, gpu| router.peer(first, gpu).is_ok_and(|r| is_nvlink(&r));
    let joined = gpus.iter().filter(|&&gpu| peer(&router, gpu)).count();
    if joined < 2 {
        return None;
    }
    let (near, beyond): (Vec<DeviceId>, Vec<DeviceId>) =
        gpus.iter().partition(|&&gpu| peer(&router, gpu));
    // Each to one of its own beyond, all at once.
    let pairs = near.into_iter().zip(beyond);
    let ways = pairs.map(|pair| between(&mut router, pair, usize::MAX));
    let ways: Vec<Vec<Route>> = ways.collect::<Result<_, _>>().ok()?;
    let network = match ways.is_empty() {
        true => 0.0,
        false => shared_rate(topology, &ways),
    };
    Some(ExchangeLinks {
        gpus: gpus.len() as u64,
        joined: joined as u64,
        nvlink: port(topology, first),
        network: Bandwidth::from_bytes_per_sec(network as u64),
        posting: serving().posting.gpu.value,
        is_blackwell: topology.gpu_model(first)?.compute_capability >= 100,
    })
}

/// Bytes per second of each of some senders, if all send as much at once, each evenly over its own ways.
#[must_use]
pub fn shared_rate(topology: &Topology, ways: &[Vec<Route>]) -> f64 {
    let mut busy: BTreeMap<LinkId, f64> = BTreeMap::new();
    for routes in ways {
        let part = 1.0 / routes.len().max(1) as f64;
        for hop in routes.iter().flat_map(|route| &route.hops) {
            let rate = topology.rate(hop.link).bytes_per_sec() as f64;
            *busy.entry(hop.link).or_default() += part * hop.share.as_f64() / rate;
        }
    }
    1.0 / busy.into_values().fold(0.0, f64::max)
}

/// What NVLink carries from a GPU.
fn port(topology: &Topology, gpu: DeviceId) -> Bandwidth {
    let links = topology.links_out_of(gpu);
    let nvlinks = links.filter(|(link, _)| topology.family(*link) == LinkFamily::Nvlink);
    let port: u64 = nvlinks
        .map(|(link, _)| topology.rate(link).bytes_per_sec())
        .sum();
    Bandwidth::from_bytes_per_sec(port)
}

/// Which of a group's operations.
#[derive(Clone, Copy)]
enum Operation {
    AllReduce,
    AllToAll,
    Send,
}

impl Operation {
    const fn collective(self) -> Collective {
        match self {
            Operation::AllReduce => Collective::AllReduce,
            Operation::AllToAll => Collective::AllToAll,
            Operation::Send => Collective::SendRecv,
        }
    }
}

/// Sizes to an octave.
const STEPS: u64 = 4;

impl PlannedLinks<'_> {
    fn time(&mut self, operation: Operation, bytes: Bytes) -> Time {
        let bytes = bytes.get().max(16);
        // Sizes of equal steps within each octave: 2^k (1 + i / 4).
        let octave = 1 << bytes.ilog2();
        let step = (octave / STEPS).max(1);
        let below = bytes / step * step;
        let low = self.simulated(operation, below);
        if below == bytes {
            return low;
        }
        let high = self.simulated(operation, below + step);
        let part = (bytes - below) as f64 / step as f64;
        let (low, high) = (low.picos() as f64, high.picos() as f64);
        Time::from_picos((low + (high - low) * part).round() as u64)
    }

    fn simulated(&mut self, operation: Operation, bytes: u64) -> Time {
        let group = match operation {
            Operation::AllReduce => &mut self.tensor,
            Operation::AllToAll => &mut self.experts,
            Operation::Send => &mut self.stages,
        };
        if group.gpus.len() < 2 {
            return Time::ZERO;
        }
        if let Some(&known) = group.times.get(&bytes) {
            return known;
        }
        let found = simulate(
            (self.topology, &self.network),
            group,
            (operation, bytes),
            (self.seed, self.budget),
        );
        let time = match found {
            Ok(time) => time,
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                Time::ZERO
            }
        };
        group.times.insert(bytes, time);
        time
    }
}

/// What NCCL's operation takes, or the engine's own, if that is faster.
fn simulate<'v>(
    (topology, network): (&'v Topology, &Network),
    group: &mut Group<'v>,
    (operation, bytes): (Operation, u64),
    (seed, budget): (u64, &Budget),
) -> Result<Time, ScenarioError> {
    let own = group
        .custom
        .as_ref()
        .filter(|_| matches!(operation, Operation::AllReduce));
    let own = own.map(|(law, port)| {
        law.time(&Kernel::AllReduce(CustomAllReduce {
            ranks: group.gpus.len() as u64,
            size: Bytes::new(bytes),
            port: *port,
        }))
    });
    // Operations of the same communicator: it has made its connections once.
    if group.communicator.is_none() {
        let router = network.router(topology, seed);
        let made = Communicator::of(topology, group.gpus.clone(), &network.env, router)?;
        group.communicator = Some(made);
    }
    let Some(communicator) = &mut group.communicator else {
        return Ok(Time::ZERO);
    };
    let what = What {
        collective: operation.collective(),
        forced: Forced::default(),
        msccl: None,
        matrix: None,
    };
    let planned = plan_of(what, communicator, bytes)?;
    let timing = Timing {
        isolated: false,
        exact_full: false,
        threads: 1,
        memory: Some(&budget.memory),
        stop: Some(&budget.stop),
    };
    let nccl = match planned {
        None => Time::ZERO,
        Some(planned) => {
            let timed = time_of(topology, &planned.plan, timing, None);
            let failed = |source| match source {
                SimError::Memory(over) => over.into(),
                source => ScenarioError::Simulation {
                    collective: operation.collective().name(),
                    bytes,
                    source,
                    faults: Vec::new(),
                },
            };
            timed.map_err(failed)?.0
        }
    };
    Ok(own.map_or(nccl, |own| own.min(nccl)))
}

impl EngineLinks for PlannedLinks<'_> {
    fn all_reduce(&mut self, bytes: Bytes) -> Time {
        self.time(Operation::AllReduce, bytes)
    }

    fn all_to_all(&mut self, bytes: Bytes) -> Time {
        self.time(Operation::AllToAll, bytes)
    }

    fn exchange(&mut self, of: &Exchange) -> Option<Time> {
        self.exchange.as_ref().map(|links| links.both(of))
    }

    fn send(&mut self, bytes: Bytes) -> Time {
        self.time(Operation::Send, bytes)
    }
}
