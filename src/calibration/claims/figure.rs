//! A figure: a number, a place in a command's document, or a calculation with such.

use super::Given;
use super::range::{Point, mark};
use fabricsim_units::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// A figure of a rule.
///
/// In a file: a number; `"label:/a/0/b"`, a place in what the command of that label printed (a JSON
/// pointer, in which `key=value` is the first entry of a list with that value, `1M` for 1048576, and
/// `*` stands for all entries, whose sum is the figure); `"label:nvlink5#2"`, the
/// third number in the first line with `nvlink5` of one that prints text; `"{nodes}"`, the value of a
/// range; or a list of an operator and figures: `["/", "slow:/step_s", "fast:/step_s"]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum Figure {
    /// A number.
    Number(f64),
    /// A place in a command's document.
    Place(Place),
    /// The value of the range of this name.
    Range(String),
    /// A calculation.
    Of(Operator, Vec<Figure>),
}

/// A place in what a command printed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Place {
    /// Which command.
    pub(crate) label: String,
    /// Where in what it printed.
    at: At,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq)]
enum At {
    /// At a JSON pointer; the empty one is all that was printed, a text too.
    Pointer(String),
    /// A number in the first line of a text that holds this, counted from 0.
    Line(String, usize),
}

/// What is done with figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Sum,
    Difference,
    Product,
    Ratio,
    /// The largest of all.
    Most,
    /// How many entries a list has.
    Count,
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once(':').map(|(label, place)| {
            let at = match place.rsplit_once('#') {
                Some((line, at)) if !place.starts_with('/') => {
                    At::Line(line.to_owned(), at.parse().ok()?)
                }
                None if place.is_empty() || place.starts_with('/') => At::Pointer(place.to_owned()),
                _ => return None,
            };
            let label = label.to_owned();
            Some(Place { label, at })
        });
        let expected = "expected `label:/json/pointer` or `label:text of a line#0`";
        parts
            .flatten()
            .ok_or_else(|| format!("`{text}`; {expected}"))
    }
}

impl TryFrom<Value> for Figure {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::Number(number) => number
                .as_f64()
                .map(Figure::Number)
                .ok_or_else(|| format!("{number} is too large")),
            Value::String(text) => match range_of(&text) {
                Some(name) => Ok(Figure::Range(name.to_owned())),
                None => text.try_into().map(Figure::Place),
            },
            Value::Array(parts) => {
                let mut parts = parts.into_iter();
                let name = parts.next().unwrap_or_default();
                let operator = match name.as_str() {
                    Some("+") => Operator::Sum,
                    Some("-") => Operator::Difference,
                    Some("*") => Operator::Product,
                    Some("/") => Operator::Ratio,
                    Some("max") => Operator::Most,
                    Some("count") => Operator::Count,
                    _ => {
                        return Err(format!(
                            "{name}; expected \"+\", \"-\", \"*\", \"/\", \"max\", \"count\""
                        ));
                    }
                };
                let figures: Vec<Figure> = parts.map(Figure::try_from).collect::<Result<_, _>>()?;
                let enough = match operator {
                    Operator::Count => matches!(figures[..], [Figure::Place(_)]),
                    Operator::Difference | Operator::Ratio => figures.len() == 2,
                    _ => figures.len() >= 2,
                };
                if !enough {
                    return Err(format!("{name} with {} figures", figures.len()));
                }
                Ok(Figure::Of(operator, figures))
            }
            other => Err(format!(
                "{other}; expected a number, a place or a calculation"
            )),
        }
    }
}

/// The range that a text is the name of: of `{nodes}`, `nodes`.
fn range_of(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}')
}

impl Figure {
    /// It at a point of the ranges.
    pub(crate) fn at(&self, point: &Point) -> Self {
        match self {
            Figure::Number(number) => Figure::Number(*number),
            Figure::Place(place) => Figure::Place(place.at(point)),
            Figure::Range(name) => match point.value(name).and_then(|value| value.parse().ok()) {
                Some(number) => Figure::Number(number),
                None => self.clone(),
            },
            Figure::Of(operator, parts) => {
                let parts = parts.iter().map(|part| part.at(point));
                Figure::Of(*operator, parts.collect())
            }
        }
    }

    /// Whether it names a range.
    pub(crate) fn names(&self, range: &str) -> bool {
        match self {
            Figure::Number(_) => false,
            Figure::Place(place) => place.names(range),
            Figure::Range(name) => name == range,
            Figure::Of(_, parts) => parts.iter().any(|part| part.names(range)),
        }
    }

    /// Its number.
    ///
    /// # Errors
    /// A place where no number stands, for people.
    pub(crate) fn number(&self, given: &Given) -> Result<f64, String> {
        let number = match self {
            Figure::Number(number) => *number,
            Figure::Range(name) => return Err(format!("`{name}` has no value that is a number")),
            Figure::Place(Place {
                label,
                at: At::Pointer(pointer),
            }) if pointer.contains("/*") => {
                let (list, rest) = pointer.split_once("/*").unwrap_or_default();
                let at = |pointer: String| Place {
                    label: label.clone(),
                    at: At::Pointer(pointer),
                };
                let entries = at(list.to_owned())
                    .find(given)?
                    .as_array()
                    .map_or(0, Vec::len);
                let each = (0..entries).map(|n| at(format!("{list}/{n}{rest}")));
                each.map(|place| Figure::Place(place).number(given))
                    .sum::<Result<f64, _>>()?
            }
            Figure::Place(place) => {
                let found = place.find(given)?;
                match &place.at {
                    At::Pointer(_) => found.as_f64().or_else(|| number_of(found.as_str()?)),
                    At::Line(line, at) => number_in(found.as_str().unwrap_or_default(), line, *at),
                }
                .ok_or_else(|| format!("there is no number at {place}"))?
            }
            Figure::Of(Operator::Count, parts) => {
                let [Figure::Place(place)] = &parts[..] else {
                    return Err("a count of no list".into());
                };
                let found = place.find(given)?;
                let entries = found.as_array().map(Vec::len);
                entries.ok_or_else(|| format!("{place} is no list"))? as f64
            }
            Figure::Of(operator, parts) => {
                let numbers: Vec<f64> = parts
                    .iter()
                    .map(|part| part.number(given))
                    .collect::<Result<_, _>>()?;
                match (operator, &numbers[..]) {
                    (Operator::Difference, [a, b]) => a - b,
                    (Operator::Ratio, [a, b]) => a / b,
                    (Operator::Product, all) => all.iter().product(),
                    (Operator::Most, all) => all.iter().copied().fold(f64::MIN, f64::max),
                    (_, all) => all.iter().sum(),
                }
            }
        };
        match number.is_finite() {
            true => Ok(number),
            false => Err("a figure divided by nothing".into()),
        }
    }

    /// The labels of the commands that it is from.
    pub(crate) fn labels(&self) -> Vec<&str> {
        match self {
            Figure::Number(_) | Figure::Range(_) => Vec::new(),
            Figure::Place(place) => vec![&place.label],
            Figure::Of(_, parts) => parts.iter().flat_map(Figure::labels).collect(),
        }
    }

    /// The ratio of two figures that commands gave.
    pub(crate) fn is_ratio(&self) -> bool {
        let Figure::Of(Operator::Ratio, parts) = self else {
            return false;
        };
        parts.iter().all(|part| !part.is_given())
    }

    /// It is a number of the rule itself.
    pub(crate) fn is_given(&self) -> bool {
        self.labels().is_empty()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.at {
            At::Pointer(pointer) => write!(out, "{}:{pointer}", self.label),
            At::Line(line, at) => write!(out, "{}:{line}#{at}", self.label),
        }
    }
}

/// A number of the first line that holds a text: of the words that begin with a digit.
fn number_in(text: &str, line: &str, at: usize) -> Option<f64> {
    let line = text.lines().find(|l| l.contains(line))?;
    line.split_whitespace().filter_map(number_of).nth(at)
}

/// The number that a word begins with, such as one with a unit: `3.35TB/s`.
fn number_of(word: &str) -> Option<f64> {
    let ends = |c: char| !c.is_ascii_digit() && c != '.';
    let end = word.find(ends).unwrap_or(word.len());
    word[..end].parse().ok()
}

impl Place {
    /// It at a point of the ranges.
    pub(crate) fn at(&self, point: &Point) -> Self {
        let at = match &self.at {
            At::Pointer(pointer) => At::Pointer(point.fill(pointer)),
            At::Line(line, at) => At::Line(point.fill(line), *at),
        };
        let label = point.fill(&self.label);
        Place { label, at }
    }

    /// Whether it names a range.
    pub(crate) fn names(&self, range: &str) -> bool {
        let (At::Pointer(text) | At::Line(text, _)) = &self.at;
        [text, &self.label]
            .into_iter()
            .any(|text| text.contains(&mark(range)))
    }

    /// What stands there; of a line, the whole text.
    ///
    /// # Errors
    /// A command or place that is not there, for people.
    pub(crate) fn find<'a>(&self, given: &Given<'a>) -> Result<&'a Value, String> {
        let ran = given.get(self.label.as_str());
        let ran = ran.ok_or_else(|| format!("no command `{}`", self.label))?;
        let mut at = &ran.document;
        let At::Pointer(pointer) = &self.at else {
            return Ok(at);
        };
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match at {
                Value::Object(fields) => fields.get(&part),
                Value::Array(entries) => match part.split_once('=') {
                    Some((key, value)) => entries
                        .iter()
                        .find(|entry| is(entry.pointer(&format!("/{key}")), value)),
                    None => part.parse().ok().and_then(|at: usize| entries.get(at)),
                },
                _ => None,
            };
            at = next.ok_or_else(|| format!("{self}: there is no `{part}`"))?;
        }
        Ok(at)
    }
}

/// A value is written so.
fn is(found: Option<&Value>, value: &str) -> bool {
    match found {
        Some(Value::String(text)) => text == value,
        Some(other) => {
            let same = value.parse().is_ok_and(|value: Value| value == *other);
            let size = Bytes::parse_flag(value).ok().map(Bytes::get);
            same || (size.is_some() && size == other.as_u64())
        }
        None => false,
    }
}
