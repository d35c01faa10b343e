//! A parameter server: rank 0 adds what all others send, one after the other, and sends the
//! sum to each of them.

use super::script::{Script, input, output};
use crate::goal::Collective;

pub(super) fn script(collective: Collective, ranks: u32, rank: u32) -> Script {
    let mut script = Script::default();
    let (collects, answers) = (
        collective != Collective::Broadcast,
        collective != Collective::Reduce,
    );
    if rank > 0 {
        if collects {
            script.send(0, input(0, 1));
        }
        if answers {
            script.receive(0, output(0, 1));
        }
        return script;
    }
    let mut own = input(0, 1);
    for from in (1..ranks).filter(|_| collects) {
        script.reduce(from, own, output(0, 1));
        own = output(0, 1);
    }
    for to in (1..ranks).filter(|_| answers) {
        script.send(to, own);
    }
    if own == input(0, 1) {
        script.copy(own, output(0, 1));
    }
    script
}
