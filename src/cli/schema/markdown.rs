//! A schema as a page to read: every definition once, its fields or forms in a table.

use super::kind::{code, is_null, kind};
use super::names::{Elsewhere, Names, Place, places};
use serde_json::{Map, Value};
use std::fmt::Write;

/// What a page is made from.
pub(super) struct Page<'s> {
    /// Its heading.
    pub(super) title: &'s str,
    /// How `fabricsim schema` calls its format.
    pub(super) format: &'s str,
    /// The format.
    pub(super) schema: &'s Value,
    /// Pages that describe some of its definitions already.
    pub(super) elsewhere: &'s [Elsewhere],
}

/// A row of a table.
struct Row {
    field: String,
    kind: String,
    default: String,
    meaning: String,
}

/// The page: the whole file first, then what it refers to, in the order of the schema.
pub(super) fn reference(page: &Page<'_>) -> String {
    let none = Map::new();
    let own = page.schema["$defs"].as_object().unwrap_or(&none);
    let names = Names::new(own, page.elsewhere);
    let places = places(page.schema);
    let mut text = introduction(page);
    let root = page.schema["title"].as_str().unwrap_or(page.title);
    definition(&mut text, root, "The whole file.", page.schema, &names);
    for (name, schema) in names.described() {
        let place = places.get(name).map(standing).unwrap_or_default();
        definition(&mut text, name, &place, schema, &names);
    }
    text
}

/// How tables are read.
const READING: &str = "\
A field is **required**, has the default that is shown, or is optional: its meaning says what its absence means.
In paths, `0` stands for the number of an entry of a list, counted from 0, and `NAME` for a name of one's own.
";

/// The same of formats that people write.
const WRITING: &str = "\
Quantities are text with a unit, such as `\"25MiB\"`, `\"400Gb/s\"`, `\"10us\"`; unknown fields are refused.
";

fn introduction(page: &Page<'_>) -> String {
    let Page { title, format, .. } = page;
    let mut text = format!(
        "# {title}\n\nAll fields. This page is what `fabricsim schema {format} --markdown` prints; \
         `fabricsim schema {format}` is the JSON\nSchema for editors.\n\n"
    );
    text.push_str(READING);
    let definitions = page.schema["$defs"].as_object();
    let mut definitions = definitions.into_iter().flatten();
    if definitions.any(|(_, definition)| definition.get("pattern").is_some()) {
        text.push_str(WRITING);
    }
    let files: Vec<_> = page.elsewhere.iter().map(|page| page.file).collect();
    if !files.is_empty() {
        let links: Vec<_> = files.iter().map(|f| format!("[{f}]({f})")).collect();
        let _ = writeln!(text, "What is in {} is linked there.", links.join(" and "));
    }
    text
}

/// Where a definition's values stand.
fn standing(place: &Place) -> String {
    match place.fields {
        1 => format!("At `{}`.", place.path),
        fields => format!("In {fields} fields, such as `{}`.", place.path),
    }
}

fn definition(text: &mut String, name: &str, place: &str, schema: &Value, names: &Names<'_>) {
    let _ = write!(text, "\n## {name}\n\n{place}\n");
    if let Some(said) = schema["description"].as_str() {
        let _ = write!(text, "\n{}\n", plain(said).trim());
        text.push('\n');
    } else {
        text.push('\n');
    }
    let forms = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    if let Some(forms) = forms.and_then(Value::as_array) {
        one_of(text, forms, names);
    } else if schema.get("properties").is_some() {
        table(text, &fields("", schema, names));
    } else {
        let _ = writeln!(text, "Written as {}.", written(schema, names));
    }
}

/// How a value that is no object is written.
fn written(schema: &Value, names: &Names<'_>) -> String {
    let examples = schema["examples"].as_array();
    let examples: Vec<_> = examples.into_iter().flatten().map(code).collect();
    let mut words = kind(schema, names);
    if !examples.is_empty() {
        let _ = write!(words, ": {}", examples.join(", "));
    }
    words
}

/// Forms of which a value has one.
fn one_of(text: &mut String, forms: &[Value], names: &Names<'_>) {
    if forms.iter().all(|form| form.get("const").is_some()) {
        text.push_str("One of:\n\n| value | meaning |\n| --- | --- |\n");
        for form in forms {
            let meaning = meaning(form);
            let _ = writeln!(text, "| {} | {meaning} |", code(&form["const"]));
        }
        return;
    }
    text.push_str("One of these forms:\n\n");
    let forms = forms.iter().filter(|form| !is_null(form));
    let rows: Vec<Row> = forms.flat_map(|form| form_rows(form, names)).collect();
    table(text, &rows);
}

/// A form: a word, an object with the variant's name as its one field, or what has no name.
fn form_rows(form: &Value, names: &Names<'_>) -> Vec<Row> {
    let row = |field: &str, kind: String| Row {
        field: field.to_owned(),
        kind,
        default: String::new(),
        meaning: meaning(form),
    };
    if let Some(word) = form.get("const") {
        return vec![row(&code(word), "this word".to_owned())];
    }
    let Some(variants) = form.get("properties").and_then(Value::as_object) else {
        return vec![row("", kind(form, names))];
    };
    let mut rows = Vec::new();
    for (name, inner) in variants {
        let value = kind(inner, names);
        rows.push(row(&format!("`{name}`"), value));
        rows.extend(fields(&format!("{name}."), inner, names));
    }
    rows
}

/// The fields of an object, and of objects in it that have no name of their own.
fn fields(prefix: &str, schema: &Value, names: &Names<'_>) -> Vec<Row> {
    let required = schema["required"].as_array();
    let required: Vec<_> = required.into_iter().flatten().collect();
    let mut rows = Vec::new();
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let needed = required.iter().any(|&one| one == name.as_str());
        rows.push(Row {
            field: format!("`{prefix}{name}`"),
            kind: kind(field, names),
            default: match field.get("default") {
                Some(Value::Null) => "optional".to_owned(),
                Some(value) => default(value),
                None if needed => "**required**".to_owned(),
                None => "optional".to_owned(),
            },
            meaning: meaning(field),
        });
        rows.extend(self::fields(&format!("{prefix}{name}."), field, names));
    }
    rows
}

/// The longest default that is shown whole.
const LONG: usize = 60;

/// A default; of long ones the outermost fields at most, as those of the rest are in their own tables.
fn default(value: &Value) -> String {
    let whole = code(value);
    let Some(object) = value.as_object().filter(|_| whole.len() > LONG) else {
        return whole;
    };
    let outer = object.iter().map(|(name, inner)| match inner {
        Value::Object(_) => format!("\"{name}\":{{…}}"),
        plain => format!("\"{name}\":{plain}"),
    });
    let outer = outer.collect::<Vec<_>>().join(",");
    match outer.len() > LONG {
        true => "its fields' defaults".to_owned(),
        false => format!("`{{{outer}}}`"),
    }
}

fn table(text: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        text.push_str("It has no fields.\n");
        return;
    }
    text.push_str("| field | written as | default | meaning |\n| --- | --- | --- | --- |\n");
    for row in rows {
        let cells = [&row.field, &row.kind, &row.default, &row.meaning];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// What is said of a field or form, on one line.
fn meaning(schema: &Value) -> String {
    let said = plain(schema["description"].as_str().unwrap_or_default());
    let paragraphs = said.split("\n\n").map(|p| p.trim().replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("<br>")
}

/// Text for people as Markdown: links into the program's source are words, and `<` begins no tag.
fn plain(said: &str) -> String {
    let said = said.replace("[`", "`").replace("`]", "`");
    let parts = said.split('`').enumerate();
    let parts = parts.map(|(i, part)| match i % 2 {
        0 => part.replace('<', "&lt;"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(schema: &Value) -> String {
        reference(&Page {
            title: "Small files",
            format: "small",
            schema,
            elsewhere: &[],
        })
    }

    fn holds(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part}\nis not in\n{text}");
        }
    }

    #[test]
    fn fields_say_how_they_are_written_and_what_they_are_if_absent() {
        let text = page(&json!({
            "title": "SmallSpec",
            "description": "A small file.",
            "type": "object",
            "properties": {
                "count": { "type": "integer", "minimum": 0, "default": 4, "description": "How many:\na|b." },
                "name": { "type": "string", "description": "See [`Name`].\n\nAll <of> it." },
                "wait": {
                    "anyOf": [{ "$ref": "#/$defs/Time" }, { "type": "null" }],
                    "description": "None if absent.",
                },
                "weights": { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "number" } },
                "any": true,
            },
            "required": ["name"],
            "$defs": {
                "Time": { "type": "string", "pattern": "us$", "examples": ["10us", "2ms"], "description": "A time." },
            },
        }));
        holds(
            &text,
            &[
                "# Small files\n",
                "`fabricsim schema small --markdown`",
                "## SmallSpec\n\nThe whole file.\n\nA small file.\n\n| field | written as | default | meaning |\n",
                "| `count` | whole number | `4` | How many: a\\|b. |\n",
                "| `name` | text | **required** | See `Name`.<br>All &lt;of> it. |\n",
                "| `wait` | [Time](#time), as `\"10us\"` | optional | None if absent. |\n",
                "| `weights` | list of 2 × number | optional |  |\n",
                "| `any` | any value | optional |  |\n",
                "## Time\n\nAt `wait`.\n\nA time.\n\nWritten as text: `\"10us\"`, `\"2ms\"`.\n",
            ],
        );
    }

    #[test]
    fn forms_are_listed_with_what_is_in_them() {
        let drawn = json!({
            "type": "object",
            "properties": { "mean": { "type": "number", "description": "The mean." } },
            "required": ["mean"],
        });
        let text = page(&json!({
            "properties": { "law": { "$ref": "#/$defs/Law" }, "make": { "$ref": "#/$defs/Make" } },
            "$defs": {
                "Law": { "oneOf": [
                    { "const": "none", "description": "Nothing." },
                    {
                        "type": "object",
                        "properties": { "drawn": drawn },
                        "required": ["drawn"],
                        "description": "At random.",
                    },
                ] },
                "Length": { "anyOf": [
                    { "type": "integer", "description": "So long." },
                    { "enum": ["auto"], "description": "As long as fits." },
                ] },
                "Make": { "oneOf": [{ "const": "amd", "description": "AMD." }] },
            },
        }));
        holds(
            &text,
            &[
                "| `\"none\"` | this word |  | Nothing. |\n",
                "| `drawn` | object |  | At random. |\n",
                "| `drawn.mean` | number | **required** | The mean. |\n",
                "|  | integer |  | So long. |\n|  | `\"auto\"` |  | As long as fits. |\n",
                "One of:\n\n| value | meaning |\n| --- | --- |\n| `\"amd\"` | AMD. |\n",
            ],
        );
    }

    #[test]
    fn long_defaults_are_cut() {
        let shares =
            json!({ "first": "a name of some length", "second": { "third": "another such name" } });
        let whole = default(&shares);
        assert_eq!(
            whole,
            "`{\"first\":\"a name of some length\",\"second\":{…}}`"
        );
        let words = ["word"; 12].join(" ");
        assert_eq!(default(&json!({ "one": words })), "its fields' defaults");
        assert_eq!(default(&json!({})), "`{}`");
    }
}
