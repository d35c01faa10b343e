//! Checkpoints on the storage of a machine, against what its links carry.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::topology::{Overrides, expand};
use fabricsim::topology::{catalogue::hardware, load};
use serde_json::{Value, json};
use std::fs;

/// Two nodes of two GPUs, a NIC and drives, and a file server that writes 13 GB/s.
const FILE: &str = include_str!("cases/topologies/drives.json");

fn drives() -> Value {
    serde_json::from_str(FILE).unwrap()
}

/// Bytes per second that a link carries.
fn rate(machine: &Value, name: &str) -> f64 {
    let spec = load::parse(&machine.to_string(), "machine").unwrap();
    let topology = expand(&spec, hardware(), &Overrides::default()).unwrap();
    let link = topology.links().map(|(id, _)| id);
    let link = link.into_iter().find(|&id| topology.link_name(id) == name);
    topology.rate(link.unwrap()).bytes_per_sec() as f64
}

fn scenario(machine: &Value, data_parallel: &Value, storage: &Value) -> Value {
    json!({
        "name": "checkpoints", "topology": { "inline": machine },
        "job": { "training": {
            "model": { "preset": "mpt-1b" }, "sequence": 1024, "micro_batch": 1,
            "global_batch": 16, "data_parallel": data_parallel
        } },
        "long_run": {
            "duration": "10d", "mtbf": { "gpu": "100h" }, "restart_parts": {}, "replicas": 3,
            "checkpoint": { "interval": "young", "cost": { "storage": storage } }
        }
    })
}

fn run(scenario: &Value) -> Result<Value, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.json");
    fs::write(&file, scenario.to_string()).unwrap();
    let mut fabricsim = Command::cargo_bin("fabricsim").unwrap();
    let fabricsim = fabricsim.arg("run").arg(&file).arg("-o");
    let out = folder.path().join("out");
    let output = fabricsim.arg(&out).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    let summary = fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    Ok(goodput(&summary["variants"][0]).unwrap().clone())
}

fn goodput(value: &Value) -> Option<&Value> {
    let object = value.as_object()?;
    object
        .get("goodput")
        .filter(|found| found.is_object())
        .or_else(|| object.values().find_map(goodput))
}

/// The time of a part: bytes on the link that limits it, and a latency of some microseconds.
fn takes(moved: &Value, (limit, link): (&str, &str), bytes: f64, machine: &Value) {
    assert_eq!(
        (moved["limit"].as_str(), moved["link"].as_str()),
        (Some(limit), Some(link))
    );
    let beyond = moved["time_s"].as_f64().unwrap() - bytes / rate(machine, link);
    assert!((0.0..2e-4).contains(&beyond), "{moved}: {beyond}");
}

#[test]
fn all_gpus_write_to_the_server_at_once() {
    let machine = drives();
    let found = run(&scenario(&machine, &json!({ "fsdp": {} }), &json!({}))).unwrap();
    let checkpoint = &found["checkpoint"];
    // Weights, their copy being the same, and two moments in FP32: 12 bytes of 1.3 billion parameters.
    let bytes = checkpoint["bytes"].as_f64().unwrap();
    assert!((bytes / 12e9 - 1.316).abs() < 0.001, "{bytes}");
    assert_eq!(
        (&checkpoint["writers"], &checkpoint["devices"]),
        (&json!(4), &json!(1))
    );
    takes(
        &checkpoint["write"],
        ("storage", "server0/nic0 > server0/pool0"),
        bytes,
        &machine,
    );
    // It reads 56.9 GB/s, which its NIC does not carry.
    takes(
        &checkpoint["read"],
        ("nic", "server0/nic0 > network/leaf0"),
        bytes,
        &machine,
    );
    // Training stands still for it, and a restart reads it.
    assert_eq!(
        checkpoint["blocked_s"],
        checkpoint["write"]["time_s"].as_f64().map(nanos).unwrap()
    );
    assert_eq!(
        found["restart"]["load_s"],
        checkpoint["read"]["time_s"].as_f64().map(nanos).unwrap()
    );
    // Young: √(2 C M), with a mean time of 25 h of four GPUs (and what else fails).
    let write = checkpoint["blocked_s"].as_f64().unwrap();
    let interval = found["interval_s"].as_f64().unwrap();
    let young = (2.0 * write * 25.0 * 3600.0).sqrt();
    assert!(
        interval < young && 0.95 * young < interval,
        "{interval} of {young}"
    );
}

/// Seconds in whole nanoseconds, as long runs count.
fn nanos(seconds: f64) -> f64 {
    (seconds * 1e9).ceil() / 1e9
}

#[test]
fn copies_are_written_once_and_read_by_all() {
    let machine = drives();
    let bytes = |data_parallel: Value| {
        let found = run(&scenario(&machine, &data_parallel, &json!({}))).unwrap();
        let checkpoint = &found["checkpoint"];
        let bytes = checkpoint["bytes"].as_f64().unwrap();
        // Each GPU reads the weights and its part of what the optimizer has.
        let read = checkpoint["read"]["time_s"].as_f64().unwrap();
        let read = read * rate(&machine, "server0/nic0 > network/leaf0");
        (checkpoint["writers"].as_u64().unwrap(), bytes, read / bytes)
    };
    // 2 and 12 bytes of each parameter: on every GPU, or the 12 divided by four.
    let (writers, copied, read) = bytes(json!({ "ddp": {} }));
    assert_eq!(writers, 1);
    assert!((copied / 14e9 - 1.316).abs() < 0.001, "{copied}");
    assert!((read - 4.0).abs() < 1e-3, "{read}");
    let (writers, divided, read) = bytes(json!({ "zero": {} }));
    assert_eq!((writers, divided), (4, copied));
    assert!((read - (4.0 * 2.0 + 12.0) / 14.0).abs() < 1e-3, "{read}");
}

#[test]
fn drives_of_a_node_take_what_its_gpus_write() {
    let machine = drives();
    let storage = json!({ "devices": "node[*]/nvme[0-1]" });
    let found = run(&scenario(&machine, &json!({ "fsdp": {} }), &storage)).unwrap();
    let checkpoint = &found["checkpoint"];
    assert_eq!(checkpoint["devices"], 4);
    // A quarter to each.
    let bytes = checkpoint["bytes"].as_f64().unwrap() / 4.0;
    takes(
        &checkpoint["write"],
        ("storage", "node1/pcie0 > node1/nvme1"),
        bytes,
        &machine,
    );
    // One GPU that writes to three drives writes a third to each.
    let storage = json!({ "devices": "node[*]/nvme[*]" });
    let found = run(&scenario(&machine, &json!({ "ddp": {} }), &storage)).unwrap();
    let checkpoint = &found["checkpoint"];
    let bytes = (checkpoint["bytes"].as_f64().unwrap() / 3.0).ceil();
    let time = checkpoint["write"]["time_s"].as_f64().unwrap();
    assert!((time - bytes / 4e9).abs() < 2e-4, "{checkpoint}");
}

/// The drives of a DGX H100 write less than their links of PCIe 4 carry, and read more: 6.5 of 6.9 GB/s.
#[test]
fn a_drive_that_reads_more_than_its_link_carries_is_not_what_limits() {
    let mut scenario = scenario(&drives(), &json!({ "fsdp": {} }), &json!({}));
    scenario["topology"] = json!({ "name": "dgx-h100-nvme" });
    scenario["job"]["training"]["model"]["preset"] = json!("llama3-8b");
    let found = run(&scenario).unwrap();
    let checkpoint = &found["checkpoint"];
    let limit = |what: &str| checkpoint[what]["limit"].as_str().unwrap().to_owned();
    let limits = [limit("write"), limit("read")];
    assert_eq!(limits, ["storage", "storage_link"], "{checkpoint}");
    let each = checkpoint["bytes"].as_f64().unwrap() / 8.0;
    let rate = |what: &str| each / checkpoint[what]["time_s"].as_f64().unwrap() / 1e9;
    assert!((rate("write") - 4.0).abs() < 0.02, "{checkpoint}");
    assert!((6.3..6.7).contains(&rate("read")), "{checkpoint}");
}

/// Without GPUDirect Storage a piece is read and then copied: 1/(1/10 + 1/24) GB/s are 7.1, where
/// DeepSpeed measured 7 of 10 with four drives (blogs/deepnvme 08-2024), and 1/(1/5 + 1/24) 4.1 of 5.
#[test]
fn a_buffer_in_the_host_comes_before_or_after() {
    let machine = drives();
    let of = |more: Value| {
        let mut storage = json!({ "devices": "node[*]/nvme[0-1]" });
        storage
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let found = run(&scenario(&machine, &json!({ "fsdp": {} }), &storage)).unwrap();
        let time = |what: &str| found["checkpoint"][what]["time_s"].as_f64().unwrap();
        (
            time("write"),
            time("read"),
            found["checkpoint"]["bytes"].as_f64().unwrap() / 4.0,
        )
    };
    let (write, read, bytes) = of(json!({}));
    assert_eq!(of(json!({ "gds": true })), (write, read, bytes));
    let (bounced, back, _) = of(json!({ "gds": false }));
    // Both GPUs of a node share the way between their switch and the CPU.
    let copy = 2.0 * bytes / rate(&machine, "node0/pcie0 > node0/cpu0");
    assert!(
        (bounced - write - copy).abs() < 0.02 * bounced,
        "{bounced} {write} {copy}"
    );
    // Reading two drives through one link of a switch is never faster than that link.
    assert!(back > read + 0.9 * copy, "{back} {read} {copy}");
}

#[test]
fn few_cables_between_switches_hold_up_servers_behind_them() {
    // Two servers on a leaf of their own, which one cable joins to that of the nodes.
    let mut machine = drives();
    machine["instances"][1]["count"] = json!(2);
    machine["fabrics"]["network"]["shape"] =
        json!({ "leaf_spine": { "ports_per_leaf": 2, "spines": 1, "oversubscription": 2.0 } });
    let found = run(&scenario(&machine, &json!({ "fsdp": {} }), &json!({}))).unwrap();
    let checkpoint = &found["checkpoint"];
    let bytes = checkpoint["bytes"].as_f64().unwrap();
    takes(
        &checkpoint["write"],
        ("storage", "server1/nic0 > server1/pool0"),
        bytes / 2.0,
        &machine,
    );
    let cable = ("switches", "network/leaf1 > network/spine0");
    takes(&checkpoint["read"], cable, bytes, &machine);
}

#[test]
fn training_goes_on_while_hosts_write() {
    let machine = drives();
    let storage = json!({ "asynchronous": true });
    let found = run(&scenario(&machine, &json!({ "fsdp": {} }), &storage)).unwrap();
    let checkpoint = &found["checkpoint"];
    let bytes = checkpoint["bytes"].as_f64().unwrap();
    // Both GPUs of a node share the way from their switch to the CPU.
    takes(
        &checkpoint["copy"],
        ("host", "node1/pcie0 > node1/cpu0"),
        bytes / 2.0,
        &machine,
    );
    takes(
        &checkpoint["write"],
        ("storage", "server0/nic0 > server0/pool0"),
        bytes,
        &machine,
    );
    assert_eq!(
        checkpoint["blocked_s"],
        checkpoint["copy"]["time_s"].as_f64().map(nanos).unwrap()
    );
}

#[test]
fn storage_that_is_not_there_is_told() {
    let mut bare = drives();
    bare["components"].as_object_mut().unwrap().remove("server");
    bare["instances"].as_array_mut().unwrap().pop();
    let host = &mut bare["components"]["host"];
    host["devices"].as_object_mut().unwrap().remove("nvme");
    let links = host["links"].as_array_mut().unwrap();
    links.retain(|link| !link["from"].as_str().unwrap().starts_with("nvme"));
    let fsdp = json!({ "fsdp": {} });
    for (machine, storage, parts) in [
        (
            &bare,
            json!({}),
            [
                "long_run.checkpoint.cost.storage",
                "drives, which has no storage",
            ],
        ),
        (
            &drives(),
            json!({ "devices": "server0, node0/gpu1" }),
            [
                "long_run.checkpoint.cost.storage.devices",
                "node0/gpu1, a GPU",
            ],
        ),
        (
            &drives(),
            json!({ "devices": "servers0/pool" }),
            ["long_run.checkpoint.cost.storage.devices", "`servers`"],
        ),
    ] {
        let said = run(&scenario(machine, &fsdp, &storage)).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}
