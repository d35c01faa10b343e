//! What machines and jobs draw and cost, from the command line and in results.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::budget::Budget;
use fabricsim::experiment::{self, Silent, parse, validate};
use fabricsim::report::training::ran;
use fabricsim::report::{Outputs, Summary, points_csv, summary_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn run(scenario: &Value) -> Summary {
    let scenario = parse(&scenario.to_string(), "test.json", &[]).unwrap();
    let job = validate(scenario, Path::new("")).unwrap();
    let outputs = Outputs::of([]);
    let run = experiment::run(&job, &Budget::default(), &outputs, &mut Silent).unwrap();
    run.summary
}

/// GPT-2 on all GPUs of one node, one variant for each of `set`.
fn step(machine: &str, set: &[Value]) -> Value {
    let variants = set.iter().enumerate();
    let variants: Vec<Value> = variants
        .map(|(index, set)| json!({"name": format!("v{index}"), "set": set}))
        .collect();
    json!({
        "name": "step", "topology": {"name": machine}, "nodes": 1,
        "job": {"training": {"model": {"preset": "gpt2-124m"}, "micro_batch": 4,
            "global_batch": 64, "steps": 1, "data_parallel": {"ddp": {}}}},
        "variants": variants,
    })
}

fn close(found: Option<Option<f64>>, expected: f64) {
    let found = found.flatten().unwrap();
    let off = (found / expected - 1.0).abs();
    assert!(off < 1e-6, "{found} is not {expected}");
}

fn metrics(summary: &Summary) -> Value {
    serde_json::from_str::<Value>(&summary_json(summary).unwrap()).unwrap()["variants"].clone()
}

/// By hand: GPUs 700 W as long as they compute and 142 W else; 4 NVSwitches of 100 W, 2 CPUs of 462,
/// 8 PCIe switches of 45, 8 NICs of 25; 10.6 % of it for fans and power supplies. Who takes half of the GPUs
/// is charged half of the rest, and whole units have the other GPUs without work. Inside one server
/// nobody could use the network.
#[test]
fn a_step_takes_what_its_share_of_a_server_draws_and_costs() {
    let sets = [
        json!({}),
        json!({"pue": 1.25, "dollars_per_gpu_hour": 4.0}),
        json!({"gpus_per_node": 4}),
    ];
    let summary = run(&step("dgx-h100", &sets));
    let rest = f64::from(4 * 100 + 2 * 462 + 8 * 45 + 8 * 25);
    let cases = [(1.0, 2.69, 8.0), (1.25, 4.0, 8.0), (1.0, 2.69, 4.0)];
    for (variant, (pue, price, gpus)) in summary.variants.iter().zip(cases) {
        let step = ran(variant).unwrap();
        let shares = step.time.iter().filter(|s| s.kind.is_computing());
        let busy: f64 = shares.map(|share| share.share).sum();
        assert!(busy > 0.1 && busy < 0.999, "{busy}");
        let kw = |own: f64, others: f64| {
            let part = (gpus + others) / 8.0;
            (gpus * own + others * 142.0 + rest * part) * 1.106 * pue / 1e3
        };
        let on_average = busy * 700.0 + (1.0 - busy) * 142.0;
        let hours = step.step_s / 3600.0;
        let kwh = kw(on_average, 0.0) * hours;
        let whole = kw(on_average, 8.0 - gpus) * hours;
        let usd = price * gpus * step.step_s / 3600.0;
        let millions = step.tokens as f64 / 1e6;
        let found = &variant.metrics;
        close(found.kw, kw(700.0, 0.0));
        close(found.kw_whole, kw(700.0, 8.0 - gpus));
        close(found.kwh_per_step, kwh);
        close(found.kwh_per_mtok, kwh / millions);
        close(found.kwh_per_mtok_whole, whole / millions);
        close(found.usd_per_gpu_hour, price);
        close(found.usd_per_hour, price * gpus);
        close(found.usd_per_step, usd);
        close(found.usd_per_mtok, usd / millions);
        close(found.usd_per_mtok_whole, usd / millions * 8.0 / gpus);
    }
    let csv = points_csv(&summary).unwrap();
    let head = csv.lines().next().unwrap();
    let columns = "kw,kw_whole,kwh_per_step,kwh_per_mtok,kwh_per_mtok_whole,usd_per_gpu_hour,usd_per_hour,\
                   usd_per_step,usd_per_mtok,usd_per_mtok_whole";
    assert!(head.contains(columns), "{head}");
}

/// The same work on each GPU takes the same energy per token, once there is a network: a step of more
/// servers is charged more ports of it, not all of it.
#[test]
fn energy_per_token_does_not_fall_with_the_size_of_a_job() {
    let of = |gpus: u64| {
        let summary = run(&json!({
            "name": "weak", "topology": {"name": "superpod-h100"}, "nodes": gpus / 8,
            "job": {"training": {"model": {"preset": "gpt2-124m"}, "micro_batch": 8,
                "global_batch": gpus * 64, "steps": 1, "data_parallel": {"ddp": {}}}},
        }));
        let metrics = &summary.variants[0].metrics;
        let known = |value: Option<Option<f64>>| value.flatten().unwrap();
        [
            known(metrics.kw) / gpus as f64,
            known(metrics.kwh_per_mtok),
            known(metrics.kw_whole) / gpus as f64,
        ]
    };
    let [alone, some @ ..] = [8, 16, 32, 64].map(of);
    let network = f64::from(12 * 783 + 2 * 256 * 2 * 8) / 256.0 / 1e3;
    for [kw, kwh, whole] in some {
        assert!((kw - alone[0] - network).abs() < 1e-6, "{kw} {alone:?}");
        let first = some[0][1];
        assert!((kwh / first - 1.0).abs() < 0.05, "{kwh} {first}");
        assert!(whole > kw, "{whole} {kw}");
    }
    assert!((alone[0] - alone[2]).abs() < 1e-9, "{alone:?}");
    assert!(some[0][1] / alone[1] < 1.15, "{some:?} {alone:?}");
}

/// One engine on one GPU, and eight of them on eight.
#[test]
fn a_token_of_one_gpu_takes_what_one_of_eight_does() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |gpus: &str, at_once: &str| {
        let args = [
            "serve",
            "llama3-8b",
            "-t",
            "dgx-h100",
            "--json",
            "--gpus",
            gpus,
            "--concurrency",
            at_once,
        ];
        document(folder.path(), &args)["variants"][0]["metrics"].clone()
    };
    let (one, eight) = (serve("1", "32"), serve("8", "256"));
    let of = |metrics: &Value, name: &str| metrics[name].as_f64().unwrap();
    for name in ["kwh_per_mtok", "usd_per_mtok"] {
        let ratio = of(&one, name) / of(&eight, name);
        assert!((ratio - 1.0).abs() < 0.02, "{name}: {ratio}");
    }
    assert!((of(&one, "kw") * 8.0 - of(&eight, "kw")).abs() < 1e-6);
    assert!(of(&one, "kwh_per_mtok_whole") > 2.0 * of(&one, "kwh_per_mtok"));
    assert_eq!(eight["kwh_per_mtok_whole"], eight["kwh_per_mtok"]);
    assert!((of(&one, "usd_per_mtok_whole") / of(&one, "usd_per_mtok") - 8.0).abs() < 1e-9);
}

#[test]
fn what_is_unknown_is_null_in_results_and_no_column() {
    let summary = run(&step("t4-pcie", &[json!({}), json!({"pue": 1.5})]));
    let variants = metrics(&summary);
    let unknown = [
        "kw",
        "kw_whole",
        "kwh_per_step",
        "kwh_per_mtok",
        "kwh_per_mtok_whole",
        "usd_per_gpu_hour",
        "usd_per_hour",
        "usd_per_step",
        "usd_per_mtok",
        "usd_per_mtok_whole",
    ];
    let csv = points_csv(&summary).unwrap();
    for name in unknown {
        let found = variants[0]["metrics"].get(name);
        assert_eq!(found, Some(&Value::Null), "{name}");
        let mut columns = csv.lines().next().unwrap().split(',');
        assert!(columns.all(|column| column != name), "{csv}");
    }
}

#[test]
fn other_jobs_have_power_and_hours_in_their_row() {
    let summary = run(&json!({
        "name": "sum", "topology": {"name": "dgx-h100"}, "nodes": 1,
        "job": {"collective": {"name": "all-reduce", "sizes": {"list": ["1MiB"]}}},
        "variants": [{"name": "a"}, {"name": "b", "set": {"dollars_per_gpu_hour": 1.5}}],
    }));
    let variants = metrics(&summary);
    assert_eq!(variants[0]["metrics"]["usd_per_gpu_hour"], 2.69);
    assert_eq!(variants[1]["metrics"]["usd_per_gpu_hour"], 1.5);
    let kw = variants[0]["metrics"]["kw"].as_f64().unwrap();
    assert!((kw - 8.277_304).abs() < 1e-3, "{kw}");
    // There is no step of which that could be told.
    assert_eq!(variants[0]["metrics"].get("kwh_per_step"), None);
    let csv = points_csv(&summary).unwrap();
    assert!(
        csv.contains("kw,kw_whole,usd_per_gpu_hour,usd_per_hour"),
        "{csv}"
    );
}

#[test]
fn prices_and_buildings_that_are_none_are_refused() {
    for (field, value) in [
        ("pue", json!(0.9)),
        ("pue", json!(11)),
        ("dollars_per_gpu_hour", json!(0)),
    ] {
        let mut scenario = step("dgx-h100", &[]);
        scenario[field] = value;
        let scenario = parse(&scenario.to_string(), "test.json", &[]).unwrap();
        let said = validate(scenario, Path::new("")).unwrap_err().to_string();
        assert!(said.contains(field), "{said}");
    }
}

fn fabricsim(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    command.args(args).current_dir(folder);
    command.env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    let output = command.output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn document(folder: &Path, args: &[&str]) -> Value {
    let (code, out, err) = fabricsim(folder, args);
    assert_eq!(code, 0, "{args:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn the_bill_names_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let cost = |args: &[&str]| {
        let args = [&["topology", "cost"], args].concat();
        document(folder.path(), &args)
    };
    let bill = cost(&["dgx-a100", "--json"]);
    assert_eq!(bill["format"], 2);
    assert_eq!(bill["racks"], Value::Null);
    assert_eq!(bill["busy_kw"]["all"]["total"], Value::Null);
    assert_eq!(bill["busy_kw"]["all"]["unknown"], 26);
    let lines = bill["lines"].as_array().unwrap();
    let of = |part: &str| lines.iter().find(|line| line["part"] == part).unwrap();
    // Unknown, and held by the price of the server.
    assert_eq!(of("NIC")["busy_watts"], Value::Null);
    assert_eq!(of("NIC").get("usd"), None);
    assert_eq!(of("GPU")["busy_watts"]["value"], 400.0);
    assert!(of("GPU")["busy_watts"]["source"].is_string());
    let (_, text, _) = fabricsim(folder.path(), &["topology", "cost", "dgx-a100"]);
    assert!(text.contains("26 parts without known watts"), "{text}");
    assert!(text.contains("516 parts without a known price"), "{text}");
    let racks = cost(&["gb200-nvl72", "--nodes", "36", "--json"]);
    assert_eq!(racks["racks"], 2);
    let kw = |bill: &Value| bill["busy_kw"]["all"]["total"].as_f64().unwrap();
    let plain = cost(&["dgx-h100", "--json"]);
    let housed = cost(&["dgx-h100", "--pue", "1.5", "--json"]);
    assert!((kw(&housed) / kw(&plain) - 1.5).abs() < 1e-9);
    let args = ["topology", "cost", "dgx-h100", "--pue", "0.5"];
    let (code, out, err) = fabricsim(folder.path(), &args);
    assert_eq!((code, &*out), (2, ""));
    assert!(
        err.contains("--pue 0.5: expected a number from 1 to 10"),
        "{err}"
    );
}

#[test]
fn figures_of_ones_own_fill_the_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let mine = r#"={"value": "20W", "source": "mine"}"#;
    let set = |place: &str| format!("hardware.devices.{place}.power.busy{mine}");
    let sets = [
        set("connectx-6.nic"),
        set("nvswitch2.nvswitch"),
        set("epyc-rome-quarter.cpu"),
        set("pcie-switch-gen4.pcie_switch"),
        "hardware.devices.a100-sxm-40gb.gpu.price_per_hour.value=1USD".to_owned(),
    ];
    let mut args = vec!["topology", "new", "dgx-a100", "-o", "mine.json"];
    for set in &sets {
        args.extend(["--set", set]);
    }
    let (code, _, err) = fabricsim(folder.path(), &args);
    assert_eq!(code, 0, "{err}");
    let bill = document(folder.path(), &["topology", "cost", "mine.json", "--json"]);
    let servers = (8.0 * 400.0 + 26.0 * 20.0) * 1.106 / 1e3;
    let found = bill["busy_kw"]["servers"]["total"].as_f64().unwrap();
    assert!((found - servers).abs() < 1e-6, "{found}");
    assert_eq!(bill["usd_per_gpu_hour"]["value"], 1.0);
    let cards = document(
        folder.path(),
        &["compare", "-t", "mine.json", "-t", "dgx-a100", "--json"],
    );
    let [mine, shipped] = [0, 1].map(|card| &cards["machines"][card]);
    assert_eq!(mine["busy_kw"]["servers"]["total"], found);
    assert_eq!(shipped["busy_kw"]["servers"]["total"], Value::Null);
    assert_eq!(shipped["usd_per_gpu_hour"]["value"], 1.48);
    // Written out whole, it is the same machine.
    let args = ["topology", "export", "mine.json", "-o", "whole.json"];
    assert_eq!(fabricsim(folder.path(), &args).0, 0);
    assert!(fs::exists(folder.path().join("whole.json")).unwrap());
    let whole = document(folder.path(), &["topology", "cost", "whole.json", "--json"]);
    for sum in ["idle_kw", "busy_kw", "usd", "usd_per_gpu_hour"] {
        assert_eq!(whole[sum], bill[sum], "{sum}");
    }
}
