//! The document of a comparison.

use crate::metrics::Metrics;
use crate::numeric::FORMAT;
use crate::record::{BetterChoice, Row};
use crate::summary::Summary;
use crate::summary_json::{check_finite, pretty};
use crate::{ReportError, Waterfall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The common row.
    pub metrics: Metrics,
    /// Of a collective: one row a size.
    pub rows: Vec<Row>,
    /// Of a collective: where NCCL's choice is not the best that it could have chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better_choice: Option<BetterChoice>,
}

impl Comparison {
    /// Of a run's variants.
    #[must_use]
    pub fn of(summary: &Summary, known_error: Option<KnownError>) -> Comparison {
        let summary = summary.reproducible();
        let variants = summary.variants.iter().map(|variant| {
            let collective = variant.job.collective();
            Compared {
                name: variant.name.clone(),
                topology: variant.topology.clone(),
                gpus: variant.gpus,
                nodes: variant.nodes,
                fits: variant.metrics.fits,
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
    check_finite(summary)?;
    pretty(&Comparison::of(summary, known_error))
}
