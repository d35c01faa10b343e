//! Which communicators a rank of a training job is in, and what it uses each for.

use super::lower::order;
use super::resolve::{Training, TrainingError};
use crate::model::RankMap;
use crate::model::ranks::Group;
use fabricsim_nccl::Traffic;

/// A communicator of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCommunicator {
    /// All its ranks, in order.
    pub ranks: Vec<u32>,
    /// What it is used for.
    pub traffic: Traffic,
}

/// The communicators that a rank of a job has, as Megatron-LM makes them: one for all stages of a
/// pipeline, and only of two ranks and more. The job's own tables have each pair of stages apart,
/// for they are apart in time.
///
/// # Errors
/// An order of dimensions that the layout does not have.
pub fn communicators_of(
    training: &Training,
    rank: u32,
) -> Result<Vec<OwnCommunicator>, TrainingError> {
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let group = |kind| places.group_of(kind, rank).unwrap_or_default();
    let data = group(Group::DpCp);
    let pipeline = group(Group::Pp);
    let ends = match (pipeline.first(), pipeline.last()) {
        (Some(&first), Some(&last)) if training.model.tied_embeddings => vec![first, last],
        _ => Vec::new(),
    };
    let mut found = vec![
        (group(Group::Tp), Traffic::Collectives),
        (group(Group::Cp), Traffic::Neighbours),
        (
            replicas(&data, training.shard_group, rank),
            Traffic::Collectives,
        ),
        (
            shards(&data, training.shard_group, rank),
            Traffic::Collectives,
        ),
        (pipeline, Traffic::Neighbours),
        (model_parallel(&places, rank), Traffic::Collectives),
    ];
    if ends.first() != ends.last() {
        found.push((ends, Traffic::Collectives));
    }
    if training.model.experts.is_some() {
        found.push((group(Group::Ep), Traffic::AllToAll));
        found.push((group(Group::ExpertDp), Traffic::Collectives));
    }
    let large = found.into_iter().filter(|(ranks, _)| ranks.len() > 1);
    let mut own = Vec::new();
    for (ranks, traffic) in large {
        let communicator = OwnCommunicator { ranks, traffic };
        // Processes with the same ranks and use have them once.
        if !own.contains(&communicator) {
            own.push(communicator);
        }
    }
    Ok(own)
}

/// The ranks that divide weights with a rank, itself included.
///
/// # Errors
/// As [`communicators_of`].
pub(super) fn shard_ranks(training: &Training, rank: u32) -> Result<Vec<u32>, TrainingError> {
    let places = RankMap::new(&training.dims, &order(training)?)?;
    let data = places.group_of(Group::DpCp, rank).unwrap_or_default();
    Ok(shards(&data, training.shard_group, rank))
}

/// Of the replicas of a rank those that share weights with it.
fn shards(data: &[u32], shard: u32, rank: u32) -> Vec<u32> {
    let mut parts = data.chunks(shard.max(1) as usize);
    parts
        .find(|part| part.contains(&rank))
        .map_or_else(Vec::new, <[u32]>::to_vec)
}

/// Those that have the same shard; none if all share.
fn replicas(data: &[u32], shard: u32, rank: u32) -> Vec<u32> {
    let shard = shard.max(1) as usize;
    let own = data.iter().position(|&r| r == rank).unwrap_or(0);
    data.iter()
        .copied()
        .skip(own % shard)
        .step_by(shard)
        .collect()
}

/// All ranks of a replica that have the same part of the sequence.
fn model_parallel(places: &RankMap, rank: u32) -> Vec<u32> {
    let tensor = places.group_of(Group::Tp, rank).unwrap_or_default();
    let mut all: Vec<u32> = tensor
        .into_iter()
        .flat_map(|r| places.group_of(Group::Pp, r).unwrap_or_default())
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rank: u32, gpus: u32, job: &str) -> Vec<(Vec<u32>, Traffic)> {
        let text = format!(r#"{{"global_batch": 64, {job}}}"#);
        let training = Training::new(&serde_json::from_str(&text).unwrap(), gpus).unwrap();
        let found = communicators_of(&training, rank).unwrap();
        found.into_iter().map(|c| (c.ranks, c.traffic)).collect()
    }

    const GPT: &str = r#""model": {"shape": {"layers": 4, "hidden": 1024, "heads": 16, "ffn": 4096,
        "vocabulary": 1024, "sequence": 1024, "tied_embeddings": true}}"#;

    #[test]
    fn a_rank_is_in_a_communicator_of_each_dimension() {
        use Traffic::{Collectives, Neighbours};
        let job = format!(
            r#"{GPT}, "parallel": {{"tp": 2, "pp": 2}}, "data_parallel": {{"zero": {{}}}}"#
        );
        let expected = vec![
            (vec![2, 3], Collectives),
            (vec![0, 2], Collectives),
            (vec![2, 6], Neighbours),
            (vec![2, 3, 6, 7], Collectives),
            // First and last stage have the same table.
            (vec![2, 6], Collectives),
        ];
        assert_eq!(of(2, 8, &job), expected);
    }

    #[test]
    fn groups_of_hybrid_sharding_have_their_own() {
        use Traffic::Collectives;
        let job = format!(r#"{GPT}, "data_parallel": {{"fsdp": {{"shard_group": 4}}}}"#);
        let expected = vec![(vec![1, 5], Collectives), (vec![4, 5, 6, 7], Collectives)];
        assert_eq!(of(5, 8, &job), expected);
        let all: Vec<u32> = (0..8).collect();
        let job = format!(r#"{GPT}, "data_parallel": {{"fsdp": {{}}}}"#);
        assert_eq!(of(5, 8, &job), [(all, Collectives)]);
        assert_eq!(of(0, 1, GPT), []);
    }

    #[test]
    fn experts_are_exchanged_by_all() {
        let job = r#""model": {"shape": {"layers": 4, "hidden": 1024, "heads": 16, "ffn": 4096,
            "vocabulary": 1024, "sequence": 1024, "experts": {"count": 8, "per_token": 2, "ffn": 1024}}},
            "parallel": {"ep": 4}"#;
        let found = of(0, 8, job);
        assert!(found.contains(&(vec![0, 1, 2, 3], Traffic::AllToAll)));
        assert!(found.contains(&(vec![0, 4], Traffic::Collectives)));
    }
}
