//! Jobs that take turns on GPUs, and what is each one's own beside others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::concurrent::ConcurrentJob;
use fabricsim::report::write_trace;
use fabricsim::report::{Outputs, Results, summary_text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// A scenario with a job on so many nodes of DGX H100.
fn scenario(nodes: u32, job: Value) -> Value {
    json!({
        "name": "turns",
        "topology": {"name": "dgx-h100"},
        "nodes": nodes,
        "job": job,
    })
}

fn at_once(jobs: &[Value]) -> Value {
    scenario(1, json!({"concurrent": jobs}))
}

fn collective(name: &str, gpus: &str, size: &str) -> Value {
    json!({
        "name": name,
        "gpus": gpus,
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": [size]}}},
    })
}

fn training(name: &str, gpus: &str, steps: u32) -> Value {
    json!({
        "name": name,
        "gpus": gpus,
        "job": {"training": {
            "model": {"shape": {"layers": 2, "hidden": 4096, "heads": 32, "ffn": 16384,
                "vocabulary": 512, "sequence": 1024}},
            "global_batch": 16, "parallel": {}, "steps": steps,
        }},
    })
}

fn results(scenario: &Value) -> Result<Results, String> {
    let told = |error: experiment::ScenarioError| error.to_string();
    let scenario = parse(&scenario.to_string(), "test.json", &[]).map_err(told)?;
    let experiment = validate(scenario, Path::new("")).map_err(told)?;
    let outputs = Outputs::default();
    experiment::run(&experiment, &Budget::default(), &outputs, &mut Silent).map_err(told)
}

/// The jobs, or why they do not come to their end.
fn ran(scenario: &Value) -> Result<Vec<ConcurrentJob>, String> {
    let results = results(scenario).unwrap();
    let result = results.summary.variants[0].job.concurrent().unwrap();
    result.failed.clone().map_or(Ok(result.jobs.clone()), Err)
}

fn run(scenario: &Value) -> Vec<ConcurrentJob> {
    ran(scenario).unwrap()
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
}

#[test]
fn two_jobs_that_compute_on_one_gpu_take_twice_as_long_while_both_run() {
    // One step beside two: the first takes two steps' time, and of the second a half is left, which
    // takes a step's time.
    let jobs = [
        training("one", "0", 1),
        training("two", "0", 2),
        training("apart", "1", 1),
    ];
    let told = run(&at_once(&jobs));
    let step = told[0].alone_us;
    near(told[0].end_us, 2.0 * step);
    near(told[1].rows[0].time_us, 2.0 * step);
    near(told[1].end_us, 3.0 * step);
    assert_eq!(told[2].time_us.to_bits(), step.to_bits());
    let shared = told[0].shared_gpus.as_ref().unwrap();
    assert_eq!(shared.gpus, "0");
    assert_eq!(shared.with, ["two"]);
    assert_eq!(told[2].shared_gpus, None);
}

#[test]
fn a_late_job_on_the_same_gpu_meets_nobody() {
    let mut late = training("late", "0", 1);
    late["start"] = json!("1s");
    let told = run(&at_once(&[training("early", "0", 1), late]));
    for job in &told {
        assert_eq!(job.slowdown.to_bits(), 1f64.to_bits(), "{}", job.name);
        assert_eq!(job.shared_gpus, None, "{}", job.name);
    }
}

#[test]
fn a_step_takes_turns_with_a_benchmark_on_its_gpus() {
    let mut bench = collective("bench", "0-3", "1GiB");
    bench["repeat"] = json!(400);
    let jobs = [
        training("step", "0-3", 1),
        bench,
        collective("apart", "4-7", "64MiB"),
    ];
    let told = run(&at_once(&jobs));
    let [step, bench, apart] = told.as_slice() else {
        panic!("three jobs");
    };
    // All that a step does is kernels, of communications or others, but for what its host does.
    assert!(bench.end_us > step.end_us);
    assert!(
        (1.95..=2.0005).contains(&step.slowdown),
        "{}",
        step.slowdown
    );
    // The benchmark has half of the time while the step runs.
    let lost = bench.end_us - 400.0 * bench.alone_us;
    near(lost, step.time_us / 2.0);
    assert_eq!(apart.slowdown.to_bits(), 1f64.to_bits());
    let results = results(&at_once(&jobs)).unwrap();
    let text = summary_text(&results.summary, Some(160), false);
    assert!(text.contains("0-3, with bench"), "{text}");
    assert!(text.contains("takes turns on GPUs 0-3"), "{text}");
}

#[test]
fn the_order_of_the_list_changes_nothing() {
    let mut jobs = vec![
        training("step", "0-3", 1),
        collective("low", "2-5", "64MiB"),
        collective("high", "4-7", "16MiB"),
    ];
    let there = run(&at_once(&jobs));
    jobs.reverse();
    let mut back = run(&at_once(&jobs));
    back.reverse();
    for (there, back) in there.iter().zip(&back) {
        assert_eq!(
            there.time_us.to_bits(),
            back.time_us.to_bits(),
            "{}",
            there.name
        );
        assert!(there.slowdown > 1.05, "{}: {}", there.name, there.slowdown);
    }
}

#[test]
fn jobs_that_fit_by_themselves_only_are_told() {
    let large = |name: &str| {
        let mut job = training(name, "0-7", 1);
        job["job"]["training"]["model"]["shape"]["layers"] = json!(14);
        job
    };
    let of = |jobs: &[Value]| {
        let results = results(&at_once(jobs)).unwrap();
        let fits = results.summary.variants[0].metrics.fits;
        (fits, results.summary.warnings.join("; "))
    };
    assert_eq!(of(&[large("a")]), (Some(true), String::new()));
    let (fits, warnings) = of(&[large("a"), large("b")]);
    assert_eq!(fits, Some(false));
    let told = "a and b do not fit into the memory of GPU 0 together: ";
    assert!(warnings.contains(told), "{warnings}");
    let mut late = large("b");
    late["start"] = json!("1s");
    assert_eq!(of(&[large("a"), late]), (Some(true), String::new()));
    let (fits, warnings) = of(&[
        collective("a", "0-1", "40GiB"),
        collective("b", "1-2", "40GiB"),
    ]);
    assert_eq!(fits, Some(false));
    assert!(warnings.contains("memory of GPU 1 together"), "{warnings}");
}

#[test]
fn a_collective_takes_what_its_benchmark_says() {
    let single = |isolated: bool| {
        let mut job = collective("a", "all", "1MiB")["job"].clone();
        job["collective"]["isolated"] = json!(isolated);
        let results = results(&scenario(1, job)).unwrap();
        results.summary.variants[0].metrics.time_us.unwrap()
    };
    let listed = |isolated: bool| {
        let mut job = collective("a", "all", "1MiB");
        job["job"]["collective"]["isolated"] = json!(isolated);
        run(&at_once(&[job]))[0].time_us
    };
    for isolated in [false, true] {
        let (single, listed) = (single(isolated), listed(isolated));
        assert_eq!(listed.to_bits(), single.to_bits(), "{listed} {single}");
    }
    assert!(listed(false) < listed(true));
}

#[test]
fn faults_of_a_collectives_gpus_may_not_change() {
    let with = |faults: Value, jobs: &[Value]| {
        let mut scenario = at_once(jobs);
        scenario["faults"] = faults;
        scenario
    };
    let jobs = [
        collective("sum", "0-3", "64MiB"),
        training("step", "4-7", 1),
    ];
    let slow = |ranks: u32| {
        json!([{"slow_gpu": {"ranks": 7, "speed": 0.9}},
            {"slow_gpu": {"ranks": ranks, "speed": 0.5, "from": "1ms", "to": "6ms"}}])
    };
    let told = results(&with(slow(2), &jobs)).unwrap_err();
    for part in [
        "faults[1]",
        "GPU 2 (node0/gpu2), on which the collective `sum` runs",
        "as slow all of the time",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(results(&with(slow(5), &jobs)).is_ok());
}

#[test]
fn each_job_has_its_own_timeout() {
    // A GPU of the second job is so slow that others wait for it for longer than the first job would.
    let of = |first: &str, second: Value| {
        let mut jobs = [training("quick", "0-3", 1), training("slow", "4-7", 1)];
        jobs[0]["job"]["training"]["timeout"] = json!(first);
        jobs[1]["job"]["training"]["timeout"] = second;
        let mut scenario = at_once(&jobs);
        scenario["faults"] = json!([{"slow_gpu": {"ranks": 5, "speed": 0.1}}]);
        ran(&scenario)
    };
    assert!(of("20ms", json!("10s")).is_ok());
    assert!(of("20ms", Value::Null).is_ok());
    let told = of("10s", json!("20ms")).unwrap_err();
    assert!(
        told.starts_with("slow by itself: timed out after 20"),
        "{told}"
    );
}

#[test]
fn a_gpu_is_counted_once_and_shows_a_process_of_each_job() {
    let jobs = [training("a", "0-3", 1), training("b", "2-5", 1)];
    let mut scenario = at_once(&jobs);
    // So that more than the first rank of each job is shown.
    scenario["faults"] = json!([{"slow_gpu": {"ranks": "2-3", "speed": 0.9}}]);
    let results = results(&scenario).unwrap();
    assert_eq!(results.summary.variants[0].gpus, 6);
    let timelines = results.job_timelines();
    let timeline = timelines[0].1;
    let shown: Vec<(u32, &str)> = timeline
        .ranks
        .iter()
        .map(|(rank, _, job)| (*rank, job.as_str()))
        .collect();
    assert!(
        shown.contains(&(3, "a")) && shown.contains(&(3, "b")),
        "{shown:?}"
    );
    let mut trace = Vec::new();
    write_trace(timeline, &mut trace).unwrap();
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let named = events.filter(|event| event["name"] == "process_name");
    let named = named.filter(|event| event["args"]["name"].as_str().unwrap().starts_with("rank"));
    let processes: BTreeSet<u64> = named.map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(processes.len(), shown.len());
}

/// The shipped scenario's finding, as docs/scenarios.md tells it.
#[test]
fn two_jobs_are_best_off_with_a_server_each() {
    let text = std::fs::read_to_string("scenarios/two-jobs.json").unwrap();
    let results = results(&serde_json::from_str(&text).unwrap()).unwrap();
    let of = |index: usize| {
        let variant = &results.summary.variants[index];
        assert_eq!(variant.metrics.fits, Some(true), "{}", variant.name);
        &variant.job.concurrent().unwrap().jobs[0]
    };
    let (own, halves, turns) = (of(0), of(1), of(2));
    assert_eq!(own.slowdown.to_bits(), 1f64.to_bits());
    let across = halves.alone_us / own.time_us;
    assert!((1.0..1.01).contains(&across), "{across}");
    assert!(
        (1.25..1.35).contains(&halves.slowdown),
        "{}",
        halves.slowdown
    );
    assert!(halves.shared.as_ref().unwrap().link.contains("nic0"));
    near(turns.slowdown, 2.0);
    assert!(turns.time_us > halves.time_us);
}
