//! Who does what, and who communicates with whom.

use super::{ActorId, ExchangeId, GroupId};
use crate::{Plan, ProtocolKind};
use fabricsim_collective::Collective;
use fabricsim_topology::LinkId;
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;

/// Ranks that nothing tells apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// One of them. Actors of one rank are processes that share its GPU.
    pub rank: u32,
    /// How many there are.
    pub alike: u32,
    /// What they do, if that is written beforehand: an index into [`super::Job::scripts`].
    pub script: Option<u32>,
    /// SMs of the GPU.
    pub sms: u32,
    /// What starting a kernel takes the process.
    pub launch: Time,
    /// Whether kernels that the process has started while others ran cost no more of its time when
    /// their turn comes. If not, each task with several kernels takes at least what starting all but
    /// one of them takes.
    pub run_ahead: bool,
    /// Its communicators, in the order that the script numbers them; those that it has not are
    /// `None`.
    pub groups: Vec<Option<GroupId>>,
}

/// What a communicator is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupRole {
    /// Parts of each layer's matrices.
    TensorParallel,
    /// Copies of the same weights, or parts of them.
    #[default]
    DataParallel,
    /// Copies of the same part of weights, in hybrid sharding.
    Replicas,
    /// Parts of each sequence.
    ContextParallel,
    /// Experts of a layer.
    ExpertParallel,
    /// Two neighbouring stages.
    Pipeline,
    /// First and last stage, which share a table of tokens.
    Embedding,
    /// All ranks of a replica, at the end of a step.
    StepEnd,
    /// All ranks of a job that is a collective.
    Collective,
}

impl GroupRole {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GroupRole::TensorParallel => "tensor parallel",
            GroupRole::DataParallel => "data parallel",
            GroupRole::Replicas => "replicas",
            GroupRole::ContextParallel => "context parallel",
            GroupRole::ExpertParallel => "expert parallel",
            GroupRole::Pipeline => "pipeline",
            GroupRole::Embedding => "tied embeddings",
            GroupRole::StepEnd => "end of the step",
            GroupRole::Collective => "collective",
        }
    }
}

/// A communicator, or all that nothing tells apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What it is for.
    pub role: GroupRole,
    /// What it is, for people: `tp`, `dp`, `pp 0→1`.
    pub name: String,
    /// Its ranks, of one that stands for all that are alike.
    pub ranks: Vec<u32>,
    /// The actor of each.
    pub members: Vec<ActorId>,
    /// How many actors there are among them.
    pub actors: u32,
    /// Its operations, in the order that scripts number them.
    pub exchanges: Vec<ExchangeId>,
}

/// Links of some nodes, and those that others have in their stead.
pub type TwinLinks = FxHashMap<LinkId, LinkId>;

/// What an operation moves between the ranks of its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Movement {
    /// What a collective says.
    Collective(Collective),
    /// A message from the first rank to the second.
    Send,
}

/// How an operation moves its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HowMoved {
    /// Nothing is moved.
    #[default]
    Nothing,
    /// It takes no time, for the scenario says so.
    Free,
    /// By an algorithm, under NCCL's name for it, and a protocol.
    Planned(&'static str, ProtocolKind),
}

/// `ring simple`; nothing if nothing is moved.
impl fmt::Display for HowMoved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HowMoved::Nothing => Ok(()),
            HowMoved::Free => f.write_str("free"),
            HowMoved::Planned(algorithm, protocol) => {
                write!(f, "{algorithm} {}", protocol.name())
            }
        }
    }
}

/// An operation of a communicator.
#[derive(Clone)]
pub struct Exchange {
    /// What it is, for people: `all-gather of 64 MiB`.
    pub name: String,
    /// The size, as nccl-tests counts it.
    pub bytes: Bytes,
    /// The bus bandwidth is so many times size over time.
    pub bus_factor: f64,
    /// What it moves.
    pub movement: Movement,
    /// By which algorithm and protocol.
    pub how: HowMoved,
    /// SMs that it holds on each GPU: one for each channel.
    pub sms: u32,
    /// The plan, of this group and of all that do the same beside it on the same nodes; `None`
    /// if it costs nothing.
    pub plan: Option<Arc<Plan>>,
    /// The plan is that of other ranks with the same places towards each other: the links of
    /// theirs, and those that these ranks have in their stead.
    pub moved: Option<Arc<TwinLinks>>,
    /// Exchanges with the same number take the same time, for their ranks have the same places
    /// on the machine towards each other.
    pub alike: u32,
    /// Connections of the plan that are this group's own (and of groups that are one with it),
    /// which say what the group adds to links: ranges of their numbers.
    pub own: Vec<std::ops::Range<u32>>,
}

impl Exchange {
    /// One that takes no time.
    #[must_use]
    pub fn free(name: &str, movement: Movement, bytes: Bytes, bus_factor: f64) -> Exchange {
        Exchange {
            name: name.to_owned(),
            bytes,
            bus_factor,
            movement,
            how: HowMoved::Nothing,
            sms: 0,
            plan: None,
            moved: None,
            alike: u32::MAX,
            own: Vec::new(),
        }
    }
}
