//! Policies: what they share and where they differ, in closed form.

use crate::scenario::{model, scenario, serve};
use serde_json::{Value, json};

fn closed(engine: Value, concurrency: u32, requests: u32, lengths: [u32; 2]) -> Value {
    let mut engine = engine;
    engine["pass_time"] = json!({ "fixed": { "prefill": "50ms", "decode": "10ms" } });
    let job = json!({
        "model": model(),
        "engine": engine,
        "pools": [{ "replicas": 1, "parallel": { "tp": 1 } }],
        "load": { "closed": { "concurrency": concurrency } },
        "requests": requests,
        "window": { "whole": {} },
        "lengths": { "input": lengths[0], "output": lengths[1] }
    });
    scenario(&job, &json!({ "nodes": 1, "gpus_per_node": 1 }))
}

/// vLLM runs one pass over all tokens: the one that ends a prompt gives its first token, and costs no decode
/// beside. So of one request alone the first token comes after the prompt's pass, and a request of 16 tokens takes
/// 50 + 15 × 10 ms; where passes add up, 60 + 15 × 10.
#[test]
fn one_pass_over_all_tokens_is_what_an_engine_runs() {
    let of = |cost: &str| {
        let result = serve(&closed(json!({ "pass_cost": cost }), 1, 4, [1024, 16]));
        let ttft = result.ttft_ms.expect("served");
        let e2e = result.e2e_ms.expect("served");
        (ttft.mean, ttft.max, e2e.mean, result.duration_s)
    };
    assert_eq!(of("fused"), (50.0, 50.0, 200.0, 0.8));
    assert_eq!(of("sum"), (60.0, 60.0, 210.0, 0.84));
    assert_eq!(of("max"), (50.0, 50.0, 200.0, 0.8));
}

/// A front end reads one prompt after the other, 100 tokens each here, and takes 5 ms more for each by itself: of two
/// prompts at once the second is queued 100 ms behind the first, whose pass is over by then.
#[test]
fn a_front_end_reads_one_prompt_after_the_other() {
    let engine = json!({ "front_end": "5ms", "front_end_per_token": "1ms" });
    let ttft = serve(&closed(engine, 2, 2, [100, 1])).ttft_ms;
    let ttft = ttft.expect("served");
    assert_eq!((ttft.p50, ttft.max), (155.0, 255.0));
}

/// 16 requests, 8 prompts a pass. vLLM: 8 first tokens after 50 ms; beside their 8 tokens the second pass has room
/// for 7 prompts and a part of the eighth, which ends in the third.
#[test]
fn vllm_fills_a_pass_with_prompts_beside_tokens() {
    let result = serve(&closed(json!({}), 16, 16, [1024, 16]));
    let ttft = result.ttft_ms.expect("served");
    assert_eq!((ttft.p50, ttft.max), (50.0, 150.0));
    assert_eq!(ttft.mean, (8.0 * 50.0 + 7.0 * 100.0 + 150.0) / 16.0);
}

/// SGLang computes all prompts first, in two passes of their own; nobody gets a second token before.
#[test]
fn sglang_computes_prompts_first() {
    let result = serve(&closed(json!({ "policy": "sglang" }), 16, 16, [1024, 16]));
    let ttft = result.ttft_ms.expect("served");
    assert_eq!((ttft.p50, ttft.max), (50.0, 100.0));
    // The first eight wait for the second pass, then all get a token every 10 ms.
    assert_eq!(result.itl_ms.expect("tokens").max, 60.0);
    assert_eq!(result.e2e_ms.expect("served").max, 100.0 + 15.0 * 10.0);
}

/// TensorRT-LLM never takes blocks away: of four requests that need 80 blocks each at their end, 140 blocks let one in
/// at a time; vLLM starts two.
#[test]
fn trtllm_lets_in_what_fits_to_its_end() {
    let tight = |policy: &str| {
        let engine = json!({ "policy": policy, "num_gpu_blocks": 140, "block_tokens": 16 });
        serve(&closed(engine, 4, 4, [1024, 256]))
    };
    let one_by_one = tight("trtllm");
    assert_eq!(one_by_one.kv.preemptions, 0);
    let each = 50.0 + 255.0 * 10.0;
    assert!((one_by_one.duration_s * 1e3 - 4.0 * each).abs() < 1e-6);
    let vllm = tight("vllm");
    assert!(vllm.kv.preemptions > 0);
    assert!(vllm.duration_s < one_by_one.duration_s);
}

/// A static batch ends before the next begins, though its short requests were done long before.
#[test]
fn static_batches_wait_for_their_longest() {
    let engine = json!({ "policy": "static", "max_sequences": 4, "chunked_prefill": false });
    let result = serve(&closed(engine, 8, 8, [1024, 11]));
    let ttft = result.ttft_ms.expect("served");
    // The second batch starts when the first is through: 50 + 10 × 10 ms.
    assert_eq!((ttft.p50, ttft.max), (50.0, 150.0 + 50.0));
}

/// The same prompt twice: the second finds all but its last block, which it has to compute.
#[test]
fn prompts_that_begin_alike_are_computed_once() {
    let folder = std::env::temp_dir().join(format!("fabricsim-serving-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("trace.jsonl");
    let line = |ms: u32| {
        format!(
            "{{\"timestamp\": {ms}, \"input_length\": 1024, \"output_length\": 2, \"hash_ids\": [7, 8]}}\n"
        )
    };
    std::fs::write(&file, line(0) + &line(1000) + &line(2000)).expect("a file");
    let with = |prefix_cache: bool| {
        let mut of = closed(json!({ "prefix_cache": prefix_cache }), 1, 3, [1, 1]);
        let job = &mut of["job"]["serving"];
        job["load"] = json!({ "trace": { "file": file } });
        job["lengths"] = Value::Null;
        job["engine"]["pass_time"] =
            json!({ "polynomial": { "prefill": [0.0, 0.1, 0.0], "decode": [1.0, 0.0, 0.0] } });
        serve(&of)
    };
    let (cold, warm) = (with(false), with(true));
    let first =
        |result: &fabricsim::report::serving::ServingResult| result.ttft_ms.expect("served");
    // 1,024 tokens of 0.1 ms; of the later two the last block's 16.
    assert!((first(&cold).mean - 102.4).abs() < 1e-9);
    assert!((first(&warm).max - 102.4).abs() < 1e-9 && (first(&warm).p50 - 1.6).abs() < 1e-9);
    assert_eq!(warm.kv.hit_share, 2.0 * 1008.0 / 3072.0);
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Four guesses, each right with a chance of a half if those before it were: 1.9375 tokens a pass. A request of 32
/// tokens has its first from the prompt; the other 31 take 16 passes.
#[test]
fn guesses_that_are_right_save_passes() {
    let mut of = closed(json!({}), 1, 1, [1024, 32]);
    of["job"]["serving"]["speculative"] = json!({ "tokens": 4, "acceptance": 0.5 });
    let result = serve(&of);
    assert_eq!(result.duration_s, 0.21);
    let itl = result.itl_ms.expect("tokens");
    assert_eq!((itl.p50, itl.max), (10.0, 10.0));
    assert!((itl.mean - 160.0 / 31.0).abs() < 1e-9, "{}", itl.mean);
}
