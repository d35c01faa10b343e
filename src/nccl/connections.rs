//! How many connections an operation needs: what connecting takes, and sockets, go by their number.
//!
//! NCCL 2.30: `transport.cc` (each end is set up by its rank), `transport/net.cc` and
//! `transport/net_ib` (a connection over a network begins with one of TCP, which carries the exchange of
//! queue pairs and stays open).

use super::algorithm::Algorithm;
use super::communicator::{Communicator, Planned};
use super::p2p::Channels;
use fabricsim_collective::ConnId;
use std::collections::BTreeMap;

/// Ends of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Inside a host, of the rank that has most.
    pub local: u64,
    /// Over networks, of the rank that sets most of them up.
    pub network: u64,
    /// Over networks, of all ranks of the node that has most: each is a TCP connection with a port there.
    pub of_node: u64,
}

impl Communicator<'_> {
    /// Ends of the connections of a plan of this communicator.
    #[must_use]
    pub fn connections(&self, planned: &Planned) -> Connections {
        let plan = &planned.plan;
        let program = plan.program.as_ref();
        let ranks = self.gpus.len();
        let multicast = matches!(planned.algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        let (mut local, mut network) = (vec![0u64; ranks], vec![0u64; ranks]);
        for id in 0..program.connections() {
            let ends = program.connection(ConnId(id));
            let ends = [ends.from, ends.to].map(|end| program.worker(end));
            let [_, _, over_network] = plan.transports.routes_of(id as usize);
            // Of what goes through switches inside a host there is one memory for multicast, no connection.
            if multicast && over_network.is_none() {
                continue;
            }
            let counts = match over_network {
                Some(_) => &mut network,
                None => &mut local,
            };
            for end in ends {
                if let Some(count) = counts.get_mut(end.rank.index()) {
                    *count += 1;
                }
            }
        }
        let mut of_node = BTreeMap::new();
        for (&gpu, count) in self.gpus.iter().zip(&network) {
            *of_node.entry(self.topology.node_of(gpu)).or_insert(0) += count;
        }
        Connections {
            local: local.into_iter().max().unwrap_or(0),
            network: network.into_iter().max().unwrap_or(0),
            of_node: of_node.into_values().max().unwrap_or(0),
        }
    }

    /// The same where every rank sends to every other one: each rank and channel of a peer has two. With
    /// PXN a rank's messages go through the GPU of its host that is next to the peer's interface, and all
    /// of a host share one of that GPU's connections (`ROCm/rccl` issue 577, `NVIDIA/nccl` issue 1882).
    #[must_use]
    pub fn connections_of_all_to_all(&self) -> Connections {
        let Channels { per_peer, .. } = self.p2p_channels();
        let of_peer = 2 * u64::from(per_peer);
        let on_host = u64::from(self.setup().most_local);
        let beyond = u64::from(self.ranks()).saturating_sub(on_host);
        let shared = match self.env().p2p_pxn {
            0 => 1,
            _ if self.env().pxn_disable || !self.graph.nvlink => 1,
            _ => on_host.max(1),
        };
        let network = (beyond * of_peer).div_ceil(shared);
        Connections {
            local: on_host.saturating_sub(1) * of_peer,
            network,
            of_node: network * u64::from(self.gpus_per_node()),
        }
    }
}
