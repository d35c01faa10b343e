//! Values of an axis: lists and ranges, from a file or as people type them.

use super::spec::{AxisSpec, RangeSpec};
use crate::refusal::fault;
use fabricsim_topology::Fault;
use fabricsim_units::Bytes;
use serde_json::Value;

/// More values of one axis than anyone compares.
const MAX_VALUES: usize = 100_000;

/// A number of a range: with a unit, or without.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quantity {
    Plain(u64),
    Size(u64),
}

impl Quantity {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_u64().map(Quantity::Plain),
            Value::String(text) => {
                let plain = text.parse::<u64>().ok().map(Quantity::Plain);
                let size = || text.parse::<Bytes>().ok().map(|b| Quantity::Size(b.get()));
                plain.or_else(size)
            }
            _ => None,
        }
    }

    fn count(self) -> u64 {
        match self {
            Quantity::Plain(count) | Quantity::Size(count) => count,
        }
    }
}

/// What a value counts as where numbers are compared: sizes are bytes.
pub(super) fn number(value: &Value) -> Option<f64> {
    let float = value.as_f64();
    let text = || value.as_str().and_then(|text| text.parse::<f64>().ok());
    let size = || Quantity::of(value).map(|q| q.count() as f64);
    float.or_else(text).or_else(size)
}

/// All values of a range at a place of the file.
pub(super) fn range(range: &RangeSpec, at: &str) -> Result<Vec<Value>, Fault> {
    let quantity = |value: &Value, name: &str| {
        Quantity::of(value).ok_or_else(|| {
            let expected = "a whole number, or a size such as 1MiB";
            fault(&format!("{at}.{name}"), value.to_string(), expected)
        })
    };
    let (from, to) = (quantity(&range.from, "from")?, quantity(&range.to, "to")?);
    let step = range.step.as_ref().map(|step| quantity(step, "step"));
    let step = step.transpose()?.map(Quantity::count);
    let next = |at: u64| match (step, range.factor) {
        (Some(step), _) => at.checked_add(step),
        (None, factor) => at.checked_mul(factor.unwrap_or(2)),
    };
    let stuck = step == Some(0)
        || step.is_none() && (range.factor.is_some_and(|f| f < 2) || from.count() == 0);
    if stuck || from.count() > to.count() || (step.is_some() && range.factor.is_some()) {
        let found = format!("{} to {}", range.from, range.to);
        let expected =
            "`from` at most `to`, and a `factor` of 2 or more (not from 0) or a `step` above 0";
        return Err(fault(at, found, expected));
    }
    let size = matches!((from, to), (Quantity::Size(_), _) | (_, Quantity::Size(_)));
    let mut values = Vec::new();
    let mut count = Some(from.count());
    while let Some(present) = count.filter(|&present| present <= to.count()) {
        if values.len() >= MAX_VALUES {
            let expected = format!("at most {MAX_VALUES} values");
            return Err(fault(at, "more".into(), expected));
        }
        values.push(match size {
            true => Value::from(Bytes::new(present).to_string()),
            false => Value::from(present),
        });
        count = next(present);
    }
    Ok(values)
}

/// An axis as people type it: `nodes=1,2,4`, `size=8..256M*4` (times 4, 2 if not said), `seed=0..9+1`.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn parse_axis(text: &str) -> Result<AxisSpec, String> {
    let example = "a place and values, such as nodes=1,2,4 or size=1MiB..1GiB*4";
    let (path, values) = text
        .split_once('=')
        .filter(|(path, values)| !path.is_empty() && !values.is_empty())
        .ok_or_else(|| format!("--over {text}: expected {example}"))?;
    let axis = AxisSpec {
        path: Some(path.to_owned()),
        ..AxisSpec::default()
    };
    let Some((from, rest)) = values.split_once("..").filter(|_| !values.contains(',')) else {
        let values = values.split(',').map(value);
        return Ok(AxisSpec {
            values: Some(values.collect()),
            ..axis
        });
    };
    let (to, factor, step) = match (rest.split_once('*'), rest.split_once('+')) {
        (Some((to, factor)), _) => {
            let factor = factor.parse();
            let wrong = |_| format!("--over {text}: expected a whole factor behind `*`");
            (to, Some(factor.map_err(wrong)?), None)
        }
        (None, Some((to, step))) => (to, None, Some(value(step))),
        (None, None) => (rest, None, None),
    };
    // As nccl-tests has sizes: K, M and G are powers of 1024.
    let end = |text: &str| match Bytes::parse_flag(text) {
        Ok(size) if text.parse::<u64>().is_err() => Value::from(size.to_string()),
        _ => value(text),
    };
    let spec = RangeSpec {
        from: end(from),
        to: end(to),
        factor,
        step,
    };
    range(&spec, "range").map_err(|fault| format!("--over {text}: expected {}", fault.expected))?;
    Ok(AxisSpec {
        range: Some(spec),
        ..axis
    })
}

/// JSON if it can be read as such, else a string, as `--set` has it.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(text: &str) -> Vec<Value> {
        let axis = parse_axis(text).unwrap();
        match (axis.values, axis.range) {
            (Some(values), _) => values,
            (None, Some(spec)) => range(&spec, "r").unwrap(),
            (None, None) => Vec::new(),
        }
    }

    #[test]
    fn axes_are_read_as_people_type_them() {
        assert_eq!(values("nodes=1,2,4"), [json!(1), json!(2), json!(4)]);
        assert_eq!(values("a.b=x,true"), [json!("x"), json!(true)]);
        assert_eq!(
            values("nodes=1..9"),
            [json!(1), json!(2), json!(4), json!(8)]
        );
        assert_eq!(values("seed=0..2+1"), [json!(0), json!(1), json!(2)]);
        assert_eq!(
            values("size=1K..64K*8"),
            [json!("1KiB"), json!("8KiB"), json!("64KiB")]
        );
    }

    #[test]
    fn what_goes_nowhere_is_refused() {
        for text in [
            "nodes",
            "nodes=",
            "=1",
            "nodes=0..4",
            "nodes=4..1",
            "a=1..8*1",
            "a=1..8*x",
        ] {
            let said = parse_axis(text).unwrap_err();
            assert!(said.contains(text) && said.contains("expected"), "{said}");
        }
    }
}
