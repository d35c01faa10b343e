//! Series of monitoring, of what serving engines do.

use super::valid::ValidServing;
use fabricsim_report::telemetry::Field;
use fabricsim_units::Bytes;

/// What engines have no series of, and why.
pub(crate) const WITHOUT: (&[Field], &str) = (
    &[
        Field::NvlinkTx,
        Field::NvlinkRx,
        Field::TensorActive,
        Field::DramActive,
    ],
    "a pass of an engine is one time, its communications included",
);

/// The ranks whose GPUs a pass keeps busy that is written to this one: all of its stage.
pub(crate) fn with_rank(valid: &ValidServing, rank: u32) -> Vec<u32> {
    for pool in &valid.pools {
        let stage = (pool.parallel.tp() * pool.parallel.attention_dp).max(1) as usize;
        let stages = pool.engines.iter().flat_map(|engine| engine.chunks(stage));
        for stage in stages {
            if stage.first() == Some(&rank) {
                return stage.to_vec();
            }
        }
    }
    vec![rank]
}

/// The memory that engines take, by rank.
pub(crate) fn taken(valid: &ValidServing) -> Vec<Option<Bytes>> {
    let mut taken = vec![None; valid.gpus.len()];
    for pool in &valid.pools {
        for &rank in pool.engines.iter().flatten() {
            taken[rank as usize] = pool.memory.map(|memory| memory.share);
        }
    }
    taken
}
