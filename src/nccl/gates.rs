//! By which interfaces a ring enters and leaves a host, and in which order it passes the GPUs
//! between.

use super::hosts::{Door, Host};
use fabricsim_topology::DeviceId;

/// By which interface a ring leaves a host that it entered by another (`NCCL_CROSS_NIC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrossNic {
    /// By the same.
    Same,
    /// By that of its last GPU.
    Any,
    /// Channels in pairs: the second is the first backwards.
    Paired,
}

/// Where a ring enters and leaves a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate {
    pub(super) enter: Option<DeviceId>,
    pub(super) leave: Option<DeviceId>,
}

/// A channel's way through a host, by local ranks. If `Paired`, channels come in pairs: the second
/// is the first backwards, entering where the first leaves (NCCL's crossNic 2). Hosts of odd index
/// swap the two, so that every hop between hosts stays on one rail.
pub(super) fn through(
    host: &Host,
    odd: bool,
    (channel, channels): (u32, u32),
    mode: CrossNic,
    meshed: bool,
) -> (Vec<usize>, Gate) {
    let g = host.ranks.len();
    let run = |start: usize| (0..g).map(move |i| (start + i) % g).collect::<Vec<usize>>();
    let pairs = if mode == CrossNic::Paired {
        pairs(host, meshed)
    } else {
        Vec::new()
    };
    let paired = channel / 2 * 2 + 1 < channels;
    let role = if paired && odd { channel ^ 1 } else { channel };
    let (locals, enter, leave) = match (pairs.get((role / 2) as usize), host.door(channel)) {
        (Some(&(first, last)), _) if paired => {
            let mut locals = ending(run(first.local), last.local);
            let (mut enter, mut leave) = (first.nic, last.nic);
            if role % 2 == 1 {
                locals.reverse();
                std::mem::swap(&mut enter, &mut leave);
            }
            (locals, Some(enter), Some(leave))
        }
        (_, None) => (run(0), None, None),
        (_, Some(door)) => {
            let mut locals = run(door.local);
            // The other way round, if that ends at a GPU that is near.
            if g > 1 && door.mate == Some((door.local + 1) % g) {
                locals[1..].reverse();
            }
            // The search gives up crossing where rings would meet at an interface.
            let leave = match mode {
                CrossNic::Any if leaves_apart(host, meshed) => {
                    if door.mate.is_none() {
                        locals = ending(locals, last_of(host, door, meshed));
                    }
                    host.nics[locals[g - 1]]
                }
                _ => Some(door.nic),
            };
            (locals, Some(door.nic), leave)
        }
    };
    (locals, Gate { enter, leave })
}

/// The same GPUs with one of them last.
fn ending(mut locals: Vec<usize>, last: usize) -> Vec<usize> {
    locals.retain(|&local| local != last);
    locals.push(last);
    locals
}

/// Where a ring that enters by a door leaves the host: at the GPU before its first, or at one with
/// a door if they can be passed in any order.
fn last_of(host: &Host, door: Door, meshed: bool) -> usize {
    let g = host.ranks.len();
    let before = (door.local + g - 1) % g;
    let owners = host.owners();
    match owners.iter().position(|&o| o == door.local) {
        Some(at) if meshed && owners.len() > 1 && !owners.contains(&before) => {
            owners[(at + 1) % owners.len()]
        }
        _ => before,
    }
}

/// Rings that leave by the interface of the GPU where they end all leave by different ones.
pub(super) fn leaves_apart(host: &Host, meshed: bool) -> bool {
    let mut seen: Vec<DeviceId> = Vec::new();
    host.doors.iter().all(|&door| {
        let last = host.nics[last_of(host, door, meshed)];
        last.is_some_and(|nic| {
            let new = !seen.contains(&nic);
            seen.push(nic);
            new
        })
    })
}

/// Doors by which pairs of rings enter and leave: of a rank, and of the one before it, where
/// a run of neighbours from the first ends; of any two where GPUs can be passed in any order. Each
/// door is in one pair.
pub(super) fn pairs(host: &Host, meshed: bool) -> Vec<(Door, Door)> {
    let g = host.ranks.len();
    let mut free = host.doors.clone();
    let mut pairs = Vec::new();
    let mut take = |local: usize, other: usize| {
        let first = free.iter().position(|d| d.local == local)?;
        free.iter().position(|d| d.local == other)?;
        let first = free.remove(first);
        let second = free.iter().position(|d| d.local == other)?;
        Some((first, free.remove(second)))
    };
    if g < 2 {
        return pairs;
    }
    // Each round takes at most one pair from a place.
    for _ in 0..host.doors.len() {
        let before = pairs.len();
        for local in 0..g {
            pairs.extend(take(local, (local + g - 1) % g));
        }
        if pairs.len() == before {
            break;
        }
    }
    while meshed && let Some(other) = free.iter().position(|d| d.local != free[0].local) {
        let second = free.remove(other);
        pairs.push((free.remove(0), second));
    }
    pairs
}

/// The local rank at which a channel begins: that with the channel's door.
pub(super) fn start_of(host: &Host, channel: u32) -> usize {
    host.door(channel).map_or(0, |door| door.local)
}
