//! Kernels that read and write each value once: norms, rope, activations, additions, tables.
//!
//! As fast as memory at a share of its rate, and no faster than one thread block moves one row.

use super::Limits;
use super::device::Device;
use super::parameters::SmallParameters;

/// What such a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SmallKind {
    /// A norm of rows.
    Norm,
    /// Turning queries and keys.
    Rope,
    /// A gated activation: two values in, one out.
    Activation,
    /// An addition of two tensors.
    Add,
    /// Rows of a table; also sampling, which reads rows of logits.
    Embedding,
}

impl SmallKind {
    /// The share of the memory's rate that it reaches.
    pub(super) const fn share(self, entry: &SmallParameters) -> f64 {
        match self {
            SmallKind::Norm => entry.norm.value,
            SmallKind::Rope => entry.rope.value,
            SmallKind::Activation => entry.activation.value,
            SmallKind::Add => entry.add.value,
            SmallKind::Embedding => entry.embedding.value,
        }
    }

    /// How often the thread block of a row goes over it: a norm sums its squares first, and an
    /// addition has no rows.
    const fn passes(self) -> f64 {
        match self {
            SmallKind::Norm => 2.0,
            SmallKind::Rope | SmallKind::Activation | SmallKind::Embedding => 1.0,
            SmallKind::Add => 0.0,
        }
    }
}

/// Such a kernel, by what it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Small {
    /// What it does.
    pub kind: SmallKind,
    /// Rows: tokens.
    pub rows: u64,
    /// Bytes of a row, in and out.
    pub row: u64,
}

impl Small {
    /// A norm of `tokens` × `hidden` values of 16 bits.
    #[must_use]
    pub const fn norm(tokens: u64, hidden: u64) -> Small {
        Small::new(SmallKind::Norm, tokens, 4 * hidden)
    }

    /// Rope of so many heads, of queries and keys together.
    #[must_use]
    pub const fn rope(tokens: u64, heads: u64, head_dim: u64) -> Small {
        Small::new(SmallKind::Rope, tokens, 4 * heads * head_dim)
    }

    /// A gated activation that leaves `width` values a token.
    #[must_use]
    pub const fn activation(tokens: u64, width: u64) -> Small {
        Small::new(SmallKind::Activation, tokens, 6 * width)
    }

    /// The addition of a residual.
    #[must_use]
    pub const fn add(tokens: u64, hidden: u64) -> Small {
        Small::new(SmallKind::Add, tokens, 6 * hidden)
    }

    /// Looking up tokens in a table.
    #[must_use]
    pub const fn embedding(tokens: u64, hidden: u64) -> Small {
        Small::new(SmallKind::Embedding, tokens, 4 * hidden)
    }

    /// Choosing a token each from logits in 32 bits, which are read twice and written once.
    #[must_use]
    pub const fn sampling(tokens: u64, vocabulary: u64) -> Small {
        Small::new(SmallKind::Embedding, tokens, 12 * vocabulary)
    }

    const fn new(kind: SmallKind, rows: u64, row: u64) -> Small {
        Small { kind, rows, row }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            operations: 0.0,
            bytes: self.rows as f64 * self.row as f64,
        }
    }

    /// Seconds.
    pub(super) fn time(&self, entry: &SmallParameters, device: &Device) -> f64 {
        let all = self.limits().bytes / (self.kind.share(entry) * device.memory);
        let row = self.row as f64 / entry.row.value.bytes_per_sec() as f64;
        let one = if self.rows > 0 {
            self.kind.passes() * row
        } else {
            0.0
        };
        entry.launch.value.seconds() + all.max(one)
    }
}
