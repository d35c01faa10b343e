//! Experts: the grouped products of a layer's experts on one GPU, without dispatch and combine.
//!
//! Tokens are copied to their experts, go through two products (gate and up together, then down)
//! whose tiles belong to one expert each, and are added up again. Only experts that get a token
//! are read; a tile of an expert with few tokens is mostly empty. See `gemm.rs` for a product's time.

use super::Limits;
use super::data_type::DataType;
use super::device::Device;
use super::gemm::Tiled;
use super::parameters::{Common, MoeParameters};
use super::routing::ExpertLoad;

/// The experts of one layer on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Moe {
    /// How many of its experts get how many tokens.
    pub load: ExpertLoad,
    /// Width of the model.
    pub hidden: u64,
    /// Width of an expert, on this GPU.
    pub inter: u64,
    /// What the weights are stored in.
    pub weights: DataType,
    /// What the activations are multiplied in.
    pub activations: DataType,
}

impl Moe {
    /// Columns and sums of both products.
    const fn products(&self) -> [(u64, u64); 2] {
        [(2 * self.inter, self.hidden), (self.hidden, self.inter)]
    }

    /// Bytes of a product of `n` columns over `k` values.
    fn bytes(&self, (n, k): (u64, u64)) -> f64 {
        let (n, k) = (n as f64, k as f64);
        let rows = self.load.tokens();
        let weights = self.load.experts() * n * k * self.weights.bytes();
        weights + rows * (k * self.activations.bytes() + 2.0 * n)
    }

    pub(super) fn limits(&self, device: &Device) -> Limits {
        let format = DataType::product(self.weights, self.activations);
        let weights = 3.0 * self.hidden as f64 * self.inter as f64;
        Limits {
            operations: 2.0 * self.load.tokens() * weights / device.peak(format),
            bytes: self.load.experts() * weights * self.weights.bytes(),
        }
    }

    /// Seconds.
    pub(super) fn time(
        &self,
        entry: &MoeParameters,
        common: &Common,
        (device, peak): (&Device, f64),
    ) -> f64 {
        let tiled = Tiled {
            device,
            common,
            rate: entry.compute.value * peak,
            memory: entry.memory.value * device.memory,
            step: entry.step.value.seconds(),
            exponent: common.uneven_overlap.value,
        };
        let mut time = entry.launch.value.seconds();
        for (n, k) in self.products() {
            let bytes = self.bytes((n, k));
            let choices = common.expert_tiles.value.iter().map(|&(rows, columns)| {
                let tiles = self.load.tiles(rows) * n.div_ceil(columns) as f64;
                tiled.time(tiles, (rows, columns), k as f64, bytes)
            });
            time += choices.fold(f64::INFINITY, f64::min);
        }
        // Read, narrowed and written before; read and added up after.
        let values = self.load.tokens() * self.hidden as f64;
        let copied = values * (2.0 + self.activations.bytes() + 2.0 + 2.0);
        time + copied / (entry.permute.value * device.memory)
    }
}
