//! Processes that share a GPU, against times by hand.

use super::tests::{COMM, MAIN, actor, gigabyte, group, job, kernel, meet, micros, takes, task};
use super::*;
use fabricsim_plan::job::{Job, Task, Undisturbed};

/// When each actor's last task ended.
#[derive(Default)]
struct Ends(Vec<Time>);

impl JobProbe for Ends {
    fn task(&mut self, done: Done, _: &Task) {
        let actor = done.actor.0 as usize;
        self.0.resize(self.0.len().max(actor + 1), Time::ZERO);
        self.0[actor] = self.0[actor].max(done.ended);
    }
}

fn ends(job: &Job, rehearsed: &[Rehearsed]) -> Vec<f64> {
    let mut ends = Ends::default();
    let options = JobOptions::default();
    run_job(job, rehearsed, gigabyte, &Undisturbed, options, &mut ends).expect("it ends");
    ends.0.iter().map(|end| end.micros()).collect()
}

fn kernels(times: &[u64]) -> Vec<Task> {
    let times = times.iter();
    times.map(|&time| task(MAIN, &[], kernel(time))).collect()
}

#[test]
fn two_processes_on_a_gpu_have_half_of_it_each_while_both_compute() {
    // 10 us of one and 30 of the other: 20 until the first is over, then 20 at full speed. A third
    // has another GPU.
    let scripts = vec![kernels(&[4, 6]), kernels(&[10, 10, 10]), kernels(&[7])];
    let places = [[5, 0], [5, 1], [6, 2]];
    let of = |order: [usize; 3]| {
        let actors = order.map(|at| actor(places[at][0], places[at][1], &[]));
        let job = job(scripts.clone(), actors.to_vec(), Vec::new(), &[]);
        let told = ends(&job, &[]);
        let mut ends = [0.0; 3];
        for (at, end) in order.into_iter().zip(told) {
            ends[at] = end;
        }
        ends
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        assert_eq!(of(order), [20.0, 40.0, 7.0], "{order:?}");
    }
}

#[test]
fn three_processes_have_a_third_each() {
    let scripts = vec![kernels(&[10]), kernels(&[20]), kernels(&[20])];
    let actors = (0..3).map(|script| actor(0, script, &[])).collect();
    let job = job(scripts, actors, Vec::new(), &[]);
    // 30 us until the first is over; then 10 more of both others at half speed.
    for (end, expected) in ends(&job, &[]).into_iter().zip([30.0, 50.0, 50.0]) {
        assert!((end - expected).abs() < 1e-5, "{end} {expected}");
    }
}

#[test]
fn streams_of_one_process_share_its_turns_alone() {
    // Two kernels at once are one process; beside another one all take twice as long.
    let both = vec![task(MAIN, &[], kernel(10)), task(COMM, &[], kernel(10))];
    let alone = job(vec![both.clone()], vec![actor(0, 0, &[])], Vec::new(), &[]);
    assert_eq!(ends(&alone, &[]), [10.0]);
    let two = vec![actor(0, 0, &[]), actor(0, 1, &[])];
    let beside = job(vec![both, kernels(&[10])], two, Vec::new(), &[]);
    assert_eq!(ends(&beside, &[]), [20.0, 20.0]);
}

/// An all-reduce of ranks 0 and 1, beside a process with kernels on rank 1, and another all-reduce
/// of ranks 2 and 3 beside them.
fn beside_all_reduce() -> Job {
    let scripts = vec![
        vec![task(COMM, &[], meet(0, 0))],
        kernels(&[8]),
        vec![task(COMM, &[], meet(0, 0))],
    ];
    let actors = vec![
        actor(0, 0, &[0]),
        actor(1, 0, &[0]),
        actor(1, 1, &[]),
        actor(2, 2, &[1]),
        actor(3, 2, &[1]),
    ];
    let groups = vec![group("a", 2, &[0]), group("b", 2, &[1])];
    job(scripts, actors, groups, &[4, 4])
}

#[test]
fn a_communication_takes_turns_with_kernels_of_another_process() {
    // 8 us of kernels, and 12 of the all-reduce: 16 us at half speed, then 4 at full speed. The other
    // one shares nothing.
    let apart = [takes(12, &[]), takes(12, &[])];
    assert_eq!(
        ends(&beside_all_reduce(), &apart),
        [20.0, 20.0, 16.0, 12.0, 12.0]
    );
    // The same where it moves bytes over a link of its own.
    let own = [takes(12, &[(7, 10_000.0)]), takes(12, &[(8, 10_000.0)])];
    assert_eq!(
        ends(&beside_all_reduce(), &own),
        [20.0, 20.0, 16.0, 12.0, 12.0]
    );
}

#[test]
fn half_of_its_turns_is_half_of_a_link_too() {
    // Both ask for one link all of their 8 us, so that each has half of it whatever its turns.
    let all = [takes(8, &[(7, 8000.0)]), takes(8, &[(7, 8000.0)])];
    for end in ends(&beside_all_reduce(), &all) {
        assert!((end - 16.0).abs() < 1e-3, "{end}");
    }
    // With three transfers it would have three quarters, which its turns do not allow.
    let mut more = takes(8, &[(7, 8000.0)]);
    more.loads[0].streams = 3.0;
    for end in ends(&beside_all_reduce(), &[more, takes(8, &[(7, 8000.0)])]) {
        assert!((end - 16.0).abs() < 1e-3, "{end}");
    }
}

#[test]
fn whoever_waits_for_others_keeps_its_turns() {
    // The kernel of an all-reduce that waits for its other rank is on the GPU: the 10 us of kernels
    // beside it take 20, as long as the other rank lets it wait.
    let scripts = vec![
        vec![task(COMM, &[], meet(0, 0))],
        vec![task(MAIN, &[], kernel(30)), task(COMM, &[0], meet(0, 0))],
        kernels(&[10]),
    ];
    let actors = vec![actor(0, 0, &[0]), actor(1, 1, &[0]), actor(0, 2, &[])];
    let job = job(scripts, actors, vec![group("a", 2, &[0])], &[4]);
    assert_eq!(ends(&job, &[takes(5, &[])]), [35.0, 35.0, 20.0]);
}

#[test]
fn each_group_has_a_timeout_of_its_own() {
    let scripts = vec![
        vec![task(COMM, &[], meet(0, 0))],
        vec![task(MAIN, &[], kernel(30)), task(COMM, &[0], meet(0, 0))],
    ];
    let actors = vec![
        actor(0, 0, &[0]),
        actor(1, 1, &[0]),
        actor(2, 0, &[1]),
        actor(3, 1, &[1]),
    ];
    let groups = vec![group("a", 2, &[0]), group("b", 2, &[1])];
    let job = job(scripts, actors, groups, &[0, 0]);
    let run = |of_groups: &[Option<Time>]| {
        let options = JobOptions {
            timeout: Some(micros(40)),
            of_groups,
            ..JobOptions::default()
        };
        let alone = [takes(5, &[]), takes(5, &[])];
        run_job(
            &job,
            &alone,
            gigabyte,
            &Undisturbed,
            options,
            &mut Ends::default(),
        )
    };
    assert!(run(&[]).is_ok());
    assert!(run(&[None, Some(micros(31))]).is_ok());
    let told = run(&[None, Some(micros(29))]).expect_err("b waits for too long");
    assert!(told.to_string().starts_with("timed out after 29"), "{told}");
    assert!(matches!(told, JobError::TimedOut { waiting, .. } if waiting.name == "b"));
}
