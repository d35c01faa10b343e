//! What else is worth knowing of those that were simulated: the front, and what would flip the choice.

use super::ledger::Ledger;
use fabricsim_report::is_less_better;
use fabricsim_report::optimize::{Choice, Flip, Reason, Rejected};

/// The layout that lacks least memory of those that may be faster than the best.
pub(super) fn more_memory(best: &Choice, ledger: &Ledger) -> Option<Flip> {
    let best_us = best.metrics.time_us?;
    let lacks = |r: &Rejected| Some(r.memory_gib? - r.memory_capacity_gib?);
    let faster = ledger.rejected.iter().filter(|rejected| {
        rejected.why == Reason::Memory && rejected.step_bound_us.is_some_and(|us| us < best_us)
    });
    let least = faster.min_by(|a, b| {
        let lack = |r| lacks(r).unwrap_or(f64::INFINITY);
        lack(a).total_cmp(&lack(b))
    })?;
    Some(Flip::Memory {
        topology: least.topology.clone(),
        layout: least.layout.clone()?,
        lacks_gib: lacks(least)?,
        step_bound_us: least.step_bound_us?,
        best_us,
    })
}

/// What a GPU-hour may cost on the other machines; `best` is the best of each cluster, the best of all
/// first.
pub(super) fn prices(best: &[&Choice]) -> Vec<Flip> {
    let rate = |choice: &Choice| choice.metrics.tokens_per_s_per_gpu;
    let Some((first, others)) = best.split_first() else {
        return Vec::new();
    };
    let mut named = vec![first.topology.as_str()];
    let mut flips = Vec::new();
    for other in others {
        if named.contains(&other.topology.as_str()) {
            continue;
        }
        named.push(&other.topology);
        flips.extend(rate(other).zip(rate(first)).map(|(own, best)| Flip::Price {
            than: first.topology.clone(),
            topology: other.topology.clone(),
            ratio: own / best,
        }));
    }
    flips
}

/// Those that no other one beats in everything at once.
pub(super) fn pareto(all: &[Choice]) -> Vec<Choice> {
    const ALL: [&str; 4] = ["tokens_per_s_per_gpu", "usd_per_mtok", "memory_gib", "kw"];
    let beats = |a: &Choice, b: &Choice| {
        let mut better = false;
        for name in ALL {
            let (Some(x), Some(y)) = (a.metrics.number(name), b.metrics.number(name)) else {
                continue;
            };
            let (x, y) = if is_less_better(name) {
                (-x, -y)
            } else {
                (x, y)
            };
            if x < y {
                return false;
            }
            better |= x > y;
        }
        better
    };
    let front = all.iter().filter(|b| !all.iter().any(|a| beats(a, b)));
    let mut front: Vec<Choice> = front.cloned().collect();
    let rate = |choice: &Choice| choice.metrics.tokens_per_s_per_gpu.unwrap_or(0.0);
    front.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    front.dedup_by(|a, b| a.is_same(b));
    front
}
