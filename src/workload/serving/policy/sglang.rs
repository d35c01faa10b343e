//! SGLang's scheduler (`python/sglang/srt/managers/scheduler.py`, `get_next_batch_to_run`;
//! `schedule_policy.py`, `PrefillAdder`; `schedule_batch.py`, `retract_decode`), without mixed chunks.

use super::super::request::Request;
use super::super::scheduler::{Pass, Scheduler};
use super::{find_prefix, part};

/// Share of what requests may still generate that is kept free for them when others are let in: SGLang's
/// `SGLANG_INIT_NEW_TOKEN_RATIO`. Its slow decay to a seventh of that is left out.
const NEW_TOKEN_RATIO: f64 = 0.7;

/// A request's own prompt is let in if up to so many tokens of its output fit as well (`CLIP_MAX_NEW_TOKENS`).
const MAX_NEW_TOKENS: u32 = 4096;

/// Prompts come first: those that are half computed, then new ones, up to the token budget, in a pass of their own.
/// If there are none, each request that runs gets a token. One that lacks memory for it is retracted: the
/// one with the fewest generated tokens first, of those the one with the longest prompt.
pub(super) fn decide(scheduler: &mut Scheduler, requests: &[Request], pass: &mut Pass) {
    prefill(scheduler, requests, pass);
    if pass.parts.is_empty() {
        decode(scheduler, pass);
    }
}

/// Prompts, as many as the budget and the memory have room for.
fn prefill(scheduler: &mut Scheduler, requests: &[Request], pass: &mut Pass) {
    let mut budget = scheduler.limits.token_budget;
    for index in 0..scheduler.running.len() {
        let id = scheduler.running[index];
        let live = scheduler.live(id);
        if live.is_in_prompt() && !live.in_flight && budget > 0 {
            let tokens = live.missing().min(budget);
            if !scheduler.grow(id, live.computed + tokens) {
                return;
            }
            pass.parts.push(part(scheduler, id, tokens));
            budget -= tokens;
        }
    }
    let mut reserved = reserved(scheduler);
    while budget > 0 && scheduler.running.len() < scheduler.limits.max_sequences as usize {
        let Some(id) = scheduler.first() else {
            return;
        };
        let fresh = find_prefix(scheduler, requests, id);
        let live = scheduler.live(id);
        let missing = live.missing();
        let ahead = (live.output - live.generated).min(MAX_NEW_TOKENS);
        let room = f64::from(scheduler.pool.free()) * f64::from(scheduler.pool.block_tokens());
        let alone = scheduler.running.is_empty() && pass.parts.is_empty();
        let fits = f64::from(missing) + f64::from(ahead) + reserved <= room || alone;
        let cut = missing > budget && !scheduler.limits.chunked_prefill;
        let tokens = missing.min(budget);
        let needed = live.computed + tokens;
        if cut || !fits || !scheduler.grow(id, needed) {
            if fresh {
                scheduler.give_back(id);
            }
            return;
        }
        scheduler.waiting.pop_front();
        scheduler.running.push(id);
        pass.parts.push(part(scheduler, id, tokens));
        reserved += f64::from(missing - tokens) + f64::from(ahead) * NEW_TOKEN_RATIO;
        budget -= tokens;
    }
}

/// Tokens that are kept free for requests that run.
fn reserved(scheduler: &Scheduler) -> f64 {
    let of = |id: &u32| {
        let live = scheduler.live(*id);
        let ahead = (live.output - live.generated).min(MAX_NEW_TOKENS);
        f64::from(live.missing()) + f64::from(ahead) * NEW_TOKEN_RATIO
    };
    scheduler.running.iter().map(of).sum()
}

/// A token for each that runs.
fn decode(scheduler: &mut Scheduler, pass: &mut Pass) {
    let grows = |scheduler: &mut Scheduler| {
        let ids = scheduler.running.clone();
        ids.into_iter().all(|id| {
            let live = scheduler.live(id);
            let needed = scheduler.room_for(id, live.tokens);
            live.in_flight || scheduler.grow(id, needed)
        })
    };
    while !grows(scheduler) && scheduler.running.len() > 1 {
        let last = |index: &usize| {
            let live = scheduler.live(scheduler.running[*index]);
            let prompt = live.tokens - live.generated;
            (live.in_flight, live.generated, u32::MAX - prompt)
        };
        let Some(victim) = (0..scheduler.running.len()).min_by_key(last) else {
            return;
        };
        let id = scheduler.running.remove(victim);
        scheduler.preempt(id);
        pass.preempted.push(id);
    }
    for &id in &scheduler.running {
        let live = scheduler.live(id);
        if !live.in_flight && live.tokens <= capacity(scheduler, id) {
            pass.parts.push(part(scheduler, id, live.missing()));
        }
    }
}

/// Tokens that the blocks of a request hold.
fn capacity(scheduler: &Scheduler, id: u32) -> u32 {
    scheduler.live(id).held.count() * scheduler.pool.block_tokens()
}
