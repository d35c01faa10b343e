//! Figures of making communicators: what processes, hosts and TCP take for it.

use super::hardware::Sourced;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// What making a communicator takes beside what moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BootstrapModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// From the start of a process until it calls NCCL.
    pub process_start: Sourced<Time>,
    /// Loading NCCL's kernels, if the driver has them.
    pub kernels_warm: Sourced<Time>,
    /// The same if it has not.
    pub kernels_cold: Sourced<Time>,
    /// Ranks come so much later than the earliest could, in the mean of an exponential distribution.
    pub arrival: Sourced<Time>,
    /// Ranks of a root, above which they do not come at once.
    pub stagger_above: Sourced<u64>,
    /// Ranks a second that then come to a root.
    pub stagger_rate: Sourced<u64>,
    /// Ranks of a root, if the framework takes several.
    pub ranks_per_root: Sourced<u64>,
    /// From rank to rank over the network's plugin in place of TCP.
    pub oob_latency: Sourced<Time>,
    /// Finding out what a host has: of each GPU and NIC.
    pub topology_per_device: Sourced<Time>,
    /// The search for channels.
    pub graphs: Sourced<Time>,
    /// Proxies, and memory for multicast.
    pub proxies: Sourced<Time>,
    /// One end of a connection inside a host.
    pub connect_local: Sourced<Time>,
    /// One end of a connection over a network.
    pub connect_network: Sourced<Time>,
    /// Giving a communicator up.
    pub destroy: Sourced<Time>,
    /// One operation of PyTorch's TCPStore, which does one after the other.
    pub store_operation: Sourced<Time>,
    /// The same of Redis.
    pub store_operation_redis: Sourced<Time>,
    /// Operations of a rank in a barrier over the store.
    pub store_operations: Sourced<u64>,
    /// Sockets on which a rank listens.
    pub listening: Sourced<u64>,
    /// Sockets of a rank to its neighbours in the bootstrap's ring.
    pub ring_sockets: Sourced<u64>,
    /// Sockets of a process for RAS.
    pub ras_sockets: Sourced<u64>,
    /// Ports that a host hands out by itself.
    pub ephemeral_ports: Sourced<u64>,
    /// Files that a process may have open.
    pub open_files: Sourced<u64>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn bootstrap() -> &'static BootstrapModel {
    static MODEL: OnceLock<BootstrapModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/bootstrap.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_figure_has_a_source() {
        let model = serde_json::to_value(bootstrap()).unwrap();
        for (name, figure) in model.as_object().unwrap() {
            let Value::Object(figure) = figure else {
                assert_eq!(name, "comment");
                continue;
            };
            assert!(figure["source"].as_str().unwrap().len() > 10, "{name}");
        }
        assert!(bootstrap().kernels_warm.value < bootstrap().kernels_cold.value);
    }
}
