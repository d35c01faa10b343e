//! What happened when in a job: the only input of its timelines.

use super::Disturbance;
use crate::communication::Communication;
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
    pub(crate) fn jobs_before(&self, place: usize) -> usize {
        let (before, from) = self.ranks.split_at(place.min(self.ranks.len()));
        let rank = from.first().map(|(rank, _, _)| *rank);
        before.iter().filter(|(r, _, _)| Some(*r) == rank).count()
    }

    /// A stream's name, or its number if it has none.
    pub(crate) fn stream_name(&self, stream: u8) -> String {
        let known = self.streams.get(usize::from(stream));
        known.map_or_else(|| format!("stream {stream}"), Clone::clone)
    }

    /// Whether the tasks of a rank are in the trace.
    pub(crate) fn is_traced(&self, rank: u32) -> bool {
        self.in_trace.is_empty() || self.in_trace.contains(&rank)
    }

    /// What is not in the trace, and how to get it; nothing if all is.
    pub(crate) fn left_out(&self) -> Option<String> {
        let (traced, all) = (self.in_trace.len(), self.ranks.len());
        (traced > 0 && traced < all).then(|| {
            format!("The trace is of {traced} of {all} recorded ranks. --exact-full writes all.")
        })
    }
}

/// How a rank is named: `rank 0 node0/gpu0 (stage 0)`.
pub(crate) fn rank_name((rank, gpu, part): &(u32, String, String)) -> String {
    match part.as_str() {
        "" => format!("rank {rank} {gpu}"),
        part => format!("rank {rank} {gpu} ({part})"),
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
    /// From when to when the process started it, of several kernels the first; as long as nothing if
    /// it is not started by the process.
    pub launched: (Time, Time),
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

impl JobSpan {
    /// Since when a communication waits for others, if it does; `before` is the end of the task
    /// before it on its stream.
    pub(crate) fn waits_from(&self, before: Time) -> Option<Time> {
        let from = self.ready.max(before);
        (self.kind == SpanKind::Communication && from < self.start).then_some(from)
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
