//! From checked communicators to what they take.

use super::groups::{Kind, kinds};
use super::life::{Acquaintance, Making};
use super::need::{Ends, lacking, sockets};
use super::spec::{CommunicatorSpec, FirstSpec, Modules, StoreSpec};
use super::valid::ValidCommunicator;
use crate::collective::alone;
use crate::error::ScenarioError;
use fabricsim_budget::Budget;
use fabricsim_collective::Collective;
use fabricsim_nccl::{Communicator, Connections, Env, Forced, Planned, Traffic};
use fabricsim_report::communicator::{
    CommunicatorResult, FirstOperation, LifePart, MadeCommunicator,
};
use fabricsim_topology::bootstrap::{BootstrapModel, bootstrap};
use fabricsim_topology::software::sockets as socket_model;
use fabricsim_topology::{DeviceId, DeviceKind, NodeId, Router, Topology};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// What making the communicators of these names takes in all, where nothing is connected before the first operations.
///
/// # Errors
/// Names that do not divide the ranks: their index, what was found and what belongs there.
pub(crate) fn making_time(
    topology: &Topology,
    gpus: &[DeviceId],
    env: &Env,
    groups: &[String],
) -> Result<Time, (usize, String, String)> {
    let spec = CommunicatorSpec::default();
    let kinds = kinds(groups, gpus.len() as u32)?;
    let times = kinds.iter().enumerate().map(|(index, kind)| {
        let own: Vec<DeviceId> = kind.ranks.iter().map(|&rank| gpus[rank as usize]).collect();
        let devices = Place::of(topology, &own).devices;
        let making = making((&spec, env), kind, (index, gpus.len()), devices, Time::ZERO);
        making.time(bootstrap())
    });
    Ok(times.sum())
}

/// What the node with most has.
struct Place {
    /// GPUs that take part, and NICs.
    devices: u64,
    /// GPUs that take part.
    ranks: u64,
}

impl Place {
    fn of(topology: &Topology, gpus: &[DeviceId]) -> Self {
        let mut ranks: BTreeMap<Option<NodeId>, u64> = BTreeMap::new();
        for &gpu in gpus {
            *ranks.entry(topology.node_of(gpu)).or_default() += 1;
        }
        let mut devices = ranks.clone();
        let nics = topology
            .devices()
            .filter(|(_, device)| device.kind == DeviceKind::Nic);
        for (nic, _) in nics {
            if let Some(count) = devices.get_mut(&topology.node_of(nic)) {
                *count += 1;
            }
        }
        Place {
            devices: devices.into_values().max().unwrap_or(0),
            ranks: ranks.into_values().max().unwrap_or(0),
        }
    }
}

/// What the `index`-th kind's making depends on, in a job of so many ranks.
fn making(
    (spec, env): (&CommunicatorSpec, &Env),
    kind: &Kind,
    (index, all): (usize, usize),
    devices: u64,
    connecting: Time,
) -> Making {
    let model = bootstrap();
    let ranks = kind.ranks.len() as u64;
    let latency = socket_model().transfer_latency();
    let acquaintance = match spec.split && index > 0 {
        true => Acquaintance::Parent,
        false => Acquaintance::Roots(roots(spec, env, ranks, model)),
    };
    Making {
        ranks,
        devices,
        acquaintance,
        first: index == 0,
        cold: spec.modules == Some(Modules::Cold),
        arrival: spec.arrival.unwrap_or(model.arrival.value),
        latency,
        step_latency: match env.oob_net {
            true => model.oob_latency.value,
            false => latency,
        },
        both_ways: !env.version.before(28),
        connecting,
        barriers: spec.store.map(|store| {
            let each = match store {
                StoreSpec::Tcp => &model.store_operation,
                StoreSpec::Redis => &model.store_operation_redis,
            };
            (u64::from(kind.count), all as u64, each.value)
        }),
    }
}

/// Roots of a communicator of so many ranks.
fn roots(spec: &CommunicatorSpec, env: &Env, ranks: u64, model: &BootstrapModel) -> u64 {
    match spec.roots {
        Some(roots) => u64::from(roots).min(ranks),
        None if env.version.before(23) => 1,
        None => ranks.div_ceil(model.ranks_per_root.value.max(1)),
    }
}

/// All communicators, one kind after the other.
pub(super) fn made(
    valid: &ValidCommunicator,
    budget: &Budget,
) -> Result<CommunicatorResult, ScenarioError> {
    let ValidCommunicator {
        topology,
        spec,
        env,
        gpus,
        ..
    } = valid;
    let model = bootstrap();
    let place = Place::of(topology, gpus);
    let mut result = CommunicatorResult {
        before_us: model.process_start.value.micros(),
        ..CommunicatorResult::default()
    };
    let mut times: Vec<Time> = Vec::new();
    let mut firsts: Option<Time> = None;
    let mut again: Vec<Time> = Vec::new();
    let mut ends = Ends::default();
    let mut what = "making it".to_owned();
    for (index, kind) in valid.kinds.iter().enumerate() {
        let own: Vec<DeviceId> = kind.ranks.iter().map(|&rank| gpus[rank as usize]).collect();
        let devices = Place::of(topology, &own).devices;
        let router = Router::new(topology, valid.seed);
        let communicator = Communicator::of(topology, own, env, router)?;
        let mut communicator = communicator.within(&budget.estimating());
        let eager = match env.runtime_connect {
            true => Connections::default(),
            false => rings(&mut communicator)?,
        };
        let making = making(
            (spec, env),
            kind,
            (index, gpus.len()),
            devices,
            connecting(eager, model),
        );
        let parts = making.parts(model);
        let time = making.time(model);
        let later = Making {
            first: false,
            ..making
        };
        again.push(later.time(model));
        let first = spec
            .first
            .as_ref()
            .map(|asked| first(&mut communicator, asked, eager));
        let first = first.transpose()?;
        let connected = first.as_ref().map_or(eager, |first| first.all);
        ends.of_node += connected.of_node;
        ends.of_rank += connected.network;
        if let Some(asked) = &spec.first {
            what = format!("the first {}", asked.name);
        }
        let so_far = (place.ranks, index as u64 + 1);
        result.sockets = sockets(spec, model, so_far, ends);
        result.failed = lacking(&result.sockets, &what);
        let operation = match (first, &spec.first, &result.failed) {
            (Some(first), Some(asked), None) => {
                Some(first.timed((&mut communicator, asked), valid, budget)?)
            }
            _ => None,
        };
        if let Some(operation) = &operation {
            firsts = Some(firsts.unwrap_or(Time::ZERO) + operation.1);
        }
        times.push(time);
        result.communicators.push(MadeCommunicator {
            name: kind.name.clone(),
            ranks: communicator.ranks(),
            count: kind.count,
            nodes: communicator.nodes(),
            roots: match making.acquaintance {
                Acquaintance::Roots(roots) => roots as u32,
                Acquaintance::Parent => 0,
            },
            making_us: time.micros(),
            parts: parts.into_iter().map(life_part).collect(),
            first: operation.map(|(first, _)| first),
            memory: buffers(&communicator, spec, index, env),
        });
        if result.failed.is_some() {
            return Ok(result);
        }
    }
    // Made at the same time, the one that takes longest hides the others; what they do once is a part of the first.
    let together = |times: &[Time]| match spec.grouped {
        true => times.iter().copied().max().unwrap_or(Time::ZERO),
        false => times.iter().copied().sum(),
    };
    result.making_us = together(&times).micros();
    result.first_us = firsts.map(Time::micros);
    let destroy = model.destroy.value.times(valid.kinds.len() as u64);
    result.rebuild_us = (destroy + together(&again) + firsts.unwrap_or(Time::ZERO)).micros();
    Ok(result)
}

fn life_part((part, time, why): (super::life::Part, Time, String)) -> LifePart {
    LifePart {
        part: part.name().to_owned(),
        time_us: time.micros(),
        why,
    }
}

/// What a communicator's buffers take; one that is split off and shares has those of its parent.
fn buffers(
    communicator: &Communicator<'_>,
    spec: &CommunicatorSpec,
    index: usize,
    env: &Env,
) -> u64 {
    if spec.split && env.split_share && index > 0 {
        return 0;
    }
    let traffic = match spec.first.as_ref().map(|first| first.name) {
        Some(Collective::AllToAll | Collective::AllToAllV) => Traffic::AllToAll,
        Some(name) if name.is_point_to_point() => Traffic::Neighbours,
        Some(_) => Traffic::Collectives,
        None if env.runtime_connect => return 0,
        None => Traffic::Collectives,
    };
    communicator.buffers(traffic).get()
}

/// Setting so many ends up, one after the other.
fn connecting(ends: Connections, model: &BootstrapModel) -> Time {
    model.connect_local.value.times(ends.local) + model.connect_network.value.times(ends.network)
}

/// What is connected before the first operation if nothing is left to it: rings, and trees if there are several hosts.
fn rings(communicator: &mut Communicator<'_>) -> Result<Connections, ScenarioError> {
    use fabricsim_nccl::Algorithm::{Ring, Tree};
    // Of any size that uses all channels.
    const LARGE: u64 = 1 << 30;
    let mut all = Connections::default();
    for algorithm in [Ring, Tree] {
        let forced = Forced {
            algorithm: Some(algorithm),
            protocol: None,
        };
        // An algorithm that the variables leave out is connected, too, but has no plan.
        if let Ok(planned) = communicator.plan(Collective::AllReduce, LARGE, forced) {
            let ends = communicator.connections(&planned);
            all.local += ends.local;
            all.network += ends.network;
            all.of_node += ends.of_node;
        }
    }
    Ok(all)
}

/// An operation that connects what it needs.
struct First {
    collective: Collective,
    planned: Option<Planned>,
    /// What it has to connect; of a plan that is made later this alone is known.
    ends: Connections,
    /// All that is connected then.
    all: Connections,
}

fn first(
    communicator: &mut Communicator<'_>,
    asked: &FirstSpec,
    eager: Connections,
) -> Result<First, ScenarioError> {
    let collective = asked.name;
    let nothing = communicator.ranks() < 2
        || collective.actual_bytes(asked.size.get(), communicator.ranks()) == 0;
    if nothing {
        return Ok(First {
            collective,
            planned: None,
            ends: Connections::default(),
            all: eager,
        });
    }
    // Where every rank sends to every other one, ports are counted before anything that large is planned.
    if matches!(collective, Collective::AllToAll | Collective::AllToAllV) {
        let ends = communicator.connections_of_all_to_all();
        return Ok(First {
            collective,
            planned: None,
            ends,
            all: sum(eager, ends),
        });
    }
    let planned = communicator.plan(collective, asked.size.get(), Forced::default())?;
    let ends = communicator.connections(&planned);
    let made = eager != Connections::default() && !collective.is_point_to_point();
    Ok(First {
        collective,
        planned: Some(planned),
        ends: if made { Connections::default() } else { ends },
        all: if made { eager } else { sum(eager, ends) },
    })
}

fn sum(a: Connections, b: Connections) -> Connections {
    Connections {
        local: a.local + b.local,
        network: a.network + b.network,
        of_node: a.of_node + b.of_node,
    }
}

impl First {
    /// What it takes with connecting.
    fn timed(
        self,
        (communicator, asked): (&mut Communicator<'_>, &FirstSpec),
        valid: &ValidCommunicator,
        budget: &Budget,
    ) -> Result<(FirstOperation, Time), ScenarioError> {
        let connecting = connecting(self.ends, bootstrap());
        let mut operation = FirstOperation {
            collective: self.collective.name().to_owned(),
            bytes: 0,
            algo: "-".to_owned(),
            local_ends: self.ends.local,
            network_ends: self.ends.network,
            connecting_us: connecting.micros(),
            operation_us: 0.0,
        };
        let planned = match self.planned {
            Some(planned) => planned,
            None if self.ends == Connections::default() => return Ok((operation, connecting)),
            None => communicator.plan(self.collective, asked.size.get(), Forced::default())?,
        };
        let time = alone(&valid.topology, (self.collective, &planned), budget)?;
        operation.bytes = planned.bytes;
        operation.algo = format!("{} {}", planned.algorithm.name(), planned.protocol.name());
        operation.operation_us = time.micros();
        Ok((operation, connecting + time))
    }
}
