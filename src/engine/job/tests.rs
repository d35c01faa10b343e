//! Jobs whose times can be worked out by hand.

use super::*;
use fabricsim_collective::Collective;
use fabricsim_plan::job::{
    Actor, Exchange, ExchangeId, Group, GroupRole, Job, JobDisturbances, Kernels, Movement, Script,
    StreamId, StreamRole, Tag, Task, TaskKind, Undisturbed, Work,
};
use fabricsim_topology::LinkId;
use fabricsim_units::Bandwidth;

pub(super) const MAIN: StreamId = StreamId(0);
pub(super) const COMM: StreamId = StreamId(1);

pub(super) fn micros(count: u64) -> Time {
    Time::from_micros(count)
}

pub(super) fn kernel(compute: u64) -> Work {
    Work::Kernels(Kernels {
        compute: micros(compute),
        memory: Time::ZERO,
        launches: 1,
        ..Kernels::default()
    })
}

pub(super) fn meet(group: u16, exchange: u16) -> Work {
    Work::Communicate { group, exchange }
}

pub(super) fn task(stream: StreamId, after: &[u32], work: Work) -> Task {
    Task {
        stream,
        after: after.iter().map(|&t| TaskId(t)).collect(),
        work,
        tag: Tag::default(),
    }
}

fn exchange(sms: u32) -> Exchange {
    Exchange {
        sms,
        ..Exchange::free(
            "all-reduce",
            Movement::Collective(Collective::AllReduce),
            Bytes::new(1000),
            1.0,
        )
    }
}

pub(super) fn actor(rank: u32, script: u32, groups: &[u32]) -> Actor {
    Actor {
        rank,
        alike: 1,
        script: Some(script),
        sms: 100,
        launch: Time::ZERO,
        run_ahead: false,
        groups: groups.iter().map(|&g| Some(GroupId(g))).collect(),
    }
}

pub(super) fn group(name: &str, actors: u32, exchanges: &[u32]) -> Group {
    Group {
        role: GroupRole::DataParallel,
        name: name.into(),
        ranks: Vec::new(),
        members: Vec::new(),
        actors,
        exchanges: exchanges.iter().map(|&e| ExchangeId(e)).collect(),
    }
}

pub(super) fn job(
    scripts: Vec<Vec<Task>>,
    actors: Vec<Actor>,
    groups: Vec<Group>,
    sms: &[u32],
) -> Job {
    Job {
        streams: vec![StreamRole::Compute, StreamRole::DataParallel],
        names: vec!["task".into()],
        scripts: scripts.into_iter().map(|tasks| Script { tasks }).collect(),
        actors,
        groups,
        exchanges: sms.iter().map(|&s| exchange(s)).collect(),
        transfer_routes: Vec::new(),
    }
}

pub(super) fn takes(time: u64, loads: &[(u32, f64)]) -> Rehearsed {
    Rehearsed {
        time: micros(time),
        launch: Time::ZERO,
        loads: loads
            .iter()
            .map(|&(link, bytes)| load(link, bytes))
            .collect(),
        events: 0,
    }
}

/// By one transfer.
fn load(link: u32, bytes: f64) -> Load {
    Load {
        link: LinkId(link),
        bytes,
        kept: 1.0,
        pace: Bandwidth::from_gb_per_sec(1000),
        streams: 1.0,
    }
}

pub(super) fn gigabyte(_: LinkId) -> Bandwidth {
    Bandwidth::from_gb_per_sec(1)
}

fn run(job: &Job, rehearsed: &[Rehearsed]) -> JobOutcome {
    run_with(job, rehearsed, &Undisturbed, JobOptions::default()).expect("it ends")
}

fn run_with(
    job: &Job,
    rehearsed: &[Rehearsed],
    disturbances: &dyn JobDisturbances,
    options: JobOptions,
) -> Result<JobOutcome, JobError> {
    run_job(job, rehearsed, gigabyte, disturbances, options, &mut Unseen)
}

#[test]
fn a_communication_hides_behind_kernels_that_do_not_need_it() {
    // A kernel, its gradient's all-reduce beside a second kernel, a third kernel after both.
    let script = vec![
        task(MAIN, &[], kernel(10)),
        task(COMM, &[0], meet(0, 0)),
        task(MAIN, &[], kernel(20)),
        task(MAIN, &[1], kernel(5)),
    ];
    let two = vec![actor(0, 0, &[0]), actor(1, 0, &[0])];
    let job = job(vec![script], two, vec![group("dp", 2, &[0])], &[0]);
    let hidden = run(&job, &[takes(15, &[])]);
    assert_eq!(hidden.end, micros(35));
    assert_eq!(hidden.ledgers[0].exposed[1], Time::ZERO);
    assert_eq!(hidden.ledgers[0].communication[1], micros(15));
    let exposed = run(&job, &[takes(50, &[])]);
    assert_eq!(exposed.end, micros(65));
    assert_eq!(exposed.ledgers[0].exposed[1], micros(30));
    assert_eq!(exposed.ledgers[0].total(), exposed.end);
}

#[test]
fn kernels_slow_down_while_a_communication_holds_sms() {
    let script = vec![
        task(MAIN, &[], kernel(10)),
        task(COMM, &[0], meet(0, 0)),
        task(MAIN, &[], kernel(20)),
    ];
    let two = vec![actor(0, 0, &[0]), actor(1, 0, &[0])];
    let job = job(vec![script], two, vec![group("dp", 2, &[0])], &[20]);
    // Ten microseconds at 80 of 100 SMs do eight of the twenty; twelve are left.
    let outcome = run(&job, &[takes(10, &[])]);
    assert_eq!(outcome.end, micros(10 + 10 + 12));
    // What that costs is told apart, and grows as the communication lasts longer; the kernels' own
    // time does not.
    for (lasts, slowed) in [(10, 2), (20, 4)] {
        let outcome = run(&job, &[takes(lasts, &[])]);
        let ledger = &outcome.ledgers[0];
        let kind = Tag::default().kind.index();
        assert_eq!(ledger.slowed[kind], micros(slowed));
        assert_eq!(ledger.kernels[kind] - ledger.slowed[kind], micros(30));
        assert_eq!(ledger.total(), outcome.end);
    }
    // That they were to end after 35 us at 80 SMs does not end what comes next.
    let mut job = job;
    let wait = task(MAIN, &[2], Work::Wait(micros(10)));
    job.scripts[0].tasks.push(wait);
    let outcome = run(&job, &[takes(10, &[])]);
    assert_eq!(outcome.end, micros(10 + 10 + 12 + 10));
}

#[test]
fn communications_on_one_link_share_it_and_others_do_not() {
    // Two groups of two, each sending 8 of the 10 kB that the link could carry in its time: for
    // 8 us, from the first to the ninth.
    let script = vec![task(COMM, &[], meet(0, 0))];
    let actors = (0..4).map(|r| actor(r, 0, &[r / 2])).collect();
    let groups = vec![group("a", 2, &[0]), group("b", 2, &[1])];
    let job = job(vec![script], actors, groups, &[0, 0]);
    let end = |alone: [Rehearsed; 2]| run(&job, &alone).end.micros();
    let is = |time: f64, expected: f64| assert!((time - expected).abs() < 1e-3, "{time}");
    // Together 16 kB over a link of 1 GB/s.
    is(
        end([8, 8].map(|kb| takes(10, &[(7, f64::from(kb) * 1e3)]))),
        1.0 + 16.0 + 1.0,
    );
    is(end([7, 8].map(|link| takes(10, &[(link, 8000.0)]))), 10.0);
    // When one ends the other goes on at full speed: it asks for the link after 2 us, gets half of
    // it for the 14 us in which the other moves its last 7 kB, and has 9 of its 16 kB left.
    let uneven = [takes(10, &[(7, 8000.0)]), takes(20, &[(7, 16000.0)])];
    is(end(uneven), 2.0 + 14.0 + 9.0 + 2.0);
    // Three transfers get three times as much as one: 3/4 and 1/4 of the link, until the first has
    // moved its 8 kB after 32/3 us and 16/3 kB of the other are left.
    let mut many = takes(10, &[(7, 8000.0)]);
    many.loads[0].streams = 3.0;
    let pulled = [many, takes(10, &[(7, 8000.0)])];
    is(end(pulled), 1.0 + 32.0 / 3.0 + 16.0 / 3.0 + 1.0);
    // Kernels start before anything moves: 4 us and half of the other 2, while the other one has the
    // link for itself.
    let mut late = takes(14, &[(7, 8000.0)]);
    late.launch = micros(4);
    let launched = [late, takes(10, &[(7, 8000.0)])];
    is(end(launched), 5.0 + 2.0 * 4.0 + 4.0 + 1.0);
    // Workers that move 1 kB in 1.25 us ask for the link all of the time, but for 4/5 of it only.
    let slow = || {
        let mut slow = takes(10, &[(7, 8000.0)]);
        slow.loads[0].pace = Bandwidth::from_bytes_per_sec(800_000_000);
        slow
    };
    is(end([slow(), slow()]), 16.0);
}

#[test]
fn what_an_operation_was_to_end_at_once_does_not_end_the_next_one() {
    // Beside another group the first of two was to have moved all after 17 us; alone from the ninth
    // on it has after 13, and is over after 14.
    let twice = vec![task(COMM, &[], meet(0, 0)), task(COMM, &[0], meet(0, 0))];
    let once = vec![task(COMM, &[], meet(0, 0))];
    let actors = vec![
        actor(0, 0, &[0]),
        actor(1, 0, &[0]),
        actor(2, 1, &[1]),
        actor(3, 1, &[1]),
    ];
    let groups = vec![group("a", 2, &[0]), group("b", 2, &[1])];
    let job = job(vec![twice, once], actors, groups, &[0, 0]);
    let end = run(&job, &[takes(10, &[(7, 8000.0)]), takes(6, &[(7, 4000.0)])]).end;
    let time = end.micros();
    assert!((time - (14.0 + 10.0)).abs() < 1e-3, "{time}");
}

#[test]
fn whoever_waits_is_told_for_whom() {
    let early = vec![
        task(MAIN, &[], kernel(10)),
        task(COMM, &[0], meet(0, 0)),
        task(MAIN, &[1], kernel(1)),
    ];
    let late = vec![
        task(MAIN, &[], kernel(30)),
        task(COMM, &[0], meet(0, 0)),
        task(MAIN, &[1], kernel(1)),
    ];
    let two = vec![actor(4, 0, &[0]), actor(9, 1, &[0])];
    let mut tp = group("tp", 2, &[0]);
    tp.ranks = vec![4, 9];
    tp.members = vec![ActorId(0), ActorId(1)];
    let job = job(vec![early, late], two, vec![tp], &[0]);
    let outcome = run(&job, &[takes(5, &[])]);
    assert_eq!(outcome.end, micros(36));
    assert_eq!(outcome.ledgers[0].waiting[1], micros(20));
    assert_eq!(outcome.ledgers[0].waited_for[&ActorId(1)], micros(20));
    assert!(outcome.ledgers[1].waited_for.is_empty());
    let stop = fabricsim_budget::Stop::default();
    stop.now();
    let options = JobOptions {
        stop: Some(&stop),
        ..JobOptions::default()
    };
    let stopped = run_with(&job, &[takes(5, &[])], &Undisturbed, options);
    assert!(matches!(stopped, Err(JobError::Stopped)));
    let options = JobOptions {
        timeout: Some(micros(15)),
        ..JobOptions::default()
    };
    let error = run_with(&job, &[takes(5, &[])], &Undisturbed, options).expect_err("too late");
    let JobError::TimedOut { waiting, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (waiting.come.as_slice(), waiting.missing.as_slice()),
        (&[4][..], &[9][..])
    );
    assert!(error.to_string().contains("ranks 9 have not"), "{error}");
}

#[test]
fn a_process_that_starts_kernels_slowly_is_what_the_gpu_waits_for() {
    let script = (0..10).map(|_| task(MAIN, &[], kernel(1))).collect();
    let mut one = actor(0, 0, &[]);
    one.launch = micros(4);
    let slow = job(vec![script], vec![one], Vec::new(), &[]);
    let outcome = run(&slow, &[]);
    assert_eq!(outcome.end, micros(41));
    assert_eq!(outcome.ledgers[0].host, micros(31));
    // Behind a synchronisation it has no lead any more.
    let script = vec![
        task(MAIN, &[], kernel(20)),
        task(MAIN, &[], Work::Synchronise),
        task(MAIN, &[], kernel(20)),
    ];
    let mut one = actor(0, 0, &[]);
    one.launch = micros(4);
    let synchronised = job(vec![script], vec![one], Vec::new(), &[]);
    assert_eq!(run(&synchronised, &[]).end, micros(48));
}

/// Ten kernels of 1 us each in one task, behind one of 100 us, each started in 4 us.
#[test]
fn what_was_started_ahead_costs_no_time_of_the_process() {
    let ten = Work::Kernels(Kernels {
        compute: micros(10),
        memory: Time::ZERO,
        launches: 10,
        ..Kernels::default()
    });
    let end = |run_ahead, first| {
        let script = vec![task(MAIN, &[], kernel(first)), task(MAIN, &[], ten)];
        let mut one = actor(0, 0, &[]);
        (one.launch, one.run_ahead) = (micros(4), run_ahead);
        let outcome = run(&job(vec![script], vec![one], Vec::new(), &[]), &[]);
        (outcome.end, outcome.ledgers[0].host)
    };
    // All ten are started at 44 us, the first kernel ends at 104 us.
    assert_eq!(end(true, 100), (micros(114), micros(4)));
    assert_eq!(end(false, 100), (micros(140), micros(4)));
    // The process is behind: the last of them is started at 44 us. Kernels run for 12 us.
    assert_eq!(end(true, 2), (micros(45), micros(33)));
}

/// A wait for one stream ends with that stream; the process has no lead then, and is busy before.
#[test]
fn a_host_that_reads_a_result_waits_for_its_stream_alone() {
    let end = |stream, busy| {
        let script = vec![
            task(COMM, &[], Work::Wait(micros(100))),
            task(MAIN, &[], kernel(20)),
            task(MAIN, &[], Work::HostSync { stream, busy }),
            task(MAIN, &[], kernel(30)),
        ];
        let mut one = actor(0, 0, &[]);
        (one.launch, one.run_ahead) = (micros(4), true);
        let outcome = run(&job(vec![script], vec![one], Vec::new(), &[]), &[]);
        (outcome.end, outcome.ledgers[0].host)
    };
    let none = Time::ZERO;
    // 4 + 20, then 4 + 30 beside the other stream, which ends at 100 us.
    assert_eq!(end(Some(MAIN), none), (micros(100), none));
    assert_eq!(end(Some(MAIN), micros(50)), (micros(108), none));
    // Behind both: 100 + 4 + 30.
    assert_eq!(end(None, none), (micros(134), micros(4)));
    assert_eq!(end(None, micros(7)), (micros(141), micros(11)));
}

/// N kernels of g each, each read by the process: N (launch + g); without reading launch + N g.
#[test]
fn a_process_that_reads_after_every_kernel_pays_each_start() {
    let end = |reads: bool| {
        let mut script = Vec::new();
        for _ in 0..20 {
            script.push(task(MAIN, &[], kernel(10)));
            if reads {
                let sync = Work::HostSync {
                    stream: Some(MAIN),
                    busy: Time::ZERO,
                };
                script.push(task(MAIN, &[], sync));
            }
        }
        let mut one = actor(0, 0, &[]);
        (one.launch, one.run_ahead) = (micros(4), true);
        run(&job(vec![script], vec![one], Vec::new(), &[]), &[]).end
    };
    assert_eq!((end(false), end(true)), (micros(204), micros(280)));
}

#[test]
fn ranks_that_never_come_and_other_operations_are_errors() {
    let meets = vec![task(COMM, &[], meet(0, 0))];
    let other = vec![task(COMM, &[], meet(0, 1))];
    let nothing = vec![task(MAIN, &[], kernel(1))];
    let scripts = vec![meets, other, nothing];
    let hangs = job(
        scripts.clone(),
        vec![actor(0, 0, &[0]), actor(1, 2, &[0])],
        vec![group("dp", 2, &[0, 1])],
        &[0, 0],
    );
    let rehearsed = [takes(1, &[]), takes(1, &[])];
    let told = run_with(&hangs, &rehearsed, &Undisturbed, JobOptions::default())
        .expect_err("rank 1 never comes");
    assert!(matches!(told, JobError::Hangs { .. }), "{told}");
    let mixed = job(
        scripts,
        vec![actor(0, 0, &[0]), actor(1, 1, &[0])],
        vec![group("dp", 2, &[0, 1])],
        &[0, 0],
    );
    let told = run_with(&mixed, &rehearsed, &Undisturbed, JobOptions::default())
        .expect_err("they call different ones");
    assert!(matches!(told, JobError::Mismatch { .. }), "{told}");
}

/// Rank 0 at half speed from 10 to 20 us; link 7 down from 5 us to `until`.
struct Trouble {
    until: Option<Time>,
}

impl JobDisturbances for Trouble {
    fn speed(&self, rank: u32, at: Time) -> (f64, Option<Time>) {
        match (rank, at) {
            (0, at) if at < micros(10) => (1.0, Some(micros(10))),
            (0, at) if at < micros(20) => (0.5, Some(micros(20))),
            _ => (1.0, None),
        }
    }
    fn link(&self, link: LinkId, at: Time) -> f64 {
        let down = at >= micros(5) && self.until.is_none_or(|u| at < u);
        if link == LinkId(7) && down { 0.0 } else { 1.0 }
    }
    fn links(&self) -> Vec<LinkId> {
        vec![LinkId(7)]
    }
    fn next_link_change(&self, after: Time) -> Option<Time> {
        let all = [Some(micros(5)), self.until];
        all.into_iter().flatten().find(|&t| t > after)
    }
}

#[test]
fn a_gpu_slows_down_and_recovers_and_a_link_flaps() {
    let script = vec![task(MAIN, &[], kernel(30))];
    let alone = job(vec![script], vec![actor(0, 0, &[])], Vec::new(), &[]);
    let back = Trouble {
        until: Some(micros(25)),
    };
    let outcome = run_with(&alone, &[], &back, JobOptions::default()).expect("it ends");
    assert_eq!(outcome.end, micros(35));
    let script = vec![task(COMM, &[], meet(0, 0))];
    let two = vec![actor(0, 0, &[0]), actor(1, 0, &[0])];
    let flaps = job(vec![script], two, vec![group("dp", 2, &[0])], &[0]);
    let load = [takes(10, &[(7, 5000.0)])];
    let outcome = run_with(&flaps, &load, &back, JobOptions::default()).expect("it ends");
    assert_eq!(outcome.end, micros(30));
    let gone = Trouble { until: None };
    let told = run_with(&flaps, &load, &gone, JobOptions::default()).expect_err("it is down");
    assert!(matches!(told, JobError::NoPath { .. }), "{told}");
}

#[test]
fn a_ledger_adds_up_by_kind_by_exchange_and_over_the_last_step() {
    let mut tasks = Vec::new();
    for step in 0..3u16 {
        let first = tasks.len() as u32;
        let tag = |kind| Tag {
            step,
            kind,
            ..Tag::default()
        };
        let of = |kind, task: Task| Task {
            tag: tag(kind),
            ..task
        };
        tasks.push(of(TaskKind::Forward, task(MAIN, &[], kernel(10))));
        tasks.push(of(TaskKind::Backward, task(MAIN, &[], kernel(20))));
        tasks.push(of(TaskKind::Forward, task(COMM, &[first + 1], meet(0, 0))));
        tasks.push(of(TaskKind::Optimiser, task(MAIN, &[first + 2], kernel(3))));
    }
    // The second rank has more to do before each meeting.
    let mut more = tasks.clone();
    for task in &mut more {
        if task.tag.kind == TaskKind::Backward {
            task.work = kernel(24);
        }
    }
    let two = vec![actor(0, 0, &[0]), actor(1, 1, &[0])];
    let mut dp = group("dp", 2, &[1]);
    dp.members = vec![ActorId(0), ActorId(1)];
    dp.ranks = vec![0, 1];
    let job = job(vec![tasks, more], two, vec![dp], &[0, 1]);
    let outcome = run(&job, &[takes(1, &[]), takes(5, &[])]);
    assert_eq!(outcome.steps, [micros(42), micros(84), micros(126)]);
    for (all, last) in outcome.ledgers.iter().zip(&outcome.last_step) {
        assert_eq!(all.total(), micros(126));
        assert_eq!(last.total(), micros(42));
        for ledger in [all, last] {
            assert_eq!(ledger.kernels.iter().copied().sum::<Time>(), ledger.compute);
            let exposed: Time = ledger.exposed.iter().copied().sum();
            assert_eq!(ledger.exposed_in.values().copied().sum::<Time>(), exposed);
            let waiting: Time = ledger.waiting.iter().copied().sum();
            assert_eq!(ledger.waiting_in.values().copied().sum::<Time>(), waiting);
        }
    }
    let last = &outcome.last_step[0];
    assert_eq!(last.kernels[TaskKind::Backward.index()], micros(20));
    assert_eq!(last.kernels[TaskKind::Optimiser.index()], micros(3));
    assert_eq!(last.waiting_in[&ExchangeId(1)], micros(4));
    assert_eq!(last.exposed_in[&ExchangeId(1)], micros(5));
}
