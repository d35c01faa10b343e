//! What a search says holds: it is what simulating everything gives, on any number of threads, and of every number of
//! GPUs that it speaks of.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::budget::Budget;
use fabricsim::experiment::optimize::{
    Ask, ServingAsk, ServingSizes, Size, optimize, optimize_serving,
};
use fabricsim::experiment::sweep::{AxisSpec, parse_axis};
use fabricsim::experiment::{Machines, Scenario, Silent, TopologyRef, parse, run, validate};
use fabricsim::report::optimize::Optimized;
use fabricsim::report::{Metrics, Outputs};
use serde_json::{Value, json};
use std::path::Path;

/// Draws that are the same on every computer (a linear congruence of Knuth's).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

const THREADS: [usize; 3] = [1, 2, 16];

fn on(threads: usize) -> Budget {
    Budget {
        threads,
        ..Budget::default()
    }
}

fn axes(texts: &[String]) -> Vec<AxisSpec> {
    texts.iter().map(|text| parse_axis(text).unwrap()).collect()
}

/// Some of the values, at least one, in their order.
fn some(draws: &mut Draws, knob: &str, values: &[&str]) -> String {
    let all = values.iter().copied();
    let mut kept: Vec<&str> = all.filter(|_| draws.below(5) < 3).collect();
    if kept.is_empty() {
        kept.push(draws.one(values));
    }
    format!("{knob}={}", kept.join(","))
}

fn training(draws: &mut Draws) -> (Scenario, TopologyRef, u32, Vec<String>) {
    let models = ["gpt2-124m", "mpt-1b", "llama3-8b"];
    let model = draws.one(&models);
    let machine = draws.one(&["dgx-h100", "dgx-a100"]);
    let gpus = draws.one(&[4, 8, 16]);
    let text = json!({
        "name": "small",
        "topology": { "name": machine },
        "job": { "training": {
            "model": { "preset": model },
            "global_batch": draws.one(&[16, 24, 32]),
            "sequence": 1024,
            "parallel": { "sequence_parallel": true },
        } }
    });
    let over = vec![
        some(draws, "tp", &["1", "2", "4"]),
        some(draws, "pp", &["1", "2"]),
        some(draws, "micro_batch", &["1", "2"]),
        some(draws, "sharding", &["zero", "fsdp"]),
        some(draws, "recompute", &["none", "full"]),
        "virtual_stages=1".to_owned(),
        "bucket=null".to_owned(),
    ];
    let scenario = parse(&text.to_string(), "small.json", &[]).unwrap();
    (scenario, TopologyRef::Name(machine.to_owned()), gpus, over)
}

#[test]
fn layouts_are_those_of_simulating_everything_on_any_number_of_threads() {
    let mut draws = Draws(56);
    let mut compared = 0;
    for _ in 0..20 {
        let (scenario, machine, gpus, over) = training(&mut draws);
        let objective = ["tokens_per_s_per_gpu", "usd_per_mtok", "memory_gib"];
        let objective = draws.one(&objective);
        let over = axes(&over);
        let search = |threads, exhaustive| -> Optimized {
            let ask = Ask {
                machines: std::slice::from_ref(&machine),
                sizes: &[Size::Gpus(gpus)],
                oversubscription: &[],
                limits: &[],
                objective,
                top: 2,
                over: &over,
                exhaustive,
            };
            let how = (&on(threads), &Machines::default());
            let at = (&scenario, Path::new(""));
            optimize(at, ask, how, &|_| {}).unwrap().0
        };
        let document = |found: &Optimized| serde_json::to_string(found).unwrap();
        let all = search(1, true);
        let found = THREADS.map(|threads| search(threads, false));
        assert_eq!(found[0].best, all.best, "{objective} {over:?}");
        for other in &found[1..] {
            assert_eq!(document(other), document(&found[0]));
        }
        compared += all.simulated;
        if let Some(best) = all.best.first() {
            let worth = |metrics: &Metrics| metrics.worth(objective);
            let most = worth(&best.metrics);
            assert!(all.all.iter().all(|one| worth(&one.metrics) <= most));
        }
    }
    assert!(compared > 80, "{compared}");
}

struct Served {
    engines: String,
    worth: f64,
    meets: bool,
}

/// Every way to serve, each run as a scenario of its own.
fn every_way(scenario: &Value, gpus: u32, share: f64, objective: &str) -> Vec<Served> {
    let mut all = Vec::new();
    for tp in [1, 2, 4].into_iter().filter(|&tp| tp <= gpus) {
        let engines = gpus / tp;
        for prefill in 0..engines {
            let parallel = json!({ "tp": tp });
            let pool = |role: &str, replicas: u32| json!({ "role": role, "replicas": replicas, "parallel": parallel });
            let (pools, name) = match prefill {
                0 => (
                    json!([pool("both", engines)]),
                    format!("{engines} × both, tp {tp}"),
                ),
                _ => (
                    json!([pool("prefill", prefill), pool("decode", engines - prefill)]),
                    format!("{prefill}p : {}d, tp {tp}", engines - prefill),
                ),
            };
            let mut own = scenario.clone();
            own["job"]["serving"]["pools"] = pools;
            own["gpus_per_node"] = gpus.into();
            own["nodes"] = 1.into();
            let own = parse(&own.to_string(), "own", &[]).unwrap();
            let Ok(experiment) = validate(own, Path::new("")) else {
                continue;
            };
            let ran = run(&experiment, &on(1), &Outputs::of([]), &mut Silent).unwrap();
            let variant = &ran.summary.variants[0];
            let verdict = variant.job.serving().unwrap().verdict.unwrap();
            let kept = variant.metrics.serving.slo_share;
            all.push(Served {
                engines: name,
                worth: variant.metrics.worth(objective),
                meets: verdict.name() == "STABLE" && kept.is_none_or(|kept| kept >= share),
            });
        }
    }
    all
}

#[test]
fn ways_to_serve_are_those_of_simulating_everything_on_any_number_of_threads() {
    let mut draws = Draws(57);
    let mut met = 0;
    for _ in 0..20 {
        let machine = draws.one(&["dgx-h100", "l40s-pcie"]);
        let gpus: u32 = draws.one(&[1, 2, 4]);
        let load = match draws.below(2) == 0 {
            true => json!({ "closed": { "concurrency": 1 + draws.below(23) } }),
            false => json!({ "poisson": { "rate": 1 + draws.below(11) } }),
        };
        let mut job = json!({
            "model": { "preset": "llama3-8b" },
            "load": load,
            "requests": 24,
            "lengths": { "input": 64 + draws.below(1436), "output": 16 },
        });
        if draws.below(2) == 0 {
            job["slo"] = json!({ "ttft": "400ms", "tpot": "30ms" });
        }
        let text = json!({
            "name": "small", "topology": { "name": machine }, "job": { "serving": job }
        });
        let objective = ["output_tokens_per_s_per_gpu", "ttft_ms_p99", "tpot_ms_mean"];
        let objective = draws.one(&objective);
        let scenario = parse(&text.to_string(), "small.json", &[]).unwrap();
        let machines = [TopologyRef::Name(machine.to_owned())];
        let over = axes(&["tp=1,2,4".to_owned()]);
        let search = |threads| {
            let ask = ServingAsk {
                machines: &machines,
                sizes: ServingSizes::Each(&[Size::Gpus(gpus)]),
                objective: Some(objective),
                slo_share: 0.9,
                top: 3,
                over: &over,
            };
            let how = (&on(threads), &Machines::default());
            let at = (&scenario, Path::new(""));
            optimize_serving(at, ask, how, &|_| {}).unwrap()
        };
        let found = THREADS.map(search);
        for other in &found[1..] {
            let document = |one| serde_json::to_string(one).unwrap();
            assert_eq!(document(other), document(&found[0]));
        }
        let all = every_way(&text, gpus, 0.9, objective);
        assert_eq!(found[0].simulated as usize, all.len());
        let best = all.iter().filter(|way| way.meets);
        let best = best.max_by(|a, b| a.worth.total_cmp(&b.worth));
        match (best, found[0].best.first()) {
            (None, None) => assert!(!found[0].rejected.is_empty()),
            (Some(best), Some(first)) => {
                met += 1;
                let own = first.metrics.worth(objective);
                // What differs by less than one in a hundred is as good.
                let off = (own / best.worth - 1.0).abs();
                assert!(off < 0.01, "{} {} {}", best.engines, first.layout, off);
                let named = |way: &&Served| way.engines == first.layout.to_string();
                assert!(all.iter().find(named).unwrap().meets);
            }
            (best, first) => panic!("{:?} {first:?}", best.map(|best| &best.engines)),
        }
    }
    assert!((5..20).contains(&met), "{met}");
}

fn fabricsim_in(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).env_remove("CLICOLOR_FORCE");
    let output = command.current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn fabricsim(args: &[&str]) -> (i32, String, String) {
    fabricsim_in(Path::new("."), args)
}

fn document(args: &[&str]) -> Value {
    let (code, out, err) = fabricsim(&[args, &["--json"]].concat());
    assert!(code == 0 || code == 1, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// Llama 3 8B with a batch of 960: five servers do what 32 GPUs do not, and powers of two do not tell.
const JOB: [&str; 14] = [
    "optimize",
    "llama3-8b",
    "-t",
    "dgx-h100",
    "--global-batch",
    "960",
    "--sequence",
    "8192",
    "--over",
    "tp=1",
    "--over",
    "pp=1",
    "--over",
    "micro_batch=1",
];

#[test]
fn the_fewest_gpus_for_a_rate_are_found_among_all_numbers_of_nodes() {
    let target = ["--gpus", "64", "--target", "days=30", "--tokens", "1T"];
    let found = document(&[&JOB[..], &target].concat());
    assert_eq!(found["best"][0]["gpus"], 40);
    let tried = found["tried"].as_array().unwrap();
    let gpus: Vec<u64> = tried.iter().map(|t| t["gpus"].as_u64().unwrap()).collect();
    assert_eq!(gpus, [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40]);
    let met: Vec<bool> = tried.iter().map(|t| t["met"].as_bool().unwrap()).collect();
    assert_eq!(met.iter().position(|&met| met), Some(11));
    let answer = found["answer"].as_str().unwrap();
    assert!(answer.contains("32 GPUs do not"), "{answer}");
    assert!(!answer.contains("8, 16, 32"), "{answer}");
    // What is said of 32 and 40 is what a search on as many gives.
    let rate = |gpus: &str| {
        let found = document(&[&JOB[..], &["--gpus", gpus]].concat());
        found["best"][0]["metrics"]["tokens_per_s"]
            .as_f64()
            .unwrap()
    };
    let target = 1e12 / (30.0 * 86_400.0);
    assert!(rate("32") < target && rate("40") >= target);
}

#[test]
fn numbers_of_gpus_that_divide_no_layout_are_named() {
    // A batch of 64 has no replicas on three servers, and two are too few.
    let job = [
        "optimize",
        "gpt2-124m",
        "-t",
        "dgx-h100",
        "--global-batch",
        "64",
    ];
    let less = [
        "--over",
        "tp=1",
        "--over",
        "pp=1",
        "--over",
        "micro_batch=1",
        "--over",
        "bucket=null",
    ];
    let at = |gpus: &str| {
        let found = document(&[&job[..], &less, &["--gpus", gpus]].concat());
        found["best"][0]["metrics"]["tokens_per_s"]
            .as_f64()
            .unwrap()
    };
    let target = format!("tokens/s={}", (at("16") + at("32")) / 2.0);
    let more = ["--gpus", "32", "--target", &target];
    let found = document(&[&job[..], &less, &more].concat());
    assert_eq!(found["best"][0]["gpus"], 32);
    let tried = found["tried"].as_array().unwrap();
    let of = |gpus: u64| tried.iter().find(|t| t["gpus"] == gpus).unwrap();
    assert_eq!(of(24)["why"], "division");
    let answer = found["answer"].as_str().unwrap();
    assert!(answer.contains("over 3, 5, 6, 7, 24 GPUs"), "{answer}");
    // One that nothing reaches says what was tried.
    let more = ["--gpus", "16", "--target", &target];
    let (code, out, _) = fabricsim(&[&job[..], &less, &more].concat());
    assert!(
        code == 1 && out.contains("No layout on up to 16 GPUs"),
        "{out}"
    );
}

#[test]
fn a_machine_of_which_nothing_is_found_is_never_silently_gone() {
    // A GB200 holds a quarter of the states of Llama 3 8B with its activations, an L40S does not.
    let job =
        "optimize llama3-8b -t gb200-nvl72 -t l40s-pcie --gpus 4 --global-batch 4 --sequence 2048";
    let less =
        "--over tp=1 --over pp=1 --over sharding=fsdp --over recompute=none --over offload=none";
    let job: Vec<&str> = job.split(' ').collect();
    let less: Vec<&str> = less.split(' ').collect();
    let found = document(&[&job[..], &less].concat());
    let best = found["best"].as_array().unwrap();
    assert!(
        best.iter()
            .all(|choice| choice["topology"] == "gb200-nvl72")
    );
    let rejected = found["rejected"].as_array().unwrap();
    assert!(
        rejected.iter().any(|one| one["topology"] == "l40s-pcie"),
        "{rejected:?}"
    );
    let answer = found["answer"].as_str().unwrap();
    assert!(
        answer.contains("Nothing on l40s-pcie can be run: no layout that divides"),
        "{answer}"
    );
    for part in ["per M tokens", "kW"] {
        assert!(answer.contains(part), "{answer}");
    }
}

/// One or two cards for a model that the smaller ones cannot hold.
const SERVE: [&str; 9] = [
    "optimize",
    "llama3-8b",
    "--concurrency",
    "4",
    "--input",
    "128",
    "--output-tokens",
    "16",
    "-t",
];

#[test]
fn each_machine_that_serves_has_its_best_and_the_others_say_why() {
    let machines = ["dgx-h100", "-t", "l40s-pcie", "--gpus", "2", "--top", "2"];
    let found = document(&[&SERVE[..], &machines].concat());
    let best = found["best"].as_array().unwrap();
    let of = |machine: &str| best.iter().filter(|c| c["topology"] == machine).count();
    assert_eq!((of("dgx-h100"), of("l40s-pcie")), (2, 2));
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("ways.html");
    let slow = ["--slo", "tpot=8ms", "-o", page.to_str().unwrap()];
    let (code, text, err) = fabricsim(&[&SERVE[..], &machines, &slow].concat());
    assert_eq!(code, 0, "{err}");
    assert!(
        text.contains("Nothing on l40s-pcie does; the nearest is"),
        "{text}"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let answer = text
        .lines()
        .rev()
        .find(|line| line.starts_with("The best"))
        .unwrap();
    let lead = answer.split(". ").next().unwrap();
    assert!(page.contains(&format!("<p class=\"lead\">{lead}.</p>")));
    assert!(page.contains("<svg") && page.contains("dgx-h100: the best"));
}

#[test]
fn knobs_and_objectives_of_serving_are_obeyed_or_refused() {
    let at = ["dgx-h100", "--gpus", "4"];
    let with = |more: &[&'static str]| [&SERVE[..], &at, more].concat();
    let found = document(&with(&["--over", "tp=2", "--over", "split=none"]));
    assert_eq!(
        (&found["searched"], &found["simulated"]),
        (&1.into(), &1.into())
    );
    assert_eq!(found["best"][0]["layout"]["tp"], 2);
    let found = document(&with(&["--objective", "ttft_ms_p50"]));
    let ttft = |choice: &Value| choice["metrics"]["ttft_ms_p50"].as_f64().unwrap();
    let best = ttft(&found["best"][0]);
    let pareto = found["pareto"].as_array().unwrap();
    assert!(pareto.iter().all(|one| ttft(one) > best * 0.99), "{found}");
    for (more, near) in [
        (["--over", "attention=1"], "a knob of a way to serve"),
        (["--over", "replica=1"], "`replicas`?"),
        (["--over", "tp=0"], "numbers from 1 on"),
        (["--objective", "bubble_share"], "which no way to serve has"),
        (["--objective", "ttft_ms_p51"], "`ttft_ms_p50`?"),
        (["--global-batch", "8"], "of a training job"),
        (["--oversubscription", "2"], "of a training job"),
        (["--target", "tokens/s=1M"], "of a training job"),
    ] {
        let (code, _, err) = fabricsim(&with(&more));
        assert!(code == 2 && err.contains(near), "{more:?}: {err}");
    }
    let train = ["optimize", "ddp-buckets", "--gpus", "8", "--rate", "2"];
    let (code, _, err) = fabricsim(&train);
    assert!(code == 2 && err.contains("this one trains"), "{err}");
}

#[test]
fn the_fewest_gpus_for_a_load_are_the_first_that_do() {
    let at = [
        "dgx-h100",
        "--gpus",
        "16",
        "--slo",
        "ttft=50ms",
        "--over",
        "tp=1",
    ];
    let less = [
        "--over",
        "split=none",
        "--set",
        "job.serving.load.closed.concurrency=24",
    ];
    let found = document(&[&SERVE[..], &at, &less, &["--target", "load"]].concat());
    let tried = found["tried"].as_array().unwrap();
    let fewest = tried.iter().filter(|t| t["met"] == true);
    let fewest = fewest.map(|t| t["gpus"].as_u64().unwrap()).min().unwrap();
    assert_eq!(found["best"][0]["gpus"], fewest);
    assert!(fewest > 1, "{tried:?}");
    let below = tried.iter().find(|t| t["gpus"] == fewest - 1).unwrap();
    assert_eq!(below["met"], false);
    let answer = found["answer"].as_str().unwrap();
    assert_eq!(fewest, 2);
    let told = "With 2 GPUs of dgx-h100 the load is kept, with 1 GPU it is not";
    assert!(answer.contains(told), "{answer}");
}

#[test]
fn what_is_written_runs_from_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (code, _, err) = fabricsim_in(here, &["topology", "new", "dgx-h100", "-o", "mine.json"]);
    assert_eq!(code, 0, "{err}");
    let job = [
        "optimize",
        "gpt2-124m",
        "-t",
        "mine.json",
        "--gpus",
        "8",
        "--global-batch",
        "8",
    ];
    let less = [
        "--over", "tp=1", "--over", "pp=1", "--top", "1", "-o", "best",
    ];
    let (code, _, err) = fabricsim_in(here, &[&job[..], &less].concat());
    assert_eq!(code, 0, "{err}");
    let best = here.join("best");
    let run = [
        "run",
        "best-1-dgx-h100.json",
        "--outputs",
        "summary",
        "-o",
        "out",
    ];
    let (code, _, err) = fabricsim_in(&best, &run);
    assert_eq!(code, 0, "{err}");
}
