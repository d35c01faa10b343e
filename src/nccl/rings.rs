//! Which rings a communicator uses: how many, in which order of ranks, by which interfaces.
//!
//! Restates what NCCL's graph search (2.30.7, `search.cc`) ends with on machines where
//! every GPU of a host reaches its index neighbours equally well: behind NVSwitches, or
//! over PCIe. Where NVLinks form a mesh (DGX-1), [`mesh`] looks for rings link by link.

use super::error::NcclError;
use super::gates::{CrossNic, Gate, leaves_apart, pairs, through};
use super::graph_file::{GraphFile, GraphGpu};
use super::hosts::{Door, Host, Reach, originals};
use super::interfaces::interfaces;
use super::mesh;
use super::version::Version;
use fabricsim_collective::Rings;
use fabricsim_topology::{DeviceId, PathType, Topology};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The rings, and what NCCL's cost model has to know of them.
#[derive(Debug, Clone)]
pub(super) struct RingGraph {
    /// Channels before doubling, and GB/s of each inside and between hosts.
    pub(super) channels: u32,
    pub(super) intra: f64,
    pub(super) inter: f64,
    /// Rings over all ranks; as many channels as thread blocks.
    pub(super) rings: Arc<Rings>,
    /// For each ring (modulo their number) and host: the interface that it enters and
    /// leaves by.
    pub(super) gates: Vec<Vec<Gate>>,
    /// All rings are the same.
    pub(super) same_channels: bool,
    /// Inside hosts they go over NVLink only.
    pub(super) nvlink: bool,
    /// Of several hosts, through each along the links of a mesh.
    pub(super) meshed: bool,
}

/// Speeds that the search tries, highest first.
pub(super) struct Speeds {
    /// On one host.
    pub(super) intra: Vec<f64>,
    /// On several.
    pub(super) inter: Vec<f64>,
}

/// The speeds of a GPU generation, in a release of NCCL: some were added over time.
pub(super) fn speeds(compute_capability: u32, version: Version) -> Speeds {
    let (intra, inter): (&[f64], &[f64]) = match compute_capability {
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
    };
    // The first minor release with some of them, on one host and on several. Releases before
    // the oldest that is known are taken as that one.
    let added: &[(u16, &[f64], &[f64])] = match compute_capability {
        100.. => &[(30, &[], &[86.]), (29, &[45.], &[80.]), (27, &[], &[96.])],
        90.. => &[(19, &[50., 11.], &[])],
        _ => &[],
    };
    let (mut intra, mut inter) = (intra.to_vec(), inter.to_vec());
    for (_, one, several) in added.iter().filter(|a| version.before(a.0)) {
        intra.retain(|speed| !one.contains(speed));
        inter.retain(|speed| !several.contains(speed));
    }
    Speeds { intra, inter }
}

/// NCCL's MAXCHANNELS / 2: rings before doubling.
pub(super) const MOST_RINGS: u32 = 32;

/// The rings of `hosts`. `mesh` has what links from GPU to GPU of a host carry. `cross_nic` is
/// what the environment says: 0, 1, or 2 (the default). With `pxn`, a GPU reaches a far interface through the GPU that is near to it.
pub(super) fn search(
    hosts: &[Host],
    reach: Reach,
    cross_nic: u8,
    pxn: bool,
    mesh: &[Vec<f64>],
) -> Result<RingGraph, NcclError> {
    if hosts.len() == 1 {
        let plain = one_host(&hosts[0], reach);
        return Ok(match meshed(mesh, reach) {
            // PCIe joins what NVLinks do not; it is taken where that is faster.
            Some(meshed) if meshed.worth() > plain.worth() || reach.nvlink => meshed,
            _ => plain,
        });
    }
    // Leaving where it entered costs nothing where two GPUs are near to each interface.
    let near = hosts
        .iter()
        .all(|h| h.ranks.len() == 1 || h.doors.iter().all(|d| d.mate.is_some()));
    let mode = match cross_nic {
        0 => CrossNic::Same,
        1 => CrossNic::Any,
        _ if near => CrossNic::Same,
        _ => CrossNic::Paired,
    };
    let plain = several_hosts(hosts, reach, mode, near || !pxn)?;
    Ok(match through_meshes(hosts, mesh, reach) {
        Some(meshed) if meshed.worth() > plain.worth() => meshed,
        _ => plain,
    })
}

/// The rings of hosts whose GPUs are joined without switches, and not each with each.
fn through_meshes(hosts: &[Host], mesh: &[Vec<f64>], reach: Reach) -> Option<RingGraph> {
    if reach.nvswitch || reach.meshed {
        return None;
    }
    let near_door = |door: &Door| {
        let both = std::iter::once(door.local).chain(door.mate);
        both.map(|local| local as u32).collect()
    };
    let of_host = |host: &Host| host.doors.iter().map(near_door).collect();
    let near: Vec<Vec<u32>> = of_host(&hosts[0]);
    // They all have to be like the first.
    if originals(hosts).any(|host| of_host(host) != near) {
        return None;
    }
    let mut speeds = speeds(reach.compute_capability, reach.version).inter;
    speeds.retain(|&speed| speed <= reach.doors);
    let (paths, speed) = mesh::paths(mesh, &speeds, &near)?;
    let found = paths.len() as u32;
    let (channels, speed) = duplicate(found, speed, reach.compute_capability);
    let past = |host: &Host, path: &[u32]| -> Vec<u32> {
        path.iter()
            .map(|&local| host.ranks[local as usize])
            .collect()
    };
    let orders = paths.iter().map(|path| {
        let hosts = hosts.iter();
        hosts.flat_map(|host| past(host, path)).collect()
    });
    let gates = (0..found).map(|channel| {
        let gate = |host: &Host| {
            let nic = host.door(channel).map(|door| door.nic);
            Gate {
                enter: nic,
                leave: nic,
            }
        };
        hosts.iter().map(gate).collect()
    });
    let users = (0..channels * 2).map(|c| (c % found) as u16).collect();
    let rings = Rings::new(orders.collect(), users).expect("each path visits each GPU once");
    Some(RingGraph {
        channels,
        intra: speed,
        inter: speed,
        rings: Arc::new(rings),
        gates: gates.collect(),
        same_channels: found == 1,
        nvlink: true,
        meshed: true,
    })
}

fn one_host(host: &Host, reach: Reach) -> RingGraph {
    let intra_speeds = speeds(reach.compute_capability, reach.version).intra;
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
        rings: Arc::new(rings),
        gates,
        same_channels: true,
        nvlink: reach.nvlink,
        meshed: false,
    }
}

/// The rings of a host whose GPUs are joined without switches.
fn meshed(mesh: &[Vec<f64>], reach: Reach) -> Option<RingGraph> {
    if reach.nvswitch {
        return None;
    }
    let speeds = speeds(reach.compute_capability, reach.version).intra;
    let (orders, speed) = mesh::rings(mesh, &speeds, MOST_RINGS as usize)?;
    let found = orders.len() as u32;
    let (channels, intra) = duplicate(found, speed, reach.compute_capability);
    let users = (0..channels * 2).map(|c| (c % found) as u16).collect();
    let rings = Rings::new(orders, users).expect("each ring visits each GPU once");
    Some(RingGraph {
        channels,
        intra,
        inter: intra,
        rings: Arc::new(rings),
        gates: vec![vec![Gate {
            enter: None,
            leave: None,
        }]],
        same_channels: found == 1,
        nvlink: true,
        meshed: false,
    })
}

impl RingGraph {
    /// What the search makes most of.
    fn worth(&self) -> f64 {
        f64::from(self.channels) * self.intra
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

fn several_hosts(
    hosts: &[Host],
    reach: Reach,
    mode: CrossNic,
    near: bool,
) -> Result<RingGraph, NcclError> {
    // Each ring needs an interface of its own on every host.
    let mut interfaces = u32::MAX;
    for host in hosts {
        if host.doors.is_empty() {
            return Err(NcclError::NoNic {
                node: host.name.clone(),
            });
        }
        interfaces = interfaces.min(host.doors.len() as u32);
    }
    let smallest = hosts.iter().map(|h| h.ranks.len()).min().unwrap_or(1) as f64;
    let inter_speeds = speeds(reach.compute_capability, reach.version).inter;
    let mut best = (1u32, inter_speeds[inter_speeds.len() - 1]);
    let meshed = reach.meshed;
    let by_doors = match mode {
        CrossNic::Same => false,
        CrossNic::Any => originals(hosts).all(|h| leaves_apart(h, meshed)),
        CrossNic::Paired => originals(hosts).all(|h| 2 * pairs(h, meshed).len() == h.doors.len()),
    };
    let inter = if by_doors { reach.doors } else { reach.inter };
    for &speed in inter_speeds
        .iter()
        .filter(|&&s| s <= inter.min(reach.intra))
    {
        // A ring over g GPUs crosses g - 1 of their links, so the busiest link of g rings
        // carries (g - 1) / g of them; one more where it has to get back to its interface.
        let crossed = if mode == CrossNic::Same && !near {
            smallest
        } else {
            smallest - 1.0
        };
        let inside = if smallest > 1.0 {
            (reach.intra / speed * smallest / crossed) as u32
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
        let mut order = Vec::with_capacity(hosts.iter().map(|h| h.ranks.len()).sum());
        let mut doors = Vec::with_capacity(hosts.len());
        // What hosts that are alike have in common, by whether their index is odd.
        let mut known: FxHashMap<(u32, bool), (Vec<usize>, Gate)> = FxHashMap::default();
        for (index, host) in hosts.iter().enumerate() {
            let odd = index % 2 == 1;
            let (locals, gate) = known.entry((host.like, odd)).or_insert_with(|| {
                let first = &hosts[host.like as usize];
                through(first, odd, (channel, search_channels), mode, meshed)
            });
            order.extend(locals.iter().map(|&local| host.ranks[local]));
            doors.push(Gate {
                enter: gate.enter.map(|nic| host.moved(nic)),
                leave: gate.leave.map(|nic| host.moved(nic)),
            });
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
        rings: Arc::new(rings),
        gates,
        same_channels: search_channels == 1,
        nvlink: reach.nvlink,
        meshed: false,
    })
}

/// The rings that a graph file forces (NCCL: `NCCL_GRAPH_FILE`), if it has any. Every host has
/// the file's channels; devices are counted within a node.
pub(super) fn forced_rings(
    topology: &Topology,
    gpus: &[DeviceId],
    hosts: &[Host],
    file: &GraphFile,
) -> Result<Option<RingGraph>, NcclError> {
    let Some(graph) = file
        .graphs
        .iter()
        .find(|g| g.id == 0 && !g.channels.is_empty())
    else {
        return Ok(None);
    };
    let bad = |problem: String| NcclError::Env {
        name: "NCCL_GRAPH_FILE".into(),
        value: "ring graph".into(),
        problem,
    };
    let (mut orders, mut gates) = (Vec::new(), Vec::new());
    for (number, channel) in graph.channels.iter().enumerate() {
        let mut order = Vec::new();
        let mut doors = Vec::new();
        for host in hosts {
            for gpu in &channel.gpus {
                let local = match *gpu {
                    GraphGpu::Dev(dev) => dev as usize,
                    GraphGpu::Rank(rank) => rank as usize % host.ranks.len().max(1),
                };
                order.push(*host.ranks.get(local).ok_or_else(|| {
                    bad(format!(
                        "channel {number} names GPU {local}, but {} has {} that take part",
                        host.name,
                        host.ranks.len()
                    ))
                })?);
            }
            let node = host
                .ranks
                .first()
                .and_then(|&r| topology.node_of(gpus[r as usize]));
            let nics = node.map_or(Vec::new(), |n| interfaces(topology, n));
            let nic = |dev: Option<u64>| match dev {
                None => Ok(None),
                Some(dev) => nics.get(dev as usize).copied().map(Some).ok_or_else(|| {
                    bad(format!(
                        "channel {number} names interface {dev}, but {} has {}",
                        host.name,
                        nics.len()
                    ))
                }),
            };
            doors.push(Gate {
                enter: nic(channel.entry)?,
                leave: nic(channel.exit)?,
            });
        }
        orders.push(order);
        gates.push(doors);
    }
    let found = orders.len() as u32;
    let users = (0..found * 2).map(|c| (c % found) as u16).collect();
    let rings = Rings::new(orders, users).map_err(|error| bad(error.to_string()))?;
    Ok(Some(RingGraph {
        channels: found,
        intra: graph.speed_intra,
        inter: graph.speed_inter,
        rings: Arc::new(rings),
        gates,
        same_channels: graph.same_channels,
        nvlink: graph.type_intra <= PathType::Nvl,
        meshed: false,
    }))
}
