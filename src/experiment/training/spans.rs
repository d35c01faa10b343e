//! The tasks of a job's last step, as its timeline shows them.

use super::traced::in_trace;
use crate::movement::movement_of;
use fabricsim_engine::job::{Done, JobProbe, Meeting};
use fabricsim_plan::job::{
    ActorId, BucketId, Group, GroupId, GroupRole, HowMoved, Job, Movement as Moved, Task, TaskKind,
    Work,
};
use fabricsim_report::communication::{Communication, Communicator, Movement};
use fabricsim_report::training::{JobSpan, JobTimeline, MessageEnd, RankUse, SpanKind};
use fabricsim_units::Bytes;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Tasks that are kept for timelines, and ranks.
const MAX_SPANS: usize = 400_000;
const MAX_RANKS: usize = 32;

/// Writes down each task of the last step, of some ranks.
pub(crate) struct Spans<'j> {
    job: &'j Job,
    last_step: u16,
    /// The actors whose tasks are kept.
    shown: Vec<usize>,
    /// By actor: its place among them.
    place: Vec<Option<u32>>,
    spans: Vec<JobSpan>,
    communications: Vec<Communication>,
    /// By communicator and number of the operation there: an index into `communications`.
    known: FxHashMap<(GroupId, u16), u32>,
    messages: FxHashMap<Meeting, u32>,
    /// All of them are to be in a trace.
    all: bool,
}

impl<'j> Spans<'j> {
    /// Of those that do the same one is enough, but for those that something disturbs. A trace is of
    /// `all` that are kept, also on a large machine.
    pub(crate) fn new(
        job: &'j Job,
        last_step: u16,
        plain: impl Fn(u32) -> bool,
        all: bool,
    ) -> Self {
        let mut scripts = Vec::new();
        let mut shown = Vec::new();
        for (index, actor) in job.actors.iter().enumerate() {
            let first = !scripts.contains(&actor.script);
            if (first || !plain(actor.rank)) && shown.len() < MAX_RANKS {
                scripts.push(actor.script);
                shown.push(index);
            }
        }
        Spans::shown(job, last_step, shown, all)
    }

    /// Of no rank: nothing is kept.
    pub(crate) fn of_none(job: &'j Job) -> Self {
        Spans::shown(job, 0, Vec::new(), true)
    }

    fn shown(job: &'j Job, last_step: u16, shown: Vec<usize>, all: bool) -> Self {
        let mut place = vec![None; job.actors.len()];
        for (at, &actor) in shown.iter().enumerate() {
            place[actor] = Some(at as u32);
        }
        Spans {
            job,
            last_step,
            shown,
            place,
            spans: Vec::new(),
            communications: Vec::new(),
            known: FxHashMap::default(),
            messages: FxHashMap::default(),
            all,
        }
    }

    /// The timeline, without what is known only of the whole run; `ranks` are those of all actors.
    pub(crate) fn timeline(self, ranks: &[RankUse], gpus: usize) -> JobTimeline {
        let shown = self.shown.iter().map(|&actor| &ranks[actor]);
        JobTimeline {
            streams: self
                .job
                .streams
                .iter()
                .map(|s| s.name().to_owned())
                .collect(),
            ranks: shown
                .map(|r| (r.rank, r.gpu.clone(), r.part.clone()))
                .collect(),
            world: self.job.actors.iter().map(|actor| actor.alike).sum(),
            communications: self.communications,
            in_trace: match self.all {
                true => BTreeSet::new(),
                false => in_trace(&self.spans, self.shown.len(), gpus),
            },
            ranks_omitted: ranks.len().saturating_sub(self.shown.len()) as u32,
            spans: self.spans,
            ..JobTimeline::default()
        }
    }

    /// The number of a communicator's operation among those of the timeline.
    fn communication(&mut self, id: GroupId, slot: u16) -> u32 {
        let (group, exchange) = self.operation(id, slot);
        let next = self.communications.len() as u32;
        let number = *self.known.entry((id, slot)).or_insert(next);
        if number == next {
            let (algorithm, protocol) = match exchange.how {
                HowMoved::Planned(algorithm, protocol) => (algorithm, protocol.name()),
                HowMoved::Nothing | HowMoved::Free => ("", ""),
            };
            self.communications.push(Communication {
                movement: movement(exchange.movement),
                communicator: communicator(group.role),
                group: group.name.clone(),
                ranks: group.ranks.clone(),
                algorithm: algorithm.to_owned(),
                protocol: protocol.to_owned(),
            });
        }
        number
    }

    fn operation(&self, id: GroupId, slot: u16) -> (&'j Group, &'j fabricsim_plan::job::Exchange) {
        let group = &self.job.groups[id.0 as usize];
        let exchange = group.exchanges[usize::from(slot)];
        (group, &self.job.exchanges[exchange.0 as usize])
    }

    /// Which end of which message an actor's operation is, if it is one.
    fn message(&mut self, actor: ActorId, done: Option<Meeting>, slot: u16) -> Option<MessageEnd> {
        let meeting = done?;
        let (group, exchange) = self.operation(meeting.group, slot);
        if exchange.movement != Moved::Send {
            return None;
        }
        let next = self.messages.len() as u32;
        Some(MessageEnd {
            number: *self.messages.entry(meeting).or_insert(next),
            sends: group.members.first() == Some(&actor),
        })
    }
}

impl JobProbe for Spans<'_> {
    fn task(&mut self, done: Done, task: &Task) {
        let Some(place) = self.place[done.actor.0 as usize] else {
            return;
        };
        if self.spans.len() >= MAX_SPANS {
            return;
        }
        let actor = &self.job.actors[done.actor.0 as usize];
        let tag = task.tag;
        if tag.step < self.last_step {
            return;
        }
        let (mut bytes, mut communication, mut message) = (Bytes::ZERO, None, None);
        if let Work::Communicate { group, exchange } = task.work
            && let Some(group) = actor.groups[usize::from(group)]
        {
            bytes = self.operation(group, exchange).1.bytes;
            communication = Some(self.communication(group, exchange));
            message = self.message(done.actor, done.meeting, exchange);
        }
        if let Work::Transfer { bytes: of, .. } = task.work {
            bytes = of;
        }
        self.spans.push(JobSpan {
            rank: place,
            stream: task.stream.0,
            what: self.job.names[usize::from(tag.name)].clone(),
            kind: match task.work {
                Work::Communicate { .. } | Work::Transfer { .. } => SpanKind::Communication,
                Work::Kernels(_) => kind_of(tag.kind),
                Work::Wait(_) | Work::Synchronise | Work::HostSync { .. } => SpanKind::Other,
            },
            bytes,
            communication,
            bucket: tag.bucket.map(BucketId::number),
            message,
            micro_batch: tag.micro_batch,
            chunk: tag.chunk,
            step: tag.step,
            kernels: match task.work {
                Work::Kernels(kernels) => Some(kernels.launches),
                _ => None,
            },
            launched: match task.work {
                Work::Kernels(_) | Work::Communicate { .. } => {
                    (done.issued.saturating_sub(actor.launch), done.issued)
                }
                Work::Transfer { .. }
                | Work::Wait(_)
                | Work::Synchronise
                | Work::HostSync { .. } => (done.issued, done.issued),
            },
            ready: done.ready,
            came: done.came,
            start: done.begun,
            end: done.ended,
        });
    }
}

const fn kind_of(kind: TaskKind) -> SpanKind {
    match kind {
        TaskKind::Forward => SpanKind::Forward,
        TaskKind::Recompute => SpanKind::Recompute,
        TaskKind::Backward => SpanKind::Backward,
        TaskKind::Optimiser => SpanKind::Optimiser,
        TaskKind::Gradients => SpanKind::Other,
    }
}

const fn movement(movement: Moved) -> Movement {
    match movement {
        Moved::Collective(collective) => movement_of(collective),
        Moved::Send => Movement::SendReceive,
    }
}

const fn communicator(role: GroupRole) -> Communicator {
    match role {
        GroupRole::TensorParallel => Communicator::TensorParallel,
        GroupRole::DataParallel => Communicator::DataParallel,
        GroupRole::Replicas => Communicator::Replicas,
        GroupRole::ContextParallel => Communicator::ContextParallel,
        GroupRole::ExpertParallel => Communicator::ExpertParallel,
        GroupRole::Pipeline => Communicator::Pipeline,
        GroupRole::Embedding => Communicator::Embedding,
        GroupRole::StepEnd => Communicator::StepEnd,
        GroupRole::Collective => Communicator::Collective,
    }
}
