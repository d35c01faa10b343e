//! Reading "number + unit" exactly, without floating point.

use thiserror::Error;

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// The text does not start with a number, or holds more than a number and a unit.
    #[error("`{text}` is not {expected}: {problem}")]
    Malformed {
        /// What was found.
        text: String,
        /// What kind of quantity belongs here, with an example.
        expected: &'static str,
        /// What exactly is wrong.
        problem: String,
    },
    /// The value does not fit into 64 bits of its base unit.
    #[error("`{text}` is too large: the largest {what} is {largest}")]
    TooLarge {
        /// What was found.
        text: String,
        /// The quantity's name.
        what: &'static str,
        /// The largest value, as people write it.
        largest: &'static str,
    },
    /// The value is finer than the base unit (a byte, a byte per second, a picosecond).
    #[error("`{text}` is not a whole number of {base}")]
    TooFine {
        /// What was found.
        text: String,
        /// The base unit's name.
        base: &'static str,
    },
}

/// A quantity's vocabulary: its units, each as a fraction of the base unit.
pub(super) struct Vocabulary {
    /// For messages: `a size such as 25MiB`.
    pub(super) expected: &'static str,
    /// For messages: `size`.
    pub(super) what: &'static str,
    /// For messages: `bytes`.
    pub(super) base: &'static str,
    /// For messages.
    pub(super) largest: &'static str,
    /// Unit, numerator, denominator: one unit is `numerator / denominator` base units.
    pub(super) units: &'static [(&'static str, u128, u128)],
}

impl Vocabulary {
    /// Reads `text` as a decimal number directly followed by (or one space before) a unit.
    pub(super) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let malformed = |problem: String| UnitError::Malformed {
            text: text.to_owned(),
            expected: self.expected,
            problem,
        };
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(malformed("it is negative".into()));
        }
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim_start();
        let (digits, scale) =
            decimal(number).ok_or_else(|| malformed("it does not start with a number".into()))?;
        let Some(&(_, numerator, denominator)) =
            self.units.iter().find(|(name, _, _)| *name == unit)
        else {
            let names: Vec<&str> = self
                .units
                .iter()
                .map(|(name, _, _)| *name)
                .filter(|n| !n.is_empty())
                .collect();
            let problem = if unit.is_empty() {
                format!("it has no unit (one of {})", names.join(" "))
            } else {
                format!("the unit `{unit}` is unknown (one of {})", names.join(" "))
            };
            return Err(malformed(problem));
        };
        let too_large = || UnitError::TooLarge {
            text: text.to_owned(),
            what: self.what,
            largest: self.largest,
        };
        let scaled = digits.checked_mul(numerator).ok_or_else(too_large)?;
        let divisor = scale.checked_mul(denominator).ok_or_else(too_large)?;
        if scaled % divisor != 0 {
            return Err(UnitError::TooFine {
                text: text.to_owned(),
                base: self.base,
            });
        }
        u64::try_from(scaled / divisor).map_err(|_| too_large())
    }
}

/// A decimal number as (digits, power of ten to divide by); `None` if it is none,
/// or has more than 20 digits before or 12 after the point.
fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.ends_with('.')) {
        return None;
    }
    if whole.len() > 20 || fraction.len() > 12 {
        return None;
    }
    let mut digits: u128 = 0;
    let mut scale: u128 = 1;
    for (part, c) in whole
        .chars()
        .map(|c| (false, c))
        .chain(fraction.chars().map(|c| (true, c)))
    {
        if c == '_' {
            continue;
        }
        digits = digits * 10 + u128::from(c.to_digit(10)?);
        if part {
            scale *= 10;
        }
    }
    Some((digits, scale))
}

/// Writes `value` in the largest of `units` (name, size in base units; descending)
/// in which it is exact with at most three decimals, so that reading gives it back.
pub(super) fn exact(value: u64, units: &[(&str, u64)]) -> String {
    for &(name, size) in units {
        if value >= size {
            let thousandths = u128::from(value) * 1000;
            if thousandths % u128::from(size) == 0 {
                let t = thousandths / u128::from(size);
                let (whole, mut fraction) = (t / 1000, format!("{:03}", t % 1000));
                while fraction.ends_with('0') {
                    fraction.pop();
                }
                return if fraction.is_empty() {
                    format!("{whole}{name}")
                } else {
                    format!("{whole}.{fraction}{name}")
                };
            }
        }
    }
    let (name, size) = units[units.len() - 1];
    format!("{}{name}", value / size)
}
