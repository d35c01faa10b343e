//! Jobs whose tasks are written while time passes, against closed forms.

use super::outline::{DONE, Outline, Written};
use super::tests::{COMM, MAIN, actor, gigabyte, group, job, kernel, meet, micros, takes, task};
use super::*;
use fabricsim_plan::job::{
    Actor, Batch, Ended, Job, JobDisturbances, Kernels, StreamId, Tag, TaskSource, TimerId,
    TransferRoute, TransferRouteId, Undisturbed, Work,
};
use fabricsim_topology::{Hop, LinkId, Route, Share};
use fabricsim_units::Bandwidth;
use proptest::prelude::*;
use std::collections::VecDeque;

/// An actor whose tasks come from a source.
pub(super) fn open(rank: u32) -> Actor {
    Actor {
        script: None,
        ..actor(rank, 0, &[])
    }
}

/// Transfers over these links, one after the other.
pub(super) fn route(latency: Time, links: &[u32]) -> TransferRoute {
    TransferRoute {
        route: Route {
            hops: links
                .iter()
                .map(|&link| Hop {
                    link: LinkId(link),
                    share: Share::WHOLE,
                })
                .collect(),
            latency,
            load: Share::WHOLE,
        },
        rate: None,
        message: Time::ZERO,
    }
}

pub(super) fn transfer(route: u32, bytes: u64) -> Work {
    Work::Transfer {
        route: TransferRouteId(route),
        bytes: Bytes::new(bytes),
        messages: 1,
    }
}

/// When each task was done, by actor and task.
#[derive(Default)]
pub(super) struct Ends(pub(super) Vec<(ActorId, TaskId, Time)>);

impl JobProbe for Ends {
    fn task(&mut self, done: Done, _: &Task) {
        self.0.push((done.actor, done.task, done.ended));
    }
}

pub(super) fn run(
    job: &Job,
    source: &mut dyn TaskSource,
    rehearsed: &[Rehearsed],
    disturbances: &dyn JobDisturbances,
) -> Result<(JobOutcome, Ends), JobError> {
    let options = JobOptions::default();
    let mut ends = Ends::default();
    // Link 9 is five times as slow as the others.
    let rate = |link| match link {
        LinkId(9) => Bandwidth::from_bytes_per_sec(200_000_000),
        link => gigabyte(link),
    };
    let outcome = run_source(
        job,
        source,
        rehearsed,
        rate,
        disturbances,
        options,
        &mut ends,
    )?;
    Ok((outcome, ends))
}

/// Writes all tasks at once, and all scripts.
pub(super) struct AtOnce(pub(super) Vec<(ActorId, Task)>, pub(super) Vec<ActorId>);

impl TaskSource for AtOnce {
    fn start(&mut self, out: &mut Batch) {
        out.tasks.append(&mut self.0);
        out.scripts.append(&mut self.1);
    }
    fn instant(&mut self, _: Time, _: &[Ended], _: &[TimerId], _: &mut Batch) {}
    fn is_finished(&self) -> bool {
        true
    }
}

pub(super) fn are(times: &[f64], expected: &[f64]) {
    let near = |(time, expected): (&f64, &f64)| (time / expected - 1.0).abs() < 1e-6;
    assert!(
        times.iter().zip(expected).all(near),
        "{times:?} {expected:?}"
    );
    assert_eq!(times.len(), expected.len());
}

/// A job of two ranks that meet once, at once, and a third whose tasks come from a source.
pub(super) fn beside(routes: Vec<TransferRoute>) -> Job {
    let script = vec![task(COMM, &[], meet(0, 0))];
    let actors = vec![actor(0, 0, &[0]), actor(1, 0, &[0]), open(2)];
    let mut job = job(vec![script], actors, vec![group("dp", 2, &[0])], &[0]);
    job.transfer_routes = routes;
    job
}

/// Clients that think, ask, and wait for the answer before they think again.
pub(super) struct ClosedLoop {
    server: ActorId,
    clients: u64,
    thinks: Time,
    serves: Work,
    /// Requests that are still to be sent, and answers that are to come.
    requests: u64,
    answers: u64,
    waiting: VecDeque<TimerId>,
    pub(super) answered: Vec<Time>,
    scripts: Vec<ActorId>,
}

impl ClosedLoop {
    pub(super) fn new(server: u32, clients: u64, thinks: u64, serves: Work, requests: u64) -> Self {
        ClosedLoop {
            server: ActorId(server),
            clients,
            thinks: micros(thinks),
            serves,
            requests,
            answers: requests,
            waiting: VecDeque::new(),
            answered: Vec::new(),
            scripts: Vec::new(),
        }
    }
}

impl TaskSource for ClosedLoop {
    fn start(&mut self, out: &mut Batch) {
        out.scripts.append(&mut self.scripts);
        for client in 0..self.clients {
            out.timers.push((self.thinks, TimerId(client)));
        }
    }

    fn instant(&mut self, now: Time, ended: &[Ended], timers: &[TimerId], out: &mut Batch) {
        assert!(ended.is_sorted() && timers.is_sorted());
        for ended in ended.iter().filter(|ended| ended.actor == self.server) {
            assert_eq!(ended.task.0 as usize, self.answered.len());
            self.answered.push(now);
            self.answers -= 1;
            if let Some(client) = self.waiting.pop_front() {
                out.timers.push((now + self.thinks, client));
            }
        }
        for &client in timers {
            if self.requests > 0 {
                self.requests -= 1;
                self.waiting.push_back(client);
                out.tasks.push((self.server, task(MAIN, &[], self.serves)));
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.answers == 0
    }
}

#[test]
fn a_closed_loop_of_clients_has_the_throughput_of_its_closed_form() {
    // Interactive response time law: X = min(N / (Z + S), 1 / S), here without randomness.
    let (think, serve, requests) = (40, 10, 1000);
    for clients in [1, 3, 5, 8] {
        let mut source = ClosedLoop::new(0, clients, think, kernel(serve), requests);
        let job = job(Vec::new(), vec![open(0)], Vec::new(), &[]);
        let (outcome, _) = run(&job, &mut source, &[], &Undisturbed).expect("it ends");
        let answered = |k: u64| match clients * serve >= think + serve {
            // The server has always something to do.
            true => think + (k + 1) * serve,
            false => think + (k / clients) * (think + serve) + (k % clients + 1) * serve,
        };
        let expected: Vec<Time> = (0..requests).map(|k| micros(answered(k))).collect();
        assert_eq!(source.answered, expected, "{clients} clients");
        assert_eq!(outcome.end, expected[999]);
        assert_eq!(outcome.ledgers[0].compute, micros(requests * serve));
        assert_eq!(outcome.ledgers[0].total(), outcome.end);
        assert!(outcome.steps.is_empty());
    }
}

#[test]
fn training_all_reduces_and_a_server_go_on_side_by_side() {
    // Two groups of two ranks: a kernel of 10 us, an all-reduce of 10 us that moves 8 kB over the
    // same link, a kernel of 5 us. Beside them a server whose answers are transfers over it.
    let script = vec![
        task(MAIN, &[], kernel(10)),
        task(COMM, &[0], meet(0, 0)),
        task(MAIN, &[1], kernel(5)),
    ];
    let train = || {
        let mut actors: Vec<Actor> = (0..4).map(|r| actor(r, 0, &[r / 2])).collect();
        actors.push(open(4));
        let groups = vec![group("a", 2, &[0]), group("b", 2, &[1])];
        let mut job = job(vec![script.clone()], actors, groups, &[0, 0]);
        job.transfer_routes = vec![route(Time::ZERO, &[7]), route(Time::ZERO, &[8])];
        job
    };
    let alone = || [takes(10, &[(7, 8000.0)]), takes(10, &[(7, 8000.0)])];
    let scripts = || (0..4).map(ActorId).collect();
    // On another link: both all-reduces share theirs, for 16 us; 100 answers of 1 kB from two
    // clients that think for 4 us are 100/2 times 5 us.
    let mut source = ClosedLoop::new(4, 2, 4, transfer(1, 1000), 100);
    source.scripts = scripts();
    let (outcome, _) = run(&train(), &mut source, &alone(), &Undisturbed).expect("it ends");
    assert_eq!(outcome.steps, [micros(10 + 1 + 16 + 1 + 5)]);
    assert_eq!(source.answered[99], micros(4 + 49 * 5 + 2));
    for ledger in &outcome.ledgers {
        assert_eq!(ledger.total(), outcome.end);
    }
    assert_eq!(outcome.ledgers[4].exposed[0], micros(100));
    // On theirs, with always another answer to send: a third each from 11 us on until all-reduces
    // have moved their 8 kB, 24 us later; 10 kB before, 8 kB in that time.
    let mut source = ClosedLoop::new(4, 4, 1, transfer(0, 1000), 100);
    source.scripts = scripts();
    let (outcome, _) = run(&train(), &mut source, &alone(), &Undisturbed).expect("it ends");
    are(&[outcome.steps[0].micros()], &[11.0 + 24.0 + 1.0 + 5.0]);
    let last = source.answered[99].micros();
    are(&[last], &[1.0 + 10.0 + 24.0 + 82.0]);
}

#[test]
fn a_process_starts_tasks_that_come_late_when_they_come() {
    // Requests of one kernel of 1 us, that the process starts in 4 us: it has none ahead.
    let mut server = open(0);
    server.launch = micros(4);
    let mut source = ClosedLoop::new(0, 1, 10, kernel(1), 3);
    let job = job(Vec::new(), vec![server], Vec::new(), &[]);
    run(&job, &mut source, &[], &Undisturbed).expect("it ends");
    assert_eq!(source.answered, [15, 30, 45].map(micros));
}

/// Iterations of a kernel and a transfer behind it, for which the process waits before it begins
/// the next.
struct Iterations {
    left: u32,
    written: u32,
    ends: Vec<Time>,
}

impl Iterations {
    fn next(&mut self, out: &mut Batch) {
        let first = self.written;
        self.written += 3;
        self.left -= 1;
        out.tasks.extend([
            (ActorId(0), task(MAIN, &[], kernel(3))),
            (ActorId(0), task(COMM, &[first], transfer(0, 2000))),
            (ActorId(0), task(MAIN, &[], Work::Synchronise)),
        ]);
    }
}

impl TaskSource for Iterations {
    fn start(&mut self, out: &mut Batch) {
        self.next(out);
    }
    fn instant(&mut self, now: Time, ended: &[Ended], _: &[TimerId], out: &mut Batch) {
        let transfer = |ended: &&Ended| ended.task.0 % 3 == 1;
        if ended.iter().any(|ended| transfer(&ended)) {
            self.ends.push(now);
            if self.left > 0 {
                self.next(out);
            }
        }
    }
    fn is_finished(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn iterations_go_on_though_those_that_are_done_are_dropped() {
    // The process takes 1 us to start the kernel of 3 us; its transfer takes 2 us.
    let mut server = open(0);
    server.launch = micros(1);
    let mut job = job(Vec::new(), vec![server], Vec::new(), &[]);
    job.transfer_routes = vec![route(Time::ZERO, &[7])];
    let mut source = Iterations {
        left: 500,
        written: 0,
        ends: Vec::new(),
    };
    let (outcome, ends) = run(&job, &mut source, &[], &Undisturbed).expect("it ends");
    let expected: Vec<Time> = (1..500).map(|iteration| micros(6 * iteration)).collect();
    assert_eq!(source.ends, expected);
    assert_eq!((outcome.end, ends.0.len()), (micros(3000), 1000));
    let ledger = &outcome.ledgers[0];
    assert_eq!(
        (ledger.compute, ledger.transfers, ledger.host),
        (micros(1500), micros(1000), micros(500))
    );
}

/// What it is to write at the start, and in each instant then.
struct Writes(fn(&mut Batch), fn(&mut Batch));

impl TaskSource for Writes {
    fn start(&mut self, out: &mut Batch) {
        (self.0)(out);
    }
    fn instant(&mut self, _: Time, _: &[Ended], _: &[TimerId], out: &mut Batch) {
        (self.1)(out);
    }
    fn is_finished(&self) -> bool {
        false
    }
}

#[test]
fn every_bad_end_has_a_name() {
    fn write(out: &mut Batch, actor: u32, task: Task) {
        out.tasks.push((ActorId(actor), task));
    }
    let error = |start, then| {
        let job = beside(vec![route(Time::ZERO, &[7])]);
        let mut source = Writes(start, then);
        let load = [takes(10, &[(7, 8000.0)])];
        match run(&job, &mut source, &load, &Undisturbed) {
            Ok((outcome, _)) => panic!("it ended after {}", outcome.end.human()),
            Err(error) => error,
        }
    };
    let nothing: fn(&mut Batch) = |_| {};
    assert!(matches!(error(nothing, nothing), JobError::Stalls { .. }));
    let once = error(|out| write(out, 2, task(MAIN, &[], kernel(3))), nothing);
    assert!(
        matches!(once, JobError::Stalls { at } if at == micros(3)),
        "{once}"
    );
    let timer = error(|out| out.timers.push((micros(7), TimerId(0))), nothing);
    assert!(
        matches!(timer, JobError::Stalls { at } if at == micros(7)),
        "{timer}"
    );
    let endless = error(
        |out| write(out, 2, task(MAIN, &[], Work::Wait(Time::ZERO))),
        |out| write(out, 2, task(MAIN, &[], Work::Wait(Time::ZERO))),
    );
    assert!(matches!(endless, JobError::NoProgress { at } if at == Time::ZERO));
    // A timer that is to run out at once runs out in the next picosecond, until the clock ends.
    let late = error(
        |out| out.timers.push((Time::ZERO, TimerId(0))),
        |out| out.timers.push((Time::MAX, TimerId(0))),
    );
    assert!(
        matches!(late, JobError::PastTheClock { at } if at == Time::from_picos(1)),
        "{late}"
    );
    for (start, expected) in [
        (
            (|out| write(out, 3, task(MAIN, &[], kernel(1)))) as fn(&mut Batch),
            "tasks of actor 3, of which there are 3",
        ),
        (
            |out| write(out, 2, task(StreamId(2), &[], kernel(1))),
            "task 0 of actor 2 on stream 2 of 2",
        ),
        (
            |out| write(out, 2, task(MAIN, &[0], kernel(1))),
            "task 0 of actor 2, to wait for task 0, not written yet",
        ),
        (
            |out| write(out, 2, task(MAIN, &[], transfer(1, 1))),
            "task 0 of actor 2, which does what the job has not",
        ),
        (
            |out| out.scripts.push(ActorId(2)),
            "a script for rank 2, which has none",
        ),
        (
            |out| {
                out.scripts.push(ActorId(0));
                write(out, 0, task(MAIN, &[], kernel(1)));
            },
            "task 1 of actor 0, which does what its script says",
        ),
    ] {
        let told = error(start, nothing).to_string();
        assert!(told.ends_with(expected), "{told}");
    }
}

#[test]
fn tasks_that_are_done_are_dropped() {
    let mut outline = Outline::open(2);
    let (mut waits, mut freed, mut sync) = (Vec::new(), Vec::new(), 0);
    let mut most = 0;
    for id in 0..100_000u32 {
        let mut written = Written {
            waits: &mut waits,
            freed: &mut freed,
            sync: &mut sync,
        };
        let before: Vec<u32> = id.checked_sub(1).into_iter().collect();
        outline.push(task(MAIN, &before, kernel(1)), &mut written, Time::ZERO);
        outline.start(0, Time::ZERO, Time::ZERO);
        // Eight are under way.
        if let Some(done) = id.checked_sub(8).map(TaskId) {
            assert_eq!(outline.dependents(done), [TaskId(done.0 + 1)]);
            written.waits[outline.index(done)] = DONE;
            outline.drop_done(&mut written, |_| 0);
        }
        most = most.max(outline.held());
        assert_eq!(outline.written(), id + 1);
    }
    assert!(most <= 2 * 64 + 8, "{most}");
}

/// Tasks of a rank at random: waits for earlier ones, on two streams, with what processes do.
fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let works = prop_oneof![
        (0u64..20, 0u16..4).prop_map(|(time, launches)| Work::Kernels(Kernels {
            compute: micros(time),
            memory: Time::ZERO,
            launches,
            ..Kernels::default()
        })),
        (0u64..20).prop_map(|time| Work::Wait(micros(time))),
        Just(meet(0, 0)),
        Just(transfer(0, 3000)),
        Just(Work::Synchronise),
        Just(Work::HostSync {
            stream: None,
            busy: micros(3),
        }),
    ];
    let one = (works, 0u8..2, proptest::collection::vec(0u32..8, 0..3));
    proptest::collection::vec(one, 1..40).prop_map(|all| {
        let tasks = all
            .into_iter()
            .enumerate()
            .map(|(id, (work, stream, back))| {
                let stream = match work {
                    Work::Synchronise => 0,
                    Work::Communicate { .. } => 1,
                    _ => stream,
                };
                let mut after: Vec<u32> = back
                    .into_iter()
                    .filter_map(|back| (id as u32).checked_sub(back + 1))
                    .collect();
                after.sort_unstable();
                after.dedup();
                Task {
                    tag: Tag::default(),
                    ..task(StreamId(stream), &after, work)
                }
            });
        tasks.collect()
    })
}

proptest! {
    /// What a source writes at the start takes place as what a script says.
    #[test]
    fn tasks_written_at_once_are_as_good_as_a_script(tasks in tasks(), launch in 0u64..5) {
        let mut scripted = job(
            vec![tasks.clone()],
            vec![actor(0, 0, &[0]), actor(1, 0, &[0])],
            vec![group("dp", 2, &[0])],
            &[30],
        );
        scripted.transfer_routes = vec![route(micros(2), &[7])];
        for actor in &mut scripted.actors {
            actor.launch = micros(launch);
        }
        let mut written = scripted.clone();
        for actor in &mut written.actors {
            actor.script = None;
        }
        let load = [takes(10, &[(7, 8000.0)])];
        let both = (0..2).map(ActorId);
        let all = both.clone().flat_map(|actor| tasks.iter().map(move |t| (actor, t.clone())));
        let mut one = AtOnce(Vec::new(), both.collect());
        let mut other = AtOnce(all.collect(), Vec::new());
        let one = run(&scripted, &mut one, &load, &Undisturbed);
        let other = run(&written, &mut other, &load, &Undisturbed);
        let (one, other) = (one.expect("it ends"), other.expect("it ends"));
        prop_assert_eq!(one.1.0, other.1.0);
        prop_assert_eq!(one.0.ledgers, other.0.ledgers);
        prop_assert_eq!(one.0.end, other.0.end);
        prop_assert_eq!(one.0.transfers, other.0.transfers);
    }
}
