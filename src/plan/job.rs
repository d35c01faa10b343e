//! A job laid onto a machine: what each rank does in a step, task by task on its streams, and
//! which communications it meets others in.
//!
//! Ranks that do the same have one [`Script`]; ranks that nothing tells apart are one
//! [`Actor`]. A communicator (or all that are alike) is a [`Group`] of actors; each of its
//! operations is an [`Exchange`], which holds the plan of one collective.

use super::Plan;
use fabricsim_topology::LinkId;
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::AddAssign;
use std::sync::Arc;

/// A job with all that its execution needs.
#[derive(Clone, Default)]
pub struct Job {
    /// Names of the streams of a GPU, in order of their number: 1 to 64.
    pub streams: Vec<String>,
    /// Names of tasks.
    pub names: Vec<String>,
    /// What ranks do.
    pub scripts: Vec<Script>,
    /// Who does it.
    pub actors: Vec<Actor>,
    /// Who communicates with whom.
    pub groups: Vec<Group>,
    /// What is communicated.
    pub exchanges: Vec<Exchange>,
}

/// A stream of a GPU, an index into [`Job::streams`]. Stream 0 is the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u8);

/// A task of a script, an index into [`Script::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// An actor, an index into [`Job::actors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(pub u32);

/// A group, an index into [`Job::groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// An exchange, an index into [`Job::exchanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u32);

/// The tasks of a rank, in the order in which its process starts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Script {
    /// The tasks.
    pub tasks: Vec<Task>,
}

/// Something on a stream. Tasks of one stream run one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Where it runs.
    pub stream: StreamId,
    /// Tasks of other streams that have to be done before it begins.
    pub after: SmallVec<[TaskId; 2]>,
    /// What it does.
    pub work: Work,
    /// What it is, for people.
    pub tag: Tag,
}

/// What a task is, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// An index into [`Job::names`].
    pub name: u16,
    /// Which step it belongs to, from 0.
    pub step: u16,
    /// Which micro-batch, from 0; `None` if it is of none.
    pub micro_batch: Option<u16>,
    /// Which virtual stage of this rank, from 0.
    pub chunk: u16,
    /// Which part of a step its kernels are; of no matter for other work.
    pub kind: TaskKind,
}

/// Which part of a step kernels are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskKind {
    /// A forward pass.
    #[default]
    Forward,
    /// A forward pass once more, for the backward pass.
    Recompute,
    /// A backward pass.
    Backward,
    /// The optimiser.
    Optimiser,
    /// What is done to gradients: adding them up, compressing them.
    Gradients,
}

impl TaskKind {
    /// All of them, in order of their number.
    pub const ALL: [TaskKind; 5] = [
        TaskKind::Forward,
        TaskKind::Recompute,
        TaskKind::Backward,
        TaskKind::Optimiser,
        TaskKind::Gradients,
    ];

    /// Its number.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Kernels on the GPU.
    Kernels(Kernels),
    /// The rank's part in an operation of a communicator.
    Communicate {
        /// Which of the actor's groups.
        group: u16,
        /// Which of the group's exchanges.
        exchange: u16,
    },
    /// Something that takes so long, whatever else goes on: a copy engine, the host.
    Wait(Time),
    /// The process waits for all that it has started before it starts more.
    Synchronise,
}

/// Kernels one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Kernels {
    /// What they take with all SMs, of work that SMs limit; it takes longer in proportion when
    /// communication holds some of them.
    pub compute: Time,
    /// What they take beside, limited by memory or latency.
    pub memory: Time,
    /// How many there are: each has to be started by the process.
    pub launches: u16,
}

impl AddAssign for Kernels {
    fn add_assign(&mut self, other: Kernels) {
        self.compute += other.compute;
        self.memory += other.memory;
        self.launches = self.launches.saturating_add(other.launches);
    }
}

impl Kernels {
    /// Kernels that take so many times as long.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Kernels {
        let time = |t: Time| Time::from_picos((t.picos() as f64 * factor).round() as u64);
        Kernels {
            compute: time(self.compute),
            memory: time(self.memory),
            ..self
        }
    }

    /// What is left without some of them.
    #[must_use]
    pub fn without(self, part: Kernels) -> Kernels {
        Kernels {
            compute: self.compute.saturating_sub(part.compute),
            memory: self.memory.saturating_sub(part.memory),
            launches: self.launches.saturating_sub(part.launches),
        }
    }
}

/// Ranks that nothing tells apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// One of them.
    pub rank: u32,
    /// How many there are.
    pub alike: u32,
    /// What they do, an index into [`Job::scripts`].
    pub script: u32,
    /// SMs of the GPU.
    pub sms: u32,
    /// What starting a kernel takes the process.
    pub launch: Time,
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

/// An operation of a communicator.
#[derive(Clone)]
pub struct Exchange {
    /// What it is, for people: `all-gather of 64 MiB`.
    pub name: String,
    /// The size, as nccl-tests counts it.
    pub bytes: Bytes,
    /// The bus bandwidth is so many times size over time.
    pub bus_factor: f64,
    /// The algorithm and protocol, for people.
    pub how: String,
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
    pub fn free(name: &str, bytes: Bytes, bus_factor: f64) -> Exchange {
        Exchange {
            name: name.to_owned(),
            bytes,
            bus_factor,
            how: String::new(),
            sms: 0,
            plan: None,
            moved: None,
            alike: u32::MAX,
            own: Vec::new(),
        }
    }
}

/// What disturbs a job from outside. Times are since the job began.
pub trait JobDisturbances: Sync {
    /// How fast a rank's GPU is at a time (1: as it should be, 0: not at all), and when that
    /// changes next.
    fn speed(&self, _rank: u32, _at: Time) -> (f64, Option<Time>) {
        (1.0, None)
    }
    /// What kernels of a rank really take.
    fn kernels(&self, _rank: u32, _task: TaskId, _tag: Tag, kernels: Kernels) -> Kernels {
        kernels
    }
    /// What is left of a link's rate at a time.
    fn link(&self, _link: LinkId, _at: Time) -> f64 {
        1.0
    }
    /// Links that are ever disturbed.
    fn links(&self) -> Vec<LinkId> {
        Vec::new()
    }
    /// When a link changes next, after a time.
    fn next_link_change(&self, _after: Time) -> Option<Time> {
        None
    }
}

/// Nothing disturbs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Undisturbed;

impl JobDisturbances for Undisturbed {}
