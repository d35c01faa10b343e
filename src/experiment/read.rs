//! From a scenario's text, with overrides, to its specification.

use super::error::ScenarioError;
use super::refusal::{fault, refusal};
use super::spec::ScenarioSpec;
use fabricsim_topology::TopologyError;
use fabricsim_topology::load::{from_json, read_text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A scenario as it was read.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it says.
    pub spec: ScenarioSpec,
    /// The same as JSON, with the overrides applied.
    pub json: Value,
    /// The file, or where else it comes from; for messages.
    pub origin: String,
}

impl Scenario {
    /// One that was built as a value; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ScenarioError::NoJson`] of a value that JSON cannot hold.
    pub fn of(spec: ScenarioSpec, origin: &str) -> Result<Scenario, ScenarioError> {
        let origin = origin.to_owned();
        match serde_json::to_value(&spec) {
            Ok(json) => Ok(Scenario { spec, json, origin }),
            Err(source) => Err(ScenarioError::NoJson { origin, source }),
        }
    }

    /// The same with one more value in its place.
    ///
    /// # Errors
    /// A value that is not of the format.
    pub fn with(&self, path: &str, value: Value) -> Result<Scenario, ScenarioError> {
        let set = BTreeMap::from([(path.to_owned(), value)]);
        changed(&self.json, &self.origin, path, &set)
    }
}

/// Reads a scenario file and applies `overrides` (`job.collective.sizes.to=1GiB`): the
/// part behind `=` is JSON if it can be read as such, else a string.
///
/// # Errors
/// A file that cannot be read or is not of the format, or an override without a place.
pub fn read(path: &Path, overrides: &[String]) -> Result<Scenario, ScenarioError> {
    parse(&read_text(path)?, &path.display().to_string(), overrides)
}

/// As [`read`], from text; `origin` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<Scenario, ScenarioError> {
    parse_with(text, origin, overrides, &format!("{origin} with --set"))
}

/// As [`parse`]; `overridden` names the text with its overrides in errors.
fn parse_with(
    text: &str,
    origin: &str,
    overrides: &[String],
    overridden: &str,
) -> Result<Scenario, ScenarioError> {
    let origin = origin.to_owned();
    if overrides.is_empty() {
        // Straight from the text, so that errors have a line.
        let spec = from_json(text, &origin)?;
        let json = from_json(text, &origin)?;
        return Ok(Scenario { spec, json, origin });
    }
    let mut json: Value = from_json(text, &origin)?;
    for text in overrides {
        apply(&mut json, text).map_err(|problem| ScenarioError::Override {
            text: text.clone(),
            problem,
        })?;
    }
    let spec = from_json(&json.to_string(), &origin).map_err(|error| match error {
        // Lines of the file do not count any more.
        TopologyError::Json {
            path,
            message,
            nearest,
            ..
        } => ScenarioError::Overridden {
            path: if path.is_empty() {
                "the top".into()
            } else {
                path
            },
            origin: overridden.to_owned(),
            message,
            nearest,
        },
        other => other.into(),
    })?;
    Ok(Scenario { spec, json, origin })
}

/// A scenario with values of its file replaced: what `--set path=value` does to it, for each. The
/// values stand at `place` of the file, which `origin` names.
///
/// # Errors
/// As [`read`].
pub fn changed(
    base: &Value,
    origin: &str,
    place: &str,
    set: &BTreeMap<String, Value>,
) -> Result<Scenario, ScenarioError> {
    let set: Vec<String> = set.iter().map(|(path, v)| format!("{path}={v}")).collect();
    let overridden = format!("{origin} with its `{place}`");
    parse_with(&base.to_string(), origin, &set, &overridden).map_err(|error| match error {
        ScenarioError::Override { text, problem } => {
            let wrong = fault(place, format!("`{text}`"), problem);
            refusal(origin, vec![wrong])
        }
        other => other,
    })
}

/// As [`changed`], with values that `origin` names itself.
pub(crate) fn with_places(
    base: &Value,
    origin: &str,
    set: &BTreeMap<String, Value>,
) -> Result<Scenario, ScenarioError> {
    let texts = set.iter().map(|(path, v)| format!("{path}={v}"));
    let texts: Vec<String> = texts.collect();
    parse_with(&base.to_string(), origin, &texts, origin).map_err(|error| match error {
        ScenarioError::Override { text, problem } => {
            let (path, value) = text.split_once('=').unwrap_or((&text, ""));
            refusal(origin, vec![fault(path, format!("`{value}`"), problem)])
        }
        other => other,
    })
}

/// Puts one value into its place. Objects on the way are made where there is nothing.
fn apply(json: &mut Value, text: &str) -> Result<(), String> {
    let (path, value) = text
        .split_once('=')
        .ok_or("expected path=value, such as job.collective.sizes.to=1GiB")?;
    if path.is_empty() || path.split('.').any(str::is_empty) {
        return Err("expected names joined by dots before the `=`".into());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let mut at = json;
    let mut passed = String::new();
    for name in path.split('.') {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = match at {
            Value::Object(map) => map.entry(name.to_owned()).or_insert(Value::Null),
            Value::Array(list) => {
                let length = list.len();
                let place = name.parse().ok().and_then(|n: usize| list.get_mut(n));
                place.ok_or_else(|| {
                    format!("`{passed}` is a list of {length}; expected a number below that in place of `{name}`")
                })?
            }
            other => {
                return Err(format!(
                    "`{passed}` is {other}, which has no field `{name}`"
                ));
            }
        };
        if !passed.is_empty() {
            passed.push('.');
        }
        passed.push_str(name);
    }
    *at = value;
    Ok(())
}
