//! Looking inside a running simulation, at no cost when nobody looks.

use super::fifo::FifoId;
use super::path::{Link, NOTHING};
use super::resources::PathId;
use super::sharing::Limit;
use fabricsim_units::Time;

/// An actor: a worker of the program, or (after those, in the order of their connections)
/// the proxy of a connection with a network. Queues are numbered alike: each connection's
/// own (with a network: from the worker to its proxy), then those from the proxies to the
/// receivers.
pub type ActorId = u32;

/// What let a slice begin when it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The kernel started.
    Launch,
    /// Its own previous slice ended; nothing else was late.
    Own,
    /// Data arrived through this queue last.
    Data(FifoId),
    /// A slot of this queue was freed last.
    Credit(FifoId),
    /// This other worker of the rank got far enough last.
    After(ActorId),
}

/// One slice of one actor, from being free for it to being free for the next.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    /// Whose.
    pub actor: ActorId,
    /// When the actor was done with what came before.
    pub free: Time,
    /// When the peer posted the data (or freed the slot) that came last; at least `free`.
    pub posted: Time,
    /// When bytes began to move.
    pub start: Time,
    /// When the last byte had moved.
    pub end: Time,
    /// When the actor was free again, having posted the slice.
    pub done: Time,
    /// What let it begin.
    pub cause: Cause,
    /// Bytes of payload; of a dealt chunk, those of one part.
    pub bytes: u64,
    /// Those that have moved: fewer of a slice of which only the beginning is told ([`super::watch`]).
    pub moved: u64,
    /// The primitive.
    pub name: &'static str,
    /// The queues of which it took one slice each.
    pub recv: &'a [FifoId],
    /// The queues into which it put one slice each.
    pub send: &'a [FifoId],
}

/// A stretch of a slice with one rate.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Whose.
    pub actor: ActorId,
    /// Over which resources.
    pub path: PathId,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// Payload bytes per second.
    pub rate: u64,
    /// What limits it.
    pub limit: Limit,
}

/// Something that wants to know. Every method does nothing by default, and calls are
/// compiled away where `ACTIVE` is false.
pub trait Probe {
    /// False if nothing is to be called.
    const ACTIVE: bool;
    /// An actor finished a slice. Slices of one actor come in order.
    fn slice(&mut self, _slice: &Slice<'_>) {}
    /// A stretch of constant rate ended; comes before its slice.
    fn segment(&mut self, _segment: &Segment) {}
    /// A worker's kernel started (`launch` before it, idle before that).
    fn launch(&mut self, _actor: ActorId, _from: Time, _to: Time) {}
    /// Actors and queues stand for several: `workers` has the actor of each worker, `queues` the
    /// queue of each connection. Told before anything else, by [`super::watch`] alone.
    fn alike(&mut self, _workers: &[ActorId], _queues: &[FifoId]) {}
    /// Nothing later needs to be told: [`super::watch`] ends after this instant.
    fn enough(&self) -> bool {
        false
    }

    /// True if slices are to be told with what let them begin, for a critical path. Unlike who is
    /// `ACTIVE`, who tracks sees neither every slice nor instants in their order: one actor may
    /// stand for others, and what repeats itself is told once ([`Probe::repeated`]).
    const TRACKS: bool = false;
    /// A simulation of so many actors begins, or begins anew.
    fn begin(&mut self, _actors: usize) {}
    /// A slice is over; the number by which later ones refer to it.
    fn link(&mut self, _actor: ActorId, _link: &Link) -> u32 {
        NOTHING
    }
    /// What happened in the last `period` happens so many times more, and is not told.
    fn repeated(&mut self, _period: Time, _times: u64) {}
    /// Which repetitions are behind: to be handed to [`Probe::go_back`].
    fn epoch(&self) -> u32 {
        0
    }
    /// All goes on as after another epoch.
    fn go_back(&mut self, _epoch: u32) {}
    /// From now on not all is told any more.
    fn give_up(&mut self) {}
    /// The slice that ended last.
    fn finish(&mut self, _last: u32) {}
}

/// Nobody looks.
#[derive(Debug, Default)]
pub struct Blind;

impl Probe for Blind {
    const ACTIVE: bool = false;
}
