//! Who the engine's actors and queues are, and where what they do is shown.

use fabricsim_collective::{ConnId, Program, Role, Worker, WorkerId};
use fabricsim_engine::FifoId;
use fabricsim_engine::probe::{ActorId, Slice};
use fabricsim_plan::{MessageCost, Plan};
use fabricsim_report::record::Lane;
use fabricsim_topology::{Hop, LinkId};
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;

/// Where an actor's time is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) channel: u16,
    pub(super) lane: Lane,
    /// The worker; of a proxy the one that sends through it.
    worker: u32,
}

/// The place of each worker. Those of one rank, channel and role are counted.
pub(super) fn places(program: &dyn Program) -> Vec<Place> {
    let mut seen: FxHashMap<(u32, u16, Role), u8> = FxHashMap::default();
    (0..program.workers())
        .map(|worker| {
            let Worker {
                rank,
                channel,
                role,
            } = program.worker(WorkerId(worker));
            let count = seen.entry((rank.0, channel, role)).or_default();
            let k = *count;
            *count = count.saturating_add(1);
            let lane = match role {
                Role::Block => Lane::Whole,
                Role::Up => Lane::Up,
                Role::Down => Lane::Down,
                Role::Scatter => Lane::Scatter,
                Role::Gather => Lane::Gather,
                Role::Send => Lane::Send(k),
                Role::Receive => Lane::Receive(k),
                Role::Switch => Lane::Switch(k),
            };
            Place {
                rank: rank.0,
                channel,
                lane,
                worker,
            }
        })
        .collect()
}

/// A side of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Sender,
    Receiver,
}

/// Who is at the other side of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) rank: u32,
    /// The connection to it.
    pub(super) connection: u32,
}

/// Queues that stand for several connections.
#[derive(Debug)]
struct Folded {
    /// The queue of each connection.
    queue_of: Vec<FifoId>,
    /// The other side of a queue, for each worker that is shown.
    peers: FxHashMap<(u32, FifoId, Side), Peer>,
}

/// Who the engine's actors and queues are.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) workers: u32,
    /// Where each actor's time is shown: of one that stands for several, at those that are shown. A
    /// proxy is of the rank and channel that sends through it.
    places: Vec<SmallVec<[Place; 1]>>,
    /// What a proxy spends on a message; by number of proxy.
    message: Vec<MessageCost>,
    /// The row of what a proxy drives.
    leg: Vec<u32>,
    /// The connection of each queue or, if queues stand for several, the queue that workers put into.
    connection: Vec<u32>,
    /// The ranks that put into and take out of each connection, or the first that a queue stands for.
    ends: Vec<(u32, u32)>,
    /// The rows of what putting into a queue loads, and taking out of it.
    store: Vec<Option<u32>>,
    load: Vec<Option<u32>>,
    folded: Option<Folded>,
    /// How many rows of bytes there are: one for each route or, if queues stand for several
    /// connections, for each way over which a queue's bytes go.
    pub(super) rows: usize,
}

/// Ways over which a queue's bytes go: stored, loaded, through a network.
const WAYS: u32 = 3;

impl Cast {
    /// Everybody plays himself.
    pub(super) fn new(plan: &Plan) -> Self {
        let program = plan.program.as_ref();
        let connections = program.connections();
        let places = places(program);
        let mut cast = Cast {
            workers: program.workers(),
            places: places.iter().map(|&place| smallvec![place]).collect(),
            message: Vec::new(),
            leg: Vec::new(),
            connection: (0..connections).collect(),
            ends: Vec::with_capacity(connections as usize),
            store: Vec::with_capacity(connections as usize),
            load: Vec::with_capacity(connections as usize),
            folded: None,
            rows: plan.routes.len(),
        };
        for connection in 0..connections {
            let [store, load, _] = plan.transports.routes_of(connection as usize);
            cast.store.push(store.map(|r| r.0));
            cast.load.push(load.map(|r| r.0));
        }
        for (id, transport) in (0..connections).zip(plan.transports.iter()) {
            let ends = program.connection(ConnId(id));
            let (from, to) = (places[ends.from.index()], places[ends.to.index()]);
            cast.ends.push((from.rank, to.rank));
            if let Some(leg) = transport.network {
                cast.add_proxy(id, smallvec![from], (leg.message, leg.route.0));
            }
        }
        cast
    }

    /// One actor for each class of workers and one queue for each class of connections; of the ranks
    /// that take part, so many are shown.
    pub(super) fn folded(plan: &Plan, actors: &[ActorId], queues: &[FifoId], shown: usize) -> Self {
        let program = plan.program.as_ref();
        let places = places(program);
        let workers = actors.iter().max().map_or(0, |&last| last + 1);
        let mut first = vec![None; workers as usize];
        for (&actor, place) in actors.iter().zip(&places) {
            first[actor as usize].get_or_insert(place.rank);
        }
        // One of each kind, as the first of each class are of few ranks.
        let ranks: BTreeSet<u32> = first.into_iter().flatten().collect();
        let ranks: BTreeSet<u32> = ranks.into_iter().take(shown).collect();
        let mut cast = Cast {
            workers,
            places: vec![SmallVec::new(); workers as usize],
            message: Vec::new(),
            leg: Vec::new(),
            connection: Vec::new(),
            ends: Vec::new(),
            store: Vec::new(),
            load: Vec::new(),
            folded: None,
            rows: 0,
        };
        let is_shown = |place: &Place| ranks.contains(&place.rank);
        for (&actor, place) in actors.iter().zip(&places).filter(|(_, p)| is_shown(p)) {
            cast.places[actor as usize].push(*place);
        }
        let mut peers = FxHashMap::default();
        let mut senders: Vec<SmallVec<[Place; 1]>> = Vec::new();
        let mut firsts = Vec::new();
        for (id, &queue) in (0..).zip(queues) {
            let ends = program.connection(ConnId(id));
            let (from, to) = (places[ends.from.index()], places[ends.to.index()]);
            // Classes are numbered in the order of their first members.
            if queue as usize == firsts.len() {
                firsts.push(id);
                senders.push(SmallVec::new());
                cast.ends.push((from.rank, to.rank));
            }
            if is_shown(&from) {
                senders[queue as usize].push(from);
                let key = (from.worker, queue, Side::Receiver);
                peers.entry(key).or_insert(Peer {
                    rank: to.rank,
                    connection: id,
                });
            }
            if is_shown(&to) {
                let key = (to.worker, queue, Side::Sender);
                peers.entry(key).or_insert(Peer {
                    rank: from.rank,
                    connection: id,
                });
            }
        }
        cast.rows = firsts.len() * WAYS as usize;
        cast.connection = (0..firsts.len() as u32).collect();
        for (queue, &first) in (0..).zip(&firsts) {
            let [store, load, _] = plan.transports.routes_of(first as usize);
            cast.store.push(store.map(|_| queue * WAYS));
            cast.load.push(load.map(|_| queue * WAYS + 1));
        }
        for ((queue, &first), senders) in (0..).zip(&firsts).zip(senders) {
            if let Some(leg) = plan.transports.get(first as usize).network {
                cast.add_proxy(queue, senders, (leg.message, queue * WAYS + 2));
            }
        }
        cast.folded = Some(Folded {
            queue_of: queues.to_vec(),
            peers,
        });
        cast
    }

    /// The proxy of a connection, and the queue that it puts into: what the receiver takes it takes
    /// from there, not from the connection's own.
    fn add_proxy(
        &mut self,
        connection: u32,
        senders: SmallVec<[Place; 1]>,
        (message, row): (MessageCost, u32),
    ) {
        self.places.push(senders);
        self.message.push(message);
        self.leg.push(row);
        self.connection.push(connection);
        let load = self.load[connection as usize].take();
        self.load.push(load);
        self.store.push(None);
    }

    /// As if the first proxy's connection had another one.
    #[cfg(test)]
    pub(super) fn double_proxy(&mut self) {
        let first = self.workers as usize;
        self.places.push(self.places[first].clone());
        self.message.push(self.message[0]);
    }

    pub(super) fn actors(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_proxy(&self, actor: ActorId) -> bool {
        actor >= self.workers
    }

    /// Where an actor's time is shown.
    pub(super) fn places(&self, actor: ActorId) -> &[Place] {
        &self.places[actor as usize]
    }

    /// The ranks that anything is shown of, in order.
    pub(super) fn ranks(&self) -> BTreeSet<u32> {
        self.places.iter().flatten().map(|p| p.rank).collect()
    }

    /// Who is at a side of a queue of which somebody shown has the other.
    pub(super) fn peer(&self, place: Place, queue: FifoId, side: Side) -> Peer {
        let connection = self.connection[queue as usize];
        let folded = self.folded.as_ref();
        let peer = folded.and_then(|f| f.peers.get(&(place.worker, connection, side)));
        peer.copied().unwrap_or_else(|| {
            let (from, to) = self.ends[connection as usize];
            Peer {
                rank: match side {
                    Side::Sender => from,
                    Side::Receiver => to,
                },
                connection,
            }
        })
    }

    /// How many queues there are.
    pub(super) fn queues(&self) -> usize {
        self.connection.len()
    }

    /// When a slice stopped waiting: a proxy then handles the message before it starts.
    pub(super) fn ready(&self, slice: &Slice) -> Time {
        if !self.is_proxy(slice.actor) {
            return slice.start;
        }
        let cost = self.message[(slice.actor - self.workers) as usize].of(Bytes::new(slice.bytes));
        let busy = slice.start.saturating_sub(slice.free).min(cost);
        slice.start.saturating_sub(busy)
    }

    /// The rows of what a slice's bytes cross, each as often as they do.
    pub(super) fn rows(&self, slice: &Slice) -> SmallVec<[u32; 8]> {
        if self.is_proxy(slice.actor) {
            return SmallVec::from_slice(&[self.leg[(slice.actor - self.workers) as usize]]);
        }
        let loads = slice.recv.iter().map(|&f| self.load[f as usize]);
        let stores = slice.send.iter().map(|&f| self.store[f as usize]);
        loads.chain(stores).flatten().collect()
    }

    /// Each link that the bytes of a row cross, with its share of them.
    pub(super) fn each_hop(&self, plan: &Plan, mut tell: impl FnMut(u32, LinkId, f64)) {
        let mut tell_all = |row: u32, hops: &[Hop]| {
            for hop in hops {
                tell(row, hop.link, hop.share.as_f64());
            }
        };
        let Some(folded) = &self.folded else {
            for (row, route) in (0..).zip(plan.routes.iter()) {
                tell_all(row, route.hops);
            }
            return;
        };
        for (connection, &queue) in folded.queue_of.iter().enumerate() {
            let ways = plan.transports.routes_of(connection);
            for (way, route) in (0..WAYS).zip(ways) {
                if let Some(route) = route {
                    tell_all(queue * WAYS + way, plan.routes.get(route).hops);
                }
            }
        }
    }
}
