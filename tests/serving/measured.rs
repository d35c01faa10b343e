//! What was measured of KV caches that move, beside what is predicted: each with its source and how far off it is.
//!
//! Single figures from threads and pages; whole published tables are predicted by `validate --serving`.

use fabricsim::budget::Budget;
use fabricsim::calibration::{ServingTable, predict_serving};
use fabricsim::report::validation::ServingRow;
use serde_json::{Value, json};

/// Predictions of rows that a published table has.
fn rows(id: &str, kind: &str, rows: Value) -> Vec<ServingRow> {
    let table = json!({ "id": id, "kind": kind, "rows": rows });
    let table: ServingTable = serde_json::from_value(table).expect("a table");
    let predicted =
        predict_serving(&[table], &Budget::default(), &|| ()).expect("rows of its kind");
    assert!(predicted.skipped.is_empty(), "{:?}", predicted.skipped);
    predicted
        .sets
        .into_iter()
        .flat_map(|set| set.rows)
        .collect()
}

/// Every row is as far off as it is said to be, in percent; rows that count together follow each other.
fn off(rows: &[ServingRow], said: &[f64]) {
    assert_eq!(rows.len(), said.len());
    for (row, said) in rows.iter().zip(said) {
        let error = row.error() * 100.0;
        assert!(
            (error - said).abs() < 1.0,
            "{}: {error:.1} %, said {said}",
            row.name
        );
    }
}

/// LMCache pull request 4161: READ on one port of 100 Gb/s, as one piece and as 256.
#[test]
fn pieces_hide_behind_bytes_from_16_kib_on() {
    let table = json!([
        { "iovs": 1, "block_KiB": 256, "single_rail_GB_s": 8.375, "dual_rail_GB_s": 11.735 },
        { "iovs": 1, "block_KiB": 65536, "single_rail_GB_s": 12.227, "dual_rail_GB_s": 24.384 },
        { "iovs": 256, "total_KiB": 256, "single_rail_GB_s": 0.715, "dual_rail_GB_s": 0.707 },
        { "iovs": 256, "total_KiB": 1024, "single_rail_GB_s": 4.688, "dual_rail_GB_s": 4.263 },
        { "iovs": 256, "total_KiB": 4096, "single_rail_GB_s": 11.667, "dual_rail_GB_s": 8.887 }
    ]);
    let rows = rows("kv-transfer-issues", "kv_transfer", table);
    // Pieces of 1 KiB take 1.4 us each, of 4 KiB 0.8: one figure is between them. Two ports and 4 MiB: 73 % too fast.
    let said = [-0.3, 0.0, 8.3, 0.5, 37.8, -15.9, 1.8, 39.4, -7.5, 77.4];
    off(&rows, &said);
}

/// LMCache blog: 7,500 tokens of Llama 3.1 8B between two H100 over NVLink, pages of 16 and of 128 tokens.
#[test]
fn large_pages_over_nvlink() {
    let table = json!([
        { "input_tokens": 7500, "page_tokens": 16, "transfer_ms": 20 },
        { "input_tokens": 7500, "page_tokens": 128, "transfer_ms": 8 }
    ]);
    // Large pages reach 196 GB/s without their setup, half of what NVLink does between two GPUs: not explained.
    off(
        &rows("lmcache-pd-page-size-h100", "kv_transfer", table),
        &[0.6, -29.0],
    );
}

/// Mooncake's page on vLLM: Qwen3 8B, 8 GPUs of H800 a side.
#[test]
fn hand_overs_of_mooncake() {
    let table = json!([
        { "input_tokens": 128, "transfer_ms": 0.54 },
        { "input_tokens": 1024, "transfer_ms": 1.5 },
        { "input_tokens": 8192, "transfer_ms": 8.84 },
        { "input_tokens": 32768, "transfer_ms": 31.65 }
    ]);
    let said = [59.3, -2.4, -7.2, -1.1];
    off(
        &rows("mooncake-vllm-pd-h800-qwen3-8b", "kv_transfer", table),
        &said,
    );
}

/// llm-d: gpt-oss 120B from another host's memory, H200.
#[test]
fn a_prefix_from_another_hosts_memory() {
    let table = json!([
        { "prefix_tokens": 2048, "pull_ms": 35 },
        { "prefix_tokens": 49152, "pull_ms": 235 }
    ]);
    // What the engine takes beside it (its last pass, the router) is not in the prediction: 10 ms; and 17 GB/s over all.
    off(
        &rows("llmd-p2p-pull-gptoss-h200", "kv_transfer", table),
        &[-29.9, -30.0],
    );
}

/// vLLM's blog on its offloading connector, H100: one way, and both ways at once.
#[test]
fn copies_between_gpu_and_host() {
    let table = json!([
        { "what": "one direction", "GBps_about": 50 },
        { "what": "both directions at once, DMA", "GBps": 83.4 }
    ]);
    // Both ways at once PCIe carries less than twice one way, which the graph does not have.
    off(
        &rows("vllm-kv-offload-cpu-h100", "kv_offload", table),
        &[2.1, 22.4],
    );
}
