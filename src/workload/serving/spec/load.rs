//! The requests of a serving job: how they come, and how long they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How requests come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadSpec {
    /// So many are there at once.
    Closed(ClosedSpec),
    /// At random times: a Poisson process.
    Poisson(RateSpec),
    /// At equal distances.
    Constant(RateSpec),
    /// In bursts: distances from a Gamma distribution.
    Gamma(GammaSpec),
    /// As they came once.
    Trace(TraceSpec),
}

/// A number of requests at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// How many.
    pub concurrency: u32,
}

/// A rate of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateSpec {
    /// Requests per second, of all engines together.
    pub rate: f64,
}

/// Bursts of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GammaSpec {
    /// Requests per second, on average.
    pub rate: f64,
    /// Standard deviation of distances over their mean: 1 is a Poisson process, more is bursts.
    pub cv: f64,
}

/// Requests from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// The file, relative to the scenario's: lines of JSON, or comma-separated values under a line of names.
    pub file: String,
    /// What its columns are called; those of known traces (Mooncake, Azure, BurstGPT) are found if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<TraceColumns>,
    /// Time goes so many times as fast; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Tokens of a block that has a name; 512 (Mooncake's) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_block_tokens: Option<u32>,
}

/// The names of a trace's columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceColumns {
    /// When a request arrives.
    pub arrival: String,
    /// The unit of arrivals; of times of day with a date none is needed.
    #[serde(default)]
    pub unit: ArrivalUnit,
    /// Tokens of its prompt.
    pub input: String,
    /// Tokens that it generates.
    pub output: String,
    /// Names of the blocks of its prompt, a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// The unit of arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalUnit {
    /// Seconds.
    #[default]
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Tokens of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthsSpec {
    /// Of prompts.
    pub input: LengthSpec,
    /// Of what is generated.
    pub output: LengthSpec,
    /// How prompts begin alike; if absent they have nothing in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_prefix: Option<SharedPrefixSpec>,
}

/// Prompts that begin alike: each with one of some beginnings, drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedPrefixSpec {
    /// How many beginnings there are.
    pub groups: u32,
    /// Tokens of each, of those of a prompt; whole blocks of 64 of them are in common.
    pub tokens: u32,
}

/// A number of tokens: always the same, or drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a number of tokens, 1 to 100000000, or {\"uniform\": [LEAST, MOST]} or {\"lognormal\": …}"
)]
pub enum LengthSpec {
    /// Always so many.
    Fixed(u32),
    /// Drawn.
    Drawn(DrawnLength),
}

/// A distribution of numbers of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrawnLength {
    /// All from the first to the last alike.
    Uniform([u32; 2]),
    /// A log-normal one.
    Lognormal(LognormalSpec),
}

/// A log-normal distribution of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LognormalSpec {
    /// The mean number of tokens.
    pub mean: f64,
    /// Standard deviation over mean.
    pub cv: f64,
    /// No more tokens than that; no bound if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}
