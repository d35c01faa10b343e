//! Steady state: figures of queues against theory, verdicts that do not depend on how long is looked, capacity.

use crate::scenario::{model, scenario, serve};
use fabricsim::report::serving::{ServingResult, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};

/// A server that computes one prompt after the other: its times are those of prompts.
fn queue(pass_time: &Value, input: &Value, rate: f64) -> Value {
    json!({
        "model": model(),
        "engine": {
            "policy": "static", "max_sequences": 1, "num_gpu_blocks": 100_000,
            "pass_time": pass_time
        },
        "pools": [{ "replicas": 1, "parallel": { "tp": 1 } }],
        "load": { "poisson": { "rate": rate } },
        "lengths": { "input": input, "output": 1 }
    })
}

fn on_one_gpu(job: &Value) -> ServingResult {
    serve(&scenario(job, &json!({ "nodes": 1, "gpus_per_node": 1 })))
}

fn name(result: &ServingResult) -> &'static str {
    result.verdict.map_or("", Verdict::name)
}

/// An M/D/1 queue: customers stay 1 + ρ / 2 (1 − ρ) times as long as they are served.
#[test]
fn a_queue_of_equal_prompts_is_what_theory_says() {
    let fixed = json!({ "fixed": { "prefill": "10ms", "decode": "1ms" } });
    for load in [0.3, 0.5, 0.7, 0.9] {
        let result = on_one_gpu(&queue(&fixed, &json!(100), 100.0 * load));
        let theory = 10.0 * (1.0 + load / (2.0 * (1.0 - load)));
        let found = result.ttft_ms.expect("served").mean;
        assert!(
            (found / theory - 1.0).abs() < 0.03,
            "load {load}: {found} for {theory} ms"
        );
        assert_eq!(name(&result), "STABLE", "load {load}");
        assert_eq!(
            result.requests_per_s,
            result.requests_per_s.clamp(99.0 * load, 101.0 * load)
        );
    }
    for load in [1.05, 2.0] {
        let result = on_one_gpu(&queue(&fixed, &json!(100), 100.0 * load));
        assert_eq!(name(&result), "BACKLOGGED", "load {load}");
        let holds = result.holds_per_s.expect("a backlog");
        assert!((99.0..=100.0).contains(&holds), "{holds}");
    }
}

/// An M/G/1 queue (Pollaczek and Khinchine): the wait is ρ (1 + c²) / 2 (1 − ρ) times the mean service, whose
/// coefficient of variation is c. Service is what a prompt takes: even from 50 to 150 tokens at 0.1 ms each.
#[test]
fn a_queue_of_unequal_prompts_is_what_theory_says() {
    let times = json!({ "polynomial": { "prefill": [0.0, 0.1, 0.0], "decode": [1.0, 0.0, 0.0], "decode_min": 0.0 } });
    let lengths = json!({ "uniform": [50, 150] });
    // Of whole numbers of tokens.
    let variance = (101.0f64.powi(2) - 1.0) / 12.0 / 100.0f64.powi(2);
    for load in [0.3, 0.5, 0.7, 0.9] {
        let result = on_one_gpu(&queue(&times, &lengths, 100.0 * load));
        let theory = 10.0 * (1.0 + load * (1.0 + variance) / (2.0 * (1.0 - load)));
        let found = result.ttft_ms.expect("served").mean;
        assert!(
            (found / theory - 1.0).abs() < 0.03,
            "load {load}: {found} for {theory} ms"
        );
    }
}

/// Engines with eight seats, whose passes take longer the more of them are taken.
fn batched(rate: f64, requests: Option<u32>) -> Value {
    let mut job = json!({
        "model": model(),
        "engine": {
            "max_sequences": 8, "num_gpu_blocks": 10_000,
            "pass_time": { "polynomial": { "prefill": [2.0, 0.01, 0.0], "decode": [2.0, 0.5, 0.0], "decode_min": 0.0 } }
        },
        "pools": [{ "replicas": 1, "parallel": { "tp": 1 } }],
        "load": { "poisson": { "rate": rate } },
        "lengths": { "input": { "uniform": [50, 150] }, "output": { "uniform": [4, 20] } }
    });
    match requests {
        Some(requests) => job["requests"] = requests.into(),
        None => job["window"] = json!({ "steady": { "most_passes": 100_000 } }),
    }
    job
}

/// A verdict does not turn into its opposite when ten times as many requests are served, and a run that is as long as it
/// has to be tells nearly always.
#[test]
fn verdicts_do_not_depend_on_how_many_requests_there_are() {
    let most = on_one_gpu(&batched(1.0, None)).saturation.expect("a rate");
    let mut rng = ChaCha8Rng::seed_from_u64(56);
    let mut draw =
        |from: f64, to: f64| from + (to - from) * (rng.next_u32() as f64 / u32::MAX as f64);
    let mut loads: Vec<f64> = (0..40).map(|_| draw(0.5, 1.5)).collect();
    loads.extend((0..10).map(|_| draw(0.95, 1.05)));
    let mut unclear = 0;
    for load in loads {
        let rate = load * most.requests_per_s;
        let long = on_one_gpu(&batched(rate, None));
        unclear += u32::from(long.verdict == Some(Verdict::TooShort));
        let some = [Some(1_000), Some(10_000)].map(|count| on_one_gpu(&batched(rate, count)));
        let all = [name(&long), name(&some[0]), name(&some[1])];
        let both = all.contains(&"STABLE") && all.contains(&"BACKLOGGED");
        assert!(!both, "load {load}: {all:?}");
    }
    assert!(unclear <= 5, "{unclear} of 50");
}

/// Of few requests it is not said that engines keep up, whatever the load.
#[test]
fn a_short_run_says_so() {
    for rate in [20.0, 200.0] {
        let result = on_one_gpu(&batched(rate, Some(20)));
        assert_eq!(name(&result), "TOO_SHORT", "{rate}");
        assert!(result.too_short.is_some());
    }
}

/// The largest rate that keeps a limit holds, and a little more does not.
#[test]
fn capacity_holds_and_more_does_not() {
    let mut job = batched(1.0, None);
    job["slo"] = json!({ "ttft": "40ms" });
    job["capacity"] = json!({ "serve": true });
    let result = on_one_gpu(&job);
    let capacity = result.capacity.expect("some rate holds");
    assert!(
        capacity.requests_per_s_hi <= 1.021 * capacity.requests_per_s,
        "{capacity:?}"
    );
    assert_eq!(result.offered_per_s, Some(capacity.requests_per_s));
    let share = |rate: f64| {
        let mut job = batched(rate, None);
        job["slo"] = json!({ "ttft": "40ms" });
        on_one_gpu(&job).slo_share.expect("a limit")
    };
    assert!(share(0.95 * capacity.requests_per_s) >= 0.9);
    assert!(share(1.1 * capacity.requests_per_s) < 0.9);
    // Without limits, what full engines do.
    let mut job = batched(1.0, None);
    job["capacity"] = json!({});
    let result = on_one_gpu(&job);
    let (capacity, most) = (
        result.capacity.expect("some"),
        result.saturation.expect("some"),
    );
    assert!(
        capacity.requests_per_s >= 0.9 * most.requests_per_s,
        "{capacity:?} {most:?}"
    );
    assert_eq!(capacity.limited_by, "saturation");
}
