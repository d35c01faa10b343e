//! Transfers of jobs, against max–min fairness by hand.

use super::source_tests::{AtOnce, ClosedLoop, are, beside, open, route, run, transfer};
use super::tests::{MAIN, job, micros, takes, task};
use super::*;
use fabricsim_plan::job::{JobDisturbances, TransferRoute, TransferRouteId, Undisturbed, Work};
use fabricsim_topology::{LinkId, Share};
use fabricsim_units::Bandwidth;

/// The ends of transfers that begin together, each on an actor of its own.
fn flow(routes: Vec<TransferRoute>, works: &[Work]) -> Vec<f64> {
    let actors = (0..works.len() as u32).map(open).collect();
    let mut job = job(Vec::new(), actors, Vec::new(), &[]);
    job.transfer_routes = routes;
    let tasks = (0..).map(ActorId).zip(works);
    let tasks = tasks.map(|(actor, &work)| (actor, task(MAIN, &[], work)));
    let mut source = AtOnce(tasks.collect(), Vec::new());
    let (_, mut ends) = run(&job, &mut source, &[], &Undisturbed).expect("it ends");
    ends.0.sort_unstable();
    ends.0.iter().map(|(_, _, end)| end.micros()).collect()
}

#[test]
fn transfers_share_links_by_max_min_fairness() {
    // Alone: the latency, and the bytes at the link's rate, to the picosecond.
    assert_eq!(
        flow(vec![route(micros(3), &[7])], &[transfer(0, 5000)]),
        [8.0]
    );
    // Two on one link: half each until the smaller one is through.
    let one = || vec![route(Time::ZERO, &[7])];
    are(
        &flow(one(), &[transfer(0, 4000), transfer(0, 10_000)]),
        &[8.0, 14.0],
    );
    // A line of two links, at 1 and 0.2 GB/s: the long way and the slow link's own have 0.1 each,
    // the fast link's own the other 0.9; then what is left.
    let line = vec![
        route(Time::ZERO, &[7, 9]),
        route(Time::ZERO, &[7]),
        route(Time::ZERO, &[9]),
    ];
    let three = [transfer(0, 1000), transfer(1, 9000), transfer(2, 2000)];
    are(&flow(line, &three), &[10.0, 10.0, 10.0 + 5.0]);
    // A rate of its own leaves the rest to others: 0.25 and 0.75 GB/s.
    let mut slow = route(Time::ZERO, &[7]);
    slow.rate = Some(Bandwidth::from_bytes_per_sec(250_000_000));
    let both = vec![slow, route(Time::ZERO, &[7])];
    are(
        &flow(both, &[transfer(0, 1000), transfer(1, 3000)]),
        &[4.0, 4.0],
    );
    // Branches: half of the bytes over each of two links, beside one that has a link for itself.
    let mut branches = route(Time::ZERO, &[7, 8]);
    for hop in &mut branches.route.hops {
        hop.share = Share { num: 1, den: 2 };
    }
    let both = vec![branches, route(Time::ZERO, &[8])];
    // r / 2 + s = 1 and r = s: two thirds each.
    are(
        &flow(both, &[transfer(0, 2000), transfer(1, 2000)]),
        &[3.0, 3.0],
    );
}

#[test]
fn messages_cost_time_that_a_slow_link_hides() {
    let mut posted = route(micros(1), &[7]);
    posted.message = micros(1);
    let many = |bytes, messages| Work::Transfer {
        route: TransferRouteId(0),
        bytes: Bytes::new(bytes),
        messages,
    };
    // Ten messages of 100 bytes: a microsecond each. Of 10 kB: the link's ten each.
    assert_eq!(flow(vec![posted.clone()], &[many(1000, 10)]), [11.0]);
    assert_eq!(flow(vec![posted.clone()], &[many(100_000, 10)]), [101.0]);
    // An interface of 0.5 GB/s takes both, one after the other.
    posted.rate = Some(Bandwidth::from_bytes_per_sec(500_000_000));
    assert_eq!(flow(vec![posted.clone()], &[many(1000, 10)]), [13.0]);
    assert_eq!(flow(vec![posted], &[many(0, 10)]), [11.0]);
}

#[test]
fn a_transfer_shares_a_link_with_an_all_reduce() {
    // 8 kB each over a link of 1 GB/s, from 1 us to 17 us; the all-reduce then ends for 1 us.
    let ends = |streams: f64, routes: Vec<TransferRoute>| {
        let mut alone = takes(10, &[(7, 8000.0)]);
        alone.loads[0].streams = streams;
        let job = beside(routes);
        let tasks = vec![(ActorId(2), task(MAIN, &[], transfer(0, 8000)))];
        let mut source = AtOnce(tasks, vec![ActorId(0), ActorId(1)]);
        let (outcome, mut ends) = run(&job, &mut source, &[alone], &Undisturbed).expect("it ends");
        let sum = outcome.transfers[0];
        assert_eq!(
            (sum.count, sum.bytes, sum.alone),
            (1, Bytes::new(8000), micros(9))
        );
        ends.0.sort_unstable();
        [ends.0[0].2.micros(), ends.0[2].2.micros()]
    };
    are(&ends(1.0, vec![route(micros(1), &[7])]), &[18.0, 17.0]);
    // Three of the all-reduce's transfers get three quarters: 32/3 us for its 8 kB, then the other
    // has 16/3 kB left.
    let third = 32.0 / 3.0;
    let pulled = ends(3.0, vec![route(micros(1), &[7])]);
    are(&pulled, &[2.0 + third, 1.0 + third + 16.0 / 3.0]);
    // That another link of some job's transfers is slower changes nothing.
    let slow = vec![route(micros(1), &[7]), route(micros(1), &[9])];
    are(&ends(3.0, slow), &pulled);
}

/// Link 7 is down between these times.
struct Down(Time, Time);

impl JobDisturbances for Down {
    fn link(&self, link: LinkId, at: Time) -> f64 {
        let down = link == LinkId(7) && self.0 <= at && at < self.1;
        if down { 0.0 } else { 1.0 }
    }
    fn links(&self) -> Vec<LinkId> {
        vec![LinkId(7)]
    }
    fn next_link_change(&self, after: Time) -> Option<Time> {
        [self.0, self.1].into_iter().find(|&t| t > after)
    }
}

#[test]
fn a_transfer_waits_for_a_link_that_is_down() {
    // Requests of 2 kB at 20 us and, the first being answered, 20 us later. In between nothing
    // goes on, and the link may go down.
    let ends = |down: Down| {
        let mut source = ClosedLoop::new(2, 1, 20, transfer(0, 2000), 2);
        let job = beside(vec![route(Time::ZERO, &[7])]);
        let load = [takes(10, &[(7, 8000.0)])];
        run(&job, &mut source, &load, &down).map(|_| source.answered)
    };
    let times = |ends: Vec<u64>| -> Vec<Time> { ends.into_iter().map(micros).collect() };
    let never = ends(Down(micros(500), micros(501))).expect("it ends");
    assert_eq!(never, times(vec![22, 44]));
    let first = ends(Down(micros(21), micros(30))).expect("it ends");
    assert_eq!(first, times(vec![31, 53]));
    let second = ends(Down(micros(22), micros(60))).expect("it ends");
    assert_eq!(second, times(vec![22, 62]));
    let told = ends(Down(micros(21), Time::MAX)).expect_err("it is down");
    let told = told.to_string();
    let expected = "a transfer of 2KB of rank 2 needs a link that is down";
    assert!(told.contains(expected), "{told}");
}
