//! Whether switches of the network sum on the way (SHARP), or why not.
//!
//! What is known and modelled: each switch can or cannot; a tree of them joins the interfaces
//! of one rail, towards the first host's. Each interface's part of a tree is held by one
//! communicator, which locks it when it is made (SHARP's plugin sets `SHARP_COLL_LOCK_ON_COMM_INIT`):
//! another one that wants it goes without. How many trees a switch has room for, no source at hand
//! tells, so nothing limits them.

use super::communicator::Communicator;
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
    if env.sharp_disable {
        return Err("NCCL_SHARP_DISABLE=1".into());
    }
    if (hosts.len() as u32) < env.sharp_hosts {
        return Err(format!(
            "SHARP: Group size:{} is less than threshold:{} (NCCL_SHARP_GROUP_SIZE_THRESH)",
            hosts.len(),
            env.sharp_hosts
        ));
    }
    let doors = || hosts.iter().map(|h| h.doors.len());
    if !env.collnet_mismatch && doors().min() != doors().max() {
        return Err(
            "hosts have different numbers of interfaces (NCCL_IGNORE_COLLNET_MISMATCH)".into(),
        );
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

impl Communicator<'_> {
    /// The interfaces whose part of SHARP's streaming trees this communicator holds, or would.
    #[must_use]
    pub fn streaming_interfaces(&self) -> Vec<DeviceId> {
        if self.setup().collnet.is_err() {
            return Vec::new();
        }
        let doors = self
            .hosts
            .iter()
            .flat_map(|h| h.doors.iter().map(|d| d.nic));
        doors.collect()
    }

    /// The same where others hold the trees of its interfaces: it goes without sums in the network.
    #[must_use]
    pub fn without_collnet(mut self, why: String) -> Self {
        self.setup_mut().collnet = Err(why);
        self
    }
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
