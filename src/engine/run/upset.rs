//! What disturbs a run: kernels that start late, ranks that are slow, links that change.
//!
//! How slow a rank is, is asked when a step of one of its workers is loaded, and holds for that
//! step. A link that changes is looked at as long as transfers use it: when the first of them
//! begins, and at each change until the last has ended. So nothing is to be done for what changes
//! while nobody is there, and a run ends however long its links go on changing.

use super::Run;
use super::ends::GROUP;
use crate::probe::{ActorId, Probe};
use crate::resources::{PathId, ResourceId, Resources};
use fabricsim_plan::{Disturbances, Stretch};
use fabricsim_topology::LinkId;
use fabricsim_units::Time;
use rustc_hash::FxHashMap;

/// Marks an event as the change of a link, in place of an actor or a group.
pub(super) const CHANGE: ActorId = GROUP | 1 << 30;

/// A link that changes so often while nothing else happens brings nobody on any more.
const IN_VAIN: u32 = 1 << 20;

/// What disturbs a run.
pub(super) struct Upset<'o> {
    by: &'o dyn Disturbances,
    /// How much longer the step at hand of each worker takes, and until when others would.
    stretched: Vec<(Stretch, Time)>,
    changing: Vec<Changing>,
    /// Which of `changing` a resource is.
    places: FxHashMap<ResourceId, u32>,
}

/// A resource whose rate changes.
struct Changing {
    resource: ResourceId,
    link: LinkId,
    /// All of it.
    capacity: u64,
    /// Its rate is what it is now; an event is queued for its next change, if there is one.
    watched: bool,
    /// Events at its last change, and how many of its changes saw as many.
    seen: (u64, u32),
}

impl<'o> Upset<'o> {
    pub(super) fn new(by: &'o dyn Disturbances, resources: &Resources, workers: u32) -> Self {
        let changing = (0..).zip(&resources.all).filter(|(_, r)| r.changes);
        let changing = changing.filter_map(|(resource, r)| {
            Some(Changing {
                resource,
                link: *r.links.first()?,
                capacity: r.capacity,
                watched: false,
                seen: (0, 0),
            })
        });
        let changing: Vec<Changing> = changing.collect();
        let places = (0..).zip(&changing).map(|(k, c)| (c.resource, k));
        Upset {
            by,
            stretched: vec![(Stretch::NONE, Time::ZERO); workers as usize],
            places: places.collect(),
            changing,
        }
    }
}

impl<P: Probe> Run<'_, '_, P> {
    /// How much later than it could a rank's kernel starts.
    pub(super) fn delay(&self, rank: usize, operation: u32) -> Time {
        let place = self.cast.rank(rank);
        let kind = usize::from(self.plan.rank_costs[place.index()]);
        let always = self.plan.costs[kind].late;
        let upset = self.upset.as_ref();
        always + upset.map_or(Time::ZERO, |u| u.by.delay(place, operation))
    }

    /// How much longer the step at hand of a worker takes than those of its class.
    #[inline]
    pub(super) fn stretch(&self, id: ActorId) -> Stretch {
        match &self.upset {
            Some(upset) if id < self.workers => upset.stretched[id as usize].0,
            _ => Stretch::NONE,
        }
    }

    /// Whether all other steps of a worker's kernel take as much longer as the one at hand.
    pub(super) fn keeps_stretch(&self, worker: ActorId) -> bool {
        let upset = self.upset.as_ref();
        upset.is_none_or(|u| u.stretched[worker as usize].1 == Time::MAX)
    }

    /// A worker's kernel begins: all that was known of its rank's speed is of another operation.
    pub(super) fn forget_stretch(&mut self, worker: ActorId) {
        if let Some(upset) = &mut self.upset {
            upset.stretched[worker as usize].1 = Time::ZERO;
        }
    }

    /// A worker loads a step: how much longer that takes.
    #[inline]
    pub(super) fn new_stretch(&mut self, worker: ActorId) -> Stretch {
        if self.upset.is_some() {
            self.ask_stretch(worker);
        }
        self.stretch(worker)
    }

    fn ask_stretch(&mut self, worker: ActorId) {
        let at = self.actors[worker as usize].free;
        let rank = self.rank_of(worker) as usize;
        let (place, operation) = (self.cast.rank(rank), self.ranks[rank].operation);
        let Some(upset) = &mut self.upset else { return };
        let known = &mut upset.stretched[worker as usize];
        if at >= known.1 {
            *known = upset.by.stretch(place, operation, at);
        }
    }

    /// A transfer is about to use these resources: those that change have to be looked at.
    pub(super) fn look_at_links(&mut self, path: PathId) {
        let Some(upset) = &self.upset else { return };
        if upset.changing.is_empty() {
            return;
        }
        let uses = self.machinery.resources.path(path).iter();
        let places = uses.filter_map(|u| upset.places.get(&u.resource).copied());
        let unwatched = places.filter(|&k| !upset.changing[k as usize].watched);
        for k in unwatched.collect::<Vec<_>>() {
            self.renew(k);
        }
    }

    /// The rate of a link changes, or may.
    pub(super) fn link_changes(&mut self, change: u32) {
        let Some(upset) = &mut self.upset else { return };
        let link = &mut upset.changing[change as usize];
        let (events, times) = link.seen;
        link.seen = (
            self.events,
            if events == self.events { times + 1 } else { 0 },
        );
        if link.seen.1 < IN_VAIN && self.sharing.user_of(link.resource).is_some() {
            self.renew(change);
        } else {
            link.watched = false;
        }
    }

    /// One of those who use the link that changes.
    pub(super) fn user_of_change(&self, change: u32) -> Option<ActorId> {
        let upset = self.upset.as_ref()?;
        self.sharing
            .user_of(upset.changing[change as usize].resource)
    }

    fn renew(&mut self, change: u32) {
        let Some(upset) = &mut self.upset else { return };
        let own = &mut upset.changing[change as usize];
        own.watched = true;
        let left = upset.by.link(own.link, self.now);
        let capacity = (own.capacity as f64 * left.clamp(0.0, 1.0)) as u64;
        // As little as that is is not nothing.
        let capacity = capacity.max(u64::from(left > 0.0));
        self.sharing.resize(own.resource, capacity);
        if let Some(next) = upset.by.next_link_change(own.link, self.now) {
            self.queue.push(next.picos(), (CHANGE | change, 0));
        }
    }
}
