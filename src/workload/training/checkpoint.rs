//! Who writes what of a checkpoint.

use super::lower::order;
use super::resolve::{Training, TrainingError};
use crate::model::{MemoryPlan, RankMap, SavedState, saved_state};

/// What each rank writes of a checkpoint, and reads of it, in order of ranks.
///
/// # Errors
/// An order of dimensions that is none; a checked job's is one.
pub fn saved_states(
    training: &Training,
    plan: &MemoryPlan,
) -> Result<Vec<SavedState>, TrainingError> {
    let dims = &training.dims;
    let places = RankMap::new(dims, &order(training)?)?;
    let ranks = 0..places.world();
    let states = ranks.map(|rank| {
        let at = places.coordinates(rank).unwrap_or_default();
        saved_state(&training.model, plan, at.pp, at.dp * dims.cp + at.cp)
    });
    Ok(states.collect())
}
