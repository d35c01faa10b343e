//! How many connections a process's proxy thread moves on at once.
//!
//! Each process has one such thread for all its connections over networks, those that it sends
//! for its neighbours (PXN) among them. It goes round them, so that a message waits while others
//! have their turns. Thread blocks of a kernel keep step: what waits with a message are those that
//! the same parts of other thread blocks send. The receiving side is not counted: it is as busy as
//! the sending one, so that what a message costs stands for both.

use super::algorithm::Algorithm;
use super::transport::Way;
use crate::collective::{ConnId, Program, Role};
use crate::topology::DeviceId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Connections that are sent at once, by the GPU of the process and the parts of the thread blocks
/// that send and receive: the root of a tree sends down when others have long sent up.
pub(super) struct Turns(FxHashMap<(DeviceId, Role, Role), u32>);

/// What a message costs a connection, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    /// It leaves so much later, but the next one no later.
    pub(super) waits: u32,
    /// The connection is busy for so long.
    pub(super) works: u32,
}

impl Turn {
    /// Of a connection that no other one holds up.
    pub(super) const ALONE: Turn = Turn { waits: 0, works: 1 };
}

impl Turns {
    /// Of a program with a way for each of its connections.
    pub(super) fn new(program: &dyn Program, ways: &[Way], algorithm: Algorithm) -> Self {
        // A worker of a tree sends to all its children at once; others to one peer after the other.
        let all = matches!(algorithm, Algorithm::Tree | Algorithm::NvlsTree);
        let mut seen = FxHashSet::default();
        let mut turns = FxHashMap::default();
        for (way, id) in ways.iter().zip(0..) {
            let Some(thread) = way.thread() else {
                continue;
            };
            let ends = program.connection(ConnId(id));
            if all || seen.insert((thread, ends.from)) {
                let [from, to] = [ends.from, ends.to].map(|end| program.worker(end).role);
                *turns.entry((thread, from, to)).or_default() += 1;
            }
        }
        Turns(turns)
    }

    /// For what goes a way from a part of a thread block.
    ///
    /// Parts of rings and trees always have a message, so that each round of the thread moves one.
    /// Of many sends fewer and fewer are left, and the rounds become short: only the first of each
    /// waits for all others.
    pub(super) fn of(&self, way: &Way, from: Role, to: Role) -> Turn {
        let of_thread = |thread| self.0.get(&(thread, from, to));
        let turns = way.thread().and_then(of_thread).copied().unwrap_or(1);
        match from {
            Role::Send => Turn {
                waits: turns - 1,
                works: 1,
            },
            _ => Turn {
                waits: 0,
                works: turns,
            },
        }
    }
}
