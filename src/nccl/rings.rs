//! Which rings a communicator uses: how many, in which order of ranks, by which interfaces.
//!
//! Restates what NCCL's graph search (2.30.7, `search.cc`) ends with on machines where
//! every GPU of a host reaches its index neighbours equally well: behind NVSwitches, or
//! over PCIe. Not covered: machines whose NVLinks form a mesh (DGX-1), where the search has
//! to look for rings link by link.

use super::error::NcclError;
use crate::collective::Rings;
use crate::topology::{DeviceId, DeviceKind, LinkFamily, Router, Topology};
use std::collections::BTreeMap;

/// GPUs that NCCL counts as one host: those of a node, and of all nodes in one NVLink domain.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Its ranks, in order; the position is the local rank.
    pub(super) ranks: Vec<u32>,
    /// The interface that each of them prefers.
    pub(super) nics: Vec<Option<DeviceId>>,
    /// Some node's name, for messages.
    pub(super) name: String,
}

/// The rings, and what NCCL's cost model has to know of them.
#[derive(Debug, Clone)]
pub(super) struct RingGraph {
    /// Channels before doubling, and GB/s of each inside and between hosts.
    pub(super) channels: u32,
    pub(super) intra: f64,
    pub(super) inter: f64,
    /// Rings over all ranks; as many channels as thread blocks.
    pub(super) rings: Rings,
    /// For each ring (modulo their number) and host: the interface that it enters and
    /// leaves by.
    pub(super) gates: Vec<Vec<Gate>>,
}

/// Where a ring enters and leaves a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) enter: Option<DeviceId>,
    pub(super) leave: Option<DeviceId>,
}

/// What the search may use, in GB/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Between neighbours of a host.
    pub(super) intra: f64,
    /// From a GPU to the network, by one interface.
    pub(super) inter: f64,
    /// Neighbours of a host are joined by NVLink.
    pub(super) nvlink: bool,
    pub(super) compute_capability: u32,
}

/// Speeds that the search tries, highest first: one host, several hosts.
fn speeds(compute_capability: u32) -> (&'static [f64], &'static [f64]) {
    match compute_capability {
        100.. => (
            &[90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.],
            &[
                96., 86., 80., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3.,
                2.4, 1.2, 0.24, 0.12,
            ],
        ),
        90.. => (
            &[60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.],
            &[
                48., 45., 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2, 0.24,
                0.12,
            ],
        ),
        _ => (
            &[40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.],
            &[
                48., 30., 28., 24., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3., 2.4, 1.2,
                0.24, 0.12,
            ],
        ),
    }
}

/// NCCL's MAXCHANNELS / 2: rings before doubling.
const MOST_RINGS: u32 = 32;

/// Groups GPUs (by rank) into hosts.
pub(super) fn hosts(topology: &Topology, router: &Router<'_>, gpus: &[DeviceId]) -> Vec<Host> {
    let domains = nvlink_domains(topology);
    let mut by_domain: BTreeMap<u32, usize> = BTreeMap::new();
    let mut hosts: Vec<Host> = Vec::new();
    for (rank, &gpu) in gpus.iter().enumerate() {
        let host = *by_domain.entry(domains[gpu.index()]).or_insert_with(|| {
            let node = topology
                .node_of(gpu)
                .map(|n| topology.nodes[n.index()].name.clone());
            hosts.push(Host {
                ranks: Vec::new(),
                nics: Vec::new(),
                name: node.unwrap_or_default(),
            });
            hosts.len() - 1
        });
        hosts[host].ranks.push(rank as u32);
    }
    if hosts.len() > 1 {
        for host in &mut hosts {
            let mut taken: Vec<DeviceId> = Vec::new();
            for &rank in &host.ranks {
                let gpu = gpus[rank as usize];
                let candidates = router.nic_candidates(gpu);
                // Two GPUs with the same two interfaces nearby take one each.
                let far =
                    |nic: DeviceId| router.local(gpu, nic).map_or(usize::MAX, |r| r.hops.len());
                let best = candidates.first().map(|&n| far(n));
                let free = candidates
                    .iter()
                    .copied()
                    .find(|&n| Some(far(n)) == best && !taken.contains(&n))
                    .or(candidates.first().copied());
                taken.extend(free);
                host.nics.push(free);
            }
        }
    }
    hosts
}

/// For each device the smallest device of its group: nodes, joined by NVLinks.
fn nvlink_domains(topology: &Topology) -> Vec<u32> {
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
    for (id, _) in topology.links() {
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

/// True if a device is of this kind; for messages and searches.
pub(super) fn is(topology: &Topology, device: DeviceId, kind: DeviceKind) -> bool {
    topology.device(device).kind == kind
}

/// The rings of `hosts`.
pub(super) fn search(hosts: &[Host], reach: Reach) -> Result<RingGraph, NcclError> {
    if hosts.len() == 1 {
        return Ok(one_host(&hosts[0], reach));
    }
    several_hosts(hosts, reach)
}

fn one_host(host: &Host, reach: Reach) -> RingGraph {
    let (intra_speeds, _) = speeds(reach.compute_capability);
    let mut best = (1u32, reach.intra.min(0.1));
    for &speed in intra_speeds.iter().filter(|&&s| s <= reach.intra) {
        let channels = ((reach.intra / speed) as u32).min(MOST_RINGS);
        if f64::from(channels) * speed > f64::from(best.0) * best.1 {
            best = (channels, speed);
        }
        // The search goes on to lower speeds only while they can still be worth it.
        let saturated = f64::from(best.0) * best.1 >= reach.intra;
        if best.0 == MOST_RINGS || saturated || speed / best.1 <= 0.49 {
            break;
        }
    }
    let (channels, intra) = duplicate(best.0, best.1, reach.compute_capability);
    let n = host.ranks.len() as u32;
    // Behind switches rings are runs of neighbours; each is used by two thread blocks.
    let order: Vec<u32> = (0..n).collect();
    let rings = Rings::new(vec![order], vec![0; (channels * 2) as usize])
        .expect("0..n is a permutation, and there is a rank");
    let gates = vec![vec![Gate {
        enter: None,
        leave: None,
    }]];
    RingGraph {
        channels,
        intra,
        inter: intra,
        rings,
        gates,
    }
}

/// After the search, fast channels are split in two (NCCL: `ncclTopoDupChannels`).
fn duplicate(channels: u32, speed: f64, compute_capability: u32) -> (u32, f64) {
    let slow = compute_capability >= 90 && speed < 50.0 && channels > 4;
    if speed >= 25.0 && !slow && channels * 2 <= MOST_RINGS {
        (channels * 2, speed / 2.0)
    } else {
        (channels, speed)
    }
}

fn several_hosts(hosts: &[Host], reach: Reach) -> Result<RingGraph, NcclError> {
    // Each ring needs an interface of its own on every host.
    let mut interfaces = u32::MAX;
    for host in hosts {
        let mut nics: Vec<DeviceId> = host.nics.iter().copied().flatten().collect();
        if nics.is_empty() {
            return Err(NcclError::NoNic {
                node: host.name.clone(),
            });
        }
        nics.sort_unstable();
        nics.dedup();
        interfaces = interfaces.min(nics.len() as u32);
    }
    let smallest = hosts.iter().map(|h| h.ranks.len()).min().unwrap_or(1) as f64;
    let (_, inter_speeds) = speeds(reach.compute_capability);
    let mut best = (1u32, inter_speeds[inter_speeds.len() - 1]);
    for &speed in inter_speeds
        .iter()
        .filter(|&&s| s <= reach.inter.min(reach.intra))
    {
        // A ring over g GPUs crosses g - 1 of their links, so the busiest link of g rings
        // carries (g - 1) / g of them.
        let inside = if smallest > 1.0 {
            (reach.intra / speed * smallest / (smallest - 1.0)) as u32
        } else {
            MOST_RINGS
        };
        let channels = interfaces.min(inside).clamp(1, MOST_RINGS);
        if f64::from(channels) * speed > f64::from(best.0) * best.1 {
            best = (channels, speed);
        }
        if channels == interfaces || speed / best.1 <= 0.49 {
            break;
        }
    }
    let (search_channels, search_speed) = best;
    let (channels, speed) = duplicate(search_channels, search_speed, reach.compute_capability);
    let mut orders = Vec::with_capacity(search_channels as usize);
    let mut gates = Vec::with_capacity(search_channels as usize);
    for channel in 0..search_channels {
        let mut order = Vec::new();
        let mut doors = Vec::with_capacity(hosts.len());
        for (index, host) in hosts.iter().enumerate() {
            let (run, gate) = through(host, index, channel, search_channels);
            order.extend(run);
            doors.push(gate);
        }
        orders.push(order);
        gates.push(doors);
    }
    let users = (0..channels * 2)
        .map(|c| (c % search_channels) as u16)
        .collect();
    let rings = Rings::new(orders, users).expect("each host's run visits each of its ranks once");
    Ok(RingGraph {
        channels,
        intra: speed,
        inter: speed,
        rings,
        gates,
    })
}

/// A channel's way through a host. Channels come in pairs: the second is the first
/// backwards, entering where the first leaves (NCCL's crossNic 2). Hosts of odd index
/// swap the two, so that every hop between hosts stays on one rail.
fn through(host: &Host, index: usize, channel: u32, channels: u32) -> (Vec<u32>, Gate) {
    let g = host.ranks.len();
    let paired = channel / 2 * 2 + 1 < channels;
    let role = if paired && index % 2 == 1 {
        channel ^ 1
    } else {
        channel
    };
    let start = (role / 2) as usize * g / channels.div_ceil(2) as usize;
    let mut run: Vec<usize> = (0..g).map(|i| (start + i) % g).collect();
    let (mut enter, mut leave) = (host.nics[run[0]], host.nics[run[g - 1]]);
    if paired && role % 2 == 1 {
        run.reverse();
        std::mem::swap(&mut enter, &mut leave);
    }
    (
        run.into_iter().map(|local| host.ranks[local]).collect(),
        Gate { enter, leave },
    )
}
