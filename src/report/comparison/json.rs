//! The document of a comparison.

use super::searched::{Holds, Searched};
use crate::metrics::Metrics;
use crate::numeric::FORMAT;
use crate::record::{BetterChoice, Row};
use crate::serving::Verdict;
use crate::summary::Summary;
use crate::summary_json::pretty;
use crate::{ReportError, Waterfall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `compare --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The version of this format: 2.
    pub format: u32,
    /// The variant that the others are compared with.
    pub baseline: Option<String>,
    /// The fastest that fits into memory; none if none does.
    pub best: Option<String>,
    /// What is compared.
    pub variants: Vec<Compared>,
    /// What makes the differences of times.
    pub waterfall: Vec<Waterfall>,
    /// How far predictions of this kind are off; null if that is not known.
    pub known_error: Option<KnownError>,
    /// The answer in a sentence or two.
    pub answer: String,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

/// How far predictions of a kind are off published measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnownError {
    /// What kind: `dense BF16 on H100`.
    pub kind: String,
    /// Half of the errors are smaller than this, as a share of the measured time.
    pub median: f64,
    /// Of how many measurements.
    pub rows: u32,
}

/// One of those compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The topology's name.
    pub topology: String,
    /// GPUs.
    pub gpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// Whether it fits into memory; null where nothing says so.
    pub fits: Option<bool>,
    /// Of a layout that was searched for: why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Of a layout that was searched for: it, as `optimize` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Value>,
    /// Of serving: whether engines keep up with their load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The search for its layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchJson>,
    /// The common row.
    pub metrics: Metrics,
    /// Of a collective: one row a size.
    pub rows: Vec<Row>,
    /// Of a collective: where NCCL's choice is not the best that it could have chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_choice: Option<BetterChoice>,
}

/// A search, as a comparison tells it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchJson {
    /// Layouts in all.
    pub searched: u64,
    /// How many were simulated.
    pub simulated: u64,
    /// Numbers of GPUs that were tried, in order.
    pub tried_gpus: Vec<u32>,
    /// Of those that were left out some, with the reason.
    pub rejected: Vec<Value>,
    /// Of a load that is not kept: how much of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
}

impl From<&Searched> for SearchJson {
    fn from(search: &Searched) -> Self {
        SearchJson {
            searched: search.searched,
            simulated: search.simulated,
            tried_gpus: search.tried_gpus.clone(),
            rejected: search.rejected.clone(),
            holds: search.holds,
        }
    }
}

impl Comparison {
    /// Of a run's variants.
    #[must_use]
    pub fn of(summary: &Summary, known_error: Option<KnownError>) -> Comparison {
        let summary = summary.reproducible();
        let variants = summary.variants.iter().map(|variant| {
            let collective = variant.job.collective();
            let search = variant.search.as_deref();
            let none = search.is_some_and(|search| search.why.is_some());
            Compared {
                name: variant.name.clone(),
                topology: variant.topology.clone(),
                gpus: variant.gpus,
                nodes: variant.nodes,
                fits: if none {
                    Some(false)
                } else {
                    variant.metrics.fits
                },
                why: search.and_then(|search| search.why.clone()),
                layout: search.and_then(|search| search.layout.clone()),
                verdict: variant.job.serving().and_then(|served| served.verdict),
                search: search.map(SearchJson::from),
                metrics: variant.metrics.clone(),
                better_choice: collective.and_then(|result| result.better_choice.clone()),
                rows: collective.map_or_else(Vec::new, |result| result.rows.clone()),
            }
        });
        Comparison {
            format: FORMAT,
            variants: variants.collect(),
            baseline: summary.baseline,
            best: summary.best,
            waterfall: summary.waterfall,
            known_error,
            answer: summary.answer,
            warnings: summary.warnings,
        }
    }
}

/// The document's text, ending in a newline.
///
/// # Errors
/// A number that is not finite.
pub fn comparison_json(
    summary: &Summary,
    known_error: Option<KnownError>,
) -> Result<String, ReportError> {
    pretty(&Comparison::of(summary, known_error))
}
