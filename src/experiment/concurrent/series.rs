//! Series of monitoring, of jobs at once.

use super::valid::{PartWork, ValidConcurrent};
use crate::serving::series;
use fabricsim_report::telemetry::Field;

/// The ranks whose GPUs a task keeps busy that is written to this one.
pub(super) fn with_rank(valid: &ValidConcurrent, rank: u32) -> Vec<u32> {
    for part in &valid.jobs {
        if let PartWork::Serving(served) = &part.work
            && let Some(own) = part.ranks.iter().position(|&known| known == rank)
        {
            let ranks = series::with_rank(served, own as u32).into_iter();
            return ranks.map(|own| part.ranks[own as usize]).collect();
        }
    }
    vec![rank]
}

/// What there is no series of, and why.
pub(super) fn without(valid: &ValidConcurrent) -> Vec<(&'static [Field], &'static str)> {
    let serves = |part: &super::valid::ValidPart| matches!(part.work, PartWork::Serving(_));
    match valid.jobs.iter().any(serves) {
        true => vec![series::WITHOUT],
        false => Vec::new(),
    }
}
