//! Communications that are under way at once share the links that they meet on.

use super::rehearse::Rehearsed;
use crate::engine::resources::{PathId, Resource, Resources, Use};
use crate::engine::sharing::{Change, Sharing};
use crate::plan::job::{Disturbances, ExchangeId, GroupId, Job};
use crate::topology::LinkId;
use crate::units::{Bandwidth, Time};
use std::collections::BTreeMap;

/// The speed of a communication that has its links for itself; speeds are parts of it.
pub(super) const WHOLE: u64 = 1 << 20;

/// What a full link carries, in units in which an exchange's use of it is counted.
const FULL: u64 = 1 << 20;

/// What exchanges use of a link, and the link itself if it is not like others.
type Uses = (Vec<(u32, u32)>, Option<LinkId>);

/// Which communications are under way, and how fast each goes on.
pub(super) struct Contention {
    resources: Resources,
    sharing: Sharing,
    /// By exchange; `None` if it meets no other on any link.
    paths: Vec<Option<PathId>>,
    /// What each group is doing.
    active: Vec<Option<PathId>>,
    changed: Vec<Change>,
    /// Links changed: every speed is to be told anew.
    renewed: bool,
}

impl Contention {
    /// Nothing is under way. Of links only those matter that two exchanges use, together to
    /// more than is there, and those that are ever disturbed.
    pub(super) fn new(
        job: &Job,
        rehearsed: &[Rehearsed],
        rate: &impl Fn(LinkId) -> Bandwidth,
        disturbances: &dyn Disturbances,
    ) -> Self {
        let mut users: BTreeMap<LinkId, Vec<(u32, u32)>> = BTreeMap::new();
        for (index, alone) in rehearsed.iter().enumerate() {
            let seconds = alone.time.seconds();
            for &(link, bytes) in &alone.loads {
                let most = rate(link).bytes_per_sec() as f64 * seconds;
                let part = (bytes / most * FULL as f64).min(FULL as f64);
                if part >= 1.0 {
                    users
                        .entry(link)
                        .or_default()
                        .push((index as u32, part as u32));
                }
            }
        }
        let disturbed = disturbances.links();
        let mut merged: BTreeMap<Uses, Vec<LinkId>> = BTreeMap::new();
        for (link, uses) in users {
            let all: u64 = uses.iter().map(|u| u64::from(u.1)).sum();
            let apart = disturbed.contains(&link);
            if apart || (uses.len() > 1 && all > FULL) {
                let key = (uses, apart.then_some(link));
                merged.entry(key).or_default().push(link);
            }
        }
        let mut resources = Resources::default();
        let mut uses_of: Vec<Vec<Use>> = vec![Vec::new(); job.exchanges.len()];
        for ((uses, _), links) in merged {
            let resource = resources.all.len() as u32;
            for (exchange, weight) in uses {
                uses_of[exchange as usize].push(Use { resource, weight });
            }
            resources.all.push(Resource {
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
            paths,
            active: vec![None; job.groups.len()],
            changed: Vec::new(),
            renewed: false,
        };
        contention.links_changed(disturbances, Time::ZERO);
        contention
    }

    /// A group begins an exchange; `true` if its speed is to be learnt from
    /// [`Contention::speeds`], else it is [`WHOLE`] throughout.
    pub(super) fn start(&mut self, group: GroupId, exchange: ExchangeId) -> bool {
        let path = self.paths[exchange.0 as usize];
        self.active[group.0 as usize] = path;
        if let Some(path) = path {
            self.sharing.start(&self.resources, group.0, path, WHOLE);
        }
        path.is_some()
    }

    /// A group's exchange is over.
    pub(super) fn stop(&mut self, group: GroupId) {
        if self.active[group.0 as usize].take().is_some() {
            self.sharing.stop(group.0);
        }
    }

    /// Links have other rates from now on.
    pub(super) fn links_changed(&mut self, disturbances: &dyn Disturbances, at: Time) {
        for resource in &mut self.resources.all {
            let left = resource.links.iter().map(|&l| disturbances.link(l, at));
            let left = left.fold(1.0, f64::min).max(0.0);
            resource.capacity = (left * (WHOLE * FULL) as f64) as u64;
        }
        self.sharing = Sharing::new(&self.resources, self.active.len());
        self.renewed = true;
        for (group, path) in self.active.iter().enumerate() {
            if let Some(path) = *path {
                self.sharing
                    .start(&self.resources, group as u32, path, WHOLE);
            }
        }
    }

    /// Groups whose speed is new, each with its speed.
    pub(super) fn speeds(&mut self, told: &mut Vec<(GroupId, u64)>) {
        told.clear();
        if !self.sharing.is_dirty() && !self.renewed {
            return;
        }
        self.sharing.solve(&mut self.changed);
        if std::mem::take(&mut self.renewed) {
            let active = self.active.iter().enumerate().filter(|(_, p)| p.is_some());
            told.extend(active.map(|(g, _)| (GroupId(g as u32), self.sharing.rate(g as u32).0)));
            return;
        }
        for change in &self.changed {
            told.push((GroupId(change.flow), self.sharing.rate(change.flow).0));
        }
        told.sort_unstable();
    }
}
