//! Maps in which no name stands twice. Serde's own keep the last of equal names, so a
//! second `"server"` would silently replace the first.

use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Reads a map and refuses a name that stands twice.
pub(crate) fn map<'de, D, K, T>(deserializer: D) -> Result<BTreeMap<K, T>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
    T: Deserialize<'de>,
{
    struct Unique<K, T>(PhantomData<(K, T)>);

    impl<'de, K, T> Visitor<'de> for Unique<K, T>
    where
        K: Deserialize<'de> + Ord,
        T: Deserialize<'de>,
    {
        type Value = BTreeMap<K, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(name) = access.next_key::<String>()? {
                let key = K::deserialize(name.as_str().into_deserializer())?;
                if map.contains_key(&key) {
                    return Err(A::Error::custom(format_args!(
                        "the name `{name}` stands twice"
                    )));
                }
                let value = access.next_value()?;
                map.insert(key, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}
