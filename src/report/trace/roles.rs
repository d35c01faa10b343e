//! What spans are called, of which category they are and what they carry: all of it follows from
//! what they are.

use super::events::Args;
use crate::communication::Communication;
use crate::record::{Activity, Doing, Lane, Track};
use crate::training::{JobSpan, SpanKind};
use fabricsim_units::Bytes;
use std::borrow::Cow;
use std::io::{self, Write};

/// What a span of a trace is.
pub(super) enum Role<'t> {
    /// What a thread block or proxy does for a collective, and what of it moves.
    Worker(Doing, Bytes, Option<&'t Communication>),
    /// A task of a job, and the communication that it is, if it is one.
    Task(&'t JobSpan, Option<&'t Communication>),
    /// A communication of a job waits for other ranks.
    Waits(&'t JobSpan),
}

impl<'t> Role<'t> {
    pub(super) fn name(&self) -> Cow<'t, str> {
        match self {
            Role::Worker(doing, ..) => doing.name(),
            Role::Task(span, _) => Cow::Borrowed(&span.what),
            Role::Waits(_) => Cow::Borrowed("waits for others"),
        }
    }

    pub(super) fn category(&self) -> &'static str {
        match self {
            Role::Worker(doing, ..) => doing.activity().key(),
            Role::Task(span, _) => span.kind.key(),
            Role::Waits(_) => "wait",
        }
    }

    /// What the span carries.
    pub(super) fn tell<W: Write>(&self, args: &mut Args<'_, W>) -> io::Result<()> {
        match self {
            Role::Worker(doing, bytes, of) => {
                if let Some(rank) = doing.peer() {
                    args.number("peer", rank)?;
                }
                match doing.activity() {
                    Activity::Stream => moved(args, *bytes, *of),
                    _ => Ok(()),
                }
            }
            Role::Task(span, of) => {
                place(args, span)?;
                if span.kind == SpanKind::Communication {
                    moved(args, span.bytes, *of)?;
                    if let Some(bucket) = span.bucket {
                        args.number("bucket", bucket)?;
                    }
                }
                Ok(())
            }
            Role::Waits(span) => {
                place(args, span)?;
                args.text("for", &span.what)
            }
        }
    }
}

/// Which part of a step a task is of.
fn place<W: Write>(args: &mut Args<'_, W>, span: &JobSpan) -> io::Result<()> {
    if let Some(micro_batch) = span.micro_batch {
        args.number("micro_batch", micro_batch)?;
    }
    args.number("chunk", span.chunk)?;
    args.number("step", span.step)
}

/// What is moved, between whom and how.
fn moved<W: Write>(
    args: &mut Args<'_, W>,
    bytes: Bytes,
    of: Option<&Communication>,
) -> io::Result<()> {
    if bytes > Bytes::ZERO {
        args.number("bytes", bytes.get())?;
    }
    let Some(of) = of else { return Ok(()) };
    args.text("operation", of.movement.name())?;
    // An operation that is all there is has no communicator to tell it from others.
    if !of.group.is_empty() {
        args.text("communicator", of.communicator.name())?;
        args.text("group", &of.group)?;
    }
    args.number("ranks", of.ranks.len() as u64)?;
    if !of.algorithm.is_empty() {
        args.text("algorithm", &of.algorithm)?;
        args.text("protocol", &of.protocol)?;
    }
    Ok(())
}

impl Doing {
    /// For people.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Doing::Launch => "launch",
            Doing::Moves(primitive) => primitive,
            Doing::Synchronise => "synchronise",
            Doing::HandleMessage => "message",
            Doing::WaitForPart => "wait for another part of the kernel",
            Doing::Finished => "finished",
            Doing::WaitForData(rank) => return format!("waiting for data from rank {rank}").into(),
            Doing::WaitForCredit(rank) => {
                return format!("waiting for credit from rank {rank}").into();
            }
            Doing::DataOnItsWay(rank) => return format!("data from rank {rank} on its way").into(),
            Doing::CreditOnItsWay(rank) => {
                return format!("credit from rank {rank} on its way").into();
            }
        })
    }

    /// On what the time is spent.
    #[must_use]
    pub const fn activity(self) -> Activity {
        match self {
            Doing::Launch => Activity::Launch,
            Doing::Moves(_) => Activity::Stream,
            Doing::Synchronise | Doing::HandleMessage => Activity::Sync,
            Doing::WaitForPart | Doing::WaitForData(_) => Activity::WaitData,
            Doing::WaitForCredit(_) => Activity::WaitCredit,
            Doing::DataOnItsWay(_) | Doing::CreditOnItsWay(_) => Activity::Latency,
            Doing::Finished => Activity::Idle,
        }
    }

    /// The rank that it waits for.
    const fn peer(self) -> Option<u32> {
        match self {
            Doing::WaitForData(rank)
            | Doing::WaitForCredit(rank)
            | Doing::DataOnItsWay(rank)
            | Doing::CreditOnItsWay(rank) => Some(rank),
            _ => None,
        }
    }
}

impl Activity {
    /// Its name in files, which is that of its colour in pages.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Activity::Launch => "launch",
            Activity::Latency => "latency",
            Activity::WaitData => "wait_data",
            Activity::WaitCredit => "wait_credit",
            Activity::Sync => "sync",
            Activity::Stream => "stream",
            Activity::Idle => "idle",
        }
    }
}

impl SpanKind {
    /// Its name in files, which is that of its colour in pages.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            SpanKind::Forward => "forward",
            SpanKind::Backward => "backward",
            SpanKind::Recompute => "recompute",
            SpanKind::Optimiser => "optimiser",
            SpanKind::Communication => "communication",
            SpanKind::Other => "other",
        }
    }
}

/// Tracks of one channel: parts of its thread block, and its proxy.
const TRACKS: u32 = 5 + 3 * 256 + 1;

impl Track {
    /// Its place among the tracks of a rank, from 1: a channel's proxy is listed below its thread
    /// block.
    pub(crate) fn number(self) -> u32 {
        match self {
            Track::Worker(channel, lane) => {
                let lane = match lane {
                    Lane::Whole => 0,
                    Lane::Up => 1,
                    Lane::Down => 2,
                    Lane::Scatter => 3,
                    Lane::Gather => 4,
                    Lane::Send(k) => 5 + u32::from(k),
                    Lane::Receive(k) => 5 + 256 + u32::from(k),
                    Lane::Switch(k) => 5 + 512 + u32::from(k),
                };
                u32::from(channel) * TRACKS + 1 + lane
            }
            Track::Proxy(channel) => u32::from(channel) * TRACKS + TRACKS,
        }
    }

    /// For people: `channel 3`, `channel 3 proxy`.
    pub(crate) fn name(self) -> String {
        match self {
            Track::Worker(channel, lane) => match lane {
                Lane::Whole => format!("channel {channel}"),
                Lane::Up => format!("channel {channel} up"),
                Lane::Down => format!("channel {channel} down"),
                Lane::Scatter => format!("channel {channel} scatter"),
                Lane::Gather => format!("channel {channel} gather"),
                Lane::Send(k) => format!("channel {channel} send {k}"),
                Lane::Receive(k) => format!("channel {channel} receive {k}"),
                Lane::Switch(k) => format!("channel {channel} switch {k}"),
            },
            Track::Proxy(channel) => format!("channel {channel} proxy"),
        }
    }
}
