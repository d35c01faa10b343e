//! Communications that are under way at once share the links that they meet on.
//!
//! A communication does not ask for links all of its time: kernels start, the first bytes go from
//! rank to rank, the last ones arrive. So much of its time as its bytes take on the link that it uses
//! most it **moves** them; before and after that it goes on whatever others do. What is before and
//! what after is not known; kernels start before, and of the rest each has half.
//!
//! A full link gives each transfer as much, so that a communication gets of it what its transfers
//! get together: speeds are in the ratio of how many there are to what the communication would use
//! alone.

use super::rehearse::{Load, Rehearsed};
use crate::resources::{PathId, Resource, Resources, Use};
use crate::sharing::{Change, Limit, Sharing};
use fabricsim_plan::job::{ExchangeId, GroupId, Job, JobDisturbances};
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The speed of a communication that has its links for itself; speeds are parts of it.
pub(super) const WHOLE: u64 = 1 << 20;

/// What a full link carries, in units in which an exchange's use of it is counted.
const FULL: u64 = 1 << 20;

/// An exchange on a link: its use of it, and how many of its transfers are there.
#[derive(Clone, Copy)]
struct User {
    exchange: u32,
    part: u32,
    streams: f64,
}

/// No exchange gets less than so much of what another one gets for the same use.
const LEAST_PULL: f64 = 1.0 / 1024.0;

/// What exchanges use of a link, and the link itself if it is not like others.
type Uses = (Vec<(u32, u32)>, Option<LinkId>);

/// The parts of what an exchange takes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phases {
    pub(super) before: Time,
    /// It asks for links.
    pub(super) moving: Time,
    pub(super) after: Time,
}

impl Phases {
    /// Of an exchange whose bytes take so many seconds on the link that has most to do.
    fn new(alone: &Rehearsed, busiest: f64) -> Self {
        let without_launch = alone.time.saturating_sub(alone.launch);
        let moving = Time::from_picos((busiest * 1e12).round() as u64).min(without_launch);
        let rest = without_launch - moving;
        let after = Time::from_picos(rest.picos() / 2);
        Phases {
            before: alone.time - moving - after,
            moving,
            after,
        }
    }
}

/// Which communications are under way, and how fast each goes on.
pub(super) struct Contention {
    resources: Resources,
    sharing: Sharing,
    /// By exchange.
    phases: Vec<Phases>,
    /// By exchange; `None` if it meets no other on any link.
    paths: Vec<Option<PathId>>,
    /// By exchange: its speed when all get as much for each transfer, as part of the fastest.
    pulls: Vec<f64>,
    /// What each group is doing, if it meets others there.
    active: Vec<Option<ExchangeId>>,
    changed: Vec<Change>,
}

impl Contention {
    /// Nothing is under way. Of links only those matter that two exchanges use, together to
    /// more than is there, and those that are ever disturbed.
    pub(super) fn new(
        job: &Job,
        rehearsed: &[Rehearsed],
        rate: &impl Fn(LinkId) -> Bandwidth,
        disturbances: &dyn JobDisturbances,
    ) -> Self {
        // Whoever makes a link lose takes from all who use it.
        let mut kept: FxHashMap<LinkId, f64> = FxHashMap::default();
        let loads = rehearsed.iter().flat_map(|alone| &alone.loads);
        for load in loads.filter(|load| load.kept < 1.0) {
            let least = kept.entry(load.link).or_insert(1.0);
            *least = least.min(load.kept);
        }
        // In seconds, on a link that does nothing else.
        let on_link = |load: &Load| {
            let kept = kept.get(&load.link).copied().unwrap_or(1.0);
            load.bytes / (rate(load.link).bytes_per_sec() as f64 * kept)
        };
        let mut users: BTreeMap<LinkId, Vec<User>> = BTreeMap::new();
        let mut phases = Vec::with_capacity(rehearsed.len());
        for (index, alone) in rehearsed.iter().enumerate() {
            let moves =
                |load: &Load| on_link(load).max(load.bytes / load.pace.bytes_per_sec() as f64);
            let busiest = alone.loads.iter().map(moves).fold(0.0, f64::max);
            phases.push(Phases::new(alone, busiest));
            for load in &alone.loads {
                let part = on_link(load) / busiest * FULL as f64;
                if part >= 1.0 {
                    users.entry(load.link).or_default().push(User {
                        exchange: index as u32,
                        part: part as u32,
                        streams: load.streams,
                    });
                }
            }
        }
        let disturbed = disturbances.links();
        users.retain(|link, users| {
            let all: u64 = users.iter().map(|u| u64::from(u.part)).sum();
            disturbed.contains(link) || (users.len() > 1 && all > FULL)
        });
        let pulls = pulls(job.exchanges.len(), users.values().flatten());
        let mut merged: BTreeMap<Uses, Vec<LinkId>> = BTreeMap::new();
        for (link, users) in users {
            let weight = |u: &User| f64::from(u.part) * pulls[u.exchange as usize];
            let uses = users
                .iter()
                .map(|u| (u.exchange, (weight(u) as u32).max(1)))
                .collect();
            let apart = disturbed.contains(&link).then_some(link);
            merged.entry((uses, apart)).or_default().push(link);
        }
        let mut resources = Resources::default();
        let mut uses_of: Vec<Vec<Use>> = vec![Vec::new(); job.exchanges.len()];
        for ((uses, _), links) in merged {
            let resource = resources.all.len() as u32;
            for (exchange, weight) in uses {
                uses_of[exchange as usize].push(Use { resource, weight });
            }
            resources.all.push(Resource {
                changes: false,
                links: links.into(),
                capacity: WHOLE * FULL,
            });
        }
        let paths = uses_of
            .into_iter()
            .map(|uses| (!uses.is_empty()).then(|| resources.add_path(uses.into_iter())))
            .collect();
        let sharing = Sharing::new(&resources, job.groups.len());
        let mut contention = Contention {
            resources,
            sharing,
            phases,
            paths,
            pulls,
            active: vec![None; job.groups.len()],
            changed: Vec::new(),
        };
        contention.links_changed(disturbances, Time::ZERO);
        contention
    }

    /// An exchange's parts; none if it meets no other, nor a link that is ever disturbed.
    pub(super) fn phases(&self, exchange: ExchangeId) -> Option<Phases> {
        self.paths[exchange.0 as usize].map(|_| self.phases[exchange.0 as usize])
    }

    /// A group begins to move what an exchange moves, at a speed to be learnt from
    /// [`Contention::speeds`].
    pub(super) fn start(&mut self, group: GroupId, exchange: ExchangeId) {
        self.active[group.0 as usize] = Some(exchange);
        if let Some(path) = self.paths[exchange.0 as usize] {
            // At most it gets what makes it go as if alone.
            let cap = (WHOLE as f64 / self.pulls[exchange.0 as usize]) as u64;
            self.sharing.start(&self.resources, group.0, path, cap);
        }
    }

    /// A group has moved all.
    pub(super) fn stop(&mut self, group: GroupId) {
        if self.active[group.0 as usize].take().is_some() {
            self.sharing.stop(group.0);
        }
    }

    /// Links have other rates from now on.
    pub(super) fn links_changed(&mut self, disturbances: &dyn JobDisturbances, at: Time) {
        for (id, resource) in (0..).zip(&self.resources.all) {
            let left = resource.links.iter().map(|&l| disturbances.link(l, at));
            let left = left.fold(1.0, f64::min).max(0.0);
            let capacity = (left * (WHOLE * FULL) as f64) as u64;
            self.sharing.resize(id, capacity);
        }
    }

    /// How fast a group goes on.
    fn speed(&self, group: u32) -> u64 {
        let (rate, limit) = self.sharing.rate(group);
        match self.active[group as usize] {
            Some(exchange) if limit != Limit::Cap => {
                let speed = rate as f64 * self.pulls[exchange.0 as usize];
                (speed as u64).min(WHOLE)
            }
            _ => WHOLE,
        }
    }

    /// Groups whose speed is new, each with its speed.
    pub(super) fn speeds(&mut self, told: &mut Vec<(GroupId, u64)>) {
        told.clear();
        if !self.sharing.is_dirty() {
            return;
        }
        self.sharing.solve(&mut self.changed);
        for change in &self.changed {
            told.push((GroupId(change.flow), self.speed(change.flow)));
        }
        told.sort_unstable();
    }
}

/// The ratio of transfers to use of each exchange where it uses a link most, as part of the largest.
fn pulls<'a>(exchanges: usize, users: impl Iterator<Item = &'a User>) -> Vec<f64> {
    let mut busiest = vec![(0, 1.0); exchanges];
    for user in users {
        let most = &mut busiest[user.exchange as usize];
        if user.part > most.0 {
            *most = (user.part, user.streams / f64::from(user.part));
        }
    }
    let met = busiest.iter().filter(|(part, _)| *part > 0);
    let largest = met.map(|&(_, pull)| pull).fold(0.0, f64::max);
    let part = |(part, pull)| if part > 0 { pull / largest } else { 1.0 };
    // A share of a thousandth is none: weights stay whole numbers of some size.
    let pulls = busiest.into_iter().map(part);
    pulls.map(|pull: f64| pull.max(LEAST_PULL)).collect()
}
