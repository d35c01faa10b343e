//! Which ranks a fault is about: by number, or by the device of its GPU.

use super::error::problem;
use fabricsim_topology::{DeviceId, Fault as Problem, Topology, select};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Ranks of a job: a number (`3`), text (`"0-3, 8"`, `"all"`, or GPUs by their full names,
/// `"node[0]/gpu[*]"`), or a list of those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranks {
    /// One rank.
    One(u32),
    /// Numbers and inclusive ranges, `all`, or a selector of devices.
    Text(String),
    /// Several.
    List(Vec<Ranks>),
}

impl Ranks {
    /// The ranks meant, in order, without repetitions. `gpus` holds each rank's GPU.
    ///
    /// # Errors
    /// Ranks that are not there, or none; `path` is their place.
    pub fn resolve(
        &self,
        topology: &Topology,
        gpus: &[DeviceId],
        path: &str,
    ) -> Result<Vec<usize>, Problem> {
        let mut ranks = Vec::new();
        self.collect(topology, gpus, path, &mut ranks)?;
        ranks.sort_unstable();
        ranks.dedup();
        match ranks.is_empty() {
            true => Err(problem(path, "no rank", "at least one rank")),
            false => Ok(ranks),
        }
    }

    fn collect(
        &self,
        topology: &Topology,
        gpus: &[DeviceId],
        path: &str,
        ranks: &mut Vec<usize>,
    ) -> Result<(), Problem> {
        match self {
            Ranks::One(rank) => ranks.extend(range(*rank, *rank, gpus.len(), path)?),
            Ranks::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    item.collect(topology, gpus, &format!("{path}[{i}]"), ranks)?;
                }
            }
            Ranks::Text(text) if text.trim() == "all" => ranks.extend(0..gpus.len()),
            Ranks::Text(text) if text.trim().starts_with(|c: char| c.is_ascii_digit()) => {
                for part in text.split(',') {
                    let (low, high) = part.split_once('-').unwrap_or((part, part));
                    match (low.trim().parse(), high.trim().parse()) {
                        (Ok(low), Ok(high)) => ranks.extend(range(low, high, gpus.len(), path)?),
                        _ => {
                            let found = format!("`{}` in `{text}`", part.trim());
                            return Err(problem(path, found, EXPECTED));
                        }
                    }
                }
            }
            Ranks::Text(text) => {
                let devices = select::devices(topology, text, path)?;
                let before = ranks.len();
                let of_device = |gpu: &DeviceId| devices.binary_search(gpu).is_ok();
                ranks.extend((0..gpus.len()).filter(|&rank| of_device(&gpus[rank])));
                if ranks.len() == before {
                    let found = format!("`{text}`, where no rank runs");
                    return Err(problem(path, found, "devices with GPUs of the job"));
                }
            }
        }
        Ok(())
    }
}

const EXPECTED: &str = "ranks such as 3, \"0-3, 8\" or \"all\", or GPUs such as \"node[0]/gpu[*]\"";

fn range(low: u32, high: u32, count: usize, path: &str) -> Result<std::ops::Range<usize>, Problem> {
    if high < low {
        let expected = "a range that runs forwards";
        return Err(problem(path, format!("{low}-{high}"), expected));
    }
    if count <= high as usize {
        let expected = match count {
            0 => "a job with ranks".to_owned(),
            count => format!("a rank of the job: 0 to {}", count - 1),
        };
        return Err(problem(path, high.to_string(), expected));
    }
    Ok(low as usize..high as usize + 1)
}

impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ranks::One(rank) => rank.serialize(serializer),
            Ranks::Text(text) => text.serialize(serializer),
            Ranks::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Ranks;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Ranks, E> {
                let wrong = |_| E::custom(format_args!("rank {number} is too large"));
                u32::try_from(number).map(Ranks::One).map_err(wrong)
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Ranks, E> {
                Ok(Ranks::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Ranks, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = access.next_element()? {
                    match item {
                        Ranks::List(_) => return Err(A::Error::custom("a list within a list")),
                        item => list.push(item),
                    }
                }
                Ok(Ranks::List(list))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl JsonSchema for Ranks {
    fn schema_name() -> Cow<'static, str> {
        "Ranks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["integer", "string", "array"],
            "minimum": 0,
            "items": { "type": ["integer", "string"], "minimum": 0 },
            "description": "Ranks: a number, text such as \"0-3, 8\" or \"all\", GPUs such as \"node[0]/gpu[*]\", or a list of those.",
            "examples": [3, "0-3, 8", [0, "4-7"], "node[0]/gpu[*]"],
        })
    }
}
