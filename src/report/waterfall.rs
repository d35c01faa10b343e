//! Differences of two times as waterfalls: the change of each cause, with its sign. The changes
//! add up to the difference exactly, in picoseconds.

use super::numbers::seconds;
use fabricsim_units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A part of some time, by what causes it. In files the time is microseconds with up to six
/// decimals, which are picoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// What causes it: `forward kernels`, `NVLink (tensor parallel)`.
    pub cause: String,
    /// How long.
    #[serde(rename = "us")]
    pub time: Change,
}

impl Part {
    /// A part of some time.
    #[must_use]
    pub fn new(cause: impl Into<String>, time: Time) -> Self {
        Part {
            cause: cause.into(),
            time: Change(time.picos() as i64),
        }
    }
}

/// A time with a sign, in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change(pub i64);

impl Change {
    /// Seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `+3.1 ms`, `−19.8 s`; a minus sign and not a hyphen.
    #[must_use]
    pub fn text(self) -> String {
        let sign = match self.0 {
            0 => return "0".to_owned(),
            1.. => "+",
            _ => "−",
        };
        format!("{sign}{}", seconds(self.seconds().abs()))
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The nearest number to so many millionths: exact up to fifteen digits.
        serializer.serialize_f64(self.0 as f64 / 1e6)
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let micros = f64::deserialize(deserializer)?;
        Ok(Change((micros * 1e6).round() as i64))
    }
}

impl JsonSchema for Change {
    fn schema_name() -> Cow<'static, str> {
        "Change".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number",
            "description": "Microseconds, with up to six decimals: whole picoseconds.",
        })
    }
}

/// What makes the difference between two times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waterfall {
    /// The name of what it begins at.
    pub from: String,
    /// The name of what it ends at.
    pub to: String,
    /// What `from` takes.
    #[serde(default, rename = "from_us")]
    pub begin: Change,
    /// By how much `to` takes longer than `from`; negative if it takes less.
    #[serde(rename = "total_us")]
    pub total: Change,
    /// The changes that add up to it, the largest first whatever its sign; none is zero.
    pub parts: Vec<Part>,
    /// Where the two differ in more than one factor: in which order these were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// The difference between two times, cause by cause. Parts with the same cause are one; a cause
/// that only one of them has changes from or to nothing.
#[must_use]
pub fn waterfall(from: (&str, &[Part]), to: (&str, &[Part])) -> Waterfall {
    let mut changes: BTreeMap<&str, i64> = BTreeMap::new();
    for (parts, sign) in [(from.1, -1), (to.1, 1)] {
        for part in parts {
            *changes.entry(&part.cause).or_default() += sign * part.time.0;
        }
    }
    let mut parts: Vec<Part> = changes
        .into_iter()
        .filter(|(_, change)| *change != 0)
        .map(|(cause, change)| Part {
            cause: cause.to_owned(),
            time: Change(change),
        })
        .collect();
    // Stable: of equal ones the first by name.
    parts.sort_by_key(|part| std::cmp::Reverse(part.time.0.unsigned_abs()));
    Waterfall {
        from: from.0.to_owned(),
        to: to.0.to_owned(),
        begin: Change(from.1.iter().map(|part| part.time.0).sum()),
        total: Change(parts.iter().map(|part| part.time.0).sum()),
        parts,
        order: None,
    }
}

/// What of a waterfall is left for small parts, which are shown as one: of all changes, whatever
/// their signs.
const SMALL: f64 = 0.01;

/// Causes that a clause names, and the least part of all changes that is worth it.
const MOST_NAMED: usize = 3;
const WORTH_IT: f64 = 0.05;

impl Waterfall {
    /// Its largest changes in parentheses, with a space before: ` (forward kernels −7.1 s, …)`; nothing
    /// without any.
    #[must_use]
    pub fn clause(&self) -> String {
        let size = |part: &Part| part.time.0.unsigned_abs();
        let all: u64 = self.parts.iter().map(size).sum();
        let worth = |part: &&Part| size(part) as f64 >= WORTH_IT * all as f64;
        let named = self.parts.iter().filter(worth).take(MOST_NAMED);
        let named = named.map(|part| format!("{} {}", part.cause, part.time.text()));
        match named.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            named => format!(" ({})", named.join(", ")),
        }
    }

    /// The parts worth showing, and how many small ones there are besides and what these come to
    /// together: their changes, whatever the signs, are at most a hundredth of all.
    #[must_use]
    pub fn shown(&self) -> (&[Part], Option<(usize, Change)>) {
        let size = |parts: &[Part]| parts.iter().map(|p| p.time.0.unsigned_abs()).sum::<u64>();
        let all = size(&self.parts) as f64;
        let small = |from: &usize| size(&self.parts[*from..]) as f64 <= SMALL * all;
        let from = (0..self.parts.len()).find(small);
        let (shown, rest) = self.parts.split_at(from.unwrap_or(self.parts.len()));
        match rest {
            // One alone needs no more room by its own name.
            [] | [_] => (&self.parts, None),
            rest => {
                let sum = rest.iter().map(|part| part.time.0).sum();
                (shown, Some((rest.len(), Change(sum))))
            }
        }
    }
}

/// A whole divided in the ratio of weights: whole numbers that add up to it, by largest
/// remainder, the first of equals. Everything goes to the first if all weights are zero.
#[must_use]
pub fn apportion(whole: u64, weights: &[u128]) -> Vec<u64> {
    let all: u128 = weights.iter().sum();
    let Some(last) = weights.len().checked_sub(1) else {
        return Vec::new();
    };
    if all == 0 {
        let mut parts = vec![0; last + 1];
        parts[0] = whole;
        return parts;
    }
    let product = |w: u128| u128::from(whole) * w;
    let mut parts: Vec<u64> = weights.iter().map(|&w| (product(w) / all) as u64).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(product(weights[i]) % all));
    let left = whole - parts.iter().sum::<u64>();
    // Less than one is left of each.
    for &index in order.iter().take(left as usize) {
        parts[index] += 1;
    }
    parts
}

/// Parts of a time as those of one that is `numerator / denominator` times as long.
#[must_use]
pub fn scaled(parts: &[Part], numerator: u64, denominator: u64) -> Vec<Part> {
    let size = |part: &Part| u128::from(part.time.0.unsigned_abs());
    let weights: Vec<u128> = parts.iter().map(size).collect();
    let product = weights.iter().sum::<u128>() * u128::from(numerator);
    let half = u128::from(denominator / 2);
    let longer = ((product + half) / u128::from(denominator.max(1))) as u64;
    let each = apportion(longer, &weights).into_iter();
    let each = each.map(Time::from_picos);
    parts
        .iter()
        .zip(each)
        .map(|(part, time)| Part::new(part.cause.clone(), time))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        let part = ("[a-f]", 0u64..1 << 50);
        let part = part.prop_map(|(cause, picos)| Part::new(cause, Time::from_picos(picos)));
        proptest::collection::vec(part, 0..12)
    }

    fn sum(parts: &[Part]) -> i64 {
        parts.iter().map(|part| part.time.0).sum()
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_difference(from in parts(), to in parts()) {
            let made = waterfall(("from", &from), ("to", &to));
            prop_assert_eq!(made.total.0, sum(&to) - sum(&from));
            prop_assert_eq!(sum(&made.parts), made.total.0);
            prop_assert!(made.parts.iter().all(|part| part.time.0 != 0));
            let causes: Vec<&String> = made.parts.iter().map(|part| &part.cause).collect();
            let mut once = causes.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), causes.len());
            // What is shown adds up as well, and little of it has no name.
            let (shown, small) = made.shown();
            let small = small.map_or(0, |(_, change)| change.0);
            prop_assert_eq!(sum(shown) + small, made.total.0);
            let all: u64 = made.parts.iter().map(|part| part.time.0.unsigned_abs()).sum();
            prop_assert!(small.unsigned_abs() as f64 <= 0.01 * all as f64);
            // There and back is the same with other signs.
            let back = waterfall(("to", &to), ("from", &from));
            prop_assert_eq!(back.total.0, -made.total.0);
        }

        #[test]
        fn shares_add_up(whole in 0u64..1 << 60, weights in proptest::collection::vec(0u128..1 << 40, 1..9)) {
            let parts = apportion(whole, &weights);
            prop_assert_eq!(parts.iter().sum::<u64>(), whole);
            let all: u128 = weights.iter().sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let fair = (u128::from(whole) * weight).checked_div(all);
                prop_assert!(fair.is_none_or(|fair| u128::from(*part) - fair <= 1));
            }
        }

        #[test]
        fn a_scaled_time_is_what_its_parts_come_to(from in parts(), by in 1u64..1000, of in 1u64..1000) {
            let longer = scaled(&from, by, of);
            let exact = sum(&from) as f64 * by as f64 / of as f64;
            prop_assert!((sum(&longer) as f64 - exact).abs() <= 1.0 + exact * 1e-12);
        }
    }

    #[test]
    fn microseconds_in_files_are_exact() {
        for picos in [0, 1, -1, 123_456_789_012_345, -44_185_123_456_789] {
            let text = serde_json::to_string(&Change(picos)).expect("a number");
            let read: Change = serde_json::from_str(&text).expect("a number");
            assert_eq!(read.0, picos, "{text}");
        }
    }
}
