//! A GPU, as kernels see it: what no kernel can exceed.

use super::data_type::{AttentionFormat, Format};
use fabricsim_topology::hardware::GpuModel;

/// The peaks of a kind of GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Streaming multiprocessors.
    pub sms: f64,
    /// Bytes per second of its memory.
    pub memory: f64,
    /// Bytes that its second-level cache holds; 0 if that is not known.
    pub cache: f64,
    /// Operations per second in 16 bits, dense.
    pub half: f64,
    /// … in FP8; as in 16 bits where the chip has no FP8.
    pub fp8: f64,
    /// … in FP4; as in FP8 where the chip has no FP4.
    pub fp4: f64,
    /// By how much faster products in 16 bits go than on a card of the same peak that may draw less
    /// power; 1 where there is none.
    pub sustained: f64,
}

impl Device {
    /// The peaks of this kind; `None` if its SMs are not known.
    #[must_use]
    pub fn new(model: &GpuModel) -> Option<Device> {
        let peak = |tera: f64| tera * 1e12;
        let half = peak(model.bf16_tflops.value);
        let fp8 = model.fp8_tflops.as_ref().map_or(half, |f| peak(f.value));
        Some(Device {
            sms: f64::from(model.sms.as_ref()?.value),
            memory: model.memory_bandwidth.value.bytes_per_sec() as f64,
            cache: model
                .l2_cache
                .as_ref()
                .map_or(0.0, |c| c.value.get() as f64),
            half,
            fp8,
            sustained: model.sustained.as_ref().map_or(1.0, |s| s.value),
            fp4: model.fp4_tflops.as_ref().map_or(fp8, |f| peak(f.value)),
        })
    }

    /// Operations per second of a product.
    #[must_use]
    pub const fn peak(&self, format: Format) -> f64 {
        match format {
            Format::Bf16 | Format::Mxfp4Bf16 => self.half,
            Format::Fp8 | Format::Fp8Block | Format::Mxfp4Fp8 => self.fp8,
            Format::Nvfp4 => self.fp4,
        }
    }

    /// Operations per second that attention can reach at most: with keys and values in FP8, kernels
    /// multiply in FP8 where they can, whatever the queries come in.
    #[must_use]
    pub const fn attention_peak(&self, format: AttentionFormat) -> f64 {
        match format {
            AttentionFormat::Bf16 => self.half,
            AttentionFormat::Bf16Fp8Cache | AttentionFormat::Fp8 => self.fp8,
        }
    }
}

/// Where a kernel finds what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Residency {
    /// In memory, as in a step of an engine: between two calls of a layer's kernel, all other layers'
    /// weights have passed through the cache.
    #[default]
    Memory,
    /// In the cache, if it fits: a profile calls a kernel again and again on the same buffers.
    Repeated,
}
