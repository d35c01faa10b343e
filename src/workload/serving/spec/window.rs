//! The part of a run that its figures are of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What rates and percentiles are of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowSpec {
    /// The part behind the warm-up, which MSER-5 finds, as long as requests arrive.
    Steady(SteadySpec),
    /// All of it, from the first arrival to the last token, as clients of benchmarks count.
    Whole(WholeSpec),
}

/// When a run without a number of requests has been long enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SteadySpec {
    /// Throughput, TTFT (mean, p50, p99) and TPOT are to be known to such a part of themselves, with 95 %.
    pub precision: f64,
    /// No more requests than that.
    pub most_requests: u32,
    /// No more passes of engines than that, about; 32 requests in a pass count as one more, a KV cache's part that travels
    /// as ten.
    pub most_passes: u64,
}

impl Default for SteadySpec {
    fn default() -> Self {
        SteadySpec {
            precision: 0.02,
            most_requests: 1_000_000,
            most_passes: 1_000_000,
        }
    }
}

/// The largest rate that holds is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapacitySpec {
    /// The part of requests that has to keep the limits on times, if there are any.
    pub slo_share: f64,
    /// What is served is that rate, in place of the load's own.
    pub serve: bool,
}

impl Default for CapacitySpec {
    fn default() -> Self {
        CapacitySpec {
            slo_share: 0.9,
            serve: false,
        }
    }
}

/// The whole run: `{}`, as nothing more is to be said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WholeSpec {}
