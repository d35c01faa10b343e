//! Quantities in documents for programs: numbers, in one unit each.
//!
//! Bytes are integers, rates GB/s (1e9 bytes per second), times microseconds, of which six decimals
//! are picoseconds: sums stay exact. Version 1 of the documents wrote some of them as text with
//! units; that is still read.

use fabricsim_units::{Bandwidth, Bytes, Time};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::str::FromStr;

/// The version of all documents' format.
pub const FORMAT: u32 = 2;

/// What documents without a `format` are of.
pub(super) fn first_format() -> u32 {
    1
}

/// A number, or the text of version 1.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written<N> {
    Number(N),
    Text(String),
}

/// Reads either; `number` gives `None` for what is out of range.
fn read<'de, D: Deserializer<'de>, N: Deserialize<'de>, Q: FromStr>(
    from: D,
    number: impl FnOnce(N) -> Option<Q>,
) -> Result<Q, D::Error> {
    let wrong = || D::Error::custom("expected a number that is not negative");
    match Written::deserialize(from)? {
        Written::Number(value) => number(value).ok_or_else(wrong),
        Written::Text(text) => text.parse().map_err(|_| wrong()),
    }
}

/// `value` × `scale` as an integer, if it is one.
fn scaled(value: f64, scale: f64) -> Option<u64> {
    let whole = (value * scale).round();
    (0.0..u64::MAX as f64)
        .contains(&whole)
        .then_some(whole as u64)
}

/// Bytes as an integer.
pub(super) mod bytes {
    use super::{Bytes, Deserializer, Serializer, read};

    pub(crate) fn serialize<S: Serializer>(value: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.get())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        read(from, |value: u64| Some(Bytes::new(value)))
    }
}

/// Named amounts: pairs of a name and an integer.
pub(super) mod named_bytes {
    use super::{Bytes, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<N: Serialize, S: Serializer>(
        parts: &[(N, Bytes)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(parts.iter().map(|(name, bytes)| (name, bytes.get())))
    }

    #[derive(Deserialize)]
    struct Amount(#[serde(with = "super::bytes")] Bytes);

    pub(crate) fn deserialize<'de, N: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(N, Bytes)>, D::Error> {
        let parts: Vec<(N, Amount)> = Vec::deserialize(from)?;
        Ok(parts
            .into_iter()
            .map(|(name, amount)| (name, amount.0))
            .collect())
    }
}

/// A rate in GB/s.
pub(super) mod gbs {
    use super::{Bandwidth, Deserializer, Serializer, read, scaled};

    pub(crate) fn serialize<S: Serializer>(value: &Bandwidth, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.gb_per_sec())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bandwidth, D::Error> {
        read(from, |value| {
            scaled(value, 1e9).map(Bandwidth::from_bytes_per_sec)
        })
    }
}

/// A time in microseconds.
pub(super) mod micros {
    use super::{Deserializer, Serializer, Time, read, scaled};

    pub(crate) fn serialize<S: Serializer>(value: &Time, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(value.micros())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        read(from, |value| scaled(value, 1e6).map(Time::from_picos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        #[serde(with = "bytes")]
        bytes: Bytes,
        #[serde(with = "gbs")]
        rate: Bandwidth,
        #[serde(with = "micros")]
        time: Time,
        #[serde(with = "named_bytes")]
        parts: Vec<(String, Bytes)>,
    }

    #[test]
    fn quantities_are_numbers_and_the_text_of_version_1_is_read() {
        let all = All {
            bytes: Bytes::from_mib(20),
            rate: Bandwidth::from_bytes_per_sec(55_482_344_976),
            time: Time::from_picos(453_046_400_001),
            parts: vec![("weights".into(), Bytes::from_gib(2))],
        };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            text,
            r#"{"bytes":20971520,"rate":55.482344976,"time":453046.400001,"parts":[["weights",2147483648]]}"#
        );
        assert_eq!(serde_json::from_str::<All>(&text).unwrap(), all);
        let first = r#"{"bytes": "20MiB", "rate": "55482344.976KB/s", "time": "453046400.001ns",
            "parts": [["weights", "2GiB"]]}"#;
        assert_eq!(serde_json::from_str::<All>(first).unwrap(), all);
        for wrong in ["-1", "\"x\"", "1e300"] {
            let text = text.replace("453046.400001", wrong);
            assert!(serde_json::from_str::<All>(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn microseconds_have_at_most_six_decimals_and_read_back_to_the_picosecond() {
        // Up to 18 minutes: beyond, a double's product with a million can be off by one.
        let mut state = 1u64;
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let picos = state >> 14 >> (state % 40);
            let text = serde_json::to_string(&Time::from_picos(picos).micros()).unwrap();
            let decimals = text.split_once('.').map_or(0, |(_, d)| d.len());
            let value: f64 = text.parse().unwrap();
            assert!(decimals <= 6 || text.contains('e'), "{text}");
            assert_eq!(scaled(value, 1e6), Some(picos), "{text}");
        }
    }
}
