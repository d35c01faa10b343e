//! Every builder of programs over every collective that it does and many shapes of data.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;

/// What a program is asked for.
#[derive(Debug, Clone, Copy)]
struct Case {
    collective: Collective,
    ranks: u32,
    nodes: u32,
    channels: u16,
    bytes: u64,
    chunk: u64,
}

impl Case {
    fn new(collective: Collective, ranks: u32, nodes: u32, shape: (u16, u64, u64)) -> Self {
        let (channels, bytes, chunk) = shape;
        Case {
            collective,
            ranks,
            nodes,
            channels,
            bytes: collective.actual_bytes(bytes, ranks),
            chunk,
        }
    }

    fn gpus_per_node(&self) -> u32 {
        self.ranks / self.nodes
    }

    /// The channels' parts of the buffer, or of each block.
    fn parts(&self) -> Vec<Part> {
        let split = match self.collective {
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
                self.bytes / u64::from(self.ranks)
            }
            _ => self.bytes,
        };
        let each = split.div_ceil(u64::from(self.channels));
        let each = each.next_multiple_of(16);
        (0..u64::from(self.channels))
            .map(|c| {
                let offset = (c * each).min(split);
                Part {
                    offset,
                    len: each.min(split - offset),
                    chunk: self.chunk,
                }
            })
            .collect()
    }
}

/// A builder, the collectives that it does, and what its programs need to run.
struct Builder {
    name: &'static str,
    collectives: &'static [Collective],
    /// It cares on which nodes ranks are.
    by_node: bool,
    /// Chunks that must fit a connection.
    credits: usize,
    build: Box<dyn Fn(Case) -> Box<dyn Program>>,
}

fn builders() -> Vec<Builder> {
    let mut builders = vec![
        Builder {
            name: "ring",
            collectives: &Collective::KERNELS,
            by_node: false,
            credits: 2,
            build: Box::new(|case| {
                // Every second channel's ring runs backwards.
                let orders = vec![(0..case.ranks).collect(), (0..case.ranks).rev().collect()];
                let of_channel = (0..case.channels).map(|c| c % 2).collect();
                let rings = Arc::new(Rings::new(orders, of_channel).unwrap());
                Box::new(RingProgram::new(
                    case.collective,
                    case.bytes,
                    rings,
                    case.parts(),
                ))
            }),
        },
        Builder {
            name: "sends and receives",
            collectives: &[
                Collective::AllToAll,
                Collective::SendRecv,
                Collective::SendRecvPairs,
                Collective::SendRecvHalves,
                Collective::Gather,
                Collective::Scatter,
            ],
            by_node: false,
            credits: 1,
            build: Box::new(|case| {
                let lanes = Lanes {
                    channels: case.channels,
                    lanes: 8,
                    first: (0..case.ranks).map(|k| k as u16 % case.channels).collect(),
                };
                let rounds = Rounds::consecutive(case.ranks);
                let cut = |_, _, bytes: u64| Cut {
                    part: bytes.div_ceil(u64::from(case.channels)),
                    chunk: case.chunk,
                };
                Box::new(P2pProgram::new(
                    case.collective,
                    case.bytes,
                    &rounds,
                    &lanes,
                    cut,
                ))
            }),
        },
        Builder {
            name: "host ring",
            collectives: &Collective::KERNELS,
            by_node: false,
            credits: 2,
            build: Box::new(|case| {
                let chunk = case.chunk.next_multiple_of(16);
                Box::new(HostRingProgram::new(
                    case.collective,
                    case.bytes,
                    case.ranks,
                    chunk,
                ))
            }),
        },
        // Trees, NVLS and CollNet belong here.
    ];
    builders.extend(MessageAlgorithm::all(1).into_iter().map(|algorithm| {
        let hierarchical = matches!(algorithm, MessageAlgorithm::Hierarchical { .. });
        Builder {
            name: algorithm.name(),
            collectives: algorithm.collectives(),
            by_node: hierarchical,
            credits: 1,
            build: Box::new(move |case| {
                let algorithm = match algorithm {
                    MessageAlgorithm::Hierarchical { .. } => MessageAlgorithm::Hierarchical {
                        gpus_per_node: case.gpus_per_node(),
                    },
                    other => other,
                };
                let built =
                    algorithm.program(case.collective, case.bytes, case.ranks, case.parts());
                Box::new(built.unwrap())
            }),
        }
    }));
    builders
}

/// The same program with its workers numbered backwards. Workers take turns by number: what
/// holds in either order does not rest on luck.
struct Backwards<'p>(&'p dyn Program);

impl Backwards<'_> {
    fn other(&self, id: WorkerId) -> WorkerId {
        WorkerId(self.0.workers() - 1 - id.0)
    }
}

impl Program for Backwards<'_> {
    fn collective(&self) -> Collective {
        self.0.collective()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }
    fn workers(&self) -> u32 {
        self.0.workers()
    }
    fn worker(&self, id: WorkerId) -> Worker {
        self.0.worker(self.other(id))
    }
    fn connections(&self) -> u32 {
        self.0.connections()
    }
    fn connection(&self, id: ConnId) -> Connection {
        let Connection { from, to } = self.0.connection(id);
        Connection {
            from: self.other(from),
            to: self.other(to),
        }
    }
    fn steps(&self, worker: WorkerId) -> u64 {
        self.0.steps(self.other(worker))
    }
    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let mut step = self.0.step(self.other(worker), index);
        step.after = step.after.map(|after| After {
            worker: self.other(after.worker),
            ..after
        });
        step
    }
    fn matrix(&self) -> Option<&Matrix> {
        self.0.matrix()
    }
    fn scratch(&self, rank: Rank) -> u64 {
        self.0.scratch(rank)
    }
}

/// Bytes that each rank puts into connections.
fn sent(program: &dyn Program) -> Vec<u64> {
    let mut sent = vec![0; program.ranks() as usize];
    for worker in (0..program.workers()).map(WorkerId) {
        let rank = program.worker(worker).rank;
        for index in 0..program.steps(worker) {
            let step = program.step(worker, index);
            sent[rank.index()] += step.len * step.send.len() as u64;
        }
    }
    sent
}

/// Chunks that each rank puts into connections.
fn messages(program: &dyn Program) -> Vec<u64> {
    let mut sent = vec![0; program.ranks() as usize];
    for worker in (0..program.workers()).map(WorkerId) {
        let rank = program.worker(worker).rank;
        for index in 0..program.steps(worker) {
            let step = program.step(worker, index);
            sent[rank.index()] += u64::from(!step.send.is_empty() && step.len > 0);
        }
    }
    sent
}

#[test]
fn every_builder_computes_what_it_says() {
    for builder in builders() {
        for &collective in builder.collectives {
            for ranks in [1, 2, 3, 5, 8, 12, 16, 72] {
                // Of the large ones a few layouts will do.
                let worth = |n: &u32| ranks < 72 || [1, 8, 9].contains(n);
                let fits = |n: &u32| ranks % n == 0 && (builder.by_node || *n == 1);
                for nodes in (1..=9).filter(|n| fits(n) && worth(n)) {
                    let shapes = [(1, 4096, 1 << 20), (2, 100_000, 512), (3, 16 * 72 * 7, 64)];
                    // Small chunks of many ranks take long and show nothing new.
                    for shape in shapes.into_iter().take(if ranks < 72 { 3 } else { 2 }) {
                        let case = Case::new(collective, ranks, nodes, shape);
                        let program = (builder.build)(case);
                        if let Err(error) = verify(program.as_ref(), builder.credits) {
                            panic!("{}, {case:?}: {error}", builder.name);
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_size_any_chunk(
        which in 0usize..11,
        collective in 0usize..5,
        ranks in 1u32..14,
        nodes in 1u32..4,
        channels in 1u16..4,
        bytes in 0u64..100_000,
        chunk in 1u64..64,
    ) {
        let builders = builders();
        let builder = &builders[which % builders.len()];
        let collective = builder.collectives[collective % builder.collectives.len()];
        let nodes = if ranks.is_multiple_of(nodes) { nodes } else { 1 };
        let case = Case::new(collective, ranks, nodes, (channels, bytes, chunk * 48));
        let program = (builder.build)(case);
        for program in [program.as_ref(), &Backwards(program.as_ref())] {
            prop_assert_eq!(verify(program, builder.credits), Ok(()), "{}, {:?}", builder.name, case);
        }
    }
}

proptest! {
    /// Steps that are said to take as long as later ones are like them.
    #[test]
    fn steps_repeat_as_they_say(
        which in 0usize..11,
        collective in 0usize..5,
        ranks in 1u32..14,
        channels in 1u16..4,
        blocks in 1u64..40,
        bytes in prop_oneof![Just(0u64), 0u64..5_000],
        (worker, index, shift) in (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1u64..60),
    ) {
        let builders = builders();
        // Rings are what most is said of.
        let builder = builders.get(which).unwrap_or(&builders[0]);
        let collective = builder.collectives[collective % builder.collectives.len()];
        let bytes = blocks * u64::from(ranks) * u64::from(channels) * 48 + bytes;
        let case = Case::new(collective, ranks, 1, (channels, bytes, 96));
        let program = (builder.build)(case);
        let worker = WorkerId(worker.index(program.workers().max(1) as usize) as u32);
        let steps = program.steps(worker);
        prop_assume!(steps > 0);
        let index = index.index(steps as usize) as u64;
        let same = program.same_after(worker, index, shift);
        prop_assert!(same == 0 || index + same + shift <= steps);
        for at in index..index + same {
            let (a, b) = (program.step(worker, at), program.step(worker, at + shift));
            prop_assert_eq!((a.recv, a.send, a.len), (b.recv, b.send, b.len));
        }
    }
}

/// nccl.md 5.8 and formulas.md 2: bytes that a rank sends, of 72 x 1600 bytes.
#[test]
fn ranks_send_what_the_closed_forms_say() {
    use Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
    for ranks in [2u64, 3, 8, 12, 16] {
        let bytes = ranks * 4800;
        let most = bytes - bytes / ranks;
        // Algorithm, collective, bytes; for powers of two only where others fold.
        let cases: &[(&str, Collective, u64, bool)] = &[
            ("ring", AllReduce, 2 * most, false),
            ("ring", AllGather, most, false),
            ("ring", ReduceScatter, most, false),
            ("sends and receives", AllToAll, most, false),
            (
                "recursive-doubling",
                AllReduce,
                bytes * u64::from(ranks.ilog2()),
                true,
            ),
            ("recursive-doubling", AllGather, most, true),
            ("recursive-halving", AllReduce, 2 * most, true),
            ("recursive-halving", AllGather, most, true),
            ("recursive-halving", ReduceScatter, most, true),
            ("bruck", AllGather, most, false),
            (
                "bruck",
                AllToAll,
                bytes / 2 * u64::from(ranks.ilog2()),
                true,
            ),
            ("hierarchical", AllReduce, 2 * most, false),
            ("hierarchical", AllGather, most, false),
            ("hierarchical", ReduceScatter, most, false),
            ("direct", AllReduce, 2 * most, false),
            ("direct", AllGather, most, false),
            ("direct", ReduceScatter, most, false),
            ("direct", AllToAll, most, false),
            ("pat", AllGather, most, false),
            ("pat", ReduceScatter, most, false),
        ];
        for &(name, collective, expected, power) in cases {
            if power && !ranks.is_power_of_two() {
                continue;
            }
            for builder in builders().iter().filter(|b| b.name == name) {
                for nodes in (1..=9).filter(|&n| ranks.is_multiple_of(n)) {
                    for shape in [(1, bytes, 1 << 20), (2, bytes, 64)] {
                        let case = Case::new(collective, ranks as u32, nodes as u32, shape);
                        let sent = sent((builder.build)(case).as_ref());
                        assert!(
                            sent.iter().all(|&s| s == expected),
                            "{name}, {case:?}: {sent:?} is not {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn folding_costs_two_more_messages() {
    // formulas.md 2: + 2 (alpha + S beta); rank 1 stands for rank 0.
    let program = MessageAlgorithm::RecursiveDoubling
        .program(
            Collective::AllReduce,
            4800,
            5,
            vec![Part {
                offset: 0,
                len: 4800,
                chunk: 1 << 20,
            }],
        )
        .unwrap();
    assert_eq!(
        sent(&program),
        [4800, 3 * 4800, 2 * 4800, 2 * 4800, 2 * 4800]
    );
}

#[test]
fn a_binomial_root_sends_to_log_ranks() {
    for ranks in [2u32, 5, 8, 16] {
        let case = Case::new(Collective::Broadcast, ranks, 1, (1, 4096, 1 << 20));
        let built = MessageAlgorithm::Binomial.program(case.collective, 4096, ranks, case.parts());
        let sent = sent(&built.unwrap());
        let rounds = u64::from(ranks.next_power_of_two().ilog2());
        assert_eq!(sent[0], 4096 * rounds);
        assert_eq!(sent.iter().sum::<u64>(), 4096 * u64::from(ranks - 1));
    }
}

#[test]
fn small_data_goes_in_log_ranks_messages() {
    for (algorithm, collective) in [
        (MessageAlgorithm::Pat, Collective::AllGather),
        (MessageAlgorithm::Pat, Collective::ReduceScatter),
        (MessageAlgorithm::Bruck, Collective::AllGather),
        (
            MessageAlgorithm::RecursiveHalving,
            Collective::ReduceScatter,
        ),
        (MessageAlgorithm::RecursiveHalving, Collective::AllGather),
    ] {
        for ranks in [2u32, 8, 64] {
            let case = Case::new(collective, ranks, 1, (1, 64 * u64::from(ranks), 1 << 20));
            let built = algorithm.program(collective, case.bytes, ranks, case.parts());
            let counts = messages(&built.unwrap());
            let rounds = u64::from(ranks.ilog2());
            assert!(
                counts.iter().all(|&c| c == rounds),
                "{}, {collective}: {counts:?}",
                algorithm.name()
            );
        }
    }
}

#[test]
fn large_data_of_pat_goes_block_by_block() {
    let part = Part {
        offset: 0,
        len: 1 << 20,
        chunk: 1 << 20,
    };
    for collective in [Collective::AllGather, Collective::ReduceScatter] {
        let program = MessageAlgorithm::Pat
            .program(collective, 13 << 20, 13, vec![part])
            .unwrap();
        assert!(messages(&program).iter().all(|&c| c == 12));
        // log2 of 13, and two more: no buffer for every block.
        assert!(program.scratch(Rank(0)) <= 5 << 20);
    }
}

#[test]
fn what_an_algorithm_does_not_do_is_said() {
    let error = MessageAlgorithm::Bruck
        .program(Collective::Reduce, 0, 2, Vec::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "bruck does not do reduce; it does all-gather, all-to-all"
    );
    let error = MessageAlgorithm::Hierarchical { gpus_per_node: 4 }
        .program(Collective::AllReduce, 0, 6, Vec::new())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "6 ranks do not fill nodes of 4; expected a multiple of it"
    );
}
