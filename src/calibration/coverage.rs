//! What ranges of machines and sizes published tables show of NCCL's choices, and how far off predictions
//! are there.

use fabricsim_experiment::coverage::Coverage;
use fabricsim_report::published::TableRange;
use fabricsim_report::training::median;
use fabricsim_report::validation::Validation;
use std::collections::BTreeMap;

const COMMENT: &str = "written by `fabricsim validate FILES --coverage validation/coverage.json`";

/// Of predicted tables. What was chosen for a size is the program's: no table says it. Tables with
/// inferred settings take no part.
#[must_use]
pub fn coverage(validation: &Validation) -> Coverage {
    let mut choices: BTreeMap<_, (TableRange, Vec<f64>)> = BTreeMap::new();
    for set in validation.sets.iter().filter(|s| s.inferred.is_none()) {
        for row in &set.rows {
            let key = (&set.collective, &row.algo, &row.proto, set.crosses);
            let new = || TableRange {
                collective: set.collective.clone(),
                algo: row.algo.clone(),
                proto: row.proto.clone(),
                crosses: set.crosses,
                ranks: [set.ranks; 2],
                nodes: [set.nodes; 2],
                bytes: [row.bytes; 2],
                rows: 0,
                median: 0.0,
                most: 0.0,
            };
            let (range, errors) = choices.entry(key).or_insert_with(|| (new(), Vec::new()));
            range.ranks = wider(range.ranks, set.ranks);
            range.nodes = wider(range.nodes, set.nodes);
            range.bytes = wider(range.bytes, row.bytes);
            errors.push((row.predicted_us / row.measured_us - 1.0).abs());
        }
    }
    // Four digits are more than these figures hold.
    let rounded = |error: f64| (error * 1e4).round() / 1e4;
    let ranges = choices.into_values().map(|(range, errors)| TableRange {
        rows: errors.len() as u32,
        most: rounded(errors.iter().copied().fold(0.0, f64::max)),
        median: rounded(median(errors).unwrap_or(0.0)),
        ..range
    });
    Coverage {
        comment: COMMENT.to_owned(),
        choices: ranges.collect(),
    }
}

/// A range that holds one more.
fn wider<T: Ord + Copy>([least, most]: [T; 2], one: T) -> [T; 2] {
    [least.min(one), most.max(one)]
}
