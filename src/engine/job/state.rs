//! What each actor and group is doing at the moment.

use super::ledger::{Doing, Ledger};
use super::outline::{HostAt, Outline, Written};
use fabricsim_plan::job::{ActorId, ExchangeId, GroupId, Kernels, StreamId, TaskId, TaskKind};
use fabricsim_units::Time;

/// Bytes that an actor takes for each task of its script.
#[must_use]
pub const fn script_footprint() -> u64 {
    (size_of::<u16>() + size_of::<Time>()) as u64
}

/// A task that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) task: TaskId,
    pub(super) ready: Time,
    pub(super) came: Time,
    pub(super) begun: Time,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Kernels: what was left at `since`, as a part of all, and what all takes from then on.
    Kernels {
        part: TaskKind,
        kernels: Kernels,
        left: f64,
        since: Time,
        whole: Time,
        lost: Lost,
        version: u32,
    },
    Communication(GroupId),
    Transfer,
    Wait,
}

/// Parts of the time that kernels take, 0 to 1, which are not of their own making.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Lost {
    /// The GPU waits for the process to start them.
    pub(super) starved: f64,
    /// They take longer as communications hold SMs.
    pub(super) slowed: f64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StreamState {
    /// How many of its tasks have begun.
    pub(super) next: usize,
    pub(super) running: Option<Running>,
}

pub(super) struct ActorState {
    /// Its tasks, an index.
    pub(super) outline: usize,
    pub(super) streams: Vec<StreamState>,
    /// Streams whose next task may be able to begin, as bits.
    pub(super) look: u64,
    /// Streams on which a task runs, as bits.
    pub(super) busy: u64,
    /// For how many each task still waits; [`super::outline::DONE`] of those that are written one by
    /// one and done.
    pub(super) waits: Vec<u16>,
    /// When each task had all that it waits for.
    pub(super) freed: Vec<Time>,
    pub(super) done: u32,
    /// Tasks that were done when some were last to be dropped.
    pub(super) looked_at: u32,
    /// The synchronisation at which the process waits, or will, as an index.
    pub(super) sync: usize,
    /// When the process passed the last one, when it went on, and the kernels it had started by then.
    pub(super) host_passed: Time,
    pub(super) host_base: Time,
    pub(super) host_launches: u32,
    /// SMs that communications hold.
    pub(super) held: u32,
    /// Kernels of it that are on the GPU, those of communications included.
    pub(super) on_gpu: u32,
    pub(super) versions: u32,
    pub(super) ledger: Ledger,
    pub(super) doing: Doing,
    /// What its kernels lose at the moment.
    pub(super) lost: Lost,
    pub(super) since: Time,
    /// Time that it has waited on a stream with nothing else to do since that stream last
    /// began to communicate.
    pub(super) idled: Vec<Time>,
    /// To be looked at in this instant.
    pub(super) touched: bool,
}

impl ActorState {
    pub(super) fn new(outline: (usize, &Outline<'_>), streams: usize) -> Self {
        let (number, outline) = outline;
        ActorState {
            outline: number,
            streams: vec![StreamState::default(); streams],
            look: u64::MAX,
            busy: 0,
            waits: outline.waits.clone(),
            freed: vec![Time::ZERO; outline.waits.len()],
            done: 0,
            looked_at: 0,
            sync: 0,
            host_passed: Time::ZERO,
            host_base: Time::ZERO,
            host_launches: 0,
            held: 0,
            on_gpu: 0,
            versions: 0,
            ledger: Ledger::new(streams),
            doing: Doing::Idle,
            lost: Lost::default(),
            since: Time::ZERO,
            idled: vec![Time::ZERO; streams],
            touched: false,
        }
    }

    /// Its part in tables of tasks that are written one by one.
    pub(super) fn written(&mut self) -> Written<'_> {
        Written {
            waits: &mut self.waits,
            freed: &mut self.freed,
            sync: &mut self.sync,
        }
    }

    /// How far its process is.
    pub(super) fn host(&self) -> HostAt {
        HostAt {
            passed_at: self.host_passed,
            base: self.host_base,
            launches: self.host_launches,
            passed: self.sync,
        }
    }

    /// Books the time since it last changed what it does.
    pub(super) fn settle(&mut self, now: Time) {
        let time = now.saturating_sub(self.since);
        let part = |part: f64| Time::from_picos((time.picos() as f64 * part).round() as u64);
        let mut used = time;
        let Lost { starved, slowed } = self.lost;
        if starved > 0.0 && matches!(self.doing, Doing::Compute(_)) {
            used = part(1.0 - starved);
            self.ledger.add(Doing::Host, time - used);
        }
        self.ledger.add(self.doing, used);
        if let Doing::Compute(kind) = self.doing {
            self.ledger.slowed[kind.index()] += part(slowed).min(used);
        }
        if let Doing::Waiting(stream, _) = self.doing {
            self.idled[usize::from(stream.0)] += time;
        }
        self.since = now;
    }

    /// What kernels that have begun lose: where several run, what each of them does.
    pub(super) fn now_lost(&self) -> Lost {
        let of = |stream: usize| match self.streams[stream].running.map(|running| running.kind) {
            Some(Kind::Kernels { lost, .. }) => Some(lost),
            _ => None,
        };
        let least = each(self.busy).filter_map(of).reduce(|a, b| Lost {
            starved: a.starved.min(b.starved),
            slowed: a.slowed.min(b.slowed),
        });
        least.unwrap_or_default()
    }

    /// What it does now, of so many tasks that were written. Of several things the first of these: kernels, communication, other,
    /// waiting for others, waiting for its process.
    pub(super) fn now_doing(&self, tasks: u32, groups: &[GroupState]) -> Doing {
        let of_stream = |index: usize| {
            let stream = StreamId(index as u8);
            self.streams[index]
                .running
                .map(|running| match running.kind {
                    Kind::Kernels { part, .. } => Doing::Compute(part),
                    Kind::Transfer => Doing::Transfer(stream),
                    Kind::Wait => Doing::Other,
                    Kind::Communication(group) => {
                        let group = &groups[group.0 as usize];
                        let exchange = group.exchange.unwrap_or(ExchangeId(0));
                        match group.going {
                            Some(_) => Doing::Exposed(stream, exchange),
                            None => Doing::Waiting(stream, exchange),
                        }
                    }
                })
        };
        let busiest = each(self.busy).filter_map(of_stream).min();
        busiest.unwrap_or(if self.done == tasks {
            Doing::Idle
        } else {
            Doing::Host
        })
    }
}

/// The streams that are set in a mask.
pub(super) fn each(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let stream = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (stream < u64::BITS).then_some(stream as usize)
    })
}

/// A communicator at the moment.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupState {
    /// Actors that have come to the operation, with the times at which they did.
    pub(super) come: Vec<(ActorId, StreamId, Time)>,
    /// The operation's number in the group.
    pub(super) slot: u16,
    pub(super) exchange: Option<ExchangeId>,
    pub(super) going: Option<Going>,
    /// Speeds that its operations have had; an event that was foreseen with another one than the
    /// last is void, also one of an operation that is over.
    pub(super) version: u32,
}

impl GroupState {
    /// The operation that has begun, or gathers; the group is free for the next one.
    pub(super) fn take(&mut self) -> GroupState {
        let free = GroupState {
            version: self.version,
            ..GroupState::default()
        };
        std::mem::replace(self, free)
    }
}

/// An operation that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Going {
    pub(super) begun: Time,
    pub(super) phase: Phase,
    /// How much longer the phase would take alone, in picoseconds, at `since`.
    pub(super) left: f64,
    pub(super) since: Time,
    /// The part of that speed at which it goes on.
    pub(super) speed: f64,
    /// The part that the turns of its processes on their GPUs leave of it.
    pub(super) turns: f64,
}

/// What an operation is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It asks for no link yet, or never does.
    Before,
    /// It asks for links.
    Moving,
    /// It asks for none any more.
    After,
}
