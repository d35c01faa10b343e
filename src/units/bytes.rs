//! Sizes of data.

use super::parse::{UnitError, Vocabulary, exact};
use serde::{Deserialize, Serialize};
use std::fmt;

const KI: u128 = 1 << 10;
const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a size such as 25MiB or 1.5GB",
    what: "size",
    base: "bytes",
    largest: "16EiB",
    units: &[
        ("B", 1, 1),
        ("KB", 1000, 1),
        ("kB", 1000, 1),
        ("MB", 1_000_000, 1),
        ("GB", 1_000_000_000, 1),
        ("TB", 1_000_000_000_000, 1),
        ("KiB", KI, 1),
        ("MiB", KI * KI, 1),
        ("GiB", KI * KI * KI, 1),
        ("TiB", KI * KI * KI * KI, 1),
    ],
};

/// The vocabulary of nccl-tests' `-b` and `-e`: bare numbers are bytes and
/// K, M, G are powers of 1024 (nccl-tests 2.19, `parsesize`).
const FLAG_VOCABULARY: Vocabulary = Vocabulary {
    expected: "a size such as 8, 64K, 25MiB or 8G (K, M, G, T are powers of 1024, as in nccl-tests)",
    units: &[
        ("", 1, 1),
        ("B", 1, 1),
        ("K", KI, 1),
        ("k", KI, 1),
        ("M", KI * KI, 1),
        ("m", KI * KI, 1),
        ("G", KI * KI * KI, 1),
        ("g", KI * KI * KI, 1),
        ("T", KI * KI * KI * KI, 1),
        ("KB", 1000, 1),
        ("kB", 1000, 1),
        ("MB", 1_000_000, 1),
        ("GB", 1_000_000_000, 1),
        ("TB", 1_000_000_000_000, 1),
        ("KiB", KI, 1),
        ("MiB", KI * KI, 1),
        ("GiB", KI * KI * KI, 1),
        ("TiB", KI * KI * KI * KI, 1),
    ],
    ..VOCABULARY
};

/// An amount of data in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(u64);

super::string_quantity!(
    Bytes,
    "An amount of data: a number with a unit. KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of 1024.",
    ["25MiB", "80GB"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?(B|[kKMGT]B|[KMGT]iB)$"
);

impl Bytes {
    /// No data.
    pub const ZERO: Bytes = Bytes(0);

    /// `count` bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Bytes(count)
    }

    /// `count` × 2^10 bytes.
    #[must_use]
    pub const fn from_kib(count: u64) -> Self {
        Bytes(count << 10)
    }

    /// `count` × 2^20 bytes.
    #[must_use]
    pub const fn from_mib(count: u64) -> Self {
        Bytes(count << 20)
    }

    /// `count` × 2^30 bytes.
    #[must_use]
    pub const fn from_gib(count: u64) -> Self {
        Bytes(count << 30)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads a size as files hold it: a unit is required.
    ///
    /// # Errors
    /// Text that is no size, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Bytes)
    }

    /// Reads a size as nccl-tests reads `-b` and `-e`: a bare number is bytes, and
    /// `K`, `M`, `G` are powers of 1024. Spelt-out units (`MB`, `MiB`) mean what they say.
    ///
    /// # Errors
    /// As [`Bytes::parse`].
    pub fn parse_flag(text: &str) -> Result<Self, UnitError> {
        FLAG_VOCABULARY.parse(text).map(Bytes)
    }

    /// The sum, or `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_add(other.0).map(Bytes)
    }

    /// The product, or `None` on overflow.
    #[must_use]
    pub fn checked_mul(self, factor: u64) -> Option<Bytes> {
        self.0.checked_mul(factor).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    /// Exact, in the largest binary unit that divides it, else the largest decimal one:
    /// reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = [
            ("TiB", 1 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
        ];
        let text = binary
            .iter()
            .find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size))
            .map(|(name, size)| format!("{}{name}", self.0 / size))
            .unwrap_or_else(|| {
                exact(
                    self.0,
                    &[
                        ("TB", 1_000_000_000_000),
                        ("GB", 1_000_000_000),
                        ("MB", 1_000_000),
                        ("KB", 1000),
                        ("B", 1),
                    ],
                )
            });
        f.pad(&text)
    }
}
