//! Which nodes of a machine a scheduler gives to a job, and which rank it puts where.

use super::error::ScenarioError;
use super::refusal::{fault, refusal};
use fabricsim_fault::Ranks;
use fabricsim_topology::{DeviceId, Fault, Topology};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a scheduler gives to a job of a larger machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllocationSpec {
    /// These nodes, numbered from 0 as the machine has them: `"0-3, 17"`. All if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Ranks>,
    /// In place of `nodes`: so many of them, drawn by the scenario's seed: a fragmented machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scattered: Option<u32>,
    /// In place of both: these GPUs, numbered over the whole machine: `"0-3, 12-15"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Ranks>,
    /// Which rank is where; `block` if absent.
    #[serde(default)]
    pub distribution: Distribution,
}

/// Which rank is where, by Slurm's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// A node is filled before the next one.
    #[default]
    Block,
    /// Each next rank is on the next node.
    Cyclic,
    /// Nodes in an order that is drawn by the scenario's seed, each filled before the next one.
    Shuffled,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 3] = [
        Distribution::Block,
        Distribution::Cyclic,
        Distribution::Shuffled,
    ];

    /// What files and flags call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Block => "block",
            Distribution::Cyclic => "cyclic",
            Distribution::Shuffled => "shuffled",
        }
    }
}

/// The GPU of each rank, of the GPUs `all` of a machine, node by node.
///
/// # Errors
/// Nodes or GPUs that are not there, none, more than there are, several ways to say which.
pub(crate) fn allocated(
    topology: &Topology,
    all: Vec<DeviceId>,
    (spec, seed): (&AllocationSpec, u64),
    origin: &str,
) -> Result<Vec<DeviceId>, ScenarioError> {
    let refused = |wrong: Fault| refusal(origin, vec![wrong]);
    if let Some(wrong) = said_twice(spec) {
        return Err(refused(wrong));
    }
    if let Some(gpus) = &spec.gpus {
        let meant = gpus.resolve(topology, &all, "allocation.gpus");
        let meant = meant.map_err(|wrong| refused(of_machine(wrong, "GPUs", all.len())))?;
        let gpus = meant.into_iter().map(|gpu| all[gpu]).collect();
        return Ok(distributed(
            by_node(topology, gpus),
            spec.distribution,
            seed,
        ));
    }
    let mut nodes = by_node(topology, all);
    if let Some(meant) = &spec.nodes {
        // Nodes are found by their first GPU's place in a list of those.
        let firsts: Vec<DeviceId> = nodes.iter().filter_map(|n| n.first().copied()).collect();
        let meant = meant.resolve(topology, &firsts, "allocation.nodes");
        let meant = meant.map_err(|wrong| refused(of_machine(wrong, "nodes", firsts.len())))?;
        nodes = meant.into_iter().map(|n| nodes[n].clone()).collect();
    } else if let Some(count) = spec.scattered {
        if count == 0 || count as usize > nodes.len() {
            let expected = format!("1 to {}, the nodes of the machine", nodes.len());
            return Err(refused(fault(
                "allocation.scattered",
                count.to_string(),
                expected,
            )));
        }
        let mut drawn = shuffled(nodes.len(), seed);
        drawn.truncate(count as usize);
        drawn.sort_unstable();
        nodes = drawn.into_iter().map(|n| nodes[n].clone()).collect();
    }
    Ok(distributed(nodes, spec.distribution, seed))
}

/// How many nodes these GPUs are in.
pub(crate) fn nodes_of(topology: &Topology, gpus: impl IntoIterator<Item = DeviceId>) -> u32 {
    let nodes = gpus.into_iter().filter_map(|gpu| topology.node_of(gpu));
    let nodes: BTreeSet<_> = nodes.collect();
    nodes.len() as u32
}

/// What of `spec` says the same as something else of it.
fn said_twice(spec: &AllocationSpec) -> Option<Fault> {
    let said = [
        ("nodes", spec.nodes.is_some()),
        ("scattered", spec.scattered.is_some()),
        ("gpus", spec.gpus.is_some()),
    ];
    let said: Vec<&str> = said.iter().filter(|s| s.1).map(|s| s.0).collect();
    (said.len() > 1).then(|| {
        let expected = "one of `nodes`, `scattered` and `gpus`";
        fault("allocation", said.join(" and "), expected)
    })
}

/// A fault of ranks, said of nodes or GPUs.
fn of_machine(wrong: Fault, what: &str, count: usize) -> Fault {
    let last = count.saturating_sub(1);
    let expected = format!("{what} of the machine, 0 to {last}, such as \"0-3, 8\"");
    Fault { expected, ..wrong }
}

/// GPUs of the same node together, nodes and GPUs in order.
fn by_node(topology: &Topology, gpus: Vec<DeviceId>) -> Vec<Vec<DeviceId>> {
    let mut nodes: BTreeMap<_, Vec<DeviceId>> = BTreeMap::new();
    for gpu in gpus {
        nodes.entry(topology.node_of(gpu)).or_default().push(gpu);
    }
    nodes.into_values().collect()
}

fn distributed(nodes: Vec<Vec<DeviceId>>, distribution: Distribution, seed: u64) -> Vec<DeviceId> {
    match distribution {
        Distribution::Block => nodes.concat(),
        Distribution::Shuffled => {
            let order = shuffled(nodes.len(), seed);
            order.into_iter().flat_map(|n| nodes[n].clone()).collect()
        }
        Distribution::Cyclic => {
            let most = nodes.iter().map(Vec::len).max().unwrap_or(0);
            let round = |place| {
                nodes
                    .iter()
                    .filter_map(move |node| node.get(place).copied())
            };
            (0..most).flat_map(round).collect()
        }
    }
}

/// The numbers below `count` in an order that the seed draws: Fisher and Yates.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let drawn = generator.next_u64() % (last as u64 + 1);
        order.swap(last, drawn as usize);
    }
    order
}
