//! What lecture notes claim of AI clusters, beside what this program gives: a file of claims, each
//! with commands, figures in their documents, and rules: when what commands give is what it says.
//!
//! [`judge`] is handed what runs a command; it starts nothing itself.

mod figure;
mod file;
mod range;
mod rule;
mod verdict;

#[cfg(test)]
mod tests;

pub use file::{Claim, Claims, Topic};
pub use verdict::judge;

use serde_json::Value;
use std::collections::BTreeMap;

/// What a command gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its exit status.
    pub exit: i32,
    /// What it printed: JSON, or text.
    pub document: Value,
    /// What it said on standard error.
    pub said: String,
}

/// What the commands of a claim gave, by their labels.
pub(crate) type Given<'a> = BTreeMap<&'a str, &'a Ran>;
