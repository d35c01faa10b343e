//! Ranks go through their calls until none can go on.
//!
//! A process starts operations one after the other and does not wait for them. On the GPU those of a stream
//! follow each other. A rank's n-th operation of a communicator meets the n-th of all others, whatever they are: NCCL
//! compares nothing. What differs does not come to an end, or ends with wrong data where its kernels send as many messages.

mod messages;

use fabricsim_collective::Collective;
use fabricsim_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of an element: ranks are taken to exchange `float`.
pub(in crate::calls) const ELEMENT: u64 = 4;

/// What a rank calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::calls) enum Call {
    Operation(Operation),
    /// Sends and receives at once.
    Messages(Vec<Message>),
    Monitored {
        on: usize,
        timeout: Time,
    },
    Synchronize,
    Wait(Time),
    Crash,
}

/// An operation of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::calls) struct Operation {
    pub(in crate::calls) on: usize,
    pub(in crate::calls) what: What,
    pub(in crate::calls) bytes: u64,
    pub(in crate::calls) registered: bool,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::calls) enum What {
    Collective(Collective),
    Barrier,
    Register,
}

impl What {
    pub(in crate::calls) const fn name(self) -> &'static str {
        match self {
            What::Collective(collective) => collective.name(),
            What::Barrier => "barrier",
            What::Register => "register",
        }
    }
}

/// A message between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::calls) struct Message {
    pub(in crate::calls) on: usize,
    /// From here, or to here.
    pub(in crate::calls) sends: bool,
    pub(in crate::calls) with: u32,
    pub(in crate::calls) bytes: u64,
}

/// What operations take on the machine.
pub(in crate::calls) trait Costs {
    type Error;
    /// From when all have come.
    fn time(&mut self, operation: Operation) -> Result<Time, Self::Error>;
    /// A message from one rank to another.
    fn message_time(&mut self, from: u32, to: u32, bytes: u64) -> Result<Time, Self::Error>;
    /// How much of a message the receiver's buffers take before it receives.
    fn ahead(&mut self, on: usize, bytes: u64) -> Result<u64, Self::Error>;
    /// Whether kernels of both send as many messages, so that both end.
    fn same_steps(&mut self, operation: Operation, other: Operation) -> Result<bool, Self::Error>;
}

/// A call on a stream.
#[derive(Debug, Clone)]
pub(in crate::calls) struct Issued {
    pub(in crate::calls) work: Work,
    /// When the process started it.
    pub(in crate::calls) at: Time,
    /// Its number among those of its communicator, from 1.
    pub(in crate::calls) number: u32,
}

#[derive(Debug, Clone)]
pub(in crate::calls) enum Work {
    Operation(Operation),
    /// Each with when it was over.
    Messages(Vec<(Message, Option<Time>)>),
}

/// A stream of a rank.
#[derive(Debug, Clone, Default)]
pub(in crate::calls) struct Stream {
    /// When what was before is over.
    pub(in crate::calls) clock: Time,
    pub(in crate::calls) queue: VecDeque<Issued>,
}

impl Stream {
    /// When its first call can begin.
    pub(in crate::calls) fn start(&self) -> Option<Time> {
        self.queue.front().map(|issued| issued.at.max(self.clock))
    }
}

/// Why a process does not start its next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::calls) enum Host {
    /// It has no more.
    Ended,
    /// It is dead since.
    Crashed(Time),
    /// It waits for its operations, or until all have registered.
    Synchronizing,
    /// It is in a monitored barrier, its so-and-so-many-th.
    Monitored { on: usize, timeout: Time },
}

/// How far a rank is.
#[derive(Debug, Clone)]
pub(in crate::calls) struct Progress {
    pub(in crate::calls) host: Host,
    /// Since when the process does not go on.
    pub(in crate::calls) clock: Time,
    pub(in crate::calls) streams: Vec<Stream>,
    /// By communicator: operations started, and over.
    pub(in crate::calls) enqueued: Vec<u32>,
    pub(in crate::calls) completed: Vec<u32>,
    next: usize,
    /// Monitored barriers passed, by communicator.
    barriers: Vec<u32>,
}

/// An operation that is over.
#[derive(Debug, Clone)]
pub(in crate::calls) struct Done {
    pub(in crate::calls) what: String,
    pub(in crate::calls) on: usize,
    pub(in crate::calls) number: u32,
    pub(in crate::calls) bytes: u64,
    /// When the last rank came, and the end.
    pub(in crate::calls) began: Time,
    pub(in crate::calls) ended: Time,
}

/// What came of all calls.
#[derive(Debug, Default)]
pub(in crate::calls) struct Met {
    pub(in crate::calls) ranks: Vec<Progress>,
    pub(in crate::calls) done: Vec<Done>,
    /// Operations that ended with wrong data.
    pub(in crate::calls) wrong: Vec<String>,
    /// What else NCCL does not tell.
    pub(in crate::calls) notes: Vec<String>,
}

/// Communicators by their ranks, and whether each has a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(in crate::calls) struct Ways<'a> {
    pub(in crate::calls) members: &'a [Vec<u32>],
    pub(in crate::calls) names: &'a [String],
    pub(in crate::calls) side_by_side: bool,
    /// Who waits for longer gives up.
    pub(in crate::calls) timeout: Time,
}

impl Ways<'_> {
    pub(in crate::calls) fn stream(self, on: usize) -> usize {
        if self.side_by_side { on } else { 0 }
    }
}

struct Meeting<'a, C> {
    ways: Ways<'a>,
    calls: &'a [Vec<Call>],
    costs: &'a mut C,
    met: Met,
    /// Messages that lie in the receiver's buffers: when each came, and its size, by communicator, sender and receiver.
    boxes: BTreeMap<(usize, u32, u32), VecDeque<(Time, u64)>>,
}

/// Goes through the calls of all ranks.
///
/// # Errors
/// What the costs give.
pub(in crate::calls) fn meet<C: Costs>(
    ways: Ways<'_>,
    calls: &[Vec<Call>],
    costs: &mut C,
) -> Result<Met, C::Error> {
    let communicators = ways.members.len();
    let streams = if ways.side_by_side { communicators } else { 1 };
    let start = Progress {
        host: Host::Ended,
        clock: Time::ZERO,
        streams: vec![Stream::default(); streams],
        enqueued: vec![0; communicators],
        completed: vec![0; communicators],
        next: 0,
        barriers: vec![0; communicators],
    };
    let mut meeting = Meeting {
        ways,
        calls,
        costs,
        met: Met {
            ranks: vec![start; calls.len()],
            ..Met::default()
        },
        boxes: BTreeMap::new(),
    };
    while meeting.round()? {}
    Ok(meeting.met)
}

impl<C: Costs> Meeting<'_, C> {
    /// Lets everyone go on as far as they can; false if nobody could.
    fn round(&mut self) -> Result<bool, C::Error> {
        let mut moved = false;
        for rank in 0..self.calls.len() {
            moved |= self.advance(rank);
        }
        for on in 0..self.ways.members.len() {
            moved |= self.operation(on)?;
            moved |= self.monitored(on);
        }
        for rank in 0..self.calls.len() {
            for stream in 0..self.met.ranks[rank].streams.len() {
                moved |= self.messages(rank, stream)?;
            }
        }
        Ok(moved)
    }

    /// The process starts calls until it has to wait.
    fn advance(&mut self, rank: usize) -> bool {
        let ways = self.ways;
        let me = &mut self.met.ranks[rank];
        let before = me.next;
        loop {
            let Some(call) = self.calls[rank].get(me.next) else {
                me.host = Host::Ended;
                break;
            };
            let idle = me.streams.iter().all(|stream| stream.queue.is_empty());
            let over = me.streams.iter().map(|stream| stream.clock).max();
            // Registering holds the process up until all have.
            let registering = |issued: &Issued| matches!(&issued.work, Work::Operation(operation) if operation.what == What::Register);
            if me
                .streams
                .iter()
                .any(|stream| stream.queue.iter().any(registering))
            {
                me.host = Host::Synchronizing;
                break;
            }
            match call {
                Call::Wait(time) => me.clock += *time,
                Call::Operation(operation) => {
                    let number = &mut me.enqueued[operation.on];
                    *number += u32::from(operation.what != What::Register);
                    me.streams[ways.stream(operation.on)]
                        .queue
                        .push_back(Issued {
                            work: Work::Operation(*operation),
                            at: me.clock,
                            number: *number,
                        });
                }
                Call::Messages(messages) => {
                    let on = messages.first().map_or(0, |message| message.on);
                    let open = messages.iter().map(|&message| (message, None));
                    me.streams[ways.stream(on)].queue.push_back(Issued {
                        work: Work::Messages(open.collect()),
                        at: me.clock,
                        number: 0,
                    });
                }
                Call::Synchronize | Call::Crash if !idle => {
                    me.host = Host::Synchronizing;
                    break;
                }
                Call::Synchronize => me.clock = me.clock.max(over.unwrap_or_default()),
                Call::Crash => {
                    me.clock = me.clock.max(over.unwrap_or_default());
                    me.host = Host::Crashed(me.clock);
                    break;
                }
                Call::Monitored { on, timeout } => {
                    me.host = Host::Monitored {
                        on: *on,
                        timeout: *timeout,
                    };
                    break;
                }
            }
            me.next += 1;
        }
        me.next > before
    }

    /// The operation of a communicator that all of its ranks have come to, if they have.
    fn operation(&mut self, on: usize) -> Result<bool, C::Error> {
        let members = &self.ways.members[on];
        let stream = self.ways.stream(on);
        let head = |met: &Met, rank: u32| -> Option<(Operation, Time, Time, u32)> {
            let stream = &met.ranks[rank as usize].streams[stream];
            let start = stream.start()?;
            match stream.queue.front()? {
                Issued {
                    work: Work::Operation(op),
                    at,
                    number,
                } if op.on == on => Some((*op, *at, start, *number)),
                _ => None,
            }
        };
        let heads = members.iter().map(|&rank| head(&self.met, rank));
        let Some(heads) = heads.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let Some(&(first, _, _, number)) = heads.first() else {
            return Ok(false);
        };
        let began = heads.iter().map(|head| head.2).max().unwrap_or_default();
        // Who waits for too long gives up.
        if heads
            .iter()
            .any(|head| began.saturating_sub(head.1) > self.ways.timeout)
        {
            return Ok(false);
        }
        if heads.iter().any(|head| head.0.what != first.what) {
            return Ok(false);
        }
        let mut largest = first;
        for &(other, ..) in &heads {
            if other.bytes == first.bytes {
                continue;
            }
            if !self.costs.same_steps(first, other)? {
                return Ok(false);
            }
            if other.bytes > largest.bytes {
                largest = other;
            }
        }
        let name = &self.ways.names[on];
        if largest.bytes != first.bytes || heads.iter().any(|head| head.0.bytes != first.bytes) {
            self.met.wrong.push(format!(
                "{} {number} of {name} ends with wrong data: ranks give sizes that differ, their kernels send as many \
                 messages, and NCCL compares none",
                first.what.name()
            ));
        }
        let registered = heads.iter().filter(|head| head.0.registered).count();
        let all_registered = registered == heads.len();
        if registered > 0 && !all_registered {
            self.met.notes.push(format!(
                "{} {number} of {name} copies through NCCL's buffers: {registered} of {} ranks have registered theirs, and \
                 one that has not is enough",
                first.what.name(),
                heads.len()
            ));
        }
        let time = self.costs.time(Operation {
            registered: all_registered,
            ..largest
        })?;
        let ended = began + time;
        for &rank in members {
            let me = &mut self.met.ranks[rank as usize];
            me.streams[stream].queue.pop_front();
            me.streams[stream].clock = ended;
            match first.what {
                What::Register => me.clock = me.clock.max(ended),
                _ => me.completed[on] += 1,
            }
        }
        self.met.done.push(Done {
            what: first.what.name().to_owned(),
            on,
            number,
            bytes: largest.bytes,
            began,
            ended,
        });
        Ok(true)
    }

    /// A barrier of hosts that all ranks of a communicator have come to, if they have.
    fn monitored(&mut self, on: usize) -> bool {
        let members = &self.ways.members[on];
        let inside = |rank: u32| match self.met.ranks[rank as usize].host {
            Host::Monitored { on: own, timeout } if own == on => {
                Some((self.met.ranks[rank as usize].clock, timeout))
            }
            _ => None,
        };
        let Some(come) = members
            .iter()
            .map(|&r| inside(r))
            .collect::<Option<Vec<_>>>()
        else {
            return false;
        };
        let last = come.iter().map(|c| c.0).max().unwrap_or_default();
        if let Some(&(first, timeout)) = come.first()
            && last.saturating_sub(first) > timeout
        {
            return false;
        }
        for &rank in members {
            let me = &mut self.met.ranks[rank as usize];
            me.clock = last;
            me.barriers[on] += 1;
            me.next += 1;
            // Whatever it does next is seen when it goes on.
            me.host = Host::Ended;
        }
        true
    }
}

#[cfg(test)]
mod tests;
