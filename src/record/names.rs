//! What the resources of a simulation are called: by their class, unless one of them stands out.

use super::words::{self, Words};
use fabricsim_engine::resources::ResourceId;
use fabricsim_engine::{Bins, Outcome};
use fabricsim_topology::{LinkId, Topology};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A resource that has this part of its class's time is named.
const STANDS_FOR_CLASS: f64 = 0.6;
/// … if it holds up others this much more than the mean of its class does: where all are
/// alike, the path runs over one of them by chance.
const STANDS_OUT: f64 = 1.5;

/// Words for the resources that anything was limited by.
pub(super) struct Names {
    of: FxHashMap<ResourceId, String>,
}

impl Names {
    /// `judged` is how long each resource limited what is told; `faulty` says of which links a fault
    /// takes something away.
    pub(super) fn new(
        topology: &Topology,
        outcome: &Outcome,
        judged: &BTreeMap<ResourceId, u128>,
        faulty: &dyn Fn(LinkId) -> bool,
    ) -> Self {
        let held_up = held_up(outcome);
        let mut words: BTreeMap<ResourceId, Words> = BTreeMap::new();
        let mut classes: BTreeMap<(String, bool), Vec<ResourceId>> = BTreeMap::new();
        let resources: BTreeSet<ResourceId> =
            judged.keys().chain(held_up.keys()).copied().collect();
        for resource in resources {
            let all = &outcome.resources.all;
            let links = all.get(resource as usize).map_or(&[][..], |r| &r.links);
            // Of links that fill together those that a fault touches are what limits.
            let struck: Vec<LinkId> = links.iter().copied().filter(|&l| faulty(l)).collect();
            let limiting = if struck.is_empty() { links } else { &struck };
            let own = words::describe(topology, limiting);
            let class = (own.class(), !struck.is_empty());
            classes.entry(class).or_default().push(resource);
            words.insert(resource, own);
        }
        let mut of = FxHashMap::default();
        for ((class, faulty), members) in &classes {
            let alone = stands_out(outcome, members, judged, &held_up);
            for &member in members {
                let name = || match alone {
                    Some(one) if one == member => words[&member].name.clone(),
                    Some(_) => words[&member].others(),
                    None => class.clone(),
                };
                let mark = if *faulty { " (faulty)" } else { "" };
                of.insert(member, name() + mark);
            }
        }
        Names { of }
    }

    pub(super) fn of(&self, resource: ResourceId) -> String {
        self.of.get(&resource).cloned().unwrap_or_default()
    }
}

/// For how many of its kind a resource stands.
fn size(outcome: &Outcome, resource: ResourceId) -> u32 {
    let folded = outcome.folded.as_ref();
    let size = folded.and_then(|f| f.resources.get(resource as usize).copied());
    size.unwrap_or(1).max(1)
}

/// How long each resource held up actors, all together, in picoseconds.
fn held_up(outcome: &Outcome) -> BTreeMap<ResourceId, f64> {
    let mut held_up = BTreeMap::new();
    let mut add = |(bins, count): (&Bins, u32)| {
        for &(resource, time) in &bins.limited {
            let own = time.picos() as f64 * f64::from(count);
            *held_up.entry(resource).or_insert(0.0) += own / f64::from(size(outcome, resource));
        }
    };
    outcome.bins().for_each(&mut add);
    outcome.proxy_bins().for_each(&mut add);
    held_up
}

/// The member of a class that is to be named, if one is: never one that stands for others.
fn stands_out(
    outcome: &Outcome,
    members: &[ResourceId],
    judged: &BTreeMap<ResourceId, u128>,
    held_up: &BTreeMap<ResourceId, f64>,
) -> Option<ResourceId> {
    let judged = |r: ResourceId| judged.get(&r).copied().unwrap_or(0);
    let all: u128 = members.iter().map(|&r| judged(r)).sum();
    let most = members
        .iter()
        .copied()
        .min_by_key(|&r| (Reverse(judged(r)), r))?;
    if size(outcome, most) > 1 {
        return None;
    }
    if members.len() == 1 {
        return Some(most);
    }
    let held_up = |r: ResourceId| held_up.get(&r).copied().unwrap_or(0.0);
    let weight = |r: ResourceId| f64::from(size(outcome, r));
    let sum: f64 = members.iter().map(|&r| held_up(r) * weight(r)).sum();
    let mean = sum / members.iter().map(|&r| weight(r)).sum::<f64>();
    let stands_for_class = all > 0 && judged(most) as f64 >= STANDS_FOR_CLASS * all as f64;
    (stands_for_class && held_up(most) >= STANDS_OUT * mean).then_some(most)
}
