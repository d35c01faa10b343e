//! What keeps fitted values near what is known without measurements: the hardware files' values,
//! and what the same thing takes on other generations.

use super::quadratic::Quadratic;
use super::spec::FitSpec;
use fabricsim_units::{Bandwidth, Time};
use serde_json::Value;
use std::collections::BTreeSet;

/// What values cost that are far from others, in units of the objective.
pub(super) struct Pull {
    /// A factor of e away from the hardware files.
    from_start: f64,
    /// Of parameters that measurements know.
    ties: Vec<Tie>,
}

/// Two parameters, and what it costs that one is e times the other.
struct Tie {
    one: usize,
    like: usize,
    cost: f64,
}

impl Tie {
    /// ln of how many times the other the one is.
    fn off(&self, starts: &[Value], factors: &[f64]) -> f64 {
        let value = |at: usize| logarithm(&starts[at]) + factors[at].ln();
        value(self.one) - value(self.like)
    }
}

/// What is nearer than this factor's logarithm to where it is pulled counts as that far, so that
/// the pull, which is as strong at any distance, is smooth there.
const NEAR: f64 = 0.05;

impl Pull {
    /// Those that no measurement knows are tied to none: they follow others anyway.
    ///
    /// # Errors
    /// A parameter is tied to none, or is like one that is not fitted.
    pub(super) fn new(spec: &FitSpec, known: impl Fn(usize) -> bool) -> Result<Self, String> {
        let mut ties = ties(spec)?;
        ties.retain(|tie| known(tie.one) && known(tie.like));
        Ok(Pull {
            from_start: spec.pull,
            ties,
        })
    }

    /// Parameters that are tied to each other, straight or by others. One alone hardly moves.
    pub(super) fn tied(&self) -> Vec<Vec<usize>> {
        connected(&self.ties)
    }

    /// What it costs that each value is so many times the one it started from.
    pub(super) fn cost(&self, starts: &[Value], factors: &[f64]) -> f64 {
        let moved = factors.iter().map(|f| f.ln().abs());
        let ties = self.ties.iter();
        let apart = ties.map(|tie| tie.cost * tie.off(starts, factors).abs());
        self.from_start * moved.sum::<f64>() + apart.sum::<f64>()
    }

    /// Adds the pull to `form`, of which the unknowns are `free`.
    pub(super) fn add(
        &self,
        (starts, factors): (&[Value], &[f64]),
        free: &[usize],
        form: &mut Quadratic,
    ) {
        let place = |p: usize| free.iter().position(|&q| q == p);
        for (at, &parameter) in free.iter().enumerate() {
            let off = factors[parameter].ln();
            form.add(&[(at, 1.0)], off, self.from_start / off.abs().max(NEAR));
        }
        for tie in &self.ties {
            let ends = [(tie.one, 1.0), (tie.like, -1.0)];
            let ends = ends.iter().filter_map(|&(p, sign)| Some((place(p)?, sign)));
            let off = tie.off(starts, factors);
            let ends: Vec<_> = ends.collect();
            form.add(&ends, off, tie.cost / off.abs().max(NEAR));
        }
    }
}

/// All ties that a spec names.
fn ties(spec: &FitSpec) -> Result<Vec<Tie>, String> {
    let mut ties = Vec::new();
    for (one, parameter) in spec.parameters.iter().enumerate() {
        let path = &parameter.path;
        let place = |like: &String| {
            let unknown = || format!("{path} is `like` {like}, which is not among the parameters");
            spec.place_of(like).ok_or_else(unknown)
        };
        let like = parameter.like.as_ref().map(place).transpose()?;
        if parameter.tie > 0.0 {
            let like = like.ok_or_else(|| {
                format!("{path} has a `tie`, but `like` does not say to which parameter")
            })?;
            let cost = parameter.tie;
            ties.push(Tie { one, like, cost });
        }
    }
    Ok(ties)
}

/// `parameters`, and all that any tie leads to from these, known or not.
///
/// # Errors
/// As [`Pull::new`].
pub(super) fn with_tied(spec: &FitSpec, parameters: &[usize]) -> Result<Vec<usize>, String> {
    let mut all: BTreeSet<usize> = parameters.iter().copied().collect();
    for set in connected(&ties(spec)?) {
        if set.iter().any(|p| all.contains(p)) {
            all.extend(set);
        }
    }
    Ok(all.into_iter().collect())
}

/// The sets that ties make, in order.
fn connected(ties: &[Tie]) -> Vec<Vec<usize>> {
    let mut sets: Vec<BTreeSet<usize>> = Vec::new();
    for tie in ties {
        let ends = [tie.one, tie.like];
        let (tied, apart): (Vec<_>, Vec<_>) = sets
            .into_iter()
            .partition(|set| ends.iter().any(|end| set.contains(end)));
        let mut joined: BTreeSet<usize> = tied.into_iter().flatten().collect();
        joined.extend(ends);
        sets = apart;
        sets.push(joined);
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
        let starts: [Value; 2] = ["2us".into(), "1000ns".into()];
        let pull = Pull::new(&two, |_| true).unwrap();
        let cost = |pull: &Pull, factors: [f64; 2]| pull.cost(&starts, &factors);
        let ln2 = 2f64.ln();
        // Twice the other one, and where it was.
        assert!((cost(&pull, [1.0, 1.0]) - 0.5 * ln2).abs() < 1e-12);
        // As the other one, at twice its own.
        assert!((cost(&pull, [1.0, 2.0]) - 0.01 * ln2).abs() < 1e-12);
        assert_eq!(pull.tied(), [[0, 1]]);
        let moved: [Value; 2] = ["1us".into(), "1000ns".into()];
        assert!(pull.cost(&moved, &[1.0, 1.0]).abs() < 1e-12);
        // What no measurement knows is not held.
        let one = Pull::new(&two, |at| at == 0).unwrap();
        assert!(cost(&one, [1.0, 1.0]).abs() < 1e-12);
    }

    #[test]
    fn ties_of_ties_are_tied() {
        let chain = r#"{"path": "a", "like": "b", "tie": 1}, {"path": "b"},
            {"path": "c", "like": "d", "tie": 1}, {"path": "d", "like": "a", "tie": 1}, {"path": "e"}"#;
        let pull = Pull::new(&spec(chain), |_| true).unwrap();
        assert_eq!(pull.tied(), [[0, 1, 2, 3]]);
        // Whoever leaves one out leaves out all.
        assert_eq!(with_tied(&spec(chain), &[1, 4]).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(with_tied(&spec(chain), &[4]).unwrap(), [4]);
    }

    #[test]
    fn ties_name_a_parameter() {
        let error = |text| Pull::new(&spec(text), |_| true).err().unwrap();
        let lone = error(r#"{"path": "a", "tie": 0.5}"#);
        assert!(lone.contains("`like`"), "{lone}");
        let unknown = error(r#"{"path": "a", "like": "b"}"#);
        assert!(unknown.contains("not among"), "{unknown}");
    }
}
