//! What happened when in a job: the only input of its timelines.

use super::Disturbance;
use fabricsim_units::{Bytes, Time};
use std::collections::BTreeSet;

/// What happened when, on one rank of each class: `timeline.json`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobTimeline {
    /// Names of streams, by number; 0 is the main one.
    pub streams: Vec<String>,
    /// Ranks shown, in the order of [`super::StepResult::ranks`]: rank, GPU, part.
    pub ranks: Vec<(u32, String, String)>,
    /// How many ranks the job has.
    pub world: u32,
    /// Operations of communicators, each once.
    pub communications: Vec<Communication>,
    /// What they did, in order of its end.
    pub spans: Vec<JobSpan>,
    /// When the steps ended.
    pub steps: Vec<Time>,
    /// What was disturbed.
    pub disturbances: Vec<Disturbance>,
    /// The end.
    pub end: Time,
    /// Ranks that are left out to keep the file small.
    pub ranks_omitted: u32,
    /// Of `ranks` those whose tasks are in the trace, by their places; all of them, if it is empty.
    pub in_trace: BTreeSet<u32>,
}

impl JobTimeline {
    /// What a span communicates, if it does.
    #[must_use]
    pub fn communication(&self, span: &JobSpan) -> Option<&Communication> {
        self.communications.get(span.communication? as usize)
    }

    /// How many of the ranks shown before a place are on the same GPU: of other jobs.
    #[must_use]
    pub(super) fn jobs_before(&self, place: usize) -> usize {
        let (before, from) = self.ranks.split_at(place.min(self.ranks.len()));
        let rank = from.first().map(|(rank, _, _)| *rank);
        before.iter().filter(|(r, _, _)| Some(*r) == rank).count()
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpan {
    /// An index into [`JobTimeline::ranks`].
    pub rank: u32,
    /// An index into [`JobTimeline::streams`].
    pub stream: u8,
    /// What: `attention`, `all-gather of weights`.
    pub what: String,
    /// Which kind of thing.
    pub kind: SpanKind,
    /// Of a communication: its size, as nccl-tests counts it.
    pub bytes: Bytes,
    /// Of a communication: what it is, an index into [`JobTimeline::communications`].
    pub communication: Option<u32>,
    /// Of a communication: which bucket of gradients it moves, from 0 in each step, if it moves
    /// one.
    pub bucket: Option<u16>,
    /// Of a message from one rank to another: which end of it this is.
    pub message: Option<MessageEnd>,
    /// Which micro-batch, from 0, if any.
    pub micro_batch: Option<u16>,
    /// Which virtual stage of the rank.
    pub chunk: u16,
    /// Which step.
    pub step: u16,
    /// How many kernels it is; none if it is something else.
    pub kernels: Option<u16>,
    /// When it could have begun; of a communication, from here to `start` the rank waited for
    /// others.
    pub ready: Time,
    /// When the rank began it; of a communication: from here on its kernel runs, though it may
    /// wait for others until `start`.
    pub came: Time,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
}

/// An operation of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Communication {
    /// What it moves.
    pub movement: Movement,
    /// What its communicator is for.
    pub communicator: Communicator,
    /// The communicator's name: `data parallel`, `pipeline 0→1`.
    pub group: String,
    /// The communicator's ranks, of one that stands for all that are alike, in its order.
    pub ranks: Vec<u32>,
    /// The algorithm, under the name that the command line has for it; empty if nothing moves.
    pub algorithm: String,
    /// The protocol, likewise.
    pub protocol: String,
}

/// What an operation of a communicator moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Movement {
    /// All ranks end with the sum of all ranks' data.
    AllReduce,
    /// All ranks end with all ranks' blocks.
    AllGather,
    /// Each rank ends with its block of the sum.
    ReduceScatter,
    /// All ranks end with the root's data.
    Broadcast,
    /// The root ends with the sum.
    Reduce,
    /// Each rank sends a block to each.
    AllToAll,
    /// The root ends with all ranks' blocks.
    Gather,
    /// Each rank ends with its block of the root's data.
    Scatter,
    /// Messages between neighbours or pairs of ranks.
    SendReceive,
}

impl Movement {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Movement::AllReduce => "all-reduce",
            Movement::AllGather => "all-gather",
            Movement::ReduceScatter => "reduce-scatter",
            Movement::Broadcast => "broadcast",
            Movement::Reduce => "reduce",
            Movement::AllToAll => "all-to-all",
            Movement::Gather => "gather",
            Movement::Scatter => "scatter",
            Movement::SendReceive => "send-recv",
        }
    }
}

/// What a communicator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Communicator {
    /// Parts of each layer's matrices.
    TensorParallel,
    /// Copies of the same weights, or parts of them.
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

impl Communicator {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Communicator::TensorParallel => "tensor_parallel",
            Communicator::DataParallel => "data_parallel",
            Communicator::Replicas => "replicas",
            Communicator::ContextParallel => "context_parallel",
            Communicator::ExpertParallel => "expert_parallel",
            Communicator::Pipeline => "pipeline",
            Communicator::Embedding => "embedding",
            Communicator::StepEnd => "step_end",
            Communicator::Collective => "collective",
        }
    }
}

/// One end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageEnd {
    /// The message; its other end has the same number.
    pub number: u32,
    /// Whether it is the end that sends.
    pub sends: bool,
}

/// Kinds of tasks, each with a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    /// Kernels of a forward pass.
    Forward,
    /// Kernels of a backward pass.
    Backward,
    /// What is computed again before a backward pass.
    Recompute,
    /// The optimiser.
    Optimiser,
    /// Communication.
    Communication,
    /// Other.
    Other,
}
