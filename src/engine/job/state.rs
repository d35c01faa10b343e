//! What each actor and group is doing at the moment.

use super::ledger::{Doing, Ledger};
use fabricsim_plan::job::{
    Actor, ActorId, ExchangeId, GroupId, Kernels, Script, StreamId, Task, TaskId, Work,
};
use fabricsim_units::Time;

/// Bytes that a task takes: itself, and what its script comes down to.
#[must_use]
pub const fn task_footprint() -> u64 {
    // Its place on its stream, what waits for it, for how many it waits, and kernels before it.
    (size_of::<Task>() + 4 + 4 * 3 + 2 + 4) as u64
}

/// Bytes that an actor takes for each task of its script.
#[must_use]
pub const fn script_footprint() -> u64 {
    (size_of::<u16>() + size_of::<Time>()) as u64
}

/// What scripts come down to for execution.
pub(super) struct Outline {
    /// Tasks of each stream, in order.
    pub(super) of_stream: Vec<Vec<TaskId>>,
    /// Who waits for each task, one task after the other, and where each one's end.
    dependents: Vec<TaskId>,
    dependents_end: Vec<u32>,
    /// For how many each task waits.
    pub(super) waits: Vec<u16>,
    /// Kernels that the process has started before each task.
    pub(super) launches_before: Vec<u32>,
    /// Tasks that are synchronisations.
    pub(super) syncs: Vec<TaskId>,
}

impl Outline {
    pub(super) fn new(script: &Script, streams: usize) -> Self {
        let count = script.tasks.len();
        let mut outline = Outline {
            of_stream: vec![Vec::new(); streams],
            dependents: Vec::new(),
            dependents_end: vec![0; count],
            waits: vec![0; count],
            launches_before: Vec::with_capacity(count),
            syncs: Vec::new(),
        };
        let mut launches = 0u32;
        for (index, task) in script.tasks.iter().enumerate() {
            let id = TaskId(index as u32);
            outline.launches_before.push(launches);
            match task.work {
                Work::Synchronise => outline.syncs.push(id),
                Work::Kernels(k) => launches += u32::from(k.launches),
                Work::Communicate { .. } => launches += 1,
                Work::Wait(_) => {}
            }
            if task.work != Work::Synchronise {
                outline.of_stream[usize::from(task.stream.0)].push(id);
            }
            outline.waits[index] = task.after.len() as u16;
            for before in &task.after {
                outline.dependents_end[before.0 as usize] += 1;
            }
        }
        // From how many there are of each to where each one's begin; then they move on to where
        // they end as they are filled in.
        let mut sum = 0;
        for end in &mut outline.dependents_end {
            sum += std::mem::replace(end, sum);
        }
        outline.dependents = vec![TaskId(0); sum as usize];
        for (index, task) in script.tasks.iter().enumerate() {
            for before in &task.after {
                let place = &mut outline.dependents_end[before.0 as usize];
                outline.dependents[*place as usize] = TaskId(index as u32);
                *place += 1;
            }
        }
        outline
    }

    /// Who waits for a task.
    pub(super) fn dependents(&self, task: TaskId) -> &[TaskId] {
        let index = task.0 as usize;
        let start = index
            .checked_sub(1)
            .map_or(0, |before| self.dependents_end[before]);
        &self.dependents[start as usize..self.dependents_end[index] as usize]
    }
}

/// A task that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) task: TaskId,
    pub(super) ready: Time,
    pub(super) begun: Time,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Kernels: what was left at `since`, as a part of all, and what all takes from then on.
    Kernels {
        kernels: Kernels,
        left: f64,
        since: Time,
        whole: Time,
        version: u32,
    },
    Communication(GroupId),
    Wait,
}

#[derive(Debug, Clone, Default)]
pub(super) struct StreamState {
    /// How many of its tasks have begun.
    pub(super) next: usize,
    pub(super) running: Option<Running>,
}

pub(super) struct ActorState {
    pub(super) script: usize,
    pub(super) streams: Vec<StreamState>,
    /// Streams whose next task may be able to begin, as bits.
    pub(super) look: u64,
    /// For how many each task still waits.
    pub(super) waits: Vec<u16>,
    /// When each task had all that it waits for.
    pub(super) freed: Vec<Time>,
    pub(super) done: u32,
    /// The synchronisation at which the process waits, or will, as an index.
    pub(super) sync: usize,
    /// When the process went on after the last one, and the kernels it had started by then.
    pub(super) host_base: Time,
    pub(super) host_launches: u32,
    /// SMs that communications hold.
    pub(super) held: u32,
    pub(super) versions: u32,
    pub(super) ledger: Ledger,
    pub(super) doing: Doing,
    pub(super) since: Time,
    /// Time that it has waited on a stream with nothing else to do since that stream last
    /// began to communicate.
    pub(super) idled: Vec<Time>,
    /// To be looked at in this instant.
    pub(super) touched: bool,
}

impl ActorState {
    pub(super) fn new(actor: &Actor, outline: &Outline, streams: usize) -> Self {
        ActorState {
            script: actor.script as usize,
            streams: vec![StreamState::default(); streams],
            look: u64::MAX,
            waits: outline.waits.clone(),
            freed: vec![Time::ZERO; outline.waits.len()],
            done: 0,
            sync: 0,
            host_base: Time::ZERO,
            host_launches: 0,
            held: 0,
            versions: 0,
            ledger: Ledger::new(streams),
            doing: Doing::Idle,
            since: Time::ZERO,
            idled: vec![Time::ZERO; streams],
            touched: false,
        }
    }

    /// Books the time since it last changed what it does.
    pub(super) fn settle(&mut self, now: Time) {
        let time = now.saturating_sub(self.since);
        self.ledger.add(self.doing, time);
        if let Doing::Waiting(stream, _) = self.doing {
            self.idled[usize::from(stream.0)] += time;
        }
        self.since = now;
    }

    /// What it does now. Of several things the first of these: kernels, communication, other,
    /// waiting for others, waiting for its process.
    pub(super) fn now_doing(&self, script: &Script, groups: &[GroupState]) -> Doing {
        let of_stream = |(index, state): (usize, &StreamState)| {
            let stream = StreamId(index as u8);
            state.running.map(|running| match running.kind {
                Kind::Kernels { .. } => {
                    Doing::Compute(script.tasks[running.task.0 as usize].tag.kind)
                }
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
        let busiest = self.streams.iter().enumerate().filter_map(of_stream).min();
        busiest.unwrap_or(if self.done as usize == script.tasks.len() {
            Doing::Idle
        } else {
            Doing::Host
        })
    }
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
