//! A binomial tree with root 0, as in MPI: rank `r`'s parent is `r` without its lowest bit.

use super::script::{Script, Span, input, output, scratch};
use crate::goal::Collective;

pub(super) fn script(collective: Collective, ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    let root = rank == 0;
    match collective {
        Collective::Broadcast => {
            let source = if root { input(0, 1) } else { output(0, 1) };
            down(&mut script, ranks, rank, source);
            if root {
                script.copy(input(0, 1), output(0, 1));
            }
        }
        Collective::Reduce => {
            let sum = if root { output(0, 1) } else { scratch(0, 1) };
            up(&mut script, ranks, rank, sum);
        }
        // All-reduce: one, then the other.
        _ => {
            up(&mut script, ranks, rank, output(0, 1));
            down(&mut script, ranks, rank, output(0, 1));
        }
    }
    script
}

/// The largest number of ranks below a rank, itself included.
fn reach(ranks: u32, rank: u32) -> u32 {
    if rank == 0 {
        ranks.next_power_of_two()
    } else {
        1 << rank.trailing_zeros()
    }
}

fn up(script: &mut Script, ranks: u32, rank: u32, sum: Span) {
    let mut own = input(0, 1);
    let mut distance = 1;
    while distance < reach(ranks, rank) {
        if rank + distance < ranks {
            script.reduce(rank + distance, own, sum);
            own = sum;
        }
        distance *= 2;
    }
    if rank != 0 {
        script.send(rank - distance, own);
    } else if ranks == 1 {
        script.copy(own, sum);
    }
}

fn down(script: &mut Script, ranks: u32, rank: u32, source: Span) {
    if rank != 0 {
        script.receive(rank - reach(ranks, rank), output(0, 1));
    }
    let mut distance = reach(ranks, rank) / 2;
    while distance > 0 {
        if rank + distance < ranks {
            script.send(rank + distance, source);
        }
        distance /= 2;
    }
}
