//! Leaves that take consecutive ports, joined by spines.

use super::clos::{Sizing, join};
use super::{Parts, Plan, Port};
use crate::error::Fault;
use crate::spec::LeafSpine;

/// Plans the fabric. `at` is the place of the shape in the file.
pub(super) fn plan(
    shape: &LeafSpine,
    ports: &[Port],
    parts: Parts,
    at: &str,
) -> Result<Plan, Fault> {
    let sizing = Sizing {
        parts,
        down: shape.ports_per_leaf.unwrap_or(parts.radix / 2),
        oversubscription: shape.oversubscription,
        spines: shape.spines,
        leaves_per_pod: shape.leaves_per_pod,
        core_oversubscription: shape.core_oversubscription,
        down_field: "ports_per_leaf",
    };
    sizing.check(at)?;
    let mut plan = Plan {
        leaf_ports: sizing.down,
        ..Plan::default()
    };
    let leaves = super::leaves((ports.len() as u64).div_ceil(sizing.down.into()), at)?;
    let first = plan.add_switches("leaf", 0, leaves);
    for (i, &port) in ports.iter().enumerate() {
        plan.add_port(port, first + i as u32 / sizing.down);
    }
    join(&mut plan, first..first + leaves, &sizing, at)?;
    Ok(plan)
}
