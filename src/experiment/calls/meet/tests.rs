//! Meetings with costs that are plain numbers.

use super::*;

/// Each operation takes a microsecond, each message two; buffers take 100 bytes.
struct Plain;

impl Costs for Plain {
    type Error = ();
    fn time(&mut self, _: Operation) -> Result<Time, ()> {
        Ok(Time::from_micros(1))
    }
    fn message_time(&mut self, _: u32, _: u32, _: u64) -> Result<Time, ()> {
        Ok(Time::from_micros(2))
    }
    fn ahead(&mut self, _: usize, _: u64) -> Result<u64, ()> {
        Ok(100)
    }
    fn same_steps(&mut self, a: Operation, b: Operation) -> Result<bool, ()> {
        Ok(a.bytes / 10 == b.bytes / 10)
    }
}

fn reduce(on: usize, bytes: u64) -> Call {
    Call::Operation(Operation {
        on,
        what: What::Collective(Collective::AllReduce),
        bytes,
        registered: false,
    })
}

fn message(sends: bool, with: u32, bytes: u64) -> Message {
    Message {
        on: 0,
        sends,
        with,
        bytes,
    }
}

fn met(members: &[Vec<u32>], side_by_side: bool, calls: &[Vec<Call>]) -> Met {
    let names: Vec<String> = (0..members.len()).map(|on| format!("c{on}")).collect();
    let ways = Ways {
        members,
        names: &names,
        side_by_side,
        timeout: Time::from_micros(1000),
    };
    meet(ways, calls, &mut Plain).unwrap()
}

fn idle(met: &Met) -> bool {
    let mut streams = met.ranks.iter().flat_map(|rank| &rank.streams);
    streams.all(|stream| stream.queue.is_empty())
}

#[test]
fn operations_follow_each_other_and_wait_for_the_last_rank() {
    let world = [vec![0, 1]];
    let late = vec![Call::Wait(Time::from_micros(5)), reduce(0, 8), reduce(0, 8)];
    let found = met(&world, false, &[vec![reduce(0, 8), reduce(0, 8)], late]);
    assert!(idle(&found));
    let times: Vec<(u64, u64)> = found
        .done
        .iter()
        .map(|done| {
            (
                done.began.picos() / 1_000_000,
                done.ended.picos() / 1_000_000,
            )
        })
        .collect();
    assert_eq!(times, [(5, 6), (6, 7)]);
}

/// Orders that differ hang on one stream, and end on two.
#[test]
fn two_communicators_need_one_order_or_two_streams() {
    let two = [vec![0, 1], vec![0, 1]];
    let calls = [
        vec![reduce(0, 8), reduce(1, 8)],
        vec![reduce(1, 8), reduce(0, 8)],
    ];
    assert!(!idle(&met(&two, false, &calls)));
    let side_by_side = met(&two, true, &calls);
    assert!(idle(&side_by_side));
    assert_eq!(side_by_side.done.len(), 2);
}

#[test]
fn sizes_that_send_as_many_messages_end_with_wrong_data() {
    let world = [vec![0, 1]];
    let wrong = met(&world, false, &[vec![reduce(0, 11)], vec![reduce(0, 19)]]);
    assert!(idle(&wrong) && wrong.wrong.len() == 1);
    let hangs = met(&world, false, &[vec![reduce(0, 11)], vec![reduce(0, 21)]]);
    assert!(!idle(&hangs) && hangs.wrong.is_empty());
}

#[test]
fn sends_end_if_buffers_take_them() {
    let world = [vec![0, 1]];
    let of = |with: u32, bytes: u64| {
        let one = |sends| Call::Messages(vec![message(sends, with, bytes)]);
        vec![one(true), one(false)]
    };
    let small = met(&world, false, &[of(1, 100), of(0, 100)]);
    assert!(idle(&small));
    // Both are sent by 2 µs, and received then.
    assert_eq!(small.done.last().unwrap().ended, Time::from_micros(2));
    assert!(!idle(&met(&world, false, &[of(1, 101), of(0, 101)])));
    let both = |with: u32| {
        vec![Call::Messages(vec![
            message(true, with, 101),
            message(false, with, 101),
        ])]
    };
    assert!(idle(&met(&world, false, &[both(1), both(0)])));
}

#[test]
fn a_crash_comes_after_operations_that_are_over() {
    let world = [vec![0, 1]];
    let found = met(
        &world,
        false,
        &[
            vec![reduce(0, 8), reduce(0, 8)],
            vec![reduce(0, 8), Call::Crash, reduce(0, 8)],
        ],
    );
    assert_eq!(found.ranks[1].host, Host::Crashed(Time::from_micros(1)));
    assert_eq!(
        (found.ranks[0].enqueued[0], found.ranks[0].completed[0]),
        (2, 1)
    );
}
