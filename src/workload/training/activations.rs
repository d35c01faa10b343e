//! Activations that wait for their backward pass in the host's memory.
//!
//! As Transformer Engine's `cpu_offload.py` (Megatron-LM's `--cpu-offloading-num-layers`, NeMo's
//! `cpu_offloading_num_layers`) and torchtune's `OffloadActivations` do it, both from memory: what a layer keeps is
//! copied to pinned memory beside the next layer's kernels, and the layer after that waits for the copy, so that two
//! layers' activations are on the GPU at most. In the backward pass those of the next layer come beside the kernels of
//! the present one. The last layer of a virtual stage keeps its own, which are needed first.
//!
//! Left out: that small tensors stay, and what PyTorch's allocator of pinned memory takes beside (it rounds up to
//! powers of two, from memory).

use super::layers::Deps;
use super::offload::{OffloadDevice, OffloadSpec};
use super::resolve::{Training, TrainingFault};
use super::script::{COMPUTE, HOST_IN, HOST_OUT};
use super::step::StepWriter;
use crate::model::{Batch, Keeping};
use fabricsim_plan::job::TaskId;
use fabricsim_units::Time;
use std::ops::Range;

/// Activations on their way.
#[derive(Debug, Default)]
pub(super) struct Travelling {
    /// Of the present pass: layers whose activations leave, and their bytes.
    layers: Vec<(u64, u64)>,
    /// The last copy to the host, and the one before it if no layer has waited for that.
    out: [Option<TaskId>; 2],
    /// The layer whose activations have been asked for, and their copy.
    coming: Option<(u64, TaskId)>,
}

impl Travelling {
    fn bytes(&self, layer: u64) -> Option<u64> {
        let found = self.layers.iter().find(|(leaves, _)| *leaves == layer);
        found.map(|&(_, bytes)| bytes)
    }
}

impl Training {
    /// What is in the host's memory or on drives, if anything is.
    #[must_use]
    pub fn outside(&self) -> Option<&OffloadSpec> {
        let spec = self.spec.offload.as_ref()?;
        (spec.optimizer.is_away() || spec.activations.is_away()).then_some(spec)
    }

    /// Layers of each virtual stage, from its first on, whose activations wait in the host's memory, if it has one
    /// more.
    #[must_use]
    pub fn layers_away(&self) -> u64 {
        let spec = self.spec.offload.as_ref();
        let spec = spec.filter(|spec| spec.activations.is_away());
        spec.map_or(0, |spec| spec.activation_layers.map_or(u64::MAX, u64::from))
    }

    /// Bytes of a stage's activations in the host's memory, of all micro-batches in flight.
    pub(super) fn activations_away(&self, stage: u32) -> u64 {
        if self.layers_away() == 0 {
            return 0;
        }
        self.keeping(|keeping| keeping.of_stage(&self.model, stage).away)
    }

    fn keeping<T>(&self, of: impl FnOnce(&Keeping<'_>) -> T) -> T {
        of(&Keeping {
            layout: &self.dims,
            batch: &Batch {
                global: u64::from(self.spec.global_batch),
                micro: self.batch.sequences,
                sequence: self.batch.tokens,
            },
            style: &self.style(),
            schedule: self.schedule,
            away: self.layers_away(),
        })
    }

    /// Layers of a virtual stage whose activations leave, and their bytes.
    fn leaving(&self, of: (u32, u32)) -> Vec<(u64, u64)> {
        if self.layers_away() == 0 {
            return Vec::new();
        }
        self.keeping(|keeping| {
            let layers = keeping.layers(&self.model, of);
            let leaving = layers.filter(|kept| kept.leaves);
            leaving.map(|kept| (kept.layer, kept.bytes)).collect()
        })
    }
}

impl StepWriter<'_, '_, '_> {
    /// A pass through a virtual stage begins.
    pub(super) fn begin_activations(&mut self, chunk: u32) {
        self.travelling.layers = self.training.leaving((self.at.pp, chunk));
    }

    /// Before a layer's forward pass: no more than one other layer's activations may be leaving.
    pub(super) fn room_for_activations(&mut self, deps: &mut Deps) {
        deps.add(self.travelling.out[1].take());
    }

    /// After a layer's forward pass: what it keeps leaves, if it does.
    pub(super) fn activations_leave(&mut self, layer: u64) {
        let (Some(bytes), Some(host)) = (self.travelling.bytes(layer), self.host) else {
            return;
        };
        let (name, after) = ("activations to the host", self.last);
        let out = (host.out, bytes);
        let sent = self.writer.transfer(HOST_OUT, name, out, after.as_slice());
        self.travelling.out = [sent, self.travelling.out[0]];
        if let Some(sent) = sent.filter(|_| !self.copies_overlap()) {
            let name = "activations on the host";
            self.last = Some(self.writer.wait(COMPUTE, name, Time::ZERO, &[sent]));
        }
    }

    /// Before a layer's backward pass: what it kept is back, and that of the next one that kept anything comes.
    pub(super) fn activations_come(&mut self, layer: u64, next: Option<u64>, deps: &mut Deps) {
        let came = match self.travelling.coming.take() {
            Some((asked, copy)) if asked == layer => Some(copy),
            _ => self.fetch_activations(layer),
        };
        deps.add(came);
        if let Some(next) = next.filter(|_| self.copies_overlap())
            && let Some(copy) = self.fetch_activations(next)
        {
            self.travelling.coming = Some((next, copy));
        }
    }

    /// They come when the kernels before are over, and what was leaving has left: then there is room for them.
    fn fetch_activations(&mut self, layer: u64) -> Option<TaskId> {
        let (bytes, host) = (self.travelling.bytes(layer)?, self.host?);
        let mut after = Deps::from_task(self.last);
        after.add(self.travelling.out[0]);
        let from = (host.into, bytes);
        self.writer
            .transfer(HOST_IN, "activations from the host", from, after.as_slice())
    }

    fn copies_overlap(&self) -> bool {
        self.training.outside().is_none_or(OffloadSpec::overlaps)
    }
}

/// What is wrong with a job's offloaded activations, which has these layers: `[stage][chunk]`.
pub(super) fn faults(spec: &OffloadSpec, layers: &[Vec<Range<u64>>]) -> Vec<TrainingFault> {
    let mut faults = Vec::new();
    let mut add = |field: &str, found: String, expected: String| {
        faults.push(TrainingFault {
            path: format!("offload.{field}"),
            found,
            expected,
        });
    };
    let longest = layers.iter().flatten().map(|range| range.end - range.start);
    let most = longest.max().unwrap_or(0).saturating_sub(1);
    match (spec.activations, spec.activation_layers) {
        (OffloadDevice::None, Some(n)) => add(
            "activation_layers",
            n.to_string(),
            "`\"activations\": \"cpu\"` beside it".into(),
        ),
        (OffloadDevice::Nvme, _) => {
            let expected = "`none` or `cpu`: activations go to the host's memory only";
            add("activations", "`nvme`".into(), expected.into());
        }
        (OffloadDevice::Cpu, _) if most == 0 => add(
            "activations",
            "`cpu`, where each virtual stage has one layer".into(),
            "`none`, or fewer stages: the last layer of each keeps its activations".into(),
        ),
        (OffloadDevice::Cpu, Some(n)) if !(1..=most).contains(&u64::from(n)) => add(
            "activation_layers",
            n.to_string(),
            format!("1 to {most}: the last layer of a virtual stage keeps its activations"),
        ),
        _ => {}
    }
    faults
}
