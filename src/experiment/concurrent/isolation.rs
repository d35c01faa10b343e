//! What of the network each of several jobs has for itself.

use crate::refusal::fault;
use crate::spec::Isolation;
use fabricsim_nccl::NicFilter;
use fabricsim_topology::{DeviceId, Fault, LinkId, Topology};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The links that each of so many jobs leaves to the others: those of interfaces, or of switches above the
/// leaves, that belong to another one. They are dealt in turns, so that each has an equal part of every pod.
///
/// # Errors
/// Fewer interfaces or switches than jobs.
pub(super) fn left_to_others(
    topology: &Topology,
    jobs: usize,
    isolation: Option<Isolation>,
) -> Result<Vec<Vec<LinkId>>, Fault> {
    let mut owner: FxHashMap<DeviceId, usize> = FxHashMap::default();
    match isolation {
        None | Some(Isolation::None) => return Ok(vec![Vec::new(); jobs]),
        Some(Isolation::Rails) => {
            for node in &topology.nodes {
                if node.nics.len() < jobs {
                    let found = format!(
                        "rails of {jobs} jobs on {}, which has {}",
                        node.name,
                        counted(node.nics.len(), "network interface")
                    );
                    let expected = "at least one for each job, or `partition`";
                    return Err(fault("isolation", found, expected));
                }
                let rails = node.nics.iter().enumerate();
                owner.extend(rails.map(|(rail, &nic)| (nic, rail % jobs)));
            }
        }
        Some(Isolation::Partition) => {
            for fabric in &topology.fabrics {
                let tiers = fabric.switches.iter().zip(&fabric.tiers);
                for tier in 1..=fabric.tiers.iter().copied().max().unwrap_or(0) {
                    let own = tiers.clone().filter(|(_, of)| **of == tier);
                    let own: Vec<DeviceId> = own.map(|(&switch, _)| switch).collect();
                    if own.len() < jobs {
                        let found = format!(
                            "partitions of {jobs} jobs in {}, which has {} above its leaves",
                            fabric.name,
                            counted(own.len(), "switch")
                        );
                        let expected = "at least one for each job, or `rails`";
                        return Err(fault("isolation", found, expected));
                    }
                    let dealt = own.into_iter().enumerate();
                    owner.extend(dealt.map(|(number, switch)| (switch, number % jobs)));
                }
            }
        }
    }
    let mut left = vec![Vec::new(); jobs];
    for (link, _) in topology.links() {
        let (from, to) = topology.ends(link);
        let owners: Vec<usize> = [from, to]
            .iter()
            .filter_map(|device| owner.get(device).copied())
            .collect();
        for (job, left) in left.iter_mut().enumerate() {
            if owners.iter().any(|&owner| owner != job) && is_network(topology, link) {
                left.push(link);
            }
        }
    }
    Ok(left)
}

/// The interfaces that NCCL is to use in a job of several, as `NCCL_IB_HCA` says it; nothing where jobs do
/// not have rails of their own.
pub(super) fn rails_of(
    topology: &Topology,
    (job, jobs): (usize, usize),
    isolation: Option<Isolation>,
) -> Option<NicFilter> {
    if isolation != Some(Isolation::Rails) {
        return None;
    }
    let rails = topology
        .nodes
        .iter()
        .flat_map(|node| node.nics.iter().enumerate());
    let own = rails.filter(|(rail, _)| rail % jobs == job);
    // The topology's own names, without their node's.
    let names = own.map(|(_, &nic)| {
        let name = topology.device_name(nic);
        name.rsplit('/').next().unwrap_or_default().to_owned()
    });
    let names: BTreeSet<String> = names.collect();
    Some(NicFilter::named(names))
}

fn is_network(topology: &Topology, link: LinkId) -> bool {
    topology.family(link) == fabricsim_topology::LinkFamily::Network
}

fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "switch") => format!("{count} switches"),
        _ => format!("{count} {what}s"),
    }
}
