//! Long durations, such as the life of a part.

use super::Time;
use super::parse::{UnitError, Vocabulary, exact};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

const SECOND: u128 = 1_000_000_000;
const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a duration such as 20min or 2111.5d",
    what: "duration",
    base: "nanoseconds",
    largest: "584 years",
    units: &[
        ("ns", 1, 1),
        ("us", 1000, 1),
        ("µs", 1000, 1),
        ("ms", 1_000_000, 1),
        ("s", SECOND, 1),
        ("min", 60 * SECOND, 1),
        ("h", 3600 * SECOND, 1),
        ("d", 86_400 * SECOND, 1),
    ],
};

/// A long duration in whole nanoseconds (64 bits: 584 years). [`Time`] ends after 213 days,
/// which is less than a GPU lives between failures.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Span(u64);

super::string_quantity!(
    Span,
    "A long duration: a number with a unit (ns, us, ms, s, min, h, d).",
    ["20min", "2111.5d"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?(ns|us|µs|ms|s|min|h|d)$"
);

impl Span {
    /// No duration.
    pub const ZERO: Span = Span(0);
    /// The longest representable duration.
    pub const MAX: Span = Span(u64::MAX);

    /// `count` nanoseconds.
    #[must_use]
    pub const fn from_nanos(count: u64) -> Self {
        Span(count)
    }

    /// `count` whole seconds.
    #[must_use]
    pub const fn from_secs(count: u64) -> Self {
        Span(count * 1_000_000_000)
    }

    /// `seconds`, rounded to a nanosecond; zero if negative or not a number, and
    /// [`Span::MAX`] if longer than that.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        // A cast of a float stops at the ends of the integer's range.
        Span((seconds * 1e9).round() as u64)
    }

    /// Whole nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads a duration as people write it.
    ///
    /// # Errors
    /// Text that is no duration, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Span)
    }

    /// The difference, or zero when `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// The sum, or [`Span::MAX`] on overflow.
    #[must_use]
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The product with a whole number, or [`Span::MAX`] on overflow.
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl From<Time> for Span {
    /// Rounded up to a nanosecond.
    fn from(time: Time) -> Span {
        Span(time.picos().div_ceil(1000))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        self.0 += other.0;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0 - other.0)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(iter: I) -> Span {
        iter.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Span {
    /// Exact: reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&exact(
            self.0,
            &[
                ("d", 86_400_000_000_000),
                ("h", 3_600_000_000_000),
                ("min", 60_000_000_000),
                ("s", 1_000_000_000),
                ("ms", 1_000_000),
                ("us", 1000),
                ("ns", 1),
            ],
        ))
    }
}
