//! What the cables of a built fabric come to: what each tier has above it beside what is below it, and
//! which leaf takes which rail.

use super::graph::{DeviceId, Fabric, NodeId, Topology};
use std::collections::BTreeMap;

/// Switches of one tier, or of a group where there are groups, and what they have above them.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// 0 leaf, 1 spine, 2 core.
    pub tier: u8,
    /// The least and the most oversubscription: the rate of all links from below over that of all links
    /// upwards (of a group: from its ports over to other groups). `None` if none of them goes upwards.
    pub oversubscription: Option<(f64, f64)>,
}

/// Rates of a switch's or a group's links, in bytes per second.
#[derive(Default, Clone, Copy)]
struct Sides {
    below: u64,
    above: u64,
}

/// The tiers of a fabric, from the leaves upwards; what has nothing above it is not counted among those
/// of a tier that have.
#[must_use]
pub fn tiers(topology: &Topology, fabric: &Fabric) -> Vec<Tier> {
    let place: BTreeMap<DeviceId, usize> = fabric.switches.iter().copied().zip(0..).collect();
    let grouped = !fabric.groups.is_empty();
    let key = |at: usize| match grouped {
        true => (fabric.tiers[at], fabric.groups[at]),
        false => (fabric.tiers[at], at as u32),
    };
    let mut sides: BTreeMap<(u8, u32), Sides> = BTreeMap::new();
    for (&switch, &at) in &place {
        let (own, sides) = (key(at), sides.entry(key(at)).or_default());
        for (link, far) in topology.links_out_of(switch) {
            let rate = topology.rate(link).bytes_per_sec();
            match place.get(&far).map(|&far| key(far)) {
                None => sides.below += rate,
                Some(far) if grouped && far != own => sides.above += rate,
                Some((tier, _)) if !grouped && tier > own.0 => sides.above += rate,
                Some((tier, _)) if !grouped && tier < own.0 => sides.below += rate,
                Some(_) => {}
            }
        }
    }
    let mut tiers: Vec<Tier> = Vec::new();
    for ((tier, _), sides) in sides {
        if tiers.last().is_none_or(|last| last.tier != tier) {
            tiers.push(Tier {
                tier,
                oversubscription: None,
            });
        }
        // Leaves without a port carry nothing from below.
        if let (Some(last), true) = (tiers.last_mut(), sides.above > 0 && sides.below > 0) {
            let ratio = sides.below as f64 / sides.above as f64;
            let (least, most) = last.oversubscription.unwrap_or((ratio, ratio));
            last.oversubscription = Some((least.min(ratio), most.max(ratio)));
        }
    }
    tiers
}

/// Leaves by the rail that they take: the how-manieth port of its node each of their NICs is. Empty in a
/// fabric where a leaf takes NICs of several rails, and where switches form groups.
#[must_use]
pub fn rails(topology: &Topology, fabric: &Fabric) -> BTreeMap<DeviceId, u32> {
    if !fabric.groups.is_empty() {
        return BTreeMap::new();
    }
    let mut ports_of: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut rails: BTreeMap<DeviceId, u32> = BTreeMap::new();
    for &port in &fabric.ports {
        let Some(node) = topology.node_of(port) else {
            return BTreeMap::new();
        };
        let count = ports_of.entry(node).or_default();
        let rail = *count;
        *count += 1;
        for (_, far) in topology.links_out_of(port) {
            let here = topology.places[topology.device(far).place as usize].fabric;
            if here.is_some() && *rails.entry(far).or_insert(rail) != rail {
                return BTreeMap::new();
            }
        }
    }
    rails
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::{Changes, compact};
    use crate::{Overrides, catalogue, expand, load};

    fn machine(name: &str, nodes: u32, oversubscription: Option<f64>) -> Topology {
        let changes = Changes {
            oversubscription,
            ..Changes::default()
        };
        let spec = match oversubscription {
            Some(_) => load::from_json(&compact(name, &changes).unwrap(), name).unwrap(),
            None => catalogue::find(name).unwrap(),
        };
        let nodes = Some(nodes);
        expand(&spec, catalogue::hardware(), &Overrides { nodes }).unwrap()
    }

    /// By tier: what goes up of what comes from below.
    fn ratios(topology: &Topology) -> Vec<Option<(f64, f64)>> {
        let tiers = tiers(topology, &topology.fabrics[0]);
        tiers.into_iter().map(|t| t.oversubscription).collect()
    }

    #[test]
    fn the_ratio_is_that_of_the_cables() {
        assert_eq!(
            ratios(&machine("superpod-h100", 64, None)),
            [Some((1.0, 1.0)), None]
        );
        for ratio in [2.0, 4.0] {
            let of = ratios(&machine("superpod-h100", 64, Some(ratio)));
            assert_eq!(of, [Some((ratio, ratio)), None]);
        }
        // Units that are not full have more above than they need.
        let of = ratios(&machine("superpod-h100", 48, Some(2.0)));
        let (least, most) = of[0].unwrap();
        assert!(least < most && most == 2.0, "{of:?}");
    }

    #[test]
    fn a_rail_is_a_leaf_of_each_unit() {
        let topology = machine("superpod-h100", 64, None);
        let fabric = &topology.fabrics[0];
        let rails = rails(&topology, fabric);
        assert_eq!(rails.len(), 16);
        let second: Vec<String> = rails
            .iter()
            .filter(|(_, rail)| **rail == 2)
            .map(|(&leaf, _)| topology.device_name(leaf))
            .collect();
        assert_eq!(second, ["compute/leaf2", "compute/leaf10"]);
    }

    #[test]
    fn leaves_that_take_whole_nodes_have_no_rails() {
        let topology = machine("llama3-24k", 64, None);
        assert!(rails(&topology, &topology.fabrics[0]).is_empty());
    }
}
