//! Kernels that start late, ranks that are slow, links that change.

use super::*;
use fabricsim_collective::Rank;
use fabricsim_plan::{Disturbances, Stretch};

/// What disturbs, at times that repeat.
#[derive(Debug, Clone, Copy, Default)]
struct Trouble {
    /// Each rank's kernels are late by something from 0 to below this.
    late: u64,
    /// Every other rank takes so many quarters longer, in every other window of so many
    /// nanoseconds; always if that is 0.
    quarters: u32,
    window: u64,
    /// This link has so many tenths of its rate, in every other window of so many nanoseconds.
    link: Option<(u32, u32, u64)>,
}

impl Trouble {
    fn is_odd(at: Time, window: u64) -> bool {
        (at.picos() / 1000 / window) % 2 == 1
    }

    fn next(at: Time, window: u64) -> Time {
        Time::from_nanos((at.picos() / 1000 / window + 1) * window)
    }
}

impl Disturbances for Trouble {
    fn delay(&self, rank: Rank, operation: u32) -> Time {
        let mixed = (u64::from(rank.0) * 7919 + u64::from(operation) * 104_729) % 1009;
        Time::from_nanos(mixed * self.late / 1009)
    }

    fn stretch(&self, rank: Rank, _: u32, at: Time) -> (Stretch, Time) {
        let slow = Stretch::new(1.0 + f64::from(self.quarters) / 4.0);
        match self.window {
            _ if rank.0.is_multiple_of(2) => (Stretch::NONE, Time::MAX),
            0 => (slow, Time::MAX),
            window if Self::is_odd(at, window) => (slow, Self::next(at, window)),
            window => (Stretch::NONE, Self::next(at, window)),
        }
    }

    fn least_stretch(&self, rank: Rank, _: u32) -> Stretch {
        match self.window {
            0 => self.stretch(rank, 0, Time::ZERO).0,
            _ => Stretch::NONE,
        }
    }

    fn changes(&self, link: LinkId) -> bool {
        self.link.is_some_and(|(own, ..)| own == link.0)
    }

    fn link(&self, link: LinkId, at: Time) -> f64 {
        match self.link {
            Some((own, tenths, window)) if own == link.0 && Self::is_odd(at, window) => {
                f64::from(tenths) / 10.0
            }
            _ => 1.0,
        }
    }

    fn next_link_change(&self, _: LinkId, after: Time) -> Option<Time> {
        self.link.map(|(_, _, window)| Self::next(after, window))
    }
}

fn options(trouble: &Trouble, threads: u32) -> Options<'_> {
    Options {
        operations: 2,
        threads,
        disturbances: Some(trouble),
        ..Options::default()
    }
}

/// One message of 1 MB over a link of 50 GB/s.
fn message() -> Plan {
    let program = ring(Collective::Broadcast, 2, 1_000_000, 1 << 20);
    port_plan(program, 1, &Costs::default())
}

#[track_caller]
fn takes(trouble: Trouble, micros: f64) {
    let options = Options {
        operations: 1,
        ..options(&trouble, 1)
    };
    let outcome = simulate(&message(), |_| gb(50), options).unwrap();
    close(outcome.end(), micros);
    for bins in &outcome.workers {
        assert_eq!(bins.total(), outcome.end());
    }
}

#[test]
fn a_link_that_is_down_holds_its_transfers_up() {
    takes(Trouble::default(), 20.0);
    // Down from 15 to 30 us.
    let down = |tenths| Trouble {
        link: Some((0, tenths, 15_000)),
        ..Trouble::default()
    };
    takes(down(0), 35.0);
    // Half as fast from 15 to 25 us.
    takes(down(5), 25.0);
    // Not the link that is in use.
    let other = Trouble {
        link: Some((1, 0, 15_000)),
        ..Trouble::default()
    };
    takes(other, 20.0);
}

#[test]
fn what_begins_while_a_link_is_down_waits() {
    // 1 MB in chunks of 250 kB, one slot each, which are there 8 us later.
    let costs = Costs {
        latency: us(8),
        ..Costs::default()
    };
    let program = ring(Collective::Broadcast, 2, 1_000_000, 250_000);
    let mut plan = port_plan(program, 1, &costs);
    plan.protocol.fifo_slices = 1;
    // Down from 10 to 20 us, from 30 to 40, from 50 to 60.
    let trouble = Trouble {
        link: Some((0, 0, 10_000)),
        ..Trouble::default()
    };
    let options = Options {
        operations: 1,
        ..options(&trouble, 1)
    };
    let end = simulate(&plan, |_| gb(50), options).unwrap().end();
    // Chunks are ready at 0, 13, 33 and 53 us, and on their way at 0, 20, 40 and 60.
    close(end, 73.0);
}

/// A link that is dead, and another one that goes on changing for ever.
struct Dead;

impl Disturbances for Dead {
    fn changes(&self, _: LinkId) -> bool {
        true
    }

    fn link(&self, _: LinkId, _: Time) -> f64 {
        0.0
    }

    fn next_link_change(&self, _: LinkId, after: Time) -> Option<Time> {
        Some(after + Time::from_nanos(1))
    }
}

#[test]
fn a_link_that_stays_dead_is_an_error_and_not_a_wait_for_ever() {
    let options = Options {
        disturbances: Some(&Dead),
        ..Options::default()
    };
    let error = simulate(&message(), |_| gb(50), options).unwrap_err();
    assert!(matches!(error, SimError::Stalled { .. }), "{error}");
    assert!(
        error.to_string().contains("without any bandwidth"),
        "{error}"
    );
}

#[test]
fn ranks_that_are_always_slow_are_as_ranks_of_another_kind() {
    let costs = Costs {
        latency: us(1),
        sync: Time::from_nanos(300),
        send_rate: gb(40),
        ..Costs::default()
    };
    let plan = port_plan(ring(Collective::AllReduce, 4, 999_999, 50_000), 2, &costs);
    let trouble = Trouble {
        quarters: 1,
        ..Trouble::default()
    };
    let dynamic = simulate(&plan, |_| gb(50), options(&trouble, 1)).unwrap();
    let slow = plan
        .with_slow_ranks(|rank| (Time::ZERO, trouble.stretch(rank, 0, Time::ZERO).0))
        .unwrap();
    let plain = Options {
        operations: 2,
        ..Options::default()
    };
    let always = simulate(&slow, |_| gb(50), plain).unwrap();
    assert_eq!(always.finish, dynamic.finish);
    assert_eq!(always.workers, dynamic.workers);
    let plain = Options {
        operations: 2,
        ..Options::default()
    };
    let healthy = simulate(&plan, |_| gb(50), plain).unwrap();
    // Those who send at 40 GB/s take 32, so that links of 50 do not matter.
    let ratio = always.end().seconds() / healthy.end().seconds();
    assert!((1.15..1.25).contains(&ratio), "{ratio}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In order of time, in turns and on several processors: what disturbs gives the same.
    #[test]
    fn disturbances_are_the_same_in_turns_and_threads(
        case in case(),
        late in 0u64..5_000,
        quarters in 0u32..4,
        window in prop_oneof![Just(0), 50u64..2_000],
        link in prop::option::of((0u32..6, 0u32..10, 50u64..2_000)),
        threads in 1u32..4,
    ) {
        let trouble = Trouble { late, quarters, window, link };
        let plan = plan_of(case, |r| r);
        let look = |plan| simulate_with(plan, |_| gb(50), options(&trouble, 1), &mut turns::Looks);
        let in_order = look(&plan).unwrap();
        let fast = simulate(&plan, |_| gb(50), options(&trouble, threads)).unwrap();
        prop_assert_eq!(&fast.finish, &in_order.finish);
        prop_assert_eq!(&fast.connection_bytes, &in_order.connection_bytes);
        for bins in &fast.workers {
            prop_assert_eq!(bins.total(), fast.end());
        }
    }

    /// Ranks that are always slow and late are as ranks of another kind, whether their bytes move in
    /// passes or not; and those can be folded.
    #[test]
    fn what_is_always_so_can_be_told_by_the_plan(
        case in case(),
        late in 0u64..5_000,
        quarters in 0u32..4,
        passes in 0u64..20,
    ) {
        let trouble = Trouble { late, quarters, ..Trouble::default() };
        let plan = match passes {
            0 => plan_of(case, |r| r),
            passes => turns::in_passes(case, passes),
        };
        let one = |disturbances| Options { disturbances, ..Options::default() };
        let asked = simulate(&plan, |_| gb(50), one(Some(&trouble))).unwrap();
        let always = |rank| (trouble.delay(rank, 0), trouble.stretch(rank, 0, Time::ZERO).0);
        let plan = plan.with_slow_ranks(always).unwrap();
        let told = simulate(&plan, |_| gb(50), one(None)).unwrap();
        let folded = simulate_folded(&plan, |_| gb(50), one(None)).unwrap();
        prop_assert_eq!(&told.finish, &asked.finish);
        prop_assert_eq!(&told.workers, &asked.workers);
        prop_assert_eq!(&folded.finish, &asked.finish);
    }
}
