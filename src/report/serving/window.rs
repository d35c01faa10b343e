//! The part of a run that its figures are of, and what was found of the load.

use super::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of a run that its rates and percentiles are of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServingWindow {
    /// Its beginning, milliseconds of the run.
    pub from_ms: f64,
    /// Its end.
    pub to_ms: f64,
    /// Requests that arrived in it: percentiles are of those.
    pub requests: u32,
    /// How its beginning was found.
    pub rule: WindowRule,
    /// Whether its figures are known as well as was asked.
    pub converged: bool,
    /// How many times as long it is as a request stays, on average.
    pub residences: f64,
    /// How well its figures are known.
    pub half_widths: HalfWidths,
}

/// How the beginning of a window was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowRule {
    /// MSER-5 cut the warm-up off, which is at least the time that a request stays.
    Mser5,
    /// So many requests are left out as was said.
    WarmUp,
    /// It is the whole run, from the first arrival to the last token.
    Whole,
}

/// Half widths of 95 % intervals by batch means, as parts of the figures: 0.02 is from 1/1.02 to 1.02 of it. What is not
/// known is `null`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HalfWidths {
    /// Of tokens generated per second.
    pub output_tokens_per_s: Option<f64>,
    /// Of the time to the first token: its mean.
    pub ttft_ms_mean: Option<f64>,
    /// Its median.
    pub ttft_ms_p50: Option<f64>,
    /// Its 99th percentile.
    pub ttft_ms_p99: Option<f64>,
    /// Of the time per token: its mean.
    pub tpot_ms_mean: Option<f64>,
    /// Requests have one token, so that there is no time per token.
    #[serde(skip)]
    pub tpot_is_none: bool,
}

impl HalfWidths {
    /// The widest, and what it is of; nothing if none is known.
    #[must_use]
    pub fn widest(&self) -> Option<(&'static str, f64)> {
        let all = [
            ("output tokens/s", self.output_tokens_per_s),
            ("TTFT mean", self.ttft_ms_mean),
            ("TTFT p50", self.ttft_ms_p50),
            ("TTFT p99", self.ttft_ms_p99),
            ("TPOT", self.tpot_ms_mean),
        ];
        let known = all
            .into_iter()
            .filter_map(|(name, half)| Some((name, half?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// What engines do at most: the rate at which requests are served that are always there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Requests per second.
    pub requests_per_s: f64,
    /// The lower end of its 95 % interval.
    pub requests_per_s_lo: f64,
    /// The upper end.
    pub requests_per_s_hi: f64,
}

/// The largest rate of requests that holds, or that keeps a limit on times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Requests per second: the largest that was tried and held.
    pub requests_per_s: f64,
    /// The same: what holds.
    pub requests_per_s_lo: f64,
    /// The least that was tried and did not hold.
    pub requests_per_s_hi: f64,
    /// What does not hold above it: `saturation`, `ttft`, `tpot`, `e2e`, or several together (`slo`).
    pub limited_by: String,
    /// What was tried, in that order.
    pub steps: Vec<CapacityStep>,
}

/// A rate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityStep {
    /// Requests per second.
    pub requests_per_s: f64,
    /// What came of it.
    pub verdict: Verdict,
    /// The part of requests that kept the limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_share: Option<f64>,
    /// Whether it holds.
    pub holds: bool,
}
