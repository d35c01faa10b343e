//! What no algorithm can beat: bytes that must leave or enter, over links that exist.

use crate::collective::{Collective, Program, ROOT, Rank};
use crate::topology::{DeviceId, LinkFamily, Topology};
use crate::units::{Bandwidth, Bytes, Time};
use std::collections::BTreeMap;

/// A lower bound for what `program` achieves, on its ranks' GPUs `gpus`.
///
/// The larger of two cuts: around each GPU (all that it must send or receive, over all its
/// links), and around each node (likewise, over the links that leave the node). All-reduce:
/// 2 (p-1)/p S through every cut of one of p equal parts (Patarasuk & Yuan 2009); all-gather,
/// reduce-scatter and all-to-all (p-1)/p S; broadcast and reduce S. With `offload`, switches
/// may reduce and copy: then S through every cut is enough for an all-reduce. Latency is not
/// part of it.
#[must_use]
pub fn bound(topology: &Topology, gpus: &[DeviceId], program: &dyn Program, offload: bool) -> Time {
    let ranks = gpus.len() as u64;
    if ranks < 2 {
        return Time::ZERO;
    }
    let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, &gpu) in gpus.iter().enumerate() {
        if let Some(node) = topology.node_of(gpu) {
            nodes.entry(node.0).or_default().push(rank as u32);
        }
    }
    let mut sizes = nodes.values().map(Vec::len);
    let first = sizes.next();
    let need = |equal| Need {
        program,
        ranks,
        offload,
        equal,
    };
    let (of_gpu, of_node) = (need(true), need(sizes.all(|s| Some(s) == first)));
    let around_gpus = (0..gpus.len()).map(|rank| {
        let rate = widest(topology, gpus[rank]);
        rate.time_for(Bytes::new(of_gpu.through(&[rank as u32])))
    });
    let leaving = leaving_rates(topology);
    let around_nodes = nodes
        .iter()
        .filter(|_| nodes.len() > 1)
        .map(|(&node, ranks)| leaving[node as usize].time_for(Bytes::new(of_node.through(ranks))));
    around_gpus.chain(around_nodes).max().unwrap_or(Time::ZERO)
}

/// What has to cross a border around some of the ranks.
struct Need<'p> {
    program: &'p dyn Program,
    ranks: u64,
    offload: bool,
    /// All parts between which there are borders have as many ranks.
    equal: bool,
}

impl Need<'_> {
    /// Bytes out of, or into, the ranks `inside` (not all of them), whichever is more.
    fn through(&self, inside: &[u32]) -> u64 {
        let (bytes, n) = (self.program.bytes(), self.ranks);
        let (own, others) = (inside.len() as u64, n - inside.len() as u64);
        let of =
            |num: u64, den: u64| (u128::from(bytes) * u128::from(num) / u128::from(den)) as u64;
        let has_root = inside.contains(&ROOT.0);
        match self.program.collective() {
            Collective::AllReduce if self.offload => bytes,
            Collective::AllReduce if self.equal => of(2 * others, n),
            // A part in and its sum out; which part does more is open.
            Collective::AllReduce => bytes,
            Collective::AllGather | Collective::ReduceScatter => of(others.max(own), n),
            Collective::Broadcast | Collective::Reduce => bytes,
            Collective::SendRecv | Collective::SendRecvPairs | Collective::SendRecvHalves => {
                let leaves = |&&rank: &&u32| {
                    let collective = self.program.collective();
                    let to = collective.receiver(Rank(rank), n as u32);
                    to.is_some_and(|to| !inside.contains(&to.0))
                };
                // As much comes in: one message for each that leaves.
                bytes.saturating_mul(inside.iter().filter(leaves).count() as u64)
            }
            Collective::Gather | Collective::Scatter if has_root => of(others, n),
            Collective::Gather | Collective::Scatter => of(own, n),
            Collective::AllToAll => of(own * others, n),
            Collective::AllToAllV => {
                let Some(matrix) = self.program.matrix() else {
                    return of(own * others, n);
                };
                let outside = (0..n as u32).filter(|r| !inside.contains(r));
                let (mut out, mut into) = (0u64, 0u64);
                for other in outside {
                    for &rank in inside {
                        out += matrix.bytes(Rank(rank), Rank(other));
                        into += matrix.bytes(Rank(other), Rank(rank));
                    }
                }
                out.max(into)
            }
        }
    }
}

/// All links out of a device together.
fn widest(topology: &Topology, device: DeviceId) -> Bandwidth {
    let rates = topology
        .links_out_of(device)
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
