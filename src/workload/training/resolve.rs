//! A training job that has been checked against its model and the number of GPUs.

use super::activations;
use super::bucketing::Bucketing;
use super::data_loader;
use super::host::KernelSource;
use super::offload;
use super::prefetch::Prefetch;
use super::spec::{DataParallelSpec, FsdpSpec, ModelRef, Precision, TrainingSpec};
use crate::model::kernel::{MicroBatch, Style};
use crate::model::{Batch, Layout, ModelError, ModelSpec, Recompute, presets};
use crate::pipeline::Schedule;
use fabricsim_budget::OverBudget;
use fabricsim_topology::error::did_you_mean_one_of;
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// What is wrong with a training job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingFault {
    /// The field, from the job on: `parallel.tp`.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What belongs there.
    pub expected: String,
}

impl fmt::Display for TrainingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrainingFault {
            path,
            found,
            expected,
        } = self;
        write!(f, "{path}: found {found}, expected {expected}")
    }
}

/// Why a training job cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// Fields that do not fit.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Faults(Vec<TrainingFault>),
    /// The model.
    #[error("model: {0}")]
    Model(#[from] ModelError),
    /// A GPU of which too little is known.
    #[error(
        "the hardware files do not say how fast kernels are on {gpu}{}: `sms` of the GPU, \
         `kernels` of its architecture, with a `power` or with `gemm_share` and `tile`{}",
        if *.fp8 { " in FP8" } else { "" },
        if *.fp8 { ", `fp8_tflops` and, without a `power`, `fp8_gemm_share`" } else { "" }
    )]
    UnknownGpu {
        /// Its model.
        gpu: String,
        /// Whether FP8 was asked for.
        fp8: bool,
    },
    /// More than memory holds.
    #[error(transparent)]
    Memory(#[from] OverBudget),
    /// A communication that cannot be planned.
    #[error(transparent)]
    Exchange(#[from] crate::exchanges::ExchangeError),
}

/// A training job, checked.
#[derive(Debug, Clone)]
pub struct Training {
    /// As it was written.
    pub spec: TrainingSpec,
    /// What the model is called.
    pub model_name: String,
    /// The model.
    pub model: ModelSpec,
    /// What goes through the pipeline at once, on one replica.
    pub batch: MicroBatch,
    /// Micro-batches of a replica and step.
    pub micro_batches: u32,
    /// How it is divided.
    pub dims: Layout,
    /// The order of micro-batches.
    pub schedule: Schedule,
    /// Layers of each stage and virtual stage: `[stage][chunk]`.
    pub layers: Vec<Vec<Range<u64>>>,
    /// Ranks over which FSDP divides weights.
    pub shard_group: u32,
    /// Layers whose weights FSDP gathers ahead; if memory is to decide that, 0 until it has.
    pub prefetch: u32,
    /// So many layers are gathered at once.
    pub bucketing: u32,
}

/// The longest sequence, as of a model's own.
const MOST_TOKENS: u64 = 1 << 32;

impl Training {
    /// Checks a job for so many GPUs.
    ///
    /// # Errors
    /// All faults at once.
    pub fn new(spec: &TrainingSpec, gpus: u32) -> Result<Training, TrainingError> {
        let (model_name, model) = match &spec.model {
            ModelRef::Preset(name) => {
                let preset = presets::find(name).map_err(unknown_model)?;
                (preset.name.clone(), preset.model.clone())
            }
            ModelRef::Shape(shape) => ("model".to_owned(), shape.as_ref().clone()),
        };
        model
            .check()
            .map_err(|error| placed(error, |field| format!("model.shape.{field}")))?;
        let mut faults = Faults::default();
        let parallel = &spec.parallel;
        for (path, value) in [
            ("parallel.tp", parallel.tp),
            ("parallel.cp", parallel.cp),
            ("parallel.pp", parallel.pp),
            ("micro_batch", spec.micro_batch),
            ("steps", u32::from(spec.steps)),
        ] {
            faults.unless(value > 0, path, value, || "at least 1".into());
        }
        if let Some(sequence) = spec.sequence {
            // As long as a model's own may be; with more, products do not fit 64 bits.
            faults.unless(
                (1..=MOST_TOKENS).contains(&sequence),
                "sequence",
                sequence,
                || format!("1 to {MOST_TOKENS}"),
            );
        }
        faults.end()?;
        let inner = u64::from(parallel.tp) * u64::from(parallel.cp) * u64::from(parallel.pp);
        let whole = inner <= u64::from(gpus) && u64::from(gpus).is_multiple_of(inner);
        let product = format!(
            "{} × {} × {} = {inner}",
            parallel.tp, parallel.cp, parallel.pp
        );
        faults.unless(whole, "parallel", product, || {
            format!("tp × cp × pp that divides the {gpus} GPUs of the job")
        });
        faults.end()?;
        let left = gpus / inner as u32;
        let stages = u64::from(parallel.pp) * u64::from(parallel.virtual_stages.max(1));
        let dims = Layout {
            tp: parallel.tp,
            cp: parallel.cp,
            ep: parallel.ep,
            dp: parallel.dp.unwrap_or(left),
            pp: parallel.pp,
            virtual_stages: parallel.virtual_stages,
            sequence_parallel: parallel.sequence_parallel,
            // As Llama 3 does, where only that divides evenly.
            ends_count_as_layers: !model.layers.is_multiple_of(stages)
                && (model.layers + 2).is_multiple_of(stages),
        };
        let batch = Batch {
            global: u64::from(spec.global_batch),
            micro: u64::from(spec.micro_batch),
            sequence: spec.sequence.unwrap_or(model.sequence),
        };
        dims.check(&model, &batch, Some(u64::from(gpus)))
            .map_err(|error| placed(error, layout_path))?;
        let replicas = dims.dp * dims.cp;
        let micro_batches = dims.micro_batches(&batch) as u32;
        faults.unless(
            micro_batches <= u32::from(u16::MAX),
            "global_batch",
            format!("{micro_batches} micro-batches of a replica"),
            || {
                format!(
                    "at most {}: a larger `micro_batch`, or more replicas",
                    u16::MAX
                )
            },
        );
        let schedule = spec.schedule.unwrap_or(if dims.virtual_stages > 1 {
            Schedule::Interleaved
        } else {
            Schedule::OneForwardOneBackward
        });
        let interleaved = schedule == Schedule::Interleaved;
        faults.unless(
            dims.virtual_stages == 1 || (interleaved && dims.pp > 1),
            "parallel.virtual_stages",
            dims.virtual_stages,
            || "1, but for the interleaved schedule of two stages and more".into(),
        );
        faults.unless(
            !interleaved || micro_batches.is_multiple_of(dims.pp),
            "global_batch",
            spec.global_batch,
            || {
                format!(
                    "a multiple of micro_batch × dp × pp = {}, for the interleaved schedule",
                    spec.micro_batch * dims.dp * dims.pp
                )
            },
        );
        let chunks = |stage| {
            (0..dims.virtual_stages)
                .map(|chunk| dims.layers_of(&model, stage, chunk))
                .collect()
        };
        let layers: Vec<Vec<Range<u64>>> = (0..dims.pp).map(chunks).collect();
        let shard_group = match &spec.data_parallel {
            DataParallelSpec::Fsdp(fsdp) => fsdp.shard_group.unwrap_or(replicas),
            _ => replicas,
        };
        let bucketing = match &spec.data_parallel {
            DataParallelSpec::Fsdp(FsdpSpec {
                bucketing: Bucketing::Layers(layers),
                ..
            }) => *layers,
            _ => 1,
        };
        faults.unless(
            bucketing > 0,
            "data_parallel.fsdp.bucketing",
            bucketing,
            || "a number of layers from 1 on, or \"auto\"".into(),
        );
        faults.unless(
            shard_group > 0 && replicas.is_multiple_of(shard_group),
            "data_parallel.fsdp.shard_group",
            shard_group,
            || format!("a divisor of dp × cp = {replicas}"),
        );
        let ep = dims.ep;
        faults.unless(
            shard_group.is_multiple_of(ep) || ep.is_multiple_of(shard_group),
            "data_parallel.fsdp.shard_group",
            shard_group,
            || format!("a multiple or a divisor of ep = {ep}"),
        );
        if let DataParallelSpec::Zero(zero) = &spec.data_parallel {
            faults.unless(
                (1..=2).contains(&zero.stage),
                "data_parallel.zero.stage",
                zero.stage,
                || "1 or 2; `fsdp` is stage 3".into(),
            );
        }
        match spec.recompute {
            Recompute::Every(n) => {
                let most = u32::try_from(model.layers).unwrap_or(u32::MAX);
                faults.unless((1..=most).contains(&n), "recompute.every", n, || {
                    format!("1 to {most}, the model's layers")
                });
            }
            Recompute::Operations(set) => {
                faults.unless(!set.is_empty(), "recompute.operations", "none", || {
                    "one or more of `core_attention`, `attention`, `mlp`, `norms`, `activation`"
                        .into()
                });
            }
            _ => {}
        }
        if let Some(version) = spec.flash_version {
            faults.unless((1..=3).contains(&version), "flash_version", version, || {
                "1, 2 or 3".into()
            });
        }
        if let Some(bytes) = spec.logit_bytes {
            faults.unless((1..=64).contains(&bytes), "logit_bytes", bytes, || {
                "1 to 64".into()
            });
        }
        for (path, found, expected) in super::host::faults(spec) {
            faults.unless(false, path, found, || expected.into());
        }
        for (path, found, expected) in super::relaxed::faults(spec) {
            faults.unless(false, path, found, || expected);
        }
        if spec.data_parallel == DataParallelSpec::SingleProcess {
            faults.unless(inner == 1, "parallel", inner, || {
                "tp, cp and pp of 1: one process holds whole models".into()
            });
        }
        faults.0.extend(offload::check(spec));
        if let Some(offload) = &spec.offload {
            faults.0.extend(activations::faults(offload, &layers));
        }
        faults.0.extend(data_loader::check(spec));
        faults.end()?;
        Ok(Training {
            model_name,
            batch: MicroBatch {
                sequences: u64::from(spec.micro_batch),
                tokens: batch.sequence,
            },
            model,
            micro_batches,
            dims,
            schedule,
            layers,
            shard_group,
            prefetch: match &spec.data_parallel {
                DataParallelSpec::Fsdp(FsdpSpec {
                    prefetch: Prefetch::Layers(layers),
                    ..
                }) => *layers,
                _ => 0,
            },
            bucketing,
            spec: spec.clone(),
        })
    }

    /// Ranks over which FSDP divides experts: those of a shard group that have the same ones.
    #[must_use]
    pub fn expert_shards(&self) -> u32 {
        (self.shard_group / self.dims.ep).max(1)
    }

    /// Tokens of a step.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::from(self.spec.global_batch) * self.batch.tokens
    }

    /// How kernels are written.
    #[must_use]
    pub fn style(&self) -> Style {
        Style {
            attention: self.spec.attention,
            recompute: self.spec.recompute,
            dropout: self.spec.dropout,
            width: 2,
            operand_width: match self.spec.precision {
                Precision::Bf16 => 2,
                Precision::Fp8 => 1,
            },
            gradient_width: u64::from(self.gradient_bytes()),
            fused_accumulation: self.fused_accumulation(),
            fused_loss: self.spec.fused_loss,
            // PyTorch and Hugging Face's models have the vocabulary as it is.
            padded_rows: self.spec.kernel_source() == KernelSource::Fused,
        }
    }

    /// Whether products add weights' gradients to the sum over micro-batches themselves. Where each
    /// micro-batch's gradients are divided there is no sum of whole ones.
    #[must_use]
    pub fn fused_accumulation(&self) -> bool {
        let usual = !matches!(
            self.spec.data_parallel,
            DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess
        );
        self.spec.fused_accumulation.unwrap_or(usual)
            && !self.divides_each_micro_batch()
            && !self.gradients_leave()
    }

    /// Whether gradients are divided: ZeRO's stage 2.
    ///
    /// DeepSpeed's `stage_1_and_2.py` sends those of every micro-batch with `partition_gradients`, and adds
    /// up the parts; with stage 1, as Megatron's distributed optimizer, gradients go out after the last
    /// micro-batch (`engine.py`, `is_gradient_accumulation_boundary`). DeepSpeed has no stage 2 with a
    /// pipeline (`pipe/engine.py` refuses it). Llama 3 has: it adds up whole gradients over micro-batches
    /// (arXiv 2407.21783, section 3.3.2) as long as those of one virtual stage follow each other (from
    /// memory: Scaling Llama 3 Training with Efficient Parallelism Strategies, ISCA 2025).
    #[must_use]
    pub fn divides_gradients(&self) -> bool {
        matches!(&self.spec.data_parallel, DataParallelSpec::Zero(zero) if zero.stage == 2)
    }

    /// Whether the gradients of every micro-batch go out, and divided ones are added up.
    #[must_use]
    pub fn divides_each_micro_batch(&self) -> bool {
        self.divides_gradients() && self.dims.pp == 1 && self.micro_batches > 1
    }

    /// Whether a GPU keeps the sum of gradients only of what it updates. A stage that is whole has all of
    /// its micro-batches one after the other, and so the sum of whole gradients.
    #[must_use]
    pub fn keeps_divided_gradients(&self) -> bool {
        let Layout {
            pp, virtual_stages, ..
        } = self.dims;
        self.divides_gradients() && (pp == 1 || virtual_stages > 1 || self.micro_batches == 1)
    }

    /// Bytes that the loss has in memory at once of a logit. One kernel has logits and their
    /// gradients. Megatron-LM's `vocab_parallel_cross_entropy` has beside the logits a copy of them in
    /// FP32, and that less its maximum; PyTorch's `cross_entropy` backward three FP32 tensors: the
    /// logarithms, the gradients of those that are picked, and of the logits.
    #[must_use]
    pub fn logit_bytes(&self) -> u64 {
        let width = self.style().width;
        let usual = match self.spec.data_parallel {
            _ if self.spec.fused_loss => 2 * width,
            DataParallelSpec::Fsdp(_) => 12,
            _ => width + 8,
        };
        self.spec.logit_bytes.map_or(usual, u64::from)
    }

    /// Bytes of a gradient that replicas exchange. DeepSpeed's that go to the host are as they were made.
    #[must_use]
    pub fn gradient_bytes(&self) -> u32 {
        let usual = match self.spec.data_parallel {
            _ if self.offload().is_some() => 2,
            DataParallelSpec::Zero(_) | DataParallelSpec::Ddp(_) => 4,
            DataParallelSpec::Fsdp(_) | DataParallelSpec::SingleProcess => 2,
        };
        self.spec.gradient_bytes.unwrap_or(usual)
    }
}

/// The fields of a layout, as the job has them.
fn layout_path(field: &str) -> String {
    match field.strip_prefix("batch.") {
        Some("global") => "global_batch".into(),
        Some("micro") => "micro_batch".into(),
        Some(other) => other.into(),
        None => format!("parallel.{field}"),
    }
}

/// Faults of a model or a layout, at their places in the job.
fn placed(error: ModelError, path: impl Fn(&str) -> String) -> TrainingError {
    match error {
        ModelError::Faults { faults } => {
            let faults = faults.into_iter().map(|fault| TrainingFault {
                path: path(&fault.field),
                found: fault.found,
                expected: fault.expected,
            });
            TrainingError::Faults(faults.collect())
        }
        other => TrainingError::Model(other),
    }
}

/// A model that nobody knows, at its place in the job.
fn unknown_model(error: ModelError) -> TrainingError {
    match error {
        ModelError::UnknownName {
            name,
            candidates,
            known,
        } => {
            let near = did_you_mean_one_of(&candidates);
            TrainingError::Faults(vec![TrainingFault {
                path: "model.preset".into(),
                found: format!("`{name}`"),
                expected: format!("one of the models: {}{near}", known.join(", ")),
            }])
        }
        other => TrainingError::Model(other),
    }
}

#[derive(Default)]
struct Faults(Vec<TrainingFault>);

impl Faults {
    fn unless(
        &mut self,
        fits: bool,
        path: &str,
        found: impl fmt::Display,
        expected: impl FnOnce() -> String,
    ) {
        if !fits {
            self.0.push(TrainingFault {
                path: path.to_owned(),
                found: found.to_string(),
                expected: expected(),
            });
        }
    }

    fn end(&mut self) -> Result<(), TrainingError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(TrainingError::Faults(std::mem::take(&mut self.0)))
        }
    }
}
