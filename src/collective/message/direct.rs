//! Everyone sends to everyone, each beginning with the rank after it: one step, and two of
//! them for an all-reduce.

use super::script::{Script, input, output};
use crate::goal::Collective;

pub(super) fn script(collective: Collective, ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    let peers = || (1..ranks).map(|k| ((rank + k) % ranks, (rank + ranks - k) % ranks));
    match collective {
        Collective::AllGather => {
            script.copy(input(0, 1), output(rank, 1));
            for (to, from) in peers() {
                script.send(to, input(0, 1));
                script.receive(from, output(from, 1));
            }
        }
        Collective::AllToAll => {
            script.copy(input(rank, 1), output(rank, 1));
            for (to, from) in peers() {
                script.send(to, input(to, 1));
                script.receive(from, output(from, 1));
            }
        }
        // Reduce-scatter, and an all-reduce's first half.
        _ => {
            let all = collective == Collective::AllReduce;
            let sum = if all { output(rank, 1) } else { output(0, 1) };
            let mut own = input(rank, 1);
            for (to, from) in peers() {
                script.send(to, input(to, 1));
                script.reduce(from, own, sum);
                own = sum;
            }
            if ranks == 1 {
                script.copy(own, sum);
            }
            for (to, from) in peers().filter(|_| all) {
                script.send(to, sum);
                script.receive(from, output(from, 1));
            }
        }
    }
    script
}
