use super::*;
use proptest::prelude::*;
use std::sync::Arc;

/// A ring program over `bytes` per channel, with `chunk` bytes at most.
fn ring(collective: Collective, ranks: u32, channels: u16, bytes: u64, chunk: u64) -> RingProgram {
    // The second ring runs backwards, the third skips: orders differ between channels.
    let forward: Vec<u32> = (0..ranks).collect();
    let backward: Vec<u32> = (0..ranks).rev().collect();
    let rings = Rings::new(
        vec![forward, backward],
        (0..channels).map(|c| c % 2).collect(),
    )
    .unwrap();
    let bytes = collective.actual_bytes(bytes, ranks);
    let split = match collective {
        Collective::AllGather | Collective::ReduceScatter => bytes / u64::from(ranks),
        _ => bytes,
    };
    let each = split.div_ceil(u64::from(channels)).next_multiple_of(16);
    let parts = (0..u64::from(channels))
        .map(|c| {
            let offset = (c * each).min(split);
            Part {
                offset,
                len: each.min(split - offset),
                chunk,
            }
        })
        .collect();
    RingProgram::new(collective, bytes, Arc::new(rings), parts)
}

#[test]
fn something_is_left_of_the_least_bytes_and_nothing_of_fewer() {
    for collective in Collective::ALL {
        for ranks in [2, 3, 8, 72] {
            let least = collective.least_bytes(ranks);
            assert_eq!(collective.actual_bytes(least - 1, ranks), 0, "{collective}");
            assert!(collective.actual_bytes(least, ranks) > 0, "{collective}");
        }
    }
}

#[test]
fn every_ring_collective_computes_what_it_says() {
    for collective in Collective::KERNELS {
        for ranks in [1, 2, 3, 5, 8, 12, 16, 72] {
            for (channels, bytes, chunk) in
                [(1, 4096, 1 << 20), (2, 100_000, 512), (3, 16 * 72 * 7, 64)]
            {
                let program = ring(collective, ranks, channels, bytes, chunk);
                // Two chunks in flight is what NCCL's Simple ring has: 8 slots, 4 a chunk.
                verify(&program, 2).unwrap_or_else(|e| panic!("{collective} on {ranks}: {e}"));
            }
        }
    }
}

#[test]
fn an_evened_ring_differs_in_what_is_short_alone() {
    let mut uneven = 0;
    for ranks in [1, 2, 3, 5, 8, 12] {
        for (channels, bytes, chunk) in [
            (1, 4096, 1 << 20),
            (2, 100_000, 512),
            (3, 16 * 72 * 7, 64),
            (2, 48, 64),
            (1, 5, 64),
            (2, 70, 32),
            (3, 4099, 64),
        ] {
            let program = ring(Collective::AllReduce, ranks, channels, bytes, chunk);
            let Some(even) = program.evened() else {
                assert!((0..program.workers()).all(|w| program.alike(WorkerId(w)).is_some()));
                continue;
            };
            uneven += 1;
            for worker in (0..program.workers()).map(WorkerId) {
                assert!(even.alike(worker).is_some());
                assert_eq!(program.steps(worker), even.steps(worker));
                let other = |&index: &u64| {
                    let (step, evened) = (program.step(worker, index), even.step(worker, index));
                    assert_eq!((&step.recv, &step.send), (&evened.recv, &evened.send));
                    assert!(step.len <= evened.len);
                    step.len < evened.len
                };
                let others: Vec<u64> = (0..program.steps(worker)).filter(other).collect();
                let told = program.uneven_steps(worker).into_iter().flatten();
                assert_eq!(others, told.collect::<Vec<_>>());
            }
        }
    }
    assert!(uneven > 10);
}

#[test]
fn a_ring_needs_two_chunks_in_flight() {
    // Every rank has filled its only slot and needs a free one to take the next chunk.
    let program = ring(Collective::AllReduce, 5, 2, 10_000, 256);
    let error = verify(&program, 1).unwrap_err();
    assert!(
        matches!(error, VerifyError::Deadlock { waiting: 10, .. }),
        "{error}"
    );
    verify(&program, 2).unwrap();
}

#[test]
fn a_ring_all_reduce_sends_two_n_minus_one_nths() {
    // nccl.md 5.8: each GPU sends 2 S (N-1)/N. S = 8 x 1600, N = 8, one channel.
    let program = ring(Collective::AllReduce, 8, 1, 12_800, 1 << 20);
    for worker in 0..8 {
        let sent: u64 = (0..program.steps(WorkerId(worker)))
            .map(|i| program.step(WorkerId(worker), i))
            .filter(|s| !s.send.is_empty())
            .map(|s| s.len)
            .sum();
        assert_eq!(sent, 2 * 12_800 * 7 / 8);
    }
}

/// A ring whose rank 1 never adds its own data.
struct Forgetful(RingProgram);

impl Program for Forgetful {
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
        self.0.worker(id)
    }
    fn connections(&self) -> u32 {
        self.0.connections()
    }
    fn connection(&self, id: ConnId) -> Connection {
        self.0.connection(id)
    }
    fn steps(&self, worker: WorkerId) -> u64 {
        self.0.steps(worker)
    }
    fn step(&self, worker: WorkerId, index: u64) -> Step {
        let mut step = self.0.step(worker, index);
        if worker == WorkerId(1) && !step.recv.is_empty() {
            step.source = None;
        }
        step
    }
}

#[test]
fn a_missing_contribution_is_found() {
    let program = Forgetful(ring(Collective::AllReduce, 3, 1, 96, 1 << 20));
    let error = verify(&program, 2).unwrap_err();
    assert!(matches!(error, VerifyError::WrongResult { .. }), "{error}");
}

#[test]
fn without_credits_nothing_moves() {
    let error = verify(&ring(Collective::AllReduce, 3, 1, 96, 1 << 20), 0).unwrap_err();
    assert!(
        matches!(error, VerifyError::Deadlock { waiting: 3, .. }),
        "{error}"
    );
}

#[test]
fn an_order_that_is_no_ring_is_refused() {
    assert!(Rings::new(vec![vec![0, 1, 1]], vec![0]).is_err());
    assert!(Rings::new(vec![vec![0, 1, 3]], vec![0]).is_err());
    assert!(Rings::new(vec![vec![0, 1]], vec![1]).is_err());
}

proptest! {
    #[test]
    fn any_ring_any_size_any_chunk(
        which in 0usize..5,
        ranks in 1u32..10,
        channels in 1u16..4,
        bytes in 0u64..200_000,
        chunk in 1u64..64,
        credits in 2usize..5,
    ) {
        let program = ring(Collective::KERNELS[which], ranks, channels, bytes, chunk * 16 * 16);
        prop_assert_eq!(verify(&program, credits), Ok(()));
    }
}
