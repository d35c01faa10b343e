//! How a value is written, in words of a reference: `text`, `list of [Time](#time), as "10us"`.

use super::names::{Names, referred};
use serde_json::{Map, Value};

/// What stands between forms of which one is chosen.
const OR: &str = " or ";

/// How a value that fits a schema is written.
pub(super) fn kind(schema: &Value, names: &Names<'_>) -> String {
    let Some(object) = schema.as_object() else {
        return "any value".to_owned();
    };
    if let Some(name) = object.get("$ref").and_then(referred) {
        return names.link(name);
    }
    if let Some(value) = object.get("const") {
        return code(value);
    }
    if let Some(values) = list(object, "enum") {
        return values.iter().map(code).collect::<Vec<_>>().join(OR);
    }
    if let Some(forms) = list(object, "anyOf").or_else(|| list(object, "oneOf")) {
        let forms = forms.iter().filter(|form| !is_null(form));
        return forms.map(|f| kind(f, names)).collect::<Vec<_>>().join(OR);
    }
    let types = match object.get("type") {
        Some(Value::String(one)) => vec![&**one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => return "any value".to_owned(),
    };
    let types = types.into_iter().filter(|&name| name != "null");
    let words = types.map(|name| of_type(name, object, names));
    words.collect::<Vec<_>>().join(OR)
}

/// Whether only `null` fits: a field that may be absent has that beside what it is.
pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

/// A value as it stands in a file.
pub(super) fn code(value: &Value) -> String {
    format!("`{value}`")
}

fn list<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Vec<Value>> {
    object.get(key)?.as_array()
}

fn of_type(name: &str, object: &Map<String, Value>, names: &Names<'_>) -> String {
    match name {
        "string" => "text".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        "integer" => integer(object),
        "array" => array(object, names),
        "object" => match object.get("additionalProperties") {
            Some(inner @ Value::Object(_)) => {
                format!("object: {} by name", kind(inner, names))
            }
            Some(Value::Bool(false)) if !object.contains_key("properties") => "`{}`".to_owned(),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    }
}

fn integer(object: &Map<String, Value>) -> String {
    let bound = |key: &str| object.get(key).and_then(Value::as_i64);
    match (bound("minimum"), bound("maximum")) {
        (Some(0), _) => "whole number".to_owned(),
        (Some(least), Some(most)) => format!("whole number from {least} to {most}"),
        (Some(least), None) => format!("whole number, {least} or more"),
        (None, _) => "integer".to_owned(),
    }
}

fn array(object: &Map<String, Value>, names: &Names<'_>) -> String {
    if let Some(parts) = list(object, "prefixItems") {
        let parts: Vec<_> = parts.iter().map(|part| kind(part, names)).collect();
        return format!("list `[…]` of {}", parts.join(" and "));
    }
    let bound = |key: &str| object.get(key).and_then(Value::as_u64);
    let number = match (bound("minItems"), bound("maxItems")) {
        (Some(least), Some(most)) if least == most => format!("{least} × "),
        _ => String::new(),
    };
    let Some(items) = object.get("items") else {
        return "list".to_owned();
    };
    let item = kind(items, names);
    match items.get("type").is_some_and(Value::is_array) {
        true => format!("list of {number}({item})"),
        false => format!("list of {number}{item}"),
    }
}
