//! Quotes of comma-separated values, as RFC 4180 has them.
//!
//! Readers of such values take nearly anything: a quote that nothing closes takes all rows below it into its
//! cell, and `"30"5` is read as `305`. Whoever reads a file of people or programs follows its quotes first.

use thiserror::Error;

/// Where in a text of comma-separated values one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where a cell begins.
    Begin,
    /// In a cell without quotes, where a quote is a character like any other.
    Plain,
    /// In a quoted one.
    Quoted,
    /// Behind a quote that may have ended it.
    Closed,
}

/// A quote that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: found {found}; expected {expected}")]
pub struct Misquoted {
    /// In which line of what was read, from 1.
    pub line: u64,
    /// What stands there.
    pub found: String,
    /// What belongs there.
    pub expected: &'static str,
}

/// Follows the quotes of comma-separated values through their text, which may come in parts.
#[derive(Debug)]
pub struct Quotes {
    separator: char,
    place: Place,
    line: u64,
    /// The line in which the last quote was opened.
    opened: u64,
}

impl Quotes {
    /// At the beginning of a text whose cells this character separates.
    #[must_use]
    pub const fn new(separator: char) -> Self {
        Quotes {
            separator,
            place: Place::Begin,
            line: 1,
            opened: 1,
        }
    }

    /// Goes on over more of the text.
    ///
    /// # Errors
    /// A character that cannot stand behind a quoted cell.
    pub fn read(&mut self, text: &str) -> Result<(), Misquoted> {
        for found in text.chars() {
            self.place = match (self.place, found) {
                (Place::Quoted, '"') => Place::Closed,
                (Place::Quoted, _) | (Place::Closed, '"') => Place::Quoted,
                (Place::Begin, '"') => {
                    self.opened = self.line;
                    Place::Quoted
                }
                (_, '\n') => Place::Begin,
                (_, found) if found == self.separator => Place::Begin,
                (Place::Closed, '\r') => Place::Closed,
                (Place::Closed, found) => {
                    return Err(Misquoted {
                        line: self.line,
                        found: format!("`{found}` behind a quoted cell"),
                        expected: "a separator or the end of the line; a quote in a quoted cell is doubled",
                    });
                }
                (Place::Begin | Place::Plain, _) => Place::Plain,
            };
            if found == '\n' {
                self.line += 1;
            }
        }
        Ok(())
    }

    /// Whether a quoted cell goes on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.place == Place::Quoted
    }

    /// The text is over.
    ///
    /// # Errors
    /// A quoted cell goes on.
    pub fn end(&self) -> Result<(), Misquoted> {
        match self.is_open() {
            false => Ok(()),
            true => Err(Misquoted {
                line: self.opened,
                found: "a quote that nothing closes".to_owned(),
                expected: "`\"` behind the cell",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, separator: char) -> Result<(), (u64, String)> {
        let mut quotes = Quotes::new(separator);
        let read = quotes.read(text).and_then(|()| quotes.end());
        read.map_err(|wrong| (wrong.line, wrong.found))
    }

    #[test]
    fn quotes_in_order_are_passed_by() {
        for text in [
            "",
            "a,b\n1,2\n",
            "\"a\",\"b, \"\"c\"\"\nd\"\r\n1,\"\"\n",
            "NAME{gpu=\"0\"},b\n1, \"2\"x\n",
            "\"a\"",
        ] {
            assert_eq!(read(text, ','), Ok(()), "{text}");
        }
        assert_eq!(read("\"a\";\"b\"\n", ';'), Ok(()));
    }

    #[test]
    fn others_are_told_by_their_line() {
        for (text, line, found) in [
            ("a,b\n1,\"2\"3\n", 2, "`3` behind a quoted cell"),
            ("\"a\n\";b\n", 2, "`;` behind a quoted cell"),
            ("a\n\n1,\"2\n3\n4\n", 3, "a quote that nothing closes"),
        ] {
            assert_eq!(read(text, ','), Err((line, found.to_owned())), "{text}");
        }
    }
}
