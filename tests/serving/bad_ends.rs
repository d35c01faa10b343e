//! Serving that cannot be, or ends badly: each with its name.

use crate::scenario::{model, refused, results, scenario, serve};
use serde_json::{Value, json};

fn job(more: &Value) -> Value {
    let mut job = json!({
        "model": { "preset": "llama3-8b" },
        "pools": [{ "replicas": 1, "parallel": { "tp": 1 } }],
        "load": { "closed": { "concurrency": 2 } },
        "requests": 4,
        "lengths": { "input": 128, "output": 8 }
    });
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        job[key] = value;
    }
    job
}

fn one_node(more: &Value) -> Value {
    scenario(&job(more), &json!({ "nodes": 1 }))
}

#[test]
fn what_cannot_be_is_told_with_its_place() {
    let fixed = json!({ "fixed": { "prefill": "50ms", "decode": "10ms" } });
    for (more, expected) in [
        (
            json!({ "model": { "preset": "llama3-70b" } }),
            &[
                "131.4 GiB of weights",
                "more than the",
                "expected: tp 2 or more",
            ][..],
        ),
        (
            json!({ "pools": [{ "parallel": { "tp": 3 } }] }),
            &["3, of 32 heads", "a divisor of them: 1, 2, 4, 8, 16, 32"],
        ),
        (
            json!({ "engine": { "num_gpu_blocks": 4 } }),
            &["a KV cache of 4 blocks, which hold 64 tokens; the smallest request has 135"],
        ),
        (
            json!({ "pools": [{ "role": "prefill" }] }),
            &["`prefill` and none of `decode`"],
        ),
        (
            json!({ "pools": [{ "replicas": 9, "parallel": { "tp": 1 } }] }),
            &["9 engines of 1 GPUs, where 8 are left", "1 to 8 engines"],
        ),
        (
            json!({ "lengths": null }),
            &["job.serving.lengths", "tokens of requests"],
        ),
        (
            json!({ "load": { "poisson": { "rate": 0.0 } } }),
            &["load.poisson.rate", "above 0"],
        ),
        (
            json!({ "warm_up": 4 }),
            &["warm_up", "fewer than the 4 requests"],
        ),
        (
            json!({ "lengths": { "input": 0, "output": 1 } }),
            &["lengths.input", "1 to 100000000 tokens"],
        ),
        (
            json!({ "load": { "trace": { "file": "none.csv" } } }),
            &["load.trace.file", "a file that can be read"],
        ),
        (
            json!({ "load": { "trace": { "file": "none.csv", "prefix_block_tokens": 0 } } }),
            &[
                "load.trace.prefix_block_tokens",
                "tokens of a block above 0",
            ],
        ),
        (
            json!({ "pools": [{ "parallel": { "ep": 2 } }] }),
            &["2, of a model without experts"],
        ),
        (
            json!({ "engine": { "pass_time": fixed, "memory_share": 1.5 } }),
            &["engine.memory_share", "at most 1"],
        ),
        (
            json!({ "engine": { "launch_share": -0.5 } }),
            &["engine.launch_share", "from 0 to 1"],
        ),
    ] {
        let told = refused(&one_node(&more));
        for part in expected {
            assert!(told.contains(part), "{more}: {told}");
        }
    }
}

#[test]
fn load_above_what_engines_do_is_overload() {
    let more = json!({
        "load": { "constant": { "rate": 100.0 } }, "requests": 500, "drain": "1s",
        "engine": { "pass_time": { "fixed": { "prefill": "50ms", "decode": "50ms" } }, "max_sequences": 4 }
    });
    let result = serve(&one_node(&more));
    assert_eq!(
        result.verdict.map(|verdict| verdict.name()),
        Some("OVERLOADED")
    );
    // Four at a time, 8 passes of 50 ms each: 10 a second, for 4.99 + 1 s.
    assert!(
        (52..=60).contains(&result.completed),
        "{}",
        result.completed
    );
    assert_eq!(result.rejected.len() + result.completed as usize, 500);
    assert!(result.ttft_ms.is_some());
    assert!(
        result.rejected[0].why.contains("time was up"),
        "{}",
        result.rejected[0].why
    );
}

#[test]
fn load_a_little_above_is_a_backlog() {
    let more = json!({
        "load": { "constant": { "rate": 12.0 } }, "requests": 500,
        "engine": { "pass_time": { "fixed": { "prefill": "50ms", "decode": "50ms" } }, "max_sequences": 4 }
    });
    let result = serve(&one_node(&more));
    assert_eq!(result.completed, 500);
    let stable = json!({
        "load": { "constant": { "rate": 8.0 } }, "requests": 500,
        "engine": { "pass_time": { "fixed": { "prefill": "50ms", "decode": "50ms" } }, "max_sequences": 4 }
    });
    assert_eq!(
        serve(&one_node(&stable)).verdict.map(|v| v.name()),
        Some("STABLE")
    );
}

/// Without a number an engine takes no more GPUs than there are, and an error names the number that fits: the
/// weights of Llama 3 70B fit two of 80 GB, and leave a quarter of the memory free on four.
#[test]
fn engines_take_the_gpus_that_there_are() {
    let of = |gpus: u32, parallel: Value| {
        let job = json!({
            "model": { "preset": "llama3-70b" }, "pools": [{ "parallel": parallel }],
            "load": { "closed": { "concurrency": 2 } }, "requests": 4,
            "lengths": { "input": 64, "output": 4 }
        });
        scenario(&job, &json!({ "nodes": 1, "gpus_per_node": gpus }))
    };
    for (gpus, each) in [(2, 2), (4, 4), (8, 4)] {
        let served = serve(&of(gpus, json!({})));
        assert_eq!(served.pools[0].gpus_per_engine, each, "{gpus}");
    }
    let told = refused(&of(2, json!({ "tp": 8 })));
    assert!(told.contains("`parallel.tp` 2, which fits"), "{told}");
    let told = refused(&of(1, json!({})));
    assert!(told.contains("a machine with 1 GPUs more"), "{told}");
}

#[test]
fn requests_that_never_fit_are_refused_and_the_others_served() {
    let more = json!({
        "lengths": { "input": { "uniform": [16, 2000] }, "output": 8 }, "requests": 50,
        "engine": { "num_gpu_blocks": 64 }
    });
    let result = serve(&one_node(&more));
    assert!(!result.rejected.is_empty() && result.completed > 0);
    assert_eq!(result.rejected.len() + result.completed as usize, 50);
    assert!(
        result.rejected[0]
            .why
            .contains("do not fit a KV cache of 1024"),
        "{:?}",
        result.rejected[0]
    );
}

#[test]
fn an_slo_that_nothing_meets_is_a_share_of_none() {
    let result = serve(&one_node(&json!({ "slo": { "ttft": "1us" } })));
    assert_eq!(
        (result.slo_share, result.goodput_requests_per_s),
        (Some(0.0), Some(0.0))
    );
}

#[test]
fn a_nic_that_is_lost_for_good_is_gone_around_or_told() {
    let job = json!({
        "model": model(),
        "engine": { "pass_time": { "fixed": { "prefill": "50ms", "decode": "10ms" } } },
        "pools": [
            { "role": "prefill", "replicas": 1, "parallel": { "tp": 1 } },
            { "role": "decode", "replicas": 1, "parallel": { "tp": 1 } }
        ],
        "load": { "closed": { "concurrency": 1 } }, "requests": 4, "lengths": { "input": 4096, "output": 4 }
    });
    let lost = |at: &str| {
        let faults = json!([{ "failed": { "devices": "node1/nic0", "at": at } }]);
        scenario(
            &job,
            &json!({ "nodes": 2, "gpus_per_node": 1, "faults": faults }),
        )
    };
    // Before anything begins: another NIC of the node takes its place, on another rail.
    let around = serve(&lost("0s"));
    assert_eq!(around.completed, 4);
    // While a hand-over is under way: it never arrives.
    let results = results(&lost("55ms")).unwrap_or_else(|error| panic!("{error}"));
    let why = results.summary.variants[0].job.failure().map(str::to_owned);
    let why = why.expect("it does not end");
    assert!(why.contains("link that is down"), "{why}");
}
