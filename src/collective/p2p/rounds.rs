//! Who sends to whom in which round.

use crate::program::Rank;
use thiserror::Error;

/// Rounds in each of which every rank sends to one rank and receives from one, so that
/// over all rounds every rank sends to every rank (itself included) once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    ranks: u32,
    /// By round and sender: the receiver; and the other way round.
    to: Vec<u32>,
    from: Vec<u32>,
}

/// Why rounds are none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RoundsError {
    /// There are more or fewer than ranks.
    #[error("{found} entries; expected {ranks} rounds of {ranks} receivers")]
    Count {
        /// How many there are.
        found: usize,
        /// How many ranks there are.
        ranks: u32,
    },
    /// A round in which somebody receives twice, or from nobody.
    #[error("in round {round} not every rank of 0..{ranks} receives once")]
    NoPermutation {
        /// The round.
        round: usize,
        /// How many ranks there are.
        ranks: u32,
    },
    /// Two rounds in which the same sends to the same.
    #[error("rank {from} sends to rank {to} in two rounds; expected every pair once")]
    Twice {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
    },
}

impl Rounds {
    /// Rounds by the receivers of ranks 0, 1, …: those of the first round, then those of
    /// the second, and so on.
    ///
    /// # Errors
    /// A round that is no permutation, or a pair that is missing.
    pub fn new(ranks: u32, to: Vec<u32>) -> Result<Self, RoundsError> {
        let n = ranks as usize;
        if to.len() != n * n || n == 0 {
            let found = to.len();
            return Err(RoundsError::Count { found, ranks });
        }
        let mut from = vec![u32::MAX; to.len()];
        let mut met = vec![false; to.len()];
        for (round, receivers) in to.chunks_exact(n).enumerate() {
            for (sender, &receiver) in receivers.iter().enumerate() {
                let slot = (receiver < ranks).then(|| &mut from[round * n + receiver as usize]);
                match slot {
                    Some(slot) if *slot == u32::MAX => *slot = sender as u32,
                    _ => return Err(RoundsError::NoPermutation { round, ranks }),
                }
                let pair = &mut met[sender * n + receiver as usize];
                if *pair {
                    return Err(RoundsError::Twice {
                        from: sender as u32,
                        to: receiver,
                    });
                }
                *pair = true;
            }
        }
        Ok(Rounds { ranks, to, from })
    }

    /// In round `k` everyone sends to the `k`-th rank after it.
    ///
    /// # Panics
    /// If there are no ranks.
    #[must_use]
    pub fn consecutive(ranks: u32) -> Self {
        let to = (0..ranks).flat_map(|round| (0..ranks).map(move |rank| (rank + round) % ranks));
        Rounds::new(ranks, to.collect()).expect("shifts are permutations")
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many rounds there are: as many as ranks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranks as usize
    }

    /// Never: there is a rank, so there is a round.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// To whom `rank` sends in a round.
    #[must_use]
    pub fn to(&self, round: usize, rank: Rank) -> Rank {
        Rank(self.to[round * self.len() + rank.index()])
    }

    /// From whom `rank` receives in a round.
    #[must_use]
    pub fn from(&self, round: usize, rank: Rank) -> Rank {
        Rank(self.from[round * self.len() + rank.index()])
    }
}
