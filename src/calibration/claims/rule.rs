//! Rules: when what a command gives is what a claim says.

use super::figure::{Figure, Place};
use super::range::{Point, Ranges, listed, mark, points};
use super::{Given, Ran};
use fabricsim_report::numbers;
use fabricsim_report::validation::{JudgedCheck, JudgedPoint};
use serde::Deserialize;
use serde_json::Value;

/// A figure agrees with one of the notes that is so near.
const NEAR: f64 = 0.25;
/// A ratio agrees with one of the notes within this factor.
const RATIO: f64 = 1.3;
/// What differs by no more is equal; a formula that is exact is kept within it.
const EQUAL: f64 = 0.02;
/// What is more by less does not matter: the predictions' own median error is larger.
const MORE: f64 = 0.05;
/// What is much more, is so many times as much.
const MUCH: f64 = 2.0;
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
    /// The first is more than the second, by more than 5 %.
    More(Figure, Figure),
    /// The first is much more than the second: twice as much.
    Much(Figure, Figure),
    /// The first is so many times the second, by order of magnitude.
    Magnitude(Figure, Figure, f64),
    /// Both differ by 2 % at most; for formulas, too.
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
            Rule::Is(place, _) | Rule::Holds(place, _) => vec![&place.label],
            Rule::Exit(label, _) | Rule::Says(label, _) => vec![label],
            _ => self.figures().flat_map(Figure::labels).collect(),
        }
    }

    /// Its figures.
    fn figures(&self) -> impl Iterator<Item = &Figure> {
        let figures = match self {
            Rule::Near(a, b)
            | Rule::Ratio(a, b, _)
            | Rule::More(a, b)
            | Rule::Much(a, b)
            | Rule::Magnitude(a, b, _)
            | Rule::Equal(a, b) => [Some(a), Some(b)],
            Rule::Within(a, _, _) => [Some(a), None],
            _ => [None, None],
        };
        figures.into_iter().flatten()
    }

    /// Whether its figure is the ratio of two that commands gave.
    fn is_of_a_ratio(&self) -> bool {
        self.figures().next().is_some_and(Figure::is_ratio)
    }

    /// Whether it names a range.
    pub(crate) fn names(&self, range: &str) -> bool {
        match self {
            Rule::Is(place, _) | Rule::Holds(place, _) => place.names(range),
            Rule::Exit(label, _) | Rule::Says(label, _) => label.contains(&mark(range)),
            _ => self.figures().any(|figure| figure.names(range)),
        }
    }

    /// It at a point of the ranges.
    pub(crate) fn at(&self, point: &Point) -> Self {
        match self {
            Rule::Near(a, b) => Rule::Near(a.at(point), b.at(point)),
            Rule::Within(a, from, to) => Rule::Within(a.at(point), *from, *to),
            Rule::Ratio(a, b, ratio) => Rule::Ratio(a.at(point), b.at(point), *ratio),
            Rule::More(a, b) => Rule::More(a.at(point), b.at(point)),
            Rule::Much(a, b) => Rule::Much(a.at(point), b.at(point)),
            Rule::Magnitude(a, b, ratio) => Rule::Magnitude(a.at(point), b.at(point), *ratio),
            Rule::Equal(a, b) => Rule::Equal(a.at(point), b.at(point)),
            Rule::Is(place, value) => Rule::Is(place.at(point), value.clone()),
            Rule::Holds(place, text) => Rule::Holds(place.at(point), text.clone()),
            Rule::Exit(label, status) => Rule::Exit(point.fill(label), *status),
            Rule::Says(label, text) => Rule::Says(point.fill(label), text.clone()),
            Rule::Missing(why) => Rule::Missing(why.clone()),
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
            Rule::More(..) => "the first is not more by 5 %".into(),
            Rule::Much(..) => "the first is not twice as much".into(),
            Rule::Magnitude(_, _, ratio) => format!("not {} × by order of magnitude", n(*ratio)),
            Rule::Equal(..) => "not equal within 2 %".into(),
            Rule::Is(_, value) => format!("not {}", shown_value(value)),
            Rule::Holds(_, text) | Rule::Says(_, text) => format!("does not say \"{text}\""),
            Rule::Exit(_, status) => format!("not exit status {status}"),
            Rule::Missing(why) => why.clone(),
        }
    }
}

/// What a check found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// For a report.
    pub(crate) judged: JudgedCheck,
    /// It holds at some points of its ranges.
    pub(crate) in_part: bool,
    /// What is said of it where it does not hold.
    pub(crate) broken: String,
}

/// What a rule found at one point.
struct Found {
    holds: bool,
    shown: String,
    numbers: Vec<f64>,
}

impl Check {
    /// Whether it holds of what commands gave, at each point of the ranges that it names.
    ///
    /// # Errors
    /// A figure that is not there, for people.
    pub(crate) fn of(&self, ranges: &Ranges, given: &Given) -> Result<Checked, String> {
        let named = ranges.iter().filter(|(name, _)| self.rule.names(name));
        let points = points(named);
        if let [point] = &points[..] {
            let found = self.at(&self.rule.at(point), given)?;
            let rule = self.rule.broken(self);
            let missing = matches!(self.rule, Rule::Missing(_));
            let said = |text: String| match missing {
                true => text,
                false => format!("{}: {text}", self.say),
            };
            return Ok(Checked {
                judged: JudgedCheck {
                    found: said(found.shown),
                    numbers: found.numbers,
                    holds: found.holds,
                    points: Vec::new(),
                },
                in_part: false,
                broken: said(rule),
            });
        }
        let found: Vec<Found> = points
            .iter()
            .map(|point| {
                let found = self.at(&self.rule.at(point), given);
                found.map_err(|why| format!("{point}: {why}"))
            })
            .collect::<Result<_, _>>()?;
        Ok(self.together(&points, found))
    }

    /// What was found at all points of a range.
    fn together(&self, points: &[Point], found: Vec<Found>) -> Checked {
        let broken: Vec<&Point> = points
            .iter()
            .zip(&found)
            .filter(|(_, found)| !found.holds)
            .map(|(point, _)| point)
            .collect();
        let held = points.len() - broken.len();
        let count = match broken.is_empty() {
            true => format!("at all of {}", points.len()),
            false => format!("at {held} of {}", points.len()),
        };
        let extremes = self.extremes(points, &found);
        let rule = self.rule.broken(self);
        let kept: Vec<&Point> = points.iter().filter(|p| !broken.contains(p)).collect();
        let where_broken = match held {
            0 => format!("at all of {}", points.len()),
            _ if kept.len() < broken.len() => format!("except at {}", listed(&kept, points)),
            _ => format!("at {}", listed(&broken, points)),
        };
        Checked {
            in_part: held > 0 && held < points.len(),
            broken: format!("{}: {rule} {where_broken}", self.say),
            judged: JudgedCheck {
                found: format!("{}: holds {count}{extremes}", self.say),
                holds: broken.is_empty(),
                numbers: found
                    .iter()
                    .flat_map(|found| &found.numbers)
                    .copied()
                    .collect(),
                points: points
                    .iter()
                    .zip(found)
                    .map(|(point, found)| JudgedPoint {
                        at: point.to_string(),
                        found: found.shown,
                        holds: found.holds,
                    })
                    .collect(),
            },
        }
    }

    /// The least and the most of the figures, or ratios of figures, of all points.
    fn extremes(&self, points: &[Point], found: &[Found]) -> String {
        let figures = points.iter().zip(found).filter_map(|(point, found)| {
            let (figure, is_ratio) = match found.numbers[..] {
                [a, b] if b != 0.0 => (a / b, true),
                [a] => (a, self.unit != "%" && self.rule.is_of_a_ratio()),
                _ => return None,
            };
            Some((figure, is_ratio, point))
        });
        let figures: Vec<(f64, bool, &Point)> = figures.collect();
        let shown = |(figure, is_ratio, point): &(f64, bool, &Point)| {
            let figure = match is_ratio {
                true => format!("{} ×", numbers::three_digits_of_small(*figure)),
                false => self.with_unit(*figure),
            };
            format!("{figure} ({point})")
        };
        let least = figures.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let most = figures.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match (least, most) {
            (Some(least), Some(most)) => format!(", from {} to {}", shown(least), shown(most)),
            _ => String::new(),
        }
    }

    /// What a rule without ranges finds.
    fn at(&self, rule: &Rule, given: &Given) -> Result<Found, String> {
        let mut numbers = Vec::new();
        let (holds, shown) = match rule {
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
            | Rule::Much(a, b)
            | Rule::Equal(a, b) => {
                let (a, b) = (a.number(given)?, b.number(given)?);
                numbers.extend([a, b]);
                let holds = match rule {
                    Rule::Ratio(_, _, ratio) => factor(a / b, *ratio) <= RATIO,
                    Rule::Magnitude(_, _, ratio) => factor(a / b, *ratio) <= MAGNITUDE,
                    Rule::More(..) => a > b * (1.0 + MORE),
                    Rule::Much(..) => a >= b * MUCH,
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
        Ok(Found {
            holds,
            shown,
            numbers,
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
            Figure::Of(_, parts) if self.unit != "%" && figure.is_ratio() => {
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
