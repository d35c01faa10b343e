//! How many layers FSDP gathers at once, whose gradients it sums at once, too: a number, or as many as an estimate
//! says are fastest.
//!
//! PyTorch's compiler merges all-gathers and reduce-scatters of FSDP by an estimate of what each takes (SimpleFSDP,
//! arXiv 2411.00284, with NCCL's own cost model in torch/_inductor/comm_analysis.py) as long as they hide behind
//! kernels and memory has room. Here all buckets have as many layers: [`LayerTimes::pass`] estimates a micro-batch.

use super::communicators::shard_ranks;
use super::costs::{StageCosts, layer_weights};
use super::lower::gpu_of;
use super::resolve::{Training, TrainingError};
use super::spec::DataParallelSpec;
use crate::model::Recompute;
use fabricsim_topology::{DeviceId, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many layers are gathered at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of layers, or \"auto\"")]
pub enum Bucketing {
    /// So many.
    Layers(u32),
    /// As an estimate says.
    By(Estimate),
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Estimate {
    /// The fastest by an estimate, of those that fit the GPU's memory.
    Auto,
}

impl Default for Bucketing {
    fn default() -> Self {
        Bucketing::Layers(1)
    }
}

impl Bucketing {
    pub(super) fn is_default(&self) -> bool {
        *self == Bucketing::default()
    }
}

/// What a layer takes, in seconds, and what FSDP moves of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerTimes {
    /// Kernels of its forward pass.
    pub forward: f64,
    /// Kernels of its backward pass, with layers that are computed again.
    pub backward: f64,
    /// Bytes of its weights, as they are gathered.
    pub gathered: u64,
    /// Bytes of its gradients, as they are summed.
    pub reduced: u64,
    /// Layers of a stage.
    pub layers: u64,
}

impl LayerTimes {
    /// Of the last layer of the first stage, as if all were like it, on these GPUs.
    ///
    /// # Errors
    /// A model that cannot be divided so; a GPU of which kernels are not known.
    pub fn of(
        training: &Training,
        topology: &Topology,
        gpus: &[DeviceId],
    ) -> Result<LayerTimes, TrainingError> {
        let gpu = gpu_of(training, topology, gpus)?;
        let layers = || training.layers[0].iter().cloned().flatten();
        let last = layers().last().unwrap_or(0);
        let costs = StageCosts::new(training, gpu)?;
        let (forward, backward) = costs.layer_passes(training, last);
        let again = match training.spec.recompute {
            Recompute::Full | Recompute::Sqrt => forward,
            Recompute::Every(each) => forward / f64::from(each.max(1)),
            Recompute::None | Recompute::Selective | Recompute::Operations(_) => 0.0,
        };
        let weights: u64 = layer_weights(training, last)
            .iter()
            .map(|half| half.experts + half.dense.iter().sum::<u64>())
            .sum();
        Ok(LayerTimes {
            forward,
            backward: backward + again,
            gathered: weights * 2,
            reduced: weights * u64::from(training.gradient_bytes()),
            layers: layers().count() as u64,
        })
    }

    /// Seconds of a micro-batch with buckets of so many layers, where gathering and summing up so many bytes
    /// takes what `gather` and `reduce` say: while the kernels of a bucket run the next one is gathered, and in the
    /// backward pass the one before is summed up. The first gather of a pass and the last sum are waited for.
    pub fn pass(
        &self,
        bucket: u32,
        gather: impl Fn(u64) -> f64,
        reduce: impl Fn(u64) -> f64,
    ) -> f64 {
        let each = u64::from(bucket.max(1));
        let before = self.layers.div_ceil(each).saturating_sub(1);
        let last = (self.layers - before * each) as f64;
        let (before, full) = (before as f64, each as f64);
        let (gather, reduce) = (gather(each * self.gathered), reduce(each * self.reduced));
        let forward = gather + before * gather.max(full * self.forward) + last * self.forward;
        let moved = (gather + reduce).max(full * self.backward);
        forward + gather + before * moved + last * self.backward + reduce
    }
}

impl Training {
    /// The first rank and those that it divides weights with: FSDP gathers over them.
    ///
    /// # Errors
    /// An order of ranks that is none.
    pub fn gatherers(&self) -> Result<Vec<u32>, TrainingError> {
        shard_ranks(self, 0)
    }

    /// Whether an estimate is to choose how many layers are gathered at once.
    #[must_use]
    pub fn chooses_bucketing(&self) -> bool {
        matches!(&self.spec.data_parallel, DataParallelSpec::Fsdp(fsdp)
            if fsdp.bucketing == Bucketing::By(Estimate::Auto))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten layers of 1 and 2 s, gathered in 0.5 s and a second a layer, summed up in as long.
    #[test]
    fn what_is_waited_for_and_what_hides() {
        let layer = LayerTimes {
            forward: 1.0,
            backward: 2.0,
            gathered: 1,
            reduced: 1,
            layers: 10,
        };
        let takes = |bytes: u64| 0.5 + bytes as f64;
        // One: 1.5 + 9 × 1.5 + 1, and 1.5 + 9 × 3 + 2 + 1.5.
        assert!((layer.pass(1, takes, takes) - 48.0).abs() < 1e-9);
        // Two: 2.5 + 4 × 2.5 + 2, and 2.5 + 4 × 5 + 4 + 2.5.
        assert!((layer.pass(2, takes, takes) - 43.5).abs() < 1e-9);
        // Three, the last one of a single layer: 3.5 + 3 × 3.5 + 1, and 3.5 + 3 × 7 + 2 + 3.5.
        assert!((layer.pass(3, takes, takes) - 45.0).abs() < 1e-9);
    }

    #[test]
    fn a_number_or_a_word() {
        let read = |text| serde_json::from_str::<Bucketing>(text).map_err(|e| e.to_string());
        assert_eq!(read("4"), Ok(Bucketing::Layers(4)));
        assert_eq!(read("\"auto\""), Ok(Bucketing::By(Estimate::Auto)));
        assert!(
            read("\"all\"").unwrap_err().contains("a number of layers"),
            "{:?}",
            read("\"all\"")
        );
    }
}
