//! Who takes part in a simulation: everybody, or one of each class.

use crate::fifo::FifoId;
use crate::fold::Folding;
use crate::outcome::Folded;
use crate::probe::ActorId;
use fabricsim_collective::{ConnId, Program, Rank, WorkerId};
use fabricsim_units::Time;
use std::sync::Arc;

/// Who takes part.
#[derive(Clone)]
pub(super) enum Cast {
    /// Every worker.
    All,
    /// The first worker of each class; queues and ranks are numbered by class as well.
    Classes(Arc<Folding>),
}

impl Cast {
    /// How many workers take part.
    pub(super) fn workers(&self, program: &dyn Program) -> u32 {
        match self {
            Cast::All => program.workers(),
            Cast::Classes(folding) => folding.workers.len(),
        }
    }

    /// How many ranks they belong to.
    pub(super) fn ranks(&self, program: &dyn Program) -> u32 {
        match self {
            Cast::All => program.ranks(),
            Cast::Classes(folding) => folding.ranks.len(),
        }
    }

    /// Whose steps an actor takes.
    #[inline]
    pub(super) fn worker(&self, actor: ActorId) -> WorkerId {
        WorkerId(match self {
            Cast::All => actor,
            Cast::Classes(folding) => folding.workers.first[actor as usize],
        })
    }

    /// Who takes a worker's steps.
    #[inline]
    pub(super) fn actor(&self, worker: WorkerId) -> ActorId {
        match self {
            Cast::All => worker.0,
            Cast::Classes(folding) => folding.workers.class_of[worker.index()],
        }
    }

    /// Whose costs a rank that takes part has.
    pub(super) fn rank(&self, part: usize) -> Rank {
        Rank(match self {
            Cast::All => part as u32,
            Cast::Classes(folding) => folding.ranks.first[part],
        })
    }

    /// Who takes a rank's part.
    #[inline]
    pub(super) fn part_of(&self, rank: Rank) -> u32 {
        match self {
            Cast::All => rank.0,
            Cast::Classes(folding) => folding.ranks.class_of[rank.index()],
        }
    }

    /// The queue into which a connection's sender puts.
    #[inline]
    pub(super) fn queue(&self, conn: ConnId) -> FifoId {
        match self {
            Cast::All => conn.0,
            Cast::Classes(folding) => folding.conns.class_of[conn.index()],
        }
    }

    /// The connection, or the first of those, that a queue is of.
    pub(super) fn connection(&self, queue: FifoId) -> ConnId {
        ConnId(match self {
            Cast::All => queue,
            Cast::Classes(folding) => folding.conns.first[queue as usize],
        })
    }

    /// True if a worker's connections may share a queue.
    #[inline]
    pub(super) fn is_folded(&self) -> bool {
        matches!(self, Cast::Classes(_))
    }

    /// What is known of those that take part, for all ranks.
    pub(super) fn by_rank(&self, times: Vec<Time>) -> Vec<Time> {
        match self {
            Cast::All => times,
            Cast::Classes(folding) => {
                let classes = &folding.ranks.class_of;
                classes.iter().map(|&class| times[class as usize]).collect()
            }
        }
    }

    pub(super) fn folded(self) -> Option<Folded> {
        match self {
            Cast::All => None,
            Cast::Classes(folding) => Some(Folded {
                ranks: folding.ranks.len(),
                workers: folding.workers.size.clone(),
                proxies: folding.proxies.clone(),
                resources: folding.shared.clone(),
                of_worker: folding.workers.class_of.clone(),
            }),
        }
    }
}
