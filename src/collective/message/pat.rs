//! Parallel aggregated trees (NCCL's PAT): the far peers first in an all-gather, mirrored
//! in a reduce-scatter. Any number of ranks; each sends and receives every foreign block once.
//!
//! A block travels down a binomial tree of distances: the rank `x` before a block's own rank
//! gets it over `x`'s lowest bit, from the rank `x` without that bit before it. Small blocks
//! go together, those of one distance in one message (two, where the tree is cut off);
//! large ones one by one, all trees at once. NCCL 2.30 lies between the two for medium
//! sizes, which is left out, as is its use of up to 16 groups of warps.

use super::script::{Script, input, output, scratch};
use std::sync::Arc;

/// The rounds of small data. Scratch memory has the blocks in the order of their coming.
#[derive(Debug, Clone)]
pub(super) struct Trees {
    ranks: u32,
    /// By place: how many ranks after this one the block's rank is.
    offsets: Arc<[u32]>,
    rounds: Arc<[Round]>,
}

#[derive(Debug, Clone)]
struct Round {
    distance: u32,
    runs: Vec<Run>,
}

/// Consecutive blocks: at `first` in the sender's scratch memory, at `target` in the
/// receiver's.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u32,
    target: u32,
    count: u32,
}

/// 1, 2, 4, … below `end`.
fn powers(end: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..end.next_power_of_two().trailing_zeros()).map(|bit| 1 << bit)
}

/// The lowest bit; of zero: more than any.
fn lowest(x: u32) -> u32 {
    1 << x.trailing_zeros().min(31)
}

impl Trees {
    pub(super) fn new(ranks: u32) -> Self {
        let mut offsets = vec![0];
        let mut rounds = Vec::new();
        for distance in powers(ranks).rev() {
            let mut runs: Vec<Run> = Vec::new();
            for place in 0..offsets.len() {
                let offset = offsets[place] + distance;
                if offset >= ranks {
                    continue;
                }
                let target = offsets.len() as u32;
                offsets.push(offset);
                match runs.last_mut() {
                    Some(run) if run.first + run.count == place as u32 => run.count += 1,
                    _ => runs.push(Run {
                        first: place as u32,
                        target,
                        count: 1,
                    }),
                }
            }
            rounds.push(Round { distance, runs });
        }
        Trees {
            ranks,
            offsets: offsets.into(),
            rounds: rounds.into(),
        }
    }

    /// Blocks of the largest message.
    pub(super) fn most_blocks(&self) -> u64 {
        let runs = self.rounds.iter().flat_map(|r| &r.runs);
        runs.map(|r| u64::from(r.count)).max().unwrap_or(1)
    }

    pub(super) fn all_gather(&self, rank: u32) -> Script {
        let n = self.ranks;
        let mut script = Script::default();
        if n > 2 {
            script.copy(input(0, 1), scratch(0, 1));
        }
        script.copy(input(0, 1), output(rank, 1));
        for (index, round) in self.rounds.iter().enumerate() {
            for run in &round.runs {
                let source = if index == 0 {
                    input(0, 1)
                } else {
                    scratch(run.first, run.count)
                };
                script.send((rank + n - round.distance) % n, source);
                let target = scratch(run.target, run.count);
                script.receive((rank + round.distance) % n, target);
            }
            // While the next round's blocks are on their way.
            for place in round.runs.iter().flat_map(|r| r.target..r.target + r.count) {
                let block = (rank + self.offsets[place as usize]) % n;
                script.copy(scratch(place, 1), output(block, 1));
            }
        }
        script
    }

    pub(super) fn reduce_scatter(&self, rank: u32) -> Script {
        let n = self.ranks;
        let mut script = Script::default();
        if n == 1 {
            script.copy(input(0, 1), output(0, 1));
        }
        for (place, &offset) in self.offsets.iter().enumerate().rev() {
            if n > 1 {
                script.copy(input((rank + offset) % n, 1), scratch(place as u32, 1));
            }
        }
        for (index, round) in self.rounds.iter().enumerate().rev() {
            for run in &round.runs {
                let sent = scratch(run.target, run.count);
                script.send((rank + round.distance) % n, sent);
                let own = scratch(run.first, run.count);
                let target = if index == 0 { output(0, 1) } else { own };
                script.reduce((rank + n - round.distance) % n, own, target);
            }
        }
        script
    }
}

/// Round by round the block of every next offset, over its lowest bit: who receives it in
/// one round passes it on in later ones.
pub(super) fn all_gather_by_block(ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    script.copy(input(0, 1), output(rank, 1));
    let block = |offset: u32| output((rank + offset) % ranks, 1);
    for offset in 1..ranks {
        let distance = lowest(offset);
        let parent = offset - distance;
        let source = if parent == 0 {
            input(0, 1)
        } else {
            block(parent)
        };
        script.send((rank + ranks - distance) % ranks, source);
        script.receive((rank + distance) % ranks, block(offset));
    }
    script
}

/// The mirror image. At any time a rank has one incomplete sum for each distance at most.
pub(super) fn reduce_scatter_by_block(ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    let own = |offset: u32| input((rank + offset) % ranks, 1);
    let sum = |offset: u32| match offset {
        0 => output(0, 1),
        _ => scratch(offset.trailing_zeros(), 1),
    };
    if ranks == 1 {
        script.copy(own(0), sum(0));
    }
    let begun = |offset: u32, distance: u32| offset + distance < ranks;
    for offset in (1..ranks).rev() {
        let distance = lowest(offset);
        // An offset has got something if the one after it exists and is added to it.
        let leaf = distance == 1 || !begun(offset, 1);
        let source = if leaf { own(offset) } else { sum(offset) };
        script.send((rank + distance) % ranks, source);
        let parent = offset - distance;
        // The first to be added is the farthest that exists.
        let first = !begun(parent, 2 * distance) || 2 * distance >= lowest(parent);
        let addend = if first { own(parent) } else { sum(parent) };
        script.reduce((rank + ranks - distance) % ranks, addend, sum(parent));
    }
    script
}
