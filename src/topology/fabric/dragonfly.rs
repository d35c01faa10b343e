//! Groups of switches: all joined to all inside a group, and a few cables between any two
//! groups (Kim, Dally, Scott and Abts 2008; HPE Slingshot).

use super::{MAX_SWITCHES, Parts, Plan, Port};
use crate::error::Fault;
use crate::spec::Dragonfly;
use crate::template::{MAX_WIRES, too_many_wires};

/// Plans the fabric. `at` is the place of the shape in the file.
pub(super) fn plan(
    shape: &Dragonfly,
    ports: &[Port],
    parts: Parts,
    at: &str,
) -> Result<Plan, Fault> {
    let extent = Extent::new(shape, ports, parts, at)?;
    let mut plan = Plan {
        leaf_ports: shape.ports_per_switch,
        ..Plan::default()
    };
    plan.add_switches("switch", 0, extent.groups * extent.switches);
    for (position, switch) in plan.switches.iter_mut().enumerate() {
        switch.group = Some(position as u32 / extent.switches);
    }
    for &port in ports {
        plan.add_port(port, extent.switch_of(port));
    }
    for group in 0..extent.groups {
        let first = group * extent.switches;
        for from in first..first + extent.switches {
            for to in from + 1..first + extent.switches {
                plan.add_trunk(from, to, shape.local_cables);
            }
        }
    }
    for from in 0..extent.groups {
        for to in from + 1..extent.groups {
            for cable in 0..shape.global_cables {
                plan.add_trunk(
                    extent.exit(from, to, cable, shape.global_cables),
                    extent.exit(to, from, cable, shape.global_cables),
                    1,
                );
            }
        }
    }
    Ok(plan)
}

/// How much of the shape a machine fills.
struct Extent {
    groups: u32,
    /// Of a group.
    switches: u32,
    /// Switches of a block, each with one port of the block's nodes.
    block: u32,
    nodes_per_block: u32,
    nodes_per_group: u32,
}

impl Extent {
    fn new(shape: &Dragonfly, ports: &[Port], parts: Parts, at: &str) -> Result<Extent, Fault> {
        let nodes = ports.iter().map(|p| p.node + 1).max().unwrap_or(0);
        let block = ports.iter().map(|p| p.rail + 1).max().unwrap_or(1);
        let count = |field: &str, found: u32, least: u32, most: u32, why: &str| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            Err(Fault::new(
                format!("{at}.{field}"),
                found.to_string(),
                format!("{least} to {most}: {why}"),
            ))
        };
        let radix = parts.radix;
        count(
            "ports_per_switch",
            shape.ports_per_switch,
            1,
            radix,
            "the ports of the switch",
        )?;
        let room = radix - shape.ports_per_switch;
        count(
            "switches_per_group",
            shape.switches_per_group,
            block,
            (room + 1).max(block),
            "from the ports of a node, each on a switch of its own, to what a switch has ports \
             for beside those of NICs",
        )?;
        let neighbours = shape.switches_per_group - 1;
        if let Some(most) = room.checked_div(neighbours) {
            count(
                "local_cables",
                shape.local_cables,
                1,
                most,
                "the ports that NICs leave, to each other switch of the group",
            )?;
        }
        let blocks = shape.switches_per_group / block;
        let nodes_per_block = shape.ports_per_switch;
        let nodes_per_group = nodes_per_block.saturating_mul(blocks);
        let groups = nodes.div_ceil(nodes_per_group).max(1);
        let switches = shape.switches_per_group;
        let local = neighbours * shape.local_cables;
        if groups > 1 {
            // Cables to other groups are dealt out one switch after the other.
            let free = u64::from(room - local) * u64::from(switches);
            let most = free / u64::from(groups - 1);
            count(
                "global_cables",
                shape.global_cables,
                1,
                u32::try_from(most).unwrap_or(u32::MAX),
                &format!("the ports left for cables to {} other groups", groups - 1),
            )?;
        }
        let all = u64::from(groups) * u64::from(switches);
        if all > MAX_SWITCHES {
            return Err(Fault::new(
                at,
                format!("{all} switches"),
                format!("at most {MAX_SWITCHES}"),
            ));
        }
        let global = u64::from(groups) * u64::from(groups) / 2 * u64::from(shape.global_cables);
        let wires = all * u64::from(switches) / 2 + global;
        if wires > MAX_WIRES {
            return Err(too_many_wires(at, wires));
        }
        Ok(Extent {
            groups,
            switches,
            block,
            nodes_per_block,
            nodes_per_group,
        })
    }

    /// Where a port is plugged in.
    fn switch_of(&self, port: Port) -> u32 {
        let (group, node) = (
            port.node / self.nodes_per_group,
            port.node % self.nodes_per_group,
        );
        group * self.switches + node / self.nodes_per_block * self.block + port.rail
    }

    /// The switch of group `from` that holds a cable to group `to`.
    fn exit(&self, from: u32, to: u32, cable: u32, cables: u32) -> u32 {
        let peer = if to > from { to - 1 } else { to };
        from * self.switches + (peer * cables + cable) % self.switches
    }
}
