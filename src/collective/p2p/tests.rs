use super::*;
use crate::verify;
use proptest::prelude::*;

fn lanes(ranks: u32, channels: u16, lanes: u16) -> Lanes {
    // Bases that meet and part again, as NCCL's do.
    let first = (0..ranks).map(|round| (round * 5 % u32::from(channels)) as u16);
    Lanes {
        channels,
        lanes,
        first: first.collect(),
    }
}

fn program(
    collective: Collective,
    ranks: u32,
    bytes: u64,
    shape: (u16, u16),
    cut: Cut,
) -> P2pProgram {
    let bytes = collective.actual_bytes(bytes, ranks);
    let rounds = Rounds::consecutive(ranks);
    let lanes = lanes(ranks, shape.0, shape.1);
    // No message may have more parts than there are channels.
    let fit = |bytes: u64| cut.part.max(bytes.div_ceil(u64::from(shape.0)));
    if collective == Collective::AllToAllV {
        let rows: Vec<Vec<u64>> = (0..u64::from(ranks))
            .map(|i| {
                (0..u64::from(ranks))
                    .map(|j| (i * 7 + j * 3) % 5 * 1000)
                    .collect()
            })
            .collect();
        let matrix = Matrix::new(&rows).unwrap();
        return P2pProgram::all_to_all_v(matrix, &rounds, &lanes, |_, _, b| Cut {
            part: fit(b),
            ..cut
        });
    }
    P2pProgram::new(collective, bytes, &rounds, &lanes, |_, _, b| Cut {
        part: fit(b),
        ..cut
    })
}

const POINT_TO_POINT: [Collective; 7] = [
    Collective::AllToAll,
    Collective::AllToAllV,
    Collective::SendRecv,
    Collective::SendRecvPairs,
    Collective::SendRecvHalves,
    Collective::Gather,
    Collective::Scatter,
];

#[test]
fn every_message_arrives() {
    for collective in POINT_TO_POINT {
        for ranks in [1, 2, 3, 5, 8, 12, 16, 72] {
            for shape in [(1, 1), (4, 2), (8, 8)] {
                let cut = Cut {
                    part: 4096,
                    chunk: 1024,
                };
                let program = program(collective, ranks, 100_000, shape, cut);
                verify(&program, 1).unwrap_or_else(|e| panic!("{collective} on {ranks}: {e}"));
            }
        }
    }
}

#[test]
fn all_to_all_sends_all_but_its_own_block() {
    // formulas.md C11: (p - 1)/p S.
    let cut = Cut {
        part: 4096,
        chunk: 512,
    };
    let program = program(Collective::AllToAll, 8, 8 * 16_000, (8, 8), cut);
    let sent: u64 = (0..program.workers())
        .filter(|&w| program.worker(WorkerId(w)).rank == Rank(3))
        .flat_map(|w| (0..program.steps(WorkerId(w))).map(move |i| (w, i)))
        .map(|(w, i)| program.step(WorkerId(w), i))
        .filter(|s| !s.send.is_empty())
        .map(|s| s.len)
        .sum();
    assert_eq!(sent, 7 * 16_000);
}

#[test]
fn mates_exchange_and_an_odd_one_is_left_alone() {
    let cut = Cut {
        part: 4096,
        chunk: 1024,
    };
    let partners = |collective, ranks| {
        let program = program(collective, ranks, 4096, (4, 1), cut);
        let ends = (0..program.connections()).map(|c| program.connection(ConnId(c)));
        let mut pairs: Vec<(u32, u32)> = ends
            .map(|e| (program.worker(e.from).rank.0, program.worker(e.to).rank.0))
            .collect();
        pairs.sort_unstable();
        pairs
    };
    assert_eq!(
        partners(Collective::SendRecvPairs, 5),
        [(0, 1), (1, 0), (2, 3), (3, 2)]
    );
    assert_eq!(
        partners(Collective::SendRecvHalves, 7),
        [(0, 3), (1, 4), (2, 5), (3, 0), (4, 1), (5, 2)]
    );
}

#[test]
fn lanes_are_no_more_than_operations() {
    let cut = Cut {
        part: 1 << 20,
        chunk: 1 << 20,
    };
    let shift = program(Collective::SendRecv, 16, 1 << 20, (8, 8), cut);
    assert_eq!(shift.lanes(), 1);
    let gather = program(Collective::Gather, 16, 16 << 10, (2, 8), cut);
    assert_eq!(
        gather.lanes(),
        8,
        "rank 0 receives 15 messages on two channels"
    );
}

#[test]
fn five_hundred_ranks_have_a_connection_for_each_part() {
    let rounds = Rounds::consecutive(512);
    let lanes = lanes(512, 32, 8);
    let cut = |_, _, _| Cut {
        part: 1 << 18,
        chunk: 1 << 17,
    };
    let program = P2pProgram::new(Collective::AllToAll, 512 << 20, &rounds, &lanes, cut);
    assert_eq!(program.connections(), 512 * 511 * 4);
}

#[test]
fn rounds_that_are_none_are_refused() {
    assert!(matches!(
        Rounds::new(2, vec![0, 1]),
        Err(RoundsError::Count { .. })
    ));
    assert!(matches!(
        Rounds::new(2, vec![0, 0, 1, 1]),
        Err(RoundsError::NoPermutation { round: 0, .. })
    ));
    assert!(matches!(
        Rounds::new(2, vec![0, 1, 0, 1]),
        Err(RoundsError::Twice { .. })
    ));
    assert!(matches!(
        Rounds::new(2, vec![0, 2, 1, 0]),
        Err(RoundsError::NoPermutation { .. })
    ));
}

proptest! {
    #[test]
    fn any_size_any_cut(
        which in 0usize..7,
        ranks in 1u32..10,
        bytes in 0u64..200_000,
        channels in 1u16..9,
        lanes in 1u16..9,
        part in 1u64..64,
        chunk in 1u64..64,
    ) {
        let cut = Cut { part: part * 512, chunk: chunk * 64 };
        let program = program(POINT_TO_POINT[which], ranks, bytes, (channels, lanes), cut);
        prop_assert_eq!(verify(&program, 1), Ok(()));
    }
}
