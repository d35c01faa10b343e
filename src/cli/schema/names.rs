//! Where definitions are described, and where in a file their values stand.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};

/// A page that describes definitions, too.
pub(super) struct Elsewhere {
    /// The file's name, beside this page.
    pub(super) file: &'static str,
    /// What it is made from.
    pub(super) schema: Value,
}

/// The definitions of a schema, by name. What another page describes in the same words is left to that.
pub(super) struct Names<'s> {
    own: &'s Map<String, Value>,
    elsewhere: &'s [Elsewhere],
}

impl<'s> Names<'s> {
    /// Those of a schema.
    pub(super) fn new(own: &'s Map<String, Value>, elsewhere: &'s [Elsewhere]) -> Self {
        Names { own, elsewhere }
    }

    /// The definitions that this page has to describe.
    pub(super) fn described(&self) -> impl Iterator<Item = (&'s String, &'s Value)> {
        let own = self.own.iter();
        own.filter(|(name, _)| self.file(name).is_none())
    }

    /// A link to a definition, with an example of how it is written if it is a quantity.
    pub(super) fn link(&self, name: &str) -> String {
        let file = self.file(name).unwrap_or_default();
        let link = format!("[{name}]({file}#{})", anchor(name));
        match self.own.get(name).and_then(example) {
            Some(example) => format!("{link}, as `{example}`"),
            None => link,
        }
    }

    fn file(&self, name: &str) -> Option<&'static str> {
        let own = self.own.get(name)?;
        let mut pages = self.elsewhere.iter();
        let page = pages.find(|page| describes(&page.schema, name, own))?;
        Some(page.file)
    }
}

/// The name of a definition that is referred to.
pub(super) fn referred(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/$defs/")
}

/// The anchor of a heading, as GitHub makes it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let dashed = heading.chars().filter(kept).map(|c| match c {
        ' ' => '-',
        c => c,
    });
    dashed.flat_map(char::to_lowercase).collect()
}

/// Whether a page from this schema describes a definition: the root, or one of those that it names.
fn describes(schema: &Value, name: &str, definition: &Value) -> bool {
    if schema["title"].as_str() == Some(name) {
        return schema["properties"] == definition["properties"];
    }
    schema["$defs"].get(name) == Some(definition)
}

/// The first example of what is written as text with a unit.
fn example(definition: &Value) -> Option<&Value> {
    definition.get("pattern")?;
    definition.get("examples")?.get(0)
}

/// Where a value stands in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The nearest place: `job.training.parallel`.
    pub(super) path: String,
    /// In how many fields of the whole schema it stands.
    pub(super) fields: usize,
}

/// Where the values of all definitions stand: the shortest paths from the root.
pub(super) fn places(schema: &Value) -> BTreeMap<String, Place> {
    let mut places = BTreeMap::new();
    let mut next = VecDeque::from([(String::new(), schema)]);
    while let Some((path, definition)) = next.pop_front() {
        for (name, path) in references(definition, path) {
            if let Some(place) = places.get_mut(&name) {
                let Place { fields, .. } = place;
                *fields += 1;
                continue;
            }
            next.push_back((path.clone(), &schema["$defs"][&name]));
            places.insert(name, Place { path, fields: 1 });
        }
    }
    places
}

/// What a definition refers to, each with the path to it.
fn references(definition: &Value, path: String) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = VecDeque::from([(path, definition)]);
    while let Some((path, schema)) = open.pop_front() {
        if let Some(name) = schema.get("$ref").and_then(referred) {
            found.push((name.to_owned(), path.clone()));
        }
        for form in ["anyOf", "oneOf", "prefixItems"] {
            let forms = schema.get(form).and_then(Value::as_array);
            open.extend(forms.into_iter().flatten().map(|form| (path.clone(), form)));
        }
        let within = |step: &str| match &*path {
            "" => step.to_owned(),
            path => format!("{path}.{step}"),
        };
        for (key, step) in [("items", "0"), ("additionalProperties", "NAME")] {
            if let Some(inner) = schema.get(key) {
                open.push_back((within(step), inner));
            }
        }
        let fields = schema.get("properties").and_then(Value::as_object);
        let fields = fields.into_iter().flatten();
        open.extend(fields.map(|(name, field)| (within(name), field)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn anchors_are_those_of_headings() {
        assert_eq!(anchor("Sourced_Time"), "sourced_time");
        assert_eq!(anchor("Files of sweeps (all)"), "files-of-sweeps-all");
    }

    #[test]
    fn places_are_the_nearest() {
        let leaf = json!({ "type": "integer" });
        let pool = json!({ "properties": { "leaf": { "$ref": "#/$defs/Leaf" } } });
        let schema = json!({
            "properties": {
                "deep": { "items": { "$ref": "#/$defs/Pool" } },
                "leaves": { "additionalProperties": { "anyOf": [{ "$ref": "#/$defs/Leaf" }] } },
            },
            "$defs": { "Leaf": leaf, "Pool": pool },
        });
        let places = places(&schema);
        let place = |name: &str| (&*places[name].path, places[name].fields);
        assert_eq!(place("Pool"), ("deep.0", 1));
        assert_eq!(place("Leaf"), ("leaves.NAME", 2));
    }

    #[test]
    fn what_another_page_says_is_left_to_it() {
        let time = json!({ "pattern": "s", "examples": ["10us"] });
        let own =
            json!({ "Time": time, "Tier": { "type": "string" }, "Whole": { "properties": {} } });
        let schema = json!({
            "title": "Whole",
            "properties": {},
            "$defs": { "Time": time, "Tier": { "type": "integer" } },
        });
        let other = Elsewhere {
            file: "other.md",
            schema,
        };
        let others = [other];
        let names = Names::new(own.as_object().unwrap(), &others);
        assert_eq!(names.link("Time"), "[Time](other.md#time), as `\"10us\"`");
        assert_eq!(names.link("Tier"), "[Tier](#tier)");
        assert_eq!(names.link("Whole"), "[Whole](other.md#whole)");
        let described: Vec<_> = names.described().map(|(name, _)| name).collect();
        assert_eq!(described, ["Tier"]);
    }
}
