//! What numbers are stored in, and which of a law's entries a pair of them takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a weight, an activation or a cached key is stored.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// BF16 or FP16.
    Bf16,
    /// FP8 with one scale for a whole tensor or a row.
    Fp8,
    /// FP8 with a scale for each block: 128 × 128 weights, 128 values of an activation.
    Fp8Block,
    /// Eight-bit integers.
    Int8,
    /// FP4 with an FP8 scale for each 16 values.
    Nvfp4,
    /// FP4 with an eight-bit exponent for each 32 values.
    Mxfp4,
    /// Four-bit integers with a 16-bit scale for each 128 values, as GPTQ and AWQ have them.
    Int4,
}

impl DataType {
    /// Bytes of one value, its part of the scales included.
    #[must_use]
    pub const fn bytes(self) -> f64 {
        match self {
            DataType::Bf16 => 2.0,
            DataType::Fp8 | DataType::Fp8Block | DataType::Int8 => 1.0,
            DataType::Nvfp4 => 0.5 + 1.0 / 16.0,
            DataType::Mxfp4 => 0.5 + 1.0 / 32.0,
            DataType::Int4 => 0.5 + 2.0 / 128.0,
        }
    }

    /// Values in the 16 bytes that a thread loads at once, and of which libraries want rows in memory to be
    /// multiples (NVIDIA, Matrix Multiplication Background User's Guide, requirements to use tensor cores).
    #[must_use]
    pub const fn in_a_piece(self) -> u64 {
        match self {
            DataType::Bf16 => 8,
            DataType::Fp8 | DataType::Fp8Block | DataType::Int8 => 16,
            DataType::Nvfp4 | DataType::Mxfp4 | DataType::Int4 => 32,
        }
    }

    /// The entry of a product of weights and activations.
    pub(super) const fn product(weights: DataType, activations: DataType) -> Format {
        match (weights, activations) {
            (DataType::Mxfp4, DataType::Bf16) => Format::Mxfp4Bf16,
            (DataType::Mxfp4, _) => Format::Mxfp4Fp8,
            (_, DataType::Bf16) => Format::Bf16,
            (_, DataType::Nvfp4) => Format::Nvfp4,
            (DataType::Fp8Block, _) => Format::Fp8Block,
            _ => Format::Fp8,
        }
    }
}

/// A path through the tensor cores that tables of products know.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// 16 bits. Narrower weights are widened on their way to the tensor cores.
    Bf16,
    /// FP8, a scale for a tensor; also eight-bit integers, whose peak is the same.
    Fp8,
    /// FP8, a scale for a block.
    Fp8Block,
    /// NVFP4 both.
    Nvfp4,
    /// MXFP4 weights, 16-bit activations: multiplied in 16 bits.
    Mxfp4Bf16,
    /// MXFP4 weights, FP8 activations: multiplied at the rate of FP8.
    Mxfp4Fp8,
}

impl Format {
    /// What stands in where a generation has no entry, the most like first.
    pub(super) const fn like(self) -> &'static [Format] {
        match self {
            Format::Bf16 => &[],
            Format::Fp8 => &[Format::Fp8Block, Format::Bf16],
            Format::Fp8Block | Format::Nvfp4 => &[Format::Fp8, Format::Bf16],
            Format::Mxfp4Bf16 => &[Format::Bf16],
            Format::Mxfp4Fp8 => &[Format::Fp8, Format::Fp8Block, Format::Bf16],
        }
    }
}

/// What scores of attention are computed in, and what keys and values are cached in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AttentionFormat {
    /// 16 bits both.
    Bf16,
    /// Scores in 16 bits, the cache in FP8.
    Bf16Fp8Cache,
    /// FP8 both.
    Fp8,
}

impl AttentionFormat {
    /// Bytes of a cached value.
    #[must_use]
    pub const fn cache_bytes(self) -> f64 {
        match self {
            AttentionFormat::Bf16 => 2.0,
            AttentionFormat::Bf16Fp8Cache | AttentionFormat::Fp8 => 1.0,
        }
    }

    /// What stands in where a generation has no entry, the most like first.
    pub(super) const fn like(self) -> &'static [AttentionFormat] {
        match self {
            AttentionFormat::Bf16 => &[],
            AttentionFormat::Bf16Fp8Cache => &[AttentionFormat::Fp8, AttentionFormat::Bf16],
            AttentionFormat::Fp8 => &[AttentionFormat::Bf16Fp8Cache, AttentionFormat::Bf16],
        }
    }
}
