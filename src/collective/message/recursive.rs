//! Recursive doubling and halving, with the usual fold for numbers that are no power of
//! two: the first even ranks leave their data with the rank after them and get the result
//! from it. Thakur, Rabenseifner, Gropp 2005; as in MPICH.

use super::script::{Script, input, output, scratch};

/// The power of two that is left after folding.
struct Fold {
    power: u32,
    /// So many ranks are folded away.
    rest: u32,
}

impl Fold {
    fn new(ranks: u32) -> Self {
        let power = 1 << ranks.ilog2();
        Fold {
            power,
            rest: ranks - power,
        }
    }

    /// A rank's number among those left; none if it is folded away.
    fn id(&self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.rest {
            Some(rank - self.rest)
        } else if rank.is_multiple_of(2) {
            None
        } else {
            Some(rank / 2)
        }
    }

    /// True if the rank stands for the one before it.
    fn doubled(&self, rank: u32) -> bool {
        rank < 2 * self.rest && !rank.is_multiple_of(2)
    }

    fn rank(&self, id: u32) -> u32 {
        if id < self.rest {
            2 * id + 1
        } else {
            id + self.rest
        }
    }

    /// The first block that `id` stands for; they are consecutive.
    fn block(&self, id: u32) -> u32 {
        id + id.min(self.rest)
    }

    /// First block and number of blocks of ids `from..from + count`.
    fn blocks(&self, from: u32, count: u32) -> (u32, u32) {
        let first = self.block(from);
        (first, self.block(from + count) - first)
    }

    /// 1, 2, 4, … below the power.
    fn masks(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        (0..self.power.ilog2()).map(|bit| 1 << bit)
    }
}

/// All-reduce: all data with ever farther ranks.
pub(super) fn doubling(ranks: u32, rank: u32) -> Script {
    let fold = Fold::new(ranks);
    let mut script = Script::default();
    let (mine, result) = (input(0, 1), output(0, 1));
    let Some(id) = fold.id(rank) else {
        script.send(rank + 1, mine);
        script.receive(rank + 1, result);
        return script;
    };
    let mut sum = mine;
    if fold.doubled(rank) {
        script.reduce(rank - 1, sum, result);
        sum = result;
    }
    for mask in fold.masks() {
        let peer = fold.rank(id ^ mask);
        script.send(peer, sum);
        script.reduce(peer, sum, result);
        sum = result;
    }
    if ranks == 1 {
        script.copy(mine, result);
    }
    if fold.doubled(rank) {
        script.send(rank - 1, result);
    }
    script
}

/// All-reduce: reduce-scatter by halving, then all-gather by doubling, over as many
/// segments as the power of two.
pub(super) fn rabenseifner(ranks: u32, rank: u32) -> Script {
    let fold = Fold::new(ranks);
    let mut script = Script::default();
    let all = fold.power;
    let Some(id) = fold.id(rank) else {
        script.send(rank + 1, input(0, all));
        script.receive(rank + 1, output(0, all));
        return script;
    };
    let mut sum: fn(u32, u32) -> _ = input;
    if fold.doubled(rank) {
        script.reduce(rank - 1, input(0, all), output(0, all));
        sum = output;
    }
    for mask in fold.masks().rev() {
        let peer = fold.rank(id ^ mask);
        let (keep, give) = (id & !(mask - 1), (id ^ mask) & !(mask - 1));
        script.send(peer, sum(give, mask));
        script.reduce(peer, sum(keep, mask), output(keep, mask));
        sum = output;
    }
    if ranks == 1 {
        script.copy(input(0, all), output(0, all));
    }
    for mask in fold.masks() {
        let peer = fold.rank(id ^ mask);
        script.send(peer, output(id & !(mask - 1), mask));
        script.receive(peer, output((id ^ mask) & !(mask - 1), mask));
    }
    if fold.doubled(rank) {
        script.send(rank - 1, output(0, all));
    }
    script
}

/// Reduce-scatter by halving.
pub(super) fn reduce_scatter(ranks: u32, rank: u32) -> Script {
    let fold = Fold::new(ranks);
    let mut script = Script {
        // Who stands for another rank has sums where others still have their input.
        block_by_block: fold.rest > 0,
        ..Script::default()
    };
    let Some(id) = fold.id(rank) else {
        script.send(rank + 1, input(0, ranks));
        script.receive(rank + 1, output(0, 1));
        return script;
    };
    let mut sum: fn(u32, u32) -> _ = input;
    if fold.doubled(rank) {
        script.reduce(rank - 1, input(0, ranks), scratch(0, ranks));
        sum = scratch;
    }
    for mask in fold.masks().rev() {
        let peer = fold.rank(id ^ mask);
        let (keep, kept) = fold.blocks(id & !(mask - 1), mask);
        let (give, given) = fold.blocks((id ^ mask) & !(mask - 1), mask);
        script.send(peer, sum(give, given));
        let target = if mask == 1 && kept == 1 {
            output(0, 1)
        } else {
            scratch(keep, kept)
        };
        script.reduce(peer, sum(keep, kept), target);
        sum = scratch;
    }
    if ranks == 1 {
        script.copy(input(0, 1), output(0, 1));
    }
    if fold.doubled(rank) {
        script.send(rank - 1, sum(rank - 1, 1));
        script.copy(sum(rank, 1), output(0, 1));
    }
    script
}

/// All-gather by doubling.
pub(super) fn all_gather(ranks: u32, rank: u32) -> Script {
    let fold = Fold::new(ranks);
    let mut script = Script::default();
    let Some(id) = fold.id(rank) else {
        script.send(rank + 1, input(0, 1));
        script.receive(rank + 1, output(0, ranks));
        return script;
    };
    script.copy(input(0, 1), output(rank, 1));
    if fold.doubled(rank) {
        script.receive(rank - 1, output(rank - 1, 1));
    }
    for mask in fold.masks() {
        let peer = fold.rank(id ^ mask);
        let (mine, count) = fold.blocks(id & !(mask - 1), mask);
        let (theirs, their_count) = fold.blocks((id ^ mask) & !(mask - 1), mask);
        // Its own block is at hand before it has been copied.
        let own = count == 1 && mine == rank;
        let source = if own {
            input(0, 1)
        } else {
            output(mine, count)
        };
        script.send(peer, source);
        script.receive(peer, output(theirs, their_count));
    }
    if fold.doubled(rank) {
        script.send(rank - 1, output(0, ranks));
    }
    script
}
