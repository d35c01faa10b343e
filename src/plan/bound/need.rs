//! How many bytes have to cross a partition's cuts.

use super::partition::{Kind, Partition, Side};
use super::{Cut, Direction, Operation};
use fabricsim_collective::{Collective, Rank};
use fabricsim_units::{Bandwidth, Bytes};

/// A cut, and what has to cross it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    pub(super) cut: Cut,
    /// Also where switches between the parts sum and copy.
    pub(super) despite_switches: bool,
}

/// What an operation needs of a partition.
pub(super) fn of(partition: &Partition, operation: Operation<'_>) -> Vec<Need> {
    match moved_by_pairs(partition, operation) {
        Some(sums) => by_part(partition, &sums),
        None => by_kind(partition, operation),
    }
}

fn cut(partition: &Partition, direction: Direction, inside: &Side, needs: u64) -> Cut {
    Cut {
        kind: partition.kind,
        direction,
        inside: inside.first,
        needs: Bytes::new(needs),
        carries: Bandwidth::from_bytes_per_sec(inside.rate),
    }
}

/// Where it depends on the number of ranks inside alone, and on whether the root is among them.
fn by_kind(partition: &Partition, operation: Operation<'_>) -> Vec<Need> {
    let bytes = operation.bytes;
    let mut needs = Vec::with_capacity(2 * partition.kinds.len() + 2);
    for kind in &partition.kinds {
        let (out, into) = through(kind, partition.ranks, operation);
        let cuts = [
            cut(partition, Direction::Out, &kind.out, out),
            cut(partition, Direction::Into, &kind.into, into),
        ];
        needs.extend(cuts.map(|cut| Need {
            cut,
            despite_switches: true,
        }));
    }
    if operation.collective == Collective::AllReduce {
        let messages = 2 * (partition.parts.len() as u64 - 1);
        let all = bytes.saturating_mul(messages);
        let sides = [&partition.all_out, &partition.all_into];
        needs.extend(sides.map(|side| Need {
            cut: cut(partition, Direction::Between, side, all),
            despite_switches: !partition.reduces,
        }));
    }
    needs
}

/// Bytes out of and into a part of that kind, of an operation between `ranks` in all.
fn through(kind: &Kind, ranks: u64, operation: Operation<'_>) -> (u64, u64) {
    let bytes = operation.bytes;
    let (own, others) = (kind.ranks, ranks - kind.ranks);
    let of = |num: u64| (u128::from(bytes) * u128::from(num) / u128::from(ranks)) as u64;
    let only = |is: bool, bytes: u64| if is { bytes } else { 0 };
    match operation.collective {
        // Its part of the sum, and the sum of the others.
        Collective::AllReduce => (bytes, bytes),
        // Each of its blocks once at least, and all others.
        Collective::AllGather => (of(own), of(others)),
        // A part of each block's sum, and once at least one of each of its own.
        Collective::ReduceScatter => (of(others), of(own)),
        Collective::Broadcast => (only(kind.has_root, bytes), only(!kind.has_root, bytes)),
        Collective::Reduce => (only(!kind.has_root, bytes), only(kind.has_root, bytes)),
        Collective::Scatter if kind.has_root => (of(others), 0),
        Collective::Scatter => (0, of(own)),
        Collective::Gather if kind.has_root => (0, of(others)),
        Collective::Gather => (of(own), 0),
        Collective::AllToAll | Collective::AllToAllV => {
            let all = u128::from(bytes) * u128::from(own) * u128::from(others);
            let moved = u64::try_from(all / u128::from(ranks)).unwrap_or(u64::MAX);
            (moved, moved)
        }
        // By pairs.
        Collective::SendRecv | Collective::SendRecvPairs | Collective::SendRecvHalves => (0, 0),
    }
}

/// Bytes out of and into each part, where it depends on which ranks are inside.
fn moved_by_pairs(partition: &Partition, operation: Operation<'_>) -> Option<Vec<(u64, u64)>> {
    let ranks = partition.part_of.len() as u32;
    let mut sums = vec![(0u64, 0u64); partition.parts.len()];
    let mut add = |from: Rank, to: Rank, bytes: u64| {
        let parts = [from, to].map(|rank| partition.part_of[rank.index()] as usize);
        if parts[0] != parts[1] {
            let (out, into) = (&mut sums[parts[0]].0, bytes);
            *out = out.saturating_add(into);
            let into = &mut sums[parts[1]].1;
            *into = into.saturating_add(bytes);
        }
    };
    if operation.collective.is_single_message() {
        for from in (0..ranks).map(Rank) {
            if let Some(to) = operation.collective.receiver(from, ranks) {
                add(from, to, operation.bytes);
            }
        }
        return Some(sums);
    }
    let matrix = operation.matrix?;
    for from in (0..ranks).map(Rank) {
        for to in (0..ranks).map(Rank) {
            add(from, to, matrix.bytes(from, to));
        }
    }
    Some(sums)
}

fn by_part(partition: &Partition, sums: &[(u64, u64)]) -> Vec<Need> {
    let parts = partition.parts.iter().zip(sums);
    let needs = parts.flat_map(|(part, &(out, into))| {
        let side = |rate| Side {
            rate,
            first: part.first,
        };
        [
            cut(partition, Direction::Out, &side(part.out), out),
            cut(partition, Direction::Into, &side(part.into), into),
        ]
    });
    needs
        .map(|cut| Need {
            cut,
            despite_switches: true,
        })
        .collect()
}
