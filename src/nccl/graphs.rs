//! The graphs that NCCL searches besides rings: trees, NVLS heads, CollNet.
//!
//! Restates what NCCL's graph search (2.30.7, `search.cc`) ends with behind NVSwitches and
//! over PCIe, in the same manner as [`super::rings`].

use super::hosts::{Host, Reach};
use super::rings::{MOST_RINGS, RingGraph, speeds};

/// What the cost model has to know of a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Graph {
    /// Channels before doubling; of NVLS and CollNetDirect, the heads of a host.
    pub(super) channels: u32,
    /// GB/s of each channel inside and between hosts.
    pub(super) intra: f64,
    pub(super) inter: f64,
    /// Every hop inside hosts is NVLink.
    pub(super) nvlink: bool,
    pub(super) same_channels: bool,
    /// Of trees: all network traffic of a channel is on one GPU (NCCL's pattern TREE), not
    /// on two.
    pub(super) plain_tree: bool,
}

/// All graphs of a communicator.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Graphs {
    pub(super) ring: Graph,
    pub(super) tree: Graph,
    pub(super) collnet_chain: Graph,
    pub(super) collnet_direct: Option<Graph>,
    pub(super) nvls: Option<Graph>,
    /// The CPUs are x86.
    pub(super) x86: bool,
}

impl Graphs {
    /// The graphs that go with rings. `nvls`: GPUs are behind switches with multicast.
    pub(super) fn new(
        hosts: &[Host],
        reach: Reach,
        rings: &RingGraph,
        nvls: bool,
        x86: bool,
    ) -> Self {
        let ring = Graph {
            channels: rings.channels,
            intra: rings.intra,
            inter: rings.inter,
            nvlink: rings.nvlink,
            same_channels: rings.same_channels,
            plain_tree: false,
        };
        let mut tree = tree(hosts, reach, ring);
        // Of a mesh's paths the second GPU is not near.
        tree.plain_tree |= rings.meshed;
        let heads = heads(hosts);
        Graphs {
            ring,
            tree,
            collnet_chain: Graph {
                plain_tree: false,
                ..tree
            },
            collnet_direct: reach.nvswitch.then(|| Graph {
                channels: heads.min(8),
                ..ring
            }),
            nvls: nvls.then(|| multicast(hosts, reach, heads)).flatten(),
            x86,
        }
    }
}

/// As many heads as the host with the fewest has: local GPUs, or owners of interfaces.
fn heads(hosts: &[Host]) -> u32 {
    let of = |host: &Host| {
        if hosts.len() == 1 {
            host.ranks.len()
        } else {
            host.owners().len()
        }
    };
    hosts.iter().map(of).min().unwrap_or(1) as u32
}

fn tree(hosts: &[Host], reach: Reach, ring: Graph) -> Graph {
    let local = hosts.iter().map(|h| h.ranks.len()).min().unwrap_or(1);
    if hosts.len() == 1 {
        return Graph {
            plain_tree: local == 1,
            ..ring
        };
    }
    // A chain of g GPUs crosses g - 1 of their links in each direction: as many as they have to
    // switches, or of the g - 1 that each has to the others.
    let crossed = if reach.meshed {
        1.0 / local as f64
    } else {
        (local as f64 - 1.0) / local as f64
    };
    let fits = |speed: f64| {
        speed <= reach.intra && f64::from(ring.channels) * speed * crossed <= reach.intra
    };
    let list = speeds(reach.compute_capability, reach.version).inter;
    let mut intra = ring.intra;
    // The search's second pass raises the speed inside, while less than twice that outside.
    while intra < 2.0 * ring.inter {
        let next = list.iter().copied().rfind(|&s| s > intra);
        match next.filter(|&s| local > 1 && fits(s)) {
            Some(speed) => intra = speed,
            None => break,
        }
    }
    // Two GPUs share the interface's traffic where the second is as near to it as the first;
    // before SM90 that is the only pattern tried.
    let balanced = hosts
        .iter()
        .all(|h| h.doors.iter().all(|d| d.mate.is_some()));
    Graph {
        intra,
        plain_tree: local == 1 || (reach.compute_capability >= 90 && !balanced),
        ..ring
    }
}

/// Heads that each load every link of a host once, and their own once more.
fn multicast(hosts: &[Host], reach: Reach, heads: u32) -> Option<Graph> {
    let channels = heads.min(MOST_RINGS);
    let speeds = speeds(reach.compute_capability, reach.version);
    let list = if hosts.len() == 1 {
        speeds.intra
    } else {
        speeds.inter
    };
    let fits = |speed: f64| f64::from(channels + 1) * speed <= reach.intra;
    let most = if hosts.len() == 1 {
        f64::INFINITY
    } else {
        reach.inter
    };
    let intra = list.iter().copied().find(|&s| s <= most && fits(s))?;
    let mut inter = intra;
    while inter < 2.0 * intra {
        match list.iter().copied().rfind(|&s| s > inter && s <= most) {
            Some(speed) => inter = speed,
            None => break,
        }
    }
    Some(Graph {
        channels,
        intra,
        inter,
        nvlink: reach.nvlink,
        same_channels: true,
        plain_tree: false,
    })
}
