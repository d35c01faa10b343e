//! In what variants of a scenario differ, and ways from one to another by one change at a time.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// What is said of the machine itself is one thing: another machine has other nodes, another
/// price.
const MACHINE: [&str; 6] = [
    "topology",
    "nodes",
    "gpus_per_node",
    "allocation",
    "dollars_per_gpu_hour",
    "pue",
];

/// What makes no difference to a step.
const WITHOUT_EFFECT: [&str; 8] = [
    "$schema", "comment", "name", "title", "variants", "baseline", "outputs", "long_run",
];

/// The things in which two scenarios differ: `machine`, `faults`, `job.training.parallel`.
pub(crate) fn differs(a: &Value, b: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    compare((a, b), "", 0, &mut found);
    found.retain(|path| !WITHOUT_EFFECT.contains(&path.as_str()));
    found
}

fn compare((a, b): (&Value, &Value), path: &str, depth: usize, found: &mut BTreeSet<String>) {
    let of = |map: &Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or(Value::Null);
    // A field of the job is one thing, and so is each field of the scenario beside it.
    let deepest = if path.starts_with("job") { 3 } else { 1 };
    match (a, b) {
        _ if a == b => {}
        (Value::Object(a), Value::Object(b)) if depth < deepest => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names.into_iter().filter(|name| *name != "comment") {
                let inner = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                compare((&of(a, name), &of(b, name)), &inner, depth + 1, found);
            }
        }
        _ if MACHINE.contains(&path) => {
            found.insert("machine".to_owned());
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// One step: from one scenario to another, and what changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) what: Vec<String>,
}

/// A way from one of `specs` to another that changes one thing at a time, or as few as the others allow,
/// each to what the last one has; none if they differ in less than two, or nothing is in between. Only
/// those that `may` be on the way.
pub(crate) fn one_at_a_time(
    specs: &[Value],
    (from, to): (usize, usize),
    may: impl Fn(usize) -> bool,
) -> Vec<Change> {
    let all = differs(&specs[from], &specs[to]);
    if all.len() < 2 {
        return Vec::new();
    }
    let mut way: Vec<Change> = Vec::new();
    let mut at = from;
    let mut left = all;
    while !left.is_empty() {
        let next = (0..specs.len()).filter(|&next| next != at && (next == to || may(next)));
        let steps = next.filter_map(|next| {
            let change = differs(&specs[at], &specs[next]);
            let rest = differs(&specs[next], &specs[to]);
            let nearer = !change.is_empty() && change.is_disjoint(&rest);
            let all = change.len() + rest.len() == left.len();
            let inside = change.is_subset(&left) && rest.is_subset(&left);
            (nearer && all && inside).then_some((next, change, rest))
        });
        let Some((next, change, rest)) = steps.min_by_key(|(_, change, _)| change.len()) else {
            return Vec::new();
        };
        way.push(Change {
            from: at,
            to: next,
            what: change.into_iter().collect(),
        });
        (at, left) = (next, rest);
    }
    match way.len() {
        1 => Vec::new(),
        _ => way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(nodes: u32, tp: u32, skew: f64) -> Value {
        json!({
            "name": format!("{nodes}-{tp}"), "topology": {"name": "dgx-h100"}, "nodes": nodes,
            "job": {"training": {"parallel": {"tp": tp}, "routing": {"skew": skew, "comment": "x"}}},
        })
    }

    #[test]
    fn what_differs_is_named_by_the_field() {
        let base = spec(8, 1, 0.0);
        assert!(differs(&base, &base).is_empty());
        let named = |other: Value| differs(&base, &other).into_iter().collect::<Vec<_>>();
        assert_eq!(named(spec(16, 1, 0.0)), ["machine"]);
        assert_eq!(
            named(spec(16, 2, 0.5)),
            ["job.training.parallel", "job.training.routing", "machine"]
        );
        let mut faulty = base.clone();
        faulty["faults"] = json!([{"kill": {}}]);
        faulty["title"] = json!("another");
        assert_eq!(named(faulty), ["faults"]);
    }

    #[test]
    fn a_way_changes_one_thing_at_a_time() {
        let specs = [
            spec(8, 1, 0.5),
            spec(8, 1, 0.0),
            spec(16, 1, 0.0),
            spec(16, 2, 0.0),
        ];
        let way = one_at_a_time(&specs, (0, 2), |_| true);
        let steps: Vec<_> = way
            .iter()
            .map(|c| (c.from, c.to, c.what.join(", ")))
            .collect();
        let what = ["job.training.routing", "machine"].map(str::to_owned);
        let [routing, machine] = what;
        assert_eq!(steps, [(0, 1, routing), (1, 2, machine)]);
        assert_eq!(one_at_a_time(&specs, (0, 3), |_| true).len(), 3);
        // Nothing is in between, or may be; or there is nothing to divide.
        assert!(one_at_a_time(&specs[..1], (0, 0), |_| true).is_empty());
        assert!(one_at_a_time(&specs, (0, 2), |v| v != 1).is_empty());
        assert!(one_at_a_time(&specs, (1, 2), |_| true).is_empty());
        // Two at once are told apart from the third.
        let way = one_at_a_time(&specs, (0, 3), |v| v != 1);
        let steps: Vec<_> = way.iter().map(|c| (c.from, c.to, c.what.len())).collect();
        assert_eq!(steps, [(0, 2, 2), (2, 3, 1)]);
    }
}
