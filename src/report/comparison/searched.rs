//! What a search for the best layout of a machine came to, before it was compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A search on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Searched {
    /// The best layout, as `optimize` has it; null if none does what is asked.
    pub layout: Option<Value>,
    /// The same for people.
    pub layout_text: Option<String>,
    /// Layouts in all.
    pub searched: u64,
    /// How many were simulated.
    pub simulated: u64,
    /// Numbers of GPUs that were tried, in order.
    pub tried_gpus: Vec<u32>,
    /// Of those that were left out some, with the reason, as `optimize` has them.
    pub rejected: Vec<Value>,
    /// Why there is no layout, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Of a load that no layout keeps: the largest that was tried and is kept, and the least that is not, in
    /// requests per second, or requests at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
}

/// How much of a load is kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holds {
    /// The largest that was tried and is kept.
    pub kept: f64,
    /// The least that was tried and is not.
    pub not_kept: f64,
}
