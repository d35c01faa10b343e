//! What makes unfolded runs fast changes nothing: turns, running ahead of the clock, transfers that
//! passes cover, groups that end together, threads.

use super::*;

struct Looks;

impl probe::Probe for Looks {
    const ACTIVE: bool = true;
}

fn options(threads: u32) -> Options<'static> {
    Options {
        operations: 2,
        threads,
        ..Options::default()
    }
}

/// One event after the other in order of time, each transfer shared for.
fn in_order(plan: &Plan) -> Outcome {
    simulate_with(plan, |_| gb(50), options(1), &mut Looks).unwrap()
}

/// Workers that move slices in passes of 120 bytes, which take so long each.
fn in_passes(case: Case, nanos: u64) -> Plan {
    let mut plan = plan_of(case, |r| r);
    let costs = WorkerCosts {
        slice: SliceCost {
            pass: Bytes::new(120),
            pass_time: Time::from_nanos(nanos),
            ..SliceCost::default()
        },
        send_rate: INSTANT,
        local_rate: INSTANT,
        streams: 0,
    };
    plan.costs = vec![RoleCosts::same(Time::from_nanos(case.8), costs)];
    plan
}

/// Two channels the same way round, so that two workers share each port.
fn two_on_a_port(nanos: u64) -> Plan {
    let mut plan = in_passes((0, 4, 2, 7_680, 8, 1, 700, 0, 0), nanos);
    let rings = Rings::new(vec![(0..4).collect()], vec![0, 0]).unwrap();
    let part = |offset| Part {
        offset,
        len: 3_840,
        chunk: 120,
    };
    let parts = vec![part(0), part(3_840)];
    let program = RingProgram::new(Collective::AllReduce, 7_680, Arc::new(rings), parts);
    let connections = (0..program.connections()).map(crate::collective::ConnId);
    let transports = connections.map(|c| Transport {
        store: Some(RouteId(program.worker(program.connection(c).from).rank.0)),
        ..plan.transports.get(0)
    });
    plan.transports = transports.collect();
    plan.program = Arc::new(program);
    plan
}

#[test]
fn passes_that_last_cover_transfers_and_others_do_not() {
    // A port of 50 GB/s with two at once: 120 bytes take 4.8 ns each at worst.
    let long = two_on_a_port(20);
    let (own, exact) = (
        simulate(&long, |_| gb(50), options(1)).unwrap(),
        in_order(&long),
    );
    assert_eq!(own.finish, exact.finish);
    assert_eq!(own.connection_bytes, exact.connection_bytes);
    // Their ends alone, where sharing needs their begins as well.
    assert!(
        own.events * 3 < exact.events * 2,
        "{} of {}",
        own.events,
        exact.events
    );
    assert!(own.workers.iter().all(|bins| bins.limited.is_empty()));
    assert_eq!(own.workers, exact.workers);
    let short = two_on_a_port(2);
    let (own, exact) = (
        simulate(&short, |_| gb(50), options(1)).unwrap(),
        in_order(&short),
    );
    assert_eq!(own.finish, exact.finish);
    assert_eq!(own.events, exact.events);
    assert!(own.workers.iter().any(|bins| !bins.limited.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Regions that take turns (there are many in tests) give what one event after the other in
    /// order of time gives, as it is done where somebody looks. Which of several full resources
    /// counts as the limit may differ.
    #[test]
    fn turns_change_nothing(case in case()) {
        let plan = plan_of(case, |r| r);
        let turns = simulate(&plan, |_| gb(50), options(1)).unwrap();
        let in_order = in_order(&plan);
        prop_assert_eq!(&turns.finish, &in_order.finish);
        prop_assert_eq!(&turns.connection_bytes, &in_order.connection_bytes);
        for (a, b) in turns.workers.iter().zip(&in_order.workers) {
            let limited = |bins: &Bins| bins.limited.iter().map(|&(_, t)| t).sum::<Time>();
            prop_assert_eq!(limited(a), limited(b));
            let rest = |bins: &Bins| Bins { limited: Vec::new().into_iter().collect(), ..bins.clone() };
            prop_assert_eq!(rest(a), rest(b));
        }
    }

    /// Transfers covered by passes, or not, for folded and skipped runs as well: the same times as
    /// when all of them are shared for.
    #[test]
    fn passes_change_no_times(case in case(), nanos in 1u64..40) {
        let plan = in_passes(case, nanos);
        let in_order = in_order(&plan);
        let turns = simulate(&plan, |_| gb(50), options(1)).unwrap();
        let folded = simulate_folded(&plan, |_| gb(50), options(1)).unwrap();
        for fast in [&turns, &folded] {
            prop_assert_eq!(&fast.finish, &in_order.finish);
            prop_assert_eq!(&fast.connection_bytes, &in_order.connection_bytes);
        }
        for (bins, exact) in turns.workers.iter().zip(&in_order.workers) {
            prop_assert_eq!(bins.total(), turns.end());
            prop_assert_eq!(bins.sync, exact.sync);
            prop_assert_eq!(bins.at_cap, exact.at_cap);
        }
    }

    /// Any number of threads gives the same.
    #[test]
    fn threads_change_nothing(case in case(), threads in 2u32..5, passes in 0u64..20) {
        let plan = if passes > 0 { in_passes(case, passes) } else { plan_of(case, |r| r) };
        let one = simulate(&plan, |_| gb(50), options(1)).unwrap();
        let several = simulate(&plan, |_| gb(50), options(threads)).unwrap();
        prop_assert_eq!(&one.finish, &several.finish);
        prop_assert_eq!(&one.connection_bytes, &several.connection_bytes);
        prop_assert_eq!(&one.workers, &several.workers);
        prop_assert_eq!((one.events, one.transfers), (several.events, several.transfers));
    }
}
