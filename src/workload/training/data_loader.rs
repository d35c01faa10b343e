//! The data loader: each replica's batch comes from storage while the step before runs.
//!
//! The first GPU of each replica reads for it. A batch is read while the CPU decodes what has come of it, and then
//! copied to the GPU, or read into its memory directly (GPUDirect Storage). Batches further ahead even out what
//! differs from batch to batch; here all are alike, so that one ahead is as good as more.

use super::resolve::{Training, TrainingFault};
use super::script::{COMPUTE, LOADER, LOADER_CPU, LOADER_IN};
use super::spec::TrainingSpec;
use super::step::StepWriter;
use super::ways::LoaderWay;
use crate::model::Coordinates;
use fabricsim_plan::job::TaskId;
use fabricsim_units::{Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where batches come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DataLoaderSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A sequence on storage: 4 bytes of each token if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_sample: Option<Bytes>,
    /// Processes that read and decode for a GPU (PyTorch's `num_workers`); with 0 the training process does,
    /// between steps.
    pub workers: u32,
    /// Batches that are read ahead (PyTorch's `prefetch_factor` is of each worker); 0: none.
    pub prefetch: u32,
    /// What a worker takes to decode a sequence. Nothing if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<Time>,
    /// Storage devices, by their names; if absent all file servers, or all drives if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,
    /// Bytes go to the GPU directly (GPUDirect Storage), not through the host's memory.
    pub gds: bool,
}

impl Default for DataLoaderSpec {
    fn default() -> Self {
        DataLoaderSpec {
            comment: None,
            bytes_per_sample: None,
            workers: 2,
            // torch/utils/data/dataloader.py: prefetch_factor=2.
            prefetch: 2,
            decode: None,
            devices: None,
            gds: false,
        }
    }
}

impl DataLoaderSpec {
    /// Whether batches are read while a step before them runs.
    #[must_use]
    pub const fn ahead(&self) -> bool {
        self.workers > 0 && self.prefetch > 0
    }
}

/// What is wrong with it.
pub(super) fn check(spec: &TrainingSpec) -> Vec<TrainingFault> {
    let Some(loader) = &spec.data_loader else {
        return Vec::new();
    };
    if loader.gds && loader.decode.is_some() {
        return vec![TrainingFault {
            path: "data_loader.decode".into(),
            found: "a time on the CPU, of bytes that go past it".into(),
            expected: "no `decode`, or `\"gds\": false`".into(),
        }];
    }
    Vec::new()
}

impl Training {
    /// Whether a rank reads for its replica.
    #[must_use]
    pub const fn reads(at: Coordinates) -> bool {
        at.tp == 0 && at.cp == 0 && at.pp == 0
    }

    /// Sequences of a replica and step.
    #[must_use]
    pub fn samples(&self) -> u64 {
        u64::from(self.spec.global_batch) / u64::from(self.dims.dp.max(1))
    }

    /// Bytes of a replica's batch on storage.
    #[must_use]
    pub fn batch_bytes(&self) -> u64 {
        let spec = self.spec.data_loader.as_ref();
        let sample = spec.and_then(|loader| loader.bytes_per_sample);
        let sample = sample.map_or(4 * self.batch.tokens, Bytes::get);
        sample.saturating_mul(self.samples())
    }

    /// What decoding a replica's batch takes all workers of its GPU.
    #[must_use]
    pub fn decoding(&self) -> Time {
        let Some(loader) = &self.spec.data_loader else {
            return Time::ZERO;
        };
        let whole = loader.decode.unwrap_or_default().times(self.samples());
        Time::from_picos(whole.picos() / u64::from(loader.workers.max(1)))
    }
}

impl StepWriter<'_, '_, '_> {
    /// A step begins: its batch has to be there, and the next one is asked for.
    pub(super) fn next_batch(&mut self) {
        let Some(loader) = &self.training.spec.data_loader else {
            return;
        };
        let Some(way) = self.host.and_then(|host| host.loader) else {
            return;
        };
        let ahead = loader.ahead();
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => self.read_batch(way),
        };
        let began = self.last;
        let k = self.writer.wait(COMPUTE, "batch", Time::ZERO, &batch);
        self.last = Some(k);
        if ahead {
            // Its buffer is free when the step before has ended.
            let own = std::mem::replace(&mut self.last, began);
            let next = self.read_batch(way);
            self.batch = Some(next);
            self.last = own;
        }
    }

    fn read_batch(&mut self, way: LoaderWay) -> Vec<TaskId> {
        let (bytes, decoding) = (self.training.batch_bytes(), self.training.decoding());
        let after = self.last;
        let read = (way.read, bytes);
        let read = self
            .writer
            .transfer(LOADER, "batch from storage", read, after.as_slice());
        let mut done: Vec<TaskId> = read.into_iter().collect();
        if decoding > Time::ZERO {
            let name = "decoding the batch";
            let k = self
                .writer
                .wait(LOADER_CPU, name, decoding, after.as_slice());
            done.push(k);
        }
        if let Some(into) = way.into {
            let into = (into, bytes);
            let copied = self
                .writer
                .transfer(LOADER_IN, "batch to the GPU", into, &done);
            done = copied.into_iter().collect();
        }
        done
    }
}
