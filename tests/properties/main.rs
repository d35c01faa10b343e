//! What holds for every machine, collective, algorithm, protocol, size and fault: shipped machines
//! and made-up ones, by chance.
//!
//! `FUZZ_CASES=20000 cargo test --release --test properties` tries more cases than the default, and
//! `FUZZ_FIRST=N` begins with another one. A case that fails is printed as the scenario that it is.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bandwidth;
mod cases;
mod causes;
mod draw;
mod machines;
mod order;

use cases::{Run, outcome, scenario, view};
use fabricsim::nccl::Algorithm;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// How many cases, and the first.
fn numbers(default: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    (
        number("FUZZ_CASES").unwrap_or(default),
        number("FUZZ_FIRST").unwrap_or(0),
    )
}

/// What `check` says of each case, on all processors; fails with all that is wrong. `check` is
/// true for cases that say something.
fn all_cases(default: u64, check: impl Fn(u64) -> Result<bool, String> + Sync) -> u64 {
    let (count, first) = numbers(default);
    let (next, telling) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let mut wrong = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return wrong;
            }
            match check(first + index) {
                Ok(true) => _ = telling.fetch_add(1, Ordering::Relaxed),
                Ok(false) => {}
                Err(text) => wrong.push((index, text)),
            }
        }
    };
    let mut wrong: Vec<(u64, String)> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    wrong.sort();
    let shown: Vec<_> = wrong
        .iter()
        .map(|(index, text)| format!("case {}: {text}", first + index))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} cases:\n{}",
        wrong.len(),
        shown.join("\n")
    );
    telling.into_inner()
}

/// Says what is wrong with the answers of a scenario.
type Check = fn(&Value, &Run) -> Result<(), String>;

const CHECKS: [Check; 4] = [
    no_time_below_the_bound,
    no_link_is_used_twice,
    order::time_grows_with_size,
    causes::row_sentence_and_json_name_one_cause,
];

#[test]
fn answers_contradict_no_law() {
    let telling = all_cases(260, |number| {
        let scenario = scenario(number);
        // What is refused is refused in words; the rest has to be right.
        let Ok(run) = outcome(&scenario) else {
            return Ok(false);
        };
        for check in CHECKS {
            check(&scenario, &run).map_err(|wrong| format!("{wrong}\n{scenario}"))?;
        }
        Ok(true)
    });
    let (count, _) = numbers(260);
    assert!(
        telling * 2 > count,
        "only {telling} of {count} cases say anything"
    );
}

fn no_time_below_the_bound(_: &Value, run: &Run) -> Result<(), String> {
    for row in view(run).result.rows.iter().filter(|row| row.bytes > 0) {
        let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == row.algo);
        let in_switches = algorithm.is_some_and(Algorithm::offloads);
        let bound = if in_switches {
            row.bound_us
        } else {
            row.bound_plain_us
        };
        if row.bound_us > row.bound_plain_us || row.time_us < bound {
            return Err(format!(
                "{} bytes by {} in {} us, below {bound} us: {}",
                row.bytes, row.algo, row.time_us, row.bound_plain_cut
            ));
        }
        if view(run).result.ranks > 1 && row.bound_us <= 0.0 {
            return Err(format!("{} bytes by {} have no bound", row.bytes, row.algo));
        }
    }
    Ok(())
}

fn no_link_is_used_twice(_: &Value, run: &Run) -> Result<(), String> {
    let most = view(run)
        .result
        .links
        .iter()
        .max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    match most {
        // Bytes are counted in whole ones.
        Some(link) if link.utilisation > 1.0 + 1e-6 => {
            Err(format!("{} is used {}", link.name, link.utilisation))
        }
        _ => Ok(()),
    }
}
