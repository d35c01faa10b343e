//! How many layers FSDP gathers at once, whose gradients it sums at once, too: a number, or as many as an estimate
//! says are fastest.
//!
//! PyTorch's compiler merges all-gathers and reduce-scatters of FSDP by an estimate of what each takes (SimpleFSDP,
//! arXiv 2411.00284) as long as they hide behind kernels and memory has room. Here all buckets have as many layers but
//! the last, and [`LayerTimes::pass`] replays a micro-batch's layers as two streams.

use super::communicators::shard_ranks;
use super::costs::{StageCosts, layer_weights};
use super::layer_count::{Finder, LayerCount};
use super::lower::gpu_of;
use super::resolve::{Training, TrainingError};
use super::spec::DataParallelSpec;
use crate::model::Recompute;
use fabricsim_topology::{DeviceId, Topology};
use std::collections::VecDeque;

/// How many layers are gathered at once.
pub type Bucketing = LayerCount<Estimate>;

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// The fastest by an estimate, of those that fit the GPU's memory.
    Auto,
}

impl Finder for Estimate {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", Estimate::Auto)];
    const NAME: &'static str = "Bucketing";
    const ABOUT: &'static str = "So many layers, or as many as an estimate says are fastest.";
    const FOUND: &'static str = "The fastest by an estimate, of those that fit the GPU's memory.";
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
    /// Weights are gathered for the backward pass, too.
    pub gathers_again: bool,
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
            gathers_again: matches!(&training.spec.data_parallel,
                DataParallelSpec::Fsdp(fsdp) if fsdp.reshard),
        })
    }

    /// Seconds of a micro-batch with buckets of so many layers, of which so many are gathered ahead, where gathering
    /// and summing up so many layers takes what `gather` and `reduce` say. Kernels and exchanges are a stream each, as
    /// in `shards.rs`: a bucket is gathered when the kernels before the bucket `ahead` of it are over, and in the
    /// backward pass summed up after its own. Left out is what does not depend on buckets: embedding, head and their
    /// exchanges.
    pub fn pass(
        &self,
        (bucket, ahead): (u32, u32),
        gather: impl Fn(u64) -> f64,
        reduce: impl Fn(u64) -> f64,
    ) -> f64 {
        let buckets = self.buckets(bucket);
        let (mut kernels, mut exchanges) = (0.0_f64, 0.0_f64);
        for backward in [false, true] {
            let layer = if backward {
                self.backward
            } else {
                self.forward
            };
            let gathers = !backward || self.gathers_again;
            let mut to_gather = buckets.iter().filter(|_| gathers);
            let mut came = VecDeque::new();
            for &layers in &buckets {
                while came.len() <= ahead as usize
                    && let Some(&next) = to_gather.next()
                {
                    exchanges = exchanges.max(kernels) + gather(next);
                    came.push_back(exchanges);
                }
                let there = came.pop_front().unwrap_or(kernels);
                kernels = kernels.max(there) + layers as f64 * layer;
                if backward {
                    exchanges = exchanges.max(kernels) + reduce(layers);
                }
            }
        }
        kernels.max(exchanges)
    }

    /// What [`Self::pass`] is at least with buckets whose gather takes that long and whose sum takes as long as a
    /// layer's: nothing hides the first gather of a pass and the last sum.
    #[must_use]
    pub fn least(&self, gather: f64, reduce: f64) -> f64 {
        let passes = if self.gathers_again { 2.0 } else { 1.0 };
        passes * gather + self.layers as f64 * (self.forward + self.backward) + reduce
    }

    /// Layers of each bucket, if so many are gathered at once: the last has what is left.
    fn buckets(&self, bucket: u32) -> Vec<u64> {
        let each = u64::from(bucket.max(1));
        let starts = (0..self.layers).step_by(bucket.max(1) as usize);
        starts.map(|from| each.min(self.layers - from)).collect()
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
            gathers_again: true,
        };
        let takes = |layers: u64| 0.5 + layers as f64;
        let pass = |bucket, ahead| layer.pass((bucket, ahead), takes, takes);
        // By hand, exchange by exchange. One: gathers end every 1.5 s, kernels at 16. Backward, sums and gathers in turn
        // end every 1.5 s from 17.5 on, the last gather at 43.5, kernels at 45.5, and the last sum.
        assert!((pass(1, 1) - 47.0).abs() < 1e-9);
        // Two: gathers every 2.5, kernels at 14.5. Backward gathers end at 17, 19.5, 26, 31 and 36, sums at 23.5, 28.5,
        // 33.5 and 38.5, kernels at 40.
        assert!((pass(2, 1) - 42.5).abs() < 1e-9);
        // Three, the last one of a single layer: gathers at 3.5, 7, 10.5 and 12, kernels at 14.5; backward at 18, 21.5,
        // 31 and 36, sums at 27.5, 34.5 and 40.5, kernels at 39.
        assert!((pass(3, 1) - 42.0).abs() < 1e-9);
        // All at once, and with nothing ahead.
        assert!((pass(10, 0) - (10.5 + 10.0 + 10.5 + 20.0 + 10.5)).abs() < 1e-9);
        assert!(pass(3, 0) > pass(3, 1));
        let stay = LayerTimes {
            gathers_again: false,
            ..layer
        };
        assert!((stay.pass((10, 0), takes, takes) - (10.5 + 10.0 + 20.0 + 10.5)).abs() < 1e-9);
        for bucket in 1..=10 {
            let (gather, reduce) = (takes(u64::from(bucket)), takes(1));
            assert!(layer.least(gather, reduce) <= pass(bucket, 1));
            assert!(stay.least(gather, reduce) <= stay.pass((bucket, 1), takes, takes));
        }
    }
}
