//! The process on the host: it starts kernels ahead of the GPU until it waits for it.
//!
//! A process starts kernels one after the other, each in `kernel_launch`, whatever the GPU does. While it
//! is ahead, that time does not show. Where it reads something from the GPU (`.item()`, `print` of a tensor,
//! `torch.cuda.synchronize()`) it waits until the GPU has come there, and starts again without a lead.
//!
//! What reading takes, what PyTorch's dispatcher takes beside, and how many kernels it starts for an operation, is in
//! `topologies/software/pytorch.json`.

use super::costs::StageCosts;
use super::resolve::Training;
use super::script::COMPUTE;
use super::spec::{DataParallelSpec, TrainingSpec};
use super::step::StepWriter;
use fabricsim_topology::pytorch::pytorch;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The process on the host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "TrainingHostSpec")]
pub struct HostSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Where it waits for its GPU.
    pub synchronize: SyncSpec,
    /// How kernels come to be.
    pub kernels: KernelSource,
    /// How they are started.
    pub launch: LaunchKind,
}

/// Where a process waits for its GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyncSpec {
    /// How often.
    pub every: SyncEvery,
    /// In which passes, where it does so in passes; in both if absent.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<SyncPlace>,
    /// For what.
    pub stream: SyncStream,
    /// What the process does with what it read, before it starts more: a `print`, a line of a log.
    pub busy: Time,
}

/// How often a process waits for its GPU, beside the end of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncEvery {
    /// Never, not even at the end of a step.
    Never,
    /// At the end of a step, for all that it has started: a loss that is logged.
    #[default]
    Step,
    /// And in each pass of a micro-batch.
    MicroBatch,
    /// And after each layer.
    Layer,
    /// And after each bucket of gradients has been sent.
    Bucket,
}

/// In which passes a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncPlace {
    /// The forward passes.
    Forward,
    /// The backward passes.
    Backward,
}

/// What a process waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncStream {
    /// The stream of kernels: `.item()`, `.cpu()`, `print` of a tensor.
    #[default]
    Compute,
    /// All streams, those of communication too: `torch.cuda.synchronize()`.
    All,
}

/// How kernels come to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelSource {
    /// Fused by hand, as in Megatron-LM and Transformer Engine: one for each norm, rotary embedding and
    /// activation, and one for the optimizer.
    #[default]
    Fused,
    /// One for each of PyTorch's operations, which its dispatcher starts.
    Eager,
    /// Those that `torch.compile` makes: element-wise passes are fused with each other and with norms;
    /// matrix products stay what they are.
    Compiled,
}

/// How kernels are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaunchKind {
    /// One by one, each in `kernel_launch`.
    #[default]
    Kernel,
    /// A step at once, as a CUDA graph.
    Graph,
}

/// A place where a process may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncPoint {
    /// The kernels of a pass are started, but not what it sends.
    Pass,
    /// Those of a layer are.
    Layer,
    /// A bucket of gradients is.
    Bucket,
}

impl TrainingSpec {
    /// What starting a kernel takes the process, the framework's part included.
    #[must_use]
    pub fn host_launch(&self) -> Time {
        let Some(host) = &self.host else {
            return self.kernel_launch;
        };
        let model = pytorch();
        match (host.launch, host.kernels) {
            (LaunchKind::Graph, _) => Time::ZERO,
            (_, KernelSource::Fused) => self.kernel_launch,
            (_, KernelSource::Eager) => self.kernel_launch + model.eager.dispatch.value,
            (_, KernelSource::Compiled) => self.kernel_launch + model.compiled.dispatch.value,
        }
    }

    /// How kernels come to be.
    #[must_use]
    pub fn kernel_source(&self) -> KernelSource {
        self.host
            .as_ref()
            .map(|host| host.kernels)
            .unwrap_or_default()
    }
}

/// What does not fit of it: the field from the job on, what was found, and what belongs there.
pub(super) fn faults(spec: &TrainingSpec) -> Vec<(&'static str, &'static str, &'static str)> {
    let Some(host) = &spec.host else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let inside = !matches!(host.synchronize.every, SyncEvery::Never | SyncEvery::Step);
    if host.launch == LaunchKind::Graph && inside {
        faults.push((
            "host.synchronize.every",
            "a wait inside of what a CUDA graph has captured",
            "`step` or `never` with `\"launch\": \"graph\"`: a capture allows no synchronisation",
        ));
    }
    if host.synchronize.every == SyncEvery::Bucket
        && matches!(
            spec.data_parallel,
            DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess
        )
    {
        faults.push((
            "host.synchronize.every",
            "`bucket`, of a job without buckets",
            "`layer`, or `ddp` or `zero` in `data_parallel`",
        ));
    }
    faults
}

impl StepWriter<'_, '_, '_> {
    /// The process comes to a place where it may wait for its GPU.
    pub(super) fn may_synchronise(&mut self, point: SyncPoint, backward: bool) {
        let Some(host) = &self.training.spec.host else {
            return;
        };
        let sync = &host.synchronize;
        let here = match sync.every {
            SyncEvery::Never | SyncEvery::Step => false,
            SyncEvery::MicroBatch => point == SyncPoint::Pass,
            SyncEvery::Layer => point == SyncPoint::Layer,
            SyncEvery::Bucket => point == SyncPoint::Bucket,
        };
        let pass = if backward {
            SyncPlace::Backward
        } else {
            SyncPlace::Forward
        };
        if !here || sync.place.is_some_and(|place| place != pass) {
            return;
        }
        // What waits for a bucket waits for its exchange, which is on a stream of its own.
        let stream = match (sync.stream, point) {
            (SyncStream::All, _) | (_, SyncPoint::Bucket) => None,
            (SyncStream::Compute, _) => Some(COMPUTE),
        };
        self.writer
            .host_sync(stream, pytorch().read.value + sync.busy);
    }

    /// A step is over: the process waits for all of it, if it does.
    pub(super) fn end_step(&mut self) {
        let Some(host) = &self.training.spec.host else {
            // A process that waited for the host would delay nothing.
            if self.training.offload().is_some_and(|o| o.delayed_update) {
                return;
            }
            match self.training.end_stream() {
                None => drop(self.writer.synchronise()),
                stream => self.writer.host_sync(stream, Time::ZERO),
            }
            return;
        };
        let graph = match host.launch {
            LaunchKind::Kernel => Time::ZERO,
            LaunchKind::Graph => graph_launch(self.training, self.costs),
        };
        let busy = match host.synchronize.every {
            SyncEvery::Never => return,
            SyncEvery::Step => host.synchronize.busy,
            SyncEvery::MicroBatch | SyncEvery::Layer | SyncEvery::Bucket => Time::ZERO,
        };
        self.writer.host_sync(
            self.training.end_stream(),
            pytorch().read.value + busy + graph,
        );
    }
}

/// What starting a step takes that is one graph.
fn graph_launch(training: &Training, costs: &StageCosts) -> Time {
    let model = &pytorch().graph;
    let layers = training.model.layers / u64::from(training.dims.pp);
    let nodes = layers * costs.launches(training) * u64::from(training.micro_batches);
    model.launch.value + model.node.value.times(nodes)
}
