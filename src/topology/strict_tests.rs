//! Places of what is not read: lists for objects, names that stand twice.

use crate::load::from_json;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Deserialize)]
struct Inner {
    value: u32,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Plain,
    Named(Inner),
    Open { value: u32 },
}

#[derive(Debug, PartialEq, Deserialize)]
struct Outer {
    #[serde(default)]
    one: Option<Inner>,
    #[serde(default)]
    list: Vec<Inner>,
    #[serde(default)]
    names: BTreeMap<String, Inner>,
    #[serde(default)]
    shape: Option<Shape>,
    #[serde(default)]
    pair: Option<(u32, u32)>,
    #[serde(default)]
    free: serde_json::Value,
}

fn read(text: &str) -> Result<Outer, String> {
    from_json(text, "a.json").map_err(|error| error.to_string())
}

#[test]
fn what_is_right_is_read() {
    let all = read(
        r#"{"one": {"value": 1}, "list": [{"value": 2}], "names": {"a": {"value": 3}},
            "shape": {"named": {"value": 4}}, "pair": [5, 6], "free": {"a": [7, {"b": null}]}}"#,
    )
    .unwrap();
    assert_eq!(all.one, Some(Inner { value: 1 }));
    assert_eq!(all.shape, Some(Shape::Named(Inner { value: 4 })));
    assert_eq!(all.pair, Some((5, 6)));
    assert_eq!(all.free, serde_json::json!({"a": [7, {"b": null}]}));
    assert_eq!(
        read(r#"{"shape": "plain"}"#).unwrap().shape,
        Some(Shape::Plain)
    );
    let open = read(r#"{"shape": {"open": {"value": 1}}}"#).unwrap().shape;
    assert_eq!(open, Some(Shape::Open { value: 1 }));
}

#[test]
fn a_list_is_no_object() {
    for (text, place) in [
        ("[]", "a.json"),
        (r#"{"one": [1]}"#, "at one"),
        (r#"{"list": [[1]]}"#, "at list[0]"),
        (r#"{"names": {"a": [1]}}"#, "at names.a"),
        (r#"{"shape": {"named": [1]}}"#, "at shape.named"),
        (r#"{"shape": {"open": [1]}}"#, "at shape.open"),
    ] {
        let said = read(text).unwrap_err();
        assert!(
            said.contains("invalid type: sequence, expected an object"),
            "{text}: {said}"
        );
        assert!(said.contains(place), "{text}: {said}");
    }
}

#[test]
fn a_name_stands_once() {
    for (text, name, place) in [
        (r#"{"pair": null, "pair": [1, 2]}"#, "pair", "a.json"),
        (
            r#"{"names": {"a": {"value": 1}, "a": {"value": 2}}}"#,
            "a",
            "at names",
        ),
        (r#"{"free": [{"x": 1, "x": 1}]}"#, "x", "at free"),
    ] {
        let said = read(text).unwrap_err();
        assert!(
            said.contains(&format!("the name `{name}` stands twice")),
            "{text}: {said}"
        );
        assert!(said.contains(place), "{text}: {said}");
    }
}
