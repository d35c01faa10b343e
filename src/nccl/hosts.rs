//! What NCCL counts as hosts, and what it believes their links to carry.

use super::env::Env;
use super::error::NcclError;
use super::interfaces::{interfaces, names_of, socket_names_of};
use super::version::Version;
use fabricsim_topology::hardware::{CpuVendor, DeviceModel};
use fabricsim_topology::{
    DeviceId, DeviceKind, Hop, LinkFamily, LinkId, PathType, RouteError, Router, Topology,
};
use rustc_hash::FxHashMap;

/// GPUs that NCCL counts as one host: those of a node, and of all nodes in one NVLink domain.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Its ranks, in order; the position is the local rank.
    pub(super) ranks: Vec<u32>,
    /// The interface that each of them prefers.
    pub(super) nics: Vec<Option<DeviceId>>,
    /// By which interfaces channels enter and leave it.
    pub(super) doors: Vec<Door>,
    /// Some node's name, for messages.
    pub(super) name: String,
    /// The first host that looks the same from inside: itself, if no other does.
    pub(super) like: u32,
    /// How much larger its devices' numbers are than that one's.
    pub(super) shift: u32,
}

/// An interface, and the local rank that it is nearest to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) local: usize,
    pub(super) nic: DeviceId,
    /// Another local rank that is as near to it, if any.
    pub(super) mate: Option<usize>,
}

impl Host {
    /// The door of a channel.
    pub(super) fn door(&self, channel: u32) -> Option<Door> {
        let doors = self.doors.len().max(1);
        self.doors.get(channel as usize % doors).copied()
    }

    /// Interfaces that are a local rank's own.
    pub(super) fn own_nics(&self, local: usize) -> usize {
        self.doors.iter().filter(|d| d.local == local).count()
    }

    /// The interface by which a local rank sends and receives on a channel: one of its own after
    /// the other.
    pub(super) fn nic_of(&self, local: usize, channel: usize) -> Option<DeviceId> {
        let own = self.own_nics(local).max(1);
        let mut doors = self.doors.iter().filter(|d| d.local == local);
        let door = doors.nth(channel % own).map(|door| door.nic);
        door.or(self.nics[local])
    }

    /// A device of this host, by that of the host that it is like.
    pub(super) fn moved(&self, device: DeviceId) -> DeviceId {
        DeviceId(device.0.wrapping_add(self.shift))
    }

    /// Takes over the interfaces of the host that it is like.
    fn doors_of(&mut self, first: &Host) {
        let nics = first.nics.iter();
        self.nics = nics.map(|nic| nic.map(|nic| self.moved(nic))).collect();
        let doors = first.doors.iter().map(|door| Door {
            nic: self.moved(door.nic),
            ..*door
        });
        self.doors = doors.collect();
    }

    /// The local ranks with doors, each once.
    pub(super) fn owners(&self) -> Vec<usize> {
        let mut owners = Vec::new();
        for door in &self.doors {
            if !owners.contains(&door.local) {
                owners.push(door.local);
            }
        }
        owners
    }
}

/// What the search may use, in GB/s as NCCL counts them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Between neighbours of a host.
    pub(super) intra: f64,
    /// From any GPU to the network, by one interface.
    pub(super) inter: f64,
    /// From those to which an interface is near.
    pub(super) doors: f64,
    /// Neighbours of a host are joined by NVLink.
    pub(super) nvlink: bool,
    /// … through switches.
    pub(super) nvswitch: bool,
    /// Any two GPUs of a host have a link of their own, so that they can be passed in any order.
    pub(super) meshed: bool,
    pub(super) compute_capability: u32,
    /// Whose speeds are searched.
    pub(super) version: Version,
}

/// What NCCL 2.30 believes a link to carry (`topo.h`): NVLinks by GPU generation, PCIe by
/// generation and lanes, sockets by CPU, the network by its nominal speed.
pub(super) fn believed_rate(topology: &Topology, link: LinkId, compute_capability: u32) -> f64 {
    let raw = topology.raw_rate(link).gb_per_sec();
    let lanes = f64::from(topology.link(link).lanes.max(1));
    match topology.family(link) {
        LinkFamily::Nvlink => {
            lanes
                * match compute_capability {
                    100.. => 40.1,
                    90.. => 20.6,
                    86 => 12.0,
                    70.. => 20.0,
                    _ => 18.0,
                }
        }
        LinkFamily::Pcie => {
            // Raw GB/s of a lane, and what NCCL counts for it.
            let lane = raw / lanes;
            let generations = [
                (0.3, 0.1875),
                (0.6, 0.375),
                (1.2, 0.75),
                (2.4, 1.5),
                (4.8, 3.0),
            ];
            let known = generations.iter().find(|(most, _)| lane <= *most);
            lanes * known.map_or(6.0, |(_, counted)| *counted)
        }
        LinkFamily::Network => raw,
        LinkFamily::C2c => topology.rate(link).gb_per_sec(),
        LinkFamily::Socket => {
            let (cpu, _) = topology.ends(link);
            let fast = topology
                .links_from(cpu)
                .into_iter()
                .filter(|(l, _)| topology.family(*l) == LinkFamily::Pcie)
                .any(|(l, _)| {
                    topology.raw_rate(l).gb_per_sec() / f64::from(topology.link(l).lanes.max(1))
                        > 2.4
                });
            match topology.device_model(cpu) {
                DeviceModel::Cpu(m) if m.vendor == CpuVendor::Amd => 16.0,
                DeviceModel::Cpu(m) if m.vendor == CpuVendor::Intel && fast => 22.0,
                DeviceModel::Cpu(m) if m.vendor == CpuVendor::Intel => 10.0,
                _ => 6.0,
            }
        }
    }
}

/// Groups GPUs (by rank) into hosts.
pub(super) fn hosts(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    env: &Env,
) -> Vec<Host> {
    let domains = domains(topology, env.mnnvl);
    let mut by_domain: FxHashMap<u32, usize> = FxHashMap::default();
    let mut hosts: Vec<Host> = Vec::new();
    for (rank, &gpu) in gpus.iter().enumerate() {
        let host = *by_domain.entry(domains[gpu.index()]).or_insert_with(|| {
            let node = topology
                .node_of(gpu)
                .map(|n| topology.nodes[n.index()].name.clone());
            hosts.push(Host {
                ranks: Vec::new(),
                nics: Vec::new(),
                doors: Vec::new(),
                name: node.unwrap_or_default(),
                like: hosts.len() as u32,
                shift: 0,
            });
            hosts.len() - 1
        });
        hosts[host].ranks.push(rank as u32);
    }
    find_copies(router, gpus, env, &mut hosts);
    if hosts.len() > 1 {
        for index in 0..hosts.len() {
            let (before, host) = hosts.split_at_mut(index);
            match before.get(host[0].like as usize) {
                Some(first) => host[0].doors_of(first),
                None => choose_nics(topology, router, gpus, env, &mut host[0]),
            }
        }
    }
    hosts
}

/// Finds the hosts that look the same from inside: the same GPUs take part, of nodes that are
/// copies of each other.
fn find_copies(router: &Router<'_>, gpus: &[DeviceId], env: &Env, hosts: &mut [Host]) {
    // By name interfaces may differ.
    if env.nics.is_some() {
        return;
    }
    let mut known: FxHashMap<Vec<DeviceId>, u32> = FxHashMap::default();
    let mut first_gpus: Vec<DeviceId> = Vec::new();
    for index in 0..hosts.len() {
        let ranks = &hosts[index].ranks;
        let own = gpus[ranks[0] as usize];
        first_gpus.clear();
        first_gpus.extend(ranks.iter().map_while(|&rank| {
            let (_, there, _) = router.copied_peers(own, gpus[rank as usize])?;
            Some(there)
        }));
        if first_gpus.len() < ranks.len() {
            continue;
        }
        match known.get(&first_gpus) {
            Some(&first) => {
                let gpu = gpus[hosts[first as usize].ranks[0] as usize];
                hosts[index].like = first;
                hosts[index].shift = own.0.wrapping_sub(gpu.0);
            }
            None => {
                known.insert(first_gpus.clone(), index as u32);
            }
        }
    }
}

/// Hosts of which no earlier one is a copy.
pub(super) fn originals(hosts: &[Host]) -> impl Iterator<Item = &Host> {
    let own = |(index, host): &(usize, &Host)| host.like as usize == *index;
    hosts.iter().enumerate().filter(own).map(|(_, host)| host)
}

/// GB/s of an interface's cables.
pub(super) fn cables_rate(topology: &Topology, nic: DeviceId) -> f64 {
    let links = topology.rails(nic).iter();
    let links = links.flat_map(|&rail| topology.links_from(rail));
    links
        .map(|(link, _)| link)
        .filter(|&link| topology.family(link) == LinkFamily::Network)
        .map(|link| topology.raw_rate(link).gb_per_sec())
        .sum()
}

/// The usable interfaces of a GPU's node, as NCCL prefers them.
pub(super) fn usable_nics(
    topology: &Topology,
    router: &Router<'_>,
    gpu: DeviceId,
    env: &Env,
) -> Vec<(PathType, DeviceId)> {
    let nics = topology.node_of(gpu).map(|n| interfaces(topology, n));
    let nics = nics.unwrap_or_default();
    let allowed = |nic: DeviceId| {
        let Some(position) = nics.iter().position(|&n| n == nic) else {
            return false;
        };
        if env.nics.is_none() {
            return true;
        }
        let names = match env.over_sockets {
            true => socket_names_of(topology, nic, position),
            false => names_of(topology, nic, position),
        };
        env.allows_nic(&names.each_ref().map(String::as_str))
    };
    router
        .ranked_nics(gpu)
        .into_iter()
        .map(|(_, kind, nic)| (kind, nic))
        .filter(|&(_, nic)| allowed(nic))
        .collect()
}

fn choose_nics(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    env: &Env,
    host: &mut Host,
) {
    let near: Vec<_> = host
        .ranks
        .iter()
        .map(|&rank| usable_nics(topology, router, gpus[rank as usize], env))
        .collect();
    // Each interface is a door of one of the ranks that have none nearer: of that which has
    // fewest so far.
    let mut doors: Vec<Vec<DeviceId>> = vec![Vec::new(); near.len()];
    let nearest = |local: usize| near[local].first().map(|c: &(PathType, DeviceId)| c.0);
    let mut nics: Vec<DeviceId> = near.iter().flatten().map(|c| c.1).collect();
    nics.sort_unstable();
    nics.dedup();
    let kind = |local: usize, nic: DeviceId| near[local].iter().find(|c| c.1 == nic).map(|c| c.0);
    for nic in nics {
        let owner = (0..near.len())
            .filter(|&l| kind(l, nic).is_some() && kind(l, nic) == nearest(l))
            .min_by_key(|&l| (kind(l, nic), doors[l].len(), l));
        if let Some(owner) = owner {
            doors[owner].push(nic);
        }
    }
    for (local, own) in doors.iter().enumerate() {
        let preferred = own.first().copied();
        host.nics
            .push(preferred.or(near[local].first().map(|c| c.1)));
    }
    // One interface of each rank after the other: neighbouring channels are of different ranks.
    let most = doors.iter().map(Vec::len).max().unwrap_or(0);
    for turn in 0..most {
        for (local, own) in doors.iter().enumerate() {
            let Some(&nic) = own.get(turn) else { continue };
            let own_kind = kind(local, nic);
            host.doors.push(Door {
                local,
                nic,
                mate: (0..near.len())
                    .filter(|&other| other != local)
                    .find(|&other| kind(other, nic).is_some_and(|k| Some(k) <= own_kind)),
            });
        }
    }
}

/// For each device the smallest device of its group: nodes, and those joined by NVLinks if
/// `across` nodes too.
fn domains(topology: &Topology, across: bool) -> Vec<u32> {
    let mut parent: Vec<u32> = (0..topology.device_count() as u32).collect();
    fn root(parent: &mut [u32], mut at: u32) -> u32 {
        while parent[at as usize] != at {
            parent[at as usize] = parent[parent[at as usize] as usize];
            at = parent[at as usize];
        }
        at
    }
    let mut join = |a: DeviceId, b: DeviceId| {
        let (a, b) = (root(&mut parent, a.0), root(&mut parent, b.0));
        parent[a.max(b) as usize] = a.min(b);
    };
    for (id, _) in topology.links().filter(|_| across) {
        if topology.family(id) == LinkFamily::Nvlink {
            let (from, to) = topology.ends(id);
            join(from, to);
        }
    }
    for node in &topology.nodes {
        for pair in node.gpus.windows(2) {
            join(pair[0], pair[1]);
        }
    }
    (0..topology.device_count() as u32)
        .map(|d| root(&mut parent, d))
        .collect()
}

/// True if a device is of this kind.
fn is(topology: &Topology, device: DeviceId, kind: DeviceKind) -> bool {
    topology.device(device).kind == kind
}

/// What NCCL believes a path to carry: as much as its narrowest hop. A transfer that spreads
/// over links of different width is as fast as all of them.
pub(super) fn believed_path(topology: &Topology, hops: &[Hop], compute_capability: u32) -> f64 {
    let rates = hops.iter().map(|h| {
        let rate = believed_rate(topology, h.link, compute_capability);
        rate * f64::from(h.share.den) / f64::from(h.share.num)
    });
    rates.fold(f64::INFINITY, f64::min)
}

/// True if all hops are NVLink.
pub(super) fn by_nvlink(topology: &Topology, hops: &[Hop]) -> bool {
    hops.iter()
        .all(|h| topology.family(h.link) == LinkFamily::Nvlink)
}

/// What the ring search may count on.
pub(super) fn reach(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    hosts: &[Host],
    (compute_capability, version): (u32, Version),
) -> Result<Reach, NcclError> {
    let believed = |link| believed_rate(topology, link, compute_capability);
    let (mut intra, mut nvlink, mut nvswitch) = (f64::INFINITY, true, true);
    for host in originals(hosts) {
        for (i, &rank) in host.ranks.iter().enumerate() {
            let (from, to) = (
                gpus[rank as usize],
                gpus[host.ranks[(i + 1) % host.ranks.len()] as usize],
            );
            if from == to {
                continue;
            }
            let hops = match router.peer(from, to) {
                Ok(route) => route.hops,
                Err(RouteError::NoPeerAccess { .. }) => {
                    let cpu = router.cpu_of(to).unwrap_or(to);
                    let mut hops = router.local(from, cpu)?.hops;
                    hops.extend(router.local(cpu, to)?.hops);
                    hops
                }
                Err(error) => return Err(error.into()),
            };
            nvlink &= by_nvlink(topology, &hops);
            nvswitch &= hops
                .iter()
                .any(|h| is(topology, topology.ends(h.link).1, DeviceKind::NvSwitch));
            intra = intra.min(believed_path(topology, &hops, compute_capability));
        }
    }
    let way_out = |rank: u32, nic| -> Result<f64, RouteError> {
        let local = router.local(gpus[rank as usize], nic)?.hops;
        let rails = topology.rails(nic).len().max(1) as f64;
        // Each rail has a link of its own to what it is attached to.
        let of_hop = |hop: &Hop| {
            let own = topology.ends(hop.link).1 == nic;
            believed(hop.link) * if own { rails } else { 1.0 }
        };
        Ok(local
            .iter()
            .map(of_hop)
            .fold(cables_rate(topology, nic), f64::min))
    };
    let (mut inter, mut doors) = (f64::INFINITY, f64::INFINITY);
    for host in originals(hosts).filter(|_| hosts.len() > 1) {
        for (&rank, nic) in host.ranks.iter().zip(&host.nics) {
            let Some(nic) = *nic else { continue };
            inter = inter.min(way_out(rank, nic)?);
        }
        for door in &host.doors {
            doors = doors.min(way_out(host.ranks[door.local], door.nic)?);
        }
    }
    // One GPU per host: nothing happens inside.
    let intra = if intra.is_finite() { intra } else { inter };
    Ok(Reach {
        intra,
        inter,
        doors,
        nvlink,
        nvswitch,
        meshed: nvlink
            && !nvswitch
            && originals(hosts).all(|host| linked(topology, router, gpus, host)),
        compute_capability,
        version,
    })
}

/// Any two GPUs of the host are joined by NVLink without anything between them.
fn linked(topology: &Topology, router: &Router<'_>, gpus: &[DeviceId], host: &Host) -> bool {
    let gpu = |&rank: &u32| gpus[rank as usize];
    let direct = |from, to| {
        let route = router.peer(from, to);
        route.is_ok_and(|r| by_nvlink(topology, &r.hops) && joins(topology, &r.hops, from, to))
    };
    host.ranks.iter().enumerate().all(|(i, from)| {
        let others = &host.ranks[i + 1..];
        others.iter().all(|to| direct(gpu(from), gpu(to)))
    })
}

/// Each of the links goes from the one to the other.
fn joins(topology: &Topology, hops: &[Hop], from: DeviceId, to: DeviceId) -> bool {
    hops.iter().all(|h| topology.ends(h.link) == (from, to))
}

/// The worst type of path between a rank and its interface.
pub(super) fn worst_nic_path(
    topology: &Topology,
    router: &Router<'_>,
    gpus: &[DeviceId],
    hosts: &[Host],
) -> PathType {
    let mut worst = PathType::Loc;
    for host in originals(hosts) {
        for (&rank, nic) in host.ranks.iter().zip(&host.nics) {
            let gpu = gpus[rank as usize];
            if let Some(nic) = *nic {
                worst = worst.max(nic_path(topology, router, gpu, nic));
            }
        }
    }
    worst
}

/// The type of path between a GPU and an interface; a CPU that the GPU reaches by C2C is no
/// obstacle.
pub(super) fn nic_path(
    topology: &Topology,
    router: &Router<'_>,
    gpu: DeviceId,
    nic: DeviceId,
) -> PathType {
    let kind = router
        .ranked_nics(gpu)
        .into_iter()
        .find(|c| c.2 == nic)
        .map_or(PathType::Dis, |c| c.1);
    let coherent = router.local(gpu, nic).is_ok_and(|route| {
        let mut links = route.hops.iter().map(|h| h.link);
        links.any(|l| topology.family(l) == LinkFamily::C2c)
    });
    if kind == PathType::Phb && coherent {
        PathType::P2c
    } else {
        kind
    }
}
