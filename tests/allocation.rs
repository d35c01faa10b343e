//! Jobs on some nodes of a machine, and ranks in other orders.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::{Outputs, Results};
use serde_json::{Value, json};
use std::path::Path;

fn results(scenario: &Value) -> Result<Results, String> {
    let told = |error: experiment::ScenarioError| error.to_string();
    let scenario = parse(&scenario.to_string(), "test.json", &[]).map_err(told)?;
    let experiment = validate(scenario, Path::new("")).map_err(told)?;
    let outputs = Outputs::default();
    experiment::run(&experiment, &Budget::default(), &outputs, &mut Silent).map_err(told)
}

/// A cold send of 8 B from one node of a machine of 64 DGX H100 to another one.
fn sent(allocation: Value) -> f64 {
    let scenario = json!({
        "name": "sent", "topology": {"name": "dgx-h100"}, "nodes": 64, "gpus_per_node": 1,
        "allocation": allocation,
        "job": {"collective": {"name": "send-recv-halves", "sizes": {"list": ["8B"]}, "isolated": true}},
    });
    let results = results(&scenario).unwrap();
    assert_eq!(results.summary.variants[0].nodes, 2);
    results.summary.variants[0].metrics.time_us.unwrap()
}

/// Quantum-2 leaves of a unit hold 32 nodes; between units there is a spine, and another leaf:
/// two cables of 150 ns and two switches of 200 ns more.
#[test]
fn a_fragmented_allocation_pays_for_the_switches_between() {
    let near = sent(json!({"nodes": "0, 31"}));
    assert!((sent(json!({"nodes": [0, 1]})) - near).abs() < 1e-9);
    let far = sent(json!({"nodes": "0, 32"}));
    let machine = experiment::machine_of(
        &experiment::TopologyRef::Name("dgx-h100".to_owned()),
        Path::new(""),
        "test",
    );
    let machine = machine.unwrap();
    let (_, cable) = machine
        .link_models
        .iter()
        .find(|(name, _)| name == "ib-ndr400")
        .unwrap();
    let leaf = machine.fabrics[0].switches[0];
    let hop = cable.latency.value.micros() + machine.transit_latency(leaf).micros();
    assert!((far - near - 2.0 * hop).abs() < 1e-4, "{near} {far} {hop}");
}

fn training(allocation: Value) -> Value {
    json!({
        "name": "placed", "topology": {"name": "dgx-h100"}, "nodes": 4,
        "allocation": allocation,
        "job": {"training": {
            "model": {"shape": {"layers": 4, "hidden": 4096, "heads": 32, "ffn": 16384,
                "vocabulary": 512, "sequence": 2048}},
            "micro_batch": 1, "global_batch": 16, "steps": 1,
            "parallel": {"tp": 8}, "data_parallel": {"zero": {}},
        }},
    })
}

fn step(allocation: Value) -> f64 {
    let results = results(&training(allocation)).unwrap();
    results.summary.variants[0].metrics.time_us.unwrap()
}

/// A tensor-parallel group is eight ranks that follow each other: on one node by `block`, on four by
/// `cyclic`, whose all-reduces go over the network.
#[test]
fn tensor_parallel_groups_want_their_ranks_on_one_node() {
    let block = step(json!({"distribution": "block"}));
    assert_eq!(block.to_bits(), step(json!({})).to_bits());
    // All nodes are alike.
    assert_eq!(
        block.to_bits(),
        step(json!({"distribution": "shuffled"})).to_bits()
    );
    let cyclic = step(json!({"distribution": "cyclic"}));
    assert!(cyclic > 1.3 * block, "{block} {cyclic}");
    // The same GPUs by hand.
    assert_eq!(block.to_bits(), step(json!({"gpus": "0-31"})).to_bits());
}

/// Rings of one communicator go through one host after the other, wherever its ranks are.
#[test]
fn an_all_reduce_of_all_ranks_does_not_mind_their_order() {
    let time = |distribution: &str| {
        let scenario = json!({
            "name": "order", "topology": {"name": "dgx-h100"}, "nodes": 4,
            "allocation": {"distribution": distribution},
            "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["256MiB"]}}},
        });
        let results = results(&scenario).unwrap();
        results.summary.variants[0].metrics.time_us.unwrap()
    };
    let (block, cyclic) = (time("block"), time("cyclic"));
    assert!((cyclic / block - 1.0).abs() < 0.01, "{block} {cyclic}");
}

#[test]
fn scattered_nodes_are_drawn_by_the_seed() {
    let gpus = |seed: u64| {
        let mut scenario = training(json!({"scattered": 2}));
        scenario["seed"] = seed.into();
        let scenario = parse(&scenario.to_string(), "test.json", &[]).unwrap();
        let experiment = validate(scenario, Path::new("")).unwrap();
        let job = &experiment.variants[0].job;
        let experiment::ValidJob::Training(job) = job else {
            panic!("a training job");
        };
        job.gpus.clone()
    };
    assert_eq!(gpus(1), gpus(1));
    assert_eq!(gpus(1).len(), 16);
    assert!((2..20).any(|seed| gpus(seed) != gpus(1)));
}

#[test]
fn what_is_not_there_cannot_be_allocated() {
    let cases = [
        (
            json!({"nodes": "2-4"}),
            "allocation.nodes",
            "nodes of the machine, 0 to 3",
        ),
        (
            json!({"gpus": "0-40"}),
            "allocation.gpus",
            "GPUs of the machine, 0 to 31",
        ),
        (
            json!({"scattered": 0}),
            "allocation.scattered",
            "1 to 4, the nodes",
        ),
        (
            json!({"scattered": 5}),
            "allocation.scattered",
            "1 to 4, the nodes",
        ),
        (
            json!({"nodes": "0", "gpus": "1"}),
            "nodes and gpus",
            "one of `nodes`",
        ),
        (
            json!({"nodes": "0-2", "order": "x"}),
            "allocation",
            "unknown field `order`",
        ),
    ];
    for (allocation, place, expected) in cases {
        let error = results(&training(allocation)).unwrap_err();
        assert!(error.contains(place) && error.contains(expected), "{error}");
    }
}

/// The flags have Slurm's names.
#[test]
fn flags_say_the_same() {
    let run = |args: &[&str]| {
        let mut command = Command::cargo_bin("fabricsim").unwrap();
        command.args([
            "collective",
            "all-reduce",
            "-t",
            "superpod-h100",
            "--size",
            "1M",
            "--json",
        ]);
        let output = command.args(args).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = run(&["--nodelist", "0-1,5", "--distribution", "cyclic"]);
    assert_eq!(code, Some(0), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&document["ranks"], &document["nodes"]),
        (&24.into(), &3.into())
    );
    assert_eq!(run(&["--nodelist", "40"]).0, Some(2));
}
