//! What micro-batches in flight keep of a stage's layers, on the GPU and in the host's memory.

use super::activations::{embedding_activations, layer_activations};
use super::kernel::{MicroBatch, Style};
use super::layout::{Batch, Layout};
use super::spec::ModelSpec;
use crate::pipeline::Schedule;

/// What decides which activations are kept where.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    /// How the job is spread.
    pub layout: &'a Layout,
    /// The batch of a step.
    pub batch: &'a Batch,
    /// How kernels are written: what they keep.
    pub style: &'a Style,
    /// The order of a pipeline's passes.
    pub schedule: Schedule,
    /// Layers of each virtual stage, from its first on, whose activations wait in the host's memory; never its last.
    pub away: u64,
}

/// What a layer keeps of one micro-batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptLayer {
    /// Which.
    pub layer: u64,
    /// How much.
    pub bytes: u64,
    /// It waits in the host's memory.
    pub leaves: bool,
}

/// Bytes of activations of all micro-batches in flight, of a stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// On the GPU, with those that are on their way.
    pub here: u64,
    /// In the host's memory.
    pub away: u64,
}

impl Keeping<'_> {
    /// The layers of a virtual stage that keep something.
    pub fn layers<'s>(
        &'s self,
        model: &'s ModelSpec,
        (stage, chunk): (u32, u32),
    ) -> impl Iterator<Item = KeptLayer> + 's {
        let range = self.layout.layers_of(model, stage, chunk);
        let last = range.end.saturating_sub(1);
        let until = range.start.saturating_add(self.away).min(last);
        let (batch, sharding) = (self.micro_batch(), self.layout.sharding());
        let keeping = self.style.recompute.keeping(range);
        keeping.map(move |layer| KeptLayer {
            layer,
            bytes: layer_activations(model, layer, batch, &sharding, self.style),
            leaves: layer < until,
        })
    }

    /// Of a stage. Micro-batches in flight are spread evenly over its groups of layers; what does not divide goes to
    /// the first ones.
    ///
    /// Of layers whose activations leave two are there at most: of the one that is worked on, and of the one before
    /// it, which leave, or of the next one, which come. When the layers behind them are worked on, which keep theirs,
    /// the last one is still on its way.
    #[must_use]
    pub fn of_stage(&self, model: &ModelSpec, stage: u32) -> Kept {
        let count = self.layout.micro_batches(self.batch);
        let in_flight = groups_in_flight(self.layout, self.schedule, count, stage);
        let v = u64::from(self.layout.virtual_stages);
        let (mut kept, mut moving) = (Kept::default(), 0);
        for chunk in 0..self.layout.virtual_stages {
            let times = in_flight / v + u64::from(u64::from(chunk) < in_flight % v);
            let (mut stay, mut leave, mut largest, mut leaving) = (0_u64, 0_u64, 0, 0_u64);
            for KeptLayer { bytes, leaves, .. } in self.layers(model, (stage, chunk)) {
                if leaves {
                    leave = leave.saturating_add(bytes);
                    largest = bytes.max(largest);
                    leaving += 1;
                } else {
                    stay = stay.saturating_add(bytes);
                }
            }
            let both = largest.saturating_mul(leaving.min(2));
            moving = largest.max(both.saturating_sub(stay)).max(moving);
            if stage == 0 && chunk == 0 {
                let (batch, sharding) = (self.micro_batch(), self.layout.sharding());
                let embedding = embedding_activations(model, batch, &sharding, self.style);
                stay = stay.saturating_add(embedding);
            }
            kept.here = kept.here.saturating_add(stay.saturating_mul(times));
            kept.away = kept.away.saturating_add(leave.saturating_mul(times));
        }
        kept.here = kept.here.saturating_add(moving);
        kept
    }

    fn micro_batch(&self) -> MicroBatch {
        MicroBatch {
            sequences: self.batch.micro,
            tokens: self.batch.sequence,
        }
    }
}

/// How many forward passes through one group of layers a stage keeps at most, over all its groups.
///
/// - GPipe: all micro-batches, of each group.
/// - One forward, one backward: min(m, p - stage).
/// - Interleaved: Megatron-LM's warm-up and the one in work, `2 (p - stage - 1) + (v - 1) p + 1`;
///   on the first stage that is as much as `1 + (p - 1) / pv` times all layers of the model
///   (Korthikanti et al., arXiv 2205.05198, appendix C).
#[must_use]
pub fn groups_in_flight(
    layout: &Layout,
    schedule: Schedule,
    micro_batches: u64,
    stage: u32,
) -> u64 {
    let (p, v) = (u64::from(layout.pp), u64::from(layout.virtual_stages));
    let behind = p.saturating_sub(1 + u64::from(stage));
    let all = micro_batches.saturating_mul(v);
    match schedule {
        Schedule::Gpipe => all,
        _ if v == 1 => all.min(behind + 1),
        Schedule::OneForwardOneBackward | Schedule::Interleaved => {
            all.min(2 * behind + (v - 1) * p + 1)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::model::{Recompute, presets};

    /// Of Llama 3 8B, 32 layers: bytes of a layer and of the embedding, and what is kept.
    fn of(pp: u32, recompute: Recompute, away: u64) -> (u64, u64, Kept) {
        let model = &presets::find("llama3-8b").unwrap().model;
        let layout = Layout {
            pp,
            ..Layout::default()
        };
        let batch = Batch {
            global: 8,
            micro: 1,
            sequence: 4096,
        };
        let style = Style {
            recompute,
            ..Style::MODERN
        };
        let keeping = Keeping {
            layout: &layout,
            batch: &batch,
            style: &style,
            schedule: Schedule::OneForwardOneBackward,
            away,
        };
        let (micro, sharding) = (keeping.micro_batch(), layout.sharding());
        let layer = layer_activations(model, 0, micro, &sharding, &style);
        let embedding = embedding_activations(model, micro, &sharding, &style);
        (layer, embedding, keeping.of_stage(model, 0))
    }

    #[test]
    fn of_layers_that_leave_two_are_there_at_most() {
        let (layer, embedding, all) = of(1, Recompute::None, 0);
        let here = 32 * layer + embedding;
        assert_eq!(all, Kept { here, away: 0 });
        // All but the last: that one and one on its way, or two on their way.
        let (layer, embedding, most) = of(1, Recompute::None, u64::MAX);
        let (here, away) = (2 * layer + embedding, 31 * layer);
        assert_eq!(most, Kept { here, away });
        let (layer, embedding, few) = of(1, Recompute::None, 4);
        let (here, away) = (29 * layer + embedding, 4 * layer);
        assert_eq!(few, Kept { here, away });
        // Of four micro-batches in flight 7 of 8 layers of the first stage.
        let (layer, embedding, stage) = of(4, Recompute::None, u64::MAX);
        let (here, away) = (4 * (layer + embedding) + layer, 4 * 7 * layer);
        assert_eq!(stage, Kept { here, away });
    }

    #[test]
    fn with_recomputation_inputs_leave() {
        // 4,096 rows of 4,096 columns, 2 bytes each.
        let input = 2 * 4096 * 4096;
        let (_, embedding, full) = of(1, Recompute::Full, u64::MAX);
        let (here, away) = (2 * input + embedding, 31 * input);
        assert_eq!(full, Kept { here, away });
        // The inputs of layers 0, 6, …, 30; the last layer keeps none.
        let (_, embedding, root) = of(1, Recompute::Sqrt, u64::MAX);
        let (here, away) = (2 * input + embedding, 6 * input);
        assert_eq!(root, Kept { here, away });
    }
}
