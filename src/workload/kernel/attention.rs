//! Attention: over a prompt, and of one new token a sequence.
//!
//! Over a prompt, a thread block computes the scores of a block of queries with all keys that they
//! may see; blocks on the mask's edge are computed whole. All blocks together take their operations
//! at a share of the peak, and no less than the longest one alone. Before, queries, keys and values
//! are turned and written to the cache, at a share of the memory's rate.
//!
//! In a decode all keys and values of a sequence are read for one query a head, at a share of the
//! memory's rate; heads that share keys are the rows of a product, filled up to what the tensor
//! cores multiply at least. Few sequences are cut into parts, so that all SMs read, and the parts'
//! results put together.

use super::data_type::AttentionFormat;
use super::device::{Device, Residency};
use super::parameters::{Common, DecodeParameters, PrefillParameters};
use super::{Limits, overlap};

/// Attention over prompts, or over pieces of them behind a prefix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionPrefill {
    /// Sequences.
    pub sequences: u64,
    /// New tokens of each.
    pub tokens: u64,
    /// Tokens of each that are cached already and seen by all new ones.
    pub prefix: u64,
    /// Heads of queries on this GPU.
    pub heads: u64,
    /// Heads of keys and values on this GPU.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// What scores are computed in and keys cached in.
    pub format: AttentionFormat,
}

/// Attention of one new token a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionDecode {
    /// Sequences.
    pub sequences: u64,
    /// Cached tokens of all of them together.
    pub context: u64,
    /// Heads of queries on this GPU.
    pub heads: u64,
    /// Heads of keys and values on this GPU.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// What scores are computed in and keys cached in.
    pub format: AttentionFormat,
}

/// A prompt's attention by widths, which latent attention has others of.
pub(super) struct Prompt {
    pub(super) sequences: f64,
    pub(super) tokens: u64,
    pub(super) prefix: u64,
    pub(super) heads: f64,
    pub(super) kv_heads: f64,
    /// Widths of a key and of a value together.
    pub(super) widths: f64,
    /// Bytes of a value of the cache.
    pub(super) cached: f64,
    pub(super) format: AttentionFormat,
}

impl From<&AttentionPrefill> for Prompt {
    fn from(shape: &AttentionPrefill) -> Prompt {
        Prompt {
            sequences: shape.sequences as f64,
            tokens: shape.tokens,
            prefix: shape.prefix,
            heads: shape.heads as f64,
            kv_heads: shape.kv_heads as f64,
            widths: 2.0 * shape.head_dim as f64,
            cached: shape.format.cache_bytes(),
            format: shape.format,
        }
    }
}

impl Prompt {
    pub(super) fn limits(&self, device: &Device) -> Limits {
        let (new, prefix) = (self.tokens as f64, self.prefix as f64);
        let pairs = self.sequences * self.heads * new * (prefix + (new + 1.0) / 2.0);
        let old = self.sequences * prefix * self.kv_heads * self.widths * self.cached;
        Limits {
            operations: 2.0 * pairs * self.widths / device.attention_peak(self.format),
            bytes: self.moved() + old,
        }
    }

    /// Queries in and results out, new keys and values in and to the cache, in bytes.
    fn moved(&self) -> f64 {
        let tokens = self.sequences * self.tokens as f64;
        let (all, few) = (self.heads * self.widths, self.kv_heads * self.widths);
        tokens * (2.0 * all + (2.0 + self.cached) * few)
    }

    /// Seconds.
    pub(super) fn time(&self, entry: &PrefillParameters, common: &Common, device: &Device) -> f64 {
        let block = common.attention_block.value;
        let wide = block as f64;
        let (blocks, before) = (self.tokens.div_ceil(block), self.prefix.div_ceil(block));
        let (blocks, before) = (blocks as f64, before as f64);
        let pairs = wide * wide * (blocks * before + blocks * (blocks + 1.0) / 2.0);
        let rate = entry.compute.value * device.half;
        let all = 2.0 * self.sequences * self.heads * pairs * self.widths / rate;
        let keys = blocks + before;
        let longest = 2.0 * wide * wide * keys * self.widths / (rate / device.sms);
        let compute = overlap(all, longest, common.uneven_overlap.value);
        let prepare = self.moved() / (entry.prepare.value * device.memory);
        let steps = keys * entry.step.value.seconds();
        entry.launch.value.seconds() + prepare + compute + steps
    }
}

/// One new token a sequence, by what is read and multiplied.
pub(super) struct Token {
    pub(super) sequences: f64,
    pub(super) context: f64,
    /// Thread blocks of a sequence that read its cache for themselves.
    pub(super) readers: f64,
    /// Bytes that a cached token has for all of them together.
    pub(super) cached: f64,
    /// Operations for a cached token in one reader, padded rows included.
    pub(super) padded: f64,
    /// … that have to be, in all of them.
    pub(super) needed: f64,
    /// Bytes of queries and results of a sequence.
    pub(super) ends: f64,
    /// How many thread blocks an SM has at a time.
    pub(super) resident: f64,
    /// Heads of a sequence that are absorbed.
    pub(super) heads: f64,
    pub(super) peak: f64,
    /// No kernel exceeds this.
    pub(super) limit: f64,
}

impl AttentionDecode {
    pub(super) fn token(&self, common: &Common, device: &Device) -> Token {
        let (kv, width) = (self.kv_heads as f64, self.head_dim as f64);
        let group = self.heads.div_ceil(self.kv_heads.max(1));
        let rows = group.max(common.decode_rows.value) as f64;
        Token {
            sequences: self.sequences as f64,
            context: self.context as f64,
            readers: kv,
            cached: 2.0 * kv * width * self.format.cache_bytes(),
            padded: 4.0 * rows * width,
            needed: 4.0 * self.heads as f64 * width,
            ends: 4.0 * self.heads as f64 * width,
            resident: 2.0,
            heads: 0.0,
            peak: device.half,
            limit: device.attention_peak(self.format),
        }
    }
}

impl Token {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            operations: self.needed * self.context / self.limit,
            bytes: self.bytes(),
        }
    }

    fn bytes(&self) -> f64 {
        self.context * self.cached + self.sequences * self.ends
    }

    /// Whether a profile that repeats it finds it in the cache.
    pub(super) fn fits(&self, common: &Common, device: &Device) -> bool {
        self.bytes() <= common.cache_share.value * device.cache
    }

    /// Seconds.
    pub(super) fn time(
        &self,
        entry: &DecodeParameters,
        common: &Common,
        (device, residency): (&Device, Residency),
    ) -> f64 {
        let length = self.context / self.sequences.max(1.0);
        let readers = self.sequences * self.readers;
        let room = (device.sms * self.resident / readers.max(1.0)).floor();
        let most = (length / common.shortest_part.value as f64).ceil().max(1.0);
        let parts = room.clamp(1.0, most);
        let blocks = readers * parts;
        let again = residency == Residency::Repeated && self.fits(common, device);
        let share = if again {
            entry.cache.value
        } else {
            entry.memory.value
        };
        let drawing = (common.drawing.value * blocks / device.sms).min(1.0);
        let memory = self.bytes() / (share * device.memory * drawing);
        let busy = (blocks / device.sms).min(1.0);
        let operations = self.padded * self.readers * self.context;
        let compute = operations / (entry.compute.value * self.peak * busy);
        let ramp = (length / parts).min(common.ramp.value as f64) / 64.0;
        let head = entry.head.as_ref().map_or(0.0, |h| h.value.seconds());
        entry.launch.value.seconds()
            + parts.log2() * entry.combine.value.seconds()
            + ramp * entry.step.value.seconds()
            + self.sequences * self.heads * head
            + overlap(memory, compute, common.overlap.value)
    }
}
