//! Tasks of a rank, written in the order in which its process starts them.

use crate::exchanges::{Moves, Operation};
use fabricsim_budget::Part;
use fabricsim_plan::job::{
    GroupRole, Kernels, Script, StreamId, StreamRole, Tag, Task, TaskId, TransferRouteId, Work,
};
use fabricsim_units::{Bytes, Time};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The streams of a GPU.
pub(super) const STREAMS: [StreamRole; 11] = [
    StreamRole::Compute,
    StreamRole::TensorParallel,
    StreamRole::DataParallel,
    StreamRole::Replicas,
    StreamRole::ForwardOut,
    StreamRole::ForwardIn,
    StreamRole::BackwardOut,
    StreamRole::BackwardIn,
    StreamRole::ContextAndExperts,
    StreamRole::StepEnd,
    StreamRole::Embedding,
];

/// Those of a rank that has something in its host's memory, behind the others.
pub(super) const HOST_STREAMS: [StreamRole; 8] = [
    StreamRole::HostOut,
    StreamRole::HostIn,
    StreamRole::HostCompute,
    StreamRole::StorageOut,
    StreamRole::StorageIn,
    StreamRole::Loader,
    StreamRole::LoaderCpu,
    StreamRole::LoaderIn,
];

/// Kernels.
pub(super) const COMPUTE: StreamId = StreamId(0);
/// Tensor parallel.
pub(super) const TENSOR: StreamId = StreamId(1);
/// Gradients and weights.
pub(super) const DATA: StreamId = StreamId(2);
/// Between parts of hybrid sharding that are the same.
pub(super) const REPLICAS: StreamId = StreamId(3);
/// Activations to the next stage.
pub(super) const FORWARD_OUT: StreamId = StreamId(4);
/// Activations from the stage before.
pub(super) const FORWARD_IN: StreamId = StreamId(5);
/// Gradients to the stage before.
pub(super) const BACKWARD_OUT: StreamId = StreamId(6);
/// Gradients from the next stage.
pub(super) const BACKWARD_IN: StreamId = StreamId(7);
/// Context parallel and experts' tokens.
pub(super) const CONTEXT: StreamId = StreamId(8);
/// The norm of all gradients, for which all stages meet.
pub(super) const END: StreamId = StreamId(9);
/// The gradients of the table of tokens, which first and last stage share.
pub(super) const EMBEDDING: StreamId = StreamId(10);

/// Copies to the host's memory.
pub(super) const HOST_OUT: StreamId = StreamId(11);
/// Copies from there.
pub(super) const HOST_IN: StreamId = StreamId(12);
/// What the CPU computes.
pub(super) const HOST: StreamId = StreamId(13);
/// From the host's memory to drives.
pub(super) const STORAGE_OUT: StreamId = StreamId(14);
/// From drives.
pub(super) const STORAGE_IN: StreamId = StreamId(15);
/// Batches from storage.
pub(super) const LOADER: StreamId = StreamId(16);
/// What their decoding takes.
pub(super) const LOADER_CPU: StreamId = StreamId(17);
/// Batches to the GPU.
pub(super) const LOADER_IN: StreamId = StreamId(18);

/// A communicator of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Slot {
    /// Tensor parallel.
    Tensor,
    /// Replicas (and parts of a sequence): all that have the same weights.
    Data,
    /// Those of them that divide weights, if not all do.
    Shard,
    /// Those that have the same part.
    Replica,
    /// Those that have the same experts.
    ExpertData,
    /// Those of them that divide experts, if not all do.
    ExpertShard,
    /// Those that have the same part of them.
    ExpertReplica,
    /// Context parallel.
    Context,
    /// Expert parallel.
    Expert,
    /// To the next stage.
    ForwardOut,
    /// From the stage before.
    ForwardIn,
    /// To the stage before.
    BackwardOut,
    /// From the next stage.
    BackwardIn,
    /// First and last stage, which share the table of tokens.
    Embedding,
    /// All that one replica is made of.
    Model,
}

impl Slot {
    /// All of them, in order of their number.
    pub(super) const ALL: [Slot; 15] = [
        Slot::Tensor,
        Slot::Data,
        Slot::Shard,
        Slot::Replica,
        Slot::ExpertData,
        Slot::ExpertShard,
        Slot::ExpertReplica,
        Slot::Context,
        Slot::Expert,
        Slot::ForwardOut,
        Slot::ForwardIn,
        Slot::BackwardOut,
        Slot::BackwardIn,
        Slot::Embedding,
        Slot::Model,
    ];

    /// Both ends of a message number their operations together.
    #[must_use]
    pub(super) const fn side(self) -> Slot {
        match self {
            Slot::ForwardIn => Slot::ForwardOut,
            Slot::BackwardIn => Slot::BackwardOut,
            other => other,
        }
    }

    /// What its communicator is for.
    #[must_use]
    pub(super) const fn role(self) -> GroupRole {
        match self {
            Slot::Tensor => GroupRole::TensorParallel,
            Slot::Data | Slot::Shard | Slot::ExpertData | Slot::ExpertShard => {
                GroupRole::DataParallel
            }
            Slot::Replica | Slot::ExpertReplica => GroupRole::Replicas,
            Slot::Context => GroupRole::ContextParallel,
            Slot::Expert => GroupRole::ExpertParallel,
            Slot::ForwardOut | Slot::ForwardIn | Slot::BackwardOut | Slot::BackwardIn => {
                GroupRole::Pipeline
            }
            Slot::Embedding => GroupRole::Embedding,
            Slot::Model => GroupRole::StepEnd,
        }
    }

    /// Its number in [`fabricsim_plan::job::Actor::groups`].
    #[must_use]
    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

/// Operations that scripts call, by communicator, and names of tasks.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By slot.
    pub(super) operations: Vec<Vec<Operation>>,
    known: Vec<FxHashMap<Operation, u16>>,
    pub(super) names: Vec<String>,
    names_known: FxHashMap<String, u16>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Calls {
            operations: vec![Vec::new(); Slot::ALL.len()],
            known: vec![FxHashMap::default(); Slot::ALL.len()],
            ..Calls::default()
        }
    }

    fn operation(&mut self, slot: Slot, operation: Operation) -> u16 {
        let slot = slot.side();
        let list = &mut self.operations[slot.index()];
        *self.known[slot.index()]
            .entry(operation)
            .or_insert_with_key(|operation| {
                list.push(operation.clone());
                list.len() as u16 - 1
            })
    }

    pub(super) fn name(&mut self, name: &str) -> u16 {
        if let Some(&known) = self.names_known.get(name) {
            return known;
        }
        let id = self.names.len() as u16;
        self.names.push(name.to_owned());
        self.names_known.insert(name.to_owned(), id);
        id
    }
}

/// So many tasks are counted at once.
const COUNTED: usize = 1024;

/// A script that is being written.
pub(super) struct Writer<'c> {
    calls: &'c mut Calls,
    tasks: Vec<Task>,
    /// Where it is said how many are written.
    counting: Option<&'c Part>,
    /// What following tasks belong to.
    pub(super) tag: Tag,
    /// Communicators with more than one rank.
    has: [bool; Slot::ALL.len()],
    /// What [`Writer::call`] called.
    pub(super) used: Vec<(Slot, u16)>,
}

impl<'c> Writer<'c> {
    /// For a script of about so many tasks.
    pub(super) fn new(calls: &'c mut Calls, has: [bool; Slot::ALL.len()], tasks: usize) -> Self {
        Writer {
            calls,
            tasks: Vec::with_capacity(tasks),
            counting: None,
            tag: Tag::default(),
            has,
            used: Vec::new(),
        }
    }

    /// Says there how many tasks are written.
    pub(super) fn counted(mut self, counting: &'c Part) -> Self {
        self.counting = Some(counting);
        self
    }

    pub(super) fn has(&self, slot: Slot) -> bool {
        self.has[slot.index()]
    }

    fn push(&mut self, stream: StreamId, name: &str, work: Work, after: &[TaskId]) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        let mut before: SmallVec<[TaskId; 2]> = SmallVec::new();
        for &task in after {
            // Tasks of the same stream come one after the other anyway.
            let same = self.tasks[task.0 as usize].stream == stream;
            let sync = self.tasks[task.0 as usize].work.is_sync();
            if (!same || sync) && !before.contains(&task) {
                before.push(task);
            }
        }
        if let Some(counting) = self.counting
            && self.tasks.len().is_multiple_of(COUNTED)
        {
            counting.add(COUNTED as u64);
        }
        self.tasks.push(Task {
            stream,
            after: before,
            work,
            tag: Tag {
                name: self.calls.name(name),
                ..self.tag
            },
        });
        id
    }

    /// Kernels on the main stream.
    pub(super) fn kernels(&mut self, name: &str, kernels: Kernels, after: &[TaskId]) -> TaskId {
        self.push(COMPUTE, name, Work::Kernels(kernels), after)
    }

    /// Kernels on another stream.
    pub(super) fn kernels_on(
        &mut self,
        stream: StreamId,
        name: &str,
        kernels: Kernels,
        after: &[TaskId],
    ) -> TaskId {
        self.push(stream, name, Work::Kernels(kernels), after)
    }

    /// Something else that takes so long.
    pub(super) fn wait(
        &mut self,
        stream: StreamId,
        name: &str,
        time: Time,
        after: &[TaskId],
    ) -> TaskId {
        self.push(stream, name, Work::Wait(time), after)
    }

    /// Bytes flow over a route; nothing if there are none.
    pub(super) fn transfer(
        &mut self,
        stream: StreamId,
        name: &str,
        (route, bytes): (TransferRouteId, u64),
        after: &[TaskId],
    ) -> Option<TaskId> {
        let work = Work::Transfer {
            route,
            bytes: Bytes::new(bytes),
            messages: 1,
        };
        (bytes > 0).then(|| self.push(stream, name, work, after))
    }

    /// The process waits for all that it has started.
    pub(super) fn synchronise(&mut self) -> TaskId {
        self.push(COMPUTE, "synchronise", Work::Synchronise, &[])
    }

    /// The process waits for a stream, or for all of them, and is busy for so long then.
    pub(super) fn host_sync(&mut self, stream: Option<StreamId>, busy: Time) {
        self.push(COMPUTE, "host sync", Work::HostSync { stream, busy }, &[]);
    }

    /// An operation of a communicator; nothing if this has one rank, or nothing is to move.
    pub(super) fn call(
        &mut self,
        stream: StreamId,
        slot: Slot,
        operation: Operation,
        after: &[TaskId],
    ) -> Option<TaskId> {
        let name = operation.name.clone();
        let exchange = self.operation(slot, operation)?;
        Some(self.call_again(stream, slot, (&name, exchange), after))
    }

    /// The number of an operation of a communicator, by which it is called.
    pub(super) fn operation(&mut self, slot: Slot, operation: Operation) -> Option<u16> {
        if !self.has(slot) || operation.bytes == Bytes::ZERO {
            return None;
        }
        Some(self.calls.operation(slot, operation))
    }

    /// An operation that has its number.
    pub(super) fn call_again(
        &mut self,
        stream: StreamId,
        slot: Slot,
        (name, exchange): (&str, u16),
        after: &[TaskId],
    ) -> TaskId {
        let side = slot.side();
        if !self.used.contains(&(side, exchange)) {
            self.used.push((side, exchange));
        }
        let work = Work::Communicate {
            group: slot.index() as u16,
            exchange,
        };
        self.push(stream, name, work, after)
    }

    pub(super) fn finish(self) -> (Script, Vec<(Slot, u16)>) {
        (Script { tasks: self.tasks }, self.used)
    }
}

/// A collective that NCCL plans as it likes.
pub(super) fn collective(
    name: &str,
    what: fabricsim_collective::Collective,
    bytes: u64,
) -> Operation {
    Operation {
        name: name.to_owned(),
        moves: Moves::Collective(what),
        bytes: Bytes::new(bytes),
        forced: fabricsim_nccl::Forced::default(),
    }
}

/// A message from the first rank to the second.
pub(super) fn send(name: &str, bytes: u64) -> Operation {
    Operation {
        name: name.to_owned(),
        moves: Moves::Send,
        bytes: Bytes::new(bytes),
        forced: fabricsim_nccl::Forced::default(),
    }
}
