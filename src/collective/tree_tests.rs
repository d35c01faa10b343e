//! Trees, heads and chains: they compute what they say, and send what the closed forms say.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

/// `len` bytes dealt to channels in multiples of 16.
fn parts(len: u64, channels: u64, chunk: u64) -> Vec<Part> {
    let each = len.div_ceil(channels).next_multiple_of(16);
    (0..channels)
        .map(|c| {
            let offset = (c * each).min(len);
            Part {
                offset,
                len: each.min(len - offset),
                chunk,
            }
        })
        .collect()
}

/// Hosts of `per_host` ranks each.
fn hosts(n: u32, per_host: u32) -> Vec<Vec<u32>> {
    (0..n)
        .map(|h| (h * per_host..(h + 1) * per_host).collect())
        .collect()
}

/// NCCL's: a chain in each host, whose first rank joins a binary tree over hosts.
fn trees(n: u32, per_host: u32) -> [Arc<Tree>; 2] {
    [false, true].map(|second| {
        let mut parents = vec![None; (n * per_host) as usize];
        for host in 0..n {
            let first = host * per_host;
            parents[first as usize] = binary_parent(n, host, second).map(|p| p * per_host);
            for local in 1..per_host {
                parents[(first + local) as usize] = Some(first + local - 1);
            }
        }
        Arc::new(Tree::new(&parents).unwrap())
    })
}

fn tree_program(n: u32, per_host: u32, bytes: u64, channels: u64, chunk: u64) -> TreeProgram {
    let [a, b] = trees(n, per_host);
    let trees = (0..channels)
        .map(|c| Arc::clone(if c % 2 == 0 { &a } else { &b }))
        .collect();
    TreeProgram::new(bytes, trees, parts(bytes, channels, chunk))
}

fn heads_program(
    collective: Collective,
    (n, per_host, heads): (u32, u32, u32),
    between: Between,
    bytes: u64,
    channels: u64,
    chunk: u64,
) -> HeadsProgram {
    let hosts: Vec<_> = hosts(n, per_host)
        .into_iter()
        .map(|ranks| {
            let heads = ranks[..heads as usize].to_vec();
            (ranks, heads)
        })
        .collect();
    let bytes = collective.actual_bytes(bytes, n * per_host);
    let len = match collective {
        Collective::AllReduce => bytes,
        _ => bytes / u64::from(n * per_host),
    };
    HeadsProgram::new(
        collective,
        bytes,
        &hosts,
        between,
        parts(len, channels, chunk),
    )
}

fn chain_program(n: u32, per_host: u32, bytes: u64, channels: u64, chunk: u64) -> ChainProgram {
    let chains: Vec<Chains> = (0..channels)
        .map(|c| {
            let mut hosts = hosts(n, per_host);
            // Each channel has another rank at the interface.
            let turn = (c % u64::from(per_host)) as usize;
            hosts.iter_mut().for_each(|h| h.rotate_left(turn));
            hosts
        })
        .collect();
    ChainProgram::new(bytes, &chains, parts(bytes, channels, chunk))
}

/// Every shape of 1 to 9 hosts and up to 72 ranks.
const SHAPES: [(u32, u32); 16] = [
    (1, 1),
    (1, 2),
    (1, 3),
    (1, 5),
    (1, 8),
    (1, 12),
    (1, 16),
    (1, 72),
    (2, 1),
    (3, 1),
    (5, 1),
    (2, 8),
    (3, 4),
    (4, 4),
    (7, 2),
    (9, 8),
];

#[test]
fn trees_compute_what_they_say() {
    for (n, per_host) in SHAPES {
        for (channels, bytes, chunk) in [(1, 4096, 1 << 20), (4, 100_000, 4096), (2, 16, 64)] {
            let program = tree_program(n, per_host, bytes, channels, chunk);
            verify(&program, 1).unwrap_or_else(|e| panic!("{n} x {per_host}: {e}"));
        }
    }
}

#[test]
fn heads_compute_what_they_say() {
    use Between::{Nothing, Switches, Trees};
    for (n, per_host) in SHAPES {
        let ways: &[Between] = if n == 1 {
            &[Nothing]
        } else {
            &[Trees, Switches]
        };
        for &between in ways {
            for heads in [1, per_host.div_ceil(2), per_host] {
                for (channels, bytes, chunk) in [(1, 4096, 1 << 20), (3, 3_000_000, 65_536)] {
                    let shape = (n, per_host, heads);
                    let program = heads_program(
                        Collective::AllReduce,
                        shape,
                        between,
                        bytes,
                        channels,
                        chunk,
                    );
                    verify(&program, 1).unwrap_or_else(|e| panic!("{shape:?} {between:?}: {e}"));
                }
            }
        }
    }
}

#[test]
fn heads_gather_and_scatter_in_one_host() {
    for per_host in [1, 2, 3, 5, 8, 12, 16, 32] {
        for collective in [Collective::AllGather, Collective::ReduceScatter] {
            for (bytes, chunk) in [(4096, 1 << 20), (1_000_000, 16_384)] {
                let shape = (1, per_host, per_host);
                let program = heads_program(collective, shape, Between::Nothing, bytes, 2, chunk);
                verify(&program, 1).unwrap_or_else(|e| panic!("{collective} {per_host}: {e}"));
            }
        }
    }
}

#[test]
fn chains_compute_what_they_say() {
    for (n, per_host) in SHAPES {
        for (channels, bytes, chunk) in [(1, 4096, 1 << 20), (3, 100_000, 4096)] {
            let program = chain_program(n, per_host, bytes, channels, chunk);
            verify(&program, 1).unwrap_or_else(|e| panic!("{n} x {per_host}: {e}"));
        }
    }
}

/// Bytes that each rank puts into connections for which `counts` holds.
fn sent(program: &dyn Program, counts: impl Fn(ConnId) -> bool) -> Vec<u64> {
    let mut sent = vec![0; program.ranks() as usize];
    for worker in (0..program.workers()).map(WorkerId) {
        let rank = program.worker(worker).rank.index();
        for index in 0..program.steps(worker) {
            let step = program.step(worker, index).trimmed();
            for (k, conn) in step.send.iter().enumerate() {
                if counts(conn) {
                    sent[rank] += step
                        .deal
                        .map_or(step.len, |d| d.each.min(step.len - k as u64 * d.each));
                }
            }
        }
    }
    sent
}

#[test]
fn the_binary_trees_are_nccls() {
    // nccl.md 2.6: with 4 hosts 0 -> 2 -> {1, 3}; the second tree is the mirror.
    let parents = |n, second| -> Vec<_> { (0..n).map(|h| binary_parent(n, h, second)).collect() };
    assert_eq!(parents(4, false), [None, Some(2), Some(0), Some(2)]);
    assert_eq!(parents(4, true), [Some(1), Some(3), Some(1), None]);
    assert_eq!(
        parents(5, false),
        [None, Some(2), Some(4), Some(2), Some(0)]
    );
    // Odd: shifted by one.
    assert_eq!(parents(5, true), [Some(1), None, Some(3), Some(0), Some(3)]);
    for n in 1..200 {
        for second in [false, true] {
            let tree = Tree::new(&parents(n, second)).unwrap();
            assert!(tree.depth() <= n.ilog2() + 1, "{n}");
            assert!((0..n).all(|h| tree.children(h).count() <= 2), "{n}");
        }
        // A host with children in both trees would carry twice the traffic of others.
        let leaf = |second| -> Vec<bool> {
            let tree = Tree::new(&parents(n, second)).unwrap();
            (0..n).map(|h| tree.children(h).count() <= 1).collect()
        };
        let (a, b) = (leaf(false), leaf(true));
        assert!((0..n as usize).all(|h| a[h] || b[h]), "{n} hosts");
    }
}

#[test]
fn a_tree_sends_what_the_closed_form_says() {
    // nccl.md 5.8: in a host S at the ends of the chain and 2 S in the middle.
    let bytes = 1 << 16;
    let program = tree_program(1, 4, bytes, 1, 4096);
    assert_eq!(
        sent(&program, |_| true),
        [bytes, 2 * bytes, 2 * bytes, bytes]
    );
    // Two hosts: S in each direction over the network, whichever tree.
    let program = tree_program(2, 4, bytes, 2, 4096);
    let across = sent(&program, |c| {
        let ends = program.connection(c);
        program.worker(ends.from).rank.0 / 4 != program.worker(ends.to).rank.0 / 4
    });
    assert_eq!(across, [bytes, 0, 0, 0, bytes, 0, 0, 0]);
}

#[test]
fn nvls_tree_and_sharp_cross_the_network_as_often_as_they_should() {
    let bytes = 8 * 64 * 1024 * 4;
    for n in [2u32, 3, 4, 8] {
        let shape = (n, 8, 8);
        let all = |between| {
            let program = heads_program(Collective::AllReduce, shape, between, bytes, 4, 64 * 1024);
            let network = |c: ConnId| {
                let kind = program.kind(program.connection(c));
                matches!(kind, HopKind::Network | HopKind::ToSwitch { .. })
            };
            sent(&program, network).iter().sum::<u64>()
        };
        // Each edge of the tree is crossed once upwards and once downwards.
        assert_eq!(all(Between::Trees), 2 * u64::from(n - 1) * bytes);
        // SHARP: each host sends everything once.
        assert_eq!(all(Between::Switches), u64::from(n) * bytes);
    }
}

#[test]
fn parents_that_make_no_tree_are_refused() {
    assert_eq!(Tree::new(&[None, None]), Err(TreeError::Roots(2)));
    assert_eq!(
        Tree::new(&[None, Some(2), Some(1)]),
        Err(TreeError::Detached(1))
    );
    assert_eq!(Tree::new(&[None, Some(7)]), Err(TreeError::Detached(1)));
    let many = [None, Some(0), Some(0), Some(0), Some(0)];
    assert!(matches!(
        Tree::new(&many),
        Err(TreeError::Children { rank: 0, .. })
    ));
}

proptest! {
    #[test]
    fn any_shape_size_and_chunk(
        n in 1u32..6,
        per_host in 1u32..6,
        heads in 1u32..6,
        channels in 1u64..4,
        bytes in 0u64..400_000,
        chunk in 1u64..8,
        switches in any::<bool>(),
        credits in 1usize..4,
    ) {
        let bytes = bytes / 4 * 4;
        prop_assert_eq!(verify(&tree_program(n, per_host, bytes, channels, chunk * 4096), credits), Ok(()));
        prop_assert_eq!(verify(&chain_program(n, per_host, bytes, channels, chunk * 4096), credits), Ok(()));
        let between = match (n, switches) {
            (1, _) => Between::Nothing,
            (_, true) => Between::Switches,
            (_, false) => Between::Trees,
        };
        let shape = (n, per_host, heads.min(per_host));
        let program = heads_program(Collective::AllReduce, shape, between, bytes, channels, chunk * 16_384);
        prop_assert_eq!(verify(&program, credits), Ok(()));
    }
}
