//! Mistakes that hang, as a user meets them: what is said, and when, and the exit status.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;

/// What a command prints, on which stream, and its exit status.
fn fabricsim(args: &str) -> (String, String, i32) {
    let mut command = Command::cargo_bin("fabricsim").unwrap();
    let output = command.args(args.split(' ')).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code().unwrap(),
    )
}

/// A mistake hangs, and the output has all of these.
fn hangs(args: &str, parts: &[&str]) {
    let (out, err, status) = fabricsim(&format!("hang {args}"));
    assert_eq!(status, 1, "{out}{err}");
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(err.contains("fails: it hangs: "), "{err}");
    for part in parts {
        assert!(out.contains(part), "{args}: {part}\nis not in\n{out}");
    }
}

/// The calls of ranks of a DGX H100: the result of the only variant.
fn calls(job: Value) -> (Value, String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let scenario =
        json!({ "name": "calls", "topology": { "name": "dgx-h100" }, "job": { "calls": job } });
    let file = folder.path().join("calls.json");
    fs::write(&file, scenario.to_string()).unwrap();
    let target = folder.path().join("out");
    let (out, err, status) = fabricsim(&format!(
        "run {} -o {} --json",
        file.display(),
        target.display()
    ));
    let summary: Value = serde_json::from_str(&out).unwrap_or_default();
    (summary["variants"][0].clone(), err, status)
}

fn reduce(size: &str) -> Value {
    json!({ "all-reduce": { "size": size } })
}

#[test]
fn ranks_that_call_different_collectives() {
    hangs(
        "different-collectives",
        &[
            "ranks 0-6 wait in all-reduce 1 of world for rank 7, which is in all-gather 1 of world (64 MiB). The first to say so \
         is the watchdog of ranks 0-6, after 10 min.",
            "0 µs NCCL nothing",
            "Detected mismatch between collectives on ranks: ranks 0-6 in all-reduce 1 of world (64 MiB), rank 7 in all-gather 1",
            "600.1 s watchdog of ranks 0-6 [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, \
         OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for 600100 milliseconds before timing out.",
            "detected by watchdog at work: 1, last enqueued NCCL work: 2, last completed NCCL work: 0.",
            "OpType=_ALLGATHER_BASE, NumelIn=2097152, NumelOut=16777216",
            "615.1 s watchdogs processes end",
        ],
    );
}

#[test]
fn ranks_that_call_in_another_order_or_size() {
    hangs(
        "different-order",
        &[
            "ranks 0-6 wait in broadcast 1 of world for rank 7, which is in all-reduce 1 of world (64 MiB)",
        ],
    );
    hangs(
        "different-sizes",
        &[
            "ranks 0-6 wait in all-reduce 1 of world for rank 7, which is in all-reduce 1 of world (128 MiB)",
            "collective sequence 1 of world: ranks 0-6 ALLREDUCE of 268435456 bytes, rank 7 ALLREDUCE of 134217728 bytes",
        ],
    );
    // With as many messages nothing hangs, which is worse.
    let (out, err, status) = fabricsim("hang wrong-data");
    assert_eq!(status, 1);
    assert!(
        out.contains("All-reduce 1 of world ends with wrong data"),
        "{out}"
    );
    assert!(
        err.contains("wrong-data fails: all-reduce 1 of world ends with wrong data"),
        "{err}"
    );
}

#[test]
fn two_communicators_in_different_order() {
    hangs(
        "two-groups",
        &[
            "rank 0 waits in all-reduce 1 of tp for rank 1, which is in all-reduce 1 of dp: they wait for each other",
        ],
    );
    // Side by side on streams of their own they end.
    let on = |group: &str| json!({ "all-reduce": { "size": "16MiB", "on": group } });
    let (result, err, status) = calls(json!({
        "communicators": { "tp": "0-1", "dp": "0-1" }, "streams": "per_communicator",
        "ranks": [
            { "ranks": 0, "calls": [on("tp"), on("dp")] },
            { "ranks": 1, "calls": [on("dp"), on("tp")] }
        ]
    }));
    assert_eq!(status, 0, "{err}");
    assert_eq!(result["done"].as_array().unwrap().len(), 2);
}

/// Up to what buffers take a send ends without its receive (4 channels of 4 MiB for 16 MiB on 8 H100); grouped with the
/// receive, any size does.
#[test]
fn sends_before_receives() {
    hangs(
        "both-send-first",
        &[
            "rank 0 waits in a send to rank 1 for rank 1, which is in a send to rank 0: they wait for each other",
            "OpType=SEND, NumelIn=16777216",
        ],
    );
    let both = |size: &str, grouped: bool| {
        let of = |me: u32| {
            let with = json!({ "with": 1 - me, "size": size });
            let messages = json!([{ "send": with }, { "recv": with }]);
            let calls = if grouped {
                json!([{ "group": messages }])
            } else {
                messages
            };
            json!({ "ranks": me, "calls": calls })
        };
        calls(json!({ "ranks": [of(0), of(1)] })).2
    };
    assert_eq!((both("16MiB", false), both("20MiB", false)), (0, 1));
    assert_eq!(both("64MiB", true), 0);
}

#[test]
fn ranks_that_do_not_come() {
    hangs(
        "absent-rank",
        &[
            "ranks 0-6 wait in all-reduce 2 of world for rank 7, which calls nothing more",
            "work: 2, last enqueued NCCL work: 2, last completed NCCL work: 1.",
        ],
    );
    hangs(
        "crashed-rank",
        &[
            "rank 7, which has crashed after 250 ms",
            "5.2 s NCCL's RAS, if asked (ncclras) no answer from the process of rank 7",
            "60.2 s NCCL's RAS, if asked (ncclras) the process of rank 7 is declared dead",
            "600.3 s watchdog",
        ],
    );
    // From another node interfaces try eight times, for 4.3 s each.
    hangs(
        "crashed-rank -n 2",
        &["34.6 s NCCL over InfiniBand, a neighbour among ranks 0-7 NET/IB"],
    );
    hangs(
        "late-rank",
        &[
            "rank 7, which comes 900 s later",
            "600.1 s watchdog of ranks 0-6",
        ],
    );
    // Within the timeout all wait, and go on.
    let (result, err, status) = calls(json!({ "ranks": [
        { "ranks": "0-6", "calls": [reduce("64MiB")] },
        { "ranks": 7, "calls": [{ "wait": "500s" }, reduce("64MiB")] }
    ] }));
    assert_eq!(status, 0, "{err}");
    assert_eq!(result["done"][0]["began_us"], 5e8);
}

#[test]
fn a_monitored_barrier_names_the_rank() {
    hangs(
        "monitored-barrier",
        &[
            "The first to say so is the monitored barrier, rank 0, after 30.0 s.",
            "30.0 s monitored barrier, rank 0 [Rank 0]: Rank 7 failed to pass monitoredBarrier in 30000 ms",
            "monitored barrier, ranks 1-6 successfully reached monitoredBarrier, but received errors while waiting for send/recv \
         from rank 0",
        ],
    );
}

#[test]
fn registered_on_some_ranks_only() {
    hangs(
        "one-window",
        &[
            "ranks 0-6 wait in registering a window with world for rank 7, which is in all-reduce 1 of world (1 MiB)",
            "600.1 s watchdog of rank 7",
        ],
    );
    let (out, err, status) = fabricsim("hang one-buffer");
    assert_eq!(status, 0, "{err}");
    assert!(
        out.contains("7 of 8 ranks have registered theirs, and one that has not is enough"),
        "{out}"
    );
}

/// What calls take is what the operations take that they are: the second begins when the first is over.
#[test]
fn calls_that_meet_take_what_operations_take() {
    let (result, err, status) = calls(json!({ "timeout": "60s", "ranks": [
        { "ranks": "all", "calls": [reduce("64MiB"), "synchronize", { "wait": "1ms" }, reduce("64MiB")] }
    ] }));
    assert_eq!(status, 0, "{err}");
    let (out, _, _) = fabricsim("collective all-reduce -t dgx-h100 --size 64M --isolated --json");
    let alone: Value = serde_json::from_str(&out).unwrap();
    let alone = alone["rows"][0]["time_us"].as_f64().unwrap();
    let at = |index: usize, name: &str| result["done"][index][name].as_f64().unwrap();
    assert!((at(0, "ended_us") - alone).abs() < 1e-6);
    assert!((at(1, "began_us") - alone - 1000.0).abs() < 1e-6);
    assert!((at(1, "ended_us") - 2.0 * alone - 1000.0).abs() < 1e-6);
}

#[test]
fn mistakes_are_listed_and_shown_as_scenarios() {
    let (out, _, status) = fabricsim("hang list --json");
    assert_eq!(status, 0);
    let list: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&str> = list["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["name"].as_str().unwrap())
        .collect();
    assert!(names.len() >= 12);
    let (plain, _, _) = fabricsim("hang");
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        assert!(plain.contains(name));
        // What is shown is what runs.
        let (shown, err, status) = fabricsim(&format!("hang {name} --show -t gb200-nvl72"));
        assert_eq!(status, 0, "{err}");
        let file = folder.path().join("shown.json");
        fs::write(&file, shown).unwrap();
        let target = folder.path().join(name);
        let (_, err, status) =
            fabricsim(&format!("run {} -o {}", file.display(), target.display()));
        assert_eq!(status, i32::from(name != "one-buffer"), "{name}: {err}");
        let page = fs::read_to_string(target.join("report.html")).unwrap();
        let hangs = !["one-buffer", "wrong-data"].contains(&name);
        assert_eq!(page.contains("Who waits for whom"), hangs, "{name}");
    }
    let (_, err, status) = fabricsim("hang absent-rnak");
    assert_eq!(status, 2);
    assert!(err.contains("did you mean `absent-rank`?"), "{err}");
}

#[test]
fn calls_that_are_none_are_refused_with_their_place() {
    let refused = |job: Value, parts: &[&str]| {
        let (_, err, status) = calls(job);
        assert_eq!(status, 2, "{err}");
        for part in parts {
            assert!(err.contains(part), "{part} is not in {err}");
        }
    };
    let on = json!({ "all-reduce": { "size": "1MiB", "on": "pt" } });
    refused(
        json!({ "communicators": { "tp": "0-1" }, "ranks": [{ "ranks": "0-1", "calls": [on] }] }),
        &[
            "job.calls.ranks[0].calls[0].all-reduce.on",
            "one of world, tp",
        ],
    );
    let on = json!({ "all-reduce": { "size": "1MiB", "on": "tp" } });
    refused(
        json!({ "communicators": { "tp": "0-1" }, "ranks": [{ "ranks": "0-2", "calls": [on] }] }),
        &["a communicator of rank 2: tp has other ranks"],
    );
    refused(
        json!({ "ranks": [{ "ranks": "0-2", "calls": [] }, { "ranks": "2-3", "calls": [] }] }),
        &["job.calls.ranks[1].ranks", "each rank in one entry"],
    );
    refused(
        json!({ "ranks": [{ "ranks": 0, "calls": [{ "send": { "with": 0, "size": "1MiB" } }] }] }),
        &["calls[0].send.with", "another rank of world"],
    );
    refused(
        json!({ "ranks": [{ "ranks": 9, "calls": [] }] }),
        &["job.calls.ranks[0].ranks", "0 to 7"],
    );
    refused(
        json!({ "ranks": [{ "ranks": 0, "calls": [reduce("0B")] }] }),
        &["all-reduce.size", "at least 1B"],
    );
}

/// Who reads a clock without waiting for the GPU times the calls, not the operations.
#[test]
fn a_clock_that_does_not_synchronize_shows_nothing() {
    let timed = |calls_of_all: Value| {
        let (result, err, status) =
            calls(json!({ "ranks": [{ "ranks": "all", "calls": calls_of_all }] }));
        assert_eq!(status, 0, "{err}");
        (
            result["called_us"].as_f64().unwrap(),
            result["ended_us"].as_f64().unwrap(),
        )
    };
    let (called, ended) = timed(json!([reduce("1GiB")]));
    assert!(called == 0.0 && ended > 3000.0, "{called} {ended}");
    let (called, ended) = timed(json!([reduce("1GiB"), "synchronize"]));
    assert_eq!(called, ended);
}
