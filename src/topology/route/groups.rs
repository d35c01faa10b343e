//! Paths between groups of a dragonfly.
//!
//! The shortest path need not be one that such a network takes: over a third group two cables
//! may lead to the destination sooner than one between the two groups with a hop inside each.
//! Here a path leaves its group once: to a switch with a cable to the other group, over it,
//! and on to the destination's switch.
//!
//! Inside a group adaptive routing takes detours over every third switch once the cable between
//! two switches is busy (UGAL: Singh 2005; Slingshot: De Sensi et al. 2020). One cable carries no
//! more than one interface, so that a flow here always spreads over the cable and all detours.

use super::search::Adjacency;
use super::spread::gcd;
use super::{Hop, Route, Share};
use crate::graph::{DeviceId, LinkId, Topology};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// The links of a route between two switches, and their latency.
pub(super) type Middle = (Vec<Hop>, Time);

/// A cable between two groups.
#[derive(Debug, Clone, Copy)]
struct Cable {
    link: LinkId,
    /// The switch it leaves.
    exit: u32,
    /// The switch it enters.
    entry: u32,
}

/// The cables of a fabric between its groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By switch number; empty if the fabric has no groups.
    of: Vec<u32>,
    between: BTreeMap<(u32, u32), Vec<Cable>>,
}

/// A path from switch to switch, by the links before and behind the cable between groups.
struct Path {
    cable: Cable,
    before: Option<LinkId>,
    after: Option<LinkId>,
    lanes: u64,
}

impl Groups {
    /// `links` are all links between switches: from, to and the link.
    pub(super) fn new(of: &[u32], links: impl Iterator<Item = (u32, u32, LinkId)>) -> Groups {
        let mut between: BTreeMap<(u32, u32), Vec<Cable>> = BTreeMap::new();
        if !of.is_empty() {
            for (exit, entry, link) in links {
                let pair = (of[exit as usize], of[entry as usize]);
                if pair.0 != pair.1 {
                    between
                        .entry(pair)
                        .or_default()
                        .push(Cable { link, exit, entry });
                }
            }
            for cables in between.values_mut() {
                cables.sort_unstable_by_key(|cable| cable.link);
            }
        }
        Groups {
            of: of.to_vec(),
            between,
        }
    }

    /// Between two switches of a group that a cable joins: over it and over every switch of the
    /// group that neighbours both.
    pub(super) fn detours(
        &self,
        topology: &Topology,
        switches: &[DeviceId],
        (from, to): (u32, u32),
        onward: &Adjacency,
    ) -> Option<Middle> {
        let group = |switch: u32| self.of.get(switch as usize);
        let own = group(from).filter(|own| from != to && group(to) == Some(own))?;
        let direct = onward.link(from, to)?;
        let aside = |&&(third, _): &&(u32, LinkId)| third != to && group(third) == Some(own);
        let around: Vec<(LinkId, LinkId)> = onward
            .of(from)
            .iter()
            .filter(aside)
            .filter_map(|&(third, first)| Some((first, onward.link(third, to)?)))
            .collect();
        let share = Share {
            num: 1,
            den: u32::try_from(around.len() + 1).ok()?,
        };
        let (first, second): (Vec<_>, Vec<_>) = around.into_iter().unzip();
        let links = std::iter::once(direct).chain(first).chain(second);
        // A network at rest takes the cable.
        let ends = [from, to].map(|switch| topology.transit_latency(switches[switch as usize]));
        Some((
            links.map(|link| Hop { link, share }).collect(),
            ends[0] + topology.latency(direct) + ends[1],
        ))
    }

    /// From a port at one switch to a port at another, if the switches are of different groups
    /// with a cable between them. `up` and `down` are the ports' links with their switches;
    /// `local` finds the link between two switches of a group. `pick` names one of so many
    /// lanes; without it the transfer spreads over all.
    pub(super) fn route(
        &self,
        topology: &Topology,
        switches: &[DeviceId],
        up: (u32, LinkId),
        down: (u32, LinkId),
        local: impl Fn(u32, u32) -> Option<LinkId>,
        pick: Option<impl FnOnce(u64) -> u64>,
    ) -> Option<Route> {
        let group = |switch: u32| self.of.get(switch as usize).copied();
        let cables = self.between.get(&(group(up.0)?, group(down.0)?))?;
        // The link to another switch of the group; none is needed to the switch itself.
        let within = |from, to| {
            (from == to)
                .then_some(None)
                .or_else(|| local(from, to).map(Some))
        };
        let mut paths: Vec<Path> = cables
            .iter()
            .filter_map(|&cable| {
                Some(Path {
                    cable,
                    before: within(up.0, cable.exit)?,
                    after: within(cable.entry, down.0)?,
                    lanes: u64::from(topology.link(cable.link).lanes),
                })
            })
            .collect();
        let total: u64 = paths.iter().map(|path| path.lanes).sum();
        if total == 0 {
            return None;
        }
        if let Some(pick) = pick {
            let mut lane = pick(total);
            paths.retain(|path| {
                let chosen = lane < path.lanes;
                lane = if chosen {
                    u64::MAX
                } else {
                    lane.saturating_sub(path.lanes)
                };
                chosen
            });
        }
        let latency = paths
            .iter()
            .map(|path| {
                let mut latency = topology.latency(up.1) + topology.latency(down.1);
                latency += topology.transit_latency(switches[up.0 as usize]);
                // Every link between switches ends at one more switch.
                for link in [path.before, Some(path.cable.link), path.after]
                    .into_iter()
                    .flatten()
                {
                    latency += topology.latency(link);
                    latency += topology.transit_latency(topology.ends(link).1);
                }
                latency
            })
            .max()
            .unwrap_or(Time::ZERO);
        Some(Route {
            hops: hops(&paths, up.1, down.1)?,
            latency,
            ..Route::default()
        })
    }
}

/// Each link once, with its part of the transfer.
fn hops(paths: &[Path], up: LinkId, down: LinkId) -> Option<Vec<Hop>> {
    let total: u64 = paths.iter().map(|path| path.lanes).sum();
    let mut hops = vec![Hop {
        link: up,
        share: Share::WHOLE,
    }];
    let steps: [fn(&Path) -> Option<LinkId>; 3] = [
        |path| path.before,
        |path| Some(path.cable.link),
        |path| path.after,
    ];
    for step in steps {
        let mut lanes: BTreeMap<LinkId, u64> = BTreeMap::new();
        for path in paths {
            if let Some(link) = step(path) {
                *lanes.entry(link).or_default() += path.lanes;
            }
        }
        for (link, lanes) in lanes {
            let divisor = gcd(lanes, total).max(1);
            hops.push(Hop {
                link,
                share: Share {
                    num: u32::try_from(lanes / divisor).ok()?,
                    den: u32::try_from(total / divisor).ok()?,
                },
            });
        }
    }
    hops.push(Hop {
        link: down,
        share: Share::WHOLE,
    });
    Some(hops)
}
