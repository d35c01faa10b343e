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
//!
//! Thread blocks of trees do not keep step. What leaves GPUs at the same time the thread sends one
//! by one, and what has begun one after the other goes on so: while some heads of NVLSTree send,
//! others load. They go in waves here.

use super::algorithm::Algorithm;
use super::transport::Way;
use fabricsim_collective::{ConnId, Program, Rank, Role, Worker, WorkerId};
use fabricsim_topology::DeviceId;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// In so many parts messages of a thread leave that were there at the same time, where thread blocks
/// do not keep step. Each for itself would be nearer to the truth, but every wave is simulated for
/// itself, with all that it shares with the others: eight take twelve times as long as one does, and
/// two less than three times. NVLSTree on 16 to 40 H100 takes up to 25 % less with eight than with one
/// and up to 14 % less than with two, of 8 to 32 MiB; from 256 MiB on at most 4 % and 2 %.
const WAVES_OF_HEADS: usize = 2;

/// In chains of GPUs a thread has messages of two channels, and no published table tells one wave
/// from two.
const WAVES_OF_CHAINS: usize = 1;

/// Connections that are moved on at once.
pub(super) struct Turns {
    sent: Counts,
    /// Only of sends, and where threads are busy with handshakes.
    received: Counts,
    /// What is received has come before anything is sent.
    in_turn: bool,
    /// Of trees.
    waves: Option<Waves>,
}

/// What thread blocks send that do not keep step.
#[derive(Debug)]
struct Waves {
    /// In so many of them.
    number: usize,
    /// Workers that a thread sends for, each with the number of its connections.
    senders: FxHashMap<Pair, Vec<(WorkerId, u32)>>,
    /// Connections of each thread, up and down.
    all: FxHashMap<DeviceId, u32>,
    /// Hosts and channels that send up what other hosts have sent them.
    fed: FxHashSet<(u32, u16)>,
}

/// By the GPU of the process and the parts of the thread blocks that send and receive: the root of
/// a tree sends down when others have long sent up.
type Counts = FxHashMap<Pair, Count>;

type Pair = (DeviceId, (Role, Role));

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
    /// So many leave together, each when the last one can.
    pub(super) together: u32,
    /// The connection is busy for so long.
    pub(super) works: u32,
    /// Handshakes that one of its threads goes through meanwhile.
    pub(super) handles: u32,
    /// Interfaces by which what the thread sends leaves.
    pub(super) nics: u32,
    /// Connections that the busier one of both ends' threads moves bytes of at once, in and out.
    pub(super) served: u32,
}

impl Turn {
    /// Of a connection that no other one holds up.
    pub(super) const ALONE: Turn = Turn {
        waits: 0,
        readies: 0,
        together: 1,
        works: 1,
        handles: 0,
        nics: 1,
        served: 1,
    };
}

impl Turns {
    /// Of a program with a way for each of its connections. `host` tells the host of a rank, and
    /// `receiver` the GPU of the process at a way's end, if what it receives is to be counted.
    pub(super) fn new(
        program: &dyn Program,
        ways: &[Way],
        algorithm: Algorithm,
        host: impl Fn(Rank) -> u32,
        receiver: impl Fn(&Way, Rank) -> Option<DeviceId>,
    ) -> Self {
        // A worker of a tree sends to all its children at once; others to one peer after the other.
        let mut waves = match algorithm {
            Algorithm::Tree => Some(Waves::new(WAVES_OF_CHAINS)),
            Algorithm::NvlsTree => Some(Waves::new(WAVES_OF_HEADS)),
            _ => None,
        };
        let all = waves.is_some();
        let mut seen = [FxHashSet::default(), FxHashSet::default()];
        let mut counts = [Counts::default(), Counts::default()];
        for (way, id) in ways.iter().zip(0..) {
            let Some(thread) = way.thread() else {
                continue;
            };
            let ends = program.connection(ConnId(id));
            let workers = [ends.from, ends.to].map(|end| program.worker(end));
            let roles = (workers[0].role, workers[1].role);
            if let Some(waves) = &mut waves {
                let senders = waves.senders.entry((thread, roles)).or_default();
                match senders.iter_mut().find(|(worker, _)| *worker == ends.from) {
                    Some((_, connections)) => *connections += 1,
                    None => senders.push((ends.from, 1)),
                }
                *waves.all.entry(thread).or_default() += 1;
                if goes_up(roles.1) {
                    waves
                        .fed
                        .insert((host(workers[1].rank), workers[1].channel));
                }
            }
            let receiver = receiver(way, workers[1].rank);
            let sides = [
                Some((thread, ends.from)),
                receiver.map(|gpu| (gpu, ends.to)),
            ];
            for ((count, seen), side) in counts.iter_mut().zip(&mut seen).zip(sides) {
                if let Some((thread, worker)) = side
                    && (all || seen.insert((thread, worker)))
                {
                    let count = count.entry((thread, roles)).or_default();
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
            waves,
        }
    }

    /// For what goes a way, that of a connection, from one worker to another one. `host` is that of
    /// the sender.
    ///
    /// Parts of rings and trees always have a message, so that each round of the thread moves one,
    /// and buffers to receive into have been offered long before. Of many sends fewer and fewer are
    /// left, and the rounds become short: only the first of each waits for all others, and for those
    /// that are offered where to send. Of the two threads that shake hands the busier one counts.
    pub(super) fn of(
        &self,
        (way, sender): (&Way, WorkerId),
        (from, to): (&Worker, &Worker),
        host: u32,
        receiver: Option<DeviceId>,
    ) -> Turn {
        let roles = (from.role, to.role);
        let of_thread = |thread| self.sent.get(&(thread, roles));
        let (turns, nics) = way
            .thread()
            .and_then(of_thread)
            .map_or((1, 1), |count| (count.connections, count.nics.len() as u32));
        let count = |counts: &Counts, thread| Some(counts.get(&(thread, roles))?.connections);
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
        let turn = Turn {
            handles,
            nics,
            served: handles.max(1),
            ..Turn::ALONE
        };
        if let Some(waves) = &self.waves {
            let thread = way.thread();
            let (before, together) = thread.map_or((0, 1), |t| waves.around((t, roles), sender));
            let leaf = goes_up(to.role) && !waves.fed.contains(&(host, from.channel));
            let all = thread.and_then(|thread| waves.all.get(&thread));
            // Up and down at once, whatever the parts of thread blocks.
            let served = receiver.map_or(1, |_| 2 * all.copied().unwrap_or(1));
            return Turn {
                served,
                waits: if leaf { before } else { 0 },
                together,
                works: all.copied().unwrap_or(1),
                ..turn
            };
        }
        match from.role {
            Role::Send => Turn {
                waits: turns - 1,
                readies: way.thread().map_or(0, into),
                ..turn
            },
            _ => Turn {
                together: turns,
                works: turns,
                ..turn
            },
        }
    }
}

impl Waves {
    fn new(number: usize) -> Self {
        Waves {
            number,
            senders: FxHashMap::default(),
            all: FxHashMap::default(),
            fed: FxHashSet::default(),
        }
    }

    /// How many connections of a thread have their turns before the wave with those of a worker, and
    /// how many that has.
    fn around(&self, pair: Pair, worker: WorkerId) -> (u32, u32) {
        let senders = self.senders.get(&pair).map_or(&[][..], Vec::as_slice);
        let wave = senders.len().div_ceil(self.number).max(1);
        let connections = |senders: &[(WorkerId, u32)]| senders.iter().map(|s| s.1).sum();
        let with = |senders: &[(WorkerId, u32)]| senders.iter().any(|s| s.0 == worker);
        let mut waves = senders.chunks(wave);
        let at = waves.position(with).unwrap_or(0) * wave;
        let end = senders.len().min(at + wave);
        (connections(&senders[..at]), connections(&senders[at..end]))
    }
}

/// Who receives sums up, or turns around what it has summed.
fn goes_up(to: Role) -> bool {
    to != Role::Down
}
