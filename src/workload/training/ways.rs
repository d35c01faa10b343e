//! The ways of a rank's bytes that are outside of communicators: between its GPU and its host's memory, and between
//! that and storage. And how fast its host updates states.
//!
//! Ranks of a node share its links, so that none of them stands for another one; nodes that have the same ranks in
//! the same places may be alike.

use super::data_loader::DataLoaderSpec;
use super::offload::{CpuAdam, OffloadDevice, OffloadSpec};
use super::resolve::{Training, TrainingFault};
use crate::model::RankMap;
use fabricsim_plan::job::{TransferRoute, TransferRouteId};
use fabricsim_topology::hardware::CpuVendor;
use fabricsim_topology::offload::state_offload;
use fabricsim_topology::{
    DeviceId, DeviceKind, DeviceModel, Hop, LinkFamily, LinkId, NodeId, Route, RouteError, Router,
    Share, Topology, select, serving,
};
use fabricsim_units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a rank has beside its GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostSide {
    /// To the host's memory, and from there.
    pub(super) out: TransferRouteId,
    pub(super) into: TransferRouteId,
    /// From the host's memory to drives, and back.
    pub(super) drives: Option<(TransferRouteId, TransferRouteId)>,
    /// Of batches, if it reads them.
    pub(super) loader: Option<LoaderWay>,
    /// Picoseconds that the rank's part of the host takes for a byte of its memory, as Adam reads and writes it.
    pub(super) byte: f64,
}

/// The way of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoaderWay {
    /// From storage.
    pub(super) read: TransferRouteId,
    /// From the host's memory on, if it goes through that.
    pub(super) into: Option<TransferRouteId>,
}

/// What ranks of a node are told apart by: their stage, and whether and how fast they read batches.
type Beside = (u32, Option<Option<u64>>);

/// Finds the ways of ranks.
pub(super) struct Ways<'t> {
    topology: &'t Topology,
    gpus: &'t [DeviceId],
    router: Router<'t>,
    offload: Option<&'t OffloadSpec>,
    drives: Vec<DeviceId>,
    /// By rank that reads batches: its way, and bytes per second that it has of links outside of its node.
    batches: BTreeMap<u32, (Route, Option<u64>)>,
    gds: bool,
    /// By node: its ranks.
    ranks: BTreeMap<Option<NodeId>, Vec<u32>>,
    /// By node: its processors.
    hosts: BTreeMap<Option<NodeId>, Vec<DeviceId>>,
}

impl<'t> Ways<'t> {
    /// Those of a job that has any.
    ///
    /// # Errors
    /// Storage devices that the machine does not have.
    pub(super) fn new(
        training: &'t Training,
        (topology, gpus): (&'t Topology, &'t [DeviceId]),
        (seed, dead): (u64, &[LinkId]),
        places: &RankMap,
    ) -> Result<Option<Self>, TrainingFault> {
        let (offload, loader) = (training.outside(), training.spec.data_loader.as_ref());
        if offload.is_none() && loader.is_none() {
            return Ok(None);
        }
        let drives = match offload.filter(|offload| offload.uses_drives()) {
            Some(offload) => drives(offload, topology)?,
            None => Vec::new(),
        };
        let mut router = Router::new(topology, seed);
        if !dead.is_empty() {
            router = router.avoiding(dead.iter().copied());
        }
        let mut ranks: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (rank, &gpu) in (0..).zip(gpus) {
            ranks.entry(topology.node_of(gpu)).or_default().push(rank);
        }
        if !drives.is_empty() {
            let of = |node: &Option<NodeId>| drives.iter().any(|&d| topology.node_of(d) == *node);
            if let Some(node) = ranks.keys().find(|node| !of(node)) {
                let node = node.and_then(|node| topology.nodes.get(node.0 as usize));
                return Err(TrainingFault {
                    path: "offload.devices".into(),
                    found: format!("no drive of {}", node.map_or("", |node| &node.name)),
                    expected: "drives of each node of the job".into(),
                });
            }
        }
        let mut hosts: BTreeMap<_, Vec<DeviceId>> = BTreeMap::new();
        for (id, device) in topology.devices() {
            if device.kind == DeviceKind::Cpu {
                hosts.entry(topology.node_of(id)).or_default().push(id);
            }
        }
        if offload.is_some_and(|offload| offload.cpu_adam == CpuAdam::Grace) {
            let used = ranks.keys().filter_map(|node| hosts.get(node)).flatten();
            let mut models = used.map(|&id| topology.device_model(id));
            let other = models.find_map(|model| match model {
                DeviceModel::Cpu(cpu) if cpu.vendor != CpuVendor::Arm => Some(&cpu.title),
                _ => None,
            });
            if let Some(title) = other {
                return Err(TrainingFault {
                    path: "offload.cpu_adam".into(),
                    found: format!("`grace` on {title}"),
                    expected: "`deepspeed` or `pytorch`, or a machine with Arm's processors".into(),
                });
            }
        }
        let batches = match loader {
            Some(loader) => {
                let readers = (0..gpus.len() as u32)
                    .filter(|&rank| places.coordinates(rank).is_some_and(Training::reads));
                batches(loader, (topology, gpus), &mut router, readers)?
            }
            None => BTreeMap::new(),
        };
        Ok(Some(Ways {
            topology,
            gpus,
            router,
            offload,
            drives,
            batches,
            gds: loader.is_some_and(|loader| loader.gds),
            ranks,
            hosts,
        }))
    }

    /// Nodes with their ranks.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Option<NodeId>, &[u32])> {
        let nodes = self.ranks.iter();
        nodes.map(|(&node, ranks)| (node, ranks.as_slice()))
    }

    /// The processors of a node.
    pub(super) fn hosts_of(&self, node: Option<NodeId>) -> &[DeviceId] {
        self.hosts.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The drives of a node that are used.
    pub(super) fn drives_of(&self, node: Option<NodeId>) -> Vec<DeviceId> {
        let own = |drive: &DeviceId| self.topology.node_of(*drive) == node;
        self.drives.iter().copied().filter(own).collect()
    }

    /// By rank: a number of its place among those of its node, equal only where nodes have the same ranks in the
    /// same places.
    pub(super) fn marks(&self, places: &RankMap) -> Vec<u32> {
        let mut marks = vec![0; self.gpus.len()];
        let mut known: FxHashMap<(Vec<Beside>, u32), u32> = FxHashMap::default();
        for ranks in self.ranks.values() {
            let beside = |rank: &u32| {
                let stage = places.coordinates(*rank).unwrap_or_default().pp;
                (stage, self.batches.get(rank).map(|(_, rate)| *rate))
            };
            let stages: Vec<Beside> = ranks.iter().map(beside).collect();
            for (place, &rank) in (0..).zip(ranks) {
                let next = known.len() as u32;
                marks[rank as usize] = *known.entry((stages.clone(), place)).or_insert(next);
            }
        }
        marks
    }

    /// Those of a rank; their routes come behind those that are there.
    ///
    /// # Errors
    /// No links lead there.
    pub(super) fn of(
        &self,
        rank: u32,
        routes: &mut Vec<TransferRoute>,
    ) -> Result<HostSide, RouteError> {
        let gpu = self.gpus[rank as usize];
        let host = self.router.cpu_of(gpu).unwrap_or(gpu);
        let out = self.copy(gpu, host)?;
        let into = self.copy(host, gpu)?;
        let byte = self.byte(rank, (host, &into.route));
        let mut add = |route: TransferRoute| {
            routes.push(route);
            TransferRouteId(routes.len() as u32 - 1)
        };
        let (out, into) = (add(out), add(into));
        let drives = match self.drives.is_empty() {
            true => None,
            false => {
                let (write, read) = self.storage(gpu, host)?;
                Some((add(write), add(read)))
            }
        };
        let loader = self.batches.get(&rank).map(|(route, rate)| LoaderWay {
            read: add(TransferRoute {
                route: route.clone(),
                rate: rate.map(Bandwidth::from_bytes_per_sec),
                message: Time::ZERO,
            }),
            into: (!self.gds).then_some(into),
        });
        Ok(HostSide {
            out,
            into,
            drives,
            loader,
            byte,
        })
    }

    /// Between a GPU and its host's memory.
    fn copy(&self, from: DeviceId, to: DeviceId) -> Result<TransferRoute, RouteError> {
        let route = self.router.local(from, to)?;
        let figures = &serving().offload;
        let mut share = figures.rate_share.value;
        let pageable = self.offload.is_some_and(|offload| !offload.pin_memory);
        // Over C2C a GPU reads the host's memory as its own, pinned or not.
        if pageable && !self.is_c2c(&route) {
            share *= state_offload().pageable_share.value;
        }
        let rate = self.narrowest(&route);
        Ok(TransferRoute {
            rate: rate.map(|rate| Bandwidth::from_bytes_per_sec((rate * share) as u64)),
            route,
            message: figures.copy.value,
        })
    }

    /// Between the host's memory and all drives of its node, which are written and read as one.
    fn storage(
        &self,
        gpu: DeviceId,
        host: DeviceId,
    ) -> Result<(TransferRoute, TransferRoute), RouteError> {
        let node = self.topology.node_of(gpu);
        let drives = self.drives_of(node);
        let all = |way: &dyn Fn(DeviceId) -> Result<Route, RouteError>| {
            let routes = drives.iter().map(|&drive| {
                let model = self.topology.storage_model(drive);
                let mut route = way(drive)?;
                route.latency += model.map_or(Time::ZERO, |model| model.latency.value);
                Ok(route)
            });
            let routes: Vec<Route> = routes.collect::<Result<_, RouteError>>()?;
            Ok(TransferRoute {
                route: spread(&routes),
                rate: None,
                message: Time::ZERO,
            })
        };
        let write = all(&|drive| self.router.local(host, drive))?;
        let read = all(&|drive| self.router.local(drive, host))?;
        Ok((write, read))
    }

    fn is_c2c(&self, route: &Route) -> bool {
        let c2c = |hop: &Hop| self.topology.family(hop.link) == LinkFamily::C2c;
        route.hops.iter().any(c2c)
    }

    /// The processor that a rank's GPU is joined to by C2C.
    fn partner(&self, rank: u32) -> Option<DeviceId> {
        let gpu = self.gpus[rank as usize];
        let host = self.router.cpu_of(gpu)?;
        let route = self.router.local(gpu, host).ok()?;
        self.is_c2c(&route).then_some(host)
    }

    /// Whether a rank's copies go through buffers that are pinned.
    pub(super) fn staged(&self, rank: u32) -> bool {
        self.partner(rank).is_none()
    }

    /// The memory of a rank's superchip, if it is on one: of the processor and its GPUs.
    pub(super) fn superchip(&self, rank: u32) -> Option<Bytes> {
        let host = self.partner(rank)?;
        let DeviceModel::Cpu(cpu) = self.topology.device_model(host) else {
            return None;
        };
        let node = self.topology.node_of(host)?;
        let gpus = &self.topology.nodes.get(node.0 as usize)?.gpus;
        let own = gpus
            .iter()
            .filter(|&&gpu| self.router.cpu_of(gpu) == Some(host));
        let hbm = own.filter_map(|&gpu| self.topology.gpu_model(gpu));
        let hbm: u64 = hbm.map(|model| model.memory.value.get()).sum();
        Some(Bytes::new(cpu.memory.as_ref()?.value.get() + hbm))
    }

    fn narrowest(&self, route: &Route) -> Option<f64> {
        let hops = route.hops.iter();
        let rates = hops.map(|hop| {
            let rate = self.topology.rate(hop.link).bytes_per_sec() as f64;
            rate / (hop.share.as_f64() * route.load.as_f64())
        });
        rates.reduce(f64::min)
    }

    /// Picoseconds of a byte: ranks of a node share the memory of its processors, those of a superchip that of
    /// their own one.
    fn byte(&self, rank: u32, (host, way): (DeviceId, &Route)) -> f64 {
        let topology = self.topology;
        let node = topology.node_of(self.gpus[rank as usize]);
        let ranks = self.ranks.get(&node).map_or(&[][..], Vec::as_slice);
        let own = [host];
        let (hosts, sharing) = match self.is_c2c(way) {
            true => {
                let near =
                    |&&rank: &&u32| self.router.cpu_of(self.gpus[rank as usize]) == Some(host);
                (&own[..], ranks.iter().filter(near).count())
            }
            false => (
                self.hosts.get(&node).map_or(&own[..], Vec::as_slice),
                ranks.len(),
            ),
        };
        let bandwidth = hosts.iter().map(|&id| match topology.device_model(id) {
            DeviceModel::Cpu(model) => model.memory_bandwidth.value.bytes_per_sec() as f64,
            _ => 0.0,
        });
        let bandwidth: f64 = bandwidth.sum();
        let adam = self
            .offload
            .map_or_else(CpuAdam::default, |spec| spec.cpu_adam);
        let share = adam.share() / sharing.max(1) as f64;
        1e12 / (bandwidth * share).max(1.0)
    }
}

/// The ways of batches, by the rank that reads them: from all drives of its node at once, or from the devices
/// outside of nodes in turns. What ranks of several nodes share they share evenly, for all read at once.
fn batches(
    loader: &DataLoaderSpec,
    (topology, gpus): (&Topology, &[DeviceId]),
    router: &mut Router<'_>,
    readers: impl Iterator<Item = u32>,
) -> Result<BTreeMap<u32, (Route, Option<u64>)>, TrainingFault> {
    let devices = sources(loader, topology)?;
    let mut routes: BTreeMap<u32, Route> = BTreeMap::new();
    let mut shared: BTreeMap<LinkId, f64> = BTreeMap::new();
    let outside = |gpu: DeviceId, link: LinkId| {
        let (from, to) = topology.ends(link);
        let own = topology.node_of(gpu);
        topology.node_of(from) != own || topology.node_of(to) != own
    };
    for (turn, rank) in readers.enumerate() {
        let gpu = gpus[rank as usize];
        let node = topology.node_of(gpu);
        let near = devices.iter().copied();
        let mut near: Vec<DeviceId> = near.filter(|&d| topology.node_of(d) == node).collect();
        if near.is_empty() {
            near.push(devices[turn % devices.len()]);
        }
        let ways = near.into_iter().map(|device| {
            let mut route = router.from_storage((device, gpu), !loader.gds, u64::from(rank))?;
            let model = topology.storage_model(device);
            route.latency += model.map_or(Time::ZERO, |model| model.latency.value);
            Ok(route)
        });
        let ways: Result<Vec<Route>, RouteError> = ways.collect();
        let ways = ways.map_err(|error| TrainingFault {
            path: "data_loader".into(),
            found: error.to_string(),
            expected: "storage that links lead to from all GPUs that read".into(),
        })?;
        let route = spread(&ways);
        for hop in route.hops.iter().filter(|hop| outside(gpu, hop.link)) {
            *shared.entry(hop.link).or_default() += hop.share.as_f64();
        }
        routes.insert(rank, route);
    }
    let with_rate = routes.into_iter().map(|(rank, route)| {
        let rates = route.hops.iter().filter_map(|hop| {
            let all = shared.get(&hop.link)?;
            Some(topology.rate(hop.link).bytes_per_sec() as f64 / all)
        });
        let rate = rates.reduce(f64::min).map(|rate| rate as u64);
        (rank, (route, rate))
    });
    Ok(with_rate.collect())
}

/// The devices that batches come from.
fn sources(loader: &DataLoaderSpec, topology: &Topology) -> Result<Vec<DeviceId>, TrainingFault> {
    let is_storage = |id: &DeviceId| topology.device(*id).kind == DeviceKind::Storage;
    if let Some(text) = &loader.devices {
        let path = "data_loader.devices";
        let found = select::devices(topology, text, path).map_err(|fault| TrainingFault {
            path: fault.path,
            found: fault.found,
            expected: fault.expected,
        })?;
        if let Some(&other) = found.iter().find(|id| !is_storage(id)) {
            return Err(TrainingFault {
                path: path.into(),
                found: topology.device_name(other),
                expected: "storage devices".into(),
            });
        }
        return Ok(found);
    }
    let all = topology.devices().map(|(id, _)| id).filter(is_storage);
    let (drives, servers): (Vec<_>, Vec<_>) = all.partition(|&id| topology.node_of(id).is_some());
    let found = if servers.is_empty() { drives } else { servers };
    if found.is_empty() {
        return Err(TrainingFault {
            path: "data_loader".into(),
            found: format!("{}, which has no storage", topology.name),
            expected: "a machine with drives such as dgx-h100-nvme, or a topology file with a \
                       device of a storage model (`nvme-gen4`, `file-server-gen5`)"
                .into(),
        });
    }
    Ok(found)
}

/// Routes that each carry an equal part, as one.
fn spread(routes: &[Route]) -> Route {
    let parts = routes.len().max(1) as u64;
    let mut shares: BTreeMap<LinkId, Share> = BTreeMap::new();
    for hop in routes.iter().flat_map(|route| &route.hops) {
        let part = hop.share.part(parts);
        let sum = shares.get(&hop.link).map_or(Some(part), |s| s.plus(part));
        shares.insert(hop.link, sum.unwrap_or(Share::WHOLE));
    }
    Route {
        hops: shares
            .into_iter()
            .map(|(link, share)| Hop { link, share })
            .collect(),
        latency: routes.iter().map(|r| r.latency).max().unwrap_or_default(),
        load: Share::WHOLE,
    }
}

/// Drives of nodes: those that are asked for, or all.
fn drives(offload: &OffloadSpec, topology: &Topology) -> Result<Vec<DeviceId>, TrainingFault> {
    let is_drive = |id: &DeviceId| {
        topology.device(*id).kind == DeviceKind::Storage && topology.node_of(*id).is_some()
    };
    if let Some(text) = &offload.devices {
        let found = select::devices(topology, text, "offload.devices");
        let found = found.map_err(|fault| TrainingFault {
            path: fault.path,
            found: fault.found,
            expected: fault.expected,
        })?;
        if let Some(&other) = found.iter().find(|id| !is_drive(id)) {
            return Err(TrainingFault {
                path: "offload.devices".into(),
                found: topology.device_name(other),
                expected: "drives of nodes".into(),
            });
        }
        return Ok(found);
    }
    let all = topology.devices().map(|(id, _)| id).filter(is_drive);
    let all: Vec<DeviceId> = all.collect();
    if all.is_empty() {
        let places = [
            ("optimizer", offload.optimizer),
            ("gradients", offload.gradients()),
            ("parameters", offload.parameters),
        ];
        let first = places.iter().find(|(_, at)| *at == OffloadDevice::Nvme);
        let (field, _) = first.unwrap_or(&places[0]);
        return Err(TrainingFault {
            path: format!("offload.{field}"),
            found: format!("`nvme` on {}, which has no drives", topology.name),
            expected:
                "`cpu`, a machine with drives such as dgx-h100-nvme, or a topology file with \
                       devices of a storage model (`nvme-gen4`) linked to its PCIe switches or CPUs"
                    .into(),
        });
    }
    Ok(all)
}
