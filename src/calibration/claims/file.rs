//! The file of claims.

use super::range::{Ranges, points};
use super::rule::{Check, Rule};
use fabricsim_topology::error::nearest;
use fabricsim_topology::load::{from_json, read_text};
use fabricsim_topology::{Fault, TopologyError};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// All claims.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Free text.
    pub comment: String,
    /// What claims are of, in the order of the page.
    pub topics: Vec<Topic>,
    /// Scenarios that commands name as `NAME.json`.
    pub scenarios: BTreeMap<String, Value>,
    /// The claims, in the order of their numbers.
    pub claims: Vec<Claim>,
}

/// What claims are of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// In the file.
    pub key: String,
    /// For people.
    pub title: String,
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its number in the list that the project was asked for with.
    pub number: u32,
    /// The key of its topic.
    pub topic: String,
    /// What it says.
    pub claim: String,
    /// The notes' figure, range or mechanism.
    pub figure: String,
    /// What commands and rules name as `{nodes}`: a rule that names a range has to hold for each of
    /// its values, with each of those of other ranges that it names.
    #[serde(default)]
    pub(crate) ranges: Ranges,
    /// Commands of this program without its name, by label; `--json` is put behind each. One that
    /// names a range is run for each of its values.
    #[serde(default)]
    commands: BTreeMap<String, String>,
    /// When what they give is what the claim says: all of these.
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
    /// The claim holds under a condition: what is seen without it.
    #[serde(default)]
    pub(crate) only_if: Option<Reason>,
    /// The claim, or the part of it that does not hold, is wrong: why.
    #[serde(default)]
    pub(crate) wrong: Option<Reason>,
    /// It is of nothing that this program is for: why.
    #[serde(default)]
    pub out_of_scope: Option<String>,
    /// A rule was changed after what it gives had been seen: from what, and why.
    #[serde(default)]
    pub changed: Option<String>,
}

/// A reason, with figures of its own that show it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// In a sentence, with its public source or its calculation.
    pub(crate) text: String,
    /// All have to hold.
    pub(crate) checks: Vec<Check>,
}

pub(super) fn parse(text: &str, origin: &str) -> Result<Claims, TopologyError> {
    let claims: Claims = from_json(text, origin)?;
    let faults = claims.faults();
    if faults.is_empty() {
        return Ok(claims);
    }
    Err(TopologyError::Faults {
        origin: origin.to_owned(),
        faults,
    })
}

impl Claims {
    /// The claims that the program carries with it.
    ///
    /// # Errors
    /// A fault of the file, which a test keeps out.
    pub fn shipped() -> Result<Self, TopologyError> {
        let text = include_str!("../../../validation/claims.json");
        parse(text, "validation/claims.json")
    }

    /// Claims of a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not of the format.
    pub fn read(path: &Path) -> Result<Self, TopologyError> {
        parse(&read_text(path)?, &path.display().to_string())
    }

    /// What does not fit together in the file: topics and commands that are not there, rules that no
    /// command stands behind, numbers out of order.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (index, claim) in self.claims.iter().enumerate() {
            let mut fault = |field: &str, found: String, expected: &str, among: Vec<&str>| {
                faults.push(Fault {
                    path: format!("claims[{index}].{field}"),
                    nearest: nearest(&found, among.into_iter()),
                    found: format!("`{found}`"),
                    expected: expected.to_owned(),
                });
            };
            let before = index.checked_sub(1).map_or(0, |at| self.claims[at].number);
            if claim.number <= before {
                let number = claim.number.to_string();
                fault("number", number, "more than the one before", Vec::new());
            }
            let topics: Vec<&str> = self.topics.iter().map(|topic| &*topic.key).collect();
            if !topics.contains(&&*claim.topic) {
                fault("topic", claim.topic.clone(), "the key of a topic", topics);
            }
            let ranges: Vec<&str> = claim.ranges.keys().map(String::as_str).collect();
            for (name, values) in &claim.ranges {
                let mut rules = claim.all_checks().map(|check| &check.rule);
                if values.is_empty() || !rules.any(|rule| rule.names(name)) {
                    let expected = "a range with values, which a rule names";
                    fault("ranges", name.clone(), expected, ranges.clone());
                }
            }
            let commands = claim.all_commands();
            let rules = claim.all_rules();
            let labels: Vec<&str> = commands.keys().map(String::as_str).collect();
            let named: Vec<&str> = rules.iter().flat_map(Rule::labels).collect();
            for &label in named.iter().filter(|label| !labels.contains(label)) {
                fault(
                    "checks",
                    label.to_owned(),
                    "a label of its commands",
                    labels.clone(),
                );
            }
            for &label in labels.iter().filter(|label| !named.contains(label)) {
                fault(
                    "commands",
                    label.to_owned(),
                    "a command that a rule looks at",
                    named.clone(),
                );
            }
        }
        faults
    }

    /// A topic's title.
    #[must_use]
    pub fn title<'a>(&'a self, topic: &'a str) -> &'a str {
        let found = self.topics.iter().find(|t| t.key == topic);
        found.map_or(topic, |t| &t.title)
    }
}

impl Claim {
    /// Its commands by their labels, at each point of the ranges that they name.
    #[must_use]
    pub fn all_commands(&self) -> BTreeMap<String, String> {
        let points = points(self.ranges.iter());
        let all = self.commands.iter().flat_map(|(label, line)| {
            let each = points.iter();
            each.map(move |point| (point.fill(label), point.fill(line)))
        });
        all.collect()
    }

    /// The rules of all checks, at each point of the ranges.
    pub(crate) fn all_rules(&self) -> Vec<Rule> {
        let points = points(self.ranges.iter());
        let at = |check: &Check| points.iter().map(|p| check.rule.at(p)).collect::<Vec<_>>();
        self.all_checks().flat_map(at).collect()
    }

    /// All checks: of the claim, of its condition, of what is wrong with it.
    pub(crate) fn all_checks(&self) -> impl Iterator<Item = &Check> {
        let reasons = [&self.only_if, &self.wrong];
        let of_reasons = reasons.into_iter().flatten().flat_map(|r| &r.checks);
        self.checks.iter().chain(of_reasons)
    }
}
