//! The search for layouts finds what simulating all of them finds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::budget::Budget;
use fabricsim::experiment::optimize::{Ask, Size, optimize};
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
    // Buckets are tried with the fastest of those that were simulated, which are more of all.
    let over: Vec<AxisSpec> = space
        .over
        .iter()
        .chain(&["bucket=null"])
        .map(|text| parse_axis(text).unwrap())
        .collect();
    let ask = Ask {
        machines: &machines,
        sizes: &[Size::Gpus(space.gpus)],
        oversubscription: &[],
        limits: &[],
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
    for (over, near) in [
        ("recompute=ful", "`full`?"),
        ("sharding=ddq", "`ddp`?"),
        ("offload=optimiser", "`optimizer`?"),
        ("tp=0", "numbers from 1 on"),
        ("bucket=large", "sizes such as 25MiB"),
    ] {
        let (code, _, err) = with(&["--global-batch", "8", "--over", over]);
        assert!(code == 2 && err.contains(near), "{err}");
    }
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

/// GPT-2 on one or two servers, with little to search.
fn gpt2(more: &[&str]) -> (i32, String, String) {
    let job = ["optimize", "gpt2-124m", "--global-batch", "64", "--json"];
    let less = [
        "--over",
        "tp=1",
        "--over",
        "pp=1",
        "--over",
        "micro_batch=1,2",
    ];
    fabricsim(&[&job[..], &less, more].concat())
}

fn document(more: &[&str]) -> Value {
    let (code, out, err) = gpt2(more);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn numbers_of_gpus_and_networks_are_searched_as_if_each_were_asked_for() {
    let at = ["-t", "superpod-h100"];
    let both = ["--nodes", "1,2", "--oversubscription", "1,4"];
    let found = document(&[&at[..], &both].concat());
    let clusters = found["clusters"].as_array().unwrap();
    let gpus: Vec<u64> = clusters
        .iter()
        .map(|c| c["gpus"].as_u64().unwrap())
        .collect();
    assert_eq!(gpus, [8, 16, 8, 16]);
    for cluster in clusters {
        let (gpus, ratio) = (&cluster["gpus"], &cluster["oversubscription"]);
        let (gpus, ratio) = (gpus.to_string(), ratio.to_string());
        let one = ["--gpus", &gpus, "--oversubscription", &ratio];
        let one = document(&[&at[..], &one].concat());
        assert!(one.get("clusters").is_none());
        assert_eq!(one["best"][0]["metrics"], cluster["metrics"]);
        assert_eq!(one["best"][0]["layout"], cluster["layout"]);
    }
    // A narrower network is a smaller one; a server by itself needs none.
    let network = |index: usize| clusters[index]["network_usd"].as_f64().unwrap();
    assert!(network(3) < network(1), "{clusters:?}");
    assert_eq!([network(0), network(2)], [0.0; 2]);
    let rate = |best: &Value| best["metrics"]["tokens_per_s_per_gpu"].as_f64().unwrap();
    let best = found["best"].as_array().unwrap();
    assert_eq!(best.len(), 4);
    assert!(best.windows(2).all(|two| rate(&two[0]) >= rate(&two[1])));
    let answer = found["answer"].as_str().unwrap();
    for part in [
        "16 GPUs give",
        "per M tokens",
        "Beside 1, oversubscription 4 costs",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
}

#[test]
fn a_budget_leaves_out_what_is_above_it_or_says_how_many_gpus_there_are() {
    // 2.50 dollars a GPU-hour: 20 for one server, 40 for two.
    let at = ["-t", "dgx-h100", "--set", "dollars_per_gpu_hour=2.5"];
    let with = |more: &[&'static str]| [&at[..], more].concat();
    let found = document(&with(&[
        "--gpus",
        "8,16",
        "--budget",
        "usd_per_hour=30",
        "--over",
        "bucket=null",
    ]));
    assert_eq!(found["best"].as_array().unwrap().len(), 1);
    assert_eq!(found["best"][0]["gpus"], 8);
    let over = &found["clusters"][1];
    assert_eq!(over["why"], "budget");
    let expected = json!([{ "what": "usd_per_hour", "needs": 40.0, "budget": 30.0 }]);
    assert_eq!(over["over"], expected);
    let pruned = found["pruned"].as_array().unwrap();
    let by = |reason: &str| pruned.iter().find(|p| p["by"] == reason).unwrap()["count"].clone();
    // Half of what is searched is on the machine that is left out.
    let count = by("budget").as_u64().unwrap();
    assert_eq!(found["searched"].as_u64(), Some(2 * count));

    // Seven servers are paid, of which four divide the batch; the most tokens per second are asked for.
    let found = document(&with(&[
        "--budget",
        "usd_per_hour=150",
        "--budget",
        "kw=80",
    ]));
    assert_eq!(found["objective"], "tokens_per_s");
    assert_eq!(
        found["budget"],
        json!({ "kw": 80.0, "usd_per_hour": 150.0 })
    );
    let clusters = found["clusters"].as_array().unwrap();
    let nodes: Vec<u64> = clusters
        .iter()
        .map(|c| c["nodes"].as_u64().unwrap())
        .collect();
    assert_eq!(nodes, [7, 6, 5, 4, 2, 1]);
    assert!(clusters.iter().all(|c| c.get("over").is_none()));
    assert_eq!(clusters[0]["why"], "division");
    assert_eq!(found["best"][0]["gpus"], 32);
    let answer = found["answer"].as_str().unwrap();
    let pays = "The budget pays 56 GPUs of dgx-h100, of which layouts can use 32.";
    assert!(answer.contains(pays), "{answer}");

    // One server draws 8.3 kW; nothing of a network for 32 is powered for it, but is for two.
    let found = document(&with(&["--budget", "kw=20"]));
    let clusters = found["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 1);
    assert_eq!(found["best"][0]["gpus"], 8);
    let kw = clusters[0]["kw"].as_f64().unwrap();
    assert!((kw - 8.277_304).abs() < 1e-3, "{kw}");
    assert_eq!(clusters[0]["network_usd"], 0.0);
    let (code, out, _) = gpt2(&with(&["--budget", "kw=1"]));
    assert!(code == 1 && out.contains("no GPUs of dgx-h100"), "{out}");
    // What is not known is asked for.
    let unknown = ["-t", "dgx-a100", "--gpus", "8", "--budget", "kw=100"];
    let (code, _, err) = gpt2(&unknown);
    let place = "--set 'hardware.devices.nvswitch2.nvswitch.power.busy=";
    assert!(code == 2 && err.contains(place), "{err}");
}

#[test]
fn other_buckets_are_tried_for_the_fastest_and_told() {
    let at = [
        "-t",
        "dgx-h100",
        "--gpus",
        "16",
        "--over",
        "sharding=ddp,zero",
    ];
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("found");
    let target = target.to_str().unwrap();
    let found = document(&[&at[..], &["-o", target]].concat());
    assert!(found["bucketed"].as_u64().unwrap() > 0);
    let answer = found["answer"].as_str().unwrap();
    assert!(answer.contains("Bucket sizes were tried for"), "{answer}");
    let pruned = found["pruned"].as_array().unwrap();
    let pruned: u64 = pruned.iter().map(|p| p["count"].as_u64().unwrap()).sum();
    let simulated = found["simulated"].as_u64().unwrap();
    assert_eq!(found["searched"].as_u64(), Some(simulated + pruned));
    // It is no worse than with the usual buckets, and the file of the best has its own.
    let usual = document(&[&at[..], &["--over", "bucket=null"]].concat());
    assert_eq!(usual["bucketed"], 0);
    let time = |found: &Value| found["best"][0]["metrics"]["time_us"].as_f64().unwrap();
    assert!(time(&found) < time(&usual), "{answer}");
    let file = std::fs::read_to_string(format!("{target}/best-1-dgx-h100.json")).unwrap();
    let scenario: Value = serde_json::from_str(&file).unwrap();
    let layout = &found["best"][0]["layout"];
    let sharding = layout["sharding"].as_str().unwrap();
    let own = &scenario["job"]["training"]["data_parallel"][sharding]["bucket"];
    assert_eq!(own.as_str().and_then(bytes), layout["bucket"].as_u64());

    // The page has the answer, both pictures and every layout that was simulated.
    let page = std::fs::read_to_string(format!("{target}/report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    let layouts = page.split("<section class=\"points\">").nth(1).unwrap();
    let layouts = layouts.split("</section>").next().unwrap();
    assert_eq!(layouts.matches("<tr").count() as u64, simulated + 1);
    let lead = answer.split(". ").next().unwrap();
    assert!(page.contains(&format!("<p class=\"lead\">{lead}.</p>")));
}

/// Llama 3 8B has 128 GB of states, of which an H100 holds 80.
#[test]
fn where_nothing_fits_states_are_tried_in_the_hosts_memory() {
    let job = ["optimize", "llama3-8b", "-t", "dgx-h100", "--gpus", "1"];
    let less = ["--global-batch", "4", "--sequence", "2048", "--over"];
    let with = |more: &[&str]| {
        let args = [
            &job[..],
            &less,
            &["micro_batch=1,2", "--top", "40", "--json"],
            more,
        ]
        .concat();
        let (code, out, err) = fabricsim(&args);
        (code, serde_json::from_str::<Value>(&out).unwrap(), err)
    };
    let (code, found, err) = with(&[]);
    assert_eq!(code, 0, "{err}");
    let all: Vec<&str> = found["best"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| choice["layout"]["offload"].as_str().unwrap())
        .collect();
    assert!(
        all.contains(&"optimizer") && all.contains(&"parameters"),
        "{all:?}"
    );
    let answer = found["answer"].as_str().unwrap();
    for part in [
        "optimizer on the CPU",
        "No layout fits into the memory of these GPUs alone",
    ] {
        assert!(answer.contains(part), "{answer}");
    }
    let pruned = found["pruned"].as_array().unwrap();
    let pruned: u64 = pruned.iter().map(|p| p["count"].as_u64().unwrap()).sum();
    let simulated = found["simulated"].as_u64().unwrap();
    assert_eq!(found["searched"].as_u64(), Some(simulated + pruned));

    // Asked for at once, it is the same; asked for without, nothing fits; and hosts have memory for so much alone.
    let (code, asked, err) = with(&["--over", "offload=none,optimizer,parameters"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(asked["best"], found["best"]);
    let (code, without, _) = with(&["--over", "offload=none"]);
    assert_eq!((code, without["simulated"].as_u64()), (1, Some(0)));
    let small = r#"job.training.offload={"optimizer":"cpu","host_memory":"64GB"}"#;
    let (code, small, _) = with(&["--set", small]);
    assert_eq!(code, 1);
    let pruned = small["pruned"].as_array().unwrap();
    let of_hosts = pruned.iter().find(|p| p["by"] == "host_memory").unwrap();
    assert!(of_hosts["count"].as_u64().unwrap() > 0);
}

/// A size as scenarios write it.
fn bytes(text: &str) -> Option<u64> {
    fabricsim::units::Bytes::parse(text).ok().map(|b| b.get())
}
