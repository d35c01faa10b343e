//! What makes unfolded runs fast changes nothing: turns, running ahead of the clock, groups that end
//! together, threads. And how bytes move that threads move in passes.

use super::*;
use fabricsim_collective::Rank;
use fabricsim_plan::Stretch;

pub(super) struct Looks;

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

/// Workers that move slices in passes of 120 bytes, which take so long each; if that is an even
/// number, side by side.
pub(super) fn in_passes(case: Case, nanos: u64) -> Plan {
    let mut plan = plan_of(case, |r| r);
    let costs = WorkerCosts {
        slice: SliceCost {
            pass: Bytes::new(120),
            pass_time: Time::from_nanos(nanos),
            together: nanos.is_multiple_of(2),
            ..SliceCost::default()
        },
        send_rate: INSTANT,
        local_rate: INSTANT,
        streams: 0,
    };
    plan.costs = vec![RoleCosts::same(Time::from_nanos(case.8), costs)];
    plan
}

/// A ring of four in which each block goes three hops of 700 ns as one slice of four passes: side by
/// side, each hop waits for all of them; else for none, and only the last rank is busy with them.
#[test]
fn what_moves_side_by_side_is_stored_and_forwarded() {
    let gather = Collective::KERNELS
        .iter()
        .position(|&c| c == Collective::AllGather);
    let case = (gather.unwrap(), 4, 1, 4 * 480, 30, 1, 700, 0, 0);
    let end = |nanos| {
        let plan = in_passes(case, nanos);
        simulate(&plan, |_| gb(50), Options::default())
            .unwrap()
            .end()
    };
    let hop = Time::from_nanos(700);
    assert_eq!(end(100), hop * 3 + Time::from_nanos(4 * 100) * 4);
    assert_eq!(end(101), hop * 3 + Time::from_nanos(4 * 101));
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
    let connections = (0..program.connections()).map(fabricsim_collective::ConnId);
    let transports = connections.map(|c| Transport {
        store: Some(RouteId(program.worker(program.connection(c).from).rank.0)),
        ..plan.transports.get(0)
    });
    plan.transports = transports.collect();
    plan.program = Arc::new(program);
    plan
}

/// Bytes that were seen to move, and the fastest rate.
#[derive(Default)]
struct Seen {
    bytes: f64,
    rate: u64,
}

impl probe::Probe for Seen {
    const ACTIVE: bool = true;
    fn segment(&mut self, segment: &probe::Segment) {
        self.bytes += segment.rate as f64 * (segment.end - segment.start).seconds();
        self.rate = self.rate.max(segment.rate);
    }
}

#[test]
fn bytes_move_as_passes_do_where_links_have_room_for_that() {
    // 120 bytes in 20 ns are 6 GB/s: a port of 50 GB/s has room for two.
    let long = two_on_a_port(20);
    let outcome = simulate(&long, |_| gb(50), options(1)).unwrap();
    assert_eq!(outcome.finish, in_order(&long).finish);
    for bins in &outcome.workers {
        assert!(bins.limited.is_empty() && bins.at_cap > Time::ZERO);
    }
    let mut seen = Seen::default();
    simulate_with(&long, |_| gb(50), options(1), &mut seen).unwrap();
    assert_eq!(seen.rate, 6_000_000_000);
    // In two operations each rank sends each of four blocks twice but one of them.
    let sent = 2.0 * 6.0 * 7_680.0;
    let total = f64::from(u32::try_from(outcome.connection_bytes.iter().sum::<u64>()).unwrap());
    assert_eq!(total, sent);
    assert!(seen.bytes >= total, "{} of {total}", seen.bytes);
    // 60 GB/s each are too many.
    let short = two_on_a_port(2);
    let outcome = simulate(&short, |_| gb(50), options(1)).unwrap();
    assert_eq!(outcome.finish, in_order(&short).finish);
    assert!(outcome.workers.iter().any(|bins| !bins.limited.is_empty()));
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

    /// Folded, skipped, in turns or in order: passes give the same times, whether links have room
    /// for them or not.
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

    /// Where states do not come back soon, comparing them is given up, and those who are left of a
    /// fold go on in turns, on any number of processors: ranks that are slower, each in its way,
    /// see to that.
    #[test]
    fn comparing_in_vain_changes_nothing(
        case in case(),
        slower in prop::collection::vec(0u32..3, 8),
        threads in 1u32..4,
        passes in 0u64..20,
    ) {
        let plan = if passes > 0 { in_passes(case, passes) } else { plan_of(case, |r| r) };
        let slow = |rank: Rank| {
            let times = 1.0 + f64::from(slower[rank.index()]) / 7.0;
            (Time::ZERO, Stretch::new(times))
        };
        let plan = plan.with_slow_ranks(slow).unwrap();
        let in_order = in_order(&plan);
        let folded = simulate_folded(&plan, |_| gb(50), options(threads)).unwrap();
        prop_assert_eq!(&folded.finish, &in_order.finish);
        prop_assert_eq!(&folded.connection_bytes, &in_order.connection_bytes);
        for bins in &folded.workers {
            prop_assert_eq!(bins.total(), folded.end());
        }
    }
}
