//! What can be wrong with a topology, said so that it can be mended.
//!
//! A file is read in two steps. Text that is not JSON, or JSON of the wrong shape, stops
//! at the first place ([`TopologyError::Json`]). Everything else is collected, so that one
//! run shows all [`Fault`]s of a file.

use std::fmt;
use thiserror::Error;

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place in the file (`components.server.links[3].lanes`), or the full name of a
    /// device when the fault shows only in the machine as a whole.
    pub path: String,
    /// What is there.
    pub found: String,
    /// What belongs there.
    pub expected: String,
    /// The valid name that is closest to what was found.
    pub nearest: Option<String>,
}

impl Fault {
    /// A fault without a suggestion.
    #[must_use]
    pub fn new(
        path: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Fault {
            path: path.into(),
            found: found.into(),
            expected: expected.into(),
            nearest: None,
        }
    }

    /// A name that is none of `known`; `what` says in the plural what those are.
    #[must_use]
    pub fn unknown<'a>(
        path: impl Into<String>,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.collect();
        let expected = match known.len() {
            0 => format!("one of the {what}, of which there are none"),
            1..=LISTED => format!("one of the {what}: {}", known.join(", ")),
            n => format!(
                "one of the {what}: {}, … ({n} in all)",
                known[..LISTED].join(", ")
            ),
        };
        Fault {
            path: path.into(),
            found: format!("`{name}`"),
            expected,
            nearest: nearest(name, known.iter().copied()),
        }
    }
}

/// How many names an error lists before it only counts them.
const LISTED: usize = 12;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.path)?;
        writeln!(f, "    found:    {}", self.found)?;
        write!(f, "    expected: {}", self.expected)?;
        if let Some(name) = &self.nearest {
            write!(f, "\n    did you mean `{name}`?")?;
        }
        Ok(())
    }
}

/// Why there is no topology.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Neither a shipped topology nor a file.
    #[error("{}there is no topology `{name}`{}\nshipped: {}", before(place), did_you_mean_one_of(candidates), known.join(", "))]
    UnknownName {
        /// The file and the place in it that ask for it, or the flag; empty if the caller knows.
        place: String,
        /// What was asked for.
        name: String,
        /// Shipped names that could be meant.
        candidates: Vec<String>,
        /// All shipped names.
        known: Vec<String>,
    },
    /// The text is not JSON, or has a field or type that the format does not know.
    #[error("{origin}, line {line}, column {column}{}\n    {message}{}", at(path), did_you_mean(nearest.as_deref()))]
    Json {
        /// The file, or where else the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column in bytes, from 1; right after the value for a quantity that cannot be read.
        column: usize,
        /// The place in the file; empty at its root.
        path: String,
        /// What is wrong.
        message: String,
        /// The closest valid field or variant.
        nearest: Option<String>,
    },
    /// A file of another program's format does not fit it, or tells of what this program has
    /// no part for.
    #[error("{origin}, line {line}, column {column}\n    found:    {found}\n    expected: {expected}{}", did_you_mean(nearest.as_deref()))]
    Text {
        /// The file, or where else the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: String,
        /// The closest valid name.
        nearest: Option<String>,
    },
    /// The file is well formed, but does not describe a machine.
    #[error("{origin}: {}", list(faults))]
    Faults {
        /// The file, or where else the topology comes from.
        origin: String,
        /// Everything that is wrong, in order of the file.
        faults: Vec<Fault>,
    },
}

impl TopologyError {
    /// The same error, said to come from a place of a file; of names, which no file is read for.
    #[must_use]
    pub fn at(mut self, origin: &str, path: &str) -> Self {
        if let TopologyError::UnknownName { place, .. } = &mut self {
            *place = format!("{origin}, at {path}");
        }
        self
    }

    /// The same error, said to come from `origin`.
    #[must_use]
    pub fn with_origin(mut self, name: &str) -> Self {
        match &mut self {
            TopologyError::Json { origin, .. }
            | TopologyError::Text { origin, .. }
            | TopologyError::Faults { origin, .. } => {
                name.clone_into(origin);
            }
            TopologyError::Read { .. } | TopologyError::UnknownName { .. } => {}
        }
        self
    }

    /// The places in the file that the error names; none if the file cannot be read.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        match self {
            TopologyError::Json { line, column, .. } | TopologyError::Text { line, column, .. } => {
                vec![format!("{line}:{column}")]
            }
            TopologyError::Faults { faults, .. } => faults.iter().map(|f| f.path.clone()).collect(),
            TopologyError::Read { .. } | TopologyError::UnknownName { .. } => Vec::new(),
        }
    }
}

fn at(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!(", at {path}")
    }
}

/// Asks for one of several names.
#[must_use]
pub fn did_you_mean_one_of(candidates: &[String]) -> String {
    match candidates {
        [] => String::new(),
        names => format!("\n    did you mean `{}`?", names.join("` or `")),
    }
}

fn before(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!("{place}: ")
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("\n    did you mean `{name}`?"))
}

/// How many faults are printed before the rest is only counted.
const SHOWN: usize = 50;

fn list(faults: &[Fault]) -> String {
    let mut text = match faults.len() {
        1 => "1 fault".to_owned(),
        n => format!("{n} faults"),
    };
    for fault in faults.iter().take(SHOWN) {
        text.push_str(&format!("\n  {fault}"));
    }
    if faults.len() > SHOWN {
        text.push_str(&format!("\n  … and {} more", faults.len() - SHOWN));
    }
    text
}

/// Names that could be meant: the one that differs only in capitals and marks, those that hold the
/// name or are held by it, else the [`nearest`].
pub fn candidates<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let plain = |text: &str| {
        let letters = text.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect::<String>()
    };
    let wanted = plain(name);
    let all = || known.clone().map(|known| (plain(known), known));
    if let Some((_, same)) = all().find(|(plain, _)| *plain == wanted) {
        return vec![same.to_owned()];
    }
    let long_enough = wanted.len() >= 3;
    let close = |(plain, _): &(String, &str)| {
        long_enough && (plain.contains(&wanted) || wanted.contains(plain.as_str()))
    };
    let close: Vec<String> = all().filter(close).map(|(_, k)| k.to_owned()).collect();
    if close.is_empty() {
        let lower = name.to_ascii_lowercase();
        return nearest(&lower, known).into_iter().collect();
    }
    close
}

/// The one of `known` that is closest to `name`, if any is close enough to be meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    let allowed = (length / 3).max(2);
    // At least so many characters have to be added or taken away. Names from files have any length,
    // and a distance takes as long as the product of two lengths.
    let at_least = |candidate: &str| length.abs_diff(candidate.chars().count());
    known
        .filter(|candidate| at_least(candidate) <= allowed.min(candidate.chars().count()))
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|&(distance, candidate)| {
            distance <= allowed && distance < candidate.chars().count()
        })
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_near_nothing_and_take_no_time() {
        let known = ["all-reduce", "reduce-scatter", "a", "ab"];
        let near = |name: &str| nearest(name, known.into_iter());
        assert_eq!(near("all-reduc").as_deref(), Some("all-reduce"));
        assert_eq!(near("reducescater").as_deref(), Some("reduce-scatter"));
        // Two letters of `ab` differ from two others, and `a` has only one.
        assert_eq!(near("xy"), None);
        // Five megabytes: each comparison would take seconds.
        assert_eq!(near(&"reduce-scatter".repeat(350_000)), None);
    }
}
