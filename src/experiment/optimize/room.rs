//! How far a layout can grow on its GPUs.

use super::ground::Ground;
use crate::error::ScenarioError;
use fabricsim_report::optimize::{Choice, Headroom};
use fabricsim_workload::training::resolve::Training;
use fabricsim_workload::training::spec::TrainingSpec;

/// Sequences are lengthened by so many tokens.
const STEP: u64 = 1024;
/// No longer sequence is looked at.
const LONGEST: u64 = 1 << 20;

/// The headroom of a layout that was simulated.
pub(super) fn headroom(ground: &Ground, best: &Choice) -> Result<Option<Headroom>, ScenarioError> {
    let job = best.scenario["job"]["training"].clone();
    let Ok(job) = serde_json::from_value::<TrainingSpec>(job) else {
        return Ok(None);
    };
    let metrics = &best.metrics;
    let free = metrics.memory_capacity_gib.zip(metrics.memory_gib);
    Ok(Some(Headroom {
        memory_gib: free.map_or(0.0, |(has, needs)| has - needs),
        sequence: longest(ground, &job)?,
        exposed_share: metrics.exposed_share,
        cause: metrics.cause.clone(),
    }))
}

/// The longest sequence that fits, found by halving.
fn longest(ground: &Ground, job: &TrainingSpec) -> Result<Option<u64>, ScenarioError> {
    let gpus = ground.site.gpus.len() as u32;
    let fits = |steps: u64| -> Result<bool, ScenarioError> {
        let longer = TrainingSpec {
            sequence: Some(steps * STEP),
            ..job.clone()
        };
        match Training::new(&longer, gpus) {
            Ok(training) => Ok(ground.memory(&training)?.fits),
            Err(_) => Ok(false),
        }
    };
    let (mut fit, mut over) = (0, LONGEST / STEP + 1);
    while over - fit > 1 {
        let middle = u64::midpoint(fit, over);
        match fits(middle)? {
            true => fit = middle,
            false => over = middle,
        }
    }
    Ok((fit > 0).then_some(fit * STEP))
}
