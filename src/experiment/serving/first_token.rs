//! Where the time to the first token goes.

use super::times::{Times, millis};
use super::valid::ValidServing;
use fabricsim_report::serving::{Part, Slowest};
use fabricsim_units::Time;
use fabricsim_workload::serving::fleet::Served;
use fabricsim_workload::serving::record::RequestRecord;
use fabricsim_workload::serving::spec::PoolRole;

/// Requests that are named beside the slowest.
const MAX_BEHIND: usize = 5;

/// What happened to a request until its first token: in order, each with when it ended.
fn steps(record: &RequestRecord, has_handover: bool) -> Vec<(&'static str, Time)> {
    let mut steps = Vec::new();
    let mut add = |name, at: Option<Time>| steps.extend(at.map(|at| (name, at)));
    let pushed = record.reserved.is_some() && record.reserved < record.scheduled;
    add("front end", record.queued);
    if pushed {
        add("wait for KV blocks", record.reserved);
    }
    if record.reloaded.is_some() {
        add("queue", record.reload_begun);
        add("reload of KV blocks", record.reloaded);
        add("wait for a pass", record.scheduled);
    } else {
        add("queue", record.scheduled);
    }
    add("prompt", record.prefilled);
    if has_handover {
        if !pushed {
            add("wait for KV blocks", record.reserved);
        }
        add("hand-over", record.handed_over);
        add("first token", record.first_token);
    }
    steps
}

/// How long each step took; the whole is the time to the first token, to the picosecond.
fn parts(record: &RequestRecord, has_handover: bool) -> Vec<(&'static str, Time)> {
    let mut before = record.arrived.unwrap_or(Time::ZERO);
    let mut parts: Vec<(&'static str, Time)> = Vec::new();
    for (name, at) in steps(record, has_handover) {
        let took = at.saturating_sub(before);
        before = before.max(at);
        if name == "prompt" {
            // Passes that computed it, and those of others between them.
            let own = record.in_passes.min(took);
            parts.push((name, own));
            parts.push(("between its passes", took.saturating_sub(own)));
        } else {
            parts.push((name, took));
        }
    }
    parts
}

fn has_handover(valid: &ValidServing) -> bool {
    valid.pools.iter().any(|pool| pool.role == PoolRole::Decode)
}

fn named(parts: impl IntoIterator<Item = (&'static str, f64)>) -> Vec<Part> {
    let parts = parts.into_iter().filter(|(_, us)| *us > 0.0);
    parts
        .map(|(cause, us)| Part {
            cause: cause.to_owned(),
            us,
        })
        .collect()
}

/// The parts of the mean time to the first token.
pub(super) fn mean_parts(
    valid: &ValidServing,
    served: &Served,
    counted: &[(usize, Times)],
) -> Vec<Part> {
    let mut sums: Vec<(&'static str, u128)> = Vec::new();
    for (id, _) in counted {
        for (name, took) in parts(&served.records[*id], has_handover(valid)) {
            let took = u128::from(took.picos());
            match sums.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += took,
                None => sums.push((name, took)),
            }
        }
    }
    let count = counted.len().max(1) as f64;
    named(
        sums.into_iter()
            .map(|(name, sum)| (name, sum as f64 / 1e6 / count)),
    )
}

/// The request that waited longest for its first token.
pub(super) fn slowest(
    valid: &ValidServing,
    served: &Served,
    counted: &[(usize, Times)],
) -> Option<Slowest> {
    let ttft = Times::until_first;
    let (id, times) = counted
        .iter()
        .max_by_key(|(id, times)| (ttft(times), std::cmp::Reverse(*id)))?;
    let record = &served.records[*id];
    let engine = record.engines[0];
    let until = record.scheduled.unwrap_or(times.first);
    let mut behind: Vec<u32> = (0u32..)
        .zip(&served.records)
        .filter(|(other, record)| {
            let begun = record.scheduled.is_some_and(|at| at < until);
            let goes_on = record.prefilled.is_none_or(|at| at > times.arrived);
            *other as usize != *id && record.engines[0] == engine && begun && goes_on
        })
        .map(|(other, _)| other)
        .collect();
    behind.sort_by_key(|&other| {
        (
            std::cmp::Reverse(served.requests[other as usize].input),
            other,
        )
    });
    let behind_count = behind.len() as u32;
    behind.truncate(MAX_BEHIND);
    let parts = parts(record, has_handover(valid));
    Some(Slowest {
        id: *id as u32,
        input_tokens: served.requests[*id].input,
        arrived_s: times.arrived.seconds(),
        ttft_ms: millis(ttft(times)),
        parts: named(parts.into_iter().map(|(name, took)| (name, took.micros()))),
        behind,
        behind_count,
    })
}
