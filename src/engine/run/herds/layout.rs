//! What regions are made of, each in an order of its own: regions of one kind have the same in the
//! same places.

use crate::fifo::FifoId;
use crate::fold::Traces;
use crate::probe::{ActorId, Probe};
use crate::resources::{PathId, ResourceId};
use crate::run::Run;
use rustc_hash::FxHashMap;

/// A region's parts, by their places in it.
#[derive(Default)]
pub(super) struct Layout {
    /// Regions with the same kind differ in nothing but what their workers have to move when, and
    /// whom they are joined to.
    pub(super) kind: u32,
    pub(super) actors: Vec<ActorId>,
    /// Ranks that take part, by number.
    pub(super) ranks: Vec<u32>,
    pub(super) fifos: Vec<FifoId>,
    pub(super) resources: Vec<ResourceId>,
    /// Queues to and from other regions.
    pub(super) ports: Vec<Port>,
    /// Regions that these lead to, in the order of the first that does.
    pub(super) neighbours: Vec<u32>,
    sides: Vec<Side>,
}

/// A queue's end in a region; the other one is elsewhere.
pub(super) struct Port {
    /// The queue's place in the region.
    pub(super) fifo: u32,
    /// The region at the other end, and the queue's place in that.
    pub(super) region: u32,
    pub(super) far: u32,
}

/// The regions of a machine.
pub(super) struct Layouts {
    pub(super) all: Vec<Layout>,
    /// Places of actors and queues in their regions.
    pub(super) actor_at: Vec<u32>,
    pub(super) fifo_at: Vec<u32>,
}

/// How a region sees a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Inside,
    Sends,
    Takes,
}

impl Layouts {
    /// Of regions whose queues to others are in `halves`: the sender's, and the receiver's.
    /// `connections` has the one that each queue is of, and `traces` are those of a program in
    /// which all that is to be alike is.
    pub(super) fn new<P: Probe>(
        run: &Run<'_, '_, P>,
        of: &[u32],
        halves: &[(FifoId, FifoId)],
        (connections, traces): (&[u32], &Traces),
    ) -> Self {
        let count = of.iter().max().map_or(0, |&last| last as usize + 1);
        let mut all: Vec<Layout> = (0..count).map(|_| Layout::default()).collect();
        let mut actor_at = Vec::with_capacity(of.len());
        for (actor, &region) in (0..).zip(of) {
            let own = &mut all[region as usize].actors;
            actor_at.push(own.len() as u32);
            own.push(actor);
        }
        let fifos = &run.machinery.fifos;
        let mut far: Vec<Option<(FifoId, Side)>> = vec![None; fifos.count() as usize];
        for &(sent, taken) in halves {
            far[sent as usize] = Some((taken, Side::Sends));
            far[taken as usize] = Some((sent, Side::Takes));
        }
        // In the order of their ends in the region.
        let mut queues: Vec<Vec<(u32, Side, FifoId)>> = vec![Vec::new(); count];
        let mut home = Vec::with_capacity(far.len());
        for (fifo, far) in (0..).zip(&far) {
            let (from, to) = fifos.ends(fifo);
            let side = far.map_or(Side::Inside, |(_, side)| side);
            let own = if side == Side::Takes { to } else { from };
            let region = of[own as usize];
            home.push(region);
            queues[region as usize].push((actor_at[own as usize], side, fifo));
        }
        let mut fifo_at = vec![0; far.len()];
        for (queues, layout) in queues.iter_mut().zip(&mut all) {
            queues.sort_unstable();
            for (at, &(_, side, fifo)) in (0..).zip(queues.iter()) {
                fifo_at[fifo as usize] = at;
                layout.fifos.push(fifo);
                layout.sides.push(side);
            }
        }
        for layout in &mut all {
            for (at, &fifo) in (0..).zip(&layout.fifos) {
                let Some((other, _)) = far[fifo as usize] else {
                    continue;
                };
                let region = home[other as usize];
                layout.ports.push(Port {
                    fifo: at,
                    region,
                    far: fifo_at[other as usize],
                });
                if !layout.neighbours.contains(&region) {
                    layout.neighbours.push(region);
                }
            }
        }
        let mut layouts = Layouts {
            all,
            actor_at,
            fifo_at,
        };
        let mut kinds: FxHashMap<Vec<u64>, u32> = FxHashMap::default();
        for region in 0..layouts.all.len() {
            let (words, ranks, resources) = layouts.look(run, region, (connections, traces));
            let next = kinds.len() as u32;
            let layout = &mut layouts.all[region];
            layout.kind = *kinds.entry(words).or_insert(next);
            (layout.ranks, layout.resources) = (ranks, resources);
        }
        layouts
    }

    /// All of a region that what happens in it depends on, but for who its neighbours are; its
    /// ranks and resources.
    fn look<P: Probe>(
        &self,
        run: &Run<'_, '_, P>,
        region: usize,
        (connections, traces): (&[u32], &Traces),
    ) -> (Vec<u64>, Vec<u32>, Vec<ResourceId>) {
        let layout = &self.all[region];
        let mut words = vec![layout.actors.len() as u64, layout.fifos.len() as u64];
        // Which queues lead to one neighbour.
        let neighbour = |port: &Port| layout.neighbours.iter().position(|&r| r == port.region);
        words.extend(layout.ports.iter().filter_map(neighbour).map(|n| n as u64));
        let (mut ranks, mut used) = (Vec::new(), Used::default());
        for &actor in &layout.actors {
            let a = &run.actors[actor as usize];
            words.push(u64::from(a.class));
            if actor >= run.workers {
                words.extend([u64::MAX, a.cap]);
                used.tell(run, Some(a.path), &mut words);
                continue;
            }
            let worker = run.cast.worker(actor);
            let rank = run.plan.program.worker(worker).rank;
            let part = run.cast.part_of(rank);
            let known = ranks.iter().position(|&r| r == part);
            let number = known.unwrap_or(ranks.len()) as u64;
            words.extend([u64::from(a.steps), traces.of_worker(worker), number]);
            if known.is_none() {
                ranks.push(part);
                // When operations start: the first, and from one to the next.
                let issued = |operation| run.plan.issue.at(rank.0, operation).picos();
                words.extend([issued(0), issued(1)]);
            }
        }
        let place = |actor: ActorId| u64::from(self.actor_at[actor as usize]);
        for (&fifo, &side) in layout.fifos.iter().zip(&layout.sides) {
            let fifos = &run.machinery.fifos;
            let (from, to) = fifos.ends(fifo);
            words.extend([side as u64, u64::from(fifos.is_sized(fifo))]);
            words.extend([fifos.latency(fifo), fifos.credit_latency(fifo)].map(|t| t.picos()));
            let connection = run.cast.connection(connections[fifo as usize]);
            let (sent, taken) = traces.of_connection(connection);
            if side != Side::Takes {
                words.extend([place(from), sent]);
                used.tell(run, run.machinery.store_path[fifo as usize], &mut words);
            }
            if side != Side::Sends {
                words.extend([place(to), taken]);
                used.tell(run, run.machinery.load_path[fifo as usize], &mut words);
            }
        }
        (words, ranks, used.order)
    }
}

/// The resources that a region uses, numbered as they occur.
#[derive(Default)]
struct Used {
    known: FxHashMap<ResourceId, u32>,
    order: Vec<ResourceId>,
}

impl Used {
    fn tell<P: Probe>(&mut self, run: &Run<'_, '_, P>, path: Option<PathId>, words: &mut Vec<u64>) {
        let machinery = &run.machinery;
        let uses = path.map_or(&[][..], |path| machinery.resources.path(path));
        words.push(path.map_or(u64::MAX, |_| uses.len() as u64));
        for u in uses {
            let next = self.order.len() as u32;
            let number = *self.known.entry(u.resource).or_insert(next);
            if number == next {
                self.order.push(u.resource);
            }
            words.extend([
                u64::from(number),
                u64::from(u.weight),
                machinery.resources.all[u.resource as usize].capacity,
                u64::from(machinery.is_roomy(u.resource)),
            ]);
        }
    }
}
