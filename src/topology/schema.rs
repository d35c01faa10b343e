//! The JSON Schema of topology files, for editors and other tools.

use super::hardware::Hardware;
use super::spec::TopologySpec;
use schemars::{Schema, schema_for};

/// The schema of a topology file (draft 2020-12).
#[must_use]
pub fn topology_schema() -> Schema {
    schema_for!(TopologySpec)
}

/// The schema of a hardware file (draft 2020-12).
#[must_use]
pub fn hardware_schema() -> Schema {
    schema_for!(Hardware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use serde_json::Value;

    fn validator(schema: &Schema) -> jsonschema::Validator {
        jsonschema::validator_for(schema.as_value()).unwrap()
    }

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn sound_files_satisfy_the_schema() {
        let schema = validator(&topology_schema());
        let own = [
            include_str!("../../tests/cases/topologies/server.json"),
            include_str!("../../tests/cases/topologies/rack.json"),
            include_str!("../../tests/cases/topologies/pair.json"),
            include_str!("../../tests/cases/topologies/drives.json"),
        ];
        let shipped = catalogue::names().filter_map(catalogue::text);
        for text in own.into_iter().chain(shipped) {
            if let Err(error) = schema.validate(&value(text)) {
                panic!("{error} at {}", error.instance_path());
            }
        }
        let schema = validator(&hardware_schema());
        for (name, text) in catalogue::hardware_texts() {
            assert!(schema.is_valid(&value(text)), "{name}");
        }
    }

    #[test]
    fn broken_files_do_not_satisfy_the_schema() {
        let schema = validator(&topology_schema());
        let sound = include_str!("../../tests/cases/topologies/server.json");
        let cases = [
            ("\"title\"", "\"titel\""),
            ("\"node\": true", "\"node\": 1"),
            ("\"count\": 8", "\"count\": -8"),
            ("\"rail_optimized\"", "\"rail_optimised\""),
            ("\"from\": \"gpu[*]\"", "\"from\": 3"),
        ];
        for (from, to) in cases {
            let broken = sound.replacen(from, to, 1);
            assert_ne!(broken, sound);
            assert!(!schema.is_valid(&value(&broken)), "{to}");
        }
    }
}
