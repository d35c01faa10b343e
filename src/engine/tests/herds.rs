//! Regions that go on as one give what all of them by themselves give.

use super::*;

/// A ring over more ranks than there are herds, where a port may be shared, with blocks that
/// are shorter at the end. Processes of four start kernels one after the other, so many of a rank `in_a_row`.
fn uneven(ranks: u32, bytes: u64, sync: u64, (each, in_a_row): (Time, u32)) -> Plan {
    let costs = Costs {
        latency: us(1),
        launch: us(4),
        sync: Time::from_nanos(sync),
        send_rate: gb(30),
    };
    let mut plan = port_plan(
        ring(Collective::AllReduce, ranks, bytes, 1 << 20),
        2,
        &costs,
    );
    let transports = plan.transports.iter().map(|transport| Transport {
        credit_latency: us(1),
        ..transport
    });
    plan.transports = transports.collect();
    plan.issue = Issue {
        ranks_per_process: 4,
        each,
        in_a_row,
        between: each,
    };
    plan
}

#[track_caller]
fn same(plan: &Plan, rate: impl Fn(LinkId) -> Bandwidth + Copy) -> Outcome {
    let options = || Options {
        operations: 3,
        ..Options::default()
    };
    let full = simulate(plan, rate, options()).unwrap();
    let herds = simulate_folded(plan, rate, options()).unwrap();
    assert_eq!(full.finish, herds.finish);
    assert_eq!(full.connection_bytes, herds.connection_bytes);
    assert_eq!(spent(&full), spent(&herds));
    // Even ones are folded.
    if herds.folded.is_none() {
        assert_eq!(full.workers, herds.workers);
        assert_eq!(full.transfers, herds.transfers);
    }
    herds
}

/// What all workers together spent, by what they did.
fn spent(outcome: &Outcome) -> [u64; 7] {
    let mut sum = [0; 7];
    for (bins, workers) in outcome.bins() {
        let limited = bins.limited.iter().map(|&(_, time)| time).sum();
        let (waits, works) = (
            [bins.latency, bins.wait_data, bins.wait_credit, bins.idle],
            [bins.sync, bins.at_cap, limited],
        );
        for (sum, time) in sum.iter_mut().zip(waits.into_iter().chain(works)) {
            *sum += time.picos() * u64::from(workers);
        }
    }
    sum
}

#[test]
fn the_ranks_of_an_uneven_ring_go_on_as_few() {
    let outcome = same(&uneven(192, 1_000_003 * 16, 500, (Time::ZERO, 1)), |_| {
        gb(50)
    });
    assert!(
        outcome.skipped > outcome.events,
        "{} simulated, {} known from others",
        outcome.events,
        outcome.skipped
    );
}

#[test]
fn so_they_do_where_processes_start_several() {
    let outcome = same(&uneven(192, 1_000_003 * 16, 500, (us(3), 1)), |_| gb(50));
    assert!(outcome.skipped > outcome.events);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn herds_change_nothing(
        ranks in 12u32..40,
        bytes in 100u64..4_000_000,
        sync in 0u64..2_000,
        slow in prop::option::of(0u32..40),
        each in 0u64..4,
        in_a_row in 1u32..4,
    ) {
        let plan = uneven(ranks, bytes, sync, (us(each), in_a_row));
        same(&plan, |link| gb(if Some(link.0) == slow { 7 } else { 50 }));
    }
}
