//! Hand-overs of KV caches over the machine's links, against closed forms.

use crate::scenario::{model, scenario, serve};
use fabricsim::topology::{LinkFamily, Overrides, catalogue, expand_and_check};
use serde_json::{Value, json};

/// So many engines for prompts and one that generates, each on a GPU of a node of its own.
fn split(senders: u32, requests: u32, concurrency: u32, handover: Value) -> Value {
    let job = json!({
        "model": model(),
        "engine": { "pass_time": { "fixed": { "prefill": "50ms", "decode": "10ms" } }, "num_gpu_blocks": 65536 },
        "pools": [
            { "role": "prefill", "replicas": senders, "parallel": { "tp": 1 } },
            { "role": "decode", "replicas": 1, "parallel": { "tp": 1 } }
        ],
        "handover": handover,
        "load": { "closed": { "concurrency": concurrency } },
        "requests": requests,
        "lengths": { "input": 8192, "output": 4 }
    });
    scenario(&job, &json!({ "nodes": senders + 1, "gpus_per_node": 1 }))
}

/// Bytes of a prompt's keys and values: 4 layers, 8 heads of 128, keys and values, 16 bits.
const BYTES: f64 = 8192.0 * 4.0 * 2.0 * 8.0 * 128.0 * 2.0;

/// Milliseconds that they take from GPU to GPU on two nodes: the slower of PCIe and the network.
fn alone_ms() -> f64 {
    let spec = catalogue::find("dgx-h100").expect("shipped");
    let nodes = Overrides { nodes: Some(2) };
    let (topology, _) = expand_and_check(&spec, catalogue::hardware(), &nodes).expect("valid");
    let narrowest = |family| {
        let rates = topology
            .links()
            .filter(|(id, _)| topology.family(*id) == family);
        rates
            .map(|(id, _)| topology.rate(id).bytes_per_sec())
            .min()
            .expect("links")
    };
    // The narrowest PCIe links of the node are the NICs' and the GPUs'.
    let rate = narrowest(LinkFamily::Network).min(narrowest(LinkFamily::Pcie));
    BYTES / rate as f64 * 1e3
}

fn free_of_costs() -> Value {
    json!({ "posting": "0s", "latency": "0s", "setup": "0s" })
}

#[test]
fn one_sender_adds_the_time_of_its_bytes() {
    let free = serve(&split(1, 3, 1, json!({ "free": true })));
    let moved = serve(&split(1, 3, 1, free_of_costs()));
    let ttft =
        |result: &fabricsim::report::serving::ServingResult| result.ttft_ms.expect("served").p50;
    // A pass for the prompt, and one for the first token.
    assert_eq!(ttft(&free), 60.0);
    let added = ttft(&moved) - ttft(&free);
    assert!(
        (added / alone_ms() - 1.0).abs() < 0.01,
        "{added} {}",
        alone_ms()
    );
    let used = moved.handover.expect("handed over");
    assert_eq!((used.count, used.bytes), (3, 3 * BYTES as u64));
    // A given rate is kept, whatever the links do.
    let given = serve(&split(
        1,
        3,
        1,
        json!({ "bandwidth": "1GB/s", "setup": "0s" }),
    ));
    let added = ttft(&given) - 60.0;
    assert!((added / (BYTES / 1e6) - 1.0).abs() < 0.01, "{added}");
}

#[test]
fn senders_into_one_port_share_it() {
    for senders in 1..=4 {
        // Each has one request, all at the same time.
        let result = serve(&split(senders, senders, senders, free_of_costs()));
        let used = result.handover.expect("handed over");
        let expected = alone_ms() * f64::from(senders);
        assert!(
            (used.time_ms.max / expected - 1.0).abs() < 0.01,
            "{senders}: {} ms for {expected}",
            used.time_ms.max
        );
        assert!(
            (used.alone_ms / alone_ms() - 1.0).abs() < 0.01,
            "{}",
            used.alone_ms
        );
        // Senders with a rate of their own would not notice each other: what a simulator without a network says.
        let given = json!({ "bandwidth": "20GB/s", "setup": "0s" });
        let given = serve(&split(senders, senders, senders, given));
        let time = given
            .handover
            .map(|used| used.time_ms.max)
            .expect("handed over");
        assert!((time / (BYTES / 20e6) - 1.0).abs() < 0.01, "{time}");
    }
}

#[test]
fn posting_and_pages_cost_what_they_are_said_to() {
    let with = |handover: Value, block_tokens: u32| {
        let mut of = split(1, 2, 1, handover);
        of["job"]["serving"]["engine"]["block_tokens"] = json!(block_tokens);
        let used = serve(&of).handover.expect("handed over");
        used.time_ms.p50
    };
    // 512 blocks of 16 tokens, keys and values of 4 layers: 4,096 descriptors of 20 us are slower than the wire.
    // Bytes of others flow while one is posted.
    let slow = json!({ "posting": "20us", "latency": "0s", "setup": "0s" });
    let time = with(slow.clone(), 16);
    assert!((time / (4096.0 * 0.02) - 1.0).abs() < 0.001, "{time}");
    // Pages eight times as large have an eighth of them, still more than the wire takes.
    let time = with(slow, 128);
    assert!((time / (512.0 * 0.02) - 1.0).abs() < 0.001, "{time}");
    // Gathered in a buffer of 8 MiB there are 32 of them: the wire takes longer.
    let staged = json!({ "posting": "20us", "latency": "0s", "setup": "0s", "staging": "8MiB" });
    let time = with(staged, 16);
    assert!((time / alone_ms() - 1.0).abs() < 0.01, "{time}");
    let started = json!({ "posting": "0s", "latency": "0s", "setup": "7ms" });
    let time = with(started, 16);
    assert!(
        (time - alone_ms() - 7.0).abs() < 0.01 * alone_ms(),
        "{time}"
    );
}

#[test]
fn sends_while_a_prompt_is_computed_leave_the_last_part_alone_exposed() {
    let with = |pipelined: bool| {
        let mut handover = free_of_costs();
        handover["order"] = json!("push");
        handover["pipelined"] = json!(pipelined);
        let mut of = split(1, 1, 1, handover);
        of["job"]["serving"]["engine"]["token_budget"] = json!(2048);
        serve(&of).ttft_ms.expect("served").p50
    };
    // Four passes of 50 ms; the first token comes with the KV cache.
    assert!((with(false) - 200.0 - alone_ms()).abs() < 0.01 * alone_ms());
    assert!((with(true) - 200.0 - alone_ms() / 4.0).abs() < 0.01 * alone_ms());
}

#[test]
fn the_engine_that_generates_lets_in_what_it_has_blocks_for() {
    // Blocks for two of four requests, which come at the same time from four engines.
    let mut of = split(4, 4, 4, free_of_costs());
    of["job"]["serving"]["engine"]["num_gpu_blocks"] = json!(1030);
    let result = serve(&of);
    let used = result.handover.expect("handed over");
    assert_eq!(used.count, 4);
    // The last two wait until the first two have got their tokens.
    assert!(used.wait_ms.max > 4.0 * 10.0, "{:?}", used.wait_ms);
    assert_eq!(used.wait_ms.p50, 0.0);
    let parts: f64 = result.ttft_parts.iter().map(|part| part.us).sum();
    let mean = result.ttft_ms.expect("served").mean;
    assert!((parts / 1e3 - mean).abs() < 1e-6, "{parts} {mean}");
    let slowest = result.slowest.expect("one");
    let parts: f64 = slowest.parts.iter().map(|part| part.us).sum();
    assert!((parts / 1e3 - slowest.ttft_ms).abs() < 1e-6);
}
