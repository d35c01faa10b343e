//! Values put into JSON text by their places, all else left as it is: order, line breaks, spaces.
//!
//! Texts here are JSON already; what a value makes of the file is for its reader to judge.

use serde::de::IgnoredAny;
use serde_json::Value;
use std::ops::Range;

/// Puts a value at a place (`instances.0.count`: names and numbers joined by dots) of a JSON text.
/// `value` is JSON if it can be read as such, else a string. Objects on the way are made where there
/// is nothing.
///
/// # Errors
/// What is wrong with the place, and what belongs there.
pub(super) fn put(text: &str, path: &str, value: &str) -> Result<String, String> {
    let value = match serde_json::from_str::<Value>(value) {
        Ok(_) => value.trim().to_owned(),
        Err(_) => Value::from(value).to_string(),
    };
    let names: Vec<&str> = path.split('.').collect();
    let mut at = value_at(text, 0);
    for (depth, &name) in names.iter().enumerate() {
        let passed = names[..depth].join(".");
        let inner = || nested(&names[depth + 1..], &value);
        at = match text.as_bytes().get(at.start) {
            Some(b'{') => {
                let members = members(text, &at);
                match members.iter().find(|member| member.name == name) {
                    Some(member) => member.value.clone(),
                    None => return Ok(with_member(text, &at, &members, name, &inner())),
                }
            }
            Some(b'[') => {
                let mut list = elements(text, &at);
                let length = list.len();
                match name.parse::<usize>() {
                    Ok(number) if number < length => list.swap_remove(number),
                    _ => {
                        return Err(format!(
                            "`{passed}` is a list of {length}, and `{name}` no number below that"
                        ));
                    }
                }
            }
            Some(b'n') => return Ok(spliced(text, at, &nested(&names[depth..], &value))),
            _ => {
                let found = &text[at];
                return Err(format!(
                    "`{passed}` is {found}, which has no field `{name}`"
                ));
            }
        };
    }
    Ok(spliced(text, at, &value))
}

/// A field of an object.
struct Member {
    name: String,
    /// Where its name begins, with the quotation mark.
    start: usize,
    value: Range<usize>,
}

/// The value in objects of these names, one in the other.
fn nested(names: &[&str], value: &str) -> String {
    names.iter().rev().fold(value.to_owned(), |inner, name| {
        format!("{{ {}: {inner} }}", Value::from(*name))
    })
}

fn spliced(text: &str, at: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..at.start], &text[at.end..])
}

/// The text with one more field at the end of an object, written as those before it are.
fn with_member(
    text: &str,
    object: &Range<usize>,
    members: &[Member],
    name: &str,
    value: &str,
) -> String {
    let field = format!("{}: {value}", Value::from(name));
    let Some(last) = members.last() else {
        return spliced(text, object.clone(), &format!("{{ {field} }}"));
    };
    let lines = text[last.value.end..object.end].contains('\n');
    let between = if lines {
        let line = text[..last.start].rfind('\n').map_or(0, |at| at + 1);
        let indent = text[line..last.start].chars();
        let indent: String = indent.take_while(|c| c.is_whitespace()).collect();
        format!(",\n{indent}")
    } else {
        ", ".to_owned()
    };
    let end = last.value.end;
    spliced(text, end..end, &format!("{between}{field}"))
}

/// The fields of an object.
fn members(text: &str, object: &Range<usize>) -> Vec<Member> {
    let mut members = Vec::new();
    let mut at = object.start + 1;
    while let Some(name) = next_in(text, at) {
        let colon = text[name.end..]
            .find(':')
            .map_or(name.end, |c| name.end + c);
        let value = value_at(text, colon + 1);
        at = value.end;
        members.push(Member {
            name: serde_json::from_str(&text[name.clone()]).unwrap_or_default(),
            start: name.start,
            value,
        });
    }
    members
}

/// The values of a list.
fn elements(text: &str, list: &Range<usize>) -> Vec<Range<usize>> {
    let mut elements = Vec::new();
    let mut at = list.start + 1;
    while let Some(value) = next_in(text, at) {
        at = value.end;
        elements.push(value);
    }
    elements
}

/// The next name or value of an object or a list, behind a comma if there is one; nothing at its
/// end.
fn next_in(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
    if rest.is_empty() || rest.starts_with(['}', ']']) {
        return None;
    }
    Some(value_at(text, text.len() - rest.len()))
}

/// Where the value stands that begins at or behind `at`.
fn value_at(text: &str, at: usize) -> Range<usize> {
    let rest = text[at..].trim_start();
    let start = text.len() - rest.len();
    // The parser says where its first value ends.
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
    let length = match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => rest.len(),
    };
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "name": "x",
  "list": [{ "count": 1 }, {"count": 2}],
  "empty": {}, "nothing": null,
  "shape": {
    "rails": { "units": 32 }
  }
}
"#;

    fn changed(path: &str, value: &str, from: &str, to: &str) {
        let after = put(TEXT, path, value).unwrap();
        assert_eq!(after, TEXT.replace(from, to), "{path}={value}");
        let value: Value = serde_json::from_str(&after).unwrap();
        assert!(value.is_object());
    }

    #[test]
    fn a_value_changes_and_nothing_else() {
        changed("name", "y", r#""x""#, r#""y""#);
        changed("list.1.count", "40", r#"{"count": 2}"#, r#"{"count": 40}"#);
        changed("shape.rails.units", "4", "32", "4");
        changed(
            "shape.rails",
            r#"{"a": {}}"#,
            r#"{ "units": 32 }"#,
            r#"{"a": {}}"#,
        );
        changed("list", "[ ]", r#"[{ "count": 1 }, {"count": 2}]"#, "[ ]");
    }

    #[test]
    fn a_new_field_is_written_as_those_beside_it() {
        changed("shape.rails.over", "2.0", "32 }", "32, \"over\": 2.0 }");
        changed("empty.a", "1", r#""empty": {}"#, r#""empty": { "a": 1 }"#);
        changed("nothing.a", "b", "null", r#"{ "a": "b" }"#);
        let more = "{ \"units\": 32 },\n    \"a\": { \"b\": true }";
        changed("shape.a.b", "true", r#"{ "units": 32 }"#, more);
        let added = put(TEXT, "a.b", "1").unwrap();
        assert!(
            added.ends_with("  },\n  \"a\": { \"b\": 1 }\n}\n"),
            "{added}"
        );
    }

    #[test]
    fn what_is_no_place_is_told() {
        let said = |path: &str| put(TEXT, path, "1").unwrap_err();
        assert_eq!(said("name.a"), r#"`name` is "x", which has no field `a`"#);
        let list = "`list` is a list of 2, and `2` no number below that";
        assert_eq!(said("list.2.count"), list);
        assert!(said("list.a").contains("`a` no number"));
    }
}
