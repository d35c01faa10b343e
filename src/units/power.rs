//! What parts draw.

use super::parse::{UnitError, Vocabulary, exact};
use serde::{Deserialize, Serialize};
use std::fmt;

const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a power such as 700W or 10.2kW",
    what: "power",
    base: "milliwatts",
    largest: "18PW",
    units: &[
        ("mW", 1, 1),
        ("W", 1000, 1),
        ("kW", 1_000_000, 1),
        ("MW", 1_000_000_000, 1),
    ],
};

/// A power in milliwatts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Power(u64);

super::string_quantity!(
    Power,
    "A power: a number with a unit. kW is 1000 watts, MW a million.",
    ["700W", "10.2kW"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?[mkM]?W$"
);

impl Power {
    /// None.
    pub const ZERO: Power = Power(0);

    /// `watts` watts.
    #[must_use]
    pub const fn from_watts(watts: u64) -> Self {
        Power(watts.saturating_mul(1000))
    }

    /// Watts, for reports.
    #[must_use]
    pub fn watts(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Kilowatts, for reports.
    #[must_use]
    pub fn kilowatts(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Reads a power as people write it.
    ///
    /// # Errors
    /// Text that is no power, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Power)
    }

    /// That of both; the largest if it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Power) -> Self {
        Power(self.0.saturating_add(other.0))
    }

    /// This power times a plain factor, rounded to a milliwatt.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Power((self.0 as f64 * factor).round() as u64)
    }
}

impl fmt::Display for Power {
    /// Exact: reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&exact(
            self.0,
            &[
                ("MW", 1_000_000_000),
                ("kW", 1_000_000),
                ("W", 1000),
                ("mW", 1),
            ],
        ))
    }
}
