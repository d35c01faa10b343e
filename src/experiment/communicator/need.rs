//! Sockets of a node, and what there is too little of.

use super::spec::CommunicatorSpec;
use fabricsim_report::communicator::SocketUse;
use fabricsim_topology::bootstrap::BootstrapModel;

/// Ends of connections of a communicator over networks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    /// Of the node with most.
    pub(super) of_node: u64,
    /// Of the rank with most.
    pub(super) of_rank: u64,
}

/// Sockets of the node with most ranks, of so many communicators.
pub(super) fn sockets(
    spec: &CommunicatorSpec,
    model: &BootstrapModel,
    (ranks_of_node, communicators): (u64, u64),
    ends: Ends,
) -> SocketUse {
    let each = spec.sockets_per_connection.unwrap_or(1);
    // RAS is one of a process, all else of a communicator. A socket that listens takes a port, one that is
    // accepted shares it; of two neighbours one connects.
    let listening = model.listening.value * communicators;
    let ring = model.ring_sockets.value * communicators;
    let ras = model.ras_sockets.value;
    let own = listening + ring + ras;
    let ports = listening + ring / 2 + ras - 1;
    let with = |own: u64, ends: u64| own.saturating_add(ends.saturating_mul(each));
    SocketUse {
        sockets: with(own * ranks_of_node, ends.of_node),
        ports: with(ports * ranks_of_node, ends.of_node),
        ports_limit: spec.ports.unwrap_or(model.ephemeral_ports.value),
        files: with(own, ends.of_rank),
        files_limit: spec.open_files.unwrap_or(model.open_files.value),
    }
}

/// Ports of an IPv4 address that a host may hand out: those below are of servers.
const LOWEST_PORT: u64 = 1024;
const HIGHEST_PORT: u64 = 65_535;

/// What there is too little of, as NCCL says it, with what would do.
pub(super) fn lacking(need: &SocketUse, what: &str) -> Option<String> {
    if need.ports > need.ports_limit {
        let most = HIGHEST_PORT - LOWEST_PORT + 1;
        let remedy = match need.ports {
            few if few <= most => {
                // The nearest thousand below.
                let lowest = (HIGHEST_PORT + 1 - few) / 1000 * 1000;
                let lowest = lowest.max(LOWEST_PORT);
                format!("net.ipv4.ip_local_port_range = \"{lowest} {HIGHEST_PORT}\" would do")
            }
            _ => format!(
                "no range would do, for there are {most} at most: let messages go through the GPU next to the \
                 interface (NCCL_PXN_DISABLE=0), or over fewer channels (NCCL_NCHANNELS_PER_NET_PEER=1)"
            ),
        };
        return Some(format!(
            "Call to bind failed : Address already in use: {what} takes {} ports of a node, and it hands out {}; {remedy}",
            need.ports, need.ports_limit
        ));
    }
    (need.files > need.files_limit).then(|| {
        let enough = need.files.checked_next_power_of_two().unwrap_or(need.files);
        format!(
            "Call to socket failed : Too many open files: {what} takes {} sockets of a process, and it may have {} files open; \
             `ulimit -n {enough}` would do",
            need.files, need.files_limit
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::bootstrap::bootstrap;

    fn need(of_node: u64, of_rank: u64, spec: &CommunicatorSpec) -> SocketUse {
        sockets(spec, bootstrap(), (16, 1), Ends { of_node, of_rank })
    }

    /// 64 nodes of 16 GPUs, a channel a peer: 63 × 16 × 16 × 2 ports fail (ROCm/rccl issue 577).
    #[test]
    fn ports_run_out_and_a_range_is_named() {
        let spec = CommunicatorSpec {
            open_files: Some(1 << 20),
            ..CommunicatorSpec::default()
        };
        let lack = |nodes: u64| {
            let ends = (nodes - 1) * 16 * 2;
            lacking(&need(ends * 16, ends, &spec), "the first all-to-all")
        };
        let said = lack(64).unwrap();
        assert!(
            said.contains("takes 32368 ports of a node, and it hands out 28232"),
            "{said}"
        );
        assert!(
            said.contains("net.ipv4.ip_local_port_range = \"33000 65535\""),
            "{said}"
        );
        assert_eq!(lack(32), None);
        let said = lack(256).unwrap();
        assert!(said.contains("no range would do"), "{said}");
    }

    /// 8 threads with 8 sockets each over TCP: too many open files with 16 ranks (NVIDIA/nccl issue 550).
    #[test]
    fn open_files_run_out() {
        let spec = CommunicatorSpec {
            sockets_per_connection: Some(65),
            ..CommunicatorSpec::default()
        };
        let ends = 8 * 2 * 2;
        let said = lacking(&need(ends * 8, ends, &spec), "the first all-to-all").unwrap();
        assert!(
            said.contains("Too many open files") && said.contains("ulimit -n 4096"),
            "{said}"
        );
        let one = CommunicatorSpec::default();
        assert_eq!(lacking(&need(ends * 8, ends, &one), ""), None);
    }
}
