//! Replicas that are not equal after every step: local SGD, and gradients that are a step old.
//!
//! Both change what is computed; how well it converges is not simulated.
//!
//! Local SGD (Stich, arXiv 1805.09767; PyTorch's `PeriodicModelAverager`; DiLoCo, arXiv 2311.08105, with an
//! outer optimizer) exchanges nothing in a step, and every so many of them the mean of all weights after
//! the optimizer. Two steps are simulated, one of each kind: [`Training::mean_step`] has a step's time.
//!
//! With gradients that are a step old the optimizer waits for the exchange of the step before, and the
//! present one goes on beside the next step.

use super::layers::Deps;
use super::owned::stage_weights;
use super::resolve::Training;
use super::script::{COMPUTE, DATA, Slot, collective};
use super::spec::{Compression, DataParallelSpec, DdpSpec, TrainingSpec};
use super::step::StepWriter;
use fabricsim_collective::Collective;
use fabricsim_plan::job::{StreamId, TaskKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replicas that go their own way for some steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalSgdSpec {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The mean of all weights is taken every so many steps.
    pub every: u32,
}

/// What does not fit of it: the field from the job on, what was found, and what belongs there.
pub(super) fn faults(spec: &TrainingSpec) -> Vec<(&'static str, String, String)> {
    let DataParallelSpec::Ddp(ddp) = &spec.data_parallel else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let mut fault = |path, found: String, expected: &str| {
        faults.push((path, found, expected.to_owned()));
    };
    if let Some(local) = &ddp.local_sgd {
        if local.every == 0 {
            let path = "data_parallel.ddp.local_sgd.every";
            fault(path, "0".into(), "at least 1");
        }
        if spec.steps != 2 {
            let expected = "2 with `local_sgd`: one that exchanges nothing, and one that does";
            fault("steps", spec.steps.to_string(), expected);
        }
        if ddp.compression != Compression::None {
            let path = "data_parallel.ddp.compression";
            let expected = "`none` with `local_sgd`, which exchanges weights";
            fault(path, "a hook".into(), expected);
        }
        if ddp.staleness > 0 {
            let path = "data_parallel.ddp.staleness";
            let expected = "0 with `local_sgd`, which exchanges no gradients";
            fault(path, ddp.staleness.to_string(), expected);
        }
    }
    if ddp.staleness > 1 {
        let path = "data_parallel.ddp.staleness";
        fault(path, ddp.staleness.to_string(), "0 or 1");
    }
    if ddp.staleness == 1 && spec.steps < 3 {
        let expected =
            "at least 3 with `staleness`: a step shows its time when two others are around it";
        fault("steps", spec.steps.to_string(), expected);
    }
    if let Compression::TopK(share) = ddp.compression
        && !(share > 0.0 && share <= 1.0)
    {
        let path = "data_parallel.ddp.compression.top_k";
        fault(
            path,
            share.to_string(),
            "a share above 0 and up to 1, such as 0.01",
        );
    }
    faults
}

impl DdpSpec {
    /// Whether replicas are equal after every step.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.local_sgd.is_none() && self.staleness == 0
    }
}

impl Training {
    /// Every how many steps replicas take the mean of their weights; `None` if they exchange gradients.
    #[must_use]
    pub fn local_steps(&self) -> Option<u32> {
        match &self.spec.data_parallel {
            DataParallelSpec::Ddp(ddp) => ddp.local_sgd.as_ref().map(|local| local.every),
            _ => None,
        }
    }

    /// Whether the optimizer takes the gradients of the step before.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(&self.spec.data_parallel, DataParallelSpec::Ddp(ddp) if ddp.staleness > 0)
    }

    /// Bytes of a parameter that a GPU keeps from one step for the next, for all of its own parameters.
    ///
    /// - Error feedback: what was left out, in the gradient's own type, which is the type of what it is the
    ///   difference of (PyTorch's `powerSGD_hook.py` makes `error_dict` with `dtype=input_tensor.dtype`, on by
    ///   default; GRACE's `memory/residual.py` keeps `tensor - decompressed`; both from memory). `PowerSGD`'s thin
    ///   matrices of the step before, 2 r / hidden of that, are not counted.
    /// - Staleness: the gradients of each step on their way, as they are exchanged, beside those that are made.
    #[must_use]
    pub fn carried_bytes(&self) -> u64 {
        let DataParallelSpec::Ddp(ddp) = &self.spec.data_parallel else {
            return 0;
        };
        let sets = match ddp.compression {
            Compression::None | Compression::HalfPrecision => 0,
            Compression::PowerSgd(_) | Compression::TopK(_) => 1,
        };
        (sets + u64::from(ddp.staleness)) * u64::from(self.gradient_bytes())
    }

    /// Bytes of a parameter in the one tensor of all of them of which local SGD takes the mean.
    #[must_use]
    pub fn averaged_bytes(&self) -> u64 {
        self.local_steps()
            .map_or(0, |_| u64::from(self.gradient_bytes()))
    }

    /// Seconds of a step, of those that were simulated: the last one's, or with local SGD the mean of the
    /// steps between two means of weights.
    #[must_use]
    pub fn mean_step(&self, steps: &[f64]) -> f64 {
        match (self.local_steps(), steps) {
            (Some(every), [.., own, mean]) => {
                let every = f64::from(every.max(1));
                ((every - 1.0) * own + mean) / every
            }
            (_, steps) => steps.last().copied().unwrap_or(0.0),
        }
    }

    /// What the process waits for at the end of a step, if not for all.
    pub(super) fn end_stream(&self) -> Option<StreamId> {
        self.is_stale().then_some(COMPUTE)
    }
}

impl StepWriter<'_, '_, '_> {
    /// What the optimizer waits for.
    pub(super) fn exchanged(&mut self) -> Deps {
        let sent = self.gradients.sent.clone();
        if self.training.is_stale() {
            return std::mem::replace(&mut self.gradients.stale, sent);
        }
        sent
    }

    /// After the optimizer: with local SGD the mean of all weights, in the last step.
    pub(super) fn mean_of_weights(&mut self) {
        let t = self.training;
        if t.local_steps().is_none() || self.writer.tag.step + 1 < t.spec.steps {
            return;
        }
        let (dense, experts) = stage_weights(t, self.at.pp);
        let width = u64::from(t.gradient_bytes());
        let mut came = Deps::default();
        let after = Deps::from_task(self.last);
        for (slot, weights) in [(Slot::Data, dense), (Slot::ExpertData, experts)] {
            let mean = collective(
                "all-reduce of weights",
                Collective::AllReduce,
                weights * width,
            );
            came.add(self.writer.call(DATA, slot, mean, after.as_slice()));
        }
        if came.as_slice().is_empty() {
            return;
        }
        // The mean is read, and weights are written in both widths.
        let bytes = (dense + experts) * (2 * width + 2);
        let kernels = self.costs.gpu.passes(bytes as f64, 1);
        self.of_kind(TaskKind::Optimiser, |me| {
            me.run("mean of weights", kernels, &came)
        });
    }
}
