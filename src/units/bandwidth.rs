//! Rates of data, always per direction.

use super::parse::{UnitError, Vocabulary, exact};
use super::{Bytes, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

const KI: u128 = 1 << 10;
const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a rate such as 450GB/s or 400Gb/s",
    what: "rate",
    base: "bytes per second",
    largest: "18EB/s",
    units: &[
        ("B/s", 1, 1),
        ("KB/s", 1000, 1),
        ("kB/s", 1000, 1),
        ("MB/s", 1_000_000, 1),
        ("GB/s", 1_000_000_000, 1),
        ("TB/s", 1_000_000_000_000, 1),
        ("KiB/s", KI, 1),
        ("MiB/s", KI * KI, 1),
        ("GiB/s", KI * KI * KI, 1),
        ("TiB/s", KI * KI * KI * KI, 1),
        ("b/s", 1, 8),
        ("Kb/s", 1000, 8),
        ("kb/s", 1000, 8),
        ("Mb/s", 1_000_000, 8),
        ("Gb/s", 1_000_000_000, 8),
        ("Tb/s", 1_000_000_000_000, 8),
        ("Mbps", 1_000_000, 8),
        ("Gbps", 1_000_000_000, 8),
    ],
};

/// A rate in bytes per second, of one direction.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Bandwidth(u64);

super::string_quantity!(
    Bandwidth,
    "A rate of one direction: a number with a unit. GB/s is 1e9 bytes per second, Gb/s 1e9 bits per second, GiB/s 2^30 bytes per second.",
    ["450GB/s", "400Gb/s"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?([kKMGT]?i?B/s|[kKMGT]?b/s|[MG]bps)$"
);

impl Bandwidth {
    /// `rate` bytes per second.
    #[must_use]
    pub const fn from_bytes_per_sec(rate: u64) -> Self {
        Bandwidth(rate)
    }

    /// `rate` × 1e9 bytes per second.
    #[must_use]
    pub const fn from_gb_per_sec(rate: u64) -> Self {
        Bandwidth(rate * 1_000_000_000)
    }

    /// Bytes per second.
    #[must_use]
    pub const fn bytes_per_sec(self) -> u64 {
        self.0
    }

    /// 1e9 bytes per second, for reports.
    #[must_use]
    pub fn gb_per_sec(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads a rate as people write it.
    ///
    /// # Errors
    /// Text that is no rate, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Bandwidth)
    }

    /// The rate that moves `bytes` in `time`; zero when `time` is zero.
    #[must_use]
    pub fn of(bytes: Bytes, time: Time) -> Self {
        if time == Time::ZERO {
            return Bandwidth(0);
        }
        let rate = u128::from(bytes.get()) * 1_000_000_000_000 / u128::from(time.picos());
        Bandwidth(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// How long `bytes` take at this rate, rounded up to a picosecond; the longest
    /// representable time when the rate is zero or the product does not fit.
    #[must_use]
    #[inline]
    pub fn time_for(self, bytes: Bytes) -> Time {
        if bytes.get() == 0 {
            return Time::ZERO;
        }
        if self.0 == 0 {
            return Time::MAX;
        }
        let picos = (u128::from(bytes.get()) * 1_000_000_000_000).div_ceil(u128::from(self.0));
        Time::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// This rate times a plain factor, rounded to a byte per second.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Bandwidth((self.0 as f64 * factor).round() as u64)
    }

    /// The product with a whole number, or `None` on overflow.
    #[must_use]
    pub fn checked_mul(self, factor: u64) -> Option<Self> {
        self.0.checked_mul(factor).map(Bandwidth)
    }
}

impl fmt::Display for Bandwidth {
    /// Exact, in bytes: reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&exact(
            self.0,
            &[
                ("TB/s", 1_000_000_000_000),
                ("GB/s", 1_000_000_000),
                ("MB/s", 1_000_000),
                ("KB/s", 1000),
                ("B/s", 1),
            ],
        ))
    }
}
