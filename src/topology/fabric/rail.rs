//! Rails: port `r` of every node on switches of its own.
//!
//! A unit of nodes has one leaf a rail. In the rail-optimised shape all leaves are joined
//! above; in the rail-only shape each rail is a network of its own, and traffic between
//! rails changes rail inside a node.

use super::clos::{Sizing, join};
use super::{Parts, Plan, Port};
use crate::error::Fault;
use crate::spec::RailOptimized;

/// Plans a rail-optimised fabric. `at` is the place of the shape in the file.
pub(super) fn optimized(
    shape: &RailOptimized,
    ports: &[Port],
    parts: Parts,
    at: &str,
) -> Result<Plan, Fault> {
    let sizing = sizing(shape, parts);
    sizing.check(at)?;
    let (units, rails) = extent(ports, sizing.down, at)?;
    let mut plan = Plan {
        leaf_ports: sizing.down,
        ..Plan::default()
    };
    let first = plan.add_switches("leaf", 0, units * rails);
    for &port in ports {
        let unit = port.node / sizing.down;
        plan.add_port(port, first + unit * rails + port.rail);
    }
    join(&mut plan, first..first + units * rails, &sizing, at)?;
    Ok(plan)
}

/// Plans a rail-only fabric. `at` is the place of the shape in the file.
pub(super) fn only(
    shape: &RailOptimized,
    ports: &[Port],
    parts: Parts,
    at: &str,
) -> Result<Plan, Fault> {
    let sizing = sizing(shape, parts);
    sizing.check(at)?;
    let (units, rails) = extent(ports, sizing.down, at)?;
    let mut plan = Plan {
        leaf_ports: sizing.down,
        ..Plan::default()
    };
    let mut first_leaf = Vec::new();
    let mut trunks = Vec::new();
    for _ in 0..rails {
        let first = plan.add_switches("leaf", 0, units);
        first_leaf.push(first);
        // Cables of the ports come before those between switches, as in the other shapes.
        let ports_only = std::mem::take(&mut plan.cables);
        join(&mut plan, first..first + units, &sizing, at)?;
        trunks.append(&mut plan.cables);
        plan.cables = ports_only;
    }
    for &port in ports {
        plan.add_port(
            port,
            first_leaf[port.rail as usize] + port.node / sizing.down,
        );
    }
    plan.cables.append(&mut trunks);
    Ok(plan)
}

fn sizing(shape: &RailOptimized, parts: Parts) -> Sizing {
    Sizing {
        parts,
        down: shape.nodes_per_unit.unwrap_or(parts.radix / 2),
        oversubscription: shape.oversubscription,
        spines: shape.spines,
        leaves_per_pod: shape.leaves_per_pod,
        core_oversubscription: shape.core_oversubscription,
        down_field: "nodes_per_unit",
    }
}

/// Units of nodes, and rails.
fn extent(ports: &[Port], nodes_per_unit: u32, at: &str) -> Result<(u32, u32), Fault> {
    let nodes = ports.iter().map(|p| p.node + 1).max().unwrap_or(0);
    let rails = ports.iter().map(|p| p.rail + 1).max().unwrap_or(0);
    let units = nodes.div_ceil(nodes_per_unit);
    super::leaves(u64::from(units) * u64::from(rails), at)?;
    Ok((units, rails))
}
