//! Static batching: what libraries without a scheduler do, and benchmarks that start equal requests
//! together.

use super::super::request::Request;
use super::super::scheduler::{Pass, Scheduler};
use super::part;

/// A batch of requests that wait starts when none runs: as many as may run at once and fit with all that they
/// will generate. Their prompts are computed first, as one pass or, with chunks, in parts; then each pass
/// gives a token to each.
pub(super) fn decide(scheduler: &mut Scheduler, _: &[Request], pass: &mut Pass) {
    if scheduler.running.is_empty() {
        while scheduler.running.len() < scheduler.limits.max_sequences as usize {
            let Some(&id) = scheduler.waiting.front() else {
                break;
            };
            let live = scheduler.live(id);
            let most = live.tokens + live.output - live.generated - 1;
            if !scheduler.grow(id, most) {
                break;
            }
            scheduler.waiting.pop_front();
            scheduler.running.push(id);
        }
    }
    let mut budget = match scheduler.limits.chunked_prefill {
        true => scheduler.limits.token_budget,
        false => u32::MAX,
    };
    let in_prompt = |id: &u32| scheduler.live(*id).is_in_prompt();
    let prefill = scheduler.running.iter().any(in_prompt);
    for &id in &scheduler.running {
        let live = scheduler.live(id);
        if live.in_flight || budget == 0 || (prefill && !live.is_in_prompt()) {
            continue;
        }
        let tokens = live.missing().min(budget);
        pass.parts.push(part(scheduler, id, tokens));
        budget -= tokens;
    }
}
