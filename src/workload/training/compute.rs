//! What kernels take on a GPU.
//!
//! Products, experts and the passes over memory that profiles tell apart take the laws of
//! [`crate::kernel`]. Those are of profiles of one kernel, at boost clock; in a long step products go
//! as fast as power lets them. Dynamic power grows with f·V², and voltage with the clock: with its cube.
//! A product that reaches the share u of the peak in a profile, of a generation whose power holds the
//! share p at boost clock, has the clock fall to (p / u)^⅓ of it, where u is more than p.
//!
//! A generation without such a p, as in a user's file, has products at a share of the tensor cores'
//! peak, times how well their tiles fill the SMs, or as fast as memory feeds them, if that is slower.
//! FlashAttention goes at a share of the peak by its version: profiles have no backward pass. All else
//! goes at a share of the memory's bandwidth.

use super::spec::Precision;
use crate::kernel::{DataType, KernelLaw, KernelParameters, Products, SmallKind};
use crate::model::kernel::{GemmShape, Kernel, KernelKind, Part, Pass};
use fabricsim_plan::job::{Kernels, PeakShare};
use fabricsim_topology::hardware::GpuModel;
use fabricsim_topology::{Architecture, KernelModel};
use fabricsim_units::Time;

/// A GPU, as kernels see it.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Its SMs.
    pub sms: u32,
    /// Peak operations per second in 16 bits, which MFU refers to.
    pub peak: f64,
    /// … in the precision of the job.
    pub peak_of_precision: f64,
    /// Bytes per second of memory, in passes that have no law.
    pub memory: f64,
    /// … at its peak.
    pub memory_peak: f64,
    precision: Precision,
    products: ProductRates,
    /// Operations per second of attention.
    attention: f64,
    /// Seconds that a kernel without a law costs beside.
    latency: f64,
}

/// How fast products are.
#[derive(Debug, Clone)]
enum ProductRates {
    /// By shape; passes over memory likewise.
    Law(Powered),
    /// At a share of the peak.
    Shares(Shares),
}

/// Products by their law, as far as power lets them.
#[derive(Debug, Clone)]
struct Powered {
    law: KernelLaw<'static>,
    /// The share of the peak that boost clock allows in a long step.
    power: f64,
    /// By how much more than its generation this card has of power.
    more: f64,
}

/// Products at a share of the peak.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// Operations per second in the precision of the job.
    gemm: f64,
    /// … in 16 bits, which attention and the output projection keep.
    half: f64,
    /// Rows and columns that one SM computes at once.
    tile: (u64, u64),
}

/// Seconds of a kernel.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// Limited by SMs.
    compute: f64,
    /// Limited by memory, or its start.
    memory: f64,
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
        let peak_of_precision = match precision {
            Precision::Bf16 => peak,
            Precision::Fp8 => model.fp8_tflops.as_ref()?.value * 1e12,
        };
        let sustained = model.sustained.as_ref().map_or(1.0, |s| s.value);
        let law = kernels.power.as_ref().and_then(|power| {
            Some(Powered {
                law: KernelLaw::new(model)?.with_peaks_times(sustained),
                power: power.value,
                more: sustained,
            })
        });
        let products = if let Some(law) = law {
            ProductRates::Law(law)
        } else {
            let half = peak * kernels.gemm_share.as_ref()?.value * sustained;
            let gemm = match precision {
                Precision::Bf16 => half,
                Precision::Fp8 => {
                    peak_of_precision * kernels.fp8_gemm_share.as_ref()?.value * sustained
                }
            };
            let tile = kernels.tile.as_ref()?.value;
            ProductRates::Shares(Shares { gemm, half, tile })
        };
        Some(Gpu {
            sms: model.sms.as_ref()?.value,
            peak,
            peak_of_precision,
            memory_peak: model.memory_bandwidth.value.bytes_per_sec() as f64,
            memory: model.memory_bandwidth.value.bytes_per_sec() as f64
                * kernels.memory_share.value,
            precision,
            products,
            attention: peak * kernels.attention_share(flash) * sustained,
            latency: kernels.latency.value.seconds(),
        })
    }

    /// Operations per second of a large product in the precision of the job.
    #[must_use]
    pub fn large_product(&self) -> f64 {
        const SIDE: u64 = 8192;
        let (side, bytes) = (SIDE as f64, self.operands(false).bytes());
        let kernel = Kernel {
            name: "large",
            part: Part::Mlp,
            kind: KernelKind::Gemm(GemmShape {
                m: SIDE,
                n: SIDE,
                k: SIDE,
                batch: 1,
                widths: [SIDE; 2],
            }),
            flops: 2.0 * side.powi(3),
            bytes: 2.0 * side * side * (bytes + 1.0),
        };
        let cost = self.cost(&kernel);
        kernel.flops / (cost.compute + cost.memory)
    }

    /// What kernels take, one after the other.
    #[must_use]
    pub fn time<'k>(&self, kernels: impl IntoIterator<Item = &'k Kernel>) -> Kernels {
        let (mut all, mut launches) = (Cost::default(), 0u16);
        // Seconds at the peaks of tensor cores and of memory.
        let (mut tensor, mut dram) = (0.0, 0.0);
        for kernel in kernels {
            tensor += kernel.flops / self.peak_of(kernel);
            dram += kernel.bytes / self.memory_peak;
            let cost = self.cost(kernel);
            all.compute += cost.compute;
            all.memory += cost.memory;
            launches = launches.saturating_add(1);
        }
        let time = |seconds: f64| Time::from_picos((seconds * 1e12).round() as u64);
        let seconds = (all.compute + all.memory).max(f64::MIN_POSITIVE);
        Kernels {
            compute: time(all.compute),
            memory: time(all.memory),
            launches,
            tensor: PeakShare::new(tensor / seconds),
            dram: PeakShare::new(dram / seconds),
        }
    }

    /// Kernels that read and write so many bytes of memory, and compute next to nothing.
    #[must_use]
    pub fn passes(&self, bytes: f64, launches: u16) -> Kernels {
        Kernels {
            memory: Time::from_picos((bytes / self.memory * 1e12) as u64),
            launches,
            dram: PeakShare::new(self.memory / self.memory_peak),
            ..Kernels::default()
        }
    }

    /// Operations per second of tensor cores at their peak, in a kernel's precision.
    fn peak_of(&self, kernel: &Kernel) -> f64 {
        match kernel.kind {
            KernelKind::Attention => self.peak,
            _ if in_half(kernel) => self.peak,
            _ => self.peak_of_precision,
        }
    }

    fn cost(&self, kernel: &Kernel) -> Cost {
        match (kernel.kind, &self.products) {
            (KernelKind::Gemm(shape), ProductRates::Law(law)) => self.product((kernel, shape), law),
            (KernelKind::Gemm(shape), ProductRates::Shares(shares)) => {
                let rate = if in_half(kernel) {
                    shares.half
                } else {
                    shares.gemm
                };
                let filled = filled((self.sms, shares.tile), shape).max(1e-3);
                let operands = self.operands(in_half(kernel));
                let slower = KernelParameters::shipped()
                    .common
                    .slower(shape.widths, operands);
                self.longer(kernel.flops / (rate * filled) * slower, kernel.bytes)
            }
            (KernelKind::Attention, _) => self.longer(kernel.flops / self.attention, kernel.bytes),
            (KernelKind::Memory(pass), ProductRates::Law(law)) => {
                let known = pass_kind(pass).and_then(|kind| law.law.pass(kind, kernel.bytes));
                match known {
                    Some((launch, time)) => Cost {
                        compute: 0.0,
                        memory: (launch + time).seconds(),
                    },
                    None => self.longer(0.0, kernel.bytes),
                }
            }
            (KernelKind::Memory(_), ProductRates::Shares(_)) => self.longer(0.0, kernel.bytes),
        }
    }

    /// Operations of so many seconds, or these bytes if they take longer.
    fn longer(&self, operations: f64, bytes: f64) -> Cost {
        let bytes = bytes / self.memory;
        if operations > bytes {
            Cost {
                compute: operations,
                memory: self.latency,
            }
        } else {
            Cost {
                compute: 0.0,
                memory: bytes + self.latency,
            }
        }
    }

    /// A product by its law: what limits it is what the peaks say.
    fn product(&self, (kernel, shape): (&Kernel, GemmShape), of: &Powered) -> Cost {
        let operands = self.operands(in_half(kernel));
        let product = crate::kernel::Kernel::Products(Products {
            m: shape.m,
            n: shape.n,
            k: shape.k,
            batch: shape.batch,
            widths: shape.widths,
            operands,
            bytes: kernel.bytes,
        });
        let launch = of.law.launch(&product).seconds();
        let profiled = of.law.time(&product).seconds() - launch;
        let peak = match operands {
            DataType::Fp8 => self.peak_of_precision,
            _ => self.peak,
        };
        let least = kernel.flops / peak;
        let rest = of.slowed(profiled, least).max(least);
        if least > kernel.bytes / of.law.device().memory {
            Cost {
                compute: rest,
                memory: launch,
            }
        } else {
            Cost {
                compute: 0.0,
                memory: rest + launch,
            }
        }
    }

    const fn operands(&self, half: bool) -> DataType {
        match self.precision {
            Precision::Fp8 if !half => DataType::Fp8,
            _ => DataType::Bf16,
        }
    }
}

impl Powered {
    /// Seconds in a long step of what takes `profiled` seconds in a profile, and `least` at the
    /// peak.
    fn slowed(&self, profiled: f64, least: f64) -> f64 {
        let share = least / (self.more * profiled);
        profiled * (share / self.power).cbrt().max(1.0)
    }
}

/// How well the tiles of a matrix product fill the SMs: in the last wave some have none.
fn filled((sms, (rows, columns)): (u32, (u64, u64)), shape: GemmShape) -> f64 {
    let product = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
    let tiles = product(
        shape.m.div_ceil(rows),
        shape.n.div_ceil(columns),
        shape.batch,
    );
    let waves = tiles.div_ceil(u128::from(sms));
    let room = waves as f64 * product(u64::from(sms), rows, columns) as f64;
    product(shape.m, shape.n, shape.batch) as f64 / room
}

/// Products that FP8 recipes leave in 16 bits: of scores, of the router, and of the output
/// projection.
fn in_half(kernel: &Kernel) -> bool {
    matches!(kernel.part, Part::Head | Part::Router | Part::AttentionCore)
}

/// The profiled kernel that a pass over memory is like; `None` if there is none.
const fn pass_kind(pass: Pass) -> Option<SmallKind> {
    match pass {
        Pass::Norm => Some(SmallKind::Norm),
        Pass::Rotary => Some(SmallKind::Rope),
        Pass::Activation => Some(SmallKind::Activation),
        Pass::Residual => Some(SmallKind::Add),
        Pass::Lookup => Some(SmallKind::Embedding),
        Pass::Other => None,
    }
}
