//! What parts and hours cost.

use super::parse::{UnitError, Vocabulary};
use serde::{Deserialize, Serialize};
use std::fmt;

const MILLION: u64 = 1_000_000;
const VOCABULARY: Vocabulary = Vocabulary {
    expected: "a price such as 36000USD or 2.69USD",
    what: "price",
    base: "millionths of a dollar",
    largest: "18000000000000USD",
    units: &[("USD", MILLION as u128, 1)],
};

/// A price in millionths of a US dollar: hours of a part of a machine cost fractions of a cent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Money(u64);

super::string_quantity!(
    Money,
    "A price: US dollars, a number with the unit USD.",
    ["36000USD", "2.69USD"],
    "^[0-9][0-9_]*(\\.[0-9]+)? ?USD$"
);

impl Money {
    /// Nothing.
    pub const ZERO: Money = Money(0);

    /// `dollars` dollars.
    #[must_use]
    pub const fn from_dollars(dollars: u64) -> Self {
        Money(dollars.saturating_mul(MILLION))
    }

    /// Dollars, for reports.
    #[must_use]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / MILLION as f64
    }

    /// Reads a price as people write it.
    ///
    /// # Errors
    /// Text that is no price, is negative, has no unit, or does not fit 64 bits.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        VOCABULARY.parse(text).map(Money)
    }

    /// What both cost; the largest if it does not fit.
    #[must_use]
    pub const fn saturating_add(self, other: Money) -> Self {
        Money(self.0.saturating_add(other.0))
    }

    /// What one of so many costs, rounded down to a millionth of a dollar; nothing of none.
    #[must_use]
    pub const fn divided(self, count: u64) -> Self {
        match self.0.checked_div(count) {
            Some(one) => Money(one),
            None => Money::ZERO,
        }
    }

    /// What so many cost, rounded to a millionth of a dollar; the largest if it does not fit.
    #[must_use]
    pub fn scaled(self, count: f64) -> Self {
        Money((self.0 as f64 * count).round() as u64)
    }
}

impl fmt::Display for Money {
    /// Exact: reading the text gives the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / MILLION, self.0 % MILLION);
        let fraction = format!(".{rest:06}");
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        f.pad(&format!("{whole}{fraction}USD"))
    }
}
