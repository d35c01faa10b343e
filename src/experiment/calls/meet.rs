//! Ranks go through their calls until nobody can go on.
//!
//! A process starts operations one after the other and does not wait for them. On the GPU those of a stream
//! follow each other. A rank's n-th operation of a communicator meets the n-th of all others, whatever they are: NCCL
//! compares nothing. What differs does not come to an end, or ends with wrong data where its kernels send as many messages.

use fabricsim_collective::Collective;
use fabricsim_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// What a rank calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
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
pub(super) struct Operation {
    pub(super) on: usize,
    pub(super) what: What,
    pub(super) bytes: u64,
    pub(super) registered: bool,
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Collective(Collective),
    Barrier,
    Register,
}

impl What {
    pub(super) const fn name(self) -> &'static str {
        match self {
            What::Collective(collective) => collective.name(),
            What::Barrier => "barrier",
            What::Register => "register",
        }
    }
}

/// A message between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) on: usize,
    /// From here, or to here.
    pub(super) sends: bool,
    pub(super) with: u32,
    pub(super) bytes: u64,
}

/// What operations take on the machine.
pub(super) trait Costs {
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
pub(super) struct Issued {
    pub(super) work: Work,
    /// When the process started it.
    pub(super) at: Time,
    /// Its number among those of its communicator, from 1.
    pub(super) number: u32,
}

#[derive(Debug, Clone)]
pub(super) enum Work {
    Operation(Operation),
    /// Each with when it was over.
    Messages(Vec<(Message, Option<Time>)>),
}

/// A stream of a rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// When what was before is over.
    pub(super) clock: Time,
    pub(super) queue: VecDeque<Issued>,
}

impl Stream {
    /// When its first call can begin.
    pub(super) fn start(&self) -> Option<Time> {
        self.queue.front().map(|issued| issued.at.max(self.clock))
    }
}

/// Why a process does not start its next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
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
pub(super) struct Progress {
    pub(super) host: Host,
    /// Since when the process does not go on.
    pub(super) clock: Time,
    pub(super) streams: Vec<Stream>,
    /// By communicator: operations started, and over.
    pub(super) enqueued: Vec<u32>,
    pub(super) completed: Vec<u32>,
    next: usize,
    /// Monitored barriers passed, by communicator.
    barriers: Vec<u32>,
}

/// An operation that is over.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) what: String,
    pub(super) on: usize,
    pub(super) number: u32,
    pub(super) bytes: u64,
    /// When the last rank came, and the end.
    pub(super) began: Time,
    pub(super) ended: Time,
}

/// What came of all calls.
#[derive(Debug, Default)]
pub(super) struct Met {
    pub(super) ranks: Vec<Progress>,
    pub(super) done: Vec<Done>,
    /// Operations that ended with wrong data.
    pub(super) wrong: Vec<String>,
    /// What else NCCL does not tell.
    pub(super) notes: Vec<String>,
}

/// Communicators by their ranks, and whether each has a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) members: &'a [Vec<u32>],
    pub(super) names: &'a [String],
    pub(super) side_by_side: bool,
    /// Who waits for longer gives up.
    pub(super) timeout: Time,
}

impl Ways<'_> {
    pub(super) fn stream(self, on: usize) -> usize {
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
pub(super) fn meet<C: Costs>(
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

    /// Sends and receives at the head of a rank's stream go on as far as they find their mates.
    fn messages(&mut self, rank: usize, stream: usize) -> Result<bool, C::Error> {
        let me = rank as u32;
        let Some(start) = self.met.ranks[rank].streams[stream].start() else {
            return Ok(false);
        };
        let Some(Issued {
            work: Work::Messages(list),
            ..
        }) = self.met.ranks[rank].streams[stream].queue.front()
        else {
            return Ok(false);
        };
        let open: Vec<(usize, Message)> = list
            .iter()
            .enumerate()
            .filter(|(_, (_, done))| done.is_none())
            .map(|(index, (message, _))| (index, *message))
            .collect();
        let mut moved = false;
        for (index, message) in open {
            let over = match message.sends {
                true => self.sent((me, message), start, stream)?,
                false => self.taken((me, message), start),
            };
            if let Some(over) = over {
                self.finish(rank, stream, index, over);
                moved = true;
            }
        }
        Ok(moved)
    }

    /// A send finds its receive, or room in the receiver's buffers: when it is over.
    fn sent(
        &mut self,
        (me, message): (u32, Message),
        start: Time,
        stream: usize,
    ) -> Result<Option<Time>, C::Error> {
        let to = message.with;
        let mate = self.mate((to, stream), (me, message));
        if let Some((index, mate, begun)) = mate {
            if mate.bytes != message.bytes {
                return Ok(None);
            }
            let time = self.costs.message_time(me, to, message.bytes)?;
            let over = start.max(begun) + time;
            self.finish(to as usize, stream, index, over);
            self.met.done.push(Done {
                what: format!("send {me} to {to}"),
                on: message.on,
                number: 0,
                bytes: message.bytes,
                began: start.max(begun),
                ended: over,
            });
            return Ok(Some(over));
        }
        if message.bytes > self.costs.ahead(message.on, message.bytes)? {
            return Ok(None);
        }
        let over = start + self.costs.message_time(me, to, message.bytes)?;
        let waiting = self.boxes.entry((message.on, me, to)).or_default();
        waiting.push_back((over, message.bytes));
        Ok(Some(over))
    }

    /// A receive finds its message in the buffers: when it is over.
    fn taken(&mut self, (me, message): (u32, Message), start: Time) -> Option<Time> {
        let waiting = self.boxes.get_mut(&(message.on, message.with, me))?;
        let &(came, bytes) = waiting.front()?;
        if bytes != message.bytes {
            return None;
        }
        waiting.pop_front();
        let over = start.max(came);
        self.met.done.push(Done {
            what: format!("send {} to {me}", message.with),
            on: message.on,
            number: 0,
            bytes,
            began: came,
            ended: over,
        });
        Some(over)
    }

    /// The receive that a message is for, at the head of its receiver's stream.
    fn mate(
        &self,
        (to, stream): (u32, usize),
        (from, message): (u32, Message),
    ) -> Option<(usize, Message, Time)> {
        let streams = &self.met.ranks[to as usize].streams;
        let stream = streams.get(stream)?;
        let start = stream.start()?;
        let Work::Messages(list) = &stream.queue.front()?.work else {
            return None;
        };
        let is_mate = |m: &Message| !m.sends && m.with == from && m.on == message.on;
        let mut open = list.iter().enumerate();
        let (index, (mate, _)) = open.find(|(_, (m, done))| done.is_none() && is_mate(m))?;
        // What lies in the buffers is received first.
        let earlier = self.boxes.get(&(message.on, from, to));
        earlier
            .is_none_or(VecDeque::is_empty)
            .then_some((index, *mate, start))
    }

    /// A message of the first call of a stream is over; with the last one the call is.
    fn finish(&mut self, rank: usize, stream: usize, index: usize, over: Time) {
        let stream = &mut self.met.ranks[rank].streams[stream];
        let Some(Issued {
            work: Work::Messages(list),
            ..
        }) = stream.queue.front_mut()
        else {
            return;
        };
        list[index].1 = Some(over);
        let all: Option<Vec<Time>> = list.iter().map(|(_, done)| *done).collect();
        if let Some(last) = all.and_then(|all| all.into_iter().max()) {
            stream.clock = last;
            stream.queue.pop_front();
        }
    }
}
