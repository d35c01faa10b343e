//! A number of layers, or a word that says who finds it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// How many layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerCount<W> {
    /// So many.
    Layers(u32),
    /// As many as this finds.
    By(W),
}

/// Who finds a number of layers, as files name it.
pub trait Finder: Copy + PartialEq + 'static {
    /// All of them, with their words.
    const WORDS: &'static [(&'static str, Self)];
    /// What the schema calls such a number.
    const NAME: &'static str;
    /// What it is, for the schema.
    const ABOUT: &'static str;
    /// What the words mean, for the schema.
    const FOUND: &'static str;
}

impl<W> Default for LayerCount<W> {
    fn default() -> Self {
        LayerCount::Layers(1)
    }
}

impl<W: Finder> LayerCount<W> {
    pub(super) fn is_default(&self) -> bool {
        *self == LayerCount::default()
    }
}

impl<W: Finder> Serialize for LayerCount<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            LayerCount::Layers(layers) => serializer.serialize_u32(*layers),
            LayerCount::By(finder) => {
                let word = W::WORDS.iter().find(|(_, known)| known == finder);
                serializer.serialize_str(word.map_or("", |(word, _)| word))
            }
        }
    }
}

impl<'de, W: Finder> Deserialize<'de> for LayerCount<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read(PhantomData))
    }
}

struct Read<W>(PhantomData<W>);

impl<W: Finder> Visitor<'_> for Read<W> {
    type Value = LayerCount<W>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of layers")?;
        W::WORDS
            .iter()
            .try_for_each(|(word, _)| write!(f, ", or \"{word}\""))
    }

    fn visit_u64<E: Error>(self, layers: u64) -> Result<LayerCount<W>, E> {
        let fits = u32::try_from(layers).map(LayerCount::Layers);
        fits.map_err(|_| E::invalid_value(Unexpected::Unsigned(layers), &self))
    }

    fn visit_i64<E: Error>(self, layers: i64) -> Result<LayerCount<W>, E> {
        Err(E::invalid_value(Unexpected::Signed(layers), &self))
    }

    fn visit_f64<E: Error>(self, layers: f64) -> Result<LayerCount<W>, E> {
        Err(E::invalid_value(Unexpected::Float(layers), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LayerCount<W>, E> {
        let found = W::WORDS.iter().find(|(word, _)| *word == text);
        let wrong = || E::invalid_value(Unexpected::Str(text), &self);
        found
            .map(|(_, finder)| LayerCount::By(*finder))
            .ok_or_else(wrong)
    }
}

impl<W: Finder> JsonSchema for LayerCount<W> {
    fn schema_name() -> Cow<'static, str> {
        W::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
        json_schema!({
            "description": W::ABOUT,
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "So many layers." },
                { "enum": words, "description": W::FOUND }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::training::bucketing::{Bucketing, Estimate};
    use crate::training::prefetch::{Prefetch, Room};
    use serde_json::json;

    #[test]
    fn a_number_or_a_word() {
        let bucketing = |value| serde_json::from_value::<Bucketing>(value).unwrap();
        let prefetch = |value| serde_json::from_value::<Prefetch>(value).unwrap();
        assert_eq!(bucketing(json!(4)), Bucketing::Layers(4));
        assert_eq!(bucketing(json!("auto")), Bucketing::By(Estimate::Auto));
        assert_eq!(prefetch(json!(0)), Prefetch::Layers(0));
        assert_eq!(prefetch(json!("memory")), Prefetch::By(Room::Memory));
        for value in [json!(4), json!("auto")] {
            assert_eq!(json!(bucketing(value.clone())), value);
        }
        assert_eq!(json!(Prefetch::By(Room::Memory)), json!("memory"));
    }

    #[test]
    fn anything_else_is_told_what_was_found_and_what_belongs_there() {
        for (value, found) in [
            (json!("all"), "string \"all\""),
            (json!(-1), "integer `-1`"),
            (json!(1.5), "floating point `1.5`"),
            (json!(1_u64 << 32), "integer `4294967296`"),
            (json!([1]), "sequence"),
            (json!({"layers": 2}), "map"),
            (json!(null), "null"),
            (json!(true), "boolean `true`"),
        ] {
            for (said, word) in [
                (
                    serde_json::from_value::<Bucketing>(value.clone()).map(|_| ()),
                    "auto",
                ),
                (
                    serde_json::from_value::<Prefetch>(value.clone()).map(|_| ()),
                    "memory",
                ),
            ] {
                let said = said.unwrap_err().to_string();
                let expected = format!("{found}, expected a number of layers, or \"{word}\"");
                assert!(said.ends_with(&expected), "{value}: {said}");
            }
        }
    }
}
