//! What a user sees of the way through the host: sockets, MTU, fall-backs, bindings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::Value;

fn fabricsim(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command.args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The microseconds of an all-reduce of 8 KiB and of 256 MiB between one GPU on each of two nodes.
fn micros(machine: &str, more: &[&str]) -> [f64; 2] {
    let base = [
        "collective",
        "all-reduce",
        "-t",
        machine,
        "-n",
        "2",
        "-g",
        "1",
        "--json",
    ];
    let sizes = ["--size", "8K", "--size", "256M"];
    let (code, out, err) = fabricsim(&[&base[..], &sizes, more].concat());
    assert_eq!(code, 0, "{more:?}: {err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    let row = |i: usize| json["rows"][i]["time_us"].as_f64().unwrap();
    [row(0), row(1)]
}

const SOCKET: [&str; 2] = ["--env", "NCCL_NET=Socket"];

#[test]
fn tcp_is_slower_by_latency_and_by_a_core() {
    let rdma = micros("dgx-h100", &[]);
    let tcp = micros("dgx-h100", &SOCKET);
    assert_eq!(tcp, micros("dgx-h100", &["--env", "NCCL_IB_DISABLE=1"]));
    assert!(
        tcp[0] > 3.0 * rdma[0] && tcp[1] > 10.0 * rdma[1],
        "{tcp:?} {rdma:?}"
    );
    let threads = [
        "--env",
        "NCCL_SOCKET_NTHREADS=4",
        "--env",
        "NCCL_NSOCKS_PERTHREAD=4",
    ];
    let helped = micros("dgx-h100", &[&SOCKET[..], &threads].concat());
    assert!(helped[1] < tcp[1] / 2.0, "{helped:?}");
}

/// RoCE by headers alone; TCP by what a core takes for packets, too.
#[test]
fn frames_of_another_size() {
    let of = |mtu, more: &[&str]| micros("hgx-h100-roce", &[&["--mtu", mtu][..], more].concat())[1];
    let usual = micros("hgx-h100-roce", &[])[1];
    assert!((of("9000", &[]) / usual - 1.0).abs() < 1e-3);
    assert_eq!(of("9000", &[]), of("4200", &[]));
    let roce = of("1500", &[]) / of("9000", &[]);
    assert!((roce - 1.059).abs() < 0.01, "{roce}");
    let tcp = of("1500", &SOCKET) / of("9000", &SOCKET);
    assert!((1.35..1.45).contains(&tcp), "{tcp}");
    // Wires are not what limits there.
    assert!((of("9000", &SOCKET) / micros("hgx-h100-roce", &SOCKET)[1] - 1.0).abs() < 1e-3);
}

#[test]
fn a_fall_back_has_a_name_and_a_price() {
    let args = [
        "compare",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-n",
        "2",
        "-g",
        "1",
        "--size",
        "256M",
    ];
    let falls = [
        "--fallback",
        "no_rdma_devices",
        "--fallback",
        "no_peermem",
        "--fallback",
        "gloo",
    ];
    let (code, out, err) = fabricsim(&[&args[..], &falls].concat());
    assert_eq!(code, 0, "{err}");
    for part in [
        "falls back to TCP (NCCL's log says NET/Socket): no RDMA devices in the container",
        "nvidia_peermem is not loaded",
        "falls back to Gloo over TCP",
        "no_rdma_devices takes",
        "× as long",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let with = micros("dgx-h100", &["--fallback", "tcp"]);
    assert_eq!(with, micros("dgx-h100", &SOCKET));
}

#[test]
fn what_cannot_be_is_said() {
    let collective = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-n",
        "2",
        "--size",
        "8",
    ];
    let said = |more: &[&str]| {
        let (code, out, err) = fabricsim(&[&collective[..], more].concat());
        (code, format!("{out}{err}"))
    };
    let (code, text) = said(&["--fallback", "tcp@node1"]);
    assert!(code == 2 && text.contains("have one network"), "{text}");
    let (code, text) = said(&["--fallback", "tpc"]);
    assert!(
        code == 2 && text.contains("staged, tcp, gloo, no_peermem"),
        "{text}"
    );
    let (code, text) = said(&["--mtu", "100"]);
    assert!(code == 2 && text.contains("256 to 65520 bytes"), "{text}");
    let (code, text) = said(&[&SOCKET[..], &["--env", "NCCL_SOCKET_IFNAME=eth7"]].concat());
    assert!(
        code == 2 || text.contains("no interface is called eth7: there are ib0 (nic0)"),
        "{text}"
    );
    let (code, text) = said(&["--env", "NCCL_NSOCKS_PERTHREAD=8"]);
    assert!(
        code == 0 && text.contains("NCCL_NET=Socket or NCCL_IB_DISABLE=1"),
        "{text}"
    );
    let many = [
        "--env",
        "NCCL_SOCKET_NTHREADS=16",
        "--env",
        "NCCL_NSOCKS_PERTHREAD=8",
    ];
    let (code, text) = said(&[&SOCKET[..], &many].concat());
    assert!(
        code == 0 && text.contains("maximum of 64 sockets"),
        "{text}"
    );
}

/// NCCL's own words where releases differ.
#[test]
fn other_releases_do_not_talk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.json");
    let faults = r#"[{"other_release": {"nodes": "node1", "nccl_version": "2.27.3"}}]"#;
    std::fs::write(&file, faults).unwrap();
    let file = file.display().to_string();
    let args = [
        "collective",
        "all-reduce",
        "-t",
        "dgx-h100",
        "-n",
        "2",
        "--faults",
        &file,
    ];
    let (code, _, err) = fabricsim(&args);
    assert_eq!(code, 2);
    let words = "Mismatched NCCL version detected : rank 0 version 23007 rank 8 version 22703";
    assert!(err.contains(words), "{err}");
}

#[test]
fn a_launcher_may_bind_badly() {
    let of = |binding| micros("dgx-h100", &[&["--binding", binding][..], &SOCKET].concat());
    let (near, far, one) = (of("near"), of("far"), of("one_core"));
    assert_eq!(near, micros("dgx-h100", &SOCKET));
    assert!(far[0] > near[0]);
    assert!(
        (one[1] / near[1] - 1.0 / 0.73).abs() < 0.03,
        "{one:?} {near:?}"
    );
    let ignoring = [
        "--binding",
        "one_core",
        "--env",
        "NCCL_IGNORE_CPU_AFFINITY=1",
    ];
    assert_eq!(micros("dgx-h100", &[&ignoring[..], &SOCKET].concat()), near);
}
