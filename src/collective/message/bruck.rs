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
/// with a bit set are sent run by run: nobody packs them into one message.
pub(super) fn all_to_all(ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    script.copy(input(rank, ranks - rank), scratch(0, ranks - rank));
    if rank > 0 {
        script.copy(input(0, rank), scratch(ranks - rank, rank));
    }
    let mut distance = 1;
    while distance < ranks {
        for first in (distance..ranks).step_by(2 * distance as usize) {
            let run = scratch(first, distance.min(ranks - first));
            script.send((rank + distance) % ranks, run);
            script.receive((rank + ranks - distance) % ranks, run);
        }
        distance *= 2;
    }
    for i in 0..ranks {
        script.copy(scratch(i, 1), output((rank + ranks - i) % ranks, 1));
    }
    script
}
