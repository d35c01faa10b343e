//! Rules: when what a command gives is what a claim says.

use super::figure::{Figure, Operator, Place};
use super::{Given, Ran};
use fabricsim_report::numbers;
use fabricsim_report::validation::JudgedCheck;
use serde::Deserialize;
use serde_json::Value;

/// A figure agrees with one of the notes that is so near.
const NEAR: f64 = 0.25;
/// A ratio agrees with one of the notes within this factor.
const RATIO: f64 = 1.3;
/// What differs by no more is equal.
const EQUAL: f64 = 0.02;
/// Half an order of magnitude: a ratio of the same order of magnitude is within this factor.
const MAGNITUDE: f64 = 3.162_277_660_168_379_5;

/// Part of a claim, with its rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    /// What is compared.
    pub(crate) say: String,
    /// Of its figures: `us`, `s`, `%` (of a share of one), or as it is shown.
    #[serde(default)]
    pub(crate) unit: String,
    /// When it agrees.
    pub(crate) rule: Rule,
}

/// When figures agree with a claim. Each kind is as wide as it is for all claims.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// A figure is within 25 % of the notes' one.
    Near(Figure, Figure),
    /// A figure is in the notes' own range.
    Within(Figure, f64, f64),
    /// The first over the second is within a factor of 1.3 of the notes' ratio.
    Ratio(Figure, Figure, f64),
    /// The first is more than the second, by more than 2 %.
    More(Figure, Figure),
    /// The first is so many times the second, by order of magnitude.
    Magnitude(Figure, Figure, f64),
    /// Both differ by 2 % at most.
    Equal(Figure, Figure),
    /// What stands there is this, to the letter.
    Is(Place, Value),
    /// What stands there, a text, holds this.
    Holds(Place, String),
    /// A command ends with this exit status.
    Exit(String, i32),
    /// A command says this on standard error.
    Says(String, String),
    /// Nothing here can be compared, for this reason.
    Missing(String),
}

impl Rule {
    /// The commands that it looks at.
    pub(crate) fn labels(&self) -> Vec<&str> {
        match self {
            Rule::Near(a, b)
            | Rule::Ratio(a, b, _)
            | Rule::More(a, b)
            | Rule::Magnitude(a, b, _)
            | Rule::Equal(a, b) => [a.labels(), b.labels()].concat(),
            Rule::Within(a, _, _) => a.labels(),
            Rule::Is(place, _) | Rule::Holds(place, _) => vec![&place.label],
            Rule::Exit(label, _) | Rule::Says(label, _) => vec![label],
            Rule::Missing(_) => Vec::new(),
        }
    }

    /// What is said of figures that do not keep it.
    fn broken(&self, check: &Check) -> String {
        let n = numbers::three_digits_of_small;
        match self {
            Rule::Near(_, Figure::Number(target)) => {
                format!("not within 25 % of {}", check.with_unit(*target))
            }
            Rule::Near(..) => "not within 25 %".into(),
            Rule::Within(_, from, to) if check.unit == "%" || check.unit.is_empty() => {
                format!("not {} to {}", check.with_unit(*from), check.with_unit(*to))
            }
            Rule::Within(_, from, to) => format!("not {} to {}", n(*from), n(*to)),
            Rule::Ratio(_, _, ratio) => format!("not {} × within a factor of 1.3", n(*ratio)),
            Rule::More(..) => "the first is not more".into(),
            Rule::Magnitude(_, _, ratio) => format!("not {} × by order of magnitude", n(*ratio)),
            Rule::Equal(..) => "not equal within 2 %".into(),
            Rule::Is(_, value) => format!("not {}", shown_value(value)),
            Rule::Holds(_, text) | Rule::Says(_, text) => format!("does not say \"{text}\""),
            Rule::Exit(_, status) => format!("not exit status {status}"),
            Rule::Missing(why) => why.clone(),
        }
    }
}

impl Check {
    /// What is said of it where it does not hold.
    pub(crate) fn broken(&self) -> String {
        match &self.rule {
            Rule::Missing(why) => why.clone(),
            rule => format!("{}: {}", self.say, rule.broken(self)),
        }
    }

    /// Whether it holds of what commands gave.
    ///
    /// # Errors
    /// A figure that is not there, for people.
    pub(crate) fn of(&self, given: &Given) -> Result<JudgedCheck, String> {
        let mut numbers = Vec::new();
        let (holds, found) = match &self.rule {
            Rule::Near(figure, notes) => {
                let (found, target) = (figure.number(given)?, notes.number(given)?);
                numbers.push(found);
                let holds = (found / target - 1.0).abs() <= NEAR;
                let shown = match notes.is_given() {
                    true => self.shown(figure, given)?,
                    false => self.pair(found, target),
                };
                (holds, shown)
            }
            Rule::Within(figure, from, to) => {
                let found = figure.number(given)?;
                numbers.push(found);
                let holds = (*from..=*to).contains(&found);
                (holds, self.shown(figure, given)?)
            }
            Rule::Ratio(a, b, _)
            | Rule::Magnitude(a, b, _)
            | Rule::More(a, b)
            | Rule::Equal(a, b) => {
                let (a, b) = (a.number(given)?, b.number(given)?);
                numbers.extend([a, b]);
                let holds = match &self.rule {
                    Rule::Ratio(_, _, ratio) => factor(a / b, *ratio) <= RATIO,
                    Rule::Magnitude(_, _, ratio) => factor(a / b, *ratio) <= MAGNITUDE,
                    Rule::More(..) => a > b * (1.0 + EQUAL),
                    _ => (a - b).abs() <= EQUAL * a.abs().max(b.abs()),
                };
                (holds, self.pair(a, b))
            }
            Rule::Is(place, value) => {
                let found = place.find(given)?;
                (found == value, shown_value(found))
            }
            Rule::Holds(place, text) => {
                let found = place.find(given)?.as_str().unwrap_or_default();
                (found.contains(text.as_str()), quoted(found, text))
            }
            Rule::Exit(label, status) => {
                let exit = ran(label, given)?.exit;
                (exit == *status, format!("exit status {exit}"))
            }
            Rule::Says(label, text) => {
                let said = &ran(label, given)?.said;
                (said.contains(text.as_str()), quoted(said, text))
            }
            Rule::Missing(why) => (false, why.clone()),
        };
        let found = match self.rule {
            Rule::Missing(_) => found,
            _ => format!("{}: {found}", self.say),
        };
        Ok(JudgedCheck {
            found,
            numbers,
            holds,
        })
    }

    /// Two figures and their ratio.
    fn pair(&self, first: f64, second: f64) -> String {
        let of = match second == 0.0 {
            true => String::new(),
            false => format!(" ({} ×)", numbers::three_digits_of_small(first / second)),
        };
        format!(
            "{} against {}{of}",
            self.with_unit(first),
            self.with_unit(second)
        )
    }

    /// A figure; of a ratio its parts, too.
    fn shown(&self, figure: &Figure, given: &Given) -> Result<String, String> {
        let number = figure.number(given)?;
        match figure {
            Figure::Of(Operator::Ratio, parts)
                if self.unit != "%" && parts.iter().all(|part| !part.is_given()) =>
            {
                let (a, b) = (parts[0].number(given)?, parts[1].number(given)?);
                let ratio = numbers::three_digits_of_small(number);
                Ok(format!(
                    "{ratio} × ({} / {})",
                    self.with_unit(a),
                    self.with_unit(b)
                ))
            }
            _ => Ok(self.with_unit(number)),
        }
    }

    fn with_unit(&self, number: f64) -> String {
        let whole = number.fract() == 0.0 && number.abs() < 1e9;
        match self.unit.as_str() {
            "us" => numbers::micros(number),
            "s" => numbers::seconds(number),
            "%" => numbers::percent(number),
            "bytes" => numbers::size(number),
            "" if whole => format!("{number:.0}"),
            "" => numbers::three_digits_of_small(number),
            unit => format!("{} {unit}", numbers::three_digits_of_small(number)),
        }
    }
}

fn ran<'a>(label: &str, given: &Given<'a>) -> Result<&'a Ran, String> {
    let ran = given.get(label).copied();
    ran.ok_or_else(|| format!("no command `{label}`"))
}

/// The part of a text that was looked for, or what there is instead.
fn quoted(found: &str, text: &str) -> String {
    match found.contains(text) {
        true => format!("\"{text}\""),
        false => format!("no \"{text}\""),
    }
}

fn factor(found: f64, target: f64) -> f64 {
    match found > 0.0 && target > 0.0 {
        true => (found / target).max(target / found),
        false => f64::INFINITY,
    }
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
