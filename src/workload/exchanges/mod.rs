//! Communications of a job, planned as NCCL would, for the groups that stand for all.
//!
//! A group is planned together with those of its kind that are on the same nodes, for in a job
//! that is even all of them communicate at the same time: the eight rings of data-parallel
//! groups that leave a node by one interface each, say.

mod places;
mod trees;

use super::classes::{Classes, Kind};
use fabricsim_budget::{Budget, Held, OverBudget, Purpose};
use fabricsim_collective::{Collective, Matrix, MatrixError};
use fabricsim_nccl::{Communicator, Env, Forced, NcclError, Planned};
use fabricsim_plan::job::{Exchange, HowMoved, Movement, TwinLinks};
use fabricsim_plan::{Joined, Plan, Protocol};
use fabricsim_topology::{DeviceId, LinkId, NodeId, Router, Topology};
use fabricsim_units::Bytes;
use places::Places;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use thiserror::Error;
use trees::Trees;

/// What a group is to communicate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    /// What it is, for people: `all-gather of weights`.
    pub name: String,
    /// What moves.
    pub moves: Moves,
    /// nccl-tests' size.
    pub bytes: Bytes,
    /// Algorithm and protocol, where NCCL is not to choose.
    pub forced: Forced,
}

/// What moves in an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Moves {
    /// A collective.
    Collective(Collective),
    /// The first rank sends to the second.
    Send,
    /// Each rank sends to each rank so many bytes: `[from][to]`.
    Matrix(Vec<Vec<u64>>),
}

impl Moves {
    /// The same without sizes.
    #[must_use]
    pub const fn movement(&self) -> Movement {
        match self {
            Moves::Collective(collective) => Movement::Collective(*collective),
            Moves::Send => Movement::Send,
            Moves::Matrix(_) => Movement::Collective(Collective::AllToAllV),
        }
    }
}

/// Why a communication cannot be planned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// NCCL refuses.
    #[error("{operation} of {group}: {source}")]
    Nccl {
        /// What.
        operation: String,
        /// Of whom.
        group: String,
        /// Why.
        source: Box<NcclError>,
    },
    /// More than memory holds.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// The bytes of an all-to-all make no sense.
    #[error("{operation} of {group}: {source}")]
    Matrix {
        /// What.
        operation: String,
        /// Of whom.
        group: String,
        /// Why.
        source: MatrixError,
    },
}

/// Bytes that a connection of a plan takes: its transport, and its place in the program.
const CONNECTION: u64 = 96;

/// Plans communications of groups of a machine's ranks.
pub struct Exchanges<'t> {
    topology: &'t Topology,
    env: &'t Env,
    seed: u64,
    dead: &'t [LinkId],
    places: Places<'t>,
    router: Option<Router<'t>>,
    /// What was planned.
    known: FxHashMap<Key, Known>,
    numbers: &'t mut AlikeNumbers,
    /// The nodes that were last compared with others, and the links in the stead of theirs, if
    /// they correspond: the groups of a set are planned one after the other.
    nodes: Arc<[NodeId]>,
    twins: FxHashMap<Arc<[NodeId]>, Option<Arc<TwinLinks>>>,
    trees: Trees,
    budget: Budget,
    /// What plans take.
    held: Vec<Held>,
}

/// The place of a set of groups, and what each of them does: an operation without its name.
type Key = (u32, Moves, Bytes, Forced);

/// What each number of [`Exchange::alike`] stands for. Jobs of the same ranks on the same machine with the
/// same dead links that are handed the same one have the same numbers for the same exchanges.
#[derive(Debug, Default)]
pub struct AlikeNumbers(FxHashMap<(Key, Arc<[NodeId]>, usize), u32>);

impl AlikeNumbers {
    /// The number of one of the plans of a set's operation on these nodes.
    fn of(&mut self, key: &Key, nodes: &Arc<[NodeId]>, plan: usize) -> u32 {
        let next = self.0.len() as u32;
        let of = (key.clone(), Arc::clone(nodes), plan);
        *self.0.entry(of).or_insert(next)
    }
}

/// An operation of all groups of a set.
struct Known {
    /// Nodes of the groups, in order of their first appearance.
    nodes: Arc<[NodeId]>,
    /// By group; `None` if nothing is to move.
    parts: Vec<Option<Part>>,
    /// Those of one protocol are in one plan, those of another, which that cannot hold, apart.
    plans: Vec<Together>,
}

/// What an operation of one group is.
struct Part {
    bytes: Bytes,
    how: HowMoved,
    sms: u32,
    /// An index into [`Known::plans`].
    plan: usize,
    /// Its own connections.
    own: Range<u32>,
}

/// Groups' plans side by side.
struct Together {
    plan: Arc<Plan>,
    /// See [`Exchange::alike`].
    alike: u32,
}

impl<'t> Exchanges<'t> {
    /// For ranks on these GPUs, in order.
    ///
    /// Routes go around the links in `dead`.
    #[must_use]
    pub fn new(
        topology: &'t Topology,
        gpus: &'t [DeviceId],
        env: &'t Env,
        (seed, dead): (u64, &'t [LinkId]),
        numbers: &'t mut AlikeNumbers,
    ) -> Self {
        Exchanges {
            topology,
            env,
            seed,
            dead,
            // With dead links places that look alike may have other routes.
            places: Places::new(topology, gpus, !dead.is_empty()),
            router: None,
            known: FxHashMap::default(),
            numbers,
            nodes: Arc::from([]),
            twins: FxHashMap::default(),
            trees: Trees::default(),
            budget: Budget::default(),
            held: Vec::new(),
        }
    }

    /// No two sets of groups count as placed alike: each is planned where it is, so that all links
    /// are known that it uses.
    #[must_use]
    pub fn apart(mut self) -> Self {
        self.places.all_apart = true;
        self
    }

    /// What is planned is to fit this memory; it ends when it is told to, and says how far it is.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// What plans take, for as long as they are used.
    #[must_use]
    pub fn into_held(self) -> Vec<Held> {
        self.held
    }

    /// The groups of a kind, and the place of each among its neighbours: equal for groups whose
    /// ranks are placed towards each other in the same way.
    ///
    /// Communicators that sum in the network take its trees in the order in which kinds are asked for.
    pub fn kind(&mut self, name: &str, groups: Vec<Vec<u32>>) -> Kind {
        let mut kind = self.places.kind(name, groups);
        if self.env.collnet || self.env.names_collnet() {
            self.claim_trees(&mut kind);
        }
        kind
    }

    fn claim_trees(&mut self, kind: &mut Kind) {
        let router = self.router.take().unwrap_or_else(|| self.new_router());
        let gpus = self.places.gpus;
        let first = kind.groups.first().into_iter().flatten();
        let first = first.map(|&rank| gpus[rank as usize]).collect();
        // What is wrong with a communicator is told when it is planned for.
        let Ok(made) = Communicator::of(self.topology, first, self.env, router) else {
            return;
        };
        let wanted = !made.streaming_interfaces().is_empty();
        let router = made.into_router();
        if wanted {
            let nic = |rank: u32| router.nic_candidates(gpus[rank as usize]).first().copied();
            self.trees.claim(kind, nic);
        }
        self.router = Some(router);
    }

    /// For people: which communicators go without what they asked for.
    #[must_use]
    pub fn fallen_back(&self) -> Vec<String> {
        self.trees.warnings()
    }

    /// The exchanges of a group for these operations, in their order.
    ///
    /// # Errors
    /// What NCCL refuses.
    pub fn plan(
        &mut self,
        kind: &Kind,
        of_group: &[u32],
        group: u32,
        operations: &[Operation],
    ) -> Result<Vec<Exchange>, ExchangeError> {
        let set = &kind.beside[group as usize];
        let place = kind.sets[group as usize];
        let nodes: Arc<[NodeId]> = self.places.in_order(kind, set).into();
        let mut new = Vec::new();
        for operation in operations {
            let known = self.known.get(&key(place, operation));
            let from = known.map(|known| Arc::clone(&known.nodes));
            if from.is_none_or(|from| from != nodes && self.twins(&from, &nodes).is_none()) {
                new.push(operation);
            }
        }
        if !new.is_empty() {
            self.plan_set(kind, set, (place, &nodes), &new)?;
        }
        let class = of_group[group as usize];
        let member = Member {
            at: set.partition_point(|&g| g < group),
            ranks: kind.groups[group as usize].len() as u32,
            one: set.iter().map(|&g| of_group[g as usize] == class).collect(),
        };
        let mut exchanges = Vec::with_capacity(operations.len());
        for operation in operations {
            let known = &self.known[&key(place, operation)];
            let mut exchange = known.exchange(operation, &member);
            if known.nodes != nodes {
                let from = Arc::clone(&known.nodes);
                exchange.moved = self.twins(&from, &nodes);
            }
            exchanges.push(exchange);
        }
        Ok(exchanges)
    }

    /// Plans operations of all groups of a set.
    fn plan_set(
        &mut self,
        kind: &Kind,
        set: &[u32],
        (place, nodes): (u32, &Arc<[NodeId]>),
        operations: &[&Operation],
    ) -> Result<(), ExchangeError> {
        // By operation: what each group's communicator makes of it.
        let mut all: Vec<Vec<Option<Planned>>> = vec![Vec::new(); operations.len()];
        for &group in set {
            let ranks = kind.groups[group as usize].iter();
            let gpus = ranks.map(|&r| self.places.gpus[r as usize]).collect();
            // What the router found for one group it knows for the next.
            let router = self.router.take();
            let router = router.unwrap_or_else(|| self.new_router());
            let made = Communicator::of(self.topology, gpus, self.env, router);
            let made = made.map_err(|source| ExchangeError::Nccl {
                operation: "a communicator".into(),
                group: kind.name.clone(),
                source: Box::new(source),
            })?;
            let mut wanted = operations.iter();
            let sums = wanted.any(|o| matches!(o.moves, Moves::Collective(_)));
            let mut communicator = made.within(&self.budget);
            if let Some(why) = self.trees.refusal(kind, group, sums) {
                communicator = communicator.without_collnet(why);
            }
            for (parts, operation) in all.iter_mut().zip(operations) {
                let planned = planned(kind, &mut communicator, operation)?;
                if let Some(planned) = &planned {
                    let connections = u64::from(planned.plan.program.connections());
                    let bytes = connections * CONNECTION;
                    self.held
                        .push(self.budget.memory.hold(Purpose::Connections, bytes)?);
                }
                parts.push(planned);
            }
            // All have the table that the last one left, in which nothing has moved.
            for part in all
                .iter_mut()
                .filter_map(|parts| parts.last_mut()?.as_mut())
            {
                part.plan.routes = communicator.routes();
            }
            self.router = Some(communicator.into_router());
        }
        let mut joined = Joined::default();
        for (operation, parts) in operations.iter().zip(all) {
            let key = key(place, operation);
            let mut number = |plan| self.numbers.of(&key, nodes, plan);
            let known = Known::new(nodes, parts, (&mut number, &mut joined));
            self.known.insert(key, known);
        }
        Ok(())
    }

    /// Links of nodes and those in their stead, see [`Places::twins`].
    fn twins(&mut self, from: &Arc<[NodeId]>, to: &Arc<[NodeId]>) -> Option<Arc<TwinLinks>> {
        if self.nodes != *to {
            self.nodes = Arc::clone(to);
            self.twins.clear();
        }
        let compare = || self.places.twins(from, to).map(Arc::new);
        let known = self.twins.entry(Arc::clone(from));
        known.or_insert_with(compare).clone()
    }

    fn new_router(&self) -> Router<'t> {
        let router = Router::new(self.topology, self.seed);
        if self.dead.is_empty() {
            router
        } else {
            router.avoiding(self.dead.iter().copied())
        }
    }
}

/// A group of a set.
struct Member {
    /// Its number in the set.
    at: usize,
    /// How many ranks it has.
    ranks: u32,
    /// Of each group of the set: whether it is one with this one.
    one: Vec<bool>,
}

impl Known {
    /// From what the groups' communicators planned; `number` is [`Exchange::alike`] of each plan of theirs,
    /// and `joined` has the routes of operations before.
    fn new(
        nodes: &Arc<[NodeId]>,
        planned: Vec<Option<Planned>>,
        (number, joined): (&mut dyn FnMut(usize) -> u32, &mut Joined),
    ) -> Self {
        let mut apart: Vec<(Protocol, Vec<Plan>, u32)> = Vec::new();
        let mut parts = Vec::with_capacity(planned.len());
        for planned in planned {
            let Some(planned) = planned else {
                parts.push(None);
                continue;
            };
            let protocol = planned.plan.protocol;
            let known = apart.iter().position(|(p, _, _)| *p == protocol);
            let plan = known.unwrap_or_else(|| {
                apart.push((protocol, Vec::new(), 0));
                apart.len() - 1
            });
            let (_, plans, connections) = &mut apart[plan];
            let from = *connections;
            *connections += planned.plan.program.connections();
            parts.push(Some(Part {
                bytes: Bytes::new(planned.bytes),
                how: HowMoved::Planned(planned.algorithm.name(), planned.protocol),
                sms: u32::from(planned.channels),
                plan,
                own: from..*connections,
            }));
            plans.push(planned.plan);
        }
        let together = apart.into_iter().enumerate();
        let together = together.filter_map(|(index, (_, plans, _))| {
            let plan = Arc::new(Plan::side_by_side(plans, joined)?);
            let alike = number(index);
            Some(Together { plan, alike })
        });
        Known {
            nodes: Arc::clone(nodes),
            parts,
            plans: together.collect(),
        }
    }

    /// What it is for a group of the set.
    fn exchange(&self, operation: &Operation, member: &Member) -> Exchange {
        let bus_factor = match &operation.moves {
            Moves::Collective(collective) => collective.bus_factor(member.ranks),
            Moves::Send => 1.0,
            Moves::Matrix(_) => Collective::AllToAll.bus_factor(member.ranks),
        };
        let movement = operation.moves.movement();
        let free = Exchange::free(&operation.name, movement, operation.bytes, bus_factor);
        let Some(part) = &self.parts[member.at] else {
            return free;
        };
        let Together { plan, alike } = &self.plans[part.plan];
        let parts = self.parts.iter().zip(&member.one);
        let own = parts.filter_map(|(other, one)| {
            let other = other.as_ref().filter(|o| *one && o.plan == part.plan)?;
            Some(other.own.clone())
        });
        Exchange {
            bytes: part.bytes,
            how: part.how,
            sms: part.sms,
            plan: Some(Arc::clone(plan)),
            alike: *alike,
            own: own.collect(),
            ..free
        }
    }
}

fn key(place: u32, operation: &Operation) -> Key {
    let moves = operation.moves.clone();
    (place, moves, operation.bytes, operation.forced)
}

/// The plan of one group's operation; `None` if nothing is to move.
fn planned(
    kind: &Kind,
    communicator: &mut Communicator<'_>,
    operation: &Operation,
) -> Result<Option<Planned>, ExchangeError> {
    let ranks = communicator.ranks();
    let bytes = operation.bytes.get();
    let matrix = |rows: &[Vec<u64>]| {
        Matrix::new(rows).map_err(|source| ExchangeError::Matrix {
            operation: operation.name.clone(),
            group: kind.name.clone(),
            source,
        })
    };
    let result = match &operation.moves {
        Moves::Collective(collective) => {
            if ranks < 2 || collective.actual_bytes(bytes, ranks) == 0 {
                return Ok(None);
            }
            communicator.plan(*collective, bytes, operation.forced)
        }
        Moves::Send => {
            let rows = [vec![0, bytes / 16 * 16], vec![0, 0]];
            communicator.plan_all_to_all_v(matrix(&rows)?)
        }
        Moves::Matrix(rows) => communicator.plan_all_to_all_v(matrix(rows)?),
    };
    let planned = result.map_err(|source| ExchangeError::Nccl {
        operation: operation.name.clone(),
        group: kind.name.clone(),
        source: Box::new(source),
    })?;
    Ok((planned.bytes > 0).then_some(planned))
}

/// Which group of each class of a kind stands for the class: the first.
#[must_use]
pub fn representatives(classes: &Classes, kind: usize) -> Vec<u32> {
    let mut first = vec![u32::MAX; classes.groups[kind] as usize];
    for (group, &class) in classes.of_group[kind].iter().enumerate() {
        let slot = &mut first[class as usize];
        *slot = (*slot).min(group as u32);
    }
    first
}
