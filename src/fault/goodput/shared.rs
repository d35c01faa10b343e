//! Parts that several nodes share, and what their failures stop.

use crate::published::Component;
use fabricsim_topology::{DeviceId, DeviceKind, LinkFamily, Topology};
use fabricsim_units::Span;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What stops several nodes at once.
///
/// Nodes whose GPUs NVLink joins are one *domain*: a job that was laid out on it needs it whole, so that it
/// is replaced as a whole. A node that NVLink joins to no other is a domain of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedParts {
    /// Nodes of each domain; empty if each node is a domain of its own.
    pub domains: Vec<u32>,
    /// By leaf switch: the domains with a NIC on it.
    pub leaves: Vec<Vec<u32>>,
    /// By rack: the domains in it.
    pub racks: Vec<Vec<u32>>,
}

impl SharedParts {
    /// Those of a machine: domains and leaf switches from its graph; a rack is a component that nodes are
    /// instances of (`rack0` of `rack0/tray5`). Where nodes stand alone no rack is known.
    #[must_use]
    pub fn of(topology: &Topology) -> SharedParts {
        let (domain_of, domains) = domains(topology);
        let stopped = |nodes: BTreeSet<usize>| -> Vec<u32> {
            let domains: BTreeSet<u32> = nodes.iter().map(|&node| domain_of[node]).collect();
            domains.into_iter().collect()
        };
        let mut leaves = Vec::new();
        for fabric in &topology.fabrics {
            for (&switch, _) in fabric
                .switches
                .iter()
                .zip(&fabric.tiers)
                .filter(|(_, tier)| **tier == 0)
            {
                let ends = topology.links_out_of(switch).map(|(_, to)| to);
                let nodes = ends.filter_map(|to| topology.node_of(to));
                let below = stopped(nodes.map(fabricsim_topology::NodeId::index).collect());
                if !below.is_empty() {
                    leaves.push(below);
                }
            }
        }
        let mut racks: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (number, node) in topology.nodes.iter().enumerate() {
            if let Some((rack, _)) = node.name.rsplit_once('/') {
                racks.entry(rack).or_default().insert(number);
            }
        }
        let alone = domains.iter().all(|&nodes| nodes == 1);
        SharedParts {
            leaves,
            racks: racks.into_values().map(stopped).collect(),
            domains: if alone { Vec::new() } else { domains },
        }
    }

    /// How many nodes a failure of a part stops that nodes share, on average; `None` of other parts.
    #[must_use]
    pub fn nodes_stopped(&self, component: Component) -> Option<f64> {
        let mean = |parts: &[Vec<u32>]| {
            let domains = parts.iter().flatten();
            let nodes: u32 = domains.map(|&domain| self.size(domain)).sum();
            (!parts.is_empty()).then(|| f64::from(nodes) / parts.len() as f64)
        };
        match component {
            Component::Leaf => mean(&self.leaves),
            Component::Rack => mean(&self.racks),
            Component::Nvswitch if !self.domains.is_empty() => {
                let nodes: u32 = self.domains.iter().sum();
                Some(f64::from(nodes) / self.domains.len() as f64)
            }
            _ => None,
        }
    }

    /// Nodes of a domain.
    fn size(&self, domain: u32) -> u32 {
        self.domains.get(domain as usize).copied().unwrap_or(1)
    }

    /// The domain of a node that `share`, 0 to 1, draws.
    fn of_node(&self, share: f64) -> u32 {
        let all: u32 = self.domains.iter().sum();
        let mut left = (share * f64::from(all)) as u32;
        let found = self.domains.iter().position(|&size| {
            let here = left < size;
            left = left.saturating_sub(size);
            here
        });
        found.unwrap_or(self.domains.len().saturating_sub(1)) as u32
    }

    /// The domains that a failure of a part that nodes share stops; `None` if it is a part of one node.
    /// `share`, 0 to 1, draws which of the parts.
    pub(super) fn stopped_by(&self, component: Component, share: f64) -> Option<Vec<u32>> {
        let drawn = |parts: &[Vec<u32>]| {
            let place = (share * parts.len() as f64) as usize;
            parts.get(place).cloned()
        };
        match component {
            Component::Leaf => drawn(&self.leaves),
            Component::Rack => drawn(&self.racks),
            // Each domain has as many NVSwitches, however many nodes.
            Component::Nvswitch if !self.domains.is_empty() => {
                Some(vec![(share * self.domains.len() as f64) as u32])
            }
            _ => None,
        }
    }
}

/// The domain of each node, and how many nodes each has.
fn domains(topology: &Topology) -> (Vec<u32>, Vec<u32>) {
    let mut of_node: Vec<Option<u32>> = vec![None; topology.nodes.len()];
    let mut seen = vec![false; topology.device_count()];
    let mut sizes = Vec::new();
    for (number, node) in topology.nodes.iter().enumerate() {
        if of_node[number].is_some() {
            continue;
        }
        let domain = sizes.len() as u32;
        of_node[number] = Some(domain);
        let mut size = 1;
        let mut next: Vec<DeviceId> = node.gpus.clone();
        while let Some(device) = next.pop() {
            if std::mem::replace(&mut seen[device.index()], true) {
                continue;
            }
            if let Some(of) = topology
                .node_of(device)
                .map(fabricsim_topology::NodeId::index)
                && of_node[of].is_none()
            {
                of_node[of] = Some(domain);
                size += 1;
                next.extend(&topology.nodes[of].gpus);
            }
            let nvlinks = topology.links_out_of(device).filter(|(link, to)| {
                let kind = topology.device(*to).kind;
                topology.family(*link) == LinkFamily::Nvlink
                    && matches!(kind, DeviceKind::Gpu | DeviceKind::NvSwitch)
            });
            next.extend(nvlinks.map(|(_, to)| to));
        }
        sizes.push(size);
    }
    (
        of_node.into_iter().map(Option::unwrap_or_default).collect(),
        sizes,
    )
}

/// What is out during a run. Times are what is left of the run when something is back.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// When nodes are back, and how many. All repairs take equally long, so that the first out is the first
    /// back.
    out: VecDeque<(Span, u32)>,
    /// Of each domain that goes on with spare nodes of its own, when those that are out are back.
    trays: BTreeMap<u32, VecDeque<Span>>,
}

impl Outages {
    /// A node of some domain is out, which `share`, 0 to 1, draws. The domain goes on as long as no more
    /// than `spare` of its nodes are out, else it is out as a whole.
    pub(super) fn node(
        &mut self,
        parts: &SharedParts,
        (share, spare): (f64, u32),
        (left, back): (Span, Span),
    ) {
        if parts.domains.is_empty() {
            self.out.push_back((back, 1));
            return;
        }
        let domain = parts.of_node(share);
        let trays = self.trays.entry(domain).or_default();
        trays.retain(|&other| other < left);
        trays.push_back(back);
        if trays.len() > spare as usize {
            self.domains(parts, &[domain], back);
        }
    }

    /// Domains are out as a whole. Others take their place, with all nodes.
    pub(super) fn domains(&mut self, parts: &SharedParts, domains: &[u32], back: Span) {
        for domain in domains {
            self.trays.remove(domain);
        }
        let nodes = domains.iter().map(|&domain| parts.size(domain)).sum();
        self.out.push_back((back, nodes));
    }

    /// What is left of the run once no more nodes are out than there are spares.
    pub(super) fn wait(&mut self, mut left: Span, spares: u32) -> Span {
        while self.out.front().is_some_and(|&(back, _)| left <= back) {
            self.out.pop_front();
        }
        let mut nodes: u64 = self.out.iter().map(|&(_, nodes)| u64::from(nodes)).sum();
        while u64::from(spares) < nodes {
            let Some((back, some)) = self.out.pop_front() else {
                break;
            };
            nodes -= u64::from(some);
            left = left.min(back);
        }
        left
    }
}
