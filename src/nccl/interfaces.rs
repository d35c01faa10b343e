//! Which interfaces a node has, and what they are called in NCCL_IB_HCA.

use super::env::Env;
use super::sockets::over_sockets;
use fabricsim_topology::hardware::NicProtocol;
use fabricsim_topology::{DeviceId, NodeId, Topology};

/// Names of an interface, by its place in its node.
type NamesOf = fn(&Topology, DeviceId, usize) -> [String; 2];

/// What NCCL takes for interfaces: of those that a transport drives as one the first.
pub(super) fn interfaces(topology: &Topology, node: NodeId) -> Vec<DeviceId> {
    let nics = topology.nodes[node.index()].nics.iter();
    let first = |nic: &&DeviceId| topology.rails(**nic).first() == Some(*nic);
    nics.filter(first).copied().collect()
}

/// The names of an interface, the `position`th of its node: the RDMA name that its file says,
/// else the one that Linux would give it if there were no others (`mlx5_0`), and the topology's
/// own (`nic0`).
pub(super) fn names_of(topology: &Topology, nic: DeviceId, position: usize) -> [String; 2] {
    let rdma = topology.rdma_name(nic).map(str::to_owned);
    let own = topology.device_name(nic);
    let own = own.rsplit('/').next().unwrap_or_default().to_owned();
    [rdma.unwrap_or_else(|| format!("mlx5_{position}")), own]
}

/// The names of an interface to sockets: the one that Linux would give it if there were no others
/// (`ib0`, IP over InfiniBand, or `eth0`), and the topology's own.
pub(super) fn socket_names_of(topology: &Topology, nic: DeviceId, position: usize) -> [String; 2] {
    let infiniband = topology
        .nic_model(nic)
        .is_some_and(|model| model.protocol == NicProtocol::Infiniband);
    let kind = if infiniband { "ib" } else { "eth" };
    let [_, own] = names_of(topology, nic, position);
    [format!("{kind}{position}"), own]
}

/// A warning if the variable names interfaces that no node of the machine has, with those that
/// there are. NCCL itself passes over such names in silence.
#[must_use]
pub fn unknown_interfaces(topology: &Topology, env: &Env) -> Option<String> {
    let (variable, filter, names_of): (_, _, NamesOf) = match over_sockets(topology, env) {
        true => (
            "NCCL_SOCKET_IFNAME",
            env.sockets.interfaces.as_ref()?,
            socket_names_of,
        ),
        false => ("NCCL_IB_HCA", env.nics.as_ref()?, names_of),
    };
    // Nodes are mostly alike: their names are looked at once.
    let mut known: Vec<[String; 2]> = Vec::new();
    for node in 0..topology.nodes.len() {
        let nics = interfaces(topology, NodeId(node as u32));
        for (position, nic) in nics.into_iter().enumerate() {
            let names = names_of(topology, nic, position);
            if !known.contains(&names) {
                known.push(names);
            }
        }
    }
    let strangers = filter.strangers(&known);
    if strangers.is_empty() {
        return None;
    }
    let there = known.iter().map(|[rdma, own]| format!("{rdma} ({own})"));
    let there: Vec<String> = there.collect();
    let there = if there.is_empty() {
        "there is none".to_owned()
    } else {
        format!("there are {}", there.join(", "))
    };
    Some(format!(
        "{variable}: no interface is called {}: {there}",
        strangers.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricsim_topology::{Overrides, load};

    fn warning(machine: &str, value: &str) -> Option<String> {
        let topology = load(machine, &Overrides::default()).unwrap();
        let env = Env::parse([("NCCL_IB_HCA", value)]).unwrap();
        unknown_interfaces(&topology, &env)
    }

    #[test]
    fn names_that_match_nothing_are_said_with_those_that_exist() {
        let documented = "mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11";
        assert_eq!(warning("dgx-h100", documented), None);
        assert_eq!(warning("dgx-h100", "=nic0,nic7"), None);
        // One of the storage ports.
        let said = warning("dgx-h100", "=mlx5_0,mlx5_1,mlx5_7:1").unwrap();
        assert!(
            said.contains("called mlx5_1, mlx5_7: there are mlx5_0 (nic0), mlx5_3 (nic1)"),
            "{said}"
        );
        let said = warning("dgx-a100", "ib0").unwrap();
        assert!(
            said.contains("called ib0: there are mlx5_0 (nic0)"),
            "{said}"
        );
        assert!(warning("dgx-a100", "^mlx5_77").is_some());
    }
}
