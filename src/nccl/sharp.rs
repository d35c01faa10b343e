//! Whether switches of the network sum on the way (SHARP), or why not.
//!
//! What is known and modelled: each switch can or cannot; a tree of them joins the interfaces
//! of one rail, towards the first host's. How many trees or streams a switch serves at a time,
//! and how large a group may be, no source at hand tells, so nothing limits them.

use super::env::Env;
use super::hosts::Host;
use fabricsim_topology::{DeviceId, DeviceKind, DeviceModel, Router, Topology};

/// Whether NCCL may use sums in the network, or why not.
pub(super) fn collnet(
    topology: &Topology,
    router: &mut Router<'_>,
    hosts: &[Host],
    env: &Env,
) -> Result<(), String> {
    if !env.collnet && !env.names_collnet() {
        return Err("NCCL_COLLNET_ENABLE is not set".into());
    }
    if hosts.len() < 2 || (hosts.len() as u32) < env.collnet_hosts {
        return Err(format!("fewer than {} hosts", env.collnet_hosts.max(2)));
    }
    let mut switches = topology.fabrics.iter().flat_map(|f| &f.switches);
    if !switches.any(|&s| reduces(topology, s)) {
        return Err("the network's switches do not reduce".into());
    }
    let rails = hosts.iter().map(|h| h.doors.len()).min().unwrap_or(0);
    for rail in 0..rails {
        let root = hosts[0].doors[rail].nic;
        for host in &hosts[1..] {
            let nic = host.doors[rail].nic;
            for (from, to) in [(nic, root), (root, nic)] {
                let route = router.network(from, to, rail as u64);
                let route = route.map_err(|error| format!("no tree of switches: {error}"))?;
                let passed = route.hops.iter().map(|h| topology.ends(h.link).1);
                let mut passed = passed.filter(|&d| topology.device(d).kind == DeviceKind::Switch);
                if let Some(plain) = passed.find(|&s| !reduces(topology, s)) {
                    return Err(format!(
                        "{} on the way from {} to {} does not reduce",
                        topology.device_name(plain),
                        topology.device_name(from),
                        topology.device_name(to)
                    ));
                }
            }
        }
    }
    Ok(())
}

fn reduces(topology: &Topology, switch: DeviceId) -> bool {
    matches!(topology.device_model(switch), DeviceModel::Switch(m) if m.reduction.is_some())
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Communicator, Env, Forced};
    use fabricsim_collective::Collective;
    use fabricsim_topology::{Overrides, catalogue, expand, load};

    /// Four DGX H100 whose spines do not reduce; leaves hold so many nodes.
    fn excluded(nodes_per_unit: u32) -> Option<String> {
        let text = catalogue::text("dgx-h100").unwrap().replace(
            "\"rail_optimized\": {}",
            &format!("\"rail_optimized\": {{ \"nodes_per_unit\": {nodes_per_unit} }}"),
        );
        let text = text.replace(
            "\"switch\": \"quantum-2\",",
            "\"switch\": \"quantum-2\", \"upper_switch\": \"ethernet-64x400\",",
        );
        let spec = load::parse(&text, "test").unwrap();
        let overrides = Overrides { nodes: Some(4) };
        let topology = expand(&spec, catalogue::hardware(), &overrides).unwrap();
        let env = Env::parse([("NCCL_COLLNET_ENABLE", "1")]).unwrap();
        let comm = Communicator::new(&topology, None, &env, 1).unwrap();
        let all = comm.candidates(Collective::AllReduce, 1 << 30, Forced::default());
        let mut chain = all
            .into_iter()
            .filter(|c| c.algorithm == Algorithm::CollnetChain);
        chain.next_back().and_then(|c| c.excluded)
    }

    #[test]
    fn a_plain_switch_on_the_way_excludes_sums() {
        assert_eq!(excluded(4), None, "rails end in their leaves");
        let why = excluded(2).unwrap();
        assert!(
            why.contains("spine") && why.contains("does not reduce"),
            "{why}"
        );
        let ethernet = load("hgx-h100-roce", &Overrides { nodes: Some(2) }).unwrap();
        let env = Env::parse([("NCCL_COLLNET_ENABLE", "1")]).unwrap();
        let comm = Communicator::new(&ethernet, None, &env, 1).unwrap();
        assert_eq!(
            comm.setup().collnet,
            Err("the network's switches do not reduce".to_owned())
        );
    }
}
