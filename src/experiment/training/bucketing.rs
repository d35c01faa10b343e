//! How many layers FSDP gathers at once and how far ahead, where the job leaves that open.

use super::memory::{Fitting, choose_prefetch};
use crate::ScenarioError;
use fabricsim_collective::Collective;
use fabricsim_engine::{Options, simulate_folded};
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

/// The layers of a bucket with which a micro-batch is fastest, of those that fit into memory; of equal ones the
/// fewest, one if none fits. What exchanges take is simulated, each alone. NCCL's own cost model is not near enough: of
/// Llama 3 8B on 64 H100, buckets of 3 and 5 layers differ by a tenth of a percent by it, and their steps by 6 %.
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
    let mut alone = Alone {
        communicator: Communicator::of(topology, members, env, Router::new(topology, 0))?,
        topology,
    };
    let fitting = Fitting::new(training, (topology, gpus), env)?;
    let (mut gathers, mut sums): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut best = (1, f64::INFINITY);
    for layers in 1..=u32::try_from(layer.layers).unwrap_or(u32::MAX) {
        let of = Training {
            bucketing: layers,
            ..training.clone()
        };
        if !fitting.fits(&of)? {
            break;
        }
        // More layers are gathered no faster.
        if let (Some(gather), Some(sum)) = (gathers.last(), sums.first())
            && layer.least(*gather, *sum) >= best.1
        {
            break;
        }
        let bytes = |of_layer: u64| u64::from(layers) * of_layer;
        gathers.push(alone.seconds(Collective::AllGather, bytes(layer.gathered))?);
        sums.push(alone.seconds(Collective::ReduceScatter, bytes(layer.reduced))?);
        // Buckets have as many layers, or fewer.
        let of = |times: &[f64], layers: u64| times[layers as usize - 1];
        let time = layer.pass(
            (layers, training.prefetch),
            |layers| of(&gathers, layers),
            |layers| of(&sums, layers),
        );
        if time < best.1 {
            best = (layers, time);
        }
    }
    Ok(best.0)
}

/// Exchanges of a communicator when nothing else goes on.
struct Alone<'t> {
    communicator: Communicator<'t>,
    topology: &'t Topology,
}

impl Alone<'_> {
    fn seconds(&mut self, collective: Collective, bytes: u64) -> Result<f64, ScenarioError> {
        let planned = self
            .communicator
            .plan(collective, bytes, Forced::default())?;
        let rate = |link| self.topology.rate(link);
        let options = Options {
            operations: 1,
            ..Options::default()
        };
        let outcome = simulate_folded(&planned.plan, rate, options);
        let outcome = outcome.map_err(|source| ScenarioError::Simulation {
            collective: collective.name(),
            bytes: planned.bytes,
            source,
            faults: Vec::new(),
        })?;
        Ok(outcome.end().seconds())
    }
}
