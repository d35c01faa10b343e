//! What no algorithm can beat: bytes that must leave or enter, over links that exist.

use crate::collective::{Collective, ROOT};
use crate::topology::{DeviceId, LinkFamily, Topology};
use crate::units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;

/// A lower bound for `collective` over `bytes` (nccl-tests' size), without help of switches.
///
/// The larger of two cuts: around each GPU (all that it must send or receive, over all its
/// links), and around each node (likewise, over the links that leave the node). All-reduce:
/// 2 (p-1)/p S through every cut of one of p equal parts (Patarasuk & Yuan 2009); all-gather
/// and reduce-scatter (p-1)/p S; broadcast and reduce S. Latency is not part of it.
#[must_use]
pub fn bound(topology: &Topology, gpus: &[DeviceId], collective: Collective, bytes: u64) -> Time {
    let ranks = gpus.len() as u64;
    if ranks < 2 {
        return Time::ZERO;
    }
    let parts_through = |parts: u64| -> u64 {
        match collective {
            Collective::AllReduce => {
                (u128::from(bytes) * 2 * u128::from(parts - 1) / u128::from(parts)) as u64
            }
            Collective::AllGather | Collective::ReduceScatter => {
                (u128::from(bytes) * u128::from(parts - 1) / u128::from(parts)) as u64
            }
            Collective::Broadcast | Collective::Reduce => bytes,
        }
    };
    let around_gpus = gpus
        .iter()
        .map(|&gpu| {
            let rate = widest(topology, gpu);
            rate.time_for(Bytes::new(parts_through(ranks)))
        })
        .max();
    let mut nodes: BTreeMap<u32, u64> = BTreeMap::new();
    for node in gpus.iter().filter_map(|&g| topology.node_of(g)) {
        *nodes.entry(node.0).or_default() += 1;
    }
    let around_nodes = (nodes.len() > 1).then(|| {
        // A node that holds a fraction f of the ranks must take in (and give out) what the
        // others have, which is least for the node that holds most.
        let most = nodes.values().copied().max().unwrap_or(1);
        let (num, den) = match collective {
            Collective::AllReduce => (2 * (ranks - most), ranks),
            Collective::AllGather | Collective::ReduceScatter => (ranks - most, ranks),
            Collective::Broadcast | Collective::Reduce => (1, 1),
        };
        let through = (u128::from(bytes) * u128::from(num) / u128::from(den)) as u64;
        let leaving = leaving_rates(topology);
        nodes
            .keys()
            .filter(|&&n| {
                !matches!(collective, Collective::Broadcast | Collective::Reduce)
                    || topology.node_of(gpus[ROOT.index()]).map(|r| r.0) != Some(n)
            })
            .map(|&n| leaving[n as usize].time_for(Bytes::new(through)))
            .max()
            .unwrap_or(Time::ZERO)
    });
    around_gpus
        .into_iter()
        .chain(around_nodes)
        .max()
        .unwrap_or(Time::ZERO)
}

/// All links out of a device together.
fn widest(topology: &Topology, device: DeviceId) -> Bandwidth {
    let rates = topology
        .links_from(device)
        .into_iter()
        .map(|(l, _)| topology.rate(l).bytes_per_sec());
    Bandwidth::from_bytes_per_sec(rates.fold(0, u64::saturating_add))
}

/// For each node, all links that leave it together: to fabrics, and to NVSwitches that serve
/// several nodes.
fn leaving_rates(topology: &Topology) -> Vec<Bandwidth> {
    let mut rates = vec![0u64; topology.nodes.len()];
    for (id, _) in topology.links() {
        if !matches!(
            topology.family(id),
            LinkFamily::Network | LinkFamily::Nvlink
        ) {
            continue;
        }
        let (from, to) = topology.ends(id);
        if let Some(node) = topology.node_of(from)
            && topology.node_of(to) != Some(node)
        {
            let rate = &mut rates[node.index()];
            *rate = rate.saturating_add(topology.rate(id).bytes_per_sec());
        }
    }
    rates
        .into_iter()
        .map(Bandwidth::from_bytes_per_sec)
        .collect()
}
