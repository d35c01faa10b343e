//! The search for layouts finds what simulating all of them finds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::budget::Budget;
use fabricsim::experiment::optimize::{Ask, optimize};
use fabricsim::experiment::sweep::{AxisSpec, parse_axis};
use fabricsim::experiment::{Machines, Scenario, TopologyRef, parse};
use fabricsim::report::optimize::{Optimized, Reason};
use serde_json::{Value, json};
use std::path::Path;

/// A space that is small enough to be simulated whole.
struct Small {
    model: &'static str,
    machine: &'static str,
    gpus: u32,
    global_batch: u32,
    over: &'static [&'static str],
}

const SPACES: [Small; 4] = [
    Small {
        model: "llama3-8b",
        machine: "dgx-h100",
        gpus: 16,
        global_batch: 64,
        over: &[
            "tp=1,2,4,8",
            "pp=1,2",
            "virtual_stages=1,2",
            "micro_batch=1,2",
        ],
    },
    Small {
        model: "mixtral-8x7b",
        machine: "dgx-h100",
        gpus: 32,
        global_batch: 64,
        over: &[
            "tp=1,2,4",
            "pp=1,2,4",
            "ep=1,2,8",
            "virtual_stages=1",
            "micro_batch=1,2",
        ],
    },
    Small {
        model: "llama3-70b",
        machine: "gb200-nvl72",
        gpus: 72,
        global_batch: 72,
        over: &[
            "tp=2,4,8",
            "pp=1,2,4",
            "virtual_stages=1,2",
            "micro_batch=1",
            "sharding=zero,fsdp",
        ],
    },
    Small {
        model: "llama3-8b",
        machine: "dgx-a100",
        gpus: 64,
        global_batch: 128,
        over: &[
            "tp=1,2,4",
            "cp=1,2",
            "pp=1,2",
            "virtual_stages=1",
            "micro_batch=1,2",
        ],
    },
];

fn scenario(space: &Small) -> Scenario {
    let text = json!({
        "name": "small",
        "topology": { "name": space.machine },
        "job": { "training": {
            "model": { "preset": space.model },
            "global_batch": space.global_batch,
            "sequence": 4096,
            "flash_version": 2,
            "parallel": { "sequence_parallel": true },
        } }
    });
    parse(&text.to_string(), "small.json", &[]).unwrap()
}

fn found(space: &Small, exhaustive: bool) -> Optimized {
    let machines = [TopologyRef::Name(space.machine.to_owned())];
    let over: Vec<AxisSpec> = space
        .over
        .iter()
        .map(|text| parse_axis(text).unwrap())
        .collect();
    let ask = Ask {
        machines: &machines,
        gpus: space.gpus,
        objective: "tokens_per_s_per_gpu",
        top: 3,
        over: &over,
        exhaustive,
    };
    let scenario = scenario(space);
    let how = (&Budget::default(), &Machines::default());
    let at = (&scenario, Path::new(""));
    optimize(at, ask, how, &|_| {}).unwrap().0
}

fn count(found: &Optimized, reason: Reason) -> u64 {
    let pruned = found.pruned.iter().find(|pruned| pruned.by == reason);
    pruned.map_or(0, |pruned| pruned.count)
}

#[test]
fn the_search_finds_what_simulating_everything_finds() {
    for space in &SPACES {
        let (all, some) = (found(space, true), found(space, false));
        let told = format!("{} on {} {}", space.model, space.gpus, space.machine);
        println!(
            "{told}: {} layouts, {} simulated of {} that fit, bound at most {:.3}",
            some.searched,
            some.simulated,
            all.simulated,
            all.tightest_bound.unwrap()
        );
        assert!(all.simulated > 10 && all.simulated <= 500, "{told}");
        assert_eq!(count(&all, Reason::Bound), 0, "{told}");
        assert_eq!(some.best, all.best, "{told}");
        assert!(some.simulated < all.simulated, "{told}");
        // No step is faster than its bound.
        assert!(all.tightest_bound.unwrap() <= 1.0, "{told}");
        for found in [&all, &some] {
            let pruned: u64 = found.pruned.iter().map(|pruned| pruned.count).sum();
            assert_eq!(found.searched, found.simulated + pruned, "{told}");
        }
    }
}

fn fabricsim(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).env_remove("CLICOLOR_FORCE");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn the_best_layout_is_a_scenario_that_gives_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("best");
    let target = target.to_str().unwrap();
    let (code, out, err) = fabricsim(&[
        "optimize",
        "gpt2-124m",
        "-t",
        "dgx-h100",
        "--gpus",
        "8",
        "--global-batch",
        "64",
        "--over",
        "tp=1,2",
        "--over",
        "pp=1",
        "--top",
        "1",
        "--json",
        "-o",
        target,
    ]);
    assert_eq!(code, 0, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["format"], 2);
    let best = &found["best"][0];
    let (code, out, err) = fabricsim(&[
        "run",
        &format!("{target}/best-1-dgx-h100.json"),
        "--json",
        "--outputs",
        "summary",
        "-o",
        &format!("{target}-run"),
    ]);
    assert_eq!(code, 0, "{err}");
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        summary["variants"][0]["metrics"]["time_us"],
        best["metrics"]["time_us"]
    );
    assert_eq!(summary["variants"][0]["metrics"], best["metrics"]);
}

#[test]
fn what_cannot_be_searched_is_refused_with_the_nearest_name() {
    let job = ["optimize", "gpt2-124m", "-t", "dgx-h100", "--gpus", "8"];
    let with = |more: &[&'static str]| fabricsim(&[&job[..], more].concat());
    let (code, _, err) = with(&[]);
    assert!(code == 2 && err.contains("--global-batch"), "{err}");
    let (code, _, err) = with(&["--global-batch", "8", "--objective", "tokens_per_sec"]);
    assert!(code == 2 && err.contains("`tokens_per_s`?"), "{err}");
    let (code, _, err) = with(&["--global-batch", "8", "--over", "microbatch=1"]);
    assert!(code == 2 && err.contains("`micro_batch`?"), "{err}");
    let (code, _, err) = fabricsim(&["optimize", "allreduce-dgx-h100", "--gpus", "8"]);
    assert!(code == 2 && err.contains("`collective`"), "{err}");
    // Nothing fits: the answer is a failure, and says what is nearest.
    let (code, out, _) = fabricsim(&[
        "optimize",
        "llama3-405b",
        "-t",
        "dgx-h100",
        "--gpus",
        "8",
        "--global-batch",
        "8",
    ]);
    assert!(code == 1 && out.contains("the nearest lacks"), "{out}");
}

/// Layouts of Llama 3 70B that people would write by hand, as the shipped sweep has them.
#[test]
fn the_search_is_no_worse_than_layouts_made_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("hand");
    let run = ["sweep", "run", "layouts-llama3-70b", "--json", "-o"];
    let (code, out, err) = fabricsim(&[&run[..], &[target.to_str().unwrap()]].concat());
    assert_eq!(code, 0, "{err}");
    let sweep: Value = serde_json::from_str(&out).unwrap();
    let (code, out, err) = fabricsim(&[
        "optimize",
        "nvl72-vs-dgx-h100-llama3-70b",
        "-t",
        "dgx-h100",
        "-t",
        "gb200-nvl72",
        "--gpus",
        "72",
        "--over",
        "tp=2,4,8",
        "--over",
        "virtual_stages=1",
        "--over",
        "micro_batch=1",
        "--top",
        "1",
        "--json",
    ]);
    assert_eq!(code, 0, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let rate = |row: &Value| row["tokens_per_s_per_gpu"].as_f64().unwrap_or(0.0);
    for best in found["best"].as_array().unwrap() {
        let mut compared = 0;
        for point in sweep["points"].as_array().unwrap() {
            for row in point["rows"].as_array().into_iter().flatten() {
                if row["topology"] == best["topology"] && row["fits"] == true {
                    assert!(rate(&best["metrics"]) >= rate(row), "{best} {row}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "{best}");
    }
}
