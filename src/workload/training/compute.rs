//! What kernels take on a GPU.
//!
//! One model for all: a matrix product goes at a share of the tensor cores' peak that belongs to
//! the generation of the GPU and the precision, times how well its tiles fill the SMs; or as
//! fast as memory feeds it, if that is slower. Everything else goes at a share of the memory's
//! bandwidth.

use super::spec::Precision;
use crate::model::kernel::{GemmShape, Kernel, KernelKind, Part};
use fabricsim_plan::job::Kernels;
use fabricsim_topology::hardware::GpuModel;
use fabricsim_topology::{Architecture, KernelModel};
use fabricsim_units::Time;

/// A GPU, as kernels see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// Its SMs.
    pub sms: u32,
    /// Operations per second of matrix products in the precision of the job.
    pub gemm: f64,
    /// The same in 16 bits, which attention and the output projection keep.
    pub half: f64,
    /// Peak operations per second in 16 bits, which MFU refers to.
    pub peak: f64,
    /// … in the precision of the job.
    pub peak_of_precision: f64,
    /// Operations per second of attention.
    pub attention: f64,
    /// Bytes per second of memory.
    pub memory: f64,
    /// What each kernel costs beside.
    pub latency: f64,
    /// Rows and columns that one SM computes at once.
    pub tile: (u64, u64),
}

impl Gpu {
    /// The model of a GPU of this kind, with a version of FlashAttention; `None` if the hardware files do not say enough of it.
    #[must_use]
    pub fn new(
        model: &GpuModel,
        architecture: &Architecture,
        (precision, flash): (Precision, u8),
    ) -> Option<Gpu> {
        let kernels: &KernelModel = architecture.kernels.as_ref()?;
        let peak = model.bf16_tflops.value * 1e12;
        let sustained = model.sustained.as_ref().map_or(1.0, |s| s.value);
        let share = kernels.gemm_share.value * sustained;
        let (peak_of_precision, gemm) = match precision {
            Precision::Bf16 => (peak, peak * share),
            Precision::Fp8 => {
                let peak = model.fp8_tflops.as_ref()?.value * 1e12;
                (
                    peak,
                    peak * kernels.fp8_gemm_share.as_ref()?.value * sustained,
                )
            }
        };
        Some(Gpu {
            sms: model.sms.as_ref()?.value,
            gemm,
            half: peak * share,
            peak,
            peak_of_precision,
            attention: peak * kernels.attention_share(flash) * sustained,
            memory: model.memory_bandwidth.value.bytes_per_sec() as f64
                * kernels.memory_share.value,
            latency: kernels.latency.value.seconds(),
            tile: (kernels.tile.value.0, kernels.tile.value.1),
        })
    }

    /// How well the tiles of a matrix product fill the SMs: in the last wave some have none.
    #[must_use]
    pub fn filled(&self, shape: GemmShape) -> f64 {
        let product = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
        let (rows, columns) = self.tile;
        let tiles = product(
            shape.m.div_ceil(rows),
            shape.n.div_ceil(columns),
            shape.batch,
        );
        let waves = tiles.div_ceil(u128::from(self.sms));
        let room = waves as f64 * product(u64::from(self.sms), rows, columns) as f64;
        product(shape.m, shape.n, shape.batch) as f64 / room
    }

    /// What kernels take, one after the other.
    #[must_use]
    pub fn time<'k>(&self, kernels: impl IntoIterator<Item = &'k Kernel>) -> Kernels {
        let (mut compute, mut memory, mut launches) = (0.0, 0.0, 0u16);
        for kernel in kernels {
            let bytes = kernel.bytes / self.memory;
            let operations = match kernel.kind {
                KernelKind::Gemm(shape) => {
                    let rate = if in_half(kernel) {
                        self.half
                    } else {
                        self.gemm
                    };
                    kernel.flops / (rate * self.filled(shape).max(1e-3))
                }
                KernelKind::Attention => kernel.flops / self.attention,
                KernelKind::Memory => 0.0,
            };
            if operations > bytes {
                compute += operations;
            } else {
                memory += bytes;
            }
            memory += self.latency;
            launches = launches.saturating_add(1);
        }
        let time = |seconds: f64| Time::from_picos((seconds * 1e12).round() as u64);
        Kernels {
            compute: time(compute),
            memory: time(memory),
            launches,
        }
    }
}

/// Products that FP8 recipes leave in 16 bits: of scores, of the router, and of the output
/// projection.
fn in_half(kernel: &Kernel) -> bool {
    matches!(kernel.part, Part::Head | Part::Router | Part::AttentionCore)
}
