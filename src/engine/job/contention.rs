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
//!
//! A transfer of a job is one of these transfers. In a job that has any, links of several rates meet
//! (a GPU's, a network's, a disk's), and what is equal is bytes per second; else shares of links.

mod users;

pub(super) use users::Phases;

use super::rehearse::Rehearsed;
use crate::resources::{PathId, Resource, Resources, Use};
use crate::sharing::{Change, Limit, Sharing};
use fabricsim_plan::job::{ExchangeId, GroupId, Job, JobDisturbances, TransferRouteId};
use fabricsim_topology::LinkId;
use fabricsim_units::{Bandwidth, Time};
use std::collections::BTreeMap;
use users::{User, Users};

/// Units of sharing, which counts in whole numbers.
#[derive(Clone, Copy)]
struct Scale {
    /// The speed of a communication that has its links for itself; speeds are parts of it.
    whole: u64,
    /// What a full link carries, in units in which an exchange's use of it is counted.
    full: u64,
}

/// Of jobs whose communications alone share links.
const COMMUNICATIONS: Scale = Scale {
    whole: 1 << 20,
    full: 1 << 20,
};

/// Of jobs with transfers, whose links differ more.
const WITH_TRANSFERS: Scale = Scale {
    whole: 1 << 28,
    full: 1 << 24,
};

/// Whole numbers hide how much of a transfer's own speed it is short of, up to this part of it.
const ROUNDED: f64 = 1e-6;

/// What flows: the operation of a group, or the transfer in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flow {
    Group(GroupId),
    Transfer(u32),
}

/// What exchanges use of a link, and the link itself if it is not like others.
type Uses = (Vec<(u32, u32)>, Option<LinkId>);

/// Which communications and transfers are under way, and how fast each goes on.
pub(super) struct Contention {
    resources: Resources,
    sharing: Sharing,
    /// By exchange.
    phases: Vec<Phases>,
    /// By exchange; `None` if it meets no other on any link.
    paths: Vec<Option<PathId>>,
    /// By exchange: its speed when all get as much for each transfer, as part of the fastest.
    pulls: Vec<f64>,
    /// What each group is doing, if it meets others there, and at which part of its whole speed at
    /// most.
    active: Vec<Option<(ExchangeId, f64)>>,
    changed: Vec<Change>,
    scale: Scale,
    /// How many exchanges there are; behind theirs, `paths` and `pulls` have those of routes.
    exchanges: usize,
    /// By route: bytes per second of its narrowest link.
    narrowest: Vec<f64>,
    /// By exchange and, behind those, route: bytes per second that a transfer's whole speed stands for,
    /// the narrowest of all.
    reference: Vec<f64>,
    /// By slot of a transfer: its route and own speed, while it flows.
    flowing: Vec<Option<(u32, f64)>>,
}

impl Contention {
    /// Nothing is under way. Of links only those matter that two exchanges use, together to
    /// more than is there, those that transfers use, and those that are ever disturbed.
    pub(super) fn new(
        job: &Job,
        rehearsed: &[Rehearsed],
        rate: &impl Fn(LinkId) -> Bandwidth,
        disturbances: &dyn JobDisturbances,
        apart: bool,
    ) -> Self {
        let scale = match job.transfer_routes.is_empty() && !apart {
            true => COMMUNICATIONS,
            false => WITH_TRANSFERS,
        };
        let exchanges = rehearsed.len();
        let all = exchanges + job.transfer_routes.len();
        let mut users = Users::new(rehearsed, &job.transfer_routes, rate, (scale, apart));
        let disturbed = disturbances.links();
        users.of_link.retain(|link, users| {
            // Of the transfers of a route several may go on at once.
            let routes = users.iter().any(|u| u.number as usize >= exchanges);
            let sum: u64 = users.iter().map(|u| u64::from(u.part)).sum();
            routes || disturbed.contains(link) || (users.len() > 1 && sum > scale.full)
        });
        let pulls = users.pulls(all);
        let mut merged: BTreeMap<Uses, Vec<LinkId>> = BTreeMap::new();
        for (link, users) in users.of_link {
            let weight = |u: &User| f64::from(u.part) * pulls[u.number as usize];
            let uses = users
                .iter()
                .map(|u| (u.number, (weight(u) as u32).max(1)))
                .collect();
            let apart = disturbed.contains(&link).then_some(link);
            merged.entry((uses, apart)).or_default().push(link);
        }
        let mut resources = Resources::default();
        let mut uses_of: Vec<Vec<Use>> = vec![Vec::new(); all];
        for ((uses, _), links) in merged {
            let resource = resources.all.len() as u32;
            for (number, weight) in uses {
                uses_of[number as usize].push(Use { resource, weight });
            }
            resources.all.push(Resource {
                changes: false,
                links: links.into(),
                capacity: scale.whole * scale.full,
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
            phases: users.phases,
            paths,
            pulls,
            active: vec![None; job.groups.len()],
            changed: Vec::new(),
            scale,
            exchanges,
            narrowest: users.narrowest,
            reference: users.reference,
            flowing: Vec::new(),
        };
        contention.links_changed(disturbances, Time::ZERO);
        contention
    }

    /// An exchange's parts; none if it meets no other, nor a link that is ever disturbed.
    pub(super) fn phases(&self, exchange: ExchangeId) -> Option<Phases> {
        self.paths[exchange.0 as usize].map(|_| self.phases[exchange.0 as usize])
    }

    /// An exchange's parts, whether it meets others or not.
    pub(super) fn parts(&self, exchange: ExchangeId) -> Phases {
        self.phases[exchange.0 as usize]
    }

    /// A group begins to move what an exchange moves, at no more than `turns` of its whole speed; its
    /// speed is to be learnt from [`Contention::speeds`].
    pub(super) fn start(&mut self, group: GroupId, exchange: ExchangeId, turns: f64) {
        self.active[group.0 as usize] = Some((exchange, turns));
        if let Some(path) = self.paths[exchange.0 as usize] {
            // At most it gets what makes it go as if alone.
            let whole = self.scale.whole as f64 * turns;
            let cap = (whole / self.pulls[exchange.0 as usize]) as u64;
            self.sharing.start(&self.resources, group.0, path, cap);
        }
    }

    /// Bytes per second of a route's narrowest link.
    pub(super) fn narrowest(&self, route: TransferRouteId) -> f64 {
        self.narrowest[route.0 as usize]
    }

    /// The transfer in a slot begins to flow, by itself at so many bytes per second; its speed is
    /// to be learnt from [`Contention::speeds`]. False if no link of its route can hold it up.
    pub(super) fn start_transfer(&mut self, slot: u32, route: TransferRouteId, own: f64) -> bool {
        let number = self.exchanges + route.0 as usize;
        let Some(path) = self.paths[number] else {
            return false;
        };
        let flow = self.active.len() as u32 + slot;
        if self.flowing.len() <= slot as usize {
            self.flowing.resize(slot as usize + 1, None);
            self.sharing.make_room(flow as usize + 1);
        }
        self.flowing[slot as usize] = Some((route.0, own));
        let cap = self.scale.whole as f64 * (own / self.reference[number]) / self.pulls[number];
        self.sharing
            .start(&self.resources, flow, path, (cap as u64).max(1));
        true
    }

    /// What flowed does not any more.
    pub(super) fn stop(&mut self, flow: Flow) {
        let (was, number) = match flow {
            Flow::Group(group) => {
                let active = self.active[group.0 as usize].take();
                (active.is_some(), group.0)
            }
            Flow::Transfer(slot) => {
                let flowing = self.flowing.get_mut(slot as usize).and_then(Option::take);
                (flowing.is_some(), self.active.len() as u32 + slot)
            }
        };
        if was {
            self.sharing.stop(number);
        }
    }

    /// Links have other rates from now on.
    pub(super) fn links_changed(&mut self, disturbances: &dyn JobDisturbances, at: Time) {
        for (id, resource) in (0..).zip(&self.resources.all) {
            let left = resource.links.iter().map(|&l| disturbances.link(l, at));
            let left = left.fold(1.0, f64::min).max(0.0);
            let capacity = (left * (self.scale.whole * self.scale.full) as f64) as u64;
            self.sharing.resize(id, capacity);
        }
    }

    /// How fast a group goes on, as part of its whole speed.
    fn speed_of_group(&self, group: u32) -> f64 {
        let whole = self.scale.whole;
        let (rate, limit) = self.sharing.rate(group);
        match self.active[group as usize] {
            Some((exchange, turns)) if limit != Limit::Cap => {
                let speed = rate as f64 * self.pulls[exchange.0 as usize];
                ((speed as u64).min(whole) as f64 / whole as f64).min(turns)
            }
            Some((_, turns)) => turns,
            None => 1.0,
        }
    }

    /// How fast a transfer flows, in bytes per second.
    fn speed_of_transfer(&self, slot: u32) -> f64 {
        let Some((route, own)) = self.flowing.get(slot as usize).copied().flatten() else {
            return 0.0;
        };
        let (rate, limit) = self.sharing.rate(self.active.len() as u32 + slot);
        let number = self.exchanges + route as usize;
        let (pull, reference) = (self.pulls[number], self.reference[number]);
        let speed = rate as f64 / self.scale.whole as f64 * pull * reference;
        if limit == Limit::Cap || speed >= own * (1.0 - ROUNDED) {
            own
        } else {
            speed
        }
    }

    /// What flows at a new speed: groups as parts of their whole speed, transfers in bytes per
    /// second.
    pub(super) fn speeds(&mut self, told: &mut Vec<(Flow, f64)>) {
        told.clear();
        if !self.sharing.is_dirty() {
            return;
        }
        self.sharing.solve(&mut self.changed);
        self.changed.sort_unstable_by_key(|change| change.flow);
        let groups = self.active.len() as u32;
        for change in &self.changed {
            told.push(match change.flow.checked_sub(groups) {
                None => (
                    Flow::Group(GroupId(change.flow)),
                    self.speed_of_group(change.flow),
                ),
                Some(slot) => (Flow::Transfer(slot), self.speed_of_transfer(slot)),
            });
        }
    }
}
