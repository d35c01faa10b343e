//! Elements of an XML file, with places for errors.

use crate::TopologyError;
use crate::error::nearest;
use roxmltree::{Document, Node};

/// Files nested deeper than any machine are refused: reading them would recurse as deep.
const MAX_DEPTH: usize = 64;

/// Reads a file and its root element, which must be called `root`.
pub fn read<'t>(text: &'t str, origin: &str, root: &str) -> Result<Document<'t>, TopologyError> {
    if let Some((line, column)) = too_deep(text) {
        return Err(TopologyError::Text {
            origin: origin.to_owned(),
            line,
            column,
            found: format!("elements nested more than {MAX_DEPTH} deep"),
            expected: "a machine's devices, a few levels deep".into(),
            nearest: None,
        });
    }
    let document = Document::parse(text).map_err(|error| {
        let place = error.pos();
        let words = error.to_string();
        // The place is a field of its own; the message repeats it at its end.
        let words = words.split(" at ").next().unwrap_or(&words).to_owned();
        TopologyError::Text {
            origin: origin.to_owned(),
            line: place.row as usize,
            column: place.col as usize,
            found: format!("text that is no XML: {words}"),
            expected: format!("a well-formed `<{root}>` element"),
            nearest: None,
        }
    })?;
    let element = Element {
        node: document.root_element(),
        origin,
    };
    if element.name() != root {
        let found = format!("`<{}>`", element.name());
        return Err(element.misfit(found, format!("`<{root}>`")));
    }
    Ok(document)
}

/// Where tags open more levels than a machine has. One pass without recursion; it ends where the text is no XML, for
/// there the parser ends, too.
fn too_deep(text: &str) -> Option<(usize, usize)> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(before) = text[at..].find('<') {
        at += before;
        let (tag, length) = Markup::read(&text[at..])?;
        match tag {
            Markup::Opens => depth += 1,
            Markup::Closes => depth = depth.saturating_sub(1),
            Markup::Neither => {}
        }
        if depth > MAX_DEPTH {
            let line = text[..at].matches('\n').count() + 1;
            let column = text[..at].chars().rev().take_while(|&c| c != '\n').count() + 1;
            return Some((line, column));
        }
        at += length;
    }
    None
}

/// What stands in angle brackets.
enum Markup {
    /// The beginning of an element.
    Opens,
    /// The end of one.
    Closes,
    /// A whole element without contents, a comment, plain text, an instruction.
    Neither,
}

impl Markup {
    /// What a text begins with, and how many bytes it has; nothing of what does not end, and of a document type,
    /// which is not read.
    fn read(text: &str) -> Option<(Markup, usize)> {
        let until =
            |begin: &str, end: &str| Some(begin.len() + text[begin.len()..].find(end)? + end.len());
        for (begin, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")] {
            if text.starts_with(begin) {
                return Some((Markup::Neither, until(begin, end)?));
            }
        }
        if text.starts_with("</") {
            return Some((Markup::Closes, until("</", ">")?));
        }
        if text.starts_with("<!") {
            return None;
        }
        let bytes = text.as_bytes();
        let mut quote = None;
        for (at, &byte) in bytes.iter().enumerate().skip(1) {
            match (quote, byte) {
                (Some(open), _) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'<') => return None,
                (None, b'>') => {
                    let tag = match bytes[at - 1] {
                        b'/' => Markup::Neither,
                        _ => Markup::Opens,
                    };
                    return Some((tag, at + 1));
                }
                (None, _) => {}
            }
        }
        None
    }
}

/// An element of a file.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    node: Node<'a, 'a>,
    origin: &'a str,
}

impl<'a> Element<'a> {
    /// The root of a file.
    pub fn root(document: &'a Document<'a>, origin: &'a str) -> Self {
        Element {
            node: document.root_element(),
            origin,
        }
    }

    /// Its tag.
    pub fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    /// The elements in it.
    pub fn children(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let origin = self.origin;
        self.node
            .children()
            .filter(Node::is_element)
            .map(move |node| Element { node, origin })
    }

    /// Children of this name.
    pub fn all(&self, name: &'a str) -> impl Iterator<Item = Element<'a>> + use<'a> {
        self.children().filter(move |child| child.name() == name)
    }

    /// An attribute as it is written, if it is there.
    pub fn text(&self, attribute: &str) -> Option<&'a str> {
        self.node.attribute(attribute)
    }

    /// Line and column, from 1.
    pub fn place(&self) -> (usize, usize) {
        let place = self.node.document().text_pos_at(self.node.range().start);
        (place.row as usize, place.col as usize)
    }

    /// A fault of this element.
    pub fn misfit(&self, found: impl Into<String>, expected: impl Into<String>) -> TopologyError {
        let (line, column) = self.place();
        TopologyError::Text {
            origin: self.origin.to_owned(),
            line,
            column,
            found: found.into(),
            expected: expected.into(),
            nearest: None,
        }
    }

    /// A name that is none of `known`, which are called `what`.
    pub fn unknown(&self, found: &str, what: &str, known: &[&str]) -> TopologyError {
        let (line, column) = self.place();
        TopologyError::Text {
            origin: self.origin.to_owned(),
            line,
            column,
            found: format!("`{found}`"),
            expected: format!("{what}: {}", known.join(", ")),
            nearest: nearest(found, known.iter().copied()),
        }
    }

    /// An attribute that must be there.
    pub fn required(&self, attribute: &str) -> Result<&'a str, TopologyError> {
        self.text(attribute).ok_or_else(|| {
            let names: Vec<&str> = self.node.attributes().map(|a| a.name()).collect();
            let (line, column) = self.place();
            TopologyError::Text {
                origin: self.origin.to_owned(),
                line,
                column,
                found: format!("`<{}>` without `{attribute}`", self.name()),
                expected: format!("an attribute `{attribute}`"),
                nearest: nearest(attribute, names.into_iter()),
            }
        })
    }

    /// A number of an attribute; absent if the attribute is.
    pub fn number<T: std::str::FromStr>(
        &self,
        attribute: &str,
    ) -> Result<Option<T>, TopologyError> {
        let Some(text) = self.text(attribute) else {
            return Ok(None);
        };
        text.trim().parse().map(Some).map_err(|_| {
            self.misfit(
                format!("{attribute}=\"{text}\""),
                format!("a number in `{attribute}` of `<{}>`", self.name()),
            )
        })
    }

    /// A number that must be there.
    pub fn required_number<T: std::str::FromStr>(
        &self,
        attribute: &str,
    ) -> Result<T, TopologyError> {
        self.required(attribute)?;
        match self.number(attribute)? {
            Some(number) => Ok(number),
            None => Err(self.misfit(format!("no `{attribute}`"), "a number")),
        }
    }
}

/// Text as it stands between quotes in an attribute.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn levels_are_counted_as_the_parser_counts_them() {
        let nested = |tag: &str, count: usize| format!("<r>{}", tag.repeat(count));
        for tag in [
            "<a b=\">\">",
            "<a b='/'>",
            "<a b=\"/>\">",
            "<a><!-- </a> --><![CDATA[</a>]]><? </a> ?>",
        ] {
            assert!(too_deep(&nested(tag, MAX_DEPTH - 1)).is_none(), "{tag}");
            assert!(too_deep(&nested(tag, MAX_DEPTH)).is_some(), "{tag}");
        }
        for tag in [
            "<a b=\">\"/>",
            "<a></a>",
            "<!-- <a> -->",
            "<![CDATA[<a>]]>",
            "<? <a> ?>",
        ] {
            assert!(too_deep(&nested(tag, 1000)).is_none(), "{tag}");
        }
        assert_eq!(too_deep(&nested("\n<a>", MAX_DEPTH)), Some((65, 1)));
    }

    #[test]
    fn brackets_without_an_end_are_looked_at_once() {
        let began = Instant::now();
        for text in ["<a", "<a \"", "<!--", "<![CDATA[", "<?", "</", "<!", "<a/"] {
            assert!(too_deep(&text.repeat(1_000_000)).is_none(), "{text}");
        }
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
