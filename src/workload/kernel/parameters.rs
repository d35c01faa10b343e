//! The parameters of the laws, from `topologies/hardware/kernels.json`.

use super::data_type::{AttentionFormat, DataType, Format};
use fabricsim_topology::hardware::Sourced;
use fabricsim_topology::{Fault, TopologyError, load};
use fabricsim_units::{Bandwidth, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Its name in errors, and where it stands.
pub const FILE: &str = "topologies/hardware/kernels.json";
const TEXT: &str = include_str!("../../../topologies/hardware/kernels.json");

/// A figure that was fitted, within which bounds, and on what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted<T> {
    /// The figure, with its unit; shares of a peak are numbers up to 1.
    pub value: T,
    /// Between these a fit may move it.
    pub range: [T; 2],
    /// What it was fitted to, or why it is what it is.
    pub source: String,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelParameters {
    /// Free text.
    pub comment: String,
    /// What all generations share and nothing is fitted of.
    pub common: Common,
    /// By the name of an architecture.
    pub generations: BTreeMap<String, Generation>,
}

/// What all generations share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// How well computing and reading hide each other in one kernel: the exponent of
    /// `(compute^p + memory^p)^(1/p)`; with more it is nearer to the longer of both.
    pub overlap: Sourced<f64>,
    /// The same where parts of a kernel are of different lengths: experts, and the blocks of a
    /// causal mask.
    pub uneven_overlap: Sourced<f64>,
    /// Rows and columns of a result that one SM computes at once: what libraries choose from.
    pub tiles: Sourced<Vec<(u64, u64)>>,
    /// The same for experts, which get few tokens each.
    pub expert_tiles: Sourced<Vec<(u64, u64)>>,
    /// Into how many parts the sum of a product may be split.
    pub splits: Sourced<Vec<u64>>,
    /// What a split costs: a second pass, or atomics.
    pub split: Sourced<Time>,
    /// What feeding a tile's operands costs, as a part of multiplying 64 × 64: in proportion to
    /// 1/rows + 1/columns.
    pub feed: Sourced<f64>,
    /// How many times as long computing takes of products with rows in memory that are no multiples of
    /// 16 bytes ([`DataType::in_a_piece`]).
    pub unaligned: Sourced<f64>,
    /// How many times its part of the memory's rate one SM can draw in a decode.
    pub drawing: Sourced<f64>,
    /// Queries of a block of attention, and keys.
    pub attention_block: Sourced<u64>,
    /// Rows that the tensor cores multiply at least in a decode, filled or not.
    pub decode_rows: Sourced<u64>,
    /// … of latent attention.
    pub latent_rows: Sourced<u64>,
    /// Cached tokens of a sequence that one thread block reads at least.
    pub shortest_part: Sourced<u64>,
    /// After so many tokens a thread block's loads are as far ahead as they can be.
    pub ramp: Sourced<u64>,
    /// The part of the second-level cache that a buffer can fill and be found in again.
    pub cache_share: Sourced<f64>,
}

impl Common {
    /// How many times as long computing takes of products whose rows in memory have so many values.
    #[must_use]
    pub fn slower(&self, widths: [u64; 2], operands: DataType) -> f64 {
        let whole = |width: u64| width.is_multiple_of(operands.in_a_piece());
        if widths.into_iter().all(whole) {
            1.0
        } else {
            self.unaligned.value
        }
    }
}

/// One generation of GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The generation whose laws it takes where it has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Matrix products.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gemm: BTreeMap<Format, GemmParameters>,
    /// Attention over a prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prefill: BTreeMap<AttentionFormat, PrefillParameters>,
    /// Attention of one new token a sequence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decode: BTreeMap<AttentionFormat, DecodeParameters>,
    /// Latent attention over a prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mla_prefill: BTreeMap<AttentionFormat, PrefillParameters>,
    /// Latent attention of one new token a sequence.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mla_decode: BTreeMap<AttentionFormat, DecodeParameters>,
    /// Experts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub moe: BTreeMap<Format, MoeParameters>,
    /// Norms, rope, activations, additions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small: Option<SmallParameters>,
    /// All-reduces within a node that engines write themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_reduce: Option<AllReduceParameters>,
}

/// A matrix product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GemmParameters {
    /// Start and end of the kernel.
    pub launch: Fitted<Time>,
    /// A kernel before it that makes the activations narrower; engines fuse it with the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantise: Option<Fitted<Time>>,
    /// Share of the peak that a tile without end reaches.
    pub compute: Fitted<f64>,
    /// Share of the memory's bandwidth.
    pub memory: Fitted<f64>,
    /// What 64 values of the sum take one tile beyond that: a step of its pipeline.
    pub step: Fitted<Time>,
    /// Into how many parts its sum may be split, where that is not as libraries split all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub splits: Option<Sourced<Vec<u64>>>,
}

/// Attention over a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefillParameters {
    /// Start and end of the kernels.
    pub launch: Fitted<Time>,
    /// Share of the 16-bit peak; FP8 may exceed it.
    pub compute: Fitted<f64>,
    /// Share of the memory's bandwidth at which queries, keys and values are turned, scaled and
    /// written to the cache before.
    pub prepare: Fitted<f64>,
    /// What a block of keys takes a thread block beyond that.
    pub step: Fitted<Time>,
}

/// Attention of one new token a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecodeParameters {
    /// Start and end of the kernels.
    pub launch: Fitted<Time>,
    /// Share of the memory's bandwidth.
    pub memory: Fitted<f64>,
    /// Share of the peak: padded rows included.
    pub compute: Fitted<f64>,
    /// What 64 keys take a thread block beyond that.
    pub step: Fitted<Time>,
    /// What each doubling of the parts of a sequence takes: their results are put together.
    pub combine: Fitted<Time>,
    /// What each sequence's head takes: its queries are absorbed and its result written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Fitted<Time>>,
    /// How many times as fast as memory the second-level cache is, for what profiles find there.
    pub cache: Fitted<f64>,
}

/// Experts: two grouped products with what permutes their tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoeParameters {
    /// Start and end of all its kernels.
    pub launch: Fitted<Time>,
    /// What profiles take beyond that because the host starts each kernel; engines' graphs do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Fitted<Time>>,
    /// Share of the peak that a tile without end reaches.
    pub compute: Fitted<f64>,
    /// Share of the memory's bandwidth.
    pub memory: Fitted<f64>,
    /// … at which tokens are copied to their experts and added up again.
    pub permute: Fitted<f64>,
    /// What 64 values of a sum take one tile beyond that.
    pub step: Fitted<Time>,
}

/// Kernels that read and write each value once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmallParameters {
    /// Start and end of a kernel.
    pub launch: Fitted<Time>,
    /// What one thread block moves: a row is one's.
    pub row: Fitted<Bandwidth>,
    /// Share of the memory's bandwidth of a norm.
    pub norm: Fitted<f64>,
    /// … of turning queries and keys.
    pub rope: Fitted<f64>,
    /// … of a gated activation.
    pub activation: Fitted<f64>,
    /// … of an addition.
    pub add: Fitted<f64>,
    /// … of looking up rows of a table.
    pub embedding: Fitted<f64>,
}

/// All-reduces that read peers' memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllReduceParameters {
    /// Start, end and both barriers among two.
    pub launch: Fitted<Time>,
    /// What each further doubling of the ranks takes.
    pub doubling: Fitted<Time>,
    /// The barrier between both passes of the longer way.
    pub pass: Fitted<Time>,
    /// Share of a GPU's NVLink rate that its loads reach.
    pub port: Fitted<f64>,
}

impl KernelParameters {
    /// Reads the text of such a file; `origin` names it in errors.
    ///
    /// # Errors
    /// At the first place that is not of the format, or that says what cannot be.
    pub fn parse(text: &str, origin: &str) -> Result<Self, TopologyError> {
        let parsed: KernelParameters = load::from_json(text, origin)?;
        let faults = parsed.faults();
        if faults.is_empty() {
            return Ok(parsed);
        }
        Err(TopologyError::Faults {
            origin: origin.to_owned(),
            faults,
        })
    }

    /// The shipped ones.
    ///
    /// # Panics
    /// Never: the text is part of the program and a test reads it.
    #[must_use]
    pub fn shipped() -> &'static KernelParameters {
        static PARSED: OnceLock<KernelParameters> = OnceLock::new();
        PARSED.get_or_init(|| Self::parse(TEXT, FILE).expect("tests read the embedded file"))
    }

    /// The shipped text, which a fit begins with.
    #[must_use]
    pub const fn shipped_text() -> &'static str {
        TEXT
    }

    /// A generation and those that it takes laws from, in order.
    pub(super) fn line(&self, name: &str) -> Vec<(&str, &Generation)> {
        let mut line: Vec<(&str, &Generation)> = Vec::new();
        let mut next = self.generations.get_key_value(name);
        while let Some((name, generation)) = next {
            if line.iter().any(|(known, _)| known == name) {
                break;
            }
            line.push((name, generation));
            let like = generation.like.as_ref();
            next = like.and_then(|like| self.generations.get_key_value(like));
        }
        line
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let known = || self.generations.keys().map(String::as_str);
        for (name, generation) in &self.generations {
            let Some(like) = &generation.like else {
                continue;
            };
            let path = format!("generations.{name}.like");
            if !self.generations.contains_key(like) {
                faults.push(Fault::unknown(&path, "generations", like, known()));
            } else if self.line(like).iter().any(|(other, _)| other == name) {
                let expected = "a generation that does not take its own laws from this one";
                faults.push(Fault::new(&path, like, expected));
            }
        }
        let positive = [
            ("overlap", self.common.overlap.value),
            ("uneven_overlap", self.common.uneven_overlap.value),
            ("drawing", self.common.drawing.value),
            ("unaligned", self.common.unaligned.value),
        ];
        for (name, value) in positive {
            if !(value >= 1.0 && value.is_finite()) {
                let path = format!("common.{name}.value");
                faults.push(Fault::new(&path, value.to_string(), "at least 1"));
            }
        }
        let lists = [
            ("tiles", self.common.tiles.value.is_empty()),
            ("expert_tiles", self.common.expert_tiles.value.is_empty()),
            ("splits", self.common.splits.value.is_empty()),
        ];
        for (name, empty) in lists {
            if empty {
                let path = format!("common.{name}.value");
                faults.push(Fault::new(&path, "nothing", "at least one"));
            }
        }
        let tiles = self.common.tiles.value.iter();
        let tiles = tiles.chain(&self.common.expert_tiles.value);
        let zero = tiles.flat_map(|&(rows, columns)| [rows, columns]);
        let counts = [
            self.common.attention_block.value,
            self.common.decode_rows.value,
            self.common.latent_rows.value,
            self.common.shortest_part.value,
        ];
        let zero = zero.chain(counts).chain(self.common.splits.value.clone());
        if zero.into_iter().any(|n| n == 0) {
            faults.push(Fault::new("common", "0", "counts of at least 1"));
        }
        // Their figures are asked for to be moved, so those of a copy are looked at.
        for (name, mut generation) in self.generations.clone() {
            for (path, leaf) in generation.leaves() {
                let expected = leaf.misplaced();
                let path = format!("generations.{name}.{path}.value");
                faults.extend(expected.map(|(found, expected)| Fault::new(path, found, expected)));
            }
        }
        faults
    }
}
