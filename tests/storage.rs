//! Drives and file servers of a topology file, as users meet them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use fabricsim::topology::load::parse;
use fabricsim::topology::{LinkFamily, Overrides, Router, TopologySpec, catalogue, expand};
use serde_json::Value;
use std::fs;
use std::path::Path;

const FILE: &str = "tests/cases/topologies/drives.json";

fn topology(command: &str, more: &[&str]) -> String {
    let mut fabricsim = Command::cargo_bin("fabricsim").unwrap();
    fabricsim.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = fabricsim.args(["topology", command, FILE]).args(more);
    let output = output.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{more:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn they_are_listed_with_what_they_hold_read_and_write() {
    let out = topology("show", &[]);
    for part in [
        "6  storage         nvme-gen4",
        "1  storage         file-server-gen5",
        "nvme-gen4: 3.84 TB (DGX H100/H200 user guide",
        "reads 6.9 GB/s",
        "writes 4.0 GB/s",
    ] {
        assert!(out.contains(part), "`{part}` is not in: {out}");
    }
    assert!(topology("check", &[]).contains("nothing to remark"));
}

/// The last links of what `topology paths` prints, each with its rate.
fn ends(out: &str) -> Vec<String> {
    let links = out.lines().filter(|line| line.contains(" > "));
    let cells = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rate = words.iter().position(|word| *word == "GB/s").unwrap();
        format!("{} > {} at {}", words[0], words[2], words[rate - 1])
    };
    links.map(cells).collect()
}

#[test]
fn a_gpu_reaches_a_drive_of_its_own_node_over_pcie() {
    let to = ends(&topology("paths", &["gpu1", "nvme0"]));
    assert_eq!(to.last().unwrap(), "node0/pcie0 > node0/nvme0 at 4.0");
    let from = ends(&topology("paths", &["node1/nvme2", "node1/gpu0"]));
    assert_eq!(from[0], "node1/nvme2 > node1/cpu1 at 6.9");
    assert_eq!(from.len(), 4);
}

#[test]
fn a_gpu_reaches_drives_elsewhere_through_both_interfaces() {
    let to = ends(&topology("paths", &["gpu0", "server0/pool0"]));
    let ends_of = |path: &[String]| (path[2].clone(), path[path.len() - 1].clone());
    let cable = "node0/nic0 > network/leaf0 at 49.0".to_owned();
    let last = "server0/nic0 > server0/pool0 at 13.0".to_owned();
    assert_eq!(ends_of(&to), (cable.clone(), last));
    let to = ends(&topology("paths", &["node0/gpu0", "node1/nvme1"]));
    let last = "node1/pcie0 > node1/nvme1 at 4.0".to_owned();
    assert_eq!(ends_of(&to), (cable, last));
    let from = ends(&topology("paths", &["server0/pool0", "node1/gpu1"]));
    assert_eq!(from.last().unwrap(), "node1/pcie0 > node1/gpu1 at 55.5");
}

#[test]
fn bytes_go_through_interfaces_that_have_a_cable_left() {
    let mut file: Value =
        serde_json::from_str(include_str!("cases/topologies/drives.json")).unwrap();
    let host = &mut file["components"]["host"];
    host["devices"]["nic"]["count"] = 2.into();
    host["ports"]["network"] = "nic[*]".into();
    let links = host["links"].to_string().replace("nic[0]", "nic[*]");
    host["links"] = serde_json::from_str(&links).unwrap();
    let spec: TopologySpec = parse(&file.to_string(), "drives.json").unwrap();
    let machine = expand(&spec, catalogue::hardware(), &Overrides::default()).unwrap();
    let named = |name: &str| {
        let mut devices = machine.devices().map(|(id, _)| id);
        devices.find(|&id| machine.device_name(id) == name).unwrap()
    };
    let ends = (named("node0/gpu0"), named("server0/pool0"));
    let without = |gone: &[&str]| {
        let gone: Vec<_> = gone.iter().map(|name| named(name)).collect();
        let links = machine.links().map(|(link, _)| link);
        let cables = links.filter(|&link| {
            let (from, to) = machine.ends(link);
            let of_one = gone.contains(&from) || gone.contains(&to);
            of_one && machine.family(link) == LinkFamily::Network
        });
        let router = Router::new(&machine, 0).avoiding(cables);
        let (out, into) = router.interfaces(ends, 1).unwrap();
        [machine.device_name(out), machine.device_name(into)]
    };
    assert_eq!(without(&[]), ["node0/nic0", "server0/nic0"]);
    assert_eq!(without(&["node0/nic0"]), ["node0/nic1", "server0/nic0"]);
    assert_eq!(without(&["node0/nic1"]), ["node0/nic0", "server0/nic0"]);
}

#[test]
fn they_are_drawn() {
    for nodes in ["1", "12"] {
        let drawing = topology("draw", &["-n", nodes]);
        for name in ["node0/nvme2", "server0/pool0", "NVMe drive, 3.84 TB"] {
            assert!(drawing.contains(name), "{nodes}: {name}");
        }
    }
}

/// The file without drives and without the server.
fn without_storage() -> Value {
    let text = include_str!("cases/topologies/drives.json");
    let mut file: Value = serde_json::from_str(text).unwrap();
    file["components"].as_object_mut().unwrap().remove("server");
    file["instances"].as_array_mut().unwrap().pop();
    let host = &mut file["components"]["host"];
    host["devices"].as_object_mut().unwrap().remove("nvme");
    let links = host["links"].as_array_mut().unwrap();
    links.retain(|link| !link["from"].as_str().unwrap().starts_with("nvme"));
    file
}

#[test]
fn collectives_take_no_notice_of_them() {
    let rows = |file: &Path| {
        let mut fabricsim = Command::cargo_bin("fabricsim").unwrap();
        fabricsim.args([
            "collective",
            "all-reduce",
            "-b",
            "1K",
            "-e",
            "64M",
            "--json",
        ]);
        let output = fabricsim.arg("-t").arg(file).output().unwrap();
        assert!(output.status.success());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["rows"].clone()
    };
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("bare.json");
    fs::write(&bare, without_storage().to_string()).unwrap();
    let drives = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    assert_eq!(rows(&drives), rows(&bare));
    assert_eq!(rows(&bare).as_array().unwrap().len(), 17);
}
