//! What to write where a bare word stands for a variant that has contents.
//!
//! Variants are externally tagged: a machine is `{"name": "dgx-h100"}`. Of `"dgx-h100"` alone serde says that it
//! is no variant, of `"name"` alone that it is none of its kind. Which variants take a text, or what contents are
//! theirs, only the type that reads them knows: so the text is read again with each of them in the word's place,
//! and what goes through there is what was meant.

use serde::de::DeserializeOwned;

/// A word of a JSON text.
struct Word<'a> {
    text: &'a str,
    /// Its first quotation mark.
    start: usize,
    /// The byte after its last one.
    end: usize,
    /// Its place.
    path: &'a str,
}

/// How contents are written, and what serde says of them where that is neither object nor list.
struct Contents {
    written: String,
    kind: Option<String>,
}

/// A message for what serde says of `text`, at a place and at this line and column, if the fault is that a word
/// stands alone where one of the type's variants has contents.
pub(super) fn message<T: DeserializeOwned>(
    text: &str,
    path: &str,
    (line, column): (usize, usize),
    said: &str,
) -> Option<String> {
    let end = offset(text, line, column)?;
    let forms = if said.starts_with("unknown variant ") {
        let word = Word::before(text, end, path)?;
        let (_, known) = said.rsplit_once(", expected ")?;
        let variants = known.split('`').skip(1).step_by(2);
        let with = |variant: &str| tagged(variant, word.literal());
        let takes_it = |variant: &&str| word.rejects::<T>(&with(variant)).is_none();
        let forms: Vec<String> = variants.filter(takes_it).map(with).collect();
        (!forms.is_empty()).then(|| (word.literal().to_owned(), forms.join(" or ")))
    } else if said.starts_with("invalid type: unit variant, expected ") {
        // Known and without contents: its name is the last part of the place, and what closes lists and objects
        // around it may have been read.
        let (path, variant) = path.rsplit_once('.').unwrap_or(("", path));
        let closing = |c: char| c.is_whitespace() || matches!(c, ']' | '}' | ',');
        let end = text.get(..end)?.trim_end_matches(closing).len();
        let word = Word::before(text, end, path).filter(|word| word.says(variant))?;
        let contents = word.contents::<T>(variant);
        let kind = contents.kind.map(|kind| format!(", with {kind}"));
        let form = tagged(variant, &contents.written) + &kind.unwrap_or_default();
        Some((word.literal().to_owned(), form))
    } else {
        None
    };
    let (literal, forms) = forms?;
    Some(format!(
        "found:    {literal} by itself\n    expected: an object: {forms}"
    ))
}

fn tagged(variant: &str, contents: &str) -> String {
    format!("{{\"{variant}\": {contents}}}")
}

/// The byte that follows what stands before this line's column, as serde_json counts both.
fn offset(text: &str, line: usize, column: usize) -> Option<usize> {
    let before = text.split_inclusive('\n').take(line.checked_sub(1)?);
    Some(before.map(str::len).sum::<usize>() + column)
}

impl<'a> Word<'a> {
    /// The one that ends at this byte.
    fn before(text: &'a str, end: usize, path: &'a str) -> Option<Word<'a>> {
        let inner = text.get(..end)?.strip_suffix('"')?;
        let escaped = |at: usize| {
            let backslashes = inner[..at].bytes().rev().take_while(|b| *b == b'\\');
            backslashes.count() % 2 == 1
        };
        let mut quotes = inner.rmatch_indices('"').map(|(at, _)| at);
        let start = quotes.find(|at| !escaped(*at))?;
        Some(Word {
            text,
            start,
            end,
            path,
        })
    }

    /// As it stands there, in its quotation marks.
    fn literal(&self) -> &'a str {
        &self.text[self.start..self.end]
    }

    fn says(&self, word: &str) -> bool {
        serde_json::from_str::<String>(self.literal()).is_ok_and(|own| own == word)
    }

    /// What is said of `instead` in the word's place; nothing if that is read, whatever is said of the rest.
    fn rejects<T: DeserializeOwned>(&self, instead: &str) -> Option<String> {
        let (before, after) = (&self.text[..self.start], &self.text[self.end..]);
        let text = format!("{before}{instead}{after}");
        let (path, error) = super::load::read_strictly::<T>(&text).err()?;
        let inside = path.strip_prefix(self.path);
        let inside = inside.filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        inside
            .or(self.path.is_empty().then_some(""))
            .map(|_| error.to_string())
    }

    /// What belongs to a variant: an object, unless something else is said of one.
    fn contents<T: DeserializeOwned>(&self, variant: &str) -> Contents {
        let said = self.rejects::<T>(&tagged(variant, "{}"));
        let kind = said.as_deref().and_then(|said| {
            let (_, kind) = said.split_once("invalid type: map, expected ")?;
            Some(kind.rsplit_once(" at line ").map_or(kind, |(kind, _)| kind))
        });
        let (written, kind) = match kind {
            None => ("{…}", None),
            Some("a sequence") => ("[…]", None),
            Some("a string") => ("\"…\"", None),
            Some("f32" | "f64") => ("…", Some("a number".to_owned())),
            Some("u8" | "u16" | "u32" | "u64" | "usize") => {
                ("…", Some("a whole number".to_owned()))
            }
            Some(kind) => ("…", Some(kind.to_owned())),
        };
        Contents {
            written: written.to_owned(),
            kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load::from_json;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Machine {
        None,
        Name(#[allow(dead_code)] String),
        Path(#[allow(dead_code)] String),
        Nodes(#[allow(dead_code)] u32),
        List(#[allow(dead_code)] Vec<u32>),
        Inline {
            #[allow(dead_code)]
            gpus: u32,
        },
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Spec {
        #[allow(dead_code)]
        machines: Vec<Machine>,
        #[serde(default)]
        #[allow(dead_code)]
        after: u32,
    }

    fn said(text: &str) -> String {
        from_json::<Spec>(text, "a.json").unwrap_err().to_string()
    }

    #[test]
    fn a_text_alone_is_put_into_the_variants_that_take_one() {
        for (word, literal) in [
            ("dgx", r#""dgx""#),
            (r#"a \"b\" c"#, r#""a \"b\" c""#),
            (r"a\\", r#""a\\""#),
            (r#"a `b`, expected `c`"#, r#""a `b`, expected `c`""#),
        ] {
            // What is wrong further on does not matter.
            let text = format!("{{\"machines\": [\"none\",\n  \"{word}\"], \"wrong\": 1}}");
            let said = said(&text);
            assert!(
                said.starts_with("a.json, line 2, column") && said.contains("at machines[1]"),
                "{said}"
            );
            let found = format!("found:    {literal} by itself");
            let forms = format!("object: {{\"name\": {literal}}} or {{\"path\": {literal}}}");
            assert!(said.contains(&found) && said.ends_with(&forms), "{said}");
        }
    }

    #[test]
    fn a_variants_word_alone_is_written_with_its_contents() {
        for (word, form) in [
            ("name", r#"{"name": "…"}"#),
            ("nodes", r#"{"nodes": …}, with a whole number"#),
            ("list", r#"{"list": […]}"#),
            ("inline", r#"{"inline": {…}}"#),
        ] {
            let said = said(&format!(r#"{{"machines": ["{word}"]}}"#));
            assert!(said.ends_with(&format!("object: {form}")), "{said}");
            assert!(said.contains(&format!("\"{word}\" by itself")), "{said}");
        }
    }

    #[test]
    fn a_misspelt_variant_is_told_its_name() {
        let said = said(r#"{"machines": ["nane"]}"#);
        assert!(
            said.contains("unknown variant `nane`") && said.contains("did you mean `n"),
            "{said}"
        );
    }
}
