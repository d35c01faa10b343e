//! Bruck's algorithms: blocks are kept in an order that begins with the rank's own, so that
//! any number of ranks needs ⌈log₂ ranks⌉ rounds. Bruck et al. 1997.

use super::script::{Script, input, output, scratch};

/// Scratch unit `i` holds the block of the `i`-th rank after this one.
pub(super) fn all_gather(ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    script.copy(input(0, 1), scratch(0, 1));
    let mut distance = 1;
    while distance < ranks {
        let count = distance.min(ranks - distance);
        let source = if distance == 1 {
            input(0, 1)
        } else {
            scratch(0, count)
        };
        script.send((rank + ranks - distance) % ranks, source);
        script.receive((rank + distance) % ranks, scratch(distance, count));
        distance *= 2;
    }
    script.copy(scratch(0, ranks - rank), output(rank, ranks - rank));
    if rank > 0 {
        script.copy(scratch(ranks - rank, rank), output(0, rank));
    }
    script
}

/// Scratch unit `i` holds what has to go `i` ranks on; it goes by the bits of `i`. Blocks
/// with a bit set are packed into one message, unless they lie together.
pub(super) fn all_to_all(ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    script.copy(input(rank, ranks - rank), scratch(0, ranks - rank));
    if rank > 0 {
        script.copy(input(0, rank), scratch(ranks - rank, rank));
    }
    // At most half of the blocks have a bit set.
    let (packed, unpacked) = (ranks, ranks + ranks / 2);
    let mut distance = 1;
    while distance < ranks {
        let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
        let starts = (distance..ranks).step_by(2 * distance as usize);
        let runs: Vec<(u32, u32)> = starts
            .map(|first| (first, distance.min(ranks - first)))
            .collect();
        if let [(first, count)] = *runs {
            script.send(to, scratch(first, count));
            script.receive(from, scratch(first, count));
        } else {
            let mut total = 0;
            for &(first, count) in &runs {
                script.copy(scratch(first, count), scratch(packed + total, count));
                total += count;
            }
            script.send(to, scratch(packed, total));
            script.receive(from, scratch(unpacked, total));
            let mut taken = 0;
            for &(first, count) in &runs {
                script.copy(scratch(unpacked + taken, count), scratch(first, count));
                taken += count;
            }
        }
        distance *= 2;
    }
    for i in 0..ranks {
        script.copy(scratch(i, 1), output((rank + ranks - i) % ranks, 1));
    }
    script
}
