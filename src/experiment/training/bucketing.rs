//! How many layers FSDP gathers at once and how far ahead, where the job leaves that open.

use super::memory::{Fitting, choose_prefetch};
use crate::ScenarioError;
use fabricsim_collective::Collective;
use fabricsim_nccl::{Communicator, Env, Forced};
use fabricsim_topology::{DeviceId, Router, Topology};
use fabricsim_workload::training::bucketing::LayerTimes;
use fabricsim_workload::training::resolve::Training;

/// Chooses the layers of a bucket, then how many buckets are gathered ahead.
///
/// # Errors
/// As `memory`; a GPU of which kernels are not known.
pub(crate) fn choose_gathers(
    training: &mut Training,
    machine: (&Topology, &[DeviceId]),
    env: &Env,
) -> Result<(), ScenarioError> {
    if training.chooses_bucketing() {
        training.bucketing = bucketing(training, machine, env)?;
    }
    choose_prefetch(training, machine, env)
}

/// The layers of a bucket with which a micro-batch is fastest, by NCCL's own cost model and the kernels of a layer, of
/// those that fit into memory; of equal ones the fewest, one if none fits.
fn bucketing(
    training: &Training,
    (topology, gpus): (&Topology, &[DeviceId]),
    env: &Env,
) -> Result<u32, ScenarioError> {
    let ranks = training.gatherers()?;
    if ranks.len() < 2 || training.spec.free_communication {
        return Ok(1);
    }
    let layer = LayerTimes::of(training, topology, gpus)?;
    let members = ranks.iter().map(|&rank| gpus[rank as usize]).collect();
    let communicator = Communicator::of(topology, members, env, Router::new(topology, 0))?;
    let expected = |collective| {
        let communicator = &communicator;
        move |bytes: u64| {
            let all = communicator.candidates(collective, bytes, Forced::default());
            let considered = all.iter().filter(|candidate| candidate.excluded.is_none());
            let times = considered.filter_map(|candidate| Some(candidate.expected?.micros / 1e6));
            times.fold(f64::INFINITY, f64::min)
        }
    };
    let fitting = Fitting::new(training, (topology, gpus), env)?;
    let mut best = (1, f64::INFINITY);
    for layers in 1..=u32::try_from(layer.layers).unwrap_or(u32::MAX) {
        let of = Training {
            bucketing: layers,
            ..training.clone()
        };
        if !fitting.fits(&of)? {
            break;
        }
        let time = layer.pass(
            layers,
            expected(Collective::AllGather),
            expected(Collective::ReduceScatter),
        );
        if time < best.1 {
            best = (layers, time);
        }
    }
    Ok(best.0)
}
