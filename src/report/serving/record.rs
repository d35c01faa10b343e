//! What serving leaves behind, as plain values.

use super::verdict::{TooShort, Verdict};
use super::window::{Capacity, Saturation, ServingWindow};
use crate::job_report::JobReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of a serving job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServingResult {
    /// The model.
    pub model: String,
    /// Requests that arrived.
    pub requests: u32,
    /// Requests that got all their tokens.
    pub completed: u32,
    /// Of these, those that percentiles are of: those that arrived in the window.
    pub counted: u32,
    /// Requests that could never run, or did not come to their end.
    pub rejected: Vec<Rejected>,
    /// Whether engines keep up with the load.
    pub verdict: Option<Verdict>,
    /// Why that cannot be told, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_short: Option<TooShort>,
    /// The part of the run that rates and percentiles are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<ServingWindow>,
    /// Requests per second that come; nothing of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Of a backlog: requests per second that would hold.
    #[serde(default)]
    pub holds_per_s: Option<f64>,
    /// What engines do at most, where that was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// The largest rate that holds, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What limits it, in a sentence.
    pub limit: String,
    /// Seconds of the window: of a whole run from the first arrival to the last token.
    pub duration_s: f64,
    /// Requests per second that were done.
    pub requests_per_s: f64,
    /// Tokens of prompts per second.
    pub input_tokens_per_s: f64,
    /// Tokens that were generated per second.
    pub output_tokens_per_s: f64,
    /// Tokens per second that a user sees: the inverse of the mean time per token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_per_s_per_user: Option<f64>,
    /// From arrival to the first token, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<Percentiles>,
    /// From token to token, the mean of each request, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<Percentiles>,
    /// From token to token, each, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itl_ms: Option<Percentiles>,
    /// From arrival to the last token, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<Percentiles>,
    /// Of requests that are counted, the part that kept the SLO, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_share: Option<f64>,
    /// Requests per second that kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_requests_per_s: Option<f64>,
    /// Operations of the model over the GPUs' peak while engines were in passes, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// Bytes of weights and KV cache that passes read over the GPUs' memory rate, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mbu: Option<f64>,
    /// The engines, by pool.
    pub pools: Vec<Pool>,
    /// The KV cache.
    pub kv: KvUse,
    /// Hand-overs; none where engines do both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<HandoverUse>,
    /// Tiers of KV cache below the GPUs' memory, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierUse>,
    /// How long requests waited for blocks to be read from tiers, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_ms: Option<Percentiles>,
    /// Where the time to the first token goes, on average: parts add up to its mean.
    pub ttft_parts: Vec<Part>,
    /// The request that waited longest for its first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Slowest>,
    /// What happened over time: at most 200 samples.
    pub series: Vec<Sample>,
    /// Why it did not run, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Wall-clock milliseconds. Not reproducible: zero in all documents.
    pub wall_ms: f64,
}

/// A request that was not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rejected {
    /// Its number, from 0, in order of arrival.
    pub id: u32,
    /// Why.
    pub why: String,
}

/// A distribution, by nearest rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The mean.
    pub mean: f64,
    /// Half are no more.
    pub p50: f64,
    /// Nine of ten are no more.
    pub p90: f64,
    /// 99 of a hundred are no more.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

/// Engines that are alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// `both`, `prefill` or `decode`.
    pub role: String,
    /// How many.
    pub engines: u32,
    /// GPUs of each.
    pub gpus_per_engine: u32,
    /// How each is divided: `tp 4`, `tp 2 · pp 2`.
    pub layout: String,
    /// Blocks of KV cache of each part of an engine.
    pub blocks: u32,
    /// Tokens that those hold.
    pub kv_tokens: u64,
    /// Memory of a GPU: weights, GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_gib: Option<f64>,
    /// Memory of a GPU: KV cache, GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_gib: Option<f64>,
    /// Memory of a GPU: activations, buffers and what the driver keeps, GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_gib: Option<f64>,
    /// Passes of all of them.
    pub passes: u64,
    /// The part of the time in which they are in passes, 0 to 1.
    pub busy_share: f64,
    /// Tokens that a pass computes, on average.
    pub tokens_per_pass: f64,
}

/// The KV cache of all engines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvUse {
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Bytes of a token, all GPUs of an engine together.
    pub bytes_per_token: u64,
    /// The most of an engine's blocks that were taken, 0 to 1.
    pub peak_share: f64,
    /// How often a request lost its blocks.
    pub preemptions: u64,
    /// Tokens of prompts that were found in a prefix cache, over all, 0 to 1.
    pub hit_share: f64,
}

/// A tier of KV cache below the GPUs' memory, of all engines together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierUse {
    /// `host` or `storage`.
    pub tier: String,
    /// How often a request read blocks from it.
    pub reads: u64,
    /// Tokens whose blocks were read.
    pub hit_tokens: u64,
    /// These over the tokens of all prompts.
    pub hit_share: f64,
    /// Tokens whose blocks were there, but that were computed again because that was faster.
    pub recomputed_tokens: u64,
    /// Bytes that all GPUs read.
    pub read_bytes: u64,
    /// Bytes that were written to it.
    pub written_bytes: u64,
    /// Blocks that it gave up for others.
    pub given_up_blocks: u64,
}

/// KV caches that travelled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandoverUse {
    /// How many.
    pub count: u32,
    /// Bytes of all of them.
    pub bytes: u64,
    /// From the reservation of blocks to the last byte, milliseconds.
    pub time_ms: Percentiles,
    /// The same with links for itself alone, the mean, milliseconds.
    pub alone_ms: f64,
    /// From the end of the prompt until blocks were reserved, milliseconds.
    pub wait_ms: Percentiles,
    /// What limits them: `posting`, `nic`, `nvlink`, `pcie`, `rail`, `receiver pool` …
    pub binding: String,
    /// The link that is used longest by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// GB/s of a hand-over, the mean.
    pub rate_gbs: f64,
}

/// A part of a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// What it goes into.
    pub cause: String,
    /// Microseconds.
    pub us: f64,
}

/// The request that waited longest for its first token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowest {
    /// Its number.
    pub id: u32,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// When it arrived, seconds.
    pub arrived_s: f64,
    /// Its time to the first token, milliseconds.
    pub ttft_ms: f64,
    /// Where that goes: the parts add up to it exactly.
    pub parts: Vec<Part>,
    /// Requests that were computed on the same engine while it waited, those with the longest prompts first.
    pub behind: Vec<u32>,
    /// How many there are.
    pub behind_count: u32,
}

/// A moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// When, seconds.
    pub at_s: f64,
    /// Requests that run.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// The fullest engine's KV blocks that are taken, 0 to 1.
    pub kv_share: f64,
    /// Requests per second that arrive.
    pub offered_per_s: f64,
    /// Requests per second that are done.
    pub served_per_s: f64,
}

impl JobReport for ServingResult {
    fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn wall_ms(&self) -> f64 {
        self.wall_ms
    }

    fn forget_wall_time(&mut self) {
        self.wall_ms = 0.0;
    }
}

impl Percentiles {
    /// Of values, in any order; nothing of none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Percentiles> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let &max = values.last()?;
        let rank = |p: f64| values[((count as f64 * p).ceil() as usize).clamp(1, count) - 1];
        Some(Percentiles {
            mean: values.iter().sum::<f64>() / count as f64,
            p50: rank(0.5),
            p90: rank(0.9),
            p99: rank(0.99),
            max,
        })
    }

    /// Of values that came so often, in any order; nothing of none.
    #[must_use]
    pub fn of_counted(mut values: Vec<(f64, u64)>) -> Option<Percentiles> {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count: u64 = values.iter().map(|value| value.1).sum();
        let &(max, _) = values.last()?;
        let rank = |p: f64| {
            let wanted = ((count as f64 * p).ceil() as u64).max(1);
            let mut seen = 0;
            let found = values.iter().find(|value| {
                seen += value.1;
                seen >= wanted
            });
            found.map_or(max, |value| value.0)
        };
        let sum: f64 = values.iter().map(|value| value.0 * value.1 as f64).sum();
        Some(Percentiles {
            mean: sum / count as f64,
            p50: rank(0.5),
            p90: rank(0.9),
            p99: rank(0.99),
            max,
        })
    }

    /// Its numbers by name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("max", self.max),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let of = Percentiles::of(values.clone()).expect("values");
        assert_eq!(
            (of.p50, of.p90, of.p99, of.max, of.mean),
            (50.0, 90.0, 99.0, 100.0, 50.5)
        );
        let counted = values.iter().map(|&v| (v, 3)).collect();
        assert_eq!(Percentiles::of_counted(counted), Some(of));
        assert_eq!(Percentiles::of(Vec::new()), None);
        let two = Percentiles::of(vec![2.0, 1.0]).expect("values");
        assert_eq!((two.p50, two.p90), (1.0, 2.0));
    }
}
