//! Serving beside other jobs on the same links.

use crate::scenario::{model, results, scenario, serve};
use fabricsim::report::concurrent::ConcurrentJob;
use serde_json::{Value, json};

fn job() -> Value {
    json!({
        "model": model(),
        "engine": { "pass_time": { "fixed": { "prefill": "5ms", "decode": "1ms" } }, "num_gpu_blocks": 65536 },
        "pools": [
            { "role": "prefill", "replicas": 1, "parallel": { "tp": 1 } },
            { "role": "decode", "replicas": 1, "parallel": { "tp": 1 } }
        ],
        "handover": { "posting": "0s", "latency": "0s", "setup": "0s" },
        "load": { "closed": { "concurrency": 1 } },
        "requests": 20,
        "lengths": { "input": 8192, "output": 4 }
    })
}

/// Two nodes with two GPUs each: serving on these, sends of 256 MiB between the other two.
fn beside(serving: &str, sends: &str) -> Vec<ConcurrentJob> {
    let jobs = json!([
        { "name": "serves", "gpus": serving, "job": { "serving": job() } },
        { "name": "sends", "gpus": sends, "repeat": 40, "job": { "collective": {
            "name": "send-recv", "sizes": { "list": ["256MiB"] }
        } } }
    ]);
    let all = json!({
        "name": "s", "topology": { "name": "gcp-a3-high" }, "nodes": 2, "gpus_per_node": 4,
        "job": { "concurrent": jobs }
    });
    let results = results(&all).unwrap_or_else(|error| panic!("{error}"));
    let variant = &results.summary.variants[0];
    let result = variant.job.concurrent().expect("jobs at once");
    assert_eq!(result.failed, None);
    result.jobs.clone()
}

#[test]
fn engines_with_nics_of_their_own_notice_nobody() {
    // GPUs 0 and 1 of a node have one NIC, 2 and 3 another.
    let jobs = beside("0, 4", "2, 6");
    assert_eq!((jobs[0].slowdown, jobs[1].slowdown), (1.0, 1.0));
    // By itself it is what a job of its own says.
    let more = json!({ "topology": { "name": "gcp-a3-high" }, "nodes": 2, "gpus_per_node": 1 });
    let alone = serve(&scenario(&job(), &more));
    let ttft = alone.ttft_ms.expect("served").p50 * 1e3;
    assert!(
        (jobs[0].alone_us / ttft - 1.0).abs() < 1e-9,
        "{} {ttft}",
        jobs[0].alone_us
    );
}

#[test]
fn a_hand_over_shares_its_nic_with_others() {
    let jobs = beside("0, 4", "1, 5");
    assert!(jobs[0].slowdown > 1.05, "{}", jobs[0].slowdown);
    assert!(jobs[1].slowdown > 1.05, "{}", jobs[1].slowdown);
    let shared = jobs[0].shared.as_ref().expect("a link");
    assert_eq!(shared.with, ["sends"]);
    assert!(shared.link.contains("nic0"), "{}", shared.link);
    assert_eq!(jobs[0].rows[0].what.as_deref(), Some("first token"));
}
