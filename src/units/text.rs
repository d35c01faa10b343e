//! Text and numbers from outside, made fit to be shown.
//!
//! Titles, names and values come from files and are quoted in tables, messages and drawings. What
//! a terminal would obey instead of show is written as JSON writes it (`\u001b`), what XML cannot
//! hold is replaced, and what is longer than anyone reads is cut.

use std::borrow::Cow;

/// Characters of a quoted value that a message shows.
const VALUE_SHOWN: usize = 96;
/// Quoted values up to this long are shown whole: paths, lists of names.
const VALUE_WHOLE: usize = 256;
/// Characters of a line of a message.
const LINE_SHOWN: usize = 2000;
/// Lines of a message.
const LINES_SHOWN: usize = 500;

/// Whether a terminal may obey a character, or show other characters in another order for it:
/// control characters (C0, DEL, C1), bidirectional marks, embeddings, overrides and isolates, and
/// separators of lines and paragraphs.
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// `text` with every control character but line feeds and tabs written as JSON writes it. JSON
/// stays JSON: there such characters stand only inside strings.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| 0)
}

/// As [`printable`], but colours and weights (`ESC [ … m`) that this program has put in stay.
#[must_use]
pub fn printable_styled(text: &str) -> Cow<'_, str> {
    escaped(text, style_length)
}

/// The bytes of the colour or weight that `text` begins with, or 0.
fn style_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let parameters = rest
        .bytes()
        .take_while(|b| b.is_ascii_digit() || *b == b';');
    let length = parameters.count();
    if rest[length..].starts_with('m') {
        length + 3
    } else {
        0
    }
}

/// Escapes what is not line feed, tab, or of the bytes that `keep` counts at the start of the
/// rest.
fn escaped(text: &str, keep: impl Fn(&str) -> usize) -> Cow<'_, str> {
    let harmless = |c: char| !is_control(c) || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let kept = keep(rest);
        if kept > 0 {
            out.push_str(&rest[..kept]);
            rest = &rest[kept..];
            continue;
        }
        if harmless(c) {
            out.push(c);
        } else {
            // All of them have one unit of UTF-16.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

/// `text` with U+FFFD for each character that XML 1.0 does not allow in a document (its
/// production 2, `Char`), whatever stands around it.
#[must_use]
pub fn xml(text: &str) -> Cow<'_, str> {
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if text.chars().all(legal) {
        return Cow::Borrowed(text);
    }
    let replaced = |c: char| {
        if legal(c) {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    Cow::Owned(text.chars().map(replaced).collect())
}

/// A message with long values cut, numbers of three hundred digits among them: what stands between two backquotes or two quotation marks of a
/// line, and lines and messages that are longer than anyone reads. Each cut says how long it was.
#[must_use]
pub fn shortened(message: &str) -> String {
    let count = message.lines().count();
    let lines = message.lines().take(LINES_SHOWN);
    let lines: Vec<String> = lines
        .map(|line| without_long_values(&without_long_numbers(line)))
        .map(|line| cut(&line, LINE_SHOWN))
        .collect();
    let mut out = lines.join("\n");
    if count > LINES_SHOWN {
        out.push_str(&format!("\n… and {} more lines", count - LINES_SHOWN));
    }
    out
}

/// Numbers with more digits than this are written with an exponent.
const DIGITS_SHOWN: usize = 32;

fn without_long_numbers(line: &str) -> Cow<'_, str> {
    let part_of = |c: char| c.is_ascii_digit() || c == '.';
    if !line
        .as_bytes()
        .windows(DIGITS_SHOWN + 1)
        .any(|w| w.iter().all(|&b| part_of(b.into())))
    {
        return Cow::Borrowed(line);
    }
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(part_of) {
        let end = rest[start..]
            .find(|c| !part_of(c))
            .map_or(rest.len(), |n| start + n);
        let digits = &rest[start..end];
        out.push_str(&rest[..start]);
        match digits.parse::<f64>() {
            Ok(value) if digits.len() > DIGITS_SHOWN && value.is_finite() => {
                out.push_str(&format!("{value:e}"));
            }
            _ => out.push_str(digits),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn without_long_values(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(['`', '"']) {
        let mark = &rest[start..=start];
        let inside = &rest[start + 1..];
        out.push_str(&rest[..=start]);
        let Some(end) = inside.find(mark) else {
            rest = inside;
            continue;
        };
        let value = &inside[..end];
        if value.chars().nth(VALUE_WHOLE).is_some() {
            out.push_str(&cut(value, VALUE_SHOWN));
        } else {
            out.push_str(value);
        }
        out.push_str(mark);
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    out
}

/// The first `most` characters of `text`, and how many it has if these are not all.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        let hostile = "a\u{1b}[2Jb\u{9b}c\u{202e}d\u{2066}e\rf\u{7f}g";
        let shown = "a\\u001b[2Jb\\u009bc\\u202ed\\u2066e\\u000df\\u007fg";
        assert_eq!(printable(hostile), shown);
        assert_eq!(
            printable("two\nlines\tand ünïcode"),
            "two\nlines\tand ünïcode"
        );
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn colours_stay_and_nothing_else_that_begins_like_them() {
        let own = "\u{1b}[1m8.00\u{1b}[0m \u{1b}[38;5;4mx\u{1b}[0m";
        assert_eq!(printable_styled(own), own);
        let hostile = "\u{1b}[2Jx\u{1b}]0;title\u{7}\u{1b}[31";
        assert_eq!(
            printable_styled(hostile),
            "\\u001b[2Jx\\u001b]0;title\\u0007\\u001b[31"
        );
    }

    #[test]
    fn json_with_control_characters_stays_json() {
        let value = serde_json::json!({"title": "a\u{9b}\u{202e}\u{0}b"});
        let text = serde_json::to_string(&value).unwrap();
        let shown = printable(&text);
        assert!(!shown.chars().any(is_control));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn xml_holds_what_xml_may_hold() {
        assert_eq!(
            xml("a\u{0}b\u{1b}c\u{fffe}d\u{85}\t\n"),
            "a\u{fffd}b\u{fffd}c\u{fffd}d\u{85}\t\n"
        );
        assert!(matches!(xml("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn long_values_are_cut_and_short_messages_are_not() {
        let plain = "unknown field `tpp`, expected one of `tp`, `pp`\n    did you mean `tp`?";
        assert_eq!(shortened(plain), plain);
        let long = "ä".repeat(100_000);
        let message = shortened(&format!("unknown field `{long}`, expected `tp`"));
        assert!(message.chars().count() < 200, "{message}");
        assert!(
            message.ends_with("ä… (100000 characters)`, expected `tp`"),
            "{message}"
        );
        let bare = shortened(&"9".repeat(1_000_000));
        assert!(bare.ends_with("… (1000000 characters)") && bare.len() < 2100);
        let lines = shortened(&"x\n".repeat(10_000));
        assert!(lines.ends_with("… and 9500 more lines"));
    }

    #[test]
    fn numbers_of_many_digits_get_an_exponent() {
        let tiny = format!("found: {}, expected 0 or more", -1e-300);
        assert_eq!(shortened(&tiny), "found: -1e-300, expected 0 or more");
        let large = format!("factor {} of 1.5 and 8589934592", 1e308);
        assert_eq!(shortened(&large), "factor 1e308 of 1.5 and 8589934592");
        let dots = ".".repeat(40);
        assert_eq!(shortened(&dots), dots);
    }
}
