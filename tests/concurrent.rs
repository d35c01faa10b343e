//! Jobs of several kinds at once, which share links.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::concurrent::ConcurrentJob;
use fabricsim::report::{
    JobResult, Outputs, Results, Summary, points_csv, summary_json, summary_text,
};
use fabricsim::topology::{LinkFamily, Overrides, catalogue, expand};
use serde_json::{Value, json};
use std::path::Path;

/// A scenario with these jobs on so many nodes of a machine.
fn scenario(topology: Value, nodes: u32, jobs: Value) -> Value {
    json!({
        "name": "at-once",
        "topology": topology,
        "nodes": nodes,
        "job": {"concurrent": jobs},
    })
}

fn collective(name: &str, gpus: impl Into<Value>, what: &str, size: &str) -> Value {
    json!({
        "name": name,
        "gpus": gpus.into(),
        "job": {"collective": {"name": what, "sizes": {"list": [size]}}},
    })
}

fn training(name: &str, gpus: &str) -> Value {
    json!({
        "name": name,
        "gpus": gpus,
        "job": {"training": {
            "model": {"shape": {"layers": 2, "hidden": 4096, "heads": 32, "ffn": 16384,
                "vocabulary": 512, "sequence": 1024}},
            "global_batch": 16, "parallel": {}, "steps": 1,
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

fn run(scenario: &Value) -> Vec<ConcurrentJob> {
    let results = results(scenario).unwrap();
    match &results.summary.variants[0].job {
        JobResult::Concurrent(result) => {
            assert_eq!(result.failed, None);
            result.jobs.clone()
        }
        _ => panic!("jobs at once"),
    }
}

fn refused(scenario: &Value) -> String {
    results(scenario).unwrap_err()
}

fn named(name: &str) -> Value {
    json!({"name": name})
}

#[test]
fn jobs_that_share_no_link_take_what_each_takes_alone() {
    let jobs = json!([
        collective("a", "0-3", "all-reduce", "64MiB"),
        collective("b", "4-7", "all-reduce", "16MiB"),
    ]);
    for job in run(&scenario(named("dgx-h100"), 1, jobs)) {
        assert_eq!(
            job.time_us.to_bits(),
            job.alone_us.to_bits(),
            "{}",
            job.name
        );
        assert_eq!(job.slowdown.to_bits(), 1f64.to_bits(), "{}", job.name);
        assert_eq!(job.shared, None, "{}", job.name);
        assert_eq!(job.rows[0].count, 10);
        assert!(job.time_us > 0.0);
    }
}

#[test]
fn two_pairs_through_one_interface_have_half_of_it_each() {
    let one = |name, gpus: [u32; 2]| collective(name, json!(gpus), "send-recv", "64MiB");
    let jobs = json!([one("a", [0, 4]), one("b", [1, 5])]);
    let jobs = run(&scenario(named("t4-pcie"), 2, jobs));
    // What both move in each direction of the one interface of a node takes as much longer as one of
    // them takes there.
    let of_one = interface_us(64 << 20);
    for job in &jobs {
        let longer = job.time_us - job.alone_us;
        assert!((longer / of_one - 1.0).abs() < 0.01, "{longer} {of_one}");
        let shared = job.shared.as_ref().unwrap();
        assert!(shared.link.contains("nic0"), "{}", shared.link);
    }
    assert_eq!(jobs[0].shared.as_ref().unwrap().with, ["b"]);
    assert_eq!(jobs[0].time_us.to_bits(), jobs[1].time_us.to_bits());
}

/// What so many bytes take through the interface of a t4-pcie node.
fn interface_us(bytes: u64) -> f64 {
    let spec = catalogue::find("t4-pcie").unwrap();
    let overrides = Overrides { nodes: Some(2) };
    let topology = expand(&spec, catalogue::hardware(), &overrides).unwrap();
    let nic = topology.nodes[0].nics[0];
    let links = topology.links_out_of(nic);
    let mut network = links.filter(|&(link, _)| topology.family(link) == LinkFamily::Network);
    let rate = topology.rate(network.next().unwrap().0);
    bytes as f64 / rate.bytes_per_sec() as f64 * 1e6
}

/// Four DGX H100 on two leaves, with so many times fewer cables upwards than downwards.
fn two_leaves(oversubscription: f64) -> Value {
    let spec = catalogue::find("dgx-h100").unwrap();
    let mut machine = serde_json::to_value(&spec).unwrap();
    machine["fabrics"]["compute"]["shape"] =
        json!({"leaf_spine": {"ports_per_leaf": 16, "oversubscription": oversubscription}});
    json!({"inline": machine})
}

/// An all-reduce and a training step, each on a node of both leaves.
fn beside_training() -> Value {
    json!([
        collective("sum", "0-7, 16-23", "all-reduce", "256MiB"),
        training("step", "8-15, 24-31"),
    ])
}

#[test]
fn few_cables_upwards_hold_up_both_jobs() {
    for job in run(&scenario(two_leaves(4.0), 4, beside_training())) {
        assert!(job.slowdown > 1.05, "{}: {}", job.name, job.slowdown);
        let shared = job.shared.unwrap();
        assert!(shared.link.contains("spine"), "{}", shared.link);
    }
}

#[test]
fn with_enough_cables_upwards_neither_job_is_held_up() {
    for job in run(&scenario(two_leaves(1.0), 4, beside_training())) {
        assert_eq!(job.slowdown.to_bits(), 1f64.to_bits(), "{}", job.name);
    }
}

#[test]
fn jobs_one_after_the_other_do_not_hold_each_other_up() {
    let mut late = collective("late", "8-15, 24-31", "all-reduce", "16MiB");
    late["start"] = json!("1s");
    let early = collective("early", "0-7, 16-23", "all-reduce", "16MiB");
    let jobs = run(&scenario(two_leaves(4.0), 4, json!([early, late])));
    for job in &jobs {
        assert_eq!(
            job.time_us.to_bits(),
            job.alone_us.to_bits(),
            "{}",
            job.name
        );
    }
    assert!(jobs[0].end_us < 1e6);
    assert!(jobs.iter().all(|job| job.shared.is_none()));
    assert_eq!(jobs[1].start_us.to_bits(), 1e6f64.to_bits());
    assert!(jobs[1].end_us > 1e6);
}

#[test]
fn a_late_start_changes_nothing_of_a_step() {
    let at_once = run(&scenario(
        named("dgx-h100"),
        1,
        json!([training("a", "0-7")]),
    ));
    let mut late = training("a", "0-7");
    late["start"] = json!("3ms");
    let late = run(&scenario(named("dgx-h100"), 1, json!([late])));
    assert_eq!(late[0].time_us.to_bits(), at_once[0].time_us.to_bits());
    let later = late[0].end_us - at_once[0].end_us;
    assert!((later - 3000.0).abs() < 1e-6, "{later}");
}

/// The same job alone in the list takes what it takes as a scenario of its own.
#[test]
fn a_step_takes_what_it_takes_without_the_list() {
    let jobs = run(&scenario(
        named("dgx-h100"),
        2,
        json!([training("a", "all")]),
    ));
    let mut own = scenario(named("dgx-h100"), 2, Value::Null);
    own["job"] = training("a", "all")["job"].clone();
    let own = results(&own).unwrap();
    let step = own.summary.variants[0].metrics.time_us.unwrap();
    assert!((jobs[0].time_us / step - 1.0).abs() < 1e-9, "{step}");
}

#[test]
fn a_step_is_told_by_the_mean_of_all() {
    let mut job = training("a", "0-7");
    job["job"]["training"]["steps"] = json!(3);
    let jobs = run(&scenario(named("dgx-h100"), 1, json!([job])));
    let steps: Vec<Option<u32>> = jobs[0].rows.iter().map(|row| row.step).collect();
    assert_eq!(steps, [Some(0), Some(1), Some(2)]);
    let all: f64 = jobs[0].rows.iter().map(|row| row.time_us).sum();
    assert!((all / 3.0 - jobs[0].time_us).abs() < 1e-5);
    assert!((all - jobs[0].end_us).abs() < 1e-5);
}

#[test]
fn a_step_that_does_not_fit_is_told() {
    let mut large = training("large", "0-1");
    large["job"]["training"]["model"] = json!({"preset": "llama3-8b"});
    let results = results(&scenario(named("dgx-h100"), 1, json!([large]))).unwrap();
    assert_eq!(results.summary.variants[0].metrics.fits, Some(false));
    let warnings = results.summary.warnings.join("; ");
    assert!(
        warnings.contains("large does not fit into memory"),
        "{warnings}"
    );
}

#[test]
fn sizes_follow_each_other_and_each_has_its_row() {
    let mut job = collective("a", "0-7", "all-reduce", "1MiB");
    job["job"]["collective"]["sizes"] = json!({"from": "1MiB", "to": "4MiB"});
    job["repeat"] = json!(3);
    let jobs = run(&scenario(named("dgx-h100"), 1, json!([job])));
    let sizes: Vec<Option<u64>> = jobs[0].rows.iter().map(|row| row.bytes).collect();
    assert_eq!(sizes, [1u64, 2, 4].map(|mebi| Some(mebi << 20)));
    let all: f64 = jobs[0].rows.iter().map(|row| 3.0 * row.time_us).sum();
    assert!((all - jobs[0].end_us).abs() < 1e-4, "{all}");
    assert_eq!(jobs[0].time_us.to_bits(), jobs[0].rows[2].time_us.to_bits());
}

#[test]
fn faults_are_of_ranks_of_the_machine_and_of_its_links() {
    let jobs = || json!([training("a", "0-3"), training("b", "4-7")]);
    let healthy = run(&scenario(named("dgx-h100"), 1, jobs()));
    let mut slow = scenario(named("dgx-h100"), 1, jobs());
    slow["faults"] = json!([{"slow_gpu": {"ranks": 5, "speed": 0.5}}]);
    let slow = run(&slow);
    assert_eq!(slow[0].time_us.to_bits(), healthy[0].time_us.to_bits());
    assert!(slow[1].time_us > 1.3 * healthy[1].time_us);
    // The fault is there by itself, too.
    assert_eq!(slow[1].slowdown.to_bits(), 1f64.to_bits());
}

#[test]
fn variants_are_compared_job_by_job() {
    let mut scenario = scenario(two_leaves(4.0), 4, beside_training());
    scenario["variants"] = json!([
        {"name": "large", "set": {}},
        {"name": "small", "set": {"job.concurrent.0.job.collective.sizes.list": ["16MiB"]}},
    ]);
    let results = results(&scenario).unwrap();
    let text = summary_text(&results.summary, Some(120), false);
    for expected in [
        "end of all",
        "sum: slowdown",
        "step: by itself",
        "large: Beside",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let csv = points_csv(&results.summary).unwrap();
    assert!(csv.starts_with("variant,job,topology,"), "{csv}");
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[test]
fn the_document_of_a_run_can_be_read_again() {
    let jobs = json!([
        collective("a", [0, 1], "all-gather", "1MiB"),
        training("b", "2-3")
    ]);
    let results = results(&scenario(named("dgx-h100"), 1, jobs)).unwrap();
    let summary = results.summary.reproducible();
    let text = summary_json(&summary).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let jobs = &document["variants"][0]["jobs"];
    assert_eq!(jobs[0]["kind"], "collective");
    assert_eq!(jobs[0]["gpus"], "0-1");
    assert_eq!(jobs[1]["kind"], "training");
    assert_eq!(
        document["variants"][0]["metrics"]["time_us"],
        document["variants"][0]["end_us"]
    );
    let again: Summary = serde_json::from_str(&text).unwrap();
    assert_eq!(again, summary);
    assert_eq!(results.job_timelines().len(), 1);
}

#[test]
fn what_is_wrong_with_a_list_of_jobs_is_told_with_its_place() {
    let of = |jobs: Value| refused(&scenario(named("dgx-h100"), 1, jobs));
    let sum = |name: &str, gpus: Value| collective(name, gpus, "all-reduce", "1MiB");
    let told = |error: String, parts: &[&str]| {
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    told(
        of(json!([sum("a", json!("0-8"))])),
        &["job.concurrent[0].gpus", "found:    8", "0 to 7"],
    );
    told(
        of(json!([sum("a", json!([]))])),
        &["job.concurrent[0].gpus", "no rank", "at least one"],
    );
    told(
        of(json!([])),
        &["job.concurrent", "no job", "1 to 1000 jobs"],
    );
    told(
        of(json!([sum("a", json!(0)), sum("a", json!(1))])),
        &["job.concurrent[1].name", "`a` again", "another name"],
    );
    let nested = json!([{"name": "a", "gpus": 0, "job": {"concurrent": []}}]);
    told(
        of(nested),
        &[
            "job.concurrent[0].job.concurrent",
            "`collective`, `training` or `serving`",
        ],
    );
    let mut wrong = training("a", "0-2");
    wrong["repeat"] = json!(3);
    told(of(json!([wrong])), &["job.concurrent[0].repeat", "none"]);
    told(
        of(json!([training("a", "0-2")])),
        &["job.concurrent[0].job.training."],
    );
    let sizes = collective("a", "0-3", "all-reduce", "0B");
    told(
        of(json!([sizes])),
        &[
            "job.concurrent[0].job.collective.sizes.list[0]",
            "at least 1B",
        ],
    );
}

/// Four servers with two interfaces each, two of them on each leaf, whose leaves have so many cables up, each
/// to a spine of its own.
fn leaves(up: u32) -> Value {
    let text = std::fs::read_to_string("topologies/x86-h100-pcie.json").unwrap();
    let mut topology: Value = serde_json::from_str(&text).unwrap();
    topology["instances"][0]["count"] = 4.into();
    topology["fabrics"]["compute"]["shape"] = json!({"leaf_spine": {
        "ports_per_leaf": 4, "oversubscription": 4 / up, "spines": up}});
    json!({"inline": topology})
}

fn stream(name: &str, gpus: &str, bytes: u64) -> Value {
    json!({"name": name, "gpus": gpus, "job": {"stream": {"bytes": format!("{bytes}B")}}})
}

/// Bytes a second that the cables of these networks carry.
fn cable() -> f64 {
    let name = catalogue::find("x86-h100-pcie").unwrap();
    let overrides = Overrides { nodes: Some(2) };
    let machine = expand(&name, catalogue::hardware(), &overrides).unwrap();
    let mut links = machine.links().map(|(link, _)| link);
    let link = links.find(|&link| machine.family(link) == LinkFamily::Network);
    machine.rate(link.unwrap()).bytes_per_sec() as f64
}

fn near(found_us: f64, seconds: f64) {
    let expected = seconds * 1e6;
    assert!(
        (found_us - expected).abs() < 1e-6 * expected + 1e-5,
        "{found_us} is not {expected}"
    );
}

#[test]
fn jobs_that_share_a_spine_get_what_max_min_sharing_leaves_them() {
    const S: u64 = 1 << 30;
    let jobs = json!([
        stream("one", "0, 16", S),
        stream("two", "8, 12, 24, 28", S / 2),
    ]);
    let mut scenario = scenario(leaves(1), 4, jobs);
    scenario["isolation"] = "none".into();
    let jobs = run(&scenario);
    // Three transfers over one cable: a third each, until those of half the size are through at
    // 3 · S / 2; the other one's second half has the cable for itself. By themselves S each.
    let time = S as f64 / cable();
    near(jobs[0].time_us - jobs[0].alone_us, time);
    near(jobs[1].time_us - jobs[1].alone_us, time / 2.0);
    assert!(
        (jobs[0].slowdown - 2.0).abs() < 1e-3,
        "{}",
        jobs[0].slowdown
    );
    assert!(
        (jobs[1].slowdown - 1.5).abs() < 1e-3,
        "{}",
        jobs[1].slowdown
    );
    // A spine each: nothing of one is felt by the other, to the picosecond.
    let mut apart = scenario;
    apart["topology"] = leaves(2);
    for (isolation, whole) in [("partition", 1.0), ("rails", 1.0)] {
        apart["isolation"] = isolation.into();
        let jobs = run(&apart);
        for job in &jobs {
            assert_eq!(job.time_us, job.alone_us, "{isolation}: {}", job.name);
            // These rails have leaves in common, whose cables have room for both.
            let shares = isolation == "rails";
            assert_eq!((job.slowdown, job.shared.is_some()), (1.0, shares));
        }
        // One transfer of one interface needs no more than a cable.
        let own = jobs[0].whole_us.unwrap();
        assert!((jobs[0].time_us / own - whole).abs() < 1e-3, "{isolation}");
    }
}

#[test]
fn it_is_said_who_slows_whom_and_by_how_much() {
    const S: u64 = 1 << 28;
    let jobs = json!([
        stream("a", "0, 16", S),
        stream("b", "8, 24", S),
        stream("c", "12, 28", S),
    ]);
    let mut scenario = scenario(leaves(1), 4, jobs);
    scenario["isolation"] = "none".into();
    let time = S as f64 / cable();
    for job in run(&scenario) {
        // Each of the others adds as much as it moves.
        let waterfall = job.waterfall.unwrap();
        let named: Vec<&str> = waterfall
            .parts
            .iter()
            .map(|part| part.cause.as_str())
            .collect();
        let others: Vec<&str> = ["a", "b", "c"]
            .into_iter()
            .filter(|o| *o != job.name)
            .collect();
        let big = waterfall
            .parts
            .iter()
            .filter(|part| part.time.0 > 1_000_000);
        let mut causes: Vec<&str> = big.clone().map(|part| part.cause.as_str()).collect();
        causes.sort_unstable();
        assert_eq!(causes, others, "{named:?}");
        for part in big {
            near(part.time.seconds() * 1e6, time);
        }
        let sum: i64 = waterfall.parts.iter().map(|part| part.time.0).sum();
        let end = (job.time_us * 1e6).round() as i64;
        assert_eq!(waterfall.begin.0 + sum, end);
    }
}

#[test]
fn training_with_rails_or_spines_of_its_own_feels_no_neighbour() {
    let (scenario, folder) =
        experiment::catalogue::find(Path::new("noisy-neighbour"), &[]).unwrap();
    let experiment = validate(scenario, &folder).unwrap();
    let outputs = Outputs::of([]);
    let budget = Budget::default();
    let results = experiment::run(&experiment, &budget, &outputs, &mut Silent).unwrap();
    let of = |variant: usize| match &results.summary.variants[variant].job {
        JobResult::Concurrent(result) => result.jobs.clone(),
        _ => panic!("jobs at once"),
    };
    let shared = of(0);
    assert!(shared[0].slowdown > 1.4, "{}", shared[0].slowdown);
    let link = &shared[0].shared.as_ref().unwrap().link;
    assert!(link.contains("spine"), "{link}");
    for variant in [1, 2] {
        for job in of(variant) {
            assert_eq!(job.time_us, job.alone_us, "{}", job.name);
            assert_eq!((job.slowdown, job.shared), (1.0, None));
        }
    }
    // What isolation costs: half of the interfaces.
    let rails = &of(1)[0];
    assert!(rails.time_us > 1.3 * rails.whole_us.unwrap());
    // It is said of every job that has less.
    for job in of(1) {
        let times = format!(" {:.2} ×", job.time_us / job.whole_us.unwrap());
        assert!(
            results.summary.answer.contains(&times),
            "{}: {times}",
            job.name
        );
    }
}

/// Llama 3 8B on these GPUs: prompts on the first half, whose KV caches go to the second half.
fn serving(gpus: &str) -> Value {
    json!({"name": "serves", "gpus": gpus, "job": {"serving": {
        "model": {"preset": "llama3-8b"},
        "engine": {"pass_time": {"fixed": {"prefill": "5ms", "decode": "1ms"}}, "num_gpu_blocks": 65536},
        "pools": [
            {"role": "prefill", "replicas": 1, "parallel": {"tp": 1}},
            {"role": "decode", "replicas": 1, "parallel": {"tp": 1}}
        ],
        "handover": {"posting": "0s", "latency": "0s", "setup": "0s"},
        "load": {"closed": {"concurrency": 2}},
        "requests": 12,
        "lengths": {"input": 8192, "output": 4}
    }}})
}

#[test]
fn serving_with_rails_or_spines_of_its_own_feels_no_neighbour() {
    // Interfaces of their own, and one cable between the leaves.
    let jobs = json!([serving("0, 16"), stream("noise", "4, 20", 8 << 30)]);
    let mut shared = scenario(leaves(1), 4, jobs);
    shared["isolation"] = "none".into();
    let jobs = run(&shared);
    let all_network = jobs[0].alone_us;
    for job in &jobs {
        assert!(job.slowdown > 1.05, "{}: {}", job.name, job.slowdown);
        assert!(job.shared.as_ref().unwrap().link.contains("spine"));
    }
    let mut apart = shared;
    apart["topology"] = leaves(2);
    for isolation in ["partition", "rails"] {
        apart["isolation"] = isolation.into();
        let jobs = run(&apart);
        for job in &jobs {
            for row in &job.rows {
                assert_eq!(row.time_us, row.alone_us, "{isolation}: {}", job.name);
            }
            assert_eq!((job.time_us, job.slowdown), (job.alone_us, 1.0));
        }
        // A hand-over goes over one interface and one cable either way.
        assert_eq!(jobs[0].time_us, all_network, "{isolation}");
        assert_eq!(jobs[0].whole_us, Some(all_network), "{isolation}");
    }
    // The interface next to these GPUs is dealt to the other job: the way leads through the other socket.
    let jobs = json!([serving("4, 20"), stream("noise", "0, 16", 8 << 30)]);
    apart["job"] = json!({"concurrent": jobs});
    for job in run(&apart) {
        let whole = job.whole_us.unwrap();
        assert_eq!(job.time_us, job.alone_us, "{}", job.name);
        assert!(job.time_us > 1.01 * whole, "{} {whole}", job.time_us);
    }
}

#[test]
fn passes_of_engines_go_over_the_interfaces_of_their_job() {
    // Tensor parallelism over two nodes, whose GPUs have an interface each if all are theirs.
    let mut serves = serving("0, 4, 16, 20");
    let job = &mut serves["job"]["serving"];
    job["engine"] = json!({});
    job["pools"] = json!([{"role": "both", "replicas": 1, "parallel": {"tp": 4}}]);
    let jobs = json!([serves, stream("noise", "8, 24", 8 << 30)]);
    let mut scenario = scenario(leaves(2), 4, jobs);
    scenario["isolation"] = "rails".into();
    let jobs = run(&scenario);
    let whole = jobs[0].whole_us.unwrap();
    assert_eq!(jobs[0].time_us, jobs[0].alone_us);
    assert!(jobs[0].time_us > 1.1 * whole, "{} {whole}", jobs[0].time_us);
}

#[test]
fn it_is_said_who_slows_serving() {
    let jobs = json!([
        stream("a", "8, 24", 8 << 30),
        serving("0, 16"),
        stream("b", "12, 28", 8 << 30),
    ]);
    let mut scenario = scenario(leaves(1), 4, jobs);
    scenario["isolation"] = "none".into();
    let jobs = run(&scenario);
    for (job, others) in [(0, ["b", "serves"]), (1, ["a", "b"]), (2, ["a", "serves"])] {
        let waterfall = jobs[job].waterfall.as_ref().unwrap();
        let parts = waterfall.parts.iter();
        let big = parts.filter(|part| part.time.0 > 1_000_000 && part.cause != "several at once");
        let mut causes: Vec<&str> = big.map(|part| part.cause.as_str()).collect();
        causes.sort_unstable();
        assert_eq!(causes, others, "{}", jobs[job].name);
        let sum: i64 = waterfall.parts.iter().map(|part| part.time.0).sum();
        let end = (jobs[job].time_us * 1e6).round() as i64;
        assert_eq!(waterfall.begin.0 + sum, end);
    }
}

#[test]
fn isolation_that_cannot_be_is_refused() {
    let two = json!([stream("a", "0, 16", 1 << 20), stream("b", "8, 24", 1 << 20)]);
    for (jobs, up, isolation, expected) in [
        (
            two.clone(),
            1,
            "partition",
            "partitions of 2 jobs in compute, which has 1 switch",
        ),
        (
            json!([
                stream("a", "0, 16", 1),
                stream("b", "8, 24", 1),
                stream("c", "9, 25", 1)
            ]),
            1,
            "rails",
            "rails of 3 jobs on node0, which has 2 network interfaces",
        ),
        (
            json!([stream("a", "0-2", 1)]),
            1,
            "none",
            "3 GPUs of a stream",
        ),
        (
            json!([stream("a", "0-1", 0)]),
            1,
            "none",
            "job.concurrent[0].job.stream.bytes",
        ),
    ] {
        let mut scenario = scenario(leaves(up), 4, jobs);
        scenario["isolation"] = isolation.into();
        let error = results(&scenario).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let mut alone = json!({"name": "t", "topology": {"name": "dgx-h100"},
        "job": {"stream": {"bytes": "1GiB"}}});
    let error = results(&alone).unwrap_err();
    assert!(error.contains("one of `job.concurrent`"), "{error}");
    alone["job"] = json!({"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}});
    alone["isolation"] = "rails".into();
    let error = results(&alone).unwrap_err();
    assert!(
        error.contains("isolation of a job of the kind `collective`"),
        "{error}"
    );
}
