//! Multi-head latent attention, as DeepSeek-V2 introduced it (arXiv 2405.04434).
//!
//! Over a prompt, keys and values are unfolded and attended to as those of any other model, with
//! keys that are wider than values. In a decode all heads read the same latent of a token, which is
//! key and value at once: with many heads it is bound by operations as much as by memory.

use super::attention::{Prompt, Token};
use super::data_type::AttentionFormat;
use super::device::Device;
use super::parameters::Common;

/// Widths of a model's latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MlaWidths {
    /// The latent of a token.
    pub latent: u64,
    /// The part of a key that is turned, which all heads share.
    pub rope: u64,
    /// The other part of a key.
    pub nope: u64,
    /// A value.
    pub value: u64,
}

impl MlaWidths {
    /// Of DeepSeek-V2, V3 and R1, and of Kimi K2.
    pub const DEEPSEEK: MlaWidths = MlaWidths {
        latent: 512,
        rope: 64,
        nope: 128,
        value: 128,
    };
}

/// Latent attention over prompts, or over pieces of them behind a prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MlaPrefill {
    /// Sequences.
    pub sequences: u64,
    /// New tokens of each.
    pub tokens: u64,
    /// Tokens of each that are cached already.
    pub prefix: u64,
    /// Heads on this GPU.
    pub heads: u64,
    /// The model's.
    pub widths: MlaWidths,
    /// What scores are computed in and latents cached in.
    pub format: AttentionFormat,
}

/// Latent attention of one new token a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MlaDecode {
    /// Sequences.
    pub sequences: u64,
    /// Cached tokens of all of them together.
    pub context: u64,
    /// Heads on this GPU.
    pub heads: u64,
    /// The model's.
    pub widths: MlaWidths,
    /// What scores are computed in and latents cached in.
    pub format: AttentionFormat,
}

impl From<&MlaPrefill> for Prompt {
    fn from(shape: &MlaPrefill) -> Prompt {
        let widths = shape.widths;
        Prompt {
            sequences: shape.sequences as f64,
            tokens: shape.tokens,
            prefix: shape.prefix,
            heads: shape.heads as f64,
            // Each head's keys and values are unfolded and written in 16 bits, whatever is cached.
            kv_heads: shape.heads as f64,
            widths: (widths.rope + widths.nope + widths.value) as f64,
            cached: 2.0,
            format: shape.format,
        }
    }
}

impl MlaDecode {
    pub(super) fn token(&self, common: &Common, device: &Device) -> Token {
        let rows = common.latent_rows.value;
        let readers = self.heads.div_ceil(rows);
        let (key, value) = (self.widths.latent + self.widths.rope, self.widths.latent);
        let both = (key + value) as f64;
        let heads = self.heads as f64;
        let peak = device.attention_peak(self.format);
        Token {
            sequences: self.sequences as f64,
            context: self.context as f64,
            readers: readers as f64,
            cached: key as f64 * self.format.cache_bytes(),
            padded: 2.0 * rows as f64 * both,
            needed: 2.0 * heads * both,
            ends: 2.0 * heads * both,
            resident: 1.0,
            heads,
            peak,
            limit: peak,
        }
    }
}
