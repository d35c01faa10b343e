//! TensorRT-LLM's in-flight batching with its default capacity policy, `GUARANTEED_NO_EVICT`
//! (`capacityScheduler.h`, `microBatchScheduler.h`).

use super::super::request::Request;
use super::super::scheduler::{Pass, Scheduler};
use super::{find_prefix, part};

/// A request is let in if its prompt and all that it may generate fit beside what those that run may still
/// need, so that none ever loses its blocks. All that run get a token in each pass; what they leave of
/// the token budget is for prompts.
pub(super) fn decide(scheduler: &mut Scheduler, requests: &[Request], pass: &mut Pass) {
    while scheduler.running.len() < scheduler.limits.max_sequences as usize {
        let Some(id) = scheduler.first() else {
            break;
        };
        let fresh = find_prefix(scheduler, requests, id);
        let live = scheduler.live(id);
        let most = live.tokens + live.output - live.generated - 1;
        if !scheduler.grow(id, most) {
            if fresh {
                scheduler.give_back(id);
            }
            break;
        }
        scheduler.waiting.pop_front();
        scheduler.running.push(id);
    }
    let mut budget = scheduler.limits.token_budget;
    for prefill in [false, true] {
        for index in 0..scheduler.running.len() {
            let id = scheduler.running[index];
            let live = scheduler.live(id);
            let missing = live.missing();
            if live.in_flight || live.is_in_prompt() != prefill {
                continue;
            }
            if budget == 0 || (missing > budget && prefill && !scheduler.limits.chunked_prefill) {
                break;
            }
            let tokens = missing.min(budget);
            pass.parts.push(part(scheduler, id, tokens));
            budget -= tokens;
        }
    }
}
