//! `fabricsim lab` as a browser and as others see it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use fabricsim::budget::Budget;
use fabricsim::experiment::{Silent, parse, run, validate};
use fabricsim::report::Outputs;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, until it is dropped.
struct Lab {
    child: Child,
    port: u16,
    token: String,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lab {
    fn start(port: u16) -> Lab {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fabricsim"))
            .args(["lab", "--jobs", "1", "--port", &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("http://127.0.0.1:").unwrap();
        let port = port.strip_suffix('/').unwrap().parse().unwrap();
        let mut lab = Lab {
            child,
            port,
            token: String::new(),
        };
        let page = lab.send("GET", "/", &[], "").1;
        let (_, after) = page.split_once("\"token\":\"").unwrap();
        lab.token = after.split('"').next().unwrap().to_owned();
        lab
    }

    fn own_host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.own_host());
        }
        head += "\r\n";
        // A server that refuses need not read to the end.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    /// Status and head with body.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut answer = Vec::new();
        let mut stream = self.open(method, path, headers, body);
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    /// Asks with the page's token.
    fn ask(&self, path: &str, body: &Value) -> (u16, String) {
        let token = [("X-Lab-Token", self.token.as_str())];
        let (status, answer) = self.send("POST", path, &token, &body.to_string());
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// The lines of an answer.
    fn run(&self, body: &Value) -> Vec<Value> {
        let (status, text) = self.ask("/run", body);
        assert_eq!(status, 200, "{text}");
        events(&text)
    }
}

fn events(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Places of the curve that a test has no need of.
fn all_but(at: u64) -> Vec<u64> {
    (10..=30)
        .map(|power| 1 << power)
        .filter(|&x| x != at)
        .collect()
}

fn asking(state: Value) -> Value {
    json!({ "page": "test", "generation": 1, "have": all_but(0), "state": state })
}

#[test]
fn only_this_computer_s_own_page_is_answered() {
    let lab = Lab::start(0);
    let (status, page) = lab.send("GET", "/", &[], "");
    assert_eq!(status, 200);
    for part in [
        "default-src 'none'",
        "connect-src 'self'",
        "nosniff",
        "no-store",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let port = lab.port;
    for host in ["localhost", "LOCALHOST", "LocalHost"] {
        let host = format!("{host}:{port}");
        assert_eq!(
            lab.send("GET", "/", &[("Host", &host)], "").0,
            200,
            "{host}"
        );
    }
    let others = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1:1".into(),
    ];
    for host in &others {
        let (status, said) = lab.send("GET", "/", &[("Host", host)], "");
        assert_eq!(status, 403, "{host}");
        assert!(!said.contains(&lab.token));
    }
    let body = asking(json!({})).to_string();
    let token = ("X-Lab-Token", lab.token.as_str());
    let own = format!("http://127.0.0.1:{port}");
    for (headers, expected) in [
        (vec![], 403),
        (
            vec![("X-Lab-Token", "0123456789abcdef0123456789abcdef")],
            403,
        ),
        (vec![token, ("Origin", "http://evil.example")], 403),
        (vec![token, ("Origin", "null")], 403),
        (vec![token, ("Host", "evil.example")], 403),
        (vec![token, ("Origin", &own)], 200),
    ] {
        let (status, _) = lab.send("POST", "/scenario", &headers, &body);
        assert_eq!(status, expected, "{headers:?}");
    }
    assert_eq!(lab.ask("/elsewhere", &json!({})).0, 404);
    assert_eq!(lab.ask("/run", &json!({ "page": 1 })).0, 400);
    let long = json!({ "page": "x".repeat(1_100_000), "generation": 1, "state": {} });
    assert_eq!(lab.ask("/run", &long).0, 413);
}

#[test]
fn connections_that_ask_for_nothing_shut_nobody_out() {
    let lab = Lab::start(0);
    let idle = || TcpStream::connect(("127.0.0.1", lab.port)).unwrap();
    // Halves of requests, again and again; nobody waits until the time for their heads is over.
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..3 {
        held.extend((0..64).map(|_| {
            let mut half = idle();
            let _ = half.write_all(b"POST /run HTTP/1.1\r\nHost: ");
            half
        }));
        let (status, page) = lab.send("GET", "/", &[], "");
        assert_eq!(status, 200);
        assert!(page.len() > 10_000);
    }
    // The oldest are closed.
    let mut first = held.swap_remove(0);
    let mut answer = Vec::new();
    let _ = first.read_to_end(&mut answer);
    assert!(answer.is_empty());
    let told = lab.run(&asking(json!({})));
    assert!(told.iter().any(|event| event["event"] == "point"));
}

/// What takes long to plan and to simulate.
fn long(page: &str) -> Value {
    let state = json!({
        "machine": "superpod-h100", "nodes": "128", "algorithm": "direct", "size": "1GiB",
    });
    json!({ "page": page, "generation": 1, "have": all_but(0), "state": state })
}

#[test]
fn a_state_that_takes_long_keeps_no_other_waiting() {
    let lab = Lab::start(0);
    let token = [("X-Lab-Token", lab.token.as_str())];
    let open = |page| lab.open("POST", "/run", &token, &long(page).to_string());
    let mut busy = ["first", "second"].map(open);
    let told = lab.run(&asking(json!({})));
    assert!(
        told.iter().any(|event| event["event"] == "point"),
        "{told:?}"
    );
    // Those have not come to a result.
    for stream in &mut busy {
        let mut so_far = vec![0; 1 << 20];
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut so_far).unwrap_or(0);
        let so_far = String::from_utf8_lossy(&so_far[..read]);
        assert!(!so_far.contains("\"event\":\"point\""), "{so_far}");
    }
}

/// Seconds of processor time that a program has had.
#[cfg(target_os = "linux")]
fn worked(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: Vec<f64> = fields
        .skip(11)
        .take(2)
        .map(|n| n.parse().unwrap())
        .collect();
    ticks.iter().sum::<f64>() / 100.0
}

#[test]
#[cfg(target_os = "linux")]
fn a_plan_is_not_made_to_its_end_for_a_page_that_is_gone() {
    let lab = Lab::start(0);
    let token = [("X-Lab-Token", lab.token.as_str())];
    let mut stream = lab.open("POST", "/run", &token, &long("gone").to_string());
    let mut begun = String::new();
    let mut reader = BufReader::new(&mut stream);
    while !begun.contains("\"begin\"") {
        begun.clear();
        assert!(reader.read_line(&mut begun).unwrap() > 0);
    }
    drop(stream);
    // Left alone it would work for a minute.
    let before = worked(lab.child.id());
    let idle = |_: &i32| {
        let from = worked(lab.child.id());
        std::thread::sleep(std::time::Duration::from_millis(500));
        worked(lab.child.id()) - from < 0.05
    };
    assert!((0..60).any(|round| idle(&round)));
    let took = worked(lab.child.id()) - before;
    assert!(took < 8.0, "{took} s of work for nobody");
}

#[test]
fn a_taken_port_is_passed_over() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let lab = Lab::start(port);
    assert!(
        lab.port > port && lab.port < port.saturating_add(20),
        "{port} {}",
        lab.port
    );
}

#[test]
fn a_state_is_the_scenario_that_it_is_saved_as() {
    let lab = Lab::start(0);
    let state = json!({
        "machine": "superpod-h100", "nodes": "2", "job": "all-gather", "size": "3MiB",
        "protocol": "simple", "rate.nvlink4": "12.5GB/s", "oversubscription": "2",
        "nic": "node1/nic2:0.5", "env.NCCL_MAX_NCHANNELS": "4",
    });
    let told = lab.run(&asking(state.clone()));
    assert_eq!(told[0]["event"], "begin");
    assert_eq!(told[0]["points"][0], 3 << 20);
    let point = told.iter().find(|event| event["event"] == "point").unwrap();
    let detail = told
        .iter()
        .find(|event| event["event"] == "detail")
        .unwrap();
    assert!(detail["timeline"].as_str().unwrap().contains("<canvas"));
    let (status, saved) = lab.ask("/scenario", &asking(state));
    assert_eq!(status, 200, "{saved}");
    let experiment = validate(parse(&saved, "saved", &[]).unwrap(), Path::new("")).unwrap();
    let budget = Budget::default();
    let results = run(&experiment, &budget, &Outputs::of([]), &mut Silent).unwrap();
    let rows = &results.summary.only_collective().unwrap().result.rows;
    let row = rows.iter().find(|row| row.bytes == 3 << 20).unwrap();
    assert_eq!(rows.len(), 22);
    assert_eq!(point["time_us"], json!(row.time_us));
    assert_eq!(point["busbw_gbs"], json!(row.busbw_gbs));
}

#[test]
fn what_is_wrong_is_said_at_its_control() {
    let lab = Lab::start(0);
    for (state, control, part) in [
        (
            json!({ "machine": "dgx-h10" }),
            "machine",
            "did you mean `dgx-h100` or `dgx-h100-nvme`?",
        ),
        (json!({ "gpus": "9" }), "gpus", "1 to 8"),
        (json!({ "nodes": "many" }), "nodes", "whole number"),
        (json!({ "size": "64Mbi" }), "size", "64Mbi"),
        (json!({ "algorithm": "rings" }), "algorithm", "`ring`?"),
        (
            json!({ "nic": "node0/nic9:0.5" }),
            "nic",
            "expected `nic[0-7]`",
        ),
        (json!({ "slow": "0:-1" }), "slow", "-1"),
        (json!({ "rate.nvlink4": "fast" }), "rate.nvlink4", "`fast`"),
        (
            json!({ "rate.nvlink9": "25GB/s" }),
            "rate.nvlink9",
            "nvlink9",
        ),
        (json!({ "env.NCCL_ALGO": "Rings" }), "env", "Rings"),
        (json!({ "colour": "red" }), "", "no control `colour`"),
        (
            json!({ "job": "fsdp-70b-32gpu", "bucket": "25MiB" }),
            "bucket",
            "DDP",
        ),
    ] {
        let told = lab.run(&asking(state.clone()));
        let refused = told.iter().find(|event| event["event"] == "refused");
        let refused = refused.unwrap_or_else(|| panic!("{state}: {told:?}"));
        assert_eq!(refused["control"], control, "{refused}");
        let said = refused["message"].as_str().unwrap();
        assert!(said.contains(part), "{state}: {said}");
    }
}

#[test]
fn two_states_differ_by_what_the_waterfall_says() {
    let lab = Lab::start(0);
    let [a, b] =
        ["ring", "tree"].map(|algorithm| json!({ "algorithm": algorithm, "size": "1MiB" }));
    let time = |state: &Value| {
        let told = lab.run(&asking(state.clone()));
        let point = told.iter().find(|event| event["event"] == "point").unwrap();
        point["time_us"].as_f64().unwrap()
    };
    let (from, to) = (time(&a), time(&b));
    let told = lab.run(&json!({ "page": "pins", "generation": 1, "state": a, "beside": b }));
    let [compared] = told.as_slice() else {
        panic!("{told:?}");
    };
    let waterfall = &compared["waterfall"][0];
    let picos = |value: &Value| (value.as_f64().unwrap() * 1e6).round() as i64;
    let parts = waterfall["parts"].as_array().unwrap();
    let sum: i64 = parts.iter().map(|part| picos(&part["us"])).sum();
    assert_eq!(sum, ((to - from) * 1e6).round() as i64);
    assert!(
        compared["html"]
            .as_str()
            .unwrap()
            .contains("class=\"waterfall\"")
    );
}

#[test]
fn a_page_that_asks_anew_gets_nothing_more_of_what_it_asked_before() {
    let lab = Lab::start(0);
    let slow = json!({ "page": "p", "generation": 1, "state": { "machine": "superpod-h100", "nodes": "8", "slow": "3:0.9" } });
    let token = [("X-Lab-Token", lab.token.as_str())];
    let mut first = BufReader::new(lab.open("POST", "/run", &token, &slow.to_string()));
    // It is being worked on.
    let mut line = String::new();
    while !line.contains("\"begin\"") {
        line.clear();
        assert!(first.read_line(&mut line).unwrap() > 0);
    }
    let again =
        json!({ "page": "p", "generation": 2, "have": all_but(0), "state": { "size": "1KiB" } });
    let told = lab.run(&again);
    assert!(told.iter().any(|event| event["event"] == "point"));
    let mut rest = String::new();
    first.read_to_string(&mut rest).unwrap();
    let points = rest.matches("\"event\":\"point\"").count();
    assert!(points < 21, "{points}");
    // Nor is one answered that comes after, which is told so.
    let late = json!({ "page": "p", "generation": 1, "state": {} });
    let told = lab.run(&late);
    let [given_up] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(given_up["event"], "given_up");
    assert!(
        given_up["message"]
            .as_str()
            .unwrap()
            .contains("another state")
    );
}
