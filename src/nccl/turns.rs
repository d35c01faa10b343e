//! How many connections a process's proxy thread moves on at once.
//!
//! Each process has one such thread for all its connections over networks, those that it sends
//! for its neighbours (PXN) among them. It goes round them, so that a message waits while others
//! have their turns. Thread blocks of a kernel keep step: what waits with a message are those that
//! the same parts of other thread blocks send. What a message costs stands for both ends, of which
//! the receiving one is as busy as the sending one; of sends alone, which begin with nothing ready,
//! a thread first offers buffers for all that it will receive. Handshakes of large messages
//! (Slingshot) are different: a thread shakes hands for what it sends and for what it receives, one
//! after the other, unless all that it receives has come before it sends (trees of a single chunk).

use super::algorithm::Algorithm;
use super::transport::Way;
use crate::collective::{ConnId, Program, Rank, Role, WorkerId};
use crate::topology::DeviceId;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Connections that are moved on at once.
pub(super) struct Turns {
    sent: Counts,
    /// Only of sends, and where threads are busy with handshakes.
    received: Counts,
    /// What is received has come before anything is sent.
    in_turn: bool,
}

/// By the GPU of the process and the parts of the thread blocks that send and receive: the root of
/// a tree sends down when others have long sent up.
type Counts = FxHashMap<(DeviceId, Role, Role), Count>;

#[derive(Debug, Default)]
struct Count {
    connections: u32,
    /// The interfaces that they leave by.
    nics: SmallVec<[DeviceId; 4]>,
}

/// What a message costs a connection, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Turn {
    /// It leaves so much later, but the next one no later.
    pub(super) waits: u32,
    /// … and later again, while the thread gets ready for what it will receive.
    pub(super) readies: u32,
    /// The connection is busy for so long.
    pub(super) works: u32,
    /// Handshakes that one of its threads goes through meanwhile.
    pub(super) handles: u32,
    /// Interfaces by which what the thread sends leaves.
    pub(super) nics: u32,
}

impl Turn {
    /// Of a connection that no other one holds up.
    pub(super) const ALONE: Turn = Turn {
        waits: 0,
        readies: 0,
        works: 1,
        handles: 0,
        nics: 1,
    };
}

impl Turns {
    /// Of a program with a way for each of its connections. `receiver` tells the GPU of the process
    /// at a way's end, if what it receives is to be counted.
    pub(super) fn new(
        program: &dyn Program,
        ways: &[Way],
        algorithm: Algorithm,
        receiver: impl Fn(&Way, Rank) -> Option<DeviceId>,
    ) -> Self {
        // A worker of a tree sends to all its children at once; others to one peer after the other.
        let all = matches!(algorithm, Algorithm::Tree | Algorithm::NvlsTree);
        let mut seen = [FxHashSet::default(), FxHashSet::default()];
        let mut counts = [Counts::default(), Counts::default()];
        for (way, id) in ways.iter().zip(0..) {
            let Some(thread) = way.thread() else {
                continue;
            };
            let ends = program.connection(ConnId(id));
            let workers = [ends.from, ends.to].map(|end| program.worker(end));
            let [from, to] = workers.map(|worker| worker.role);
            let receiver = receiver(way, workers[1].rank);
            let sides = [
                Some((thread, ends.from)),
                receiver.map(|gpu| (gpu, ends.to)),
            ];
            for ((count, seen), side) in counts.iter_mut().zip(&mut seen).zip(sides) {
                if let Some((thread, worker)) = side
                    && (all || seen.insert((thread, worker)))
                {
                    let count = count.entry((thread, from, to)).or_default();
                    count.connections += 1;
                    if let Some(nic) = way.leaves_by()
                        && !count.nics.contains(&nic)
                    {
                        count.nics.push(nic);
                    }
                }
            }
        }
        let [sent, received] = counts;
        let single = || (0..program.workers()).all(|w| program.steps(WorkerId(w)) <= 1);
        Turns {
            in_turn: algorithm == Algorithm::Tree && !received.is_empty() && single(),
            sent,
            received,
        }
    }

    /// For what goes a way from a part of a thread block.
    ///
    /// Parts of rings and trees always have a message, so that each round of the thread moves one,
    /// and buffers to receive into have been offered long before. Of many sends fewer and fewer are
    /// left, and the rounds become short: only the first of each waits for all others, and for those
    /// that are offered where to send. Of the two threads that shake hands the busier one counts.
    pub(super) fn of(
        &self,
        way: &Way,
        (from, to): (Role, Role),
        receiver: Option<DeviceId>,
    ) -> Turn {
        let of_thread = |thread| self.sent.get(&(thread, from, to));
        let (turns, nics) = way
            .thread()
            .and_then(of_thread)
            .map_or((1, 1), |count| (count.connections, count.nics.len() as u32));
        let count = |counts: &Counts, thread| Some(counts.get(&(thread, from, to))?.connections);
        let both = |thread| {
            let [sent, received] = [&self.sent, &self.received].map(|c| count(c, thread));
            if self.in_turn {
                sent.or(received).unwrap_or(0)
            } else {
                sent.unwrap_or(0) + received.unwrap_or(0)
            }
        };
        let into = |thread| count(&self.received, thread).unwrap_or(0);
        let handles = receiver.map_or(0, |gpu| both(gpu).max(way.thread().map_or(0, both)));
        let (waits, readies, works) = match from {
            Role::Send => (turns - 1, way.thread().map_or(0, into), 1),
            _ => (0, 0, turns),
        };
        Turn {
            waits,
            readies,
            works,
            handles,
            nics,
        }
    }
}
