//! Whether engines keep up with their load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether engines keep up with their load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// As many were served as came, and no more and more of them waited.
    Stable,
    /// More came than engines can serve: more and more waited.
    Backlogged,
    /// The run is too short to tell.
    #[serde(rename = "TOO_SHORT")]
    TooShort,
    /// Time was up before all were served.
    Overloaded,
}

impl Verdict {
    /// As JSON has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Stable => "STABLE",
            Verdict::Backlogged => "BACKLOGGED",
            Verdict::TooShort => "TOO_SHORT",
            Verdict::Overloaded => "OVERLOADED",
        }
    }
}

/// Why it cannot be told whether engines keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TooShort {
    /// The window is shorter than ten times the stay of a request.
    Residences,
    /// The warm-up takes half of the run, or more.
    WarmUp,
    /// The load is below what engines do at most, but requests pile up.
    Growing,
    /// The load is what engines do at most, as far as that is known.
    NearSaturation,
    /// The load is above what full engines do, but has not filled them yet.
    AboveSaturation,
}

impl TooShort {
    /// As a part of a sentence.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            TooShort::Residences => {
                "the run is shorter than ten times the stay of a request, behind its warm-up"
            }
            TooShort::WarmUp => "its warm-up takes half of it",
            TooShort::Growing => {
                "requests pile up, though the load is below what the engines do at most"
            }
            TooShort::NearSaturation => "the load is what the engines do at most, give or take",
            TooShort::AboveSaturation => {
                "the load is above what full engines do, but no burst has filled them yet"
            }
        }
    }
}
