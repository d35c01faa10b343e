//! The topology file: components, instances and fabrics.
//!
//! A **component** is a reusable block (one server): devices, links between them, and
//! groups of devices that face outwards (**ports**). An **instance** is a component
//! repeated `count` times. A **fabric** joins ports by a network of switches. Thirty-two
//! servers take no more lines than one.
//!
//! Strict JSON: unknown fields are refused, variants are externally tagged (so that an
//! error keeps its path), quantities are strings with units, every object may carry a
//! `"comment"`.
//!
//! **Selectors** name devices: `gpu[*]` all, `gpu[3]` one, `gpu[0-3]` a range (inclusive),
//! `gpu[0,2,5-7]` a list, `cpu` the same as `cpu[*]`. Inside a component with
//! instances, `tray[*]/gpu[*]` reaches into them. Several selectors are joined by commas:
//! `nic[0-3], hca[0]`; the order written is the order selected.
//!
//! Instances of one name in one list share a numbering, so `rack` × 2 of one component and
//! `rack` × 1 of another are `rack0`, `rack1` and `rack2`.

use super::hardware::{Hardware, Sourced};
use fabricsim_units::Money;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A topology file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologySpec {
    /// JSON Schema of this file, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Short name, as given to `--topology`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where the wiring comes from.
    pub source: String,
    /// Models of this file's own; they take precedence over the shipped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The blocks, by name.
    pub components: BTreeMap<String, ComponentSpec>,
    /// What the machine consists of.
    pub instances: Vec<InstanceSpec>,
    /// The networks that join the instances, by name.
    #[serde(default)]
    pub fabrics: BTreeMap<String, FabricSpec>,
}

/// A reusable block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// True for the block that is one node (one operating system): `--nodes` counts these.
    #[serde(default)]
    pub node: bool,
    /// What one costs, with all that is in it: a server, a rack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Sourced<Money>>,
    /// Devices, by name; GPUs are ranked in this order of names, then by index.
    #[serde(default)]
    pub devices: BTreeMap<String, DeviceSpec>,
    /// Blocks inside this one.
    #[serde(default)]
    pub instances: Vec<InstanceSpec>,
    /// Wires. Each stands for both directions.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Groups of devices that fabrics may join, by name; each is a selector.
    #[serde(default)]
    pub ports: BTreeMap<String, String>,
}

/// Some equal devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A name among the hardware's devices.
    pub model: String,
    /// How many; 1 if absent.
    #[serde(default = "one")]
    pub count: u32,
    /// Of NICs: their RDMA names (`mlx5_0`, as `ibv_devices` lists them), in order, which NCCL_IB_HCA
    /// goes by. If absent, they are taken to be `mlx5_0`, `mlx5_1` … in the order of the ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rdma: Vec<String>,
}

fn one() -> u32 {
    1
}

/// A component, repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What the copies are called: `node` gives `node0`, `node1` …
    pub name: String,
    /// A name among the components.
    pub component: String,
    /// How many; 1 if absent.
    #[serde(default = "one")]
    pub count: u32,
}

/// How the two ends of a link pair up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// Every device of `from` with every device of `to`.
    #[default]
    All,
    /// The first with the first, the second with the second …; both ends have the same number.
    Each,
}

/// Wires between devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// One end, as a selector: `gpu[*]`, `nic[0-3]`.
    pub from: String,
    /// The other end, as a selector.
    pub to: String,
    /// A name among the hardware's links.
    pub link: String,
    /// Lanes (PCIe) or parallel links (NVLink) of each wire; 1 if absent.
    #[serde(default = "one")]
    pub lanes: u32,
    /// How the ends pair up; `all` if absent.
    #[serde(default, rename = "match")]
    pub pairing: Match,
}

/// A network that joins ports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A port group by name: every device that any instance declares under it takes part.
    pub ports: String,
    /// The cable between a port and its switch: a name among the hardware's links.
    pub port_link: String,
    /// The cable between switches; the same as `port_link` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_link: Option<String>,
    /// The switch: a name among the hardware's devices.
    pub switch: String,
    /// The switch above the leaves (tiers 1 and 2); the same as `switch` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_switch: Option<String>,
    /// How the switches are wired.
    pub shape: FabricShape,
    /// How a path is chosen among equals; `adaptive` if absent.
    #[serde(default)]
    pub routing: RoutingPolicy,
}

/// How a fabric's switches are wired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FabricShape {
    /// One switch with as many ports as needed (its `ports` are not checked).
    SingleSwitch(SingleSwitch),
    /// Leaves that take consecutive ports, joined by spines (and cores, when the leaves
    /// outnumber a spine's ports).
    LeafSpine(LeafSpine),
    /// A unit of nodes has one leaf per rail: leaf `r` takes port `r` of each node. Leaves are
    /// joined by spines, and cores when needed.
    RailOptimized(RailOptimized),
    /// Each rail is a network of its own; rails meet only inside the nodes.
    RailOnly(RailOptimized),
    /// Groups of switches, each joined to all others of its group; between any two groups
    /// there are a few cables.
    Dragonfly(Dragonfly),
    /// Switches and cables one by one.
    Explicit(ExplicitFabric),
}

/// One switch with as many ports as needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SingleSwitch {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Leaves that take consecutive ports, joined by spines, and by cores where leaves outnumber ports of a spine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafSpine {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Ports per leaf; half the switch's ports if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports_per_leaf: Option<u32>,
    /// Spines; if absent, what a non-blocking fabric needs, divided by `oversubscription`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Ports down : up of a leaf; 1 (non-blocking) if absent.
    #[serde(default = "unity")]
    pub oversubscription: f64,
    /// Leaves whose spines form a pod when there are three tiers; half the ports of a spine
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_per_pod: Option<u32>,
    /// Ports down : up of a spine when there are three tiers; 1 (non-blocking) if absent.
    #[serde(default = "unity")]
    pub core_oversubscription: f64,
}

/// Leaves that take one port of each node, alone (`rail_only`) or joined by spines and cores
/// (`rail_optimized`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RailOptimized {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Nodes that share a set of leaves; half the switch's ports if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_per_unit: Option<u32>,
    /// Spines; if absent, what a non-blocking fabric needs, divided by `oversubscription`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Ports down : up of a leaf; 1 (non-blocking) if absent.
    #[serde(default = "unity")]
    pub oversubscription: f64,
    /// Leaves whose spines form a pod when there are three tiers; half the ports of a spine
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves_per_pod: Option<u32>,
    /// Ports down : up of a spine when there are three tiers; 1 (non-blocking) if absent.
    #[serde(default = "unity")]
    pub core_oversubscription: f64,
}

fn unity() -> f64 {
    1.0
}

/// Groups of switches, each joined to all others of its group, with a few cables between any two groups.
///
/// The nodes fill one group after the other. A group consists of blocks of as many switches
/// as a node has ports: each port of a node is on another switch of its block. A group has all its
/// switches, however few nodes there are: traffic inside it takes detours over all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dragonfly {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Ports of a switch for NICs.
    pub ports_per_switch: u32,
    /// Switches of a group.
    pub switches_per_group: u32,
    /// Cables between any two switches of a group; 1 if absent.
    #[serde(default = "one")]
    pub local_cables: u32,
    /// Cables between any two groups.
    pub global_cables: u32,
}

/// Switches and cables one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplicitFabric {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Number of switches: `switch[0]` …
    pub switches: u32,
    /// Ports of a switch of tier 0 that are for NICs, by which its watts are shared out; if absent,
    /// those that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf_ports: Option<u32>,
    /// Cables. `from` is `switch[i]`, or a device by its full name (`node0/nic3`);
    /// `to` is `switch[j]`.
    pub cables: Vec<LinkSpec>,
    /// What the switches are called and where they stand, in their order; if absent, all are
    /// called `switch` and stand by their distance from the ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierSpec>,
}

/// Consecutive switches of an explicit fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    /// Their name without a number: `leaf`.
    pub name: String,
    /// 0 leaf, 1 spine, 2 core.
    pub tier: u8,
    /// How many.
    pub count: u32,
    /// The dragonfly group that they belong to; absent in fabrics without groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}

/// How a path is chosen among equally short ones through a fabric. Between groups of a
/// dragonfly all paths over one cable between the two groups count as equally short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingPolicy {
    /// Every packet picks the least loaded path: a flow spreads evenly over all of them.
    #[default]
    Adaptive,
    /// A hash of the flow picks one path, and one of parallel cables, whatever its load: flows may
    /// collide.
    Ecmp,
    /// The destination picks the path (d-mod-k, as InfiniBand's `ftree` does); parallel cables, to
    /// which destinations are dealt out evenly, count as one.
    Deterministic,
}
