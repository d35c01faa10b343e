//! Work on several processors: the same for many inputs, or two things at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many processors there are.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `aside` on a thread of its own, `own` on this one.
pub fn both<A: Send, B>(aside: impl FnOnce() -> A + Send, own: impl FnOnce() -> B) -> (A, B) {
    let (aside, own) = thread::scope(|scope| {
        let aside = scope.spawn(aside);
        let own = own();
        (aside.join(), own)
    });
    match aside {
        Ok(aside) => (aside, own),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// What `work` makes of each input, in their order, on `threads` threads (all processors, if
/// `None`). Each thread has a state of its own, from `state`, and takes the next input that
/// none has; what comes out must not depend on the state.
pub fn each<T: Sync, S, R: Send>(
    inputs: &[T],
    threads: Option<usize>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.unwrap_or_else(processors);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut own = state();
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(input) = inputs.get(index) else {
                return done;
            };
            done.push((index, work(&mut own, input)));
        }
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let threads = threads.clamp(1, inputs.len().max(1));
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let joined = threads.into_iter().flat_map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}
