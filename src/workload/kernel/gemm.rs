//! Matrix products.
//!
//! A library cuts the result into tiles, of which an SM computes one at a time, and may cut the sum
//! too, so that all SMs have something to do; it takes the tiles and the cut that are fastest. For
//! tiles of r × c, a sum of k' = k / s values and w = ceil(tiles × s / SMs) waves:
//!
//! - computing takes w × 2 r c k' / (share × fed × peak / SMs), where fed = 1 / (1 + feed × 64
//!   (1/r + 1/c)) is what its operands' way to the tensor cores leaves of it; in 16 bits, a card that
//!   may draw more power than others of its peak has a larger share;
//! - computing takes longer where rows in memory are no multiples of 16 bytes, for tiles' operands cannot be
//!   loaded in pieces of 16 bytes then ([`Common::slower`]); how many tokens there are does not matter to that;
//! - memory takes bytes / (share × rate);
//! - both overlap; launch, the steps of a tile's pipeline and the cut come on top.

use super::data_type::{DataType, Format};
use super::device::Device;
use super::parameters::{Common, GemmParameters};
use super::{Limits, overlap};

/// A product m × k · k × n.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gemm {
    /// Tokens.
    pub m: u64,
    /// Columns of the weights.
    pub n: u64,
    /// What is summed over.
    pub k: u64,
    /// What the weights are stored in.
    pub weights: DataType,
    /// What the activations are multiplied in; the result has 16 bits.
    pub activations: DataType,
    /// Whether a kernel of its own makes the activations narrower before. Engines fuse that with the
    /// norm or activation before it; profiles of a product alone do not.
    pub quantise: bool,
}

/// Products of one kernel of a training step: `batch` independent ones, of heads or experts, of
/// m × k · k × n each. What they read and write is given, for a weight's gradient may be added to a sum
/// in 32 bits. Training frameworks give experts to the library that does their other products;
/// [`super::Moe`] is of engines' own kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Products {
    /// Rows of each result.
    pub m: u64,
    /// Columns of each result.
    pub n: u64,
    /// What is summed over.
    pub k: u64,
    /// How many there are.
    pub batch: u64,
    /// Values of the rows that lie in memory, of the operands and of the result.
    pub widths: [u64; 2],
    /// What both operands are multiplied in.
    pub operands: DataType,
    /// Bytes that all of them read and write.
    pub bytes: f64,
}

impl Products {
    pub(super) const fn format(&self) -> Format {
        DataType::product(self.operands, self.operands)
    }

    pub(super) fn limits(&self, device: &Device) -> Limits {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        Limits {
            operations: 2.0 * self.batch as f64 * m * n * k / device.peak(self.format()),
            bytes: self.bytes,
        }
    }

    /// Tiles of so many rows and columns, of all results.
    fn tiles(&self, (rows, columns): (u64, u64)) -> f64 {
        let tiles = self.m.div_ceil(rows) as f64 * self.n.div_ceil(columns) as f64;
        self.batch as f64 * tiles
    }
}

impl Gemm {
    /// As a product whose operands may differ in type: what is multiplied is the activations'.
    fn products(&self, device: &Device) -> Products {
        Products {
            m: self.m,
            n: self.n,
            k: self.k,
            batch: 1,
            widths: [self.n, self.k],
            operands: self.activations,
            bytes: self.limits(device).bytes,
        }
    }

    pub(super) fn limits(&self, device: &Device) -> Limits {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let format = DataType::product(self.weights, self.activations);
        Limits {
            operations: 2.0 * m * n * k / device.peak(format),
            bytes: n * k * self.weights.bytes() + m * k * self.activations.bytes() + 2.0 * m * n,
        }
    }
}

/// One product among tiles: what the choice of a library costs.
pub(super) struct Tiled<'a> {
    pub(super) device: &'a Device,
    pub(super) common: &'a Common,
    /// Operations per second that tiles without end reach.
    pub(super) rate: f64,
    /// Bytes per second of memory.
    pub(super) memory: f64,
    /// A step of 64 values, in seconds.
    pub(super) step: f64,
    /// How computing and memory overlap.
    pub(super) exponent: f64,
}

impl Tiled<'_> {
    /// Seconds of `tiles` tiles of `rows` × `columns` with sums over `k` values each, while `bytes`
    /// are read and written.
    pub(super) fn time(&self, tiles: f64, (rows, columns): (u64, u64), k: f64, bytes: f64) -> f64 {
        let (rows, columns) = (rows as f64, columns as f64);
        let sms = self.device.sms;
        let fed = 1.0 + self.common.feed.value * 64.0 * (1.0 / rows + 1.0 / columns);
        let waves = (tiles / sms).ceil();
        let compute = waves * 2.0 * rows * columns * k * fed / (self.rate / sms);
        let memory = bytes / self.memory;
        overlap(compute, memory, self.exponent) + k / 64.0 * self.step
    }
}

/// Values that a part of a cut sum has at least.
const SHORTEST_SUM: u64 = 256;

/// Seconds of a product.
pub(super) fn time(
    shape: &Gemm,
    entry: &GemmParameters,
    common: &Common,
    (device, peak): (&Device, f64),
) -> f64 {
    let quantise = entry.quantise.as_ref().filter(|_| shape.quantise);
    let products = shape.products(device);
    let seconds = products_time(&products, entry, common, (device, peak));
    seconds + quantise.map_or(0.0, |q| q.value.seconds())
}

/// Seconds of products, with what starting them takes.
pub(super) fn products_time(
    shape: &Products,
    entry: &GemmParameters,
    common: &Common,
    (device, peak): (&Device, f64),
) -> f64 {
    let faster = match shape.operands {
        DataType::Bf16 => device.sustained,
        _ => 1.0,
    };
    let tiled = Tiled {
        device,
        common,
        rate: (entry.compute.value * faster).min(1.0) * peak
            / common.slower(shape.widths, shape.operands),
        memory: entry.memory.value * device.memory,
        step: entry.step.value.seconds(),
        exponent: common.overlap.value,
    };
    let splits = entry.splits.as_ref().unwrap_or(&common.splits);
    let mut best = f64::INFINITY;
    for &tile in &common.tiles.value {
        let tiles = shape.tiles(tile);
        for &parts in &splits.value {
            if parts > 1 && shape.k / parts < SHORTEST_SUM {
                continue;
            }
            let (cut, bytes) = if parts > 1 {
                // Sums of the parts, in 32 bits, written and read again.
                let values = shape.batch as f64 * shape.m as f64 * shape.n as f64;
                let sums = 8.0 * values * parts as f64;
                (common.split.value.seconds(), shape.bytes + sums)
            } else {
                (0.0, shape.bytes)
            };
            let parts = parts as f64;
            let k = shape.k as f64 / parts;
            let time = tiled.time(tiles * parts, tile, k, bytes);
            best = best.min(cut + time);
        }
    }
    entry.launch.value.seconds() + best
}
