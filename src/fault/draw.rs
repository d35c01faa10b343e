//! Random draws that do not depend on the order they are asked in.
//!
//! Every draw has a generator of its own, whose key *is* what is drawn: the seed, the fault,
//! the rank, the step, the micro-batch and the kernel fill ChaCha's 256 bits exactly. So a
//! draw needs no state, ranks may ask in any order and from any thread, and a rank, fault or
//! step more shifts no other's draws.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What a draw is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) seed: u64,
    /// The fault's place in the list; for goodput, which of its streams.
    pub(super) fault: u32,
    /// The rank; for goodput, the replica.
    pub(super) rank: u32,
    pub(super) step: u64,
    pub(super) micro_batch: u32,
    pub(super) kernel: u32,
}

impl Key {
    /// The draw's own generator.
    pub(super) fn generator(self) -> ChaCha8Rng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..12].copy_from_slice(&self.fault.to_le_bytes());
        key[12..16].copy_from_slice(&self.rank.to_le_bytes());
        key[16..24].copy_from_slice(&self.step.to_le_bytes());
        key[24..28].copy_from_slice(&self.micro_batch.to_le_bytes());
        key[28..].copy_from_slice(&self.kernel.to_le_bytes());
        ChaCha8Rng::from_seed(key)
    }
}
