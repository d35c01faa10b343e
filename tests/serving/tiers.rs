//! KV cache below the GPUs' memory, in closed form.

use crate::scenario::{model, refused, results, scenario, serve};
use fabricsim::report::serving::ServingResult;
use fabricsim::topology::{Overrides, Router, Topology, catalogue, expand, load, serving};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Tokens of a prompt, and blocks of 16 of them.
const TOKENS: u64 = 8192;
const BLOCKS: u64 = TOKENS / 16;
/// Bytes of a token's keys and values: 4 layers, 8 heads of 128, keys and values, 16 bits.
const TOKEN_BYTES: u64 = 4 * 2 * 8 * 128 * 2;
/// Milliseconds of a pass, and of each token of a prompt in it.
const PASS: [f64; 2] = [1.0, 0.01];

/// Requests far apart, each with one of some prompts, which have nothing in common.
fn trace(name: &str, prompts: &[u64], (seconds, output): (u64, u32)) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fabricsim-tiers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{name}.jsonl"));
    let line = |(at, prompt): (u64, &u64)| {
        let ids: Vec<u64> = (0..TOKENS / 512).map(|part| prompt * 1000 + part).collect();
        let at = at * seconds * 1000;
        let line = json!({ "timestamp": at, "input_length": TOKENS, "output_length": output, "hash_ids": ids });
        format!("{line}\n")
    };
    let lines: String = (0..).zip(prompts).map(line).collect();
    std::fs::write(&file, lines).expect("written");
    file
}

/// One engine on one GPU, whose cache holds one prompt and 8 blocks.
fn job(file: &Path, tiers: Value) -> Value {
    json!({
        "model": model(),
        "engine": {
            "prefix_cache": true, "num_gpu_blocks": BLOCKS + 8,
            "pass_time": { "polynomial": { "prefill": [PASS[0], PASS[1], 0.0], "decode": [0.0, 0.0, 0.0] } },
            "tiers": tiers
        },
        "pools": [{ "replicas": 1, "parallel": { "tp": 1 } }],
        "load": { "trace": { "file": file } }
    })
}

fn on(topology: &str, job: &Value) -> ServingResult {
    let mut scenario = scenario(job, &json!({ "nodes": 1, "gpus_per_node": 1 }));
    scenario["topology"]["name"] = json!(topology);
    serve(&scenario)
}

fn host(more: Value) -> Value {
    let mut tier = json!({ "capacity": "1GiB" });
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        tier[key] = value;
    }
    json!({ "levels": [{ "host": tier }] })
}

/// A pass that computes so many tokens of a prompt, in milliseconds.
fn pass(tokens: u64) -> f64 {
    PASS[0] + PASS[1] * tokens as f64
}

/// The slowest link between a GPU and its host, in bytes per second, and the latency in milliseconds.
fn host_link(topology: &Topology) -> (f64, f64) {
    let router = Router::new(topology, 0);
    let gpu = topology.nodes[0].gpus[0];
    let host = router.cpu_of(gpu).expect("a host");
    let route = router.local(host, gpu).expect("links");
    let rates = route.hops.iter().map(|hop| topology.rate(hop.link));
    let rate = rates.min().expect("links").bytes_per_sec() as f64;
    (rate, route.latency.seconds() * 1e3)
}

fn shipped(name: &str) -> Topology {
    let spec = catalogue::find(name).expect("shipped");
    expand(&spec, catalogue::hardware(), &Overrides { nodes: Some(1) }).expect("valid")
}

/// Blocks of the first prompt that are in the host's memory after the second has been there: all but the first 8,
/// which are still in the cache, and the last one, which has to be computed.
const MOVED: u64 = BLOCKS - 8 - 1;

/// Milliseconds until these are back, at such a rate.
fn reload_ms(rate: f64, latency: f64) -> f64 {
    let offload = &serving().offload;
    let bytes = (MOVED * 16 * TOKEN_BYTES) as f64;
    // Copies of 256 tokens are asked for while others move.
    let moves = bytes / (rate * offload.rate_share.value);
    offload.setup.value.seconds() * 1e3 + latency + moves * 1e3
}

#[test]
fn a_prompt_in_the_hosts_memory_comes_back_over_the_link_of_its_gpu() {
    let file = trace("back", &[1, 2, 1], (10, 1));
    for topology in ["dgx-h100", "gh200-quad"] {
        let result = on(topology, &job(&file, host(json!({}))));
        let (rate, latency) = host_link(&shipped(topology));
        let expected = reload_ms(rate, latency) + pass(16);
        let ttft = result.ttft_ms.expect("served");
        // Each link's rate is a whole number of bytes per second.
        let last = ttft.mean * 3.0 - 2.0 * pass(TOKENS);
        assert!(
            (last / expected - 1.0).abs() < 1e-6,
            "{topology}: {last} {expected}"
        );
        let tier = &result.tiers[0];
        assert_eq!((tier.reads, tier.hit_tokens), (1, MOVED * 16));
        assert_eq!(tier.read_bytes, MOVED * 16 * TOKEN_BYTES);
        // The first prompt but for 8 blocks, and then the second.
        assert_eq!(
            tier.written_bytes,
            (BLOCKS - 8 + BLOCKS - 8) * 16 * TOKEN_BYTES
        );
        let parts: f64 = result.ttft_parts.iter().map(|part| part.us).sum();
        assert!((parts / 1e3 - ttft.mean).abs() < 1e-6, "{parts}");
        let reload = result
            .ttft_parts
            .iter()
            .find(|part| part.cause.starts_with("reload"));
        let reload = reload.expect("a part").us * 3.0 / 1e3;
        assert!((reload - reload_ms(rate, latency)).abs() < 1e-4, "{reload}");
        assert_eq!(
            result.kv.hit_share,
            ((BLOCKS - 1) * 16) as f64 / (3 * TOKENS) as f64
        );
    }
}

#[test]
fn a_tier_that_is_full_gives_up_what_was_used_longest_ago() {
    let file = trace("full", &[1, 2, 3, 1], (10, 1));
    let with = |blocks: u64| {
        let capacity = format!("{}B", blocks * 16 * TOKEN_BYTES);
        on(
            "dgx-h100",
            &job(&file, host(json!({ "capacity": capacity }))),
        )
        .tiers[0]
            .clone()
    };
    // Room for all that the cache of the GPU gives up.
    let large = with(3 * BLOCKS);
    assert_eq!(
        (large.hit_tokens, large.given_up_blocks),
        ((BLOCKS - 1) * 16, 0)
    );
    // Room for what the second prompt leaves there: it has taken the place of the first.
    let small = with(BLOCKS - 8);
    assert_eq!(small.hit_tokens, 0);
    assert!(small.given_up_blocks >= BLOCKS);
}

#[test]
fn what_is_computed_faster_than_it_is_read_is_computed_again() {
    let file = trace("cost", &[1, 2, 1], (10, 1));
    let with = |reload: &str, rate: f64| {
        let mut tiers = host(json!({ "bandwidth": format!("{}MB/s", rate / 1e6) }));
        tiers["reload"] = json!(reload);
        let result = on("dgx-h100", &job(&file, tiers));
        let last = result.ttft_ms.expect("served").mean * 3.0 - 2.0 * pass(TOKENS);
        (last, result.tiers[0].clone())
    };
    let setup = serving().offload.setup.value.seconds() * 1e3;
    let read = |rate: f64| setup + (MOVED * 16 * TOKEN_BYTES) as f64 / rate * 1e3;
    // Computing a token takes 10 us, reading it 16.4 us at 1 GB/s and 8.2 us at 2 GB/s.
    let computed = pass(TOKENS - 8 * 16);
    for (rate, reads) in [(1e9, false), (2e9, true)] {
        let (last, tier) = with("cost", rate);
        let expected = match reads {
            true => read(rate) + pass(16),
            false => computed,
        };
        assert!((last - expected).abs() < 1e-3, "{last} {expected}");
        assert_eq!(tier.reads, u64::from(reads));
        assert_eq!(tier.recomputed_tokens, if reads { 0 } else { MOVED * 16 });
        // Read whatever it costs.
        let (last, _) = with("always", rate);
        assert!((last - read(rate) - pass(16)).abs() < 1e-3, "{last}");
    }
}

#[test]
fn drives_are_read_at_their_rate() {
    let file = trace("drives", &[1, 2, 1], (10, 1));
    let cases = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/cases/topologies/drives.json"
    );
    let text = std::fs::read_to_string(cases).expect("a file");
    let spec = load::parse(&text, "drives").expect("a topology");
    let machine = expand(&spec, catalogue::hardware(), &Overrides::default()).expect("valid");
    let drive = machine
        .devices()
        .map(|(id, _)| id)
        .find_map(|id| machine.storage_model(id));
    let drive = drive.expect("a drive");
    for (devices, count) in [("node0/nvme0", 1.0), ("node0/nvme[0-1]", 2.0)] {
        let tiers =
            json!({ "levels": [{ "storage": { "capacity": "1GiB", "devices": devices } }] });
        let mut scenario = scenario(
            &job(&file, tiers),
            &json!({ "nodes": 1, "gpus_per_node": 1 }),
        );
        scenario["topology"] = json!({ "path": cases });
        let result = serve(&scenario);
        let last = result.ttft_ms.expect("served").mean * 3.0 - 2.0 * pass(TOKENS);
        let bytes = (MOVED * 16 * TOKEN_BYTES) as f64 / count;
        let offload = &serving().offload;
        let costs = offload.setup.value + drive.latency.value;
        let read = bytes / drive.read_rate.value.bytes_per_sec() as f64;
        let expected = costs.seconds() * 1e3 + read * 1e3 + pass(16);
        // Latencies of links and copies beside it.
        assert!(
            (last / expected - 1.0).abs() < 0.01,
            "{devices}: {last} {expected}"
        );
    }
}

#[test]
fn what_the_hosts_memory_gives_up_is_found_on_drives() {
    let file = trace("both", &[1, 2, 3, 1], (10, 1));
    let cases = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/cases/topologies/drives.json"
    );
    let tiers = json!({ "levels": [
        { "host": { "capacity": "128MiB" } },
        { "storage": { "capacity": "1GiB", "devices": "node0/nvme[0-1]" } }
    ] });
    let mut scenario = scenario(
        &job(&file, tiers),
        &json!({ "nodes": 1, "gpus_per_node": 1 }),
    );
    scenario["topology"] = json!({ "path": cases });
    let result = serve(&scenario);
    let (host, drives) = (&result.tiers[0], &result.tiers[1]);
    assert_eq!(host.hit_tokens + drives.hit_tokens, (BLOCKS - 1) * 16);
    assert!(
        drives.hit_tokens > 0 && host.given_up_blocks * 16 * TOKEN_BYTES == drives.written_bytes
    );
}

/// More requests at once than the cache holds, all prompts in a tier: all are served, with blocks for the whole of a
/// prompt before its first pass, and their parts add up.
#[test]
fn all_are_served_however_little_room_there_is() {
    let prompts: Vec<u64> = (0..60).map(|at| at * 7 % 5).collect();
    let file = trace("pressure", &prompts, (0, 40));
    for policy in ["vllm", "sglang", "trtllm"] {
        for write in ["evicted", "computed"] {
            let mut tiers = host(json!({}));
            tiers["write"] = json!(write);
            let mut job = job(&file, tiers);
            job["engine"]["policy"] = json!(policy);
            job["engine"]["block_tokens"] = json!(16);
            job["engine"]["num_gpu_blocks"] = json!(2 * BLOCKS + 40);
            job["engine"]["token_budget"] = json!(2000);
            let result = on("dgx-h100", &job);
            assert_eq!(
                result.completed, 60,
                "{policy} {write}: {:?}",
                result.rejected
            );
            assert!(result.tiers[0].reads > 0, "{policy} {write}");
            let parts: f64 = result.ttft_parts.iter().map(|part| part.us).sum();
            let mean = result.ttft_ms.expect("served").mean;
            assert!((parts / 1e3 - mean).abs() < 1e-6, "{parts} {mean}");
        }
    }
}

#[test]
fn tiers_that_cannot_be_are_refused() {
    let file = trace("refused", &[1], (10, 1));
    let of = |change: &dyn Fn(&mut Value)| {
        let mut job = job(&file, host(json!({})));
        change(&mut job);
        refused(&scenario(&job, &json!({ "nodes": 1, "gpus_per_node": 1 })))
    };
    let said = of(&|job| job["engine"]["prefix_cache"] = json!(false));
    assert!(
        said.contains("job.serving.engine.tiers") && said.contains("prefix_cache"),
        "{said}"
    );
    let said = of(&|job| job["engine"]["tiers"]["levels"][0]["host"]["capacity"] = json!("1KiB"));
    assert!(
        said.contains("levels[0].host.capacity") && said.contains("256KiB"),
        "{said}"
    );
    let said = of(&|job| {
        job["engine"]["tiers"]["levels"] = json!([{ "storage": { "capacity": "1GiB" } }])
    });
    assert!(said.contains("dgx-h100, which has no storage"), "{said}");
    let said = of(&|job| {
        job["engine"]["tiers"]["levels"] = json!([
            { "host": { "capacity": "1GiB" } }, { "host": { "capacity": "1GiB" } }
        ]);
    });
    assert!(said.contains("levels[1].host"), "{said}");
    let other = results(&scenario(&job(&file, json!({ "levels": [] })), &json!({})));
    assert!(other.is_err());
}
