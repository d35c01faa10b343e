//! Quantities with units: [`Bytes`], [`Bandwidth`], [`Time`] and, for what lasts longer, [`Span`];
//! [`Power`] and [`Money`].
//!
//! All are integers, so that a simulation is exact and repeats bit for bit: bytes,
//! bytes per second, picoseconds and nanoseconds, milliwatts and millionths of a dollar. Files and
//! flags hold them as people write them (`25MiB`, `450GB/s`, `400Gb/s`, `1.5us`, `700W`, `2.69USD`); decimal prefixes
//! (K, M, G, T) are powers of 1000, binary ones (Ki, Mi, Gi, Ti) powers of 1024,
//! `b` is a bit and `B` a byte. The one exception is [`Bytes::parse_flag`], which
//! reads sizes as nccl-tests does on its command line.
//!
//! What reads files of any kind strictly is here, too, for all rooms: [`Strict`] for JSON, [`Quotes`] for
//! comma-separated values.

mod bandwidth;
mod bytes;
mod money;
mod parse;
mod power;
mod quotes;
mod span;
mod strict;
mod time;

pub mod clock;
pub mod text;

pub use bandwidth::Bandwidth;
pub use bytes::Bytes;
pub use money::Money;
pub use parse::UnitError;
pub use power::Power;
pub use quotes::{Misquoted, Quotes};
pub use span::Span;
pub use strict::Strict;
pub use time::Time;

/// Implements the conversions that every quantity shares: parsing from a string,
/// and serde and JSON-Schema forms that are that string.
macro_rules! string_quantity {
    ($type:ident, $schema:literal, $examples:expr, $pattern:literal) => {
        impl std::str::FromStr for $type {
            type Err = crate::UnitError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
        impl TryFrom<String> for $type {
            type Error = crate::UnitError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }
        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $schema,
                    "pattern": $pattern,
                    "examples": $examples,
                })
            }
        }
    };
}
pub(crate) use string_quantity;

#[cfg(test)]
mod tests;
