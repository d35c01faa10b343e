//! Which transfers nobody waits for.
//!
//! Threads that move bytes in passes take so long for each that the bytes are mostly over the links
//! long before. Where that is so however many use the links at once, when the transfer ends makes
//! no difference to anything: it takes no time beside its passes, and its links need not be shared
//! out, if that is so of all who ever use them.

use super::{Cast, Class};
use crate::collective::{Program, Step};
use crate::engine::actor::Actor;
use crate::engine::machinery::Machinery;
use crate::engine::resources::{PathId, Use};
use crate::plan::Protocol;
use crate::units::{Bandwidth, Bytes, Time};
use rustc_hash::FxHashSet;

/// So many different steps of one worker are looked at; of programs with more, none is covered.
const MOST_LOOKS: u32 = 256;

/// More than all roundings of a transfer come to: each new rate costs it less than a millionth of
/// a byte, of which a gigabyte per second moves a million in this time.
const ROUNDING: Time = Time::from_nanos(1);

/// What steps of workers load: at their own ends, and at the others'.
type Moves = (Option<PathId>, Option<PathId>);

/// For each resource whether all transfers that ever use it are over before anybody asks.
pub(super) fn covered(
    program: &dyn Program,
    protocol: &Protocol,
    machinery: &Machinery,
    cast: &Cast,
    workers: &[Actor],
    classes: &[Class],
) -> Option<Vec<bool>> {
    // Others would have to be looked at step by step.
    if !program.repeats() || classes.iter().all(|c| !c.passes()) {
        return None;
    }
    let resources = &machinery.resources;
    let paths = machinery.store_path.iter().chain(&machinery.load_path);
    let network = machinery.proxies.iter().map(|proxy| proxy.path);
    let mut weight = vec![0u64; resources.all.len()];
    for u in paths
        .flatten()
        .copied()
        .chain(network.clone())
        .flat_map(|path| resources.path(path))
    {
        weight[u.resource as usize] += u64::from(u.weight);
    }
    // With all of them under way at once, each has at least its part: filling stops nobody below.
    // Where there is room for all, each goes as if alone.
    let least = |path: PathId| {
        let part = |u: &Use| {
            let users = if machinery.is_quiet(u.resource) {
                u64::from(u.weight)
            } else {
                weight[u.resource as usize]
            };
            resources.all[u.resource as usize].capacity / users.max(1)
        };
        let parts = resources.path(path).iter().map(part);
        parts.min().unwrap_or(u64::MAX)
    };
    let mut waited_for: Vec<bool> = vec![false; resources.all.len()];
    let (mut seen, mut all_moves) = (FxHashSet::default(), FxHashSet::<Moves>::default());
    for (actor, id) in workers.iter().zip(0..) {
        let worker = cast.worker(id);
        let (mut index, mut looks) = (0, 0);
        while index < u64::from(actor.steps) {
            looks += 1;
            if looks > MOST_LOOKS {
                return None;
            }
            let step = program.step(worker, index);
            index += 1 + program.same_after(worker, index, 1);
            if step.len == 0 {
                continue;
            }
            let recv = step.recv.iter().map(|c| cast.queue(c) as usize);
            let recv = recv.map(|queue| machinery.incoming[queue] as usize);
            let loads = recv.filter_map(|fifo| machinery.load_path[fifo]);
            let send = step.send.iter().map(|c| cast.queue(c) as usize);
            let stores = send.filter_map(|fifo| machinery.store_path[fifo]);
            if !is_simple(&step) {
                for path in loads.chain(stores) {
                    mark(machinery, path, &mut waited_for);
                }
                continue;
            }
            let moves: Moves = (loads.last(), stores.last());
            let slice = protocol.slice_len(step.len);
            let slices = [slice.min(step.len), step.len % slice.max(1)];
            if !seen.insert((moves, actor.class, slices)) {
                continue;
            }
            all_moves.insert(moves);
            let own = &classes[usize::from(actor.class)];
            let cap = if step.send.is_empty() {
                own.local_rate
            } else {
                own.send_rate
            };
            let paths = [moves.0, moves.1].into_iter().flatten();
            let rate = paths.clone().map(least).min().map_or(cap, |r| r.min(cap));
            let mut lens = slices.into_iter().filter(|&len| len > 0);
            if !lens.all(|len| is_over_before(own, len, rate)) {
                for path in paths {
                    mark(machinery, path, &mut waited_for);
                }
            }
        }
    }
    for path in network {
        mark(machinery, path, &mut waited_for);
    }
    // Whoever shares anything with a transfer that somebody waits for has to be shared for.
    loop {
        let before = waited_for.iter().filter(|&&w| w).count();
        for &(load, store) in &all_moves {
            let paths = [load, store].into_iter().flatten();
            let mut uses = paths.clone().flat_map(|path| resources.path(path));
            if uses.any(|u| waited_for[u.resource as usize]) {
                for path in paths {
                    mark(machinery, path, &mut waited_for);
                }
            }
        }
        if waited_for.iter().filter(|&&w| w).count() == before {
            break;
        }
    }
    Some(waited_for.into_iter().map(|w| !w).collect())
}

/// One queue on each side at most, and nobody else to wait for.
fn is_simple(step: &Step) -> bool {
    step.recv.len() <= 1 && step.send.len() <= 1 && step.deal.is_none() && step.after.is_none()
}

/// Notes that somebody waits for a transfer over `path`; resources with room for all pass nothing
/// on to others.
fn mark(machinery: &Machinery, path: PathId, waited_for: &mut [bool]) {
    for u in machinery.resources.path(path) {
        waited_for[u.resource as usize] |= !machinery.is_quiet(u.resource);
    }
}

/// Whether a slice that moves at `rate` or faster has moved before anything of it is passed on.
fn is_over_before(class: &Class, len: u64, rate: u64) -> bool {
    let slice = &class.slice;
    let sync = slice.of(len);
    let first = sync - slice.ahead(len, sync);
    let moves = || Bandwidth::from_bytes_per_sec(rate).time_for(Bytes::new(len));
    class.passes() && rate > 0 && moves() + ROUNDING <= first
}
