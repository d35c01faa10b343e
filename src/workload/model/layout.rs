//! How a job is spread over GPUs, and whether it can be.

use super::error::{ModelError, ModelFault, divisors_near, multiples_near};
use super::kernel::{Sharding, check_sharding};
use super::spec::ModelSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How many GPUs each kind of parallelism takes.
///
/// A job has `tp` × `cp` × `dp` × `pp` GPUs. Experts are spread inside that: `ep` divides
/// `dp` × `cp`, as in Megatron-LM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Tensor parallelism.
    #[serde(default = "one")]
    pub tp: u32,
    /// Context parallelism.
    #[serde(default = "one")]
    pub cp: u32,
    /// Expert parallelism.
    #[serde(default = "one")]
    pub ep: u32,
    /// Data parallelism.
    #[serde(default = "one")]
    pub dp: u32,
    /// Pipeline parallelism: stages.
    #[serde(default = "one")]
    pub pp: u32,
    /// Groups of layers on each stage (interleaved schedule).
    #[serde(default = "one")]
    pub virtual_stages: u32,
    /// Whether tensor parallelism splits the rest of a layer along the sequence.
    #[serde(default)]
    pub sequence_parallel: bool,
    /// Whether embedding and output take the place of a layer each when layers are dealt out to
    /// stages: 126 layers on 16 stages are 7 on the first and last, 8 on each other one.
    #[serde(default)]
    pub ends_count_as_layers: bool,
}

fn one() -> u32 {
    1
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            tp: 1,
            cp: 1,
            ep: 1,
            dp: 1,
            pp: 1,
            virtual_stages: 1,
            sequence_parallel: false,
            ends_count_as_layers: false,
        }
    }
}

/// The batch of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Sequences of a step, of all GPUs.
    pub global: u64,
    /// Sequences of a micro-batch.
    pub micro: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
}

impl Layout {
    /// How many GPUs it takes.
    #[must_use]
    pub fn world(&self) -> u64 {
        [self.tp, self.cp, self.dp, self.pp]
            .into_iter()
            .map(u64::from)
            .fold(1, u64::saturating_mul)
    }

    /// How a layer is split.
    #[must_use]
    pub fn sharding(&self) -> Sharding {
        Sharding {
            tp: self.tp,
            cp: self.cp,
            ep: self.ep,
            sequence_parallel: self.sequence_parallel,
        }
    }

    /// Micro-batches of a step.
    #[must_use]
    pub fn micro_batches(&self, batch: &Batch) -> u64 {
        batch.global / (batch.micro * u64::from(self.dp)).max(1)
    }

    /// The layers of group `chunk` (below `virtual_stages`) of stage `stage` (below `pp`).
    #[must_use]
    pub fn layers_of(&self, model: &ModelSpec, stage: u32, chunk: u32) -> Range<u64> {
        let (pp, ends) = (u64::from(self.pp), u64::from(self.ends_count_as_layers));
        let places = model.layers + 2 * ends;
        let each = places / (pp * u64::from(self.virtual_stages)).max(1);
        let first = (u64::from(chunk) * pp + u64::from(stage)) * each;
        let layer = |place: u64| place.saturating_sub(ends).min(model.layers);
        layer(first)..layer(first + each)
    }

    /// Checks that the layout suits model and batch, and that it takes `gpus` GPUs if that is
    /// given.
    ///
    /// # Errors
    /// All faults at once ([`ModelError::Faults`]), each with the field, the value, and the
    /// nearest values that would do.
    pub fn check(
        &self,
        model: &ModelSpec,
        batch: &Batch,
        gpus: Option<u64>,
    ) -> Result<(), ModelError> {
        let mut faults = Vec::new();
        let positive = [
            ("dp", u64::from(self.dp)),
            ("pp", u64::from(self.pp)),
            ("virtual_stages", u64::from(self.virtual_stages)),
            ("batch.global", batch.global),
            ("batch.micro", batch.micro),
            ("batch.sequence", batch.sequence),
        ];
        for (field, value) in positive {
            if value == 0 {
                faults.push(ModelFault::new(field, value, "at least 1"));
            }
        }
        let zero = !faults.is_empty() || [self.tp, self.cp, self.ep].contains(&0);
        check_sharding(model, &self.sharding(), batch.sequence, &mut faults);
        // Nothing can be divided by them.
        if zero {
            return ModelError::unless_empty(faults);
        }
        self.check_groups(gpus, &mut faults);
        self.check_stages(model, &mut faults);
        self.check_batch(batch, &mut faults);
        ModelError::unless_empty(faults)
    }

    fn check_groups(&self, gpus: Option<u64>, faults: &mut Vec<ModelFault>) {
        let shared = u64::from(self.dp) * u64::from(self.cp);
        let ep = u64::from(self.ep);
        if !shared.is_multiple_of(ep) {
            let near = divisors_near(ep, shared);
            let expected = format!("a divisor of dp × cp ({shared}){near}");
            faults.push(ModelFault::new("ep", ep, expected));
        }
        let Some(gpus) = gpus.filter(|&g| g != self.world()) else {
            return;
        };
        let rest = self.world() / u64::from(self.dp);
        let expected = if gpus.is_multiple_of(rest) {
            format!(
                "tp × cp × dp × pp = {gpus}, the number of GPUs: dp {}",
                gpus / rest
            )
        } else {
            format!(
                "tp × cp × dp × pp = {gpus}, the number of GPUs, which tp × cp × pp ({rest}) does not divide"
            )
        };
        faults.push(ModelFault::new("dp", self.dp, expected));
    }

    fn check_stages(&self, model: &ModelSpec, faults: &mut Vec<ModelFault>) {
        let places = model.layers + if self.ends_count_as_layers { 2 } else { 0 };
        let (pp, v) = (u64::from(self.pp), u64::from(self.virtual_stages));
        let what = if self.ends_count_as_layers {
            "layers + 2"
        } else {
            "layers"
        };
        if !places.is_multiple_of(pp) {
            let near = divisors_near(pp, places);
            let expected = format!("a divisor of {what} ({places}){near}");
            faults.push(ModelFault::new("pp", pp, expected));
        } else if !(places / pp).is_multiple_of(v) {
            let near = divisors_near(v, places / pp);
            let expected = format!("a divisor of ({what}) / pp ({}){near}", places / pp);
            faults.push(ModelFault::new("virtual_stages", v, expected));
        } else if v > 1 && pp == 1 {
            faults.push(ModelFault::new("virtual_stages", v, "1, for pp is 1"));
        }
    }

    fn check_batch(&self, batch: &Batch, faults: &mut Vec<ModelFault>) {
        let together = batch.micro.saturating_mul(u64::from(self.dp));
        if !batch.global.is_multiple_of(together) {
            let near = multiples_near(batch.global, together);
            let expected = format!("a multiple of micro_batch × dp ({together}){near}");
            faults.push(ModelFault::new("batch.global", batch.global, expected));
            return;
        }
        let (count, pp) = (self.micro_batches(batch), u64::from(self.pp));
        // Megatron-LM's interleaved schedule deals micro-batches out in rounds of pp.
        if self.virtual_stages > 1 && !count.is_multiple_of(pp) {
            let step = together.saturating_mul(pp);
            let near = multiples_near(batch.global, step);
            let expected = format!("a multiple of micro_batch × dp × pp ({step}){near}");
            faults.push(ModelFault::new("batch.global", batch.global, expected));
        }
    }
}
