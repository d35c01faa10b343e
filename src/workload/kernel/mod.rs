//! What kernels take on a GPU, by shape and data type: one law a family, for training and serving.
//!
//! A law is a mechanism – tiles over SMs, bytes over the memory's rate, pipelines that fill – with a
//! few parameters for each generation of GPUs and data type. They are in
//! `topologies/hardware/kernels.json`, fitted by `fabricsim fit --kernels` to published profiles of
//! kernels; none belongs to a size. A prediction is never below what the peaks allow.
//!
//! [`KernelLaw::time`] is the time in an engine's step, where a kernel reads from memory;
//! [`KernelLaw::profiled`] that of a profile which repeats a kernel on the same buffers.
//!
//! Times grow with every dimension, but for waves: a product with a few rows more may fill the SMs
//! better and take another tile, so that its time is the same or a little shorter.

pub mod attention;
pub mod custom_allreduce;
pub mod data_type;
pub mod device;
pub mod gemm;
pub mod leaf;
pub mod mla;
pub mod moe;
pub mod parameters;
pub mod routing;
pub mod small;
#[cfg(test)]
mod tests;

pub use attention::{AttentionDecode, AttentionPrefill};
pub use custom_allreduce::CustomAllReduce;
pub use data_type::{AttentionFormat, DataType, Format};
pub use device::{Device, Residency};
pub use gemm::{Gemm, Products};
pub use mla::{MlaDecode, MlaPrefill, MlaWidths};
pub use moe::Moe;
pub use parameters::KernelParameters;
pub use routing::{ExpertLoad, Routing, Skew};
pub use small::{Small, SmallKind};

use attention::Prompt;
use fabricsim_topology::hardware::GpuModel;
use fabricsim_units::Time;
use parameters::Generation;
use std::collections::BTreeMap;

/// A kernel, by its shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Kernel {
    /// A matrix product.
    Gemm(Gemm),
    /// Products of a training step.
    Products(Products),
    /// Attention over prompts.
    AttentionPrefill(AttentionPrefill),
    /// Attention of one new token a sequence.
    AttentionDecode(AttentionDecode),
    /// Latent attention over prompts.
    MlaPrefill(MlaPrefill),
    /// Latent attention of one new token a sequence.
    MlaDecode(MlaDecode),
    /// The experts of a layer.
    Moe(Moe),
    /// A kernel that reads and writes each value once.
    Small(Small),
    /// An all-reduce within a node that an engine writes itself.
    AllReduce(CustomAllReduce),
}

/// What a kernel cannot be faster than.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limits {
    /// Seconds of its operations at the peak.
    operations: f64,
    /// Bytes that it moves at least.
    bytes: f64,
}

/// What kernels take on one kind of GPU.
#[derive(Debug, Clone)]
pub struct KernelLaw<'p> {
    device: Device,
    parameters: &'p KernelParameters,
    /// Its generation and those that it takes laws from.
    line: Vec<(&'p str, &'p Generation)>,
}

/// An entry of a law, and where it is from.
struct Found<'p, F, T> {
    key: F,
    entry: &'p T,
    generation: &'p str,
}

/// An entry of the parameters' file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// Of matrix products.
    Gemm(Format),
    /// Of attention over prompts.
    Prefill(AttentionFormat),
    /// Of attention of one new token.
    Decode(AttentionFormat),
    /// Of latent attention over prompts.
    MlaPrefill(AttentionFormat),
    /// Of latent attention of one new token.
    MlaDecode(AttentionFormat),
    /// Of experts.
    Moe(Format),
    /// Of kernels that read and write each value once.
    Small,
    /// Of all-reduces.
    AllReduce,
}

impl Entry {
    /// Its place in a generation of the file, such as `gemm.bf16`.
    #[must_use]
    pub fn place(self) -> String {
        match self {
            Entry::Gemm(format) => leaf::place("gemm", &format),
            Entry::Prefill(format) => leaf::place("prefill", &format),
            Entry::Decode(format) => leaf::place("decode", &format),
            Entry::MlaPrefill(format) => leaf::place("mla_prefill", &format),
            Entry::MlaDecode(format) => leaf::place("mla_decode", &format),
            Entry::Moe(format) => leaf::place("moe", &format),
            Entry::Small => "small".to_owned(),
            Entry::AllReduce => "all_reduce".to_owned(),
        }
    }
}

impl KernelLaw<'static> {
    /// With the shipped parameters; `None` if the hardware files do not say how many SMs it has, or
    /// its generation is not among them.
    #[must_use]
    pub fn new(model: &GpuModel) -> Option<KernelLaw<'static>> {
        KernelLaw::with(model, KernelParameters::shipped())
    }
}

impl<'p> KernelLaw<'p> {
    /// As [`Self::new`], with these parameters; where they have nothing of a kernel, not even of a
    /// generation that this one is like, its time is what the peaks allow.
    #[must_use]
    pub fn with(model: &GpuModel, parameters: &'p KernelParameters) -> Option<KernelLaw<'p>> {
        let line = parameters.line(&model.architecture);
        let device = Device::new(model).filter(|_| !line.is_empty())?;
        Some(KernelLaw {
            device,
            parameters,
            line,
        })
    }

    /// With peaks so many times as high, for a card that may draw more power than others of its
    /// generation, in all types.
    #[must_use]
    pub const fn with_peaks_times(mut self, more: f64) -> Self {
        let device = &mut self.device;
        device.half *= more;
        device.fp8 *= more;
        device.fp4 *= more;
        device.sustained = 1.0;
        self
    }

    /// What a pass over memory takes to start, and for so many bytes read and written, of rows enough to
    /// keep all SMs at work; `None` if no generation it is like has such kernels.
    #[must_use]
    pub fn pass(&self, kind: SmallKind, bytes: f64) -> Option<(Time, Time)> {
        let (entry, _) = self.one(|g| g.small.as_ref())?;
        let seconds = bytes / (kind.share(entry) * self.device.memory);
        Some((entry.launch.value, time(seconds)))
    }

    /// The peaks.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Whether tensor cores multiply FP4.
    #[must_use]
    pub fn has_fp4(&self) -> bool {
        self.device.peak(Format::Nvfp4) > self.device.peak(Format::Fp8)
    }

    /// What a kernel takes in a step.
    #[must_use]
    pub fn time(&self, kernel: &Kernel) -> Time {
        time(self.seconds(kernel, Residency::Memory))
    }

    /// What a kernel takes in a profile, which repeats it on the same buffers: attention finds a small
    /// cache of keys and values in the second-level cache again. Where the host starts each kernel, that counts, too.
    #[must_use]
    pub fn profiled(&self, kernel: &Kernel) -> Time {
        time(self.seconds(kernel, Residency::Repeated))
    }

    /// What no kernel of this shape can go below: its operations at the peak, its bytes at the
    /// memory's rate.
    #[must_use]
    pub fn bound(&self, kernel: &Kernel) -> Time {
        time(self.least(kernel, Residency::Memory))
    }

    /// As [`Self::bound`] for [`Self::profiled`]: what the second-level cache holds is not read from
    /// memory.
    #[must_use]
    pub fn least_profiled(&self, kernel: &Kernel) -> Time {
        time(self.least(kernel, Residency::Repeated))
    }

    /// What of a kernel's time in a profile does not depend on its shape: starting it, and kernels beside it.
    #[must_use]
    pub fn launch(&self, kernel: &Kernel) -> Time {
        let format = |weights, activations| DataType::product(weights, activations);
        let found = match kernel {
            Kernel::Gemm(shape) => {
                let found = self.format(|g| &g.gemm, format(shape.weights, shape.activations));
                found.map(|found| found.entry.launch.value)
            }
            Kernel::Products(shape) => {
                let found = self.format(|g| &g.gemm, shape.format());
                found.map(|found| found.entry.launch.value)
            }
            Kernel::Moe(shape) => {
                let found = self.format(|g| &g.moe, format(shape.weights, shape.activations));
                found.map(|found| found.entry.launch.value)
            }
            Kernel::AttentionPrefill(shape) => {
                let found = self.attention(|g| &g.prefill, shape.format);
                found.map(|found| found.entry.launch.value)
            }
            Kernel::MlaPrefill(shape) => {
                let found = self.attention(|g| &g.mla_prefill, shape.format);
                found.map(|found| found.entry.launch.value)
            }
            Kernel::AttentionDecode(shape) => {
                let found = self.attention(|g| &g.decode, shape.format);
                found.map(|found| found.entry.launch.value)
            }
            Kernel::MlaDecode(shape) => {
                let found = self.attention(|g| &g.mla_decode, shape.format);
                found.map(|found| found.entry.launch.value)
            }
            Kernel::Small(_) => self
                .one(|g| g.small.as_ref())
                .map(|(entry, _)| entry.launch.value),
            Kernel::AllReduce(_) => self
                .one(|g| g.all_reduce.as_ref())
                .map(|(entry, _)| entry.launch.value),
        };
        found.unwrap_or(Time::ZERO)
    }

    /// Where a kernel's time is from: the generation, and its entry in the parameters' file.
    #[must_use]
    pub fn entry(&self, kernel: &Kernel) -> Option<(&'p str, Entry)> {
        let (_, generation, entry) = self.law(kernel, Residency::Memory)?;
        Some((generation, entry))
    }

    /// The generation whose profiles a kernel's time is from, if that is not the GPU's own.
    #[must_use]
    pub fn borrowed(&self, kernel: &Kernel) -> Option<&'p str> {
        let own = self.line.first().map(|(name, _)| *name);
        let (generation, _) = self.entry(kernel)?;
        (Some(generation) != own).then_some(generation)
    }

    fn seconds(&self, kernel: &Kernel, residency: Residency) -> f64 {
        let least = self.least(kernel, residency);
        let law = self.law(kernel, residency);
        law.map_or(least, |(seconds, ..)| seconds.max(least))
    }

    /// Seconds as the law has them, and the generation and entry that they are from.
    fn law(&self, kernel: &Kernel, residency: Residency) -> Option<(f64, &'p str, Entry)> {
        let (device, common) = (&self.device, &self.parameters.common);
        let at = (device, residency);
        Some(match kernel {
            Kernel::Gemm(shape) => {
                let format = DataType::product(shape.weights, shape.activations);
                let found = self.format(|g| &g.gemm, format)?;
                let peak = device.peak(found.key);
                let seconds = gemm::time(shape, found.entry, common, (device, peak));
                (seconds, found.generation, Entry::Gemm(found.key))
            }
            Kernel::Products(shape) => {
                let found = self.format(|g| &g.gemm, shape.format())?;
                let peak = device.peak(found.key);
                let seconds = gemm::products_time(shape, found.entry, common, (device, peak));
                (seconds, found.generation, Entry::Gemm(found.key))
            }
            Kernel::Moe(shape) => {
                let format = DataType::product(shape.weights, shape.activations);
                let found = self.format(|g| &g.moe, format)?;
                let peak = device.peak(found.key);
                let starts = found.entry.starts.as_ref();
                let starts = starts.filter(|_| residency == Residency::Repeated);
                let seconds = shape.time(found.entry, common, (device, peak));
                let seconds = seconds + starts.map_or(0.0, |starts| starts.value.seconds());
                (seconds, found.generation, Entry::Moe(found.key))
            }
            Kernel::AttentionPrefill(shape) => {
                let found = self.attention(|g| &g.prefill, shape.format)?;
                let seconds = Prompt::from(shape).time(found.entry, common, device);
                (seconds, found.generation, Entry::Prefill(found.key))
            }
            Kernel::MlaPrefill(shape) => {
                let found = self.attention(|g| &g.mla_prefill, shape.format)?;
                let seconds = Prompt::from(shape).time(found.entry, common, device);
                (seconds, found.generation, Entry::MlaPrefill(found.key))
            }
            Kernel::AttentionDecode(shape) => {
                let found = self.attention(|g| &g.decode, shape.format)?;
                let token = shape.token(common, device);
                let seconds = token.time(found.entry, common, at);
                (seconds, found.generation, Entry::Decode(found.key))
            }
            Kernel::MlaDecode(shape) => {
                let found = self.attention(|g| &g.mla_decode, shape.format)?;
                let token = shape.token(common, device);
                let seconds = token.time(found.entry, common, at);
                (seconds, found.generation, Entry::MlaDecode(found.key))
            }
            Kernel::Small(shape) => {
                let (entry, generation) = self.one(|g| g.small.as_ref())?;
                (shape.time(entry, device), generation, Entry::Small)
            }
            Kernel::AllReduce(shape) => {
                let (entry, generation) = self.one(|g| g.all_reduce.as_ref())?;
                (shape.time(entry), generation, Entry::AllReduce)
            }
        })
    }

    /// Seconds that the peaks allow.
    fn least(&self, kernel: &Kernel, residency: Residency) -> f64 {
        let (device, common) = (&self.device, &self.parameters.common);
        let token = |token: attention::Token| {
            let cached = residency == Residency::Repeated && token.fits(common, device);
            let bytes = if cached { 0.0 } else { token.limits().bytes };
            Limits {
                bytes,
                ..token.limits()
            }
        };
        let limits = match kernel {
            Kernel::Gemm(shape) => shape.limits(device),
            Kernel::Products(shape) => shape.limits(device),
            Kernel::AttentionPrefill(shape) => Prompt::from(shape).limits(device),
            Kernel::MlaPrefill(shape) => Prompt::from(shape).limits(device),
            Kernel::AttentionDecode(shape) => token(shape.token(common, device)),
            Kernel::MlaDecode(shape) => token(shape.token(common, device)),
            Kernel::Moe(shape) => shape.limits(device),
            Kernel::Small(shape) => shape.limits(),
            Kernel::AllReduce(shape) => shape.limits(),
        };
        limits.operations.max(limits.bytes / device.memory)
    }

    /// The entry of a format, or of the one most like it, in the nearest generation.
    fn format<T: 'p>(
        &self,
        family: impl Fn(&'p Generation) -> &'p BTreeMap<Format, T>,
        format: Format,
    ) -> Option<Found<'p, Format, T>> {
        // A chip without FP8 or FP4 has it widened on the way.
        let (half, device) = ([Format::Bf16, Format::Mxfp4Bf16], &self.device);
        let able = |f: &Format| half.contains(f) || device.peak(*f) > device.half;
        let choices = std::iter::once(format).chain(format.like().iter().copied());
        let choices: Vec<Format> = choices.filter(able).collect();
        self.find(family, &choices)
    }

    fn attention<T: 'p>(
        &self,
        family: impl Fn(&'p Generation) -> &'p BTreeMap<AttentionFormat, T>,
        format: AttentionFormat,
    ) -> Option<Found<'p, AttentionFormat, T>> {
        let choices = std::iter::once(format).chain(format.like().iter().copied());
        let choices: Vec<AttentionFormat> = choices.collect();
        self.find(family, &choices)
    }

    /// The first of these that the nearest generation with such a family has.
    fn find<F: Ord + Copy + 'p, T: 'p>(
        &self,
        family: impl Fn(&'p Generation) -> &'p BTreeMap<F, T>,
        choices: &[F],
    ) -> Option<Found<'p, F, T>> {
        let &(generation, entries) = self.line.iter().find(|(_, g)| !family(g).is_empty())?;
        let entries = family(entries);
        choices.iter().find_map(|&key| {
            let entry = entries.get(&key)?;
            Some(Found {
                key,
                entry,
                generation,
            })
        })
    }

    fn one<T>(&self, family: impl Fn(&'p Generation) -> Option<&'p T>) -> Option<(&'p T, &'p str)> {
        let mut line = self.line.iter();
        line.find_map(|&(generation, g)| Some((family(g)?, generation)))
    }
}

/// The time of two things that hide each other: the longer of both if `exponent` has no end.
fn overlap(one: f64, other: f64, exponent: f64) -> f64 {
    let longer = one.max(other);
    if longer <= 0.0 {
        return 0.0;
    }
    let shorter = one.min(other) / longer;
    longer * (1.0 + shorter.powf(exponent)).powf(1.0 / exponent)
}

fn time(seconds: f64) -> Time {
    Time::from_picos((seconds * 1e12).round() as u64)
}
