//! What is in the host's memory or on drives: optimizer, gradients, parameters (ZeRO-Offload, arXiv 2101.06840;
//! ZeRO-Infinity, arXiv 2104.07857; PyTorch FSDP's CPUOffload). What may be where, and what that takes of which
//! memory.

use super::owned::{updated, whole_layer};
use super::resolve::{Training, TrainingFault};
use super::spec::{DataParallelSpec, TrainingSpec};
use crate::model::memory::Offloaded;
use fabricsim_topology::offload::state_offload;
use fabricsim_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which states are not in the GPU's memory, in DeepSpeed's words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OffloadSpec {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Optimizer states (DeepSpeed's `offload_optimizer`). The CPU updates them.
    pub optimizer: OffloadDevice,
    /// Gradients; where the optimizer is, if absent. With `none` and an optimizer elsewhere they stay on the
    /// GPU until the last backward pass is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradients: Option<OffloadDevice>,
    /// Parameters (DeepSpeed's `offload_param`; with `fsdp` alone, which is ZeRO-3). They come back for each
    /// pass through their layer.
    pub parameters: OffloadDevice,
    /// Activations: what layers keep for their backward pass goes to the host's memory and comes back (`none` or
    /// `cpu`; PyTorch's `save_on_cpu`, Megatron-LM's and NeMo's `cpu_offloading_num_layers`). The last layer of a stage
    /// keeps its own. `none` if absent.
    #[serde(skip_serializing_if = "OffloadDevice::is_none")]
    pub activations: OffloadDevice,
    /// Of so many layers of each virtual stage, from its first on; of all but its last if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation_layers: Option<u32>,
    /// Gradients leave beside the backward pass, and new parameters come beside the update of the next ones.
    pub overlap: bool,
    /// Copies are from and to memory that is pinned. Others are slower, and overlap with nothing.
    pub pin_memory: bool,
    /// The next step goes on with the parameters of the step before while the CPU updates (ZeRO-Offload's
    /// one-step delayed parameter update). It changes what is computed.
    pub delayed_update: bool,
    /// The CPU updates the parameters of each bucket as soon as its gradients are there, beside the backward pass, in
    /// place of waiting for the norm of all gradients (SuperOffload's speculation and validation, arXiv 2509.21271).
    /// What it takes to undo an update, where gradients turn out to be clipped or not finite, is not simulated.
    /// False if absent.
    #[serde(skip_serializing_if = "is_false")]
    pub speculative_update: bool,
    /// Whose Adam runs on the CPU; `deepspeed` if absent.
    #[serde(skip_serializing_if = "CpuAdam::is_default")]
    pub cpu_adam: CpuAdam,
    /// Drives are read and written beside the update (DeepSpeed's `pipeline_read` and `pipeline_write`).
    pub pipeline: bool,
    /// Bytes of a parameter on its way: 2, or 4 where the host keeps FP32 alone, as PyTorch's CPUOffload does.
    pub parameter_bytes: u32,
    /// Storage devices, by their names; those of each GPU's node if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,
    /// Memory of a host; that of its processors if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_memory: Option<Bytes>,
}

impl Default for OffloadSpec {
    fn default() -> Self {
        OffloadSpec {
            comment: None,
            optimizer: OffloadDevice::None,
            gradients: None,
            parameters: OffloadDevice::None,
            activations: OffloadDevice::None,
            activation_layers: None,
            overlap: true,
            pin_memory: true,
            delayed_update: false,
            speculative_update: false,
            cpu_adam: CpuAdam::default(),
            pipeline: false,
            parameter_bytes: 2,
            devices: None,
            host_memory: None,
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Whose Adam runs on the CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CpuAdam {
    /// DeepSpeed's CPU-Adam.
    #[default]
    Deepspeed,
    /// PyTorch's own.
    Pytorch,
    /// SuperOffload's `GraceAdam`, for Arm's processors.
    Grace,
}

impl CpuAdam {
    fn is_default(&self) -> bool {
        *self == CpuAdam::default()
    }

    /// The part of the memory's bandwidth that it reaches.
    #[must_use]
    pub fn share(self) -> f64 {
        let figures = state_offload();
        let of_deepspeed = match self {
            CpuAdam::Deepspeed => 1.0,
            CpuAdam::Pytorch => figures.pytorch_adam.value,
            CpuAdam::Grace => figures.grace_adam.value,
        };
        figures.adam_share.value * of_deepspeed
    }
}

/// Where a state is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffloadDevice {
    /// In the GPU's memory.
    #[default]
    None,
    /// In the host's memory.
    Cpu,
    /// On drives.
    Nvme,
}

impl OffloadDevice {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OffloadDevice::None => "none",
            OffloadDevice::Cpu => "cpu",
            OffloadDevice::Nvme => "nvme",
        }
    }

    fn is_none(&self) -> bool {
        !self.is_away()
    }

    /// Whether it is not the GPU.
    #[must_use]
    pub const fn is_away(self) -> bool {
        !matches!(self, OffloadDevice::None)
    }
}

impl OffloadSpec {
    /// Where gradients are.
    #[must_use]
    pub fn gradients(&self) -> OffloadDevice {
        self.gradients.unwrap_or(self.optimizer)
    }

    /// Whether anything is on drives.
    #[must_use]
    pub fn uses_drives(&self) -> bool {
        let all = [self.optimizer, self.gradients(), self.parameters];
        all.contains(&OffloadDevice::Nvme)
    }

    /// Whether copies go on beside kernels.
    #[must_use]
    pub const fn overlaps(&self) -> bool {
        self.overlap && self.pin_memory
    }
}

/// Bytes that a rank has outside of its GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Away {
    /// Optimizer states in the host's memory.
    pub optimizer: u64,
    /// Gradients there.
    pub gradients: u64,
    /// Parameters there.
    pub parameters: u64,
    /// Activations there, when most micro-batches are in flight.
    pub activations: u64,
    /// What buffers take beside.
    pub buffers: u64,
    /// All that is on drives.
    pub drives: u64,
}

impl Away {
    /// All that is in the host's memory.
    #[must_use]
    pub const fn host(&self) -> u64 {
        self.optimizer + self.gradients + self.parameters + self.activations + self.buffers
    }

    /// With another rank's.
    pub(super) fn add(&mut self, other: &Away) {
        self.optimizer += other.optimizer;
        self.gradients += other.gradients;
        self.parameters += other.parameters;
        self.activations += other.activations;
        self.buffers += other.buffers;
        self.drives += other.drives;
    }
}

/// FP32 value and two moments of a parameter.
pub(super) const STATES: u64 = 12;
/// A sum of gradients on the CPU is FP32.
const SUM: u64 = 4;

impl Training {
    /// Which states are offloaded, if any are.
    #[must_use]
    pub fn offload(&self) -> Option<&OffloadSpec> {
        let spec = self.spec.offload.as_ref()?;
        spec.optimizer.is_away().then_some(spec)
    }

    /// Whether gradients leave the GPU as soon as they are final for their micro-batch, so that it keeps none:
    /// where those of each micro-batch are divided over replicas, or there is one micro-batch.
    #[must_use]
    pub fn gradients_leave(&self) -> bool {
        let leave = self.offload().is_some_and(|o| o.gradients().is_away());
        let each = matches!(self.spec.data_parallel, DataParallelSpec::Fsdp(_))
            || self.divides_each_micro_batch();
        leave && (each || self.micro_batches == 1)
    }

    /// What is not in the GPU's memory.
    #[must_use]
    pub fn offloaded(&self) -> Offloaded {
        let activations = self.layers_away();
        let Some(spec) = self.offload() else {
            return Offloaded {
                activations,
                ..Offloaded::default()
            };
        };
        Offloaded {
            activations,
            optimizer: spec.optimizer.is_away(),
            gradients: self.gradients_leave(),
            parameters: spec.parameters.is_away(),
        }
    }

    /// Weights of a layer on one GPU before they are divided over replicas.
    #[must_use]
    pub fn layer_weights(&self, layer: u64) -> u64 {
        let (dense, experts) = whole_layer(self, layer);
        dense + experts
    }

    /// Parameters that a rank of a stage updates.
    #[must_use]
    pub fn updated(&self, stage: u32) -> Option<u64> {
        updated(self, stage, 0)
    }

    /// What a rank of a stage has outside of its GPU; over C2C nothing is staged in buffers.
    #[must_use]
    pub fn away(&self, stage: u32, staged: bool) -> Away {
        let mut away = Away {
            activations: self.activations_away(stage),
            ..Away::default()
        };
        let Some(spec) = self.offload() else {
            return away;
        };
        let figures = state_offload();
        let own = updated(self, stage, 0).unwrap_or(0);
        // What is brought from drives at once, and what is on its way beside it.
        let depth = if spec.pipeline { 2 } else { 1 };
        let group = own.min(figures.sub_group.value).saturating_mul(depth);
        let width = u64::from(self.gradient_bytes());
        match spec.optimizer {
            OffloadDevice::Nvme => {
                away.drives += own * STATES;
                away.buffers += group * STATES;
            }
            _ => away.optimizer = own * STATES,
        }
        match spec.gradients() {
            OffloadDevice::Nvme => {
                away.drives += own * width;
                away.buffers += group * width;
            }
            _ => away.gradients = own * SUM,
        }
        let kept = if spec.parameter_bytes < 4 {
            own * u64::from(spec.parameter_bytes)
        } else {
            // They are the optimizer's own.
            0
        };
        match spec.parameters {
            OffloadDevice::None => {}
            OffloadDevice::Cpu => away.parameters = kept,
            OffloadDevice::Nvme => away.drives += own * u64::from(spec.parameter_bytes),
        }
        let states = away.optimizer + away.gradients + away.parameters;
        if staged {
            away.buffers += (states as f64 * (figures.buffer_factor.value - 1.0)) as u64;
        }
        away
    }
}

/// What is wrong with it.
pub(super) fn check(spec: &TrainingSpec) -> Vec<TrainingFault> {
    let Some(offload) = &spec.offload else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let mut add = |field: &str, found: &str, expected: &str| {
        faults.push(TrainingFault {
            path: format!("offload.{field}"),
            found: found.to_owned(),
            expected: expected.to_owned(),
        });
    };
    let quoted = |device: OffloadDevice| format!("`{}`", device.name());
    let (optimizer, parameters) = (offload.optimizer, offload.parameters);
    if spec.data_parallel == DataParallelSpec::SingleProcess {
        let (field, device) = match optimizer.is_away() {
            true => ("optimizer", optimizer),
            false => ("activations", offload.activations),
        };
        add(
            field,
            &quoted(device),
            "`ddp`, `zero` or `fsdp` as `data_parallel`",
        );
    }
    if !optimizer.is_away() {
        for (field, device) in [
            ("gradients", offload.gradients()),
            ("parameters", parameters),
        ] {
            if device.is_away() {
                let expected = "`none`, or `\"optimizer\": \"cpu\"` or `\"nvme\"` beside it";
                add(field, &quoted(device), expected);
            }
        }
    }
    let sharded = matches!(spec.data_parallel, DataParallelSpec::Fsdp(_));
    if parameters.is_away() && !sharded {
        let expected = "`none`, or `\"data_parallel\": { \"fsdp\": {} }`, which is ZeRO-3";
        add("parameters", &quoted(parameters), expected);
    }
    if offload.delayed_update && parameters.is_away() {
        add(
            "delayed_update",
            "true, with parameters that are not on the GPU",
            "false, or `\"parameters\": \"none\"`",
        );
    }
    if offload.speculative_update {
        let only = |device| device == OffloadDevice::Cpu;
        let expected = "false, or `\"optimizer\": \"cpu\"` and gradients that go there";
        if !only(optimizer) || !only(offload.gradients()) {
            let found = format!(
                "true, with the optimizer on {} and gradients on {}",
                quoted(optimizer),
                quoted(offload.gradients())
            );
            add("speculative_update", &found, expected);
        }
        if offload.delayed_update {
            let found = "true, with `delayed_update`";
            add("speculative_update", found, "one of both");
        }
    }
    if offload.cpu_adam != CpuAdam::default() && !optimizer.is_away() {
        let expected = "`\"optimizer\": \"cpu\"` or `\"nvme\"` beside it";
        add("cpu_adam", "an optimizer on the GPU", expected);
    }
    if ![2, 4].contains(&offload.parameter_bytes) {
        add(
            "parameter_bytes",
            &offload.parameter_bytes.to_string(),
            "2 or 4",
        );
    }
    faults
}
