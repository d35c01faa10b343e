//! How much of a machine a job is charged: its share of every part, or the whole units that have to be
//! powered for it.
//!
//! A part of a server serves the GPUs of the innermost place around it that has any: a NIC those of its
//! tray, an NVLink switch those of its rack. A switch of the network serves the ports below it, and a
//! cable is its lower end's. Jobs inside a server, or on GPUs that NVLink joins, use none of the
//! network; others use the switches over which their ports reach each other.

use super::bill::Bill;
use super::graph::{DeviceId, DeviceKind, Fabric, LinkId, NodeId, Topology};
use super::hardware::LinkFamily;
use std::collections::{BTreeMap, BTreeSet};

/// What a job is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Its GPUs, and of what they share with others their part: GPUs that take no part are another's.
    Share,
    /// Its nodes as a whole with GPUs that take no part, and every switch that it could use.
    Whole,
}

/// The GPUs of a job.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'a> {
    /// Those that take part.
    pub gpus: &'a [DeviceId],
    /// Whether NVLink joins GPUs of several nodes, as NCCL does unless `NCCL_MNNVL_ENABLE` is 0.
    pub nvlink_between_nodes: bool,
}

/// How much of each device is charged, 0 to 1.
pub(super) struct Weights {
    of: Vec<f64>,
    /// By place: of what is sold as a whole.
    places: Vec<f64>,
    /// By device: how far up in the network it stands; -1 outside.
    tiers: Vec<i16>,
    basis: Basis,
}

impl Topology {
    /// The parts that a job is charged, in parts of one where it shares them.
    ///
    /// # Panics
    /// If a GPU is of another topology.
    #[must_use]
    pub fn bill_of(&self, taken: Taken<'_>, basis: Basis) -> Bill<'_> {
        self.bill_by(Some(&Weights::new(self, taken, basis)))
    }

    /// Whether GPUs are in one node, or reach each other over NVLink alone.
    fn are_inside(&self, taken: Taken<'_>) -> bool {
        let Some((&first, others)) = taken.gpus.split_first() else {
            return true;
        };
        let node = self.node_of(first);
        if others.iter().all(|&gpu| self.node_of(gpu) == node) {
            return true;
        }
        taken.nvlink_between_nodes && {
            let joined = self.joined_by_nvlink(first);
            others.iter().all(|gpu| joined.contains(gpu))
        }
    }

    /// The devices that a GPU reaches over NVLink alone, itself included.
    #[must_use]
    pub fn joined_by_nvlink(&self, gpu: DeviceId) -> BTreeSet<DeviceId> {
        let mut known = BTreeSet::from([gpu]);
        let mut open = vec![gpu];
        while let Some(device) = open.pop() {
            for (link, to) in self.links_out_of(device) {
                if self.family(link) == LinkFamily::Nvlink && known.insert(to) {
                    open.push(to);
                }
            }
        }
        known
    }
}

impl Weights {
    fn new(topology: &Topology, taken: Taken<'_>, basis: Basis) -> Self {
        let servers = Servers::new(topology, taken.gpus);
        let of = topology.devices().map(|(id, device)| match device.kind {
            DeviceKind::Switch => 0.0,
            DeviceKind::Gpu if basis == Basis::Share => servers.taken(id),
            _ => servers.part(device.place as usize, basis),
        });
        let mut weights = Weights {
            of: of.collect(),
            places: (0..topology.places.len())
                .map(|place| servers.part(place, basis))
                .collect(),
            tiers: vec![-1; topology.device_count()],
            basis,
        };
        for fabric in &topology.fabrics {
            for (switch, &tier) in fabric.switches.iter().zip(&fabric.tiers) {
                weights.tiers[switch.index()] = i16::from(tier);
            }
        }
        if !topology.are_inside(taken) {
            for fabric in &topology.fabrics {
                weights.charge(topology, fabric);
            }
        }
        weights
    }

    /// How much of a device is charged.
    pub(super) fn device(&self, id: DeviceId) -> f64 {
        self.of[id.index()]
    }

    /// How much of what is sold as a whole.
    pub(super) fn place(&self, place: usize) -> f64 {
        self.places[place]
    }

    /// How much of a cable: as much as of its lower end; between equals the mean, or nothing of a whole
    /// one unless both are powered.
    pub(super) fn cable(&self, (from, to): (DeviceId, DeviceId)) -> f64 {
        let tier = |end: DeviceId| self.tiers[end.index()];
        let (low, high) = match tier(from) <= tier(to) {
            true => (from, to),
            false => (to, from),
        };
        let (below, above) = (self.device(low), self.device(high));
        match (tier(low) == tier(high), self.basis) {
            (true, Basis::Share) => (below + above) / 2.0,
            (true, Basis::Whole) => below.min(above),
            (false, _) if above > 0.0 => below,
            (false, _) => 0.0,
        }
    }

    /// Charges the switches of a fabric, those nearest to the ports first.
    fn charge(&mut self, topology: &Topology, fabric: &Fabric) {
        let reached = self.reached(topology, fabric);
        let mut order: Vec<DeviceId> = reached.into_iter().collect();
        order.sort_by_key(|switch| (self.tiers[switch.index()], *switch));
        for switch in order {
            self.of[switch.index()] = match self.basis {
                Basis::Whole => 1.0,
                Basis::Share => self.share(topology, fabric, switch),
            };
        }
    }

    /// The part of a switch's ports that the job's share of what is below it takes.
    fn share(&self, topology: &Topology, fabric: &Fabric, switch: DeviceId) -> f64 {
        let own = self.tiers[switch.index()];
        let (mut taken, mut nics, mut lower) = (0.0, 0.0, 0.0);
        for (link, to) in topology.links_out_of(switch) {
            let lanes = f64::from(topology.link(link).lanes);
            let tier = self.tiers[to.index()];
            if tier >= own {
                continue;
            }
            taken += lanes * self.device(to);
            match tier {
                -1 => nics += lanes,
                _ => lower += lanes,
            }
        }
        let built = match own {
            0 => f64::from(fabric.leaf_ports),
            _ => 0.0,
        };
        let ports = built.max(nics) + lower;
        if ports > 0.0 { taken / ports } else { 0.0 }
    }

    /// The switches over which the job's ports reach each other: those that they are plugged into and,
    /// tier by tier, those above, until all are joined; in a fabric of groups all of their groups, for
    /// traffic takes detours there.
    fn reached(&self, topology: &Topology, fabric: &Fabric) -> BTreeSet<DeviceId> {
        let ports = fabric.ports.iter().filter(|port| self.device(**port) > 0.0);
        let neighbours = |device: DeviceId| {
            let links = topology.links_out_of(device);
            links.filter(|&(_, to)| self.tiers[to.index()] >= 0)
        };
        let mut reached: BTreeSet<DeviceId> = ports
            .flat_map(|&port| neighbours(port).map(|(_, to)| to))
            .collect();
        if !fabric.groups.is_empty() {
            let group: BTreeMap<DeviceId, u32> = fabric
                .switches
                .iter()
                .copied()
                .zip(fabric.groups.iter().copied())
                .collect();
            let groups: BTreeSet<u32> = reached.iter().map(|switch| group[switch]).collect();
            let all = group
                .into_iter()
                .filter(|(_, group)| groups.contains(group));
            return all.map(|(switch, _)| switch).collect();
        }
        let higher = |(from, (_, to)): (DeviceId, (LinkId, DeviceId))| {
            (self.tiers[to.index()] > self.tiers[from.index()]).then_some(to)
        };
        while !is_joined(&reached, neighbours) {
            let above: Vec<DeviceId> = reached
                .iter()
                .flat_map(|&from| neighbours(from).map(move |next| (from, next)))
                .filter_map(higher)
                .collect();
            let before = reached.len();
            reached.extend(above);
            if reached.len() == before {
                break;
            }
        }
        reached
    }
}

/// Whether switches reach each other over cables between them.
fn is_joined<I: Iterator<Item = (LinkId, DeviceId)>>(
    switches: &BTreeSet<DeviceId>,
    neighbours: impl Fn(DeviceId) -> I,
) -> bool {
    let Some(&first) = switches.first() else {
        return true;
    };
    let mut known = BTreeSet::from([first]);
    let mut open = vec![first];
    while let Some(switch) = open.pop() {
        for (_, to) in neighbours(switch) {
            if switches.contains(&to) && known.insert(to) {
                open.push(to);
            }
        }
    }
    known.len() == switches.len()
}

/// How many GPUs each place has, and how many of them take part.
struct Servers {
    /// By place: the innermost one around it, or itself, that has GPUs.
    around: Vec<usize>,
    /// By place, with those that are not in this machine.
    all: Vec<u32>,
    taken: Vec<u32>,
    gpus: BTreeSet<DeviceId>,
    /// By place: its node.
    node: Vec<Option<NodeId>>,
    nodes: BTreeSet<NodeId>,
}

impl Servers {
    fn new(topology: &Topology, gpus: &[DeviceId]) -> Self {
        let places = &topology.places;
        let names: BTreeMap<&str, usize> = places
            .iter()
            .enumerate()
            .map(|(index, place)| (place.name.as_str(), index))
            .collect();
        let outer = |place: usize| {
            let name = places[place].name.as_str();
            if name.is_empty() {
                return None;
            }
            let outer = name.rsplit_once('/').map_or("", |(outer, _)| outer);
            names.get(outer).copied()
        };
        let gpus: BTreeSet<DeviceId> = gpus.iter().copied().collect();
        // A rack of which the machine has a few trays alone serves all that it was built for.
        let mut all: Vec<u32> = places.iter().map(|place| place.absent_gpus).collect();
        let mut taken = vec![0; places.len()];
        for gpu in topology.gpus() {
            let mut place = Some(topology.device(gpu).place as usize);
            while let Some(at) = place {
                all[at] += 1;
                taken[at] += u32::from(gpus.contains(&gpu));
                place = outer(at);
            }
        }
        let around = (0..places.len()).map(|place| {
            let mut at = place;
            while all[at] == 0
                && let Some(next) = outer(at)
            {
                at = next;
            }
            at
        });
        Servers {
            around: around.collect(),
            all,
            taken,
            node: places.iter().map(|place| place.node).collect(),
            nodes: gpus
                .iter()
                .filter_map(|&gpu| topology.node_of(gpu))
                .collect(),
            gpus,
        }
    }

    /// Whether a GPU takes part.
    fn taken(&self, gpu: DeviceId) -> f64 {
        f64::from(u8::from(self.gpus.contains(&gpu)))
    }

    /// How much is charged of what stands in a place.
    fn part(&self, place: usize, basis: Basis) -> f64 {
        let around = self.around[place];
        match basis {
            Basis::Share => f64::from(self.taken[around]) / f64::from(self.all[around].max(1)),
            Basis::Whole => {
                let used = match self.node[place] {
                    Some(node) => self.nodes.contains(&node),
                    None => self.taken[around] > 0,
                };
                f64::from(u8::from(used))
            }
        }
    }
}
