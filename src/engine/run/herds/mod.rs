//! Herds: regions that do the same at the moment go on as one.
//!
//! Where ring all-reduces end with shorter blocks, no two ranks have the same to do: folding finds
//! nobody alike, and no state comes back. But such a block is at one place at a time. Everywhere
//! else regions of one kind, which have the same state and hear the same from their neighbours,
//! stay the same whatever they are next to. So regions are simulated a lookahead at a time, one
//! of each herd, its *leader*; then
//!
//! - a member that has heard something else than its leader leaves, with the leader's state;
//! - a region that is about to come to a step of its own goes alone until that is over;
//! - and those whose states have become the same are one herd again.
//!
//! All of that is looked at, nothing is assumed: times and bytes are those of simulating each
//! region by itself.

mod layout;
mod members;
mod state;

use super::Run;
use crate::fifo::{FifoId, News};
use crate::fold::Traces;
use crate::probe::{ActorId, Probe};
use crate::resources::ResourceId;
use crate::run::regions::{MOST_ACTORS, Regions};
use fabricsim_collective::Program;
use fabricsim_units::Time;
use layout::{Layout, Layouts};
use state::Counts;
use std::ops::Range;

/// A region goes alone at least so many steps before it comes to one of its own, or twice as many
/// as any worker ever took in a lookahead. Should one take more at the wrong moment, all is
/// simulated anew, with more of them or in another way.
pub(super) const MARGINS: [u64; 2] = [24, 96];

/// Where less of the steps belongs to a loop with shorter blocks, jumping over the others is better.
const SHARE: u64 = 8;

/// With fewer regions there is nothing to be saved.
const FEWEST: usize = if cfg!(test) { 3 } else { 8 };

/// So many are enough for most of them to be like others.
const MANY: usize = 64;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Herding {
    /// It is not worth it.
    Vain,
    /// Workers took more steps at once than was expected; all has to be done anew.
    Overrun,
    /// The simulation is over.
    Done,
}

/// The machine's herds.
pub(super) struct Herds {
    layouts: Layouts,
    /// The leader of each region; itself, if it is one.
    leader: Vec<u32>,
    /// Of leaders: all others of their herds.
    members: Vec<Vec<u32>>,
    /// Of members: what they have counted more than their leaders, if it is not the same.
    more: Vec<Option<Box<Counts>>>,
    /// Of each region: which of its workers come to steps of their own, by place, and which.
    uneven: Vec<Vec<(u32, Range<u64>)>>,
    /// How many steps each region's workers may take before that has to be looked at again.
    slack: Vec<u64>,
    /// It is at such a step, or will be soon.
    near: Vec<bool>,
    /// What regions have told others since the last lookahead: by place of the queue.
    told: Vec<Vec<(u32, News)>>,
    /// By worker: how many steps were loaded, in all operations so far.
    steps: Vec<u64>,
    /// By worker: its rank, by number.
    rank_of: Vec<u32>,
    /// How many steps before one of its own a region goes alone.
    margin: u64,
    /// Operations that ranks of leaders had finished when it was last looked at.
    finished: Vec<u32>,
}

impl Herds {
    fn layout(&self, region: u32) -> &Layout {
        &self.layouts.all[region as usize]
    }

    fn actor_at(&self, actor: ActorId) -> u32 {
        self.layouts.actor_at[actor as usize]
    }

    /// The place of a queue in its region.
    fn place_of(&self, fifo: FifoId) -> u32 {
        self.layouts
            .fifo_at
            .get(fifo as usize)
            .copied()
            .unwrap_or(u32::MAX)
    }

    fn resource_at(&self, region: u32, resource: ResourceId) -> u32 {
        let resources = &self.layout(region).resources;
        let place = resources.iter().position(|&r| r == resource);
        place.map_or(u32::MAX, |place| place as u32)
    }

    /// What a member has counted more than its leader; that is forgotten.
    fn more_of(&mut self, member: u32) -> Counts {
        let more = self.more[member as usize].take();
        more.map_or_else(Counts::default, |counts| *counts)
    }

    fn set_more(&mut self, member: u32, counts: Counts) {
        self.more[member as usize] = (!counts.is_nothing()).then(|| Box::new(counts));
    }

    fn leaders(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.leader)
            .filter(|&(r, &l)| r == l)
            .map(|(r, _)| r)
    }

    /// Whether two regions of one kind hear the same from a neighbour each, given by number.
    fn hear_the_same(&self, one: u32, other: u32, neighbour: usize) -> bool {
        let (a, b) = (self.layout(one), self.layout(other));
        let (from, and) = (a.neighbours[neighbour], b.neighbours[neighbour]);
        let (x, y) = (self.leader[from as usize], self.leader[and as usize]);
        let told = |leader: u32| &self.told[leader as usize];
        if told(x).is_empty() && told(y).is_empty() {
            return true;
        }
        let ports = a.ports.iter().zip(&b.ports);
        let mut ports = ports.filter(|(a, _)| a.region == from);
        ports.all(|(a, b)| {
            if x == y && a.far == b.far {
                return true;
            }
            let what = |&(_, news): &(u32, News)| (news.at, news.put);
            let one = of_queue(told(x), a.far).iter().map(what);
            one.eq(of_queue(told(y), b.far).iter().map(what))
        })
    }
}

/// What was told about the queue at a place.
fn of_queue(told: &[(u32, News)], place: u32) -> &[(u32, News)] {
    let first = told.partition_point(|t| t.0 < place);
    let all = told[first..].partition_point(|t| t.0 == place);
    &told[first..first + all]
}

impl<P: Probe> Run<'_, '_, P> {
    /// The regions of which herds could be.
    pub(super) fn regions_of_herds(&self) -> Option<Box<Regions>> {
        self.is_uneven().then(|| self.small_regions()).flatten()
    }

    /// Simulates with one region for all that do the same; `even` is the program if all its blocks
    /// were as long. Unless all is done then, this simulation is of no further use.
    pub(super) fn run_in_herds(
        &mut self,
        regions: Box<Regions>,
        even: &dyn Program,
        margin: u64,
    ) -> Herding {
        let of = regions.of.clone();
        let mut connections = self.machinery.connections();
        let halves = self.machinery.halve(&mut connections, |from, to| {
            of[from as usize] != of[to as usize]
        });
        for (proxy, actor) in self.machinery.proxies.iter().zip(self.workers..) {
            self.actors[actor as usize].recv = proxy.takes;
        }
        let Some(traces) = Traces::new(even, self.options.stop) else {
            return Herding::Vain;
        };
        let layouts = Layouts::new(self, &of, &halves, (&connections, &traces));
        let count = layouts.all.len();
        let kinds = layouts.all.iter().map(|l| l.kind).max().unwrap_or(0) as usize + 1;
        if kinds * 2 > count {
            return Herding::Vain;
        }
        let uneven = layouts.all.iter().map(|layout| self.uneven_of(layout));
        let mut herds = Herds {
            leader: (0..count as u32).collect(),
            members: vec![Vec::new(); count],
            more: (0..count).map(|_| None).collect(),
            uneven: uneven.collect(),
            slack: vec![0; count],
            near: vec![false; count],
            told: vec![Vec::new(); count],
            steps: vec![0; self.workers as usize],
            rank_of: (0..self.workers).map(|w| self.rank_of(w)).collect(),
            margin,
            finished: vec![0; count],
            layouts,
        };
        let lookahead = regions.lookahead;
        self.by_group = true;
        self.begin_those(|_| true);
        self.divide(regions);
        self.runs_ahead = true;
        for id in 0..self.workers {
            herds.steps[id as usize] = self.steps_loaded(&herds, id);
        }
        let mut told = 0;
        let mut now = Time::ZERO;
        loop {
            self.go_alone(&mut herds);
            self.unite(&mut herds, now);
            let Some(first) = self.regions.as_mut().and_then(|r| r.due()) else {
                break;
            };
            now = Time::from_picos(first) + lookahead;
            if !self.lookahead(&mut herds, now) {
                return Herding::Overrun;
            }
            if self.events - told > super::PROGRESS_EVERY {
                told = self.events;
                self.tell_progress();
                if self.is_stopped() {
                    return Herding::Done;
                }
            }
        }
        for region in 0..count as u32 {
            if herds.leader[region as usize] != region {
                self.leave(&mut herds, region);
            }
        }
        self.end_turns();
        Herding::Done
    }

    /// Regions, if there are enough: better more, unless they would reach each other much sooner.
    fn small_regions(&self) -> Option<Box<Regions>> {
        let of = |count: usize| {
            let most = self.actors.len() / count;
            let regions = self.regions(most.clamp(1, MOST_ACTORS as usize) as u32);
            regions.filter(|regions| regions.count() >= count)
        };
        let few = of(FEWEST)?;
        let many = of(MANY);
        Some(
            many.filter(|many| many.lookahead * 2 >= few.lookahead)
                .unwrap_or(few),
        )
    }

    /// Enough of the steps belong to a loop that ends with shorter blocks.
    fn is_uneven(&self) -> bool {
        let program = self.plan.program.as_ref();
        let mut workers = (0..self.workers).map(|actor| self.cast.worker(actor));
        let share = workers.find_map(|worker| {
            let first = program.uneven_steps(worker).first()?.start;
            Some((program.steps(worker), first))
        });
        !self.waits_inside && share.is_some_and(|(steps, first)| (steps - first) * SHARE >= steps)
    }

    /// Which workers of a region come to steps of their own, and which these are.
    fn uneven_of(&self, layout: &Layout) -> Vec<(u32, Range<u64>)> {
        let workers = (0..).zip(&layout.actors).filter(|w| *w.1 < self.workers);
        let ranges = workers.flat_map(|(at, &actor)| {
            let own = self.plan.program.uneven_steps(self.cast.worker(actor));
            own.into_iter().map(move |range| (at, range))
        });
        ranges.collect()
    }

    /// All leaders go on until `end`, and all hear of what they did; false if a worker went too
    /// far.
    fn lookahead(&mut self, herds: &mut Herds, end: Time) -> bool {
        let mut went = Vec::new();
        while let Some((_, region)) = self.next_turn(end.picos()) {
            let before = (self.events, self.transfers, self.steps_begun);
            self.turn(region, end.picos());
            let others = herds.members[region as usize].len() as u64;
            self.herded += (self.events - before.0) * others;
            self.transfers += (self.transfers - before.1) * others;
            self.steps_begun += (self.steps_begun - before.2) * others;
            let news = self.machinery.fifos.news.drain(..);
            let told = &mut herds.told[region as usize];
            told.extend(news.map(|news| (herds.layouts.fifo_at[news.fifo as usize], news)));
            // Of one queue in their order.
            told.sort_by_key(|t| t.0);
            went.push(region);
        }
        let mut most = 0;
        for &region in &went {
            self.note_finished(herds, region);
            let steps = self.steps_taken(herds, region);
            for &one in [region].iter().chain(&herds.members[region as usize]) {
                let slack = &mut herds.slack[one as usize];
                if !herds.near[one as usize] && steps > herds.margin.saturating_add(*slack) {
                    return false;
                }
                *slack = slack.saturating_sub(steps);
            }
            most = most.max(2 * steps);
        }
        if most > herds.margin {
            herds.margin = most;
            herds.slack.fill(0);
        }
        if !went.is_empty() {
            self.pass_on(herds);
            herds.told.iter_mut().for_each(Vec::clear);
        }
        true
    }

    /// The most steps that a worker of a region has loaded since it was last asked.
    fn steps_taken(&self, herds: &mut Herds, region: u32) -> u64 {
        let mut most = 0;
        for at in 0..herds.layout(region).actors.len() {
            let id = herds.layout(region).actors[at];
            if id >= self.workers {
                break;
            }
            let now = self.steps_loaded(herds, id);
            let before = std::mem::replace(&mut herds.steps[id as usize], now);
            most = most.max(now - before);
        }
        most
    }

    /// How many steps a worker has loaded in all operations.
    fn steps_loaded(&self, herds: &Herds, worker: ActorId) -> u64 {
        let actor = &self.actors[worker as usize];
        let rank = herds.rank_of[worker as usize];
        let operation = self.ranks[rank as usize].operation as usize;
        // After the last operation none begins.
        let own = if operation < self.finish.len() {
            actor.next_step
        } else {
            0
        };
        operation as u64 * u64::from(actor.steps) + u64::from(own)
    }

    /// What a leader's ranks have finished, those of its members have.
    fn note_finished(&mut self, herds: &mut Herds, leader: u32) {
        let ranks = &herds.layout(leader).ranks;
        let done = ranks
            .iter()
            .map(|&r| self.ranks[r as usize].operation)
            .sum();
        if std::mem::replace(&mut herds.finished[leader as usize], done) == done {
            return;
        }
        for &member in &herds.members[leader as usize] {
            let (ranks, others) = (&herds.layout(leader).ranks, &herds.layout(member).ranks);
            for (&rank, &other) in ranks.iter().zip(others) {
                let operations = self.ranks[rank as usize].operation as usize;
                for finish in &mut self.finish[..operations] {
                    // Of those before it came to the herd it knows.
                    if finish[other as usize] == Time::ZERO {
                        finish[other as usize] = finish[rank as usize];
                    }
                }
            }
        }
    }

    /// Leaders hear what their neighbours told; members that would hear something else leave
    /// before.
    fn pass_on(&mut self, herds: &mut Herds) {
        for leader in 0..herds.leader.len() as u32 {
            if herds.leader[leader as usize] != leader || herds.members[leader as usize].is_empty()
            {
                continue;
            }
            let neighbours = herds.layout(leader).neighbours.len();
            let others = herds.members[leader as usize].iter().copied();
            let others = others.filter(|&member| {
                let mut all = 0..neighbours;
                !all.all(|at| herds.hear_the_same(leader, member, at))
            });
            for member in others.collect::<Vec<_>>() {
                self.leave(herds, member);
            }
        }
        for leader in herds.leaders() {
            for port in &herds.layout(leader).ports {
                let from = herds.leader[port.region as usize];
                let own = herds.layout(leader).fifos[port.fifo as usize];
                for &(_, news) in of_queue(&herds.told[from as usize], port.far) {
                    let woken = self.machinery.fifos.hear(News { fifo: own, ..news });
                    if let Some((id, regions)) = woken.zip(self.regions.as_mut()) {
                        regions.tell(id, news.at);
                    }
                }
            }
        }
    }
}
