//! Kernels as a framework writes them: operations one by one, or fused by a compiler.
//!
//! `crate::model` has kernels fused by hand. PyTorch's eager operations are more kernels with more traffic,
//! `torch.compile`'s are fewer (`topologies/software/pytorch.json`). Matrix products and flash attention
//! stay what they are.

use super::host::KernelSource;
use super::resolve::Training;
use crate::model::kernel::{Kernel, KernelKind, LayerKernels, Pass};
use crate::model::spec::NormKind;
use fabricsim_topology::pytorch::{FrameworkModel, OperationModel, pytorch};

/// What a job's framework makes of operations; `None` if kernels are fused by hand.
pub(super) fn framework(training: &Training) -> Option<&'static FrameworkModel> {
    match training.spec.kernel_source() {
        KernelSource::Fused => None,
        KernelSource::Eager => Some(&pytorch().eager),
        KernelSource::Compiled => Some(&pytorch().compiled),
    }
}

/// A layer's kernels as the job's framework has them.
pub(super) fn layer(training: &Training, kernels: LayerKernels) -> LayerKernels {
    if framework(training).is_none() {
        return kernels;
    }
    LayerKernels {
        forward: written(training, &kernels.forward),
        recompute: written(training, &kernels.recompute),
        backward: written(training, &kernels.backward),
    }
}

/// Kernels as the job's framework has them.
pub(super) fn written(training: &Training, kernels: &[Kernel]) -> Vec<Kernel> {
    let Some(framework) = framework(training) else {
        return kernels.to_vec();
    };
    let mut written = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let backward = kernel.name.ends_with("_backward");
        let operation = operation(training, kernel).and_then(|name| framework.operations.get(name));
        match operation {
            None => written.push(*kernel),
            Some(operation) => written.extend(parts(kernel, operation, (usize::from(backward), 1))),
        }
    }
    written
}

/// The optimizer over so many parameters.
pub(super) fn optimiser(training: &Training, parameters: u64, kernels: &[Kernel]) -> Vec<Kernel> {
    let Some(framework) = framework(training) else {
        return kernels.to_vec();
    };
    let launches = parameters.div_ceil(framework.elements_per_launch.value.max(1));
    let launches = u16::try_from(launches.max(1)).unwrap_or(u16::MAX);
    let mut written = Vec::new();
    for kernel in kernels {
        match framework.operations.get("optimizer") {
            Some(operation) if kernel.name == "adam" => {
                written.extend(parts(kernel, operation, (0, launches)));
            }
            _ => written.push(*kernel),
        }
    }
    written
}

/// What a kernel becomes in a pass (0: forward), for each of `times` parts of its elements.
fn parts(
    kernel: &Kernel,
    operation: &OperationModel,
    (pass, times): (usize, u16),
) -> impl Iterator<Item = Kernel> {
    let count = usize::from(operation.kernels[pass]) * usize::from(times);
    let part = Kernel {
        kind: match kernel.kind {
            // Profiles are of fused passes; others go by the memory's rate.
            KernelKind::Memory(_) if operation.kernels[pass] > 1 => KernelKind::Memory(Pass::Other),
            kind => kind,
        },
        bytes: kernel.bytes * operation.traffic[pass] / count.max(1) as f64,
        ..*kernel
    };
    std::iter::repeat_n(part, count)
}

/// The operation that a kernel is, as the table has it; `None` of those that stay.
fn operation(training: &Training, kernel: &Kernel) -> Option<&'static str> {
    let KernelKind::Memory(pass) = kernel.kind else {
        return None;
    };
    match pass {
        // No sum of residuals is before these.
        Pass::Norm if kernel.name.starts_with("latent") || kernel.name.starts_with("embedding") => {
            None
        }
        Pass::Norm => Some(match training.model.norm {
            NormKind::RmsNorm => "rms_norm",
            NormKind::LayerNorm => "layer_norm",
        }),
        Pass::Rotary => Some("rotary"),
        Pass::Activation if training.model.gated => Some("gated_activation"),
        Pass::Activation => Some("activation"),
        Pass::Residual => Some("residual"),
        Pass::Lookup => None,
        Pass::Other if kernel.name.starts_with("mask_softmax") => Some("softmax"),
        Pass::Other if kernel.name.starts_with("cross_entropy") && training.spec.fused_loss => {
            Some("cross_entropy")
        }
        Pass::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layer::layer_kernels;
    use crate::training::spec::TrainingSpec;

    fn of(kernels: &str) -> (Vec<Kernel>, f64) {
        let text = format!(
            r#"{{"model": {{"preset": "llama3-8b"}}, "global_batch": 1, "host": {{"kernels": "{kernels}"}}}}"#
        );
        let spec: TrainingSpec = serde_json::from_str(&text).expect("a job");
        let training = Training::new(&spec, 1).expect("one that fits");
        let (sharding, style) = (training.dims.sharding(), training.style());
        let model = &training.model;
        let plain = layer_kernels(model, 0, training.batch, &sharding, &style).expect("a layer");
        let elements = (training.batch.tokens * model.hidden) as f64;
        (layer(&training, plain).forward, elements)
    }

    fn passes(kernels: &[Kernel], names: &[&str]) -> (usize, f64) {
        let of = kernels.iter().filter(|k| names.contains(&k.name));
        of.fold((0, 0.0), |(n, bytes), k| (n + 1, bytes + k.bytes))
    }

    #[test]
    fn norms_and_residuals_have_the_traffic_that_is_counted() {
        let names = [
            "attention_norm",
            "mlp_norm",
            "attention_residual",
            "mlp_residual",
        ];
        // Two norms and two sums of a layer, bytes an element: by hand 2 (4 + 6), eager 2 (36 + 6),
        // compiled 2 × 8, as a norm and the sum before it are one kernel.
        for (kernels, count, bytes) in [
            ("fused", 4, 20.0),
            ("eager", 16, 84.0),
            ("compiled", 2, 16.0),
        ] {
            let (written, elements) = of(kernels);
            let (found, traffic) = passes(&written, &names);
            assert_eq!(found, count, "{kernels}");
            assert!(
                (traffic / elements - bytes).abs() < 1e-9,
                "{kernels}: {traffic}"
            );
            // Products stay.
            let products = written
                .iter()
                .filter(|k| matches!(k.kind, KernelKind::Gemm(_)));
            assert_eq!(products.count(), 4, "{kernels}");
        }
    }
}
