//! How many points a sweep can have by its file.

use fabricsim_units::Bytes;
use serde_json::Value;

/// The axis on which the variants of a scenario stand, which is none of the file's.
const VARIANT: &str = "variant";
/// No scenario has more of them: all are held at once, and each takes some 10 kB before it is run.
pub const MOST_VARIANTS: usize = 10_000;

/// The product of a sweep's axes, of several parts its sum, before filters; nothing of a file that does not say what
/// varies.
pub(super) fn most_points(spec: &Value, axes: &[String]) -> Option<u64> {
    let varies = axes.iter().any(|axis| axis == VARIANT);
    let list = |name: &str| spec.get(name).and_then(Value::as_array);
    match list("parts").filter(|parts| !parts.is_empty()) {
        Some(parts) => parts.iter().try_fold(0u64, |sum, part| {
            Some(sum.saturating_add(of_part(part, varies)?))
        }),
        None => of_part(spec, varies),
    }
}

/// The same of one base with its axes.
fn of_part(part: &Value, varies: bool) -> Option<u64> {
    let base = part.get("base")?;
    let variants = match base.pointer("/inline/variants").and_then(Value::as_array) {
        Some(variants) => variants.len().max(1) as u64,
        // What a file beside it has is not known here.
        None if varies && base.get("inline").is_none() => MOST_VARIANTS as u64,
        None => 1,
    };
    let none = Vec::new();
    let list = |name: &str| part.get(name).and_then(Value::as_array).unwrap_or(&none);
    // Of axes that go together the first one counts.
    let zipped = list("zip").iter().filter_map(Value::as_array);
    let followers: Vec<&str> = zipped
        .flat_map(|names| names.iter().skip(1))
        .filter_map(Value::as_str)
        .collect();
    let counted = list("axes").iter().filter(|axis| {
        let name = axis.get("name").or(axis.get("path"));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        !followers.contains(&name)
    });
    counted
        .map(levels)
        .try_fold(variants, |all, levels| Some(all.saturating_mul(levels?)))
}

/// How many values an axis has.
fn levels(axis: &Value) -> Option<u64> {
    let list = |name: &str| axis.get(name).and_then(Value::as_array);
    if let Some(values) = list("values").or(list("options")) {
        return Some(values.len() as u64);
    }
    let range = axis.get("range")?;
    let number = |name: &str| number(range.get(name)?);
    let (from, to) = (number("from")?, number("to")?);
    if let Some(step) = number("step").filter(|&step| step > 0) {
        return Some(to.checked_sub(from)? / step + 1);
    }
    let factor = number("factor").unwrap_or(2);
    let next = |at: &u64| at.checked_mul(factor).filter(|next| next > at);
    let values = std::iter::successors(Some(from), next);
    Some(values.take_while(|&at| at <= to).count() as u64)
}

/// A whole number, or a size as people write it.
fn number(value: &Value) -> Option<u64> {
    let text = || value.as_str();
    let plain = || text()?.parse().ok();
    let size = || Some(text()?.parse::<Bytes>().ok()?.get());
    value.as_u64().or_else(plain).or_else(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn axes_are_multiplied_and_parts_added() {
        let base = json!({"name": "a"});
        let two = json!({"path": "nodes", "values": [1, 2]});
        let three = json!({"path": "size", "range": {"from": "1MiB", "to": "64MiB", "factor": 8}});
        let five = json!({"path": "seed", "range": {"from": 0, "to": 9, "step": 2}});
        let options = json!({"name": "what-if", "options": [{"name": "x"}, {"name": "y"}]});
        let plain = json!({"base": base, "axes": [two, three, five, options]});
        assert_eq!(most_points(&plain, &[]), Some(60));
        assert_eq!(most_points(&plain, &[VARIANT.to_owned()]), Some(600_000));
        let zipped = json!({"base": base, "axes": [two, options], "zip": [["nodes", "what-if"]]});
        assert_eq!(most_points(&zipped, &[]), Some(2));
        let inline = json!({"base": {"inline": {"variants": [1, 2, 3]}}, "axes": [two]});
        assert_eq!(most_points(&inline, &[VARIANT.to_owned()]), Some(6));
        assert_eq!(
            most_points(&json!({"parts": [plain, zipped]}), &[]),
            Some(62)
        );
        assert_eq!(most_points(&json!({"base": base}), &[]), Some(1));
        assert_eq!(most_points(&json!({}), &[]), None);
    }
}
