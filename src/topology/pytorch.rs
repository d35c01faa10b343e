//! Figures of PyTorch on the host: how it starts kernels, and how many.

use super::hardware::Sourced;
use fabricsim_units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// How PyTorch starts kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PytorchModel {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Operation by operation.
    pub eager: FrameworkModel,
    /// As `torch.compile` has it.
    pub compiled: FrameworkModel,
    /// What reading a value from the GPU takes, once it is there.
    pub read: Sourced<Time>,
    /// CUDA graphs.
    pub graph: GraphModel,
}

/// How operations become kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameworkModel {
    /// What a kernel takes the process beside its launch.
    pub dispatch: Sourced<Time>,
    /// By operation: `rms_norm`, `rotary` …
    pub operations: BTreeMap<String, OperationModel>,
    /// Elements that one kernel of the optimizer works on at most.
    pub elements_per_launch: Sourced<u64>,
}

/// What becomes of an operation that could be one pass over memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationModel {
    /// Kernels, forward and backward.
    pub kernels: [u16; 2],
    /// Their memory traffic, as a multiple of that one pass.
    pub traffic: [f64; 2],
    /// Where this is from.
    pub source: String,
}

/// What starting a CUDA graph takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphModel {
    /// Whatever it has.
    pub launch: Sourced<Time>,
    /// For each of its kernels.
    pub node: Sourced<Time>,
}

/// The shipped figures.
///
/// # Panics
/// If the file that the program carries with it is none; a test reads it.
#[must_use]
pub fn pytorch() -> &'static PytorchModel {
    static MODEL: OnceLock<PytorchModel> = OnceLock::new();
    MODEL.get_or_init(|| {
        let text = include_str!("../../topologies/software/pytorch.json");
        serde_json::from_str(text).expect("the shipped file is valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_source_and_compiling_saves_kernels_and_traffic() {
        let model = pytorch();
        assert!(model.read.source.len() > 10);
        assert!(model.graph.launch.source.len() > 10 && model.graph.node.source.len() > 3);
        let (eager, compiled) = (&model.eager, &model.compiled);
        assert!(compiled.dispatch.value < eager.dispatch.value);
        assert!(eager.operations.keys().eq(compiled.operations.keys()));
        let sum = |of: &FrameworkModel, what: fn(&OperationModel) -> f64| -> f64 {
            of.operations.values().map(what).sum()
        };
        for what in [
            (|o| f64::from(o.kernels[0] + o.kernels[1])) as fn(&OperationModel) -> f64,
            |o| o.traffic[0] + o.traffic[1],
        ] {
            assert!(sum(compiled, what) < sum(eager, what));
        }
        for of in [eager, compiled] {
            assert!(of.dispatch.source.len() > 10 && of.elements_per_launch.value > 0);
            assert!(of.operations.values().all(|o| o.source.len() > 10));
        }
    }
}
