//! What keeps fitted values near what is known without measurements: the hardware files' values,
//! and what the same thing takes on other generations.

use super::fit_spec::{FitSpec, Parameter};
use crate::units::{Bandwidth, Time};
use serde_json::Value;
use std::collections::BTreeSet;

/// What values cost that are far from others, in units of the objective.
pub(super) struct Pull {
    /// A factor of e away from the hardware files.
    from_start: f64,
    /// The logarithms of the hardware files' values.
    starts: Vec<f64>,
    ties: Vec<Tie>,
}

/// Two parameters, and what it costs that one is e times the other.
struct Tie {
    one: usize,
    like: usize,
    cost: f64,
}

impl Pull {
    /// Of parameters with these values in the hardware files. Those that no measurement knows are
    /// tied to none: they follow others anyway.
    ///
    /// # Errors
    /// A parameter is tied to none, or to one that is not fitted.
    pub(super) fn new(
        spec: &FitSpec,
        starts: &[Value],
        known: impl Fn(usize) -> bool,
    ) -> Result<Self, String> {
        let mut ties = Vec::new();
        for (one, parameter) in spec.parameters.iter().enumerate() {
            let like = place_of_like(spec, parameter)?;
            if parameter.tie > 0.0 && known(one) {
                let like = like.ok_or_else(|| {
                    let path = &parameter.path;
                    format!("{path} has a `tie`, but `like` does not say to which parameter")
                })?;
                let cost = parameter.tie;
                ties.extend(known(like).then_some(Tie { one, like, cost }));
            }
        }
        Ok(Pull {
            from_start: spec.pull,
            starts: starts.iter().map(logarithm).collect(),
            ties,
        })
    }

    /// A parameter starts from another value.
    pub(super) fn start_from(&mut self, parameter: usize, value: &Value) {
        self.starts[parameter] = logarithm(value);
    }

    /// Parameters that are tied to each other, straight or by others. One alone hardly moves.
    pub(super) fn tied(&self) -> Vec<Vec<usize>> {
        connected(self.ties.iter().map(|tie| (tie.one, tie.like)))
    }

    /// What it costs that each value is so many times that of the hardware files.
    pub(super) fn cost(&self, factors: &[f64]) -> f64 {
        let moved = factors.iter().map(|f| f.ln().abs());
        let value = |at: usize| self.starts[at] + factors[at].ln();
        let apart = |tie: &Tie| tie.cost * (value(tie.one) - value(tie.like)).abs();
        self.from_start * moved.sum::<f64>() + self.ties.iter().map(apart).sum::<f64>()
    }
}

/// Where the parameter is that another one is like, if it names one.
fn place_of_like(spec: &FitSpec, parameter: &Parameter) -> Result<Option<usize>, String> {
    let Some(like) = &parameter.like else {
        return Ok(None);
    };
    let place = spec.place_of(like);
    let path = &parameter.path;
    place
        .map(Some)
        .ok_or_else(|| format!("{path} is `like` {like}, which is not among the parameters"))
}

/// `parameters`, and all that any tie leads to from these, known or not.
pub(super) fn with_tied(spec: &FitSpec, parameters: &[usize]) -> Vec<usize> {
    let ties = spec.parameters.iter().enumerate().filter_map(|(one, p)| {
        let like = spec.place_of(p.like.as_ref()?)?;
        (p.tie > 0.0).then_some((one, like))
    });
    let mut all: BTreeSet<usize> = parameters.iter().copied().collect();
    for set in connected(ties) {
        if set.iter().any(|p| all.contains(p)) {
            all.extend(set);
        }
    }
    all.into_iter().collect()
}

/// The sets that pairs connect.
fn connected(pairs: impl Iterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut sets: Vec<BTreeSet<usize>> = Vec::new();
    for (one, other) in pairs {
        let meets = |set: &BTreeSet<usize>| set.contains(&one) || set.contains(&other);
        let (met, others): (Vec<_>, Vec<_>) = sets.into_iter().partition(meets);
        sets = others;
        sets.push(met.into_iter().flatten().chain([one, other]).collect());
    }
    let mut sets: Vec<Vec<usize>> = sets.into_iter().map(Vec::from_iter).collect();
    sets.sort_unstable();
    sets
}

/// Of a value as a number; values without one are refused before.
fn logarithm(value: &Value) -> f64 {
    number(value).unwrap_or(1.0).ln()
}

/// A value as a number: times in microseconds, rates in GB/s.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => {
            let time = Time::parse(text).map(|time| time.micros());
            let rate = || Bandwidth::parse(text).map(|rate| rate.bytes_per_sec() as f64 / 1e9);
            time.or_else(|_| rate()).ok()
        }
        _ => None,
    }
}

/// `value` times `factor`, in the same kind of unit, to four digits.
pub(super) fn scaled(value: &Value, factor: f64) -> Option<Value> {
    let digits = |x: f64| -> f64 {
        if x == 0.0 {
            return 0.0;
        }
        let unit = 10f64.powi(3 - x.abs().log10().floor() as i32);
        (x * unit).round() / unit
    };
    let new = digits(number(value)? * factor);
    Some(match value {
        Value::String(text) if Time::parse(text).is_ok() => format!("{new}us").into(),
        Value::String(_) => format!("{new}GB/s").into(),
        _ => new.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(parameters: &str) -> FitSpec {
        let text = format!(
            r#"{{"comment": "", "rows_per_set": 1, "most_ranks": 1, "most_bytes": 1,
                "most_spread": 1, "most_inversion": 1, "doubtful": [], "pull": 0.01,
                "noticeable": 0, "steps": [], "parameters": [{parameters}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn values_keep_their_units() {
        assert_eq!(scaled(&"300ns".into(), 1.5).unwrap(), "0.45us");
        assert_eq!(scaled(&"20GB/s".into(), 1.23456).unwrap(), "24.69GB/s");
        assert_eq!(scaled(&0.7.into(), 2.0).unwrap(), 1.4);
        assert_eq!(scaled(&"soon".into(), 2.0), None);
    }

    #[test]
    fn values_stay_near_those_they_are_tied_to() {
        let two = spec(r#"{"path": "a", "like": "b", "tie": 0.5}, {"path": "b"}"#);
        let starts = ["2us".into(), "1000ns".into()];
        let pull = Pull::new(&two, &starts, |_| true).unwrap();
        let ln2 = 2f64.ln();
        // Twice the other one, and where it was.
        assert!((pull.cost(&[1.0, 1.0]) - 0.5 * ln2).abs() < 1e-12);
        // As the other one, at twice its own.
        assert!((pull.cost(&[1.0, 2.0]) - 0.01 * ln2).abs() < 1e-12);
        assert_eq!(pull.tied(), [[0, 1]]);
        let mut moved = Pull::new(&two, &starts, |_| true).unwrap();
        moved.start_from(0, &"1us".into());
        assert!(moved.cost(&[1.0, 1.0]).abs() < 1e-12);
        // What no measurement knows is not held.
        let one = Pull::new(&two, &starts, |at| at == 0).unwrap();
        assert!(one.cost(&[1.0, 1.0]).abs() < 1e-12);
    }

    #[test]
    fn ties_of_ties_are_tied() {
        let chain = r#"{"path": "a", "like": "b", "tie": 1}, {"path": "b"},
            {"path": "c", "like": "d", "tie": 1}, {"path": "d", "like": "a", "tie": 1}, {"path": "e"}"#;
        let starts = vec![Value::from(1.0); 5];
        let pull = Pull::new(&spec(chain), &starts, |_| true).unwrap();
        assert_eq!(pull.tied(), [[0, 1, 2, 3]]);
        // Whoever leaves one out leaves out all.
        assert_eq!(with_tied(&spec(chain), &[1, 4]), [0, 1, 2, 3, 4]);
        assert_eq!(with_tied(&spec(chain), &[4]), [4]);
    }

    #[test]
    fn ties_name_a_parameter() {
        let starts = ["2us".into()];
        let error = |text| Pull::new(&spec(text), &starts, |_| true).err().unwrap();
        let lone = error(r#"{"path": "a", "tie": 0.5}"#);
        assert!(lone.contains("`like`"), "{lone}");
        let unknown = error(r#"{"path": "a", "like": "b"}"#);
        assert!(unknown.contains("not among"), "{unknown}");
    }
}
