//! What is known of the links between switches that a job may use.

use crate::prices::joins_switches;
use fabricsim_report::Uplinks;
use fabricsim_topology::{LinkFamily, LinkId, Topology, tiers};

/// Whether a link joins two switches of a network.
pub(crate) fn is_uplink(topology: &Topology, link: LinkId) -> bool {
    topology.family(link) == LinkFamily::Network && joins_switches(topology, link)
}

/// The links between switches of a machine, of which the job used some or none; nothing without any.
pub(crate) fn uplinks(topology: &Topology, carried: bool) -> Option<Uplinks> {
    let mut rates = Vec::new();
    for (link, _) in topology.links() {
        if is_uplink(topology, link) {
            rates.push(topology.rate(link).gb_per_sec());
        }
    }
    let leaves = topology.fabrics.iter().filter_map(|fabric| {
        let tiers = tiers::tiers(topology, fabric);
        Some(tiers.first()?.oversubscription?.1)
    });
    (!rates.is_empty()).then(|| Uplinks {
        links: rates.len() as u64,
        gbs: rates.iter().sum(),
        oversubscription: leaves.reduce(f64::max),
        carried,
    })
}
