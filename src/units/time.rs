//! Simulated time.

use super::parse::{UnitError, Vocabulary, exact};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a time such as 1.5us or 20ms",
    what: "time",
    base: "picoseconds",
    largest: "213 days",
    units: &[
        ("ps", 1, 1),
        ("ns", 1000, 1),
        ("us", 1_000_000, 1),
        ("µs", 1_000_000, 1),
        ("ms", 1_000_000_000, 1),
        ("s", 1_000_000_000_000, 1),
        ("min", 60_000_000_000_000, 1),
        ("h", 3_600_000_000_000_000, 1),
        ("d", 86_400_000_000_000_000, 1),
    ],
};

/// A point in simulated time, or a duration, in whole picoseconds (64 bits: 213 days).
///
/// Sums and products that do not fit are [`Time::MAX`], and stay so whatever is added: it stands
/// for all that is later than the clock goes. A simulation that gets there is over, with an error
/// of its own.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Time(u64);

super::string_quantity!(
    Time,
    "A duration: a number with a unit (ps, ns, us, ms, s, min, h, d).",
    ["1.5us", "20ms"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?(ps|ns|us|µs|ms|s|min|h|d)$"
);

impl Time {
    /// The start of a simulation, or no duration.
    pub const ZERO: Time = Time(0);
    /// The longest representable time, and all times beyond it.
    pub const MAX: Time = Time(u64::MAX);

    /// `count` picoseconds.
    #[must_use]
    pub const fn from_picos(count: u64) -> Self {
        Time(count)
    }

    /// `count` nanoseconds.
    #[must_use]
    pub const fn from_nanos(count: u64) -> Self {
        Time(count * 1000)
    }

    /// `count` microseconds.
    #[must_use]
    pub const fn from_micros(count: u64) -> Self {
        Time(count * 1_000_000)
    }

    /// Whole picoseconds.
    #[must_use]
    pub const fn picos(self) -> u64 {
        self.0
    }

    /// Microseconds, for reports.
    #[must_use]
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// A number of microseconds that comes from a division or a model, to the nearest picosecond, so
    /// that it has six decimals as all others have. What is no time (negative, or not finite) is
    /// rounded likewise, or stays as it is.
    #[must_use]
    pub fn round_micros(micros: f64) -> f64 {
        // A double beyond it has no picoseconds.
        const EXACT: f64 = (1u64 << 53) as f64;
        let picos = (micros * 1e6).round();
        if picos.abs() < EXACT {
            picos / 1e6
        } else {
            micros
        }
    }

    /// Seconds, for reports.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Reads a time as people write it.
    ///
    /// # Errors
    /// Text that is no time, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Time)
    }

    /// The difference, or zero when `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }

    /// So many times as long.
    #[must_use]
    pub const fn times(self, count: u64) -> Time {
        Time(self.0.saturating_mul(count))
    }

    /// Whether it is later than the clock goes: [`Time::MAX`], which sums do not leave.
    #[must_use]
    pub const fn is_past_the_clock(self) -> bool {
        self.0 == u64::MAX
    }

    /// For people: three significant digits in a fitting unit, such as `31.4 us`.
    #[must_use]
    pub fn human(self) -> String {
        let (value, unit) = match self.0 {
            0 => return "0 us".into(),
            1..1_000 => (self.0 as f64, "ps"),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "ns"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (self.0 as f64 / 1e9, "ms"),
            _ => (self.0 as f64 / 1e12, "s"),
        };
        let decimals = if value < 10.0 {
            2
        } else {
            usize::from(value < 100.0)
        };
        format!("{value:.decimals$} {unit}")
    }
}

impl Add for Time {
    type Output = Time;
    #[inline]
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u32> for Time {
    type Output = Time;

    fn mul(self, times: u32) -> Time {
        Time(self.0.saturating_mul(u64::from(times)))
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    /// Exact: reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&exact(
            self.0,
            &[
                ("s", 1_000_000_000_000),
                ("ms", 1_000_000_000),
                ("us", 1_000_000),
                ("ns", 1000),
                ("ps", 1),
            ],
        ))
    }
}
