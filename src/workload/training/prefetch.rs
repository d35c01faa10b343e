//! How many layers' weights FSDP gathers ahead: a number, or as many as memory has room for.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// How many layers' weights are gathered ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// So many.
    Layers(u32),
    /// As many as fit the GPU's memory beside all else.
    Memory,
}

impl Default for Prefetch {
    fn default() -> Self {
        Prefetch::Layers(1)
    }
}

impl Serialize for Prefetch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Prefetch::Layers(layers) => serializer.serialize_u32(*layers),
            Prefetch::Memory => serializer.serialize_str("memory"),
        }
    }
}

impl<'de> Deserialize<'de> for Prefetch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Prefetch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of layers, or \"memory\"")
            }

            fn visit_u64<E: Error>(self, layers: u64) -> Result<Prefetch, E> {
                let fits = u32::try_from(layers).map(Prefetch::Layers);
                fits.map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(layers), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prefetch, E> {
                match text {
                    "memory" => Ok(Prefetch::Memory),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl JsonSchema for Prefetch {
    fn schema_name() -> Cow<'static, str> {
        "Prefetch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "So many layers, or as many as fit the GPU's memory.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": u32::MAX },
                { "const": "memory" }
            ]
        })
    }
}
