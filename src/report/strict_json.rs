//! JSON that comes back from files: an object names each thing once, as in all files of this program.

use fabricsim_units::Strict;
use serde::de::DeserializeOwned;

/// Reads a whole text; one that is no UTF-8 is an error like any other.
pub(crate) fn from_bytes<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(Strict(&mut reader))?;
    reader.end()?;
    Ok(value)
}
