//! Building the networks that join nodes: which switches, and which cables.
//!
//! Each shape turns the ports that take part into a [`Plan`]; the shapes know nothing of
//! the graph. What they leave out: cable lengths, and more than two kinds of switch in one
//! fabric.

mod clos;
mod dragonfly;
mod explicit;
mod leaf_spine;
mod rail;
mod single_switch;
#[cfg(test)]
mod tests;

use super::error::Fault;
use super::spec::{FabricShape, FabricSpec};

pub(super) use explicit::{Site, plan as explicit_plan};

/// A NIC that a fabric joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Port {
    /// Its device number.
    pub(super) device: u32,
    /// Its node, counted among the nodes that take part.
    pub(super) node: u32,
    /// Its number among the node's ports.
    pub(super) rail: u32,
}

/// A switch of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedSwitch {
    /// Its name without a number: `leaf`.
    pub(super) stem: String,
    /// 0 leaf, 1 spine, 2 core.
    pub(super) tier: u8,
    /// The group it belongs to, in a fabric that has groups.
    pub(super) group: Option<u32>,
}

/// What a cable is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CableKind {
    /// The fabric's `port_link`.
    Port,
    /// The fabric's `switch_link`.
    Switch,
    /// A link model of its own.
    Model(u16),
}

/// Where a cable starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At a device of this number.
    Device(u32),
    /// At a switch of the plan.
    Switch(u32),
}

/// Parallel cables to a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cable {
    pub(super) from: End,
    /// A switch of the plan.
    pub(super) to: u32,
    pub(super) lanes: u16,
    pub(super) kind: CableKind,
}

/// A fabric's switches and cables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) switches: Vec<PlannedSwitch>,
    pub(super) cables: Vec<Cable>,
    /// Ports of each leaf that are for NICs, whether one is there or not; 0 where no shape says it.
    pub(super) leaf_ports: u32,
}

/// What a shape needs to know beyond the ports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// Ports of one leaf.
    pub(super) radix: u32,
    /// Ports of one switch above the leaves.
    pub(super) upper_radix: u32,
    /// Raw rate of a port's cable over that of a cable between switches.
    pub(super) rate_ratio: f64,
}

/// The most switches of one name that a fabric may have: their numbers have 16 bits.
pub(super) const MAX_SWITCHES: u64 = 1 << 16;

/// A number of leaves, if a fabric can have as many.
fn leaves(count: u64, at: &str) -> Result<u32, Fault> {
    u32::try_from(count)
        .ok()
        .filter(|&n| u64::from(n) <= MAX_SWITCHES)
        .ok_or_else(|| {
            Fault::new(
                at,
                format!("{count} leaves"),
                format!("at most {MAX_SWITCHES}"),
            )
        })
}

impl Plan {
    /// Adds `count` switches and returns the number of the first.
    fn add_switches(&mut self, stem: &str, tier: u8, count: u32) -> u32 {
        let first = self.switches.len() as u32;
        self.switches.extend((0..count).map(|_| PlannedSwitch {
            stem: stem.to_owned(),
            tier,
            group: None,
        }));
        first
    }

    /// Joins two switches by parallel cables.
    fn add_trunk(&mut self, from: u32, to: u32, lanes: u32) {
        // Lanes are at most the ports of a switch, which `check::device_model` keeps in range.
        let lanes = u16::try_from(lanes).unwrap_or(u16::MAX);
        self.cables.push(Cable {
            from: End::Switch(from),
            to,
            lanes,
            kind: CableKind::Switch,
        });
    }

    fn add_port(&mut self, port: Port, leaf: u32) {
        self.cables.push(Cable {
            from: End::Device(port.device),
            to: leaf,
            lanes: 1,
            kind: CableKind::Port,
        });
    }
}

/// Plans a fabric of any shape but the explicit one, which needs names:
/// see [`explicit_plan`]. `at` is the place of the fabric in the file. Where the nodes are too many it
/// also says how many would fit.
pub(super) fn plan(
    spec: &FabricSpec,
    ports: &[Port],
    parts: Parts,
    at: &str,
) -> Result<Plan, Fault> {
    shaped(spec, ports, parts, at).map_err(|mut fault| {
        if !is_of_their_number(&fault) {
            return fault;
        }
        let fits = |nodes: u32| {
            let first = ports.iter().filter(|port| port.node < nodes);
            let first: Vec<Port> = first.copied().collect();
            shaped(spec, &first, parts, at).is_ok()
        };
        let nodes = ports.iter().map(|port| port.node + 1).max().unwrap_or(0);
        let most = last_that(nodes, fits);
        if most > 0 {
            fault.expected += &format!("; of the {nodes} nodes, at most {most} fit");
        }
        fault
    })
}

/// Whether a shape, or a dragonfly's cables between groups, cannot join as many nodes; all else is wrong
/// with single fields of the shape.
fn is_of_their_number(fault: &Fault) -> bool {
    let place = fault.path.rsplit('.').next();
    let places = [
        "leaf_spine",
        "rail_optimized",
        "rail_only",
        "dragonfly",
        "global_cables",
    ];
    place.is_some_and(|place| places.contains(&place))
}

/// The largest number below `end` for which `holds`, if that is so up to it and not from there on; 0 if
/// it is not so for 1.
fn last_that(end: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (0, end);
    while no > yes + 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// The plan of a shape.
fn shaped(spec: &FabricSpec, ports: &[Port], parts: Parts, at: &str) -> Result<Plan, Fault> {
    match &spec.shape {
        FabricShape::SingleSwitch(_) => Ok(single_switch::plan(ports, parts)),
        FabricShape::LeafSpine(shape) => {
            leaf_spine::plan(shape, ports, parts, &format!("{at}.shape.leaf_spine"))
        }
        FabricShape::RailOptimized(shape) => {
            rail::optimized(shape, ports, parts, &format!("{at}.shape.rail_optimized"))
        }
        FabricShape::RailOnly(shape) => {
            rail::only(shape, ports, parts, &format!("{at}.shape.rail_only"))
        }
        FabricShape::Dragonfly(shape) => {
            dragonfly::plan(shape, ports, parts, &format!("{at}.shape.dragonfly"))
        }
        FabricShape::Explicit(_) => Ok(Plan::default()),
    }
}
